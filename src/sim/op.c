// SPDX-License-Identifier: Apache-2.0
/* op.c -- makes, shares and does device work.
 *
 * How it works. Before a copy or a set the books are asked, as the GPU asks its page tables: so a
 * missing right of one device is a fault although another device's right has given the pages
 * away. What the books cannot see, because a mapping went while the work ran or because a kernel
 * computes its own addresses, the guard catches (guard.c). A set that faults is LAUNCH_FAILED and
 * everything else ILLEGAL_ADDRESS, as measured.
 *
 * Trade-offs. A kernel's pages are the union of all devices' rights (space.c). */
#include "sim/op.h"

#include <stdlib.h>
#include <string.h>

#include "sim/guard.h"
#include "sim/module.h"
#include "sim/space.h"

struct tn_sim_op *tn_sim_op_create(tn_cu_graphnode_type type, struct tn_sim_context *context)
{
    struct tn_sim_op *op = calloc(1, sizeof *op);
    if (op == NULL)
        return NULL;
    op->type = type;
    op->context = context;
    op->references = 1;
    return op;
}

struct tn_sim_op *tn_sim_op_acquire(struct tn_sim_op *op)
{
    op->references++;
    return op;
}

void tn_sim_op_release(struct tn_sim_op *op)
{
    if (--op->references > 0)
        return;
    if (op->type == TN_CU_NODE_KERNEL) {
        free(op->kernel.params);
        free(op->kernel.block);
        tn_sim_code_release(op->kernel.code);
    } else if (op->type == TN_CU_NODE_MEMCPY) {
        free(op->copy.staged);
    }
    free(op);
}

bool tn_sim_op_valid(const struct tn_sim_op *op)
{
    int device = op->context->device;
    if (op->type == TN_CU_NODE_MEMSET)
        return tn_sim_space_allows(op->set.address, op->set.width * op->set.count, device, true);
    if (op->type == TN_CU_NODE_MEMCPY) {
        const struct tn_sim_copy_op *copy = &op->copy;
        return (!copy->to_device || tn_sim_space_allows(copy->to, copy->bytes, device, true)) &&
               (!copy->from_device || tn_sim_space_allows(copy->from, copy->bytes, device, false));
    }
    return true;
}

/* A kernel's call, ready to be made without the lock. */
struct kernel_call {
    tarn_sim_kernel twin;
    const struct tn_sim_kernel_op *kernel;
};

static void call_kernel(void *argument)
{
    const struct kernel_call *call = argument;
    call->twin(&call->kernel->launch, call->kernel->params);
}

static void do_copy(void *argument)
{
    const struct tn_sim_copy_op *copy = argument;
    const void *from = copy->staged != NULL ? copy->staged : (const void *)copy->from;
    memmove((void *)copy->to, from, copy->bytes);
}

static void do_set(void *argument)
{
    const struct tn_sim_set_op *set = argument;
    if (set->width == 1) {
        memset((void *)set->address, (int)set->value, set->count);
        return;
    }
    volatile unsigned int *element = (volatile unsigned int *)set->address;
    for (size_t i = 0; i < set->count; i++)
        element[i] = set->value;
}

static void call_host(const struct tn_sim_host_op *host)
{
    struct tn_sim_thread *self = tn_sim_self();
    self->in_callback = true;
    host->function(host->user);
    self->in_callback = false;
}

/* Does the work without the lock. Returns false when it faulted. */
static bool do_work(struct tn_sim_op *op)
{
    struct kernel_call call = {.kernel = &op->kernel};
    if (op->type == TN_CU_NODE_KERNEL)
        call.twin = tn_sim_code_twin(op->kernel.code);
    bool survived = true;
    tn_sim_leave();
    switch (op->type) {
    case TN_CU_NODE_KERNEL:
        survived = tn_sim_guard_run(call_kernel, &call);
        break;
    case TN_CU_NODE_MEMCPY:
        survived = tn_sim_guard_run(do_copy, &op->copy);
        break;
    case TN_CU_NODE_MEMSET:
        survived = tn_sim_guard_run(do_set, &op->set);
        break;
    case TN_CU_NODE_HOST:
        call_host(&op->host);
        break;
    default:
        break;
    }
    pthread_mutex_lock(&tn_sim.lock);
    return survived;
}

bool tn_sim_op_run(struct tn_sim_op *op)
{
    struct tn_sim_context *context = op->context;
    if (context->fault != TN_CUDA_SUCCESS)
        return false;
    if (tn_sim_op_valid(op) && do_work(op))
        return context->fault == TN_CUDA_SUCCESS;
    if (context->fault == TN_CUDA_SUCCESS)
        context->fault = op->type == TN_CU_NODE_MEMSET ? TN_CUDA_ERROR_LAUNCH_FAILED
                                                       : TN_CUDA_ERROR_ILLEGAL_ADDRESS;
    return false;
}
