// SPDX-License-Identifier: Apache-2.0
/* Growth and shrinking of segments.
 *
 * A growth takes the fewest chunks that cover what is needed with at most 1/16 over, or one chunk of
 * 1/8 of what the heap has mapped, at most 256 MiB (32 MiB for small blocks), where that is more.
 * It goes to the lowest segment that the heap grows in and that has room, else to a new one, twice as
 * large as the last; a request that such a segment could not hold gets one of its own size.
 * Free bytes at the place's lower edge are used, so that a segment grows like one piece.
 *
 * A growth ahead stays within the limits of pool and device. A chunk comes from the device's cache
 * where that has one of its very size, else from the driver.
 *
 * Everything that may fail comes first (records, chunks, the driver), and is undone on failure, each
 * chunk to where it came from; blocks and counters are changed afterwards.
 *
 * Trade-offs: places are found by walking segments; there are few, since they double. Chunks that can
 * be exported are never cached: another process may have them mapped, which only the driver knows. */
#include "pools/grow.h"
#include "pools/handover.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "pools/device.h"

static const uint64_t ahead_bytes_max[TN_HEAP_KINDS] = {32 * TN_MIB, 256 * TN_MIB};
static const uint64_t chunk_bytes_max[TN_HEAP_KINDS] = {32 * TN_MIB, TN_CHUNK_BYTES_MAX};

/* Segments double up to this size: they come and go with trims, and the count of them ever made says
 * nothing of how many there are. */
static const uint64_t segment_bytes_max = 64 * TN_GIB;

enum { AHEAD_PART = 8, OVER_PART = 16 };

static uint64_t count_chunks(uint64_t bytes, uint64_t largest)
{
    return bytes / largest + (uint64_t)__builtin_popcountll(bytes % largest);
}

/* What may still be mapped by the limits of pool and device; the cache counts as the latter's. */
static uint64_t room_in_limits(const tarn_pool *pool)
{
    const tarn_device *device = pool->device;
    uint64_t device_limit = tn_device_limit(device);
    uint64_t charged = atomic_load(&device->charged_bytes);
    uint64_t room = device_limit > charged ? device_limit - charged : 0;
    uint64_t mapped = pool->counters.mapped_bytes;

    if (pool->limit_bytes != 0)
        room = tn_min(room, pool->limit_bytes > mapped ? pool->limit_bytes - mapped : 0);
    return room;
}

/* How many bytes to map for a need, within the place's room. */
static uint64_t plan_bytes(const tarn_pool *pool, const struct tn_heap *heap, uint64_t need,
                           uint64_t room, bool frugal)
{
    uint64_t largest = chunk_bytes_max[heap->kind];
    uint64_t part = heap->mapped_bytes / AHEAD_PART;
    uint64_t best = need;

    TN_ASSERT(need % TN_PAGE_BYTES == 0 && need <= room);
    room = tn_min(room, room_in_limits(pool));
    if (frugal || room <= need)
        return need;
    if (part >= TN_PAGE_BYTES) {
        uint64_t ahead = tn_min((uint64_t)1 << tn_log2_floor(part), ahead_bytes_max[heap->kind]);

        if (ahead >= need && ahead <= room)
            return ahead;
    }
    for (uint64_t step = TN_PAGE_BYTES; step <= largest; step *= 2) {
        uint64_t rounded = tn_round_up(need, step);

        if (rounded - need <= need / OVER_PART && rounded <= room &&
            count_chunks(rounded, largest) < count_chunks(best, largest))
            best = rounded;
    }
    return best;
}

/* A free chunk id, with room in the table and in every open hold. */
static bool find_id(tarn_pool *pool, uint32_t *id)
{
    size_t found = pool->chunk_ids;

    if (pool->chunk_count < pool->chunk_ids) {
        found = 0;
        while (pool->chunks[found] != NULL)
            found += 1;
    }
    if (!tn_host_grow((void **)&pool->chunks, &pool->chunk_capacity, found + 1,
                      sizeof *pool->chunks) ||
        !tn_holds_reserve(pool, found + 1))
        return false;
    *id = (uint32_t)found;
    return true;
}

