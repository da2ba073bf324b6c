// SPDX-License-Identifier: Apache-2.0
/* Recomputes everything which is stored twice, or follows from other fields. */
#include "observe/pool_check.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "heap/check.h"
#include "pools/arena_table.h"
#include "pools/device.h"

/* Sums of a walk over the blocks. */
struct sums {
    uint64_t ended_bytes;
    uint64_t unheld_count;
    uint64_t free_count; /* FREE blocks */
    uint64_t pending_count;
    uint64_t segment_count;
    uint64_t steps; /* at blocks, pages, chunks and births */
    uint64_t metrics[TN_METRICS][TN_HEAP_KINDS];
};

static void add_block(struct sums *sums, enum tn_metric_id blocks, uint64_t bytes)
{
    sums->metrics[blocks][tn_kind_of(bytes)] += 1;
    sums->metrics[blocks + 1][tn_kind_of(bytes)] += bytes;
}

static void add_to_metrics(const struct tn_block *block, struct sums *sums)
{
    static const int blocks_of[] = {[TN_BLOCK_LIVE] = TN_LIVE_BLOCKS,
                                    [TN_BLOCK_PENDING] = TN_PENDING_BLOCKS,
                                    [TN_BLOCK_DISCARDED] = TN_DISCARDED_BLOCKS};
    uint64_t bytes = tn_block_bytes(block);

    if (block->state == TN_BLOCK_FREE || block->state == TN_BLOCK_UNMAPPED ||
        (block->state == TN_BLOCK_PENDING && block->ended))
        return;
    add_block(sums, (enum tn_metric_id)blocks_of[block->state], bytes);
    add_block(sums, TN_ACTIVE_BLOCKS, bytes);
    if (block->state == TN_BLOCK_LIVE)
        sums->metrics[TN_LIVE_REQUESTED][tn_kind_of(bytes)] += block->requested;
}

static tarn_status check_block(const tarn_pool *pool, const struct tn_block *block,
                               struct sums *sums)
{
    tarn_status status = tn_block_check_next(block);

    if (status == TARN_OK)
        status = tn_block_check_chunks(block);
    if (status == TARN_OK)
        status = tn_block_check(block);
    if (status != TARN_OK)
        return status;
    switch (block->state) {
    case TN_BLOCK_PENDING:
        sums->ended_bytes += block->ended ? tn_block_bytes(block) : 0;
        sums->unheld_count += block->unheld;
        sums->pending_count += 1;
        break;
    case TN_BLOCK_FREE:
        sums->free_count += 1;
        break;
    case TN_BLOCK_LOOSE:
        return tn_corrupt("P19", "the number of LOOSE blocks at an offset", block->offset, 0);
    case TN_BLOCK_LIVE:
    case TN_BLOCK_DISCARDED:
    case TN_BLOCK_UNMAPPED:
        break;
    }
    add_to_metrics(block, sums);
    if (block->state == TN_BLOCK_PENDING && !tn_block_next_use_follows(block))
        TN_EXPECT_EQUAL("P24", "whether a block pending in memory of others waits for a proof",
                        tn_block_cold(block)->proof_stamp != 0, 1);
    if (tn_block_fence(block) != NULL)
        TN_EXPECT_EQUAL("P14", "whether a block with a fence is LIVE or PENDING and of no order",
                        (block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_PENDING) &&
                            tn_block_is_of(block, TN_ORDER_NONE),
                        1);
    if (block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_DISCARDED) {
        TN_EXPECT_EQUAL("P5", "the pool's block at an address",
                        (uintptr_t)tn_live_find(pool, tn_block_address(block)), (uintptr_t)block);
        TN_EXPECT_EQUAL("P23", "whether a block's entry is open", tn_live_is_open(block),
                        tn_block_is_plain(block) && !tn_block_is_of_magazine(block));
    }
    return TARN_OK;
}

