// SPDX-License-Identifier: Apache-2.0
/* Growth as numbers: which chunks are mapped for what is asked, in segments of which size. */
#include "pools/ahead.h"

#include "pools/arenas.h"
#include "pools/grow.h"
#include "unit/one_pool.h"

struct growth {
    uint64_t need_mib;
    uint64_t mapped_mib;
    uint64_t chunk_count;
};

/* For the first growth of a large heap. The fewest chunks with at most 1/16 over: 30 MiB would have
 * to become 32, 2 over where 1.875 are allowed; 34 become 36, but that is no fewer chunks. Chunks
 * are of 32 MiB at most, or of a quarter of the block up to 128 MiB. From 64 MiB on a page over is
 * allowed. */
static const struct growth first_growths[] = {
    {2, 2, 1},        {4, 4, 1},     {6, 6, 2},       {8, 8, 1},       {14, 14, 3},
    {30, 30, 4},      {32, 32, 1},   {34, 34, 2},     {38, 40, 2},     {62, 64, 2},
    {64, 64, 2},      {66, 66, 3},   {96, 96, 3},     {122, 122, 6},   {126, 128, 4},
    {250, 250, 10},   {254, 256, 8}, {1022, 1024, 8}, {1024, 1024, 8}, {1026, 1026, 9},
    {3072, 3072, 24},
};

GROUP(chunks, make_pool)

TEST_LOOP(chunks, the_first_growth_takes_the_fewest_chunks_with_at_most_a_sixteenth_over, 0,
          (int)(sizeof first_growths / sizeof first_growths[0]))
{
    struct growth growth = first_growths[_i];
    void *address = unit_alloc(pool, growth.need_mib * MIB, stream);
    struct test_stats stats = unit_stats(pool);
    struct tn_segment *segment = unit_segment(address);

    ck_assert_uint_eq(stats.mapped_bytes, growth.mapped_mib * MIB);
    ck_assert_uint_eq(stats.chunk_count, growth.chunk_count);
    ck_assert_uint_eq(unit_offset(address), 0);
    for (uint64_t at = 0; at < stats.mapped_bytes;) { /* the largest chunk first */
        const struct tn_chunk *chunk = tn_segment_chunk_at(segment, at);

        at = tn_chunk_end(chunk);
        ck_assert(at >= stats.mapped_bytes ||
                  chunk->bytes >= tn_segment_chunk_at(segment, at)->bytes);
    }
    OK(tarn_pool_validate(pool));
}

static uint64_t chunk_mib_for(const struct tn_heap *heap, uint64_t block_bytes)
{
    const struct tn_lack lack = {
        .block_bytes = block_bytes, .need = block_bytes, .room = block_bytes};

    return tn_growth_size_frugal(heap, &lack).chunk_bytes_max / MIB;
}

TEST(chunks, chunks_are_a_part_of_their_block_or_of_the_heap)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    tn_pool_lock(pool);
    ck_assert_uint_eq(chunk_mib_for(heap, 2 * MIB), 32);
    ck_assert_uint_eq(chunk_mib_for(heap, 256 * MIB), 64); /* a quarter */
    ck_assert_uint_eq(chunk_mib_for(heap, 512 * MIB), 128);
    ck_assert_uint_eq(chunk_mib_for(heap, 4 * GIB), 128);
    ck_assert_uint_eq(chunk_mib_for(heap, 8 * GIB), 256); /* 1/32 */
    ck_assert_uint_eq(chunk_mib_for(heap, 128 * GIB), 1024);
    heap->mapped_bytes += 8 * GIB;
    ck_assert_uint_eq(chunk_mib_for(heap, 2 * MIB), 128); /* 1/64 of the heap */
    heap->mapped_bytes += 128 * GIB;
    ck_assert_uint_eq(chunk_mib_for(heap, 2 * MIB), 256);
    ck_assert_uint_eq(chunk_mib_for(heap, 512 * MIB), 256);
    heap->mapped_bytes -= 136 * GIB;
    ck_assert_uint_eq(chunk_mib_for(pool->idle.heaps[TN_HEAP_LARGE], 2 * GIB), 512);
    tn_pool_unlock(pool);
}