static tarn_status check_limit(const tarn_pool *pool, uint64_t bytes)
{
    uint64_t mapped = pool->counters.mapped_bytes;

    if (pool->limit_bytes == 0 ||
        (mapped <= pool->limit_bytes && bytes <= pool->limit_bytes - mapped))
        return TARN_OK;
    return tn_fail(TARN_ERR_LIMIT,
                   "pool '%s' has mapped %llu MiB and may map %llu MiB: %llu MiB more are too much",
                   pool->name, (unsigned long long)(mapped / TN_MIB),
                   (unsigned long long)(pool->limit_bytes / TN_MIB),
                   (unsigned long long)(bytes / TN_MIB));
}

/* An unmapped chunk, charged to the device: from the cache, or new. */
static tarn_status obtain_chunk(tarn_pool *pool, uint64_t bytes, struct tn_chunk **chunk)
{
    tarn_device *device = pool->device;
    tarn_status status;

    *chunk = tn_chunk_cache_take(&device->cache, bytes, pool->properties);
    if (*chunk != NULL) {
        (*chunk)->was_cached = true;
        return TARN_OK;
    }
    status = tn_device_charge(device, bytes);
    if (status != TARN_OK)
        return status;
    status = tn_chunk_create(&device->gpu, bytes, pool->properties, chunk);
    if (status != TARN_OK)
        tn_device_discharge(device, bytes);
    return status;
}

/* A GPU that refused to unmap may have the chunk mapped still, so nobody may map it again. */
static void give_chunk(tarn_device *device, struct tn_chunk *chunk, enum tn_unmapped to)
{
    uint64_t bytes = chunk->bytes;

    chunk->heap = NULL;
    if (to == TN_UNMAPPED_TO_CACHE && !chunk->properties.exportable &&
        tn_gpu_is_well(&device->gpu)) {
        chunk->was_cached = false;
        tn_chunk_cache_put(&device->cache, chunk);
        return;
    }
    tn_chunk_destroy(&device->gpu, chunk);
    tn_device_discharge(device, bytes);
}

/* Where a chunk goes whose growth is undone. */
static enum tn_unmapped origin(const struct tn_chunk *chunk)
{
    return chunk->was_cached ? TN_UNMAPPED_TO_CACHE : TN_UNMAPPED_TO_DRIVER;
}

/* Maps one chunk and enters it in the pool's table. */
static tarn_status add_chunk(tarn_pool *pool, struct tn_heap *heap, struct tn_segment *segment,
                             uint64_t offset, uint64_t bytes)
{
    struct tn_chunk *chunk;
    uint32_t id = 0;
    tarn_status status;

    if (!find_id(pool, &id))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a chunk");
    status = obtain_chunk(pool, bytes, &chunk);
    if (status != TARN_OK)
        return status;
    chunk->heap = heap; /* before anyone can find the chunk by an address */
    /* What grows the heap will begin here. */
    status = tn_live_reserve(chunk, 1)
                 ? tn_segment_map(segment, offset, pool->properties.peer_mask, chunk)
                 : tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a chunk");
    if (status != TARN_OK) {
        give_chunk(pool->device, chunk, origin(chunk));
        return status;
    }
    chunk->id = id;
    chunk->kind = (int)heap->kind;
    chunk->hold_count = 0;
    chunk->freed_stamp = 0;
    chunk->used_bytes = 0;
    pool->chunks[id] = chunk;
    pool->chunk_count += 1;
    if (id == pool->chunk_ids)
        pool->chunk_ids += 1;
    heap->mapped_bytes += bytes;
    return TARN_OK;
}

static void remove_chunk(tarn_pool *pool, struct tn_chunk *chunk, enum tn_unmapped to)
{
    TN_ASSERT(chunk->hold_count == 0 && chunk->used_bytes == 0);
    chunk->heap->mapped_bytes -= chunk->bytes;
    pool->chunks[chunk->id] = NULL;
    pool->chunk_count -= 1;
    tn_segment_unmap(chunk);
    give_chunk(pool->device, chunk, to);
}

