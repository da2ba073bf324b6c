// SPDX-License-Identifier: Apache-2.0
/* graph.h -- graphs: nodes in an order of execution, and the user objects that a graph holds.
 *
 * A graph is the program's own, made by a call or a capture; or belongs to a node, as its child
 * graph or as a body of its condition; or is the private copy of an executable graph. Private ones
 * and their nodes have no handles; their nodes remember those they were copied from.
 *
 * Invariants
 *   SG1  what the nodes of a private copy depend on has no cycle
 *   SG2  a graph that a capture writes to is not destroyed, nor what owns it
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
    struct tn_sim_graph *graph;    /* that it is in */
    size_t index;                  /* in its graph's list */
    struct tn_sim_op *op;          /* referenced */
    struct tn_sim_node_set before; /* that it depends on */
    tn_cu_edge_data *edges;        /* as many; NULL while there is none */
    struct tn_sim_graph **bodies;  /* of a child graph node one, of a conditional node some */
    size_t body_count;
    tn_cu_graph *body_handles;  /* the array that a conditional node lends to the program */
    uintptr_t origin;           /* in a private copy: the handle of the node it is a copy of */
    bool disabled;              /* in a private copy: launches pass over it */
    bool taken;                 /* in a private copy: the launch that runs has begun it */
    bool done;                  /* and is done with it */
    unsigned int condition;     /* in a private copy: the present value of its handle */
    bool reached;               /* scratch of walks over the graph */
    struct tn_sim_node *twin;   /* scratch of updates: the node that it is paired with; */
    struct tn_sim_node *behind; /* the one that it was reached from; */
    size_t paired;              /* and how many of those before it have been looked at */
};

/* The memory of one graph, and of the executable graph made from it (graph_memory.c). */
struct tn_sim_graph_memory {
    unsigned int references;
    void (*fini)(struct tn_sim_graph_memory *memory); /* of what it has, before it is freed */
    struct tn_sim_graph_chunk *chunk;                 /* that the next block comes from; or NULL */
    bool instantiated; /* an executable graph has it; there is one at a time */
};

struct tn_sim_graph {
    struct tn_sim_object object;
    bool capturing;                     /* a capture writes to it */
    struct tn_sim_node *owner;          /* whose child graph or body it is; or NULL */
    struct tn_sim_node_set nodes;       /* its own, in the order they were added */
    struct tn_sim_node_set order;       /* of a private copy: the same in an order of execution */
    struct tn_sim_holdings holdings;    /* the user objects it has references to */
    struct tn_sim_graph_memory *memory; /* that it allocates from; NULL without allocations */
    struct tn_sim_conditional *conditionals; /* handles made for it */
};

/* A conditional handle. It is the program's word for a value that each executable graph has for
 * itself, and lives as long as the graph it was made for. */
struct tn_sim_conditional {
    struct tn_sim_object object;
    struct tn_sim_graph *graph;
    struct tn_sim_context *runs_in;
    unsigned int launch_value;
    bool assigns;
    bool used; /* by a node; it can be by one only */
    struct tn_sim_conditional *next;
};

/* Adds one node, or those of another set, unless they are in. Returns false when memory ran out;
 * some may then have been added. */
bool tn_sim_node_set_add(struct tn_sim_node_set *set, struct tn_sim_node *node);
bool tn_sim_node_set_add_all(struct tn_sim_node_set *set, const struct tn_sim_node_set *other);

/* Adds one node that is not in. Returns false when memory ran out. */
bool tn_sim_node_set_append(struct tn_sim_node_set *set, struct tn_sim_node *node);

/* Empties a set and releases its memory. */
void tn_sim_node_set_fini(struct tn_sim_node_set *set);

/* Makes an empty graph; NULL when memory ran out. */
struct tn_sim_graph *tn_sim_graph_create(void);

/* Makes a copy of a graph, its children and bodies included, which holds the same user objects; a
 * private one without handles, or one of the program's. NULL when memory ran out. */
struct tn_sim_graph *tn_sim_graph_copy(const struct tn_sim_graph *original, bool is_private);

/* Gives up one reference to the memory of a graph. */
void tn_sim_graph_memory_release(struct tn_sim_graph_memory *memory);

/* Destroys a graph, and gives up the user objects that it holds. */
void tn_sim_graph_destroy(struct tn_sim_graph *graph);

/* Adds a node that does op, which it takes a reference to; NULL when memory ran out. */
struct tn_sim_node *tn_sim_graph_add(struct tn_sim_graph *graph, struct tn_sim_op *op,
                                     const struct tn_sim_node_set *before);

/* Makes a graph that a node owns, as the next of its bodies: a copy of `original`, or an empty one
 * when that is NULL. Returns false when memory ran out. */
bool tn_sim_node_add_body(struct tn_sim_node *node, const struct tn_sim_graph *original);

/* Makes a node depend on another one, or changes the edge when it does. Returns false when memory
 * ran out. */
bool tn_sim_node_depend(struct tn_sim_node *node, struct tn_sim_node *on, tn_cu_edge_data edge);

/* Makes a node not depend on another one; without effect when it does not. */
void tn_sim_node_forget(struct tn_sim_node *node, const struct tn_sim_node *gone);

/* Takes a node out of its graph, with its edges, and destroys it. */
void tn_sim_node_remove(struct tn_sim_node *node);

/* Asks whether an edge is of the ordinary kind. */
bool tn_sim_edge_is_default(const tn_cu_edge_data *edge);

/* Asks whether each of some nodes of a graph is one of the last, or comes before one of them. */
bool tn_sim_graph_reaches(const struct tn_sim_graph *graph, const struct tn_sim_node_set *last,
                          const struct tn_sim_node_set *nodes);

/* Asks whether one node comes before another, or is it. */
bool tn_sim_node_precedes(const struct tn_sim_node *node, struct tn_sim_node *other);

/* Fills the order of a graph and of all graphs in it; leaves out what is in a cycle or behind one.
 * Returns false when memory ran out. */
bool tn_sim_graph_sort(struct tn_sim_graph *graph);

/* Asks whether a graph, or one in it, allocates or frees. */
bool tn_sim_graph_has_memory(const struct tn_sim_graph *graph);

/* Asks whether a capture writes to a graph that a node owns, or to one in it. */
bool tn_sim_node_captured(const struct tn_sim_node *node);

/* Asks whether a graph, or one in it, has a conditional node. */
bool tn_sim_graph_has_condition(const struct tn_sim_graph *graph);

/* Finds a graph. INVALID_VALUE for NULL, INVALID_HANDLE for what is none. */
tn_cu_result tn_sim_graph_find(tn_cu_graph handle, struct tn_sim_graph **graph);

/* The same for a node. */
tn_cu_result tn_sim_node_find(tn_cu_graphnode handle, struct tn_sim_node **node);

#endif
