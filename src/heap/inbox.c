// SPDX-License-Identifier: Apache-2.0
/* An empty place has the number of its next round. A thread that stops between taking a place and
 * filling it therefore stops threads that take blocks out, but no other thread that frees.
 *
 * Trade-offs: a thread that waits for a closed inbox waits for such a thread, as it would for the
 * arena's lock. */
#include "heap/inbox.h"

#include "base/contract.h"
#include "base/host.h"
#include "base/spin.h"

static struct tn_records inbox_records = TN_RECORDS_INIT(struct tn_inbox);

/* The value of a place which nobody has taken in this round of the ring. It is odd; blocks have
 * even addresses. */
static inline uintptr_t vacant(uint64_t place)
{
    return (uintptr_t)place << 1 | 1;
}

/* The exchange acquires all writes from before the opening: it reads the ticket of the opening, or
 * a ticket which only exchanges have made of that ticket. The place is read relaxed: its value says
 * only that the place is vacant, and a thread that reads an older value finds the inbox full. */
atomic_uintptr_t *tn_inbox_enter(struct tn_inbox *inbox)
{
    uint_fast64_t ticket = atomic_load_explicit(&inbox->ticket, memory_order_relaxed);

    while ((ticket & 1) == 0) {
        uint64_t next = ticket >> 1;
        atomic_uintptr_t *place = &inbox->places[next % TN_INBOX_PLACES];
        uint_fast64_t read = ticket;

        if (atomic_load_explicit(place, memory_order_relaxed) == vacant(next)) {
            if (atomic_compare_exchange_weak_explicit(&inbox->ticket, &ticket, ticket + 2,
                                                      memory_order_acquire, memory_order_relaxed))
                return place;
            continue;
        }
        ticket = atomic_load_explicit(&inbox->ticket, memory_order_relaxed);
        if (ticket == read)
            return NULL; /* else another thread has taken the place meanwhile */
    }
    return NULL;
}

void tn_inbox_put(atomic_uintptr_t *place, struct tn_block *block)
{
    atomic_store_explicit(place, block != NULL ? (uintptr_t)block : TN_INBOX_NOTHING,
                          memory_order_release);
}

struct tn_inbox *tn_inbox_make(void)
{
    struct tn_inbox *inbox = tn_records_take(&inbox_records);

    if (inbox == NULL)
        return NULL;
    /* Relaxed: no other thread knows the inbox yet. */
    for (uint64_t i = 0; i < TN_INBOX_PLACES; i++)
        atomic_store_explicit(&inbox->places[i], vacant(i), memory_order_relaxed);
    atomic_store_explicit(&inbox->ticket, 1, memory_order_relaxed);
    TN_ASSERT(tn_inbox_is_empty(inbox)); /* P22: and closed */
    return inbox;
}

void tn_inbox_drop(struct tn_inbox *inbox)
{
    tn_records_give(&inbox_records, inbox);
}

/* The value in the oldest place; acquires the releases of tn_inbox_put. */
static uintptr_t read_place(const struct tn_inbox *inbox)
{
    return atomic_load_explicit(&inbox->places[inbox->head % TN_INBOX_PLACES],
                                memory_order_acquire);
}

struct tn_block *tn_inbox_first(struct tn_inbox *inbox)
{
    uintptr_t value = read_place(inbox);

    while (value == TN_INBOX_NOTHING) {
        tn_inbox_take(inbox);
        value = read_place(inbox);
    }
    TN_ASSERT((value & 1) == 0 || value == vacant(inbox->head));
    return (value & 1) == 0 ? (struct tn_block *)value : NULL;
}

struct tn_block *tn_inbox_await(struct tn_inbox *inbox)
{
    struct tn_block *block = tn_inbox_first(inbox);

    TN_ASSERT(!tn_inbox_is_open(inbox));
    for (unsigned steps = 0; block == NULL && !tn_inbox_is_empty(inbox); steps++) {
        tn_spin_pause(steps);
        block = tn_inbox_first(inbox);
    }
    return block;
}

/* Relaxed: the next thread to take the place reads nothing written here. */
void tn_inbox_take(struct tn_inbox *inbox)
{
    TN_ASSERT((read_place(inbox) & 1) == 0);
    atomic_store_explicit(&inbox->places[inbox->head % TN_INBOX_PLACES],
                          vacant(inbox->head + TN_INBOX_PLACES), memory_order_relaxed);
    inbox->head += 1;
}

/* Relaxed: the ticket of a closed inbox does not change. */
bool tn_inbox_is_empty(const struct tn_inbox *inbox)
{
    TN_ASSERT(!tn_inbox_is_open(inbox));
    return atomic_load_explicit(&inbox->ticket, memory_order_relaxed) >> 1 == inbox->head;
}

/* Releases all writes made while the pool was locked; tn_inbox_enter acquires them. */
void tn_inbox_open(struct tn_inbox *inbox)
{
    uint_fast64_t ticket = atomic_load_explicit(&inbox->ticket, memory_order_relaxed);

    TN_ASSERT((ticket & 1) != 0 && tn_inbox_is_empty(inbox)); /* P22 */
    atomic_store_explicit(&inbox->ticket, ticket - 1, memory_order_release);
}

/* Relaxed: the values in the places release the work of the threads which took them. */
void tn_inbox_close(struct tn_inbox *inbox)
{
    (void)atomic_fetch_or_explicit(&inbox->ticket, 1, memory_order_relaxed);
}

bool tn_inbox_is_open(const struct tn_inbox *inbox)
{
    return (atomic_load_explicit(&inbox->ticket, memory_order_relaxed) & 1) == 0;
}
