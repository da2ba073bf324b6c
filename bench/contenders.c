// SPDX-License-Identifier: Apache-2.0
#include "contenders.h"

#include "driver.h"

bool contenders_rival_plays(const struct bench *bench)
{
    return cu.rival_pool != NULL && (bench->quick || !cu.simulated);
}

size_t contenders_choose_bytes_max(size_t bytes_max, size_t count, size_t parts)
{
    size_t free_bytes;
    size_t total_bytes;

    BENCH_CU(cu.cuMemGetInfo(&free_bytes, &total_bytes));
    while (bytes_max > (size_t)2 * BENCH_BLOCK_BYTES_MIN &&
           bytes_max / 2 * count > free_bytes / parts)
        bytes_max /= 2;
    return bytes_max;
}

static void drain(const struct script_player *player)
{
    bench_stream_drain(player->stream);
}

/* ---- Tarn ---------------------------------------------------------------------------------- */

void contenders_get_pool_peaks(tarn_pool *pool, uint64_t *reserved, uint64_t *allocated)
{
    tarn_stats stats = TARN_STATS_INIT;

    BENCH_OK(tarn_pool_stats(pool, &stats));
    *reserved = stats.mapped_bytes.all.peak;
    *allocated = stats.live_bytes.all.peak;
}

static void open_tarn(struct script_player *player)
{
    tarn_pool *pool = NULL;

    BENCH_OK(tarn_pool_create(player->context, NULL, &pool));
    player->pool = pool;
    player->stream = bench_stream_create();
}

static void *allocate_tarn(const struct script_player *player, size_t bytes)
{
    void *address = NULL;

    BENCH_OK(tarn_pool_malloc(player->pool, bytes, 0, player->stream, &address));
    return address;
}

static void free_tarn(const struct script_player *player, void *address)
{
    (void)player;
    BENCH_OK(tarn_free(address));
}

static void get_peaks_tarn(const struct script_player *player, uint64_t *reserved,
                           uint64_t *allocated)
{
    contenders_get_pool_peaks(player->pool, reserved, allocated);
}

static void get_now_tarn(const struct script_player *player, uint64_t *reserved,
                         uint64_t *allocated)
{
    tarn_stats stats = TARN_STATS_INIT;

    BENCH_OK(tarn_pool_stats(player->pool, &stats));
    *reserved = stats.mapped_bytes.all.current;
    *allocated = stats.live_bytes.all.current;
}

static void close_tarn(struct script_player *player)
{
    BENCH_OK(tarn_pool_destroy(player->pool));
    bench_stream_destroy(player->stream);
}

/* ---- the driver's allocator ---------------------------------------------------------------- */

static void open_driver(struct script_player *player)
{
    bench_rival_empty();
    player->stream = bench_stream_create();
}

static void *allocate_driver(const struct script_player *player, size_t bytes)
{
    tn_cu_deviceptr address = 0;

    BENCH_CU(cu.cuMemAllocAsync(&address, bytes, player->stream));
    return (void *)(uintptr_t)address;
}

static void free_driver(const struct script_player *player, void *address)
{
    BENCH_CU(cu.cuMemFreeAsync((tn_cu_deviceptr)(uintptr_t)address, player->stream));
}

static void get_peaks_driver(const struct script_player *player, uint64_t *reserved,
                             uint64_t *allocated)
{
    (void)player;
    bench_rival_get_peaks(reserved, allocated);
}

static void get_now_driver(const struct script_player *player, uint64_t *reserved,
                           uint64_t *allocated)
{
    drain(player);
    BENCH_CU(cu.cuMemPoolGetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_RESERVED_CURRENT, reserved));
    BENCH_CU(cu.cuMemPoolGetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_USED_CURRENT, allocated));
}

static void close_driver(struct script_player *player)
{
    bench_rival_empty();
    bench_stream_destroy(player->stream);
}

const struct script_allocator script_tarn = {
    .rival = NULL,
    .open = open_tarn,
    .allocate = allocate_tarn,
    .free = free_tarn,
    .drain = drain,
    .get_peaks = get_peaks_tarn,
    .get_now = get_now_tarn,
    .close = close_tarn,
};
const struct script_allocator script_driver = {
    .rival = "cuMemAllocAsync",
    .open = open_driver,
    .allocate = allocate_driver,
    .free = free_driver,
    .drain = drain,
    .get_peaks = get_peaks_driver,
    .get_now = get_now_driver,
    .close = close_driver,
};
