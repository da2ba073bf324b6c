// SPDX-License-Identifier: Apache-2.0
/* sample.h -- which allocations are looked at, where looking at all would cost too much.
 *
 * Each byte is equally likely to be chosen: one of R in the mean. An allocation is taken when one of
 * its bytes is chosen. So an allocation of s bytes is taken with the probability 1 - exp(-s / R),
 * whatever came before. Each one taken stands for 1 / (1 - exp(-s / R)) of its size. Sums of these
 * are unbiased estimates: of counts, and, times s, of bytes.
 *
 * The gaps between chosen bytes are drawn from the exponential distribution, and count down. An
 * allocation that is not taken costs a subtraction and a branch.
 *
 * Source: the sampling of allocations in tcmalloc and jemalloc, whose gaps are of the same kind.
 *
 * Locking: a sample belongs to whoever holds the lock of what it counts. */
#ifndef TARN_BASE_SAMPLE_H
#define TARN_BASE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/contract.h"
#include "base/hot.h"

struct tn_sample {
    int64_t left; /* bytes up to the next chosen one, it included; above 0 */
    uint64_t
        mean_bytes; /* R; 0: nothing is taken; 1: everything is, in sizes of 64 bytes and more */
    uint64_t random;
};

/* Different seeds make different choices. mean_bytes is less than 2^56. */
void tn_sample_init(struct tn_sample *sample, uint64_t mean_bytes, uint64_t seed);

/* The rare part of the next function. */
TN_RARE bool tn_sample_turn(struct tn_sample *sample);

/* Whether an allocation of so many bytes, less than 2^62, is taken. */
static TN_ALWAYS_INLINE bool tn_sample_take(struct tn_sample *sample, uint64_t bytes)
{
    TN_ASSERT(sample->left > 0 && bytes < UINT64_C(1) << 62);
    sample->left -= (int64_t)bytes;
    return TN_UNLIKELY(sample->left <= 0) && tn_sample_turn(sample);
}

/* How many allocations of this size one stands for that was taken. bytes is not 0. */
double tn_sample_weight(uint64_t bytes, uint64_t mean_bytes);

/* The functions under them, for tests of their errors: -ln(x) of x from 2^-1022 to 1, and
 * 1 - exp(-x) of x at least 0. Relative errors are below 1e-14. */
double tn_sample_minus_log(double x);
double tn_sample_one_minus_exp(double x);

#endif
