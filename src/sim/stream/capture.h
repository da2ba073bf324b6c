// SPDX-License-Identifier: Apache-2.0
/* capture.h -- captures under way, and the rules of what they allow.
 *
 * A call is of one of five classes, by what captures make of it:
 *   free     always allowed: all virtual memory management, creating and destroying, work elsewhere
 *   unsafe   governed by the modes of captures and threads: tn_sim_capture_unsafe
 *   fatal    always an error that invalidates: tn_sim_stream_find_idle, tn_sim_capture_invalidate
 *   legacy   touches the legacy stream: tn_sim_stream_find
 *   node     becomes a node when its stream captures: tn_sim_stream_submit
 *
 * Invariants
 *   SC1  a stream takes part in at most one capture, its origin in exactly that one
 *   SC2  a capture in the table has a graph that no other capture has and that cannot be destroyed
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_CAPTURE_H
#define TARN_SIM_CAPTURE_H

#include "sim/graph/graph.h"
#include "sim/stream/stream.h"

struct tn_sim_capture {
    uint64_t id; /* rises with each begin */
    struct tn_sim_stream *origin;
    uint64_t owner; /* serial of the thread that began it, which may have ended */
    tn_cu_capture_mode mode;
    bool invalidated;
    struct tn_sim_graph *graph;
    struct tn_sim_node_set left; /* where streams that were destroyed had come to */
    struct tn_sim_capture *next;
};

/* The capture of an id, NULL when it has ended. */
struct tn_sim_capture *tn_sim_capture_find(uint64_t id);

bool tn_sim_capture_invalidated(const struct tn_sim_capture *capture);

/* Makes a capture good for nothing but its end. */
void tn_sim_capture_invalidate(struct tn_sim_capture *capture);

/* What every unsafe call asks first. STREAM_CAPTURE_UNSUPPORTED, having invalidated the captures
 * that forbid it: those that the calling thread began, or other threads began globally, as far as
 * its own mode does not allow the call. */
tn_cu_result tn_sim_capture_unsafe(void);

/* Asks whether a blocking stream of a context captures, so that its legacy stream must not be
 * touched; invalidates the captures that say so when asked to. */
bool tn_sim_capture_legacy(const struct tn_sim_context *context, bool invalidate);

/* Invalidates every capture of a context. Returns whether there was one. */
bool tn_sim_capture_kill_all(const struct tn_sim_context *context);

/* Adds a node behind the frontier of a stream whose capture is active. OUT_OF_MEMORY. */
tn_cu_result tn_sim_capture_add(struct tn_sim_stream *stream, struct tn_sim_op *op);

/* Takes a stream that is being closed out of its capture, which is dropped if it began there. */
void tn_sim_capture_leave(struct tn_sim_stream *stream);

#endif
