// SPDX-License-Identifier: Apache-2.0
/* Operations on captures: the library's own, and those that the user begins and has adopted. */
#include "model/state.h"

static int random_lane(struct model *m, const struct capture *capture)
{
    int lane = (int)below(m, STREAMS);

    while (!capture->has_lane[lane])
        lane = (lane + 1) % STREAMS;
    return lane;
}

/* Blocks whose last work is on a stream that is about to go from sight: it is passed on to another. */
void move_last(struct model *m, int stream)
{
    int other = NONE;

    for (int s = 0; s < STREAMS && other == NONE; s++) {
        if (s != stream && m->streams[s].handle != NULL && !is_capturing(m, s))
            other = s;
    }
    EXPECT(m, other != NONE, "no other stream is left");
    for (size_t i = 0; i < m->block_count; i++) {
        if (m->blocks[i].last != stream)
            continue;
        order(m, stream, other);
        m->blocks[i].last = other;
    }
}

static int eager_streams(const struct model *m)
{
    int count = 0;

    for (int s = 0; s < STREAMS; s++)
        count += m->streams[s].handle != NULL && !is_capturing(m, s);
    return count;
}

static void enter_capture(struct model *m, struct capture *capture, int stream)
{
    capture->has_lane[stream] = true;
    m->streams[stream].capture = (int)(capture - m->captures);
}

static struct capture *empty_capture(struct model *m)
{
    for (size_t i = 0; i < CAPTURES; i++) {
        if (m->captures[i].serial == 0)
            return &m->captures[i];
    }
    return NULL;
}

static bool begin_by_user(struct model *m, struct capture *capture)
{
    if (chance(m, 4))
        capture->pool = ADOPTED; /* no route */
    else if (open_route(m, capture->pool, (int)below(m, 4), capture->origin) == NULL)
        return false;
    test_begin_capture(m->streams[capture->origin].handle, (tn_cu_capture_mode)capture->mode);
    return true;
}

static bool begin_by_tarn(struct model *m, struct capture *capture)
{
    struct route *route = NULL;

    for (size_t i = 0; i < ROUTES && route == NULL; i++) {
        if (m->routes[i].serial == 0)
            route = &m->routes[i];
    }
    if (route == NULL)
        return false;
    if (DECLINED(m, tarn_capture_begin(m->pools[capture->pool].handle,
                                       m->streams[capture->origin].handle,
                                       (tarn_capture_mode)capture->mode, &capture->handle)))
        return false;
    *route = (struct route){++m->serial, capture->pool, ROUTE_CAPTURE, capture->origin,
                            (int)(capture - m->captures)};
    return true;
}

void do_begin(struct model *m)
{
    struct capture *capture = empty_capture(m);
    struct capture begun = {.pool = pick_pool(m), .origin = pick_stream(m)};

    begun.by_user = chance(m, 3);
    begun.mode = (int)below(m, 3);
    if (capture == NULL || m->pools[begun.pool].is_default || m->pools[begun.pool].is_shared ||
        eager_streams(m) < 2)
        return;
    if (m->streams[begun.origin].is_legacy) {
        REFUSED(m, TARN_ERR_INVALID_ARGUMENT,
                tarn_capture_begin(m->pools[begun.pool].handle, m->streams[begun.origin].handle,
                                   TARN_CAPTURE_GLOBAL, &begun.handle));
        return;
    }
    if (chance(m, 2))
        drain(m);
    move_last(m, begun.origin);
    *capture = begun;
    if (!(begun.by_user ? begin_by_user(m, capture) : begin_by_tarn(m, capture))) {
        memset(capture, 0, sizeof *capture);
        return;
    }
    capture->serial = ++m->serial;
    enter_capture(m, capture, capture->origin);
    trace("  capture %llu in pool %d on stream %d, %s", (unsigned long long)capture->serial,
          capture->pool, capture->origin, capture->by_user ? "by the user" : "by the library");
}