static tarn_status check_segment(const tarn_pool *pool, const struct tn_segment *segment,
                                 struct sums *sums)
{
    uint64_t unmapped_count = 0;
    uint64_t chunk_count = 0;
    uint64_t mapped_bytes = 0;
    uint64_t owned_bytes = 0;
    uint64_t idle_bytes = 0;

    TN_EXPECT_EQUAL("P1", "the first block's offset", segment->first_block->offset, 0);
    TN_EXPECT_EQUAL("P1", "the last block's end", tn_block_end(segment->last_block),
                    segment->bytes);
    TN_EXPECT_EQUAL("P9", "the pool of a segment's grower", (uintptr_t)segment->grower->arena->pool,
                    (uintptr_t)pool);
    for (const struct tn_block *block = segment->first_block; block != NULL; block = block->next) {
        tarn_status status = check_block(pool, block, sums);

        if (status != TARN_OK)
            return status;
        unmapped_count += block->state == TN_BLOCK_UNMAPPED;
        sums->steps += 1;
    }
    sums->steps += segment->bytes / TN_PAGE_BYTES;
    TN_EXPECT_EQUAL("P2", "a segment's count of UNMAPPED blocks", segment->unmapped_count,
                    unmapped_count);
    for (uint64_t page = 0; page < segment->bytes / TN_PAGE_BYTES; page++) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(segment, page * TN_PAGE_BYTES);

        if (chunk == NULL)
            continue;
        chunk_count += page * TN_PAGE_BYTES == chunk->offset;
        if (page * TN_PAGE_BYTES < chunk->offset || page * TN_PAGE_BYTES >= tn_chunk_end(chunk))
            return tn_corrupt("V4", "the chunk over a page", chunk->offset, page * TN_PAGE_BYTES);
        mapped_bytes += chunk->memory != NULL ? TN_PAGE_BYTES : 0;
        owned_bytes += chunk->heap != NULL ? TN_PAGE_BYTES : 0;
        idle_bytes += chunk->heap != NULL && chunk->heap->arena == &pool->idle ? TN_PAGE_BYTES : 0;
    }
    TN_EXPECT_EQUAL("V5", "a segment's count of chunks", segment->chunk_count, chunk_count);
    TN_EXPECT_EQUAL("V5", "a segment's mapped bytes", segment->mapped_bytes, mapped_bytes);
    TN_EXPECT_EQUAL("P2", "the bytes of a segment's chunks", segment->owned_bytes, owned_bytes);
    TN_EXPECT_EQUAL("P2", "the bytes of a segment's idle chunks", segment->idle_bytes, idle_bytes);
    sums->segment_count += 1;
    return tn_segment_check(segment);
}

static uint64_t count_holds(const tarn_pool *pool, uint32_t id)
{
    uint64_t count = 0;

    for (const struct tn_hold *hold = pool->holds.first; hold != NULL; hold = hold->next)
        count += tn_chunk_set_has_id(&hold->chunks, id);
    return count;
}

static uint64_t count_known_holds(const tarn_pool *pool, uint32_t id)
{
    uint64_t count = 0;

    for (const struct tn_hold *hold = pool->holds.first; hold != NULL; hold = hold->next)
        count += (hold->open || hold->known) && tn_chunk_set_has_id(&hold->chunks, id);
    return count;
}

static uint64_t sum_of(const struct sums *sums, enum tn_metric_id id)
{
    return sums->metrics[id][TN_HEAP_SMALL] + sums->metrics[id][TN_HEAP_LARGE];
}

