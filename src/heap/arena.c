// SPDX-License-Identifier: Apache-2.0
/* Good fit from the bins, splitting and coalescing.
 *
 * Free blocks coalesce across neighbouring chunks of one heap, never of two: a heap's memory is its
 * own. */
#include "heap/arena.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "base/hot.h"
#include "heap/check.h"

enum { ASKED_PART = 16, DOUBLINGS_MAX = 4 };

#define ASKED_BYTES_MIN (32 * TN_MIB)

/* Spare ones for what a few threads make and end again and again: captures, and pools. */
enum { SPARE_HEAPS_MAX = 16 };

static struct tn_records heaps_records = TN_RECORDS_INIT_SPARE(struct tn_heaps, SPARE_HEAPS_MAX);

struct tn_heaps *tn_heaps_take(void)
{
    return tn_records_take(&heaps_records);
}

void tn_heaps_give(struct tn_heaps *heaps)
{
    TN_ASSERT(heaps->of[TN_HEAP_SMALL].loose == NULL); /* the first word of a free record */
    tn_records_give(&heaps_records, heaps);
}

void tn_arena_end(struct tn_arena *arena)
{
    struct tn_heaps *heaps = tn_arena_heaps(arena);

    TN_ASSERT(heaps->by_stream.key == 0); /* P38 */
    tn_history_leave(&heaps->history);
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        TN_ASSERT(heaps->of[kind].mapped_bytes == 0 && heaps->of[kind].pending_count == 0);
        __atomic_store_n(&arena->heaps[kind], NULL, __ATOMIC_RELAXED);
    }
    arena->pool = NULL;
    arena->order = (struct tn_order){0, 0};
    atomic_store_explicit(&arena->stream, 0, memory_order_relaxed);
    tn_heaps_give(heaps);
}

void tn_arena_init(struct tn_arena *arena, const struct tn_arena_owner *owner,
                   struct tn_order order)
{
    arena->pool = owner->pool;
    arena->rounding = owner->rounding;
    arena->epoch = owner->epoch;
    arena->parent_store = owner->store;
    arena->order = order;
    arena->routes_stamp = 0;
    arena->saved_count = 0;
    arena->gives = TN_GIVES_ANY;
    arena->met = false;
    arena->asks = false;
    arena->awake = false;
    arena->asleep = false;
    arena->returned = false;
    arena->expected = false;
    arena->was_asked = false;
    arena->unused_locks = 0;
    arena->allocates = TN_NOT_STEADY;
    arena->frees = TN_NOT_STEADY;
    arena->shared = false;
    arena->divided = false;
    TN_ASSERT(!atomic_load(&arena->magazines_open)); /* P37 */
    arena->guest_free_count = 0;
    arena->user_changes = 0;
    arena->closes_alone = 0;
    arena->exhaustions = 0;
    atomic_store_explicit(&arena->user, 0, memory_order_relaxed);
    atomic_store_explicit(&arena->stream, 0, memory_order_relaxed);
    arena->patience = TN_ARENA_PATIENCE;
    arena->turns = 0;
    arena->captured = NULL;
    arena->fence = NULL;
    arena->progress = (struct tn_progress){.event = NULL};
    arena->unasked_bytes = 0;
    arena->fallen_bytes = 0;
    arena->settled_stamp = 0;
    arena->vain_asks = 0;
    owner->heaps->ancestry = (struct tn_ancestry){.count = 0};
    owner->heaps->by_stream = (struct tn_index_entry){.key = 0};
    owner->heaps->history = tn_history_new_writer(owner->history);
    arena->births = NULL;
    arena->store = (struct tn_block_store){.slabs = NULL};
    arena->counters = (struct tn_arena_counters){0};
    arena->sequence = 0;
    arena->sequences_end = 0;
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        struct tn_heap *heap = &owner->heaps->of[kind];

