// SPDX-License-Identifier: Apache-2.0
/* Blocks freed beside captures, and whose their memory is then. */
#include "support/world.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tn_cu_stream other;
static void *address;
static struct tn_block *block;

static void make_block(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
    other = test_stream();
    address = unit_alloc(pool, 4096, stream);
    block = unit_block(address);
}

static void poll(void)
{
    tn_pool_lock(pool);
    tn_pending_poll(pool, false);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

/* While any capture that was open then is so: each may have used it, on any stream. */
START_TEST(a_block_freed_beside_captures_waits_for_all_of_them)
{
    tn_cu_stream third = test_stream();
    tarn_capture *first = unit_begin(pool, other);
    tarn_capture *second = unit_begin(pool, third);
    tarn_capture *later;
    int64_t deadline = test_deadline();

    OK(tarn_free(address));
    ck_assert(block->captured_free);
    OK(tarn_capture_abort(second));
    later = unit_begin(pool, third);
    OK(tn_gpu_wait_idle(&device->gpu));
    poll();
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    OK(tarn_capture_abort(first));
    while (unit_chunk(address)->hold_count > 0 && test_pause(deadline))
        tn_device_reap(device);
    poll();
    ck_assert_uint_eq(pool->counters.pending_count, 0);
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena,
                     tn_arena_find(pool, unit_order(device, stream)));
    OK(tarn_capture_abort(later));
}
END_TEST

/* A graph holds its chunk, which goes to other captures when nothing runs there any more: in memory that its
 * stream has freed beside it since, too. */
START_TEST(a_chunk_goes_to_captures_when_all_that_was_freed_in_it_is_proven)
{
    tarn_capture *capture = unit_begin(pool, other);
    void *beside;
    tarn_graph *graph;

    OK(tarn_free(address));
    ck_assert(block->captured_free);
    graph = unit_end(capture);
    OK(tn_gpu_wait_idle(&device->gpu)); /* proves the block's free */
    beside = unit_alloc(pool, 512, stream);
    ck_assert_ptr_eq(unit_chunk(beside), unit_chunk(address));
    OK(tarn_free(beside));
    poll();
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    OK(tn_gpu_wait_idle(&device->gpu));
    poll();
    ck_assert_uint_eq(pool->counters.pending_count, 0);
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    OK(tarn_graph_destroy(graph));
}
END_TEST

/* What is pending in such a chunk is ordered before its own stream's work, and no capture's. P24 */
START_TEST(what_is_pending_in_a_chunk_that_goes_to_captures_waits_for_a_proof)
{
    struct tn_block *beside = unit_block(unit_alloc(pool, 4096, stream));
    tarn_capture *capture = unit_begin(pool, other);
    int64_t deadline = test_deadline();
    tarn_graph *graph;

    OK(tarn_free(address));
    graph = unit_end(capture);
    OK(tn_gpu_wait_idle(&device->gpu)); /* proves the block's free */
    capture = unit_begin(pool, other);
    OK(tarn_free((void *)(uintptr_t)tn_block_address(beside)));
    ck_assert(beside->captured_free);
    ck_assert_ptr_eq(unit_chunk(address), tn_block_chunk_at(beside, beside->offset));
    OK(tarn_capture_abort(capture));
    while (pool->hold_count > 1 && test_pause(deadline))
        tn_device_reap(device);
    poll();
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    ck_assert_int_eq(beside->state, TN_BLOCK_PENDING);
    tn_block_cold(beside)->proof_stamp = 0;
    unit_expect_corrupt(pool, "P24");
    tn_block_cold(beside)->proof_stamp = tn_block_cold(beside)->freed_stamp;
    OK(tn_gpu_wait_idle(&device->gpu));
    poll();
    ck_assert_uint_eq(pool->counters.pending_count, 0);
    OK(tarn_graph_destroy(graph));
}
END_TEST

/* No graph came of it, so its own stream has the memory, without a proof. */
START_TEST(a_block_freed_beside_an_aborted_capture_returns_to_its_stream)
{
    tarn_capture *capture = unit_begin(pool, other);

    sim.hold_work();
    test_fill(stream, address, 1, 16);
    OK(tarn_free(address));
    OK(tarn_capture_abort(capture));
    unit_reap_all(pool);
    poll();
    ck_assert_ptr_eq(unit_alloc(pool, 4096, stream), address);
    sim.resume_work();
}
END_TEST

START_TEST(a_chunk_that_cannot_change_hands_yet_stays_pending)
{
    tarn_capture *capture = unit_begin(pool, other);
    tarn_graph *graph;

    OK(tarn_free(address)); /* during a capture: its chunk is to become idle memory */
    ck_assert(block->captured_free);
    graph = unit_end(capture);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    while (pool->store.spare_count > 0) /* no records are left */
        (void)tn_block_take(&pool->store);
    (void)tn_host_plan_fault(1, false);
    tn_pending_poll(pool, false);
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    ck_assert_ptr_ne(block->heap->arena, &pool->idle);
    tn_pending_poll(pool, false);
    ck_assert_uint_eq(pool->counters.pending_count, 0);
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    OK(tarn_graph_destroy(graph));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("use beside captures");
    TCase *captures = tcase_create("captures");

    tcase_add_checked_fixture(captures, make_block, NULL);
    tcase_add_test(captures, a_block_freed_beside_captures_waits_for_all_of_them);
    tcase_add_test(captures, a_chunk_goes_to_captures_when_all_that_was_freed_in_it_is_proven);
    tcase_add_test(captures, what_is_pending_in_a_chunk_that_goes_to_captures_waits_for_a_proof);
    tcase_add_test(captures, a_block_freed_beside_an_aborted_capture_returns_to_its_stream);
    tcase_add_test(captures, a_chunk_that_cannot_change_hands_yet_stays_pending);
    suite_add_tcase(suite, captures);
    return test_main(suite);
}