static tarn_status check_chunks(const tarn_pool *pool, struct sums *sums)
{
    uint64_t live_count = 0;
    tarn_status status = tn_chunk_table_check(&pool->chunks);

    if (status != TARN_OK)
        return status;
    for (size_t id = 0; id < pool->chunks.ids; id++) {
        const struct tn_chunk *chunk = pool->chunks.by_id[id];

        if (chunk == NULL)
            continue;
        sums->steps += 2 * pool->holds.count;
        live_count += chunk->live_count;
        sums->metrics[TN_CHUNKS][chunk->kind] += 1;
        sums->metrics[TN_CHUNK_BYTES][chunk->kind] += chunk->memory != NULL ? chunk->bytes : 0;
        if (chunk->memory != NULL) {
            TN_EXPECT_EQUAL("V7", "a chunk's bytes of memory", chunk->memory->bytes, chunk->bytes);
            TN_EXPECT_EQUAL("V6", "whether a chunk's memory is mapped",
                            tn_memory_is_mapped(chunk->memory), true);
        }
        TN_EXPECT_EQUAL("P7", "a chunk's holds", chunk->hold_count, count_holds(pool, chunk->id));
        TN_EXPECT_EQUAL("P33", "a chunk's holds which are open or known", chunk->known_count,
                        count_known_holds(pool, chunk->id));
        TN_EXPECT_EQUAL("P26", "what of a chunk's outside stamp is above its own",
                        chunk->outside_stamp - tn_min(chunk->outside_stamp, chunk->freed_stamp), 0);
        if (chunk->hold_count == 0 && chunk->heap->arena == &pool->idle)
            TN_EXPECT_EQUAL("P26", "the stamp of an idle chunk that nothing holds",
                            chunk->freed_stamp, chunk->outside_stamp);
    }
    TN_EXPECT_EQUAL("P5", "the blocks in the chunks' indexes", live_count,
                    sum_of(sums, TN_LIVE_BLOCKS) + sum_of(sums, TN_DISCARDED_BLOCKS));
    return TARN_OK;
}

/* What other threads may have left in the arena. */
static tarn_status check_sharing(const struct tn_arena *arena)
{
    const struct tn_inbox *inbox = atomic_load_explicit(&arena->inbox, memory_order_relaxed);
    const struct tn_magazines *magazines = tn_arena_magazines(arena);

    if (inbox != NULL)
        TN_EXPECT_EQUAL("P22", "whether an arena's inbox is closed and empty",
                        !tn_inbox_is_open(inbox) && tn_inbox_is_empty(inbox), 1);
    if (magazines == NULL)
        return TARN_OK;
    TN_EXPECT_EQUAL("P37", "whether magazines are open", atomic_load(&arena->magazines_open), 0);
    TN_EXPECT_EQUAL("P37", "the rounds in magazines", tn_magazines_count_rounds(magazines), 0);
    return TARN_OK;
}

/* P30 */
static tarn_status check_asleep(const struct tn_arena *arena)
{
    if (arena->awake)
        return TARN_OK;
    TN_EXPECT_EQUAL("P30", "whether an arena asleep may do something",
                    arena->allocates != TN_NOT_STEADY || arena->frees != TN_NOT_STEADY, 0);
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        const struct tn_heap *heap = arena->heaps[kind];

        TN_EXPECT_EQUAL("P30", "the loose blocks of an arena asleep",
                        heap->loose_count + (heap->loose != NULL), 0);
        TN_EXPECT_EQUAL("P30", "the counts of an arena asleep",
                        heap->counters.allocated.count + heap->counters.freed.count, 0);
    }
    return TARN_OK;
}

/* The lists of a heap's chunks and segments, and its count of PENDING blocks. */
static tarn_status check_lists(const struct tn_heap *heap, struct sums *left)
{
    uint64_t bytes = 0;

    for (const struct tn_chunk *chunk = heap->chunks; chunk != NULL; chunk = chunk->heap_next) {
        TN_EXPECT_EQUAL("P8", "the heap of a chunk in its list", (uintptr_t)chunk->heap,
                        (uintptr_t)heap);
        bytes += chunk->bytes;
    }
    TN_EXPECT_EQUAL("P8", "the bytes of the chunks in a heap's list", bytes, heap->mapped_bytes);
    for (const struct tn_segment *segment = heap->segments; segment != NULL;
         segment = segment->grower_next) {
        TN_EXPECT_EQUAL("P9", "the grower of a segment in its list", (uintptr_t)segment->grower,
                        (uintptr_t)heap);
        left->segment_count -= 1;
    }
    left->pending_count -= heap->pending_count;
    return TARN_OK;
}

