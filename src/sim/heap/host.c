// SPDX-License-Identifier: Apache-2.0
/* host.c -- page-locked memory: cuMemHostAlloc, and the program's own memory, registered.
 *
 * How it works. Allocations are cut out of blocks of 2 MiB, as linear memory is (linear.c). Nothing
 * is locked: the simulated device reads and writes the program's memory as its own. Ranges are
 * registered by the byte, though the driver maps pages. Allocating and registering wait for
 * nothing; freeing and unregistering wait for all work of the context, and look their pointer up
 * again after the wait.
 *
 * Trade-offs. The system is asked only once whether memory may be registered. If the program unmaps
 * the memory later, the first work that uses it finds this out. */
#include "sim/heap/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim/heap/block.h"
#include "sim/stream/capture.h"
#include "sim/core/cost.h"

#define MAP_LINE 4352 /* of /proc/self/maps: a path and the text before it */
#define HOST_ALLOC_FLAGS                                                                           \
    (TN_CU_MEMHOSTALLOC_PORTABLE | TN_CU_MEMHOSTALLOC_DEVICEMAP | TN_CU_MEMHOSTALLOC_WRITECOMBINED)
/* I/O memory is refused: the simulator has none. */
#define HOST_REGISTER_FLAGS                                                                        \
    (TN_CU_MEMHOSTREGISTER_PORTABLE | TN_CU_MEMHOSTREGISTER_DEVICEMAP |                            \
     TN_CU_MEMHOSTREGISTER_READ_ONLY)

/* The record that starts at an address, or NULL. */
static struct tn_sim_host *host_at(const void *address)
{
    struct tn_sim_host *host = tn_sim_index_find(&tn_sim_hosts, (uintptr_t)address);
    return host == NULL || host->span.start != (uintptr_t)address ? NULL : host;
}

uint64_t tn_sim_host_mapping(const struct tn_sim_host *host, struct tn_sim_span *mapping)
{
    if (host->piece != NULL)
        return tn_sim_block_chunk(host->piece->block, host->span.start, mapping)->id;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = host->span.start / page * page;
    uintptr_t end = (host->span.start + host->span.bytes + page - 1) / page * page;
    *mapping = (struct tn_sim_span){.start = start, .bytes = end - start};
    return host->buffer_id;
}

/* Enters memory in the books; NULL when the books have no memory. */
static struct tn_sim_host *record(struct tn_sim_context *context, struct tn_sim_span span)
{
    struct tn_sim_host *host = calloc(1, sizeof *host);
    if (host == NULL)
        return NULL;
    host->span = span;
    host->context = context;
    host->buffer_id = tn_sim_space_next_id();
    if (!tn_sim_index_add(&tn_sim_hosts, &host->span)) {
        free(host);
        return NULL;
    }
    return host;
}

/* Takes memory out of the books, and gives the driver's own memory back. */
static void drop(struct tn_sim_host *host)
{
    struct tn_sim_heap *heap = host->context->pinned;
    tn_sim_index_remove(&tn_sim_hosts, &host->span);
    if (host->piece != NULL) {
        tn_sim.ledger.host_allocations--;
        tn_sim.ledger.host_bytes -= host->span.bytes;
        tn_sim_piece_give(host->piece, NULL);
        tn_sim_heap_trim(heap, 0);
    } else {
        tn_sim.ledger.host_registrations--;
        tn_sim.ledger.registered_bytes -= host->span.bytes;
    }
    free(host);
}

