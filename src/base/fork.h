// SPDX-License-Identifier: Apache-2.0
/* fork.h -- whether the process is a child of one that used CUDA.
 *
 * No driver survives fork(), and the child has one thread alone: what the parent's other threads were at stays half
 * done there, with its locks. So a child takes no lock and looks at nothing but the flag here. The flag is set before
 * fork() returns in the child.
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

/* A fork between these two makes the child one of a process that used CUDA. Where the driver is used for good the
 * second is left out. */
void tn_fork_stake(void);
void tn_fork_unstake(void);

/* Has the function called in such a child before fork() returns there: it may write what is atomic, and nothing else.
 * Any number of times; a few functions in all. */
void tn_fork_tell(void (*act)(void));

#endif
