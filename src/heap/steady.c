// SPDX-License-Identifier: Apache-2.0
/* An arena is found without a lock, and confirmed with its lock held. Arenas and chunks are
 * recycled, never freed: a stale pointer can be followed until then.
 *
 * Blocks at the edge of an arena's memory have neighbours of other arenas. Both records link each
 * other. The record at an edge therefore stays, whatever is split or coalesced there. A run between
 * two other arenas that becomes a single block would need both edges written: this takes the pool's
 * lock. */
#include "heap/steady.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/hot.h"
#include "heap/chunk_set.h"
#include "heap/provision.h"
#include "heap/sequence.h"

enum {
    /* Frees by other threads than an arena's user before it has an inbox: a stream may change
     * threads now and then. */
    GUEST_FREES = 16,
    USER_CHANGES = 16, /* by allocations, before an arena has magazines */
    TURNS_ALONE = 64,  /* of one thread: the count of changes begins anew */
    CLOSES_ALONE = 8,  /* in a row with one magazine used at most: the arena has none again */
    SEQUENCES = 256,   /* numbers for blocks, taken at a time */
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

    if (arena->store.spare_count < TN_RECORDS_FOR_CUT)
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

struct tn_block *tn_steady_take(struct tn_arena *arena, struct tn_heap *heap, uint64_t requested,
                                uint64_t alignment, uint64_t bytes)
{
    struct tn_block *block;

    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT(heap->arena == arena);
    if (TN_UNLIKELY(heap->counters.freed.bytes >= arena->unasked_bytes_left))
        return NULL;
    block = tn_loose_pick(heap, bytes, alignment);
    if (block == NULL && bytes > (uint64_t)TN_LOOSE_LARGEST_UNITS << TN_BLOCK_BITS)
        tn_loose_empty(arena, heap);
    else
        tn_loose_shelve_last(arena, heap);
    if (block == NULL)
        block = coalesce_and_cut(arena, heap, alignment, bytes);
    else if ((arena->allocates & TN_STEADY_SHARED) != 0)
        tn_live_update(block); /* P23: open again */
    if (block != NULL && tn_heap_counters_rise(&heap->counters, bytes))
        tn_heap_counters_raise(&heap->counters, bytes, requested);
    return block;
}

/* Allocates a round of the thread's magazine. */
static bool take_round(const struct tn_arena *arena, const struct tn_steady_key *key,
                       uint64_t requested, uint64_t alignment, void **address)
{
    const struct tn_magazines *magazines = tn_arena_magazines(arena);
    struct tn_magazine *magazine = tn_magazine_own(magazines);
    struct tn_block *block = NULL;

    TN_ASSERT(key->pool != NULL); /* routes' stamps change under the arena's lock alone */
    if (magazine == NULL || !tn_magazine_enter(arena, magazine))
        return false;
    if (tn_steady_has_key(arena, *key))
        block = tn_magazine_take(magazine, tn_block_bytes_for(arena->rounding, requested),
                                 alignment, requested);
    if (block != NULL)
        *address = (void *)(uintptr_t)tn_block_address(block);
    tn_magazine_leave(magazine);
    return block != NULL;
}

static void open_inbox(struct tn_arena *arena)
{
    struct tn_inbox *inbox = tn_arena_inbox(arena);

    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT(arena->shared);
    if (arena->allocates != TN_NOT_STEADY)
        arena->allocates = (uint8_t)(TN_STEADY_SHARED | (arena->allocates & TN_RECORDED));
    if (arena->frees == TN_NOT_STEADY)
        return;
    arena->frees = TN_STEADY_SHARED;
    inbox->history = tn_arena_history(arena)->log.ring;
    tn_inbox_open(inbox);
}

/* Where nothing forbids rounds. Releases what was written under the pool's lock. */
static void open_magazines(struct tn_arena *arena)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT(arena->divided);
    if ((arena->allocates & TN_STEADY_SHARED) == 0 || arena->frees != TN_STEADY_SHARED ||
        arena->coalesces)
        return;
    tn_magazines_record(tn_arena_magazines(arena), tn_arena_history(arena));
    atomic_store_explicit(&arena->magazines_open, true, memory_order_release);
}

