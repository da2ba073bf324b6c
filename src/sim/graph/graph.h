// SPDX-License-Identifier: Apache-2.0
/* graph.h -- graphs: nodes in an order of execution, and the user objects that a graph holds.
 *
 * A graph is the program's own, made by a call or a capture; or belongs to a node, as its child
 * graph or as a body of its condition; or is the private copy of an executable graph. Private
 * graphs and their nodes have no handles. A private node remembers the node of which it is a copy.
 *
 * Invariants
 *   SG1  the dependencies of a private copy's nodes have no cycle
 *   SG2  a graph that a capture writes to is not destroyed, nor its owner
 *   SG3  a node has as many edges as nodes before it, in the same order
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_GRAPH_H
#define TARN_SIM_GRAPH_H

#include "sim/core/registry.h"
#include "sim/graph/user_object.h"

struct tn_sim_op;
struct tn_sim_graph;
struct tn_sim_graph_chunk;

/* Nodes, each once, in the order they were added. */
struct tn_sim_node_set {
    struct tn_sim_node **items;
    size_t count;
    size_t capacity;
};

struct tn_sim_node {
    struct tn_sim_object object;
    struct tn_sim_graph *graph;    /* that the node is in */
    size_t index;                  /* in its graph's list */
    struct tn_sim_op *op;          /* referenced */
    struct tn_sim_node_set before; /* the dependencies */
    tn_cu_edge_data *edges;        /* as many; NULL: no edges */
    /* of a child graph node a single graph, of a conditional node some */
    struct tn_sim_graph **bodies;
    size_t body_count;
    tn_cu_graph *body_handles;  /* the array that a conditional node lends to the program */
    uintptr_t origin;           /* in a private copy: the handle of the original node */
    bool disabled;              /* in a private copy: launches pass over it */
    bool taken;                 /* in a private copy: the running launch has begun the node */
    bool done;                  /* and is done with the node */
    unsigned int condition;     /* in a private copy: the present value of its handle */
    bool reached;               /* scratch of walks over the graph */
    struct tn_sim_node *twin;   /* scratch of updates: the partner of the node; */
    struct tn_sim_node *behind; /* the node from which it was reached; */
    size_t paired;              /* and how many dependencies have been looked at */
};

/* The memory of a graph, and of the executable graph made from the graph (graph_memory.c). */
struct tn_sim_graph_memory {
    unsigned int references;
    /* frees the memory's resources, before the record is freed */
    void (*fini)(struct tn_sim_graph_memory *memory);
    struct tn_sim_graph_chunk *chunk; /* for the next block; or NULL */
    bool instantiated; /* an executable graph has the memory; at most one at a time */
};

struct tn_sim_graph {
    struct tn_sim_object object;
    bool capturing;                     /* a capture writes to the graph */
    struct tn_sim_node *owner;          /* the node whose child graph or body this is; or NULL */
    struct tn_sim_node_set nodes;       /* its own, in the order they were added */
    struct tn_sim_node_set order;       /* of a private copy: the same in an order of execution */
    struct tn_sim_holdings holdings;    /* references to user objects */
    struct tn_sim_graph_memory *memory; /* for allocations; NULL without allocations */
    struct tn_sim_conditional *conditionals; /* handles made for the graph */
};

/* A conditional handle: the program's word for a value, which each executable graph has for itself.
 * The handle lives as long as the graph for which it was made. */
struct tn_sim_conditional {
    struct tn_sim_object object;
    struct tn_sim_graph *graph;
    struct tn_sim_context *runs_in;
    unsigned int launch_value;
    bool assigns;
    bool used; /* by a node; a second node cannot use the handle */
    struct tn_sim_conditional *next;
};

/* Adds a node, or the nodes of another set, unless they are in. Returns false when memory ran out;
 * some may then have been added. */
bool tn_sim_node_set_add(struct tn_sim_node_set *set, struct tn_sim_node *node);
bool tn_sim_node_set_add_all(struct tn_sim_node_set *set, const struct tn_sim_node_set *other);

/* Adds a node that is not in the set. Returns false when memory ran out. */
bool tn_sim_node_set_append(struct tn_sim_node_set *set, struct tn_sim_node *node);

/* Empties a set and releases its memory. */
void tn_sim_node_set_fini(struct tn_sim_node_set *set);

/* Makes an empty graph; NULL when memory ran out. */
struct tn_sim_graph *tn_sim_graph_create(void);

/* Makes a copy of a graph, its children and bodies included. The copy holds the same user objects.
 * It is private, without handles, or a graph of the program's. NULL when memory ran out. */
struct tn_sim_graph *tn_sim_graph_copy(const struct tn_sim_graph *original, bool is_private);

/* Gives up a reference to the memory of a graph. */
void tn_sim_graph_memory_release(struct tn_sim_graph_memory *memory);

/* Destroys a graph, and gives up its user objects. */
void tn_sim_graph_destroy(struct tn_sim_graph *graph);

/* Adds a node with the operation op, and takes a reference to op; NULL when memory ran out. */
struct tn_sim_node *tn_sim_graph_add(struct tn_sim_graph *graph, struct tn_sim_op *op,
                                     const struct tn_sim_node_set *before);

/* Makes a graph as the next body of a node: a copy of `original`, or an empty graph for NULL.
 * Returns false when memory ran out. */
bool tn_sim_node_add_body(struct tn_sim_node *node, const struct tn_sim_graph *original);

/* Makes a node depend on another, or changes the edge when it does already. Returns false when
 * memory ran out. */
bool tn_sim_node_depend(struct tn_sim_node *node, struct tn_sim_node *on, tn_cu_edge_data edge);

/* Removes a node's dependency on another; without effect when it has none. */
void tn_sim_node_forget(struct tn_sim_node *node, const struct tn_sim_node *gone);

/* Takes a node out of its graph, with its edges, and destroys it. */
void tn_sim_node_remove(struct tn_sim_node *node);

/* Asks whether an edge is of the ordinary kind. */
bool tn_sim_edge_is_default(const tn_cu_edge_data *edge);

/* Asks whether each of some nodes of a graph is among the last, or comes before a node of these. */
bool tn_sim_graph_reaches(const struct tn_sim_graph *graph, const struct tn_sim_node_set *last,
                          const struct tn_sim_node_set *nodes);

/* Asks whether a node comes before another, or is the same node. */
bool tn_sim_node_precedes(const struct tn_sim_node *node, struct tn_sim_node *other);

/* Fills the order of a graph and of all graphs in it; leaves out nodes in a cycle or behind a
 * cycle. Returns false when memory ran out. */
bool tn_sim_graph_sort(struct tn_sim_graph *graph);

/* Asks whether a graph, or a graph in it, allocates or frees. */
bool tn_sim_graph_has_memory(const struct tn_sim_graph *graph);

/* Asks whether a capture writes to a graph that a node owns, or to a graph in it. */
bool tn_sim_node_captured(const struct tn_sim_node *node);

/* Asks whether a graph, or a graph in it, has a conditional node. */
bool tn_sim_graph_has_condition(const struct tn_sim_graph *graph);

/* Finds a graph. INVALID_VALUE for NULL, INVALID_HANDLE for any other handle. */
tn_cu_result tn_sim_graph_find(tn_cu_graph handle, struct tn_sim_graph **graph);

/* The same for a node. */
tn_cu_result tn_sim_node_find(tn_cu_graphnode handle, struct tn_sim_node **node);

#endif
