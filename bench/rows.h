// SPDX-License-Identifier: Apache-2.0
/* rows.h -- the rows of the benchmark: each measures one kind of work, Tarn's beside a rival's
 * where there is one, and reports its results. */
#ifndef TARN_BENCH_ROWS_H
#define TARN_BENCH_ROWS_H

#include <stdbool.h>

#include "tarn/tarn.h"
#include "trace_file.h"

struct bench {
    tarn_device *device;
    const struct bench_trace *traces; /* those given, for the row of recorded ones */
    size_t trace_count;
    size_t peak_mib;     /* of adversaries; 0: as that row has it */
    uint64_t seed;       /* of adversaries */
    size_t life_seconds; /* of lives; 0: as that row has it */
    bool quick;          /* few samples, for a look or a test */
};

void bench_row_growth(const struct bench *bench);          /* row_growth.c */
void bench_row_capture(const struct bench *bench);         /* row_capture.c */
void bench_row_capture_cost(const struct bench *bench);    /* row_capture_cost.c, a part of it */
void bench_row_pair(const struct bench *bench);            /* row_pair.c, row_pair_threads.c */
void bench_row_fragmentation(const struct bench *bench);   /* row_fragmentation.c */
void bench_row_history(const struct bench *bench);         /* row_history.c */
void bench_part_history(const struct bench *bench);        /* its part in one process */
void bench_row_host(const struct bench *bench);            /* row_host.c */
void bench_row_producers(const struct bench *bench);       /* row_producers.c */
void bench_row_scaling(const struct bench *bench);         /* row_scaling.c */
void bench_row_live(const struct bench *bench);            /* row_live.c */
void bench_row_lives(const struct bench *bench);           /* row_lives.c */
void bench_row_trace(const struct bench *bench);           /* row_trace.c */
void bench_row_recorded(const struct bench *bench);        /* row_recorded.c */
void bench_row_adversaries(const struct bench *bench);     /* row_adversaries.c */
void bench_row_fits(const struct bench *bench);            /* row_fits.c */
void bench_row_audit(const struct bench *bench);           /* row_audit.c */
void bench_row_replay(const struct bench *bench);          /* row_replay.c */
void bench_part_replay(const struct bench *bench);         /* its part in one process */
void bench_row_checkpoint(const struct bench *bench);      /* row_checkpoint.c */
void bench_row_snapshot(const struct bench *bench);        /* row_snapshot.c */
void bench_part_snapshot(const struct bench *bench);       /* its part in one process */
void bench_row_pinned(const struct bench *bench);          /* row_pinned.c */
void bench_part_pinned(const struct bench *bench);         /* its part in one process */
void bench_row_contents(const struct bench *bench);        /* row_contents.c */
void bench_row_devices(const struct bench *bench);         /* row_devices.c */
void bench_row_pinned_recorded(const struct bench *bench); /* row_pinned_recorded.c */
void bench_row_share(const struct bench *bench);           /* row_programs.c */
void bench_row_symmetric(const struct bench *bench);       /* row_programs.c */
void bench_row_words(const struct bench *bench);           /* row_programs.c */

#endif
