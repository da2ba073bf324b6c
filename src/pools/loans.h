// SPDX-License-Identifier: Apache-2.0
/* loans.h -- blocks of one stream in the free memory of another.
 *
 * Outside captures, an allocation of 1 MiB or more which finds no room in its own arena looks into
 * the arenas of other streams, before its heap grows. A FREE block there is borrowed once it is
 * proven idle (pools/proofs.h). The chunks remain the lender's, and a loan takes no call of the
 * driver.
 *
 * The lender's next work is not ordered behind the borrower's. A loan that is freed is therefore
 * PENDING until an event of the borrower, or a wait for the device, proves that work over (P24).
 * Then the lender has the memory back, and others may borrow it again at once.
 *
 * Trade-offs: small blocks are never borrowed, for they would cut up what the lender allocates
 * from. A look at CANDIDATES_MAX blocks of each of the LENDERS_MAX arenas used last. The borrower
 * itself waits for its event, too, before it gets the same memory again.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_LOANS_H
#define TARN_POOLS_LOANS_H

#include "pools/arena_table.h"

#define TN_LOAN_BYTES_MIN TN_MIB /* smaller blocks are not borrowed */

/* A FREE block of at least bytes, of another stream, which the heap's stream may allocate from at
 * the block's first byte; the smallest found. NULL: none. Gives all records of the pool cold
 * records. */
struct tn_block *tn_heap_borrow(tarn_pool *pool, const struct tn_heap *heap, uint64_t bytes);

/* The arena whose stream allocated the block, in whoever's memory; NULL: none is left, or a capture
 * allocated it. */
static inline struct tn_arena *tn_block_user(const tarn_pool *pool, const struct tn_block *block)
{
    struct tn_order order = tn_block_order(block);
    struct tn_arena *arena = order.capture_id == 0 ? tn_arena_seek(pool, order) : NULL;

    return arena != NULL && tn_order_equal(arena->order, order) ? arena : NULL;
}

#endif
