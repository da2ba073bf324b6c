// SPDX-License-Identifier: Apache-2.0
/* register.h -- memory of the process, page-locked by the driver in place.
 *
 * While the driver registers, other threads' calls wait: 26 ms a GiB. A registration is therefore
 * made under no lock of the library's, and callers that may not stop others make small ones.
 * Unregistering waits for the work of the context and stops others, too. No copy may span two
 * registrations.
 *
 * Locking: none; any thread, with no lock held. */
#ifndef TARN_DRIVER_REGISTER_H
#define TARN_DRIVER_REGISTER_H

#include "driver/gpu.h"

/* Whether the device can use registered memory by the process's own addresses.
 *   NOT_SUPPORTED, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_gpu_check_registers(struct tn_gpu *gpu);

/* The NUMA node that is nearest to the device; -1 where the driver names none. */
int tn_gpu_host_node(struct tn_gpu *gpu);

/* Registers memory that the process can write, for all contexts.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: it is not registered */
TARN_MUST_CHECK tarn_status tn_gpu_register(struct tn_gpu *gpu, void *memory, size_t bytes);

/* Ends a registration after the work of the device's context is done. The caller knows that no
 * other context uses the memory. False: the driver has refused, which is latched; the device may
 * still use the pages. */
bool tn_gpu_unregister(struct tn_gpu *gpu, void *memory);

#endif
