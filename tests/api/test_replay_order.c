// SPDX-License-Identifier: Apache-2.0
/* Graphs that share a pool, replayed on several streams and by several threads. */
#include "support/bodies.h"
#include "support/world.h"

#include <pthread.h>

enum { WORDS = 1 << 12 };

/* A section that fills a temporary block, waits a little, and copies it out: another graph that runs
 * meanwhile, with its own temporary at the same address, shows. */
static tarn_capture *capture_slow(tarn_pool *pool, uint32_t value, void *output)
{
    tarn_capture *capture = test_capture_on(pool, world.stream, TARN_CAPTURE_GLOBAL);
    void *temporary = test_malloc(WORDS * 4);

    test_fill(world.stream, temporary, value, WORDS);
    test_spin(world.stream, 3);
    test_copy(world.stream, output, temporary, WORDS * 4);
    OK(tarn_free(temporary));
    return capture;
}

static tarn_graph *make_slow(tarn_pool *pool, uint32_t value, void *output)
{
    return test_capture_end(capture_slow(pool, value, output));
}

static tarn_pool *pool_of(tarn_replay_order order)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.replay_order = order;
    return test_pool_with(&options);
}

static uint64_t idle_waits(void)
{
    return test_device_stats().idle_waits;
}

GROUP(replay_order, test_outputs_open, test_outputs_close)

TEST(replay_order, replays_on_two_streams_run_one_after_the_other)
{
    tarn_graph *one = make_slow(world.pool, 1, world.outputs[0]);
    tarn_graph *two = make_slow(world.pool, 2, world.outputs[1]);
    uint64_t waits;

    OK(tarn_graph_replay(one, world.stream));
    waits = idle_waits();
    OK(tarn_graph_replay(two, world.side)); /* nothing was recorded behind the first */
    ck_assert_uint_eq(idle_waits(), waits + 1);
    for (int round = 0; round < 10; round++) {
        OK(tarn_graph_replay(one, world.stream));
        OK(tarn_graph_replay(two, world.side));
    }
    ck_assert_uint_eq(idle_waits(), waits + 1);
    test_expect_words(world.stream, world.outputs[0], 1, WORDS);
    test_expect_words(world.side, world.outputs[1], 2, WORDS);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
}

TEST(replay_order, a_replay_on_another_stream_waits_on_the_gpu_and_not_on_the_host)
{
    tarn_graph *one = make_slow(world.pool, 1, world.outputs[0]);
    tarn_graph *two = make_slow(world.pool, 2, world.outputs[0]);

    OK(tarn_graph_replay(one, world.stream));
    OK(tarn_graph_replay(two, world.side));
    test_synchronize(world.side);
    sim.hold_work();
    for (int round = 0; round < 3; round++) { /* returns, with the GPU stopped */
        OK(tarn_graph_replay(one, world.stream));
        OK(tarn_graph_replay(two, world.side));
    }
    sim.resume_work();
    test_synchronize(world.stream);
    test_expect_words(world.side, world.outputs[0], 2, WORDS); /* the last one */
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
}

/* A graph on one pool with a temporary of another, whose memory that one's own graphs have again. */
static tarn_graph *make_guest(tarn_pool *other, uint32_t value, void *output)
{
    tarn_capture *capture = test_capture_on(world.pool, world.stream, TARN_CAPTURE_GLOBAL);
    void *temporary = test_alloc(other, WORDS * 4, world.stream);

    test_fill(world.stream, temporary, value, WORDS);
    test_spin(world.stream, 3);
    test_copy(world.stream, output, temporary, WORDS * 4);
    OK(tarn_free(temporary));
    return test_capture_end(capture);
}

TEST(replay_order, a_graph_on_two_pools_is_kept_in_order_with_the_graphs_of_both)
{
    tarn_pool *other = pool_of(TARN_REPLAY_ORDERED);
    void *third = test_alloc(world.default_pool, WORDS * 4, world.stream);
    tarn_graph *alone = make_slow(other, 3, third);
    tarn_graph *guest;
    tarn_graph *own;

    OK(tarn_graph_replay(alone, world.side)); /* before the pools share anything */
    guest = make_guest(other, 1, world.outputs[0]);
    own = make_slow(other, 2, world.outputs[1]);
    OK(tarn_graph_replay(guest, world.stream));
    for (int round = 0; round < 10; round++) {
        OK(tarn_graph_replay(own, world.side));
        OK(tarn_graph_replay(guest, world.stream));
        OK(tarn_graph_replay(alone, world.side));
    }
    test_expect_words(world.stream, world.outputs[0], 1, WORDS);
    test_expect_words(world.side, world.outputs[1], 2, WORDS);
    test_expect_words(world.side, third, 3, WORDS);
    OK(tarn_graph_destroy(alone));
    OK(tarn_graph_destroy(guest));
    OK(tarn_graph_destroy(own));
    OK(tarn_pool_destroy(other));
    OK(tarn_free(third));
}

