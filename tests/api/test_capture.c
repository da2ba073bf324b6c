// SPDX-License-Identifier: Apache-2.0
/* Captures: how they begin and end, and what is left of those that fail. */
#include "support/world.h"

SUITE("captures")
GROUP(ends, test_world_open, test_world_close)

TEST(ends, bad_arguments_of_begin_are_refused)
{
    _Alignas(128) uint64_t zeros[1024] = {0}; /* aligned as a record is */
    tarn_capture *capture = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_capture_begin(NULL, world.stream, NULL, &capture));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_capture_begin((tarn_pool *)(void *)zeros, world.stream, NULL, &capture));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "capture is NULL",
           tarn_capture_begin(world.pool, world.stream, NULL, NULL));
    REFUSE(
        TARN_ERR_INVALID_ARGUMENT, "mode",
        tarn_capture_begin(world.pool, world.stream, CAPTURE_MODE((tarn_capture_mode)3), &capture));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "mode",
           tarn_capture_begin(world.pool, world.stream, CAPTURE_MODE((tarn_capture_mode)-1),
                              &capture));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "legacy",
           tarn_capture_begin(world.pool, NULL, NULL, &capture));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "legacy",
           tarn_capture_begin(world.pool, TN_CU_STREAM_LEGACY, NULL, &capture));
    REFUSE(TARN_ERR_WRONG_STATE, "private pool",
           tarn_capture_begin(world.default_pool, world.stream, NULL, &capture));
    ck_assert_untouched(capture);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
}

TEST(ends, a_stream_in_a_capture_begins_no_other)
{
    tarn_pool *other = test_pool("other");
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_capture *second = UNTOUCHED;

    REFUSE(TARN_ERR_WRONG_STATE, "already being captured",
           tarn_capture_begin(other, world.stream, NULL, &second));
    REFUSE(TARN_ERR_WRONG_STATE, "already being captured",
           tarn_capture_begin(world.pool, world.stream, NULL, &second));
    ck_assert_untouched(second);
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_NONE);
    OK(tarn_graph_destroy(test_capture_end(capture)));
    OK(tarn_pool_destroy(other));
}

TEST(ends, a_begin_that_the_driver_refuses_leaves_nothing)
{
    static const char *const calls[] = {"cuStreamBeginCapture", "cuUserObjectCreate",
                                        "cuGraphRetainUserObject"};
    tarn_capture *capture = UNTOUCHED;

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        tarn_sim_ledger before = test_ledger();

        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tarn_capture_begin(world.pool, world.stream, NULL, &capture));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), calls[i]));
        ck_assert_untouched(capture);
        ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
        ck_assert_uint_eq(test_device_stats().route_count, 0);
        test_await_destructors(0);
        ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
        test_same_ledger(&before);
    }
    OK(tarn_graph_destroy(test_capture_end(test_capture_begin(TARN_CAPTURE_GLOBAL))));
}

TEST(ends, bad_arguments_of_end_and_abort_are_refused)
{
    uint64_t zeros[64] = {0};
    tarn_capture *foreign = (tarn_capture *)(void *)zeros;
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_graph *graph = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_capture_end(NULL, &graph));
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_capture_end(foreign, &graph));
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_capture_abort(foreign));
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture",
           tarn_capture_end((tarn_capture *)(void *)world.pool, &graph));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "graph is NULL", tarn_capture_end(capture, NULL));
    ck_assert_untouched(graph);
    graph = test_capture_end(capture);
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_capture_end(capture, &graph));
    REFUSE(TARN_ERR_INVALID_HANDLE, "capture", tarn_capture_abort(capture));
    OK(tarn_graph_destroy(graph));
}

static void end_elsewhere(void *argument)
{
    tarn_graph *graph = UNTOUCHED;

    REFUSE(TARN_ERR_WRONG_THREAD, "another thread", tarn_capture_end(argument, &graph));
    ck_assert_untouched(graph);
}

