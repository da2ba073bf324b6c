// SPDX-License-Identifier: Apache-2.0
/* checked.h -- arithmetic on sizes: rounding, powers of two, overflow. */
#ifndef TARN_BASE_CHECKED_H
#define TARN_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TN_KIB ((uint64_t)1 << 10)
#define TN_MIB ((uint64_t)1 << 20)
#define TN_GIB ((uint64_t)1 << 30)
#define TN_TIB ((uint64_t)1 << 40)

/* 2^64 over the golden ratio: the high bits of its products are well mixed (Fibonacci hashing). */
#define TN_GOLDEN 0x9E3779B97F4A7C15ULL

static inline bool tn_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* step is a power of two; the caller knows that value + step does not overflow. */
static inline uint64_t tn_round_up(uint64_t value, uint64_t step)
{
    return (value + step - 1) & ~(step - 1);
}

static inline uint64_t tn_round_down(uint64_t value, uint64_t step)
{
    return value & ~(step - 1);
}

/* Index of the highest set bit; value is not 0. x86's instruction waits for what its result's
 * register held before, which may be on its way from memory: it therefore begins as 0. */
static inline unsigned tn_log2_floor(uint64_t value)
{
#if defined(__x86_64__)
    uint64_t index = 0;

    __asm__("bsr %1, %0" : "+r"(index) : "r"(value) : "cc");
    return (unsigned)index;
#else
    return 63U - (unsigned)__builtin_clzll(value);
#endif
}

/* Index of the lowest set bit; value is not 0. Of 64 bits, as the index of an array is. In the loops
 * that call the function, the result's register was written long before: no wait to avoid. */
static inline uint64_t tn_lowest_bit(uint64_t value)
{
#if defined(__x86_64__)
    uint64_t index;

    __asm__("rep bsf %1, %0" : "=r"(index) : "r"(value) : "cc"); /* tzcnt where there is one */
    return index;
#else
    return (uint64_t)__builtin_ctzll(value);
#endif
}

static inline uint64_t tn_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t tn_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
