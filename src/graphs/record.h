// SPDX-License-Identifier: Apache-2.0
/* record.h -- the records of captures, sections and graphs; graphs/capture.h and graphs/graph.h say what they are.
 *
 * Locking: as said with each field. */
#ifndef TARN_GRAPHS_RECORD_H
#define TARN_GRAPHS_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"
#include "tarn/audit.h"
#include "tarn/graph.h"
#include "tarn/pool.h"

struct tn_gpu;
struct tn_guard;
struct tn_replays;

/* A section of a pool's that was captured: the graph that the driver has given for it. */
struct tn_section {
    tarn_pool *pool;
    tn_cu_graph graph;
    uint64_t capture_id; /* 0: the driver's graph was not a tarn_capture's */
    uint64_t mark;       /* tn_device_mark when the section ended */
};

enum { TN_CAPTURE_SAID_BYTES = 960 };

enum tn_capture_stage { TN_CAPTURE_OPEN, TN_CAPTURE_STOPPED, TN_CAPTURE_BROKEN };

struct tarn_capture {
    _Atomic uint64_t magic; /* TN_CAPTURE_MAGIC; 0 in a recycled record */
    tarn_capture *next;     /* links recycled records */
    tarn_device *device;    /* immutable */
    tarn_pool *pool;        /* immutable; not to be followed when gone */
    tarn_stream stream;     /* immutable; the user promised that it lives */
    tarn_capture_mode mode; /* immutable */
    uint64_t thread_id;     /* immutable; that began it */
    uint64_t capture_id;    /* immutable */
    uint64_t route_id;      /* immutable */
    atomic_bool gone; /* the driver's capture went by itself, and all claims of this one with it;
                               set under the pool's lock */
    enum tn_capture_stage stage;
    /* BROKEN: why it cannot be ended, and what was known of that then */
    char said[TN_CAPTURE_SAID_BYTES];
    struct tn_section section; /* STOPPED: as it was then, however often an end was tried */
    tn_cu_graph target;        /* immutable; the caller's, that is captured into; NULL: a new one */
    bool is_body;              /* immutable; the target is one in another capture's graph */
};

#define TN_CAPTURE_MAGIC 0x54436170ULL

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
