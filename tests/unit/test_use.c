// SPDX-License-Identifier: Apache-2.0
#include "driver/idle.h"
#include "pools/reclaim.h"
#include "support/world.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tn_cu_stream other;
static void *address;
static struct tn_block *block;
static tarn_sim_ledger before;

static void make_block(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
    other = test_stream();
    address = unit_alloc(pool, 4096, stream);
    block = unit_block(address);
    before = test_ledger();
}

static size_t use_count(void)
{
    size_t count = 0;

    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next)
        count += 1;
    return count;
}

static int fence_state(const struct tn_block *of)
{
    return tn_block_uses(of)->fence != NULL ? atomic_load(&tn_block_uses(of)->fence->state) : -1;
}

static void poll(bool force)
{
    tn_pool_lock(pool);
    tn_pending_poll(pool, force);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

GROUP(note, make_block)

TEST(note, a_use_is_noted_once_for_each_order)
{
    OK(tarn_record_stream(address, stream)); /* its own order */
    ck_assert_ptr_null(tn_block_uses(block));
    OK(tarn_record_stream(address, other));
    OK(tarn_record_stream(address, other));
    ck_assert_uint_eq(use_count(), 1);
    ck_assert_ptr_nonnull(tn_block_uses(block)->stream);
    ck_assert_ptr_null(tn_block_uses(block)->fence);
    ck_assert_uint_eq(test_ledger().events, before.events + 1);
    OK(tarn_record_stream(address, test_stream()));
    OK(tarn_record_stream(address, NULL));
    ck_assert_uint_eq(use_count(), 3);
}

TEST(note, a_use_that_cannot_be_noted_is_not)
{
    static const uint64_t faults[] = {1, 1, 2,
                                      3}; /* cold records; the use, the stream, the fence */

    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        (void)tn_host_plan_fault(faults[i], false);
        STATUS(TARN_ERR_HOST_MEMORY, tarn_record_stream(address, other));
    }
    sim.plan_fault("cuEventCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_record_stream(address, other));
    sim.plan_fault("cuEventCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_free_on(address, other));
    ck_assert_ptr_null(tn_block_uses(block));
    ck_assert_int_eq(block->state, TN_BLOCK_LIVE);
    ck_assert_ptr_null(device->streams.table.known);
    test_same_ledger(&before);
}

GROUP(pending, make_block)

TEST(pending, a_freed_block_is_pending_until_its_use_has_ended)
{
    sim.hold_work();
    test_fill(other, address, 1, 16);
    OK(tarn_free_on(address, other));
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    ck_assert_int_eq(fence_state(block), TN_FENCE_RECORDED);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 1);
    ck_assert_uint_eq(tn_pool_pending_bytes(pool), 4096);
    ck_assert_uint_eq(tn_pool_live_count(pool), 0);
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(address));
    poll(false);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    ck_assert_ptr_ne(unit_alloc(pool, 4096, stream), address);
    sim.resume_work();
    test_synchronize(other);
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_ptr_null(pool->pending.first);
    ck_assert_ptr_null(pool->pending.last);
    ck_assert_ptr_eq(unit_alloc(pool, 4096, stream), address);
    ck_assert_uint_eq(test_ledger().events, before.events);
}

TEST(pending, blocks_that_wait_for_streams_alone_are_passed_by)
{
    struct tn_block *second = unit_block(unit_alloc(pool, 4096, stream));

    sim.hold_work();
    test_fill(other, address, 1, 16);
    OK(tarn_free_on(address, other));
    poll(false);
    ck_assert_ptr_eq(pool->pending.plain_last, block);
    OK(tarn_free_on((void *)(uintptr_t)tn_block_address(second), other));
    poll(false);
    ck_assert_ptr_eq(pool->pending.plain_last, second);
    sim.resume_work();
    test_synchronize(other);
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_ptr_null(pool->pending.plain_last);
}

TEST(pending, a_block_waits_for_the_last_of_its_uses)
{
    tn_cu_stream third = test_stream();

    OK(tarn_record_stream(address, other));
    OK(tarn_record_stream(address, third));
    sim.hold_work();
    test_fill(third, address, 1, 16);
    OK(tarn_free(address));
    ck_assert_uint_eq(use_count(), 2);
    poll(false);
    ck_assert_uint_eq(use_count(), 1);
    sim.resume_work();
    test_synchronize(third);
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
}

