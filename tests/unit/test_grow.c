// SPDX-License-Identifier: Apache-2.0
/* Growth as numbers: which chunks are mapped for what is asked, and what goes again. */
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tn_cu_stream other;

static void make_pool(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
    other = test_stream();
}

struct growth {
    uint64_t need_mib;
    uint64_t mapped_mib;
    uint64_t chunk_count;
};

/* For the first growth of a large heap. The fewest chunks with at most 1/16 over: 30 MiB would have
 * to become 32, 2 over where 1.875 are allowed; 34 become 36, but that is no fewer chunks. */
static const struct growth first_growths[] = {
    {2, 2, 1},   {4, 4, 1},     {6, 6, 2},       {8, 8, 1},       {14, 14, 3},     {30, 30, 4},
    {32, 32, 1}, {34, 34, 2},   {38, 40, 2},     {62, 64, 1},     {64, 64, 1},     {66, 66, 2},
    {96, 96, 2}, {126, 128, 1}, {1022, 1024, 1}, {1024, 1024, 1}, {1026, 1026, 2}, {3072, 3072, 3},
};

START_TEST(the_first_growth_takes_the_fewest_chunks_with_at_most_a_sixteenth_over)
{
    struct growth growth = first_growths[_i];
    void *address = unit_alloc(pool, growth.need_mib * MIB, stream);
    tarn_pool_stats stats = unit_stats(pool);
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
END_TEST

/* The heap of the stream grows by itself, frugally or not; returns what was mapped. */
static uint64_t grow(enum tn_heap_kind kind, uint64_t bytes, bool frugal)
{
    uint64_t before = pool->counters.mapped_bytes;

    tn_pool_lock(pool);
    OK(tn_heap_grow(pool, &tn_arena_get(pool, unit_order(device, stream))->heaps[kind], bytes,
                    frugal));
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    return pool->counters.mapped_bytes - before;
}

static struct tn_heap *heap_of(enum tn_heap_kind kind)
{
    struct tn_arena *arena;

    tn_pool_lock(pool);
    arena = tn_arena_get(pool, unit_order(device, stream));
    tn_pool_unlock(pool);
    return &arena->heaps[kind];
}

START_TEST(frugal_growth_maps_what_is_needed_to_the_page)
{
    ck_assert_uint_eq(grow(TN_HEAP_LARGE, 62 * MIB, true), 62 * MIB);
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 5);
    ck_assert_uint_eq(grow(TN_HEAP_LARGE, 62 * MIB + 1, true), 2 * MIB); /* one byte more */
}
END_TEST

/* One chunk of 1/8 of what the heap has mapped, rounded down to a power of two. */
START_TEST(a_heap_grows_ahead_by_an_eighth_of_what_it_has)
{
    struct tn_heap *heap = heap_of(TN_HEAP_LARGE);

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
END_TEST

START_TEST(growing_ahead_is_for_needs_below_it)
{
    struct tn_heap *heap = heap_of(TN_HEAP_LARGE);

    heap->segment_bytes = GIB;
    (void)unit_alloc(pool, 64 * MIB, stream);
    (void)unit_alloc(pool, 6 * MIB, stream); /* 8 MiB, an eighth exactly */
    ck_assert_uint_eq(heap->mapped_bytes, 72 * MIB);
    (void)unit_alloc(pool, 12 * MIB, stream); /* more than an eighth, 2 MiB of it there */
    ck_assert_uint_eq(heap->mapped_bytes, 82 * MIB);
}
END_TEST

START_TEST(growing_ahead_ends_at_256_mib)
{
    struct tn_heap *heap = heap_of(TN_HEAP_LARGE);

    (void)unit_alloc(pool, 4 * GIB, stream);
    heap->segment_bytes = GIB;
    ck_assert_uint_eq(grow(TN_HEAP_LARGE, 2 * MIB, false), 256 * MIB);
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 5);
}
END_TEST

START_TEST(small_blocks_grow_ahead_by_32_mib_at_most)
{
    struct tn_heap *heap = heap_of(TN_HEAP_SMALL);

    heap->segment_bytes = 2 * GIB;
    ck_assert_uint_eq(grow(TN_HEAP_SMALL, GIB, false), GIB);
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 32); /* chunks of 32 MiB too */
    (void)unit_alloc(pool, 1, stream);
    ck_assert_uint_eq(grow(TN_HEAP_SMALL, GIB + 2 * MIB, false), 32 * MIB);
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 33);
}
END_TEST

