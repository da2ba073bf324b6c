// SPDX-License-Identifier: Apache-2.0
/* Recorded traces of real programs (docs/traces.md), replayed by Tarn and by the driver's allocator: the
 * time of an event, and the memory taken.
 *
 * A replay allocates the blocks that lived before the recording, plays its events, which is what is timed, and
 * frees what is live at the end. The first one comes to an empty pool: it is reported apart, and the
 * peaks are those after it. Then Tarn and the rival replay by turns, each on the memory that it has
 * kept. What the recorded allocator itself had taken stands in the file.
 *
 * A use on another stream is tarn_record_stream here. The rival has no such call: what a program
 * does in its place is done when the block is freed, an event of the other stream that the block's
 * own stream waits for. No kernel runs, so such waits are over at once for both.
 *
 * As in the row of random traces, the simulated driver's allocator is a rival in quick runs alone. */
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"
#include "harness.h"
#include "report.h"
#include "rows.h"

enum {
    SAMPLES = 31,
    REQUESTED_PARTS = 3, /* of the free memory: Tarn's, the rival's, and what both take over */
};

struct player;

struct contender {
    const char *rival; /* NULL: Tarn */
    void (*open)(struct player *player);
    void *(*allocate)(struct player *player, const struct bench_trace_event *event);
    void (*free)(struct player *player, const struct bench_trace_event *event);
    void (*use)(struct player *player, const struct bench_trace_event *event);
    void (*get_peaks)(struct player *player, uint64_t *reserved, uint64_t *allocated);
    void (*close)(struct player *player);
};

/* Somebody who replays a trace. */
struct player {
    const struct bench *bench;
    const struct contender *contender;
    const struct bench_trace *trace;
    tarn_pool *pool;    /* Tarn's */
    tn_cu_event passed; /* the rival's, recorded anew for each use */
    tarn_stream streams[BENCH_TRACE_STREAMS_MAX];
    void **blocks; /* by slot; NULL: empty */
    uint64_t
        *use_streams; /* by slot, the rival's: a bit for each stream that the block is used on */
};

/* ---- Tarn ---------------------------------------------------------------------------------- */

static void open_tarn(struct player *player)
{
    BENCH_OK(tarn_pool_create(player->bench->device, NULL, &player->pool));
}

static void *allocate_tarn(struct player *player, const struct bench_trace_event *event)
{
    void *address = NULL;

    BENCH_OK(tarn_alloc(player->pool, event->bytes, 0, player->streams[event->stream], &address));
    return address;
}

static void free_tarn(struct player *player, const struct bench_trace_event *event)
{
    BENCH_OK(tarn_free(player->blocks[event->slot]));
}

static void use_tarn(struct player *player, const struct bench_trace_event *event)
{
    BENCH_OK(tarn_record_stream(player->blocks[event->slot], player->streams[event->stream]));
}

static void get_peaks_tarn(struct player *player, uint64_t *reserved, uint64_t *allocated)
{
    tarn_pool_stats stats = {.size = sizeof stats};

    BENCH_OK(tarn_pool_get_stats(player->pool, &stats));
    *reserved = stats.mapped_peak_bytes;
    *allocated = stats.live_peak_bytes;
}

static void close_tarn(struct player *player)
{
    for (size_t i = 0; i < player->trace->stream_count; i++)
        BENCH_OK(tarn_stream_retire(player->bench->device, player->streams[i]));
    BENCH_OK(tarn_pool_destroy(player->pool));
}

/* ---- the driver's allocator ---------------------------------------------------------------- */

/* What earlier rows left in the driver's pool goes, and its peaks begin anew. */
static void open_driver(struct player *player)
{
    uint64_t zero = 0;

    BENCH_CU(cu.cuMemPoolTrimTo(cu.rival_pool, 0));
    BENCH_CU(cu.cuMemPoolSetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_RESERVED_HIGH, &zero));
    BENCH_CU(cu.cuMemPoolSetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_USED_HIGH, &zero));
    BENCH_CU(cu.cuEventCreate(&player->passed, TN_CU_EVENT_DISABLE_TIMING));
}

