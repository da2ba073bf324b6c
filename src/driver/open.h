// SPDX-License-Identifier: Apache-2.0
/* open.h -- a device is opened and closed.
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

#endif
