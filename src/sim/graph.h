// SPDX-License-Identifier: Apache-2.0
/* graph.h -- graphs: nodes in an order of execution, and the user objects that a graph holds.
 *
 * Invariants
 *   G1  a node comes after all nodes that it depends on, in its graph's list
 *   G2  a graph that a capture writes to is not destroyed
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_GRAPH_H
#define TARN_SIM_GRAPH_H

#include "sim/registry.h"
#include "sim/user_object.h"

struct tn_sim_op;
struct tn_sim_graph;

/* Nodes, each once, in the order they were added. */
struct tn_sim_node_set {
    struct tn_sim_node **items;
    size_t count;
    size_t capacity;
};

struct tn_sim_node {
    struct tn_sim_object object;
    size_t index;                  /* in its graph's list */
    struct tn_sim_op *op;          /* referenced */
    struct tn_sim_node_set before; /* that it depends on */
    bool reached;                  /* scratch of tn_sim_graph_reaches_all */
};

struct tn_sim_graph {
    struct tn_sim_object object;
    bool capturing;                  /* a capture writes to it */
    struct tn_sim_node_set nodes;    /* its own */
    struct tn_sim_holdings holdings; /* the user objects it has references to */
};

/* Adds one node, or those of another set, unless they are in. Returns false when memory ran out;
 * some may then have been added. */
bool tn_sim_node_set_add(struct tn_sim_node_set *set, struct tn_sim_node *node);
bool tn_sim_node_set_add_all(struct tn_sim_node_set *set, const struct tn_sim_node_set *other);

/* Empties a set and releases its memory. */
void tn_sim_node_set_fini(struct tn_sim_node_set *set);

/* Makes an empty graph; NULL when memory ran out. */
struct tn_sim_graph *tn_sim_graph_create(void);

/* Destroys a graph, and gives up the user objects that it holds. */
void tn_sim_graph_destroy(struct tn_sim_graph *graph);

/* Adds a node that does op, which it takes a reference to; NULL when memory ran out. */
struct tn_sim_node *tn_sim_graph_add(struct tn_sim_graph *graph, struct tn_sim_op *op,
                                     const struct tn_sim_node_set *before);

/* Asks whether every node is one of these or comes before one of them. */
bool tn_sim_graph_reaches_all(struct tn_sim_graph *graph, const struct tn_sim_node_set *last);

/* Finds a graph. INVALID_VALUE for NULL, INVALID_HANDLE for what is none. */
tn_cu_result tn_sim_graph_find(tn_cu_graph handle, struct tn_sim_graph **graph);

#endif
