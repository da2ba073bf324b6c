// SPDX-License-Identifier: Apache-2.0
/* magazine.h -- blocks which a thread has freed and will want again, where threads share an arena.
 *
 * Threads that allocate from one arena in turn would wait for its lock, and take its cache lines
 * from each other. After some turns the arena has magazines (heap/steady.c), and each thread that
 * allocates there gets one. Its blocks are rounds. A thread that frees a block and requests the same
 * size again touches its magazine and the block's record, and nothing that another thread writes.
 *
 *   P37  while the pool is locked its arenas' magazines are closed and have no round
 *
 * A block belongs to the magazine to which a thread first freed it, and stays there while it goes
 * out and comes back. Its entry in the index is closed meanwhile, and its record names the magazine:
 * who wants to free it takes the lock of this magazine, whichever thread that is. For the arena the
 * block is LIVE. Nothing that the arena's lock guards changes when it becomes a round or goes out.
 *
 *     a thread that frees                     a thread with the pool's lock, and the arena's
 *     takes the magazine's lock
 *     open: the arena's chunks and the
 *     blocks of magazines stay as they are
 *                                             closes all magazines
 *     releases the lock
 *                                             takes each magazine's lock: frees the rounds
 *     takes the lock: closed, goes away
 *
 * A thread's end loses nothing, for the magazine belongs to the arena. Who locks the pool frees its
 * rounds. A magazine that nobody has used through many such locks is given to the next thread that
 * has none.
 *
 * The arena counts blocks that go out of its hands and come back, and a magazine the others. Live
 * bytes as the arena counts them are therefore never too low, and too high by the rounds.
 *
 * Trade-offs: 64 threads have magazines in an arena at a time, and a thread whose four places are
 * taken has none. An arena with magazines has no owner. Rounds may keep holes apart until the pool
 * is locked, as it is before a heap grows.
 *
 * Source: J. Bonwick and J. Adams, Magazines and Vmem (USENIX 2001).
 *
 * Locking: the arena's lock comes before a magazine's. Records are never given back. */
#ifndef TARN_HEAP_MAGAZINE_H
#define TARN_HEAP_MAGAZINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/hot.h"
#include "base/spin.h"
#include "base/thread.h"
#include "heap/arena.h"

enum {
    TN_MAGAZINES = 64, /* of an arena; a power of two */
    TN_MAGAZINE_ROUNDS = 16,
    TN_MAGAZINE_TRIES = 4,  /* places where a thread's magazine may be */
    TN_MAGAZINE_ROUND = 128 /* in a block's word: it is a round */
};

struct tn_magazine_tally {
    struct tn_tally allocated;
    struct tn_tally freed;
};

struct tn_magazine {
    uint64_t magic; /* 0: nobody has a handle of a magazine */
    struct tn_magazine *next;
    struct tn_spin lock;
    uint8_t id; /* one above its place in the arena; immutable */
    uint8_t count;
    uint8_t unused_closes; /* in a row, without a use between */
    uint64_t sequence;     /* the next number of an allocation */
    uint64_t sequences_end;
    struct tn_magazine_tally tallies[TN_HEAP_KINDS]; /* since it was closed last */
    struct tn_history_writer history;                /* no ring: what happens is not recorded */
    _Alignas(64) uint32_t units[TN_MAGAZINE_ROUNDS]; /* sizes of the rounds, oldest first */
    struct tn_block *rounds[TN_MAGAZINE_ROUNDS];
};

struct tn_magazines {
    uint64_t magic; /* 0: nobody has a handle of magazines */
    struct tn_magazines *next;
    /* Whose the magazines are, by their tn_thread_word; 0: given up. Apart from the magazines: a thread
     * that looks for its own must not touch what other threads write. */
    _Alignas(128) atomic_uintptr_t threads[TN_MAGAZINES];
    _Atomic(struct tn_magazine *) places[TN_MAGAZINES];
};

/* Closed, and none is there yet; NULL: no memory. The caller holds no spin lock. */
struct tn_magazines *tn_magazines_make(void);
void tn_magazines_drop(struct tn_magazines *magazines); /* no other thread has seen them */

/* Where a search for the thread's magazine begins. */
static inline size_t tn_magazine_first_place(uintptr_t thread)
{
    return (size_t)((uint64_t)thread * TN_GOLDEN >> 58) % TN_MAGAZINES;
}

