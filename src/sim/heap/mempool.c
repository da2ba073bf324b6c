// SPDX-License-Identifier: Apache-2.0
/* mempool.c -- pools as objects: made, queried, trimmed, destroyed.
 *
 * How it works. A device's default pool is made when it is first named. A destroyed pool that still
 * has memory in use lives on without a handle until the last of it is freed. The bytes of a pool
 * are counted at each query: its heap knows them (block.h).
 *
 * The counter of used bytes is like the driver's, which does not notice frees by cuMemFree.
 *
 * Trade-offs. Managed memory is the device's here. Handle types for the export of a pool are
 * accepted, but no handles are made. */
#include "sim/heap/mempool.h"

#include <stdlib.h>
#include <string.h>

#include "sim/stream/capture.h"

#define CHUNK_BYTES (32 * TN_SIM_MIB) /* as measured */
#define ARENA_FACTOR 2                /* addresses of an arena, in times of the device's memory */

static struct tn_sim_pool *pools; /* all, destroyed ones included */
static struct tn_sim_pool *defaults[TN_SIM_MAX_DEVICES];
static struct tn_sim_pool *current[TN_SIM_MAX_DEVICES]; /* NULL: the default */

struct tn_sim_pool *tn_sim_pool_find(tn_cu_mempool handle)
{
    return tn_sim_find(TN_SIM_KIND_POOL, (uintptr_t)handle);
}

/* Makes a pool with a handle; NULL when memory ran out. */
static struct tn_sim_pool *create(int device, bool of_host)
{
    struct tn_sim_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->heap = tn_sim_heap_create(of_host ? TN_SIM_HOST_HEAP : device, CHUNK_BYTES,
                                    tn_sim.memory_bytes * ARENA_FACTOR);
    if (pool->heap == NULL || !tn_sim_register(&pool->object, TN_SIM_KIND_POOL, NULL)) {
        tn_sim_heap_destroy(pool->heap);
        free(pool);
        return NULL;
    }
    pool->device = device;
    pool->name = (tn_cu_mempool)pool->object.handle;
    pool->internal_dependencies = 1;
    pool->next = pools;
    pools = pool;
    return pool;
}

static struct tn_sim_pool *default_of(int device)
{
    if (defaults[device] == NULL) {
        defaults[device] = create(device, false);
        if (defaults[device] != NULL)
            defaults[device]->is_default = true;
    }
    return defaults[device];
}

struct tn_sim_pool *tn_sim_pool_current(int device)
{
    return current[device] != NULL ? current[device] : default_of(device);
}

void tn_sim_pool_drop(struct tn_sim_linear *linear, const struct tn_sim_point *from)
{
    struct tn_sim_pool *pool = linear->pool;
    pool->live--;
    if (from != NULL)
        pool->used -= linear->span.bytes;
    tn_sim.ledger.async_allocations--;
    tn_sim.ledger.async_bytes -= linear->span.bytes;
    tn_sim_piece_give(linear->piece, from);
    tn_sim_linear_forget(linear);
}

void tn_sim_pools_waited(const struct tn_sim_point *moment)
{
    for (struct tn_sim_pool *pool = pools; pool != NULL; pool = pool->next) {
        tn_sim_heap_note_wait(pool->heap, moment);
        tn_sim_heap_trim(pool->heap, pool->release_threshold);
    }
    tn_sim_pools_bury();
}

void tn_sim_pools_forget(struct tn_sim_stream *stream)
{
    struct tn_sim_point done = {.stream = stream, .ticket = stream->finished};
    tn_sim_pools_waited(&done);
}

void tn_sim_pools_waited_all(int device)
{
    for (struct tn_sim_pool *pool = pools; pool != NULL; pool = pool->next) {
        if (pool->device != device)
            continue;
        tn_sim_heap_note_wait(pool->heap, NULL);
        tn_sim_heap_trim(pool->heap, pool->release_threshold);
    }
    tn_sim_pools_bury();
}

