// SPDX-License-Identifier: Apache-2.0
/* physical.c -- physical memory and its handles.
 *
 * How it works. The program's references are counted: making or importing gives the first, asking
 * for the handle of an address another one. A handle keeps its value, and its object, while the
 * memory is mapped, so that the last reference can be given up first and taken again later.
 *
 * The properties say what was granted: memory of the host is memory of its only NUMA node, and
 * memory for RDMA is not compressible. Compression is not simulated beyond that.
 *
 * Strict where the driver is lax: unknown handle types and all reserved bytes are refused, and a
 * handle without references is not used, though its memory is mapped.
 *
 * Trade-offs. The pattern in fresh memory is not the device's, which showed zeros. */
#include "sim/memory/physical.h"

#include <stdlib.h>
#include <string.h>

#include "sim/core/cost.h"
#include "sim/memory/space.h"

#define TYPES_OF_OTHER_SYSTEMS 6 /* handle types of Windows */
#define KNOWN_TYPES                                                                                \
    (TN_CU_MEM_HANDLE_TYPE_POSIX_FD | TN_CU_MEM_HANDLE_TYPE_FABRIC | TYPES_OF_OTHER_SYSTEMS)
#define COMPRESSIBLE 1

static struct tn_sim_store host_store; /* the host's memory; without a file until first needed */
static bool host_store_made;

tn_cu_result tn_sim_cuMemGetAllocationGranularity(size_t *granularity,
                                                  const tn_cu_allocation_prop *prop, int option)
{
    if (granularity == NULL || prop == NULL || option < TN_CU_MEM_GRANULARITY_MINIMUM ||
        option > TN_CU_MEM_GRANULARITY_RECOMMENDED)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *granularity = TN_SIM_GRANULE;
    return TN_CUDA_SUCCESS;
}

bool tn_sim_physical_on_host(const struct tn_sim_physical *physical)
{
    return physical->prop.location.type != TN_CU_MEM_LOCATION_TYPE_DEVICE;
}

struct tn_sim_physical *tn_sim_physical_find(tn_cu_memhandle handle)
{
    struct tn_sim_physical *physical = tn_sim_find(TN_SIM_KIND_PHYSICAL, handle);
    return physical == NULL || (physical->references == 0 && tn_sim_strict()) ? NULL : physical;
}

struct tn_sim_physical *tn_sim_physical_create(struct tn_sim_backing *backing,
                                               const tn_cu_allocation_prop *prop)
{
    struct tn_sim_physical *physical = calloc(1, sizeof *physical);
    if (physical == NULL || !tn_sim_register(&physical->object, TN_SIM_KIND_PHYSICAL, NULL)) {
        tn_sim_backing_release(backing);
        free(physical);
        return NULL;
    }
    physical->backing = backing;
    physical->prop = *prop;
    physical->references = 1;
    physical->block_id = tn_sim_space_next_id();
    tn_sim.ledger.handles++;
    tn_sim.ledger.handle_bytes += backing->bytes;
    tn_sim_charge(backing->bytes);
    return physical;
}

void tn_sim_physical_let_go(struct tn_sim_physical *physical)
{
    if (physical->references > 0 || physical->mappings > 0)
        return; /* SM1 */
    /* Whoever gives the memory up last pays. */
    tn_sim_charge_as(TN_SIM_FN_cuMemRelease, physical->backing->bytes);
    tn_sim.ledger.handles--;
    tn_sim.ledger.handle_bytes -= physical->backing->bytes;
    tn_sim_backing_release(physical->backing);
    tn_sim_unregister(&physical->object);
    free(physical);
}

