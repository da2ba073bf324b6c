// SPDX-License-Identifier: Apache-2.0
/* What exists, what the library says of it, and choices among it. */
#include "model/state.h"

struct block *pick_block(struct model *m, block_test *test)
{
    for (int tries = 0; tries < 8 && m->block_count > 0; tries++) {
        struct block *block = &m->blocks[below(m, m->block_count)];

        if (test(m, block))
            return block;
    }
    return NULL;
}

/* One that streams may use outside captures. */
bool is_plain(const struct model *m, const struct block *block)
{
    return !block->is_discarded && !is_open_capture(m, block->capture_of) &&
           (block->last == NONE || !is_capturing(m, block->last));
}

int pick_stream(struct model *m)
{
    int stream = (int)below(m, STREAMS);

    for (int tries = 0; tries < STREAMS; tries++) {
        if (m->streams[stream].handle != NULL && !is_capturing(m, stream))
            return stream;
        stream = (stream + 1) % STREAMS;
    }
    broken(m, "no stream is left");
}

int pick_pool(struct model *m)
{
    int pool = (int)below(m, POOLS);

    return m->pools[pool].handle != NULL && !m->pools[pool].is_released ? pool : 0;
}

struct graph *pick_graph(struct model *m)
{
    struct graph *graph = &m->graphs[below(m, GRAPHS)];

    return graph->handle != NULL ? graph : NULL;
}

struct capture *pick_capture(struct model *m)
{
    size_t at = below(m, CAPTURES);

    for (size_t i = 0; i < CAPTURES; i++) {
        if (m->captures[(at + i) % CAPTURES].serial != 0)
            return &m->captures[(at + i) % CAPTURES];
    }
    return NULL;
}

struct capture *capture_of_stream(struct model *m, int stream)
{
    return is_capturing(m, stream) ? &m->captures[m->streams[stream].capture] : NULL;
}

size_t pick_bytes(struct model *m)
{
    switch (below(m, 16)) {
    case 0:
    case 1:
        return 4 + below(m, 508);
    case 2:
    case 3:
        return MIB - 512 + below(m, 1024); /* around the size where small blocks end */
    case 4:
        return MIB + below(m, 20 * MIB);
    case 5:
        return (1 + below(m, 40)) * MIB;
    case 6:
        return (1 + below(m, 6)) * 2 * MIB - 512 + below(m, 1024);
    default:
        return 4 + below(m, m->config.large ? 4096 : 256 << 10);
    }
}

/* Which pool serves ------------------------------------------------------------------------- */

static bool accepts(const struct model *m, const struct route *route, int stream)
{
    switch (route->kind) {
    case ROUTE_CAPTURE:
        return is_capturing(m, route->stream) &&
               m->streams[stream].capture == m->streams[route->stream].capture;
    case ROUTE_THREAD:
        return true;
    default:
        return route->stream == stream;
    }
}

int serving_pool(struct model *m, int stream, bool *is_routed)
{
    const struct route *newest = NULL;

    for (size_t i = 0; i < ROUTES; i++) {
        const struct route *route = &m->routes[i];

        if (route->serial != 0 && accepts(m, route, stream) &&
            (newest == NULL || newest->serial < route->serial))
            newest = route;
    }
    *is_routed = newest != NULL;
    return newest != NULL ? newest->pool : 0;
}

/* What the library says ---------------------------------------------------------------------- */

int pool_graphs(const struct model *m, int pool)
{
    int count = 0;

    for (size_t i = 0; i < GRAPHS; i++)
        count += m->graphs[i].handle != NULL && m->graphs[i].pool == pool;
    return count;
}

struct sums {
    uint64_t live_count;
    uint64_t live_bytes;
    uint64_t requested_bytes;
    uint64_t checkpoint_count;
    uint64_t kept_bytes; /* contents of checkpoints, in the default pool, and more that they need */
    bool keeps;
};

static struct sums sums_of(const struct model *m, int pool)
{
    struct sums sums = {0};

    for (size_t i = 0; i < m->block_count; i++) {
        const struct block *block = &m->blocks[i];

        if (block->pool != pool || block->is_discarded)
            continue;
        sums.live_count += 1;
        sums.live_bytes += block->block_bytes;
        sums.requested_bytes += block->bytes;
    }
    for (size_t i = 0; i < CHECKPOINTS; i++) {
        const struct checkpoint *checkpoint = &m->checkpoints[i];

        if (checkpoint->handle == NULL)
            continue;
        sums.checkpoint_count += checkpoint->pool == pool;
        if (!m->pools[pool].is_default)
            continue;
        sums.keeps = sums.keeps || checkpoint->contents != TARN_CONTENTS_NONE;
        sums.kept_bytes += checkpoint->kept_bytes;
    }
    return sums;
}

