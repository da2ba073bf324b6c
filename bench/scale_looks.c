// SPDX-License-Identifier: Apache-2.0
/* Calls that look at everything in a pool or a device, or give free memory back. Each is
 * proportional to what it looks at, and flat beside the rest. */
#include "scale.h"

enum { REPORT_BYTES = 4096 };

static void collect(struct scale_world *world)
{
    BENCH_OK(tarn_device_collect(world->device));
}

static void read_pool(struct scale_world *world)
{
    tarn_stats stats = TARN_STATS_INIT;

    BENCH_OK(tarn_pool_stats(world->pool, &stats));
}

static void read_device(struct scale_world *world)
{
    tarn_stats stats = TARN_STATS_INIT;

    BENCH_OK(tarn_device_stats(world->device, &stats));
}

static void walk_pool(struct scale_world *world)
{
    tarn_stats stats = TARN_STATS_INIT;

    stats.walk = true;
    BENCH_OK(tarn_pool_stats(world->pool, &stats));
}

static void reset_pool_peaks(struct scale_world *world)
{
    BENCH_OK(tarn_pool_reset_peaks(world->pool));
}

static void reset_pool_totals(struct scale_world *world)
{
    BENCH_OK(tarn_pool_reset_totals(world->pool));
}

static void reset_device_peaks(struct scale_world *world)
{
    BENCH_OK(tarn_device_reset_peaks(world->device));
}

static void reset_device_totals(struct scale_world *world)
{
    BENCH_OK(tarn_device_reset_totals(world->device));
}

static void report_pool(struct scale_world *world)
{
    char text[REPORT_BYTES];

    BENCH_OK(tarn_pool_report(world->pool, TARN_REPORT_TEXT, text, sizeof text, NULL));
}

static void report_device(struct scale_world *world)
{
    char text[REPORT_BYTES];

    BENCH_OK(tarn_device_report(world->device, TARN_REPORT_TEXT, text, sizeof text, NULL));
}

static void validate(struct scale_world *world)
{
    BENCH_OK(tarn_pool_validate(world->pool));
}

static void lay_out(struct scale_world *world)
{
    tarn_layout *layout = NULL;

    BENCH_OK(tarn_pool_layout(world->pool, &layout));
    tarn_layout_destroy(layout);
}

static void list_blocks(struct scale_world *world)
{
    tarn_block_list *list = NULL;

    BENCH_OK(tarn_pool_blocks(world->pool, &list));
    tarn_block_list_destroy(list);
}

static void list_pools(struct scale_world *world)
{
    tarn_pool_list *list = NULL;

    BENCH_OK(tarn_device_pools(world->device, &list));
    tarn_pool_list_destroy(list);
}

static void ask_for_largest(struct scale_world *world)
{
    size_t bytes;

    BENCH_OK(tarn_device_largest(world->device, world->pool, world->stream, &bytes));
}

static void take_snapshot(struct scale_world *world)
{
    tarn_snapshot *snapshot = NULL;

    BENCH_OK(tarn_snapshot_take(world->device, world->pool, &snapshot));
    tarn_snapshot_destroy(snapshot);
}

static void take_device_snapshot(struct scale_world *world)
{
    tarn_snapshot *snapshot = NULL;

    BENCH_OK(tarn_snapshot_take(world->device, NULL, &snapshot));
    tarn_snapshot_destroy(snapshot);
}

static tarn_status drop_bytes(const void *bytes, size_t count, void *user)
{
    (void)bytes;
    (void)count;
    (void)user;
    return TARN_OK;
}

static void write_snapshot(struct scale_world *world)
{
    tarn_snapshot *snapshot = NULL;

    BENCH_OK(tarn_snapshot_take(world->device, world->pool, &snapshot));
    BENCH_OK(tarn_snapshot_write_pytorch(snapshot, drop_bytes, NULL));
    tarn_snapshot_destroy(snapshot);
}

static void check_live(struct scale_world *world)
{
    tarn_live_diff *diff = NULL;

    BENCH_OK(tarn_pool_check_live(world->pool, NULL, 0, &diff));
    tarn_live_diff_destroy(diff);
}

static void trim_pool(struct scale_world *world)
{
    BENCH_OK(tarn_pool_trim(world->pool, NULL));
}

static void trim_pool_to(struct scale_world *world)
{
    BENCH_OK(tarn_pool_trim_to(world->pool, 0, NULL));
}

static void trim_device(struct scale_world *world)
{
    BENCH_OK(tarn_device_trim(world->device, 0, NULL));
}

#define POOL_KINDS                                                                                 \
    (SCALE_LIVE | SCALE_ARENAS | SCALE_PENDING | SCALE_GRAPHS | SCALE_GUARDED | SCALE_CHECKPOINTS)
#define TRIM_KINDS (SCALE_LIVE | SCALE_ARENAS | SCALE_PENDING | SCALE_GRAPHS | SCALE_GUARDED)