static tn_cu_result check_location(const tn_cu_location *location, int types)
{
    switch (location->type) {
    case TN_CU_MEM_LOCATION_TYPE_DEVICE:
        return tn_sim_device_exists(location->id) ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_INVALID_DEVICE;
    case TN_CU_MEM_LOCATION_TYPE_HOST: /* whatever the number; and never to be exported */
        return types == 0 ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_INVALID_VALUE;
    case TN_CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return location->id == 0 ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_INVALID_VALUE;
    default:
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
}

/* Asks whether flags of an allocation make sense. */
static bool flags_valid(const tn_cu_allocation_prop *prop)
{
    static const unsigned char zeros[sizeof prop->alloc_flags.reserved];
    /* The driver does not look at the last reserved byte. */
    size_t checked = sizeof zeros - (tn_sim_strict() ? 0 : 1);
    bool plain =
        prop->alloc_flags.usage == 0 && prop->location.type == TN_CU_MEM_LOCATION_TYPE_DEVICE;
    return prop->alloc_flags.compression_type <= COMPRESSIBLE &&
           (prop->alloc_flags.compression_type == 0 || plain) &&
           memcmp(prop->alloc_flags.reserved, zeros, checked) == 0;
}

/* Checks the properties passed to cuMemCreate, all but the room. */
static tn_cu_result check_prop(size_t bytes, const tn_cu_allocation_prop *prop)
{
    int types = prop->requested_handle_types;
    if (bytes == 0 || bytes % TN_SIM_GRANULE != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = check_location(&prop->location, types);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (prop->type != TN_CU_MEM_ALLOCATION_TYPE_PINNED || prop->win32_metadata != NULL ||
        (types & TYPES_OF_OTHER_SYSTEMS) != 0 || (tn_sim_strict() && (types & ~KNOWN_TYPES) != 0) ||
        !flags_valid(prop))
        return TN_CUDA_ERROR_INVALID_VALUE;
    /* The simulator has no channel to other nodes. */
    return (types & TN_CU_MEM_HANDLE_TYPE_FABRIC) != 0 ? TN_CUDA_ERROR_NOT_PERMITTED
                                                       : TN_CUDA_SUCCESS;
}

/* The properties of memory that was requested with valid properties. */
static tn_cu_allocation_prop granted(const tn_cu_allocation_prop *asked)
{
    tn_cu_allocation_prop prop = {
        .type = asked->type,
        .requested_handle_types = asked->requested_handle_types & KNOWN_TYPES,
        .location = asked->location,
    };
    if (prop.location.type == TN_CU_MEM_LOCATION_TYPE_HOST)
        prop.location = (tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
    prop.alloc_flags.gpu_direct_rdma_capable = asked->alloc_flags.gpu_direct_rdma_capable != 0;
    if (prop.alloc_flags.gpu_direct_rdma_capable == 0)
        prop.alloc_flags.compression_type = asked->alloc_flags.compression_type;
    return prop;
}

/* The store of a location's memory; NULL when the system refuses a store. */
static struct tn_sim_store *store_of(const tn_cu_location *location)
{
    if (location->type == TN_CU_MEM_LOCATION_TYPE_DEVICE)
        return &tn_sim_devices[location->id].store;
    if (!host_store_made)
        host_store_made = tn_sim_store_init(&host_store, tn_sim.memory_bytes);
    return host_store_made ? &host_store : NULL;
}

tn_cu_result tn_sim_cuMemCreate(tn_cu_memhandle *handle, size_t bytes,
                                const tn_cu_allocation_prop *asked, unsigned long long flags)
{
    if (handle == NULL || asked == NULL || flags != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = check_prop(bytes, asked);
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_cu_allocation_prop prop = granted(asked);
    struct tn_sim_store *store = store_of(&prop.location);
    if (store == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    bool shareable = (prop.requested_handle_types & TN_CU_MEM_HANDLE_TYPE_POSIX_FD) != 0;
    struct tn_sim_backing *backing =
        shareable ? tn_sim_backing_create_shareable(store, bytes, &prop.location)
                  : tn_sim_backing_create(store, bytes);
    const struct tn_sim_physical *physical =
        backing == NULL ? NULL : tn_sim_physical_create(backing, &prop);
    if (physical == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *handle = physical->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemRelease(tn_cu_memhandle handle)
{
    struct tn_sim_physical *physical = tn_sim_find(TN_SIM_KIND_PHYSICAL, handle);
    if (physical == NULL || physical->references == 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    physical->references--;
    if (physical->references > 0 || physical->mappings > 0)
        tn_sim_charge(0);
    tn_sim_physical_let_go(physical);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemRetainAllocationHandle(tn_cu_memhandle *handle, void *address)
{
    const struct tn_sim_mapping *mapping = tn_sim_index_find(&tn_sim_mappings, (uintptr_t)address);
    if (handle == NULL || mapping == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    mapping->physical->references++;
    *handle = mapping->physical->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemGetAllocationPropertiesFromHandle(tn_cu_allocation_prop *prop,
                                                           tn_cu_memhandle handle)
{
    const struct tn_sim_physical *physical = tn_sim_physical_find(handle);
    if (prop == NULL || physical == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *prop = physical->prop;
    return TN_CUDA_SUCCESS;
}
