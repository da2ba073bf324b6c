// SPDX-License-Identifier: Apache-2.0
/* A pool's chunks: their ids, their memory, their counts.
 *
 * New memory comes from the device's cache if the cache has a memory of the chunk's very size, else
 * from the driver. Several chunks are mapped as a whole: on failure the chunks made so far return
 * to their origin.
 *
 * Trade-offs: exportable memory is never cached: another process may have mapped it, which only the
 * driver knows. */
#include "pools/chunks.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "claims/usable.h"
#include "driver/tool.h"
#include "pools/device.h"
#include "pools/pieces.h"
#include "pools/trackers.h"
#include "pools/vacated.h"

/* Makes room for count more chunks in the table and in every open hold. */
static bool reserve_ids(tarn_pool *pool, uint64_t count)
{
    size_t ids = tn_max(pool->chunks.ids, pool->chunks.count + count);

    TN_ASSERT(pool->chunks.count <= pool->chunks.ids);
    return tn_host_grow((void **)&pool->chunks.by_id, &pool->chunks.capacity, ids,
                        sizeof *pool->chunks.by_id) &&
           tn_chunk_set_reserve(&pool->chunks.free_ids, ids) && tn_holds_reserve(&pool->holds, ids);
}

/* The lowest id that is free, or else a new one. */
static uint32_t take_id(struct tn_chunk_table *chunks)
{
    size_t id = chunks->ids;

    if (chunks->count < chunks->ids)
        id = tn_chunk_set_take_first(&chunks->free_ids);
    else
        chunks->ids += 1;
    TN_ASSERT(id < chunks->capacity && chunks->by_id[id] == NULL);
    return (uint32_t)id;
}

tarn_status tn_pool_check_limit(tarn_pool *pool, uint64_t bytes)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (bytes <= tn_pool_limit_room(pool))
        return TARN_OK;
    pool->limit.met = true;
    return tn_fail(TARN_ERR_LIMIT,
                   "pool '%s' has mapped %llu MiB and may map %llu MiB: %llu MiB more are too much",
                   pool->name, (unsigned long long)(tn_pool_mapped_bytes(pool) / TN_MIB),
                   (unsigned long long)(pool->limit.bytes / TN_MIB),
                   (unsigned long long)(bytes / TN_MIB));
}

static void count_event(tarn_pool *pool, enum tn_event_id event)
{
    pool->counters.events[event].count += 1;
}

/* Obtains unmapped memory, charged to the device: from the cache, or new. */
static tarn_status obtain_memory(tarn_pool *pool, uint64_t bytes, uint32_t stack,
                                 struct tn_memory **memory)
{
    tarn_device *device = pool->device;
    tarn_status status;

    *memory = tn_memory_cache_take(tn_pool_cache(pool), bytes, pool->memory.properties);
    if (*memory != NULL) {
        (*memory)->was_cached = true;
        count_event(pool, TN_CACHE_HITS);
        return TARN_OK;
    }
    status = tn_budget_charge(tn_pool_budget(pool), bytes);
    if (status != TARN_OK)
        return status;
    status = tn_memory_create(&device->gpu, bytes, pool->memory.properties, memory);
    if (status != TARN_OK) {
        tn_budget_discharge(tn_pool_budget(pool), bytes);
        return status;
    }
    count_event(pool, TN_CHUNK_CREATES);
    tn_pool_note(pool, TN_NOTE_MEMORY_CREATED,
                 TN_OPERANDS((*memory)->handle, tn_note_bytes_of(bytes, stack)));
    return TARN_OK;
}

/* A GPU which refused to unmap may still have the memory mapped, so nobody may map it again. */
static void give_memory(tarn_pool *pool, struct tn_memory *memory, enum tn_unmapped to)
{
    tarn_device *device = pool->device;
    uint64_t bytes = memory->bytes;

    TN_ASSERT(to != TN_UNMAPPED_LATER && !tn_memory_is_mapped(memory));
    if (to == TN_UNMAPPED_TO_CACHE && tn_memory_is_reusable(memory) &&
        tn_gpu_is_usable(&device->gpu)) {
        memory->was_cached = false;
        tn_memory_cache_put(tn_pool_cache(pool), memory);
        return;
    }
    tn_pool_note(pool, TN_NOTE_MEMORY_RELEASED, TN_OPERANDS(memory->handle, bytes));
    tn_memory_destroy(&device->gpu, memory);
    tn_budget_discharge(tn_pool_budget(pool), bytes);
    count_event(pool, TN_CHUNK_RELEASES);
}

enum tn_unmapped tn_memory_source(const struct tn_memory *memory)
{
    return memory->was_cached ? TN_UNMAPPED_TO_CACHE : TN_UNMAPPED_TO_DRIVER;
}