/* Counts chunks that are mapped for good, or were and are so no more. */
static void count_mapped(tarn_pool *pool, uint64_t bytes, uint64_t chunk_count)
{
    struct tn_pool_counters *counters = &pool->counters;

    counters->mapped_bytes += bytes;
    counters->mapped_peak_bytes = tn_max(counters->mapped_peak_bytes, counters->mapped_bytes);
    counters->map_count += chunk_count;
    tn_device_count_mapped(pool->device, bytes);
}

static void count_unmapped(tarn_pool *pool, uint64_t bytes)
{
    pool->counters.mapped_bytes -= bytes;
    pool->counters.unmap_count += 1;
    tn_device_count_unmapped(pool->device, bytes);
}

/* Maps [offset, offset + bytes) of a segment, all or nothing. */
static tarn_status add_chunks(tarn_pool *pool, struct tn_heap *heap, struct tn_segment *segment,
                              uint64_t offset, uint64_t bytes)
{
    uint64_t end = offset + bytes;
    uint64_t count = 0;
    uint64_t at = offset;
    tarn_status status = check_limit(pool, bytes);

    while (status == TARN_OK && at < end) {
        uint64_t size = tn_min((uint64_t)1 << tn_log2_floor(end - at), chunk_bytes_max[heap->kind]);

        status = add_chunk(pool, heap, segment, at, size);
        if (status == TARN_OK) {
            at += size;
            count += 1;
        }
    }
    if (status == TARN_OK) {
        count_mapped(pool, bytes, count);
        return TARN_OK;
    }
    while (at > offset) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, at - TN_PAGE_BYTES);

        at = chunk->offset;
        remove_chunk(pool, chunk, origin(chunk));
    }
    return status;
}

tarn_status tn_heap_map_at(tarn_pool *pool, struct tn_heap *heap, struct tn_block *unmapped,
                           uint64_t offset, uint64_t bytes)
{
    tarn_status status = add_chunks(pool, heap, unmapped->segment, offset, bytes);

    if (status != TARN_OK)
        return status;
    TN_ASSERT(unmapped->state == TN_BLOCK_UNMAPPED);
    if (offset > unmapped->offset)
        unmapped = tn_block_split(&pool->store, unmapped, offset);
    if (bytes < tn_block_bytes(unmapped))
        (void)tn_block_split(&pool->store, unmapped, offset + bytes);
    unmapped->segment->unmapped_count -= 1;
    unmapped->heap = heap;
    (void)tn_heap_put(pool, unmapped);
    return TARN_OK;
}

/* The UNMAPPED block of the segment at which the heap can grow to a FREE block of bytes, and the FREE
 * bytes that it has there. Those of idle memory do not count: not everyone may take them. */
static struct tn_block *find_place_in(struct tn_segment *segment, const struct tn_heap *heap,
                                      uint64_t bytes, uint64_t *have)
{
    bool is_idle = heap->arena == &heap->arena->pool->idle;
    uint32_t left = segment->unmapped_count;

    for (struct tn_block *block = segment->last_block; left > 0; block = block->previous) {
        const struct tn_block *below = block->previous;

        if (block->state != TN_BLOCK_UNMAPPED)
            continue;
        left -= 1;
        *have = !is_idle && below != NULL && below->state == TN_BLOCK_FREE && below->heap == heap
                    ? tn_block_bytes(below)
                    : 0;
        if (*have + tn_block_bytes(block) >= bytes)
            return block;
    }
    return NULL;
}

static struct tn_block *find_place(tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes,
                                   uint64_t *have)
{
    const struct tn_arena *group = tn_arena_of_group(pool, heap->arena);

    for (struct tn_segment *segment = pool->segments; segment != NULL; segment = segment->next) {
        struct tn_block *place;

        if (segment->grower != heap && segment->grower->arena != &pool->idle &&
            segment->grower->arena != group)
            continue;
        place = find_place_in(segment, heap, bytes, have);
        if (place != NULL)
            return place;
    }
    return NULL;
}

