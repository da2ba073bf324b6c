// SPDX-License-Identifier: Apache-2.0
/* The features of graphs: captures, adopted ones, bodies of conditional nodes, replays, guards, updates. */
#include "pairs/pairs.h"

enum { OUTPUT, INPUT, SECOND, THIRD };

/* Sections -------------------------------------------------------------------------------------- */

/* Of the capture that the stream is in: what it allocates comes from the pool, or by the routes where that is NULL. */
void pairs_section(struct pairs_member *m, tarn_pool *pool, tn_cu_stream stream, uint32_t pattern,
                   int output)
{
    void *temporary = NULL;
    tarn_status status = pool != NULL
                             ? tarn_pool_malloc(pool, PAIRS_STANDARD, 0, stream, &temporary)
                             : tarn_malloc(pw.device, PAIRS_STANDARD, stream, &temporary);

    (void)m;
    if (!pairs_need(status, "an allocation in a section") || !pairs_is_there(output))
        return;
    if (DRIVE(pairs_write(stream, temporary, PAIRS_STANDARD, pattern)))
        (void)DRIVE(cu.cuMemcpyAsync((tn_cu_deviceptr)(uintptr_t)pairs_address(output),
                                     (tn_cu_deviceptr)(uintptr_t)temporary, PAIRS_STANDARD,
                                     stream));
    GIVE(tarn_free(temporary));
}

/* The capture's begin in the shared pool; the capture's home is in number. */
static bool begin_shared(struct pairs_member *m, tn_cu_stream stream)
{
    tarn_status status;

    do {
        m->pool = pairs_pool(m);
        if (m->pool == NULL)
            return false;
        m->number = (uint64_t)pairs_home_of(m->pool);
        status = tarn_capture_begin(m->pool, stream, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL),
                                    &m->captures[0]);
    } while (pairs_is_stale(m, m->pool, status));
    if (!pairs_need(status, "tarn_capture_begin"))
        return false;
    pairs_count_capture((int)m->number, 1);
    return true;
}

/* NULL: the device is lost, and the capture is given up. */
static tarn_graph *end_capture(struct pairs_member *m, tarn_capture *capture)
{
    tarn_graph *graph = NULL;

    if (capture == NULL)
        return NULL;
    if (!NEED(tarn_capture_end(capture, &graph))) {
        GIVE(tarn_capture_abort(capture));
        pairs_discard(m->module == &pairs_capture ? m->blocks[SECOND] : PAIRS_NONE);
        graph = NULL;
    }
    pairs_count_capture((int)m->number, -1);
    return graph;
}

tarn_graph *pairs_graph(struct pairs_member *m, tarn_pool *pool, tn_cu_stream stream,
                        uint32_t pattern, int output)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    if (!NEED(tarn_capture_begin(pool, stream, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL), &capture)))
        return NULL;
    pairs_section(m, NULL, stream, pattern, output);
    if (NEED(tarn_capture_end(capture, &graph)))
        return graph;
    GIVE(tarn_capture_abort(capture));
    return NULL;
}

bool pairs_launch(tarn_graph *graph, tn_cu_stream stream, uint32_t pattern, int output)
{
    pairs_come_after(stream, output);
    if (graph == NULL || !NEED(tarn_graph_replay(graph, stream)))
        return false;
    pairs_written(output, pattern, stream);
    return true;
}

void pairs_end_graph(tarn_graph **graph)
{
    if (*graph != NULL)
        GIVE(tarn_graph_destroy(*graph));
    *graph = NULL;
}

static void spoil(int block, tn_cu_stream stream)
{
    pairs_fill(block, stream);
}

static void make_output(struct pairs_member *m)
{
    m->blocks[OUTPUT] = pairs_alloc_default(PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[OUTPUT], m->stream);
    m->patterns[OUTPUT] = pairs_pattern();
}

static void look_at_all(struct pairs_member *m)
{
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_look_at(m->blocks[i]);
}

static void finish(struct pairs_member *m)
{
    pairs_end_graph(&m->graphs[0]);
    pairs_end_graph(&m->graphs[1]);
    for (int i = 0; i < PAIRS_OWN; i++)
        pairs_free(&m->blocks[i]);
}

/* The output is another one first, so that the replay is what writes the pattern. */
static void replay_twice(struct pairs_member *m)
{
    tn_cu_stream stream = pairs_free_stream(m);

    for (int i = 0; i < 2 && m->graphs[0] != NULL; i++) {
        spoil(m->blocks[OUTPUT], stream);
        (void)pairs_launch(m->graphs[0], stream, m->patterns[OUTPUT], m->blocks[OUTPUT]);
    }
}

