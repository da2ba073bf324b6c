// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: sites are found by walking the segments of a heap and of idle memory, which are few,
 * since they double. */
#include "pools/sites.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "pools/ahead.h"
#include "pools/arena_table.h"
#include "pools/device.h"
#include "pools/handover.h"
#include "pools/pieces.h"
#include "pools/vacated.h"

static void count_segment(tarn_pool *pool, const struct tn_segment *segment, bool made)
{
    static const enum tn_metric_id ids[] = {TN_SEGMENTS, TN_SEGMENT_BYTES, TN_OWN_SEGMENTS};
    const uint64_t amounts[] = {1, segment->bytes, segment->is_own};
    enum tn_heap_kind kind = (enum tn_heap_kind)segment->kind;

    for (int i = 0; i < 3; i++) {
        if (made)
            (void)tn_metric_add(&pool->counters.metrics[ids[i]], kind, amounts[i]);
        else
            tn_metric_remove(&pool->counters.metrics[ids[i]], kind, amounts[i]);
        tn_device_count(pool->device, pool->in_host, ids[i], kind, amounts[i], made);
    }
}

/* Whether the heap may extend the FREE block. Idle memory is for captures alone: not everyone may
 * take it. */
static bool may_extend(const struct tn_block *block, const struct tn_heap *heap)
{
    const struct tn_arena *idle = &heap->arena->pool->idle;

    if (block == NULL || block->state != TN_BLOCK_FREE || heap->arena == idle)
        return false;
    return block->heap == heap || (tn_arena_is_captured(heap->arena) && block->heap->arena == idle);
}

_Static_assert(TN_RECORDS_TO_EXTEND == 2 * 4, "two for each FREE block");

enum {
    EXTENDED_MAX = 4, /* FREE blocks: small and large idle memory may take turns */
    /* A segment, and what is left to the caller. */
    RECORDS_FOR_SITE = 1 + 6 + TN_RECORDS_TO_EXTEND,
};

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

/* Makes room in the indices for a block that begins in the bytes to extend; false: no memory. */
static bool reserve_entries(const struct tn_block *unmapped, const struct tn_heap *heap)
{
    const struct tn_block *block = unmapped->previous;

    for (int i = 0; i < EXTENDED_MAX && may_extend(block, heap); i++) {
        if (!tn_block_reserve_entries(block))
            return false;
        block = block->previous;
    }
    return true;
}

void tn_site_extend(tarn_pool *pool, struct tn_heap *heap, const struct tn_segment *segment,
                    uint64_t offset)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    for (int i = 0; i < EXTENDED_MAX && offset > 0; i++) {
        struct tn_block *below = tn_segment_block_at(segment, offset - 1);

        if (!may_extend(below, heap))
            return;
        if (below->heap != heap) {
            tn_heap_take_free(pool, heap, below);
            below = tn_segment_block_at(segment, offset - 1);
        }
        offset = below->offset;
    }
}

/* Finds a site in the segment at which the heap can grow to a FREE block of bytes: the highest, or
 * for a capture the one with most to extend, where that is more than is found already. */
static void search_segment(const tarn_pool *pool, const struct tn_segment *segment,
                           const struct tn_heap *heap, uint64_t bytes, struct tn_site *found)
{
    uint32_t left = segment->unmapped_count;

    for (struct tn_block *block = segment->last_block; left > 0; block = block->previous) {
        struct tn_site site = {.unmapped = block};

        if (block->state != TN_BLOCK_UNMAPPED)
            continue;
        left -= 1;
        site.have = bytes_to_extend(block, heap);
        if (site.have + tn_block_bytes(block) < bytes ||
            (found->unmapped != NULL && site.have <= found->have))
            continue;
        site.room = tn_vacated_room(pool, segment, block->offset, tn_block_bytes(block));
        if (site.have + site.room < bytes)
            continue;
        *found = site;
        if (!tn_arena_is_captured(heap->arena))
            return;
    }
}

