// SPDX-License-Identifier: Apache-2.0
/* Growth and shrinking of segments.
 *
 * A growth takes the fewest chunks that cover what is needed with at most 1/16 over, or one chunk of
 * 1/8 of what the heap has mapped, at most 256 MiB (32 MiB for small blocks), where that is more.
 * It goes to the lowest segment that the heap grows in and that has room, else to a new one, twice as
 * large as the last; a request that such a segment could not hold gets one of its own size.
 * Free bytes at the place's lower edge are used, so that a segment grows like one piece.
 *
 * Everything that may fail comes first (records, chunks, the driver), and is undone on failure; the
 * blocks are changed afterwards.
 *
 * Trade-offs: no cache of unmapped chunks: memory given back goes to the driver. Places are found by
 * walking segments; there are few, since they double. */
#include "pools/grow.h"

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

/* How many bytes to map for a need, within the room. */
static uint64_t plan_bytes(const struct tn_heap *heap, uint64_t need, uint64_t room, bool frugal)
{
    uint64_t largest = chunk_bytes_max[heap->kind];
    uint64_t part = heap->mapped_bytes / AHEAD_PART;
    uint64_t best = need;

    TN_ASSERT(need % TN_PAGE_BYTES == 0 && need <= room);
    if (frugal)
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

/* Maps one chunk and enters it in the pool's table. */
static tarn_status add_chunk(tarn_pool *pool, struct tn_heap *heap, struct tn_segment *segment,
                             uint64_t offset, uint64_t bytes)
{
    struct tn_chunk *chunk = tn_host_alloc(1, sizeof *chunk);
    uint32_t id = 0;
    tarn_status status;

    if (chunk == NULL || !find_id(pool, &id)) {
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a chunk");
        goto free_chunk;
    }
    if (pool->limit_bytes != 0 && pool->counters.mapped_bytes + bytes > pool->limit_bytes) {
        status = tn_fail(TARN_ERR_LIMIT,
                         "pool '%s' has mapped %llu MiB and may map %llu MiB: %llu MiB more are "
                         "too much",
                         pool->name, (unsigned long long)(pool->counters.mapped_bytes / TN_MIB),
                         (unsigned long long)(pool->limit_bytes / TN_MIB),
                         (unsigned long long)(bytes / TN_MIB));
        goto free_chunk;
    }
    status = tn_device_charge(pool->device, bytes);
    if (status != TARN_OK)
        goto free_chunk;
    status = tn_segment_map(segment, offset, bytes, pool->properties, chunk);
    if (status != TARN_OK)
        goto discharge;
    chunk->id = id;
    chunk->heap = heap;
    pool->chunks[id] = chunk;
    pool->chunk_count += 1;
    if (id == pool->chunk_ids)
        pool->chunk_ids += 1;
    heap->mapped_bytes += bytes;
    pool->counters.mapped_bytes += bytes;
    pool->counters.map_count += 1;
    return TARN_OK;

discharge:
    tn_device_discharge(pool->device, bytes);
free_chunk:
    tn_host_free(chunk);
    return status;
}

static void remove_chunk(tarn_pool *pool, struct tn_chunk *chunk)
{
    TN_ASSERT(chunk->hold_count == 0 && chunk->used_bytes == 0);
    chunk->heap->mapped_bytes -= chunk->bytes;
    pool->chunks[chunk->id] = NULL;
    pool->chunk_count -= 1;
    pool->counters.mapped_bytes -= chunk->bytes;
    pool->counters.unmap_count += 1;
    tn_device_discharge(pool->device, chunk->bytes);
    tn_segment_unmap(chunk);
    tn_host_free(chunk);
}

/* Maps [offset, offset + bytes) of a segment, all or nothing. */
static tarn_status add_chunks(tarn_pool *pool, struct tn_heap *heap, struct tn_segment *segment,
                              uint64_t offset, uint64_t bytes)
{
    uint64_t end = offset + bytes;
    uint64_t at = offset;

    while (at < end) {
        uint64_t size =
            tn_min((uint64_t)1 << tn_log2_floor(end - at), chunk_bytes_max[heap->kind]);
        tarn_status status = add_chunk(pool, heap, segment, at, size);

        if (status != TARN_OK) {
            for (uint64_t undo = offset; undo < at;) {
                struct tn_chunk *chunk = tn_segment_chunk_at(segment, undo);

                undo = tn_chunk_end(chunk);
                remove_chunk(pool, chunk); /* none was counted as mapped on the device yet */
            }
            return status;
        }
        at += size;
    }
    tn_device_count_mapped(pool->device, bytes);
    pool->counters.mapped_peak_bytes =
        tn_max(pool->counters.mapped_peak_bytes, pool->counters.mapped_bytes);
    return TARN_OK;
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
    if (bytes < unmapped->bytes)
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
                    ? below->bytes
                    : 0;
        if (*have + block->bytes >= bytes)
            return block;
    }
    return NULL;
}