/* The user's own capture, adopted by a pool that it has no memory of. */
TEST(replay_order, an_adopted_graph_is_kept_in_order_with_the_graphs_of_its_memory)
{
    tarn_pool *other = pool_of(TARN_REPLAY_ORDERED);
    tarn_graph *guest = NULL;
    tarn_graph *own;
    void *temporary;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    temporary = test_alloc(other, WORDS * 4, world.stream);
    test_fill(world.stream, temporary, 1, WORDS);
    test_spin(world.stream, 3);
    test_copy(world.stream, world.outputs[0], temporary, WORDS * 4);
    OK(tarn_free(temporary));
    OK(tarn_graph_adopt(world.pool, test_end_capture(world.stream), &guest));
    own = make_slow(other, 2, world.outputs[1]);
    for (int round = 0; round < 10; round++) {
        OK(tarn_graph_replay(own, world.side));
        OK(tarn_graph_replay(guest, world.stream));
    }
    test_expect_words(world.stream, world.outputs[0], 1, WORDS);
    test_expect_words(world.side, world.outputs[1], 2, WORDS);
    OK(tarn_graph_destroy(guest));
    OK(tarn_graph_destroy(own));
    OK(tarn_pool_destroy(other));
}

/* One pool's graphs stay in order when the other pool, whose order it shares, is gone. */
TEST(replay_order, a_pool_outlives_those_that_it_shares_an_order_with)
{
    tarn_pool *other = pool_of(TARN_REPLAY_ORDERED);
    tarn_graph *guest = make_guest(other, 1, world.outputs[0]);
    tarn_graph *one = make_slow(world.pool, 2, world.outputs[0]);
    tarn_graph *two = make_slow(world.pool, 3, world.outputs[1]);

    OK(tarn_graph_replay(guest, world.side));
    OK(tarn_graph_destroy(guest));
    OK(tarn_pool_destroy(other));
    for (int round = 0; round < 10; round++) {
        OK(tarn_graph_replay(one, world.stream));
        OK(tarn_graph_replay(two, world.side));
    }
    test_expect_words(world.stream, world.outputs[0], 2, WORDS);
    test_expect_words(world.side, world.outputs[1], 3, WORDS);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
}

/* A section of the user's own that allocates nothing comes to the pool while a launch of a graph that was
 * destroyed runs there. */
TEST(replay_order, a_launch_that_outlives_its_graph_is_over_before_the_next_one)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *temporary = test_malloc(WORDS * 4);
    tarn_graph *one;
    tarn_graph *two = NULL;
    tarn_graph *guest = NULL;

    test_fill(world.stream, temporary, 1, WORDS);
    test_spin(world.stream, 100);
    test_copy(world.stream, world.outputs[0], temporary, WORDS * 4);
    OK(tarn_free(temporary));
    one = test_capture_end(capture);
    two = make_slow(world.pool, 2, world.outputs[1]); /* from here on replays are ordered */
    OK(tarn_graph_replay(one, world.side));
    OK(tarn_graph_destroy(two));
    OK(tarn_graph_destroy(one));
    test_await_destructors(1);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_fill(world.stream, world.outputs[1], 7, 4);
    OK(tarn_graph_adopt(world.pool, test_end_capture(world.stream), &guest));
    two = make_slow(world.pool, 2, world.outputs[1]);
    OK(tarn_graph_replay(two, world.stream));
    test_expect_words(world.stream, world.outputs[1], 2, WORDS);
    test_expect_words(world.side, world.outputs[0], 1, WORDS);
    OK(tarn_graph_destroy(two));
    OK(tarn_graph_destroy(guest));
}

TEST(replay_order, the_stream_of_the_last_replay_may_be_destroyed)
{
    tarn_graph *one = make_slow(world.pool, 1, world.outputs[0]);
    tarn_graph *two = make_slow(world.pool, 2, world.outputs[0]);

    for (int round = 0; round < 3; round++) { /* first without an event, then with one */
        tn_cu_stream third = test_stream();

        OK(tarn_graph_replay(one, third));
        test_destroy_stream(third);
        OK(tarn_graph_replay(two, world.side));
        test_expect_words(world.side, world.outputs[0], 2, WORDS);
    }
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
}

