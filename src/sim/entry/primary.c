// SPDX-License-Identifier: Apache-2.0
/* primary.c -- the primary context of each device.
 *
 * How it works. The context is alive while retained (SX1). The last release and a reset let its
 * work finish and destroy its objects (contexts.c). A reset does not change the count: the next
 * retain revives the context, and every earlier retain still needs a release. A context that died
 * of a device fault can be reset, but not be retained again in this process.
 *
 * Trade-offs. Flags are kept and shown; the simulator's threads always sleep while they wait. */
#include "sim/entry/contexts.h"
#include "sim/core/cost.h"

#define KNOWN_FLAGS 0xF7u /* the flags of cuCtxCreate, all but "map host memory" */

tn_cu_result tn_sim_cuDevicePrimaryCtxRetain(tn_cu_context *handle, tn_cu_device device)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    struct tn_sim_context *context = &tn_sim_devices[device].context;
    if (context->fault != TN_CUDA_SUCCESS)
        return context->fault;
    tn_sim_charge(context->alive ? 0 : 1);
    context->retains++;
    tn_sim_context_revive(context);
    tn_sim.ledger.primary_retains++;
    *handle = (tn_cu_context)context->object.handle;
    return TN_CUDA_SUCCESS;
}

static void end(struct tn_sim_context *context)
{
    context->alive = false;
    context->flags = 0;
    tn_sim_context_clear(context);
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
        end(context);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDevicePrimaryCtxReset(tn_cu_device device)
{
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    end(&tn_sim_devices[device].context);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDevicePrimaryCtxSetFlags(tn_cu_device device, unsigned int flags)
{
    if (!tn_sim_context_flags_valid(flags, KNOWN_FLAGS))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    tn_sim_devices[device].context.flags = flags;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDevicePrimaryCtxGetState(tn_cu_device device, unsigned int *flags,
                                               int *active)
{
    if (flags == NULL || active == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    *flags = tn_sim_devices[device].context.flags;
    *active = tn_sim_devices[device].context.alive;
    return TN_CUDA_SUCCESS;
}