static struct tn_block *find_place(tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes,
                                   uint64_t *have)
{
    for (struct tn_segment *segment = pool->segments; segment != NULL; segment = segment->next) {
        struct tn_block *place;

        if (segment->grower != heap && segment->grower->arena != &pool->idle)
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
    tarn_status status = tn_segment_create(&pool->device->regions, own ? bytes : heap->segment_bytes,
                                           pool, pool->segment_index, &segment);

    if (status == TARN_ERR_ADDRESS_SPACE && !own) {
        own = true; /* there may be addresses for what is asked for */
        status = tn_segment_create(&pool->device->regions, bytes, pool, pool->segment_index,
                                   &segment);
    }
    if (status != TARN_OK)
        return status;
    block = tn_block_take(&pool->store);
    block->segment = segment;
    block->bytes = segment->bytes;
    block->state = TN_BLOCK_UNMAPPED;
    segment->first_block = block;
    segment->last_block = block;
    segment->unmapped_count = 1;
    segment->grower = heap;
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
    struct tn_segment **link = &pool->segments;
    struct tn_segment *last = NULL;

    TN_ASSERT(segment->first_block == segment->last_block);
    while (*link != segment) {
        last = *link;
        link = &(*link)->next;
    }
    *link = segment->next;
    if (pool->last_segment == segment)
        pool->last_segment = last;
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
                            plan_bytes(heap, need, place->bytes, frugal));
    if (status == TARN_OK)
        segment->grower = heap;
    else if (is_bare(segment)) {
        remove_segment(pool, segment);
        heap->segment_bytes = segment_bytes;
    }
    return status;
}

static bool may_unmap(const struct tn_chunk *chunk, const struct tn_gpu *gpu, bool *unproven)
{
    if (chunk->hold_count > 0 || chunk->used_bytes > 0)
        return false;
    if (tn_gpu_is_proven(gpu, chunk->freed_stamp))
        return true;
    *unproven = true;
    return false;
}

/* Cuts a chunk out of the FREE block that contains it whole and unmaps it. Takes up to two records.
 * Returns the FREE block above it, or the UNMAPPED one where it was. */
static struct tn_block *punch(tarn_pool *pool, struct tn_block *block, struct tn_chunk *chunk)
{
    uint64_t end = tn_chunk_end(chunk);
    struct tn_block *hole =
        tn_heap_carve(pool, block, chunk->offset, chunk->bytes);
    struct tn_block *above = hole->next != NULL && hole->next->offset == end ? hole->next : NULL;
    bool is_free_above = above != NULL && above->state == TN_BLOCK_FREE;

    tn_device_count_unmapped(pool->device, chunk->bytes);
    remove_chunk(pool, chunk);
    hole->state = TN_BLOCK_UNMAPPED;
    hole->heap = NULL;
    hole->segment->unmapped_count += 1;
    if (hole->next != NULL && hole->next->state == TN_BLOCK_UNMAPPED)
        tn_block_join_next(&pool->store, hole);
    if (hole->previous != NULL && hole->previous->state == TN_BLOCK_UNMAPPED) {
        hole = hole->previous;
        tn_block_join_next(&pool->store, hole);
    }
    return is_free_above ? above : hole;
}

void tn_heap_unmap_at(tarn_pool *pool, struct tn_segment *segment, uint64_t offset,
                      uint64_t bytes)
{
    struct tn_block *block = segment->first_block;

    for (uint64_t at = offset; at < offset + bytes;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, at);

        at = tn_chunk_end(chunk);
        while (tn_block_end(block) <= chunk->offset)
            block = block->next;
        block = punch(pool, block, chunk);
    }
}

/* The first chunk that lies whole inside the FREE block and may go. */
static struct tn_chunk *find_chunk_to_unmap(const struct tn_block *block, const struct tn_gpu *gpu,
                                            bool *unproven)
{
    uint64_t offset = block->offset;

    while (offset < tn_block_end(block)) {
        struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, offset);

        offset = tn_chunk_end(chunk);
        if (chunk->offset >= block->offset && offset <= tn_block_end(block) &&
            may_unmap(chunk, gpu, unproven))
            return chunk;
    }
    return NULL;
}

static uint64_t unmap_free_in(tarn_pool *pool, struct tn_segment *segment, bool *unproven)
{
    struct tn_block *block = segment->first_block;
    uint64_t unmapped = 0;

    while (block != NULL) {
        struct tn_chunk *chunk = block->state == TN_BLOCK_FREE
                                     ? find_chunk_to_unmap(block, &pool->device->gpu, unproven)
                                     : NULL;

        if (chunk == NULL || !tn_blocks_reserve(&pool->store, 2)) {
            block = block->next;
            continue;
        }
        unmapped += chunk->bytes;
        block = punch(pool, block, chunk);
    }
    return unmapped;
}

uint64_t tn_pool_unmap_free(tarn_pool *pool, bool *unproven)
{
    struct tn_segment *next;
    uint64_t unmapped = 0;

    for (struct tn_segment *segment = pool->segments; segment != NULL; segment = next) {
        next = segment->next;
        unmapped += unmap_free_in(pool, segment, unproven);
        if (is_bare(segment))
            remove_segment(pool, segment);
    }
    return unmapped;
}

void tn_pool_unmap_all(tarn_pool *pool)
{
    for (size_t id = 0; id < pool->chunk_ids; id++) {
        if (pool->chunks[id] != NULL) {
            pool->chunks[id]->used_bytes = 0; /* of DISCARDED blocks */
            tn_device_count_unmapped(pool->device, pool->chunks[id]->bytes);
            remove_chunk(pool, pool->chunks[id]);
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
