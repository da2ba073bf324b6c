// SPDX-License-Identifier: Apache-2.0
/* open.h -- a device is opened and closed.
 *
 * Locking: none may be held, but where said. */
#ifndef TARN_DRIVER_OPEN_H
#define TARN_DRIVER_OPEN_H

#include "driver/gpu.h"

/* Opens the device of that ordinal: retains its primary context.
 *   NO_DEVICE, NOT_SUPPORTED, DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_gpu_open(struct tn_gpu *gpu, const struct tn_driver *driver,
                                        int ordinal);
void tn_gpu_close(struct tn_gpu *gpu);

/* Around a function of the program's: no open GPU is calm meanwhile, for the function may be left
 * by a jump, and its thread may go on with another device. A lock below OPEN may be held. */
void tn_gpus_enter_user_code(void);
void tn_gpus_leave_user_code(void);

#endif
