// SPDX-License-Identifier: Apache-2.0
/* barrier.h -- a fence of two sides, one of which costs nothing.
 *
 * Two threads that each write a word and then read the other's need a full fence in between, both of
 * them, or both may read what was there before (Dekker's mutual exclusion). Where one comes often and
 * the other hardly ever, the one leaves its fence to the other:
 *
 *     often:  store a; tn_barrier_light(); load b        hardly ever:  store b; tn_barrier_heavy(); load a
 *
 * One of the two at least reads what the other has stored, and a light side that comes after a heavy one
 * has ended reads it for sure. The words are atomic; no order need be asked of their accesses. Two light
 * sides do nothing for each other.
 *
 * Sources: D. Dice, H. Huang and M. Yang, Asymmetric Dekker synchronization (Sun Microsystems, 2001);
 * D. Goldblatt, Asymmetric fences (ISO C++ P1202); the Linux manual, membarrier(2).
 *
 * Locking: none; any thread, with any lock held. */
#ifndef TARN_BASE_BARRIER_H
#define TARN_BASE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/hot.h"

/* Whether the heavy side does the light one's part; written by barrier.c alone. */
extern atomic_bool tn_barrier_is_asymmetric;

/* Both sides write it where the light side has to do its part. */
extern atomic_uint tn_barrier_word;

/* Has the kernel know that the process will use the heavy side. The first time in a process it takes some
 * milliseconds; without it the light side is a full fence until the first heavy one. */
void tn_barrier_prepare(void);

/* Some microseconds, and as much on every processor that runs a thread of the process. */
void tn_barrier_heavy(void);

static inline void tn_barrier_light(void)
{
    if (TN_LIKELY(atomic_load_explicit(&tn_barrier_is_asymmetric, memory_order_relaxed)))
        atomic_signal_fence(memory_order_seq_cst);
    else
        (void)atomic_fetch_add(&tn_barrier_word, 0);
}

#endif