#define SAME(m, field, value)                                                                      \
    EXPECT(m, stats.field == (value), "pool %d says " #field " %llu, expected %llu", p,            \
           (unsigned long long)stats.field, (unsigned long long)(value))

static struct test_stats expect_pool_statistics(struct model *m, int p)
{
    tarn_stats all = {.size = sizeof all, .walk = true};
    struct sums sums = sums_of(m, p);
    struct test_stats stats;

    WELL(m, tarn_pool_stats(m->pools[p].handle, &all));
    stats = test_stats_in(&all);
    EXPECT(m, all.captured_bytes <= all.capture_bytes + all.graph_bytes, "held of pool %d", p);
    EXPECT(m, all.captured_bytes >= all.capture_bytes && all.captured_bytes >= all.graph_bytes,
           "captured bytes of pool %d leave some out", p);
    if (!sums.keeps) {
        SAME(m, live_count, sums.live_count);
        SAME(m, live_bytes, sums.live_bytes);
        SAME(m, requested_bytes, sums.requested_bytes);
    }
    EXPECT(m, stats.live_bytes >= sums.live_bytes + sums.kept_bytes, "too few live bytes");
    SAME(m, checkpoint_count, sums.checkpoint_count);
    EXPECT(m, stats.graph_count >= (uint64_t)pool_graphs(m, p), "graphs of pool %d are missing", p);
    EXPECT(m, stats.live_peak_bytes >= stats.live_bytes, "live peak of pool %d", p);
    EXPECT(m, stats.mapped_peak_bytes >= stats.mapped_bytes, "mapped peak of pool %d", p);
    EXPECT(m, stats.mapped_bytes >= stats.live_bytes + stats.pending_bytes,
           "pool %d maps less than is live and pending", p);
    EXPECT(m,
           m->pools[p].limit_bytes == 0 || stats.mapped_bytes <= m->pools[p].limit_bytes ||
               stats.mapped_bytes <= m->pools[p].mapped_bytes,
           "pool %d has grown over its limit", p);
    m->pools[p].mapped_bytes = stats.mapped_bytes;
    EXPECT(m, stats.captured_bytes <= stats.mapped_bytes, "captured bytes of pool %d", p);
    EXPECT(m, stats.chunk_count == stats.map_count - stats.unmap_count, "chunks of pool %d", p);
    return stats;
}
#undef SAME

static struct test_device_stats read_device(struct model *m)
{
    tarn_stats stats = TARN_STATS_INIT;

    WELL(m, tarn_device_stats(m->device, &stats));
    return test_device_stats_in(&stats);
}

/* What the device says of memory that the driver gave. */
static void expect_taken(struct model *m)
{
    tarn_stats host = TARN_STATS_INIT; /* contents of checkpoints are there, too */
    struct test_device_stats device;
    uint64_t taken;

    if (m->step % 8 == 0)
        (void)
            test_ledger(); /* destructors that are due change what is mapped: not between the two */
    device = read_device(m);
    taken = device.mapped_bytes + device.cached_bytes;
    EXPECT(m, m->limit_bytes == 0 || taken <= m->limit_bytes || taken <= m->taken_bytes,
           "the device has grown over its limit");
    m->taken_bytes = taken;
    if (m->step % 8 != 0 || m->config.linear)
        return;
    WELL(m, tarn_host_stats(m->device, &host));
    taken += host.mapped_bytes.all.current + host.cached_bytes;
    EXPECT(m, test_ledger().handle_bytes == taken,
           "%llu bytes are mapped or cached, the driver gave %llu", (unsigned long long)taken,
           (unsigned long long)test_ledger().handle_bytes);
}

void expect_statistics(struct model *m)
{
    struct test_device_stats device;
    uint64_t live_bytes = 0;
    uint64_t mapped_bytes = 0;
    uint64_t pool_count = 0;

    for (int p = 0; p < POOLS; p++) {
        struct test_stats stats;

        if (m->pools[p].handle == NULL)
            continue;
        if (m->pools[p].is_released || m->pools[p].is_shared)
            continue;
        stats = expect_pool_statistics(m, p);
        pool_count += 1;
        live_bytes += stats.live_bytes;
        mapped_bytes += stats.mapped_bytes;
    }
    if (!m->owns_device)
        return;
    expect_taken(m);
    device = read_device(m);
    if (device.pool_count > pool_count) { /* one that goes with what the driver is about to end */
        (void)test_ledger();
        device = read_device(m);
    }
    if (device.pool_count != pool_count) {
        EXPECT(m, m->has_unnamed && device.pool_count > pool_count,
               "the device says %llu pools, there are %llu", (unsigned long long)device.pool_count,
               (unsigned long long)pool_count);
        return;
    }
    EXPECT(m, device.live_bytes == live_bytes, "the device says %llu live bytes, its pools %llu",
           (unsigned long long)device.live_bytes, (unsigned long long)live_bytes);
    if (device.pool_count > pool_count)
        return; /* a released one, whose memory nothing has proven idle yet */
    EXPECT(m, device.mapped_bytes == mapped_bytes,
           "the device says %llu mapped bytes, its pools %llu",
           (unsigned long long)device.mapped_bytes, (unsigned long long)mapped_bytes);
}