        TN_ASSERT(heap->loose_count == 0);
        __atomic_store_n(&arena->heaps[kind], heap, __ATOMIC_RELAXED);
        heap->arena = arena;
        heap->kind = (enum tn_heap_kind)kind;
        heap->is_idle = order.stream_id == 0 && order.capture_id == 0;
        heap->of_captures = heap->is_idle || order.capture_id != 0;
        heap->mapped_bytes = 0;
        heap->segment_bytes = TN_SLOT_BYTES;
        heap->run_bytes = 0;
        heap->run_alloc_count = 0;
        heap->run_free_count = 0;
        heap->has_others = false;
        heap->has_reserved = false;
        heap->chunks = NULL;
        heap->segments = NULL;
        heap->pending_count = 0;
        /* The bins are as large as all other fields together, and hardly ever left with blocks. */
        if (heap->bins.word_map != 0)
            heap->bins = (struct tn_bins){.word_map = 0};
        heap->loose = NULL;
        heap->counters = (struct tn_heap_counters){.allocated = {0}};
#if TARN_DEBUG_CHECKS
        heap->turn = (struct tn_heap_turn){.segments = owner->segments};
#endif
    }
}

static void leave_heap(struct tn_chunk *chunk, struct tn_heap *heap)
{
    struct tn_segment *segment = atomic_load(&chunk->segment);

    TN_ASSERT(chunk->heap_previous != NULL || heap->chunks == chunk); /* P8 */
    if (chunk->heap_previous != NULL)
        chunk->heap_previous->heap_next = chunk->heap_next;
    else
        heap->chunks = chunk->heap_next;
    if (chunk->heap_next != NULL)
        chunk->heap_next->heap_previous = chunk->heap_previous;
    segment->owned_bytes -= chunk->bytes;
    segment->idle_bytes -= heap->is_idle ? chunk->bytes : 0;
}

static void enter_heap(struct tn_chunk *chunk, struct tn_heap *heap)
{
    struct tn_segment *segment = atomic_load(&chunk->segment);

    chunk->heap_previous = NULL;
    chunk->heap_next = heap->chunks;
    if (chunk->heap_next != NULL)
        chunk->heap_next->heap_previous = chunk;
    heap->chunks = chunk;
    segment->owned_bytes += chunk->bytes;
    segment->idle_bytes += heap->is_idle ? chunk->bytes : 0;
}

void tn_chunk_pass(struct tn_chunk *chunk, struct tn_heap *heap)
{
    struct tn_heap *from = atomic_load_explicit(&chunk->heap, memory_order_relaxed);

    if (tn_chunk_is_of_work(chunk))
        chunk->outside_stamp = chunk->freed_stamp; /* P26 */
    if (from != NULL)
        leave_heap(chunk, from);
    if (heap != NULL)
        enter_heap(chunk, heap);
    atomic_store_explicit(&chunk->heap, heap, memory_order_relaxed);
    /* A thread that reads the arena without a lock finds an initialised record. */
    atomic_store_explicit(&chunk->arena, heap != NULL ? heap->arena : NULL, memory_order_release);
}

void tn_segment_set_grower(struct tn_segment *segment, struct tn_heap *heap)
{
    struct tn_heap *from = segment->grower;

    if (from != NULL && segment->grower_previous != NULL)
        segment->grower_previous->grower_next = segment->grower_next;
    else if (from != NULL)
        from->segments = segment->grower_next;
    if (from != NULL && segment->grower_next != NULL)
        segment->grower_next->grower_previous = segment->grower_previous;
    segment->grower = heap;
    segment->grower_previous = NULL;
    segment->grower_next = heap != NULL ? heap->segments : NULL;
    if (segment->grower_next != NULL)
        segment->grower_next->grower_previous = segment;
    if (heap != NULL)
        heap->segments = segment;
}

void tn_segment_unite_idle(struct tn_segment *segment, const struct tn_heap *heap)
{
    TN_ASSERT(segment->idle_bytes <= segment->owned_bytes);
    if (!heap->is_idle || segment->idle_bytes < segment->owned_bytes)
        return;
    segment->first_arena = heap->arena;
    segment->mixed = false; /* P2 */
}

