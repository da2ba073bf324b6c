// SPDX-License-Identifier: Apache-2.0
/* An arena is found without a lock, and confirmed with its lock held. Arenas and chunks are
 * recycled, never freed: a stale pointer can be followed until then.
 *
 * Blocks at the edge of an arena's memory have neighbours of other arenas. Both records link each
 * other. The record at an edge therefore stays, whatever is split or coalesced there. A run between
 * two other arenas that becomes a single block would need both edges written: this takes the pool's
 * lock.
 *
 * A thread that frees blocks of another thread would wait for the arena's lock, and take its cache
 * lines along. After some such frees the arena has an inbox (heap/inbox.h), where other threads
 * leave their frees from then on: closed in the index, and as good as freed.
 *
 *     frees a block                        allocates from the arena
 *     enters the inbox
 *     closes the entry, puts the block
 *                                          the loose block does not fit, or live
 *                                          bytes reach a peak: takes blocks
 *                                          out, frees each as if just now
 *     inbox full or closed, or no open
 *     entry: takes the arena's lock
 *
 * A thread that locks the pool takes all blocks out. A thread's end loses nothing, for the inbox
 * belongs to the arena.
 *
 * Trade-offs: an arena which has run out of records keeps up to 256 KiB of them. In an arena with
 * an inbox the user's own frees also exchange the entry in the index, some five nanoseconds each.
 * While loose blocks serve all allocations, blocks of other threads stay in the inbox until it is
 * full. Blocks behind a block that needs the pool's lock may stay, too. */
#include "heap/steady.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/hot.h"
#include "heap/chunk_set.h"
#include "heap/inbox.h"
#include "heap/sequence.h"

enum {
    RECORDS_FOR_CUT = 2,
    /* A slab's part has twice as many records, so threads rarely write to the same cache line. */
    RECORDS_FEW = 16,
    RECORDS_KEPT_MAX = 2048, /* 128 KiB; the pool gets records back above twice as many */
    SEQUENCES = 256,         /* numbers for blocks, taken at a time */
    /* Frees by other threads than an arena's user before it has an inbox: a stream may change
     * threads now and then. */
    GUEST_FREES = 16,
    /* 64 MiB: for larger blocks all loose blocks coalesce first. */
    LARGEST_UNITS = (64 << 20) >> TN_BLOCK_BITS,
};

void tn_steady_take_sequences(struct tn_arena *arena)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    arena->sequence = tn_next_sequences(SEQUENCES);
    arena->sequences_end = arena->sequence + SEQUENCES;
}

/* The FREE block to cut from. */
static inline struct tn_block *find(struct tn_arena *arena, struct tn_heap *heap, uint64_t bytes)
{
    struct tn_block *block = tn_bins_find_inner(&heap->bins, bytes);

    if (heap->loose_count == 0 || block == NULL || !block->extends ||
        bytes <= (uint64_t)TN_LOOSE_LARGE_UNITS << TN_BLOCK_BITS)
        return block;
    tn_loose_empty_slots(arena, heap);
    return tn_bins_find_inner(&heap->bins, bytes);
}

/* Blocks of one size are often cut from the same block, each behind the last. */
static inline void expect_next(const struct tn_chunk *chunk, const struct tn_block *block)
{
    const struct tn_block *rest = block->next;

    if (tn_block_is_free_of(rest, block->heap) && rest->units >= block->units &&
        rest->offset < tn_chunk_end(chunk))
        tn_live_prefetch(chunk, rest->offset);
}

