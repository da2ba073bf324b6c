// SPDX-License-Identifier: Apache-2.0
/* Replay and its order.
 *
 * Graphs that share a pool write the same memory, so they must not overlap in time. As long as a
 * pool has one graph the driver sees to that: launches of one executable never overlap. From the
 * second on, replays are kept on one stream: the first one chooses it. When graphs were replayed
 * before there were several, nobody noted the stream, so the first ordered replay waits for the
 * device once.
 *
 * Trade-offs: a replay on another stream is refused, not ordered by an event. */
#include "graphs/graph.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"

static struct tn_records graph_records = TN_RECORDS_INIT(struct tarn_graph);

tarn_status tn_graph_prepare(tarn_pool *pool, tn_cu_graph driver_graph, tarn_graph **graph)
{
    tarn_graph *made = tn_records_take(&graph_records);
    tarn_status status;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a graph");
    status = tn_graph_instantiate(&pool->device->gpu, driver_graph, &made->exec);
    if (status != TARN_OK) {
        tn_records_give(&graph_records, made);
        return status;
    }
    made->pool = pool;
    made->driver_graph = driver_graph;
    *graph = made;
    return TARN_OK;
}

void tn_graph_commit(tarn_graph *graph)
{
    tarn_pool *pool = graph->pool;

    pool->graph_count += 1;
    if (pool->graph_count > 1 || pool->hold_count > 1) {
        atomic_store(&pool->orders_replays, true); /* G3 */
    } else {
        atomic_store(&pool->orders_replays, false);
        atomic_store(&pool->replay_stream_id, 0); /* nothing ordered runs, or will any more */
    }
    atomic_store(&graph->magic, TN_GRAPH_MAGIC);
}

tarn_status tn_graph_adopt(tarn_pool *pool, tn_cu_graph driver_graph, tarn_graph **graph)
{
    tarn_graph *made;
    tarn_status status = tn_graph_prepare(pool, driver_graph, &made);

    if (status != TARN_OK)
        return status;
    tn_device_close_capture(pool->device, 0, driver_graph);
    tn_lock_acquire(&pool->lock);
    tn_graph_commit(made);
    tn_lock_release(&pool->lock);
    *graph = made;
    return TARN_OK;
}

/* Makes sure that this replay is ordered behind the pool's last one. */
static tarn_status order_replay(tarn_pool *pool, tarn_stream stream)
{
    uint64_t id = 0;
    uint_fast64_t last;
    tarn_status status = tn_stream_id(&pool->device->gpu, stream, &id);

    if (status != TARN_OK)
        return status;
    last = atomic_load_explicit(&pool->replay_stream_id, memory_order_relaxed);
    if (last == id)
        return TARN_OK;
    if (last != 0)
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "pool '%s' has several graphs, and they share memory: its replays are on "
                       "stream id %llu, this one is on %llu; replay all of them on one stream",
                       pool->name, (unsigned long long)last, (unsigned long long)id);
    if (atomic_load(&pool->replayed)) {
        status = tn_gpu_wait_idle(&pool->device->gpu);
        if (status != TARN_OK)
            return status;
    }
    atomic_store(&pool->replay_stream_id, id);
    return TARN_OK;
}

tarn_status tn_graph_replay(tarn_graph *graph, tarn_stream stream)
{
    tarn_pool *pool = graph->pool;
    tarn_status status = tn_gpu_check(&pool->device->gpu);

    if (status == TARN_OK && atomic_load_explicit(&pool->orders_replays, memory_order_relaxed))
        status = order_replay(pool, stream);
    else if (status == TARN_OK && !atomic_load_explicit(&pool->replayed, memory_order_relaxed))
        atomic_store(&pool->replayed, true);
    if (status != TARN_OK)
        return status;
    return tn_exec_launch(&pool->device->gpu, graph->exec, stream);
}

void tn_graph_destroy(tarn_graph *graph)
{
    tarn_pool *pool = graph->pool;
    struct tn_gpu *gpu = &pool->device->gpu;

    atomic_store(&graph->magic, 0);
    tn_exec_destroy(gpu, graph->exec);
    tn_graph_drop(gpu, graph->driver_graph);
    tn_lock_acquire(&pool->lock);
    TN_ASSERT(pool->graph_count > 0);
    pool->graph_count -= 1;
    tn_lock_release(&pool->lock);
    tn_records_give(&graph_records, graph);
}
