// SPDX-License-Identifier: Apache-2.0
/* Where chunks are mapped, and what goes again. */
#include <errno.h>

#include "driver/idle.h"
#include "heap/steady.h"
#include "pools/allocate.h"
#include "pools/arena_table.h"
#include "support/liar.h"
#include "unit/one_pool.h"

GROUP(places, make_pool)

TEST(places, free_bytes_at_the_edge_are_part_of_the_growth)
{
    void *first = unit_alloc(pool, 3 * MIB, stream); /* of a chunk of 4 MiB */
    void *second = unit_alloc(pool, 4 * MIB, stream);

    ck_assert_ptr_eq((char *)first + 3 * MIB, second);
    ck_assert_uint_eq(unit_stats(pool).mapped_bytes, 8 * MIB);
    OK(tarn_pool_validate(pool));
}

TEST(places, free_bytes_at_the_edge_are_the_last_to_be_cut)
{
    void *first = unit_alloc(pool, 16 * MIB, stream);
    void *second = unit_alloc(pool, 5 * MIB, stream);

    ck_assert_uint_eq(unit_grow(pool, stream, TN_HEAP_LARGE, 6 * MIB, true), 6 * MIB);
    ck_assert_uint_eq(tn_block_bytes(unit_block(second)->next), 7 * MIB);
    OK(tarn_free(first));
    ck_assert_ptr_eq(unit_alloc(pool, 7 * MIB, stream),
                     first); /* though it would fit there exactly */
    ck_assert_ptr_eq(unit_alloc(pool, 10 * MIB, stream), (char *)second + 5 * MIB);
    ck_assert_uint_eq(unit_heap(pool, stream, TN_HEAP_LARGE)->mapped_bytes, 32 * MIB);
    OK(tarn_pool_validate(pool));
}

TEST(places, another_heap_does_not_grow_in_a_segment_that_is_not_its_own)
{
    void *first = unit_alloc(pool, 2 * MIB, stream);
    void *second = unit_alloc(pool, 2 * MIB, other);

    ck_assert_ptr_ne(unit_segment(first), unit_segment(second));
    ck_assert_ptr_eq(unit_segment(first)->grower, unit_chunk(first)->heap);
}

TEST(places, a_heap_grows_in_a_segment_of_idle_memory)
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

static int served; /* allocations by the other stream while the driver made memory */

static void serve_other(void)
{
    const struct tn_request request = {4096, 512, unit_order(device, other)};
    void *address = NULL;

    ck_assert_int_eq(pthread_mutex_trylock(&device->growing.mutex), EBUSY); /* one at a time */
    ck_assert(unit_try_alloc(pool, request.order, request.requested, request.alignment, &address));
    ck_assert(tn_steady_free((uint64_t)(uintptr_t)address));
    served += 1;
}

TEST(places, others_go_on_while_the_driver_maps)
{
    const struct tn_driver *driver = device->gpu.driver;
    const struct tn_driver calling = test_calling_while_it_creates(driver, serve_other);
    void *edge = unit_alloc(pool, 2 * MIB, stream);

    (void)unit_alloc(pool, 4096, other); /* its arena has free memory then */
    device->gpu.driver = &calling;
    (void)unit_alloc(pool, 30 * MIB, stream);
    OK(tarn_pool_reserve(pool, 2 * MIB, other));
    device->gpu.driver = driver;
    ck_assert_int_ge(served, 5); /* four chunks, and one for idle memory */
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 3);
    ck_assert_uint_eq(unit_stats(pool).alloc_count, 3 + (uint64_t)served);
    OK(tarn_free(edge));
}

GROUP(failures, make_pool)

/* One driver call or host allocation after the other. */
TEST(failures, a_growth_that_fails_maps_nothing)
{
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);
    tarn_sim_ledger before = test_ledger();
    int64_t host;

    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 8));
    host = tn_host_outstanding();
    sim.plan_fault(calls[0], 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_heap_grow(pool, heap, 62 * MIB, true));
    /* The table of chunks has grown, and the set of its free ids. */
    ck_assert_int_le(tn_host_outstanding(), host + 2);
    host = tn_host_outstanding();
    for (uint64_t nth = 1; nth <= 3; nth++) {
        for (size_t i = 0; i < 3; i++) {
            /* 62 MiB, frugally: five chunks */
            sim.plan_fault(calls[i], nth, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
            STATUS(TARN_ERR_DEVICE_MEMORY, tn_heap_grow(pool, heap, 62 * MIB, true));
            test_same_ledger(&before);
            ck_assert_uint_eq(tn_pool_segment_count(pool), 0);
            ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 0);
            ck_assert_uint_eq(pool->counters.metrics[TN_CHUNK_BYTES].peak[TN_ALL_KINDS], 0);
            ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 0);
            ck_assert_uint_eq(heap->segment_bytes, 32 * MIB);
            OK(tn_pool_check(pool));
        }
    }
    ck_assert_int_eq(tn_host_outstanding(), host);
    tn_pool_unlock(pool);
}

