// SPDX-License-Identifier: Apache-2.0
/* Operations on pools and routes. */
#include <unistd.h>

#include "model/state.h"

static int empty_slot(const struct model *m)
{
    for (int p = 1; p < POOLS; p++) {
        if (m->pools[p].handle == NULL)
            return p;
    }
    return NONE;
}

void do_new_pool(struct model *m)
{
    static const int peers[] = {1, 0};
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    int p = empty_slot(m);
    struct pool made = {.replay_stream = NONE};

    if (p == NONE)
        return;
    options.name = "model";
    if (m->config.tight && chance(m, 2))
        options.limit_bytes = (2 + below(m, 64)) * 2 * MIB;
    made.refuses_replays = chance(m, 4);
    options.replay_order = made.refuses_replays ? TARN_REPLAY_REFUSED : TARN_REPLAY_ORDERED;
    made.shares_captured = options.share_captured = chance(m, 6);
    made.is_exportable = options.exportable = chance(m, 8) && !m->config.linear;
    made.is_for_rdma = options.gpu_direct_rdma = chance(m, 8) && !m->config.linear;
    if (m->device_count > 1 && chance(m, 4) && !m->config.linear) {
        made.has_peer = true;
        options.peers = peers;
        options.peer_count = below(m, 2) + 1;
    }
    WELL(m, tarn_pool_create(m->device, &options, &made.handle));
    made.limit_bytes = options.limit_bytes;
    m->pools[p] = made;
    trace("  pool %d, limit %zu%s%s", p, made.limit_bytes,
          made.shares_captured ? ", shares what graphs hold" : "", made.has_peer ? ", a peer" : "");
}

/* Which devices may use a block, and what its memory is made of. */
static void expect_properties(struct model *m, const struct block *block)
{
    const struct pool *pool = &m->pools[block->pool];
    const char *last = (const char *)block->address + block->bytes - 1;
    struct test_properties properties = test_properties(block->address);
    unsigned long long peer = m->device_count > 1 ? test_access(1, last) : 0;

    EXPECT(m, test_access(0, last) == TN_CU_MEM_ACCESS_READWRITE, "block %llu is out of reach",
           (unsigned long long)block->serial);
    EXPECT(m, (peer == TN_CU_MEM_ACCESS_READWRITE) == pool->has_peer,
           "the access of another device to block %llu of pool %d is %llu",
           (unsigned long long)block->serial, block->pool, peer);
    EXPECT(m, (properties.handle_types != 0) == pool->is_exportable,
           "block %llu of pool %d is of handle types %d", (unsigned long long)block->serial,
           block->pool, properties.handle_types);
    EXPECT(m, properties.rdma == pool->is_for_rdma, "block %llu of pool %d is not for RDMA",
           (unsigned long long)block->serial, block->pool);
    if (pool->is_exportable)
        (void)close(test_export(block->address));
}

static bool is_any(const struct model *m, const struct block *block)
{
    return !m->pools[block->pool].is_released && !m->pools[block->pool].is_shared;
}

void do_look_at_memory(struct model *m)
{
    struct block *block = pick_block(m, is_any);

    if (block != NULL && !m->config.linear)
        expect_properties(m, block);
}

void do_add_peer(struct model *m)
{
    int p = pick_pool(m);
    struct block *block = pick_block(m, is_any);

    if (m->pools[p].is_shared || m->config.linear)
        return;
    WELL(m, tarn_pool_add_peer(m->pools[p].handle, 0));
    REFUSED(m, TARN_ERR_INVALID_ARGUMENT, tarn_pool_add_peer(m->pools[p].handle, m->device_count));
    if (m->device_count < 2 || m->pools[p].is_default)
        return;
    if (!DECLINED(m, tarn_pool_add_peer(m->pools[p].handle, 1)))
        m->pools[p].has_peer = true;
    trace("  pool %d %s", p, m->pools[p].has_peer ? "has a peer" : "has none still");
    if (block != NULL)
        expect_properties(m, block);
}

bool has_route(const struct model *m, int pool)
{
    for (size_t i = 0; i < ROUTES; i++) {
        if (m->routes[i].serial != 0 && m->routes[i].pool == pool)
            return true;
    }
    return false;
}

