// SPDX-License-Identifier: Apache-2.0
#include "pools/reserve.h"

#include "pools/arena_table.h"
#include "pools/arenas.h"
#include "unit/refused_records.h"
#include "unit/one_pool.h"

static struct tn_order order;

static bool takes_records; /* looking at pending blocks takes all that are set aside */

void __real_tn_pending_poll_to_use(tarn_pool *polled, bool captured);
void __wrap_tn_pending_poll_to_use(tarn_pool *polled, bool captured);
void __wrap_tn_pending_poll_to_use(tarn_pool *polled, bool captured)
{
    __real_tn_pending_poll_to_use(polled, captured);
    while (takes_records && polled->store.spare_count > 0)
        (void)tn_block_take(&polled->store);
}

static const struct tn_chunk *near_chunks[2]; /* that were brought into the caches first */
static size_t near_count;

uint64_t __real_tn_live_bring_near(const struct tn_chunk *chunk, uint64_t most);
uint64_t __wrap_tn_live_bring_near(const struct tn_chunk *chunk, uint64_t most);
uint64_t __wrap_tn_live_bring_near(const struct tn_chunk *chunk, uint64_t most)
{
    if (near_count < 2)
        near_chunks[near_count] = chunk;
    near_count += 1;
    return __real_tn_live_bring_near(chunk, most);
}

static void set_up(void)
{
    make_pool();
    order = unit_order(device, stream);
}

static void reserve(uint64_t bytes)
{
    OK(tn_pool_reserve(pool, bytes, stream, order));
}

static void *allocate(uint64_t bytes)
{
    return unit_alloc(pool, bytes, stream);
}

/* By the arena alone; NULL: it cannot. */
static void *try_allocate(uint64_t bytes)
{
    void *address = NULL;

    return unit_try_alloc(pool, order, bytes, 512, &address) ? address : NULL;
}

static const struct tn_heap *heap(enum tn_heap_kind kind)
{
    return unit_arena(pool, order)->heaps[kind];
}

GROUP(reserve, set_up)

TEST(reserve, memory_reserved_ahead_needs_no_driver_call)
{
    uint64_t maps;

    reserve(64 * MIB);
    maps = tn_pool_map_count(pool);
    (void)allocate(32 * MIB);
    (void)allocate(32 * MIB);
    (void)allocate(4096);
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    OK(tarn_pool_validate(pool));
}

/* What an allocation of each kind comes to is brought near. */
TEST(reserve, what_the_next_allocations_write_is_brought_near)
{
    const struct tn_chunk *small;
    const struct tn_chunk *large;

    reserve(4 * MIB);
    ck_assert_uint_eq(near_count, 2);
    small = unit_chunk(allocate(4096));
    large = unit_chunk(allocate(4 * MIB));
    ck_assert_ptr_ne(small, large);
    ck_assert_ptr_eq(near_chunks[0], small);
    ck_assert_ptr_eq(near_chunks[1], large);
}

TEST(reserve, memory_reserved_ahead_needs_no_host_memory)
{
    reserve(64 * MIB);
    (void)tn_host_plan_fault(1, true);
    (void)allocate(32 * MIB);
    (void)allocate(32 * MIB);
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
}

TEST(reserve, reserving_without_host_memory_for_records_changes_nothing)
{
    for (int nth = 1; nth <= 2; nth++) { /* the stream's arena's, then those for captures */
        refused_reserve = nth;
        STATUS(TARN_ERR_HOST_MEMORY, tn_pool_reserve(pool, TN_GIB, stream, order));
        ck_assert_int_eq(refused_reserve, 0);
        ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 0);
        ck_assert_int_eq(unit_arena(pool, order)->exhaustions > 0, nth == 2);
        OK(tarn_pool_validate(pool));
    }
    reserve(64 * MIB);
}

TEST(reserve, reserving_counts_what_is_free_already)
{
    uint64_t maps;

    reserve(0);
    ck_assert_uint_eq(tn_pool_map_count(pool), 0);
    reserve(64 * MIB);
    maps = tn_pool_map_count(pool);
    reserve(64 * MIB);
    reserve(32 * MIB);
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    OK(tarn_free(allocate(64 * MIB))); /* now the stream's own */
    reserve(64 * MIB);
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    reserve(66 * MIB);
    ck_assert_uint_gt(tn_pool_map_count(pool), maps);
}

TEST(reserve, reserving_for_work_does_not_count_captured_memory)
{
    tarn_graph *graph = unit_graph(pool, other, 64 * MIB, NULL);
    uint64_t maps;

    reserve(64 * MIB);
    maps = tn_pool_map_count(pool);
    (void)allocate(64 * MIB);
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    (void)graph;
}

/* From the first on, and with records that are there. */
TEST(reserve, reserved_memory_is_handed_out_by_the_arena_alone)
{
    enum { GIBS = 6, BLOCKS = GIBS * 32 };
    struct tn_block_slab *slabs;

    reserve(GIBS * TN_GIB);
    ck_assert_uint_ge(pool->store.spare_count, GIBS * TN_GIB / (16 * TN_MIB));
    ck_assert_uint_ge(unit_arena(pool, order)->store.spare_count, BLOCKS);
    slabs = pool->store.slabs;
    for (int i = 0; i < BLOCKS; i++)
        ck_assert_ptr_nonnull(try_allocate(32 * MIB));
    ck_assert_ptr_nonnull(try_allocate(4096));
    ck_assert_ptr_eq(pool->store.slabs, slabs);
    OK(tarn_pool_validate(pool));
}

