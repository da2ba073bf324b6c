// SPDX-License-Identifier: Apache-2.0
/* Operations on graphs. A replay writes what its capture touched; of live memory only blocks that
 * graphs may write: those allocated in captures, and those that a restore revived. */
#include "model/state.h"

static void apply_write(struct model *m, const struct write *write, int stream)
{
    for (size_t i = 0; i < m->block_count; i++) {
        struct block *block = &m->blocks[i];

        if (!overlap(range_of(block), write->range))
            continue;
        EXPECT(m, block->is_exposed || block->is_discarded,
               "a replay writes block %llu at %p of %zu bytes in pool %d",
               (unsigned long long)block->serial, block->address, block->bytes, block->pool);
        if (!write->runs)
            continue;
        block->is_known = block->serial == write->serial;
        block->value = write->value;
        block->last = stream;
        block->is_replayed = true;
    }
}

/* What its users did with memory that was given back. */
static void come_after_freed(struct model *m, const struct freed *freed, int stream)
{
    tn_cu_stream then = m->streams[stream].handle;

    touch_come_after(then, freed->home);
    for (int s = 0; s < STREAMS; s++)
        touch_come_after(then, freed->uses[s]);
    for (int s = 0; s < PAST; s++)
        touch_come_after(then, freed->past[s]);
}

/* Whatever the user has enqueued on memory that the graph writes must come before. Replays that have
 * written it are the library's to put before this one. */
static void come_after_uses(struct model *m, const struct graph *graph, int stream)
{
    for (size_t i = 0; i < graph->writes.count; i++) {
        struct range range = graph->writes.all[i].range;

        for (size_t b = 0; b < m->block_count; b++) {
            struct block *block = &m->blocks[b];

            if (overlap(range_of(block), range) && block->last != NONE && block->last != stream &&
                !block->is_replayed)
                order(m, block->last, stream);
        }
        for (size_t f = 0; f < m->freed_count; f++) {
            if (overlap(m->freed[f].range, range))
                come_after_freed(m, &m->freed[f], stream);
        }
    }
}

static void note_launch(struct model *m, struct graph *graph, int stream)
{
    touch_forget(graph->launched[stream]);
    graph->launched[stream] = touch_mark(m->streams[stream].handle);
    for (size_t i = 0; i < graph->writes.count; i++)
        apply_write(m, &graph->writes.all[i], stream);
}

static void replay(struct model *m, struct graph *graph, int stream)
{
    struct pool *pool = &m->pools[graph->pool];
    tarn_status status;

    come_after_uses(m, graph, stream);
    if (chance(m, 8))
        test_spin(m->streams[stream].handle,
                  1); /* a replay that is not ordered behind it overtakes it */
    status = CALL(m, tarn_graph_replay(graph->handle, m->streams[stream].handle));
    if (pool->refuses_replays && status == TARN_ERR_WRONG_STATE &&
        (stream != pool->replay_stream || pool->replay_life != m->streams[stream].life))
        return;
    if (is_declined(m, status, "tarn_graph_replay"))
        return;
    pool->replay_stream = stream;
    pool->replay_life = m->streams[stream].life;
    trace("  graph %llu of pool %d on stream %d", (unsigned long long)graph->serial, graph->pool,
          stream);
    note_launch(m, graph, stream);
}

/* All graphs of the pool in a row, each on another stream than the last where it may be: by the next step
 * their work may be over. */
void replay_all(struct model *m, int pool)
{
    for (size_t i = 0; i < (size_t)2 * GRAPHS; i++) {
        struct graph *graph = &m->graphs[i % GRAPHS];
        int stream = pick_stream(m);

        while (stream == m->pools[pool].replay_stream && eager_streams(m) > 1 && !chance(m, 4))
            stream = pick_stream(m);
        if (graph->handle != NULL && graph->pool == pool)
            replay(m, graph, stream);
    }
}

void do_replay(struct model *m)
{
    struct graph *graph = pick_graph(m);
    int stream = pick_stream(m);
    const struct pool *pool;

    if (graph == NULL)
        return;
    pool = &m->pools[graph->pool];
    if (pool->replay_stream != NONE && m->streams[pool->replay_stream].handle != NULL &&
        !is_capturing(m, pool->replay_stream) && chance(m, 2))
        stream = pool->replay_stream;
    replay(m, graph, stream);
}

void do_destroy_graph(struct model *m)
{
    struct graph *graph = pick_graph(m);

    if (graph == NULL)
        return;
    trace("  graph %llu of pool %d", (unsigned long long)graph->serial, graph->pool);
    WELL_AT_ONCE(m, tarn_graph_destroy(graph->handle));
    STALE(m, tarn_graph_replay(graph->handle, m->streams[pick_stream(m)].handle));
    STALE(m, tarn_graph_memory(graph->handle, &(tarn_graph_memory_info){0}));
    graph->handle = NULL;
}

/* An executable graph of the user's own, which the library cannot keep in order. */
void do_raw_exec(struct model *m)
{
    struct graph *graph = &m->graphs[below(m, GRAPHS)];
    tarn_driver_graph driver_graph = NULL;
    int stream = pick_stream(m);

    if (graph->serial == 0)
        return;
    trace("  graph %llu", (unsigned long long)graph->serial);
    if (graph->raw == NULL && (graph->handle != NULL || graph->clone != NULL)) {
        if (graph->handle != NULL)
            WELL(m, tarn_graph_driver_handles(graph->handle, &driver_graph, NULL));
        graph->raw = touch_instantiate(graph->clone != NULL ? graph->clone : driver_graph);
    } else if (graph->raw != NULL && chance(m, 2)) {
        touch_end_exec(graph->raw);
        graph->raw = NULL;
    }
    if (graph->raw == NULL)
        return;
    drain(m);
    touch_launch(graph->raw, m->streams[stream].handle);
    note_launch(m, graph, stream);
    drain(m);
}