static bool has_live_block(const struct model *m, int pool)
{
    for (size_t i = 0; i < m->block_count; i++) {
        if (m->blocks[i].pool == pool && (!m->blocks[i].is_discarded || m->pools[pool].is_released))
            return true;
    }
    return false;
}

static bool has_graph(const struct model *m, int pool)
{
    for (size_t i = 0; i < GRAPHS; i++) {
        const struct graph *graph = &m->graphs[i];
        bool own = graph->handle != NULL || !graph->by_user;

        if (graph->serial != 0 && touches_pool(&graph->writes, own ? graph->pool : NONE, pool))
            return true;
    }
    return false;
}

static bool has_checkpoint(const struct model *m, int pool)
{
    for (size_t i = 0; i < CHECKPOINTS; i++) {
        if (m->checkpoints[i].handle != NULL && m->checkpoints[i].pool == pool)
            return true;
    }
    return false;
}

bool touches_pool(const struct writes *writes, int own, int pool)
{
    bool touches = own == pool;

    for (size_t i = 0; i < writes->count; i++)
        touches = touches || writes->all[i].pool == pool;
    return touches;
}

bool has_capture(const struct model *m, int pool)
{
    for (size_t i = 0; i < CAPTURES; i++) {
        if (m->captures[i].serial != 0 &&
            touches_pool(&m->captures[i].writes, m->captures[i].pool, pool))
            return true;
    }
    return false;
}

static bool is_claimed(const struct model *m, int pool)
{
    return has_route(m, pool) || has_live_block(m, pool) || has_graph(m, pool) ||
           has_checkpoint(m, pool) || has_capture(m, pool);
}

static bool is_private(const struct model *m, int p)
{
    return m->pools[p].handle != NULL && !m->pools[p].is_default && !m->pools[p].is_shared &&
           !m->pools[p].is_released;
}

/* Discarded blocks go with their pool when it is destroyed. */
static void forget_blocks(struct model *m, int pool)
{
    for (size_t i = m->block_count; i-- > 0;) {
        if (m->blocks[i].pool == pool)
            remove_block(m, &m->blocks[i]);
    }
}

/* The pool's addresses may be another thread's before the call that ends it has returned. */
static void share_blocks(struct model *m, int pool, bool are_held)
{
    for (size_t i = 0; i < m->block_count; i++) {
        if (m->blocks[i].pool != pool)
            continue;
        if (are_held)
            shared_add(m, range_of(&m->blocks[i]));
        else
            shared_remove(m, range_of(&m->blocks[i]));
    }
}

void do_end_pool(struct model *m)
{
    int p = (int)below(m, POOLS);
    tarn_status status;

    if (m->pools[p].is_default)
        REFUSED(m, TARN_ERR_WRONG_STATE, tarn_pool_destroy(m->pools[p].handle));
    if (!is_private(m, p))
        return;
    if (has_live_block(m, p) || has_route(m, p) || has_checkpoint(m, p) || pool_graphs(m, p) > 0) {
        REFUSED(m, TARN_ERR_BUSY, tarn_pool_destroy(m->pools[p].handle));
        return;
    }
    drain(m);
    let_work(m);
    (void)test_ledger(); /* the driver has run all destructors by then */
    trace("  pool %d", p);
    share_blocks(m, p, false);
    status = CALL(m, tarn_pool_destroy(m->pools[p].handle));
    if (is_claimed(m, p) || (status == TARN_ERR_BUSY && is_maybe_captured(m, p))) {
        expect_status(m, TARN_ERR_BUSY, status, "tarn_pool_destroy");
        share_blocks(m, p, true);
    } else {
        expect_status(m, TARN_OK, status, "tarn_pool_destroy");
        STALE(m, tarn_pool_trim(m->pools[p].handle, NULL));
        forget_blocks(m, p);
        m->pools[p].handle = NULL;
    }
    hold_work(m);
}

/* A released pool's slot is free again when nothing of it is left. */
void sweep_pools(struct model *m)
{
    for (int p = 1; p < POOLS; p++) {
        for (size_t i = 0; i < CAPTURES && has_route(m, p); i++)
            m->captures[i].maybe |= 1U << p;
        if (m->pools[p].is_released && !is_claimed(m, p) && !is_maybe_captured(m, p)) {
            forget_blocks(m, p);
            memset(&m->pools[p], 0, sizeof m->pools[p]);
        }
    }
}