static TN_ALWAYS_INLINE struct tn_block *cut(struct tn_arena *arena, struct tn_heap *heap,
                                             uint64_t alignment, uint64_t bytes)
{
    struct tn_block *block;
    struct tn_chunk *chunk;
    uint64_t offset;

    if (arena->store.spare_count < RECORDS_FOR_CUT)
        return NULL;
    block = find(arena, heap, bytes + alignment - TN_BLOCK_BYTES_MIN);
    if (block == NULL || tn_run_is_enclosed(block, block, arena))
        return NULL;
    TN_ASSERT(block->segment->base % alignment == 0);
    __builtin_prefetch(block->previous, 1); /* the part's future neighbour */
    offset = tn_round_up(block->offset, alignment);
    if (arena->captured != NULL &&
        !tn_chunk_set_has_all(arena->captured, block->segment, offset, bytes))
        return NULL;
    chunk = tn_block_chunk_at(block, offset);
    if (!tn_live_has_room(chunk))
        return NULL;
    block = tn_arena_carve(arena, block, offset, bytes);
    TN_ASSERT(block->offset == offset && tn_block_bytes(block) == bytes);
    block->own_order = true;
    block->may_have_claims = false; /* P18 */
    block->in_other_heap = false;   /* P20 */
    tn_block_enter(block, chunk, true);
    expect_next(chunk, block);
    return block;
}

/* Loose blocks may hold the missing memory, record or place in the index: they coalesce before the
 * pool is asked. */
static inline struct tn_block *coalesce_and_cut(struct tn_arena *arena, struct tn_heap *heap,
                                                uint64_t alignment, uint64_t bytes)
{
    for (;;) { /* once or twice; a loop lets the compiler inline the cut once */
        struct tn_block *block = cut(arena, heap, alignment, bytes);

        if (block != NULL || heap->loose_count == 0)
            return block;
        tn_loose_empty_slots(arena, heap);
    }
}

/* Coalesces all loose blocks of the heap. */
static inline void coalesce_loose(struct tn_arena *arena, struct tn_heap *heap)
{
    struct tn_block *last = heap->loose;

    heap->loose_turn = 0;
    heap->loose = NULL; /* P19 */
    if (last != NULL)
        tn_loose_coalesce(arena, last);
    if (heap->loose_count > 0)
        tn_loose_empty_slots(arena, heap);
    TN_ASSERT(heap->loose == NULL && heap->loose_count == 0); /* P19 */
}

struct tn_block *tn_steady_take(struct tn_arena *arena, struct tn_heap *heap, uint64_t requested,
                                uint64_t alignment, uint64_t bytes)
{
    struct tn_block *block;

    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT(heap->arena == arena);
    if (TN_UNLIKELY(heap->counters.freed.bytes >= arena->unasked_bytes_left))
        return NULL;
    block = tn_loose_pick(heap, bytes, alignment);
    if (block == NULL && bytes > (uint64_t)LARGEST_UNITS << TN_BLOCK_BITS)
        coalesce_loose(arena, heap);
    else
        tn_loose_shelve_last(arena, heap);
    if (block == NULL)
        block = coalesce_and_cut(arena, heap, alignment, bytes);
    else if (arena->allocates == TN_STEADY_SHARED)
        tn_live_update(block); /* P23: open again */
    if (block != NULL && tn_heap_counters_rise(&heap->counters, bytes))
        tn_heap_counters_raise(&heap->counters, bytes, requested);
    return block;
}

/* Whether the block is at the edge of the mapped memory, and another place for its size may
 * exist. */
static inline bool coalesces_at_edge(const struct tn_heap *heap, const struct tn_block *block)
{
    return tn_loose_is_edge(block) &&
           (heap->loose_count > 0 || tn_bins_may_have(&heap->bins, tn_block_bytes(block)));
}

static bool free_block(struct tn_arena *arena, struct tn_heap *heap, struct tn_block *block)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT(block->state == TN_BLOCK_LIVE && block->heap == heap);
    tn_loose_shelve_last(arena, heap);
    if (TN_UNLIKELY(tn_steady_would_enclose(arena, heap, block)))
        return false;
    tn_steady_loosen(arena, heap, block);
    if (TN_UNLIKELY(arena->coalesces || coalesces_at_edge(heap, block))) {
        heap->loose = NULL; /* P19 */
        tn_loose_coalesce(arena, block);
    }
    return true;
}

/* Relaxed: the inbox is read only under the arena's lock, under which this pointer was set. */
static inline struct tn_inbox *inbox_of(const struct tn_arena *arena)
{
    return atomic_load_explicit(&arena->inbox, memory_order_relaxed);
}

