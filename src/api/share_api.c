// SPDX-License-Identifier: Apache-2.0
#include "tarn/share.h"

#include <string.h>

#include "api/call.h"
#include "api/structs.h"
#include "base/checked.h"
#include "base/clock.h"
#include "driver/mapping.h"
#include "share/channel.h"
#include "share/grant.h"
#include "share/holdings.h"
#include "share/listener.h"
#include "share/opened.h"
#include "share/receive.h"

/* Between looks at a word, and for messages, which another thread may take first. */
enum { WORD_NS = 100000, MESSAGE_NS = 5000000 };

static bool is_listener(tarn_listener *listener)
{
    return listener != NULL && atomic_load(&listener->magic) == TN_LISTENER_MAGIC;
}

static bool is_connection(tarn_connection *connection)
{
    return connection != NULL && atomic_load(&connection->magic) == TN_CONNECTION_MAGIC;
}

/* Begins a call with a handle: keeps the device, and the object unless the call ends the object. */
static bool call_listener(struct tn_call *call, tarn_listener *listener, bool ends)
{
    if (!tn_call_begin(call))
        return false;
    if (!is_listener(listener) || !tn_call_pin_device(call, listener->device))
        return tn_call_refuse(call, "listener");
    if (!ends && tn_pins_try(&listener->pins))
        call->pinned = &listener->pins;
    return ((ends || call->pinned != NULL) && is_listener(listener)) ||
           tn_call_refuse(call, "listener");
}

static bool call_connection(struct tn_call *call, tarn_connection *connection)
{
    if (!tn_call_begin(call))
        return false;
    if (!is_connection(connection) || !tn_call_pin_device(call, connection->device))
        return tn_call_refuse(call, "connection");
    if (tn_pins_try(&connection->pins))
        call->pinned = &connection->pins;
    return (call->pinned != NULL && is_connection(connection)) ||
           tn_call_refuse(call, "connection");
}

tarn_status tarn_listener_create(tarn_device *device, const tarn_listener_options *options,
                                 tarn_listener **listener)
{
    const struct tn_memory_properties properties = {.exportable = true};
    tarn_listener_options chosen;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (listener == NULL)
        return tn_bad_argument("listener is NULL: there is nowhere to put the handle");
    status = tn_sized_read(TN_LISTENER_OPTIONS, options, &chosen);
    if (status != TARN_OK)
        return status;
    if (chosen.name != NULL && strnlen(chosen.name, TN_SHARE_NAME_MAX + 1) > TN_SHARE_NAME_MAX)
        return tn_bad_argument("the name of a listener has at most 55 bytes");
    if (chosen.lease_slots > TN_SHARE_SLOTS_MAX || chosen.chunk_slots > TN_SHARE_CHUNKS_MAX)
        return tn_bad_argument("lease_slots is above 65536, or chunk_slots above 16384");
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_gpu_check_properties(&device->gpu, properties);
    if (status == TARN_OK)
        status = tn_listener_create(device, &chosen, listener);
    return tn_leave(status);
}

tarn_status tarn_listener_destroy(tarn_listener *listener)
{
    TN_CALL(call);

    if (listener == NULL)
        return tn_call_nothing();
    if (!call_listener(&call, listener, true))
        return call.status;
    return tn_leave(tn_listener_destroy(listener));
}

tarn_status tarn_listener_name(tarn_listener *listener, char *name)
{
    TN_CALL(call);

    if (!call_listener(&call, listener, false))
        return call.status;
    if (name == NULL)
        return tn_bad_argument("name is NULL: there is nowhere to put the name");
    memcpy(name, listener->name, sizeof listener->name);
    return tn_leave(TARN_OK);
}

tarn_status tarn_listener_descriptor(tarn_listener *listener, int *descriptor)
{
    TN_CALL(call);

    if (!call_listener(&call, listener, false))
        return call.status;
    if (descriptor == NULL)
        return tn_bad_argument("descriptor is NULL: there is nowhere to put the descriptor");
    *descriptor = listener->poller;
    return tn_leave(TARN_OK);
}

tarn_status tarn_listener_progress(tarn_listener *listener)
{
    tarn_status status;
    TN_CALL(call);

    if (!call_listener(&call, listener, false))
        return call.status;
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_listener_progress(listener);
    return tn_leave(status);
}

tarn_status tarn_listener_accept(tarn_listener *listener, tarn_connection **connection)
{
    tarn_connection *accepted;
    TN_CALL(call);

    if (!call_listener(&call, listener, false))
        return call.status;
    if (connection == NULL)
        return tn_bad_argument("connection is NULL: there is nowhere to put the handle");
    accepted = tn_listener_accept(listener);
    if (accepted == NULL)
        return tn_fail(TARN_ERR_BUSY, "no connection of '%s' is ready and not accepted",
                       listener->name);
    *connection = accepted;
    return tn_leave(TARN_OK);
}