static void *allocate_driver(struct player *player, const struct bench_trace_event *event)
{
    tn_cu_deviceptr address = 0;

    BENCH_CU(cu.cuMemAllocFromPoolAsync(&address, event->bytes, cu.rival_pool,
                                        player->streams[event->stream]));
    return (void *)(uintptr_t)address;
}

static void wait_for_uses(struct player *player, const struct bench_trace_event *event)
{
    uint64_t uses = player->use_streams[event->slot];

    player->use_streams[event->slot] = 0;
    for (size_t i = 0; i < player->trace->stream_count; i++) {
        if ((uses >> i & 1) == 0)
            continue;
        BENCH_CU(cu.cuEventRecord(player->passed, player->streams[i]));
        BENCH_CU(cu.cuStreamWaitEvent(player->streams[event->stream], player->passed, 0));
    }
}

static void free_driver(struct player *player, const struct bench_trace_event *event)
{
    if (player->use_streams[event->slot] != 0)
        wait_for_uses(player, event);
    BENCH_CU(cu.cuMemFreeAsync((tn_cu_deviceptr)(uintptr_t)player->blocks[event->slot],
                               player->streams[event->stream]));
}

static void use_driver(struct player *player, const struct bench_trace_event *event)
{
    player->use_streams[event->slot] |= UINT64_C(1) << event->stream;
}

static void get_peaks_driver(struct player *player, uint64_t *reserved, uint64_t *allocated)
{
    (void)player;
    BENCH_CU(cu.cuMemPoolGetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_RESERVED_HIGH, reserved));
    BENCH_CU(cu.cuMemPoolGetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_USED_HIGH, allocated));
}

static void close_driver(struct player *player)
{
    BENCH_CU(cu.cuEventDestroy(player->passed));
    BENCH_CU(cu.cuMemPoolTrimTo(cu.rival_pool, 0));
}

static const struct contender tarn = {.rival = NULL,
                                      .open = open_tarn,
                                      .allocate = allocate_tarn,
                                      .free = free_tarn,
                                      .use = use_tarn,
                                      .get_peaks = get_peaks_tarn,
                                      .close = close_tarn};
static const struct contender driver = {.rival = "cuMemAllocFromPoolAsync",
                                        .open = open_driver,
                                        .allocate = allocate_driver,
                                        .free = free_driver,
                                        .use = use_driver,
                                        .get_peaks = get_peaks_driver,
                                        .close = close_driver};

/* ---- a replay ------------------------------------------------------------------------------ */

static void play(struct player *player, size_t from, size_t to)
{
    const struct contender *contender = player->contender;

    for (size_t i = from; i < to; i++) {
        const struct bench_trace_event *event = &player->trace->events[i];

        switch (event->kind) {
        case BENCH_TRACE_ALLOCATE:
            player->blocks[event->slot] = contender->allocate(player, event);
            break;
        case BENCH_TRACE_FREE:
            contender->free(player, event);
            player->blocks[event->slot] = NULL;
            break;
        default:
            contender->use(player, event);
        }
    }
}

static void drain(const struct player *player)
{
    for (size_t i = 0; i < player->trace->stream_count; i++)
        bench_stream_drain(player->streams[i]);
}

/* The blocks that lived already. */
static void prepare(void *context)
{
    struct player *player = context;

    play(player, 0, player->trace->begin);
    drain(player);
}

static void replay(void *context, size_t iterations)
{
    struct player *player = context;

    (void)iterations;
    play(player, player->trace->begin, player->trace->event_count);
}

/* Frees what is live at the end, each block on its own stream. */
static void finish(void *context)
{
    struct player *player = context;
    const struct bench_trace *trace = player->trace;

    for (size_t i = trace->event_count; i > 0; i--) {
        struct bench_trace_event event = trace->events[i - 1];

        if (event.kind != BENCH_TRACE_ALLOCATE || player->blocks[event.slot] == NULL)
            continue;
        player->contender->free(player, &event);
        player->blocks[event.slot] = NULL;
    }
    drain(player);
}

static void open_player(struct player *player)
{
    size_t slots = player->trace->slot_count;

    for (size_t i = 0; i < player->trace->stream_count; i++)
        player->streams[i] = bench_stream_create();
    player->blocks = calloc(slots, sizeof *player->blocks);
    player->use_streams = calloc(slots, sizeof *player->use_streams);
    if (player->blocks == NULL || player->use_streams == NULL)
        bench_fail("no host memory");
    player->contender->open(player);
}

