// SPDX-License-Identifier: Apache-2.0
/* share.h -- device memory shared with other processes, without a copy.
 *
 * The producer has a pool that was made to be shared (tarn_pool_options), and a listener. A
 * consumer, which is another process of any language or user, connects to the listener. The
 * producer leases a block to the consumer, and hands it the share: 128 bytes, by any way. The
 * consumer opens the share, and has the block at an address of its own. See docs/sharing.md.
 *
 *   producer                                       consumer
 *   tarn_listener_create(device, NULL, &listener)
 *                                                  tarn_connection_open(device, name, &connection)
 *   tarn_listener_progress(listener)
 *   tarn_listener_accept(listener, &connection)
 *   tarn_share_block(connection, block, &share)
 *                   ... 128 bytes ...
 *                                                  tarn_share_open(connection, &share, ...)
 *   tarn_free(block)
 *                                                  tarn_share_close(connection, address)
 *   tarn_share_collect(device, &ended)
 *
 * A block that is leased may be freed as any other. Its memory then waits until each lease of it is
 * over: returned by the consumer, or given up because the consumer's process is gone. No kill of
 * either process at any moment loses memory, or gives it to somebody else too early.
 *
 * Order on the GPU: with the functions that end in _on, streams order each other's work, and no
 * process waits. With the others, the producer shares when its work on the block is over, and the
 * consumer closes when its work is over: both wait for their streams, or order them by other means.
 *
 * Nothing here needs a thread of its own. The program calls tarn_listener_progress when the
 * listener's descriptor is readable. tarn_share_collect, and an allocation that lacks memory, serve
 * all connections of the device, too.
 *
 * Audits and guards of graphs know blocks that are open (audit.h).
 *
 * Threads: all functions may be called from any thread, and none disturbs a capture. None waits,
 * except tarn_share_open for as long as it is told to. */
#ifndef TARN_SHARE_H
#define TARN_SHARE_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A share as bytes, to be sent by any way. Whoever has the bytes can do no more with them than the
 * process that they are for. */
typedef struct tarn_share {
    unsigned char bytes[128];
} tarn_share;

/* The process at the other end of a connection, as the system names it. */
typedef struct tarn_peer {
    /* 0: not visible in this process's name space */
    int pid;
    unsigned uid;
    unsigned gid;
} tarn_peer;

/* Decides whether a process may connect. Called by tarn_listener_progress, without any lock. It
 * returns, and leaves in no other way (status.h). */
typedef bool (*tarn_share_policy)(const tarn_peer *peer, void *user);

/* Make one with TARN_LISTENER_OPTIONS_INIT. */
typedef struct tarn_listener_options {
    /* sizeof(tarn_listener_options), set by the INIT macro. */
    size_t size;
    /* Where to listen, at most 55 bytes, copied. With an @ first: a name of the abstract name
     * space, which containers share that share the network; else the path of a socket, which they
     * can share
     * as a file. NULL: an abstract name that nobody guesses. */
    const char *name;
    /* NULL: processes of the same user may connect. */
    tarn_share_policy policy;
    void *user;
    /* Leases of a connection at a time, at most 65536; 0: 4096. */
    size_t lease_slots;
    /* Chunks that a connection has at a time, at most 16384; 0: 4096. */
    size_t chunk_slots;
    /* How long a share of tarn_share_offer serves; 0: a minute. */
    uint64_t token_ns;
} tarn_listener_options;

#define TARN_LISTENER_OPTIONS_INIT TARN_SIZED(tarn_listener_options)

/* Begins to listen. options: NULL for the defaults. *listener: owned by the caller; end it with
 * tarn_listener_destroy.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  listener is NULL.
 *                     An option is out of range, or their size is wrong (tarn/types.h).
 *   BUSY              The name is taken.
 *   LIMIT             The process has no file descriptor left.
 *   NOT_SUPPORTED     The device has no memory that can be exported.
 *                     The system cannot listen there.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_listener_create(tarn_device *device,
                                                          const tarn_listener_options *options,
                                                          tarn_listener **listener);

/* Ends the listener, and the connections that were not accepted. Accepted ones go on. A connection
 * that another thread serves just then ends with the next tarn_share_collect, or with the device.
 * NULL is allowed.
 *   INVALID_HANDLE
 *   BUSY  A call uses the listener. */
TARN_API TARN_MUST_CHECK tarn_status tarn_listener_destroy(tarn_listener *listener);

/* The name to connect to; name: room for 56 bytes.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  name is NULL. */
TARN_API TARN_MUST_CHECK tarn_status tarn_listener_name(tarn_listener *listener, char *name);

