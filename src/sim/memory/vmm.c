// SPDX-License-Identifier: Apache-2.0
/* vmm.c -- physical memory at addresses: map, give access, unmap.
 *
 * How it works. All of it is legal in every capture, waits for nothing and needs no context, as on
 * the device. A mapping without access has no pages; the first right lays the memory over the
 * reservation, the last one taken away clears it again.
 *
 * Rights are kept for each device and, for memory of the host, for the host. Pages have the greatest
 * of them (SA3). A change of rights that the system refuses half way is taken back.
 *
 * Strict where the driver is lax. A mapping must lie wholly inside reservations, and unmapping must
 * unmap something. A handle that was given up is not mapped again, and access is given only to
 * ranges without gaps. The driver lets a mapping run past its reservation, but not into memory of
 * another kind. The simulator gets the addresses behind a reservation from the system; where the
 * process itself has memory the mapping has no pages. For a range with gaps the driver gives access
 * to the part before the first gap, without an error.
 *
 * Trade-offs. Taking rights back after a refusal can be refused too: the pages then keep more rights
 * than the books, which still decide on copies and sets. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim/core/report.h"
#include "sim/core/cost.h"
#include "sim/stream/clock.h"
#include "sim/memory/physical.h"
#include "sim/memory/space.h"

static struct tn_sim_mapping *mapping_number(size_t position)
{
    return (struct tn_sim_mapping *)tn_sim_mappings.items[position];
}

tn_cu_result tn_sim_cuMemMap(tn_cu_deviceptr address, size_t bytes, size_t offset,
                             tn_cu_memhandle handle, unsigned long long flags)
{
    struct tn_sim_physical *physical = tn_sim_physical_find(handle);
    if (physical == NULL || flags != 0 || bytes == 0 || address % TN_SIM_GRANULE != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (offset != 0 || bytes != physical->backing->bytes)
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    if (address >= TN_SIM_ADDRESS_LIMIT ||
        tn_sim_index_overlap(&tn_sim_mappings, address, bytes) != NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    size_t reserved = tn_sim_space_reserved(address, bytes);
    if (reserved < bytes)
        tn_sim_report("maps past the end of a reservation: 0x%llx", (unsigned long long)address);
    if (reserved == 0 || (reserved < bytes && tn_sim_strict()))
        return TN_CUDA_ERROR_INVALID_VALUE; /* SA2 */
    if (tn_sim_space_taken(address, bytes))
        return TN_CUDA_ERROR_INVALID_VALUE; /* SA1 */
    struct tn_sim_mapping *mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *mapping = (struct tn_sim_mapping){
        .span = {.start = address, .bytes = bytes},
        .physical = physical,
        .buffer_id = tn_sim_space_next_id(),
        .protection = PROT_NONE,
    };
    if (!tn_sim_index_add(&tn_sim_mappings, &mapping->span)) {
        free(mapping);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    mapping->page_bytes = tn_sim_space_reach(address, bytes);
    physical->mappings++;
    if (physical->mappings > 1 || physical->backing->references > 1)
        tn_sim_clock_watch();
    tn_sim.ledger.mappings++;
    tn_sim.ledger.mapped_bytes += bytes;
    tn_sim_charge(bytes);
    return TN_CUDA_SUCCESS;
}

/* Finds the mappings that make up a range. Returns false when the range cuts a mapping. Positions
 * in the index: from *first, up to and without *last. */
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

static void unmap(struct tn_sim_mapping *mapping)
{
    uintptr_t start = mapping->span.start;
    size_t page_bytes = mapping->page_bytes;
    tn_sim_charge(mapping->protection == PROT_NONE ? 0 : mapping->span.bytes);
    if (mapping->protection != PROT_NONE)
        tn_sim_space_clear(start, page_bytes);
    tn_sim_index_remove(&tn_sim_mappings, &mapping->span);
    if (tn_sim_space_reserved(start, page_bytes) < page_bytes)
        tn_sim_space_give_up(start, page_bytes);
    tn_sim.ledger.mappings--;
    tn_sim.ledger.mapped_bytes -= mapping->span.bytes;
    mapping->physical->mappings--;
    tn_sim_physical_let_go(mapping->physical);
    free(mapping);
}

tn_cu_result tn_sim_cuMemUnmap(tn_cu_deviceptr address, size_t bytes)
{
    size_t first;
    size_t last;
    if (bytes == 0 || tn_sim_index_find(&tn_sim_reservations, address) == NULL ||
        !whole_mappings(address, bytes, &first, &last))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (tn_sim_strict() && (first == last || tn_sim_space_reserved(address, bytes) < bytes))
        return TN_CUDA_ERROR_INVALID_VALUE;
    for (size_t left = last - first; left > 0; left--)
        unmap(mapping_number(first));
    return TN_CUDA_SUCCESS;
}

static bool is_host(const tn_cu_location *location)
{
    return location->type == TN_CU_MEM_LOCATION_TYPE_HOST ||
           location->type == TN_CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static bool is_device(const tn_cu_location *location)
{
    return location->type == TN_CU_MEM_LOCATION_TYPE_DEVICE && tn_sim_device_exists(location->id);
}

static tn_cu_result check_descs(const tn_cu_access_desc *desc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((!is_device(&desc[i].location) && !is_host(&desc[i].location)) ||
            (desc[i].flags != TN_CU_MEM_ACCESS_NONE && desc[i].flags != TN_CU_MEM_ACCESS_READ &&
             desc[i].flags != TN_CU_MEM_ACCESS_READWRITE))
            return TN_CUDA_ERROR_INVALID_VALUE;
    }
    return TN_CUDA_SUCCESS;
}