START_TEST(growing_ahead_stays_in_the_room_of_the_segment)
{
    struct tn_heap *heap = heap_of(TN_HEAP_LARGE);

    heap->segment_bytes = 64 * MIB;
    ck_assert_uint_eq(grow(TN_HEAP_LARGE, 60 * MIB, true), 60 * MIB);
    (void)unit_alloc(pool, 60 * MIB, stream);
    (void)unit_alloc(pool, 4 * MIB, stream);
    ck_assert_uint_eq(heap->mapped_bytes, 64 * MIB);
    ck_assert_uint_eq(unit_stats(pool).segment_count, 1);
}
END_TEST

START_TEST(segments_double_from_32_mib)
{
    static const uint64_t sizes_mib[] = {32, 64, 128, 256};
    size_t i = 0;

    for (int block = 0; block < 15; block++) /* 480 MiB: four full segments */
        (void)unit_alloc(pool, 32 * MIB, stream);
    for (const struct tn_segment *segment = pool->segments; segment != NULL;
         segment = segment->next, i++) {
        ck_assert_uint_eq(segment->bytes, sizes_mib[i] * MIB);
        ck_assert_uint_eq(segment->index, i);
    }
    ck_assert_uint_eq(i, 4);
    ck_assert_uint_eq(heap_of(TN_HEAP_LARGE)->segment_bytes, 512 * MIB);
}
END_TEST

START_TEST(a_request_that_the_next_segment_could_not_hold_gets_its_own)
{
    void *large = unit_alloc(pool, 40 * MIB, stream);

    ck_assert_uint_eq(unit_segment(large)->bytes, 64 * MIB); /* slots are of 32 MiB */
    ck_assert_uint_eq(heap_of(TN_HEAP_LARGE)->segment_bytes, 32 * MIB);
    (void)unit_alloc(pool, 30 * MIB, stream);
    ck_assert_uint_eq(unit_stats(pool).segment_count, 2);
}
END_TEST

START_TEST(free_bytes_at_the_edge_are_part_of_the_growth)
{
    void *first = unit_alloc(pool, 3 * MIB, stream); /* of a chunk of 4 MiB */
    void *second = unit_alloc(pool, 4 * MIB, stream);

    ck_assert_ptr_eq((char *)first + 3 * MIB, second);
    ck_assert_uint_eq(unit_stats(pool).mapped_bytes, 8 * MIB);
    OK(tarn_pool_validate(pool));
}
END_TEST

START_TEST(another_heap_does_not_grow_in_a_segment_that_is_not_its_own)
{
    void *first = unit_alloc(pool, 2 * MIB, stream);
    void *second = unit_alloc(pool, 2 * MIB, other);

    ck_assert_ptr_ne(unit_segment(first), unit_segment(second));
    ck_assert_ptr_eq(unit_segment(first)->grower, unit_chunk(first)->heap);
}
END_TEST

START_TEST(a_heap_grows_in_a_segment_of_idle_memory)
{
    void *captured;
    tarn_graph *graph = unit_graph(pool, stream, 2 * MIB, &captured);
    void *block = unit_alloc(pool, 2 * MIB, other);

    ck_assert_ptr_eq(unit_segment(block), unit_segment(captured));
    ck_assert_ptr_ne(unit_chunk(block), unit_chunk(captured));
    ck_assert_ptr_eq(unit_segment(block)->grower, unit_chunk(block)->heap);
    OK(tarn_pool_validate(pool));
    (void)graph;
}
END_TEST

/* One driver call or host allocation after the other. */
START_TEST(a_growth_that_fails_maps_nothing)
{
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    struct tn_heap *heap = heap_of(TN_HEAP_LARGE);
    tarn_sim_ledger before = test_ledger();
    int64_t host;

    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 8));
    host = tn_host_outstanding();
    for (uint64_t nth = 1; nth <= 3; nth++) {
        for (size_t i = 0; i < 3; i++) {
            /* 62 MiB, frugally: five chunks */
            sim.plan_fault(calls[i], nth, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
            STATUS(TARN_ERR_DEVICE_MEMORY, tn_heap_grow(pool, heap, 62 * MIB, true));
            test_same_ledger(&before);
            ck_assert_uint_eq(pool->segment_count, 0);
            ck_assert_uint_eq(pool->counters.mapped_bytes, 0);
            ck_assert_uint_eq(pool->counters.mapped_peak_bytes, 0);
            ck_assert_uint_eq(atomic_load(&device->mapped_bytes), 0);
            ck_assert_uint_eq(heap->segment_bytes, 32 * MIB);
            OK(tn_pool_check(pool));
        }
    }
    ck_assert_int_le(tn_host_outstanding(), host + 1); /* the table of chunks may have grown */
    tn_pool_unlock(pool);
}
END_TEST

