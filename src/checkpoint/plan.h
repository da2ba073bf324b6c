// SPDX-License-Identifier: Apache-2.0
/* plan.h -- what a restore will do, found out before any change.
 *
 * Locking: the pool's lock. */
#ifndef TARN_CHECKPOINT_PLAN_H
#define TARN_CHECKPOINT_PLAN_H

#include "checkpoint/plan_record.h"

/* Compares the live set with the saved set. Changes nothing but walk ids, and makes an arena
 * for the plan's own stream if a block of this stream is to be revived.
 *   WRONG_STATE: a capture is under way, or a DISCARDED block is in the way; HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_plan_make(struct tn_plan *plan);

void tn_plan_fini(struct tn_plan *plan);

/* The order that a revived block gets: its own; the plan's, if its stream had been retired when the
 * checkpoint was taken. In this case the plan's stream works on the block now. */
struct tn_order tn_plan_order(const struct tn_plan *plan, const struct tn_saved_block *saved);

/* The heap that is to own a revived block's chunks, unless a hold has them: of its own order, if
 * the order still has an arena; else of the idle memory. */
struct tn_heap *tn_plan_home(struct tn_plan *plan, const struct tn_saved_block *saved);

#endif
