// SPDX-License-Identifier: Apache-2.0
/* captures.h -- what begins and ends in a pool with a capture: its hold, its arenas, and blocks
 * which waited for its end.
 *
 * A hold that closes ends the arenas of its capture; a hold that goes frees the blocks which only
 * captures kept.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_CAPTURES_H
#define TARN_POOLS_CAPTURES_H

#include "claims/body.h"
#include "claims/hold.h"

/* Opens a hold. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_hold_open(tarn_pool *pool, struct tn_order order, bool owned,
                                         struct tn_hold **hold);

/* Writes to the history that the hold was taken, which is certain by now. */
void tn_hold_take_note(struct tn_hold *hold);

/* Closes the hold: the arenas of its capture end. A passing hold no longer exists afterwards. */
void tn_hold_close(struct tn_hold *hold);

/* Drops a hold at once, whose claimant is gone or never existed. */
void tn_hold_drop(struct tn_hold *hold);

/* Closes the open holds without a tarn_capture whose captures are over. route_id: only holds whose
 * route led their first allocation here; 0: all. True: a hold was closed, and the caller must call
 * tn_device_mark next, so that arenas take numbers behind the end_mark. */
bool tn_holds_close_over(tarn_pool *pool, uint64_t route_id);

/* Closes the open holds of a capture which is over, by its id or by the graph which it made.
 * node_count: of the graph now, or TN_NODES_UNKNOWN. */
void tn_holds_close_capture(tarn_pool *pool, uint64_t capture_id, tn_cu_graph graph,
                            size_t node_count);

/* Drops all holds whose claimants are not gone: on a lost device, whose driver destroys and runs
 * nothing. */
void tn_holds_orphan(tarn_pool *pool);

/* Ends the passing holds before their pool goes. */
void tn_holds_end_passing(tarn_pool *pool);

/* Enters a body's capture, and makes its group's arena. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_body_open(tarn_pool *pool, const struct tn_body *body);

#endif