/* What the device has is mapped or cached, and the driver knows it, whoever has it. */
static void expect_charged(uint64_t mapped, uint64_t cached)
{
    OK(tn_memory_cache_check(&device->cache));
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), mapped);
    ck_assert_uint_eq(tn_memory_cache_bytes(&device->cache), cached);
    ck_assert_uint_eq(atomic_load(&device->budget.charged_bytes), mapped + cached);
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

GROUP(cache, make_pool)

TEST(cache, growth_takes_what_the_cache_has_of_its_sizes)
{
    uint64_t created;

    cache_some();
    created = sim.call_count("cuMemCreate");
    ck_assert_uint_eq(unit_grow(pool, stream, TN_HEAP_LARGE, 62 * MIB, true), 62 * MIB);
    ck_assert_uint_eq(sim.call_count("cuMemCreate"), created + 2);
    expect_charged(62 * MIB, 0);
    ck_assert_uint_eq(tn_pool_map_count(pool), 5);
}

/* Each chunk goes back to where it came from, whichever call is refused. */
TEST(cache, a_growth_that_fails_gives_the_cache_back_what_it_took)
{
    static const char *const calls[] = {"cuMemMap", "cuMemSetAccess", "cuMemCreate"};
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

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
            ck_assert_uint_eq(tn_pool_map_count(pool), 0);
            ck_assert_uint_eq(tn_pool_unmap_count(pool), 0);
        }
    }
    OK(tn_gpu_check(&device->gpu));
}

TEST(cache, at_the_limit_of_the_device_the_cache_serves)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    cache_some();
    OK(tarn_device_set_limit(device, 56 * MIB));
    tn_pool_lock(pool);
    STATUS(TARN_ERR_LIMIT, tn_heap_grow(pool, heap, 62 * MIB, true));
    unit_expect_sentence("has 56 MiB, mapped and cached");
    tn_pool_unlock(pool);
    expect_charged(0, 56 * MIB);
    ck_assert_uint_eq(unit_grow(pool, stream, TN_HEAP_LARGE, 56 * MIB, false), 56 * MIB);
    expect_charged(56 * MIB, 0);
}

/* Unmapped for another pool: what it does not want goes no further than it must. */
TEST(cache, chunks_unmapped_for_the_cache_are_there)
{
    bool unproven = false;

    OK(tarn_free(unit_alloc(pool, 56 * MIB, stream)));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_unmap_free(pool, 1, TN_UNMAPPED_TO_CACHE, &unproven, NULL), 0);
    ck_assert(unproven);
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_unmap_free(pool, 1, TN_UNMAPPED_TO_CACHE, &unproven, NULL), 8 * MIB);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    expect_charged(48 * MIB, 8 * MIB);
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_unmap_free(pool, 17 * MIB, TN_UNMAPPED_TO_DRIVER, &unproven, NULL),
                      48 * MIB);
    tn_pool_unlock(pool);
    expect_charged(0, 8 * MIB);
}

TEST(failures, a_growth_without_host_memory_maps_nothing)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);
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

/* 18 blocks fill the first index of their chunk. The block begins in the free end of that, or, aligned, behind it. */
TEST(failures, a_growth_without_host_memory_for_its_blocks_place_maps_nothing)
{
    static const uint64_t alignments[] = {512, 2 * TN_MIB};

    for (int i = 0; i < 2; i++) {
        struct tn_request request = {512 << 10, alignments[i], unit_order(device, stream)};
        tarn_pool *fresh = unit_pool(device);
        void *address = NULL;
        uint64_t mapped;
        uint64_t failed = 1;

        for (int k = 0; k < 18; k++)
            (void)unit_alloc(fresh, k < 15 ? 4096 : 512 << 10, stream);
        mapped = unit_stats(fresh).mapped_bytes;
        ck_assert_uint_eq(mapped, 2 * TN_MIB);
        for (uint64_t nth = 1; failed > 0; nth++) {
            tarn_status status;

            (void)tn_host_plan_fault(nth, false);
            status = tn_pool_allocate(fresh, &request, NULL, &address);
            failed = tn_host_plan_fault(0, false);
            STATUS(failed > 0 ? TARN_ERR_HOST_MEMORY : TARN_OK, status);
            if (failed > 0)
                ck_assert_uint_eq(unit_stats(fresh).mapped_bytes, mapped);
        }
        ck_assert_uint_gt(unit_stats(fresh).mapped_bytes, mapped);
        OK(tarn_pool_validate(fresh));
    }
}