/* Freed between two questions, where the last was of use. */
static uint64_t asked_bytes(const struct tn_arena *arena)
{
    uint64_t mapped =
        arena->heaps[TN_HEAP_SMALL]->mapped_bytes + arena->heaps[TN_HEAP_LARGE]->mapped_bytes;

    return tn_max(mapped / ASKED_PART, ASKED_BYTES_MIN);
}

uint64_t tn_arena_unasked_left(const struct tn_arena *arena)
{
    uint64_t asked = asked_bytes(arena) << tn_min(arena->vain_asks, DOUBLINGS_MAX);

    if (!arena->asks)
        return UINT64_MAX;
    return asked - tn_min(asked, arena->unasked_bytes);
}

int64_t tn_arena_asks_below_peak(const struct tn_arena *arena)
{
    int doublings = arena->vain_asks < TN_VAIN_ASKS_MAX ? 0 : DOUBLINGS_MAX;

    if (!arena->asks)
        return INT64_MAX;
    return (int64_t)(asked_bytes(arena) << doublings);
}

/* A walk over the chunks under a block, by the entries of the address table. */
struct under {
    struct tn_chunk *chunk;
    uint64_t bytes; /* of the block in the chunk */
    uint64_t left;  /* in the chunks behind it, or in the last one */
    const tn_address_page *next;
};

static inline struct under first_under(const struct tn_block *block)
{
    const tn_address_page *page = tn_segment_page(block->segment, block->offset);
    struct tn_chunk *chunk = tn_page_chunk(page);
    uint64_t end = tn_chunk_end(chunk);
    uint64_t bytes = tn_min(tn_block_bytes(block), end - block->offset);

    TN_ASSERT(chunk->heap == block->heap); /* P2 */
    return (struct under){chunk, bytes, tn_block_bytes(block) - bytes,
                          page + (end >> TN_PAGE_BITS) - (block->offset >> TN_PAGE_BITS)};
}

/* Goes on to the next chunk, which there is. True: all of it is the block's; false: it is the last,
 * and what is left of the block is in it. */
static inline bool go_on_under(struct under *under)
{
    struct tn_chunk *chunk = tn_page_chunk(under->next);

    TN_ASSERT(under->left > 0 && chunk->heap == under->chunk->heap); /* P2 */
    under->chunk = chunk;
    under->bytes = chunk->bytes;
    if (under->left < chunk->bytes) {
        under->bytes = under->left;
        return false;
    }
    under->left -= chunk->bytes;
    under->next += chunk->bytes >> TN_PAGE_BITS;
    return true;
}

static inline void use_under(const struct under *under)
{
    under->chunk->used_bytes += under->bytes;
    TN_ASSERT(under->chunk->used_bytes <= under->chunk->bytes); /* P6 */
}

void tn_block_count_used(struct tn_block *block)
{
    struct under under = first_under(block);

    use_under(&under);
    while (under.left > 0 && go_on_under(&under))
        use_under(&under);
    if (under.left > 0)
        use_under(&under);
}

static inline void unuse_under(const struct under *under)
{
    TN_ASSERT(under->chunk->used_bytes >= under->bytes); /* P6 */
    under->chunk->used_bytes -= under->bytes;
}

/* P26. A chunk without holds: its former holds have proven their share. of_work: the chunk's frees
 * come from an order outside captures. */
static void free_and_stamp(const struct under *under, bool of_work, uint64_t freed_stamp,
                           uint64_t outside_stamp)
{
    struct tn_chunk *chunk = under->chunk;

    unuse_under(under);
    if (chunk->hold_count == 0 && !of_work)
        freed_stamp = outside_stamp;
    chunk->freed_stamp = tn_max(chunk->freed_stamp, freed_stamp);
    chunk->outside_stamp = tn_max(chunk->outside_stamp, outside_stamp);
}

void tn_block_count_freed(struct tn_block *block, uint64_t freed_stamp, uint64_t outside_stamp)
{
    bool of_work = !tn_arena_serves_captures(block->heap->arena);
    struct under under = first_under(block);

    free_and_stamp(&under, of_work, freed_stamp, outside_stamp);
    while (under.left > 0 && go_on_under(&under))
        free_and_stamp(&under, of_work, freed_stamp, outside_stamp);
    if (under.left > 0)
        free_and_stamp(&under, of_work, freed_stamp, outside_stamp);
}

