// SPDX-License-Identifier: Apache-2.0
/* exec_memory.c -- the effect of launches on the memory that graphs allocate and free.
 *
 * How it works. See graph_memory.c: the books are kept when a launch is queued. Before, all chunks
 * with allocations of the launch are claimed, chunk by chunk. A chunk therefore never gets the
 * memory that another chunk of the launch has just got. Afterwards the launch itself keeps the
 * chunks.
 *
 * Trade-offs. The steps are walked for each question; graphs with allocations are short. */
#include "sim/exec/exec.h"
#include "sim/heap/graph_memory.h"
#include "sim/graph/op.h"

/* The block of a step of the given type; NULL for a step of another type. */
static struct tn_sim_graph_block *block_of(const struct tn_sim_exec *exec, size_t step,
                                           tn_cu_graphnode_type type)
{
    const struct tn_sim_op *op = exec->plan->steps.items[step]->op;
    return op->type == type ? op->alloc.block : NULL;
}

static bool does(const struct tn_sim_exec *exec, tn_cu_graphnode_type type,
                 const struct tn_sim_graph_block *block)
{
    for (size_t i = 0; i < exec->plan->steps.count; i++) {
        if (block_of(exec, i, type) == block)
            return true;
    }
    return false;
}

tn_cu_result tn_sim_exec_memory_ready(const struct tn_sim_exec *exec)
{
    bool frees = (exec->flags & TN_CU_GRAPH_INSTANTIATE_AUTO_FREE_ON_LAUNCH) != 0;
    size_t count = exec->plan->steps.count;
    for (size_t i = 0; i < count; i++) {
        const struct tn_sim_graph_block *made = block_of(exec, i, TN_CU_NODE_MEM_ALLOC);
        const struct tn_sim_graph_block *freed = block_of(exec, i, TN_CU_NODE_MEM_FREE);
        if (made != NULL && made->live && !frees)
            return TN_CUDA_ERROR_INVALID_VALUE;
        if (freed != NULL && !freed->live && !does(exec, TN_CU_NODE_MEM_ALLOC, freed))
            return TN_CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        struct tn_sim_graph_block *made = block_of(exec, i, TN_CU_NODE_MEM_ALLOC);
        if (made != NULL)
            tn_sim_graph_block_free(made);
    }
    return TN_CUDA_SUCCESS;
}

/* Asks whether an executable graph frees all its allocations. */
static bool gives_back(const struct tn_sim_exec *exec)
{
    for (size_t i = 0; i < exec->plan->steps.count; i++) {
        const struct tn_sim_graph_block *made = block_of(exec, i, TN_CU_NODE_MEM_ALLOC);
        if (made != NULL && !does(exec, TN_CU_NODE_MEM_FREE, made))
            return false;
    }
    return true;
}

tn_cu_result tn_sim_exec_memory_claim(const struct tn_sim_exec *exec, struct tn_sim_stream *stream)
{
    bool given_back = gives_back(exec);
    for (size_t i = 0; i < exec->plan->steps.count; i++) {
        struct tn_sim_graph_block *made = block_of(exec, i, TN_CU_NODE_MEM_ALLOC);
        if (made == NULL)
            continue;
        tn_cu_result result = tn_sim_graph_block_claim(made, given_back, stream);
        if (result != TN_CUDA_SUCCESS) {
            tn_sim_exec_memory_unclaim(exec);
            return result;
        }
    }
    return TN_CUDA_SUCCESS;
}

void tn_sim_exec_memory_unclaim(const struct tn_sim_exec *exec)
{
    for (size_t i = 0; i < exec->plan->steps.count; i++) {
        struct tn_sim_graph_block *made = block_of(exec, i, TN_CU_NODE_MEM_ALLOC);
        if (made != NULL)
            made->claimed = false;
    }
}

tn_cu_result tn_sim_exec_memory_attach(const struct tn_sim_exec *exec)
{
    tn_cu_result result = tn_sim_exec_memory_claim(exec, NULL);
    tn_sim_exec_memory_unclaim(exec);
    return result;
}

void tn_sim_exec_memory_launch(const struct tn_sim_exec *exec, struct tn_sim_stream *stream)
{
    for (size_t i = 0; i < exec->plan->steps.count; i++) {
        struct tn_sim_graph_block *made = block_of(exec, i, TN_CU_NODE_MEM_ALLOC);
        struct tn_sim_graph_block *freed = block_of(exec, i, TN_CU_NODE_MEM_FREE);
        if (made != NULL && !does(exec, TN_CU_NODE_MEM_FREE, made))
            tn_sim_graph_block_allocate(made);
        if (made != NULL)
            tn_sim_graph_block_used(made, stream);
        if (freed != NULL) {
            tn_sim_graph_block_used(freed, stream);
            tn_sim_graph_block_free(freed);
        }
    }
}