static void replay_and_look(struct pairs_member *m)
{
    replay_twice(m);
    look_at_all(m);
}

/* Capture: a temporary block, and one that stays. */
static void capture_begin(struct pairs_member *m)
{
    m->streams[0] = pairs_free_stream(m);
    if (!begin_shared(m, m->streams[0]))
        return;
    pairs_section(m, NULL, m->streams[0], m->patterns[OUTPUT], m->blocks[OUTPUT]);
    m->blocks[SECOND] = pairs_malloc(PAIRS_STANDARD, m->streams[0]);
    pairs_fill(m->blocks[SECOND], m->streams[0]);
}

static void capture_end(struct pairs_member *m)
{
    uint32_t pattern;
    tarn_capture *capture = m->captures[0];

    if (capture == NULL)
        return;
    pairs_section(m, NULL, m->streams[0], m->patterns[OUTPUT], m->blocks[OUTPUT]);
    m->captures[0] = NULL;
    m->graphs[0] = end_capture(m, capture);
    replay_twice(m);
    if (m->graphs[0] == NULL || !pairs_is_there(m->blocks[SECOND]) || pairs_is_concurrent())
        return;
    pattern = pw.blocks[m->blocks[SECOND]].pattern;
    pairs_written(m->blocks[SECOND], pattern, pairs_free_stream(m));
    pairs_look_at(m->blocks[SECOND]);
    pw.blocks[m->blocks[SECOND]].is_known = false; /* graphs from before this one may have had it */
}

const struct pairs_module pairs_capture = {
    .name = "capture",
    .what = "a section with a temporary block and one that stays; its graph is replayed",
    .prepare = make_output,
    .begin = capture_begin,
    .end = capture_end,
    .verify = replay_and_look,
    .finish = finish,
};

/* Adoption: a capture of the program's own, without a route, or with the one that is open. */
static void adoption_begin(struct pairs_member *m)
{
    m->streams[0] = pairs_free_stream(m);
    m->is_open = pairs_is_well() &&
                 DRIVE(cu.cuStreamBeginCapture(m->streams[0], TN_CU_CAPTURE_MODE_THREAD_LOCAL));
    if (!m->is_open)
        return;
    m->streams[1] = m->streams[0];
    m->blocks[SECOND] = pairs_malloc(PAIRS_STANDARD, m->streams[0]);
    m->number = pairs_is_there(m->blocks[SECOND]) ? (uint64_t)pw.blocks[m->blocks[SECOND]].home
                                                  : UINT64_MAX;
    pairs_count_capture((int)m->number, 1);
    pw.loose += 1;
    pairs_section(m, NULL, m->streams[0], m->patterns[OUTPUT], m->blocks[OUTPUT]);
}

static void adoption_end(struct pairs_member *m)
{
    bool is_ended;

    if (!m->is_open)
        return;
    pairs_section(m, NULL, m->streams[0], m->patterns[OUTPUT], m->blocks[OUTPUT]);
    is_ended = DRIVE(cu.cuStreamEndCapture(m->streams[0], &m->raw));
    pairs_count_capture((int)m->number, -1);
    m->is_open = false;
    if (!is_ended || m->raw == NULL)
        return;
    if ((int)m->number >= 10 && (int)m->number == pw.home) { /* a route has led it to the pool */
        if (NEED(tarn_graph_adopt(pw.pool, m->raw, &m->graphs[0])))
            m->raw = NULL;
        replay_twice(m);
    } else {
        tn_cu_graphexec exec = NULL;

        pairs_relax(true);
        pairs_come_after(pairs_free_stream(m), m->blocks[OUTPUT]);
        if (DRIVE(cu.cuGraphInstantiateWithFlags(&exec, m->raw, 0)) &&
            DRIVE(cu.cuGraphLaunch(exec, pairs_free_stream(m))))
            pairs_written(m->blocks[OUTPUT], m->patterns[OUTPUT], pairs_free_stream(m));
        if (exec != NULL)
            (void)DRIVE(cu.cuGraphExecDestroy(exec));
        pairs_relax(false);
    }
}

/* The adopted pool goes with its graph and its last block. A block of which nobody says where it was used last
 * keeps it until the device is proven idle, as a trim does. */
