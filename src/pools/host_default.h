// SPDX-License-Identifier: Apache-2.0
/* host_default.h -- a device's default pools of the host, and which memory they have. */
#ifndef TARN_POOLS_HOST_DEFAULT_H
#define TARN_POOLS_HOST_DEFAULT_H

#include "pools/device.h"
#include "pools/pool.h"

/* Makes the device's pool of the kind. Where the device cannot map memory of the host, the staging
 * pool has registered memory; where it cannot use registered memory, the pool of that kind is the
 * one of mapped memory. The PROCESS lock is held.
 *   NOT_SUPPORTED: neither; HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_host_default_make(tarn_device *device, enum tn_host_pool kind,
                                                 tarn_pool **made);

#endif
