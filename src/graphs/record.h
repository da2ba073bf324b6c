// SPDX-License-Identifier: Apache-2.0
/* record.h -- the record of a graph; graphs/graph.h says what it is.
 *
 * Locking: as said with each field. */
#ifndef TARN_GRAPHS_RECORD_H
#define TARN_GRAPHS_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "tarn/audit.h"
#include "tarn/pool.h"

struct tn_gpu;
struct tn_guard;
struct tn_replays;

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

#endif