/* A thread that has no context current: what it is told must not depend on one. */
static void enter_and_end_elsewhere(void *argument)
{
    test_set_context(test_retain(0));
    end_elsewhere(argument);
    test_release(0);
}

TEST(ends, an_end_from_another_thread_is_refused_and_loses_nothing)
{
    static const tarn_capture_mode modes[] = {TARN_CAPTURE_GLOBAL, TARN_CAPTURE_THREAD_LOCAL};

    for (size_t i = 0; i < 2; i++) {
        tarn_capture *capture = test_capture_begin(modes[i]);
        void *block = test_malloc(512);
        tarn_graph *graph;

        test_fill(world.stream, block, 5, 1);
        test_elsewhere(enter_and_end_elsewhere, capture);
        ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
        graph = test_capture_end(capture);
        OK(tarn_graph_replay(graph, world.stream));
        ck_assert_uint_eq(test_read(world.stream, block), 5);
        OK(tarn_free(block));
        OK(tarn_graph_destroy(graph));
    }
}

static void end_relaxed(void *argument)
{
    tarn_capture **capture = argument;
    tarn_graph *graph = test_capture_end(*capture);

    OK(tarn_graph_destroy(graph));
}

TEST(ends, a_relaxed_capture_may_be_ended_by_any_thread)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

    test_elsewhere(end_relaxed, &capture);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
}

static void abort_elsewhere(void *argument)
{
    OK(tarn_capture_abort(argument));
}

TEST(ends, any_thread_may_abort)
{
    for (int mode = TARN_CAPTURE_GLOBAL; mode <= TARN_CAPTURE_RELAXED; mode++) {
        tarn_capture *capture = test_capture_begin((tarn_capture_mode)mode);
        void *block = test_malloc(512);

        test_elsewhere(abort_elsewhere, capture);
        ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
        OK(tarn_free(block));
    }
    OK(tarn_graph_destroy(test_capture_end(test_capture_begin(TARN_CAPTURE_GLOBAL))));
}

static void begin_elsewhere(void *argument)
{
    OK(tarn_capture_begin(world.pool, world.stream, NULL, argument));
}

TEST(ends, a_capture_whose_thread_is_gone_can_be_aborted)
{
    tarn_capture *capture = NULL;

    test_elsewhere(begin_elsewhere, &capture);
    OK(tarn_capture_abort(capture));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
    OK(tarn_graph_destroy(test_capture_end(test_capture_begin(TARN_CAPTURE_GLOBAL))));
}

TEST(ends, a_broken_capture_can_only_be_aborted)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(MIB);
    void *other = UNTOUCHED;
    tarn_graph *graph = UNTOUCHED;
    struct test_stats before = test_stats(world.pool);

    test_break_capture();
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated",
           tarn_malloc(world.device, MIB, world.stream, &other));
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated",
           tarn_pool_malloc(world.pool, MIB, 0, world.stream, &other));
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated",
           tarn_pool_reserve(world.pool, 64 * MIB, world.stream));
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated",
           tarn_pool_reserve(world.default_pool, 64 * MIB, world.stream));
    ck_assert_uint_eq(test_stats(world.pool).arena_count, before.arena_count);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, before.mapped_bytes);
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated", tarn_record_stream(block, world.stream));
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated", tarn_free_on(block, world.stream));
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
           tarn_capture_end(capture, &graph));
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "tarn_capture_abort", tarn_capture_end(capture, &graph));
    ck_assert_untouched(graph);
    ck_assert_untouched(other);
    OK(tarn_capture_abort(capture));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
    OK(tarn_free(block));
    OK(tarn_graph_destroy(test_capture_end(test_capture_begin(TARN_CAPTURE_GLOBAL))));
}

