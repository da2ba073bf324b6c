// SPDX-License-Identifier: Apache-2.0
/* context.c -- primary contexts and each thread's stack of current ones.
 *
 * How it works. The last release of a primary context lets its work finish, then destroys what
 * goes with it: streams, events, modules, linear and host memory. Executable graphs remain until
 * they are destroyed, but cannot be launched. Physical memory, mappings and reservations are not
 * the context's and stay. A context that died of a device fault cannot be retained again.
 *
 * Trade-offs. cuCtxCreate is not simulated: Tarn uses primary contexts only. */
#include "sim/context.h"

#include "sim/event.h"
#include "sim/linear.h"
#include "sim/module.h"
#include "sim/stream.h"

struct tn_sim_context *tn_sim_context_top(void)
{
    const struct tn_sim_thread *self = tn_sim_self();
    return self->depth == 0 ? NULL : self->stack[self->depth - 1];
}

tn_cu_result tn_sim_context_health(const struct tn_sim_context *context)
{
    if (context->retains == 0)
        return TN_CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return context->fault;
}

tn_cu_result tn_sim_context_current(struct tn_sim_context **context)
{
    *context = tn_sim_context_top();
    if (*context == NULL)
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    return tn_sim_context_health(*context);
}

/* Destroys everything that goes with a context whose last reference has gone. */
static void destroy(struct tn_sim_context *context)
{
    tn_sim_streams_wait_all(context);
    if (context->retains > 0)
        return; /* retained again while the lock was given up: it lives on as it was */
    tn_sim_streams_close_all(context);
    tn_sim_events_destroy_all(context);
    tn_sim_modules_unload_all(context);
    tn_sim_linear_free_all(context);
}

tn_cu_result tn_sim_cuDevicePrimaryCtxRetain(tn_cu_context *handle, tn_cu_device device)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    struct tn_sim_context *context = &tn_sim_devices[device].context;
    if (context->fault != TN_CUDA_SUCCESS)
        return context->fault;
    context->retains++;
    tn_sim.ledger.primary_retains++;
    *handle = (tn_cu_context)context->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDevicePrimaryCtxRelease(tn_cu_device device)
{
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    struct tn_sim_context *context = &tn_sim_devices[device].context;
    if (context->retains == 0)
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    context->retains--;
    tn_sim.ledger.primary_retains--;
    if (context->retains == 0)
        destroy(context);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDevicePrimaryCtxGetState(tn_cu_device device, unsigned int *flags,
                                               int *active)
{
    if (flags == NULL || active == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *active = tn_sim_devices[device].context.retains > 0;
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

/* Finds a context that may be made current. */
static tn_cu_result usable(tn_cu_context handle, struct tn_sim_context **context)
{
    *context = tn_sim_find(TN_SIM_KIND_CONTEXT, (uintptr_t)handle);
    if (*context == NULL)
        return TN_CUDA_ERROR_INVALID_CONTEXT;
    return (*context)->retains == 0 ? TN_CUDA_ERROR_CONTEXT_IS_DESTROYED : TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuCtxPushCurrent(tn_cu_context handle)
{
    struct tn_sim_thread *self = tn_sim_self();
    struct tn_sim_context *context;
    tn_cu_result result = usable(handle, &context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (self->depth == TN_SIM_STACK_DEPTH)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    self->stack[self->depth++] = context;
    return TN_CUDA_SUCCESS;
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
    tn_cu_result result = usable(handle, &context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (self->depth == 0)
        self->depth = 1;
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
    if (context->retains == 0)
        return TN_CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *device = context->device;
    return TN_CUDA_SUCCESS;
}
