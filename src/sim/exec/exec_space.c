// SPDX-License-Identifier: Apache-2.0
/* exec_space.c -- the device memory that executable graphs themselves take.
 *
 * How it works. The need of a graph is computed from its nodes and branches. The sum of all needs
 * on a device is charged in steps of 2 MiB. Memory no longer needed stays used, as spare memory of
 * the device, and serves the next graph first.
 *
 * Trade-offs. The two numbers fit the measurements on an H200 within a third: 2,405 to 3,490 bytes
 * a node of a chain, about 100 KiB more for each branch. The whole is off by default
 * (TARN_SIM_EXEC_MEMORY). */
#include "sim/exec/exec.h"

#define NODE_BYTES ((size_t)3 << 10)
#define BRANCH_BYTES ((size_t)110 << 10)

static size_t needed[TN_SIM_MAX_DEVICES];

static size_t rounded(size_t bytes)
{
    return (bytes + TN_SIM_GRANULE - 1) / TN_SIM_GRANULE * TN_SIM_GRANULE;
}

/* The number of branches. A node begins a branch if it has no node before it, or is not the first
 * behind any of the nodes before it. */
static size_t count_branches(const struct tn_sim_node_set *steps)
{
    size_t branches = 0;
    for (size_t i = 0; i < steps->count; i++) {
        const struct tn_sim_node *node = steps->items[i];
        bool continues = false;
        for (size_t j = 0; j < node->before.count && !continues; j++) {
            struct tn_sim_node *before = node->before.items[j];
            continues = before->twin == NULL || before->twin == node;
            if (continues)
                before->twin = steps->items[i];
        }
        branches += !continues;
    }
    for (size_t i = 0; i < steps->count; i++)
        steps->items[i]->twin = NULL;
    return branches;
}

bool tn_sim_exec_space_take(struct tn_sim_exec *exec)
{
    if (!tn_sim.exec_memory)
        return true;
    int device = exec->object.context->device;
    struct tn_sim_store *store = &tn_sim_devices[device].store;
    size_t branches = count_branches(&exec->plan->steps);
    size_t bytes = exec->plan->steps.count * NODE_BYTES;
    if (branches > 1)
        bytes += (branches - 1) * BRANCH_BYTES;
    size_t more = rounded(needed[device] + bytes) - rounded(needed[device]);
    size_t kept = tn_sim_store_unspare(store, more);
    if (!tn_sim_store_charge(store, more - kept)) {
        tn_sim_store_spare(store, kept);
        return false;
    }
    needed[device] += bytes;
    exec->space_bytes = bytes;
    return true;
}

void tn_sim_exec_space_give(struct tn_sim_exec *exec)
{
    if (exec->space_bytes == 0)
        return;
    int device = exec->object.context->device;
    size_t less = rounded(needed[device]) - rounded(needed[device] - exec->space_bytes);
    needed[device] -= exec->space_bytes;
    exec->space_bytes = 0;
    tn_sim_store_spare(&tn_sim_devices[device].store, less);
}
