// SPDX-License-Identifier: Apache-2.0
/* contexts.c -- contexts that programs make, and each thread's stack of current ones.
 *
 * How it works. When a context ends, its work may finish. Then its streams, events, modules, linear
 * and host memory go. Executable graphs remain until they are destroyed, but cannot be launched.
 * Physical memory, mappings and reservations belong to no context and stay.
 *
 * Trade-offs. The records of contexts that programs made are never freed: other threads may have
 * them on their stacks, and operations of graphs may name them. */
#include "sim/entry/contexts.h"

#include <stdlib.h>

#include "sim/stream/event.h"
#include "sim/heap/host.h"
#include "sim/heap/ipc.h"
#include "sim/heap/linear.h"
#include "sim/code/module.h"
#include "sim/memory/peer.h"
#include "sim/stream/stream.h"

#define KNOWN_FLAGS 0xFFu
#define FIRST_CAPACITY 16 /* of a stack */

void tn_sim_context_clear(struct tn_sim_context *context)
{
    tn_sim_streams_wait_all(context);
    if (context->alive)
        return;
    /* SX2 */
    tn_sim_streams_close_all(context);
    tn_sim_events_abandon_all(context);
    tn_sim_modules_unload_all(context);
    tn_sim_linear_free_all(context);
    tn_sim_hosts_free_all(context);
    tn_sim_ipc_close_all(context);
    tn_sim_peers_forget(context);
    tn_sim_store_discharge(&tn_sim_devices[context->device].store, context->own_bytes);
    context->own_bytes = 0;
}

/* Runs at the end of a thread that ever had a context. */
static void free_stack(void *argument)
{
    struct tn_sim_thread *thread = argument;
    free(thread->stack);
    thread->stack = NULL;
    thread->depth = thread->stack_capacity = 0;
}

/* Makes room for another context on a thread's stack. Returns false when memory ran out. */
static bool make_room(struct tn_sim_thread *self)
{
    static pthread_key_t key;
    static bool key_made;
    if (self->depth < self->stack_capacity)
        return true;
    if (!key_made && pthread_key_create(&key, free_stack) != 0)
        return false;
    key_made = true;
    size_t capacity = self->stack_capacity == 0 ? FIRST_CAPACITY : self->stack_capacity * 2;
    if (pthread_setspecific(key, self) != 0)
        return false;
    struct tn_sim_context **stack =
        realloc(self->stack, capacity * sizeof(struct tn_sim_context *));
    if (stack == NULL)
        return false;
    self->stack = stack;
    self->stack_capacity = capacity;
    return true;
}

static tn_cu_result push(struct tn_sim_context *context)
{
    struct tn_sim_thread *self = tn_sim_self();
    if (!make_room(self))
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    self->stack[self->depth++] = context;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuCtxCreate(tn_cu_context *handle, unsigned int flags, tn_cu_device device)
{
    if (handle == NULL || !tn_sim_context_flags_valid(flags, KNOWN_FLAGS))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    if (tn_sim_devices[device].context.fault != TN_CUDA_SUCCESS)
        return tn_sim_devices[device].context.fault;
    if (!make_room(tn_sim_self()))
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    struct tn_sim_context *context = calloc(1, sizeof *context);
    if (context == NULL || !tn_sim_register(&context->object, TN_SIM_KIND_CONTEXT, NULL)) {
        free(context);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->device = device;
    context->flags = flags;
    tn_sim_context_revive(context);
    push(context); /* has room */
    tn_sim.ledger.contexts++;
    *handle = (tn_cu_context)context->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuCtxDestroy(tn_cu_context handle)
{
    struct tn_sim_context *context;
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (tn_sim_context_find(handle, &context) != TN_CUDA_SUCCESS || context->primary)
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    tn_sim_streams_wait_device(context->device);
    if (tn_sim_context_find(handle, &context) != TN_CUDA_SUCCESS)
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    struct tn_sim_thread *self = tn_sim_self();
    if (tn_sim_context_top() == context)
        self->depth--;
    context->alive = false;
    tn_sim.ledger.contexts--;
    tn_sim_context_clear(context);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuCtxGetCurrent(tn_cu_context *handle)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct tn_sim_context *context = tn_sim_context_top();
    *handle = context == NULL ? NULL : (tn_cu_context)context->object.handle;
    return TN_CUDA_SUCCESS;
}

/* Finds a context for the stack. The driver takes destroyed contexts, too. */
static tn_cu_result find_for_stack(tn_cu_context handle, struct tn_sim_context **context)
{
    tn_cu_result result = tn_sim_context_find(handle, context);
    if (result == TN_CUDA_ERROR_CONTEXT_IS_DESTROYED && !tn_sim_strict())
        return TN_CUDA_SUCCESS;
    return result;
}

tn_cu_result tn_sim_cuCtxPushCurrent(tn_cu_context handle)
{
    struct tn_sim_context *context;
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = find_for_stack(handle, &context);
    return result == TN_CUDA_SUCCESS ? push(context) : result;
}

tn_cu_result tn_sim_cuCtxPopCurrent(tn_cu_context *handle)
{
    struct tn_sim_thread *self = tn_sim_self();
    if (self->depth == 0)
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    const struct tn_sim_context *context = self->stack[--self->depth];
    if (handle != NULL)
        *handle = (tn_cu_context)context->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuCtxSetCurrent(tn_cu_context handle)
{
    struct tn_sim_thread *self = tn_sim_self();
    if (handle == NULL) {
        if (self->depth > 0)
            self->depth--;
        return TN_CUDA_SUCCESS;
    }
    struct tn_sim_context *context;
    tn_cu_result result = find_for_stack(handle, &context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (self->depth == 0)
        return push(context);
    self->stack[self->depth - 1] = context;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuCtxGetDevice(tn_cu_device *device)
{
    if (device == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct tn_sim_context *context = tn_sim_context_top();
    if (context == NULL)
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device;
    return TN_CUDA_SUCCESS;
}
