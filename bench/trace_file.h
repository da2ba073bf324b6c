// SPDX-License-Identifier: Apache-2.0
/* trace_file.h -- reads recorded traces of allocations (docs/traces.md).
 *
 * Files come from elsewhere, so nothing in them is believed: a trace that was read is one that can
 * be replayed without a check. Its blocks have got slots: an allocation fills a slot that is empty,
 * a free empties it, and there are only as many as blocks are ever live together, so that a player's
 * table of addresses stays small.
 *
 * Functions may be called from any thread. They depend on nothing but the C library, so that rivals'
 * players and the tests can have them. */
#ifndef TARN_BENCH_TRACE_FILE_H
#define TARN_BENCH_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    BENCH_TRACE_STREAMS_MAX = 64,
    BENCH_TRACE_THREADS_MAX = 64,
    BENCH_TRACE_NAME_BYTES = 32, /* with the 0 at the end */
    BENCH_TRACE_TEXT_BYTES = 64,
    BENCH_TRACE_ERROR_BYTES = 160,
};

enum bench_trace_kind { BENCH_TRACE_ALLOCATE, BENCH_TRACE_FREE, BENCH_TRACE_USE };

struct bench_trace_event {
    uint64_t bytes; /* of an allocation; else 0 */
    uint32_t slot;
    uint8_t kind;   /* enum bench_trace_kind */
    uint8_t stream; /* of an allocation and of a free: the block's own; of a use: the other one */
    uint8_t thread; /* the caller's; 0 in a file of version 1 */
};

struct bench_trace {
    char name[BENCH_TRACE_NAME_BYTES];
    char source[BENCH_TRACE_TEXT_BYTES]; /* the program and the allocator that were recorded */
    char device[BENCH_TRACE_TEXT_BYTES];
    uint64_t live_peak_bytes; /* as requested, at any time */
    uint64_t recorded_reserved_peak_bytes;
    uint64_t recorded_allocated_peak_bytes; /* 0, like the former: not known */
    size_t stream_count;
    size_t thread_count; /* 1 for a file of version 1, which names no threads */
    size_t slot_count;
    size_t event_count;
    size_t begin; /* the first event of the recording: before it are blocks that lived already */
    struct bench_trace_event *events;
    size_t step_count;
    size_t *steps; /* the first event of each step, rising */
};

/* Reads a whole file. False when there is no such trace: error then has a sentence that says why,
 * and trace is untouched. */
bool bench_trace_load(const char *path, struct bench_trace *trace,
                      char error[BENCH_TRACE_ERROR_BYTES]);

/* The same from bytes in memory, which are not needed afterwards. */
bool bench_trace_parse(const uint8_t *bytes, size_t count, struct bench_trace *trace,
                       char error[BENCH_TRACE_ERROR_BYTES]);

void bench_trace_destroy(struct bench_trace *trace);

#ifdef __cplusplus
}
#endif
#endif
