// SPDX-License-Identifier: Apache-2.0
/* tally.h -- small and large blocks, and the counters of a heap.
 *
 * Locking: the arena's lock. */
#ifndef TARN_HEAP_TALLY_H
#define TARN_HEAP_TALLY_H

#include <stdbool.h>
#include <stdint.h>

enum tn_heap_kind { TN_HEAP_SMALL, TN_HEAP_LARGE, TN_HEAP_KINDS };

/* Blocks up to this size are small. With a limit of 1 MiB a heap of each kind had more free memory:
 * 4.0 % instead of 3.2 %, for random sizes up to 4 MiB. */
#define TN_SMALL_BYTES_MAX ((uint64_t)1 << 19)

static inline enum tn_heap_kind tn_kind_of(uint64_t block_bytes)
{
    return block_bytes <= TN_SMALL_BYTES_MAX ? TN_HEAP_SMALL : TN_HEAP_LARGE;
}

/* Totals of blocks. */
struct tn_tally {
    uint64_t count;
    uint64_t bytes; /* bytes of blocks */
    uint64_t requested;
};

/* Changes in a heap's blocks since the pool's lock was last taken. */
struct tn_heap_counters {
    struct tn_tally allocated;
    struct tn_tally freed;
    /* live amounts when most bytes were live, relative to the amounts when the pool's lock was last
     * taken */
    struct tn_tally peak;
};

/* Whether the live bytes reach a new peak when a block of this size is added. Signed: blocks freed
 * now may have been allocated before. */
static inline bool tn_heap_counters_rise(const struct tn_heap_counters *counters, uint64_t bytes)
{
    return (int64_t)(counters->allocated.bytes - counters->freed.bytes + bytes) >
           (int64_t)counters->peak.bytes;
}

/* Raises the peak, which tn_heap_counters_rise has found: bytes, and count and requested if they
 * are higher. */
void tn_heap_counters_raise(struct tn_heap_counters *counters, uint64_t bytes, uint64_t requested);

#endif
