// SPDX-License-Identifier: Apache-2.0
/* Growth and shrinking of segments.
 *
 * sites.c decides where a heap grows; ahead.c, how much is mapped at a time; moves.c, which memory
 * moves there before any is created.
 *
 * Everything which may fail comes first (records, chunks, the driver), but for memory that moves:
 * its old place is vacated before others go on. On failure all is undone, and each chunk returns to
 * its origin. Other blocks and counters are changed afterwards. */
#include "pools/grow.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/tool.h"
#include "pools/arenas.h"
#include "pools/device.h"
#include "pools/handover.h"
#include "pools/moves.h"
#include "pools/pieces.h"
#include "pools/proofs.h"
#include "pools/sites.h"
#include "pools/vacated.h"

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

/* The segment, and the region for it, may have been made for a growth that does not come. */
static void drop_bare(tarn_pool *pool, struct tn_segment *segment)
{
    if (tn_segment_remove_bare(pool, segment))
        tn_regions_shrink(&pool->device->regions);
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
        struct tn_block *hole = tn_segment_block_at(chunk->segment, chunk->offset);

        tn_chunks_reoccupy(pool, chunk);
        enter_mapped(pool, chunk->heap, hole, chunk->offset, chunk->bytes);
    }
}

enum {
    RECORDS_FOR_GROWTH = 4 + TN_RECORDS_TO_EXTEND, /* two splits; two for the caller */
    RECORDS_FOR_MOVE = 2,
};

/* A growth that is wanted. */
struct wish {
    uint64_t bytes; /* of the FREE block that is to come */
    uint64_t left;  /* see struct tn_lack */
    bool frugal;
};

/* Decides what is mapped at the site. */
static void make_supply(tarn_pool *pool, struct tn_heap *heap, const struct wish *wish,
                        const struct tn_site *site, struct tn_supply *supply)
{
    const struct tn_lack lack = {.block_bytes = wish->bytes,
                                 .need = tn_round_up(wish->bytes - site->have, TN_PAGE_BYTES),
                                 .room = site->room,
                                 .left = wish->left};
    struct tn_want want = {.heap = heap,
                           .room = site->room,
                           .extended = {site->unmapped->segment,
                                        site->unmapped->offset - site->have,
                                        site->unmapped->offset}};

    TN_ASSERT(wish->bytes > site->have && site->unmapped->state == TN_BLOCK_UNMAPPED);
    supply->made = wish->frugal ? tn_growth_size_frugal(heap, &lack)
                                : tn_growth_size(pool, heap, tn_growth_run(pool, heap), &lack);
    want.bytes = supply->made.bytes;
    tn_moves_choose(pool, &want, &supply->moves);
    if (!tn_blocks_reserve(&pool->store,
                           RECORDS_FOR_GROWTH + RECORDS_FOR_MOVE * supply->moves.count))
        supply->moves = (struct tn_moves){.count = 0};
    supply->made.bytes -= tn_min(supply->made.bytes, supply->moves.bytes);
}

/* Decides where to grow, and what is mapped there: nothing where a capture has got enough FREE
 * bytes of idle memory to extend its own. Where memory could move but for the site's lack of room,
 * the growth goes to a site with more. */
static tarn_status plan_growth(tarn_pool *pool, struct tn_heap *heap, const struct wish *wish,
                               struct tn_site *site, struct tn_supply *supply)
{
    struct tn_site roomy;
    tarn_status status;

    tn_arenas_tend(pool);
    tn_vacated_poll(pool);
    status = tn_site_provide(pool, heap, wish->bytes, site);
    if (status != TARN_OK || site->have >= wish->bytes)
        return status;
    if (tn_pool_has_pieces(pool)) {
        *supply = (struct tn_supply){.made = {site->room, site->room}};
        return TARN_OK;
    }
    make_supply(pool, heap, wish, site, supply);
    if (!supply->moves.lacks_room)
        return TARN_OK;
    if (tn_site_provide(pool, heap, tn_round_up(wish->bytes, TN_PAGE_BYTES) + TN_MEMORY_BYTES_MAX,
                        &roomy) != TARN_OK)
        return TARN_OK;
    if (site->unmapped->segment != roomy.unmapped->segment)
        drop_bare(pool, site->unmapped->segment);
    *site = roomy;
    if (site->have < wish->bytes)
        make_supply(pool, heap, wish, site, supply);
    return TARN_OK;
}

