// SPDX-License-Identifier: Apache-2.0
/* peer.c -- contexts that may use the memory of another device's contexts.
 *
 * How it works. Each context has a list of the contexts whose linear memory it may use. Virtual
 * memory has rights of its own, by device (vmm.c). Every device can reach every other device.
 *
 * Trade-offs. Kernels follow pointers to linear memory whether enabled or not: its pages have no
 * owner (space.c). Sets are held to the list; copies go through the host between devices without
 * access. */
#include "sim/memory/peer.h"

#include <stdlib.h>

#include "sim/stream/capture.h"

struct tn_sim_peer {
    const struct tn_sim_context *owner; /* of the memory */
    struct tn_sim_peer *next;
};

tn_cu_result tn_sim_cuDeviceCanAccessPeer(int *can, tn_cu_device device, tn_cu_device peer)
{
    if (can == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device) || !tn_sim_device_exists(peer))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return TN_CUDA_SUCCESS;
}

/* The link in a context's list that holds an owner, or the link at the list's end. */
static struct tn_sim_peer **link_of(struct tn_sim_context *context,
                                    const struct tn_sim_context *owner)
{
    struct tn_sim_peer **link = &context->peers;
    while (*link != NULL && (*link)->owner != owner)
        link = &(*link)->next;
    return link;
}

static void remove_at(struct tn_sim_peer **link)
{
    struct tn_sim_peer *gone = *link;
    *link = gone->next;
    free(gone);
}

bool tn_sim_peer_enabled(const struct tn_sim_context *context, const struct tn_sim_context *owner)
{
    const struct tn_sim_peer *peer = context->peers;
    while (peer != NULL && peer->owner != owner)
        peer = peer->next;
    return peer != NULL;
}

void tn_sim_peers_forget(struct tn_sim_context *context)
{
    while (context->peers != NULL)
        remove_at(&context->peers);
    struct tn_sim_context *other;
    for (size_t at = 0; (other = tn_sim_find_next(TN_SIM_KIND_CONTEXT, &at)) != NULL;) {
        struct tn_sim_peer **link = link_of(other, context);
        if (*link != NULL)
            remove_at(link);
    }
}

/* Finds the current context and its present or future peer. */
static tn_cu_result find_pair(tn_cu_context peer_handle, struct tn_sim_context **context,
                              struct tn_sim_context **peer)
{
    tn_cu_result result = tn_sim_context_current(context);
    return result == TN_CUDA_SUCCESS ? tn_sim_context_find(peer_handle, peer) : result;
}

tn_cu_result tn_sim_cuCtxEnablePeerAccess(tn_cu_context peer_handle, unsigned int flags)
{
    struct tn_sim_context *context;
    struct tn_sim_context *peer;
    if (flags != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = find_pair(peer_handle, &context, &peer);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (context->device == peer->device)
        return TN_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    struct tn_sim_peer **link = link_of(context, peer);
    if (*link != NULL)
        return TN_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    struct tn_sim_peer *made = malloc(sizeof *made);
    if (made == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *made = (struct tn_sim_peer){.owner = peer, .next = NULL};
    *link = made;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuCtxDisablePeerAccess(tn_cu_context peer_handle)
{
    struct tn_sim_context *context;
    struct tn_sim_context *peer;
    tn_cu_result result = find_pair(peer_handle, &context, &peer);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_peer **link = link_of(context, peer);
    if (*link == NULL)
        return TN_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    remove_at(link);
    return TN_CUDA_SUCCESS;
}