/* Another stream joins a capture, or one in it comes after another. */
void do_fork(struct model *m)
{
    struct capture *capture = pick_capture(m);
    int stream;

    if (capture == NULL || capture->is_broken)
        return;
    if (eager_streams(m) < 2 || chance(m, 3)) {
        order(m, random_lane(m, capture), random_lane(m, capture));
        return;
    }
    stream = pick_stream(m);
    if (m->streams[stream].is_legacy)
        return;
    move_last(m, stream);
    order(m, random_lane(m, capture), stream);
    enter_capture(m, capture, stream);
    memset(capture->clock[stream], 0, sizeof capture->clock[stream]);
    trace("  stream %d", stream);
}

void do_captured_alloc(struct model *m)
{
    struct capture *capture = pick_capture(m);
    size_t bytes = pick_bytes(m);
    bool is_routed;
    struct block *block;
    int lane;
    int pool;
    void *address = NULL;

    if (capture == NULL || capture->writes.count + 8 > RANGES || m->block_count == BLOCKS)
        return;
    lane = random_lane(m, capture);
    pool = serving_pool(m, lane, &is_routed);
    if (capture->is_broken) {
        REFUSED(m, TARN_ERR_CAPTURE_BROKEN,
                tarn_malloc(m->device, bytes, m->streams[lane].handle, &address));
        return;
    }
    if (!is_routed && m->config.unrouted == TARN_UNROUTED_REFUSE) {
        REFUSED(m, TARN_ERR_UNROUTED,
                tarn_malloc(m->device, bytes, m->streams[lane].handle, &address));
        return;
    }
    block = allocate(m, chance(m, 4) && !m->pools[pool].is_released ? pool : NONE, lane, bytes, 0);
    if (block != NULL && block->pool != 0) /* the default pool keeps nothing for graphs */
        touch_block(m, block, lane, true);
}

static bool is_captured(const struct model *m, const struct block *block)
{
    for (size_t i = 0; i < CAPTURES; i++) {
        if (m->captures[i].serial != 0 && m->captures[i].serial == block->capture_of)
            return true;
    }
    return false;
}

static struct capture *capture_of_block(struct model *m, const struct block *block)
{
    for (size_t i = 0; i < CAPTURES; i++) {
        if (m->captures[i].serial == block->capture_of)
            return &m->captures[i];
    }
    return NULL;
}

/* All captured work on the block must be known when it is freed, or lie behind its own stream. */
static bool settle_captured(struct model *m, struct capture *capture, struct block *block)
{
    for (int s = 0; s < STREAMS; s++) {
        if (block->ticks[s] <= capture->clock[block->home][s])
            continue;
        if (chance(m, 2))
            order(m, s, block->home);
        else if (DECLINED(m, tarn_record_stream(block->address, m->streams[s].handle)))
            return false;
    }
    return true;
}

void do_captured_free(struct model *m)
{
    struct block *block = pick_block(m, is_captured);
    struct capture *capture;
    int on = NONE;

    if (block == NULL)
        return;
    capture = capture_of_block(m, block);
    if (!capture->is_broken) {
        if (chance(m, 3) && capture->writes.count < RANGES && block->pool != 0) {
            on = random_lane(m, capture);
            touch_block(m, block, on, true);
        }
        if (!settle_captured(m, capture, block))
            return;
    }
    free_block(m, block, on, capture->serial);
}

void do_captured_touch(struct model *m)
{
    struct block *block = pick_block(m, is_captured);
    struct capture *capture;

    if (block == NULL)
        return;
    capture = capture_of_block(m, block);
    if (!capture->is_broken && capture->writes.count + 8 <= RANGES && block->pool != 0)
        touch_block(m, block, random_lane(m, capture), true);
}

/* Whether a free of a block from before the capture is known to be in it. */
static bool is_known_where_freed(const struct model *m, const struct capture *capture)
{
    bool is_known = !capture->by_user;

    for (size_t i = 0; i < ROUTES; i++) {
        const struct route *route = &m->routes[i];

        if (route->serial != 0 && route->pool == capture->pool &&
            (route->kind == ROUTE_CAPTURE || route->kind == ROUTE_STREAM) &&
            route->stream == capture->origin)
            is_known = true;
    }
    return is_known;
}