/* Each thread replays its own graph on its own stream and looks at what it wrote. */
struct replayer {
    pthread_t thread;
    tarn_graph *graph;
    tn_cu_stream stream;
    void *output;
    uint32_t value;
};

static void *replay_and_look(void *argument)
{
    const struct replayer *replayer = argument;
    tn_cu_context context = test_retain(0);

    test_set_context(context);
    for (int round = 0; round < 20; round++) {
        OK(tarn_graph_replay(replayer->graph, replayer->stream));
        test_expect_words(replayer->stream, replayer->output, replayer->value, WORDS);
        test_set_words(replayer->stream, replayer->output, 0, WORDS);
    }
    test_release(0);
    return NULL;
}

TEST(replay_order, threads_that_replay_graphs_of_one_pool_do_not_disturb_each_other)
{
    enum { COUNT = 4 };
    struct replayer replayers[COUNT];

    for (uint32_t i = 0; i < COUNT; i++) {
        replayers[i].output = test_malloc(WORDS * 4);
        replayers[i].graph = make_slow(world.pool, 10 + i, replayers[i].output);
        replayers[i].stream = test_stream();
        replayers[i].value = 10 + i;
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(pthread_create(&replayers[i].thread, NULL, replay_and_look, &replayers[i]),
                         0);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(pthread_join(replayers[i].thread, NULL), 0);
    for (int i = 0; i < COUNT; i++) {
        OK(tarn_graph_destroy(replayers[i].graph));
        test_destroy_stream(replayers[i].stream);
        OK(tarn_free(replayers[i].output));
    }
}

TEST(replay_order, a_graph_made_while_another_is_replayed_is_ordered_behind_it)
{
    tarn_graph *one = make_slow(world.pool, 1, world.outputs[0]);
    tarn_graph *two;

    for (int round = 0; round < 5; round++)
        OK(tarn_graph_replay(one, world.side)); /* nobody notes the stream of an only graph */
    two = make_slow(world.pool, 2, world.outputs[1]);
    OK(tarn_graph_replay(two, world.stream));
    test_expect_words(world.stream, world.outputs[1], 2, WORDS);
    test_expect_words(world.side, world.outputs[0], 1, WORDS);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
}

TEST(replay_order, default_streams_take_part_in_the_order)
{
    tarn_graph *one = make_slow(world.pool, 1, world.outputs[0]);
    tarn_graph *two = make_slow(world.pool, 2, world.outputs[0]);

    for (int round = 0; round < 3; round++) {
        OK(tarn_graph_replay(one, NULL));
        OK(tarn_graph_replay(two, TN_CU_STREAM_PER_THREAD));
        OK(tarn_graph_replay(one, world.side));
        OK(tarn_graph_replay(two, world.stream));
    }
    test_expect_words(world.stream, world.outputs[0], 2, WORDS);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
}

TEST(replay_order, a_pool_may_refuse_replays_on_a_second_stream)
{
    tarn_pool *pool = pool_of(TARN_REPLAY_REFUSED);
    tarn_graph *one = make_slow(pool, 1, world.outputs[0]);
    tarn_graph *two = make_slow(pool, 2, world.outputs[0]);

    OK(tarn_graph_replay(one, world.stream));
    REFUSE(TARN_ERR_WRONG_STATE, "share memory", tarn_graph_replay(two, world.side));
    REFUSE(TARN_ERR_WRONG_STATE, "TARN_REPLAY_ORDERED", tarn_graph_replay(one, NULL));
    OK(tarn_graph_replay(two, world.stream));
    test_expect_words(world.stream, world.outputs[0], 2, WORDS);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
    test_await_destructors(0);
    /* Those before are gone, and their stream with them. */
    one = make_slow(pool, 3, world.outputs[0]);
    OK(tarn_graph_replay(one, world.side));
    two = make_slow(pool, 4, world.outputs[0]);
    OK(tarn_graph_replay(two, world.side));
    REFUSE(TARN_ERR_WRONG_STATE, "share memory", tarn_graph_replay(one, world.stream));
    test_expect_words(world.side, world.outputs[0], 4, WORDS);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
    OK(tarn_pool_destroy(pool));
}

/* Also a graph that was updated is the pool's only one when its old section is gone. */
TEST(replay_order, a_graph_that_is_the_last_of_its_pool_is_replayed_on_any_stream)
{
    tarn_pool *pool = pool_of(TARN_REPLAY_REFUSED);
    tarn_graph *one = make_slow(pool, 1, world.outputs[0]);
    tarn_graph *two = make_slow(pool, 2, world.outputs[0]);
    uint64_t waits;

    OK(tarn_graph_replay(one, world.stream));
    sim.hold_work();
    OK(tarn_graph_replay(two, world.stream));
    OK(tarn_graph_destroy(two)); /* its launch is still to run */
    REFUSE(TARN_ERR_WRONG_STATE, "destroyed", tarn_graph_replay(one, world.side));
    sim.resume_work();
    test_synchronize(world.stream);
    test_await_destructors(1);
    waits = idle_waits();
    OK(tarn_graph_replay(one, world.side));
    OK(tarn_graph_replay(one, world.stream));
    ck_assert_uint_eq(idle_waits(), waits);
    OK(tarn_graph_update(one, capture_slow(pool, 3, world.outputs[0])));
    OK(tarn_graph_replay(one, world.stream));
    test_synchronize(world.stream);
    test_await_destructors(1);
    OK(tarn_graph_replay(one, world.side));
    test_expect_words(world.side, world.outputs[0], 3, WORDS);
    two = make_slow(pool, 4, world.outputs[0]);
    OK(tarn_graph_replay(two, world.stream));
    REFUSE(TARN_ERR_WRONG_STATE, "several graphs", tarn_graph_replay(one, world.side));
    test_expect_words(world.stream, world.outputs[0], 4, WORDS);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
    OK(tarn_pool_destroy(pool));
}

/* Its bodies hold memory of the pool, too: by holds of their own, of one graph. */
TEST(replay_order, a_graph_with_bodies_is_one_graph)
{
    tarn_pool *pool = pool_of(TARN_REPLAY_REFUSED);
    tarn_capture *capture = test_capture_on(pool, world.stream, TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_graph *graph = NULL;
    tarn_capture *body = NULL;

    OK(tarn_capture_begin(pool, world.side,
                          CAPTURE_INTO(capture, 1, node.bodies[0], TARN_CAPTURE_THREAD_LOCAL),
                          &body));
    (void)test_copy_through(pool, world.side, 7, world.outputs[0], WORDS);
    OK(tarn_capture_end(body, NULL));
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_replay(graph, world.side));
    test_expect_words(world.side, world.outputs[0], 7, WORDS);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(pool));
}