/* So are the next captures on that stream, and on others. */
TEST(reserve, a_capture_is_served_from_what_the_stream_has_not_used)
{
    tarn_capture *capture;
    uint64_t maps;

    reserve(4 * TN_GIB);
    (void)allocate(32 * MIB);
    maps = tn_pool_map_count(pool);
    capture = unit_begin(pool, stream);
    (void)allocate(TN_GIB);
    (void)allocate(2 * TN_GIB);
    (void)allocate(4096);
    (void)unit_end(capture);
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    ck_assert_ptr_nonnull(try_allocate(32 * MIB)); /* what was begun is the stream's */
    OK(tarn_pool_validate(pool));
}

TEST(reserve, another_stream_is_served_from_what_the_first_has_not_used)
{
    uint64_t maps;

    reserve(3 * TN_GIB);
    (void)allocate(32 * MIB);
    (void)allocate(4096);
    maps = tn_pool_map_count(pool);
    (void)unit_alloc(pool, 3 * TN_GIB - 512 * MIB, other); /* all chunks but the first */
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    OK(tarn_pool_validate(pool));
    (void)unit_alloc(pool, 4096, other); /* the chunk of small blocks was begun */
    ck_assert_uint_gt(tn_pool_map_count(pool), maps);
    OK(tarn_pool_validate(pool));
}

/* Nobody knows whether the GPU has done what its blocks were used for. */
TEST(reserve, what_was_allocated_in_stays_the_streams)
{
    void *block;
    uint64_t maps;

    reserve(2 * TN_GIB);
    block = allocate(TN_GIB);
    OK(tarn_free(block));
    maps = tn_pool_map_count(pool);
    (void)unit_alloc(pool, TN_GIB, other);
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    (void)unit_alloc(pool, TN_GIB, other);
    ck_assert_uint_gt(tn_pool_map_count(pool), maps);
    ck_assert_ptr_eq(allocate(TN_GIB), block);
    OK(tarn_pool_validate(pool));
}

TEST(reserve, another_streams_reservation_counts_what_the_first_has_not_used)
{
    uint64_t maps;

    reserve(TN_GIB);
    maps = tn_pool_map_count(pool);
    OK(tn_pool_reserve(pool, TN_GIB, other, unit_order(device, other)));
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    ck_assert_uint_eq(heap(TN_HEAP_LARGE)->mapped_bytes, 0);
    ck_assert(!heap(TN_HEAP_LARGE)->has_reserved);
    OK(tarn_pool_validate(pool));
}

TEST(reserve, a_reservation_in_a_capture_counts_it_too)
{
    tarn_capture *capture;
    uint64_t maps;

    reserve(TN_GIB);
    maps = tn_pool_map_count(pool);
    capture = unit_begin(pool, stream);
    OK(tn_pool_reserve(pool, TN_GIB, stream, unit_order(device, stream)));
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    (void)allocate(TN_GIB);
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    (void)unit_end(capture);
    OK(tarn_pool_validate(pool));
}

/* What it has is at an end then, and the rest of it too small. */
TEST(reserve, a_stream_that_needs_more_keeps_what_it_has_not_used)
{
    uint64_t mapped;

    reserve(TN_GIB);
    mapped = heap(TN_HEAP_LARGE)->mapped_bytes;
    (void)allocate(2 * TN_GIB);
    ck_assert_uint_ge(heap(TN_HEAP_LARGE)->mapped_bytes, mapped + TN_GIB);
    ck_assert(heap(TN_HEAP_LARGE)->has_reserved);
    OK(tarn_pool_validate(pool));
}

/* More is mapped instead, and nothing is lost. */
TEST(reserve, without_host_memory_for_records_it_stays_where_it_is)
{
    uint64_t maps;
    int nth = 3; /* the arena's records, the request's, then those for the handover */

    device->move_limit_bytes = 0;
    (void)unit_alloc(pool, 4096, other);
    reserve(TN_GIB);
    maps = tn_pool_map_count(pool);
    refused_reserve = nth;
    (void)unit_alloc(pool, 64 * MIB, other);
    ck_assert_int_eq(refused_reserve, 0);
    ck_assert_uint_gt(tn_pool_map_count(pool), maps);
    ck_assert(heap(TN_HEAP_LARGE)->has_reserved);
    ck_assert_ptr_nonnull(try_allocate(TN_GIB));
    OK(tarn_pool_validate(pool));
}

TEST(reserve, a_stream_that_cannot_be_asked_for_its_context_reserves_nothing)
{
    uint64_t reserved = unit_stats(pool).mapped_bytes;

    sim.plan_fault("cuStreamGetCtx", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_pool_reserve(pool, MIB, stream, order));
    ck_assert_uint_eq(unit_stats(pool).mapped_bytes, reserved);
    reserve(MIB);
    ck_assert_ptr_nonnull(try_allocate(MIB));
}

