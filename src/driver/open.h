// SPDX-License-Identifier: Apache-2.0
/* open.h -- a device is opened, closed, and waited for.
 *
 * Locking: none may be held. */
#ifndef TARN_DRIVER_OPEN_H
#define TARN_DRIVER_OPEN_H

#include "driver/gpu.h"

/* Opens the device of that ordinal: retains its primary context.
 *   NO_DEVICE, NOT_SUPPORTED, DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_gpu_open(struct tn_gpu *gpu, const struct tn_driver *driver,
                                        int ordinal);
void tn_gpu_close(struct tn_gpu *gpu);

/* Waits until all work that was enqueued before the call has ended, in the primary context and in
 * those that were met, without breaking any capture: the free of a small linear allocation waits for
 * the whole of its context. No lock may be held. On success everything freed before the call is
 * proven idle. */
TARN_MUST_CHECK tarn_status tn_gpu_wait_idle(struct tn_gpu *gpu);

#endif
