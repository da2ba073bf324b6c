// SPDX-License-Identifier: Apache-2.0
/* correspond.h -- which of the addresses in which two graphs differ are in blocks that take each other's place.
 *
 * Locking: none may be held. Nothing waits for the GPU or disturbs a capture. */
#ifndef TARN_INSPECT_CORRESPOND_H
#define TARN_INSPECT_CORRESPOND_H

#include "tarn/compare.h"
#include "vmm/region.h"

/* Of differences whose corresponds is set both values are addresses of Tarn's: finds their blocks, and clears it where
 * they do not correspond. same: addresses of Tarn's that both graphs name at one place, in any order.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: the differences are not to be used */
TARN_MUST_CHECK tarn_status tn_correspond(struct tn_regions *regions,
                                          tarn_graph_difference *differences, size_t count,
                                          const uint64_t *same, size_t same_count);

#endif
