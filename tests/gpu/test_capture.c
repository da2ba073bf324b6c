// SPDX-License-Identifier: Apache-2.0
/* Captures on hardware: growth inside them, forks, the user's own, and what does not break them. */
#include "support/bodies.h"
#include "support/breaks.h"
#include "support/world.h"

enum { WORDS = 1 << 18 };

SUITE("captures")
GROUP(captures, test_world_open, test_world_close, .timeout = 120)

TEST(captures, a_capture_grows_on_the_device)
{
    enum { COUNT = 12 };
    void *blocks[COUNT];
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    uint64_t mapped;

    for (int mode = TARN_CAPTURE_GLOBAL; mode <= TARN_CAPTURE_RELAXED; mode++) {
        OK(tarn_capture_begin(world.pool, world.stream, CAPTURE_MODE((tarn_capture_mode)mode),
                              &capture));
        mapped = test_stats(world.pool).mapped_bytes;
        for (uint32_t i = 0; i < COUNT; i++) {
            blocks[i] = test_malloc(48 * MIB);
            test_fill(world.stream, blocks[i], i + 1, WORDS);
        }
        if (mode == TARN_CAPTURE_GLOBAL)
            ck_assert_uint_ge(test_stats(world.pool).mapped_bytes, mapped + 48 * MIB);
        OK(tarn_pool_trim(world.pool, NULL)); /* waits for the device */
        OK(tarn_pool_trim(world.default_pool, NULL));
        OK(tarn_pool_reserve(world.pool, 64 * MIB, world.stream));
        ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
        OK(tarn_capture_end(capture, &graph));
        for (int replay = 0; replay < 5; replay++) {
            for (int i = 0; i < COUNT; i++)
                test_fill(world.stream, blocks[i], 0, WORDS);
            OK(tarn_graph_replay(graph, world.stream));
            for (uint32_t i = 0; i < COUNT; i++)
                test_expect_words(world.stream, blocks[i], i + 1, WORDS);
        }
        OK(tarn_graph_destroy(graph));
        for (int i = 0; i < COUNT; i++)
            OK(tarn_free(blocks[i]));
    }
}

TEST(captures, forked_streams_allocate_and_join)
{
    void *output = test_malloc(WORDS * 4);
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *mine;
    void *forked = NULL;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    mine = test_malloc(WORDS * 4);
    test_fill(world.stream, mine, 30, WORDS);
    test_order(world.stream, world.side);
    OK(tarn_malloc(world.device, WORDS * 4, world.side, &forked));
    test_copy(world.side, forked, mine, WORDS * 4);
    test_add(world.side, forked, 4, WORDS);
    test_order(world.side, world.stream);
    test_copy(world.stream, output, forked, WORDS * 4);
    OK(tarn_free_on(forked, world.stream));
    OK(tarn_free(mine));
    OK(tarn_capture_end(capture, &graph));
    for (int replay = 0; replay < 20; replay++) {
        test_fill(world.stream, output, 0, WORDS);
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, output, 34, WORDS);
    }
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(output));
}

TEST(captures, the_users_own_capture_is_adopted)
{
    void *output = test_malloc(WORDS * 4);
    tarn_route *route;

    for (uint32_t round = 0; round < 5; round++) {
        tarn_graph *graph = NULL;
        tn_cu_graph driver_graph;
        void *block;

        route = test_route(world.pool, tarn_filter_capture, world.stream);
        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
        block = test_malloc(WORDS * 4);
        test_fill(world.stream, block, round + 1, WORDS);
        test_copy(world.stream, output, block, WORDS * 4);
        OK(tarn_free(block));
        driver_graph = test_end_capture(world.stream);
        OK(tarn_end_allocate_to_pool(route));
        OK(tarn_graph_adopt(world.pool, driver_graph, &graph));
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, output, round + 1, WORDS);
        OK(tarn_graph_destroy(graph));
    }
    OK(tarn_free(output));
}

static tn_cu_context context;

