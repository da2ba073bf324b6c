// SPDX-License-Identifier: Apache-2.0
/* Memory moves in whole chunks (pools/moves.h). Chunks of large heaps are therefore small enough to
 * be free as a whole often. At most they are the largest of
 *
 * - 32 MiB;
 * - 1/64 of the heap, up to 256 MiB;
 * - a quarter of their block, up to 128 MiB;
 * - 1/32 of their block.
 *
 * Where more than 1/50 of a heap is stuck, that is, free in chunks which are partly used, chunks are
 * half as large; where more than 1/25 is, a quarter. Chunks made from then on can move where the
 * others cannot. The nineteen programs of docs/traces.md peaked at 1.037 of their need, not 1.045,
 * and the driver had 1.4 times as much to do.
 *
 * From 64 MiB on a block's chunks end within a page of the block, and go with the block. Once the
 * block is freed, smaller ones are cut from its chunks. Each of them keeps a whole chunk in place.
 * Diffusion with blocks of 2 GiB peaked at 1.10 of its need with chunks of 256 MiB, and peaks at
 * 1.07 with 128 MiB. A capture's memory does not move, and reserved memory is of no block yet: there
 * a quarter has no such limit, and the driver has fewer chunks to map.
 *
 * For smaller blocks a growth takes the fewest chunks which cover the need with at most 1/16 over.
 * Alternatively, if this is more, it takes a single chunk of 1/8 of the heap's mapping in this run
 * of growths: at most 256 MiB for blocks of 32 MiB and more, 1/64 of the heap and 64 MiB at least
 * for others, 32 MiB for small blocks. Near a limit it does not: memory ahead would be lacking
 * elsewhere. Each free writes to its chunk's record: with 20 GiB in chunks of 64 MiB a free of
 * 10,000 random blocks took a tenth longer than with chunks of 256 MiB.
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
 * then as much as a quarter of the device's memory. What a single slot has left then moves. A
 * graph's memory cannot move: a capture's heap has 1/16 of the device's memory first. Other heaps,
 * and later segments, double.
 *
 * Trade-offs: a run that ends with the program's last growth leaves up to 1/8 of itself unused.
 * This memory is the first that moves, and since it was never used, the first which a trim or the
 * ladder gives back. */
#include "pools/ahead.h"

#include "base/contract.h"
#include "pools/device.h"

static const uint64_t ahead_bytes_max[TN_HEAP_KINDS] = {32 * TN_MIB, 256 * TN_MIB};

/* Segments double up to this size. They come and go with trims, so the number ever made does not
 * say how many exist. */
static const uint64_t segment_bytes_max = 64 * TN_GIB;

/* From this size on the chunks of a block end with it. */
#define OWN_BYTES_MIN (64 * TN_MIB)

/* The largest chunk in a large heap is never below this size. */
#define CHUNK_BYTES_LEAST (32 * TN_MIB)

/* From this size on a block's chunks are a smaller part of the block. */
#define CHUNK_BLOCK_BYTES_MAX (128 * TN_MIB)

/* Blocks from this size on are few in a chunk ahead. A chunk with smaller ones, of all sizes, is
 * hardly ever free as a whole. */
#define SOLE_BYTES_MIN (32 * TN_MIB)
#define SHARED_AHEAD_BYTES_LEAST (64 * TN_MIB)

enum {
    CHUNK_BLOCK_PART = 4,
    CHUNK_HUGE_BLOCK_PART = 32, /* a free writes to the record of each chunk */
    CHUNK_HEAP_PART = 64,
    STUCK_PART = 50,        /* of a heap: its chunks are halved; */
    VERY_STUCK_PART = 25,   /* and halved again */
    STUCK_LOOKS_MAX = 1024, /* blocks */
    AHEAD_PART = 8,
    LIMIT_PART = 16, /* of what the limits leave: more is not mapped ahead */
    OVER_PART = 16,
    SEGMENT_DEVICE_PART = 4,  /* a large heap's second segment, of the device's memory */
    SEGMENT_CAPTURE_PART = 4, /* a capture's first, of that: graphs hold what would else move */
    /* At most this part of a region: many heaps may have such a segment. */
    SEGMENT_REGION_PART = 64,
};

