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
    if (tn_loose_free(arena, block->heap, block))
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
    tn_inbox_put(place, block);
    return block != NULL;
}

/* Whether the block may wait as a round: its coalescing concerns this arena alone, and its memory
 * is not worth more to others. */
static bool may_be_round(const struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_LIVE && tn_block_is_plain(block));
    return !block->segment->mixed && !tn_loose_is_edge(block) &&
           block->units <= TN_LOOSE_LARGEST_UNITS;
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

/* Frees the block at the address to the magazine, to which it belongs already or comes. */
static bool put_round(struct tn_arena *arena, struct tn_magazine *magazine,
                      const struct tn_chunk *chunk, uint64_t address)
{
    struct tn_block *block;
    uint64_t offset;

    TN_ASSERT(tn_arena_is_locked(arena));
    if (!tn_arena_is_at(arena, chunk, address, &offset))
        return false;
    block = tn_live_at(chunk, offset);
    if (block == NULL || !tn_magazine_has(magazine, block))
        block = tn_live_close_at(chunk, offset); /* from now on the caller's alone */
    if (block == NULL)
        return false;
    if (!may_be_round(block)) {
        bool done = tn_loose_free(arena, block->heap, block);

        if (!done)
            tn_live_update(block); /* P23: open again */
        return done;
    }
    if (tn_magazine_is_full(magazine))
        make_room(arena, magazine);
    tn_magazine_put(magazine, block, tn_arena_epoch(arena));
    return true;
}

static TN_APART bool lock_and_put_round(struct tn_arena *arena, struct tn_magazine *magazine,
                                        const struct tn_chunk *chunk, uint64_t address)
{
    bool done = false;

    tn_arena_lock(arena);
    if (tn_magazine_enter(arena, magazine)) {
        done = put_round(arena, magazine, chunk, address);
        tn_magazine_leave(magazine);
    }
    tn_arena_unlock(arena);
    return done;
}

/* What a look at a block has found, with the lock of some magazine. */
enum found { NOTHING, OF_NO_MAGAZINE, OF_OTHER, ROOM, NO_ROOM };

/* Frees the block at the address if it is the magazine's, and there is room. *id: whose it is, if
 * it is another magazine's. */
static enum found look_and_put(const struct tn_arena *arena, struct tn_magazine *magazine,
                               const struct tn_chunk *chunk, uint64_t address, unsigned *id)
{
    struct tn_block *block;
    uint64_t offset;

    if (!tn_arena_is_at(arena, chunk, address, &offset))
        return NOTHING;
    block = tn_live_at(chunk, offset);
    if (block == NULL)
        return NOTHING;
    *id = atomic_load_explicit(&block->magazine, memory_order_relaxed);
    if (*id == 0)
        return OF_NO_MAGAZINE;
    if (*id != magazine->id)
        return *id < TN_MAGAZINE_ROUND ? OF_OTHER : NOTHING;
    if (tn_magazine_is_full(magazine) || !may_be_round(block))
        return NO_ROOM;
    tn_magazine_put(magazine, block, tn_arena_epoch(arena));
    return ROOM;
}

bool tn_sharing_put_round(struct tn_arena *arena, const struct tn_chunk *chunk, uint64_t address)
{
    const struct tn_magazines *magazines = tn_arena_magazines(arena);
    struct tn_magazine *own = tn_magazine_own(magazines);
    struct tn_magazine *magazine = own != NULL ? own : tn_magazine_any(magazines);
    enum found found = OF_OTHER;

    for (int looks = 0; looks < 2 && found == OF_OTHER && magazine != NULL; looks++) {
        unsigned id = 0;

        if (!tn_magazine_enter(arena, magazine))
            return false;
        found = look_and_put(arena, magazine, chunk, address, &id);
        tn_magazine_leave(magazine);
        if (found == OF_OTHER)
            magazine = atomic_load_explicit(&magazines->places[id - 1], memory_order_acquire);
    }
    if (found == OF_NO_MAGAZINE)
        magazine = own; /* a thread that only frees has none */
    if (magazine == NULL || (found != NO_ROOM && found != OF_NO_MAGAZINE))
        return found == ROOM;
    return lock_and_put_round(arena, magazine, chunk, address);
}
