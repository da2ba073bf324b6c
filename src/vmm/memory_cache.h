// SPDX-License-Identifier: Apache-2.0
/* memory_cache.h -- memory of the device that is mapped nowhere, for growth to map again.
 *
 *   V8  the cache's bytes and count are the sums over its memory; each is in the list of all and in
 *        that of its size and kind; none of them is mapped
 *
 * Making memory costs the driver more than mapping it, and giving it back costs most. Memory that
 * pools give up therefore stays with the device, up to a limit, and growth looks here first. Memory
 * here is idle, counts against the device's limit, and is the first to be given back.
 *
 * Locking: every function takes the CACHE lock; driver calls are made outside it. */
#ifndef TARN_VMM_MEMORY_CACHE_H
#define TARN_VMM_MEMORY_CACHE_H

#include "base/lock.h"
#include "driver/mapping.h"
#include "vmm/budget.h"
#include "vmm/memory.h"

enum {
    TN_CACHE_SIZES = 10, /* powers of two from 2 MiB to 1 GiB */
    TN_CACHE_KINDS = 4,  /* exportable or not, for RDMA or not */
};

#define TN_CACHE_BYTES_DEFAULT ((uint64_t)256 << 20)

struct tn_memory_cache {
    struct tn_gpu *gpu;       /* immutable */
    struct tn_budget *budget; /* that the memory here was charged to; immutable */
    struct tn_ring *history;  /* set behind init; NULL: none */
    bool host;                /* all of it is memory of the host, or none; immutable */
    struct tn_lock lock;      /* rank CACHE */
    uint64_t limit_bytes;     /* guarded by lock */
    struct tn_memory *newest; /* of all; guarded by lock */
    struct tn_memory *oldest;
    /* the newest of each; guarded by lock */
    struct tn_memory *alike[TN_CACHE_SIZES][TN_CACHE_KINDS];
    atomic_uint_fast64_t bytes; /* written under the lock */
    atomic_uint_fast64_t count;
};

void tn_memory_cache_init(struct tn_memory_cache *cache, struct tn_gpu *gpu,
                          struct tn_budget *budget, uint64_t limit_bytes, bool host);
void tn_memory_cache_fini(struct tn_memory_cache *cache); /* gives all back to the driver */

/* Takes the newest memory of exactly this size and kind, charged already; NULL when the cache has
 * none. */
struct tn_memory *tn_memory_cache_take(struct tn_memory_cache *cache, uint64_t bytes,
                                       struct tn_memory_properties properties);

/* Puts in a memory that is charged, idle and mapped nowhere. Memory above the limit then goes to
 * the driver, oldest first; a memory that is larger than the limit goes itself. */
void tn_memory_cache_put(struct tn_memory_cache *cache, struct tn_memory *memory);

/* Gives memory back to the driver, oldest first, until at most keep_bytes are left. Returns the
 * bytes given back. */
uint64_t tn_memory_cache_release(struct tn_memory_cache *cache, uint64_t keep_bytes);

void tn_memory_cache_set_limit(struct tn_memory_cache *cache, uint64_t limit_bytes);

static inline uint64_t tn_memory_cache_bytes(const struct tn_memory_cache *cache)
{
    return atomic_load(&cache->bytes);
}

/* The bytes and the count of memory in the cache, and the limit. */
void tn_memory_cache_usage(struct tn_memory_cache *cache, uint64_t *bytes, uint64_t *count,
                           uint64_t *limit_bytes);

/* The cache's memory of the kind, by the binary logarithm of its pages. */
void tn_memory_cache_count(struct tn_memory_cache *cache, struct tn_memory_properties properties,
                           uint32_t counts[TN_CACHE_SIZES]);

/* Recomputes V8. CORRUPT */
TARN_MUST_CHECK tarn_status tn_memory_cache_check(struct tn_memory_cache *cache);

#endif
