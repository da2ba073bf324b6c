// SPDX-License-Identifier: Apache-2.0
/* snapshot_live.h -- a snapshot whose live blocks come from the device's history: pools are stopped
 * for as long as their chunks and pending blocks take, and no live block is looked at.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_SNAPSHOT_LIVE_H
#define TARN_OBSERVE_SNAPSHOT_LIVE_H

#include "observe/snapshot_parts.h"

/* pool: as for tn_snapshot_take. NULL: there was no memory, or too much happened meanwhile, or a
 * block is DISCARDED. */
struct tn_snapshot *tn_snapshot_take_live(tarn_device *device, tarn_pool *pool);

#endif