/* Frees the inbox's oldest block. False: this free needs the pool's lock. */
static inline bool free_from_inbox(struct tn_arena *arena, struct tn_inbox *inbox,
                                   struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_LIVE && !tn_live_is_open(block)); /* nobody else frees it */
    if (!free_block(arena, block->heap, block))
        return false;
    tn_inbox_take(inbox);
    return true;
}

static void empty_inbox(struct tn_arena *arena, struct tn_inbox *inbox)
{
    struct tn_block *block = tn_inbox_first(inbox);

    TN_ASSERT(tn_arena_is_locked(arena));
    while (block != NULL && free_from_inbox(arena, inbox, block))
        block = tn_inbox_first(inbox);
}

bool tn_steady_receive(struct tn_arena *arena, const struct tn_heap *heap, uint64_t alignment,
                       uint64_t bytes)
{
    struct tn_inbox *inbox = inbox_of(arena);
    const struct tn_arena_counters *counters = &arena->counters;
    struct tn_block *block;

    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT(arena->allocates == TN_STEADY_SHARED);
    while (!tn_loose_fits(heap->loose, bytes, alignment) ||
           counters->live_bytes + (int64_t)bytes > counters->live_peak_bytes) {
        block = tn_inbox_first(inbox);
        if (block == NULL)
            return true;
        if (!free_from_inbox(arena, inbox, block))
            return false;
    }
    return true;
}

bool tn_steady_lock_and_allocate(struct tn_arena *arena, const struct tn_steady_key *key,
                                 uint64_t requested, uint64_t alignment, void **address)
{
    bool done = false;

    tn_arena_lock(arena);
    if (tn_steady_has_key(arena, *key)) {
        tn_arena_use(arena);
        done = tn_arena_allocate(arena, requested, alignment, address);
    }
    tn_arena_unlock(arena);
    return done;
}

bool tn_steady_lock_and_reissue(struct tn_arena *arena, const struct tn_steady_key *key,
                                uint64_t requested, uint64_t alignment, void **address)
{
    bool done = false;

    tn_arena_lock(arena);
    if (tn_steady_has_key(arena, *key)) {
        tn_arena_use(arena);
        done = tn_arena_reissue(arena, requested, alignment, address);
    }
    tn_arena_unlock(arena);
    return done;
}

static bool allocate_and_note_birth(struct tn_arena *arena, const struct tn_place *place,
                                    uint64_t requested, uint64_t alignment, void **address)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    if (!tn_births_have_room(arena->births) ||
        !tn_arena_allocate(arena, requested, alignment, address))
        return false;
    tn_births_enter(arena->births, place,
                    &(struct tn_birth){.address = (uint64_t)(uintptr_t)*address,
                                       .requested = requested,
                                       .sequence = arena->sequence - 1});
    return true;
}

bool tn_steady_allocate_and_note_birth(struct tn_arena *arena, const struct tn_steady_key *key,
                                       const struct tn_place *place, uint64_t requested,
                                       uint64_t alignment, void **address)
{
    bool done = false;

    if (tn_arena_enter(arena)) {
        done = tn_steady_has_key(arena, *key) &&
               allocate_and_note_birth(arena, place, requested, alignment, address);
        tn_arena_leave(arena);
        return done;
    }
    tn_arena_lock(arena);
    if (tn_steady_has_key(arena, *key)) {
        tn_arena_use(arena);
        done = allocate_and_note_birth(arena, place, requested, alignment, address);
    }
    tn_arena_unlock(arena);
    return done;
}

bool tn_arena_receive_and_allocate(struct tn_arena *arena, uint64_t requested, uint64_t alignment,
                                   void **address)
{
    return tn_arena_allocate_inline(arena, requested, alignment, true, address);
}

/* Frees the block that begins at the address. */
static bool free_address(struct tn_arena *arena, const struct tn_chunk *chunk, uint64_t address)
{
    bool shared = arena->frees == TN_STEADY_SHARED;
    uint64_t offset;
    struct tn_block *block;

    TN_ASSERT(tn_arena_is_locked(arena));
    if (arena->frees == TN_NOT_STEADY || !tn_steady_is_at(arena, chunk, address, &offset))
        return false;
    block = shared ? tn_live_close_at(chunk, offset) : tn_live_open_at(chunk, offset);
    if (block == NULL || block->state != TN_BLOCK_LIVE)
        return false;
    if (free_block(arena, block->heap, block))
        return true;
    if (shared)
        tn_live_update(block); /* P23: open again */
    return false;
}