void do_clone(struct model *m)
{
    struct graph *graph = &m->graphs[below(m, GRAPHS)];
    tarn_driver_graph driver_graph = NULL;

    if (graph->serial == 0)
        return;
    trace("  graph %llu", (unsigned long long)graph->serial);
    if (graph->clone == NULL && graph->handle != NULL && !graph->has_nodes) {
        WELL(m, tarn_graph_driver_handles(graph->handle, &driver_graph, NULL));
        graph->clone = test_clone(driver_graph);
    } else if (graph->clone != NULL) {
        test_destroy_graph(graph->clone);
        graph->clone = NULL;
        graph->is_bare = false;
    }
}

/* Makes a graph of the user's that has a copy of the captured one as a child. */
void do_nest(struct model *m)
{
    struct graph *graph = &m->graphs[below(m, GRAPHS)];
    tarn_driver_graph driver_graph = graph->clone;
    tn_cu_graph nesting;

    if (graph->serial == 0 || graph->has_nodes || (graph->clone == NULL && graph->handle == NULL))
        return;
    trace("  graph %llu", (unsigned long long)graph->serial);
    if (graph->clone == NULL)
        WELL(m, tarn_graph_driver_handles(graph->handle, &driver_graph, NULL));
    nesting = test_graph();
    test_add_child(nesting, driver_graph);
    if (graph->clone != NULL)
        test_destroy_graph(graph->clone);
    graph->clone = nesting;
    graph->is_bare = false;
}

/* Hands a graph over that a capture has gone into. */
void do_adopt(struct model *m)
{
    struct graph *graph = &m->graphs[below(m, GRAPHS)];
    const struct pool *pool = &m->pools[graph->pool];

    if (graph->serial == 0 || !graph->is_bare || pool->is_released)
        return;
    if (DECLINED(m, tarn_graph_adopt(pool->handle, graph->clone, &graph->handle)))
        return;
    trace("  graph %llu of pool %d", (unsigned long long)graph->serial, graph->pool);
    graph->clone = NULL;
    graph->is_bare = false;
}

static void expect_less(struct model *m, const tarn_graph_memory_info *one,
                        const tarn_graph_memory_info *all)
{
    uint64_t live_bytes = 0;

    for (size_t i = 0; i < m->block_count; i++)
        live_bytes += m->blocks[i].is_discarded ? 0 : m->blocks[i].block_bytes;
    EXPECT(m, one->own_pool_bytes <= all->own_pool_bytes, "a graph has more than all");
    EXPECT(m,
           one->own_pool_bytes + one->shared_pool_bytes <=
               all->own_pool_bytes + all->shared_pool_bytes,
           "a graph holds more than all");
    EXPECT(m, one->other_pool_bytes == 0, "a graph has what is no graph's");
    EXPECT(m, one->external_bytes <= live_bytes, "a graph refers to more than is live");
    EXPECT(m, all->external_bytes <= live_bytes, "graphs refer to more than is live");
    EXPECT(m, one->kernel_count <= one->node_count && one->node_count <= all->node_count, "nodes");
}

/* What graphs cost, beside what pools say is held. */
void do_account(struct model *m)
{
    tarn_graph_memory_info all = TARN_GRAPH_MEMORY_INFO_INIT;
    tarn_graph_memory_info one = TARN_GRAPH_MEMORY_INFO_INIT;
    const struct graph *graph = pick_graph(m);
    uint64_t held;
    uint64_t captured = 0;
    bool sees_all = !m->has_unnamed;

    if (!m->owns_device)
        return;          /* other threads use their graphs */
    (void)test_ledger(); /* destructors that are due change what is held: not between the calls */
    WELL(m, tarn_device_graph_memory(m->device, &all));
    held = all.own_pool_bytes + all.shared_pool_bytes + all.other_pool_bytes;
    for (int p = 0; p < POOLS; p++) {
        tarn_stats stats = {.size = sizeof stats, .walk = true};

        if (m->pools[p].handle == NULL)
            continue;
        sees_all = sees_all && !m->pools[p].is_released;
        if (m->pools[p].is_released)
            continue;
        WELL(m, tarn_pool_stats(m->pools[p].handle, &stats));
        captured += stats.captured_bytes;
    }
    EXPECT(m, sees_all ? held == captured : held >= captured,
           "%llu bytes are held for graphs, the pools say %llu", (unsigned long long)held,
           (unsigned long long)captured);
    if (graph == NULL)
        return;
    WELL(m, tarn_graph_memory(graph->handle, &one));
    expect_less(m, &one, &all);
}

void end_graphs(struct model *m)
{
    for (size_t i = 0; i < GRAPHS; i++) {
        struct graph *graph = &m->graphs[i];

        if (graph->raw != NULL)
            touch_end_exec(graph->raw);
        if (graph->clone != NULL)
            test_destroy_graph(graph->clone);
        if (graph->handle != NULL)
            WELL(m, tarn_graph_destroy(graph->handle));
        for (int s = 0; s < STREAMS; s++)
            touch_forget(graph->launched[s]);
        memset(graph, 0, sizeof *graph);
    }
}
