// SPDX-License-Identifier: Apache-2.0
/* turns.h -- what a restore comes behind: copies of contents, and replays of other pools' graphs.
 *
 * Locking: the pool's lock is held. */
#ifndef TARN_CHECKPOINT_TURNS_H
#define TARN_CHECKPOINT_TURNS_H

#include "checkpoint/plan_record.h"

/* Whether the stream may wait for events: an event wait of the legacy stream breaks the captures of
 * blocking streams. */
bool tn_plan_can_wait(const struct tn_plan *plan);

/* Puts the stream behind the copies of the last restore, and behind the copies out of the pool's
 * bytes that a take has enqueued: these would otherwise save restored bytes. Where no event stands
 * for copies that may run, the plan needs a wait. */
void tn_plan_follow_copies(struct tn_plan *plan);

/* Adds the pools whose graphs watch the block: the restore changes its bytes or, with `keepers`
 * false, frees the block. False: no memory. */
bool tn_plan_visit_watchers(struct tn_plan *plan, const struct tn_block *block, bool keepers);

/* Takes the restore's turn among the replays of graphs that watch blocks which it changes, until
 * tn_plan_leave_visits. Where a wait for the device must come first, takes no turn and sets the
 * plan's needs_wait. DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_plan_visit(struct tn_plan *plan);

/* worked: the restore enqueued work that later replays must follow. */
void tn_plan_leave_visits(const struct tn_plan *plan, bool worked);

#endif