bool tn_steady_share(struct tn_arena *arena)
{
    struct tn_inbox *made = tn_arena_inbox(arena) == NULL ? tn_inbox_make() : NULL;

    tn_arena_lock(arena);
    if (tn_arena_inbox(arena) == NULL && made != NULL) {
        /* A thread that reads the pointer finds an initialised inbox. */
        atomic_store_explicit(&arena->inbox, made, memory_order_release);
        made = NULL;
    }
    if (!arena->shared && arena->pool != NULL && tn_arena_inbox(arena) != NULL) {
        for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
            tn_loose_empty(arena, arena->heaps[kind]); /* they are still open in the index */
        arena->shared = true;
        open_inbox(arena);
    }
    TN_ASSERT(!arena->shared || tn_arena_inbox(arena) != NULL);
    tn_arena_unlock(arena);
    if (made != NULL)
        tn_inbox_drop(made);
    return tn_arena_inbox(arena) != NULL;
}

bool tn_steady_divide(struct tn_arena *arena)
{
    struct tn_magazines *made = tn_arena_magazines(arena) == NULL ? tn_magazines_make() : NULL;

    if (!tn_steady_share(arena)) {
        if (made != NULL)
            tn_magazines_drop(made);
        return false;
    }
    tn_arena_lock(arena);
    if (tn_arena_magazines(arena) == NULL && made != NULL) {
        atomic_store_explicit(&arena->magazines, made, memory_order_release);
        made = NULL;
    }
    /* The record may be another order's by now, or nobody's. */
    if (!arena->divided && arena->pool != NULL && arena->shared && !tn_arena_is_captured(arena) &&
        tn_arena_magazines(arena) != NULL) {
        arena->divided = true;
        open_magazines(arena);
    }
    tn_arena_unlock(arena);
    if (made != NULL)
        tn_magazines_drop(made);
    return tn_arena_magazines(arena) != NULL;
}

/* Whether a thread that is not the arena's user allocates there once more than is usual. */
static bool wants_magazines(struct tn_arena *arena)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    if (arena->divided || tn_arena_is_user(arena) || tn_arena_is_captured(arena))
        return false;
    if (arena->turns >= TURNS_ALONE)
        arena->user_changes = 0;
    arena->user_changes += 1;
    return arena->user_changes % USER_CHANGES == 0;
}

bool tn_steady_lock_and_allocate(struct tn_arena *arena, const struct tn_steady_key *key,
                                 uint64_t requested, uint64_t alignment, void **address)
{
    struct tn_magazines *magazines = tn_arena_magazines(arena);
    bool wanted = false;
    bool done = false;

    if (magazines != NULL && take_round(arena, key, requested, alignment, address))
        return true;
    tn_arena_lock(arena);
    if (tn_steady_has_key(arena, *key)) {
        wanted = wants_magazines(arena);
        tn_arena_use(arena);
        done = tn_arena_allocate(arena, requested, alignment, address);
    }
    tn_arena_unlock(arena);
    if (wanted && done)
        (void)tn_steady_divide(arena); /* without memory all goes on as before */
    else if (magazines != NULL && tn_magazine_own(magazines) == NULL)
        tn_magazine_claim(arena);
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
    const struct tn_block *block = tn_steady_get(arena, requested, alignment, true);

    if (block == NULL)
        return false;
    *address = tn_steady_address(block);
    return true;
}

/* With or without an inbox. */
static TN_APART bool take_and_record(struct tn_arena *arena, uint64_t requested, uint64_t alignment,
                                     void **address)
{
    const struct tn_block *block =
        tn_steady_get(arena, requested, alignment, (arena->allocates & TN_STEADY_SHARED) != 0);

    if (block == NULL)
        return false;
    tn_history_alloc(tn_arena_history(arena), block);
    *address = tn_steady_address(block);
    return true;
}

