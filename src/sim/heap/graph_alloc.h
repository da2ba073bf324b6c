// SPDX-License-Identifier: Apache-2.0
/* graph_alloc.h -- operations of graphs that allocate and free, by hand and in captures.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_GRAPH_ALLOC_H
#define TARN_SIM_GRAPH_ALLOC_H

#include "sim/heap/graph_memory.h"
#include "sim/graph/op.h"

/* Makes an operation that allocates, and its block in the graph's memory. INVALID_VALUE.
 * NOT_SUPPORTED. OUT_OF_MEMORY. */
tn_cu_result tn_sim_make_alloc(struct tn_sim_graph *graph, const tn_cu_alloc_node_params *params,
                               struct tn_sim_op **op);

/* Makes an operation that frees. INVALID_VALUE, too, when the graph frees the address already.
 * OUT_OF_MEMORY. */
tn_cu_result tn_sim_make_free(const struct tn_sim_graph *graph, struct tn_sim_context *context,
                              uintptr_t address, struct tn_sim_op **op);

/* Adds an allocation to the graph that a stream captures, and tells its address. INVALID_VALUE.
 * OUT_OF_MEMORY. */
tn_cu_result tn_sim_capture_allocate(struct tn_sim_stream *stream,
                                     const tn_cu_alloc_node_params *params,
                                     tn_cu_deviceptr *address);

/* Adds the end of an allocation of a graph to the graph that a stream captures. INVALID_VALUE when
 * the address is no allocation's, or the graph frees it already. OUT_OF_MEMORY. */
tn_cu_result tn_sim_capture_free(struct tn_sim_stream *stream, tn_cu_deviceptr address);

#endif
