// SPDX-License-Identifier: Apache-2.0
/* check.h -- what heaps promise, computed again: blocks, bins, the index, the counts of chunks.
 *
 * A build with TARN_DEBUG_CHECKS checks at each mutation the touched block and its neighbours, in
 * constant time. The whole heap is checked in turns: the next turn comes after as many mutations as
 * the last turn looked at things. A broken invariant ends the process, with a sentence that names
 * the invariant and both values. Other builds compile none of this.
 *
 * Locking: the lock of the heap's arena. This lock does not cover blocks of other arenas: of such a
 * neighbour only the links and the heap are read. The pool's lock covers all (observe/pool_check.h). */
#ifndef TARN_HEAP_CHECK_H
#define TARN_HEAP_CHECK_H

#include <stdint.h>

#include "base/contract.h"
#include "heap/chunk_set.h"
#include "heap/heap.h"
#include "tarn/status.h"

/* Returns TARN_ERR_CORRUPT, with a sentence that names the invariant, the stored value and the
 * computed value. */
TARN_MUST_CHECK tarn_status tn_corrupt(const char *invariant, const char *what, uint64_t stored,
                                       uint64_t computed);

/* In a function that returns a status: returns CORRUPT where the two differ. */
#define TN_EXPECT_EQUAL(invariant, what, stored, computed)                                         \
    do {                                                                                           \
        uint64_t stored_value = (uint64_t)(stored);                                                \
        uint64_t computed_value = (uint64_t)(computed);                                            \
        if (stored_value != computed_value)                                                        \
            return tn_corrupt(invariant, what, stored_value, computed_value);                      \
    } while (0)

/* Whether the block may have its heap where this one owns its chunks (P2). */
static inline bool tn_block_may_be_of(const struct tn_block *block, const struct tn_heap *owner)
{
    return block->heap == owner ||
           (tn_block_may_keep(block) && block->heap->is_idle && owner->of_captures);
}

/* Each returns TARN_OK, or CORRUPT for the first broken invariant.
 *   tn_block_check         the block alone, in constant time: P2 at both of its ends, P4, P5, P6,
 *                          P18, P20
 *   tn_block_check_next    the block and the following block: P1, P3
 *   tn_block_check_chunks  all chunks under the block: P2, V4
 *   tn_block_check_near    the block and its two neighbours, in constant time */
TARN_MUST_CHECK tarn_status tn_block_check(const struct tn_block *block);
TARN_MUST_CHECK tarn_status tn_block_check_next(const struct tn_block *block);
TARN_MUST_CHECK tarn_status tn_block_check_chunks(const struct tn_block *block);
TARN_MUST_CHECK tarn_status tn_block_check_near(const struct tn_block *block);

/* All chunks of the segment, whose blocks are sound: P5 and P6. */
TARN_MUST_CHECK tarn_status tn_segment_check(const struct tn_segment *segment);

/* The heap as a whole: its bins and slots (P4, P19), and its blocks in each segment that is not
 * mixed, from the given segment on (P5 and P6 for each chunk). Adds to *steps the number of
 * things looked at. */
TARN_MUST_CHECK tarn_status tn_heap_check(const struct tn_heap *heap,
                                          const struct tn_segment *segments, uint64_t *steps);

/* Every id of the table: V4 and P8. */
TARN_MUST_CHECK tarn_status tn_chunk_table_check(const struct tn_chunk_table *chunks);

/* For the macros below. */
void tn_check_touched(const struct tn_block *block, const char *file, int line);
void tn_check_turn(struct tn_heap *heap, const char *file, int line);
void tn_check_status(tarn_status status, const char *file, int line);

#if TARN_DEBUG_CHECKS
#define TN_CHECK_CALL(call) call
#else
#define TN_CHECK_CALL(call) ((void)sizeof((call), 0))
#endif

/* A mutation of the block, which is in no bin before it is FREE, is complete. */
#define TN_CHECK_TOUCHED(block) TN_CHECK_CALL(tn_check_touched(block, __FILE__, __LINE__))

/* No block of the heap is between two states: checks the heap, if its turn has come. */
#define TN_CHECK_TURN(heap) TN_CHECK_CALL(tn_check_turn(heap, __FILE__, __LINE__))

/* The structure whose status was computed is sound. */
#define TN_CHECK_STATUS(status) TN_CHECK_CALL(tn_check_status(status, __FILE__, __LINE__))

#endif
