// SPDX-License-Identifier: Apache-2.0
/* Growth and shrinking of segments.
 *
 * ahead.c decides how much is mapped at a time, and how large segments are; moves.c, which memory
 * moves there before any is created. A growth goes to the lowest segment with room in which the
 * heap grows, else to a new segment. It uses free bytes at the place's lower edge, so that a
 * segment grows like one piece.
 *
 * Everything which may fail comes first (records, chunks, the driver), but for memory that moves:
 * its old place is vacated before others go on. On failure all is undone, and each chunk returns to
 * its origin. Other blocks and counters are changed afterwards.
 *
 * Trade-offs: places are found by walking segments, which are few, since they double. */
#include "pools/grow.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "pools/device.h"
#include "pools/handover.h"
#include "pools/moves.h"
#include "pools/vacated.h"

static void count_segment(tarn_pool *pool, const struct tn_segment *segment, bool made)
{
    static const enum tn_metric_id ids[] = {TN_SEGMENTS, TN_SEGMENT_BYTES, TN_OWN_SEGMENTS};
    const uint64_t amounts[] = {1, segment->bytes, segment->is_own};
    enum tn_heap_kind kind = (enum tn_heap_kind)segment->kind;

    for (int i = 0; i < 3; i++) {
        if (made)
            tn_metric_add(&pool->counters.metrics[ids[i]], kind, amounts[i]);
        else
            tn_metric_remove(&pool->counters.metrics[ids[i]], kind, amounts[i]);
        tn_device_count(pool->device, ids[i], kind, amounts[i], made);
    }
}

/* Makes newly mapped, so far UNMAPPED addresses free memory of the heap. */
static void enter_mapped(tarn_pool *pool, struct tn_heap *heap, struct tn_block *unmapped,
                         uint64_t offset, uint64_t bytes)
{
    TN_ASSERT(unmapped->state == TN_BLOCK_UNMAPPED);
    TN_ASSERT(offset >= unmapped->offset && offset + bytes <= tn_block_end(unmapped));
    if (offset > unmapped->offset)
        unmapped = tn_block_split(&pool->store, unmapped, offset);
    if (bytes < tn_block_bytes(unmapped))
        (void)tn_block_split(&pool->store, unmapped, offset + bytes);
    TN_ASSERT(unmapped->segment->unmapped_count > 0); /* P2 */
    unmapped->segment->unmapped_count -= 1;
    unmapped->heap = heap;
    tn_segment_admit(unmapped->segment, heap);
    if (unmapped->previous != NULL && unmapped->previous->state == TN_BLOCK_FREE)
        unmapped->previous->extends = false; /* P4 */
    (void)tn_heap_put(&pool->store, unmapped);
}

tarn_status tn_heap_map_at(tarn_pool *pool, struct tn_heap *heap, struct tn_block *unmapped,
                           uint64_t offset, uint64_t bytes)
{
    struct tn_supply supply = {.made = tn_growth_of(heap->kind, bytes)};
    tarn_status status = tn_chunks_prepare(pool, &supply);

    TN_ASSERT(unmapped->state == TN_BLOCK_UNMAPPED);
    if (status == TARN_OK) {
        tn_vacated_close_at(pool, unmapped->segment, offset, bytes);
        status = tn_chunks_add(pool, heap, unmapped->segment, offset, &supply);
    }
    if (status == TARN_OK)
        enter_mapped(pool, heap, unmapped, offset, bytes);
    return status;
}

/* Where a heap grows. */
struct place {
    struct tn_block *unmapped; /* whose first bytes are mapped; NULL: no place */
    uint64_t have;             /* FREE bytes below, which the growth extends */
    uint64_t room;             /* bytes that may be mapped */
};

/* Whether the heap may extend the FREE block. Idle memory is for captures alone: not everyone may
 * take it. */
