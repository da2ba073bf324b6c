// SPDX-License-Identifier: Apache-2.0
/* A growth takes the fewest chunks which cover the need with at most 1/16 over. Alternatively, if
 * this is more, it takes a single chunk of 1/8 of the heap's mapping in this run of growths: at
 * most 256 MiB, or 32 MiB for small blocks.
 *
 * A run of growths is the time in which a program comes up. The run lasts while the pool frees,
 * until the next growth, half or less of its allocations. The driver's cost is per chunk: some 45
 * us up to 64 MiB, and 71 us for 256 MiB. 8 GiB in blocks of 32 MiB are some 50 chunks and 3 ms in
 * a run, and 256 chunks and 11.6 ms without.
 *
 * After the run a program has most of its memory. The 256 MiB ahead would be 1.6 % of 16 GiB, more
 * than a good fit loses. Memory is then mapped to the page, each time only as much as is missing.
 * Each new peak is then a growth, of 45 us a chunk: a program that trains took 200 chunks more for
 * its 17 GiB, once.
 *
 * A capture's own heap is always in a run: it begins with nothing, each growth keeps the capture
 * waiting, and the memory which it leaves serves the next capture.
 *
 * Segments: the free end of a full segment cannot be extended, and no block reaches over into the
 * next segment. With large blocks this costs much: a trace of images by diffusion took 7 % more
 * memory with segments that double from 32 MiB. Addresses cost nothing until there are very many
 * heaps. A heap of large blocks therefore has a single slot first, enough for most streams, and
 * then as much as a quarter of the device's memory. Other heaps, and later segments, double.
 *
 * Trade-offs: a run that ends with the program's last growth leaves up to 1/8 of itself unused.
 * This memory is proven idle, since it was never used, and is the first which a trim or the ladder
 * gives back. */
#include "pools/ahead.h"

#include "base/contract.h"
#include "pools/device.h"

static const uint64_t ahead_bytes_max[TN_HEAP_KINDS] = {32 * TN_MIB, 256 * TN_MIB};

/* Segments double up to this size. They come and go with trims, so the number ever made does not
 * say how many exist. */
static const uint64_t segment_bytes_max = 64 * TN_GIB;

enum {
    AHEAD_PART = 8,
    OVER_PART = 16,
    SEGMENT_DEVICE_PART = 4, /* a large heap's second segment, of the device's memory */
    /* At most this part of a region: many heaps may have such a segment. */
    SEGMENT_REGION_PART = 64,
};

uint64_t tn_chunk_count(enum tn_heap_kind kind, uint64_t bytes)
{
    uint64_t largest = tn_chunk_bytes_max(kind);

    TN_ASSERT(bytes % TN_PAGE_BYTES == 0);
    return bytes / largest + (uint64_t)__builtin_popcountll(bytes % largest);
}

/* The bytes which the limits of pool and device still leave to map; the cache counts against the
 * device's limit. */
static uint64_t room_in_limits(const tarn_pool *pool)
{
    const tarn_device *device = pool->device;
    uint64_t device_limit = tn_budget_limit(&device->budget);
    uint64_t charged = atomic_load(&device->budget.charged_bytes);

    TN_ASSERT(tn_pool_is_locked(pool));
    return tn_min(device_limit - tn_min(device_limit, charged), tn_pool_limit_room(pool));
}

uint64_t tn_growth_run(const tarn_pool *pool, const struct tn_heap *heap)
{
    uint64_t allocated = pool->counters.alloc_count - heap->run_alloc_count;
    uint64_t freed = pool->counters.free_count - heap->run_free_count;

    TN_ASSERT(heap->arena->pool == pool);
    TN_ASSERT(pool->counters.alloc_count >= heap->run_alloc_count);
    TN_ASSERT(pool->counters.free_count >= heap->run_free_count);
    if (tn_arena_is_captured(heap->arena))
        return heap->mapped_bytes;
    return freed <= allocated / 2 ? heap->run_bytes : 0;
}

uint64_t tn_growth_bytes(const tarn_pool *pool, const struct tn_heap *heap, uint64_t run,
                         uint64_t need, uint64_t room, uint64_t left)
{
    uint64_t largest = tn_chunk_bytes_max(heap->kind);
    uint64_t limits = room_in_limits(pool);
    uint64_t best = need;

    TN_ASSERT(need % TN_PAGE_BYTES == 0 && need <= room);
    room = tn_min(room, limits - tn_min(limits, left));
    if (room <= need)
        return need;
    if (run / AHEAD_PART >= TN_PAGE_BYTES) {
        uint64_t ahead =
            tn_min((uint64_t)1 << tn_log2_floor(run / AHEAD_PART), ahead_bytes_max[heap->kind]);

        if (ahead >= need && ahead <= room)
            return ahead;
    }
    for (uint64_t step = TN_PAGE_BYTES; step <= largest; step *= 2) {
        uint64_t rounded = tn_round_up(need, step);

        if (rounded - need <= need / OVER_PART && rounded <= room &&
            tn_chunk_count(heap->kind, rounded) < tn_chunk_count(heap->kind, best))
            best = rounded;
    }
    TN_ASSERT(best % TN_PAGE_BYTES == 0 && best >= need && best <= room);
    return best;
}

void tn_growth_enter(const tarn_pool *pool, struct tn_heap *heap, uint64_t run, uint64_t bytes)
{
    TN_ASSERT(bytes > 0 && bytes % TN_PAGE_BYTES == 0);
    heap->run_bytes = run + bytes;
    heap->run_alloc_count = pool->counters.alloc_count;
    heap->run_free_count = pool->counters.free_count;
}

uint64_t tn_segment_bytes_after(const tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes)
{
    const tarn_device *device = pool->device;
    uint64_t part = tn_min(device->gpu.total_bytes / SEGMENT_DEVICE_PART,
                           device->regions.region_bytes / SEGMENT_REGION_PART);

    TN_ASSERT(bytes > 0 && bytes % TN_PAGE_BYTES == 0);
    bytes *= 2;
    if (heap->kind == TN_HEAP_LARGE)
        bytes = tn_max(bytes, (uint64_t)1 << tn_log2_floor(part));
    return tn_min(bytes, segment_bytes_max);
}
