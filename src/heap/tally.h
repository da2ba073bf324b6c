// SPDX-License-Identifier: Apache-2.0
/* tally.h -- small and large blocks, and what a heap counts of its own.
 *
 * Locking: that of the arena. */
#ifndef TARN_HEAP_TALLY_H
#define TARN_HEAP_TALLY_H

#include <stdbool.h>
#include <stdint.h>

enum tn_heap_kind { TN_HEAP_SMALL, TN_HEAP_LARGE, TN_HEAP_KINDS };

/* Blocks up to this size are small. With 1 MiB a heap of each kind had more that was free: of random sizes up to 4 MiB
 * 4.0 % and not 3.2. */
#define TN_SMALL_BYTES_MAX ((uint64_t)1 << 19)

static inline enum tn_heap_kind tn_kind_of(uint64_t block_bytes)
{
    return block_bytes <= TN_SMALL_BYTES_MAX ? TN_HEAP_SMALL : TN_HEAP_LARGE;
}

/* Blocks, all in all. */
struct tn_tally {
    uint64_t count;
    uint64_t bytes; /* as taken */
    uint64_t requested;
};

/* What happened in a heap's blocks since the pool's lock was last taken. */
struct tn_heap_counters {
    struct tn_tally allocated;
    struct tn_tally freed;
    /* when most bytes were allocated and not freed: what was, above what it was then */
    struct tn_tally peak;
};

/* A block of so many bytes is about to be added: the bytes may be more than ever. Signed, since what is freed
 * may have been allocated before. */
static inline bool tn_heap_counters_rise(const struct tn_heap_counters *counters, uint64_t bytes)
{
    return (int64_t)(counters->allocated.bytes - counters->freed.bytes + bytes) >
           (int64_t)counters->peak.bytes;
}

/* They are: so the blocks, and what was requested, are looked at. */
void tn_heap_counters_raise(struct tn_heap_counters *counters, uint64_t bytes, uint64_t requested);

#endif
