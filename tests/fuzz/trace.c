// SPDX-License-Identifier: Apache-2.0
/* Bytes either are no trace, with a sentence that says why; or they are one that a player may play without
 * a check. A sum over the bytes is among them, which no chance finds: where an input has 0 there, the
 * right one is put in. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "trace_file.h"

enum { SUM_AT = 12, SUMMED_FROM = 16 };

const char *const fuzz_name = "trace";

void fuzz_begin(void)
{
}

/* The CRC-32 of zlib. */
static uint32_t sum_of(const uint8_t *bytes, size_t size)
{
    uint32_t sum = UINT32_MAX;

    for (size_t i = SUMMED_FROM; i < size; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ ((sum & 1) != 0 ? UINT32_C(0xedb88320) : 0);
    }
    return ~sum;
}

static void put_sum(uint8_t *bytes, size_t size)
{
    uint32_t sum;

    if (size < SUMMED_FROM)
        return;
    memcpy(&sum, bytes + SUM_AT, sizeof sum);
    if (sum == 0)
        sum = sum_of(bytes, size);
    memcpy(bytes + SUM_AT, &sum, sizeof sum);
}

static void expect_texts(const struct bench_trace *trace)
{
    FUZZ_EXPECT(memchr(trace->name, '\0', sizeof trace->name) != NULL && trace->name[0] != '\0');
    FUZZ_EXPECT(memchr(trace->source, '\0', sizeof trace->source) != NULL);
    FUZZ_EXPECT(memchr(trace->device, '\0', sizeof trace->device) != NULL);
}

/* What a player does: fills slots that are empty, and empties full ones. */
static void play(const struct bench_trace *trace)
{
    uint64_t *held = calloc(trace->slot_count + 1, sizeof *held);
    uint64_t live = 0;
    uint64_t peak = 0;

    if (held == NULL)
        return;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct bench_trace_event *event = &trace->events[i];

        FUZZ_EXPECT(event->slot < trace->slot_count && event->stream < trace->stream_count);
        FUZZ_EXPECT(event->thread < trace->thread_count);
        FUZZ_EXPECT((held[event->slot] == 0) == (event->kind == BENCH_TRACE_ALLOCATE));
        FUZZ_EXPECT((event->bytes > 0) == (event->kind == BENCH_TRACE_ALLOCATE));
        live += event->bytes;
        peak = live > peak ? live : peak;
        if (event->kind == BENCH_TRACE_FREE)
            live -= held[event->slot];
        if (event->kind != BENCH_TRACE_USE)
            held[event->slot] = event->bytes;
        FUZZ_EXPECT(i >= trace->begin || event->kind == BENCH_TRACE_ALLOCATE);
    }
    FUZZ_EXPECT(peak == trace->live_peak_bytes);
    free(held);
}

static void expect_good(const struct bench_trace *trace)
{
    expect_texts(trace);
    FUZZ_EXPECT(trace->stream_count >= 1 && trace->stream_count <= BENCH_TRACE_STREAMS_MAX);
    FUZZ_EXPECT(trace->thread_count >= 1 && trace->thread_count <= BENCH_TRACE_THREADS_MAX);
    FUZZ_EXPECT(trace->begin < trace->event_count);
    for (size_t i = 0; i < trace->step_count; i++) {
        FUZZ_EXPECT(trace->steps[i] >= trace->begin && trace->steps[i] <= trace->event_count);
        FUZZ_EXPECT(i == 0 || trace->steps[i] >= trace->steps[i - 1]);
    }
    play(trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *own = malloc(size + 1 - (size > 0)); /* its own, so that a step beside it is seen */
    struct bench_trace untouched;
    struct bench_trace trace;
    char error[BENCH_TRACE_ERROR_BYTES] = "";

    if (own == NULL)
        return 0;
    if (size > 0)
        memcpy(own, bytes, size);
    put_sum(own, size);
    memset(&untouched, 0x5a, sizeof untouched);
    trace = untouched;
    if (bench_trace_parse(own, size, &trace, error)) {
        expect_good(&trace);
        bench_trace_destroy(&trace);
    } else {
        FUZZ_EXPECT(error[0] != '\0' && strlen(error) < sizeof error - 1);
        FUZZ_EXPECT(memcmp(&trace, &untouched, sizeof trace) == 0);
    }
    free(own);
    return 0;
}