static void adoption_finish(struct pairs_member *m)
{
    tarn_stats stats = TARN_STATS_INIT;
    bool is_told = pw.seed % 2 == 0;
    int64_t deadline;
    uint64_t pools;

    GIVE(tarn_device_stats(pw.device, &stats));
    pools = stats.pool_count;
    if (pairs_is_well())
        test_wait_for_all();
    if (is_told)
        pairs_free_on(&m->blocks[SECOND], m->streams[1]);
    if (m->raw != NULL && cu.cuGraphDestroy(m->raw) != TN_CUDA_SUCCESS)
        EXPECT(!pairs_is_well(), "a graph is not destroyed");
    m->raw = NULL;
    pw.loose -= m->streams[1] != NULL;
    finish(m);
    if (!pairs_is_well() || m->number != UINT64_MAX)
        return;
    deadline = test_deadline() - INT64_C(40000000000);
    do {
        if (!is_told)
            (void)NEED(
                tarn_device_trim(pw.device, 0, NULL)); /* the graph may end behind the first one */
        GIVE(tarn_device_stats(pw.device, &stats));
        if (stats.pool_count < pools)
            return;
    } while (test_pause(deadline));
    pairs_fail("the adopted pool stays: %llu pools", (unsigned long long)stats.pool_count);
}

const struct pairs_module pairs_adoption = {
    .name = "adoption",
    .what = "a capture of the program's own that gets a pool, or is handed over",
    .prepare = make_output,
    .begin = adoption_begin,
    .end = adoption_end,
    .verify = look_at_all,
    .finish = adoption_finish,
};

/* Body: the section is in a conditional node, captured on a stream of its own. */
static tn_cu_graph add_body(tn_cu_stream stream)
{
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;
    const tn_cu_graphnode *nodes = NULL;
    const tn_cu_edge_data *edges = NULL;
    tn_cu_node_params params = {.type = TN_CU_NODE_CONDITIONAL};
    tn_cu_graph graph = NULL;
    tn_cu_graphnode node;
    size_t count = 0;

    params.conditional.type = TN_CU_GRAPH_COND_IF;
    params.conditional.size = 1;
    if (!DRIVE(cu.cuStreamGetCaptureInfo(stream, &status, NULL, &graph, &nodes, &edges, &count)) ||
        status != TN_CU_CAPTURE_STATUS_ACTIVE ||
        !DRIVE(cu.cuCtxGetCurrent(&params.conditional.ctx)) ||
        !DRIVE(cu.cuGraphConditionalHandleCreate(&params.conditional.handle, graph,
                                                 params.conditional.ctx, 1,
                                                 TN_CU_GRAPH_COND_ASSIGN_DEFAULT)) ||
        !DRIVE(cu.cuGraphAddNode(&node, graph, nodes, NULL, count, &params)) ||
        !DRIVE(cu.cuStreamUpdateCaptureDependencies(stream, &node, NULL, 1, 1)))
        return NULL;
    return params.conditional.bodies[0];
}

static void body_prepare(struct pairs_member *m)
{
    make_output(m);
    m->streams[1] = test_stream();
}

static void body_begin(struct pairs_member *m)
{
    tn_cu_graph body;
    tarn_status status;

    m->streams[0] = pairs_free_stream(m);
    if (!begin_shared(m, m->streams[0]))
        return;
    body = add_body(m->streams[0]);
    if (body == NULL)
        return;
    status = tarn_capture_begin(m->pool, m->streams[1],
                                CAPTURE_INTO(m->captures[0], 1, body, TARN_CAPTURE_THREAD_LOCAL),
                                &m->captures[1]);
    m->is_refused = pairs_is_stale(m, m->pool, status);
    if (m->is_refused || !pairs_need(status, "tarn_capture_begin into a graph"))
        return;
    pairs_section(m, NULL, m->streams[1], m->patterns[OUTPUT], m->blocks[OUTPUT]);
}

static void body_end(struct pairs_member *m)
{
    tarn_capture *outer = m->captures[0];

    if (m->captures[1] != NULL) {
        pairs_section(m, NULL, m->streams[1], m->patterns[OUTPUT], m->blocks[OUTPUT]);
        if (!NEED(tarn_capture_end(m->captures[1], NULL)))
            GIVE(tarn_capture_abort(m->captures[1]));
    }
    m->captures[0] = NULL;
    m->captures[1] = NULL;
    m->graphs[0] = end_capture(m, outer);
    if (m->is_refused) /* its body is empty */
        pairs_end_graph(&m->graphs[0]);
    replay_twice(m);
}

