// SPDX-License-Identifier: Apache-2.0
/* A gap is an exponential number rounded up: the geometric distribution, which like the exponential one
 * forgets what came before. It is at most s with the probability 1 - exp(-s / R), for each whole s.
 * An allocation across several chosen bytes is taken once, and the next gap begins behind its end.
 *
 * Logarithm and exponential are written out, since the library links no libm. They are rare: about
 * 20 ns once in R bytes.
 *
 * Sources: ln m = 2 artanh((m - 1) / (m + 1)), M. Abramowitz and I. Stegun, Handbook of Mathematical
 * Functions, 4.1.27; splitmix64, G. Steele, D. Lea, C. Flood, Fast Splittable Pseudorandom Number
 * Generators (OOPSLA 2014). */
#include "base/sample.h"

#include <string.h>

#include "base/checked.h"

static const double ln_2 = 0x1.62e42fefa39efp-1;

enum { MANTISSA_BITS = 52, EXPONENT_BIAS = 1023, EXPONENT_MASK = 0x7ff };

#define MEAN_BYTES_MAX (UINT64_C(1) << 56)

/* x is 2^exponent times m, with m from 1 / sqrt 2 to sqrt 2. */
double tn_sample_minus_log(double x)
{
    uint64_t bits;
    int exponent;
    double m;
    double z;
    double square;
    double sum = 0;

    TN_ASSERT(x > 0 && x <= 1);
    memcpy(&bits, &x, sizeof bits);
    exponent = (int)(bits >> MANTISSA_BITS & EXPONENT_MASK) - EXPONENT_BIAS;
    bits = (bits & ((UINT64_C(1) << MANTISSA_BITS) - 1)) | (uint64_t)EXPONENT_BIAS << MANTISSA_BITS;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m /= 2;
        exponent += 1;
    }
    z = (m - 1) / (m + 1); /* at most 0.1716: each term is 0.03 of the last */
    square = z * z;
    for (int i = 21; i > 0; i -= 2)
        sum = sum * square + 1.0 / i;
    return -exponent * ln_2 - 2 * z * sum;
}

/* The series for 1 - exp(-x), of x up to ln 2. */
static double series(double x)
{
    double sum = 1;

    for (int i = 18; i > 1; i--)
        sum = 1 - x / i * sum;
    return x * sum;
}

double tn_sample_one_minus_exp(double x)
{
    uint64_t halvings;

    TN_ASSERT(x >= 0);
    if (x >= 40)
        return 1; /* to the last bit */
    halvings = (uint64_t)(x / ln_2);
    /* exp(-x) is 2^-halvings times exp(-r), with r up to ln 2. */
    return halvings == 0
               ? series(x)
               : 1 - (1 - series(x - (double)halvings * ln_2)) / (double)(UINT64_C(1) << halvings);
}

static uint64_t mix(uint64_t word)
{
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9;
    word = (word ^ word >> 27) * 0x94D049BB133111EB;
    return word ^ word >> 31;
}

/* The next gap. */
static int64_t draw(struct tn_sample *sample)
{
    double chance; /* 53 bits in (0, 1]: the gap is at most 37 times the mean */
    double gap;

    if (sample->mean_bytes == 0)
        return INT64_MAX;
    sample->random += TN_GOLDEN;
    chance = (double)((mix(sample->random) >> 11) + 1) * 0x1p-53;
    gap = tn_sample_minus_log(chance) * (double)sample->mean_bytes;
    TN_ASSERT(gap >= 0 && gap < 0x1p62);
    return (int64_t)gap + 1;
}

void tn_sample_init(struct tn_sample *sample, uint64_t mean_bytes, uint64_t seed)
{
    TN_ASSERT(mean_bytes < MEAN_BYTES_MAX);
    *sample = (struct tn_sample){.mean_bytes = mean_bytes, .random = mix(seed)};
    sample->left = draw(sample);
}

bool tn_sample_turn(struct tn_sample *sample)
{
    TN_ASSERT(sample->left <= 0);
    sample->left = draw(sample);
    return sample->mean_bytes != 0;
}

double tn_sample_weight(uint64_t bytes, uint64_t mean_bytes)
{
    TN_ASSERT(bytes > 0 && mean_bytes < MEAN_BYTES_MAX);
    if (mean_bytes == 0)
        return 1; /* none was taken */
    return 1 / tn_sample_one_minus_exp((double)bytes / (double)mean_bytes);
}