static tarn_status connect_to(tarn_device *device, const char *name, tarn_connection **connection)
{
    tarn_connection *made;
    int channel;
    tarn_status status = tn_channel_connect(name, &channel);

    if (status != TARN_OK)
        return status;
    status = tn_connection_create(device, channel, name, false, &made);
    if (status != TARN_OK) {
        tn_channel_close(&channel);
        return status;
    }
    tn_lock_acquire(&made->lock);
    status = tn_receive_greet(made);
    tn_lock_release(&made->lock);
    if (status != TARN_OK) {
        tn_connection_recycle(made); /* nobody has the handle */
        return status;
    }
    tn_connection_enlist(made);
    *connection = made;
    return TARN_OK;
}

tarn_status tarn_share_connect(tarn_device *device, const tarn_share *share,
                               tarn_connection **connection)
{
    struct tn_share given;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (share == NULL || connection == NULL)
        return tn_bad_argument("share or connection is NULL");
    status = tn_share_check(share, &given);
    if (status == TARN_OK && given.has_token == 0)
        return tn_bad_argument("the share is for a process that is connected already");
    if (status == TARN_OK)
        status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = connect_to(device, given.name, connection);
    return tn_leave(status);
}

tarn_status tarn_share_offer(tarn_listener *listener, void *address, tarn_share *share)
{
    struct tn_share made;
    tarn_status status;
    TN_CALL(call);

    if (!call_listener(&call, listener, false))
        return call.status;
    if (share == NULL)
        return tn_bad_argument("share is NULL: there is nowhere to put the share");
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_listener_offer(listener, (uint64_t)(uintptr_t)address, &made);
    if (status == TARN_OK)
        tn_share_seal(&made, share);
    return tn_leave(status);
}

tarn_status tarn_connection_open(tarn_device *device, const char *name,
                                 tarn_connection **connection)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (name == NULL || connection == NULL)
        return tn_bad_argument("name or connection is NULL");
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = connect_to(device, name, connection);
    return tn_leave(status);
}

/* BUSY: the connection has leases. It may get others until it is claimed. */
static tarn_status check_unused(tarn_connection *connection)
{
    uint64_t opened;
    uint32_t granted;

    if (connection->is_producer)
        (void)tn_grant_collect(connection);
    tn_lock_acquire(&connection->lock);
    if (!connection->is_producer)
        tn_share_poll(connection, UINT32_MAX);
    opened = connection->consumer.opened_count;
    granted = connection->producer.granted_count;
    tn_lock_release(&connection->lock);
    if (opened > 0)
        return tn_fail(TARN_ERR_BUSY,
                       "%llu shares of the connection are open, or kept by graphs, or a stream has "
                       "not come to their close",
                       (unsigned long long)opened);
    if (granted > 0)
        return tn_fail(TARN_ERR_BUSY, "process %d has %u leases, and lives",
                       (int)connection->process.pid, granted);
    return TARN_OK;
}

tarn_status tarn_connection_destroy(tarn_connection *connection)
{
    tarn_status status;
    TN_CALL(call);

    if (connection == NULL)
        return tn_call_nothing();
    if (!call_connection(&call, connection))
        return call.status;
    status = check_unused(connection);
    if (status == TARN_OK)
        status = tn_connection_destroy(connection, 1);
    if (status == TARN_OK)
        call.pinned = NULL; /* it went with the connection */
    return tn_leave(status);
}

tarn_status tarn_connection_describe(tarn_connection *connection, tarn_connection_info *info)
{
    tarn_connection_info known = TARN_CONNECTION_INFO_INIT;
    struct tn_holdings holdings;
    tarn_status status;
    TN_CALL(call);

    if (!call_connection(&call, connection))
        return call.status;
    status = tn_sized_check(TN_CONNECTION_INFO, info);
    if (status != TARN_OK)
        return status;
    tn_lock_acquire(&connection->lock);
    tn_connection_look(connection);
    known.peer.pid = (int)connection->process.pid;
    known.peer.uid = connection->process.uid;
    known.peer.gid = connection->process.gid;
    known.state = (tarn_connection_state)connection->state;
    known.is_producer = connection->is_producer;
    known.lease_count = connection->is_producer ? connection->producer.granted_count
                                                : connection->consumer.opened_count;
    if (connection->is_producer)
        known.limbo_count = tn_grant_count_limbo(connection);
    else
        known.limbo_count = tn_share_count_kept(connection);
    holdings = tn_connection_count_holdings(connection);
    tn_lock_release(&connection->lock);
    known.chunk_count = holdings.chunk_count;
    known.chunk_bytes = holdings.chunk_bytes;
    known.mapped_bytes = holdings.mapped_bytes;
    tn_sized_write(TN_CONNECTION_INFO, info, &known);
    return tn_leave(TARN_OK);
}