TEST(replay_order, an_order_that_is_none_is_refused)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = UNTOUCHED;

    options.replay_order = (tarn_replay_order)2;
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "replay_order",
           tarn_pool_create(world.device, &options, &pool));
    ck_assert_untouched(pool);
}

TEST(replay_order, a_replay_that_cannot_wait_is_not_made)
{
    tarn_graph *one = make_slow(world.pool, 1, world.outputs[0]);
    tarn_graph *two = make_slow(world.pool, 2, world.outputs[0]);

    OK(tarn_graph_replay(one, world.stream));
    test_synchronize(world.stream);
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_graph_replay(two, world.side));
    test_expect_words(world.side, world.outputs[0], 1, WORDS);
    OK(tarn_graph_replay(two, world.side)); /* waits */
    sim.plan_fault("cuStreamWaitEvent", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuStreamWaitEvent", tarn_graph_replay(one, world.stream));
    test_expect_words(world.side, world.outputs[0], 2, WORDS);
    OK(tarn_graph_replay(one, world.stream));
    test_expect_words(world.stream, world.outputs[0], 1, WORDS);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
}

TEST(replay_order, a_replay_whose_event_fails_is_waited_for)
{
    static const char *const calls[] = {"cuEventRecord", "cuEventCreate"};
    tarn_graph *one = make_slow(world.pool, 1, world.outputs[0]);
    tarn_graph *two = make_slow(world.pool, 2, world.outputs[0]);

    OK(tarn_graph_replay(one, world.stream));
    OK(tarn_graph_replay(two, world.side));
    for (size_t i = 0; i < 2; i++) {
        uint64_t waits = idle_waits();

        /* For good: a refused record tries again with another event. */
        sim.plan_fault(calls[i], 1, 1, TN_CUDA_ERROR_UNKNOWN);
        OK(tarn_graph_replay(one, world.stream));
        if (i == 0) {
            sim.clear_fault(NULL);
            OK(tarn_graph_replay(two, world.side));
            ck_assert_uint_eq(idle_waits(), waits + 1);
        }
        sim.clear_fault(NULL);
    }
    OK(tarn_graph_replay(two, world.side));
    test_expect_words(world.side, world.outputs[0], 2, WORDS);
    OK(tarn_graph_destroy(one));
    OK(tarn_graph_destroy(two));
}