/* All that Tarn does outside a capture, on a thread in the global capture mode. */
static void work_elsewhere(void *argument)
{
    tarn_checkpoint *checkpoint = NULL;
    tarn_pool *pool;

    (void)argument;
    test_set_context(context);
    pool = test_pool("elsewhere");
    for (uint32_t round = 0; round < 20; round++) {
        void *address = test_alloc(pool, (size_t)(round + 1) * 2 * MIB, world.side);

        test_fill(world.side, address, round, WORDS);
        OK(tarn_record_stream(address, NULL));
        OK(tarn_free(address));
        OK(tarn_free_on(test_alloc(world.default_pool, MIB, world.side), NULL));
        if (round % 5 == 4) {
            OK(tarn_pool_trim(pool, NULL));
            OK(tarn_pool_trim(world.default_pool, NULL));
        }
    }
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, world.side, &checkpoint));
    OK(tarn_checkpoint_restore(checkpoint, world.side, NULL));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_pool_destroy(pool));
}

TEST(captures, another_threads_allocations_break_no_global_capture)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *block;

    context = test_context();
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    block = test_malloc(WORDS * 4);
    test_fill(world.stream, block, 12, WORDS);
    test_elsewhere(work_elsewhere, NULL);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    work_elsewhere(NULL); /* the capturing thread itself may do it too */
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, block, 12, WORDS);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
}

TEST(captures, a_capture_of_a_blocking_stream_lives_beside_the_default_stream)
{
    tn_cu_stream blocking = test_blocking_stream();
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *block = NULL;
    void *legacy = NULL;

    OK(tarn_capture_begin(world.pool, blocking, NULL, &capture));
    OK(tarn_malloc(world.device, WORDS * 4, blocking, &block));
    test_fill(blocking, block, 2, WORDS);
    OK(tarn_malloc(world.device, MIB, NULL, &legacy)); /* asks nothing of the legacy stream */
    OK(tarn_record_stream(legacy, world.side));
    OK(tarn_free(legacy));
    legacy = test_alloc(world.default_pool, MIB, world.side);
    OK(tarn_free_on(legacy, NULL));
    OK(tarn_free(test_alloc(world.default_pool, 64 * MIB, world.side)));
    ck_assert_int_eq(test_capture_status(blocking), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_replay(graph, blocking));
    test_expect_words(blocking, block, 2, WORDS);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
    test_destroy_stream(blocking);
}

TEST(captures, broken_captures_are_aborted_and_the_stream_is_good_again)
{
    for (int round = 0; round < 5; round++) {
        tarn_capture *capture = NULL;
        tarn_graph *graph = NULL;
        void *block;

        OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
        block = test_malloc(WORDS * 4);
        test_fill(world.stream, block, 1, WORDS);
        test_break_capture();
        STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
        OK(tarn_capture_abort(capture));
        OK(tarn_free(block));
        OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
        block = test_malloc(WORDS * 4);
        test_fill(world.stream, block, 6, WORDS);
        OK(tarn_capture_end(capture, &graph));
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, block, 6, WORDS);
        OK(tarn_graph_destroy(graph));
        OK(tarn_free(block));
    }
    test_await_destructors(0);
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
}

TEST(captures, a_fork_that_was_not_joined_breaks_only_its_capture)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *forked = NULL;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    test_order(world.stream, world.side);
    OK(tarn_malloc(world.device, MIB, world.side, &forked));
    test_fill(world.side, forked, 1, 64);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    OK(tarn_capture_abort(capture));
    OK(tarn_free(forked));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_NONE);
}

static void end_elsewhere(void *argument)
{
    tarn_graph *graph = NULL;

    test_set_context(context);
    STATUS(TARN_ERR_WRONG_THREAD, tarn_capture_end(argument, &graph));
}

static void abort_elsewhere(void *argument)
{
    test_set_context(context);
    OK(tarn_capture_abort(argument));
}

TEST(captures, the_wrong_thread_ends_nothing_and_may_abort)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *block;

    context = test_context();
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    block = test_malloc(WORDS * 4);
    test_fill(world.stream, block, 1, WORDS);
    test_elsewhere(end_elsewhere, capture);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, block, 1, WORDS);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    test_elsewhere(abort_elsewhere, capture);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
}