static inline void free_under(const struct under *under, uint64_t freed_stamp)
{
    unuse_under(under);
    under->chunk->freed_stamp = tn_max(under->chunk->freed_stamp, freed_stamp);
}

void tn_block_count_freed_by_order(struct tn_block *block, uint64_t freed_stamp)
{
    struct under under = first_under(block);

    free_under(&under, freed_stamp);
    while (under.left > 0 && go_on_under(&under)) {
        TN_ASSERT(under.chunk->used_bytes == under.chunk->bytes);
        /* All frees here before came before the block was allocated. */
        TN_ASSERT(under.chunk->freed_stamp <= freed_stamp);
        under.chunk->used_bytes = 0;
        under.chunk->freed_stamp = freed_stamp;
    }
    if (under.left > 0)
        free_under(&under, freed_stamp);
}

/* Makes the record stays stand for the run of blocks from low to high; it is one of these
 * blocks. */
static void cover_run(struct tn_block *stays, struct tn_block *low, struct tn_block *high)
{
    TN_ASSERT(stays->segment == low->segment && low->segment == high->segment);
    if (stays != low) {
        stays->previous = low->previous;
        stays->offset = low->offset;
        if (stays->previous != NULL)
            stays->previous->next = stays;
        else
            stays->segment->first_block = stays;
    }
    if (stays != high) {
        stays->next = high->next;
        if (stays->next != NULL)
            stays->next->previous = stays;
        else
            stays->segment->last_block = stays;
    }
}

/* Chooses which record stays of a block and its free neighbours: the record beside another arena's
 * block, else a record in a bin. */
static struct tn_block *staying(const struct tn_arena *arena, struct tn_block *block,
                                struct tn_block *low, struct tn_block *high)
{
    if (!block->segment->mixed)
        return high != block ? high : low;
    if (high != block)
        return tn_block_is_foreign(low->previous, arena) ? low : high;
    return tn_block_is_foreign(high->next, arena) ? high : low;
}

/* Joins the block. arena: its lock alone is held; NULL: the pool's lock is held, and the lowest
 * record stays. */
static TN_ALWAYS_INLINE struct tn_block *put(struct tn_block_store *store,
                                             const struct tn_arena *arena, struct tn_block *block)
{
    struct tn_heap *heap = block->heap;
    struct tn_block *low = tn_block_is_free_of(block->previous, heap) ? block->previous : block;
    struct tn_block *high = tn_block_is_free_of(block->next, heap) ? block->next : block;
    struct tn_block *stays = arena != NULL ? staying(arena, block, low, high) : low;
    uint64_t before = tn_block_bytes(stays);
    uint32_t units = block->units;

    TN_ASSERT(block->state == TN_BLOCK_FREE);
    block->captured_free = false;
    if (low != block) {
        units += low->units;
        if (stays != low)
            tn_bins_remove(&heap->bins, low);
    }
    if (high != block) {
        units += high->units;
        if (stays != high)
            tn_bins_remove(&heap->bins, high);
    }
    cover_run(stays, low, high);
    if (low != stays)
        tn_block_give(store, low);
    if (high != stays && high != low)
        tn_block_give(store, high);
    if (block != stays && block != low && block != high)
        tn_block_give(store, block);
    stays->units = units;
    TN_ASSERT(stays->state == TN_BLOCK_FREE && stays->heap == heap);
    if (stays == block) {
        tn_bins_insert(&heap->bins, stays);
    } else {
        stays->extends = tn_block_is_at_unmapped(stays);
        tn_bins_resized(&heap->bins, stays, before);
    }
    TN_CHECK_TOUCHED(stays);
    return stays;
}

void tn_arena_put(struct tn_arena *arena, struct tn_block *block)
{
    (void)put(&arena->store, arena, block);
}

