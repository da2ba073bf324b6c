// SPDX-License-Identifier: Apache-2.0
/* hot.h -- what the compiler is told of functions on the way of every allocation and free.
 *
 * It does not know how often a branch is taken, and keeps in registers what a call that hardly ever happens must
 * find there again. So what always happens is inlined, and what does not stands apart; what hardly ever happens is
 * rare, and made small.
 *
 * Between two calls the driver, or the program, has replaced what was in the cache for instructions. So the way that
 * nearly all calls go is one behind the other: each line of it is another miss, and a jump ahead is one more. */
#ifndef TARN_BASE_HOT_H
#define TARN_BASE_HOT_H

#include <stddef.h>

#define TN_ALWAYS_INLINE inline __attribute__((always_inline))
#define TN_APART __attribute__((noinline))
/* On the way of every call: such functions stand side by side, on few pages. */
#define TN_HOT __attribute__((hot))
#define TN_RARE __attribute__((cold, noinline))
/* The compiler knows nothing of what the variable is from here on. */
#define TN_HIDE(variable) __asm__("" : "+r"(variable))
#define TN_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define TN_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* Brings memory that is about to be written into the cache. */
static inline void tn_bring_near(const void *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch((const char *)memory + at, 1);
}

#endif
