// SPDX-License-Identifier: Apache-2.0
/* The rule is PyTorch's for roundup_power2_divisions: the steps count by the power of two below the
 * request, and a request that is no larger than 512 bytes a step is rounded to 512 bytes alone. So
 * a step is never smaller than 512 bytes. */
#include "heap/rounding.h"

#include "base/checked.h"
#include "base/contract.h"
#include "heap/block.h"

enum { FIRST_LOG2 = 20 }; /* the first of the sizes is 1 MiB, and stands for what is smaller, too */

void tn_rounding_init(struct tn_rounding *rounding, const uint32_t *divisions)
{
    rounding->any = false;
    for (int i = 0; i < TARN_ROUNDUP_SIZES; i++) {
        TN_ASSERT(divisions[i] == 0 || tn_is_power_of_two(divisions[i]));
        rounding->shifts[i] = (uint8_t)(divisions[i] != 0 ? tn_log2_floor(divisions[i]) : 0);
        rounding->any = rounding->any || rounding->shifts[i] != 0;
    }
}

uint64_t tn_rounding_apply(const struct tn_rounding *rounding, uint64_t requested)
{
    unsigned log2 = tn_log2_floor(requested);
    unsigned size = log2 > FIRST_LOG2 ? log2 - FIRST_LOG2 : 0;
    unsigned shift = rounding->shifts[tn_min(size, TARN_ROUNDUP_SIZES - 1)];

    TN_ASSERT(requested > 0);
    if (shift == 0 || requested <= TN_BLOCK_BYTES_MIN << shift || requested > TN_REQUEST_BYTES_MAX)
        return tn_round_up(requested, TN_BLOCK_BYTES_MIN);
    TN_ASSERT(shift < log2);
    return tn_round_up(requested, (uint64_t)1 << (log2 - shift));
}
