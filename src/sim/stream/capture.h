// SPDX-License-Identifier: Apache-2.0
/* capture.h -- captures under way, and the calls that they allow.
 *
 * Captures divide calls into five classes:
 *   free     always allowed: all virtual memory management, creating and destroying, work elsewhere
 *   unsafe   governed by the modes of captures and threads: tn_sim_capture_unsafe
 *   fatal    always an error that invalidates: tn_sim_stream_find_idle, tn_sim_capture_invalidate
 *   legacy   touches the legacy stream: tn_sim_stream_find
 *   node     becomes a node when its stream captures: tn_sim_stream_submit
 *
 * Invariants
 *   SC1  a stream takes part in at most one capture, its origin in exactly that one
 *   SC2  a capture in the table has a graph that no other capture has and nobody can destroy
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_CAPTURE_H
#define TARN_SIM_CAPTURE_H

#include "sim/graph/graph.h"
#include "sim/stream/stream.h"

struct tn_sim_capture {
    uint64_t id; /* rises with each begin */
    struct tn_sim_stream *origin;
    uint64_t owner; /* serial of the thread that began the capture; the thread may have ended */
    tn_cu_capture_mode mode;
    bool invalidated;
    struct tn_sim_graph *graph;
    struct tn_sim_node_set left; /* the frontiers of streams destroyed since */
    struct tn_sim_capture *next;
};

/* The capture of an id, NULL once ended. */
struct tn_sim_capture *tn_sim_capture_find(uint64_t id);

bool tn_sim_capture_invalidated(const struct tn_sim_capture *capture);

/* Makes a capture good for nothing but its end. */
void tn_sim_capture_invalidate(struct tn_sim_capture *capture);

/* The first check of every unsafe call. STREAM_CAPTURE_UNSUPPORTED: captures forbid the call, and
 * are now invalidated. These are captures of the calling thread, or captures that other threads
 * began globally, as far as the calling thread's mode does not allow the call. */
tn_cu_result tn_sim_capture_unsafe(void);

/* Asks whether a blocking stream of a context captures: the context's legacy stream must not be
 * touched then. With `invalidate`, also invalidates these captures. */
bool tn_sim_capture_legacy(const struct tn_sim_context *context, bool invalidate);

/* Invalidates every capture of a context. Returns whether it had any. */
bool tn_sim_capture_kill_all(const struct tn_sim_context *context);

/* Adds a node behind the frontier of a stream whose capture is active. OUT_OF_MEMORY. */
tn_cu_result tn_sim_capture_add(struct tn_sim_stream *stream, struct tn_sim_op *op);

/* Takes a stream about to be closed out of its capture. A capture that began on this stream is
 * dropped. */
void tn_sim_capture_leave(struct tn_sim_stream *stream);

#endif