/* The block freed last: live bytes become what they were before, and are no peak. */
static TN_ALWAYS_INLINE bool reissue_and_record(struct tn_arena *arena, uint64_t requested,
                                                uint64_t alignment, void **address)
{
    struct tn_history_writer *history = tn_arena_history(arena);
    struct tn_block *block = history->freed;
    const uint64_t sequence = arena->sequence;
    struct tn_heap *heap;

    TN_ASSERT(tn_arena_is_locked(arena) && arena->allocates == TN_STEADY_RECORDED);
    /* The same request is of the same size: the blocks are not rounded. */
    if (TN_UNLIKELY(block == NULL) || TN_UNLIKELY(block->requested != requested) ||
        TN_UNLIKELY(!tn_loose_is_aligned(block, alignment)) ||
        TN_UNLIKELY(sequence == arena->sequences_end) ||
        TN_UNLIKELY(!tn_history_may_join(history, sequence)))
        return false;
    heap = block->heap;
    TN_ASSERT(heap->loose == block && arena->rounding == NULL);
    TN_ASSERT(tn_block_bytes(block) == tn_block_bytes_for(NULL, requested));
    tn_history_join(history, sequence);
    heap->loose = NULL;
    block->sequence = sequence;
    block->state = TN_BLOCK_LIVE;
    arena->sequence = sequence + 1;
    tn_arena_count_reissue(arena, heap, tn_block_bytes(block), requested);
    TN_CHECK_TOUCHED(block);
    TN_CHECK_TURN(heap);
    *address = tn_steady_address(block);
    return true;
}

bool tn_arena_reissue_and_record(struct tn_arena *arena, uint64_t requested, uint64_t alignment,
                                 void **address)
{
    return reissue_and_record(arena, requested, alignment, address);
}

bool tn_arena_allocate_and_record(struct tn_arena *arena, uint64_t requested, uint64_t alignment,
                                  void **address)
{
    return (TN_LIKELY(arena->allocates == TN_STEADY_RECORDED) && TN_LIKELY(tn_history_stack == 0) &&
            TN_LIKELY(reissue_and_record(arena, requested, alignment, address))) ||
           take_and_record(arena, requested, alignment, address);
}

/* By a thread other than the arena's user. */
static TN_APART bool free_as_guest(struct tn_arena *arena, const struct tn_chunk *chunk,
                                   uint64_t address)
{
    struct tn_inbox *inbox = atomic_load_explicit(&arena->inbox, memory_order_acquire);
    bool wanted = false;
    bool done;

    if (inbox != NULL && tn_sharing_leave(inbox, arena, chunk, address))
        return true;
    tn_arena_lock(arena);
    if (arena->shared) {
        /* The inbox may be full, and the user away. */
        tn_sharing_empty_inbox(arena, tn_arena_inbox(arena));
    } else {
        arena->guest_free_count += 1;
        wanted = arena->guest_free_count % GUEST_FREES == 0;
    }
    done = tn_sharing_free_here(arena, chunk, address);
    tn_arena_unlock(arena);
    if (wanted && done)
        (void)tn_steady_share(arena); /* without memory all goes on as before */
    return done;
}

/* By the arena's user: the arena is locked. */
static bool free_here(struct tn_arena *arena, const struct tn_chunk *chunk, uint64_t address,
                      bool told)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    if (told && tn_steady_asks(arena, 0))
        return false;
    return tn_sharing_free_here(arena, chunk, address);
}

/* By the user of a moment ago, which is not the owner. */
static bool lock_and_free(struct tn_arena *arena, const struct tn_chunk *chunk, uint64_t address,
                          bool told)
{
    bool done;

    TN_ASSERT(chunk != NULL && arena != NULL);
    tn_arena_lock(arena);
    if (tn_arena_is_user(arena))
        tn_arena_use(arena);
    done = free_here(arena, chunk, address, told);
    tn_arena_unlock(arena);
    return done;
}

bool tn_steady_free_and_leave(struct tn_block *block)
{
    struct tn_heap *heap = block->heap;
    struct tn_arena *arena = heap->arena;
    bool done;

    TN_ASSERT(block->state == TN_BLOCK_LIVE && tn_arena_is_locked(arena));
    done = tn_sharing_free(arena, heap, block);
    tn_arena_leave(arena);
    return done;
}

