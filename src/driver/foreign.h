// SPDX-License-Identifier: Apache-2.0
/* foreign.h -- contexts of the program's own.
 *
 * The free of a linear allocation waits for the work of the allocation's context, and of no other
 * context. A program may make contexts beside the primary context (cuCtxCreate), and use memory on
 * their streams. A wait for the device therefore goes through all foreign contexts that were met.
 *
 * Locking: tn_gpu_meet_context may be called from any thread, with locks held; it waits for
 * nothing. */
#ifndef TARN_DRIVER_FOREIGN_H
#define TARN_DRIVER_FOREIGN_H

#include "driver/gpu.h"

/* Makes waits for the device cover the context as long as it lives. Must be called before memory is
 * used in the context. Asks the driver nothing for the primary context and the context met last.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: the context is not covered */
TARN_MUST_CHECK tarn_status tn_gpu_meet_context(struct tn_gpu *gpu, tn_cu_context context);

/* Waits for the contexts that were met; wait_lock is held. DEVICE_MEMORY, DRIVER */
TARN_MUST_CHECK tarn_status tn_foreign_wait(struct tn_gpu *gpu);

/* Frees the library's allocations in the living contexts. Nobody else uses the device any more. */
void tn_foreign_end(struct tn_gpu *gpu);

#endif