static bool may_extend(const struct tn_block *block, const struct tn_heap *heap)
{
    const struct tn_arena *idle = &heap->arena->pool->idle;

    if (block == NULL || block->state != TN_BLOCK_FREE || heap->arena == idle)
        return false;
    return block->heap == heap || (tn_arena_is_captured(heap->arena) && block->heap->arena == idle);
}

enum { EXTENDED_MAX = 4 }; /* FREE blocks: small and large idle memory may take turns */

/* The FREE bytes below which the heap may extend. */
static uint64_t bytes_to_extend(const struct tn_block *unmapped, const struct tn_heap *heap)
{
    const struct tn_block *block = unmapped->previous;
    uint64_t bytes = 0;

    for (int i = 0; i < EXTENDED_MAX && may_extend(block, heap); i++) {
        bytes += tn_block_bytes(block);
        block = block->previous;
    }
    return bytes;
}

/* Makes the FREE bytes below one block of the heap; returns the bytes. Takes up to two records for
 * each block of idle memory. */
static uint64_t extend(tarn_pool *pool, struct tn_heap *heap, const struct tn_block *unmapped)
{
    struct tn_block *below = unmapped->previous;

    for (int i = 0; i < EXTENDED_MAX && may_extend(below, heap); i++) {
        if (below->heap != heap)
            tn_heap_take_free(pool, heap, below);
        below = unmapped->previous;
        TN_ASSERT(below->state == TN_BLOCK_FREE && below->heap == heap);
        if (!may_extend(below->previous, heap))
            break;
        below = below->previous;
    }
    return may_extend(unmapped->previous, heap) ? tn_block_bytes(unmapped->previous) : 0;
}

/* Finds a place in the segment at which the heap can grow to a FREE block of bytes: the highest, or
 * for a capture the one with most to extend, where that is more than is found already. */
static void search_segment(const tarn_pool *pool, const struct tn_segment *segment,
                           const struct tn_heap *heap, uint64_t bytes, struct place *found)
{
    uint32_t left = segment->unmapped_count;

    for (struct tn_block *block = segment->last_block; left > 0; block = block->previous) {
        struct place place = {.unmapped = block};

        if (block->state != TN_BLOCK_UNMAPPED)
            continue;
        left -= 1;
        place.have = bytes_to_extend(block, heap);
        if (place.have + tn_block_bytes(block) < bytes ||
            (found->unmapped != NULL && place.have <= found->have))
            continue;
        place.room = tn_vacated_room(pool, segment, block->offset, tn_block_bytes(block));
        if (place.have + place.room < bytes)
            continue;
        *found = place;
        if (!tn_arena_is_captured(heap->arena))
            return;
    }
}

/* Whether the heap may grow in the segment: its own, or one of idle memory. What a capture extends
 * can never move, so it does not begin in a segment for small blocks, which soon ends. */
static bool grows_in(const tarn_pool *pool, const struct tn_segment *segment,
                     const struct tn_heap *heap, const struct tn_arena *group)
{
    const struct tn_arena *grower = segment->grower->arena;

    if (segment->grower == heap)
        return true;
    return (grower == &pool->idle || grower == group) &&
           (!tn_arena_is_captured(heap->arena) || segment->kind == (int)heap->kind);
}

static bool find_place(tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes,
                       struct place *place)
{
    const struct tn_arena *group = tn_arena_of_group(pool, heap->arena);

    TN_ASSERT(tn_pool_is_locked(pool));
    place->unmapped = NULL;
    for (struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next) {
        if (!grows_in(pool, segment, heap, group))
            continue;
        search_segment(pool, segment, heap, bytes, place);
        if (place->unmapped != NULL && !tn_arena_is_captured(heap->arena))
            return true;
    }
    return place->unmapped != NULL;
}

