// SPDX-License-Identifier: Apache-2.0
/* hot.h -- hints to the compiler for functions on the way of every allocation and free.
 *
 * The compiler does not know how often a branch is taken. For the sake of a rare call in a function
 * it keeps values in registers that survive the call. Steps that always happen are therefore
 * inlined, and others are functions apart; rare steps are marked rare and made small.
 *
 * Between two calls the driver, or the program, has replaced the contents of the instruction cache.
 * The common path is therefore laid out in one piece: each of its cache lines is another miss, and
 * a jump ahead is one more. */
#ifndef TARN_BASE_HOT_H
#define TARN_BASE_HOT_H

#include <stddef.h>

#define TN_ALWAYS_INLINE inline __attribute__((always_inline))
#define TN_APART __attribute__((noinline))
/* On the way of every call: these functions stand side by side, on few pages. */
#define TN_HOT __attribute__((hot))
/* For the loop of a function: which cache lines it lies on depends on no other function. */
#define TN_ALIGNED __attribute__((aligned(64)))
#define TN_RARE __attribute__((cold, noinline))
/* From here on the compiler knows nothing of the variable's value. */
#define TN_HIDE(variable) __asm__("" : "+r"(variable))
#define TN_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define TN_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Brings memory into the cache before it is written. */
static inline void tn_bring_near(const void *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch((const char *)memory + at, 1);
}

#endif