/* What the device has is mapped or cached, and the driver knows it, whoever has it. */
static void expect_charged(uint64_t mapped, uint64_t cached)
{
    OK(tn_chunk_cache_check(&device->cache));
    ck_assert_uint_eq(atomic_load(&device->mapped_bytes), mapped);
    ck_assert_uint_eq(tn_chunk_cache_bytes(&device->cache), cached);
    ck_assert_uint_eq(atomic_load(&device->charged_bytes), mapped + cached);
    ck_assert_uint_eq(test_ledger().handle_bytes, mapped + cached);
    ck_assert_uint_eq(test_ledger().mapped_bytes, mapped);
}

/* Chunks of 32, 16 and 8 MiB wait; a growth by 62 MiB takes them, and makes those of 4 and 2. */
static void cache_some(void)
{
    tarn_pool *gone = unit_pool(device);

    OK(tarn_free(unit_alloc(gone, 56 * MIB, stream)));
    OK(tarn_pool_destroy(gone));
    expect_charged(0, 56 * MIB);
}

START_TEST(growth_takes_what_the_cache_has_of_its_sizes)
{
    uint64_t created;

    cache_some();
    created = sim.call_count("cuMemCreate");
    ck_assert_uint_eq(grow(TN_HEAP_LARGE, 62 * MIB, true), 62 * MIB);
    ck_assert_uint_eq(sim.call_count("cuMemCreate"), created + 2);
    expect_charged(62 * MIB, 0);
    ck_assert_uint_eq(pool->counters.map_count, 5);
}
END_TEST

/* Each chunk goes back to where it came from, whichever call is refused. */
START_TEST(a_growth_that_fails_gives_the_cache_back_what_it_took)
{
    static const char *const calls[] = {"cuMemMap", "cuMemSetAccess", "cuMemCreate"};
    struct tn_heap *heap = heap_of(TN_HEAP_LARGE);

    cache_some();
    for (size_t i = 0; i < 3; i++) {
        uint64_t count = i < 2 ? 5 : 2;

        for (uint64_t nth = 1; nth <= count; nth++) {
            sim.plan_fault(calls[i], nth, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
            tn_pool_lock(pool);
            STATUS(TARN_ERR_DEVICE_MEMORY, tn_heap_grow(pool, heap, 62 * MIB, true));
            OK(tn_pool_check(pool));
            tn_pool_unlock(pool);
            ck_assert_uint_eq(sim.clear_fault(NULL), 1);
            expect_charged(0, 56 * MIB);
            ck_assert_uint_eq(atomic_load(&device->cache.count), 3);
            ck_assert_uint_eq(pool->counters.map_count, 0);
            ck_assert_uint_eq(pool->counters.unmap_count, 0);
        }
    }
    OK(tn_gpu_check(&device->gpu));
}
END_TEST

START_TEST(at_the_limit_of_the_device_the_cache_serves)
{
    struct tn_heap *heap = heap_of(TN_HEAP_LARGE);

    cache_some();
    OK(tarn_device_set_limit(device, 56 * MIB));
    tn_pool_lock(pool);
    STATUS(TARN_ERR_LIMIT, tn_heap_grow(pool, heap, 62 * MIB, true));
    unit_expect_sentence("has 56 MiB, mapped and cached");
    tn_pool_unlock(pool);
    expect_charged(0, 56 * MIB);
    ck_assert_uint_eq(grow(TN_HEAP_LARGE, 56 * MIB, false), 56 * MIB);
    expect_charged(56 * MIB, 0);
}
END_TEST

/* Unmapped for another pool: what it does not want goes no further than it must. */
START_TEST(chunks_unmapped_for_the_cache_are_there)
{
    bool unproven = false;

    OK(tarn_free(unit_alloc(pool, 56 * MIB, stream)));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_unmap_free(pool, 1, TN_UNMAPPED_TO_CACHE, &unproven), 0);
    ck_assert(unproven);
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_unmap_free(pool, 1, TN_UNMAPPED_TO_CACHE, &unproven), 8 * MIB);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    expect_charged(48 * MIB, 8 * MIB);
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_unmap_free(pool, 17 * MIB, TN_UNMAPPED_TO_DRIVER, &unproven),
                      48 * MIB);
    tn_pool_unlock(pool);
    expect_charged(0, 8 * MIB);
}
END_TEST