/* Makes a new segment for the heap, a single UNMAPPED block; takes one record. */
static tarn_status add_segment(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                               struct tn_block **place)
{
    uint64_t size = tn_segment_bytes_next(pool, heap);
    bool own;
    struct tn_segment *segment;
    struct tn_block *block;
    tarn_status status;

    if (size < bytes && bytes <= tn_segment_bytes_after(pool, heap, size))
        size = tn_segment_bytes_after(pool, heap, size);
    own = bytes > size;
    status = tn_segment_create(&pool->device->regions, own ? bytes : size, pool,
                               pool->segments.next_index, &segment);

    if (status == TARN_ERR_ADDRESS_SPACE && !own) {
        own = true; /* the need alone may find addresses */
        status = tn_segment_create(&pool->device->regions, bytes, pool, pool->segments.next_index,
                                   &segment);
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
    segment->kind = (int)heap->kind;
    segment->is_own = own;
    segment->previous = pool->segments.last;
    if (pool->segments.last != NULL)
        pool->segments.last->next = segment;
    else
        pool->segments.first = segment;
    pool->segments.last = segment;
    pool->segments.next_index += 1;
    count_segment(pool, segment, true);
    if (!own)
        heap->segment_bytes = tn_segment_bytes_after(pool, heap, size);
    *place = block;
    TN_ASSERT(segment->bytes >= bytes && pool->segments.last == segment);
    return TARN_OK;
}

static void remove_segment(tarn_pool *pool, struct tn_segment *segment)
{
    TN_ASSERT(segment->first_block == segment->last_block);
    TN_ASSERT(segment->chunk_count == 0 && segment->checkpoint_count == 0);
    if (segment->previous != NULL)
        segment->previous->next = segment->next;
    else
        pool->segments.first = segment->next;
    if (segment->next != NULL)
        segment->next->previous = segment->previous;
    else
        pool->segments.last = segment->previous;
    count_segment(pool, segment, false);
    tn_block_give(&pool->store, segment->first_block);
    tn_segment_destroy(segment);
}

static bool is_bare(const struct tn_segment *segment)
{
    return segment->first_block == segment->last_block &&
           segment->first_block->state == TN_BLOCK_UNMAPPED && segment->checkpoint_count == 0 &&
           segment->vacated_count == 0;
}

static void drop_bare(tarn_pool *pool, struct tn_segment *segment)
{
    if (!is_bare(segment))
        return;
    remove_segment(pool, segment);
    tn_regions_shrink(&pool->device->regions); /* the region may have been made for this segment */
}

/* Cuts a chunk out of the FREE block around it and removes it. Takes up to two records.
 * Returns the UNMAPPED block in its place. */
static struct tn_block *punch(tarn_pool *pool, struct tn_block *block, struct tn_chunk *chunk,
                              enum tn_unmapped to)
{
    struct tn_block *hole = tn_heap_carve(&pool->store, block, chunk->offset, chunk->bytes);

    TN_ASSERT(chunk->heap == hole->heap && hole->state == TN_BLOCK_FREE);
    tn_chunks_remove(pool, chunk, to);
    hole->state = TN_BLOCK_UNMAPPED;
    hole->heap = NULL;
    hole->segment->unmapped_count += 1;
    if (hole->previous != NULL && hole->previous->state == TN_BLOCK_FREE)
        hole->previous->extends = true; /* P4 */
    if (hole->next != NULL && hole->next->state == TN_BLOCK_UNMAPPED)
        tn_block_coalesce_next(&pool->store, hole);
    if (hole->previous != NULL && hole->previous->state == TN_BLOCK_UNMAPPED) {
        hole = hole->previous;
        tn_block_coalesce_next(&pool->store, hole);
    }
    TN_ASSERT(hole->state == TN_BLOCK_UNMAPPED && hole->segment->unmapped_count > 0);
    return hole;
}

/* The FREE block around a chunk that is all free. */
static struct tn_block *block_around(const struct tn_chunk *chunk)
{
    const struct tn_bins *bins = &atomic_load(&chunk->heap)->bins;
    struct tn_block *block = tn_bins_find(bins, chunk->bytes);

    while (block->segment != atomic_load(&chunk->segment) || block->offset > chunk->offset ||
           tn_block_end(block) < tn_chunk_end(chunk))
        block = tn_bins_next(bins, block, chunk->bytes);
    return block;
}

/* Vacates the places whose memory is about to move. Takes up to two records for each, and as many
 * when it is undone. unmapped: where the memory moves to; the block may grow downwards. */
static void vacate(tarn_pool *pool, const struct tn_moves *moves, struct tn_block **unmapped)
{
    const struct tn_segment *segment = (*unmapped)->segment;
    uint64_t to = (*unmapped)->offset;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (size_t i = 0; i < moves->count; i++) {
        struct tn_chunk *chunk = moves->chunks[i];
        struct tn_block *hole = punch(pool, block_around(chunk), chunk, TN_UNMAPPED_LATER);

        if (hole->segment == segment && hole->offset <= to && tn_block_end(hole) > to)
            *unmapped = hole;
    }
}

/* Undoes vacate: the memory stays where it was. */
static void reoccupy(tarn_pool *pool, const struct tn_moves *moves)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    for (size_t i = moves->count; i-- > 0;) {
        struct tn_chunk *chunk = moves->chunks[i];
        struct tn_block *block = atomic_load(&chunk->segment)->first_block;

        tn_chunks_reoccupy(pool, chunk);
        while (tn_block_end(block) <= chunk->offset)
            block = block->next;
        enter_mapped(pool, chunk->heap, block, chunk->offset, chunk->bytes);
    }
}

