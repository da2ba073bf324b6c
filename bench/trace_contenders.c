// SPDX-License-Identifier: Apache-2.0
/* A use on another stream is tarn_record_stream here. The rival has no such call. A program has an
 * event of the other stream in its place, which the block's own stream waits for when the block is
 * freed. No kernel runs, so these waits are over at once for both.
 *
 * As in the row of random traces, the simulated driver's allocator is a rival in quick runs
 * alone. */
#include "trace_contenders.h"

#include <stdlib.h>

#include "contenders.h"
#include "driver.h"
#include "harness.h"
#include "player.h"
#include "report.h"

enum { PARTS = 3 }; /* of the free memory: Tarn's, the rival's, and what both take over */

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

    BENCH_OK(tarn_pool_create(own->device, NULL, &own->pool));
}

static void *allocate_tarn(struct bench_player *player, const struct bench_trace_event *event)
{
    const struct of_tarn *own = player->context;
    void *address = NULL;

    BENCH_OK(
        tarn_pool_malloc(own->pool, event->bytes, 0, player->streams[event->stream], &address));
    return address;
}

/* A program of several streams names the block's own, and others get the memory sooner. */
static void free_tarn(struct bench_player *player, const struct bench_trace_event *event)
{
    void *block = player->blocks[event->slot];

    if (player->trace->stream_count == 1)
        BENCH_OK(tarn_free(block));
    else
        BENCH_OK(tarn_free_on(block, player->streams[event->stream]));
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
}

/* ---- the driver's allocator ---------------------------------------------------------------- */

struct of_driver {
    tn_cu_event passed;    /* recorded anew for each use */
    uint64_t *use_streams; /* by slot: a bit for each stream that the block is used on */
};

static void open_driver(struct bench_player *player)
{
    struct of_driver *own = player->context;

    bench_rival_empty();
    BENCH_CU(cu.cuEventCreate(&own->passed, TN_CU_EVENT_DISABLE_TIMING));
    own->use_streams = calloc(player->trace->slot_count, sizeof *own->use_streams);
    if (own->use_streams == NULL)
        bench_fail("no host memory");
}

static void *allocate_driver(struct bench_player *player, const struct bench_trace_event *event)
{
    tn_cu_deviceptr address = 0;

    BENCH_CU(cu.cuMemAllocFromPoolAsync(&address, event->bytes, cu.rival_pool,
                                        player->streams[event->stream]));
    return (void *)(uintptr_t)address;
}

static void wait_for_uses(struct bench_player *player, const struct bench_trace_event *event)
{
    struct of_driver *own = player->context;
    uint64_t uses = own->use_streams[event->slot];

    own->use_streams[event->slot] = 0;
    for (size_t i = 0; i < player->trace->stream_count; i++) {
        if ((uses >> i & 1) == 0)
            continue;
        BENCH_CU(cu.cuEventRecord(own->passed, player->streams[i]));
        BENCH_CU(cu.cuStreamWaitEvent(player->streams[event->stream], own->passed, 0));
    }
}

static void free_driver(struct bench_player *player, const struct bench_trace_event *event)
{
    const struct of_driver *own = player->context;

    if (own->use_streams[event->slot] != 0)
        wait_for_uses(player, event);
    BENCH_CU(cu.cuMemFreeAsync((tn_cu_deviceptr)(uintptr_t)player->blocks[event->slot],
                               player->streams[event->stream]));
}

static void use_driver(struct bench_player *player, const struct bench_trace_event *event)
{
    struct of_driver *own = player->context;

    own->use_streams[event->slot] |= UINT64_C(1) << event->stream;
}

static void get_peaks_driver(struct bench_player *player, uint64_t *reserved, uint64_t *allocated)
{
    (void)player;
    bench_rival_get_peaks(reserved, allocated);
}

static void close_driver(struct bench_player *player)
{
    struct of_driver *own = player->context;

    BENCH_CU(cu.cuEventDestroy(own->passed));
    bench_rival_empty();
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
    .rival = "cuMemAllocFromPoolAsync",
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

/* ---- both ---------------------------------------------------------------------------------- */

uint64_t trace_contenders_room(void)
{
    size_t free_bytes;
    size_t total_bytes;

    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &total_bytes));
    return free_bytes / PARTS;
}

void trace_contenders_compare(const struct bench *bench, const char *row,
                              const struct bench_trace *trace)
{
    struct of_tarn of_tarn = {.device = bench->device};
    struct of_driver of_driver;
    struct bench_player players[] = {
        {.allocator = &tarn, .trace = trace, .row = row, .context = &of_tarn},
        {.allocator = &driver, .trace = trace, .row = row, .context = &of_driver}};
    size_t count = contenders_rival_plays(bench) ? 2 : 1;

    bench_players_compare(players, count, bench->quick);
    if (cu.rival_pool == NULL)
        bench_report_absent(row, trace->name, driver.rival);
}