START_TEST(a_growth_without_host_memory_maps_nothing)
{
    struct tn_heap *heap = heap_of(TN_HEAP_LARGE);
    tarn_sim_ledger before = test_ledger();
    uint64_t failed = 1;
    int met = 0;

    tn_pool_lock(pool);
    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tn_heap_grow(pool, heap, 6 * MIB, true);
        failed = tn_host_plan_fault(0, false);
        if (failed == 0) {
            OK(status);
            break;
        }
        met += 1;
        ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
        test_same_ledger(&before);
        OK(tn_pool_check(pool));
    }
    ck_assert_int_ge(met, 3); /* block records, chunk records, the table of chunks */
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}
END_TEST

START_TEST(limits_of_pool_and_device_end_a_growth)
{
    tarn_pool *small = unit_pool_of(device, "small", 64 * MIB);
    void *address = NULL;

    (void)unit_alloc(small, 62 * MIB, stream); /* 64 MiB in one chunk */
    STATUS(TARN_ERR_LIMIT, tarn_alloc(small, 3 * MIB, 0, stream, &address));
    unit_expect_sentence("small");
    ck_assert_ptr_null(address);
    ck_assert_uint_eq(unit_stats(small).mapped_bytes, 64 * MIB);
    (void)unit_alloc(small, 2 * MIB, stream);
    OK(tarn_pool_validate(small));
}
END_TEST

START_TEST(near_a_limit_growth_is_frugal)
{
    tarn_pool *small = unit_pool_of(device, "small", 63 * MIB);

    (void)unit_alloc(small, 62 * MIB, stream);
    ck_assert_uint_eq(unit_stats(small).mapped_bytes, 62 * MIB);
    ck_assert_uint_eq(unit_stats(small).mapped_peak_bytes, 62 * MIB);
}
END_TEST

/* Seven chunks of 32 MiB in segments of 32, 64 and 128 MiB. */
static void fill_seven(void **blocks)
{
    for (int i = 0; i < 7; i++)
        blocks[i] = unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_eq(unit_stats(pool).segment_count, 3);
}

START_TEST(free_chunks_in_the_middle_are_unmapped)
{
    void *blocks[7];
    size_t freed = 0;
    struct tn_segment *segment;
    struct tn_block *hole;

    fill_seven(blocks);
    segment = unit_segment(blocks[4]);
    OK(tarn_free(blocks[4]));
    OK(tarn_free(blocks[5]));
    OK(tarn_pool_trim(pool, &freed));
    ck_assert_uint_eq(freed, 64 * MIB);
    hole = unit_block(blocks[4]);
    ck_assert_int_eq(hole->state, TN_BLOCK_UNMAPPED);
    ck_assert_uint_eq(tn_block_bytes(hole), 64 * MIB); /* two chunks, one hole */
    ck_assert_uint_eq(segment->unmapped_count, 1);
    ck_assert_uint_eq(unit_stats(pool).mapped_bytes, 160 * MIB);
    OK(tarn_pool_validate(pool));
    /* The hole is where the heap grows next. */
    ck_assert_ptr_eq(unit_alloc(pool, 32 * MIB, stream), blocks[4]);
    ck_assert_ptr_eq(unit_alloc(pool, 32 * MIB, stream), blocks[5]);
    OK(tarn_pool_validate(pool));
}
END_TEST

