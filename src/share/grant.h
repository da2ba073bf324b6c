// SPDX-License-Identifier: Apache-2.0
/* grant.h -- the producer's end: chunks are handed over, leases granted and ended.
 *
 * Locking: the functions take the connection's lock. */
#ifndef TARN_SHARE_GRANT_H
#define TARN_SHARE_GRANT_H

#include "share/connection.h"

/* Answers a HELLO: makes the tables, and sends them. Lock held.
 *   HOST_MEMORY, LIMIT, NOT_SUPPORTED, BUSY, PEER_LOST */
TARN_MUST_CHECK tarn_status tn_grant_welcome(tarn_connection *connection);
void tn_grant_fini(tarn_connection *connection); /* no lock held */

/* Grants a lease of the live block at the address, which begins behind the work of the stream; NULL:
 * at once.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE: no live block begins there
 *   WRONG_STATE: its pool is not shared; INVALID_ARGUMENT: it is of another device
 *   LIMIT: no slot, chunk or descriptor is left; BUSY: the consumer has not read what was sent, or
 *   is not welcome yet; PEER_LOST, HOST_MEMORY, DEVICE_LOST, DRIVER
 *   with a stream also what share/handoff.h names */
TARN_MUST_CHECK tarn_status tn_grant_block(tarn_connection *connection, uint64_t address,
                                           const tn_cu_stream *stream, struct tn_share *share);

/* Grants a lease of this very block to a consumer that has claimed its token, and fills the answer
 * in: a GRANT, or a REFUSAL. No lock held. */
void tn_grant_claimed(tarn_connection *connection, uint64_t address, uint64_t sequence,
                      struct tn_message *answer);

/* Whether the block may be shared, and which one it is. The statuses of tn_grant_block for a block. */
TARN_MUST_CHECK tarn_status tn_grant_check_block(const tarn_device *device, uint64_t address,
                                                 uint64_t *sequence, uint64_t *bytes);

/* Leases whose block was freed. Lock held. */
uint64_t tn_grant_count_limbo(const tarn_connection *connection);

/* Ends leases that were returned, all of them where the consumer is gone. Returns how many. */
uint64_t tn_grant_collect(tarn_connection *connection);

#endif
