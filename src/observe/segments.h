// SPDX-License-Identifier: Apache-2.0
/* segments.h -- the segment, chunk and block at an address.
 *
 * Locking: none may be held; the pool's is taken. */
#ifndef TARN_OBSERVE_SEGMENTS_H
#define TARN_OBSERVE_SEGMENTS_H

#include <stdint.h>

#include "tarn/memory.h"

/* Describes what is mapped at the address; the size is told, too.
 *   NOT_OURS: nothing of Tarn's is mapped there */
TARN_MUST_CHECK tarn_status tn_segment_describe(uint64_t address, tarn_segment *told);

#endif