static tarn_status check_heaps(const tarn_pool *pool, const struct tn_arena *arena,
                               struct sums *left)
{
    tarn_status status = check_sharing(arena);

    if (status == TARN_OK)
        status = check_asleep(arena);
    if (status != TARN_OK)
        return status;
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        const struct tn_heap *heap = arena->heaps[kind];
        uint64_t mapped = 0;

        for (size_t id = 0; id < pool->chunks.ids; id++) {
            if (pool->chunks.by_id[id] != NULL && pool->chunks.by_id[id]->heap == heap)
                mapped += pool->chunks.by_id[id]->bytes;
        }
        TN_EXPECT_EQUAL("P8", "a heap's mapped bytes", heap->mapped_bytes, mapped);
        TN_EXPECT_EQUAL("P4", "whether the maps are those of a heap's bins",
                        tn_bins_is_exact(&heap->bins), 1);
        left->free_count -= tn_bins_count(&heap->bins);
        status = check_lists(heap, left);
        if (status != TARN_OK)
            return status;
    }
    if (!arena->awake)
        TN_EXPECT_EQUAL("P40", "what an arena asleep gives", arena->gives,
                        tn_max(arena->gives, tn_arena_can_give(arena)));
    return TARN_OK;
}

/* The UNMAPPED block over a vacated place, and the chunk that has its memory now. */
static tarn_status check_place(const tarn_pool *pool, const struct tn_chunk *place,
                               struct sums *sums)
{
    const struct tn_segment *segment = atomic_load(&place->segment);
    const struct tn_block *block = segment->first_block;
    const struct tn_chunk *now = NULL;

    while (tn_block_end(block) <= place->offset)
        block = block->next;
    TN_EXPECT_EQUAL("P28", "the state of the block over a vacated place", block->state,
                    TN_BLOCK_UNMAPPED);
    TN_EXPECT_EQUAL("P28", "whether a vacated place lies in one block",
                    tn_block_end(block) >= tn_chunk_end(place), 1);
    for (size_t id = 0; id < pool->chunks.ids && now == NULL; id++) {
        if (pool->chunks.by_id[id] != NULL && pool->chunks.by_id[id]->memory == place->memory)
            now = pool->chunks.by_id[id];
    }
    sums->steps += pool->chunks.ids;
    TN_EXPECT_EQUAL("P28", "whether a chunk has the memory of a vacated place", now != NULL, 1);
    TN_EXPECT_EQUAL("P29", "whether the stamp of a vacated place is at most its memory's",
                    place->freed_stamp <= now->freed_stamp || now->was_used, 1);
    return TARN_OK;
}

static tarn_status check_vacated(const tarn_pool *pool, struct sums *sums)
{
    uint64_t count = 0;
    uint64_t of_segments = 0;
    tarn_status status = TARN_OK;

    for (const struct tn_chunk *place = pool->vacated.first; place != NULL && status == TARN_OK;
         place = place->next) {
        status = check_place(pool, place, sums);
        count += 1;
    }
    if (status != TARN_OK)
        return status;
    for (const struct tn_segment *segment = tn_pool_first_segment(pool); segment != NULL;
         segment = tn_pool_next_segment(pool, segment))
        of_segments += segment->vacated_count;
    TN_EXPECT_EQUAL("P28", "the pool's count of vacated places", pool->vacated.count, count);
    TN_EXPECT_EQUAL("P28", "the segments' counts of vacated places", of_segments, count);
    return TARN_OK;
}

static const char *const metric_names[TN_METRICS] = {
    "the number of live blocks of a kind", "the live bytes of a kind",
    "the requested bytes of a kind",       "the number of active blocks of a kind",
    "the active bytes of a kind",          "the number of pending blocks of a kind",
    "the pending bytes of a kind",         "the number of discarded blocks of a kind",
    "the discarded bytes of a kind",       "the number of chunks of a kind",
    "the mapped bytes of a kind",          "the number of segments of a kind",
    "the bytes of segments of a kind",     "the number of segments of one block of a kind",
};