/* A file descriptor that is readable when tarn_listener_progress has something to do: for poll and
 * its like. It stays the listener's.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  descriptor is NULL. */
TARN_API TARN_MUST_CHECK tarn_status tarn_listener_descriptor(tarn_listener *listener,
                                                              int *descriptor);

/* Lets processes connect, answers their messages, ends leases that were returned, and those of
 * processes that are gone. Does not wait.
 *   INVALID_HANDLE
 *   LIMIT          The process has no file descriptor left for a new connection.
 *   NOT_SUPPORTED  The system does not tell of other processes' ends.
 *   HOST_MEMORY, DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_listener_progress(tarn_listener *listener);

/* Hands the program the oldest connection that is ready and was not handed over yet. *connection:
 * owned by the caller; end it with tarn_connection_destroy.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  connection is NULL.
 *   BUSY              There is none. */
TARN_API TARN_MUST_CHECK tarn_status tarn_listener_accept(tarn_listener *listener,
                                                          tarn_connection **connection);

/* Connects to a listener, as a consumer; the answer comes later. device: where shares are opened.
 * *connection: owned by the caller; end it with tarn_connection_destroy.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  name or connection is NULL, or the name is no name of a listener.
 *   PEER_LOST         Nobody listens there.
 *   BUSY              Too many processes wait there.
 *   NOT_PERMITTED     The system refuses.
 *   LIMIT             The process has no file descriptor left.
 *   NOT_SUPPORTED     The system has no sockets of the kind, or does not tell of other processes'
 *   ends.
 *   HOST_MEMORY, DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_connection_open(tarn_device *device, const char *name,
                                                          tarn_connection **connection);

/* Ends a connection. A consumer's end returns the leases that it never opened. NULL is allowed.
 *   INVALID_HANDLE
 *   BUSY  A call uses the connection.
 *         The consumer has a share open, or a stream has not come to its close.
 *         A graph keeps a share (TARN_GUARD_KEEP).
 *         The producer has leases out, and the consumer's process lives. */
TARN_API TARN_MUST_CHECK tarn_status tarn_connection_destroy(tarn_connection *connection);

typedef enum tarn_connection_state {
    TARN_CONNECTION_GREETING = 0, /* the listener has not answered yet */
    TARN_CONNECTION_READY = 1,
    TARN_CONNECTION_PARTED = 2, /* the other end is closed, and its process may live */
    TARN_CONNECTION_GONE = 3,   /* the other process is gone */
} tarn_connection_state;

/* Make one with TARN_CONNECTION_INFO_INIT. */
typedef struct tarn_connection_info {
    /* sizeof(tarn_connection_info), set by the INIT macro. */
    size_t size;
    tarn_peer peer;
    tarn_connection_state state;
    bool is_producer;
    /* Leases that are not over. A consumer counts those which are open, kept by a graph, or closed
     * on a stream which has not come there. */
    uint64_t lease_count;
    /* Leases whose block the producer has freed; of a consumer, closed ones that graphs keep. */
    uint64_t limbo_count;
    /* Chunks that the producer has handed over, a file descriptor for each. */
    uint64_t chunk_count;
    uint64_t chunk_bytes;
    /* A consumer: bytes of chunks that are mapped here now. */
    uint64_t mapped_bytes;
} tarn_connection_info;

#define TARN_CONNECTION_INFO_INIT TARN_SIZED(tarn_connection_info)

/* Says how the connection stands.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  info is NULL, or its size is wrong (tarn/types.h). */
TARN_API TARN_MUST_CHECK tarn_status tarn_connection_describe(tarn_connection *connection,
                                                              tarn_connection_info *info);

/* Leases a block to the consumer of the connection. address: of a live block of a shared pool.
 * *share: for the consumer alone, to be opened any number of times until it is closed as often.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  share is NULL, the connection is a consumer's, or the block of another
 *   device.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE: as tarn_free.
 *   WRONG_STATE       The block's pool was not made to be shared.
 *   LIMIT             All leases or chunks of the connection are taken, or no file descriptor is
 *   left.
 *   BUSY              The consumer has not read what it was sent before.
 *   PEER_LOST         The connection is over.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_share_block(tarn_connection *connection, void *address,
                                                      tarn_share *share);

/* tarn_share_block behind the work that the stream has: the share may be handed on at once. A
 * consumer's tarn_share_open_on then waits on a stream, and tarn_share_open in the calling thread.
 * The lease also lasts until the stream has come there.
 *   WRONG_STATE    The stream is being captured.
 *   NOT_SUPPORTED  The driver has no cuStreamBatchMemOp (11.7), or no page-locked memory that
 *                  processes can share.
 *   DEVICE_MEMORY, ADDRESS_SPACE.
 *   Other statuses as tarn_share_block. */
