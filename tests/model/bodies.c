// SPDX-License-Identifier: Apache-2.0
/* Operations on bodies of conditional nodes. A body is a capture like others, of a stream of its own;
 * what is special is where it stands: at its node, so behind what came before that in its outer capture,
 * and before what comes after it there. So to the outer capture all work of a body is one touch in the
 * node's lane.
 *
 * Every launch begins with the node's value, which nothing changes: it is known which bodies run. */
#include "model/state.h"

/* One that has no open body itself. */
struct capture *open_body_of(struct model *m, const struct capture *capture)
{
    struct capture *body = NULL;
    struct capture *found;

    for (size_t i = TOPS; i < CAPTURES; i++) {
        if (m->captures[i].serial != 0 && m->captures[i].outer == capture)
            body = &m->captures[i];
    }
    found = body != NULL ? open_body_of(m, body) : NULL;
    return found != NULL ? found : body;
}

static struct capture *empty_capture(struct model *m)
{
    for (size_t i = TOPS; i < CAPTURES; i++) {
        if (m->captures[i].serial == 0)
            return &m->captures[i];
    }
    return NULL;
}

static struct section *empty_section(struct model *m)
{
    for (size_t i = 0; i < SECTIONS; i++) {
        if (m->sections[i].serial == 0)
            return &m->sections[i];
    }
    return NULL;
}

static void add_node(struct model *m, struct capture *outer)
{
    static const tn_cu_conditional_type types[] = {TN_CU_GRAPH_COND_IF, TN_CU_GRAPH_COND_SWITCH,
                                                   TN_CU_GRAPH_COND_WHILE};
    tn_cu_conditional_type type = types[below(m, 3)];
    unsigned size = 1 + (unsigned)below(m, TEST_BODIES_MAX);
    unsigned value = (unsigned)below(m, TEST_BODIES_MAX + 1);
    struct node *node = &outer->node;

    if (type == TN_CU_GRAPH_COND_IF)
        size = size > 2 ? 2 : size;
    if (type == TN_CU_GRAPH_COND_WHILE) {
        size = 1;
        value = 0; /* nothing would end it */
    }
    node->lane = random_lane(m, outer);
    node->size = size;
    node->chosen = type == TN_CU_GRAPH_COND_SWITCH ? value : value == 0;
    node->made = test_add_conditional(m->streams[node->lane].handle, type, size, value);
    node->used = 0;
    node->group = ++outer->group_count;
    outer->clock[node->lane][node->lane] += 1;
    memcpy(node->clock, outer->clock[node->lane], sizeof node->clock);
    outer->has_nodes = true;
    trace("  node of type %d with %u bodies, value %u", (int)type, size, value);
}

static bool begin_body(struct model *m, struct capture *body, uint64_t group)
{
    struct capture *outer = body->outer;
    struct route *route = empty_route(m);

    if (route == NULL ||
        DECLINED(m, tarn_capture_begin(m->pools[body->pool].handle, m->streams[body->origin].handle,
                                       CAPTURE_INTO(outer->handle, group, body->into,
                                                    (tarn_capture_mode)body->mode),
                                       &body->handle)))
        return false;
    *route = (struct route){++m->serial, body->pool, ROUTE_CAPTURE, body->origin,
                            (int)(body - m->captures)};
    return true;
}

/* Captures the next body of the outer capture's last node; of another group than the bodies before it
 * now and then, which costs memory and is right too. */
void do_begin_body(struct model *m)
{
    struct capture *outer = pick_capture(m);
    struct capture *capture = empty_capture(m);
    struct section *section = empty_section(m);
    struct capture body = {.origin = pick_stream(m), .mode = (int)below(m, 3), .outer = outer};
    struct node *node = outer != NULL ? &outer->node : NULL;
    uint64_t group;

    if (outer == NULL || capture == NULL || section == NULL || outer->by_user || outer->is_broken ||
        top_of(outer)->is_broken || eager_streams(m) < 2 || m->streams[body.origin].is_legacy ||
        m->pools[outer->pool].is_released)
        return;
    if (node->used == node->size || chance(m, 8))
        add_node(m, outer);
    group = chance(m, 8) ? ++outer->group_count : node->group;
    body.pool = outer->pool;
    body.into = node->made.bodies[node->used];
    body.place = *node;
    body.runs = node->used == node->chosen;
    move_last(m, body.origin);
    *capture = body;
    if (!begin_body(m, capture, group)) {
        memset(capture, 0, sizeof *capture);
        return;
    }
    node->used += 1;
    capture->serial = ++m->serial;
    enter_capture(m, capture, capture->origin);
    *section =
        (struct section){capture->serial, outer->serial, root_of(m, outer->serial), group, false};
    trace("  body %llu of capture %llu, group %llu, on stream %d%s",
          (unsigned long long)capture->serial, (unsigned long long)outer->serial,
          (unsigned long long)group, capture->origin, capture->runs ? "" : ", which does not run");
}