bool tn_sim_pools_reclaim(int device)
{
    bool found = false;
    for (struct tn_sim_pool *pool = pools; pool != NULL; pool = pool->next) {
        if (pool->device != device)
            continue;
        size_t before = pool->heap->reserved_bytes;
        tn_sim_heap_note_wait(pool->heap, NULL);
        tn_sim_heap_trim(pool->heap, 0);
        found = found || pool->heap->reserved_bytes < before;
    }
    return found;
}

void tn_sim_pools_bury(void)
{
    struct tn_sim_pool **link = &pools;
    while (*link != NULL) {
        struct tn_sim_pool *pool = *link;
        if (pool->object.handle == 0) {
            tn_sim_heap_note_wait(pool->heap, NULL);
            tn_sim_heap_trim(pool->heap, 0);
        }
        if (pool->object.handle != 0 || pool->live > 0 || pool->heap->reserved_bytes > 0) {
            link = &pool->next;
            continue;
        }
        *link = pool->next;
        tn_sim_heap_destroy(pool->heap);
        free(pool);
    }
}

/* -- Which pool a device has -- */

tn_cu_result tn_sim_cuDeviceGetDefaultMemPool(tn_cu_mempool *handle, tn_cu_device device)
{
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_DEVICE;
    const struct tn_sim_pool *pool = default_of(device);
    if (pool == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *handle = (tn_cu_mempool)pool->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDeviceGetMemPool(tn_cu_mempool *handle, tn_cu_device device)
{
    if (handle == NULL || !tn_sim_device_exists(device))
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct tn_sim_pool *pool = tn_sim_pool_current(device);
    if (pool == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *handle = (tn_cu_mempool)pool->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuDeviceSetMemPool(tn_cu_device device, tn_cu_mempool handle)
{
    struct tn_sim_pool *pool = tn_sim_pool_find(handle);
    if (!tn_sim_device_exists(device) || pool == NULL || pool->heap->device != device)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    current[device] = pool;
    return TN_CUDA_SUCCESS;
}

/* -- Life -- */

static bool of_host(const tn_cu_pool_props *props)
{
    return props->location.type == TN_CU_MEM_LOCATION_TYPE_HOST ||
           props->location.type == TN_CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* Checks the properties passed to cuMemPoolCreate. */
static tn_cu_result check_props(const tn_cu_pool_props *props)
{
    static const unsigned char zeros[sizeof props->reserved];
    int known = TN_CU_MEM_HANDLE_TYPE_POSIX_FD | TN_CU_MEM_HANDLE_TYPE_FABRIC;
    if ((props->type != TN_CU_MEM_ALLOCATION_TYPE_PINNED &&
         props->type != TN_CU_MEM_ALLOCATION_TYPE_MANAGED) ||
        (props->handle_types & ~known) != 0 || memcmp(props->reserved, zeros, sizeof zeros) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (of_host(props))
        return TN_CUDA_SUCCESS;
    return props->location.type == TN_CU_MEM_LOCATION_TYPE_DEVICE &&
                   tn_sim_device_exists(props->location.id)
               ? TN_CUDA_SUCCESS
               : TN_CUDA_ERROR_INVALID_VALUE;
}

tn_cu_result tn_sim_cuMemPoolCreate(tn_cu_mempool *handle, const tn_cu_pool_props *props)
{
    if (handle == NULL || props == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = check_props(props);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_pool *pool = of_host(props) ? create(0, true) : create(props->location.id, false);
    if (pool == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    size_t limit = props->max_bytes / CHUNK_BYTES + (props->max_bytes % CHUNK_BYTES != 0);
    pool->heap->limit_bytes = limit > SIZE_MAX / CHUNK_BYTES ? 0 : limit * CHUNK_BYTES;
    tn_sim.ledger.pools++;
    *handle = (tn_cu_mempool)pool->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemPoolDestroy(tn_cu_mempool handle)
{
    struct tn_sim_pool *pool = tn_sim_pool_find(handle);
    if (pool == NULL || pool->is_default)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (current[pool->device] == pool)
        current[pool->device] = NULL;
    tn_sim_unregister(&pool->object);
    tn_sim.ledger.pools--;
    tn_sim_pools_bury();
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemPoolTrimTo(tn_cu_mempool handle, size_t bytes_to_keep)
{
    struct tn_sim_pool *pool = tn_sim_pool_find(handle);
    if (pool == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_sim_heap_trim(pool->heap, bytes_to_keep);
    return TN_CUDA_SUCCESS;
}

/* -- Attributes -- */

/* The counter behind an attribute; NULL for an attribute without a counter. */
static uint64_t *counter(struct tn_sim_pool *pool, tn_cu_pool_attribute attribute)
{
    switch (attribute) {
    case TN_CU_POOL_ATTR_RELEASE_THRESHOLD:
        return &pool->release_threshold;
    case TN_CU_POOL_ATTR_RESERVED_HIGH:
        return &pool->reserved_high;
    case TN_CU_POOL_ATTR_USED_CURRENT:
        return &pool->used;
    case TN_CU_POOL_ATTR_USED_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

static tn_cu_result find_for_attribute(tn_cu_mempool handle, const void *value,
                                       struct tn_sim_pool **pool)
{
    *pool = tn_sim_pool_find(handle);
    if (*pool == NULL || value == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    return tn_sim_capture_unsafe();
}

tn_cu_result tn_sim_cuMemPoolGetAttribute(tn_cu_mempool handle, tn_cu_pool_attribute attribute,
                                          void *value)
{
    struct tn_sim_pool *pool;
    tn_cu_result result = find_for_attribute(handle, value, &pool);
    if (result != TN_CUDA_SUCCESS)
        return result;
    const struct tn_sim_heap *heap = pool->heap;
    const uint64_t *number = counter(pool, attribute);
    uint64_t reserved = heap->reserved_bytes;
    int follows = heap->follows_events;
    int opportunistic = heap->opportunistic;
    if (attribute == TN_CU_POOL_ATTR_RESERVED_CURRENT)
        number = &reserved;
    if (number != NULL)
        memcpy(value, number, sizeof *number);
    else if (attribute == TN_CU_POOL_ATTR_REUSE_FOLLOW_EVENTS)
        memcpy(value, &follows, sizeof follows);
    else if (attribute == TN_CU_POOL_ATTR_REUSE_OPPORTUNISTIC)
        memcpy(value, &opportunistic, sizeof opportunistic);
    else if (attribute == TN_CU_POOL_ATTR_REUSE_INTERNAL)
        memcpy(value, &pool->internal_dependencies, sizeof pool->internal_dependencies);
    else
        return TN_CUDA_ERROR_INVALID_VALUE;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemPoolSetAttribute(tn_cu_mempool handle, tn_cu_pool_attribute attribute,
                                          void *value)
{
    struct tn_sim_pool *pool;
    tn_cu_result result = find_for_attribute(handle, value, &pool);
    if (result != TN_CUDA_SUCCESS)
        return result;
    uint64_t number = 0;
    int flag = 0;
    switch (attribute) {
    case TN_CU_POOL_ATTR_REUSE_FOLLOW_EVENTS:
    case TN_CU_POOL_ATTR_REUSE_OPPORTUNISTIC:
    case TN_CU_POOL_ATTR_REUSE_INTERNAL:
        memcpy(&flag, value, sizeof flag);
        if (attribute == TN_CU_POOL_ATTR_REUSE_FOLLOW_EVENTS)
            pool->heap->follows_events = flag != 0;
        else if (attribute == TN_CU_POOL_ATTR_REUSE_OPPORTUNISTIC)
            pool->heap->opportunistic = flag != 0;
        else
            pool->internal_dependencies = flag != 0;
        return TN_CUDA_SUCCESS;
    case TN_CU_POOL_ATTR_RELEASE_THRESHOLD:
        memcpy(&pool->release_threshold, value, sizeof pool->release_threshold);
        return TN_CUDA_SUCCESS;
    case TN_CU_POOL_ATTR_RESERVED_HIGH: /* reset to the present amount: no other value is taken */
    case TN_CU_POOL_ATTR_USED_HIGH:
        memcpy(&number, value, sizeof number);
        if (number != 0)
            return TN_CUDA_ERROR_INVALID_VALUE;
        *counter(pool, attribute) =
            attribute == TN_CU_POOL_ATTR_USED_HIGH ? pool->used : pool->heap->reserved_bytes;
        return TN_CUDA_SUCCESS;
    default:
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
}