uint64_t tn_growth_chunk_count(struct tn_growth_size size)
{
    TN_ASSERT(size.bytes % TN_PAGE_BYTES == 0 && tn_is_power_of_two(size.chunk_bytes_max));
    return size.bytes / size.chunk_bytes_max +
           (uint64_t)__builtin_popcountll(size.bytes % size.chunk_bytes_max);
}

/* The largest chunk for a block of this size, as far as the block decides. */
static uint64_t chunk_bytes_of_block(const struct tn_heap *heap, uint64_t block_bytes)
{
    uint64_t part = block_bytes / CHUNK_BLOCK_PART;

    if (tn_arena_serves_captures(heap->arena))
        return part;
    return tn_max(tn_min(part, CHUNK_BLOCK_BYTES_MAX), block_bytes / CHUNK_HUGE_BLOCK_PART);
}

/* The bytes of the FREE block in chunks that are not all inside it. At the end of a segment they are
 * ahead of need. */
static uint64_t stuck_bytes_of(const struct tn_block *block)
{
    const struct tn_chunk *first = tn_block_chunk_at(block, block->offset);
    const struct tn_chunk *last = tn_block_chunk_at(block, tn_block_end(block) - 1);
    uint64_t stuck = 0;

    TN_ASSERT(block->state == TN_BLOCK_FREE);
    if (block->extends && block->next->next == NULL)
        return 0;
    if (first == last)
        return first->bytes > tn_block_bytes(block) ? tn_block_bytes(block) : 0;
    if (first->offset < block->offset)
        stuck += tn_chunk_end(first) - block->offset;
    if (tn_chunk_end(last) > tn_block_end(block))
        stuck += tn_block_end(block) - last->offset;
    return stuck;
}

/* How often the heap's chunks are halved, since so much is stuck in larger ones. */
static unsigned int halvings(const struct tn_heap *heap)
{
    const struct tn_block *block = NULL;
    uint64_t stuck = 0;

    if (tn_arena_serves_captures(heap->arena))
        return 0; /* memory of graphs does not move */
    if (tn_bins_may_have(&heap->bins, TN_PAGE_BYTES))
        block = tn_bins_find(&heap->bins, TN_PAGE_BYTES);
    for (int left = STUCK_LOOKS_MAX; block != NULL && left > 0; left--) {
        stuck += stuck_bytes_of(block);
        block = tn_bins_next(&heap->bins, block, TN_PAGE_BYTES);
    }
    return (stuck > heap->mapped_bytes / STUCK_PART) +
           (unsigned int)(stuck > heap->mapped_bytes / VERY_STUCK_PART);
}

/* The largest chunk for a block of this size. */
static uint64_t chunk_bytes_max(const struct tn_heap *heap, uint64_t block_bytes)
{
    uint64_t most = tn_chunk_bytes_max(heap->kind);
    uint64_t part = tn_min(heap->mapped_bytes / CHUNK_HEAP_PART, ahead_bytes_max[heap->kind]);

    if (heap->kind == TN_HEAP_SMALL)
        return most;
    part = tn_max(tn_max(part, chunk_bytes_of_block(heap, block_bytes)), CHUNK_BYTES_LEAST);
    return tn_min((uint64_t)1 << tn_log2_floor(part), most) >> halvings(heap);
}

/* The bytes which the limits of pool and device still leave to map; the cache counts against the
 * device's limit. */
