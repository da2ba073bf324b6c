// SPDX-License-Identifier: Apache-2.0
/* fork.h -- whether the process is a child of one that used CUDA.
 *
 * No driver survives fork(), and the child has a single thread. Work of the parent's other threads
 * stays half done in the child, with their locks taken. A child therefore takes no lock and looks
 * at nothing but this flag. The flag is set before fork() returns in the child.
 *
 * Locking: none; any thread. */
#ifndef TARN_BASE_FORK_H
#define TARN_BASE_FORK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/hot.h"
#include "tarn/status.h"

extern atomic_bool tn_fork_flag; /* written by fork.c alone */

static inline bool tn_is_forked(void)
{
    return TN_UNLIKELY(atomic_load_explicit(&tn_fork_flag, memory_order_relaxed));
}

/* FORKED, with its sentence. */
TN_RARE tarn_status tn_fork_refuse(void);

/* A fork between stake and unstake makes the child a fork of a process that used CUDA. Once the
 * driver is used for good, tn_fork_unstake is never called. */
void tn_fork_stake(void);
void tn_fork_unstake(void);

/* Has the function called in such a child before fork() returns there. The function may write
 * atomic variables, and call what a signal handler may. May be called any number of times, with a few functions in
 * all. */
void tn_fork_tell(void (*act)(void));

#endif