/* Of two neighbours the larger stays, and more and more of the smaller ones go. */
TEST(chunks, where_much_is_free_in_chunks_partly_used_chunks_are_smaller)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);
    uint64_t size = 64;
    uint64_t sizes = 0; /* each has its bit */
    void *stays[16];
    void *goes[16];

    for (size_t i = 0; i < 16; i++) {
        stays[i] = unit_alloc(pool, 60 * MIB, stream);
        goes[i] = unit_alloc(pool, 4 * MIB, stream);
    }
    for (size_t i = 0; i <= 16; i++) {
        tn_pool_lock(pool);
        ck_assert_uint_le(chunk_mib_for(heap, 256 * MIB), size);
        size = chunk_mib_for(heap, 256 * MIB);
        sizes |= size;
        tn_pool_unlock(pool);
        if (i < 16)
            OK(tarn_free(goes[i]));
    }
    ck_assert_uint_eq(sizes, 64 | 32 | 16);
    tn_pool_lock(pool);
    ck_assert_uint_eq(chunk_mib_for(pool->idle.heaps[TN_HEAP_LARGE], 256 * MIB), 64);
    tn_pool_unlock(pool);
    for (size_t i = 0; i < 16; i++)
        OK(tarn_free(stays[i]));
    tn_pool_lock(pool);
    ck_assert_uint_eq(chunk_mib_for(heap, 256 * MIB), 64); /* all is free as a whole */
    tn_pool_unlock(pool);
}

TEST(chunks, frugal_growth_maps_what_is_needed_to_the_page)
{
    ck_assert_uint_eq(unit_grow(pool, stream, TN_HEAP_LARGE, 62 * MIB, true), 62 * MIB);
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 5);
    ck_assert_uint_eq(unit_grow(pool, stream, TN_HEAP_LARGE, 62 * MIB + 1, true),
                      2 * MIB); /* one byte more */
}

/* One chunk of 1/8 of what the heap has mapped in this run of growths, rounded down to a power of two. */
TEST(chunks, a_heap_grows_ahead_by_an_eighth_of_what_it_has_mapped)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    heap->segment_bytes = GIB;
    (void)unit_alloc(pool, 12 * MIB, stream); /* an eighth is less than a page */
    ck_assert_uint_eq(heap->mapped_bytes, 12 * MIB);
    (void)unit_alloc(pool, 2 * MIB, stream);
    ck_assert_uint_eq(heap->mapped_bytes, 14 * MIB);
    (void)unit_alloc(pool, 82 * MIB, stream); /* to 96 MiB: an eighth is 12 MiB */
    ck_assert_uint_eq(heap->mapped_bytes, 96 * MIB);
    (void)unit_alloc(pool, 2 * MIB, stream);
    ck_assert_uint_eq(heap->mapped_bytes, 104 * MIB);
    (void)unit_alloc(pool, 6 * MIB, stream); /* out of what was mapped ahead */
    ck_assert_uint_eq(heap->mapped_bytes, 104 * MIB);
}

TEST(chunks, growing_ahead_is_for_needs_below_it)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    heap->segment_bytes = GIB;
    (void)unit_alloc(pool, 64 * MIB, stream);
    (void)unit_alloc(pool, 6 * MIB, stream); /* 8 MiB, an eighth exactly */
    ck_assert_uint_eq(heap->mapped_bytes, 72 * MIB);
    (void)unit_alloc(pool, 12 * MIB, stream); /* more than an eighth, 2 MiB of it there */
    ck_assert_uint_eq(heap->mapped_bytes, 82 * MIB);
}

/* Runs of growths. */
static void allocate_and_free(int times)
{
    for (int i = 0; i < times; i++)
        OK(tarn_free(unit_alloc(pool, 2 * MIB, stream)));
    unit_settle(pool); /* so that it is there for what comes next */
}

