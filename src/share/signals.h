// SPDX-License-Identifier: Apache-2.0
/* signals.h -- order between the streams of the ranks of a group.
 *
 * Each rank has two cells to each other rank and channel (share/pad.h): one for barriers, and one for
 * signals. The n-th wait of a rank is for the n-th signal of the other one.
 *
 * Locking: takes the group's lock; no call but tn_signals_wait waits. */
#ifndef TARN_SHARE_SIGNALS_H
#define TARN_SHARE_SIGNALS_H

#include "share/group.h"

/* Statuses as in tarn/symmetric.h. */
TARN_MUST_CHECK tarn_status tn_signals_barrier(tarn_group *group, uint32_t channel,
                                               tn_cu_stream stream);
TARN_MUST_CHECK tarn_status tn_signals_put(tarn_group *group, uint32_t rank, uint32_t channel,
                                           tn_cu_stream stream);
TARN_MUST_CHECK tarn_status tn_signals_await(tarn_group *group, uint32_t rank, uint32_t channel,
                                             tn_cu_stream stream);

/* Waits on the host for the stream. Once the group is over, ends the waits for its signals. */
TARN_MUST_CHECK tarn_status tn_signals_wait(tarn_group *group, tn_cu_stream stream,
                                            uint64_t timeout_ns);

#endif
