// SPDX-License-Identifier: Apache-2.0
/* exec.h -- executable graphs.
 *
 * An executable graph has a plan: a private copy of its graph at instantiation, with an order of
 * execution and references to the user objects. Each queued launch refers to the plan with which it
 * began. A change of the executable graph while a launch is queued makes a new plan. The handle and
 * each queued launch refer to the executable graph. The executable graph and its resources go with
 * the last of these references.
 *
 * Invariants
 *   SE1  a plan that a queued launch refers to is not changed, conditions excepted
 *   SE2  at most one executable graph has a graph's memory
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_EXEC_H
#define TARN_SIM_EXEC_H

#include "sim/stream/stream.h"

struct tn_sim_plan {
    unsigned int references;
    struct tn_sim_graph *graph;   /* private */
    struct tn_sim_node_set steps; /* of a launch, child graphs included, in order */
    bool chain;                   /* each step depends on the step before */
};

struct tn_sim_exec {
    struct tn_sim_object object;
    unsigned int references;
    struct tn_sim_plan *plan;
    uint64_t flags;
    struct tn_sim_graph_memory *memory; /* of its graph's allocations; or NULL */
    /* of the device's memory, for the executable graph itself */
    size_t space_bytes;
    /* the end of the newest launch; the next launch comes after this point */
    struct tn_sim_point last;
};

/* Takes references to the plan and the executable graph of a part, and gives them up. */
struct tn_sim_part tn_sim_part_acquire(const struct tn_sim_part *part);
void tn_sim_part_release(struct tn_sim_part *part);

/* Runs a part, on a worker. */
void tn_sim_part_run(const struct tn_sim_part *part);

/* Runs a private graph that is a body. Returns false when the context is dead afterwards. */
bool tn_sim_graph_run(const struct tn_sim_graph *graph);

/* The private graph that the calling thread is running, or NULL. */
const struct tn_sim_graph *tn_sim_running_graph(void);

/* Gives every condition of a private graph the value with which launches begin. */
void tn_sim_conditions_reset(const struct tn_sim_graph *graph);

/* Runs the bodies that a conditional node decides for. Returns false when the context is dead
 * afterwards. */
bool tn_sim_condition_run(const struct tn_sim_node *node);

/* Makes a plan of a graph's present state, with one reference; NULL when memory ran out. The order
 * of a graph with a cycle has fewer nodes than the graph. */
struct tn_sim_plan *tn_sim_plan_create(const struct tn_sim_graph *graph);
void tn_sim_plan_release(struct tn_sim_plan *plan);

/* Makes sure that an executable graph's plan can be changed (SE1). Returns false when memory ran
 * out. */
bool tn_sim_exec_own_plan(struct tn_sim_exec *exec);

/* Finds an executable graph. INVALID_VALUE for NULL, INVALID_HANDLE for any other handle. */
tn_cu_result tn_sim_exec_find(tn_cu_graphexec handle, struct tn_sim_exec **exec);

/* Takes the device memory that a new executable graph itself needs, and gives it back
 * (exec_space.c). The first returns false when the device has too little left. */
bool tn_sim_exec_space_take(struct tn_sim_exec *exec);
void tn_sim_exec_space_give(struct tn_sim_exec *exec);

/* -- Memory that an executable graph allocates and frees (exec_memory.c) -- */

/* Asks whether every block that the executable graph allocates is not live, and every block that it
 * frees for others is live. With the flag for this, frees its own live blocks first.
 * INVALID_VALUE. */
tn_cu_result tn_sim_exec_memory_ready(const struct tn_sim_exec *exec);

/* Gives memory to every allocation of the executable graph. Other graphs cannot take this memory
 * until a launch into a stream is queued. OUT_OF_MEMORY. */
tn_cu_result tn_sim_exec_memory_claim(const struct tn_sim_exec *exec, struct tn_sim_stream *stream);

/* Ends the claim. */
void tn_sim_exec_memory_unclaim(const struct tn_sim_exec *exec);

/* Gives memory to every allocation of the executable graph. OUT_OF_MEMORY. */
tn_cu_result tn_sim_exec_memory_attach(const struct tn_sim_exec *exec);

/* Notes the effect of a launch, just queued, on the blocks that it names. */
void tn_sim_exec_memory_launch(const struct tn_sim_exec *exec, struct tn_sim_stream *stream);

#endif
