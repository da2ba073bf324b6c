// SPDX-License-Identifier: Apache-2.0
/* graph_tools.h -- what the cases about graphs share: nodes by hand, read back, and run.
 *
 * All of it is set-up: a case that cannot have it ends there. What a case is about it calls itself,
 * by GIVES. */
#ifndef TARN_CONTRACT_GRAPH_TOOLS_H
#define TARN_CONTRACT_GRAPH_TOOLS_H

#include "contract/contract.h"

#define GRAPH_MAX_NODES 64

/* The arguments of a fill or an add, with the array that launches and nodes take. */
struct graph_words {
    tn_cu_deviceptr address;
    uint32_t value;
    uint32_t count; /* not of an add */
    void *params[3];
};

tn_cu_graph graph_new(void);

/* Parameters of nodes. Those of kernels point to *words, which must outlive the call that takes
 * them. Sets and copies are in words of 4 bytes. */
tn_cu_kernel_node_params graph_fill_params(struct graph_words *words, tn_cu_deviceptr address,
                                           uint32_t value, uint32_t count);
tn_cu_kernel_node_params graph_add_params(struct graph_words *words, tn_cu_deviceptr address,
                                          uint32_t amount);
tn_cu_memset_node_params graph_set_params(tn_cu_deviceptr address, uint32_t value, size_t count);
tn_cu_memcpy3d graph_copy_params(tn_cu_deviceptr to, tn_cu_deviceptr from, size_t count);
tn_cu_alloc_node_params graph_alloc_params(size_t bytes);

/* Nodes behind one other, or with `after` NULL behind none. */
tn_cu_graphnode graph_empty(tn_cu_graph graph, tn_cu_graphnode after);
tn_cu_graphnode graph_fill(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_deviceptr address,
                           uint32_t value, uint32_t count);
tn_cu_graphnode graph_add(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_deviceptr address,
                          uint32_t amount);
tn_cu_graphnode graph_hold(tn_cu_graph graph, tn_cu_graphnode after, uint32_t *flag);
tn_cu_graphnode graph_set(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_deviceptr address,
                          uint32_t value, size_t count);
tn_cu_graphnode graph_copy(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_deviceptr to,
                           tn_cu_deviceptr from, size_t count);
tn_cu_graphnode graph_host(tn_cu_graph graph, tn_cu_graphnode after, tn_cu_hostfn function,
                           void *user);
tn_cu_graphnode graph_alloc(tn_cu_graph graph, tn_cu_graphnode after, size_t bytes,
                            tn_cu_deviceptr *address);

/* How many nodes and edges there are, and the only node of a graph that has one. */
size_t graph_node_count(tn_cu_graph graph);
size_t graph_edge_count(tn_cu_graph graph);
tn_cu_graphnode graph_node(tn_cu_graph graph, size_t index);
tn_cu_graphnode_type graph_type(tn_cu_graphnode node);

tn_cu_graphexec graph_exec(tn_cu_graph graph);

/* Launches, waits, and gives up when either fails. */
void graph_run(tn_cu_graphexec exec, tn_cu_stream stream);

/* Ends both; either may be NULL. */
void graph_end(tn_cu_graph graph, tn_cu_graphexec exec);

/* Host functions: one adds 1 to the int that it is given, one does nothing. */
void graph_count_up(void *count);
void graph_nothing(void *ignored);

/* What graph_count_up has counted; and the same once it is not 0, or a while has passed. */
int graph_count(const int *count);
int graph_count_await(const int *count);

/* A word of page-locked memory, 0; for flags that kernels wait for. */
uint32_t *graph_flag(void);

/* What most cases need: some memory, a stream, a graph. */
struct graph_bench {
    struct contract_mapped memory; /* 2 MiB of zeros */
    tn_cu_stream stream;
    tn_cu_graph graph;
};
struct graph_bench graph_bench_begin(void);
void graph_bench_end(struct graph_bench *bench);

#endif
