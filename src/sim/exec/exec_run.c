// SPDX-License-Identifier: Apache-2.0
/* exec_run.c -- does the steps of launches.
 *
 * How it works. The worker of a part takes ready steps, one after the other. A step is ready when
 * nobody has taken it and all steps before it are done. When another step is ready at the same
 * time, a further lane starts: a thread that takes steps too, and ends when none is ready. Branches
 * of a graph therefore run side by side, and may wait for each other, as on a device. A graph
 * without branches has no lane but the worker. The part is over when all its lanes are over.
 *
 * Every step before a child graph's node comes before everything in the child graph.
 *
 * Trade-offs. Lanes are threads of a single part, made and ended with it, and at most MAX_LANES.
 * Bodies of conditional nodes run one node after the other. */
#include <stdlib.h>

#include "sim/exec/exec.h"
#include "sim/run/op_run.h"

#define MAX_LANES 32

/* A part being run; goes with the worker's lane, which is the last. */
struct run {
    const struct tn_sim_part *part;
    unsigned int lanes; /* the worker's included */
    unsigned int busy;  /* lanes that run a step */
    size_t open;        /* the first step that is not taken, or a step before it */
    bool failed;
};

static _Thread_local const struct tn_sim_graph *running;

const struct tn_sim_graph *tn_sim_running_graph(void)
{
    return running;
}

static bool run_node(const struct tn_sim_node *node)
{
    if (node->disabled)
        return true;
    if (node->op->type == TN_CU_NODE_CONDITIONAL)
        return tn_sim_condition_run(node);
    if (node->op->type == TN_CU_NODE_GRAPH)
        return tn_sim_graph_run(node->bodies[0]);
    return tn_sim_op_run(node->op);
}

bool tn_sim_graph_run(const struct tn_sim_graph *graph)
{
    for (size_t i = 0; i < graph->order.count; i++) {
        if (!run_node(graph->order.items[i]))
            return false;
    }
    return true;
}

/* Asks whether a node is done: of a child graph, all its nodes. */
static bool is_done(const struct tn_sim_node *node)
{
    if (node->op->type != TN_CU_NODE_GRAPH)
        return node->done;
    for (size_t i = 0; i < node->bodies[0]->nodes.count; i++) {
        if (!is_done(node->bodies[0]->nodes.items[i]))
            return false;
    }
    return true;
}

/* Asks whether all steps before a node are done. */
static bool is_ready(const struct tn_sim_node *node)
{
    while (node != NULL) {
        for (size_t i = 0; i < node->before.count; i++) {
            if (!is_done(node->before.items[i]))
                return false;
        }
        node = node->graph->owner;
    }
    return true;
}

/* The first step from a place on that is ready and not taken, or NULL. Moves the place to this
 * step. */
static struct tn_sim_node *find_ready(const struct tn_sim_part *part, size_t *place)
{
    for (; *place < part->end; ++*place) {
        struct tn_sim_node *node = part->plan->steps.items[*place];
        if (!node->taken && is_ready(node))
            return node;
    }
    return NULL;
}

static void *lane(void *argument);

/* Starts a lane when a step behind a place is ready too. Without a further lane the part is
 * correct, but slower. */
static void widen(struct run *run, size_t place)
{
    place++;
    if (run->part->plan->chain || run->lanes >= MAX_LANES ||
        find_ready(run->part, &place) == NULL || !tn_sim_thread_start(lane, run))
        return;
    run->lanes++;
}

/* Takes steps until none is left; the worker's lane waits for the steps of the other lanes. */
static void take_steps(struct run *run, bool is_worker)
{
    const struct tn_sim_context *context = run->part->exec->object.context;
    running = run->part->plan->graph;
    while (!run->failed && context->fault == TN_CUDA_SUCCESS && !tn_sim.stopping) {
        while (run->open < run->part->end && run->part->plan->steps.items[run->open]->taken)
            run->open++;
        size_t place = run->open;
        struct tn_sim_node *node = find_ready(run->part, &place);
        if (node == NULL && is_worker && run->busy > 0) {
            tn_sim_wait();
            continue;
        }
        if (node == NULL)
            break;
        node->taken = true;
        widen(run, place);
        run->busy++;
        if (run_node(node))
            node->done = true;
        else
            run->failed = true;
        run->busy--;
        if (run->lanes > 1)
            pthread_cond_broadcast(&tn_sim.changed);
    }
    running = NULL;
}

static void *lane(void *argument)
{
    struct run *run = argument;
    pthread_mutex_lock(&tn_sim.lock);
    take_steps(run, false);
    run->lanes--;
    tn_sim_thread_ends();
    pthread_mutex_unlock(&tn_sim.lock);
    return NULL;
}

static void reset(const struct tn_sim_node_set *steps)
{
    for (size_t i = 0; i < steps->count; i++) {
        steps->items[i]->taken = false;
        steps->items[i]->done = false;
    }
}

void tn_sim_part_run(const struct tn_sim_part *part)
{
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        tn_sim_context_fail(part->exec->object.context, TN_CUDA_ERROR_LAUNCH_FAILED);
        return;
    }
    run->part = part;
    run->lanes = 1;
    run->open = part->first;
    if (part->first == 0) {
        tn_sim_conditions_reset(part->plan->graph);
        reset(&part->plan->steps);
    }
    take_steps(run, true);
    /* Waits at the end of the process too: the lanes use the plan and the records of the part. */
    while (run->lanes > 1)
        pthread_cond_wait(&tn_sim.changed, &tn_sim.lock);
    free(run);
}