/* Leaves the block that begins at the address in the inbox. False: the inbox is closed or full, or
 * no open entry was found. */
static inline bool put_in_inbox(struct tn_inbox *inbox, const struct tn_arena *arena,
                                const struct tn_chunk *chunk, uint64_t address)
{
    atomic_uintptr_t *place = tn_inbox_enter(inbox);
    struct tn_block *block = NULL;
    uint64_t offset;

    if (place == NULL)
        return false;
    /* Until this place is filled nobody locks the pool: the arena frees, and its chunks are its
     * own. */
    if (tn_steady_is_at(arena, chunk, address, &offset))
        block = tn_live_close_at(chunk, offset);
    tn_inbox_put(place, block);
    return block != NULL;
}

/* From now on other threads read the index, and leave blocks in the inbox. */
static void open_shared(struct tn_arena *arena)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT(arena->shared);
    if (arena->allocates != TN_NOT_STEADY)
        arena->allocates = TN_STEADY_SHARED;
    if (arena->frees == TN_NOT_STEADY)
        return;
    arena->frees = TN_STEADY_SHARED;
    tn_inbox_open(inbox_of(arena));
}

bool tn_steady_share(struct tn_arena *arena)
{
    struct tn_inbox *made = inbox_of(arena) == NULL ? tn_inbox_make() : NULL;

    tn_arena_lock(arena);
    if (inbox_of(arena) == NULL && made != NULL) {
        /* A thread that reads the pointer finds an initialised inbox. */
        atomic_store_explicit(&arena->inbox, made, memory_order_release);
        made = NULL;
    }
    if (!arena->shared && inbox_of(arena) != NULL) {
        tn_steady_end(arena); /* loose blocks are still open in the index */
        arena->shared = true;
        open_shared(arena);
    }
    TN_ASSERT(!arena->shared || inbox_of(arena) != NULL);
    tn_arena_unlock(arena);
    if (made != NULL)
        tn_inbox_drop(made);
    return inbox_of(arena) != NULL;
}

/* By a thread other than the arena's user. */
static TN_APART bool free_as_guest(struct tn_arena *arena, const struct tn_chunk *chunk,
                                   uint64_t address)
{
    struct tn_inbox *inbox = atomic_load_explicit(&arena->inbox, memory_order_acquire);
    bool wanted = false;
    bool done;

    if (inbox != NULL && put_in_inbox(inbox, arena, chunk, address))
        return true;
    tn_arena_lock(arena);
    if (arena->shared) {
        empty_inbox(arena, inbox_of(arena)); /* the inbox may be full, and the user away */
    } else {
        arena->guest_free_count += 1;
        wanted = arena->guest_free_count % GUEST_FREES == 0;
    }
    done = free_address(arena, chunk, address);
    tn_arena_unlock(arena);
    if (wanted && done)
        (void)tn_steady_share(arena); /* without memory all goes on as before */
    return done;
}

/* By a thread other than the owner. */
static bool lock_and_free(struct tn_arena *arena, const struct tn_chunk *chunk, uint64_t address)
{
    bool done;

    TN_ASSERT(chunk != NULL && arena != NULL);
    if (!tn_arena_is_user(arena))
        return free_as_guest(arena, chunk, address);
    tn_arena_lock(arena);
    if (tn_arena_is_user(arena))
        tn_arena_use(arena);
    done = free_address(arena, chunk, address);
    tn_arena_unlock(arena);
    return done;
}

bool tn_steady_finish_free(uint64_t address, struct tn_steady_rest rest)
{
    struct tn_arena *arena;
    bool done;

    if (rest.chunk == NULL)
        return false;
    if (rest.block != NULL) {
        arena = rest.block->heap->arena;
        TN_ASSERT(rest.block->state == TN_BLOCK_LIVE);
        done = free_block(arena, rest.block->heap, rest.block);
        tn_arena_leave(arena);
        return done;
    }
    arena = atomic_load_explicit(&rest.chunk->arena, memory_order_acquire);
    if (arena == NULL)
        return false;
    if (!tn_arena_enter(arena))
        return lock_and_free(arena, rest.chunk, address);
    done = free_address(arena, rest.chunk, address);
    tn_arena_leave(arena);
    return done;
}

