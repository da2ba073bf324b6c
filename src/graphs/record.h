// SPDX-License-Identifier: Apache-2.0
/* record.h -- the records of captures, sections and graphs. graphs/capture.h and graphs/graph.h
 * explain them.
 *
 * Locking: each field's comment names its guard. */
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
    tarn_stream stream;     /* immutable; alive, as the user promised */
    tarn_capture_mode mode; /* immutable */
    uint64_t thread_id;     /* immutable; of the thread that began */
    uint64_t capture_id;    /* immutable */
    uint64_t route_id;      /* immutable */
    uint64_t early_count;   /* immutable; for tn_device_discard_capture */
    uint64_t pool_serial;   /* immutable; of the pool, which may be gone */
    /* The driver's capture ended without Tarn, and all claims of this record ended with it. Set
     * under the pool's lock. */
    atomic_bool gone;
    enum tn_capture_stage stage;
    /* BROKEN: why the capture cannot be ended, and what was known of it when it broke. */
    char said[TN_CAPTURE_SAID_BYTES];
    /* STOPPED: the section as it was at the stop, however often an end was tried. */
    struct tn_section section;
    /* Immutable. The caller's graph, which the capture goes into; NULL: a new graph. */
    tn_cu_graph target;
    size_t node_count; /* of the target behind the capture's end, or TN_NODES_UNKNOWN */
    /* Immutable. The target is a body in another capture's graph. */
    bool is_body;
};

#define TN_CAPTURE_MAGIC 0x54436170ULL

struct tarn_graph {
    /* TN_GRAPH_MAGIC, TN_GRAPH_RECORDED or TN_GRAPH_STALE: G7; 0 in a recycled record */
    _Atomic uint64_t magic;
    /* Guarded by the device's GRAPHS lock; also links recycled records. */
    tarn_graph *next;
    tarn_graph *previous;
    tarn_pool *pool;          /* immutable */
    tn_cu_graph driver_graph; /* written with the GRAPHS lock */
    tn_cu_graphexec exec;
    /* Copies of two pointers of the pool: a replay has one cache miss less. `replays` is the pool's
     * record at the commit. A record that the pool has left since lives as long as the pool, and
     * stays ordered. Both pointers are immutable. */
    struct tn_gpu *gpu;
    struct tn_replays *replays;
    struct tn_guard *guard; /* NULL: none */
    tarn_guard guard_kind;  /* of `guard`, and of the next section's guard */
    /* blocks with this sequence number or a higher one were allocated behind the section */
    uint64_t mark;
    /* Immutable. By how much the instantiation lowered the device's free memory; 0: by nothing, or
     * not known. */
    uint64_t exec_bytes;
    uint64_t number; /* immutable; never another graph's of the process */
};

#define TN_GRAPH_MAGIC 0x54477270ULL
#define TN_GRAPH_STALE (TN_GRAPH_MAGIC | 1) /* G7, in graphs/guard.h */
/* A graph whose replays are written to the history: another number, so that no other replay has to
 * ask. */
#define TN_GRAPH_RECORDED (TN_GRAPH_MAGIC | 2)

static inline bool tn_graph_is_stale(tarn_graph *graph)
{
    return atomic_load(&graph->magic) == TN_GRAPH_STALE;
}

#endif