TEST(failures, limits_of_pool_and_device_end_a_growth)
{
    tarn_pool *small = unit_pool_of(device, "small", 64 * MIB);
    void *address = NULL;

    (void)unit_alloc(small, 62 * MIB, stream); /* 64 MiB in one chunk */
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(small, 3 * MIB, 0, stream, &address));
    unit_expect_sentence("small");
    ck_assert_ptr_null(address);
    ck_assert_uint_eq(unit_stats(small).mapped_bytes, 64 * MIB);
    (void)unit_alloc(small, 2 * MIB, stream);
    OK(tarn_pool_validate(small));
}

TEST(failures, near_a_limit_growth_is_frugal)
{
    tarn_pool *small = unit_pool_of(device, "small", 63 * MIB);

    (void)unit_alloc(small, 62 * MIB, stream);
    ck_assert_uint_eq(unit_stats(small).mapped_bytes, 62 * MIB);
    ck_assert_uint_eq(unit_stats(small).mapped_peak_bytes, 62 * MIB);
}

/* Seven chunks of 32 MiB in segments of 32, 64 and 128 MiB. */
static void fill_seven(void **blocks)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    for (int i = 0; i < 7; i++) {
        heap->segment_bytes = i < 1 ? 32 * MIB : i < 3 ? 64 * MIB : 128 * MIB;
        blocks[i] = unit_alloc(pool, 32 * MIB, stream);
    }
    ck_assert_uint_eq(unit_stats(pool).segment_count, 3);
}

GROUP(unmap, make_pool)

TEST(unmap, free_chunks_in_the_middle_are_unmapped)
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

/* Another pool gets the memory, and has a chunk of its own for it. */
TEST(unmap, a_chunk_ends_with_its_pool_and_its_memory_goes_to_the_cache)
{
    tarn_pool *brief = unit_pool(device);
    void *address = unit_alloc(brief, 4096, stream);
    struct tn_chunk *chunk = unit_chunk(address);
    struct tn_memory *memory = chunk->memory;

    ck_assert_ptr_nonnull(chunk->live);
    OK(tarn_free(address));
    OK(tarn_pool_destroy(brief));
    ck_assert_ptr_eq(device->cache.newest, memory);
    ck_assert_ptr_null(atomic_load(&chunk->segment));
    ck_assert_ptr_null(chunk->live);
    ck_assert(!tn_live_has_room(chunk));
}

/* A pause will take memory away: blocks, owner and address are the chunk's. */
TEST(unmap, a_chunk_without_memory_keeps_blocks_owner_and_address)
{
    char *kept = unit_alloc(pool, 4096, stream);
    char *freed = unit_alloc(pool, 4096, stream);
    struct tn_chunk *chunk = unit_chunk(kept);
    struct tn_metric *mapped = &pool->counters.metrics[TN_CHUNK_BYTES];
    struct tn_memory *memory;

    test_fill(stream, kept, 5, 1024);
    test_synchronize(stream);
    memory = tn_chunk_unmap(chunk);
    tn_metric_remove(mapped, (enum tn_heap_kind)chunk->kind, chunk->bytes);
    OK(tarn_pool_validate(pool));
    OK(tarn_free(freed));
    ck_assert_ptr_eq(unit_alloc(pool, 4096, stream), freed);
    OK(tarn_pool_validate(pool));
    OK(tn_chunk_map(chunk, memory, 0));
    tn_metric_add(mapped, (enum tn_heap_kind)chunk->kind, chunk->bytes);
    OK(tarn_pool_validate(pool));
    test_expect_words(stream, kept, 5, 1024);
}

TEST(unmap, a_chunk_that_is_not_all_free_stays)
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

TEST(unmap, a_segment_without_chunks_is_given_back)
{
    void *blocks[7];

    fill_seven(blocks);
    OK(tarn_free(blocks[1]));
    OK(tarn_free(blocks[2])); /* the second segment */
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(unit_stats(pool).segment_count, 2);
    ck_assert_uint_eq(pool->segments.first->index, 0);
    ck_assert_uint_eq(pool->segments.first->next->index, 2);
    ck_assert_ptr_eq(pool->segments.first->next, pool->segments.last);
    OK(tarn_pool_validate(pool));
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_eq(pool->segments.last->index, 3); /* an index is not used again */
    for (int i = 0; i < 7; i++) {
        if (i != 1 && i != 2)
            OK(tarn_free(blocks[i]));
    }
    OK(tarn_pool_trim(pool, NULL));
    OK(tarn_pool_validate(pool));
}