bool tn_steady_free_in(struct tn_chunk *chunk, uint64_t address, bool told)
{
    struct tn_arena *arena;
    bool done;

    if (chunk == NULL)
        return false;
    arena = atomic_load_explicit(&chunk->arena, memory_order_acquire);
    if (arena == NULL)
        return false;
    if (tn_arena_magazines(arena) != NULL && tn_sharing_put_round(arena, chunk, address))
        return true;
    if (!tn_arena_is_user(arena)) {
        done = free_as_guest(arena, chunk, address);
    } else if (!tn_arena_enter(arena)) {
        done = lock_and_free(arena, chunk, address, told);
    } else {
        done = free_here(arena, chunk, address, told);
        tn_arena_leave(arena);
    }
    return done || (tn_arena_magazines(arena) != NULL &&
                    tn_sharing_free_of_magazine(arena, NULL, chunk, address));
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

/* The pool is locked. */
static void empty_magazine(struct tn_arena *arena, struct tn_magazines *magazines,
                           struct tn_magazine *magazine)
{
    struct tn_heap_counters *const counters[] = {&arena->heaps[TN_HEAP_SMALL]->counters,
                                                 &arena->heaps[TN_HEAP_LARGE]->counters};

    TN_ASSERT(tn_arena_is_locked(arena));
    tn_spin_acquire(&magazine->lock);
    while (magazine->count > 0) {
        struct tn_block *block = tn_magazine_pop(magazine);

        tn_block_leave(block, block->loose_stamp);
        (void)tn_heap_put(arena->parent_store, block);
    }
    tn_magazine_settle(magazines, magazine, counters);
    tn_spin_release(&magazine->lock);
}

/* The pool is locked. */
static void close_magazines(struct tn_arena *arena, struct tn_magazines *magazines)
{
    int used = 0;

    TN_ASSERT(tn_arena_is_locked(arena) && arena->divided);
    if (!atomic_load_explicit(&arena->magazines_open, memory_order_relaxed))
        return;
    /* Relaxed: who uses a magazine takes its lock first, which is taken here next. */
    atomic_store_explicit(&arena->magazines_open, false, memory_order_relaxed);
    for (size_t i = 0; i < TN_MAGAZINES; i++) {
        struct tn_magazine *magazine =
            atomic_load_explicit(&magazines->places[i], memory_order_acquire);

        if (magazine != NULL) {
            empty_magazine(arena, magazines, magazine); /* P37 */
            used += magazine->unused_closes == 1;
        }
    }
    arena->closes_alone = used > 1 ? 0 : arena->closes_alone + 1;
    if (arena->closes_alone < CLOSES_ALONE)
        return;
    arena->closes_alone = 0;
    arena->user_changes = 0;
    arena->divided = false; /* one thread has come alone for long */
}

void tn_steady_end(struct tn_arena *arena)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        tn_loose_empty(arena, arena->heaps[kind]);
    if (arena->divided)
        close_magazines(arena, tn_arena_magazines(arena));
    if (arena->shared)
        close_inbox(arena, tn_arena_inbox(arena));
    if (arena->records)
        tn_history_flush(tn_arena_history(arena));
}

void tn_steady_begin(struct tn_arena *arena, const struct tn_steady_terms *terms)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        TN_ASSERT(arena->heaps[kind]->loose == NULL &&
                  arena->heaps[kind]->loose_count == 0); /* P19 */
    arena->captured = terms->captured;
    arena->asks = terms->asks;
    arena->unasked_bytes_left = tn_arena_unasked_left(arena);
    arena->asks_below_peak = tn_arena_asks_below_peak(arena);
    arena->asks_at = (int64_t)arena->fallen_bytes - arena->asks_below_peak;
    arena->coalesces = terms->coalesces;
    arena->records = tn_arena_is_recorded(arena);
    arena->allocates = terms->allocates ? TN_STEADY : TN_NOT_STEADY;
    arena->frees = terms->frees ? TN_STEADY : TN_NOT_STEADY;
    if (terms->allocates && arena->records)
        arena->allocates = arena->rounding == NULL ? TN_STEADY_RECORDED : TN_RECORDED;
    if (terms->allocates && arena->shared)
        open_inbox(arena);
    if (terms->allocates && arena->divided)
        open_magazines(arena);
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        TN_CHECK_TURN(arena->heaps[kind]);
}