enum {
    RECORDS_FOR_GROWTH = 5 + 2 * EXTENDED_MAX, /* a segment, two splits; two for the caller */
    RECORDS_FOR_MOVE = 2,
};

/* Finds or makes a place for a FREE block of bytes. */
static tarn_status provide_place(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                                 struct place *place)
{
    tarn_status status;

    if (!tn_blocks_reserve(&pool->store, RECORDS_FOR_GROWTH))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for block records");
    if (find_place(pool, heap, bytes, place)) {
        place->have = extend(pool, heap, place->unmapped);
        if (place->have > 0 && !tn_block_reserve_entries(place->unmapped->previous))
            return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a block's records");
        return TARN_OK;
    }
    status = add_segment(pool, heap, bytes, &place->unmapped);
    if (status != TARN_OK)
        return status;
    place->have = 0;
    place->room = tn_block_bytes(place->unmapped);
    return TARN_OK;
}

/* A growth that is wanted. */
struct wish {
    uint64_t bytes; /* of the FREE block that is to come */
    uint64_t left;  /* see struct tn_lack */
    bool frugal;
};

/* Decides what is mapped at the place. */
static void make_supply(tarn_pool *pool, struct tn_heap *heap, const struct wish *wish,
                        const struct place *place, struct tn_supply *supply)
{
    const struct tn_lack lack = {.block_bytes = wish->bytes,
                                 .need = tn_round_up(wish->bytes - place->have, TN_PAGE_BYTES),
                                 .room = place->room,
                                 .left = wish->left};
    struct tn_want want = {.heap = heap,
                           .room = place->room,
                           .extended = place->have > 0 ? place->unmapped->previous : NULL};

    TN_ASSERT(wish->bytes > place->have && place->unmapped->state == TN_BLOCK_UNMAPPED);
    supply->made = wish->frugal ? tn_growth_size_frugal(heap, &lack)
                                : tn_growth_size(pool, heap, tn_growth_run(pool, heap), &lack);
    want.bytes = supply->made.bytes;
    tn_moves_choose(pool, &want, &supply->moves);
    TN_ASSERT(tn_moves_leave_none(pool, &want, &supply->moves));
    if (!tn_blocks_reserve(&pool->store,
                           RECORDS_FOR_GROWTH + RECORDS_FOR_MOVE * supply->moves.count))
        supply->moves = (struct tn_moves){.count = 0};
    supply->made.bytes -= tn_min(supply->made.bytes, supply->moves.bytes);
}

