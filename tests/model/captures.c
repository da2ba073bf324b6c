// SPDX-License-Identifier: Apache-2.0
/* Operations on captures: the library's own, and those that the user begins and has adopted. */
#include "model/state.h"

int random_lane(struct model *m, const struct capture *capture)
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

int eager_streams(const struct model *m)
{
    int count = 0;

    for (int s = 0; s < STREAMS; s++)
        count += m->streams[s].handle != NULL && !is_capturing(m, s);
    return count;
}

void enter_capture(struct model *m, struct capture *capture, int stream)
{
    capture->has_lane[stream] = true;
    m->streams[stream].capture = (int)(capture - m->captures);
}

static struct capture *empty_capture(struct model *m)
{
    for (size_t i = 0; i < TOPS; i++) {
        if (m->captures[i].serial == 0)
            return &m->captures[i];
    }
    return NULL;
}

struct capture *top_of(struct capture *capture)
{
    while (capture->outer != NULL)
        capture = capture->outer;
    return capture;
}

bool has_room(struct capture *capture)
{
    return top_of(capture)->writes.count + 8 <= RANGES;
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
    struct route *route = empty_route(m);
    tarn_pool *pool = m->pools[capture->pool].handle;
    tn_cu_stream stream = m->streams[capture->origin].handle;
    tarn_capture_mode mode = (tarn_capture_mode)capture->mode;

    if (route == NULL)
        return false;
    if (capture->into == NULL
            ? DECLINED(m, tarn_capture_begin(pool, stream, CAPTURE_MODE(mode), &capture->handle))
            : DECLINED(m,
                       tarn_capture_begin(pool, stream, CAPTURE_INTO(NULL, 0, capture->into, mode),
                                          &capture->handle)))
        return false;
    *route = (struct route){++m->serial, capture->pool, ROUTE_CAPTURE, capture->origin,
                            (int)(capture - m->captures)};
    return true;
}

/* Begins the capture that is described; NULL where that cannot be. is_plain: in a graph of its own, while
 * work may be under way. */
struct capture *begin_capture(struct model *m, struct capture *begun, bool is_plain)
{
    struct capture *capture = empty_capture(m);

    begun->mode = (int)below(m, 3);
    if (capture == NULL || m->pools[begun->pool].is_default || m->pools[begun->pool].is_shared ||
        eager_streams(m) < 2)
        return NULL;
    if (m->streams[begun->origin].is_legacy) {
        REFUSED(m, TARN_ERR_INVALID_ARGUMENT,
                tarn_capture_begin(m->pools[begun->pool].handle, m->streams[begun->origin].handle,
                                   NULL, &begun->handle));
        return NULL;
    }
    if (!is_plain && chance(m, 2))
        drain(m);
    move_last(m, begun->origin);
    if (!is_plain && !begun->by_user && chance(m, 4))
        begun->into = test_graph();
    *capture = *begun;
    if (!(begun->by_user ? begin_by_user(m, capture) : begin_by_tarn(m, capture))) {
        if (capture->into != NULL)
            test_destroy_graph(capture->into);
        memset(capture, 0, sizeof *capture);
        return NULL;
    }
    capture->serial = ++m->serial;
    enter_capture(m, capture, capture->origin);
    trace("  capture %llu in pool %d on stream %d, %s%s", (unsigned long long)capture->serial,
          capture->pool, capture->origin, capture->by_user ? "by the user" : "by the library",
          capture->into != NULL ? ", into a graph" : "");
    return capture;
}

