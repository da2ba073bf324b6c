// SPDX-License-Identifier: Apache-2.0
/* An executable graph that takes a new capture's form.
 *
 * The update stops the capture first, which gives its graph. Two steps may then fail: the new guard
 * is made, and the driver decides whether the executable can take the graph. After a failure the
 * capture stays STOPPED and can be ended the ordinary way: the captured work is not lost.
 *
 * The user object of the new graph goes into the executable with the graph: the hold on the new
 * memory lasts as long as the executable. The old graph's hold lasts until its template, dropped
 * here, and the launches under way are gone: the driver keeps what a running launch was launched
 * with.
 *
 * The new section may have reused memory that the old section freed. The next launch must be
 * ordered behind those under way: from here on replays are ordered.
 *
 * Trade-offs: the pool's replays stay ordered after an update, also when the old hold is gone. */
#include "graphs/update.h"

#include "base/contract.h"
#include "base/error.h"
#include "graphs/guard.h"
#include "graphs/replay.h"
#include "pools/pool.h"
#include "pools/sweep.h"

tarn_status tn_graph_update(tarn_graph *graph, tarn_capture *capture)
{
    tarn_pool *pool = graph->pool;
    struct tn_gpu *gpu = &pool->device->gpu;
    tn_cu_graph old = graph->driver_graph;
    struct tn_guard *guard = NULL;
    struct tn_section section;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    if (capture->pool != pool)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "the capture is of another pool than the graph: their replays would not be "
                       "kept in order");
    status = tn_capture_check_own(capture);
    if (status == TARN_OK)
        status = tn_capture_seize(capture, &section);
    if (status != TARN_OK)
        return status;
    TN_ASSERT(section.graph != NULL && section.graph != old);
    status = tn_graph_make_guard(graph, &section, &guard);
    if (status == TARN_OK)
        status = tn_driver_exec_update(gpu, graph->exec, section.graph);
    if (status != TARN_OK) {
        tn_guard_give_up(graph, guard);
        tn_capture_let_go(capture);
        return status;
    }
    tn_lock_acquire(&pool->device->graphs_lock);
    graph->driver_graph = section.graph;
    graph->mark = section.mark;
    tn_lock_release(&pool->device->graphs_lock);
    tn_guard_replace(graph, guard);
    tn_pool_lock(pool);
    tn_replays_consider(pool);
    tn_pool_unlock(pool);
    tn_device_know_graph(pool->device, section.graph);
    tn_device_expect_gone(pool->device, old);
    tn_driver_graph_drop(gpu, old);
    tn_pool_note(pool, TN_NOTE_GRAPH_UPDATED, TN_OPERANDS(graph->number, capture->capture_id));
    tn_capture_finish(capture);
    return TARN_OK;
}