struct tn_block *tn_heap_put(struct tn_block_store *store, struct tn_block *block)
{
    block->state = TN_BLOCK_FREE;
    block = put(store, NULL, block);
    tn_arena_gives(block->heap->arena, tn_block_bytes(block));
    return block;
}

/* Cuts where bytes are left below the part, or where the record at the lower edge must stay. */
static TN_APART struct tn_block *carve_inside(struct tn_block_store *store, struct tn_block *block,
                                              uint64_t offset, uint64_t bytes)
{
    struct tn_bins *bins = &block->heap->bins;
    bool keep_upper = tn_block_is_foreign(block->next, block->heap->arena);
    struct tn_block *part;

    TN_ASSERT(offset > block->offset || tn_block_is_foreign(block->previous, block->heap->arena));
    tn_bins_remove(bins, block);
    if (offset > block->offset) {
        part = keep_upper ? tn_block_split_below(store, block, offset)
                          : tn_block_split(store, block, offset);
        tn_bins_insert(bins, keep_upper ? part : block);
        block = keep_upper ? block : part;
    }
    if (bytes < tn_block_bytes(block)) {
        part = keep_upper ? tn_block_split_below(store, block, offset + bytes)
                          : tn_block_split(store, block, offset + bytes);
        tn_bins_insert(bins, keep_upper ? block : part);
        block = keep_upper ? part : block;
    }
    return block;
}

/* Cuts the part out of the block. */
static TN_ALWAYS_INLINE struct tn_block *carve(struct tn_block_store *store, struct tn_block *block,
                                               uint64_t offset, uint64_t bytes)
{
    struct tn_block *part;
    uint64_t before = tn_block_bytes(block);

    TN_ASSERT(block->state == TN_BLOCK_FREE && offset >= block->offset);
    TN_ASSERT(offset + bytes <= tn_block_end(block));
    if (offset > block->offset ||
        (block->segment->mixed && tn_block_is_foreign(block->previous, block->heap->arena)))
        return carve_inside(store, block, offset, bytes);
    if (bytes == before) {
        tn_bins_remove(&block->heap->bins, block);
        return block;
    }
    part = tn_block_split_below(store, block, offset + bytes);
    TN_ASSERT(part->offset == offset && tn_block_bytes(part) == bytes);
    tn_bins_resized(&block->heap->bins, block, before);
    return part;
}

struct tn_block *tn_arena_carve(struct tn_arena *arena, struct tn_block *block, uint64_t offset,
                                uint64_t bytes)
{
    return carve(&arena->store, block, offset, bytes);
}

struct tn_block *tn_heap_carve(struct tn_block_store *store, struct tn_block *block,
                               uint64_t offset, uint64_t bytes)
{
    return carve(store, block, offset, bytes);
}

void tn_arena_link(struct tn_arena_lists *lists, struct tn_arena *arena, enum tn_arena_list list)
{
    struct tn_arena *second = lists->first[list];

    TN_ASSERT(second != arena && lists->last[list] != arena);
    arena->in[list] = (struct tn_arena_link){.next = second};
    if (second != NULL)
        second->in[list].previous = arena;
    else
        lists->last[list] = arena;
    lists->first[list] = arena;
}

void tn_arena_unlink(struct tn_arena_lists *lists, struct tn_arena *arena, enum tn_arena_list list)
{
    const struct tn_arena_link *link = &arena->in[list];

    TN_ASSERT(link->previous != NULL || lists->first[list] == arena);
    if (link->previous != NULL)
        link->previous->in[list].next = link->next;
    else
        lists->first[list] = link->next;
    if (link->next != NULL)
        link->next->in[list].previous = link->previous;
    else
        lists->last[list] = link->previous;
}

void tn_arena_put_last(struct tn_arena_lists *lists, struct tn_arena *arena,
                       enum tn_arena_list list)
{
    struct tn_arena *before;

    tn_arena_unlink(lists, arena, list);
    before = lists->last[list];
    if (before == NULL) {
        tn_arena_link(lists, arena, list);
        return;
    }
    arena->in[list] = (struct tn_arena_link){.previous = before};
    before->in[list].next = arena;
    lists->last[list] = arena;
}
