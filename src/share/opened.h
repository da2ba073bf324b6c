// SPDX-License-Identifier: Apache-2.0
/* opened.h -- shares that a consumer opens and closes.
 *
 * Locking: the functions take the connection's lock. */
#ifndef TARN_SHARE_OPENED_H
#define TARN_SHARE_OPENED_H

#include "share/connection.h"

/* Opens a share of this connection, and tells the address of the block.
 *   INVALID_ARGUMENT: the share is another connection's; STALE: the lease is over
 *   BUSY: its chunks have not come yet, or not been taken: a call takes some messages; PEER_LOST
 *   LIMIT: no descriptor is left to take messages, which stay
 *   ADDRESS_SPACE, DEVICE_MEMORY, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_share_open(tarn_connection *connection, const struct tn_share *share,
                                          uint64_t *address);

/* Closes a block as opened once. With the last close the lease is returned. NOT_OURS: no share is
 * open at the address */
TARN_MUST_CHECK tarn_status tn_share_close(tarn_connection *connection, uint64_t address);

/* Ends closed shares that no graph keeps any more, and tells guards that the producer is gone. */
void tn_opened_collect(tarn_connection *connection);

#endif
