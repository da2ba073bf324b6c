// SPDX-License-Identifier: Apache-2.0
/* sequence.h -- numbers of allocations: the lower number was allocated first, across the process.
 *
 * Locking: none. */
#ifndef TARN_HEAP_SEQUENCE_H
#define TARN_HEAP_SEQUENCE_H

#include <stdatomic.h>
#include <stdint.h>

/* The next sequence number of the process; the first of count numbers. */
uint64_t tn_next_sequence(void);
uint64_t tn_next_sequences(uint64_t count);

/* The highest number that was given out. */
const atomic_uint_fast64_t *tn_sequence_counter(void);

#endif
