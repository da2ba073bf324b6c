// SPDX-License-Identifier: Apache-2.0
#include "player.h"

#include <stdio.h>
#include <stdlib.h>

#include "report.h"

#define GIB (UINT64_C(1) << 30)

enum { SAMPLES = 31, PLAYERS_MAX = 2 };

/* ---- a replay ------------------------------------------------------------------------------ */

static void play(struct bench_player *player, size_t from, size_t to)
{
    const struct bench_allocator *allocator = player->allocator;

    for (size_t i = from; i < to; i++) {
        const struct bench_trace_event *event = &player->trace->events[i];

        switch (event->kind) {
        case BENCH_TRACE_ALLOCATE:
            player->blocks[event->slot] = allocator->allocate(player, event);
            break;
        case BENCH_TRACE_FREE:
            allocator->free(player, event);
            player->blocks[event->slot] = NULL;
            break;
        default:
            allocator->use(player, event);
        }
    }
}

static void drain(const struct bench_player *player)
{
    for (size_t i = 0; i < player->trace->stream_count; i++)
        player->allocator->stream_drain(player->streams[i]);
}

/* The blocks that lived already. */
static void prepare(void *context)
{
    struct bench_player *player = context;

    play(player, 0, player->trace->begin);
    drain(player);
}

static void replay(void *context, size_t iterations)
{
    struct bench_player *player = context;

    (void)iterations;
    play(player, player->trace->begin, player->trace->event_count);
}

/* Frees what is live at the end: the last allocation into each slot that is full. */
static void finish(void *context)
{
    struct bench_player *player = context;
    const struct bench_trace *trace = player->trace;

    for (size_t i = trace->event_count; i > 0; i--) {
        const struct bench_trace_event *event = &trace->events[i - 1];

        if (event->kind != BENCH_TRACE_ALLOCATE || player->blocks[event->slot] == NULL)
            continue;
        player->allocator->free(player, event);
        player->blocks[event->slot] = NULL;
    }
    drain(player);
}

static void open_player(struct bench_player *player)
{
    for (size_t i = 0; i < player->trace->stream_count; i++)
        player->streams[i] = player->allocator->stream_create();
    player->blocks = calloc(player->trace->slot_count, sizeof *player->blocks);
    if (player->blocks == NULL)
        bench_fail("no host memory");
    player->allocator->open(player);
}

static void close_player(struct bench_player *player)
{
    player->allocator->close(player);
    for (size_t i = 0; i < player->trace->stream_count; i++)
        player->allocator->stream_destroy(player->streams[i]);
    free(player->blocks);
}

/* ---- what is reported ---------------------------------------------------------------------- */

static size_t timed_events(const struct bench_trace *trace)
{
    return trace->event_count - trace->begin;
}

static void report(const struct bench_player *player, const char *what, const char *rival,
                   const char *unit, struct bench_summary summary)
{
    char variant[64];

    (void)snprintf(variant, sizeof variant, "%s: %s", player->trace->name, what);
    bench_report(player->row, variant, rival, unit, summary);
}

static void report_ratio(const struct bench_player *player, const char *what, const char *rival,
                         uint64_t above, uint64_t below)
{
    report(player, what, rival, "", bench_single((double)above / (double)below));
}

static void replay_first(struct bench_player *player)
{
    const struct bench_trace *trace = player->trace;
    const char *rival = player->allocator->rival;
    uint64_t reserved;
    uint64_t allocated;
    uint64_t begin;
    double each;

    prepare(player);
    begin = bench_now();
    replay(player, 1);
    each = (double)(bench_now() - begin) / (double)timed_events(trace);
    player->allocator->get_peaks(player, &reserved, &allocated);
    finish(player);
    report(player, "event, first replay", rival, "ns", bench_single(each));
    report_ratio(player, "reserved over allocated", rival, reserved, allocated);
    report_ratio(player, "reserved over requested", rival, reserved, trace->live_peak_bytes);
}

static void report_later(struct bench_player *player, const struct bench_series *series)
{
    const struct bench_trace *trace = player->trace;
    const char *rival = player->allocator->rival;
    uint64_t reserved;
    uint64_t allocated;

    report(player, "event", rival, "ns",
           bench_scaled(bench_summarize(series), 1.0 / (double)timed_events(trace)));
    player->allocator->get_peaks(player, &reserved, &allocated);
    report_ratio(player, "reserved over requested, later", rival, reserved, trace->live_peak_bytes);
}

void bench_players_compare(struct bench_player *players, size_t count, bool quick)
{
    const struct bench_trace *trace = players[0].trace;
    struct bench_plan plan = bench_plan_for(quick, SAMPLES);
    struct bench_case cases[PLAYERS_MAX];
    struct bench_series series[PLAYERS_MAX];

    if (count > PLAYERS_MAX)
        bench_fail("at most %d players replay together", PLAYERS_MAX);
    for (size_t i = 0; i < count; i++) {
        open_player(&players[i]);
        replay_first(&players[i]);
        cases[i] = (struct bench_case){prepare, replay, finish, &players[i], 1};
    }
    report_ratio(&players[0], "GiB requested at the peak", "as recorded", trace->live_peak_bytes,
                 GIB);
    if (trace->recorded_allocated_peak_bytes != 0)
        report_ratio(&players[0], "reserved over allocated", "as recorded",
                     trace->recorded_reserved_peak_bytes, trace->recorded_allocated_peak_bytes);
    bench_measure(&plan, cases, count, series);
    for (size_t i = 0; i < count; i++) {
        report_later(&players[i], &series[i]);
        close_player(&players[i]);
    }
}
