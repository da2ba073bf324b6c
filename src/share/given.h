// SPDX-License-Identifier: Apache-2.0
/* given.h -- what a consumer was given: chunks, and the runs of chunks that are mapped together.
 *
 * Locking: the connection's lock is held. */
#ifndef TARN_SHARE_GIVEN_H
#define TARN_SHARE_GIVEN_H

#include "share/connection.h"

/* The run of these chunks, which are all here, by their ids. NULL: no host memory */
struct tn_given_run *tn_given_run_find(struct tn_consumer *consumer, const uint32_t *ids,
                                       uint32_t count);

/* Ends a run without an open block, which is no longer in the list. */
void tn_given_run_end(tarn_connection *connection, struct tn_given_run *run);

/* The id no longer leads to the chunk, which goes with the last open block. */
void tn_given_chunk_forget(tarn_connection *connection, uint32_t id);

#endif
