// SPDX-License-Identifier: Apache-2.0
/* compare.h -- two graphs, node by node. tarn/compare.h says what is compared.
 *
 * Locking: none may be held. The graphs and their functions must not be changed or destroyed
 * meanwhile. Nothing waits for the GPU or disturbs a capture. */
#ifndef TARN_INSPECT_COMPARE_H
#define TARN_INSPECT_COMPARE_H

#include "tarn/compare.h"
#include "vmm/region.h"

/* regions: of the graphs' device.
 *   LIMIT, HOST_MEMORY, DEVICE_LOST, DRIVER: nothing was made */
TARN_MUST_CHECK tarn_status tn_graphs_compare(struct tn_regions *regions, tn_cu_graph a,
                                              tn_cu_graph b, tarn_graph_diff **diff);

void tn_graph_diff_destroy(tarn_graph_diff *diff);

#endif
