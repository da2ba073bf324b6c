// SPDX-License-Identifier: Apache-2.0
/* receive.h -- the consumer's end: messages come, with the tables and with chunks.
 *
 * Locking: as each function says. */
#ifndef TARN_SHARE_RECEIVE_H
#define TARN_SHARE_RECEIVE_H

#include "share/connection.h"

/* Says HELLO. Lock held. BUSY, PEER_LOST */
TARN_MUST_CHECK tarn_status tn_receive_greet(tarn_connection *connection);
void tn_receive_fini(tarn_connection *connection); /* no lock held */

/* Takes some messages, parts at a bad message, and forgets chunks which the producer no longer has.
 * Lock held. */
void tn_receive_messages(tarn_connection *connection);

#endif
