// SPDX-License-Identifier: Apache-2.0
/* check.h -- the checker of programs: tells what a real driver would not.
 *
 * It is off unless TARN_SIM_CHECK is set; then each wrong thing that a program does is a line on
 * stderr, "tarn_sim: <function>: <what>: <where>", and counted. It changes no answer.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_CHECK_H
#define TARN_SIM_CHECK_H

#include "sim/core.h"

struct tn_sim_extent;
struct tn_sim_op;
struct tn_sim_store;

/* Reports what the present call does; with two, what is done in the name of some call. Nothing
 * happens unless the checker is on. */
void tn_sim_check_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tn_sim_check_report_of(enum tn_sim_function function, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Notes that memory has been taken: nothing is written there yet. */
void tn_sim_check_fresh(const struct tn_sim_store *store, const struct tn_sim_extent *extent);

/* Looks at an operation that is about to run: what it reads must have been written, and what it
 * writes is; and what it touches at one address must be ordered with what touched it at another. */
void tn_sim_check_op(struct tn_sim_op *op);

#endif