/* A new segment for the heap, one UNMAPPED block; takes one record. */
static tarn_status add_segment(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                               struct tn_block **place)
{
    bool own = bytes > heap->segment_bytes;
    struct tn_segment *segment;
    struct tn_block *block;
    tarn_status status =
        tn_segment_create(&pool->device->regions, own ? bytes : heap->segment_bytes, pool,
                          pool->segment_index, &segment);

    if (status == TARN_ERR_ADDRESS_SPACE && !own) {
        own = true; /* there may be addresses for what is asked for */
        status =
            tn_segment_create(&pool->device->regions, bytes, pool, pool->segment_index, &segment);
    }
    if (status != TARN_OK)
        return status;
    block = tn_block_take(&pool->store);
    block->segment = segment;
    tn_block_set_bytes(block, segment->bytes);
    block->state = TN_BLOCK_UNMAPPED;
    segment->first_block = block;
    segment->last_block = block;
    segment->unmapped_count = 1;
    segment->grower = heap;
    segment->previous = pool->last_segment;
    if (pool->last_segment != NULL)
        pool->last_segment->next = segment;
    else
        pool->segments = segment;
    pool->last_segment = segment;
    pool->segment_count += 1;
    pool->segment_index += 1;
    if (!own)
        heap->segment_bytes = tn_min(2 * heap->segment_bytes, segment_bytes_max);
    *place = block;
    return TARN_OK;
}

static void remove_segment(tarn_pool *pool, struct tn_segment *segment)
{
    TN_ASSERT(segment->first_block == segment->last_block);
    if (segment->previous != NULL)
        segment->previous->next = segment->next;
    else
        pool->segments = segment->next;
    if (segment->next != NULL)
        segment->next->previous = segment->previous;
    else
        pool->last_segment = segment->previous;
    pool->segment_count -= 1;
    tn_block_give(&pool->store, segment->first_block);
    tn_segment_destroy(segment);
}

static bool is_bare(const struct tn_segment *segment)
{
    return segment->first_block == segment->last_block &&
           segment->first_block->state == TN_BLOCK_UNMAPPED && segment->checkpoint_count == 0;
}

tarn_status tn_heap_grow(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes, bool frugal)
{
    uint64_t have = 0;
    uint64_t need;
    uint64_t segment_bytes = heap->segment_bytes;
    struct tn_block *place;
    struct tn_segment *segment;
    tarn_status status;

    if (!tn_blocks_reserve(&pool->store, 4)) /* segment, split; two for the caller */
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for block records");
    place = find_place(pool, heap, bytes, &have);
    if (place == NULL) {
        have = 0;
        status = add_segment(pool, heap, bytes, &place);
        if (status != TARN_OK)
            return status;
    }
    segment = place->segment;
    need = tn_round_up(bytes - have, TN_PAGE_BYTES);
    status = tn_heap_map_at(pool, heap, place, place->offset,
                            plan_bytes(pool, heap, need, tn_block_bytes(place), frugal));
    if (status == TARN_OK)
        segment->grower = heap;
    else if (is_bare(segment)) {
        remove_segment(pool, segment);
        tn_regions_shrink(&pool->device->regions); /* the region may have been made for it */
        heap->segment_bytes = segment_bytes;
    }
    return status;
}

/* Cuts a chunk out of the FREE block that contains it whole and unmaps it. Takes up to two records.
 * Returns the UNMAPPED block where it was. */
static struct tn_block *punch(tarn_pool *pool, struct tn_block *block, struct tn_chunk *chunk,
                              enum tn_unmapped to)
{
    struct tn_block *hole = tn_heap_carve(pool, block, chunk->offset, chunk->bytes);

    count_unmapped(pool, chunk->bytes);
    remove_chunk(pool, chunk, to);
    hole->state = TN_BLOCK_UNMAPPED;
    hole->heap = NULL;
    hole->segment->unmapped_count += 1;
    if (hole->next != NULL && hole->next->state == TN_BLOCK_UNMAPPED)
        tn_block_join_next(&pool->store, hole);
    if (hole->previous != NULL && hole->previous->state == TN_BLOCK_UNMAPPED) {
        hole = hole->previous;
        tn_block_join_next(&pool->store, hole);
    }
    return hole;
}

void tn_heap_unmap_at(tarn_pool *pool, struct tn_segment *segment, uint64_t offset, uint64_t bytes)
{
    struct tn_block *block = segment->first_block;

    for (uint64_t at = offset; at < offset + bytes;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, at);

        at = tn_chunk_end(chunk);
        while (tn_block_end(block) <= chunk->offset)
            block = block->next;
        block = punch(pool, block, chunk, origin(chunk));
    }
}