/* Decides where to grow, and what is mapped there: nothing where a capture has got enough FREE bytes
 * of idle memory to extend its own. Where memory could move but for the place's lack
 * of room, the growth goes to a place with more. */
static tarn_status plan_growth(tarn_pool *pool, struct tn_heap *heap, const struct wish *wish,
                               struct place *place, struct tn_supply *supply)
{
    struct place roomy;
    tarn_status status;

    tn_vacated_poll(pool);
    status = provide_place(pool, heap, wish->bytes, place);
    if (status != TARN_OK || place->have >= wish->bytes)
        return status;
    make_supply(pool, heap, wish, place, supply);
    if (!supply->moves.lacks_room)
        return TARN_OK;
    if (provide_place(pool, heap, tn_round_up(wish->bytes, TN_PAGE_BYTES) + TN_MEMORY_BYTES_MAX,
                      &roomy) != TARN_OK)
        return TARN_OK;
    if (is_bare(place->unmapped->segment) && place->unmapped->segment != roomy.unmapped->segment)
        drop_bare(pool, place->unmapped->segment);
    *place = roomy;
    if (place->have < wish->bytes)
        make_supply(pool, heap, wish, place, supply);
    return TARN_OK;
}

/* Maps the supply at the place. Other arenas go on meanwhile, so nobody may find moving memory. */
static tarn_status map_supply(tarn_pool *pool, struct tn_heap *heap, const struct place *place,
                              const struct tn_supply *supply, struct tn_run *run)
{
    struct tn_block *unmapped = place->unmapped;
    struct tn_segment *segment = unmapped->segment;
    uint64_t offset = unmapped->offset;
    tarn_status status = tn_chunks_prepare(pool, supply);

    if (status != TARN_OK)
        return status;
    vacate(pool, &supply->moves, &unmapped);
    tn_pool_resume_others(pool, heap->arena); /* the driver's part takes longest */
    status = tn_chunks_add(pool, heap, segment, offset, supply);
    tn_pool_stop_others(pool, heap->arena);
    if (status != TARN_OK) {
        reoccupy(pool, &supply->moves);
        return status;
    }
    *run = (struct tn_run){segment, offset, offset + tn_supply_bytes(supply)};
    enter_mapped(pool, heap, unmapped, offset, tn_supply_bytes(supply));
    return TARN_OK;
}

tarn_status tn_heap_grow_undoable(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                                  bool frugal, uint64_t left, struct tn_growth *growth)
{
    const struct wish wish = {.bytes = bytes, .left = left, .frugal = frugal};
    struct tn_growth made = {heap,
                             {NULL, 0, 0},
                             heap->segment_bytes,
                             heap->run_bytes,
                             heap->run_alloc_count,
                             heap->run_free_count};
    uint64_t run = tn_growth_run(pool, heap);
    struct tn_supply supply;
    struct place place;
    struct tn_segment *segment;
    tarn_status status = plan_growth(pool, heap, &wish, &place, &supply);

    if (status != TARN_OK)
        return status;
    if (place.have >= bytes) {
        *growth = made;
        return TARN_OK;
    }
    segment = place.unmapped->segment;
    status = map_supply(pool, heap, &place, &supply, &made.mapped);
    if (status == TARN_OK) {
        tn_growth_enter(pool, heap, run, made.mapped.end - made.mapped.begin);
        segment->grower = heap;
        pool->counters.events[TN_GROWTHS].count += 1;
        *growth = made;
    } else {
        drop_bare(pool, segment);
        heap->segment_bytes = made.segment_bytes; /* undoes the step for a newly made segment */
    }
    return status;
}

tarn_status tn_heap_grow(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes, bool frugal)
{
    struct tn_growth growth;

    return tn_heap_grow_undoable(pool, heap, bytes, frugal, 0, &growth);
}

