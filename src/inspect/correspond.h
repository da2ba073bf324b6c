// SPDX-License-Identifier: Apache-2.0
/* correspond.h -- which differing addresses of two graphs are in blocks that take each other's
 * place.
 *
 * Locking: none may be held. Nothing waits for the GPU or disturbs a capture. */
#ifndef TARN_INSPECT_CORRESPOND_H
#define TARN_INSPECT_CORRESPOND_H

#include "tarn/compare.h"
#include "vmm/region.h"

/* Where a difference has `corresponds` set, both its values are addresses of Tarn's. Finds their
 * blocks, and clears `corresponds` where the blocks do not correspond. same: addresses of Tarn's
 * that both graphs name at the same place, in any order.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: the differences are not to be used */
TARN_MUST_CHECK tarn_status tn_correspond(struct tn_regions *regions,
                                          tarn_graph_difference *differences, size_t count,
                                          const uint64_t *same, size_t same_count);

#endif
