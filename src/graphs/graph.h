// SPDX-License-Identifier: Apache-2.0
/* graph.h -- an instantiated graph on a pool.
 *
 * What a graph holds is not recorded here: the user object on the driver's graph is the hold, and
 * lasts as long as any instantiation, clone or running launch.
 *
 * Locking: graphs are used by one thread at a time, as CUDA demands; the pool's lock guards the
 * count of graphs, the GRAPHS lock the device's list of them. Who reads the driver's graph of one that
 * is another thread's holds the GRAPHS lock: it is neither destroyed nor replaced meanwhile. Replays:
 * graphs/replay.h. */
#ifndef TARN_GRAPHS_GRAPH_H
#define TARN_GRAPHS_GRAPH_H

#include "driver/exec.h"
#include "pools/device.h"
#include "tarn/graph.h"

struct tn_guard;

struct tarn_graph {
    _Atomic uint64_t magic; /* TN_GRAPH_MAGIC or TN_GRAPH_STALE: G7; 0 in a recycled record */
    tarn_graph *next;       /* of the device, guarded by the GRAPHS lock; links recycled records */
    tarn_pool *pool;        /* immutable */
    tn_cu_graph driver_graph; /* written with the GRAPHS lock */
    tn_cu_graphexec exec;
    /* What a replay would look for in the pool, one miss nearer. The record is the pool's of the commit: one that the
     * pool has left since stays as long as the pool, and ordered. Both are immutable. */
    struct tn_gpu *gpu;
    struct tn_replays *replays;
    struct tn_guard *guard; /* NULL: none */
    tarn_guard guard_kind;  /* of that, and of the next section's */
    /* blocks with this sequence number or a higher one were allocated behind the section */
    uint64_t mark;
    uint64_t exec_bytes; /* immutable; what the device had less after the instantiation; 0: nothing,
                            or not known */
};

#define TN_GRAPH_MAGIC 0x54477270ULL
#define TN_GRAPH_STALE (TN_GRAPH_MAGIC | 1) /* G7, in graphs/guard.h */

static inline bool tn_graph_is_stale(tarn_graph *graph)
{
    return atomic_load(&graph->magic) == TN_GRAPH_STALE;
}

/* A graph of the driver's graph, instantiated; the pool does not know it yet. mark: tn_device_mark when its section ended.
 *   HOST_MEMORY, DEVICE_MEMORY, LIMIT, DEVICE_LOST, DRIVER: the driver's graph is as it was */
TARN_MUST_CHECK tarn_status tn_graph_prepare(tarn_pool *pool, tn_cu_graph driver_graph,
                                             uint64_t mark, tarn_graph **graph);

/* A guard of the graph's kind, for a section of that mark that is the graph's or is to be. NULL: it has none.
 *   LIMIT, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_graph_make_guard(tarn_graph *graph, tn_cu_graph driver_graph,
                                                uint64_t mark, struct tn_guard **guard);

/* Enters it in its pool, whose lock is held: from here on it may be replayed. own: its hold there, or
 * NULL. */
void tn_graph_commit(tarn_graph *graph, const struct tn_hold *own);

TARN_MUST_CHECK tarn_status tn_graph_adopt(tarn_pool *pool, tn_cu_graph driver_graph,
                                           tarn_graph **graph);
void tn_graph_destroy(tarn_graph *graph);

#endif
