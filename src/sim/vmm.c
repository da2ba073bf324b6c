// SPDX-License-Identifier: Apache-2.0
/* vmm.c -- virtual memory management: reserve, create, map, give access, and back.
 *
 * How it works. All of it is legal in every capture, waits for nothing and needs no context, as on
 * the device. A mapping without access has no pages; the first right lays the extent over the
 * reservation, the last one taken away clears it again.
 *
 * Address hints follow what was measured on an H200: they count from 32 MiB on, at multiples of
 * 32 MiB; a taken place means the next free one; and a range that was moved is no error.
 *
 * Strict where the driver is lax: a mapping must lie wholly inside reservations, unmapping must
 * unmap something, and a released handle is not mapped again.
 *
 * Trade-offs. Physical memory of the host (HOST, HOST_NUMA) is NOT_SUPPORTED; there is nothing that
 * exports handles. When the system refuses pages in the middle of a cuMemSetAccess over several
 * mappings, those before it keep the new rights. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/space.h"

#define HINT_GRANULE (32 * TN_SIM_MIB)     /* below this size, and off its multiples, no hint */
#define ADDRESS_LIMIT ((uintptr_t)1 << 47) /* user addresses end here */
#define HANDLE_TYPE_FABRIC 8               /* needs a privilege that no one has here */

enum { HINTS_AS_DRIVER = 0, HINTS_MOVED = 1, HINTS_LIMITED = 2 };

static int hint_rule = HINTS_AS_DRIVER;
static size_t hint_limit;

void tarn_sim_set_hints(int how, size_t max_bytes)
{
    if (!tn_sim_enter_control())
        return;
    hint_rule = how;
    hint_limit = max_bytes;
    tn_sim_leave();
}

static size_t round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

tn_cu_result tn_sim_cuMemGetAllocationGranularity(size_t *granularity,
                                                  const tn_cu_allocation_prop *prop, int option)
{
    if (granularity == NULL || prop == NULL || option < TN_CU_MEM_GRANULARITY_MINIMUM ||
        option > TN_CU_MEM_GRANULARITY_RECOMMENDED)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *granularity = TN_SIM_GRANULE;
    return TN_CUDA_SUCCESS;
}

/* Obtains addresses that are not at the hint, for tests of what happens then. */
static uintptr_t obtain_elsewhere(size_t bytes, size_t alignment, uintptr_t hint)
{
    uintptr_t start = tn_sim_space_obtain(bytes, alignment, 0);
    if (start == 0 || start != hint)
        return start;
    uintptr_t other = tn_sim_space_obtain(bytes, alignment, 0);
    tn_sim_space_return(start, bytes);
    return other;
}

/* Obtains addresses by the driver's rule for hints. */
static uintptr_t obtain_near(size_t bytes, size_t alignment, uintptr_t hint)
{
    if (hint == 0 || bytes < HINT_GRANULE)
        return tn_sim_space_obtain(bytes, alignment, 0);
    size_t step = alignment > HINT_GRANULE ? alignment : HINT_GRANULE;
    uintptr_t wanted = round_up(hint, step);
    const struct tn_sim_span *taken;
    while ((taken = tn_sim_index_overlap(&tn_sim_reservations, wanted, bytes)) != NULL)
        wanted = round_up(taken->start + taken->bytes, step);
    if (wanted >= ADDRESS_LIMIT - bytes)
        return tn_sim_space_obtain(bytes, alignment, 0);
    return tn_sim_space_obtain(bytes, alignment, wanted);
}

