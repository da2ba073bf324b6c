// SPDX-License-Identifier: Apache-2.0
/* The cache of unmapped memory.
 *
 * A memory is in two lists. The list of all memory is ordered by age, and memory is given back from
 * its end. The list of the memory's size and kind serves growth, from its front. Both lists run
 * through the memory's own record, so tn_memory_cache_put needs no host memory.
 *
 * Trade-offs: sizes are exact. A larger memory cannot be cut, since the driver maps a handle whole
 * or not at all. A mapping larger than requested would make layouts depend on other pools'
 * leftovers. */
#include "vmm/memory_cache.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/note.h"
#include "driver/mapping.h"
#include "vmm/address_table.h"

static struct tn_memory **list_of(struct tn_memory_cache *cache, uint64_t bytes,
                                  struct tn_memory_properties properties)
{
    unsigned size = tn_log2_floor(bytes / TN_PAGE_BYTES);

    TN_ASSERT(tn_is_power_of_two(bytes) && size < TN_CACHE_SIZES);
    TN_ASSERT(properties.host == cache->host);
    return &cache->alike[size][properties.exportable * 2 + properties.rdma];
}

static void insert(struct tn_memory_cache *cache, struct tn_memory *memory)
{
    struct tn_memory **alike = list_of(cache, memory->bytes, memory->properties);

    TN_ASSERT(tn_lock_is_held(&cache->lock));
    TN_ASSERT(!tn_memory_is_mapped(memory));
    memory->links = (struct tn_memory_links){.older = cache->newest, .older_alike = *alike};
    if (cache->newest != NULL)
        cache->newest->links.newer = memory;
    else
        cache->oldest = memory;
    cache->newest = memory;
    if (*alike != NULL)
        (*alike)->links.newer_alike = memory;
    *alike = memory;
    atomic_fetch_add(&cache->bytes, memory->bytes);
    atomic_fetch_add(&cache->count, 1);
}

static void take_out(struct tn_memory_cache *cache, struct tn_memory *memory)
{
    struct tn_memory_links links = memory->links;

    TN_ASSERT(tn_lock_is_held(&cache->lock));
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
        *list_of(cache, memory->bytes, memory->properties) = links.older_alike;
    if (links.older_alike != NULL)
        links.older_alike->links.newer_alike = links.newer_alike;
    memory->links = (struct tn_memory_links){0};
    atomic_fetch_sub(&cache->bytes, memory->bytes);
    atomic_fetch_sub(&cache->count, 1);
}

/* Takes the oldest out until no more than keep_bytes are left; returns them as a list through
 * older. The lock is held. */
static struct tn_memory *shrink(struct tn_memory_cache *cache, uint64_t keep_bytes)
{
    struct tn_memory *gone = NULL;

    TN_ASSERT(tn_lock_is_held(&cache->lock));
    while (tn_memory_cache_bytes(cache) > keep_bytes) {
        struct tn_memory *memory = cache->oldest;

        take_out(cache, memory);
        memory->links.older = gone;
        gone = memory;
    }
    return gone;
}

/* Gives a list made by shrink back to the driver; no CACHE lock is held. */
static uint64_t give_back(struct tn_memory_cache *cache, struct tn_memory *gone)
{
    uint64_t bytes = 0;

    TN_ASSERT(!tn_lock_held(TN_RANK_CACHE));
    while (gone != NULL) {
        struct tn_memory *next = gone->links.older;
        uint64_t memory_bytes = gone->bytes;

        tn_note_write(cache->history, TN_NOTE_MEMORY_RELEASED, 0,
                      TN_OPERANDS(gone->handle, memory_bytes));
        tn_memory_destroy(cache->gpu, gone);
        tn_budget_discharge(cache->budget, memory_bytes);
        bytes += memory_bytes;
        gone = next;
    }
    return bytes;
}

void tn_memory_cache_init(struct tn_memory_cache *cache, struct tn_gpu *gpu,
                          struct tn_budget *budget, uint64_t limit_bytes, bool host)
{
    *cache = (struct tn_memory_cache){
        .gpu = gpu, .budget = budget, .host = host, .limit_bytes = limit_bytes};
    tn_lock_init(&cache->lock, TN_RANK_CACHE);
}

void tn_memory_cache_fini(struct tn_memory_cache *cache)
{
    (void)tn_memory_cache_release(cache, 0);
    tn_lock_fini(&cache->lock);
}

struct tn_memory *tn_memory_cache_take(struct tn_memory_cache *cache, uint64_t bytes,
                                       struct tn_memory_properties properties)
{
    struct tn_memory *memory;