static void close_player(struct player *player)
{
    player->contender->close(player);
    for (size_t i = 0; i < player->trace->stream_count; i++)
        bench_stream_destroy(player->streams[i]);
    free(player->blocks);
    free(player->use_streams);
}

/* ---- the row ------------------------------------------------------------------------------- */

static size_t timed_events(const struct bench_trace *trace)
{
    return trace->event_count - trace->begin;
}

static void report(const struct bench_trace *trace, const char *what, const char *rival,
                   const char *unit, struct bench_summary summary)
{
    char variant[64];

    (void)snprintf(variant, sizeof variant, "%s: %s", trace->name, what);
    bench_report("recorded", variant, rival, unit, summary);
}

static void report_ratio(const struct bench_trace *trace, const char *what, const char *rival,
                         uint64_t above, uint64_t below)
{
    double value = (double)above / (double)below;

    report(trace, what, rival, "", (struct bench_summary){value, value, value, 1});
}

static void replay_first(struct player *player)
{
    const struct bench_trace *trace = player->trace;
    const char *rival = player->contender->rival;
    uint64_t reserved;
    uint64_t allocated;
    uint64_t begin;
    double each;

    prepare(player);
    begin = bench_now();
    replay(player, 1);
    each = (double)(bench_now() - begin) / (double)timed_events(trace);
    player->contender->get_peaks(player, &reserved, &allocated);
    finish(player);
    report(trace, "event of the first replay", rival, "ns",
           (struct bench_summary){each, each, each, 1});
    report_ratio(trace, "reserved over allocated", rival, reserved, allocated);
    report_ratio(trace, "reserved over requested", rival, reserved, trace->live_peak_bytes);
}

static void report_later(struct player *player, const struct bench_series *series)
{
    const struct bench_trace *trace = player->trace;
    const char *rival = player->contender->rival;
    uint64_t reserved;
    uint64_t allocated;

    report(trace, "event", rival, "ns",
           bench_scaled(bench_summarize(series), 1.0 / (double)timed_events(trace)));
    player->contender->get_peaks(player, &reserved, &allocated);
    report_ratio(trace, "reserved over requested, later", rival, reserved, trace->live_peak_bytes);
}

static void check_room(const struct bench_trace *trace)
{
    size_t free_bytes;
    size_t total_bytes;

    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &total_bytes));
    if (free_bytes / REQUESTED_PARTS < trace->live_peak_bytes)
        bench_fail("trace %s has %zu MiB live, and needs three times as many; %zu MiB are free",
                   trace->name, (size_t)(trace->live_peak_bytes >> 20), free_bytes >> 20);
}

static void compare(const struct bench *bench, const struct bench_trace *trace)
{
    struct player players[] = {{.bench = bench, .contender = &tarn, .trace = trace},
                               {.bench = bench, .contender = &driver, .trace = trace}};
    struct bench_case cases[] = {{prepare, replay, finish, &players[0], 1},
                                 {prepare, replay, finish, &players[1], 1}};
    size_t count = cu.rival_pool != NULL && (bench->quick || !cu.simulated) ? 2 : 1;
    struct bench_plan plan = bench_plan_for(bench->quick, SAMPLES);
    struct bench_series series[2];

    check_room(trace);
    for (size_t i = 0; i < count; i++) {
        open_player(&players[i]);
        replay_first(&players[i]);
    }
    if (cu.rival_pool == NULL)
        bench_report_absent("recorded", trace->name, driver.rival);
    if (trace->recorded_allocated_peak_bytes != 0)
        report_ratio(trace, "reserved over allocated", "as recorded",
                     trace->recorded_reserved_peak_bytes, trace->recorded_allocated_peak_bytes);
    bench_measure(&plan, cases, count, series);
    for (size_t i = 0; i < count; i++) {
        report_later(&players[i], &series[i]);
        close_player(&players[i]);
    }
}

void bench_row_recorded(const struct bench *bench)
{
    if (bench->trace_count == 0)
        (void)puts("recorded    not measured: no trace was given (--trace FILE)");
    for (size_t i = 0; i < bench->trace_count; i++)
        compare(bench, &bench->traces[i]);
}
