// SPDX-License-Identifier: Apache-2.0
/* opened.h -- shares that a consumer opens and closes.
 *
 * Locking: the functions take the connection's lock. */
#ifndef TARN_SHARE_OPENED_H
#define TARN_SHARE_OPENED_H

#include "share/connection.h"

/* Opens a share of this connection, and tells the address of the block. The stream waits for the
 * beginning of the lease; with NULL the caller does.
 *   INVALID_ARGUMENT: the share is another connection's; STALE: the lease is over
 *   BUSY: its chunks have not come yet, or not been taken: a call takes some messages; or the
 *   beginning has not come
 *   PEER_LOST
 *   LIMIT: no descriptor is left to take messages, which stay
 *   ADDRESS_SPACE, DEVICE_MEMORY, HOST_MEMORY, DEVICE_LOST, DRIVER; what share/handoff.h names */
TARN_MUST_CHECK tarn_status tn_share_open(tarn_connection *connection, const struct tn_share *share,
                                          const tn_cu_stream *stream, uint64_t *address);

/* Closes a block as opened once. With the last close the lease is returned, behind the work of the
 * stream; NULL: at once.
 *   NOT_OURS: no share is open at the address; what share/handoff.h names */
TARN_MUST_CHECK tarn_status tn_share_close(tarn_connection *connection, uint64_t address,
                                           const tn_cu_stream *stream);

/* Returns leases that streams have left and no graph keeps, looking at so many; tells guards when the
 * producer is gone. Lock held. */
void tn_share_poll(tarn_connection *connection, uint32_t most);

/* Closed shares that graphs keep. Lock held. */
uint64_t tn_share_count_kept(const tarn_connection *connection);

#endif
