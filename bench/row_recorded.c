// SPDX-License-Identifier: Apache-2.0
/* Recorded traces of real programs (docs/traces.md), replayed by Tarn and by the driver's
 * allocator. What the recorded allocator itself had taken stands in the file. */
#include <stdio.h>

#include "base.h"
#include "rows.h"
#include "trace_contenders.h"

static void check_room(const struct bench_trace *trace)
{
    uint64_t room = trace_contenders_room();

    if (room < trace->live_peak_bytes)
        bench_fail("trace %s has %zu MiB live at most; there is memory for one of %zu MiB",
                   trace->name, (size_t)(trace->live_peak_bytes >> 20), (size_t)(room >> 20));
}

void bench_row_recorded(const struct bench *bench)
{
    if (bench->trace_count == 0)
        (void)puts("recorded       not measured: no trace was given (--trace FILE)");
    for (size_t i = 0; i < bench->trace_count; i++) {
        check_room(&bench->traces[i]);
        trace_contenders_compare(bench, "recorded", &bench->traces[i]);
    }
}
