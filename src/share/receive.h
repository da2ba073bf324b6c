// SPDX-License-Identifier: Apache-2.0
/* receive.h -- the consumer's end: chunks come, shares are opened and closed.
 *
 * Locking: the functions take the connection's lock, unless a comment says that the lock is held.
 * */
#ifndef TARN_SHARE_RECEIVE_H
#define TARN_SHARE_RECEIVE_H

#include "share/connection.h"

/* Says HELLO. Lock held. BUSY, PEER_LOST */
TARN_MUST_CHECK tarn_status tn_receive_greet(tarn_connection *connection);
void tn_receive_fini(tarn_connection *connection); /* no lock held */

/* Takes some messages, parts at a bad message, and forgets chunks which the producer no longer has.
 * Lock held. */
void tn_receive_messages(tarn_connection *connection);

/* Opens a share of this connection, and tells the address of the block.
 *   INVALID_ARGUMENT: the share is another connection's; STALE: the lease is over
 *   BUSY: its chunks have not come yet, or not been taken: a call takes some messages; PEER_LOST
 *   LIMIT: no descriptor is left to take messages, which stay
 *   ADDRESS_SPACE, DEVICE_MEMORY, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_receive_open(tarn_connection *connection,
                                            const struct tn_share *share, uint64_t *address);

/* Closes a block as opened once. With the last close the lease is returned. NOT_OURS: no share is
 * open at the address */
TARN_MUST_CHECK tarn_status tn_receive_close(tarn_connection *connection, uint64_t address);

#endif
