// SPDX-License-Identifier: Apache-2.0
/* compare.h -- whether two captured graphs do the same to the same memory.
 *
 * After a checkpoint was restored, a section that is captured again should become the same graph again. Whether it
 * did is not a matter of belief:
 *
 *   tarn_graph_compare(before, after, &diff);
 *   if (!diff->equal)
 *       tarn_graph_diff_report(diff, TARN_REPORT_TEXT, text, sizeof text, NULL);
 *   tarn_graph_diff_destroy(diff);
 *
 * Both graphs are read back from the driver. The nth node of one is compared with the nth of the other, in the order
 * in which they were made, which for a capture is that of its calls; child graphs, too. Compared are types, edges and
 * their kinds, kernels' functions, grids, blocks and shared bytes, and every value that a node was made with: a
 * kernel's parameters in words of eight bytes at multiples of eight (the last one may be shorter), copies, sets,
 * batches, host functions, events and the driver's memory nodes field by field.
 *
 * Two words that differ may mean the same: where both are addresses in live blocks of Tarn's, they correspond when
 * they lie at the same offset in blocks of the same requested size, and the one block takes the other one's place
 * throughout. So there is a bijection from the blocks of the one graph to those of the other: a block that both graphs
 * name at one place stays itself, and of others the first pair that is seen makes the rule. Blocks are taken as they
 * are when the graphs are compared. Memory that was freed, and whose block is not known any more, corresponds to
 * nothing: of temporaries of a section this says that they have moved.
 *
 * What is not compared: a kernel's launch attributes (clusters, cooperation, priorities), what is in memory, and which
 * nodes of an executable are disabled. A struct that is passed as a parameter is compared with the bytes between its
 * members, which nobody has to set. Of some nodes the driver tells too little: kernels of whose parameters it gives
 * no sizes, conditional nodes, whose bodies it does not give, and types of which nothing can be read. They are
 * counted and listed, and two graphs that have such nodes are not said to be equal.
 *
 * All functions may be called from any thread, with any context current or none, while any stream is being captured,
 * and never disturb a capture. A graph of the driver's is one thread's at a time, as CUDA demands: so none of the
 * calls here may overlap another one that uses or changes either graph. */
#ifndef TARN_COMPARE_H
#define TARN_COMPARE_H

#include "tarn/audit.h"
#include "tarn/stats.h"
#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In a pair here, [0] is the graph a's and [1] the graph b's. */

/* What differs. What is not said to mean something is 0 or NULL.
 *
 *   NODE_COUNT   of the graphs, or of the child graphs of two nodes. values: how many. Nodes that have a counterpart
 *                are compared all the same
 *   NODE_TYPE    values: CUgraphNodeType. Nothing else of the nodes is compared
 *   EDGES        the nodes depend on others, or in another way. values: the ordinal of the first dependency, in rising
 *                order, that differs; TARN_NO_NODE: there is none more. The same twice: the edge is of another kind
 *   FUNCTION     of kernels. values: the functions. Their parameters are not compared
 *   LAUNCH       of kernels. field: grid_x to shared_bytes, or buffer_bytes where one was given fewer bytes of
 *                parameters. values: of both
 *   PARAMETER    a word of a kernel's parameter. index: of the parameter; offset: in it; bytes: 8, or fewer at its
 *                end; values: of both
 *   BUFFER       the same in the packed buffer of a kernel of whose parameters nothing else is known. offset: in that
 *   FIELD        of another node. field: its name, as "destination"; index: of a batch's operation, or of an
 *                allocation node's access; values: of both
 *   UNINSPECTED  no difference is known, and none can be excluded. field: of what; index: of a batch's operation */
