// SPDX-License-Identifier: Apache-2.0
/* atomic.h -- atomic operations that C lacks. */
#ifndef TARN_BASE_ATOMIC_H
#define TARN_BASE_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

/* Raises the value to the given least number, if lower. */
static inline void tn_atomic_raise(atomic_uint_fast64_t *value, uint64_t least)
{
    uint_fast64_t seen = atomic_load(value);

    do {
        if (seen >= least)
            return;
    } while (!atomic_compare_exchange_weak(value, &seen, least));
}

#endif