START_TEST(a_chunk_that_is_not_all_free_stays)
{
    void *first = unit_alloc(pool, 3 * MIB, stream); /* 4 MiB */
    void *second = unit_alloc(pool, 512 * 1024 + MIB, stream);
    size_t freed = 7;

    OK(tarn_free(first));
    OK(tarn_pool_trim(pool, &freed));
    ck_assert_uint_eq(freed, 0);
    OK(tarn_free(second));
    OK(tarn_pool_trim(pool, &freed));
    ck_assert_uint_eq(freed, unit_stats(pool).mapped_peak_bytes);
    ck_assert_uint_eq(unit_stats(pool).mapped_bytes, 0);
}
END_TEST

START_TEST(a_segment_without_chunks_is_given_back)
{
    void *blocks[7];

    fill_seven(blocks);
    OK(tarn_free(blocks[1]));
    OK(tarn_free(blocks[2])); /* the second segment */
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(unit_stats(pool).segment_count, 2);
    ck_assert_uint_eq(pool->segments->index, 0);
    ck_assert_uint_eq(pool->segments->next->index, 2);
    ck_assert_ptr_eq(pool->segments->next, pool->last_segment);
    OK(tarn_pool_validate(pool));
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_eq(pool->last_segment->index, 3); /* an index is not used again */
    for (int i = 0; i < 7; i++) {
        if (i != 1 && i != 2)
            OK(tarn_free(blocks[i]));
    }
    OK(tarn_pool_trim(pool, NULL));
    OK(tarn_pool_validate(pool));
}
END_TEST

START_TEST(what_is_not_proven_idle_stays_until_a_wait)
{
    void *address = unit_alloc(pool, 32 * MIB, stream);
    bool unproven = false;

    OK(tarn_free(address));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_unmap_free(pool, UINT64_MAX, TN_UNMAPPED_TO_DRIVER, &unproven), 0);
    ck_assert(unproven);
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    unproven = false;
    ck_assert_uint_eq(tn_pool_unmap_free(pool, UINT64_MAX, TN_UNMAPPED_TO_DRIVER, &unproven),
                      32 * MIB);
    ck_assert(!unproven);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}
END_TEST

START_TEST(memory_that_was_never_used_is_idle)
{
    bool unproven = false;

    OK(tarn_pool_reserve(pool, 64 * MIB, stream));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_unmap_free(pool, UINT64_MAX, TN_UNMAPPED_TO_DRIVER, &unproven),
                      66 * MIB); /* 2 MiB for small ones */
    ck_assert(!unproven);
    tn_pool_unlock(pool);
}
END_TEST

START_TEST(what_a_graph_holds_stays)
{
    void *captured;
    tarn_graph *graph = unit_graph(pool, stream, 64 * MIB, &captured);
    size_t freed = 7;

    OK(tarn_pool_trim(pool, &freed));
    ck_assert_uint_eq(freed, 0);
    ck_assert_ptr_nonnull(unit_chunk(captured));
    (void)graph;
}
END_TEST

START_TEST(a_hole_is_mapped_in_parts_and_unmapped_again)
{
    struct tn_heap *heap = heap_of(TN_HEAP_LARGE);
    void *anchor = unit_alloc(pool, 2 * MIB, stream);
    struct tn_segment *segment = unit_segment(anchor);
    tarn_sim_ledger before = test_ledger();
    struct tn_block *unmapped;

    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 16));
    unmapped = segment->last_block;
    ck_assert_int_eq(unmapped->state, TN_BLOCK_UNMAPPED);
    OK(tn_heap_map_at(pool, heap, unmapped, 10 * MIB, 6 * MIB));
    ck_assert_uint_eq(segment->unmapped_count, 2);
    ck_assert_ptr_null(tn_segment_chunk_at(segment, 8 * MIB));
    ck_assert_ptr_nonnull(tn_segment_chunk_at(segment, 10 * MIB));
    ck_assert_ptr_nonnull(tn_segment_chunk_at(segment, 14 * MIB));
    ck_assert_ptr_null(tn_segment_chunk_at(segment, 16 * MIB));
    OK(tn_pool_check(pool));
    tn_heap_unmap_at(pool, segment, 10 * MIB, 6 * MIB);
    ck_assert_uint_eq(segment->unmapped_count, 1);
    OK(tn_pool_check(pool));
    test_same_ledger(&before);
    OK(tn_heap_map_at(pool, heap, segment->last_block, 2 * MIB, 30 * MIB)); /* all of it */
    ck_assert_uint_eq(segment->unmapped_count, 0);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}
END_TEST

