// SPDX-License-Identifier: Apache-2.0
/* check.h -- the checker of programs: reports mistakes that a real driver would not.
 *
 * The checker is off unless TARN_SIM_CHECK is set. It reports each mistake of a program (report.h),
 * and changes no answer.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_CHECK_H
#define TARN_SIM_CHECK_H

#include "sim/core/core.h"

struct tn_sim_op;

/* Looks at an operation about to run. The operation may read only written memory, and its writes
 * count from now on. Accesses at one address must be ordered with accesses at another address of
 * the same memory. */
void tn_sim_check_op(struct tn_sim_op *op);

/* Looks at the write of a word, whose time has come: the write counts, and whoever waits for the
 * word may learn of everything before it. */
void tn_sim_check_word(struct tn_sim_op *op, uintptr_t address, size_t bytes);

/* Notes that the present work has waited for a word: what follows in its stream comes after all
 * that words and host functions have told. */
void tn_sim_check_heard(void);

#endif