TEST(chunks, a_heap_grows_ahead_while_the_pool_frees_half_of_what_it_allocates_or_less)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    heap->segment_bytes = GIB;
    (void)unit_alloc(pool, 64 * MIB, stream);
    allocate_and_free(1); /* maps 8 MiB ahead */
    ck_assert_uint_eq(heap->mapped_bytes, 72 * MIB);
    (void)unit_alloc(pool, 4 * MIB, stream);
    (void)unit_alloc(pool, 6 * MIB, stream); /* three were allocated since then, and one freed */
    ck_assert_uint_eq(heap->mapped_bytes, 80 * MIB);
    allocate_and_free(2); /* what is there is enough */
    (void)unit_alloc(pool, 10 * MIB, stream);
    ck_assert_uint_eq(heap->mapped_bytes, 84 * MIB); /* not ahead: to the page, with 6 MiB there */
    (void)unit_alloc(pool, 2 * MIB, stream); /* a run of 4 MiB: an eighth is less than a page */
    ck_assert_uint_eq(heap->mapped_bytes, 86 * MIB);
    (void)unit_alloc(pool, 42 * MIB, stream);
    ck_assert_uint_eq(heap->mapped_bytes, 128 * MIB);
    (void)unit_alloc(pool, 2 * MIB, stream); /* one of 48 MiB */
    ck_assert_uint_eq(heap->mapped_bytes, 132 * MIB);
    OK(tarn_pool_validate(pool));
}

TEST(chunks, in_a_capture_a_heap_grows_ahead_whatever_is_freed)
{
    struct tn_order order = unit_order(device, stream);
    struct tn_heap *heap;

    allocate_and_free(3);
    tn_pool_lock(pool);
    order.capture_id = 7;
    heap = tn_arena_get(pool, order)->heaps[TN_HEAP_LARGE];
    heap->segment_bytes = GIB;
    OK(tn_heap_grow(pool, heap, 48 * MIB, false));
    pool->counters.free_count += 3;
    OK(tn_heap_grow(pool, heap, 50 * MIB, false));
    ck_assert_uint_eq(heap->mapped_bytes, 52 * MIB);
    pool->counters.free_count -= 3;
    tn_arenas_end_capture(pool, 7);
    tn_pool_unlock(pool);
    OK(tarn_pool_validate(pool));
}

TEST(chunks, growing_ahead_ends_at_256_mib)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    (void)unit_alloc(pool, 4 * GIB, stream);
    heap->segment_bytes = GIB;
    ck_assert_uint_eq(unit_grow(pool, stream, TN_HEAP_LARGE, 32 * MIB, false), 256 * MIB);
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 33); /* 32 are the block's */
}

TEST(chunks, for_blocks_below_32_mib_growing_ahead_ends_at_64_mib)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    (void)unit_alloc(pool, 4 * GIB, stream);
    heap->segment_bytes = GIB;
    ck_assert_uint_eq(unit_grow(pool, stream, TN_HEAP_LARGE, 30 * MIB, false), 64 * MIB);
}

TEST(chunks, for_blocks_below_32_mib_a_large_heap_grows_ahead_by_a_64th_of_itself)
{
    const struct tn_lack lack = {.block_bytes = 30 * MIB, .need = 30 * MIB, .room = 4 * GIB};
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    tn_pool_lock(pool);
    heap->mapped_bytes += 8 * GIB; /* more than the device has */
    ck_assert_uint_eq(tn_growth_size(pool, heap, 8 * GIB, &lack).bytes, 128 * MIB);
    heap->mapped_bytes -= 8 * GIB;
    tn_pool_unlock(pool);
}

TEST(chunks, near_a_limit_nothing_is_mapped_ahead)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    heap->segment_bytes = GIB;
    OK(tarn_pool_set_limit(pool, 320 * MIB));
    (void)unit_alloc(pool, 64 * MIB, stream);
    (void)unit_alloc(pool, 6 * MIB, stream); /* 8 MiB, a sixteenth of what is left would be 16 */
    ck_assert_uint_eq(heap->mapped_bytes, 72 * MIB);
    OK(tarn_pool_set_limit(pool, 192 * MIB));
    (void)unit_alloc(pool, 2 * MIB, stream);
    (void)unit_alloc(pool, 6 * MIB, stream); /* 8 MiB would be more than a sixteenth of 120 */
    ck_assert_uint_eq(heap->mapped_bytes, 78 * MIB);
}

