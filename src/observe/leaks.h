// SPDX-License-Identifier: Apache-2.0
/* leaks.h -- which blocks are live, by the places in the program that allocated them.
 *
 * A place is a stack, or a pool and a size where blocks have no stack.
 *
 * Locking: none may be held, but where a function says so. */
#ifndef TARN_OBSERVE_LEAKS_H
#define TARN_OBSERVE_LEAKS_H

#include "observe/leaks_stacks.h"
#include "pools/device.h"
#include "tarn/leaks.h"

/* The live blocks of a pool, or of all pools where it is NULL, at one moment. NULL: no memory. */
tarn_leaks *tn_leaks_find(tarn_device *device, tarn_pool *pool);

/* How long a thread at work is waited for at the end of the process. */
#define TN_LEAKS_WAIT_NS UINT64_C(1000000000)

/* The same by the device's tables of live blocks, for the end of the process: waits for no pool,
 * and calls no driver. Other threads may go on, and what they do meanwhile may be missing. Graphs
 * and aborted captures are not looked at. The list of histories is locked (pools/histories.h).
 * NULL: no memory, or a thread has held the lock of the tables for a second. */
tarn_leaks *tn_leaks_find_in_tables(tarn_device *device);

void tn_leaks_drop(tarn_leaks *leaks); /* NULL is allowed */

/* As tn_pool_write_report (observe/report.h). */
size_t tn_leaks_write_report(const tarn_leaks *leaks, tarn_report_format format, char *buffer,
                             size_t capacity);

#endif