void do_begin(struct model *m)
{
    struct capture begun = {.pool = pick_pool(m), .origin = pick_stream(m)};

    begun.by_user = chance(m, 3);
    (void)begin_capture(m, &begun, false);
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
    memset(capture->clock[stream], 0, sizeof capture->clock[stream]);
    order(m, random_lane(m, capture), stream);
    enter_capture(m, capture, stream);
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

    if (capture == NULL || !has_room(capture) || m->block_count == BLOCKS)
        return;
    lane = random_lane(m, capture);
    pool = serving_pool(m, lane, &is_routed);
    if (capture->is_broken) {
        REFUSED(m, TARN_ERR_CAPTURE_BROKEN,
                tarn_malloc(m->device, bytes, m->streams[lane].handle, &address));
        return;
    }
    if (capture->outer != NULL && pool != capture->pool) {
        REFUSED(m, TARN_ERR_WRONG_STATE,
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
    return !block->is_discarded && is_open_capture(m, block->capture_of);
}

/* The one in which it is used now: its own, or a body in that. */
static struct capture *capture_of_block(struct model *m, const struct block *block)
{
    uint64_t serial = is_open_capture(m, block->used_in) ? block->used_in : block->capture_of;

    for (size_t i = 0; i < CAPTURES; i++) {
        if (m->captures[i].serial == serial)
            return &m->captures[i];
    }
    return NULL;
}

/* All captured work on the block must be known when it is freed, or lie behind its own stream; which
 * has no part in the capture where that is another section than the block was allocated in. */
bool settle_captured(struct model *m, struct capture *capture, struct block *block)
{
    bool is_home = block->section == capture->serial;

    for (int s = 0; s < STREAMS; s++) {
        if (!capture->has_lane[s] || block->ticks[s] == 0 ||
            (s == block->node_lane && block->ticks[s] == block->node_tick) ||
            (is_home && block->ticks[s] <= capture->clock[block->home][s]))
            continue;
        if (is_home && chance(m, 2))
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
        if (chance(m, 3) && has_room(capture) && block->pool != 0) {
            on = random_lane(m, capture);
            touch_block(m, block, on, true);
        }
        if (!settle_captured(m, capture, block))
            return;
    } else {
        int lane = random_lane(m, capture);

        REFUSED(m, TARN_ERR_CAPTURE_BROKEN,
                tarn_record_stream(block->address, m->streams[lane].handle));
        REFUSED(m, TARN_ERR_CAPTURE_BROKEN, tarn_free_on(block->address, m->streams[lane].handle));
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
    if (!capture->is_broken && has_room(capture) && block->pool != 0)
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
        block->pool != capture->pool || !has_room(capture) || !is_known_where_freed(m, capture))
        return;
    drain(m);
    lane = random_lane(m, capture);
    touch_block(m, block, lane, true);
    settle(m, block);
    free_block(m, block, lane, capture->serial);
}

/* Misuse, and questions -------------------------------------------------------------------------- */

void do_break(struct model *m)
{
    struct capture *capture = pick_capture(m);

    if (capture == NULL || capture->is_broken || open_body_of(m, capture) != NULL)
        return;
    trace("  capture %llu", (unsigned long long)capture->serial);
    touch_break(m->streams[capture->origin].handle);
    capture->is_broken = true;
}

struct errand {
    tarn_capture *capture;
    bool is_to_graph;
    tarn_status status;
};

static void end_elsewhere(void *argument)
{
    struct errand *errand = argument;
    tarn_graph *graph;

    errand->status = errand->is_to_graph ? tarn_capture_end(errand->capture, NULL)
                                         : tarn_capture_end(errand->capture, &graph);
}

void do_wrong_end(struct model *m)
{
    struct capture *capture = pick_capture(m);
    struct errand errand;

    if (capture == NULL || capture->by_user || capture->mode == TARN_CAPTURE_RELAXED)
        return;
    errand.capture = capture->handle;
    errand.is_to_graph = capture->into != NULL;
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
    if (capture->outer != NULL) {
        tarn_status status = CALL(
            m, tarn_pool_malloc(m->pools[0].handle, 512, 0, m->streams[lane].handle, &address));

        EXPECT(m,
               status == TARN_ERR_WRONG_STATE ||
                   (status == TARN_ERR_UNROUTED && m->config.unrouted == TARN_UNROUTED_REFUSE),
               "an allocation from the default pool in a body: %s", tarn_status_name(status));
    } else if (m->config.unrouted == TARN_UNROUTED_REFUSE) {
        REFUSED(m, TARN_ERR_UNROUTED,
                tarn_pool_malloc(m->pools[0].handle, 512, 0, m->streams[lane].handle, &address));
    } else if (has_room(capture)) {
        struct block *block = allocate(m, 0, lane, pick_bytes(m), 0);

        if (block != NULL && block->pool != 0)
            touch_block(m, block, lane, true);
    }
    if (!capture->by_user && !m->pools[capture->pool].is_released)
        REFUSED(m, TARN_ERR_WRONG_STATE,
                tarn_checkpoint_take(m->pools[capture->pool].handle, TARN_CONTENTS_NONE,
                                     m->streams[pick_stream(m)].handle, &checkpoint));
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