/* Whether a site is a better one than the best so far, which may be none. */
static bool is_better(const struct tn_site *site, const struct tn_site *best, bool captured)
{
    if (site->unmapped == NULL || best->unmapped == NULL)
        return site->unmapped != NULL;
    if (captured && site->have != best->have)
        return site->have > best->have;
    return site->unmapped->segment->index < best->unmapped->segment->index;
}

/* Finds a better site in the segments of a grower. What a capture extends can never move, so it does
 * not begin in another's segment for small blocks, which soon ends. */
static void search_grower(const tarn_pool *pool, const struct tn_heap *grower,
                          const struct tn_heap *heap, uint64_t bytes, struct tn_site *best)
{
    bool captured = tn_arena_is_captured(heap->arena);

    for (const struct tn_segment *segment = grower->segments; segment != NULL;
         segment = segment->grower_next) {
        struct tn_site site = {.unmapped = NULL};

        if (captured && grower != heap && segment->kind != (int)heap->kind)
            continue;
        search_segment(pool, segment, heap, bytes, &site);
        if (is_better(&site, best, captured))
            *best = site;
    }
}

/* Looks at the segments in which the heap may grow: its own, and those of idle memory and of its
 * group. Of equal sites the one in the oldest segment is chosen. */
static bool find_site(tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes,
                      struct tn_site *site)
{
    const struct tn_arena *others[] = {&pool->idle, tn_arena_of_group(pool, heap->arena)};

    TN_ASSERT(tn_pool_is_locked(pool));
    site->unmapped = NULL;
    search_grower(pool, heap, heap, bytes, site);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        for (int kind = 0; kind < TN_HEAP_KINDS && others[i] != NULL; kind++) {
            if (others[i]->heaps[kind] != heap && others[i]->heaps[kind]->segments != NULL)
                search_grower(pool, others[i]->heaps[kind], heap, bytes, site);
        }
    }
    return site->unmapped != NULL;
}

/* Enters a new segment of the heap's, a single UNMAPPED block; takes one record. */
static struct tn_block *enter_segment(tarn_pool *pool, struct tn_heap *heap,
                                      struct tn_segment *segment, bool own)
{
    struct tn_block *block = tn_block_take(&pool->store);

    block->segment = segment;
    tn_block_set_bytes(block, segment->bytes);
    block->state = TN_BLOCK_UNMAPPED;
    segment->first_block = block;
    segment->last_block = block;
    segment->unmapped_count = 1;
    tn_segment_set_grower(segment, heap);
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
    tn_pool_note(pool, TN_NOTE_SEGMENT_RESERVED, TN_OPERANDS(segment->base, segment->bytes));
    return block;
}

/* Makes a new segment for the heap, a single UNMAPPED block; takes one record. */
static tarn_status add_segment(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                               struct tn_block **place)
{
    uint64_t size = tn_segment_bytes_next(pool, heap);
    /* Behind a lone block, a page never has memory. */
    uint64_t least = bytes + (tn_pool_is_lone(pool) ? TN_PAGE_BYTES : 0);
    bool own;
    struct tn_segment *segment;
    tarn_status status;

    if (size < bytes && bytes <= tn_segment_bytes_after(pool, heap, size))
        size = tn_segment_bytes_after(pool, heap, size);
    own = least > size || tn_pool_is_lone(pool);
    status = tn_segment_create(&pool->device->regions, own ? least : size, pool,
                               pool->segments.next_index, &segment);

    if (status == TARN_ERR_ADDRESS_SPACE && !own) {
        own = true; /* the need alone may find addresses */
        status = tn_segment_create(&pool->device->regions, bytes, pool, pool->segments.next_index,
                                   &segment);
    }
    if (status != TARN_OK)
        return status;
    *place = enter_segment(pool, heap, segment, own);
    if (!own)
        heap->segment_bytes = tn_segment_bytes_after(pool, heap, size);
    TN_ASSERT(segment->bytes >= bytes && pool->segments.last == segment);
    return TARN_OK;
}

