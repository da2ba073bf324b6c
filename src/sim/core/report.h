// SPDX-License-Identifier: Apache-2.0
/* report.h -- tells of wrong programs, for whatever finds them.
 *
 * A report is a line on stderr, "tarn_sim: <function>: <what>: <where>", and counted.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_REPORT_H
#define TARN_SIM_REPORT_H

#include "sim/core/core.h"

/* Reports the present call's mistake; the second form reports in the name of the given call.
 * Without the checker nothing happens. */
void tn_sim_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tn_sim_report_of(enum tn_sim_function function, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
