// SPDX-License-Identifier: Apache-2.0
/* channel.h -- messages and file descriptors over a connected socket, and listening sockets.
 *
 * Sockets are of AF_UNIX and SOCK_SEQPACKET: a message comes whole or not at all. No call waits.
 * Every descriptor here is closed by exec.
 *
 * A name with an @ first is of the abstract name space; any other is a path.
 *
 * Locking: none; a single thread at a time sends, and a single thread receives. */
#ifndef TARN_SHARE_CHANNEL_H
#define TARN_SHARE_CHANNEL_H

#include "share/message.h"

/* A listening socket of this name.
 *   INVALID_ARGUMENT: the name is empty or too long; BUSY: the name is taken; LIMIT: no descriptor
 *   is left;
 *   NOT_SUPPORTED: the system refuses, and the sentence says why */
TARN_MUST_CHECK tarn_status tn_channel_listen(const char *name, int *listening);

/* Removes the path of a listening socket that ends; an abstract name goes with the socket. */
void tn_channel_unlink(const char *name);

/* The next connected socket. BUSY: none; LIMIT: no descriptor is left; NOT_SUPPORTED */
TARN_MUST_CHECK tarn_status tn_channel_accept(int listening, int *channel);

/* A socket connected to a listener.
 *   INVALID_ARGUMENT; PEER_LOST: nobody listens there; BUSY: too many wait there; NOT_PERMITTED;
 *   LIMIT; NOT_SUPPORTED */
TARN_MUST_CHECK tarn_status tn_channel_connect(const char *name, int *channel);

/* Sends a message, with the descriptors of its kind, which stay the caller's.
 *   BUSY: no room; LIMIT: too many descriptors are on their way; PEER_LOST */
TARN_MUST_CHECK tarn_status tn_channel_send(int channel, const struct tn_message *message,
                                            const int *descriptors);

/* Receives a good message; its descriptors become the caller's.
 *   BUSY: none; PEER_LOST: the other end is closed, or has sent a bad message;
 *   LIMIT: no descriptor is left to receive another, and the message stays */
TARN_MUST_CHECK tarn_status tn_channel_receive(int channel, struct tn_message *message,
                                               int descriptors[TN_SHARE_DESCRIPTORS_MAX]);

/* Closes a descriptor, unless -1, and sets -1. */
void tn_channel_close(int *descriptor);

#endif
