// SPDX-License-Identifier: Apache-2.0
/* op.c -- makes and shares device work.
 *
 * An operation's own memory goes with the operation here. References that its maker took are given
 * up by the maker's own function. */
#include "sim/graph/op.h"

#include <stdlib.h>
#include <string.h>

struct tn_sim_op *tn_sim_op_create(tn_cu_graphnode_type type, struct tn_sim_context *context)
{
    struct tn_sim_op *op = calloc(1, sizeof *op);
    if (op == NULL)
        return NULL;
    op->type = type;
    op->context = context;
    op->references = 1;
    op->made_by = tn_sim_self()->function;
    return op;
}

struct tn_sim_op *tn_sim_op_acquire(struct tn_sim_op *op)
{
    op->references++;
    return op;
}

static void free_owned(struct tn_sim_op *op)
{
    switch (op->type) {
    case TN_CU_NODE_KERNEL:
        free(op->kernel.params);
        free(op->kernel.block);
        break;
    case TN_CU_NODE_MEMCPY:
        free(op->copy.staged);
        break;
    case TN_CU_NODE_BATCH_MEM_OP:
        free(op->batch.ops);
        break;
    case TN_CU_NODE_MEM_ALLOC:
    case TN_CU_NODE_MEM_FREE:
        free((void *)op->alloc.params.access);
        break;
    default:
        break;
    }
}

void tn_sim_op_release(struct tn_sim_op *op)
{
    if (--op->references > 0)
        return;
    free_owned(op);
    if (op->give_up != NULL)
        op->give_up(op);
    free(op);
}

struct tn_sim_op *tn_sim_batch_make(struct tn_sim_context *context, const tn_cu_batch_op *ops,
                                    unsigned int count, unsigned int flags)
{
    struct tn_sim_op *op = tn_sim_op_create(TN_CU_NODE_BATCH_MEM_OP, context);
    if (op == NULL)
        return NULL;
    op->batch.ops = calloc(count == 0 ? 1 : count, sizeof *ops);
    if (op->batch.ops == NULL) {
        tn_sim_op_release(op);
        return NULL;
    }
    if (count > 0)
        memcpy(op->batch.ops, ops, count * sizeof *ops);
    op->batch.count = count;
    op->batch.flags = flags;
    return op;
}

bool tn_sim_copy_each_row(const struct tn_sim_copy_op *copy,
                          bool (*visit)(uintptr_t to, uintptr_t from, size_t bytes, void *argument),
                          void *argument)
{
    const tn_cu_memcpy3d *shape = &copy->shape;
    size_t rows = shape->width == 0 ? 1 : shape->height;
    size_t planes = shape->width == 0 ? 1 : shape->depth;
    for (size_t z = 0; z < planes; z++) {
        uintptr_t to = copy->to + z * shape->dst_pitch * shape->dst_height;
        uintptr_t from = copy->from + z * shape->src_pitch * shape->src_height;
        for (size_t y = 0; y < rows; y++, to += shape->dst_pitch, from += shape->src_pitch) {
            if (!visit(to, from, copy->bytes, argument))
                return false;
        }
    }
    return true;
}