typedef enum tarn_graph_difference_kind {
    TARN_GRAPH_DIFFERENCE_NODE_COUNT = 0,
    TARN_GRAPH_DIFFERENCE_NODE_TYPE = 1,
    TARN_GRAPH_DIFFERENCE_EDGES = 2,
    TARN_GRAPH_DIFFERENCE_FUNCTION = 3,
    TARN_GRAPH_DIFFERENCE_LAUNCH = 4,
    TARN_GRAPH_DIFFERENCE_PARAMETER = 5,
    TARN_GRAPH_DIFFERENCE_BUFFER = 6,
    TARN_GRAPH_DIFFERENCE_FIELD = 7,
    TARN_GRAPH_DIFFERENCE_UNINSPECTED = 8,
} tarn_graph_difference_kind;

typedef struct tarn_graph_difference {
    tarn_graph_difference_kind kind;
    bool corresponds; /* both values are addresses in blocks that correspond */
    uint32_t node;    /* index in the diff's nodes; TARN_NO_NODE: of the graphs themselves */
    uint32_t index;
    uint32_t offset;
    uint32_t bytes;
    const char *field; /* a static string, or NULL */
    uint64_t values[2];
    /* Where both values are addresses of Tarn's: the live blocks that contain them. Where there is none, all but the
     * pool is 0; that is the one whose memory it is, to be compared alone; NULL: none's. */
    tarn_block blocks[2];
} tarn_graph_difference;

/* Two nodes that were compared. */
typedef struct tarn_node_pair {
    tarn_driver_node handles[2];
    const char *kernels[2]; /* names of functions; NULL: no kernel, or the driver does not tell */
    int types[2];           /* CUgraphNodeType, cudaGraphNodeType */
    uint32_t parent;  /* index of the pair in whose child graphs they are; TARN_NO_NODE: none */
    uint32_t ordinal; /* among the nodes of their graphs, in the order of their creation */
} tarn_node_pair;

/* The result. All of it is the diff's, and constant. Names of kernels are copies: they outlive modules.
 *
 * Nodes are those of the graphs, then those of their child graphs. Differences of a pair of graphs' count and edges
 * come before those of its nodes; these are in order of node, then of the place in it. */
typedef struct tarn_graph_diff {
    bool same_structure; /* nodes as many and of the same types, the same edges; in children too */
    bool complete;       /* there is nothing that could not be inspected */
    bool equal;          /* same_structure, complete, and no value differs */
    bool corresponds;    /* the same, but that addresses that correspond may differ */
    size_t uninspected_count;
    size_t node_count;
    const tarn_node_pair *nodes;
    size_t difference_count; /* those of kind UNINSPECTED included */
    const tarn_graph_difference *differences;
} tarn_graph_diff;

/* Compares two graphs of one device. A graph is equal to itself. Their executables are not read, the driver gives no
 * way: after a cuGraphExecUpdate of the caller's own the graph that was updated with is to be compared, by
 * tarn_driver_graph_compare. *diff: owned by the caller; end it with tarn_graph_diff_destroy.
 *   INVALID_HANDLE    either graph
 *   INVALID_ARGUMENT  diff is NULL, or the graphs are of different devices
 *   LIMIT             2^32 nodes or more
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_compare(tarn_graph *a, tarn_graph *b,
                                                        tarn_graph_diff **diff);

/* The same for any graphs of the driver's, from any framework: CUgraphs or cudaGraph_ts that live and are of that
 * device. One that is being captured is compared on the thread that captures it, as far as it has come.
 *   INVALID_HANDLE    the device
 *   INVALID_ARGUMENT  a graph or diff is NULL
 *   LIMIT, HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_driver_graph_compare(tarn_device *device,
                                                               tarn_driver_graph a,
                                                               tarn_driver_graph b,
                                                               tarn_graph_diff **diff);
TARN_API void tarn_graph_diff_destroy(tarn_graph_diff *diff); /* NULL is allowed. */

/* Writes the diff as text: what is the same, then a line for each difference with its node (the ordinals on the way
 * to it, as 3.0), kernel, parameter, values and blocks. As JSON: one object with the same. As tarn_pool_report writes.
 *   INVALID_ARGUMENT: diff is NULL, buffer is NULL and capacity is not 0, or the format is none of these */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_diff_report(const tarn_graph_diff *diff,
                                                            tarn_report_format format, char *buffer,
                                                            size_t capacity, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