void do_release_pool(struct model *m)
{
    int p = (int)below(m, POOLS);
    tarn_stats stats = TARN_STATS_INIT;

    if (m->pools[p].is_default)
        REFUSED(m, TARN_ERR_WRONG_STATE, tarn_pool_release(m->pools[p].handle));
    if (!is_private(m, p) || has_capture(m, p))
        return;
    trace("  pool %d", p);
    WELL_AT_ONCE(m, tarn_pool_release(m->pools[p].handle));
    m->pools[p].is_released = true;
    m->has_unnamed = true;
    STALE(m, tarn_pool_stats(m->pools[p].handle, &stats));
}

void do_trim(struct model *m)
{
    int p = pick_pool(m);
    tarn_stats before = TARN_STATS_INIT;
    tarn_stats after = TARN_STATS_INIT;
    size_t freed_bytes = 0;

    if (chance(m, 2))
        drain(m);
    WELL(m, tarn_pool_stats(m->pools[p].handle, &before));
    if (DECLINED(m, tarn_pool_trim(m->pools[p].handle, &freed_bytes)) || !m->owns_device)
        return;
    WELL(m, tarn_pool_stats(m->pools[p].handle, &after));
    EXPECT(m, before.mapped_bytes.all.current - after.mapped_bytes.all.current == freed_bytes,
           "a trim says %zu bytes freed, mapped were %llu and are %llu", freed_bytes,
           (unsigned long long)before.mapped_bytes.all.current,
           (unsigned long long)after.mapped_bytes.all.current);
}

void do_trim_to(struct model *m)
{
    int p = pick_pool(m);
    size_t keep = below(m, 48) * MIB;
    size_t freed_bytes = 0;
    tarn_stats before = TARN_STATS_INIT;
    tarn_stats after = TARN_STATS_INIT;

    WELL(m, tarn_pool_stats(m->pools[p].handle, &before));
    if (DECLINED(m, tarn_pool_trim_to(m->pools[p].handle, keep, &freed_bytes)) || !m->owns_device)
        return;
    WELL(m, tarn_pool_stats(m->pools[p].handle, &after));
    EXPECT(m, before.mapped_bytes.all.current - after.mapped_bytes.all.current == freed_bytes,
           "a trim says %zu bytes freed, mapped were %llu and are %llu", freed_bytes,
           (unsigned long long)before.mapped_bytes.all.current,
           (unsigned long long)after.mapped_bytes.all.current);
    EXPECT(m, before.mapped_bytes.all.current > keep || freed_bytes == 0,
           "a trim has taken what it is to keep");
}

void do_device_trim(struct model *m)
{
    size_t keep = chance(m, 2) ? 0 : below(m, 256) * MIB;
    size_t freed_bytes = 0;
    tarn_stats before = TARN_STATS_INIT;
    tarn_stats after = TARN_STATS_INIT;

    (void)test_ledger(); /* what goes when the driver ends graphs is not counted here */
    WELL(m, tarn_device_stats(m->device, &before));
    if (DECLINED(m, tarn_device_trim(m->device, keep, &freed_bytes)) || !m->owns_device)
        return;
    WELL(m, tarn_device_stats(m->device, &after));
    EXPECT(m,
           before.mapped_bytes.all.current + before.cached_bytes - after.mapped_bytes.all.current -
                   after.cached_bytes >=
               freed_bytes,
           "a trim of the device says %zu bytes freed, taken were %llu and are %llu", freed_bytes,
           (unsigned long long)(before.mapped_bytes.all.current + before.cached_bytes),
           (unsigned long long)(after.mapped_bytes.all.current + after.cached_bytes));
    EXPECT(m, before.mapped_bytes.all.current + before.cached_bytes > keep || freed_bytes == 0,
           "a trim of the device has taken what it is to keep");
}

