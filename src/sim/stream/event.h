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
    struct tn_sim_object object;     /* without a handle once destroyed */
    unsigned int references;         /* of its handle, and of nodes */
    bool timing;                     /* made with timing */
    bool interprocess;               /* for other processes too, and for no capture */
    struct tn_sim_point point;       /* of the last record outside captures; or none */
    uint64_t time_ns;                /* with timing: of the point, once reached */
    bool awaits_time;                /* the point's stream notes the time on reaching the point */
    struct tn_sim_event *timed_next; /* in the point's stream's list, until then */
    uint64_t capture_id;             /* of the capture it was last recorded in; or 0 */
    struct tn_sim_node_set frontier; /* in this capture; valid only while the capture is active */
};

/* References of nodes: an event with these outlives its handle. */
struct tn_sim_event *tn_sim_event_acquire(struct tn_sim_event *event);
void tn_sim_event_release(struct tn_sim_event *event);

/* Lets a new operation name an event, with a reference. */
void tn_sim_event_name(struct tn_sim_op *op, struct tn_sim_event *event);

/* Records an event for a node of a launch, whose part up to this node was just queued. The event's
 * former moment is forgotten. OUT_OF_MEMORY. */
tn_cu_result tn_sim_event_replayed(struct tn_sim_event *event, struct tn_sim_stream *stream);

/* Notes the time for the events of a stream whose moment has come. */
void tn_sim_events_reached(struct tn_sim_stream *stream);

/* Marks every event of a context under destruction: until its own destruction the event answers
 * that its context is destroyed. */
void tn_sim_events_abandon_all(const struct tn_sim_context *context);

#endif
