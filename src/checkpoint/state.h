// SPDX-License-Identifier: Apache-2.0
/* state.h -- taking a checkpoint, verifying it, and the states of pool and stream in which this may
 * be done.
 *
 * Locking: none may be held, except where a function says otherwise. */
#ifndef TARN_CHECKPOINT_STATE_H
#define TARN_CHECKPOINT_STATE_H

#include "checkpoint/record.h"

TARN_MUST_CHECK tarn_status tn_checkpoint_take(tarn_pool *pool, tarn_contents contents,
                                               tarn_stream stream, tarn_checkpoint **checkpoint);
TARN_MUST_CHECK tarn_status tn_checkpoint_restore(tarn_checkpoint *checkpoint, tarn_stream stream,
                                                  tarn_delta **delta);
TARN_MUST_CHECK tarn_status tn_checkpoint_verify(tarn_checkpoint *checkpoint, tarn_stream stream);

/* Comes before its user destroys it: no call begins with the checkpoint any more. BUSY: a call uses
 * it. */
TARN_MUST_CHECK tarn_status tn_checkpoint_close(tarn_checkpoint *checkpoint);
void tn_checkpoint_destroy(tarn_checkpoint *checkpoint);

/* WRONG_STATE while the program captures for the pool, which may not have heard of the capture;
 * DEVICE_LOST, DRIVER. No lock may be held. */
TARN_MUST_CHECK tarn_status tn_checkpoint_check_routes(tarn_pool *pool);

/* WRONG_STATE while a capture is under way in the pool, whose lock is held. */
TARN_MUST_CHECK tarn_status tn_checkpoint_check_pool(const tarn_pool *pool);

/* The stream's order. works: contents are to be copied or summed up on the stream.
 *   WRONG_STATE: the stream is being captured, or it is the legacy stream, is to work, and a
 *   blocking stream is being captured */
TARN_MUST_CHECK tarn_status tn_checkpoint_check_stream(tarn_pool *pool, tarn_stream stream,
                                                       bool works, struct tn_order *order);

/* Looks again after functions of the program's were called: the stream must still be of this order.
 *   WRONG_STATE, as above, or where the stream was destroyed */
TARN_MUST_CHECK tarn_status tn_checkpoint_recheck_stream(tarn_pool *pool, tarn_stream stream,
                                                         bool works, struct tn_order order);

TARN_MUST_CHECK tarn_status tn_pool_check_live(tarn_pool *pool, const tarn_expected *expected,
                                               size_t expected_count, tarn_live_diff **diff);

#endif
