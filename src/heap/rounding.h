// SPDX-License-Identifier: Apache-2.0
/* rounding.h -- coarser block sizes than multiples of 512 bytes.
 *
 * Between a power of two and the next there are equal steps, as many as configured. A block takes
 * as many bytes as the next step. Requests of similar sizes get blocks of the same size, and each
 * fits where another was. */
#ifndef TARN_HEAP_ROUNDING_H
#define TARN_HEAP_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/hot.h"
#include "heap/block.h"
#include "tarn/device.h"

/* Immutable once made. */
struct tn_rounding {
    bool any;                           /* any step differs from 512 bytes */
    uint8_t shifts[TARN_ROUNDUP_SIZES]; /* log2 of the steps; 0: none */
};

/* divisions: TARN_ROUNDUP_SIZES of them, each 0 or a power of two. */
void tn_rounding_init(struct tn_rounding *rounding, const uint32_t *divisions);

/* The size of a block for a request: a multiple of 512 bytes, and at most the next power of two
 * from 512 on. Requests above TN_REQUEST_BYTES_MAX are Tarn's own and are rounded to 512 bytes
 * only: a higher step may not exist. requested: not 0. */
uint64_t tn_rounding_apply(const struct tn_rounding *rounding, uint64_t requested);

/* tn_rounding_apply. rounding: NULL: rounds to 512 bytes. */
static inline uint64_t tn_block_bytes_for(const struct tn_rounding *rounding, uint64_t requested)
{
    if (TN_UNLIKELY(rounding != NULL))
        return tn_rounding_apply(rounding, requested);
    return tn_round_up(requested, TN_BLOCK_BYTES_MIN);
}

#endif
