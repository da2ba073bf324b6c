// SPDX-License-Identifier: Apache-2.0
/* Replays on hardware: right bytes at stable addresses, memory held while a launch runs, graphs that
 * share memory replayed on several streams. */
#include "support/world.h"

#include <pthread.h>

enum { WORDS = 1 << 20 };

/* A graph that fills a temporary block of the pool with value and adds one to what it copied out. */
static tarn_graph *make_graph(uint32_t value, void *output, void **temporary, uint32_t spin)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    *temporary = test_malloc(WORDS * 4);
    if (spin > 0)
        test_spin(world.stream, spin);
    test_fill(world.stream, *temporary, value, WORDS);
    test_copy(world.stream, output, *temporary, WORDS * 4);
    test_add(world.stream, output, 1, WORDS);
    OK(tarn_free(*temporary));
    OK(tarn_capture_end(capture, &graph));
    return graph;
}

/* The same with the wait in the middle: another graph that ran meanwhile would show. */
static tarn_graph *make_slow(uint32_t value, void *output, void **temporary)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    *temporary = test_malloc(WORDS * 4);
    test_fill(world.stream, *temporary, value, WORDS);
    test_spin(world.stream, 3);
    test_copy(world.stream, output, *temporary, WORDS * 4);
    test_add(world.stream, output, 1, WORDS);
    OK(tarn_free(*temporary));
    OK(tarn_capture_end(capture, &graph));
    return graph;
}

GROUP(replay, test_world_open, test_world_close, .timeout = 120)

TEST(replay, two_hundred_replays_write_the_right_bytes_at_stable_addresses)
{
    void *output = test_malloc(WORDS * 4);
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *state;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    state = test_malloc(WORDS * 4);
    test_add(world.stream, state, 3, WORDS);
    test_copy(world.stream, output, state, WORDS * 4);
    OK(tarn_capture_end(capture, &graph));
    test_fill(world.stream, state, 7, WORDS);
    for (uint32_t replay = 1; replay <= 200; replay++) {
        void *disturbance =
            test_alloc(world.default_pool, (size_t)(replay % 9 + 1) * MIB, world.stream);

        test_fill(world.stream, disturbance, 0xdead, MIB / 4);
        OK(tarn_graph_replay(graph, world.stream));
        OK(tarn_free(disturbance));
        if (replay % 50 == 0)
            test_expect_words(world.stream, output, 7 + 3 * replay, WORDS);
    }
    OK(tarn_free(state));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(output));
}

TEST(replay, graphs_that_share_a_pool_are_right_when_replayed_alternately)
{
    enum { COUNT = 3 };
    void *outputs[COUNT];
    void *temporary[COUNT];
    tarn_graph *graphs[COUNT];

    for (uint32_t i = 0; i < COUNT; i++) {
        outputs[i] = test_alloc(world.default_pool, WORDS * 4, world.stream);
        graphs[i] = make_graph(100 * i, outputs[i], &temporary[i], 0);
        ck_assert_ptr_eq(temporary[i], temporary[0]);
    }
    for (uint32_t replay = 0; replay < 30; replay++) {
        for (uint32_t i = 0; i < COUNT; i++)
            OK(tarn_graph_replay(graphs[(i + replay) % COUNT], world.stream));
        for (uint32_t i = 0; i < COUNT; i++)
            test_expect_words(world.stream, outputs[i], 100 * i + 1, WORDS);
        for (uint32_t i = 0; i < COUNT; i++)
            test_fill(world.stream, outputs[i], 0, WORDS);
    }
    for (int i = 0; i < COUNT; i++) {
        OK(tarn_graph_destroy(graphs[i]));
        OK(tarn_free(outputs[i]));
    }
}

/* Each thread replays its own graph on its own stream, and looks at every word that it wrote. */
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
    for (int round = 0; round < 50; round++) {
        test_fill(replayer->stream, replayer->output, 0, WORDS);
        OK(tarn_graph_replay(replayer->graph, replayer->stream));
        test_expect_words(replayer->stream, replayer->output, replayer->value + 1, WORDS);
    }
    test_release(0);
    return NULL;
}

