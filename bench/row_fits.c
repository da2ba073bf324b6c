// SPDX-License-Identifier: Apache-2.0
/* Fits on recorded traces, by the model of fits.h: nothing is allocated. */
#include <stdio.h>

#include "fits.h"
#include "harness.h"
#include "report.h"
#include "rows.h"

void bench_row_fits(const struct bench *bench)
{
    if (bench->trace_count == 0)
        (void)puts("fits           not measured: no trace was given (--trace FILE)");
    for (size_t i = 0; i < bench->trace_count; i++) {
        const struct bench_trace *trace = &bench->traces[i];

        for (size_t f = 0; f < bench_fit_count; f++) {
            struct bench_placement placement = bench_fit_place(&bench_fits[f], trace);
            char variant[sizeof(((struct bench_result *)NULL)->variant)];

            (void)snprintf(variant, sizeof variant, "%s: risen over requested", trace->name);
            bench_report(
                "fits", variant, bench_fits[f].name, "",
                bench_single((double)placement.peak_bytes / (double)trace->live_peak_bytes));
            (void)snprintf(variant, sizeof variant, "%s: free blocks", trace->name);
            bench_report("fits", variant, bench_fits[f].name, "", bench_single(placement.holes));
        }
    }
}