static tarn_status check_counters(const tarn_pool *pool, const struct sums *sums)
{
    TN_EXPECT_EQUAL("P8", "the pool's ended bytes", pool->pending.ended_bytes, sums->ended_bytes);
    TN_EXPECT_EQUAL("P8", "the pool's unheld count", pool->pending.unheld_count,
                    sums->unheld_count);
    for (int id = 0; id < TN_METRICS; id++) {
        for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
            TN_EXPECT_EQUAL("P8", metric_names[id],
                            tn_metric_current(&pool->counters.metrics[id], (enum tn_heap_kind)kind),
                            sums->metrics[id][kind]);
    }
    return TARN_OK;
}

static tarn_status check_table(const tarn_pool *pool)
{
    uint64_t count = 0;

    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena)) {
        if (arena->fence == NULL)
            TN_EXPECT_EQUAL("P16", "the table's arena of an order",
                            (uintptr_t)tn_arena_seek(pool, arena->order), (uintptr_t)arena);
        count += arena->fence == NULL;
        TN_EXPECT_EQUAL(
            "P38", "the key of an arena in the index", tn_arena_heaps(arena)->by_stream.key,
            arena->fence == NULL && arena->order.capture_id == 0 ? arena->order.stream_id : 0);
        TN_EXPECT_EQUAL("P38", "whether the index has an arena under its stream",
                        tn_pool_index_has(&pool->device->index, TN_BY_STREAM,
                                          &tn_arena_heaps(arena)->by_stream),
                        tn_arena_heaps(arena)->by_stream.key != 0);
    }
    TN_EXPECT_EQUAL("P21", "the arenas in the table", tn_arena_table_count(pool), count);
    return TARN_OK;
}

static tarn_status check_retired(const tarn_pool *pool)
{
    uint64_t count = 0;
    uint64_t retired = 0;

    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena)) {
        count += 1;
        TN_EXPECT_EQUAL("P14", "whether an arena with a fence is of no order",
                        tn_order_equal(arena->order, TN_ORDER_NONE), arena->fence != NULL);
        retired += arena->fence != NULL;
    }
    TN_EXPECT_EQUAL("P14", "the pool's count of arenas", pool->arenas.count, count);
    TN_EXPECT_EQUAL("P14", "the count of retired arenas", pool->arenas.retired_count, retired);
    return TARN_OK;
}

static tarn_status check_arena_births(const struct tn_births *births)
{
    uint64_t sequence = 0;

    for (size_t i = 0; i < births->count; i++) {
        const struct tn_birth *birth = &births->items[i];
        uint64_t nodes = birth->place < births->word_count ? births->words[birth->place] : 0;
        uint64_t end = birth->place + 1 + (nodes == TN_PLACE_UNKNOWN ? 0 : nodes);

        TN_EXPECT_EQUAL("P27", "whether a birth is newer than the one before it",
                        birth->sequence > sequence, 1);
        TN_EXPECT_EQUAL("P27", "whether a birth's place is there", end <= births->word_count, 1);
        sequence = birth->sequence;
    }
    return TARN_OK;
}

static tarn_status check_births(const tarn_pool *pool)
{
    tarn_status status = TARN_OK;

    for (const struct tn_hold *hold = pool->holds.first; hold != NULL; hold = hold->next) {
        for (const struct tn_births *births = hold->births; births != NULL && status == TARN_OK;
             births = births->next)
            status = check_arena_births(births);
    }
    return status;
}

static uint64_t key_of(tn_cu_graph graph)
{
    return (uint64_t)(uintptr_t)graph;
}

