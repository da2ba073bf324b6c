// SPDX-License-Identifier: Apache-2.0
/* snapshot_trace.h -- what happened before a snapshot, by the device's history.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_SNAPSHOT_TRACE_H
#define TARN_OBSERVE_SNAPSHOT_TRACE_H

#include "observe/snapshot.h"

/* Adds the events of the history up to the snapshot's moment, in the order of their times; earlier
 * ones of the snapshot go.
 *   NOT_SUPPORTED  The device keeps no history.
 *   HOST_MEMORY    Nothing has changed. */
TARN_MUST_CHECK tarn_status tn_snapshot_trace(tarn_device *device, struct tn_snapshot *snapshot);

#endif