/* The temporary of both is at one address, and each keeps it for 3 ms. */
TEST(replay, graphs_that_share_a_pool_are_right_on_two_streams_from_two_threads)
{
    enum { COUNT = 2 };
    struct replayer replayers[COUNT];
    void *temporary[COUNT];

    for (uint32_t i = 0; i < COUNT; i++) {
        replayers[i].output = test_alloc(world.default_pool, WORDS * 4, world.stream);
        replayers[i].graph = make_slow(100 * (i + 1), replayers[i].output, &temporary[i]);
        replayers[i].stream = i == 0 ? world.stream : world.side;
        replayers[i].value = 100 * (i + 1);
        ck_assert_ptr_eq(temporary[i], temporary[0]);
    }
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(pthread_create(&replayers[i].thread, NULL, replay_and_look, &replayers[i]),
                         0);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(pthread_join(replayers[i].thread, NULL), 0);
    for (int i = 0; i < COUNT; i++) {
        OK(tarn_graph_destroy(replayers[i].graph));
        OK(tarn_free(replayers[i].output));
    }
}

TEST(replay, memory_of_a_graph_destroyed_in_flight_stays_until_its_launch_is_done)
{
    void *output = test_malloc(WORDS * 4);
    void *temporary;
    tarn_graph *graph = make_graph(41, output, &temporary, 60);
    void *others[16];
    size_t freed = 77;

    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    for (int i = 0; i < 16; i++) { /* outside captures, while the launch runs */
        others[i] = test_alloc(world.pool, WORDS * 4, world.side);
        test_fill(world.side, others[i], 0xdead, WORDS);
    }
    OK(tarn_pool_trim(world.pool, &freed)); /* may take nothing that the launch uses */
    test_expect_words(world.stream, output, 42, WORDS);
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    for (int i = 0; i < 16; i++)
        OK(tarn_free(others[i]));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    OK(tarn_free(output));
}

TEST(replay, a_pool_is_destroyed_right_after_its_graph)
{
    void *output = test_malloc(WORDS * 4);

    for (int round = 0; round < 20; round++) {
        void *temporary;
        tarn_graph *graph = make_graph(5, output, &temporary, 0);

        OK(tarn_graph_replay(graph, world.stream));
        test_synchronize(world.stream);
        OK(tarn_graph_destroy(graph));
        OK(tarn_pool_destroy(world.pool));
        world.pool = test_pool("test");
    }
    test_expect_words(world.stream, output, 6, WORDS);
    OK(tarn_free(output));
}

/* Both sections have their temporary at one address; a launch of the old one runs meanwhile. */
TEST(replay, an_update_while_a_launch_runs_disturbs_neither)
{
    void *outputs[2] = {test_malloc(WORDS * 4), test_malloc(WORDS * 4)};

    for (uint32_t round = 0; round < 10; round++) {
        tarn_capture *capture;
        void *old;
        void *new;
        tarn_graph *graph = make_graph(round, outputs[0], &old, 30);

        OK(tarn_graph_replay(graph, world.side));
        capture = test_capture_begin(TARN_CAPTURE_RELAXED);
        new = test_malloc(WORDS * 4);
        ck_assert_ptr_eq(new, old);
        test_spin(world.stream, 1);
        test_fill(world.stream, new, 100 + round, WORDS);
        test_copy(world.stream, outputs[1], new, WORDS * 4);
        test_add(world.stream, outputs[1], 1, WORDS);
        OK(tarn_free(new));
        OK(tarn_graph_update(graph, capture));
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, outputs[1], 101 + round, WORDS);
        test_expect_words(world.side, outputs[0], round + 1, WORDS);
        OK(tarn_graph_destroy(graph));
        test_await_destructors(0);
    }
    OK(tarn_free(outputs[0]));
    OK(tarn_free(outputs[1]));
}

TEST(replay, a_single_graph_may_change_streams)
{
    void *output = test_malloc(WORDS * 4);
    void *temporary;
    tarn_graph *graph = make_graph(8, output, &temporary, 0);

    for (int round = 0; round < 20; round++) {
        OK(tarn_graph_replay(graph, round % 2 == 0 ? world.stream : world.side));
        test_synchronize(world.stream);
        test_synchronize(world.side);
    }
    test_expect_words(world.stream, output, 9, WORDS);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(output));
}
