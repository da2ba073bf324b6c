// SPDX-License-Identifier: Apache-2.0
/* The cache of unmapped chunks.
 *
 * A chunk is in two lists: that of all, by age, from whose end it is given back; and that of its size
 * and kind, from whose front it is taken. Both run through the chunk's own record, so a chunk can be
 * put here without memory being needed.
 *
 * Trade-offs: sizes are exact. A larger chunk cannot be cut, since the driver maps a handle whole or
 * not at all, and mapping a larger one than was asked for would make layouts depend on what other
 * pools left behind. */
#include "pools/chunk_cache.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "pools/device.h"

static struct tn_chunk **list_of(struct tn_chunk_cache *cache, uint64_t bytes,
                                 struct tn_chunk_properties properties)
{
    unsigned size = tn_log2_floor(bytes / TN_PAGE_BYTES);

    TN_ASSERT(tn_is_power_of_two(bytes) && size < TN_CACHE_SIZES);
    return &cache->alike[size][properties.exportable * 2 + properties.rdma];
}

static void insert(struct tn_chunk_cache *cache, struct tn_chunk *chunk)
{
    struct tn_chunk **alike = list_of(cache, chunk->bytes, chunk->properties);

    TN_ASSERT(chunk->segment == NULL);
    chunk->links = (struct tn_chunk_links){.older = cache->newest, .older_alike = *alike};
    if (cache->newest != NULL)
        cache->newest->links.newer = chunk;
    else
        cache->oldest = chunk;
    cache->newest = chunk;
    if (*alike != NULL)
        (*alike)->links.newer_alike = chunk;
    *alike = chunk;
    atomic_fetch_add(&cache->bytes, chunk->bytes);
    atomic_fetch_add(&cache->count, 1);
}

static void take_out(struct tn_chunk_cache *cache, struct tn_chunk *chunk)
{
    struct tn_chunk_links links = chunk->links;

    if (links.newer != NULL)
        links.newer->links.older = links.older;
    else
        cache->newest = links.older;
    if (links.older != NULL)
        links.older->links.newer = links.newer;
    else
        cache->oldest = links.newer;
    if (links.newer_alike != NULL)
        links.newer_alike->links.older_alike = links.older_alike;
    else
        *list_of(cache, chunk->bytes, chunk->properties) = links.older_alike;
    if (links.older_alike != NULL)
        links.older_alike->links.newer_alike = links.newer_alike;
    chunk->links = (struct tn_chunk_links){0};
    atomic_fetch_sub(&cache->bytes, chunk->bytes);
    atomic_fetch_sub(&cache->count, 1);
}

/* Takes the oldest out until no more than keep_bytes are left; returns them as a list through older.
 * The lock is held. */
static struct tn_chunk *shrink(struct tn_chunk_cache *cache, uint64_t keep_bytes)
{
    struct tn_chunk *gone = NULL;

    while (tn_chunk_cache_bytes(cache) > keep_bytes) {
        struct tn_chunk *chunk = cache->oldest;

        take_out(cache, chunk);
        chunk->links.older = gone;
        gone = chunk;
    }
    return gone;
}

/* Gives a list that shrink made back to the driver; no CACHE lock is held. */
static uint64_t give_back(struct tn_chunk_cache *cache, struct tn_chunk *gone)
{
    uint64_t bytes = 0;

    while (gone != NULL) {
        struct tn_chunk *next = gone->links.older;
        uint64_t chunk_bytes = gone->bytes;

        tn_chunk_destroy(&cache->device->gpu, gone);
        tn_device_discharge(cache->device, chunk_bytes);
        bytes += chunk_bytes;
        gone = next;
    }
    return bytes;
}

void tn_chunk_cache_init(struct tn_chunk_cache *cache, tarn_device *device, uint64_t limit_bytes)
{
    *cache = (struct tn_chunk_cache){.device = device, .limit_bytes = limit_bytes};
    tn_lock_init(&cache->lock, TN_RANK_CACHE);
}

