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

#include "sim/stream.h"

struct tn_sim_event {
    struct tn_sim_object object;
    struct tn_sim_point point;       /* of the last record outside captures; or none */
    uint64_t capture_id;             /* of the capture it was last recorded in; or 0 */
    struct tn_sim_node_set frontier; /* there; to be read only while that capture is active */
};

/* Destroys every event of a context that is being destroyed. */
void tn_sim_events_destroy_all(const struct tn_sim_context *context);

#endif