/* The calling thread's magazine; NULL: it has none. */
static inline struct tn_magazine *tn_magazine_own(const struct tn_magazines *magazines)
{
    const uintptr_t thread = tn_thread_word();
    const size_t first = tn_magazine_first_place(thread);

    for (size_t i = 0; i < TN_MAGAZINE_TRIES; i++) {
        const size_t place = (first + i) % TN_MAGAZINES;

        if (atomic_load_explicit(&magazines->threads[place], memory_order_relaxed) == thread)
            return atomic_load_explicit(&magazines->places[place], memory_order_acquire);
    }
    return NULL;
}

/* Gives the calling thread a magazine of the arena, which has none for it, where there is a place.
 * The caller holds no spin lock. */
void tn_magazine_claim(struct tn_arena *arena);

/* A magazine of another thread, not the same one for all who ask; NULL: there is none. */
struct tn_magazine *tn_magazine_any(const struct tn_magazines *magazines);

/* Takes the magazine's lock; false: the arena's magazines are closed, and the lock is not taken.
 * With the lock a thread finds all as the release of the pool's lock has left it. */
static inline bool tn_magazine_enter(const struct tn_arena *arena, struct tn_magazine *magazine)
{
    tn_spin_acquire(&magazine->lock);
    if (TN_LIKELY(atomic_load_explicit(&arena->magazines_open, memory_order_acquire)))
        return true;
    tn_spin_release(&magazine->lock);
    return false;
}

static inline void tn_magazine_leave(struct tn_magazine *magazine)
{
    TN_ASSERT(magazine->count <= TN_MAGAZINE_ROUNDS);
    tn_spin_release(&magazine->lock);
}

/* The following have the magazine's lock. */

/* Allocates the youngest round of this size; NULL: none. */
struct tn_block *tn_magazine_take(struct tn_magazine *magazine, uint64_t bytes, uint64_t alignment,
                                  uint64_t requested);

/* The magazine of a block that is of one. */
static inline struct tn_magazine *tn_magazine_of(const struct tn_magazines *magazines,
                                                 const struct tn_block *block)
{
    unsigned word = atomic_load_explicit(&block->magazine, memory_order_relaxed);

    TN_ASSERT((word & ~(unsigned)TN_MAGAZINE_ROUND) != 0);
    return atomic_load_explicit(&magazines->places[(word & ~(unsigned)TN_MAGAZINE_ROUND) - 1],
                                memory_order_acquire);
}

/* Whether the block, whose entry is closed, is the magazine's and out. */
static inline bool tn_magazine_has(const struct tn_magazine *magazine, const struct tn_block *block)
{
    return atomic_load_explicit(&block->magazine, memory_order_relaxed) == magazine->id;
}

static inline bool tn_magazine_is_full(const struct tn_magazine *magazine)
{
    return magazine->count == TN_MAGAZINE_ROUNDS;
}

/* Frees a block that is the magazine's, or the caller's alone: it becomes the youngest round. The
 * magazine is not full. stamp: the epoch now. */
void tn_magazine_put(struct tn_magazine *magazine, struct tn_block *block, uint64_t stamp);

/* The block is of no magazine any more, and the caller's alone. */
static inline void tn_magazine_forget(struct tn_block *block)
{
    atomic_store_explicit(&block->magazine, 0, memory_order_relaxed);
}

/* Takes the oldest round out, which becomes the caller's alone, and stays freed in the magazine's
 * counts. The magazine is not empty. */
struct tn_block *tn_magazine_pop(struct tn_magazine *magazine);

/* Takes the block out of the magazine's counts of freed ones: the arena will count it. */
void tn_magazine_uncount(struct tn_magazine *magazine, const struct tn_block *block);

/* With the arena's lock, or for a look. */
static inline bool tn_magazines_are_open(const struct tn_arena *arena)
{
    return atomic_load_explicit(&arena->magazines_open, memory_order_relaxed);
}

uint64_t tn_magazines_count_rounds(const struct tn_magazines *magazines); /* closed */

/* What happens in the magazines, which are closed, is written from now on to the ring that the
 * arena writes to; NULL: is not written any more. The arena is locked. */
void tn_magazines_record(struct tn_magazines *magazines, const struct tn_history_writer *arenas);

/* The magazines, which are closed, go on with new pages of the history. The arena is locked. */
void tn_magazines_leave_pages(struct tn_magazines *magazines);

/* Of a closed magazine without rounds: adds what it has counted to the heaps' counters and begins
 * anew; its thread may lose it. */
void tn_magazine_settle(struct tn_magazines *magazines, struct tn_magazine *magazine,
                        struct tn_heap_counters *const *counters);

#endif
