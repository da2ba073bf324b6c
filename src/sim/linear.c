// SPDX-License-Identifier: Apache-2.0
/* linear.c -- cuMemAlloc, cuMemHostAlloc, and what can be asked of memory and pointers.
 *
 * How it works. Each linear allocation takes an extent of its own, a multiple of 2 MiB, mapped at
 * addresses that the system picks. Allocating waits for nothing; freeing waits for all work of the
 * device, and looks its pointer up again after the wait.
 *
 * Trade-offs. The driver packs small allocations into shared blocks; here each costs 2 MiB of the
 * device. Tarn makes hardly any. */
#include "sim/linear.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/capture.h"
#include "sim/space.h"
#include "sim/stream.h"

#define HOST_ALLOC_FLAGS 7 /* portable, mapped, write-combined */

tn_cu_result tn_sim_cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    if (free_bytes == NULL || total_bytes == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    const struct tn_sim_store *store = &tn_sim_devices[context->device].store;
    *free_bytes = store->total_bytes - store->used_bytes;
    *total_bytes = store->total_bytes;
    return TN_CUDA_SUCCESS;
}

/* Gives a linear allocation's memory back; its record must not be in the index. */
static void free_linear(struct tn_sim_linear *linear)
{
    tn_sim_space_return(linear->span.start, linear->extent->bytes);
    tn_sim_store_give(&tn_sim_devices[linear->context->device].store, linear->extent);
    free(linear);
}

/* Lays an extent somewhere. Returns false when the system has no addresses. */
static bool lay_anywhere(struct tn_sim_linear *linear, const struct tn_sim_store *store)
{
    size_t bytes = linear->extent->bytes;
    linear->span.start = tn_sim_space_obtain(bytes, TN_SIM_GRANULE, 0);
    if (linear->span.start == 0)
        return false;
    if (tn_sim_space_lay(linear->span.start, store, linear->extent, PROT_READ | PROT_WRITE))
        return true;
    tn_sim_space_return(linear->span.start, bytes);
    return false;
}

tn_cu_result tn_sim_cuMemAlloc(tn_cu_deviceptr *address, size_t bytes)
{
    if (address == NULL || bytes == 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_context *context;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_store *store = &tn_sim_devices[context->device].store;
    if (bytes > store->total_bytes)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    struct tn_sim_linear *linear = calloc(1, sizeof *linear);
    if (linear == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    linear->context = context;
    linear->span.bytes = bytes;
    linear->extent =
        tn_sim_store_take(store, (bytes + TN_SIM_GRANULE - 1) / TN_SIM_GRANULE * TN_SIM_GRANULE);
    if (linear->extent == NULL) {
        free(linear);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!lay_anywhere(linear, store)) {
        tn_sim_store_give(store, linear->extent);
        free(linear);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!tn_sim_index_add(&tn_sim_linears, &linear->span)) {
        free_linear(linear);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    linear->buffer_id = tn_sim_space_next_id();
    linear->block_id = tn_sim_space_next_id();
    tn_sim.ledger.linear_allocations++;
    tn_sim.ledger.linear_bytes += bytes;
    *address = linear->span.start;
    return TN_CUDA_SUCCESS;
}

static void drop_linear(struct tn_sim_linear *linear)
{
    tn_sim.ledger.linear_allocations--;
    tn_sim.ledger.linear_bytes -= linear->span.bytes;
    tn_sim_index_remove(&tn_sim_linears, &linear->span);
    free_linear(linear);
}

static struct tn_sim_linear *linear_at(tn_cu_deviceptr address)
{
    struct tn_sim_linear *linear = tn_sim_index_find(&tn_sim_linears, address);
    return linear == NULL || linear->span.start != address ? NULL : linear;
}

tn_cu_result tn_sim_cuMemFree(tn_cu_deviceptr address)
{
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (address == 0)
        return TN_CUDA_SUCCESS;
    struct tn_sim_linear *linear = linear_at(address);
    if (linear == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_context *context = linear->context;
    tn_sim_streams_wait_all(context);
    linear = linear_at(address);
    if (linear == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    drop_linear(linear);
    return context->fault;
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
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes > SIZE_MAX - page)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    struct tn_sim_host *host = calloc(1, sizeof *host);
    if (host == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    host->mapped_bytes = (bytes + page - 1) / page * page;
    void *place =
        mmap(NULL, host->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) {
        free(host);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    host->span = (struct tn_sim_span){.start = (uintptr_t)place, .bytes = bytes};
    host->context = context;
    host->buffer_id = tn_sim_space_next_id();
    if (!tn_sim_index_add(&tn_sim_hosts, &host->span)) {
        munmap(place, host->mapped_bytes);
        free(host);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    tn_sim.ledger.host_allocations++;
    tn_sim.ledger.host_bytes += bytes;
    *address = place;
    return TN_CUDA_SUCCESS;
}

static void drop_host(struct tn_sim_host *host)
{
    tn_sim.ledger.host_allocations--;
    tn_sim.ledger.host_bytes -= host->span.bytes;
    tn_sim_index_remove(&tn_sim_hosts, &host->span);
    munmap((void *)host->span.start, host->mapped_bytes);
    free(host);
}

static struct tn_sim_host *host_at(const void *address)
{
    struct tn_sim_host *host = tn_sim_index_find(&tn_sim_hosts, (uintptr_t)address);
    return host == NULL || host->span.start != (uintptr_t)address ? NULL : host;
}

tn_cu_result tn_sim_cuMemFreeHost(void *address)
{
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_host *host = host_at(address);
    if (host == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_context *context = host->context;
    tn_sim_streams_wait_all(context);
    host = host_at(address);
    if (host == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    drop_host(host);
    return context->fault;
}

void tn_sim_linear_free_all(const struct tn_sim_context *context)
{
    for (size_t i = tn_sim_linears.count; i > 0; i--) {
        struct tn_sim_linear *linear = (struct tn_sim_linear *)tn_sim_linears.items[i - 1];
        if (linear->context == context)
            drop_linear(linear);
    }
    for (size_t i = tn_sim_hosts.count; i > 0; i--) {
        struct tn_sim_host *host = (struct tn_sim_host *)tn_sim_hosts.items[i - 1];
        if (host->context == context)
            drop_host(host);
    }
}
