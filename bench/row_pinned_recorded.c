// SPDX-License-Identifier: Apache-2.0
/* Recorded traces of page-locked memory (docs/traces.md), replayed by Tarn with a pool of the host and
 * by a pool of the driver's for the host. The requests were recorded above any cache: what their
 * programs asked for, and freed, and which streams copied from it or to it.
 *
 * Memory of the host belongs to no stream. A copy on a stream is tarn_record_stream here. The rival's
 * blocks are of a stream; the copying streams' events are waited for there when a block is freed. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "contenders.h"
#include "driver.h"
#include "host_pool.h"
#include "player.h"
#include "report.h"
#include "rows.h"

#define ROW "pinned_recorded"

enum { PARTS = 3 }; /* of the memory that is left: Tarn's, the rival's, and what both take over */

static void *create_stream(void)
{
    return bench_stream_create();
}

static void destroy_stream(void *stream)
{
    bench_stream_destroy(stream);
}

static void drain_stream(void *stream)
{
    bench_stream_drain(stream);
}

/* ---- Tarn ---------------------------------------------------------------------------------- */

struct of_tarn {
    tarn_device *device;
    tarn_pool *pool;
};

static void open_tarn(struct bench_player *player)
{
    struct of_tarn *own = player->context;
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

    options.location = TARN_LOCATION_HOST;
    BENCH_OK(tarn_pool_create(own->device, &options, &own->pool));
}

static void *allocate_tarn(struct bench_player *player, const struct bench_trace_event *event)
{
    const struct of_tarn *own = player->context;
    void *address = NULL;

    BENCH_OK(tarn_pool_malloc(own->pool, event->bytes, 0, NULL, &address));
    return address;
}

static void free_tarn(struct bench_player *player, const struct bench_trace_event *event)
{
    BENCH_OK(tarn_free(player->blocks[event->slot]));
}

static void use_tarn(struct bench_player *player, const struct bench_trace_event *event)
{
    BENCH_OK(tarn_record_stream(player->blocks[event->slot], player->streams[event->stream]));
}

static void get_peaks_tarn(struct bench_player *player, uint64_t *reserved, uint64_t *allocated)
{
    const struct of_tarn *own = player->context;

    contenders_get_pool_peaks(own->pool, reserved, allocated);
}

static void close_tarn(struct bench_player *player)
{
    const struct of_tarn *own = player->context;

    for (size_t i = 0; i < player->trace->stream_count; i++)
        BENCH_OK(tarn_stream_retire(own->device, player->streams[i]));
    BENCH_OK(tarn_pool_destroy(own->pool));
    BENCH_OK(tarn_device_trim(own->device, 0, NULL));
}

/* ---- the driver's pool ----------------------------------------------------------------------- */

struct of_driver {
    tn_cu_mempool pool;
    tn_cu_event passed;    /* recorded anew for each use */
    tarn_stream order;     /* of the blocks */
    uint64_t *use_streams; /* by slot: a bit for each stream that the block is used on */
};

static void open_driver(struct bench_player *player)
{
    struct of_driver *own = player->context;

    own->order = bench_stream_create();
    BENCH_CU(cu.cuEventCreate(&own->passed, TN_CU_EVENT_DISABLE_TIMING));
    own->use_streams = calloc(player->trace->slot_count, sizeof *own->use_streams);
    if (own->use_streams == NULL)
        bench_fail("no host memory");
}

static void *allocate_driver(struct bench_player *player, const struct bench_trace_event *event)
{
    const struct of_driver *own = player->context;
    tn_cu_deviceptr address = 0;

    BENCH_CU(cu.cuMemAllocFromPoolAsync(&address, event->bytes, own->pool, own->order));
    return (void *)(uintptr_t)address;
}

static void free_driver(struct bench_player *player, const struct bench_trace_event *event)
{
    struct of_driver *own = player->context;
    uint64_t uses = own->use_streams[event->slot];

    own->use_streams[event->slot] = 0;
    for (size_t i = 0; i < player->trace->stream_count; i++) {
        if ((uses >> i & 1) == 0)
            continue;
        BENCH_CU(cu.cuEventRecord(own->passed, player->streams[i]));
        BENCH_CU(cu.cuStreamWaitEvent(own->order, own->passed, 0));
    }
    BENCH_CU(
        cu.cuMemFreeAsync((tn_cu_deviceptr)(uintptr_t)player->blocks[event->slot], own->order));
}

static void use_driver(struct bench_player *player, const struct bench_trace_event *event)
{
    struct of_driver *own = player->context;

    own->use_streams[event->slot] |= UINT64_C(1) << event->stream;
}

static void get_peaks_driver(struct bench_player *player, uint64_t *reserved, uint64_t *allocated)
{
    const struct of_driver *own = player->context;

    bench_host_pool_get_peaks(own->pool, reserved, allocated);
}

static void close_driver(struct bench_player *player)
{
    struct of_driver *own = player->context;

    bench_stream_drain(own->order);
    BENCH_CU(cu.cuEventDestroy(own->passed));
    bench_stream_destroy(own->order);
    free(own->use_streams);
}

static const struct bench_allocator tarn = {
    .rival = NULL,
    .open = open_tarn,
    .stream_create = create_stream,
    .stream_destroy = destroy_stream,
    .stream_drain = drain_stream,
    .allocate = allocate_tarn,
    .free = free_tarn,
    .use = use_tarn,
    .get_peaks = get_peaks_tarn,
    .close = close_tarn,
};
static const struct bench_allocator driver = {
    .rival = BENCH_HOST_POOL,
    .open = open_driver,
    .stream_create = create_stream,
    .stream_destroy = destroy_stream,
    .stream_drain = drain_stream,
    .allocate = allocate_driver,
    .free = free_driver,
    .use = use_driver,
    .get_peaks = get_peaks_driver,
    .close = close_driver,
};

/* ---- the row --------------------------------------------------------------------------------- */

/* The simulator's memory is not touched, and takes none of the machine's. */
static void check_room(const struct bench_trace *trace)
{
    uint64_t room = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / PARTS;

    if (!cu.simulated && room < trace->live_peak_bytes)
        bench_fail("trace %s has %zu MiB live at most; there is host memory for one of %zu MiB",
                   trace->name, (size_t)(trace->live_peak_bytes >> 20), (size_t)(room >> 20));
}

static void compare(const struct bench *bench, const struct bench_trace *trace)
{
    struct of_tarn of_tarn = {.device = bench->device};
    struct of_driver of_driver = {.pool = NULL};
    struct bench_player players[] = {
        {.allocator = &tarn, .trace = trace, .row = ROW, .context = &of_tarn},
        {.allocator = &driver, .trace = trace, .row = ROW, .context = &of_driver}};
    bool rival_plays = bench_host_pool_create(&of_driver.pool);

    check_room(trace);
    bench_players_compare(players, rival_plays ? 2 : 1, bench->quick);
    if (rival_plays)
        bench_host_pool_destroy(of_driver.pool);
    else
        bench_report_absent(ROW, trace->name, driver.rival);
}

void bench_row_pinned_recorded(const struct bench *bench)
{
    if (bench->trace_count == 0)
        (void)puts("pinned_recorded not measured: no trace was given (--trace FILE)");
    for (size_t i = 0; i < bench->trace_count; i++)
        compare(bench, &bench->traces[i]);
}