TEST(chunks, small_blocks_grow_ahead_by_32_mib_at_most)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_SMALL);

    heap->segment_bytes = 2 * GIB;
    ck_assert_uint_eq(unit_grow(pool, stream, TN_HEAP_SMALL, GIB, false), GIB);
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 32); /* chunks of 32 MiB too */
    (void)unit_alloc(pool, 1, stream);
    ck_assert_uint_eq(unit_grow(pool, stream, TN_HEAP_SMALL, GIB + 2 * MIB, false), 32 * MIB);
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 33);
}

TEST(chunks, growing_ahead_stays_in_the_room_of_the_segment)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    heap->segment_bytes = 64 * MIB;
    ck_assert_uint_eq(unit_grow(pool, stream, TN_HEAP_LARGE, 60 * MIB, true), 60 * MIB);
    (void)unit_alloc(pool, 60 * MIB, stream);
    (void)unit_alloc(pool, 4 * MIB, stream);
    ck_assert_uint_eq(heap->mapped_bytes, 64 * MIB);
    ck_assert_uint_eq(unit_stats(pool).segment_count, 1);
}

GROUP(segments, make_pool)

TEST(segments, segments_of_small_blocks_double_from_32_mib)
{
    static const uint64_t sizes_mib[] = {32, 64, 128, 256};
    size_t i = 0;

    while (unit_heap(pool, stream, TN_HEAP_SMALL)->mapped_bytes <
           480 * MIB) /* four full segments */
        (void)unit_alloc(pool, TN_SMALL_BYTES_MAX, stream);
    for (const struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next, i++) {
        ck_assert_uint_eq(segment->bytes, sizes_mib[i] * MIB);
        ck_assert_uint_eq(segment->index, i);
    }
    ck_assert_uint_eq(i, 4);
    ck_assert_uint_eq(unit_heap(pool, stream, TN_HEAP_SMALL)->segment_bytes, 512 * MIB);
}

/* The device has 8 GiB. */
TEST(segments, the_second_segment_of_large_blocks_is_a_quarter_of_the_devices_memory)
{
    void *first = unit_alloc(pool, 32 * MIB, stream);
    void *second = unit_alloc(pool, 32 * MIB, stream);
    void *third;

    ck_assert_uint_eq(unit_segment(first)->bytes, 32 * MIB);
    ck_assert_uint_eq(unit_segment(second)->bytes, device->gpu.total_bytes / 4);
    ck_assert_uint_eq(unit_heap(pool, stream, TN_HEAP_LARGE)->segment_bytes,
                      device->gpu.total_bytes / 2);
    third = unit_alloc(pool, device->gpu.total_bytes / 4, stream);
    ck_assert_uint_eq(unit_segment(third)->bytes, device->gpu.total_bytes / 2);
}

/* Each heap has one, and there may be hundreds. */
TEST(segments, a_segment_is_a_small_part_of_a_region)
{
    device->regions.region_bytes = 16 * GIB;
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_eq(unit_segment(unit_alloc(pool, 32 * MIB, stream))->bytes, 256 * MIB);
}

TEST(segments, a_request_that_the_next_segments_could_not_hold_gets_its_own)
{
    void *large = unit_alloc(pool, 3 * GIB - MIB, stream);

    ck_assert_uint_eq(unit_segment(large)->bytes, 3 * GIB); /* slots are of 32 MiB */
    ck_assert_uint_eq(unit_heap(pool, stream, TN_HEAP_LARGE)->segment_bytes, 32 * MIB);
    (void)unit_alloc(pool, 30 * MIB, stream);
    ck_assert_uint_eq(unit_stats(pool).segment_count, 2);
}

TEST(segments, a_request_that_the_segment_after_the_next_can_hold_is_the_first_in_that)
{
    void *large = unit_alloc(pool, 40 * MIB, stream);

    ck_assert_uint_eq(unit_segment(large)->bytes, device->gpu.total_bytes / 4);
    ck_assert_ptr_eq(unit_segment(unit_alloc(pool, 40 * MIB, stream)), unit_segment(large));
}