tn_cu_result tn_sim_cuMemHostAlloc(void **address, size_t bytes, unsigned int flags)
{
    if (address == NULL || (flags & ~(unsigned int)HOST_ALLOC_FLAGS) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (bytes == 0) {
        *address = NULL;
        return TN_CUDA_SUCCESS;
    }
    if (context->pinned == NULL)
        context->pinned = tn_sim_heap_create(TN_SIM_HOST_HEAP, TN_SIM_GRANULE, 0);
    struct tn_sim_piece *piece =
        context->pinned == NULL
            ? NULL
            : tn_sim_heap_take(context->pinned, tn_sim_piece_bytes(bytes), NULL);
    if (piece == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    struct tn_sim_host *host =
        record(context, (struct tn_sim_span){.start = piece->span.start, .bytes = bytes});
    if (host == NULL) {
        tn_sim_piece_give(piece, NULL);
        tn_sim_heap_trim(context->pinned, 0);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    host->piece = piece;
    tn_sim.ledger.host_allocations++;
    tn_sim.ledger.host_bytes += bytes;
    tn_sim_charge(bytes);
    *address = (void *)host->span.start;
    return TN_CUDA_SUCCESS;
}

/* Waits for the device and then drops the memory that starts at an address, if it still exists. */
static tn_cu_result wait_and_drop(struct tn_sim_host *host, const void *address)
{
    struct tn_sim_context *context = host->context;
    tn_sim_streams_wait_all(context);
    host = host_at(address);
    if (host == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_sim_charge(host->span.bytes);
    drop(host);
    return context->fault;
}

tn_cu_result tn_sim_cuMemFreeHost(void *address)
{
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS || address == NULL)
        return result;
    struct tn_sim_host *host = host_at(address);
    if (host == NULL || host->piece == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    return wait_and_drop(host, address);
}

/* Asks whether all of a range can be read, and written if necessary. The lines of the process's map
 * come in the order of addresses, and must leave no gap in the range. */
static bool accessible(uintptr_t start, size_t bytes, bool write)
{
    char line[MAP_LINE];
    FILE *map = fopen("/proc/self/maps", "re");
    if (map == NULL)
        return true; /* the system does not say */
    uintptr_t reached = start;
    while (reached < start + bytes && fgets(line, sizeof line, map) != NULL) {
        char *rest = NULL;
        uintptr_t from = strtoul(line, &rest, 16);
        uintptr_t to = *rest == '-' ? strtoul(rest + 1, &rest, 16) : 0;
        if (to <= reached)
            continue;
        if (from > reached || rest[0] != ' ' || rest[1] != 'r' || (write && rest[2] != 'w'))
            break;
        reached = to;
    }
    fclose(map);
    return reached >= start + bytes;
}

tn_cu_result tn_sim_cuMemHostRegister(void *address, size_t bytes, unsigned int flags)
{
    uintptr_t start = (uintptr_t)address;
    if (address == NULL || bytes == 0 || start > UINTPTR_MAX - bytes ||
        (flags & ~(unsigned int)HOST_REGISTER_FLAGS) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    const struct tn_sim_host *other = tn_sim_index_overlap(&tn_sim_hosts, start, bytes);
    if (other != NULL)
        return other->piece == NULL ? TN_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                    : TN_CUDA_ERROR_INVALID_VALUE;
    if (tn_sim_index_overlap(&tn_sim_reservations, start, bytes) != NULL ||
        tn_sim_index_overlap(&tn_sim_mappings, start, bytes) != NULL ||
        tn_sim_index_overlap(&tn_sim_blocks, start, bytes) != NULL ||
        !accessible(start, bytes, (flags & TN_CU_MEMHOSTREGISTER_READ_ONLY) == 0))
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct tn_sim_host *host =
        record(context, (struct tn_sim_span){.start = start, .bytes = bytes});
    if (host == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    tn_sim.ledger.host_registrations++;
    tn_sim.ledger.registered_bytes += bytes;
    tn_sim_charge(bytes);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemHostUnregister(void *address)
{
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_host *host = host_at(address);
    if (host != NULL && host->piece == NULL)
        return wait_and_drop(host, address);
    /* Memory of another kind, or the middle of a registered range, gets another error than unknown
     * memory. */
    if (address == NULL || tn_sim_space_knows((uintptr_t)address))
        return TN_CUDA_ERROR_INVALID_VALUE;
    return TN_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

tn_cu_result tn_sim_cuMemHostGetDevicePointer(tn_cu_deviceptr *device_address, void *address,
                                              unsigned int flags)
{
    if (device_address == NULL || flags != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (tn_sim_index_find(&tn_sim_hosts, (uintptr_t)address) == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *device_address = (uintptr_t)address;
    return TN_CUDA_SUCCESS;
}

void tn_sim_hosts_free_all(struct tn_sim_context *context)
{
    for (size_t i = tn_sim_hosts.count; i > 0; i--) {
        struct tn_sim_host *host = (struct tn_sim_host *)tn_sim_hosts.items[i - 1];
        if (host->context == context)
            drop(host);
    }
    tn_sim_heap_destroy(context->pinned);
    context->pinned = NULL;
}