/* Of three, the uses of the first and last are held up by captures of their streams. */
TEST(pending, pending_blocks_end_in_any_order)
{
    void *blocks[3];
    tn_cu_stream streams[3];

    for (size_t i = 0; i < 3; i++) {
        blocks[i] = unit_alloc(pool, 4096, stream);
        streams[i] = test_stream();
        OK(tarn_record_stream(blocks[i], streams[i]));
        if (i != 1)
            test_begin_capture(streams[i], TN_CU_CAPTURE_MODE_RELAXED);
    }
    for (size_t i = 0; i < 3; i++)
        OK(tarn_free(blocks[i]));
    test_synchronize(streams[1]);
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 2);
    ck_assert_ptr_eq(pool->pending.first, unit_block(blocks[0]));
    ck_assert_ptr_eq(pool->pending.last, unit_block(blocks[2]));
    ck_assert_ptr_eq(tn_block_cold(pool->pending.first)->pending_next, pool->pending.last);
    for (size_t i = 0; i < 3; i += 2) {
        test_destroy_graph(test_end_capture(streams[2 - i])); /* the last ends first */
        poll(false);
        test_synchronize(streams[2 - i]);
        poll(false);
        ck_assert_uint_eq(tn_pool_pending_count(pool), 1 - i / 2);
    }
    ck_assert_ptr_null(pool->pending.first);
    ck_assert_ptr_null(pool->pending.last);
}

TEST(pending, one_unfinished_event_stands_for_later_ones_of_its_stream)
{
    void *second = unit_alloc(pool, 4096, stream);
    uint64_t calls;

    sim.hold_work();
    test_fill(other, address, 1, 16);
    OK(tarn_free_on(address, other));
    OK(tarn_free_on(second, other));
    calls = sim.call_count("cuEventQuery");
    poll(false);
    ck_assert_uint_eq(sim.call_count("cuEventQuery") - calls, 1);
    sim.resume_work();
    test_synchronize(other);
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
}

GROUP(captures, make_block)

TEST(captures, a_use_on_a_stream_captured_at_the_free_is_recorded_afterwards)
{
    tn_cu_graph graph;

    OK(tarn_record_stream(address, other)); /* before the capture */
    test_begin_capture(other, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_free(address));
    ck_assert_int_eq(fence_state(block), TN_FENCE_OPEN);
    poll(false);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    ck_assert_int_eq(test_capture_status(other), TN_CU_CAPTURE_STATUS_ACTIVE);
    graph = test_end_capture(other);
    ck_assert_uint_eq(test_node_count(graph), 0); /* no event went into it */
    poll(false);
    test_synchronize(other);
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    test_destroy_graph(graph);
}

TEST(captures, a_use_in_a_capture_ends_with_the_captures_hold)
{
    tarn_capture *capture = unit_begin(pool, other);
    tarn_graph *graph;

    OK(tarn_record_stream(address, other));
    ck_assert_ptr_null(tn_block_uses(block)->stream);
    ck_assert_ptr_null(tn_block_uses(block)->fence);
    OK(tarn_free(address));
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    poll(false);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    graph = unit_end(capture);
    poll(false);
    ck_assert_ptr_null(tn_block_uses(block));
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING); /* its own stream may be at it */
    OK(tn_gpu_wait_idle(&device->gpu));
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 1); /* the graph may still write it */
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    (void)graph;
}

GROUP(refused, make_block, .name = "refused events")