const struct scale_call scale_look_calls[] = {
    {SCALE_CALL("tarn_device_collect", NULL, collect, NULL), .proportional = "what is pending",
     .proportional_kinds = SCALE_PENDING},
    {SCALE_CALL("tarn_pool_stats", NULL, read_pool, NULL), .proportional = "streams and graphs",
     .proportional_kinds = SCALE_ARENAS | SCALE_GRAPHS | SCALE_OUTPUTS | SCALE_GUARDED},
    {SCALE_CALL("tarn_device_stats", NULL, read_device, NULL),
     .proportional = "streams, graphs and pools",
     .proportional_kinds =
         SCALE_ARENAS | SCALE_GRAPHS | SCALE_OUTPUTS | SCALE_GUARDED | SCALE_MANY_POOLS},
    {SCALE_CALL("tarn_pool_stats, walked", NULL, walk_pool, NULL),
     .proportional = "all of the pool", .proportional_kinds = POOL_KINDS},
    {SCALE_CALL("tarn_pool_reset_peaks", NULL, reset_pool_peaks, NULL), .proportional = "streams",
     .proportional_kinds = SCALE_ARENAS},
    {SCALE_CALL("tarn_pool_reset_totals", NULL, reset_pool_totals, NULL), .proportional = "streams",
     .proportional_kinds = SCALE_ARENAS},
    {SCALE_CALL("tarn_device_reset_peaks", NULL, reset_device_peaks, NULL),
     .proportional = "streams and pools", .proportional_kinds = SCALE_ARENAS | SCALE_MANY_POOLS},
    {SCALE_CALL("tarn_device_reset_totals", NULL, reset_device_totals, NULL),
     .proportional = "streams and pools", .proportional_kinds = SCALE_ARENAS | SCALE_MANY_POOLS},
    {SCALE_CALL("tarn_pool_report", NULL, report_pool, NULL), .proportional = "all of the pool",
     .proportional_kinds = POOL_KINDS},
    {SCALE_CALL("tarn_device_report", NULL, report_device, NULL),
     .proportional = "all of the device", .proportional_kinds = POOL_KINDS | SCALE_MANY_POOLS},
    {SCALE_CALL("tarn_pool_validate", NULL, validate, NULL),
     .proportional = "all of the pool, and tables of the device's", .proportional_kinds = ~0U},
    {SCALE_CALL("tarn_pool_layout", NULL, lay_out, NULL), .proportional = "the pool's blocks",
     .proportional_kinds = SCALE_LIVE | SCALE_ARENAS | SCALE_PENDING},
    {SCALE_CALL("tarn_pool_blocks", NULL, list_blocks, NULL), .proportional = "the pool's blocks",
     .proportional_kinds = SCALE_LIVE | SCALE_PENDING},
    {SCALE_CALL("tarn_device_pools", NULL, list_pools, NULL), .proportional = "pools",
     .proportional_kinds = SCALE_MANY_POOLS},
    {SCALE_CALL("tarn_device_largest", NULL, ask_for_largest, NULL),
     .proportional = "all of the pool, and the device's chunks",
     .proportional_kinds = POOL_KINDS | SCALE_OUTPUTS | SCALE_RECORDED | SCALE_MANY_POOLS},
    {SCALE_CALL("tarn_snapshot_take", NULL, take_snapshot, NULL), .proportional = "all of the pool",
     .proportional_kinds = POOL_KINDS},
    {SCALE_CALL("tarn_snapshot_take, of the device", NULL, take_device_snapshot, NULL),
     .proportional = "all of the device",
     .proportional_kinds = POOL_KINDS | SCALE_OUTPUTS | SCALE_RECORDED | SCALE_MANY_POOLS},
    {SCALE_CALL("tarn_snapshot_write_pytorch", NULL, write_snapshot, NULL),
     .proportional = "all of the pool", .proportional_kinds = POOL_KINDS},
    {SCALE_CALL("tarn_pool_check_live", NULL, check_live, NULL),
     .proportional = "the pool's blocks", .proportional_kinds = SCALE_LIVE | SCALE_PENDING},
    {SCALE_CALL("tarn_pool_trim", NULL, trim_pool, NULL),
     .proportional = "the pool's memory and graphs", .proportional_kinds = TRIM_KINDS},
    {SCALE_CALL("tarn_pool_trim_to", NULL, trim_pool_to, NULL),
     .proportional = "the pool's memory and graphs", .proportional_kinds = TRIM_KINDS},
    {SCALE_CALL("tarn_device_trim", NULL, trim_device, NULL),
     .proportional = "all memory and graphs",
     .proportional_kinds = TRIM_KINDS | SCALE_RECORDED | SCALE_MANY_POOLS},
};
const size_t scale_look_call_count = sizeof scale_look_calls / sizeof scale_look_calls[0];