TEST(unmap, what_is_not_proven_idle_stays_until_a_wait)
{
    void *address = unit_alloc(pool, 32 * MIB, stream);
    bool unproven = false;

    OK(tarn_free(address));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_unmap_free(pool, UINT64_MAX, TN_UNMAPPED_TO_DRIVER, &unproven, NULL),
                      0);
    ck_assert(unproven);
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    unproven = false;
    ck_assert_uint_eq(tn_pool_unmap_free(pool, UINT64_MAX, TN_UNMAPPED_TO_DRIVER, &unproven, NULL),
                      32 * MIB);
    ck_assert(!unproven);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

TEST(unmap, memory_that_was_never_used_is_idle)
{
    bool unproven = false;

    OK(tarn_pool_reserve(pool, 64 * MIB, stream));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_unmap_free(pool, UINT64_MAX, TN_UNMAPPED_TO_DRIVER, &unproven, NULL),
                      66 * MIB); /* 2 MiB for small ones */
    ck_assert(!unproven);
    tn_pool_unlock(pool);
}

TEST(unmap, what_a_graph_holds_stays)
{
    void *captured;
    tarn_graph *graph = unit_graph(pool, stream, 64 * MIB, &captured);
    size_t freed = 7;

    OK(tarn_pool_trim(pool, &freed));
    ck_assert_uint_eq(freed, 0);
    ck_assert_ptr_nonnull(unit_chunk(captured));
    (void)graph;
}

TEST(places, a_hole_is_mapped_in_parts_and_unmapped_again)
{
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);
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

TEST(unmap, everything_goes_with_the_pool)
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
    ck_assert_uint_eq(tn_memory_cache_bytes(&device->cache), mapped);
    ck_assert_uint_eq(test_ledger().mappings, before.mappings);
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 0);
    unit_trim(device);
    test_same_ledger(&before);
    ck_assert_int_eq(tn_host_outstanding(), host);
}

/* Captures a graph with blocks of these bytes in all, which it frees. */
static tarn_graph *graph_of(uint64_t bytes, size_t count)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *blocks[4];

    ck_assert_uint_le(count, 4);
    for (size_t i = 0; i < count; i++)
        blocks[i] = unit_alloc(pool, bytes / count, stream);
    test_fill(stream, blocks[0], 7, 128);
    for (size_t i = 0; i < count; i++)
        OK(tarn_free(blocks[i]));
    return unit_end(capture);
}

/* 200 graphs need up to 52 MiB each. _i: 0: in ascending order; else in a random one; the block of
 * each is in one piece, or in up to four. */
TEST_LOOP(places, graphs_in_any_order_need_hardly_more_than_the_largest, 0, 21)
{
    enum { GRAPHS = 200 };
    tarn_graph *graphs[GRAPHS];
    uint32_t steps[GRAPHS];
    uint64_t random = (uint64_t)_i * 7919;

    for (uint32_t i = 0; i < GRAPHS; i++)
        steps[i] = i + 1;
    for (uint32_t i = GRAPHS - 1; i > 0 && _i > 0; i--) {
        uint32_t with =
            (uint32_t)((random = random * 6364136223846793005u + 1442695040888963407u) >> 33) %
            (i + 1);
        uint32_t step = steps[i];

        steps[i] = steps[with];
        steps[with] = step;
    }
    for (size_t i = 0; i < GRAPHS; i++)
        graphs[i] = graph_of(steps[i] * (52 * MIB / GRAPHS), (size_t)_i % 4 + 1);
    ck_assert_uint_ge(unit_stats(pool).mapped_bytes, 51 * MIB);
    ck_assert_uint_le(unit_stats(pool).mapped_bytes, 64 * MIB);
    OK(tarn_pool_validate(pool));
    for (size_t i = 0; i < GRAPHS; i++)
        OK(tarn_graph_destroy(graphs[i]));
}

/* Two captures are under way: what the first fails to extend serves the second. */
TEST(places, a_capture_that_cannot_grow_takes_nothing)
{
    tarn_graph *graph = unit_graph(pool, stream, 32 * MIB, NULL);
    tarn_capture *first;
    tarn_capture *second;
    void *address;

    OK(tarn_pool_set_limit(pool, unit_stats(pool).mapped_bytes));
    first = unit_begin(pool, stream);
    second = unit_begin(pool, other);
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(pool, 64 * MIB, 0, stream, &address));
    (void)unit_alloc(pool, 32 * MIB, other);
    OK(tarn_pool_validate(pool));
    OK(tarn_graph_destroy(unit_end(second)));
    OK(tarn_graph_destroy(unit_end(first)));
    OK(tarn_graph_destroy(graph));
}