static void destroy_chunk(struct tn_chunk *chunk)
{
    tn_chunk_pass(chunk, NULL);
    tn_live_drop(chunk);
    tn_chunk_destroy(chunk);
}

/* Makes a chunk of the heap which no address leads to yet. */
static tarn_status make_chunk(struct tn_heap *heap, struct tn_segment *segment, uint64_t offset,
                              uint64_t bytes, struct tn_chunk **chunk)
{
    tarn_status status = tn_chunk_create(segment, offset, bytes, chunk);

    TN_ASSERT(offset + bytes <= segment->bytes && bytes <= tn_chunk_bytes_max(heap->kind));
    if (status != TARN_OK)
        return status;
    tn_chunk_pass(*chunk, heap);
    (*chunk)->kind = (int)heap->kind;
    /* The block which grows the heap will begin here, or in the free bytes below. */
    if (tn_live_reserve(*chunk, 1))
        return TARN_OK;
    destroy_chunk(*chunk);
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a chunk");
}

/* The segment was made at its memory, which the one chunk gets. */
static tarn_status take_aside(tarn_pool *pool, struct tn_chunk *chunk)
{
    struct tn_segment *segment = chunk->segment;
    tarn_status status;

    TN_ASSERT(segment->aside != NULL && chunk->bytes == segment->bytes); /* P41 */
    status = tn_chunk_map(chunk, segment->aside, 0);
    if (status == TARN_OK) {
        segment->aside = NULL;
        count_event(pool, TN_CACHE_HITS);
    }
    return status;
}

static tarn_status give_it_memory(tarn_pool *pool, struct tn_chunk *chunk, uint32_t stack)
{
    struct tn_memory *memory;
    tarn_status status;

    if (tn_pool_has_pieces(pool))
        return take_aside(pool, chunk);
    status = obtain_memory(pool, chunk->bytes, stack, &memory);
    if (status != TARN_OK)
        return status;
    status = tn_chunk_map(chunk, memory, pool->memory.peer_mask);
    if (status != TARN_OK)
        give_memory(pool, memory, tn_memory_source(memory));
    return status;
}

/* Maps the memory of another chunk, which has been vacated, here. Whatever is to be proven there is
 * to be proven here, unless the memory is of another arena: then it is proven. */
static tarn_status share_memory(tarn_pool *pool, struct tn_chunk *chunk,
                                const struct tn_chunk *from)
{
    bool own = from->vacated_from->arena == atomic_load(&chunk->arena);
    tarn_status status = tn_chunk_map(chunk, from->memory, pool->memory.peer_mask);

    if (status != TARN_OK)
        return status;
    chunk->freed_stamp = own ? from->freed_stamp : 0; /* P29 */
    chunk->outside_stamp = own ? from->outside_stamp : 0;
    chunk->was_used = from->was_used || (!own && from->freed_stamp != 0);
    return TARN_OK;
}

/* Enters the chunk in the books of its pool and heap. */
static void enter(tarn_pool *pool, struct tn_chunk *chunk)
{
    TN_ASSERT(pool->chunks.count <= pool->chunks.ids);
    chunk->id = take_id(&pool->chunks);
    pool->chunks.by_id[chunk->id] = chunk;
    pool->chunks.count += 1;
    atomic_load(&chunk->heap)->mapped_bytes += chunk->bytes;
}

/* Maps memory for one chunk and enters it in the pool's table. from: the chunk whose memory moves
 * here; NULL: none. stack: of the call that grows. */
static tarn_status add_chunk(tarn_pool *pool, struct tn_heap *heap, struct tn_segment *segment,
                             uint64_t offset, uint64_t bytes, const struct tn_chunk *from,
                             uint32_t stack)
{
    struct tn_chunk *chunk;
    tarn_status status = make_chunk(heap, segment, offset, bytes, &chunk);

    TN_ASSERT(tn_segment_chunk_at(segment, offset) == NULL);
    if (status != TARN_OK)
        return status;
    status = from != NULL ? share_memory(pool, chunk, from) : give_it_memory(pool, chunk, stack);
    if (status != TARN_OK) {
        destroy_chunk(chunk);
        return status;
    }
    count_event(pool, TN_CHUNK_MAPS);
    enter(pool, chunk);
    TN_ASSERT(tn_segment_chunk_at(segment, offset) == chunk);
    return TARN_OK;
}

/* Takes the chunk out of the books. */
static void leave(tarn_pool *pool, struct tn_chunk *chunk)
{
    TN_ASSERT(chunk->hold_count == 0 && chunk->used_bytes == 0);
    TN_ASSERT(pool->chunks.by_id[chunk->id] == chunk && pool->chunks.count > 0);
    TN_ASSERT(chunk->heap->mapped_bytes >= chunk->bytes); /* P8 */
    chunk->heap->mapped_bytes -= chunk->bytes;
    pool->chunks.by_id[chunk->id] = NULL;
    (void)tn_chunk_set_add(&pool->chunks.free_ids, chunk); /* its id alone */
    pool->chunks.count -= 1;
}