/* What the body used is, to the capture around it, used where the node stands. */
void leave_body(struct model *m, struct capture *body)
{
    struct capture *outer = body->outer;
    int lane = body->place.lane;

    for (size_t i = 0; i < m->block_count; i++) {
        struct block *block = &m->blocks[i];

        if (block->capture_of != body->serial && block->used_in != body->serial)
            continue;
        for (int s = 0; s < STREAMS; s++) {
            if (body->has_lane[s])
                block->ticks[s] = 0;
        }
        if (block->ticks[lane] < body->place.clock[lane]) {
            block->ticks[lane] = body->place.clock[lane];
            block->node_lane = lane;
            block->node_tick = block->ticks[lane];
        }
        if (block->capture_of != body->serial)
            continue;
        block->capture_of = outer->serial;
        block->is_unsure = block->is_unsure || !body->runs;
    }
    for (size_t i = 0; i < SECTIONS; i++) {
        if (m->sections[i].serial == body->serial)
            m->sections[i].has_ended = true;
    }
}

static struct capture *pick_body(struct model *m)
{
    struct capture *body = &m->captures[TOPS + below(m, CAPTURES - TOPS)];

    return body->serial != 0 && !body->is_broken && has_room(body) ? body : NULL;
}

/* Of an open capture, and in use by no body in that. */
static bool is_captured_idle(const struct model *m, const struct block *block)
{
    return !block->is_discarded && is_open_capture(m, block->capture_of) &&
           !is_open_capture(m, block->used_in);
}

/* A block of the outer capture, whose use there lies before the node, is used in a body. After that it
 * serves nothing in the outer capture again. */
void do_use_in_body(struct model *m)
{
    struct capture *body = pick_body(m);
    struct block *block = body != NULL ? pick_block(m, is_captured_idle) : NULL;
    int lane;

    if (block == NULL || block->capture_of != body->outer->serial || block->pool != body->pool)
        return;
    for (int s = 0; s < STREAMS; s++) {
        if (block->ticks[s] > body->place.clock[s])
            return;
    }
    if (!settle_captured(m, body->outer, block))
        return;
    lane = random_lane(m, body);
    if (DECLINED(m, tarn_record_stream(block->address, m->streams[lane].handle)))
        return;
    trace("  block %llu in body %llu, stream %d", (unsigned long long)block->serial,
          (unsigned long long)body->serial, lane);
    block->used_in = body->serial;
    touch_block(m, block, lane, true);
}

/* Calls that a body, and what is around it, refuse. */
void do_misuse_body(struct model *m)
{
    struct capture *body = pick_body(m);
    tarn_capture *other = NULL;
    tarn_graph *graph = NULL;
    void *address = NULL;
    int lane;

    if (body == NULL)
        return;
    lane = random_lane(m, body);
    REFUSED(m, TARN_ERR_WRONG_STATE, tarn_capture_end(body->handle, &graph));
    REFUSED(m, TARN_ERR_WRONG_STATE,
            tarn_capture_begin(m->pools[body->pool].handle, m->streams[lane].handle,
                               CAPTURE_INTO(NULL, 0, body->into, TARN_CAPTURE_RELAXED), &other));
    for (int p = 1; p < POOLS; p++) {
        if (p == body->pool || m->pools[p].handle == NULL || m->pools[p].is_released)
            continue;
        REFUSED(m, TARN_ERR_WRONG_STATE,
                tarn_pool_malloc(m->pools[p].handle, 512, 0, m->streams[lane].handle, &address));
        REFUSED(m, TARN_ERR_INVALID_ARGUMENT,
                tarn_capture_begin(m->pools[p].handle, m->streams[pick_stream(m)].handle,
                                   CAPTURE_INTO(body->handle, 1, body->into, TARN_CAPTURE_RELAXED),
                                   &other));
    }
}
