// SPDX-License-Identifier: Apache-2.0
/* Blocks used on several streams: freed memory is not handed out before its last use. */
#include "support/world.h"

/* An allocation that finds no free memory looks at the pending blocks first. */
static void poll(void)
{
    static size_t bytes = 64 * MIB;

    OK(tarn_free(test_malloc(bytes)));
    bytes += 32 * MIB;
}

static tarn_extent_state state_of(const void *address)
{
    tarn_extent_state state = TARN_EXTENT_UNMAPPED;
    tarn_layout *layout = NULL;

    OK(tarn_pool_layout(world.default_pool, &layout));
    for (size_t i = 0; i < layout->extent_count; i++) {
        const tarn_extent *extent = &layout->extents[i];

        if ((uintptr_t)extent->address <= (uintptr_t)address &&
            (uintptr_t)address < (uintptr_t)extent->address + extent->bytes)
            state = extent->state;
    }
    tarn_layout_destroy(layout);
    return state;
}

static bool is_pending(const void *address)
{
    poll();
    return state_of(address) == TARN_EXTENT_PENDING;
}

static bool is_free(const void *address)
{
    poll();
    return state_of(address) == TARN_EXTENT_FREE;
}

SUITE("use on several streams")
GROUP(uses, test_world_open_still, test_world_close, .name = "stream use")

TEST(uses, a_block_recorded_on_a_stream_waits_for_it)
{
    void *address = test_malloc(4 * MIB);
    void *other;

    sim.hold_work();
    test_fill(world.side, address, 3, MIB);
    OK(tarn_record_stream(address, world.side));
    OK(tarn_free(address));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    ck_assert_uint_eq(test_stats(world.default_pool).pending_bytes, 4 * MIB);
    ck_assert_uint_eq(test_stats(world.default_pool).live_count, 0);
    other = test_malloc(4 * MIB);
    ck_assert_ptr_ne(other, address);
    OK(tarn_pool_validate(world.default_pool));
    sim.resume_work();
    test_synchronize(world.side);
    ck_assert_ptr_eq(test_malloc(4 * MIB), address);
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 0);
    OK(tarn_free(address));
    OK(tarn_free(other));
}

TEST(uses, free_on_is_a_record_and_a_free)
{
    void *address = test_malloc(4 * MIB);

    sim.hold_work();
    test_fill(world.side, address, 3, MIB);
    OK(tarn_free_on(address, world.side));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    ck_assert(is_pending(address));
    sim.resume_work();
    test_synchronize(world.side);
    ck_assert(is_free(address));
}

TEST(uses, free_on_the_blocks_own_stream_is_a_plain_free)
{
    void *address = test_malloc(4 * MIB);

    sim.hold_work();
    OK(tarn_record_stream(address, world.stream));
    OK(tarn_free_on(address, world.stream));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 0);
    ck_assert(is_free(address));
    sim.resume_work();
}

TEST(uses, all_recorded_streams_are_waited_for)
{
    tn_cu_stream third = test_stream();
    void *address = test_malloc(4 * MIB);

    OK(tarn_record_stream(address, world.side));
    OK(tarn_record_stream(address, third));
    OK(tarn_record_stream(address, third)); /* twice is once */
    sim.hold_work();
    test_spin(third, 1);
    OK(tarn_free(address));
    ck_assert(is_pending(address));
    sim.resume_work();
    test_synchronize(third);
    ck_assert(is_free(address));
    test_destroy_stream(third);
}

TEST(uses, work_enqueued_after_the_record_and_before_the_free_counts)
{
    void *address = test_malloc(4 * MIB);

    OK(tarn_record_stream(address, world.side));
    sim.hold_work();
    test_fill(world.side, address, 3, MIB);
    OK(tarn_free(address));
    ck_assert(is_pending(address));
    sim.resume_work();
    test_synchronize(world.side);
}

/* The driver does not say then which stream it is, and its handle is no identity. */
TEST(uses, a_use_on_a_stream_whose_capture_is_invalidated_is_refused)
{
    tn_cu_stream third = test_stream();
    void *address = test_malloc(4 * MIB);
    uint64_t records;

    test_begin_capture(third, TN_CU_CAPTURE_MODE_GLOBAL);
    test_break_capture();
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated", tarn_record_stream(address, third));
    REFUSE(TARN_ERR_CAPTURE_BROKEN, "invalidated", tarn_free_on(address, third));
    test_end_broken_capture(third);
    OK(tarn_record_stream(address, third));
    OK(tarn_stream_retire(world.device, third));
    test_destroy_stream(third);
    records = sim.call_count("cuEventRecord");
    OK(tarn_free(address)); /* without the handle */
    ck_assert_uint_eq(sim.call_count("cuEventRecord"), records);
}

TEST(uses, work_enqueued_after_the_free_does_not_count)
{
    void *address = test_malloc(4 * MIB);

    OK(tarn_free_on(address, world.side));
    test_synchronize(world.side);
    sim.hold_work();
    test_spin(world.side, 1);
    ck_assert(is_free(address));
    sim.resume_work();
}

