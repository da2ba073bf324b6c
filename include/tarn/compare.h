// SPDX-License-Identifier: Apache-2.0
/* compare.h -- whether two captured graphs do the same to the same memory.
 *
 * After a restore, a section that is captured again should become the same graph again. A
 * comparison proves it:
 *
 *   tarn_graph_compare(before, after, &diff);
 *   if (!diff->equal)
 *       tarn_graph_diff_report(diff, TARN_REPORT_TEXT, text, sizeof text, NULL);
 *   tarn_graph_diff_destroy(diff);
 *
 * Both graphs are read back from the driver. The nth node of a is compared with the nth of b, in
 * the order of their creation: for a capture, the order of its calls. Child graphs are compared,
 * too. Compared are:
 * - types, edges and their kinds;
 * - kernels' functions, grids, blocks and shared bytes;
 * - a kernel's parameters, in words of eight bytes at multiples of eight; the last word may be
 *   shorter;
 * - copies, sets, batches, host functions, events and the driver's memory nodes, field by field.
 *
 * Two different words correspond if all of this holds:
 * - Both are addresses in live blocks of Tarn's.
 * - They lie at the same offset in blocks of the same requested size.
 * - The two blocks take each other's place throughout: a bijection leads from the blocks of a to
 *   the blocks of b.
 *
 * A block that both graphs name at the same place stays itself. For other blocks the first pair
 * makes the rule. Blocks are taken as they are at the comparison. Freed memory corresponds to
 * nothing. If the temporaries of a section moved, the graphs differ.
 *
 * Not compared are a kernel's launch attributes (clusters, cooperation, priorities), the bytes in
 * memory, and which nodes of an executable are disabled. A struct passed as a parameter is compared
 * with its padding, which nobody has to set. Some nodes cannot be inspected:
 * - kernels for which the driver gives no parameter sizes;
 * - conditional nodes, since the driver does not give their bodies;
 * - nodes of types that nobody can read.
 * They are counted and listed. Two graphs with uninspected nodes are never called equal.
 *
 * All functions may be called from any thread, with any context current or none, while any stream
 * is being captured. They never disturb a capture. CUDA demands that a single thread at a time uses
 * a driver's graph: no other call may use or change either graph meanwhile. */
#ifndef TARN_COMPARE_H
#define TARN_COMPARE_H

#include "tarn/audit.h"
#include "tarn/stats.h"
#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In a pair here, [0] is of graph a and [1] of graph b. */

/* The kind of a difference. Fields that its entry does not name are 0 or NULL.
 *
 *   NODE_COUNT   Of the graphs, or of the child graphs of two nodes. values: the numbers. Nodes
 *                with a counterpart are compared all the same.
 *   NODE_TYPE    values: CUgraphNodeType. Nothing else of the nodes is compared.
 *   EDGES        The nodes depend on other nodes, or in another way. values: the ordinal of the
 *                first dependency that differs, in rising order; TARN_NO_NODE: no further
 *                dependency. The same ordinal twice: the edge is of another kind.
 *   FUNCTION     Of kernels. values: the functions. Their parameters are not compared.
 *   LAUNCH       Of kernels. field: grid_x to shared_bytes. Or buffer_bytes, where a kernel was
 *                given fewer bytes of parameters. values: of both.
 *   PARAMETER    A word of a kernel's parameter. index: of the parameter. offset: in the parameter.
 *                bytes: 8, or fewer at its end. values: of both.
 *   BUFFER       The same in the packed buffer of a kernel whose parameters are not known further.
 *                offset: in the buffer.
 *   FIELD        Of another node. field: its name, as "destination". index: of a batch's operation,
 *                or of an allocation node's access. values: of both.
 *   UNINSPECTED  No difference is known, and none can be excluded. field: of what. index: of a
 *                batch's operation. */
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
    /* Both values are addresses in blocks that correspond. */
    bool corresponds;
    /* Index in the diff's nodes. TARN_NO_NODE: the difference is of the graphs themselves. */
    uint32_t node;
    uint32_t index;
    uint32_t offset;
    uint32_t bytes;
    /* A static string, or NULL. */
    const char *field;
    uint64_t values[2];
    /* Where both values are addresses of Tarn's: the live blocks that contain them. An address in
     * no live block has 0 in all fields but the pool. That pool owns the memory, and is to be
     * compared alone; NULL: no pool owns it. */
    tarn_block blocks[2];
} tarn_graph_difference;

/* Two nodes that were compared. */
typedef struct tarn_node_pair {
    tarn_driver_node handles[2];
    /* Names of functions. NULL: no kernel, or the driver does not tell the name. */
    const char *kernels[2];
    /* CUgraphNodeType, cudaGraphNodeType. */
    int types[2];
    /* Index of the pair whose child graphs have these nodes; TARN_NO_NODE: none. */
    uint32_t parent;
    /* The place among the nodes of their graphs, in the order of their creation. */
    uint32_t ordinal;
} tarn_node_pair;

/* The result, constant and owned by the diff. Names of kernels are copies: they outlive modules.
 *
 * The nodes of the graphs come first, then those of their child graphs. Differences of a pair of
 * graphs' count and edges come before differences of its nodes. These are in order of node, then of
 * the place in the node. */
typedef struct tarn_graph_diff {
    /* The same number and types of nodes, and the same edges, in child graphs too. */
    bool same_structure;
    /* Everything could be inspected. */
    bool complete;
    /* same_structure, complete, and no value differs. */
    bool equal;
    /* As equal, except that corresponding addresses may differ. */
    bool corresponds;
    size_t uninspected_count;
    size_t node_count;
    const tarn_node_pair *nodes;
    /* Differences of kind UNINSPECTED included. */
    size_t difference_count;
    const tarn_graph_difference *differences;
} tarn_graph_diff;

/* Compares two graphs of one device. A graph is equal to itself. Their executables cannot be read.
 * After a cuGraphExecUpdate of your own, compare the graph that you updated with, by
 * tarn_driver_graph_compare. *diff: owned by the caller; end it with tarn_graph_diff_destroy.
 *   INVALID_HANDLE    Either graph.
 *   INVALID_ARGUMENT  diff is NULL.
 *                     The graphs are of different devices.
 *   LIMIT             A graph has 2^32 nodes or more.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_compare(tarn_graph *a, tarn_graph *b,
                                                        tarn_graph_diff **diff);

/* The same for any graphs of the driver's, from any framework: live CUgraphs or cudaGraph_ts of
 * this device. A graph that is being captured is compared on the capturing thread, as far as the
 * capture has come.
 *   INVALID_HANDLE    The device.
 *   INVALID_ARGUMENT  A graph or diff is NULL.
 *   LIMIT             As tarn_graph_compare.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_driver_graph_compare(tarn_device *device,
                                                               tarn_driver_graph a,
                                                               tarn_driver_graph b,
                                                               tarn_graph_diff **diff);
TARN_API void tarn_graph_diff_destroy(tarn_graph_diff *diff); /* NULL is allowed. */

/* Writes the diff, as tarn_pool_report writes. Text: the verdict, then a line for each difference.
 * A line has the node (the ordinals on the way to it, as 3.0), kernel, parameter, values and
 * blocks. JSON: an object with the same.
 *   INVALID_ARGUMENT  diff is NULL.
 *                     buffer is NULL, and capacity is not 0.
 *                     The format is unknown. */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_diff_report(const tarn_graph_diff *diff,
                                                            tarn_report_format format, char *buffer,
                                                            size_t capacity, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