/* The end of the run of mappings without gaps that begins at a position. */
static size_t run_end(size_t first, size_t last)
{
    size_t end = first + 1;
    while (end < last &&
           tn_sim_mappings.items[end - 1]->start + tn_sim_mappings.items[end - 1]->bytes ==
               tn_sim_mappings.items[end]->start)
        end++;
    return end;
}

/* Finds the mappings for a change of access to a range, positions as above. Returns false when the
 * range allows no such change. */
static bool accessible(uintptr_t start, size_t bytes, size_t *first, size_t *last)
{
    if (bytes == 0 || !whole_mappings(start, bytes, first, last) || *first == *last)
        return false;
    const struct tn_sim_span *begin = tn_sim_mappings.items[*first];
    const struct tn_sim_span *end = tn_sim_mappings.items[*last - 1];
    if (begin->start != start || end->start + end->bytes != start + bytes)
        return false;
    size_t run = run_end(*first, *last);
    if (run < *last && tn_sim_strict())
        return false;
    *last = run;
    return true;
}

/* The greatest right of any device or the host: the rights are bits, and writing includes
 * reading. */
static unsigned char greatest_right(const struct tn_sim_rights *rights)
{
    unsigned char right = rights->host;
    for (int device = 0; device < tn_sim.device_count; device++)
        right |= rights->device[device];
    return right;
}

/* Makes the pages of a mapping agree with the rights in its books (SA3). */
static bool protect(struct tn_sim_mapping *mapping)
{
    unsigned char rights = greatest_right(&mapping->rights);
    int protection = PROT_NONE;
    if (rights == TN_CU_MEM_ACCESS_READ)
        protection = PROT_READ;
    else if (rights == TN_CU_MEM_ACCESS_READWRITE)
        protection = PROT_READ | PROT_WRITE;
    if (protection == mapping->protection)
        return true;
    uintptr_t start = mapping->span.start;
    if (protection == PROT_NONE) {
        tn_sim_space_clear(start, mapping->page_bytes);
    } else if (mapping->protection != PROT_NONE) {
        if (mprotect((void *)start, mapping->page_bytes, protection) != 0)
            return false;
    } else if (!tn_sim_backing_lay(mapping->physical->backing, start, mapping->page_bytes,
                                   protection)) {
        return false;
    }
    mapping->protection = protection;
    return true;
}

static void describe(struct tn_sim_rights *rights, const tn_cu_access_desc *desc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned char *right =
            is_host(&desc[i].location) ? &rights->host : &rights->device[desc[i].location.id];
        *right = (unsigned char)desc[i].flags;
    }
}

/* Gives mappings rights: all of them or, when the system refuses, none. */
static bool give_rights(size_t first, size_t last, const tn_cu_access_desc *desc, size_t count)
{
    struct tn_sim_rights *before = malloc((last - first) * sizeof *before);
    if (before == NULL)
        return false;
    size_t done = first;
    bool given = true;
    for (; done < last && given; done++) {
        struct tn_sim_mapping *mapping = mapping_number(done);
        before[done - first] = mapping->rights;
        describe(&mapping->rights, desc, count);
        given = protect(mapping);
    }
    for (size_t i = done; !given && i > first; i--) {
        struct tn_sim_mapping *mapping = mapping_number(i - 1);
        mapping->rights = before[i - 1 - first];
        protect(mapping);
    }
    free(before);
    return given;
}

tn_cu_result tn_sim_cuMemSetAccess(tn_cu_deviceptr address, size_t bytes,
                                   const tn_cu_access_desc *desc, size_t count)
{
    size_t first;
    size_t last;
    if (desc == NULL || count == 0 || !accessible(address, bytes, &first, &last))
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = check_descs(desc, count);
    if (result != TN_CUDA_SUCCESS)
        return result;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = first; is_host(&desc[i].location) && j < last; j++) {
            if (!tn_sim_physical_on_host(mapping_number(j)->physical))
                return TN_CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    if (!give_rights(first, last, desc, count))
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = first; i < last; i++)
        tn_sim_charge(tn_sim_mappings.items[i]->bytes);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemGetAccess(unsigned long long *flags, const tn_cu_location *location,
                                   tn_cu_deviceptr address)
{
    const struct tn_sim_mapping *mapping = tn_sim_index_find(&tn_sim_mappings, address);
    if (flags == NULL || location == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!is_device(location) && !is_host(location))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    *flags = TN_CU_MEM_ACCESS_NONE;
    /* Linear memory is known, and said to have no rights. */
    if (mapping == NULL && tn_sim_index_find(&tn_sim_linears, address) == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (mapping == NULL)
        return TN_CUDA_SUCCESS;
    /* The driver's answer for the host is the greatest right of all; the host's own right is the
     * right of its nodes. */
    if (location->type == TN_CU_MEM_LOCATION_TYPE_DEVICE)
        *flags = mapping->rights.device[location->id];
    else if (location->type == TN_CU_MEM_LOCATION_TYPE_HOST)
        *flags = greatest_right(&mapping->rights);
    else
        *flags = mapping->rights.host;
    return TN_CUDA_SUCCESS;
}
