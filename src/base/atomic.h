// SPDX-License-Identifier: Apache-2.0
/* atomic.h -- what the atomics of C lack. */
#ifndef TARN_BASE_ATOMIC_H
#define TARN_BASE_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

/* Makes the value at least so much. */
static inline void tn_atomic_raise(atomic_uint_fast64_t *value, uint64_t least)
{
    uint_fast64_t seen = atomic_load(value);

    do {
        if (seen >= least)
            return;
    } while (!atomic_compare_exchange_weak(value, &seen, least));
}

#endif