TEST(ends, a_fork_that_was_not_joined_breaks_the_capture)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_graph *graph = UNTOUCHED;
    void *forked = NULL;

    test_order(world.stream, world.side);
    OK(tarn_malloc(world.device, MIB, world.side, &forked));
    test_fill(world.side, forked, 1, 1);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "not joined"));
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    ck_assert_untouched(graph);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_capture_abort(capture));
    OK(tarn_free(forked));
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_NONE);
}

TEST(ends, a_capture_that_was_ended_elsewhere_is_broken)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(MIB);
    tarn_graph *graph = UNTOUCHED;

    test_destroy_graph(test_end_capture(world.stream));
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "ended elsewhere"));
    ck_assert_untouched(graph);
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
    OK(tarn_graph_destroy(test_capture_end(test_capture_begin(TARN_CAPTURE_GLOBAL))));
}

TEST(ends, an_abort_spares_the_users_next_capture_of_the_stream)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);

    test_destroy_graph(test_end_capture(world.stream));
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(tarn_capture_abort(capture));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(world.stream));
}

TEST(ends, ends_and_destructions_break_no_other_capture)
{
    tarn_pool *other = test_pool("other");
    tarn_capture *open_one = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    OK(tarn_capture_begin(other, world.side, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &capture));
    OK(tarn_free(test_alloc(other, MIB, world.side)));
    OK(tarn_capture_end(capture, &graph));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_graph_replay(graph, world.side));
    OK(tarn_graph_destroy(graph));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_pool_destroy(other)); /* waits for the device */
    OK(tarn_graph_destroy(test_capture_end(open_one)));
}

TEST(ends, an_end_that_cannot_instantiate_may_be_called_again)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(512);
    tarn_graph *graph = UNTOUCHED;

    test_fill(world.stream, block, 8, 1);
    for (size_t i = 0; i < TEST_REFUSALS; i++) {
        sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, test_refusals[i].result);
        STATUS(test_refusals[i].status, tarn_capture_end(capture, &graph));
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), "cuGraphInstantiateWithFlags"));
        ck_assert_untouched(graph);
        OK(tarn_pool_validate(world.pool));
        ck_assert_uint_eq(test_stats(world.pool).live_count, 1);
    }
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, block), 8);
    OK(tarn_free(block));
    OK(tarn_graph_destroy(graph));
}

TEST(ends, an_end_that_cannot_instantiate_may_be_aborted)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(512);
    tarn_graph *graph = UNTOUCHED;

    sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_capture_end(capture, &graph));
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
}

TEST(ends, an_end_that_the_driver_refuses_for_another_reason_may_be_called_again)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_graph *graph = UNTOUCHED;

    sim.plan_fault("cuStreamEndCapture", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "CUDA_ERROR_UNKNOWN", tarn_capture_end(capture, &graph));
    ck_assert_untouched(graph);
    OK(tarn_graph_destroy(test_capture_end(capture)));
}

TEST(ends, blocks_of_an_aborted_capture_are_discarded_until_their_users_free)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(8 * MIB);
    tarn_block found = {.sequence = 77};
    void *next[8];

    test_fill(world.stream, block, 1, 1);
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).live_bytes, 0);
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    OK(tarn_pool_validate(world.pool));
    REFUSE(TARN_ERR_DOUBLE_FREE, "0x", tarn_block_at(block, &found));
    REFUSE(TARN_ERR_DOUBLE_FREE, "0x", tarn_record_stream(block, world.side));
    ck_assert_uint_eq(found.sequence, 77);
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    for (int i = 0; i < 8; i++) {
        next[i] = test_malloc(8 * MIB);
        ck_assert_ptr_ne(next[i], block);
    }
    OK(tarn_free(block)); /* which succeeds */
    REFUSE(TARN_ERR_DOUBLE_FREE, "0x", tarn_free(block));
    for (int i = 0; i < 8; i++)
        OK(tarn_free(next[i]));
    OK(tarn_graph_destroy(test_capture_end(capture)));
}

