// SPDX-License-Identifier: Apache-2.0
/* offsets.h -- the layout of a symmetric pool: which offsets are free, live or freed.
 *
 * The layout depends on the calls here alone: no clock, event, thread or address has a part in it.
 * Two processes that make the same calls get the same offsets.
 *
 *   O1  the ranges cover the pool without a gap, in order of their offsets
 *   O2  two free ranges are no neighbours
 *   O3  a free range is in the bin of its size, and no other range is in a bin
 *
 * Locking: the pool's. */
#ifndef TARN_SHARE_OFFSETS_H
#define TARN_SHARE_OFFSETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tarn/status.h"

enum { TN_OFFSET_UNIT = 512, TN_OFFSET_BINS = 256 };

#define TN_RANGE_NONE UINT32_MAX

enum tn_range_state {
    TN_OFFSET_UNUSED, /* the record */
    TN_OFFSET_FREE,
    TN_OFFSET_LIVE,
    TN_OFFSET_FREED, /* and not yet collected */
    TN_OFFSET_ENDED, /* a persistent block that may come again */
};

struct tn_offset_range {
    uint64_t offset;
    uint64_t bytes;     /* a multiple of TN_OFFSET_UNIT */
    uint64_t requested; /* LIVE and ENDED: as asked for */
    uint64_t id;        /* of a persistent block; 0: none */
    enum tn_range_state state;
    uint32_t before; /* the neighbours */
    uint32_t after;
    uint32_t newer; /* FREE: of the bin */
    uint32_t older; /* of the bin; of the unused records */
    uint32_t next;  /* of ranges with the same hash of their offset */
};

struct tn_offsets {
    struct tn_offset_range *ranges;
    size_t capacity;
    uint32_t begun;  /* records from here on were never used */
    uint32_t unused; /* the first of those to be used again */
    uint32_t last;   /* the range with the highest offset */
    uint64_t bytes;  /* of all ranges */
    uint32_t bins[TN_OFFSET_BINS];
    uint64_t filled[TN_OFFSET_BINS / 64]; /* a bit for each bin with a range */
    uint32_t *heads;                      /* by hash of the offset: ranges that are not FREE */
    size_t head_count;                    /* a power of two, or 0 */
    size_t hashed_count;
};

void tn_offsets_init(struct tn_offsets *offsets);
void tn_offsets_fini(struct tn_offsets *offsets);

/* Makes room for the records of one call below, which then cannot lack host memory. HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_offsets_prepare(struct tn_offsets *offsets);

/* Adds free bytes behind the last ones, a multiple of TN_OFFSET_UNIT. HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_offsets_grow(struct tn_offsets *offsets, uint64_t bytes);

/* Takes a free range of this many bytes, rounded up: LIVE from then on. bytes is not 0.
 *   LIMIT: no free range is large enough; HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_offsets_take(struct tn_offsets *offsets, uint64_t bytes,
                                            uint32_t *index);

/* A range is free again. */
void tn_offsets_give(struct tn_offsets *offsets, uint32_t index);

/* The range that begins at the offset and is not FREE; TN_RANGE_NONE: none does. */
uint32_t tn_offsets_find(const struct tn_offsets *offsets, uint64_t offset);

/* Recomputes O1 to O3. CORRUPT names the first that does not hold. */
TARN_MUST_CHECK tarn_status tn_offsets_check(const struct tn_offsets *offsets);

#endif