START_TEST(everything_goes_with_the_pool)
{
    tarn_pool *gone = unit_pool(device);
    tarn_sim_ledger before = test_ledger();
    int64_t host = tn_host_outstanding();
    uint64_t mapped;
    void *blocks[20];

    for (size_t i = 0; i < 20; i++)
        blocks[i] = unit_alloc(gone, (i + 1) * MIB / 2, i % 2 == 0 ? stream : other);
    for (size_t i = 0; i < 20; i++)
        OK(tarn_free(blocks[i]));
    mapped = unit_stats(gone).mapped_bytes;
    OK(tarn_pool_destroy(gone));
    ck_assert_uint_eq(tn_chunk_cache_bytes(&device->cache), mapped);
    ck_assert_uint_eq(test_ledger().mappings, before.mappings);
    ck_assert_uint_eq(atomic_load(&device->mapped_bytes), 0);
    unit_trim(device);
    test_same_ledger(&before);
    ck_assert_int_eq(tn_host_outstanding(), host);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grow");
    TCase *policy = tcase_create("policy");
    TCase *places = tcase_create("places");
    TCase *failures = tcase_create("failures");
    TCase *cache = tcase_create("cache");
    TCase *shrink = tcase_create("unmap");

    tcase_add_checked_fixture(policy, make_pool, NULL);
    tcase_add_loop_test(policy,
                        the_first_growth_takes_the_fewest_chunks_with_at_most_a_sixteenth_over, 0,
                        (int)(sizeof first_growths / sizeof first_growths[0]));
    tcase_add_test(policy, frugal_growth_maps_what_is_needed_to_the_page);
    tcase_add_test(policy, a_heap_grows_ahead_by_an_eighth_of_what_it_has);
    tcase_add_test(policy, growing_ahead_is_for_needs_below_it);
    tcase_add_test(policy, growing_ahead_ends_at_256_mib);
    tcase_add_test(policy, small_blocks_grow_ahead_by_32_mib_at_most);
    tcase_add_test(policy, growing_ahead_stays_in_the_room_of_the_segment);
    suite_add_tcase(suite, policy);
    tcase_add_checked_fixture(places, make_pool, NULL);
    tcase_add_test(places, segments_double_from_32_mib);
    tcase_add_test(places, a_request_that_the_next_segment_could_not_hold_gets_its_own);
    tcase_add_test(places, free_bytes_at_the_edge_are_part_of_the_growth);
    tcase_add_test(places, another_heap_does_not_grow_in_a_segment_that_is_not_its_own);
    tcase_add_test(places, a_heap_grows_in_a_segment_of_idle_memory);
    tcase_add_test(places, a_hole_is_mapped_in_parts_and_unmapped_again);
    suite_add_tcase(suite, places);
    tcase_add_checked_fixture(failures, make_pool, NULL);
    tcase_add_test(failures, a_growth_that_fails_maps_nothing);
    tcase_add_test(failures, a_growth_without_host_memory_maps_nothing);
    tcase_add_test(failures, limits_of_pool_and_device_end_a_growth);
    tcase_add_test(failures, near_a_limit_growth_is_frugal);
    suite_add_tcase(suite, failures);
    tcase_add_checked_fixture(cache, make_pool, NULL);
    tcase_add_test(cache, growth_takes_what_the_cache_has_of_its_sizes);
    tcase_add_test(cache, a_growth_that_fails_gives_the_cache_back_what_it_took);
    tcase_add_test(cache, at_the_limit_of_the_device_the_cache_serves);
    tcase_add_test(cache, chunks_unmapped_for_the_cache_are_there);
    suite_add_tcase(suite, cache);
    tcase_add_checked_fixture(shrink, make_pool, NULL);
    tcase_add_test(shrink, free_chunks_in_the_middle_are_unmapped);
    tcase_add_test(shrink, a_chunk_that_is_not_all_free_stays);
    tcase_add_test(shrink, a_segment_without_chunks_is_given_back);
    tcase_add_test(shrink, what_is_not_proven_idle_stays_until_a_wait);
    tcase_add_test(shrink, memory_that_was_never_used_is_idle);
    tcase_add_test(shrink, what_a_graph_holds_stays);
    tcase_add_test(shrink, everything_goes_with_the_pool);
    suite_add_tcase(suite, shrink);
    return test_main(suite);
}