/* Memory that another chunk has, too, stays there. */
static void remove_chunk(tarn_pool *pool, struct tn_chunk *chunk, enum tn_unmapped to)
{
    struct tn_segment *segment = chunk->segment;
    struct tn_memory *memory;

    leave(pool, chunk);
    tn_usable_unmap(&pool->device->gpu, chunk);
    tn_trackers_forget(pool->device, chunk);
    memory = tn_chunk_unmap(chunk);
    count_event(pool, TN_CHUNK_UNMAPS);
    destroy_chunk(chunk);
    if (tn_pool_has_pieces(pool))
        segment->aside = memory; /* P41 */
    else if (!tn_memory_is_mapped(memory))
        give_memory(pool, memory, to);
}

static void vacate_chunk(tarn_pool *pool, struct tn_chunk *chunk)
{
    struct tn_heap *from = chunk->heap;

    leave(pool, chunk);
    tn_chunk_pass(chunk, NULL);
    tn_vacated_enter(pool, chunk, from);
}

/* Count chunks mapped for good, or no longer mapped; segments likewise. */
static void count_mapped(tarn_pool *pool, enum tn_heap_kind kind, uint64_t bytes,
                         uint64_t chunk_count)
{
    struct tn_metric *metrics = pool->counters.metrics;

    TN_ASSERT(tn_pool_is_locked(pool) && bytes >= chunk_count * TN_PAGE_BYTES);
    if (chunk_count == 0)
        return;
    (void)tn_metric_add(&metrics[TN_CHUNKS], kind, chunk_count);
    (void)tn_metric_add(&metrics[TN_CHUNK_BYTES], kind, bytes);
    tn_device_count_mapped(pool->device, pool->in_host, kind, bytes, chunk_count);
    tn_tool_count(pool->counters.tool_counter, tn_pool_mapped_bytes(pool));
}

static void count_unmapped(tarn_pool *pool, const struct tn_chunk *chunk)
{
    struct tn_metric *metrics = pool->counters.metrics;
    enum tn_heap_kind kind = (enum tn_heap_kind)chunk->kind;

    TN_ASSERT(tn_pool_is_locked(pool));
    tn_metric_remove(&metrics[TN_CHUNKS], kind, 1);
    tn_metric_remove(&metrics[TN_CHUNK_BYTES], kind, chunk->bytes);
    tn_device_count_unmapped(pool->device, pool->in_host, kind, chunk->bytes);
    tn_tool_count(pool->counters.tool_counter, tn_pool_mapped_bytes(pool));
}

tarn_status tn_chunks_prepare(tarn_pool *pool, const struct tn_supply *supply)
{
    tarn_status status = tn_pool_check_limit(pool, supply->made.bytes);

    if (status == TARN_OK &&
        !reserve_ids(pool, supply->moves.count + tn_growth_chunk_count(supply->made)))
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for chunks");
    return status;
}

/* The size of the next chunk at so many bytes of the supply, and the chunk whose memory it gets;
 * NULL: new memory. */
static uint64_t next_chunk(const struct tn_supply *supply, uint64_t done, size_t count,
                           const struct tn_chunk **from)
{
    uint64_t left = tn_supply_bytes(supply) - done;

    *from = count < supply->moves.count ? supply->moves.chunks[count] : NULL;
    return *from != NULL ? (*from)->bytes
                         : tn_min((uint64_t)1 << tn_log2_floor(left), supply->made.chunk_bytes_max);
}

/* Tells trackers of what was mapped from the offset on. */
static void track_mapped(tarn_device *device, const struct tn_segment *segment, uint64_t offset,
                         uint64_t end)
{
    while (tn_trackers_want(device, TARN_TRACKED_MAPPED) && offset < end) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, offset);

        tn_trackers_note_mapped(device, chunk);
        offset = tn_chunk_end(chunk);
    }
}

/* Writes what was mapped from the offset on, and which of it has moved there. */
static void note_mapped(tarn_pool *pool, const struct tn_segment *segment, uint64_t offset,
                        const struct tn_supply *supply, uint32_t stack)
{
    const uint64_t end = offset + tn_supply_bytes(supply);

    if (tn_device_ring(pool->device) == NULL)
        return;
    for (size_t i = 0; offset < end; i++) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(segment, offset);

        if (i < supply->moves.count)
            tn_pool_note(pool, TN_NOTE_MOVED,
                         TN_OPERANDS(tn_chunk_address(supply->moves.chunks[i]),
                                     tn_chunk_address(chunk), chunk->bytes));
        else
            tn_pool_note(pool, TN_NOTE_MAPPED,
                         TN_OPERANDS(tn_chunk_address(chunk), tn_note_bytes_of(chunk->bytes, stack),
                                     chunk->memory->handle));
        offset = tn_chunk_end(chunk);
    }
}

