// SPDX-License-Identifier: Apache-2.0
/* exec.h -- executable graphs.
 *
 * An executable graph has a plan: a private copy of what its graph was when instantiated, with an
 * order of execution and references to the user objects. Each queued launch refers to the plan it
 * began with; who changes the executable graph while there is such a launch gives it a new plan.
 * The handle and each queued launch refer to the executable graph, so it and what it holds go with
 * the last of them.
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
    struct tn_sim_node_set steps; /* what a launch does, child graphs included, in order */
    bool chain;                   /* each step depends on the one before it */
};

struct tn_sim_exec {
    struct tn_sim_object object;
    unsigned int references;
    struct tn_sim_plan *plan;
    uint64_t flags;
    struct tn_sim_graph_memory *memory; /* that it has; or NULL */
    size_t space_bytes;                 /* of the device, that it takes itself */
    struct tn_sim_point last; /* where its newest launch ends; the next one comes after it */
};

/* Takes references to what a part names, and gives them up. */
struct tn_sim_part tn_sim_part_acquire(const struct tn_sim_part *part);
void tn_sim_part_release(struct tn_sim_part *part);

/* Runs a part, on a worker. */
void tn_sim_part_run(const struct tn_sim_part *part);

/* Runs a private graph that is a body. Returns false when the context is dead afterwards. */
bool tn_sim_graph_run(const struct tn_sim_graph *graph);

/* The private graph that the calling thread is running; NULL when it runs none. */
const struct tn_sim_graph *tn_sim_running_graph(void);

/* Gives every condition of a private graph the value that launches begin with. */
void tn_sim_conditions_begin(const struct tn_sim_graph *graph);

/* Runs what a conditional node decides for. Returns false when the context is dead afterwards. */
bool tn_sim_condition_run(const struct tn_sim_node *node);

/* Makes a plan of what a graph is now, with one reference; NULL when memory ran out. A graph with
 * a cycle has fewer nodes in its order than it has. */
struct tn_sim_plan *tn_sim_plan_create(const struct tn_sim_graph *graph);
void tn_sim_plan_release(struct tn_sim_plan *plan);

/* Makes sure that an executable graph's plan can be changed (SE1). Returns false when memory ran
 * out. */
bool tn_sim_exec_own_plan(struct tn_sim_exec *exec);

/* Finds an executable graph. INVALID_VALUE for NULL, INVALID_HANDLE for what is none. */
tn_cu_result tn_sim_exec_find(tn_cu_graphexec handle, struct tn_sim_exec **exec);

/* Takes the device memory that a new executable graph needs itself, and gives it back
 * (exec_space.c). The first returns false when the device has not as much left. */
bool tn_sim_exec_space_take(struct tn_sim_exec *exec);
void tn_sim_exec_space_give(struct tn_sim_exec *exec);

/* -- Memory that an executable graph allocates and frees (exec_memory.c) -- */

/* Asks, and sees to it by freeing when the executable graph is to do so, that nothing it allocates
 * is live, and that what it frees for others is. INVALID_VALUE. */
tn_cu_result tn_sim_exec_memory_ready(const struct tn_sim_exec *exec);

/* Gives everything it allocates memory, and keeps others from that until a launch into a stream is
 * queued. OUT_OF_MEMORY. */
tn_cu_result tn_sim_exec_memory_claim(const struct tn_sim_exec *exec, struct tn_sim_stream *stream);

/* Ends the claim. */
void tn_sim_exec_memory_unclaim(const struct tn_sim_exec *exec);

/* Gives everything it allocates memory. OUT_OF_MEMORY. */
tn_cu_result tn_sim_exec_memory_attach(const struct tn_sim_exec *exec);

/* Notes what a launch, just queued, does to the blocks that it names. */
void tn_sim_exec_memory_settle(const struct tn_sim_exec *exec, struct tn_sim_stream *stream);

#endif
