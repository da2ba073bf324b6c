// SPDX-License-Identifier: Apache-2.0
/* snapshot.h -- all memory of a device, or of a single pool, at a single moment.
 *
 * A snapshot is an allocation, and others for its events and its stacks.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_SNAPSHOT_H
#define TARN_OBSERVE_SNAPSHOT_H

#include "observe/snapshot_parts.h"
#include "tarn/snapshot.h"

/* By a walk through all blocks, with the pools stopped; without time, settings and stacks. NULL: no
 * memory. */
struct tn_snapshot *tn_snapshot_take_by_walk(tarn_device *device, tarn_pool *pool);

/* pool: of the device; NULL: all its pools. HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_snapshot_take(tarn_device *device, tarn_pool *pool,
                                             tarn_snapshot **snapshot);

#endif