void do_collect(struct model *m)
{
    tarn_stats before = TARN_STATS_INIT;
    tarn_stats after = TARN_STATS_INIT;

    (void)test_ledger(); /* what goes when the driver ends graphs is not counted here */
    WELL(m, tarn_device_stats(m->device, &before));
    if (DECLINED(m, tarn_device_collect(m->device)) || !m->owns_device)
        return;
    WELL(m, tarn_device_stats(m->device, &after));
    EXPECT(m,
           after.mapped_bytes.all.current == before.mapped_bytes.all.current &&
               after.live_bytes.all.current == before.live_bytes.all.current,
           "a look after pending blocks has changed what is mapped or live");
}

static void note_limits(struct model *m, uint64_t whole_bytes, uint64_t part_bytes)
{
    tarn_stats stats = TARN_STATS_INIT;
    uint64_t smaller = whole_bytes == 0 || (part_bytes != 0 && part_bytes < whole_bytes)
                           ? part_bytes
                           : whole_bytes;

    m->whole_bytes = whole_bytes;
    m->part_bytes = part_bytes;
    m->limit_bytes = smaller;
    WELL(m, tarn_device_stats(m->device, &stats));
    EXPECT(m, stats.limit_bytes == smaller, "the device says that its limit is %llu, not %llu",
           (unsigned long long)stats.limit_bytes, (unsigned long long)smaller);
}

/* Limits below what is taken already are allowed: expect_statistics sees that nothing grows then. */
void do_limit(struct model *m)
{
    size_t limit = chance(m, 2) ? 0 : (16 + below(m, 400)) * MIB;

    if (!m->owns_device)
        return;
    WELL(m, tarn_device_set_limit(m->device, limit));
    note_limits(m, limit, m->part_bytes);
}

/* A limit as a part of the device's memory. */
void do_fraction(struct model *m)
{
    tarn_device_info info = TARN_DEVICE_INFO_INIT;
    double fraction = chance(m, 2) ? 1.0 : (double)below(m, 41) / 1000;

    if (!m->owns_device)
        return;
    REFUSED(m, TARN_ERR_INVALID_ARGUMENT, tarn_device_set_memory_fraction(m->device, -1));
    WELL(m, tarn_device_describe(m->device, &info));
    WELL(m, tarn_device_set_memory_fraction(m->device, fraction));
    note_limits(m, m->whole_bytes, (uint64_t)((double)info.total_bytes * fraction));
}

void do_pool_limit(struct model *m)
{
    int p = pick_pool(m);

    if (m->pools[p].is_shared)
        return;
    m->pools[p].limit_bytes = chance(m, 2) ? 0 : (1 + below(m, 100)) * MIB;
    WELL(m, tarn_pool_set_limit(m->pools[p].handle, m->pools[p].limit_bytes));
}

void do_cache_limit(struct model *m)
{
    if (m->owns_device)
        WELL(m, tarn_device_set_cache_limit(m->device,
                                            chance(m, 3) ? TARN_NO_CACHE : below(m, 300) * MIB));
}

void do_reserve(struct model *m)
{
    int p = pick_pool(m);

    (void)DECLINED(m, tarn_pool_reserve(m->pools[p].handle, below(m, 24 * MIB),
                                        m->streams[pick_stream(m)].handle));
}

void do_layout(struct model *m)
{
    int p = pick_pool(m);

    if (!m->pools[p].is_shared)
        expect_layout(m, p);
}

static void expect_difference(struct model *m, int p, const tarn_expected *expected, size_t count,
                              tarn_difference_kind kind, const void *address)
{
    tarn_live_diff *diff = NULL;

    WELL(m, tarn_pool_check_live(m->pools[p].handle, expected, count, &diff));
    EXPECT(
        m,
        diff->count == 1 && diff->differences[0].kind == kind &&
            diff->differences[0].block.address == address,
        "check_live of pool %d says %zu differences, the first of kind %d at %p; expected one of "
        "kind %d at %p",
        p, diff->count, diff->count > 0 ? (int)diff->differences[0].kind : -1,
        diff->count > 0 ? diff->differences[0].block.address : NULL, (int)kind, address);
    tarn_live_diff_destroy(diff);
}