TEST(reserve, records_that_pending_blocks_take_are_set_aside_again)
{
    tarn_capture *capture = unit_begin(pool, other);

    OK(tn_pool_reserve(pool, 4 * TN_GIB, other, unit_order(device, other)));
    (void)unit_end(capture);
    takes_records = true;
    reserve(TN_GIB); /* cut from idle memory */
    takes_records = false;
    ck_assert_uint_eq(heap(TN_HEAP_LARGE)->mapped_bytes, TN_GIB);
    OK(tarn_pool_validate(pool));
}

TEST(reserve, a_reservation_in_a_capture_counts_what_that_has_freed)
{
    tarn_capture *capture = unit_begin(pool, stream);
    struct tn_order captured = unit_order(device, stream);
    uint64_t maps;

    OK(tn_pool_reserve(pool, 64 * MIB, stream, captured));
    maps = tn_pool_map_count(pool);
    OK(tarn_free(allocate(64 * MIB)));
    OK(tn_pool_reserve(pool, 64 * MIB, stream, captured));
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    (void)unit_end(capture);
}

TEST(reserve, what_was_mapped_ahead_and_counted_serves_captures_too)
{
    tarn_capture *capture;
    uint64_t mapped;
    uint64_t maps;

    (void)unit_grow(pool, stream, TN_HEAP_LARGE, 64 * MIB, true);
    mapped = heap(TN_HEAP_LARGE)->mapped_bytes;
    reserve(64 * MIB);
    ck_assert_uint_eq(heap(TN_HEAP_LARGE)->mapped_bytes, mapped);
    ck_assert_uint_eq(pool->idle.heaps[TN_HEAP_LARGE]->mapped_bytes, 0);
    maps = tn_pool_map_count(pool);
    capture = unit_begin(pool, stream);
    (void)allocate(64 * MIB);
    ck_assert_uint_eq(tn_pool_map_count(pool), maps);
    (void)unit_end(capture);
    OK(tarn_pool_validate(pool));
}

static void expect_nothing_mapped(void)
{
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 0);
    ck_assert_uint_eq(tn_pool_segment_count(pool), 0);
    OK(tarn_pool_validate(pool));
}

/* The limit has room for the large part alone. */
TEST(reserve, a_reservation_beyond_the_limit_maps_nothing)
{
    OK(tarn_pool_set_limit(pool, 64 * MIB));
    STATUS(TARN_ERR_LIMIT, tn_pool_reserve(pool, 64 * MIB, stream, order));
    ck_assert_uint_eq(tn_pool_map_count(pool), 0);
    expect_nothing_mapped();
    reserve(62 * MIB);
}

/* The first two chunks are those of large blocks. Asked again, for less, it maps no more than at first. */
TEST(reserve, a_reservation_without_memory_for_all_of_it_maps_nothing)
{
    const struct tn_heap *idle = pool->idle.heaps[TN_HEAP_LARGE];
    const uint64_t segment_bytes = idle->segment_bytes;

    sim.plan_fault("cuMemCreate", 3, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_pool_reserve(pool, 64 * MIB, stream, order));
    ck_assert_uint_gt(tn_pool_map_count(pool) + tn_pool_unmap_count(pool), 0);
    expect_nothing_mapped();
    ck_assert_uint_eq(idle->segment_bytes, segment_bytes);
    ck_assert_uint_eq(idle->run_bytes, 0);
    ck_assert_uint_eq(pool->idle.heaps[TN_HEAP_SMALL]->segment_bytes, segment_bytes);
    (void)sim.clear_fault(NULL);
    reserve(64 * MIB);
    OK(tarn_pool_validate(pool));
}

static int callback_count;

static bool count_callback(tarn_device *called, size_t bytes, void *user)
{
    (void)called;
    (void)bytes;
    (void)user;
    callback_count += 1;
    return false;
}

/* A large part that is mapped in fewer and larger chunks takes more than was asked for. */
TEST(reserve, a_reservation_that_the_limit_has_room_for_costs_nobody_anything)
{
    OK(tarn_device_add_free_callback(device, count_callback, NULL));
    OK(tarn_pool_set_limit(pool, 64 * MIB));
    reserve(62 * MIB); /* two chunks of 32 MiB would leave the small part nothing */
    ck_assert_int_eq(callback_count, 0);
    ck_assert_uint_eq(tn_pool_unmap_count(pool), 0);
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 64 * MIB);
    OK(tarn_pool_validate(pool));
}

TEST(reserve, a_reservation_without_host_memory_maps_nothing)
{
    uint64_t failed = 1;

    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tn_pool_reserve(pool, 3 * TN_GIB, stream, order);
        failed = tn_host_plan_fault(0, false);
        if (status == TARN_OK)
            continue;
        ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
        ck_assert_uint_eq(failed, 1);
        expect_nothing_mapped();
    }
    ck_assert_uint_gt(tn_pool_mapped_bytes(pool), 3 * TN_GIB);
}