/* A block from before the capture is used in it for the last time. */
void do_captured_last_use(struct model *m)
{
    struct capture *capture = pick_capture(m);
    struct block *block = pick_block(m, is_plain);
    int lane;

    m->fault_planned = false;
    if (capture == NULL || capture->is_broken || block == NULL || block->is_exposed ||
        block->pool != capture->pool || capture->writes.count + 8 > RANGES ||
        !is_known_where_freed(m, capture))
        return;
    drain(m);
    lane = random_lane(m, capture);
    touch_block(m, block, lane, true);
    settle(m, block);
    free_block(m, block, lane, capture->serial);
}

/* Ends --------------------------------------------------------------------------------------- */

static void join_all(struct model *m, const struct capture *capture)
{
    for (int s = 0; s < STREAMS; s++) {
        if (capture->has_lane[s])
            order(m, s, capture->origin);
    }
}

/* The capture is over: its streams are free, and what it knew of blocks is past. */
static void leave_capture(struct model *m, struct capture *capture)
{
    int slot = (int)(capture - m->captures);

    for (int s = 0; s < STREAMS; s++) {
        if (m->streams[s].capture == slot)
            m->streams[s].capture = NONE;
    }
    for (size_t i = 0; i < m->block_count; i++) {
        if (m->blocks[i].capture_of == capture->serial)
            memset(m->blocks[i].ticks, 0, sizeof m->blocks[i].ticks);
    }
    for (size_t i = 0; i < ROUTES; i++) {
        if (m->routes[i].serial != 0 && m->routes[i].capture == slot)
            memset(&m->routes[i], 0, sizeof m->routes[i]);
    }
    memset(capture, 0, sizeof *capture);
}

/* Of a block of another pool that the capture used it is not said. */
static void discard_blocks(struct model *m, const struct capture *capture)
{
    for (size_t i = 0; i < m->block_count; i++) {
        struct block *block = &m->blocks[i];
        tarn_block seen;

        if (block->capture_of != capture->serial)
            continue;
        block->is_discarded = true;
        if (block->pool != capture->pool)
            block->is_discarded = tarn_block_at(block->address, &seen) == TARN_ERR_DOUBLE_FREE;
    }
}

static void abort_here(void *handle)
{
    ck_assert_int_eq(tarn_capture_abort(handle), TARN_OK);
}

static void abort_capture(struct model *m, struct capture *capture)
{
    trace("  capture %llu", (unsigned long long)capture->serial);
    if (capture->by_user) {
        tn_cu_stream origin = m->streams[capture->origin].handle;

        if (capture->is_broken) {
            test_end_broken_capture(origin);
        } else {
            join_all(m, capture);
            test_destroy_graph(test_end_capture(origin));
        }
        (void)test_ledger(); /* the driver has told the library by then */
        end_newest_route(m, capture->pool);
    } else {
        if (chance(m, 3) && !m->streams[capture->origin].is_default) {
            enter_call(m);
            test_elsewhere(abort_here, capture->handle);
            (void)leave_call(m, TARN_OK);
        } else {
            WELL_AT_ONCE(m, tarn_capture_abort(capture->handle));
        }
        discard_blocks(m, capture);
    }
    leave_capture(m, capture);
}

void do_abort(struct model *m)
{
    struct capture *capture = pick_capture(m);

    m->fault_planned = false;
    if (capture != NULL)
        abort_capture(m, capture);
}

static struct graph *empty_graph(struct model *m)
{
    for (size_t i = 0; i < GRAPHS; i++) {
        if (m->graphs[i].serial == 0)
            return &m->graphs[i];
    }
    return NULL;
}

