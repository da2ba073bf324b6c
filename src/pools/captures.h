// SPDX-License-Identifier: Apache-2.0
/* captures.h -- what begins and ends in a pool with a capture: its hold, its arenas, and what waited for its end.
 *
 * A hold that closes ends the arenas of its capture; a hold that goes frees the blocks that only captures kept.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_CAPTURES_H
#define TARN_POOLS_CAPTURES_H

#include "claims/body.h"
#include "claims/hold.h"

/* Opens a hold. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_hold_open(tarn_pool *pool, struct tn_order order, bool owned,
                                         struct tn_hold **hold);

/* Closes it: the arenas of its capture end. A passing one is not there any more afterwards. */
void tn_hold_close(struct tn_hold *hold);

/* Drops a hold at once: for one whose claimant is gone, or that never got one. */
void tn_hold_drop(struct tn_hold *hold);

/* Closes the open holds that no tarn_capture owns and whose captures are over. route_id: only holds that this route led
 * here; 0: all. Returns whether there was one: then tn_device_mark is called next, so that arenas take numbers behind the
 * end_mark. */
bool tn_holds_close_over(tarn_pool *pool, uint64_t route_id);

/* Closes the open holds of a capture that is over: by its id, or by the graph that it made. */
void tn_holds_close_capture(tarn_pool *pool, uint64_t capture_id, tn_cu_graph graph);

/* Drops all holds whose claimants are not gone: on a lost device, whose driver destroys nothing and
 * runs nothing. */
void tn_holds_orphan(tarn_pool *pool);

/* Ends the passing holds: their pool is to go. */
void tn_holds_end_passing(tarn_pool *pool);

/* Makes a body's capture known, and its group's arena. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_body_open(tarn_pool *pool, const struct tn_body *body);

#endif
