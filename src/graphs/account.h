// SPDX-License-Identifier: Apache-2.0
/* account.h -- what graphs cost: tarn/graph_memory.h says what each number counts.
 *
 * Locking: none may be held. The driver's graphs are read under the GRAPHS lock; then the pools are
 * locked, one after the other. Nothing waits for the GPU or disturbs a capture. */
#ifndef TARN_GRAPHS_ACCOUNT_H
#define TARN_GRAPHS_ACCOUNT_H

#include "graphs/graph.h"
#include "tarn/graph_memory.h"

/* LIMIT, HOST_MEMORY, DEVICE_LOST, DRIVER: *memory is as before. */
TARN_MUST_CHECK tarn_status tn_account_graph(const tarn_graph *graph,
                                             tarn_graph_memory_info *memory);
TARN_MUST_CHECK tarn_status tn_account_device(tarn_device *device, tarn_graph_memory_info *memory);

#endif