    tn_lock_acquire(&cache->lock);
    memory = *list_of(cache, bytes, properties);
    if (memory != NULL)
        take_out(cache, memory);
    tn_lock_release(&cache->lock);
    if (memory != NULL)
        tn_note_write(cache->history, TN_NOTE_MEMORY_REUSED, 0,
                      TN_OPERANDS(memory->handle, memory->bytes));
    return memory;
}

void tn_memory_cache_put(struct tn_memory_cache *cache, struct tn_memory *memory)
{
    struct tn_memory *gone = memory;

    tn_lock_acquire(&cache->lock);
    if (memory->bytes <= cache->limit_bytes) {
        insert(cache, memory);
        tn_note_write(cache->history, TN_NOTE_MEMORY_CACHED, 0,
                      TN_OPERANDS(memory->handle, memory->bytes));
        gone = shrink(cache, cache->limit_bytes);
    } else {
        memory->links = (struct tn_memory_links){0};
    }
    tn_lock_release(&cache->lock);
    (void)give_back(cache, gone);
}

uint64_t tn_memory_cache_release(struct tn_memory_cache *cache, uint64_t keep_bytes)
{
    struct tn_memory *gone;

    tn_lock_acquire(&cache->lock);
    gone = shrink(cache, keep_bytes);
    tn_lock_release(&cache->lock);
    return give_back(cache, gone);
}

void tn_memory_cache_set_limit(struct tn_memory_cache *cache, uint64_t limit_bytes)
{
    tn_lock_acquire(&cache->lock);
    cache->limit_bytes = limit_bytes;
    tn_lock_release(&cache->lock);
    (void)tn_memory_cache_release(cache, limit_bytes);
}

void tn_memory_cache_usage(struct tn_memory_cache *cache, uint64_t *bytes, uint64_t *count,
                           uint64_t *limit_bytes)
{
    tn_lock_acquire(&cache->lock);
    *bytes = tn_memory_cache_bytes(cache);
    *count = atomic_load(&cache->count);
    *limit_bytes = cache->limit_bytes;
    tn_lock_release(&cache->lock);
}

void tn_memory_cache_count(struct tn_memory_cache *cache, struct tn_memory_properties properties,
                           uint32_t counts[TN_CACHE_SIZES])
{
    tn_lock_acquire(&cache->lock);
    for (unsigned size = 0; size < TN_CACHE_SIZES; size++) {
        const struct tn_memory *memory = *list_of(cache, TN_PAGE_BYTES << size, properties);

        counts[size] = 0;
        for (; memory != NULL; memory = memory->links.older_alike)
            counts[size] += 1;
    }
    tn_lock_release(&cache->lock);
}

/* Counts the memory in the lists by size and kind; UINT64_MAX when a memory is in the wrong list or
 * mapped. */
static uint64_t count_alike(struct tn_memory_cache *cache)
{
    uint64_t count = 0;

    TN_ASSERT(tn_lock_is_held(&cache->lock));
    for (unsigned size = 0; size < TN_CACHE_SIZES; size++) {
        for (unsigned kind = 0; kind < TN_CACHE_KINDS; kind++) {
            struct tn_memory **list = &cache->alike[size][kind];

            for (struct tn_memory *memory = *list; memory != NULL;
                 memory = memory->links.older_alike) {
                if (list_of(cache, memory->bytes, memory->properties) != list ||
                    tn_memory_is_mapped(memory))
                    return UINT64_MAX;
                count += 1;
            }
        }
    }
    return count;
}

tarn_status tn_memory_cache_check(struct tn_memory_cache *cache)
{
    uint64_t bytes = 0;
    uint64_t count = 0;
    uint64_t alike;
    uint64_t stored_bytes;
    uint64_t stored_count;

    tn_lock_acquire(&cache->lock);
    for (struct tn_memory *memory = cache->newest; memory != NULL; memory = memory->links.older) {
        bytes += memory->bytes;
        count += 1;
    }
    alike = count_alike(cache);
    stored_bytes = tn_memory_cache_bytes(cache);
    stored_count = atomic_load(&cache->count);
    tn_lock_release(&cache->lock);
    if (bytes == stored_bytes && count == stored_count && alike == count)
        return TARN_OK;
    return tn_fail(
        TARN_ERR_CORRUPT,
        "invariant V8 does not hold: the cache has %llu bytes in %llu allocations and should "
        "have %llu in %llu, %llu of them in their lists",
        (unsigned long long)stored_bytes, (unsigned long long)stored_count,
        (unsigned long long)bytes, (unsigned long long)count, (unsigned long long)alike);
}