TEST(ends, a_discarded_block_shows_in_the_layout_and_keeps_no_pool)
{
    tarn_pool *pool = test_pool("aborted");
    tarn_capture *capture = NULL;
    tarn_layout *layout = NULL;
    void *block;
    bool found = false;

    OK(tarn_capture_begin(pool, world.stream, NULL, &capture));
    block = test_malloc(8 * MIB);
    OK(tarn_capture_abort(capture));
    OK(tarn_pool_layout(pool, &layout));
    for (size_t i = 0; i < layout->extent_count; i++) {
        if (layout->extents[i].address == block) {
            found = true;
            ck_assert_int_eq(layout->extents[i].state, TARN_EXTENT_DISCARDED);
            ck_assert_uint_eq(layout->extents[i].sequence, 0);
        }
    }
    ck_assert(found);
    tarn_layout_destroy(layout);
    OK(tarn_pool_destroy(pool));
    REFUSE(TARN_ERR_NOT_OURS, "0x", tarn_free(block)); /* its pool is gone with it */
}

TEST(ends, a_discarded_block_that_a_stream_uses_leaves_nothing_behind_with_its_pool)
{
    tarn_pool *pool = test_pool("aborted");
    tarn_capture *capture = NULL;
    tarn_sim_ledger before;
    void *block;

    before = test_ledger();
    OK(tarn_capture_begin(pool, world.stream, NULL, &capture));
    block = test_malloc(8 * MIB);
    OK(tarn_record_stream(block, world.side));
    OK(tarn_capture_abort(capture));
    OK(tarn_pool_destroy(pool));
    OK(tarn_device_trim(world.device, 0, NULL));
    test_same_ledger(&before);
}

TEST(ends, a_discarded_block_keeps_a_pool_whose_handle_was_given_up)
{
    tarn_capture *capture = NULL;
    tarn_pool *pool = test_pool("aborted");
    void *routed;
    void *adopted = NULL;
    void *next;

    OK(tarn_capture_begin(pool, world.stream, NULL, &capture));
    routed = test_malloc(8 * MIB);
    OK(tarn_pool_malloc(world.default_pool, 8 * MIB, 0, world.stream,
                        &adopted)); /* of a pool that no handle names */
    OK(tarn_pool_release(pool));
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    next = test_malloc(8 * MIB);
    ck_assert_ptr_ne(next, adopted);
    ck_assert_ptr_ne(next, routed);
    OK(tarn_free(next));
    OK(tarn_free(adopted));
    OK(tarn_free(routed));
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

TEST(ends, the_device_closes_over_discarded_blocks_of_released_pools)
{
    tarn_capture *capture = NULL;
    tarn_pool *pool = test_pool("aborted");

    OK(tarn_capture_begin(pool, world.stream, NULL, &capture));
    (void)test_malloc(8 * MIB);
    OK(tarn_pool_release(pool));
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    ck_assert_uint_eq(test_device_stats().pool_count, 3); /* until its user frees the block */
}

TEST(ends, frees_in_an_aborted_capture_stand)
{
    void *before = test_alloc(world.pool, MIB, world.stream);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *inside = test_malloc(MIB);

    OK(tarn_free(before));
    OK(tarn_free(inside));
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    REFUSE(TARN_ERR_DOUBLE_FREE, "0x", tarn_free(before));
    REFUSE(TARN_ERR_DOUBLE_FREE, "0x", tarn_free(inside));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
}

TEST(ends, abandoned_captures_leave_the_pool_as_new)
{
    for (int round = 0; round < 20; round++) {
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
        void *block = test_malloc(4 * MIB);

        test_fill(world.stream, block, 1, 1);
        if (round % 2 == 0)
            test_break_capture();
        OK(tarn_capture_abort(capture));
        OK(tarn_free(block));
    }
    test_await_destructors(0);
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    ck_assert_uint_eq(test_stats(world.pool).arena_count, 0);
}