static bool end_by_user(struct model *m, struct capture *capture, tarn_graph **graph,
                        tn_cu_graphexec *raw)
{
    tarn_pool *pool = m->pools[capture->pool].handle;
    tn_cu_graph driver_graph = test_end_capture(m->streams[capture->origin].handle);
    bool ends_first = chance(m, 2);

    if (capture->pool == ADOPTED) { /* the graph stays the user's */
        *raw = touch_instantiate(driver_graph);
        test_destroy_graph(driver_graph);
        return true;
    }
    if (ends_first)
        end_newest_route(m, capture->pool);
    if (DECLINED(m, tarn_graph_adopt(pool, driver_graph, graph)))
        WELL(m, tarn_graph_adopt(pool, driver_graph, graph));
    if (!ends_first)
        end_newest_route(m, capture->pool);
    return true;
}

static bool end_by_tarn(struct model *m, struct capture *capture, tarn_graph **graph)
{
    if (!DECLINED(m, tarn_capture_end(capture->handle, graph)))
        return true;
    trace("  it stopped");
    if (chance(m, 2)) {
        WELL(m, tarn_capture_end(capture->handle, graph));
        return true;
    }
    WELL(m, tarn_capture_abort(capture->handle));
    discard_blocks(m, capture);
    return false;
}

void do_end_capture(struct model *m)
{
    struct capture *capture = pick_capture(m);
    struct graph *graph = empty_graph(m);
    tarn_graph *ended = NULL;
    tn_cu_graphexec raw = NULL;

    if (capture == NULL || graph == NULL)
        return;
    if (capture->is_broken) {
        if (!capture->by_user)
            REFUSED(m, TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture->handle, &ended));
        m->fault_planned = false;
        abort_capture(m, capture);
        return;
    }
    trace("  capture %llu", (unsigned long long)capture->serial);
    join_all(m, capture);
    if (capture->by_user ? end_by_user(m, capture, &ended, &raw)
                         : end_by_tarn(m, capture, &ended)) {
        memset(graph, 0, sizeof *graph);
        graph->handle = ended;
        graph->raw = raw;
        graph->serial = capture->serial;
        graph->pool = capture->pool;
        graph->by_user = capture->by_user;
        graph->maybe = capture->maybe;
        graph->writes = capture->writes;
    }
    leave_capture(m, capture);
}

/* The updated graph's old section may still run, and have executables and clones of the user's. */
static void replace_section(struct graph *graph, struct graph *old, const struct capture *capture)
{
    *old = *graph;
    old->handle = NULL;
    graph->serial = capture->serial;
    graph->writes = capture->writes;
    graph->by_user = capture->by_user;
    graph->maybe = capture->maybe;
    graph->raw = NULL;
    graph->clone = NULL;
    memset(graph->launched, 0, sizeof graph->launched);
}

static bool stays_after(tarn_status status)
{
    return status == TARN_ERR_CANNOT_UPDATE || status == TARN_ERR_DEVICE_MEMORY ||
           status == TARN_ERR_DRIVER;
}

/* Puts the section into a graph of the pool; where that cannot be, it becomes one of its own. */
void do_update(struct model *m)
{
    struct capture *capture = pick_capture(m);
    struct graph *graph = pick_graph(m);
    struct graph *other = empty_graph(m);
    tarn_status status;

    if (capture == NULL || graph == NULL || other == NULL || capture->by_user)
        return;
    if (graph->pool != capture->pool) {
        REFUSED(m, TARN_ERR_INVALID_ARGUMENT, tarn_graph_update(graph->handle, capture->handle));
        return;
    }
    if (capture->is_broken) {
        REFUSED(m, TARN_ERR_CAPTURE_BROKEN, tarn_graph_update(graph->handle, capture->handle));
        return;
    }
    join_all(m, capture);
    status = CALL(m, tarn_graph_update(graph->handle, capture->handle));
    if (status == TARN_OK) {
        trace("  graph %llu becomes %llu", (unsigned long long)graph->serial,
              (unsigned long long)capture->serial);
        replace_section(graph, other, capture);
    } else {
        EXPECT(m, status == TARN_ERR_CANNOT_UPDATE || (m->fault_fired && stays_after(status)),
               "tarn_graph_update: %s; %s", tarn_status_name(status), tarn_last_error());
        trace("  %s", tarn_status_name(status));
        memset(other, 0, sizeof *other);
        other->serial = capture->serial;
        other->pool = capture->pool;
        other->writes = capture->writes;
        other->maybe = capture->maybe;
        WELL(m, tarn_capture_end(capture->handle, &other->handle));
    }
    leave_capture(m, capture);
}

