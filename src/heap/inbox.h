// SPDX-License-Identifier: Apache-2.0
/* inbox.h -- blocks which other threads have freed, on their way to their arena.
 *
 *   P22 while the pool is locked its arenas' inboxes are closed and empty
 *
 * An inbox is a ring of places. Neither side waits for the other. Each side writes words for a
 * block, but the other side reads the place alone:
 *
 *     a thread that frees                        a thread with the arena's lock
 *     takes the next place (ticket)
 *     closes the block's entry in the index
 *     puts the block into its place, releasing
 *                                                reads the oldest place, acquiring
 *                                                frees the block
 *                                                writes the number of the next round into the place
 *
 * A closed inbox gives out no place. The thread that closed it waits until every place taken before
 * is filled. The pool's lock closes the inboxes of all its arenas. While a thread has a place,
 * nothing under the pool's lock can therefore change, as under the arena's own lock.
 *
 * Source: the value of a place names its round of the ring, after D. Vyukov, Bounded MPMC queue
 * (1024cores.net).
 *
 * Locking: the arena's lock; tn_inbox_enter and tn_inbox_put need none. Records are recycled, never
 * freed, and stay with the record of their arena. A late thread therefore finds an inbox, and a
 * closed one if the arena is gone. */
#ifndef TARN_HEAP_INBOX_H
#define TARN_HEAP_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tn_block;
struct tn_ring;

/* A power of two, and 2 KiB. With 128 places a thread that freed 200 blocks behind an allocating
 * thread found the ring full half the time. */
enum { TN_INBOX_PLACES = 256 };

enum { TN_INBOX_NOTHING = 2 }; /* value of a place without a block; no block has this address */

struct tn_inbox {
    uint64_t magic;        /* 0: nobody has a handle of an inbox */
    struct tn_inbox *next; /* links recycled records */
    uint64_t head;         /* the oldest taken place */
    /* Where a thread that frees writes this; NULL: nowhere. Set before it is opened. */
    struct tn_ring *history;
    _Alignas(128) atomic_uint_fast64_t ticket; /* 2 * next place; odd: closed */
    _Alignas(128) atomic_uintptr_t places[TN_INBOX_PLACES];
};

/* Makes a closed and empty inbox; NULL: no memory. The caller holds no spin lock. */
struct tn_inbox *tn_inbox_make(void);
void tn_inbox_drop(struct tn_inbox *inbox); /* no other thread has seen it */

/* Takes the next place, for tn_inbox_put; NULL: the inbox is closed or full. */
atomic_uintptr_t *tn_inbox_enter(struct tn_inbox *inbox);

/* Puts the block into the place; NULL: no block after all. Releases the thread's accesses to the
 * block's memory, and its reads of the pool. */
void tn_inbox_put(atomic_uintptr_t *place, struct tn_block *block);

/* The oldest block; NULL: the inbox is empty, or the oldest place is taken but not yet filled. */
struct tn_block *tn_inbox_first(struct tn_inbox *inbox);

/* tn_inbox_first of a closed inbox: waits until taken places are filled. */
struct tn_block *tn_inbox_await(struct tn_inbox *inbox);

/* Takes the oldest block out. */
void tn_inbox_take(struct tn_inbox *inbox);

/* Whether a closed inbox has no block, and no taken place. */
bool tn_inbox_is_empty(const struct tn_inbox *inbox);

void tn_inbox_open(struct tn_inbox *inbox); /* a closed and empty inbox */
void tn_inbox_close(struct tn_inbox *inbox);
bool tn_inbox_is_open(const struct tn_inbox *inbox);

#endif