static const struct block *block_of(const struct model *m, int pool, const void *address)
{
    for (size_t i = 0; i < m->block_count; i++) {
        if (m->blocks[i].pool == pool && m->blocks[i].address == address)
            return &m->blocks[i];
    }
    return NULL;
}

/* The list has the model's live blocks, in order of address. */
static void expect_blocks(struct model *m, int pool)
{
    tarn_block_list *list = NULL;
    const void *last = NULL;
    size_t found = 0;
    size_t held = 0;

    WELL(m, tarn_pool_blocks(m->pools[pool].handle, &list));
    for (size_t i = 0; i < list->count; i++) {
        const tarn_block *listed = &list->blocks[i];
        const struct block *block = block_of(m, pool, listed->address);

        EXPECT(m, (uintptr_t)listed->address > (uintptr_t)last, "blocks are not in order");
        last = listed->address;
        if (block == NULL && m->pools[pool].is_default)
            continue; /* contents of a checkpoint */
        EXPECT(m,
               block != NULL && !block->is_discarded && listed->bytes == block->bytes &&
                   listed->sequence == block->sequence && listed->tag == block->tag &&
                   listed->pool == m->pools[pool].handle,
               "the list of pool %d shows a block at %p that nobody holds", pool, listed->address);
        found += 1;
    }
    for (size_t i = 0; i < m->block_count; i++)
        held += m->blocks[i].pool == pool && !m->blocks[i].is_discarded;
    EXPECT(m, found == held, "the list of pool %d shows %zu blocks, %zu are held", pool, found,
           held);
    tarn_block_list_destroy(list);
}

/* Whether a pool with a valid handle has the value of that handle: the record of a pool that is gone may
 * serve another pool. */
static bool is_handle(const struct model *m, const tarn_pool *handle)
{
    int p = 0;

    while (p < POOLS && (m->pools[p].handle != handle || m->pools[p].is_released))
        p++;
    return p < POOLS;
}

/* The list has the handles that the model has, and no other private pool has one. */
static void expect_pools(struct model *m)
{
    tarn_pool_list *list = NULL;

    WELL(m, tarn_device_pools(m->device, &list));
    for (int p = 0; p < POOLS; p++) {
        const struct pool *pool = &m->pools[p];
        size_t found = 0;

        if (pool->handle == NULL || pool->is_shared)
            continue;
        for (size_t i = 0; i < list->count; i++) {
            if (list->pools[i].pool == pool->handle)
                found += 1;
        }
        EXPECT(m, found == is_handle(m, pool->handle), "pool %d is listed %zu times", p, found);
    }
    tarn_pool_list_destroy(list);
}

/* Whether a snapshot shows the extent as a part of the one before: free neighbours in one segment. */
static bool is_shown_before(const tarn_snapshot *snapshot, const tarn_layout *layout, size_t i)
{
    const tarn_extent *extent = &layout->extents[i];
    const tarn_extent *before = extent - 1;

    if (i == 0 || extent->state != TARN_EXTENT_FREE || before->state != TARN_EXTENT_FREE ||
        (char *)before->address + before->bytes != (char *)extent->address)
        return false;
    for (size_t s = 0; s < snapshot->segment_count; s++) {
        if (snapshot->segments[s].address == extent->address)
            return false;
    }
    return true;
}

/* How many blocks a snapshot of the layout has. */
static size_t count_shown(const tarn_snapshot *snapshot, const tarn_layout *layout)
{
    size_t count = 0;

    for (size_t i = 0; i < layout->extent_count; i++)
        count += layout->extents[i].state != TARN_EXTENT_UNMAPPED &&
                 !is_shown_before(snapshot, layout, i);
    return count;
}

/* Blocks tile their segments, and the live and discarded ones are the model's. Of a layout, what is
 * mapped is there. */
