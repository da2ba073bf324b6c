// SPDX-License-Identifier: Apache-2.0
/* event.h -- events.
 *
 * An event was never recorded; or stands for a moment of a stream; or stands for the frontier of a
 * stream in a capture. When that capture has ended or become invalid the event is stale, and
 * nothing but a new record heals it.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_EVENT_H
#define TARN_SIM_EVENT_H

#include "sim/stream/stream.h"

struct tn_sim_event {
    struct tn_sim_object object;     /* without a handle once it is destroyed */
    unsigned int references;         /* of its handle, and of nodes */
    bool timing;                     /* it was not made without */
    bool interprocess;               /* it is for other processes too, and for no capture */
    struct tn_sim_point point;       /* of the last record outside captures; or none */
    uint64_t time_ns;                /* with timing: of the point, once that is reached */
    bool awaits_time;                /* the point's stream notes the time when it is reached */
    struct tn_sim_event *timed_next; /* in that stream's list, until then */
    uint64_t capture_id;             /* of the capture it was last recorded in; or 0 */
    struct tn_sim_node_set frontier; /* there; to be read only while that capture is active */
};

/* References of nodes: an event that they have outlives its handle. */
struct tn_sim_event *tn_sim_event_acquire(struct tn_sim_event *event);
void tn_sim_event_release(struct tn_sim_event *event);

/* Lets an operation that was just made name an event, with a reference. */
void tn_sim_event_name(struct tn_sim_op *op, struct tn_sim_event *event);

/* Records an event for a node of a launch, whose part up to that node was just queued. What else
 * the event stood for is forgotten. OUT_OF_MEMORY. */
tn_cu_result tn_sim_event_replayed(struct tn_sim_event *event, struct tn_sim_stream *stream);

/* Notes the time for the events of a stream whose moment has come. */
void tn_sim_events_reached(struct tn_sim_stream *stream);

/* Leaves every event of a context that is being destroyed to say so, until it is destroyed itself. */
void tn_sim_events_abandon_all(const struct tn_sim_context *context);

#endif
