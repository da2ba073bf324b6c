// SPDX-License-Identifier: Apache-2.0
/* sequence.h -- numbers that tell which of two blocks was allocated first, in the whole process.
 *
 * Locking: none. */
#ifndef TARN_HEAP_SEQUENCE_H
#define TARN_HEAP_SEQUENCE_H

#include <stdint.h>

/* The next sequence number of the process; the first of so many. */
uint64_t tn_next_sequence(void);
uint64_t tn_next_sequences(uint64_t count);

#endif