/* Frees the blocks in the inbox and on their way there, and lets no more in. The pool is locked:
 * any neighbour may be written. */
static void close_inbox(struct tn_arena *arena, struct tn_inbox *inbox)
{
    struct tn_block *block;

    TN_ASSERT(arena->shared);
    tn_inbox_close(inbox);
    while ((block = tn_inbox_await(inbox)) != NULL) { /* P22 */
        tn_arena_count_free(arena, block->heap, block);
        tn_block_leave(block, tn_arena_epoch(arena));
        (void)tn_heap_put(arena->parent_store, block);
        tn_inbox_take(inbox);
    }
    TN_ASSERT(tn_inbox_is_empty(inbox)); /* P22 */
}

void tn_steady_end(struct tn_arena *arena)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        coalesce_loose(arena, &arena->heaps[kind]);
    if (arena->shared)
        close_inbox(arena, inbox_of(arena));
}

void tn_steady_begin(struct tn_arena *arena, const struct tn_steady_terms *terms)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        TN_ASSERT(arena->heaps[kind].loose == NULL &&
                  arena->heaps[kind].loose_count == 0); /* P19 */
    arena->captured = terms->captured;
    arena->asks = terms->asks;
    arena->unasked_bytes_left = tn_arena_unasked_left(arena);
    arena->coalesces = terms->coalesces;
    arena->allocates = terms->allocates ? TN_STEADY : TN_NOT_STEADY;
    arena->frees = terms->frees ? TN_STEADY : TN_NOT_STEADY;
    if (terms->allocates && arena->shared)
        open_shared(arena);
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        TN_CHECK_TURN(&arena->heaps[kind]);
}

static size_t kept_after(uint8_t exhaustions)
{
    return (size_t)RECORDS_FEW << exhaustions;
}

/* How many records are set aside for an arena at a time, and left in it. An arena that runs out of
 * records has swings of this size in its number of blocks: from then on it keeps twice as many, and
 * seldom runs out again. */
static size_t records_kept(const struct tn_arena *arena)
{
    return kept_after(arena->exhaustions);
}

bool tn_steady_provide(struct tn_arena *arena)
{
    struct tn_block_store *store = arena->parent_store;

    /* A caller with another purpose takes records along, and need not return for them soon. */
    if (arena->store.spare_count >= RECORDS_FEW)
        return true;
    if (!tn_blocks_reserve(store, 2 * (size_t)RECORDS_FEW))
        return arena->store.spare_count >= RECORDS_FOR_CUT;
    if (arena->store.spare_count < RECORDS_FOR_CUT && records_kept(arena) < RECORDS_KEPT_MAX)
        arena->exhaustions += 1;
    TN_ASSERT(records_kept(arena) <= RECORDS_KEPT_MAX);
    tn_blocks_move(store, &arena->store, records_kept(arena));
    return true;
}

bool tn_steady_expect(struct tn_arena *arena, size_t count)
{
    struct tn_block_store *store = arena->parent_store;
    size_t spare_count = arena->store.spare_count;
    uint8_t exhaustions = arena->exhaustions;

    while (kept_after(exhaustions) < count && kept_after(exhaustions) < RECORDS_KEPT_MAX)
        exhaustions += 1;
    count = kept_after(exhaustions);
    if (spare_count < count) {
        if (!tn_blocks_reserve(store, count - spare_count))
            return false;
        tn_blocks_move(store, &arena->store, count - spare_count);
    }
    arena->exhaustions = exhaustions;
    TN_ASSERT(arena->store.spare_count >= count);
    return true;
}

void tn_steady_level(struct tn_arena *arena)
{
    size_t count = arena->store.spare_count;

    if (count > 2 * records_kept(arena))
        tn_blocks_move(&arena->store, arena->parent_store, count - records_kept(arena));
}
