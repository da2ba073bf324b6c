// SPDX-License-Identifier: Apache-2.0
/* trace_contenders.h -- Tarn and the driver's allocator replay a trace (player.h): the time of an
 * event, and the memory taken. */
#ifndef TARN_BENCH_TRACE_CONTENDERS_H
#define TARN_BENCH_TRACE_CONTENDERS_H

#include <stdint.h>

#include "rows.h"
#include "trace_file.h"

/* The most bytes that a trace may have live here. */
uint64_t trace_contenders_room(void);

/* Replays the trace on both, and reports under the row's name. */
void trace_contenders_compare(const struct bench *bench, const char *row,
                              const struct bench_trace *trace);

#endif