void tn_heap_unmap_at(tarn_pool *pool, struct tn_segment *segment, uint64_t offset, uint64_t bytes)
{
    struct tn_block *block = segment->first_block;

    TN_ASSERT(tn_pool_is_locked(pool) && offset + bytes <= segment->bytes);
    for (uint64_t at = offset; at < offset + bytes;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, at);

        at = tn_chunk_end(chunk);
        while (tn_block_end(block) <= chunk->offset)
            block = block->next;
        block = punch(pool, block, chunk, tn_memory_origin(chunk->memory));
    }
}

void tn_heap_ungrow(tarn_pool *pool, const struct tn_growth *growth)
{
    const struct tn_run *mapped = &growth->mapped;
    struct tn_heap *heap = growth->heap;

    TN_ASSERT(mapped->begin <= mapped->end && heap->arena->pool == pool);
    if (mapped->segment == NULL)
        return;
    tn_heap_unmap_at(pool, mapped->segment, mapped->begin, mapped->end - mapped->begin);
    drop_bare(pool, mapped->segment);
    heap->segment_bytes = growth->segment_bytes;
    heap->run_bytes = growth->run_bytes;
    heap->run_alloc_count = growth->run_alloc_count;
    heap->run_free_count = growth->run_free_count;
}

/* A trim under way. */
struct shrinking {
    uint64_t left_bytes; /* still to unmap */
    enum tn_unmapped to;
    bool unused_only; /* memory mapped ahead goes first */
    bool *unproven;
};

static bool may_unmap(const struct tn_chunk *chunk, const struct tn_gpu *gpu,
                      const struct shrinking *shrinking)
{
    TN_ASSERT(chunk->used_bytes == 0); /* P6: it is inside a FREE block */
    if (chunk->hold_count > 0 ||
        (shrinking->unused_only && (chunk->freed_stamp != 0 || chunk->was_used)))
        return false;
    if (tn_gpu_is_proven(gpu, chunk->freed_stamp))
        return true;
    *shrinking->unproven = true;
    return false;
}

/* The highest chunk wholly inside the FREE block which may go. */
static struct tn_chunk *find_chunk_to_unmap(const struct tn_block *block, const struct tn_gpu *gpu,
                                            const struct shrinking *shrinking)
{
    uint64_t end = tn_block_end(block);

    TN_ASSERT(block->state == TN_BLOCK_FREE);
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
    uint64_t mapped = tn_pool_mapped_bytes(pool);
    struct tn_segment *previous;

    TN_ASSERT(tn_pool_is_locked(pool));
    tn_vacated_sweep(pool);
    for (int pass = 0; pass < 2; pass++) {
        shrinking.unused_only = pass == 0;
        for (struct tn_segment *segment = pool->segments.last; segment != NULL;
             segment = previous) {
            previous = segment->previous;
            shrink_segment(pool, segment, &shrinking);
            if (is_bare(segment))
                remove_segment(pool, segment);
        }
    }
    return mapped - tn_pool_mapped_bytes(pool);
}

void tn_pool_unmap_all(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool) && tn_pool_live_count(pool) == 0);
    for (size_t id = 0; id < pool->chunks.ids; id++) {
        struct tn_chunk *chunk = pool->chunks.by_id[id];

        if (chunk != NULL) {
            chunk->used_bytes = 0; /* of DISCARDED blocks */
            tn_chunks_remove(pool, chunk, TN_UNMAPPED_TO_CACHE);
        }
    }
    while (pool->segments.first != NULL) {
        struct tn_segment *segment = pool->segments.first;

        pool->segments.first = segment->next;
        count_segment(pool, segment, false);
        tn_segment_destroy(segment);
    }
    pool->segments.last = NULL;
    TN_ASSERT(pool->chunks.count == 0 && tn_pool_mapped_bytes(pool) == 0);
    TN_ASSERT(pool->vacated.count == 0); /* P28 */
}