static void expect_snapshot(struct model *m, int pool, const tarn_layout *layout)
{
    tarn_snapshot *snapshot = NULL;
    tarn_layout *after = NULL;
    size_t mapped;
    size_t held = 0;
    size_t found = 0;

    WELL(m, tarn_snapshot_take(m->device, m->pools[pool].handle, &snapshot));
    for (size_t s = 0; s < snapshot->segment_count; s++) {
        const tarn_snapshot_segment *segment = &snapshot->segments[s];
        const char *at = segment->address;

        for (size_t i = 0; i < segment->block_count; i++) {
            const tarn_snapshot_block *shown = &segment->blocks[i];
            const struct block *block = block_of(m, pool, shown->address);

            EXPECT(m, shown->address == at, "blocks of a snapshot do not tile");
            at += shown->block_bytes;
            if (block == NULL || shown->state == TARN_EXTENT_FREE)
                continue;
            EXPECT(m,
                   shown->block_bytes == block->block_bytes &&
                       (block->is_discarded
                            ? shown->state == TARN_EXTENT_DISCARDED
                            : shown->state == TARN_EXTENT_LIVE &&
                                  shown->sequence == block->sequence && shown->tag == block->tag),
                   "the snapshot shows another block %llu", (unsigned long long)block->serial);
            found += 1;
        }
        EXPECT(m, at == (char *)segment->address + segment->bytes, "a segment has a gap");
    }
    mapped = count_shown(snapshot, layout);
    if (snapshot->block_count != mapped) { /* memory may go where the pool's lock is given back */
        WELL(m, tarn_pool_layout(m->pools[pool].handle, &after));
        mapped = count_shown(snapshot, after);
        tarn_layout_destroy(after);
    }
    for (size_t i = 0; i < m->block_count; i++)
        held += m->blocks[i].pool == pool;
    EXPECT(m, snapshot->block_count == mapped, "the snapshot shows %zu extents of %zu",
           snapshot->block_count, mapped);
    EXPECT(m, found == held, "the snapshot shows %zu blocks, %zu are held", found, held);
    tarn_snapshot_destroy(snapshot);
}

/* The places of live blocks have the model's, and contents of checkpoints beside. */
static void expect_leaks(struct model *m, int pool)
{
    tarn_leaks *leaks = NULL;
    size_t held = 0;
    size_t discarded = 0;
    size_t told = 0;

    WELL(m, tarn_leaks_find(m->device, m->pools[pool].handle, &leaks));
    for (size_t i = 0; i < m->block_count; i++) {
        held += m->blocks[i].pool == pool;
        discarded += m->blocks[i].pool == pool && m->blocks[i].is_discarded;
    }
    for (size_t i = 0; i < leaks->count; i++)
        told += leaks->leaks[i].live.blocks;
    EXPECT(m, told == leaks->live.blocks, "places have %zu blocks of %zu", told,
           (size_t)leaks->live.blocks);
    EXPECT(m, m->pools[pool].is_default ? told >= held : told == held,
           "places have %zu blocks, %zu are held", told, held);
    EXPECT(m, leaks->discarded.blocks == discarded, "places have %zu discarded blocks of %zu",
           (size_t)leaks->discarded.blocks, discarded);
    tarn_leaks_destroy(leaks);
}

/* Extents tile their segments, and the live and discarded ones are the model's blocks. */
void expect_layout(struct model *m, int pool)
{
    tarn_layout *layout = NULL;
    size_t found = 0;
    size_t held = 0;

    WELL(m, tarn_pool_layout(m->pools[pool].handle, &layout));
    for (size_t i = 0; i < layout->extent_count; i++) {
        const tarn_extent *extent = &layout->extents[i];
        const struct block *block = block_of(m, pool, extent->address);

        EXPECT(m, extent->bytes > 0, "an extent of no bytes");
        if (i > 0 && extent[-1].segment_index == extent->segment_index)
            EXPECT(m, (char *)extent[-1].address + extent[-1].bytes == (char *)extent->address,
                   "extents do not tile");
        if (extent->state != TARN_EXTENT_LIVE && extent->state != TARN_EXTENT_DISCARDED)
            continue;
        if (block == NULL && m->pools[pool].is_default)
            continue; /* contents of a checkpoint */
        EXPECT(m, block != NULL, "an extent of pool %d at %p shows a block that nobody holds", pool,
               extent->address);
        found += 1;
        EXPECT(m, block->is_discarded == (extent->state == TARN_EXTENT_DISCARDED),
               "block %llu is in another state", (unsigned long long)block->serial);
        EXPECT(m, extent->bytes == block->block_bytes, "block %llu has another size",
               (unsigned long long)block->serial);
        EXPECT(m, block->is_discarded || extent->sequence == block->sequence,
               "block %llu has another sequence", (unsigned long long)block->serial);
    }
    for (size_t i = 0; i < m->block_count; i++)
        held += m->blocks[i].pool == pool;
    EXPECT(m, found == held, "the layout of pool %d shows %zu blocks, %zu are held", pool, found,
           held);
    expect_snapshot(m, pool, layout);
    expect_leaks(m, pool);
    tarn_layout_destroy(layout);
    expect_blocks(m, pool);
    expect_pools(m);
}
