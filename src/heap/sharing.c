// SPDX-License-Identifier: Apache-2.0
/* A thread that frees blocks of another thread would wait for the arena's lock, and take its cache
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
 * Where several threads allocate in turn, each gets a magazine (heap/magazine.h). The first free of a
 * block brings it there, with the arena's lock.
 *
 * Trade-offs: in an arena with an inbox the user's own frees also exchange the entry in the index,
 * some five nanoseconds each. While loose blocks serve all allocations, blocks of other threads stay
 * in the inbox until it is full. Blocks behind a block that needs the pool's lock may stay, too. */
#include "heap/sharing.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/hot.h"
#include "heap/inbox.h"
#include "heap/loose.h"

/* Frees the inbox's oldest block. False: this free needs the pool's lock. */
static inline bool free_from_inbox(struct tn_arena *arena, struct tn_inbox *inbox,
                                   struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_LIVE && !tn_live_is_open(block)); /* nobody else frees it */
    if (!tn_loose_free(arena, block->heap, block))
        return false;
    tn_inbox_take(inbox);
    return true;
}

void tn_sharing_empty_inbox(struct tn_arena *arena, struct tn_inbox *inbox)
{
    struct tn_block *block = tn_inbox_first(inbox);

    TN_ASSERT(tn_arena_is_locked(arena));
    while (block != NULL && free_from_inbox(arena, inbox, block))
        block = tn_inbox_first(inbox);
}

bool tn_sharing_receive(struct tn_arena *arena, const struct tn_heap *heap, uint64_t alignment,
                        uint64_t bytes)
{
    struct tn_inbox *inbox = tn_arena_inbox(arena);
    const struct tn_arena_counters *counters = &arena->counters;
    struct tn_block *block;

    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT((arena->allocates & TN_STEADY_SHARED) != 0);
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

bool tn_sharing_free(struct tn_arena *arena, struct tn_heap *heap, struct tn_block *block)
{
    uint64_t sequence = block->sequence;

    if (!tn_loose_free(arena, heap, block))
        return false;
    if (!arena->records)
        return true;
    tn_history_free(tn_arena_history(arena), block, sequence);
    if (heap->loose != block) /* it coalesces, or its record is another block's soon */
        tn_history_flush(tn_arena_history(arena));
    return true;
}

bool tn_sharing_free_here(struct tn_arena *arena, const struct tn_chunk *chunk, uint64_t address)
{
    bool shared = arena->frees == TN_STEADY_SHARED;
    uint64_t offset;
    struct tn_block *block;

    TN_ASSERT(tn_arena_is_locked(arena));
    if (arena->frees == TN_NOT_STEADY || !tn_arena_is_at(arena, chunk, address, &offset))
        return false;
    block = shared ? tn_live_close_at(chunk, offset) : tn_live_open_at(chunk, offset);
    if (block == NULL || block->state != TN_BLOCK_LIVE)
        return false;
    if (tn_sharing_free(arena, block->heap, block))
        return true;
    if (shared)
        tn_live_update(block); /* P23: open again */
    return false;
}

bool tn_sharing_leave(struct tn_inbox *inbox, const struct tn_arena *arena,
                      const struct tn_chunk *chunk, uint64_t address)
{
    atomic_uintptr_t *place = tn_inbox_enter(inbox);
    struct tn_block *block = NULL;
    uint64_t offset;

    if (place == NULL)
        return false;
    /* Until this place is filled nobody locks the pool: the arena frees, and its chunks are its
     * own. */
    if (tn_arena_is_at(arena, chunk, address, &offset))
        block = tn_live_close_at(chunk, offset);
    if (inbox->history != NULL && block != NULL)
        tn_history_free_by_guest(inbox->history, block);
    tn_inbox_put(place, block);
    return block != NULL;
}

/* Whether the block may wait as a round: its coalescing concerns this arena alone, and no size is
 * worth more than the time. Reads what changes under the pool's lock alone. */
static bool may_be_round(const struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_LIVE && tn_block_is_plain(block));
    return !block->segment->mixed && block->units <= TN_LOOSE_LARGE_UNITS;
}

