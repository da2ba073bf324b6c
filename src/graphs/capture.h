// SPDX-License-Identifier: Apache-2.0
/* capture.h -- a section of a stream being captured, with a route to a pool.
 *
 *   G1  a capture that is not gone has a route to its pool; its hold is found by capture_id
 *   G2  the hold's user object is on the graph being captured, from the first moment
 *
 *     begin ──▶ OPEN ──end: the driver gave the graph──▶ STOPPED ──end: instantiated──▶ (a graph)
 *                 │ end: the driver's capture is over        │
 *                 ▼                                          │
 *              BROKEN ─────────abort─────────▶ (gone) ◀──abort
 *
 * OPEN may be aborted too. An end that fails leaves the capture OPEN or STOPPED, to be ended again,
 * or BROKEN, good for abort alone.
 *
 * Locking: a capture is used by one thread at a time, as its user promises; its pool's lock guards
 * what it changes there. */
#ifndef TARN_GRAPHS_CAPTURE_H
#define TARN_GRAPHS_CAPTURE_H

#include <pthread.h>

#include "graphs/graph.h"

enum tn_capture_stage { TN_CAPTURE_OPEN, TN_CAPTURE_STOPPED, TN_CAPTURE_BROKEN };

struct tarn_capture {
    _Atomic uint64_t magic; /* TN_CAPTURE_MAGIC; 0 in a recycled record */
    tarn_capture *next;     /* links recycled records */
    tarn_pool *pool;        /* immutable */
    tarn_stream stream;     /* immutable; the user promised that it lives */
    tarn_capture_mode mode; /* immutable */
    pthread_t thread;       /* immutable; that began it */
    uint64_t capture_id;    /* immutable */
    enum tn_capture_stage stage;
    tn_cu_graph driver_graph; /* STOPPED */
};

#define TN_CAPTURE_MAGIC 0x546e436170743031ULL

TARN_MUST_CHECK tarn_status tn_capture_begin(tarn_pool *pool, tarn_stream stream,
                                             tarn_capture_mode mode, tarn_capture **capture);
TARN_MUST_CHECK tarn_status tn_capture_end(tarn_capture *capture, tarn_graph **graph);
void tn_capture_abort(tarn_capture *capture);

/* routed: a route chose the pool. Sees to it that the pool has an open hold for the capture that the stream is in, with a user
 * object on its graph: for captures that the user began.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_capture_admit(tarn_pool *pool,
                                             const struct tn_stream_state *state, bool routed);

/* Before a free in a pool that has a route and no open hold: when the route's stream is being captured
 * by its user, opens the hold, so that what is freed is kept for the graph. Where that fails the free
 * goes on without. No lock may be held. */
void tn_capture_notice(tarn_pool *pool);

#endif