TEST(uses, contents_survive_until_the_recorded_stream_has_read_them)
{
    void *source = test_malloc(MIB);
    void *target = test_alloc(world.pool, MIB, world.side);

    for (uint32_t round = 1; round <= 20; round++) {
        test_fill(world.stream, source, round, MIB / 4);
        test_order(world.stream, world.side);
        test_spin(world.side, 2);
        test_copy(world.side, target, source, MIB);
        OK(tarn_free_on(source, world.side));
        source = test_malloc(MIB);
        test_fill(world.stream, source, 0xdead, MIB / 4);
        test_expect_words(world.side, target, round, MIB / 4);
    }
    OK(tarn_free(source));
    OK(tarn_free(target));
}

static void record_on_the_side_stream(void *address)
{
    OK(tarn_record_stream(address, world.side));
}

/* Another thread recorded the stream and is gone, and with it the end of what it would find. */
TEST_LOOP(uses, the_thread_that_named_the_stream_last_finds_the_end, 0, 2)
{
    void *address = test_malloc(4 * MIB);

    test_elsewhere(record_on_the_side_stream, address);
    sim.hold_work();
    test_fill(world.side, address, 3, MIB);
    if (_i == 0) {
        OK(tarn_free_on(address, world.side));
    } else {
        OK(tarn_record_stream(address, world.side));
        OK(tarn_free(address));
    }
    ck_assert(is_pending(address));
    sim.resume_work();
    test_synchronize(world.side);
    ck_assert(is_free(address));
    ck_assert_uint_eq(test_device_stats().idle_waits, 0);
}

/* The same of a stream of a capture, whose end alone, or its order, ends the use. */
TEST(uses, the_thread_that_named_a_stream_of_a_capture_last_marks_the_end)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *address = test_malloc(4 * MIB);
    tarn_graph *graph;

    test_order(world.stream, world.side);
    test_elsewhere(record_on_the_side_stream, address);
    test_add(world.side, address, 1, MIB);
    OK(tarn_free_on(address, world.side));
    test_order(world.side, world.stream);
    ck_assert_ptr_eq(test_malloc(4 * MIB), address); /* behind the use */
    OK(tarn_free(address));
    graph = test_capture_end(capture);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
}

TEST(uses, trim_takes_pending_memory_only_when_its_use_is_over)
{
    void *address = test_alloc(world.pool, 4 * MIB, world.stream);
    size_t freed = 0;

    test_spin(world.side, 20);
    test_fill(world.side, address, 3, MIB);
    OK(tarn_free_on(address, world.side));
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_ge(freed, 4 * MIB);
    ck_assert_int_eq(test_stream_result(world.side), TN_CUDA_SUCCESS);
}

TEST(uses, a_use_on_a_stream_that_begins_to_capture_breaks_no_capture)
{
    void *address = test_malloc(4 * MIB);
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    OK(tarn_record_stream(address, world.side));
    OK(tarn_capture_begin(world.pool, world.side, NULL, &capture));
    OK(tarn_free(address)); /* its event may not become part of the capture */
    ck_assert(is_pending(address));
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_end(capture, &graph));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    poll(); /* records the event */
    test_synchronize(world.side);
    ck_assert(is_free(address));
    OK(tarn_graph_destroy(graph));
}

TEST(uses, a_use_inside_a_capture_is_no_node_and_ends_with_the_capture)
{
    void *address = test_alloc(world.pool, 4 * MIB, world.side);
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    tarn_driver_graph nodes = NULL;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    OK(tarn_record_stream(address, world.stream));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_free(address));
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_driver_handles(graph, &nodes, NULL));
    ck_assert_uint_eq(test_node_count(nodes), 0);
    OK(tarn_pool_trim(world.pool, NULL)); /* which waits for what its own stream did */
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_graph_destroy(graph));
}

TEST(uses, polls_break_no_capture_of_another_thread)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *address = test_malloc(4 * MIB);

    OK(tarn_free_on(address, world.side)); /* pending, to be polled */
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    OK(tarn_free(test_alloc(world.default_pool, 4 * MIB, world.side)));
    OK(tarn_free_on(test_alloc(world.default_pool, 4 * MIB, world.side), NULL));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_destroy(graph));
}

TEST(uses, an_event_that_the_driver_refuses_leaves_the_block_live)
{
    void *address = test_malloc(512);

    sim.plan_fault("cuEventCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuEventCreate", tarn_record_stream(address, world.side));
    sim.plan_fault("cuEventCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuEventCreate", tarn_free_on(address, world.side));
    OK(tarn_free(address));
}

TEST(uses, an_event_that_cannot_be_recorded_is_replaced_by_a_wait)
{
    void *address = test_malloc(4 * MIB);

    OK(tarn_record_stream(address, world.side));
    sim.plan_fault("cuEventRecord", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    OK(tarn_free(address)); /* never fails on a live block */
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    ck_assert(is_pending(address));
    OK(tarn_pool_trim(world.default_pool, NULL)); /* the wait proves it idle */
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 0);
    ck_assert_uint_eq(test_stats(world.default_pool).mapped_bytes, 0);
}