TEST(refused, a_use_whose_event_was_refused_waits_for_a_proof)
{
    OK(tarn_record_stream(address, other));
    sim.plan_fault("cuEventRecord", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    OK(tarn_free(address));
    ck_assert_int_eq(fence_state(block), TN_FENCE_UNKNOWN);
    poll(false);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    OK(tn_gpu_wait_idle(&device->gpu));
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
}

TEST(refused, a_use_whose_event_cannot_be_asked_waits_for_a_proof)
{
    OK(tarn_free_on(address, other));
    sim.plan_fault("cuEventQuery", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    poll(false);
    ck_assert_int_eq(fence_state(block), TN_FENCE_UNKNOWN);
    poll(false);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    OK(tn_gpu_wait_idle(&device->gpu));
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
}

/* What a graph kept may end without a proof: its record's next block is another one. */
TEST(pending, a_block_does_not_wait_for_what_kept_its_record_before)
{
    OK(tarn_record_stream(address, other));
    tn_block_cold(block)->kept_stamp = tn_gpu_epoch(&device->gpu);
    ck_assert(!tn_gpu_is_proven(&device->gpu, tn_block_cold(block)->kept_stamp));
    OK(tarn_free(address));
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    test_synchronize(other);
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
}

/* D3: a free that takes effect late does not make a later free in its chunk look proven. */
TEST(pending, an_earlier_free_does_not_hide_a_later_one)
{
    void *second = unit_alloc(pool, 4096, stream);
    uint64_t freed = 7;

    OK(tarn_free_on(address, other));
    OK(tn_gpu_wait_idle(&device->gpu));
    OK(tarn_free(second)); /* at once, at the epoch of now */
    OK(tn_pool_trim(pool, 0, false, &freed));
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_uint_eq(freed, 0);
    OK(tn_pool_trim(pool, 0, true, &freed));
    ck_assert_uint_eq(freed, TN_PAGE_BYTES);
}

TEST(pending, force_ends_every_use)
{
    sim.hold_work();
    test_fill(other, address, 1, 16);
    OK(tarn_free_on(address, other));
    poll(true);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_uint_eq(test_ledger().events, before.events);
    sim.resume_work();
}

TEST(refused, every_use_has_ended_on_a_lost_device)
{
    sim.hold_work();
    test_fill(other, address, 1, 16);
    OK(tarn_free_on(address, other));
    tn_gpu_teardown(&device->gpu, TN_CUDA_ERROR_LAUNCH_FAILED, "cuMemFree");
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_ptr_null(device->streams.table.known);
    sim.resume_work();
}

TEST(pending, a_removed_block_leaves_the_list_and_its_uses)
{
    void *second = unit_alloc(pool, 4096, stream);

    sim.hold_work();
    test_fill(other, address, 1, 16);
    OK(tarn_free_on(address, other));
    OK(tarn_free_on(second, other));
    tn_pool_lock(pool);
    tn_pending_remove(pool, block);
    ck_assert_ptr_null(tn_block_uses(block));
    ck_assert_ptr_eq(pool->pending.first, unit_block(second));
    ck_assert_uint_eq(tn_pool_pending_count(pool), 1);
    ck_assert_uint_eq(test_ledger().events, before.events + 1);
    tn_block_count_freed(block, tn_gpu_epoch(&device->gpu), 0);
    (void)tn_heap_put(&pool->store, block);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    sim.resume_work();
}

TEST(note, a_use_recorded_elsewhere_is_waited_for)
{
    struct tn_use *use;

    OK(tn_use_make(&device->streams, other, unit_order(device, other), &use));
    sim.hold_work();
    test_fill(other, address, 1, 16);
    OK(tn_use_record(&device->streams, use));
    ck_assert(tn_block_add_cold(block));
    tn_use_add(&pool->device->streams, block, use);
    OK(tarn_free(address));
    poll(false);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    sim.resume_work();
    test_synchronize(other);
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    test_same_ledger(&before);
}

TEST(note, a_recorded_use_replaces_an_older_one_and_no_noted_one)
{
    struct tn_use *use;

    OK(tarn_record_stream(address, other));
    for (int i = 0; i < 3; i++) {
        OK(tn_use_make(&device->streams, other, unit_order(device, other), &use));
        OK(tn_use_record(&device->streams, use));
        tn_use_add(&pool->device->streams, block, use);
        ck_assert_uint_eq(use_count(), 2);
        OK(tarn_record_stream(address, other)); /* noted before */
        ck_assert_uint_eq(use_count(), 2);
    }
    OK(tarn_free(address));
    test_synchronize(other);
    poll(false);
    test_same_ledger(&before);
}

TEST(note, a_use_that_cannot_be_recorded_says_so)
{
    struct tn_use *use;

    OK(tn_use_make(&device->streams, other, unit_order(device, other), &use));
    sim.plan_fault("cuEventRecord", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_use_record(&device->streams, use));
    tn_use_end(&device->streams, use);
    OK(tn_use_make(&device->streams, other, unit_order(device, other), &use));
    test_begin_capture(other, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_DRIVER, tn_use_record(&device->streams, use));
    unit_expect_sentence("captured");
    test_destroy_graph(test_end_capture(other));
    tn_use_end(&device->streams, use);
    test_same_ledger(&before);
}

TEST(note, saved_uses_are_noted_again_but_for_those_of_retired_streams)
{
    struct tn_known_stream *streams[2];
    tn_cu_stream third = test_stream();
    struct tn_use *uses = NULL;

    OK(tarn_record_stream(address, other));
    OK(tarn_record_stream(address, third));
    ck_assert_uint_eq(tn_uses_count(block), 2);
    tn_uses_save(&pool->device->streams, block, streams);
    tn_uses_end(&pool->device->streams, block);
    ck_assert_uint_eq(use_count(), 0);
    ck_assert_uint_eq(device->streams.known_count, 2);
    OK(tn_uses_make(&device->streams, streams, 2, &uses));
    tn_uses_drop(&device->streams, uses);
    for (uint64_t nth = 1; nth <= 4; nth++) { /* a use and a fence each */
        (void)tn_host_plan_fault(nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, tn_uses_make(&device->streams, streams, 2, &uses));
    }
    OK(tarn_stream_retire(device, third));
    test_destroy_stream(third);
    OK(tn_uses_make(&device->streams, streams, 2, &uses));
    tn_uses_give(block, uses);
    ck_assert_uint_eq(use_count(), 1);
    ck_assert(tn_order_equal(tn_block_uses(block)->order, unit_order(device, other)));
    OK(tarn_record_stream(address, other)); /* known */
    ck_assert_uint_eq(use_count(), 1);
    OK(tarn_free(address));
    for (size_t i = 0; i < 2; i++)
        tn_streams_release(&device->streams, streams[i]);
    test_synchronize(other);
    poll(false);
    ck_assert_ptr_null(device->streams.table.known);
    test_same_ledger(&before);
}

TEST(note, uses_in_captures_are_not_saved_and_forget_a_retired_stream)
{
    struct tn_known_stream *streams[1];
    tarn_capture *capture;
    struct tn_use *uses = NULL;

    OK(tarn_record_stream(address, test_stream()));
    capture = unit_begin(pool, other);
    OK(tarn_record_stream(address, other));
    ck_assert_uint_eq(use_count(), 2);
    ck_assert_uint_eq(tn_uses_count(block), 1);
    tn_uses_save(&pool->device->streams, block, streams);
    OK(tn_uses_make(&device->streams, streams, 1, &uses));
    tn_uses_give(block, uses);
    ck_assert_uint_eq(use_count(), 3);
    tn_streams_release(&device->streams, streams[0]);
    OK(tarn_graph_destroy(unit_end(capture)));
    ck_assert_ptr_eq(tn_block_uses(block)->handle, other);
    OK(tarn_stream_retire(device, other));
    ck_assert_ptr_null(tn_block_uses(block)->handle);
    OK(tarn_free(address));
}

CONTRACT_TEST(note, noting_a_use_of_a_freed_block_is_a_broken_contract)
{
    OK(tarn_free(address));
    tn_pool_lock(pool);
    OK(tn_use_note(&pool->device->streams, block, other, unit_order(device, other)));
}

/* Retires a stream whose work is held, with the block live. */
static struct tn_arena *retire_busy(tn_cu_stream own)
{
    struct tn_arena *arena = block->heap->arena;

    sim.hold_work();
    test_fill(own, address, 1, 16);
    OK(tarn_stream_retire(device, own));
    ck_assert_ptr_eq(block->heap->arena, arena);
    ck_assert_ptr_nonnull(arena->fence);
    ck_assert_uint_eq(pool->arenas.retired_count, 1);
    return arena;
}

GROUP(retired, make_block, .name = "retired streams")

TEST(retired, a_block_of_a_retired_stream_waits_for_the_streams_work)
{
    (void)retire_busy(stream);
    ck_assert(tn_block_is_of(block, TN_ORDER_NONE));
    ck_assert_ptr_nonnull(tn_block_fence(block));
    OK(tarn_free(address));
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    poll(false);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    sim.resume_work();
    test_synchronize(stream);
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_uint_eq(pool->arenas.retired_count, 0);
    ck_assert_ptr_eq(unit_alloc(pool, 4096, other), address); /* proven: another order's at once */
    test_same_ledger(&before);
}

TEST(retired, a_block_of_a_retired_stream_is_free_at_once_when_its_work_has_ended)
{
    OK(tarn_stream_retire(device, stream));
    test_synchronize(stream);
    OK(tarn_free(address));
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_uint_eq(unit_chunk(address)->freed_stamp, 0);
    test_same_ledger(&before);
}

TEST(retired, a_pending_block_of_a_retired_stream_needs_no_wait_for_the_device)
{
    uint64_t waits = unit_stats(pool).mapped_bytes;

    OK(tarn_record_stream(address, other));
    sim.hold_work();
    test_fill(stream, address, 1, 16);
    test_fill(other, (uint32_t *)address + 16, 1, 16); /* nothing orders the two */
    OK(tarn_free(address));
    OK(tarn_stream_retire(device, stream));
    ck_assert_ptr_nonnull(tn_block_fence(block));
    sim.resume_work();
    test_synchronize(other);
    test_synchronize(stream);
    ck_assert_ptr_eq(unit_alloc(pool, 4096, other), address);
    ck_assert_uint_eq(unit_stats(pool).mapped_bytes, waits);
    test_same_ledger(&before);
}

TEST(retired, a_stream_used_again_after_it_was_retired_is_recorded_anew)
{
    OK(tarn_record_stream(address, other));
    OK(tarn_stream_retire(device, other));
    OK(tarn_record_stream(address, other));
    OK(tarn_record_stream(address, other));
    ck_assert_uint_eq(use_count(), 2);
    OK(tarn_stream_retire(device, stream)); /* the block's own */
    OK(tarn_record_stream(address, stream));
    ck_assert_uint_eq(use_count(), 3);
    sim.hold_work();
    test_fill(stream, address, 1, 16);
    OK(tarn_free(address));
    poll(false);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    sim.resume_work();
    test_synchronize(stream);
    poll(false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    test_same_ledger(&before);
}
