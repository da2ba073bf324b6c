// SPDX-License-Identifier: Apache-2.0
/* listener.h -- where other processes connect, and what goes on at the producer's ends.
 *
 * A listener has an epoll descriptor over its socket, the sockets of its connections and the
 * descriptors of their processes: the program waits for it, with all else that it waits for.
 *
 * Locking: name and descriptors are immutable; connections are found in the list of the device. */
#ifndef TARN_SHARE_LISTENER_H
#define TARN_SHARE_LISTENER_H

#include "share/connection.h"

struct tarn_listener {
    _Atomic uint64_t magic; /* TN_LISTENER_MAGIC; 0 in a recycled record */
    tarn_listener *next;    /* of the device, guarded by the DEVICE lock; links records */
    tarn_device *device;    /* immutable, as what follows */
    int socket;
    int poller;
    uint32_t slot_count;
    uint32_t chunk_count;
    struct tn_offers offers;
    tarn_share_policy policy; /* NULL: the same user */
    void *user;
    char name[TN_SHARE_NAME_MAX + 1];
    struct tn_pins pins; /* calls that use the listener; kept in a recycled record */
};

#define TN_LISTENER_MAGIC 0x544c7374ULL

/* Ends a connection. own: pins of the caller's, which go, too.
 *   BUSY: a call or another thread has the connection, a lease is out, or a share is open */
TARN_MUST_CHECK tarn_status tn_connection_destroy(tarn_connection *connection, uint64_t own);

/* options: checked. As tarn_listener_create. */
TARN_MUST_CHECK tarn_status tn_listener_create(tarn_device *device,
                                               const tarn_listener_options *options,
                                               tarn_listener **listener);
/* BUSY: a call uses the listener, or another thread ends it */
TARN_MUST_CHECK tarn_status tn_listener_destroy(tarn_listener *listener);

/* As tarn_share_offer. */
TARN_MUST_CHECK tarn_status tn_listener_offer(tarn_listener *listener, uint64_t address,
                                              struct tn_share *share);

/* As tarn_listener_progress. No lock held. */
TARN_MUST_CHECK tarn_status tn_listener_progress(tarn_listener *listener);

/* The oldest connection that is READY and not accepted, which is accepted now; NULL: none. */
tarn_connection *tn_listener_accept(tarn_listener *listener);

/* Takes messages and ends leases of all connections of the device; returns how many have ended.
 * Connections go whose listener went before their accept. No lock held. */
uint64_t tn_shares_collect(tarn_device *device);

#endif