static void body_finish(struct pairs_member *m)
{
    finish(m);
    test_destroy_stream(m->streams[1]);
}

const struct pairs_module pairs_body = {
    .name = "body",
    .what = "a section in the body of a conditional node",
    .prepare = body_prepare,
    .begin = body_begin,
    .end = body_end,
    .verify = replay_and_look,
    .finish = body_finish,
};

/* Replay: two graphs of one pool, on two streams. */
static void replay_prepare(struct pairs_member *m)
{
    tarn_pool *pool = pairs_pool(m);

    make_output(m);
    m->blocks[SECOND] = pairs_alloc_default(PAIRS_STANDARD, m->stream);
    m->patterns[SECOND] = pairs_pattern();
    m->graphs[0] = pairs_graph(m, pool, m->stream, m->patterns[OUTPUT], m->blocks[OUTPUT]);
    if (pw.seed % 2 == 0) /* else it is the pool's only one */
        m->graphs[1] = pairs_graph(m, pool, m->stream, m->patterns[SECOND], m->blocks[SECOND]);
}

static void replay_begin(struct pairs_member *m)
{
    tn_cu_stream stream = pairs_free_stream(m);

    spoil(m->blocks[OUTPUT], stream);
    pairs_spin(stream, 1);
    (void)pairs_launch(m->graphs[0], stream, m->patterns[OUTPUT], m->blocks[OUTPUT]);
}

static void replay_end(struct pairs_member *m)
{
    if (pairs_is_capturing(m->side))
        return;
    spoil(m->blocks[SECOND], m->side);
    (void)pairs_launch(m->graphs[1], m->side, m->patterns[SECOND], m->blocks[SECOND]);
    look_at_all(m);
    (void)pairs_launch(m->graphs[0], m->side, m->patterns[OUTPUT], m->blocks[OUTPUT]);
}

const struct pairs_module pairs_replay = {
    .name = "replay",
    .what = "two graphs of one pool are replayed on two streams",
    .prepare = replay_prepare,
    .begin = replay_begin,
    .end = replay_end,
    .verify = replay_and_look,
    .finish = finish,
};

/* Guard: a graph of the second pool reads a block of the shared one, which is freed. One graph keeps its input, the
 * other one is stale then. */
static tarn_graph *make_reader(struct pairs_member *m, int output, int input)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    if (!NEED(tarn_capture_begin(pw.other, m->stream, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL),
                                 &capture)))
        return NULL;
    pairs_spin(m->stream, 2);
    pairs_copy(output, input, m->stream);
    return NEED(tarn_capture_end(capture, &graph)) ? graph : NULL;
}

static void guard_prepare(struct pairs_member *m)
{
    make_output(m);
    m->blocks[SECOND] = pairs_alloc_default(PAIRS_STANDARD, m->stream);
    m->blocks[INPUT] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    m->blocks[THIRD] = pairs_alloc(m, PAIRS_STANDARD, m->stream);
    pairs_fill(m->blocks[INPUT], m->stream);
    pairs_fill(m->blocks[THIRD], m->stream);
    m->graphs[0] = make_reader(m, m->blocks[OUTPUT], m->blocks[INPUT]);
    m->graphs[1] = make_reader(m, m->blocks[SECOND], m->blocks[THIRD]);
    (void)NEED(tarn_graph_guard(m->graphs[0], TARN_GUARD_KEEP, NULL));
    (void)NEED(tarn_graph_guard(m->graphs[1], TARN_GUARD_REFUSE, NULL));
}

/* Writes a whole pattern into the input. */
static void write_input(struct pairs_member *m, int block, tn_cu_stream stream)
{
    uint32_t pattern = pairs_pattern();

    if (!pairs_is_there(block) || pairs_is_capturing(stream))
        return;
    pairs_come_after(stream, block);
    if (DRIVE(pairs_write(stream, pairs_address(block), PAIRS_STANDARD, pattern)))
        pairs_written(block, pattern, stream);
    m->patterns[INPUT] = pattern;
}

/* Whether the input lives on while the other module acts, read by a replay on a stream that nothing else orders. */
static bool input_lives_on(struct pairs_member *m)
{
    return !pairs_is_concurrent() && pw.seed % 4 == 2 && !pairs_is_capturing(m->side);
}

static void free_inputs(struct pairs_member *m, tn_cu_stream stream)
{
    if (pairs_is_there(m->blocks[INPUT]) && pw.blocks[m->blocks[INPUT]].is_known)
        m->patterns[INPUT] =
            pw.blocks[m->blocks[INPUT]].pattern; /* a restore may have written it */
    pairs_free_on(&m->blocks[INPUT], stream);
    pairs_free(&m->blocks[THIRD]);
}