/* stream: NULL: the lease begins at once. */
static tarn_status share_block(struct tn_call *call, tarn_connection *connection, void *address,
                               const tn_cu_stream *stream, tarn_share *share)
{
    struct tn_share made;
    tarn_status status;

    if (share == NULL)
        return tn_bad_argument("share is NULL: there is nowhere to put the share");
    if (!connection->is_producer)
        return tn_bad_argument("the connection is a consumer's: the producer shares blocks");
    status = tn_call_enter(call);
    if (status == TARN_OK)
        status = tn_grant_block(connection, (uint64_t)(uintptr_t)address, stream, &made);
    if (status == TARN_OK)
        tn_share_seal(&made, share);
    return status;
}

tarn_status tarn_share_block(tarn_connection *connection, void *address, tarn_share *share)
{
    TN_CALL(call);

    if (!call_connection(&call, connection))
        return call.status;
    return tn_leave(share_block(&call, connection, address, NULL, share));
}

tarn_status tarn_share_block_on(tarn_connection *connection, void *address, tarn_stream stream,
                                tarn_share *share)
{
    TN_CALL(call);

    if (!call_connection(&call, connection))
        return call.status;
    stream = tn_device_stream(connection->device, stream);
    return tn_leave(share_block(&call, connection, address, &stream, share));
}

/* Waits for what a share lacks: for a message, or for a word, which no descriptor tells of. */
static void await(tarn_connection *connection, uint64_t left_ns)
{
    bool awaits_words;
    int channel;

    tn_lock_acquire(&connection->lock);
    channel = connection->channel;
    awaits_words = connection->consumer.awaits_words;
    tn_lock_release(&connection->lock);
    tn_connection_await(channel, tn_min(left_ns, awaits_words ? WORD_NS : MESSAGE_NS));
}

/* Opens the share, if need be after further messages, for which the call waits. */
static tarn_status await_share(tarn_connection *connection, const struct tn_share *share,
                               const tn_cu_stream *stream, uint64_t timeout_ns, uint64_t *address)
{
    const uint64_t begun = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    tarn_status status = tn_share_open(connection, share, stream, address);

    while (status == TARN_ERR_BUSY) {
        uint64_t passed = tn_clock_nanoseconds(CLOCK_MONOTONIC) - begun;

        if (passed >= timeout_ns)
            return status;
        await(connection, timeout_ns - passed);
        status = tn_share_open(connection, share, stream, address);
    }
    return status;
}

static tarn_status open_share(struct tn_call *call, tarn_connection *connection,
                              const tarn_share *share, const tn_cu_stream *stream,
                              uint64_t timeout_ns, void **address)
{
    struct tn_share given;
    uint64_t opened = 0;
    tarn_status status;

    if (share == NULL || address == NULL)
        return tn_bad_argument("share or address is NULL");
    if (connection->is_producer)
        return tn_bad_argument("the connection is a producer's: the consumer opens shares");
    status = tn_share_check(share, &given);
    if (status == TARN_OK)
        status = tn_call_enter(call);
    if (status == TARN_OK)
        status = await_share(connection, &given, stream, timeout_ns, &opened);
    if (status == TARN_OK)
        *address = (void *)(uintptr_t)opened;
    return status;
}

tarn_status tarn_share_open(tarn_connection *connection, const tarn_share *share,
                            uint64_t timeout_ns, void **address)
{
    TN_CALL(call);

    if (!call_connection(&call, connection))
        return call.status;
    return tn_leave(open_share(&call, connection, share, NULL, timeout_ns, address));
}

tarn_status tarn_share_open_on(tarn_connection *connection, const tarn_share *share,
                               tarn_stream stream, uint64_t timeout_ns, void **address)
{
    TN_CALL(call);

    if (!call_connection(&call, connection))
        return call.status;
    stream = tn_device_stream(connection->device, stream);
    return tn_leave(open_share(&call, connection, share, &stream, timeout_ns, address));
}

static tarn_status close_share(tarn_connection *connection, void *address,
                               const tn_cu_stream *stream)
{
    if (connection->is_producer)
        return tn_bad_argument("the connection is a producer's: the consumer closes shares");
    return tn_share_close(connection, (uint64_t)(uintptr_t)address, stream);
}

tarn_status tarn_share_close(tarn_connection *connection, void *address)
{
    TN_CALL(call);

    if (!call_connection(&call, connection))
        return call.status;
    return tn_leave(close_share(connection, address, NULL));
}

tarn_status tarn_share_close_on(tarn_connection *connection, void *address, tarn_stream stream)
{
    tarn_status status;
    TN_CALL(call);

    if (!call_connection(&call, connection))
        return call.status;
    stream = tn_device_stream(connection->device, stream);
    status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = close_share(connection, address, &stream);
    return tn_leave(status);
}

tarn_status tarn_share_collect(tarn_device *device, uint64_t *ended_count)
{
    uint64_t ended;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    ended = tn_shares_collect(device);
    if (ended_count != NULL)
        *ended_count = ended;
    return tn_leave(TARN_OK);
}
