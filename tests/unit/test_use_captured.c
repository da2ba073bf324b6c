// SPDX-License-Identifier: Apache-2.0
/* Blocks freed beside captures, and whose their memory is then. */
#include "driver/idle.h"
#include "pools/arenas.h"
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

SUITE("use beside captures")
GROUP(captures, make_block)

/* While any capture that was open then is so: each may have used it, on any stream. */
TEST(captures, a_block_freed_beside_captures_waits_for_all_of_them)
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
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena,
                     unit_arena(pool, unit_order(device, stream)));
    OK(tarn_capture_abort(later));
}

/* A graph holds its chunk, which goes to other captures when nothing runs there any more: in memory that its
 * stream has freed beside it since, too. */
TEST(captures, a_chunk_goes_to_captures_when_all_that_was_freed_in_it_is_proven)
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
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    OK(tarn_graph_destroy(graph));
}

/* What is pending in such a chunk is ordered before its own stream's work, and no capture's. P24 */
TEST(captures, what_is_pending_in_a_chunk_that_goes_to_captures_waits_for_a_proof)
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
    while (pool->holds.count > 1 && test_pause(deadline))
        tn_device_reap(device);
    poll();
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    ck_assert_int_eq(beside->state, TN_BLOCK_PENDING);
    tn_block_cold(beside)->proof_stamp = 0;
    unit_expect_corrupt(pool, "P24");
    tn_block_cold(beside)->proof_stamp = tn_block_cold(beside)->freed_stamp;
    OK(tn_gpu_wait_idle(&device->gpu));
    poll();
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    OK(tarn_graph_destroy(graph));
}

/* No graph came of it, so its own stream has the memory, without a proof. */
TEST(captures, a_block_freed_beside_an_aborted_capture_returns_to_its_stream)
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

TEST(captures, a_chunk_that_cannot_change_hands_yet_stays_pending)
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
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    OK(tarn_graph_destroy(graph));
}

/* Blocks one behind the other in chunks of 2 MiB, in units of 256 KiB. The middle one is freed beside a capture whose
 * graph holds its chunks. It goes with three of them, over whose edges free blocks reach; what lies beside it is live,
 * so that these do not join it. */
static const size_t units[] = {6, 6, 6, 8, 5, 6};
enum { UNIT = 256 << 10, BLOCKS = sizeof units / sizeof units[0], MIDDLE = 3 };

/* The middle block, and the two beside it in live; the graph. */
static struct tn_block *free_between_edges(tn_cu_stream of, void *live[2], tarn_graph **graph)
{
    void *blocks[BLOCKS];
    struct tn_block *middle;
    tarn_capture *capture;

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = unit_alloc(pool, units[i] * UNIT, of);
    middle = unit_block(blocks[MIDDLE]);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i < MIDDLE - 1 || i > MIDDLE + 1)
            OK(tarn_free(blocks[i]));
    }
    live[0] = blocks[MIDDLE - 1];
    live[1] = blocks[MIDDLE + 1];
    capture = unit_begin(pool, other);
    OK(tarn_free(blocks[MIDDLE]));
    ck_assert(middle->captured_free);
    *graph = unit_end(capture);
    return middle;
}

static void leave_records(size_t count)
{
    while (pool->store.spare_count > count)
        (void)tn_block_take(&pool->store);
    ck_assert_uint_eq(pool->store.spare_count, count);
}

/* Two, since both edges are cut. */
TEST_LOOP(captures, a_chunk_that_changes_hands_has_the_records_for_both_of_its_edges, 0, 3)
{
    void *live[2];
    tarn_graph *graph;
    struct tn_block *middle = free_between_edges(stream, live, &graph);

    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    leave_records((size_t)_i);
    tn_pending_poll(pool, false);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_int_eq(middle->state, TN_BLOCK_FREE);
    ck_assert_ptr_eq(middle->heap->arena, &pool->idle);
    ck_assert_uint_eq(pool->store.spare_count,
                      _i == 2 ? 0 : (size_t)_i + TN_BLOCK_SLAB_RECORDS - 2);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    OK(tarn_graph_destroy(graph));
}

/* What the poll of an allocation takes, the allocation has still. */
TEST(captures, an_allocation_has_its_records_behind_a_poll_that_takes_some)
{
    enum { RECORDS = 4 }; /* of an allocation */
    tarn_graph *graphs[3];
    tarn_capture *capture;
    void *live[4];
    void *blocks[2];

    (void)free_between_edges(stream, &live[0], &graphs[0]);
    (void)free_between_edges(test_stream(), &live[2], &graphs[1]);
    capture = unit_begin(pool, other);
    blocks[0] = unit_alloc(pool, 512, other); /* its arena has what it needs */
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert_uint_eq(tn_pool_pending_count(pool), 2);
    tn_pool_lock(pool);
    leave_records(RECORDS);
    tn_pool_unlock(pool);
    blocks[1] = unit_alloc(pool, MIB + 512, other);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    OK(tarn_pool_validate(pool));
    graphs[2] = unit_end(capture);
    for (int i = 0; i < 4; i++)
        OK(tarn_free(live[i]));
    for (int i = 0; i < 2; i++)
        OK(tarn_free(blocks[i]));
    for (int i = 0; i < 3; i++)
        OK(tarn_graph_destroy(graphs[i]));
}
