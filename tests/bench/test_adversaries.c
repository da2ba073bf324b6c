// SPDX-License-Identifier: Apache-2.0
/* The makers of worst cases: a trace may be replayed without a check, as a trace that was read may;
 * its bound is right; peak and seed decide it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "adversaries.h"
#include "support/cuda.h"

enum { PEAK_MIB = 64 };

static const size_t peaks_mib[] = {BENCH_ADVERSARY_PEAK_MIN_MIB, PEAK_MIB, 1000};

/* Plays the sizes alone; returns the most bytes live. */
static uint64_t follow(const struct bench_trace *trace)
{
    struct bench_trace_event *held = calloc(trace->slot_count, sizeof *held);
    uint64_t live_bytes = 0;
    uint64_t peak_bytes = 0;

    ck_assert_ptr_nonnull(held);
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct bench_trace_event *event = &trace->events[i];

        ck_assert_uint_lt(event->slot, trace->slot_count);
        ck_assert_uint_lt(event->stream, trace->stream_count);
        if (event->kind == BENCH_TRACE_ALLOCATE) {
            ck_assert_uint_eq(held[event->slot].bytes, 0);
            ck_assert_uint_gt(event->bytes, 0);
            held[event->slot] = *event;
            live_bytes += event->bytes;
        } else {
            ck_assert_int_eq(event->kind, BENCH_TRACE_FREE);
            ck_assert_uint_gt(held[event->slot].bytes, 0);
            ck_assert_uint_eq(held[event->slot].stream, event->stream);
            live_bytes -= held[event->slot].bytes;
            held[event->slot].bytes = 0;
        }
        peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
    }
    free(held);
    return peak_bytes;
}

static bool same(const struct bench_trace *a, const struct bench_trace *b)
{
    if (a->event_count != b->event_count)
        return false;
    for (size_t i = 0; i < a->event_count; i++) {
        const struct bench_trace_event *one = &a->events[i];
        const struct bench_trace_event *other = &b->events[i];

        if (one->bytes != other->bytes || one->slot != other->slot || one->kind != other->kind)
            return false;
    }
    return true;
}

GROUP(adversaries, NULL)

TEST_LOOP(adversaries, a_trace_can_be_replayed_and_reaches_its_peak, 0, (int)bench_adversary_count)
{
    for (size_t i = 0; i < sizeof peaks_mib / sizeof peaks_mib[0]; i++) {
        uint64_t asked_bytes = (uint64_t)peaks_mib[i] << 20;
        struct bench_trace trace;

        bench_adversary_create(&bench_adversaries[_i], peaks_mib[i], 1, &trace);
        ck_assert_uint_eq(follow(&trace), trace.live_peak_bytes);
        ck_assert_uint_le(trace.live_peak_bytes, asked_bytes);
        ck_assert_uint_ge(trace.live_peak_bytes, asked_bytes / 16 * 15);
        ck_assert_uint_gt(trace.stream_count, 0);
        ck_assert_uint_eq(trace.thread_count, 1);
        ck_assert_uint_eq(trace.begin, 0);
        bench_trace_destroy(&trace);
    }
}

TEST_LOOP(adversaries, a_seed_gives_one_trace_and_another_seed_another, 0,
          (int)bench_adversary_count)
{
    struct bench_trace traces[3];

    for (size_t i = 0; i < 3; i++)
        bench_adversary_create(&bench_adversaries[_i], PEAK_MIB, i == 2 ? 7 : 1, &traces[i]);
    ck_assert(same(&traces[0], &traces[1]));
    ck_assert(!same(&traces[0], &traces[2]));
    for (size_t i = 0; i < 3; i++)
        bench_trace_destroy(&traces[i]);
}

TEST(adversaries, a_name_says_the_peak_and_any_seed_but_the_first)
{
    struct bench_trace trace;

    bench_adversary_create(&bench_adversaries[0], PEAK_MIB, 1, &trace);
    ck_assert_str_eq(trace.name, "comb 64 MiB");
    bench_trace_destroy(&trace);
    bench_adversary_create(&bench_adversaries[0], PEAK_MIB, 7, &trace);
    ck_assert_str_eq(trace.name, "comb 64 MiB seed 7");
    bench_trace_destroy(&trace);
    for (size_t i = 0; i < bench_adversary_count; i++)
        ck_assert_uint_le(strlen(bench_adversaries[i].name), 12);
}