void tn_chunk_cache_fini(struct tn_chunk_cache *cache)
{
    (void)tn_chunk_cache_release(cache, 0);
    tn_lock_fini(&cache->lock);
}

struct tn_chunk *tn_chunk_cache_take(struct tn_chunk_cache *cache, uint64_t bytes,
                                     struct tn_chunk_properties properties)
{
    struct tn_chunk *chunk;

    tn_lock_acquire(&cache->lock);
    chunk = *list_of(cache, bytes, properties);
    if (chunk != NULL)
        take_out(cache, chunk);
    tn_lock_release(&cache->lock);
    return chunk;
}

void tn_chunk_cache_put(struct tn_chunk_cache *cache, struct tn_chunk *chunk)
{
    struct tn_chunk *gone = chunk;

    tn_lock_acquire(&cache->lock);
    if (chunk->bytes <= cache->limit_bytes) {
        insert(cache, chunk);
        gone = shrink(cache, cache->limit_bytes);
    } else {
        chunk->links = (struct tn_chunk_links){0};
    }
    tn_lock_release(&cache->lock);
    (void)give_back(cache, gone);
}

uint64_t tn_chunk_cache_release(struct tn_chunk_cache *cache, uint64_t keep_bytes)
{
    struct tn_chunk *gone;

    tn_lock_acquire(&cache->lock);
    gone = shrink(cache, keep_bytes);
    tn_lock_release(&cache->lock);
    return give_back(cache, gone);
}

void tn_chunk_cache_set_limit(struct tn_chunk_cache *cache, uint64_t limit_bytes)
{
    tn_lock_acquire(&cache->lock);
    cache->limit_bytes = limit_bytes;
    tn_lock_release(&cache->lock);
    (void)tn_chunk_cache_release(cache, limit_bytes);
}

void tn_chunk_cache_usage(struct tn_chunk_cache *cache, uint64_t *bytes, uint64_t *count,
                          uint64_t *limit_bytes)
{
    tn_lock_acquire(&cache->lock);
    *bytes = tn_chunk_cache_bytes(cache);
    *count = atomic_load(&cache->count);
    *limit_bytes = cache->limit_bytes;
    tn_lock_release(&cache->lock);
}

/* The chunks of the lists by size and kind; UINT64_MAX when one is in the wrong list or mapped. */
static uint64_t count_alike(struct tn_chunk_cache *cache)
{
    uint64_t count = 0;

    for (unsigned size = 0; size < TN_CACHE_SIZES; size++) {
        for (unsigned kind = 0; kind < TN_CACHE_KINDS; kind++) {
            struct tn_chunk **list = &cache->alike[size][kind];

            for (struct tn_chunk *chunk = *list; chunk != NULL; chunk = chunk->links.older_alike) {
                if (list_of(cache, chunk->bytes, chunk->properties) != list ||
                    chunk->segment != NULL)
                    return UINT64_MAX;
                count += 1;
            }
        }
    }
    return count;
}

tarn_status tn_chunk_cache_check(struct tn_chunk_cache *cache)
{
    uint64_t bytes = 0;
    uint64_t count = 0;
    uint64_t alike;
    uint64_t stored_bytes;
    uint64_t stored_count;

    tn_lock_acquire(&cache->lock);
    for (struct tn_chunk *chunk = cache->newest; chunk != NULL; chunk = chunk->links.older) {
        bytes += chunk->bytes;
        count += 1;
    }
    alike = count_alike(cache);
    stored_bytes = tn_chunk_cache_bytes(cache);
    stored_count = atomic_load(&cache->count);
    tn_lock_release(&cache->lock);
    if (bytes == stored_bytes && count == stored_count && alike == count)
        return TARN_OK;
    return tn_fail(
        TARN_ERR_CORRUPT,
        "invariant P13 does not hold: the cache has %llu bytes in %llu chunks and should "
        "have %llu in %llu, %llu of them in their lists",
        (unsigned long long)stored_bytes, (unsigned long long)stored_count,
        (unsigned long long)bytes, (unsigned long long)count, (unsigned long long)alike);
}