/* The copy on the side stream is slow: what used its source early would show. */
TEST(captures, memory_used_on_a_forked_stream_is_used_again_after_the_join)
{
    void *outputs[2] = {test_malloc(WORDS * 4), test_malloc(WORDS * 4)};
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *block = test_malloc(WORDS * 4);
    tarn_graph *graph;
    void *early;
    void *late;

    test_fill(world.stream, block, 5, WORDS);
    test_order(world.stream, world.side);
    test_spin(world.side, 20);
    test_copy(world.side, outputs[0], block, WORDS * 4);
    OK(tarn_free_on(block, world.side));
    early = test_malloc(WORDS * 4);
    ck_assert_ptr_ne(early, block);
    test_fill(world.stream, early, 6, WORDS);
    test_order(world.side, world.stream);
    OK(tarn_free(early));
    early = test_malloc(WORDS * 4);
    late = test_malloc(WORDS * 4);
    ck_assert(early == block || late == block); /* in the middle of the capture */
    test_fill(world.stream, early, 7, WORDS);
    test_fill(world.stream, late, 7, WORDS);
    test_copy(world.stream, outputs[1], late, WORDS * 4);
    OK(tarn_free(early));
    OK(tarn_free(late));
    graph = test_capture_end(capture);
    for (int replay = 0; replay < 5; replay++) {
        test_fill(world.stream, outputs[0], 0, WORDS);
        test_fill(world.stream, outputs[1], 0, WORDS);
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, outputs[0], 5, WORDS);
        test_expect_words(world.stream, outputs[1], 7, WORDS);
    }
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(outputs[0]));
    OK(tarn_free(outputs[1]));
}

/* A body that fills a temporary block and copies it out; where the block was. */
static void *capture_body(tarn_capture *outer, tn_cu_graph body, uint32_t value, void *output)
{
    tarn_capture *capture = NULL;
    void *temporary;

    OK(tarn_capture_begin(world.pool, world.side, CAPTURE_INTO(outer, 1, body, TARN_CAPTURE_GLOBAL),
                          &capture));
    temporary = test_alloc(world.pool, WORDS * 4, world.side);
    test_fill(world.side, temporary, value, WORDS);
    test_copy(world.side, output, temporary, WORDS * 4);
    OK(tarn_free(temporary));
    OK(tarn_capture_end(capture, NULL));
    return temporary;
}

static void expect_bodies(tn_cu_conditional_type type, unsigned int size, unsigned int value,
                          uint32_t expected)
{
    void *output = test_malloc(WORDS * 4);
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_RELAXED);
    struct test_node node = test_add_conditional(world.stream, type, size, value);
    void *where[TEST_BODIES_MAX];
    tarn_graph *graph;

    for (uint32_t i = 0; i < size; i++) {
        where[i] = capture_body(outer, node.bodies[i], 10 * (i + 1), output);
        ck_assert_ptr_eq(where[i], where[0]);
    }
    graph = test_capture_end(outer);
    for (int replay = 0; replay < 3; replay++) {
        test_fill(world.stream, output, 0, WORDS);
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, output, expected, WORDS);
    }
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    OK(tarn_free(output));
}

TEST(captures, the_end_of_a_broken_capture_names_the_last_node)
{
    for (size_t i = 0; i < TEST_BREAKS; i++) {
        tn_cu_stream stream = test_blocking_stream();
        tarn_capture *capture = test_capture_on(world.pool, stream, TARN_CAPTURE_GLOBAL);
        tarn_graph *graph = UNTOUCHED;
        void *block = NULL;

        OK(tarn_malloc(world.device, 4096, stream, &block));
        test_fill(stream, block, 1, 64);
        test_set_words(stream, block, 1, 64);
        test_breaks[i].call(stream);
        REFUSE(TARN_ERR_CAPTURE_BROKEN, "its graph ends with node 2 of 2 (set)",
               tarn_capture_end(capture, &graph));
        ck_assert_untouched(graph);
        OK(tarn_capture_abort(capture));
        OK(tarn_free(block));
        test_destroy_stream(stream);
    }
}

TEST(captures, bodies_that_exclude_each_other_share_memory)
{
    expect_bodies(TN_CU_GRAPH_COND_IF, 2, 1, 10);
    expect_bodies(TN_CU_GRAPH_COND_IF, 2, 0, 20);
    for (unsigned int value = 0; value < 4; value++)
        expect_bodies(TN_CU_GRAPH_COND_SWITCH, 4, value, 10 * (value + 1));
}
