// SPDX-License-Identifier: Apache-2.0
/* random.h -- a small random generator that gives the same numbers everywhere. */
#ifndef SAMPLES_COMMON_RANDOM_H
#define SAMPLES_COMMON_RANDOM_H

#include <stdint.h>

/* The next number of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
 * generators", 2014). Any state is a good seed. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Evenly from -1 up to 1, without 1, in steps of 2^-23: a float holds each of them exactly. */
static inline float random_uniform(uint64_t *state)
{
    return (float)(random_next(state) >> 40) / 8388608.0F - 1.0F;
}

#endif