static uint64_t room_in_limits(const tarn_pool *pool)
{
    const struct tn_budget *budget = tn_pool_budget(pool);
    uint64_t limit = tn_budget_limit(budget);
    uint64_t charged = atomic_load(&budget->charged_bytes);

    TN_ASSERT(tn_pool_is_locked(pool));
    return tn_min(limit - tn_min(limit, charged), tn_pool_limit_room(pool));
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

/* The largest chunk ahead that many blocks share. */
static uint64_t shared_ahead_bytes_max(const struct tn_heap *heap)
{
    uint64_t part = tn_max(heap->mapped_bytes / CHUNK_HEAP_PART, SHARED_AHEAD_BYTES_LEAST);

    return (uint64_t)1 << tn_log2_floor(part);
}

/* A single chunk ahead of need; 0: none. */
static uint64_t bytes_ahead(const struct tn_heap *heap, uint64_t run, uint64_t block_bytes,
                            uint64_t room)
{
    uint64_t ahead;

    if (run / AHEAD_PART < TN_PAGE_BYTES)
        return 0;
    ahead = tn_min((uint64_t)1 << tn_log2_floor(run / AHEAD_PART), ahead_bytes_max[heap->kind]);
    if (block_bytes < SOLE_BYTES_MIN)
        ahead = tn_min(ahead, shared_ahead_bytes_max(heap));
    return ahead <= room ? ahead : 0;
}

/* The fewest chunks for need, with at most over bytes more. */
static uint64_t fewest_chunks(uint64_t need, uint64_t over, uint64_t room, uint64_t largest)
{
    struct tn_growth_size best = {need, largest};

    TN_ASSERT(need % TN_PAGE_BYTES == 0 && need <= room);
    for (uint64_t step = TN_PAGE_BYTES; step <= largest; step *= 2) {
        struct tn_growth_size rounded = {tn_round_up(need, step), largest};

        if (rounded.bytes - need <= over && rounded.bytes <= room &&
            tn_growth_chunk_count(rounded) < tn_growth_chunk_count(best))
            best = rounded;
    }
    TN_ASSERT(best.bytes >= need && best.bytes <= room);
    return best.bytes;
}

struct tn_growth_size tn_growth_size(const tarn_pool *pool, const struct tn_heap *heap,
                                     uint64_t run, const struct tn_lack *lack)
{
    uint64_t limits = room_in_limits(pool);
    uint64_t room = tn_min(lack->room, limits - tn_min(limits, lack->left));
    struct tn_growth_size size = tn_growth_size_frugal(heap, lack);
    uint64_t ahead = 0;

    if (room <= lack->need)
        return size;
    if (heap->kind == TN_HEAP_LARGE && lack->block_bytes >= OWN_BYTES_MIN) {
        size.bytes = fewest_chunks(lack->need, TN_PAGE_BYTES, room, size.chunk_bytes_max);
        return size;
    }
    ahead = bytes_ahead(heap, run, lack->block_bytes, tn_min(room, limits / LIMIT_PART));
    if (ahead >= lack->need)
        return (struct tn_growth_size){ahead, tn_max(ahead, size.chunk_bytes_max)};
    size.bytes = fewest_chunks(lack->need, lack->need / OVER_PART, room, size.chunk_bytes_max);
    return size;
}

struct tn_growth_size tn_growth_size_frugal(const struct tn_heap *heap, const struct tn_lack *lack)
{
    TN_ASSERT(lack->need % TN_PAGE_BYTES == 0 && lack->need <= lack->room);
    return (struct tn_growth_size){lack->need, chunk_bytes_max(heap, lack->block_bytes)};
}

void tn_growth_enter(const tarn_pool *pool, struct tn_heap *heap, uint64_t run, uint64_t bytes)
{
    TN_ASSERT(bytes > 0 && bytes % TN_PAGE_BYTES == 0);
    heap->run_bytes = run + bytes;
    heap->run_alloc_count = pool->counters.alloc_count;
    heap->run_free_count = pool->counters.free_count;
}

/* A power of two. */
static uint64_t large_segment_bytes(const tarn_device *device)
{
    uint64_t part = tn_min(device->gpu.total_bytes / SEGMENT_DEVICE_PART,
                           device->regions.region_bytes / SEGMENT_REGION_PART);

    return tn_min((uint64_t)1 << tn_log2_floor(part), segment_bytes_max);
}

uint64_t tn_segment_bytes_next(const tarn_pool *pool, const struct tn_heap *heap)
{
    uint64_t least = large_segment_bytes(pool->device) / SEGMENT_CAPTURE_PART;

    TN_ASSERT(heap->arena->pool == pool);
    return heap->kind == TN_HEAP_LARGE && tn_arena_is_captured(heap->arena)
               ? tn_max(heap->segment_bytes, tn_round_down(least, TN_PAGE_BYTES))
               : heap->segment_bytes;
}

uint64_t tn_segment_bytes_after(const tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes)
{
    TN_ASSERT(bytes > 0 && bytes % TN_PAGE_BYTES == 0);
    bytes *= 2;
    if (heap->kind == TN_HEAP_LARGE)
        bytes = tn_max(bytes, large_segment_bytes(pool->device));
    return tn_min(bytes, segment_bytes_max);
}