tn_cu_result tn_sim_cuMemAddressReserve(tn_cu_deviceptr *address, size_t bytes, size_t alignment,
                                        tn_cu_deviceptr hint, unsigned long long flags)
{
    if (address == NULL || flags != 0 || bytes == 0 || bytes % TN_SIM_GRANULE != 0 ||
        (alignment & (alignment - 1)) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (alignment < TN_SIM_GRANULE)
        alignment = TN_SIM_GRANULE;
    if (hint % alignment != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (bytes >= ADDRESS_LIMIT || hint >= ADDRESS_LIMIT || hint + bytes >= ADDRESS_LIMIT ||
        (hint_rule == HINTS_LIMITED && bytes > hint_limit))
        return TN_CUDA_ERROR_OUT_OF_MEMORY;

    struct tn_sim_span *reservation = malloc(sizeof *reservation);
    if (reservation == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t start = hint_rule == HINTS_MOVED ? obtain_elsewhere(bytes, alignment, hint)
                                               : obtain_near(bytes, alignment, hint);
    if (start == 0) {
        free(reservation);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    *reservation = (struct tn_sim_span){.start = start, .bytes = bytes};
    if (!tn_sim_index_add(&tn_sim_reservations, reservation)) {
        tn_sim_space_return(start, bytes);
        free(reservation);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    tn_sim.ledger.reservations++;
    tn_sim.ledger.reserved_bytes += bytes;
    *address = start;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemAddressFree(tn_cu_deviceptr address, size_t bytes)
{
    struct tn_sim_span *reservation = tn_sim_index_find(&tn_sim_reservations, address);
    if (reservation == NULL || reservation->start != address || reservation->bytes != bytes ||
        tn_sim_index_overlap(&tn_sim_mappings, address, bytes) != NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_sim_index_remove(&tn_sim_reservations, reservation);
    tn_sim_space_return(reservation->start, reservation->bytes);
    tn_sim.ledger.reservations--;
    tn_sim.ledger.reserved_bytes -= bytes;
    free(reservation);
    return TN_CUDA_SUCCESS;
}

/* Checks what cuMemCreate was asked for, all but the room. */
static tn_cu_result check_prop(size_t bytes, const tn_cu_allocation_prop *prop)
{
    static const unsigned char zeros[sizeof prop->alloc_flags.reserved];
    int known = TN_CU_MEM_HANDLE_TYPE_POSIX_FD | HANDLE_TYPE_FABRIC;
    if (bytes == 0 || bytes % TN_SIM_GRANULE != 0 ||
        prop->type != TN_CU_MEM_ALLOCATION_TYPE_PINNED ||
        (prop->requested_handle_types & ~known) != 0 ||
        memcmp(prop->alloc_flags.reserved, zeros, sizeof zeros) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type == TN_CU_MEM_LOCATION_TYPE_HOST ||
        prop->location.type == TN_CU_MEM_LOCATION_TYPE_HOST_NUMA)
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    if (prop->location.type != TN_CU_MEM_LOCATION_TYPE_DEVICE)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(prop->location.id))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    if ((prop->requested_handle_types & HANDLE_TYPE_FABRIC) != 0)
        return TN_CUDA_ERROR_NOT_PERMITTED;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemCreate(tn_cu_memhandle *handle, size_t bytes,
                                const tn_cu_allocation_prop *prop, unsigned long long flags)
{
    if (handle == NULL || prop == NULL || flags != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = check_prop(bytes, prop);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_store *store = &tn_sim_devices[prop->location.id].store;
    struct tn_sim_physical *physical = calloc(1, sizeof *physical);
    if (physical == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    physical->device = prop->location.id;
    physical->extent = tn_sim_store_take(store, bytes);
    if (physical->extent == NULL) {
        free(physical);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!tn_sim_register(&physical->object, TN_SIM_KIND_PHYSICAL, NULL)) {
        tn_sim_store_give(store, physical->extent);
        free(physical);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->block_id = tn_sim_space_next_id();
    tn_sim.ledger.handles++;
    tn_sim.ledger.handle_bytes += bytes;
    *handle = physical->object.handle;
    return TN_CUDA_SUCCESS;
}

/* Lets physical memory go when neither the program nor a mapping holds it. */
static void let_go(struct tn_sim_physical *physical)
{
    if (!physical->released || physical->mappings > 0)
        return;
    tn_sim.ledger.handles--;
    tn_sim.ledger.handle_bytes -= physical->extent->bytes;
    tn_sim_store_give(&tn_sim_devices[physical->device].store, physical->extent);
    tn_sim_unregister(&physical->object);
    free(physical);
}

tn_cu_result tn_sim_cuMemRelease(tn_cu_memhandle handle)
{
    struct tn_sim_physical *physical = tn_sim_find(TN_SIM_KIND_PHYSICAL, handle);
    if (physical == NULL || physical->released)
        return TN_CUDA_ERROR_INVALID_VALUE;
    physical->released = true;
    let_go(physical);
    return TN_CUDA_SUCCESS;
}

/* Asks whether every byte of a range is reserved, by one reservation or by neighbours (A2). */
static bool reserved(uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes;
    while (start < end) {
        const struct tn_sim_span *found = tn_sim_index_find(&tn_sim_reservations, start);
        if (found == NULL)
            return false;
        start = found->start + found->bytes;
    }
    return true;
}

tn_cu_result tn_sim_cuMemMap(tn_cu_deviceptr address, size_t bytes, size_t offset,
                             tn_cu_memhandle handle, unsigned long long flags)
{
    struct tn_sim_physical *physical = tn_sim_find(TN_SIM_KIND_PHYSICAL, handle);
    if (flags != 0 || bytes == 0 || address % TN_SIM_GRANULE != 0 || physical == NULL ||
        (physical->released && tn_sim_strict()))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || bytes != physical->extent->bytes)
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    if (address >= ADDRESS_LIMIT || !reserved(address, bytes) ||
        tn_sim_index_overlap(&tn_sim_mappings, address, bytes) != NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_mapping *mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    mapping->span = (struct tn_sim_span){.start = address, .bytes = bytes};
    mapping->physical = physical;
    mapping->buffer_id = tn_sim_space_next_id();
    mapping->protection = PROT_NONE;
    if (!tn_sim_index_add(&tn_sim_mappings, &mapping->span)) {
        free(mapping);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->mappings++;
    tn_sim.ledger.mappings++;
    tn_sim.ledger.mapped_bytes += bytes;
    return TN_CUDA_SUCCESS;
}

/* Finds the mappings that a range is made of. Returns false when the range cuts one. Positions in
 * the index: from *first, up to and without *last. */
static bool whole_mappings(uintptr_t start, size_t bytes, size_t *first, size_t *last)
{
    uintptr_t end = start + bytes;
    if (end < start)
        return false;
    *first = tn_sim_index_after(&tn_sim_mappings, start);
    *last = *first;
    while (*last < tn_sim_mappings.count && tn_sim_mappings.items[*last]->start < end) {
        const struct tn_sim_span *span = tn_sim_mappings.items[*last];
        if (span->start < start || span->start + span->bytes > end)
            return false;
        (*last)++;
    }
    return true;
}

tn_cu_result tn_sim_cuMemUnmap(tn_cu_deviceptr address, size_t bytes)
{
    size_t first;
    size_t last;
    if (bytes == 0 || tn_sim_index_find(&tn_sim_reservations, address) == NULL ||
        !whole_mappings(address, bytes, &first, &last))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (tn_sim_strict() && (first == last || !reserved(address, bytes)))
        return TN_CUDA_ERROR_INVALID_VALUE;
    for (size_t left = last - first; left > 0; left--) {
        struct tn_sim_mapping *mapping = (struct tn_sim_mapping *)tn_sim_mappings.items[first];
        if (mapping->protection != PROT_NONE)
            tn_sim_space_clear(mapping->span.start, mapping->span.bytes);
        tn_sim_index_remove(&tn_sim_mappings, &mapping->span);
        tn_sim.ledger.mappings--;
        tn_sim.ledger.mapped_bytes -= mapping->span.bytes;
        mapping->physical->mappings--;
        let_go(mapping->physical);
        free(mapping);
    }
    return TN_CUDA_SUCCESS;
}

static tn_cu_result check_descs(const tn_cu_access_desc *desc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type == TN_CU_MEM_LOCATION_TYPE_HOST ||
            desc[i].location.type == TN_CU_MEM_LOCATION_TYPE_HOST_NUMA)
            return TN_CUDA_ERROR_NOT_SUPPORTED;
        if (desc[i].location.type != TN_CU_MEM_LOCATION_TYPE_DEVICE ||
            !tn_sim_device_exists(desc[i].location.id) ||
            (desc[i].flags != TN_CU_MEM_ACCESS_NONE && desc[i].flags != TN_CU_MEM_ACCESS_READ &&
             desc[i].flags != TN_CU_MEM_ACCESS_READWRITE))
            return TN_CUDA_ERROR_INVALID_VALUE;
    }
    return TN_CUDA_SUCCESS;
}

/* Makes the pages of a mapping agree with the rights in its books (A3). */
static bool protect(struct tn_sim_mapping *mapping)
{
    unsigned int rights = 0;
    for (int device = 0; device < tn_sim.device_count; device++)
        rights |= mapping->access[device];
    int protection = PROT_NONE;
    if (rights == TN_CU_MEM_ACCESS_READ)
        protection = PROT_READ;
    else if (rights == TN_CU_MEM_ACCESS_READWRITE)
        protection = PROT_READ | PROT_WRITE;
    if (protection == mapping->protection)
        return true;
    uintptr_t start = mapping->span.start;
    if (protection == PROT_NONE) {
        tn_sim_space_clear(start, mapping->span.bytes);
    } else if (mapping->protection != PROT_NONE) {
        if (mprotect((void *)start, mapping->span.bytes, protection) != 0)
            return false;
    } else {
        const struct tn_sim_physical *physical = mapping->physical;
        if (!tn_sim_space_lay(start, &tn_sim_devices[physical->device].store, physical->extent,
                              protection))
            return false;
    }
    mapping->protection = protection;
    return true;
}

tn_cu_result tn_sim_cuMemSetAccess(tn_cu_deviceptr address, size_t bytes,
                                   const tn_cu_access_desc *desc, size_t count)
{
    size_t first;
    size_t last;
    if (desc == NULL || count == 0 || bytes == 0 || !whole_mappings(address, bytes, &first, &last))
        return TN_CUDA_ERROR_INVALID_VALUE;
    size_t covered = 0;
    for (size_t i = first; i < last; i++)
        covered += tn_sim_mappings.items[i]->bytes;
    if (covered != bytes)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = check_descs(desc, count);
    if (result != TN_CUDA_SUCCESS)
        return result;
    for (size_t i = first; i < last; i++) {
        struct tn_sim_mapping *mapping = (struct tn_sim_mapping *)tn_sim_mappings.items[i];
        unsigned char before[TN_SIM_MAX_DEVICES];
        memcpy(before, mapping->access, sizeof before);
        for (size_t j = 0; j < count; j++)
            mapping->access[desc[j].location.id] = (unsigned char)desc[j].flags;
        if (!protect(mapping)) {
            memcpy(mapping->access, before, sizeof before);
            return TN_CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemGetAccess(unsigned long long *flags, const tn_cu_location *location,
                                   tn_cu_deviceptr address)
{
    const struct tn_sim_mapping *mapping = tn_sim_index_find(&tn_sim_mappings, address);
    if (flags == NULL || location == NULL || mapping == NULL ||
        location->type != TN_CU_MEM_LOCATION_TYPE_DEVICE || !tn_sim_device_exists(location->id))
        return TN_CUDA_ERROR_INVALID_VALUE;
    *flags = mapping->access[location->id];
    return TN_CUDA_SUCCESS;
}
