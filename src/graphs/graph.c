// SPDX-License-Identifier: Apache-2.0
/* Graphs: an executable, and the driver's graph that it was made of.
 *
 * The driver's graph is kept beside the executable: clones and child nodes are made of the graph,
 * and its user object is the hold.
 *
 * An instantiation reads the device's free memory before and after. Memory that other threads and
 * processes take and give back meanwhile is in the difference: the driver tells nothing of an
 * executable alone.
 *
 * Trade-offs: the driver's graph takes host memory that a replay does not need. */
#include "graphs/graph.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/mapping.h"
#include "graphs/admit.h"
#include "graphs/guard.h"
#include "graphs/replay.h"
#include "pools/series.h"
#include "pools/sweep.h"

static struct tn_records graph_records = TN_RECORDS_INIT(struct tarn_graph);
static atomic_uint_fast64_t last_number; /* of a graph, in the process */

tarn_status tn_graph_make_guard(tarn_graph *graph, const struct tn_section *section,
                                struct tn_guard **guard)
{
    const tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    const struct tn_audit_subject subject = {
        .graph = section->graph, .pool = section->pool, .mark = section->mark};

    TN_ASSERT(tn_lock_none_held());
    return tn_guard_make(graph, graph->guard_kind, &subject, &options, guard);
}

static tarn_status instantiate(tarn_graph *graph)
{
    size_t before, after, total;
    tarn_status status;

    TN_ASSERT(graph->exec == NULL && graph->driver_graph != NULL);
    tn_gpu_memory_info(graph->gpu, &before, &total);
    status = tn_driver_graph_instantiate(graph->gpu, graph->driver_graph, &graph->exec);
    if (status != TARN_OK)
        return status;
    tn_gpu_memory_info(graph->gpu, &after, &total);
    if (total != 0 && after < before)
        graph->exec_bytes = before - after;
    return TARN_OK;
}

static void enter_list(tarn_graph *graph)
{
    tarn_device *device = graph->pool->device;

    TN_ASSERT(atomic_load(&graph->magic) == 0);
    tn_lock_acquire(&device->graphs_lock);
    graph->previous = NULL;
    graph->next = device->graphs;
    if (graph->next != NULL)
        graph->next->previous = graph;
    device->graphs = graph;
    tn_lock_release(&device->graphs_lock);
}

static void leave_list(const tarn_graph *graph)
{
    tarn_device *device = graph->pool->device;

    TN_ASSERT(atomic_load(&graph->magic) == 0);
    tn_lock_acquire(&device->graphs_lock);
    if (graph->previous != NULL)
        graph->previous->next = graph->next;
    else
        device->graphs = graph->next;
    if (graph->next != NULL)
        graph->next->previous = graph->previous;
    tn_lock_release(&device->graphs_lock);
}

tarn_status tn_graph_prepare(const struct tn_section *section, tarn_graph **graph)
{
    tarn_pool *pool = section->pool;
    tarn_graph *made = tn_records_take(&graph_records);
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a graph");
    made->pool = pool;
    made->gpu = &pool->device->gpu;
    made->driver_graph = section->graph;
    made->number = atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    status = instantiate(made);
    if (status != TARN_OK) {
        tn_records_give(&graph_records, made);
        return status;
    }
    made->guard_kind = pool->graphs.guard;
    made->mark = section->mark;
    status = tn_graph_make_guard(made, section, &made->guard);
    if (status != TARN_OK) {
        tn_driver_exec_destroy(made->gpu, made->exec);
        tn_records_give(&graph_records, made);
        return status;
    }
    atomic_fetch_add(&pool->device->exec_bytes, made->exec_bytes);
    enter_list(made);
    tn_device_know_graph(pool->device, made->driver_graph);
    *graph = made;
    return TARN_OK;
}

void tn_graph_commit(tarn_graph *graph, const struct tn_hold *own)
{
    tarn_pool *pool = graph->pool;

    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(graph->exec != NULL && atomic_load(&graph->magic) == 0);
    pool->claims.graph_count += 1;
    graph->replays = atomic_load(&pool->replays);
    tn_replays_admit(pool, own);
    tn_pool_note(pool, TN_NOTE_GRAPH_MADE,
                 TN_OPERANDS(graph->number, own == NULL || own->capture_id == TN_HOLD_NO_CAPTURE
                                                ? 0
                                                : own->capture_id));
    tn_guard_publish(graph);
}

tarn_status tn_graph_adopt(tarn_pool *pool, tn_cu_graph driver_graph, tarn_graph **graph)
{
    struct tn_section section = {.pool = pool, .graph = driver_graph};
    tarn_graph *made;
    struct tn_hold *empty;
    tarn_status status = tn_capture_hold_graph(pool, driver_graph, &empty); /* G2 */

    TN_ASSERT(tn_lock_none_held());
    if (status != TARN_OK)
        return status;
    section.mark = tn_device_mark(pool->device);
    status = tn_graph_prepare(&section, &made);
    if (status != TARN_OK) {
        tn_capture_unhold_graph(pool, driver_graph, empty);
        return status;
    }
    tn_device_close_capture(pool->device, 0, driver_graph, TN_NODES_UNKNOWN);
    tn_replays_merge_pools(pool, 0,
                           driver_graph); /* the graph may write memory of other pools alone */
    tn_pool_lock(pool);
    tn_graph_commit(made, tn_hold_find_graph(&pool->holds, driver_graph));
    tn_pool_unlock(pool);
    *graph = made;
    return TARN_OK;
}

void tn_graph_destroy(tarn_graph *graph)
{
    tarn_pool *pool = graph->pool;
    struct tn_gpu *gpu = &pool->device->gpu;

    TN_ASSERT(tn_lock_none_held());
    TN_ASSERT(atomic_load(&graph->magic) != 0);
    atomic_store(&graph->magic, 0);
    leave_list(graph);
    tn_device_expect_gone(pool->device, graph->driver_graph);
    tn_driver_exec_destroy(gpu, graph->exec);
    tn_driver_graph_drop(gpu, graph->driver_graph);
    tn_guard_drop(graph->guard); /* its watch refers to the pool */
    tn_pool_lock(pool);
    TN_ASSERT(pool->claims.graph_count > 0);
    pool->claims.graph_count -= 1;
    tn_pool_note(pool, TN_NOTE_GRAPH_DESTROYED, TN_OPERANDS(graph->number));
    tn_pool_unlock(pool);
    tn_records_give(&graph_records, graph);
}
