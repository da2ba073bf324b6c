// SPDX-License-Identifier: Apache-2.0
/* inbox.h -- blocks that other threads have freed, on their way to the arena that they belong to.
 *
 *   P22 while the pool is locked its arenas' inboxes are closed, and nothing is in them
 *
 * A ring. Who frees takes the next place, closes the block's entry in the index (heap/live_index.h), and puts the
 * block there; who has the arena's lock takes the blocks out, in the order of the places. Neither waits for the
 * other, and of what one writes with each block the other reads the place alone.
 *
 * An inbox that is closed lets nobody in, and is waited for until all who took a place have put something there.
 * The pool's lock closes those of all its arenas. So to who has a place, what that lock guards stays as it is, as
 * under the arena's own lock.
 *
 * Source: a place tells by its value which round of the ring it is in, after D. Vyukov, Bounded MPMC queue
 * (1024cores.net).
 *
 * Locking: that of the arena, but for tn_inbox_enter and tn_inbox_put, which need none. Records are recycled, never
 * freed, and stay with that of their arena: who comes late finds an inbox, and a closed one where there is no arena. */
#ifndef TARN_HEAP_INBOX_H
#define TARN_HEAP_INBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tn_block;

/* A power of two, and 2 KiB. With 128 a thread that freed 200 blocks behind one that allocates found them all taken
 * half the time. */
enum { TN_INBOX_PLACES = 256 };

enum { TN_INBOX_NOTHING = 2 }; /* in a place; no block has that address */

struct tn_inbox {
    uint64_t magic;                            /* 0: nobody has a handle of one */
    struct tn_inbox *next;                     /* links recycled records */
    uint64_t head;                             /* the oldest place that is taken */
    _Alignas(128) atomic_uint_fast64_t ticket; /* twice the next place; odd: closed */
    _Alignas(128) atomic_uintptr_t places[TN_INBOX_PLACES];
};

/* A closed and empty one, or NULL when there is no memory. No spin lock may be held. */
struct tn_inbox *tn_inbox_make(void);
void tn_inbox_drop(struct tn_inbox *inbox); /* that no other thread has seen */

/* What is in a place that nobody has taken in this round of the ring. Blocks have even addresses. */
static inline uintptr_t tn_inbox_vacant(uint64_t place)
{
    return (uintptr_t)place << 1 | 1;
}

/* Takes the next place, for tn_inbox_put; NULL: the inbox is closed or full.
 *
 * The exchange acquires what was written before the inbox was opened: it reads the ticket of then, or one that
 * exchanges alone have made of it. The place is read relaxed: its value says but that it is vacant, and whoever
 * reads an older one finds the inbox full. */
static inline atomic_uintptr_t *tn_inbox_enter(struct tn_inbox *inbox)
{
    uint_fast64_t ticket = atomic_load_explicit(&inbox->ticket, memory_order_relaxed);

    while ((ticket & 1) == 0) {
        uint64_t next = ticket >> 1;
        atomic_uintptr_t *place = &inbox->places[next % TN_INBOX_PLACES];
        uint_fast64_t read = ticket;

        if (atomic_load_explicit(place, memory_order_relaxed) == tn_inbox_vacant(next)) {
            if (atomic_compare_exchange_weak_explicit(&inbox->ticket, &ticket, ticket + 2,
                                                      memory_order_acquire, memory_order_relaxed))
                return place;
            continue;
        }
        ticket = atomic_load_explicit(&inbox->ticket, memory_order_relaxed);
        if (ticket == read)
            return NULL; /* else another thread has taken that place meanwhile */
    }
    return NULL;
}

/* Puts the block there; NULL: nothing after all. Releases what the thread did with the block's memory before, and what
 * it read of the pool. */
static inline void tn_inbox_put(atomic_uintptr_t *place, struct tn_block *block)
{
    atomic_store_explicit(place, block != NULL ? (uintptr_t)block : TN_INBOX_NOTHING,
                          memory_order_release);
}

/* The oldest block; NULL: there is none, or the oldest place is taken and nothing is there yet. */
struct tn_block *tn_inbox_first(struct tn_inbox *inbox);

/* The same in a closed one: waits for what is to be put there. */
struct tn_block *tn_inbox_await(struct tn_inbox *inbox);

/* Takes the oldest block out. */
void tn_inbox_take(struct tn_inbox *inbox);

/* Of a closed one: whether nothing is in it, nor on its way. */
bool tn_inbox_is_empty(const struct tn_inbox *inbox);

void tn_inbox_open(struct tn_inbox *inbox); /* a closed and empty one */
void tn_inbox_close(struct tn_inbox *inbox);
bool tn_inbox_is_open(const struct tn_inbox *inbox);

#endif