/* Exactly the model's blocks are live, and every way to be wrong is noticed. */
void do_check_live(struct model *m)
{
    static _Thread_local tarn_expected expected[BLOCKS + 1];
    int p = pick_pool(m);
    size_t count = 0;
    size_t at;
    tarn_live_diff *diff = NULL;

    if (!is_private(m, p))
        return;
    for (size_t i = 0; i < m->block_count; i++) {
        if (m->blocks[i].pool == p && !m->blocks[i].is_discarded)
            expected[count++] = (tarn_expected){m->blocks[i].address, m->blocks[i].bytes};
    }
    WELL(m, tarn_pool_check_live(m->pools[p].handle, expected, count, &diff));
    EXPECT(m, diff->count == 0, "check_live of pool %d sees %zu differences", p, diff->count);
    tarn_live_diff_destroy(diff);
    if (count == 0)
        return;
    at = below(m, count);
    expected[count] = expected[at];
    switch (below(m, 3)) {
    case 0:
        expected[at].bytes += 1;
        expect_difference(m, p, expected, count, TARN_DIFFERENCE_SIZE, expected[at].address);
        break;
    case 1:
        expect_difference(m, p, expected, count + 1, TARN_DIFFERENCE_MISSING, expected[at].address);
        break;
    default:
        expected[at] = expected[count - 1];
        expect_difference(m, p, expected, count - 1, TARN_DIFFERENCE_UNEXPECTED,
                          at == count - 1 ? expected[at].address : expected[count].address);
        break;
    }
}

/* Routes ------------------------------------------------------------------------------------- */

static bool is_that_stream(tarn_stream stream, void *user)
{
    return stream == user;
}

struct route *empty_route(struct model *m)
{
    for (size_t i = 0; i < ROUTES; i++) {
        if (m->routes[i].serial == 0)
            return &m->routes[i];
    }
    return NULL;
}

/* NULL when there is no room. */
struct route *open_route(struct model *m, int pool, int kind, int stream)
{
    static const tarn_route_filter filters[] = {tarn_filter_capture, tarn_filter_thread,
                                                tarn_filter_stream, is_that_stream};
    void *user = kind == ROUTE_THREAD ? NULL : m->streams[stream].handle;
    struct route *route = empty_route(m);
    tarn_route *handle = NULL;

    if (kind == ROUTE_CUSTOM && m->streams[stream].is_default)
        kind = ROUTE_STREAM; /* the handle alone does not tell threads' own streams apart */
    if (route == NULL)
        return NULL;
    if (DECLINED(m, tarn_begin_allocate_to_pool(m->device, m->pools[pool].handle, filters[kind],
                                                user, &handle)))
        return NULL;
    trace("  route to pool %d, kind %d, stream %d", pool, kind, stream);
    *route = (struct route){++m->serial, handle, pool, kind, stream, NONE};
    return route;
}

void do_route(struct model *m)
{
    int p = pick_pool(m);

    if (is_private(m, p))
        (void)open_route(m, p, (int)below(m, 4), pick_stream(m));
}

/* The newest route to the pool that is not a tarn_capture's; the user's captures end their own. */
static struct route *newest_route(struct model *m, int pool)
{
    struct route *newest = NULL;

    for (size_t i = 0; i < ROUTES; i++) {
        struct route *route = &m->routes[i];

        if (route->handle != NULL && route->pool == pool &&
            (newest == NULL || newest->serial < route->serial))
            newest = route;
    }
    return newest;
}

static void end_route(struct model *m, struct route *route)
{
    trace("  end a route to pool %d", route->pool);
    WELL_AT_ONCE(m, tarn_end_allocate_to_pool(route->handle));
    memset(route, 0, sizeof *route);
}

/* Nothing when all have been ended. */
void end_newest_route(struct model *m, int pool)
{
    struct route *route = newest_route(m, pool);

    if (route != NULL)
        end_route(m, route);
}

/* Routes end in any order. */
void do_end_route(struct model *m)
{
    struct route *route = &m->routes[below(m, ROUTES)];

    REFUSED(m, TARN_ERR_INVALID_HANDLE, tarn_end_allocate_to_pool((tarn_route *)(void *)m->device));
    if (route->handle != NULL && !has_user_capture(m, route->pool))
        end_route(m, route);
}

void end_routes(struct model *m)
{
    for (int p = 1; p < POOLS; p++) {
        while (newest_route(m, p) != NULL)
            end_newest_route(m, p);
    }
}