/* Half of a full magazine's rounds go to the arena. */
static void make_room(struct tn_arena *arena, struct tn_magazine *magazine)
{
    TN_ASSERT(tn_arena_is_locked(arena) && tn_magazine_is_full(magazine));
    while (magazine->count > TN_MAGAZINE_ROUNDS / 2) {
        struct tn_block *block = tn_magazine_pop(magazine);
        bool done;

        tn_magazine_uncount(magazine, block);
        done = tn_loose_free(arena, block->heap, block);
        TN_ASSERT(done); /* its segment is not mixed */
        (void)done;
    }
}

/* Frees a LIVE block that is the magazine's, or whose entry is open and comes there. The arena is
 * locked, and the magazine. */
static bool put_round(struct tn_arena *arena, struct tn_magazine *magazine, struct tn_block *block,
                      const struct tn_chunk *chunk)
{
    if (!tn_magazine_has(magazine, block) && tn_live_close_at(chunk, block->offset) == NULL)
        return false; /* freed meanwhile */
    if (may_be_round(block) && tn_magazines_are_open(arena)) {
        if (tn_magazine_is_full(magazine))
            make_room(arena, magazine);
        tn_magazine_put(magazine, block, tn_arena_epoch(arena));
        return true;
    }
    tn_magazine_forget(block);
    if (tn_sharing_free(arena, block->heap, block))
        return true;
    tn_live_update(block); /* P23: open again */
    return false;
}

bool tn_sharing_free_of_magazine(struct tn_arena *arena, struct tn_magazine *own,
                                 const struct tn_chunk *chunk, uint64_t address)
{
    struct tn_magazine *magazine = own;
    struct tn_block *block = NULL;
    bool done = false;
    uint64_t offset;

    tn_arena_lock(arena);
    if (arena->frees == TN_STEADY_SHARED && tn_arena_is_at(arena, chunk, address, &offset))
        block = tn_live_at(chunk, offset);
    if (block != NULL && tn_block_is_of_magazine(block))
        magazine = tn_magazine_of(tn_arena_magazines(arena), block);
    else if (!tn_magazines_are_open(arena))
        magazine = NULL; /* this is freed as any block */
    if (block != NULL && block->state == TN_BLOCK_LIVE && magazine != NULL) {
        tn_spin_acquire(&magazine->lock);
        done = put_round(arena, magazine, block, chunk);
        tn_spin_release(&magazine->lock);
    }
    tn_arena_unlock(arena);
    return done;
}

/* What a look has found with the lock of some magazine. */
enum found { FREED, OTHERS, UNSEEN };

/* Frees the block at the address if it is the magazine's, and there is room. *magazine: whose it
 * is, if it is another magazine's. */
static enum found look_and_put(const struct tn_arena *arena, struct tn_magazine **magazine,
                               const struct tn_chunk *chunk, uint64_t address)
{
    struct tn_block *block = NULL;
    uint64_t offset;

    if (tn_arena_is_at(arena, chunk, address, &offset))
        block = tn_live_at(chunk, offset);
    if (block == NULL || !tn_block_is_of_magazine(block))
        return UNSEEN;
    if (!tn_magazine_has(*magazine, block)) {
        struct tn_magazine *other = tn_magazine_of(tn_arena_magazines(arena), block);
        bool is_other = other != *magazine;

        *magazine = other;
        return is_other ? OTHERS : UNSEEN; /* it is a round */
    }
    if (tn_magazine_is_full(*magazine) || !may_be_round(block))
        return UNSEEN;
    tn_magazine_put(*magazine, block, tn_arena_epoch(arena));
    return FREED;
}

bool tn_sharing_put_round(struct tn_arena *arena, const struct tn_chunk *chunk, uint64_t address)
{
    const struct tn_magazines *magazines = tn_arena_magazines(arena);
    struct tn_magazine *own = tn_magazine_own(magazines);
    struct tn_magazine *magazine = own != NULL ? own : tn_magazine_any(magazines);
    enum found found = OTHERS;

    if (!tn_magazines_are_open(arena))
        return false;
    for (int looks = 0; looks < 2 && found == OTHERS && magazine != NULL; looks++) {
        struct tn_magazine *entered = magazine;

        if (!tn_magazine_enter(arena, entered))
            break;
        found = look_and_put(arena, &magazine, chunk, address);
        tn_magazine_leave(entered);
    }
    return found == FREED ||
           (own != NULL && tn_sharing_free_of_magazine(arena, own, chunk, address));
}