/* P31 */
static tarn_status check_keys(const struct tn_hold *hold)
{
    const uint64_t keys[TN_HOLD_KEYS] = {
        [TN_BY_CAPTURE] = hold->capture_id != TN_HOLD_NO_CAPTURE ? hold->capture_id : 0,
        [TN_BY_GRAPH] = key_of(hold->graph),
        [TN_BY_KEEPER] = key_of(hold->keeper),
    };

    for (int by = 0; by < TN_HOLD_KEYS; by++) {
        TN_EXPECT_EQUAL("P31", "the key of a hold in the index", hold->entries[by].key, keys[by]);
        TN_EXPECT_EQUAL(
            "P31", "whether the index has a hold under its key",
            tn_pool_index_has(hold->holds->index, (enum tn_index_key)by, &hold->entries[by]),
            keys[by] != 0);
    }
    return TARN_OK;
}

/* P31 */
static tarn_status check_holds(const tarn_pool *pool, struct sums *sums)
{
    uint64_t count = 0;
    uint64_t open_count = 0;
    const struct tn_hold *open = pool->holds.open;

    for (const struct tn_hold *hold = pool->holds.first; hold != NULL; hold = hold->next) {
        tarn_status status = check_keys(hold);

        if (status != TARN_OK)
            return status;
        count += 1;
        open_count += hold->open;
        if (!hold->open)
            continue;
        TN_EXPECT_EQUAL("P31", "the next open hold", (uintptr_t)open, (uintptr_t)hold);
        open = open->open_next;
    }
    TN_EXPECT_EQUAL("P31", "what follows the open holds", (uintptr_t)open, 0);
    TN_EXPECT_EQUAL("P31", "the number of holds", pool->holds.count, count);
    TN_EXPECT_EQUAL("P31", "the number of open holds", pool->holds.open_count, open_count);
    sums->steps += 4 * count;
    return TARN_OK;
}

static tarn_status check_segments(const tarn_pool *pool, struct sums *sums)
{
    tarn_status status = TARN_OK;

    for (const struct tn_segment *segment = tn_pool_first_segment(pool);
         segment != NULL && status == TARN_OK; segment = tn_pool_next_segment(pool, segment)) {
        status = check_segment(pool, segment, sums);
        sums->metrics[TN_SEGMENTS][segment->kind] += 1;
        sums->metrics[TN_SEGMENT_BYTES][segment->kind] += segment->bytes;
        sums->metrics[TN_OWN_SEGMENTS][segment->kind] += segment->is_own;
    }
    return status;
}

static tarn_status check_arenas(const tarn_pool *pool, struct sums *sums)
{
    struct sums left = *sums;
    tarn_status status = check_heaps(pool, &pool->idle, &left);

    if (status == TARN_OK && pool->segments.dormant.arena != NULL)
        status = check_heaps(pool, pool->segments.dormant.arena, &left);
    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL];
         arena != NULL && status == TARN_OK; arena = tn_arena_next(arena)) {
        status = check_heaps(pool, arena, &left);
        sums->steps += pool->chunks.ids;
    }
    if (status != TARN_OK)
        return status;
    TN_EXPECT_EQUAL("P4", "the number of blocks in bins", sums->free_count - left.free_count,
                    sums->free_count);
    TN_EXPECT_EQUAL("P8", "the PENDING blocks that heaps count",
                    sums->pending_count - left.pending_count, sums->pending_count);
    TN_EXPECT_EQUAL("P9", "the segments in heaps' lists", sums->segment_count - left.segment_count,
                    sums->segment_count);
    return TARN_OK;
}

/* Whether the pool's neighbours in the list are its neighbours there. The lists' lock is held. */
static bool is_in(const tarn_pool *pool, enum tn_pool_list list)
{
    const struct tn_pool_lists *lists = &pool->device->lists;
    const struct tn_pool_link *link = &pool->places.in[list];

    return (link->previous != NULL ? link->previous->places.in[list].next : lists->first[list]) ==
               pool &&
           (link->next != NULL ? link->next->places.in[list].previous : lists->last[list]) == pool;
}

