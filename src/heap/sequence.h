// SPDX-License-Identifier: Apache-2.0
/* sequence.h -- numbers of allocations: the lower number was allocated first, across the process.
 *
 * Locking: none. */
#ifndef TARN_HEAP_SEQUENCE_H
#define TARN_HEAP_SEQUENCE_H

#include <stdint.h>

/* The next sequence number of the process; the first of count numbers. */
uint64_t tn_next_sequence(void);
uint64_t tn_next_sequences(uint64_t count);

#endif