static void destroy_segment(tarn_pool *pool, struct tn_segment *segment)
{
    struct tn_memory *aside = segment->aside;

    segment->aside = NULL;
    tn_segment_destroy(segment);
    if (aside != NULL) /* from now on another pool may have a segment there */
        tn_piece_give(pool->device, aside);
}

static void remove_segment(tarn_pool *pool, struct tn_segment *segment)
{
    TN_ASSERT(segment->first_block == segment->last_block);
    TN_ASSERT(segment->chunk_count == 0 && segment->checkpoint_count == 0);
    if (segment->dormant != NULL)
        tn_dormant_leave(pool, segment);
    if (segment->previous != NULL)
        segment->previous->next = segment->next;
    else
        pool->segments.first = segment->next;
    if (segment->next != NULL)
        segment->next->previous = segment->previous;
    else
        pool->segments.last = segment->previous;
    count_segment(pool, segment, false);
    tn_segment_set_grower(segment, NULL);
    tn_block_give(&pool->store, segment->first_block);
    tn_pool_note(pool, TN_NOTE_SEGMENT_DROPPED, TN_OPERANDS(segment->base, segment->bytes));
    destroy_segment(pool, segment);
}

static bool is_bare(const struct tn_segment *segment)
{
    return segment->first_block == segment->last_block &&
           segment->first_block->state == TN_BLOCK_UNMAPPED && segment->checkpoint_count == 0 &&
           segment->vacated_count == 0;
}

/* Makes a site of a piece. A pool maps each piece whole, and no segment has another site. */
static tarn_status provide_piece(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                                 struct tn_site *site)
{
    struct tn_memory *piece;
    struct tn_segment *segment;
    tarn_status status;

    if (bytes > TN_PIECE_BYTES)
        return tn_fail(TARN_ERR_LIMIT,
                       "pool '%s' has registered memory, whose blocks have at most 16 MiB: %llu "
                       "bytes need a pool in TARN_LOCATION_HOST",
                       pool->name, (unsigned long long)bytes);
    piece = tn_piece_take(pool->device);
    if (piece == NULL) {
        pool->memory.lacks_piece = true;
        return tn_fail(TARN_ERR_DEVICE_MEMORY, "no registered memory is ready");
    }
    status = tn_segment_create_at(piece->address, piece->bytes, pool, pool->segments.next_index,
                                  &segment);
    if (status != TARN_OK) {
        tn_piece_give(pool->device, piece);
        return status;
    }
    segment->aside = piece;
    *site = (struct tn_site){.unmapped = enter_segment(pool, heap, segment, false),
                             .room = segment->bytes};
    return TARN_OK;
}

/* Finds or makes a site for a FREE block of bytes. */
tarn_status tn_site_provide(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                            struct tn_site *site)
{
    tarn_status status;

    if (!tn_blocks_reserve(&pool->store, RECORDS_FOR_SITE))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for block records");
    if (tn_pool_has_pieces(pool))
        return provide_piece(pool, heap, bytes, site);
    if (!tn_pool_is_lone(pool) && find_site(pool, heap, bytes, site)) {
        if (!reserve_entries(site->unmapped, heap))
            return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a block's records");
        return TARN_OK;
    }
    status = add_segment(pool, heap, bytes, &site->unmapped);
    if (status != TARN_OK)
        return status;
    site->have = 0;
    site->room = tn_block_bytes(site->unmapped);
    return TARN_OK;
}

bool tn_segment_remove_bare(tarn_pool *pool, struct tn_segment *segment)
{
    bool bare = is_bare(segment);

    TN_ASSERT(tn_pool_is_locked(pool));
    if (bare)
        remove_segment(pool, segment);
    return bare;
}

void tn_segments_remove_all(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool) && pool->chunks.count == 0);
    while (pool->segments.dormant.first != NULL)
        tn_dormant_leave(pool, pool->segments.dormant.first);
    while (pool->segments.first != NULL) {
        struct tn_segment *segment = pool->segments.first;

        pool->segments.first = segment->next;
        count_segment(pool, segment, false);
        destroy_segment(pool, segment);
    }
    pool->segments.last = NULL;
}
