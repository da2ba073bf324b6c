// SPDX-License-Identifier: Apache-2.0
/* spin.h -- a lock for a few dozen instructions: one exchange to take it, one store to give it back.
 *
 * Who finds it taken looks again for as long as such a section lasts, and then sleeps between looks,
 * since the holder may have been put aside or be in a longer one. Zeroed memory is a free lock.
 *
 * Source: test and test-and-set, L. Rudolph and Z. Segall, Dynamic decentralized cache schemes for MIMD
 * parallel processors (ISCA 1984). */
#ifndef TARN_BASE_SPIN_H
#define TARN_BASE_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/contract.h"
#include "base/hot.h"

struct tn_spin {
    atomic_uint taken;
};

/* For who looks again until something has happened: passes some time, after so many looks. */
void tn_spin_pause(unsigned looks);

TN_RARE void tn_spin_wait(struct tn_spin *lock); /* until it is found free; for tn_spin_acquire */

static inline bool tn_spin_try(struct tn_spin *lock)
{
    return atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire) == 0;
}

static inline void tn_spin_acquire(struct tn_spin *lock)
{
    while (TN_UNLIKELY(!tn_spin_try(lock)))
        tn_spin_wait(lock);
}

/* For assertions: somebody has it. */
static inline bool tn_spin_is_taken(const struct tn_spin *lock)
{
    return atomic_load_explicit(&lock->taken, memory_order_relaxed) != 0;
}

static inline void tn_spin_release(struct tn_spin *lock)
{
    TN_ASSERT(tn_spin_is_taken(lock));
    atomic_store_explicit(&lock->taken, 0, memory_order_release);
}

#endif
