// SPDX-License-Identifier: Apache-2.0
/* How captures end: well, into a graph, into another graph's place, or given up. */
#include "model/state.h"

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

    if (capture->outer != NULL)
        leave_body(m, capture);
    for (size_t i = 0; i < SECTIONS; i++) {
        if (m->sections[i].root == capture->serial)
            m->sections[i].serial = m->sections[i].root = 0;
    }
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

static void abort_by_user(struct model *m, struct capture *capture)
{
    tn_cu_stream origin = m->streams[capture->origin].handle;

    if (capture->is_broken) {
        test_end_broken_capture(origin);
    } else {
        join_all(m, capture);
        test_destroy_graph(test_end_capture(origin));
    }
    (void)test_ledger(); /* the driver has told the library by then */
    end_newest_route(m, capture->pool);
    leave_capture(m, capture);
}

/* A thread's own default stream can be reached on that thread alone. Where a body of the capture is on it,
 * the driver's capture ends with that body. */
static bool is_reached_elsewhere(struct model *m, const struct capture *capture)
{
    return !m->streams[capture->origin].is_default;
}

/* ends_well: so that a graph of the user's is left as it is. */
static void abort_by_tarn(struct model *m, struct capture *capture, bool ends_well)
{
    trace("  capture %llu", (unsigned long long)capture->serial);
    if (ends_well)
        join_all(m, capture);
    if (!ends_well && chance(m, 3) && is_reached_elsewhere(m, capture)) {
        enter_call(m);
        test_elsewhere(abort_here, capture->handle);
        (void)leave_call(m, TARN_OK);
    } else {
        WELL_AT_ONCE(m, tarn_capture_abort(capture->handle));
    }
    discard_blocks(m, capture);
}

/* The bodies in it go first, the inner ones before those around them; or they find it gone. */
static void abort_all(struct model *m, struct capture *capture)
{
    bool is_body = capture->outer != NULL;
    bool goes_first = !is_body && chance(m, 2);
    bool ends_well = capture->into != NULL && !capture->is_broken;
    struct capture *body;

    if (goes_first)
        abort_by_tarn(m, capture, ends_well);
    while ((body = open_body_of(m, capture)) != NULL) {
        if (goes_first && !m->streams[body->origin].is_default) /* that may go on */
            REFUSED(m, TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(body->handle, NULL));
        abort_by_tarn(m, body, is_body);
        leave_capture(m, body);
    }
    if (!goes_first)
        abort_by_tarn(m, capture, ends_well);
    if (!is_body && ends_well)
        test_destroy_graph(capture->into);
    leave_capture(m, capture);
}

static bool has_broken(struct model *m, const struct capture *capture)
{
    bool has = capture->is_broken;

    for (size_t i = TOPS; i < CAPTURES; i++) {
        if (m->captures[i].serial != 0 && m->captures[i].outer == capture)
            has = has || has_broken(m, &m->captures[i]);
    }
    return has;
}

