// SPDX-License-Identifier: Apache-2.0
/* idle.h -- waiting for a device, which proves that memory is idle.
 *
 * Locking: none may be held. */
#ifndef TARN_DRIVER_IDLE_H
#define TARN_DRIVER_IDLE_H

#include "driver/gpu.h"

/* Waits until all work that was enqueued before the call has ended, in the primary context and in
 * those that were met, without breaking any capture: the free of a small linear allocation waits
 * for the whole of its context. No lock may be held. On success everything freed before the call is
 * proven idle. */
TARN_MUST_CHECK tarn_status tn_gpu_wait_idle(struct tn_gpu *gpu);

#endif