TARN_API TARN_MUST_CHECK tarn_status tarn_share_block_on(tarn_connection *connection, void *address,
                                                         tarn_stream stream, tarn_share *share);

/* Offers a block to the first process that opens the share, which needs no connection yet. The
 * share serves once, and for the listener's token_ns. Until then the block has no lease: if it is
 * freed, the share serves nobody. The listener's policy says who may connect.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  share is NULL, or the block of another device.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE: as tarn_free.
 *   WRONG_STATE       The block's pool was not made to be shared.
 *   LIMIT             4096 shares of the listener wait for a process.
 *   HOST_MEMORY, DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_share_offer(tarn_listener *listener, void *address,
                                                      tarn_share *share);

/* Connects to the listener of a share of tarn_share_offer. Then tarn_share_open opens the share,
 * with this connection or another one to this listener.
 *   INVALID_ARGUMENT  share or connection is NULL, or the share is for a connected process, or
 *                     damaged.
 *   NOT_SUPPORTED     The share is of another version of Tarn.
 *   Other statuses as tarn_connection_open. */
TARN_API TARN_MUST_CHECK tarn_status tarn_share_connect(tarn_device *device,
                                                        const tarn_share *share,
                                                        tarn_connection **connection);

/* Opens a share: *address is where its block is in this process. Waits for the producer's messages,
 * and for the producer's stream of tarn_share_block_on, for timeout_ns at most. Memory of the
 * producer's chunk lies around the block.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  share or address is NULL, the connection is a producer's, or the share is for
 *                     another one or damaged.
 *   NOT_SUPPORTED     The share is of another version of Tarn.
 *   STALE             The lease is over. The token has served, its time is over, or its block was
 *                     freed.
 *   BUSY              The producer's messages have not come in time, or some are still to be taken:
 *                     a call with a timeout of 0 takes 16.
 *                     The producer's stream has not come to the share in time.
 *   NOT_PERMITTED     The producer's policy refuses this process.
 *   PEER_LOST         The connection is over. Open shares stay open.
 *   LIMIT             The process has no file descriptor left for a message, and the message
 *                     stays for another call. The producer has no lease left for a token.
 *   DEVICE_MEMORY, HOST_MEMORY, ADDRESS_SPACE, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_share_open(tarn_connection *connection,
                                                     const tarn_share *share, uint64_t timeout_ns,
                                                     void **address);

/* tarn_share_open for work on the stream, which waits for the producer's stream of
 * tarn_share_block_on. If the producer dies before, the stream goes on with the next
 * tarn_share_collect or tarn_connection_describe. The block may have any bytes then.
 *   WRONG_STATE  The stream is being captured.
 *   Other statuses as tarn_share_open. */
TARN_API TARN_MUST_CHECK tarn_status tarn_share_open_on(tarn_connection *connection,
                                                        const tarn_share *share, tarn_stream stream,
                                                        uint64_t timeout_ns, void **address);

/* Closes a share, as opened once; with the last close the lease is over, and the memory is not the
 * caller's to use. address: as opened.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  The connection is a producer's.
 *   NOT_OURS          No share is open at the address. */
TARN_API TARN_MUST_CHECK tarn_status tarn_share_close(tarn_connection *connection, void *address);

/* tarn_share_close behind the work that the stream has, without any wait. The caller uses the
 * memory no more, but for this work. The stream itself tells the producer that the lease is over.
 * A share of tarn_share_block is an exception until the first tarn_share_block_on of the
 * connection: the consumer's next tarn_share_collect tells the producer.
 *   WRONG_STATE    The stream is being captured. The share stays open, as for each other status.
 *   NOT_SUPPORTED  As tarn_share_block_on.
 *   DEVICE_MEMORY, ADDRESS_SPACE, DEVICE_LOST, POISONED, DRIVER.
 *   Other statuses as tarn_share_close. */
TARN_API TARN_MUST_CHECK tarn_status tarn_share_close_on(tarn_connection *connection, void *address,
                                                         tarn_stream stream);

/* Ends the leases of all connections of the device that were returned, or whose process is gone,
 * and takes messages that have come. *ended_count: how many leases have ended; may be NULL.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_share_collect(tarn_device *device, uint64_t *ended_count);

#ifdef __cplusplus
}
#endif
#endif