void do_break(struct model *m)
{
    struct capture *capture = pick_capture(m);

    if (capture == NULL || capture->is_broken)
        return;
    trace("  capture %llu", (unsigned long long)capture->serial);
    touch_break(m->streams[capture->origin].handle);
    capture->is_broken = true;
}

struct errand {
    tarn_capture *capture;
    tarn_status status;
};

static void end_elsewhere(void *argument)
{
    struct errand *errand = argument;
    tarn_graph *graph;

    errand->status = tarn_capture_end(errand->capture, &graph);
}

void do_wrong_end(struct model *m)
{
    struct capture *capture = pick_capture(m);
    struct errand errand;

    if (capture == NULL || capture->by_user || capture->mode == TARN_CAPTURE_RELAXED)
        return;
    errand.capture = capture->handle;
    enter_call(m);
    test_elsewhere(end_elsewhere, &errand);
    (void)leave_call(m, TARN_OK);
    EXPECT(m, errand.status == TARN_ERR_WRONG_THREAD, "an end on a wrong thread answers %s",
           tarn_status_name(errand.status));
}

void do_unrouted(struct model *m)
{
    struct capture *capture = pick_capture(m);
    void *address = NULL;
    tarn_checkpoint *checkpoint = NULL;
    int lane;

    if (capture == NULL || capture->is_broken)
        return;
    lane = random_lane(m, capture);
    if (m->config.unrouted == TARN_UNROUTED_REFUSE) {
        REFUSED(m, TARN_ERR_UNROUTED,
                tarn_alloc(m->pools[0].handle, 512, 0, m->streams[lane].handle, &address));
    } else if (capture->writes.count + 8 <= RANGES) {
        struct block *block = allocate(m, 0, lane, pick_bytes(m), 0);

        if (block != NULL && block->pool != 0)
            touch_block(m, block, lane, true);
    }
    if (!capture->by_user && !m->pools[capture->pool].is_released)
        REFUSED(m, TARN_ERR_WRONG_STATE,
                tarn_checkpoint_take(m->pools[capture->pool].handle, TARN_CONTENTS_NONE,
                                     m->streams[pick_stream(m)].handle, &checkpoint));
}

void end_captures(struct model *m)
{
    for (size_t i = 0; i < CAPTURES; i++) {
        if (m->captures[i].serial != 0)
            abort_capture(m, &m->captures[i]);
    }
}

static bool has_capture_by(const struct model *m, int pool, bool by_user)
{
    for (size_t i = 0; i < CAPTURES; i++) {
        if (m->captures[i].serial != 0 && m->captures[i].by_user == by_user &&
            m->captures[i].pool == pool)
            return true;
    }
    return false;
}

bool is_maybe_captured(const struct model *m, int pool)
{
    unsigned maybe = 0;

    for (size_t i = 0; i < CAPTURES; i++)
        maybe |= m->captures[i].serial != 0 ? m->captures[i].maybe : 0;
    for (size_t i = 0; i < GRAPHS; i++)
        maybe |= m->graphs[i].serial != 0 ? m->graphs[i].maybe : 0;
    return (maybe & (1U << pool)) != 0;
}

bool has_own_capture(const struct model *m, int pool)
{
    return has_capture_by(m, pool, false);
}

bool has_user_capture(const struct model *m, int pool)
{
    return has_capture_by(m, pool, true);
}