/* A trim under way. */
struct shrinking {
    uint64_t left_bytes; /* still to go */
    enum tn_unmapped to;
    bool unused_only; /* what was mapped ahead goes first */
    bool *unproven;
};

static bool may_unmap(const struct tn_chunk *chunk, const struct tn_gpu *gpu,
                      const struct shrinking *shrinking)
{
    if (chunk->hold_count > 0 || chunk->used_bytes > 0 ||
        (shrinking->unused_only && chunk->freed_stamp != 0))
        return false;
    if (tn_gpu_is_proven(gpu, chunk->freed_stamp))
        return true;
    *shrinking->unproven = true;
    return false;
}

/* The highest chunk that lies whole inside the FREE block and may go. */
static struct tn_chunk *find_chunk_to_unmap(const struct tn_block *block, const struct tn_gpu *gpu,
                                            const struct shrinking *shrinking)
{
    uint64_t end = tn_block_end(block);

    while (end > block->offset) {
        struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, end - 1);

        end = chunk->offset;
        if (chunk->offset >= block->offset && tn_chunk_end(chunk) <= tn_block_end(block) &&
            may_unmap(chunk, gpu, shrinking))
            return chunk;
    }
    return NULL;
}

static void shrink_segment(tarn_pool *pool, struct tn_segment *segment, struct shrinking *shrinking)
{
    struct tn_block *block = segment->last_block;

    while (block != NULL && shrinking->left_bytes > 0) {
        struct tn_chunk *chunk = block->state == TN_BLOCK_FREE
                                     ? find_chunk_to_unmap(block, &pool->device->gpu, shrinking)
                                     : NULL;

        if (chunk != NULL && tn_blocks_reserve(&pool->store, 2)) {
            shrinking->left_bytes -= tn_min(shrinking->left_bytes, chunk->bytes);
            block = punch(pool, block, chunk, shrinking->to);
        }
        block = block->previous;
    }
}

uint64_t tn_pool_unmap_free(tarn_pool *pool, uint64_t wanted_bytes, enum tn_unmapped to,
                            bool *unproven)
{
    struct shrinking shrinking = {wanted_bytes, to, true, unproven};
    uint64_t mapped = pool->counters.mapped_bytes;
    struct tn_segment *previous;

    for (int pass = 0; pass < 2; pass++) {
        shrinking.unused_only = pass == 0;
        for (struct tn_segment *segment = pool->last_segment; segment != NULL; segment = previous) {
            previous = segment->previous;
            shrink_segment(pool, segment, &shrinking);
            if (is_bare(segment))
                remove_segment(pool, segment);
        }
    }
    return mapped - pool->counters.mapped_bytes;
}

void tn_pool_unmap_all(tarn_pool *pool)
{
    for (size_t id = 0; id < pool->chunk_ids; id++) {
        struct tn_chunk *chunk = pool->chunks[id];

        if (chunk != NULL) {
            chunk->used_bytes = 0; /* of DISCARDED blocks */
            count_unmapped(pool, chunk->bytes);
            remove_chunk(pool, chunk, TN_UNMAPPED_TO_CACHE);
        }
    }
    while (pool->segments != NULL) {
        struct tn_segment *segment = pool->segments;

        pool->segments = segment->next;
        tn_segment_destroy(segment);
    }
    pool->last_segment = NULL;
    pool->segment_count = 0;
}

tarn_status tn_pool_add_peer(tarn_pool *pool, int peer)
{
    tarn_status status = TARN_OK;
    size_t id = 0;

    if ((pool->properties.peer_mask >> peer & 1) != 0)
        return TARN_OK;
    while (status == TARN_OK && id < pool->chunk_ids) {
        if (pool->chunks[id] != NULL)
            status = tn_chunk_add_peer(pool->chunks[id], peer);
        id += status == TARN_OK;
    }
    if (status == TARN_OK) {
        pool->properties.peer_mask |= (uint64_t)1 << peer;
        return TARN_OK;
    }
    while (id > 0) {
        id -= 1;
        if (pool->chunks[id] != NULL)
            tn_chunk_remove_peer(pool->chunks[id], peer);
    }
    return status;
}