static void abort_capture(struct model *m, struct capture *capture)
{
    if (capture->by_user) {
        trace("  capture %llu", (unsigned long long)capture->serial);
        abort_by_user(m, capture);
    } else if (capture->outer != NULL && !has_broken(m, capture)) {
        abort_all(m, capture); /* what is around it goes on */
    } else {
        abort_all(m, top_of(capture)); /* the graph of a broken body may be gone */
    }
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

static void end_to_graph(struct model *m, struct capture *capture)
{
    tarn_graph *none = NULL;

    if (chance(m, 4))
        REFUSED(m, TARN_ERR_WRONG_STATE, tarn_capture_end(capture->handle, &none));
    if (DECLINED(m, tarn_capture_end(capture->handle, NULL)))
        WELL(m, tarn_capture_end(capture->handle, NULL));
}

static bool end_by_tarn(struct model *m, struct capture *capture, tarn_graph **graph)
{
    if (capture->into != NULL) {
        end_to_graph(m, capture);
        return true;
    }
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

/* Whether there is nothing to end yet, or nothing any more. */
static bool is_not_to_end(struct model *m, struct capture *capture)
{
    tarn_graph *ended = NULL;

    if (!capture->by_user && open_body_of(m, capture) != NULL) {
        REFUSED(m, TARN_ERR_WRONG_STATE,
                capture->into != NULL ? tarn_capture_end(capture->handle, NULL)
                                      : tarn_capture_end(capture->handle, &ended));
        return true;
    }
    if (!capture->is_broken)
        return false;
    if (!capture->by_user)
        REFUSED(m, TARN_ERR_CAPTURE_BROKEN,
                capture->into != NULL ? tarn_capture_end(capture->handle, NULL)
                                      : tarn_capture_end(capture->handle, &ended));
    m->fault_planned = false;
    abort_capture(m, capture);
    return true;
}

static struct graph *end_capture(struct model *m, struct capture *capture)
{
    struct graph *graph = empty_graph(m);
    tarn_graph *ended = NULL;
    tn_cu_graphexec raw = NULL;

    if (graph == NULL || is_not_to_end(m, capture))
        return NULL;
    trace("  capture %llu", (unsigned long long)capture->serial);
    join_all(m, capture);
    if (capture->outer != NULL) {
        end_to_graph(m, capture);
    } else if (capture->by_user ? end_by_user(m, capture, &ended, &raw)
                                : end_by_tarn(m, capture, &ended)) {
        memset(graph, 0, sizeof *graph);
        graph->handle = ended;
        graph->raw = raw;
        graph->clone = capture->into;
        graph->is_bare = capture->into != NULL;
        graph->has_nodes = capture->has_nodes;
        graph->serial = capture->serial;
        graph->pool = capture->pool;
        graph->by_user = capture->by_user;
        graph->maybe = capture->maybe;
        graph->writes = capture->writes;
    }
    leave_capture(m, capture);
    return graph;
}

void do_end_capture(struct model *m)
{
    struct capture *capture = pick_capture(m);

    if (capture != NULL)
        (void)end_capture(m, capture);
}

/* A whole section, most of whose memory others of the pool have, too. */
static struct graph *make_section(struct model *m, struct capture *capture)
{
    for (size_t i = 1 + below(m, 3); i > 0 && m->block_count < BLOCKS; i--) {
        struct block *block = allocate(m, capture->pool, capture->origin, pick_bytes(m), 0);

        if (block == NULL)
            continue;
        touch_block(m, block, capture->origin, true);
        if (chance(m, 2))
            test_spin(m->streams[capture->origin].handle, 1); /* who overtakes it shows */
        touch_block(m, block, capture->origin, true);
        if (!chance(m, 4))
            free_block(m, block, NONE, capture->serial);
    }
    return end_capture(m, capture);
}

void do_section(struct model *m)
{
    struct capture begun = {.pool = pick_pool(m), .origin = pick_stream(m)};
    struct capture *capture = empty_graph(m) != NULL ? begin_capture(m, &begun, true) : NULL;
    struct graph *graph = capture != NULL ? make_section(m, capture) : pick_graph(m);

    if (graph != NULL && graph->handle != NULL)
        replay_all(m, graph->pool);
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
    graph->has_nodes = capture->has_nodes;
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
    if (capture->into != NULL || open_body_of(m, capture) != NULL) {
        REFUSED(m, TARN_ERR_WRONG_STATE, tarn_graph_update(graph->handle, capture->handle));
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
        other->has_nodes = capture->has_nodes;
        WELL(m, tarn_capture_end(capture->handle, &other->handle));
    }
    leave_capture(m, capture);
}

void end_captures(struct model *m)
{
    for (size_t i = 0; i < TOPS; i++) { /* the bodies go with them */
        if (m->captures[i].serial != 0)
            abort_capture(m, &m->captures[i]);
    }
}