/* P34. has: which lists have the pool. */
static tarn_status check_released(const tarn_pool *pool, int ending, const bool *has)
{
    TN_EXPECT_EQUAL("P34", "whether the list of pools READY has the pool", has[TN_POOLS_READY],
                    ending == TN_ENDING_READY);
    TN_EXPECT_EQUAL("P34", "whether the list of pools PARKED has the pool", has[TN_POOLS_PARKED],
                    ending == TN_ENDING_PARKED);
    if (!atomic_load(&pool->released))
        TN_EXPECT_EQUAL("P34", "whether a pool that is not released may end", ending,
                        TN_ENDING_NOT);
    else if (tn_pool_is_unused(pool) && pool->holds.count == 0 &&
             tn_pool_discarded_count(pool) == 0)
        TN_EXPECT_EQUAL("P34", "whether a pool that may end is listed", ending != TN_ENDING_NOT, 1);
    return TARN_OK;
}

/* P32, P34, P36 */
static tarn_status check_device_lists(const tarn_pool *pool)
{
    static const enum tn_pool_list noted[] = {TN_POOLS_WAITING, TN_POOLS_HELD, TN_POOLS_OPEN,
                                              TN_POOLS_STRAYS};
    struct tn_pool_lists *lists = &pool->device->lists;
    bool has[TN_POOL_LISTS];
    int ending;

    tn_lock_acquire_spin(&lists->lock, TN_RANK_AWAKE);
    ending = atomic_load(&pool->ending);
    for (int list = 0; list < TN_POOL_LISTS; list++)
        has[list] = is_in(pool, (enum tn_pool_list)list);
    tn_lock_release_spin(&lists->lock, TN_RANK_AWAKE);
    TN_EXPECT_EQUAL("P32", "whether a pool is listed as awake", pool->places.listed[TN_POOLS_AWAKE],
                    pool->arenas.lists.first[TN_ARENAS_AWAKE] != NULL);
    TN_EXPECT_EQUAL("P32", "whether the list of pools awake has the pool", has[TN_POOLS_AWAKE],
                    pool->places.listed[TN_POOLS_AWAKE]);
    for (size_t i = 0; i < sizeof noted / sizeof noted[0]; i++)
        TN_EXPECT_EQUAL("P36", "whether a list of the device's has the pool", has[noted[i]],
                        pool->places.listed[noted[i]]);
    return check_released(pool, ending, has);
}

/* P35 */
static tarn_status check_published(const tarn_pool *pool)
{
    const struct tn_pool_counters *counters = &pool->counters;

    if (counters->sums == NULL || counters->unpublished ||
        pool->places.listed[TN_POOLS_UNPUBLISHED])
        return TARN_OK;
    for (int id = 0; id < TN_CHUNKS; id++) {
        for (int kind = 0; kind <= TN_ALL_KINDS; kind++)
            TN_EXPECT_EQUAL("P35", "a published peak", counters->published[id][kind],
                            counters->metrics[id].peak[kind]);
    }
    return TARN_OK;
}

tarn_status tn_pool_check_own(tarn_pool *pool, uint64_t *steps)
{
    struct sums sums = {0};
    tarn_status status;

    TN_ASSERT(tn_pool_is_locked(pool));
    tn_counters_complete(&pool->counters);
    status = check_segments(pool, &sums);
    if (status == TARN_OK)
        status = check_chunks(pool, &sums);
    if (status == TARN_OK)
        status = check_vacated(pool, &sums);
    if (status == TARN_OK)
        status = check_arenas(pool, &sums);
    if (status == TARN_OK)
        status = check_device_lists(pool);
    if (status == TARN_OK)
        status = check_published(pool);
    if (status == TARN_OK)
        status = check_retired(pool);
    if (status == TARN_OK)
        status = check_births(pool);
    if (status == TARN_OK)
        status = check_holds(pool, &sums);
    if (status == TARN_OK)
        status = check_table(pool);
    *steps += sums.steps;
    return status == TARN_OK ? check_counters(pool, &sums) : status;
}
