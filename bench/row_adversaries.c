// SPDX-License-Identifier: Apache-2.0
/* Worst cases of memory (adversaries.h), replayed like recorded traces. The peak is that of --peak,
 * or else 2 GiB, and is halved until the device has room. The names say the peak. */
#include "adversaries.h"
#include "rows.h"
#include "trace_contenders.h"

static size_t choose_peak_mib(const struct bench *bench)
{
    size_t peak_mib = bench->quick ? BENCH_ADVERSARY_PEAK_QUICK_MIB : BENCH_ADVERSARY_PEAK_MIB;
    uint64_t room_mib = trace_contenders_room() >> 20;

    if (bench->peak_mib != 0)
        peak_mib = bench->peak_mib;
    while (peak_mib > room_mib && peak_mib / 2 >= BENCH_ADVERSARY_PEAK_MIN_MIB)
        peak_mib /= 2;
    return peak_mib;
}

void bench_row_adversaries(const struct bench *bench)
{
    size_t peak_mib = choose_peak_mib(bench);

    for (size_t i = 0; i < bench_adversary_count; i++) {
        struct bench_trace trace;

        bench_adversary_create(&bench_adversaries[i], peak_mib, bench->seed, &trace);
        trace_contenders_compare(bench, "adversaries", &trace);
        bench_trace_destroy(&trace);
    }
}
