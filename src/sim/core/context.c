// SPDX-License-Identifier: Apache-2.0
/* context.c -- the records of contexts: the current context, and contexts' faults.
 *
 * How they are made and end: contexts.c, primary.c. */
#include "sim/core/context.h"

#define OWN_BYTES TN_SIM_GRANULE /* bytes that a context takes; a GPU's takes much more */

#define SCHEDULING_FLAGS 0x7u /* flags for a thread's way to wait: at most a single flag */

struct tn_sim_context tn_sim_nowhere;

struct tn_sim_context *tn_sim_context_top(void)
{
    const struct tn_sim_thread *self = tn_sim_self();
    return self->depth == 0 ? NULL : self->stack[self->depth - 1];
}

tn_cu_result tn_sim_context_health(const struct tn_sim_context *context)
{
    return context->alive ? context->fault : TN_CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

tn_cu_result tn_sim_context_current(struct tn_sim_context **context)
{
    *context = tn_sim_context_top();
    if (*context == NULL)
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    return tn_sim_context_health(*context);
}

tn_cu_result tn_sim_context_find(tn_cu_context handle, struct tn_sim_context **context)
{
    *context = tn_sim_find(TN_SIM_KIND_CONTEXT, (uintptr_t)handle);
    if (*context == NULL)
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    return (*context)->alive ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool tn_sim_context_flags_valid(unsigned int flags, unsigned int known)
{
    unsigned int scheduling = flags & SCHEDULING_FLAGS;
    return (flags & ~known) == 0 && (scheduling & (scheduling - 1)) == 0;
}

void tn_sim_context_fail(struct tn_sim_context *context, tn_cu_result fault)
{
    struct tn_sim_context *other;
    for (size_t at = 0; (other = tn_sim_find_next(TN_SIM_KIND_CONTEXT, &at)) != NULL;) {
        if (other->device == context->device && other->fault == TN_CUDA_SUCCESS)
            other->fault = fault;
    }
}

void tn_sim_context_revive(struct tn_sim_context *context)
{
    struct tn_sim_store *store = &tn_sim_devices[context->device].store;
    context->alive = true;
    if (context->own_bytes == 0 && tn_sim_store_charge(store, OWN_BYTES))
        context->own_bytes = OWN_BYTES;
}
