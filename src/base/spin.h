// SPDX-License-Identifier: Apache-2.0
/* spin.h -- a lock for a few dozen instructions: an exchange takes the lock, a store gives it back.
 *
 * A thread that finds the lock taken looks again for as long as a short section lasts. Then the
 * thread lends the processor between looks, and sleeps in the end, for the holder may be suspended or
 * in a longer section. Zeroed memory is
 * a free lock.
 *
 * Source: test and test-and-set, L. Rudolph and Z. Segall, Dynamic decentralized cache schemes for
 * MIMD parallel processors (ISCA 1984). */
#ifndef TARN_BASE_SPIN_H
#define TARN_BASE_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/contract.h"
#include "base/hot.h"

struct tn_spin {
    atomic_uint taken;
};

/* Passes some time between two looks, for a thread that waits for an event by looking. looks: the
 * number of looks so far. */
TN_RARE void tn_spin_pause(unsigned looks);

static inline bool tn_spin_try(struct tn_spin *lock)
{
    return atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire) == 0;
}

/* Whether a thread holds the lock: for assertions and waiters. */
static inline bool tn_spin_is_taken(const struct tn_spin *lock)
{
    return atomic_load_explicit(&lock->taken, memory_order_relaxed) != 0;
}

static inline void tn_spin_acquire(struct tn_spin *lock)
{
    while (TN_UNLIKELY(!tn_spin_try(lock))) {
        for (unsigned looks = 0; tn_spin_is_taken(lock); looks++)
            tn_spin_pause(looks);
    }
}

/* The same, but waits no longer than that. False: not taken. */
bool tn_spin_acquire_for(struct tn_spin *lock, uint64_t wait_ns);

static inline void tn_spin_release(struct tn_spin *lock)
{
    TN_ASSERT(tn_spin_is_taken(lock));
    atomic_store_explicit(&lock->taken, 0, memory_order_release);
}

#endif
