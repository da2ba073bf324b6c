// SPDX-License-Identifier: Apache-2.0
/* barrier.h -- a fence of two sides; the light side costs nothing.
 *
 * Two threads each write a word and then read the other's word. Both need a full fence in between,
 * or both may read the old values (Dekker's mutual exclusion). If one thread does this often and
 * the other rarely, the frequent thread leaves its fence to the rare thread:
 *
 *     often:  store a; tn_barrier_light(); load b        hardly ever:  store b; tn_barrier_heavy(); load a
 *
 * At least one of the two reads the other's store. A light side that begins after a heavy side has
 * ended always reads the heavy side's store. The words are atomic; no order need be asked of their
 * accesses. Two light sides do nothing for each other.
 *
 * Sources: D. Dice, H. Huang and M. Yang, Asymmetric Dekker synchronization (Sun Microsystems,
 * 2001); D. Goldblatt, Asymmetric fences (ISO C++ P1202); the Linux manual, membarrier(2).
 *
 * Locking: none; any thread, with any lock held. */
#ifndef TARN_BASE_BARRIER_H
#define TARN_BASE_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/hot.h"

/* Whether the heavy side does the light side's part; only barrier.c writes this word. */
extern atomic_bool tn_barrier_is_asymmetric;

/* Both sides write this word where the light side must do its part. */
extern atomic_uint tn_barrier_word;

/* Tells the kernel that the process will use the heavy side. The first call in a process takes some
 * milliseconds. Without this call, the light side is a full fence until the first heavy side. */
void tn_barrier_prepare(void);

/* Takes some microseconds, and as much on every processor that runs a thread of the process. */
void tn_barrier_heavy(void);

static inline void tn_barrier_light(void)
{
    if (TN_LIKELY(atomic_load_explicit(&tn_barrier_is_asymmetric, memory_order_relaxed)))
        atomic_signal_fence(memory_order_seq_cst);
    else
        (void)atomic_fetch_add(&tn_barrier_word, 0);
}

#endif