/* Maps the supply at the site. Other arenas go on meanwhile, so nobody may find moving memory. */
static tarn_status map_supply(tarn_pool *pool, struct tn_heap *heap, const struct tn_site *site,
                              const struct tn_supply *supply, struct tn_run *run)
{
    struct tn_block *unmapped = site->unmapped;
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
    tn_site_extend(pool, heap, segment, offset);
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
    struct tn_site site;
    struct tn_segment *segment;
    tarn_status status = plan_growth(pool, heap, &wish, &site, &supply);

    pool->arenas.only_woken = false;
    if (status != TARN_OK)
        return status;
    segment = site.unmapped->segment;
    if (site.have >= bytes) {
        tn_site_extend(pool, heap, segment, site.unmapped->offset);
        *growth = made;
        return TARN_OK;
    }
    tn_tool_begin("tarn: grow");
    status = map_supply(pool, heap, &site, &supply, &made.mapped);
    tn_tool_end();
    if (status == TARN_OK) {
        tn_growth_enter(pool, heap, run, made.mapped.end - made.mapped.begin);
        tn_segment_set_grower(segment, heap);
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
        block = punch(pool, block, chunk, tn_memory_source(chunk->memory));
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
    const tarn_pool *pool;
    uint64_t left_bytes; /* still to unmap */
    enum tn_unmapped to;
    bool unused_only; /* memory mapped ahead goes first */
    bool *unproven;
    struct tn_farewells *farewells; /* NULL: trackers are not asked */
};

/* Events of streams prove memory of lone blocks, which is to go soon. */
static bool is_proven(const tarn_pool *pool, const struct tn_chunk *chunk)
{
    return tn_gpu_is_proven(&pool->device->gpu, chunk->freed_stamp) ||
           (tn_pool_is_lone(pool) &&
            tn_pool_has_proven(pool, atomic_load(&chunk->heap)->arena, chunk->freed_stamp));
}

static bool may_unmap(const struct tn_chunk *chunk, const struct shrinking *shrinking)
{
    TN_ASSERT(chunk->used_bytes == 0); /* P6: it is inside a FREE block */
    if (chunk->hold_count > 0 ||
        (shrinking->unused_only && (chunk->freed_stamp != 0 || chunk->was_used)))
        return false;
    if (is_proven(shrinking->pool, chunk))
        return true;
    *shrinking->unproven = true;
    return false;
}

/* Whether trackers are to hear first that the chunk goes: it will have gone a pass later. */
static bool must_stay(tarn_device *device, struct tn_chunk *chunk, struct shrinking *shrinking)
{
    const size_t count = shrinking->farewells != NULL ? shrinking->farewells->next_count : 0;

    if (!tn_farewells_keep(device, shrinking->farewells, chunk))
        return false;
    if (shrinking->farewells->next_count > count)
        shrinking->left_bytes -= tn_min(shrinking->left_bytes, chunk->bytes);
    return true;
}

/* The highest chunk wholly inside the FREE block which may go. */
static struct tn_chunk *find_chunk_to_unmap(const struct tn_block *block, tarn_device *device,
                                            struct shrinking *shrinking)
{
    uint64_t end = tn_block_end(block);

    TN_ASSERT(block->state == TN_BLOCK_FREE);
    while (end > block->offset && shrinking->left_bytes > 0) {
        struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, end - 1);

        end = chunk->offset;
        if (chunk->offset >= block->offset && tn_chunk_end(chunk) <= tn_block_end(block) &&
            may_unmap(chunk, shrinking) && !must_stay(device, chunk, shrinking))
            return chunk;
    }
    return NULL;
}

static void shrink_segment(tarn_pool *pool, struct tn_segment *segment, struct shrinking *shrinking)
{
    struct tn_block *block = segment->last_block;

    while (block != NULL && shrinking->left_bytes > 0) {
        struct tn_chunk *chunk = block->state == TN_BLOCK_FREE && tn_blocks_reserve(&pool->store, 2)
                                     ? find_chunk_to_unmap(block, pool->device, shrinking)
                                     : NULL;

        if (chunk != NULL) {
            shrinking->left_bytes -= tn_min(shrinking->left_bytes, chunk->bytes);
            block = punch(pool, block, chunk, shrinking->to);
        }
        block = block->previous;
    }
}

/* From the last segment of a list on. */
static void shrink_segments(tarn_pool *pool, struct tn_segment *segment,
                            struct shrinking *shrinking)
{
    struct tn_segment *previous;

    for (; segment != NULL; segment = previous) {
        previous = segment->previous;
        shrink_segment(pool, segment, shrinking);
        (void)tn_segment_remove_bare(pool, segment);
    }
}

uint64_t tn_pool_unmap_free(tarn_pool *pool, uint64_t wanted_bytes, enum tn_unmapped to,
                            bool *unproven, struct tn_farewells *farewells)
{
    struct shrinking shrinking = {pool, wanted_bytes, to, true, unproven, farewells};
    uint64_t mapped = tn_pool_mapped_bytes(pool);

    TN_ASSERT(tn_pool_is_locked(pool));
    tn_vacated_sweep(pool);
    for (int pass = 0; pass < 2; pass++) {
        shrinking.unused_only = pass == 0;
        shrink_segments(pool, pool->segments.dormant.last, &shrinking);
        shrink_segments(pool, pool->segments.last, &shrinking);
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
    tn_segments_remove_all(pool);
    TN_ASSERT(pool->chunks.count == 0 && tn_pool_mapped_bytes(pool) == 0);
    TN_ASSERT(pool->vacated.count == 0); /* P28 */
}