/* From now on the memory is elsewhere. */
static void conclude_moves(tarn_pool *pool, const struct tn_moves *moves)
{
    for (size_t i = 0; i < moves->count; i++) {
        count_unmapped(pool, moves->chunks[i]);
        tn_live_drop(moves->chunks[i]);
    }
}

/* Maps the supply, all or nothing; prepared. Other arenas may go on meanwhile. */
static tarn_status map_chunks(tarn_pool *pool, struct tn_heap *heap, struct tn_segment *segment,
                              uint64_t offset, const struct tn_supply *supply, uint32_t stack)
{
    uint64_t end = offset + tn_supply_bytes(supply);
    size_t count = 0;
    uint64_t at = offset;
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_is_held(&pool->device->growing));
    while (status == TARN_OK && at < end) {
        const struct tn_chunk *from;
        uint64_t bytes = next_chunk(supply, at - offset, count, &from);

        status = add_chunk(pool, heap, segment, at, bytes, from, stack);
        if (status == TARN_OK) {
            at += bytes;
            count += 1;
        }
    }
    if (status == TARN_OK) {
        conclude_moves(pool, &supply->moves); /* first, or peaks would have the memory twice */
        count_mapped(pool, heap->kind, end - offset, count);
        note_mapped(pool, segment, offset, supply, stack);
        track_mapped(pool->device, segment, offset, end);
        return TARN_OK;
    }
    while (at > offset) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, at - TN_PAGE_BYTES);

        at = chunk->offset;
        remove_chunk(pool, chunk, tn_memory_source(chunk->memory));
    }
    return status;
}

tarn_status tn_chunks_add(tarn_pool *pool, struct tn_heap *heap, struct tn_segment *segment,
                          uint64_t offset, const struct tn_supply *supply)
{
    const uint32_t stack = tn_stacking_of_growth(&pool->device->history.stacking);
    tarn_status status;

    tn_lock_acquire(&pool->device->growing);
    status = map_chunks(pool, heap, segment, offset, supply, stack);
    tn_lock_release(&pool->device->growing);
    return status;
}

void tn_chunks_remove(tarn_pool *pool, struct tn_chunk *chunk, enum tn_unmapped to)
{
    if (to == TN_UNMAPPED_LATER) {
        vacate_chunk(pool, chunk);
        return;
    }
    count_unmapped(pool, chunk);
    if (chunk->memory->chunk_count > 1)
        tn_vacated_close_of(pool, chunk->memory); /* P29 */
    tn_pool_note(pool, TN_NOTE_UNMAPPED,
                 TN_OPERANDS(tn_chunk_address(chunk), chunk->bytes, chunk->memory->handle));
    remove_chunk(pool, chunk, to);
}

void tn_chunks_reoccupy(tarn_pool *pool, struct tn_chunk *chunk)
{
    tn_chunk_pass(chunk, tn_vacated_leave_last(pool, chunk));
    enter(pool, chunk);
}

/* Takes access to the chunks with an id below the limit. */
static void remove_peer_below(tarn_pool *pool, int peer, size_t limit)
{
    for (size_t id = 0; id < limit; id++) {
        if (pool->chunks.by_id[id] != NULL)
            tn_chunk_remove_peer(pool->chunks.by_id[id], peer);
    }
}

tarn_status tn_pool_add_peer(tarn_pool *pool, int peer)
{
    tarn_status status = TARN_OK;
    size_t id = 0;

    TN_ASSERT(tn_pool_is_locked(pool) && peer >= 0 && peer < 64);
    if ((pool->memory.peer_mask >> peer & 1) != 0 || tn_pool_has_pieces(pool))
        return TARN_OK; /* every device uses registered memory */
    while (status == TARN_OK && id < pool->chunks.ids) {
        if (pool->chunks.by_id[id] != NULL)
            status = tn_chunk_add_peer(pool->chunks.by_id[id], peer);
        id += status == TARN_OK;
    }
    if (status == TARN_OK) {
        pool->memory.peer_mask |= (uint64_t)1 << peer;
        return TARN_OK;
    }
    remove_peer_below(pool, peer, id);
    return status;
}

void tn_pool_remove_peer(tarn_pool *pool, int peer)
{
    TN_ASSERT(tn_pool_is_locked(pool) && (pool->memory.peer_mask >> peer & 1) != 0);
    pool->memory.peer_mask &= ~((uint64_t)1 << peer);
    remove_peer_below(pool, peer, pool->chunks.ids);
}
