// SPDX-License-Identifier: Apache-2.0
/* capture.h -- a section of a stream being captured, with a route to a pool.
 *
 *   G1  a capture has a route to its pool and a hold there that knows it, until it is just being
 *       ended, or the driver's capture is gone
 *   G2  the hold's user object is on the graph being captured, from the first moment
 *
 *     begin ──▶ OPEN ──end: the driver gave the graph──▶ STOPPED ──end: instantiated──▶ (a graph)
 *                 │ end: the driver's capture is over        │
 *                 ▼                                          │
 *              BROKEN ─────────abort─────────▶ (gone) ◀──abort
 *
 * OPEN may be aborted too. An end that fails leaves the capture OPEN or STOPPED, to be ended again,
 * or BROKEN, good for abort alone: the stream is the user's again, who may capture it anew. A pool
 * may have any number of captures at a time.
 *
 * The driver's capture may go by itself: its stream is destroyed, or its user ends it and destroys
 * the graph. Then the hold's user object goes, and with it, at the next call on the device, the
 * capture's route and its claim on the pool, which may be gone before the handle is. The handle
 * stays good for abort.
 *
 * A capture may be made into a graph of the caller's. When that is a body of a conditional node in
 * an outer capture's graph, the memory of the body is held by the outer graph, and its capture ends
 * first.
 *
 * Locking: a capture is used by one thread at a time, as its user promises, while other threads may
 * allocate in it; its pool's lock guards what it changes there. */
#ifndef TARN_GRAPHS_CAPTURE_H
#define TARN_GRAPHS_CAPTURE_H

#include "graphs/graph.h"

/* The options do not contradict each other. NULL: the defaults. */
TARN_MUST_CHECK tarn_status tn_capture_begin(tarn_pool *pool, tarn_stream stream,
                                             const tarn_capture_options *options,
                                             tarn_capture **capture);

/* graph: NULL for a capture into the caller's graph, and for no other. */
TARN_MUST_CHECK tarn_status tn_capture_end(tarn_capture *capture, tarn_graph **graph);

/* The parts of an end: seize stops the driver's capture, whose section is then the record's,
 * STOPPED, and told; the caller finishes the capture, handle included, or lets it go on to be ended
 * again.
 *   WRONG_THREAD, CAPTURE_BROKEN, DEVICE_LOST, DRIVER: nothing is seized */
TARN_MUST_CHECK tarn_status tn_capture_seize(tarn_capture *capture, struct tn_section *section);
void tn_capture_finish(tarn_capture *capture);
void tn_capture_let_go(tarn_capture *capture);

/* WRONG_STATE for a capture into the caller's graph. */
TARN_MUST_CHECK tarn_status tn_capture_check_own(const tarn_capture *capture);
void tn_capture_abort(tarn_capture *capture);

#endif
