// SPDX-License-Identifier: Apache-2.0
/* rounding.h -- blocks of coarser sizes than 512 bytes apart.
 *
 * Between a power of two and the next there are so many equal steps, and a block takes as many bytes as
 * the next step has. So requests of nearly one size get blocks of one size, and each fits where
 * another was. */
#ifndef TARN_HEAP_ROUNDING_H
#define TARN_HEAP_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checked.h"
#include "base/hot.h"
#include "heap/block.h"
#include "tarn/device.h"

/* Immutable once it is made. */
struct tn_rounding {
    bool any;                           /* it does anything at all */
    uint8_t shifts[TARN_ROUNDUP_SIZES]; /* log2 of the steps; 0: none */
};

/* divisions: TARN_ROUNDUP_SIZES of them, each 0 or a power of two. */
void tn_rounding_init(struct tn_rounding *rounding, const uint32_t *divisions);

/* What a block of so many bytes takes: a multiple of 512, and no more than the next power of two from 512
 * on. What is more than anybody may ask for (TN_REQUEST_BYTES_MAX) is Tarn's own, and not rounded further:
 * there may be no size above it. requested: not 0. */
uint64_t tn_rounding_apply(const struct tn_rounding *rounding, uint64_t requested);

/* The same. rounding: NULL: to 512 bytes alone. */
static inline uint64_t tn_block_bytes_for(const struct tn_rounding *rounding, uint64_t requested)
{
    if (TN_UNLIKELY(rounding != NULL))
        return tn_rounding_apply(rounding, requested);
    return tn_round_up(requested, TN_BLOCK_BYTES_MIN);
}

#endif