static void guard_begin(struct pairs_member *m)
{
    tn_cu_stream stream = pairs_free_stream(m);
    tn_cu_stream launching = input_lives_on(m) ? m->side : stream;

    m->is_open = pairs_is_there(m->blocks[INPUT]) && !pairs_is_capturing(stream);
    write_input(m, m->blocks[INPUT], stream);
    m->number = (uint64_t)m->blocks[INPUT];
    spoil(m->blocks[OUTPUT], stream);
    pairs_come_after(launching, m->blocks[INPUT]);
    if (m->is_open)
        (void)pairs_launch(m->graphs[0], launching, m->patterns[INPUT], m->blocks[OUTPUT]);
    m->is_kept = pairs_is_concurrent() || launching != stream;
    if (!m->is_kept)
        free_inputs(m, stream);
}

static void guard_end(struct pairs_member *m)
{
    tn_cu_stream stream = pairs_free_stream(m);
    int input = (int)m->number;
    tarn_status status;

    pairs_look_at(m->blocks[OUTPUT]);
    if (m->is_kept)
        free_inputs(m, stream);
    if (m->graphs[0] == NULL || m->graphs[1] == NULL)
        return;
    if (m->is_open && pairs_is_there(input)) { /* a restore has taken it back */
        status = tarn_graph_replay(m->graphs[0], stream);
        EXPECT(status == TARN_ERR_STALE || !pairs_is_well(), "whose input is live again: %s",
               tarn_status_name(status));
    } else if (m->is_open) {
        spoil(m->blocks[OUTPUT], stream);
        (void)pairs_launch(m->graphs[0], stream, m->patterns[INPUT], m->blocks[OUTPUT]);
    }
    status = tarn_graph_replay(m->graphs[1], stream);
    EXPECT(status == TARN_ERR_STALE || !pairs_is_well(), "the other graph: %s",
           tarn_status_name(status));
}

static void guard_finish(struct pairs_member *m)
{
    int input = (int)m->number;

    finish(m);
    if (pairs_is_there(input))
        pairs_free(&input);
}

const struct pairs_module pairs_guard = {
    .name = "guard",
    .what = "inputs of guarded graphs are freed: one is kept, one graph stale",
    .prepare = guard_prepare,
    .begin = guard_begin,
    .end = guard_end,
    .verify = look_at_all,
    .finish = guard_finish,
};

/* Update: the executable takes a new section. */
static void update_prepare(struct pairs_member *m)
{
    make_output(m);
    m->graphs[0] = pairs_graph(m, pairs_pool(m), m->stream, m->patterns[OUTPUT], m->blocks[OUTPUT]);
    m->patterns[SECOND] = (uint32_t)pairs_home_of(pairs_pool(m));
}

static void update_begin(struct pairs_member *m)
{
    /* One that nobody else uses: a section with other nodes is another one. */
    m->streams[0] = pw.streams[4 + m->index];
    if (m->graphs[0] == NULL)
        return;
    (void)pairs_launch(m->graphs[0], m->streams[0], m->patterns[OUTPUT], m->blocks[OUTPUT]);
    if (!begin_shared(m, m->streams[0]))
        return;
    m->patterns[OUTPUT] = pairs_pattern();
    pairs_section(m, NULL, m->streams[0], m->patterns[OUTPUT], m->blocks[OUTPUT]);
}

static void update_end(struct pairs_member *m)
{
    tarn_capture *capture = m->captures[0];
    tarn_status status;

    if (capture == NULL)
        return;
    m->captures[0] = NULL;
    status = tarn_graph_update(m->graphs[0], capture);
    if (status == TARN_ERR_INVALID_ARGUMENT && m->patterns[SECOND] != m->number) {
        /* The graph's pool was released before the capture began in another one. */
        GIVE(tarn_capture_abort(capture));
        pairs_end_graph(&m->graphs[0]);
    } else if (!pairs_need(status, "tarn_graph_update")) {
        GIVE(tarn_capture_abort(capture));
    }
    pairs_count_capture((int)m->number, -1);
    replay_twice(m);
}

const struct pairs_module pairs_update = {
    .name = "update",
    .what = "an executable takes a new section",
    .prepare = update_prepare,
    .begin = update_begin,
    .end = update_end,
    .verify = replay_and_look,
    .finish = finish,
};
