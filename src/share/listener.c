// SPDX-License-Identifier: Apache-2.0
/* A round serves a few connections and messages of each process, against floods. The descriptor
 * stays readable, and the program comes back for more.
 *
 * Connections without an accept by the program go by themselves, once they are over and no lease is
 * out. */
#include "share/listener.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/user_code.h"
#include "driver/open.h"
#include "pools/callbacks.h"
#include "share/channel.h"
#include "share/grant.h"
#include "share/opened.h"
#include "share/receive.h"

enum { ACCEPTS_MAX = 16, SILENT_MAX = 64, SLOTS_DEFAULT = 4096 };

#define TOKEN_NS_DEFAULT UINT64_C(60000000000)

static struct tn_records listener_records =
    TN_RECORDS_INIT_KEEPING(struct tarn_listener, next, pins);

static tarn_status watch_descriptor(int poller, int descriptor)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) == 0)
        return TARN_OK;
    if (errno == ENOMEM || errno == ENOSPC)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to wait for a descriptor");
    return tn_fail(TARN_ERR_NOT_SUPPORTED, "the system cannot wait for a descriptor: error %d",
                   errno);
}

static tarn_status open_descriptors(tarn_listener *listener)
{
    tarn_status status = tn_channel_listen(listener->name, &listener->socket);

    if (status != TARN_OK)
        return status;
    listener->poller = epoll_create1(EPOLL_CLOEXEC);
    if (listener->poller < 0)
        return tn_fail(TARN_ERR_LIMIT, "the process has no file descriptor left (RLIMIT_NOFILE)");
    return watch_descriptor(listener->poller, listener->socket);
}

static void name_it(tarn_listener *listener, const char *name)
{
    if (name != NULL)
        (void)snprintf(listener->name, sizeof listener->name, "%s", name);
    else
        (void)snprintf(listener->name, sizeof listener->name, "@tarn-%016llx%016llx",
                       (unsigned long long)tn_share_random(),
                       (unsigned long long)tn_share_random());
}

/* The path goes only where it is this listener's. */
static void close_descriptors(tarn_listener *listener)
{
    if (listener->socket >= 0)
        tn_channel_unlink(listener->name);
    tn_channel_close(&listener->socket);
    tn_channel_close(&listener->poller);
}

/* The step of the ladder: the end of leases may free memory. */
static bool help(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)wanted_bytes;
    (void)user;
    return tn_shares_collect(device) > 0;
}

/* The step comes with the first listener of the device, and goes with the device: connections of
 * listeners that have gone are served, too. */
static tarn_status enlist(tarn_device *device, tarn_listener *listener)
{
    tarn_status status = tn_callbacks_add(&device->free_callbacks, (tn_function)help, NULL, 1);

    if (status != TARN_OK && status != TARN_ERR_WRONG_STATE) /* it is there already */
        return status;
    tn_lock_acquire(&device->lock);
    listener->next = device->listeners;
    device->listeners = listener;
    tn_lock_release(&device->lock);
    return TARN_OK;
}

tarn_status tn_listener_create(tarn_device *device, const tarn_listener_options *options,
                               tarn_listener **listener)
{
    tarn_listener *made = tn_records_take(&listener_records);
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a listener");
    made->device = device;
    made->socket = -1;
    made->poller = -1;
    made->slot_count = options->lease_slots != 0 ? (uint32_t)options->lease_slots : SLOTS_DEFAULT;
    made->chunk_count = options->chunk_slots != 0 ? (uint32_t)options->chunk_slots : SLOTS_DEFAULT;
    made->policy = options->policy;
    made->user = options->user;
    name_it(made, options->name);
    tn_offers_init(&made->offers, options->token_ns != 0 ? options->token_ns : TOKEN_NS_DEFAULT);
    status = open_descriptors(made);
    if (status == TARN_OK)
        status = enlist(device, made);
    if (status != TARN_OK) {
        close_descriptors(made);
        tn_offers_fini(&made->offers);
        tn_records_give(&listener_records, made);
        return status;
    }
    atomic_store(&made->magic, TN_LISTENER_MAGIC);
    tn_pins_open(&made->pins);
    *listener = made;
    return TARN_OK;
}

/* The connection is claimed. */
static void end_connection(tarn_connection *connection, uint64_t own)
{
    TN_ASSERT(tn_lock_none_held());
    tn_connection_close(connection, own);
    if (connection->is_producer)
        tn_grant_fini(connection);
    else
        tn_receive_fini(connection);
    tn_connection_recycle(connection);
}

tarn_status tn_connection_destroy(tarn_connection *connection, uint64_t own)
{
    tarn_status status = tn_connection_claim(connection, own);

    if (status == TARN_OK)
        end_connection(connection, own);
    return status;
}

/* Serving --------------------------------------------------------------------------------------- */

static TN_USER_CODE_ON_STACK bool ask_policy(const tarn_listener *listener, const tarn_peer *peer)
{
    bool permitted;
    TN_USER_CODE(code);

    TN_ASSERT(tn_lock_none_held());
    tn_gpus_enter_user_code();
    tn_user_code_enter(&code, TN_USER_POLICY);
    permitted = listener->policy(peer, listener->user);
    tn_user_code_leave(&code);
    tn_gpus_leave_user_code();
    return permitted;
}

static bool is_permitted(const tarn_listener *listener, const struct tn_process *process)
{
    const tarn_peer peer = {.pid = (int)process->pid, .uid = process->uid, .gid = process->gid};

    if (listener->policy == NULL)
        return process->uid == geteuid();
    return ask_policy(listener, &peer);
}

/* Receives a message of a consumer. No good one brings descriptors; those of another are closed. */
static tarn_status receive(tarn_connection *connection, struct tn_message *message)
{
    int descriptors[TN_SHARE_DESCRIPTORS_MAX] = {-1, -1};
    tarn_status status = tn_channel_receive(connection->channel, message, descriptors);

    TN_ASSERT(tn_lock_is_held(&connection->lock));
    tn_channel_close(&descriptors[0]);
    tn_channel_close(&descriptors[1]);
    return status;
}

static void refuse(tarn_connection *connection, enum tn_refusal refusal)
{
    const struct tn_message message = {.magic = TN_MESSAGE_MAGIC,
                                       .version = TN_SHARE_VERSION,
                                       .kind = TN_MESSAGE_REFUSAL,
                                       .refusal = refusal};

    struct tn_message unread;

    /* A socket closed with a message unread resets the other end, and the refusal would be lost. */
    TARN_IGNORE(receive(connection, &unread));
    TARN_IGNORE(
        tn_channel_send(connection->channel, &message, NULL)); /* the connection parts anyway */
    tn_connection_part(connection);
}

/* The connection's listener, pinned; NULL: it is gone, or ends now. */
static tarn_listener *pin_listener(tarn_connection *connection)
{
    tarn_listener *listener = atomic_load(&connection->listener);

    if (listener == NULL || !tn_pins_try(&listener->pins))
        return NULL;
    if (atomic_load(&connection->listener) == listener)
        return listener;
    tn_pins_drop(&listener->pins);
    return NULL;
}

static bool take_offer(tarn_connection *connection, const uint8_t token[TN_TOKEN_BYTES],
                       uint64_t *address, uint64_t *sequence)
{
    tarn_listener *listener = pin_listener(connection);
    bool taken;

    if (listener == NULL)
        return false;
    taken = tn_offer_take(&listener->offers, token, address, sequence);
    tn_pins_drop(&listener->pins);
    return taken;
}

/* The first who claims a token has its block. The lock is held before and afterwards, and not
 * meanwhile. */
static tarn_status answer_claim(tarn_connection *connection, const struct tn_message *message)
{
    struct tn_message answer = {.magic = TN_MESSAGE_MAGIC,
                                .version = TN_SHARE_VERSION,
                                .kind = TN_MESSAGE_REFUSAL,
                                .connection_id = connection->id,
                                .refusal = TN_REFUSAL_TOKEN};
    uint64_t address = 0;
    uint64_t sequence = 0;

    TN_ASSERT(tn_lock_is_held(&connection->lock));
    memcpy(answer.token, message->token, sizeof answer.token);
    tn_lock_release(&connection->lock);
    if (take_offer(connection, message->token, &address, &sequence))
        tn_grant_claimed(connection, address, sequence, &answer);
    tn_lock_acquire(&connection->lock);
    if (connection->channel < 0)
        return TARN_ERR_PEER_LOST;
    /* Whoever claims and reads no answer is left. */
    return tn_channel_send(connection->channel, &answer, NULL) == TARN_OK
               ? TARN_OK
               : tn_fail(TARN_ERR_PEER_LOST, "the other process reads no answer to its claim");
}

static tarn_status take_message(tarn_connection *connection, const struct tn_message *message)
{
    if (message->kind == TN_MESSAGE_CLAIM && connection->state == TN_CONNECTION_READY &&
        message->connection_id == connection->id)
        return answer_claim(connection, message);
    if (message->kind != TN_MESSAGE_HELLO || connection->has_greeted)
        return tn_fail(TARN_ERR_PEER_LOST, "the other process has sent a message out of turn");
    connection->has_greeted = true;
    return tn_grant_welcome(connection);
}

/* Whether the consumer was greeted, and has not got its answer for lack of room in the socket. Lock
 * held. */
static bool owes_welcome(const tarn_connection *connection)
{
    return connection->is_producer && connection->has_greeted &&
           connection->state == TN_CONNECTION_GREETING;
}

/* Takes some messages of a producer's connection. A bad message ends the connection. */
static void take_messages(tarn_connection *connection)
{
    struct tn_message message;
    tarn_status status = TARN_OK;

    tn_lock_acquire(&connection->lock);
    if (owes_welcome(connection))
        status = tn_grant_welcome(connection);
    for (int i = 0; i < TN_SHARE_MESSAGES_MAX && status == TARN_OK && connection->channel >= 0;
         i++) {
        status = receive(connection, &message);
        if (status == TARN_OK)
            status = take_message(connection, &message);
    }
    if (status != TARN_OK && status != TARN_ERR_BUSY)
        tn_connection_part(connection);
    tn_lock_release(&connection->lock);
}

/* Whether the listener's connection, which the program has not accepted, may go: because the
 * connection is over, or because the listener is gone (NULL). */
static bool is_over(const tarn_listener *listener, tarn_connection *connection)
{
    bool over;

    if (!connection->is_producer || atomic_load(&connection->listener) != listener)
        return false;
    tn_lock_acquire(&connection->lock);
    over = !connection->is_accepted && connection->producer.granted_count == 0 &&
           (listener == NULL || connection->state >= TN_CONNECTION_PARTED);
    tn_lock_release(&connection->lock);
    return over;
}

/* Ends a pinned connection that is over, with the pin. False: another thread has a pin, and a later
 * round ends the connection; or it is not over. */
static bool end_if_over(const tarn_listener *listener, tarn_connection *connection)
{
    if (!is_over(listener, connection) || tn_connection_claim(connection, 1) != TARN_OK)
        return false;
    if (!is_over(listener, connection)) { /* it was accepted meanwhile */
        tn_connection_yield(connection);
        return false;
    }
    end_connection(connection, 1);
    return true;
}

static uint64_t serve(tarn_connection *connection)
{
    TN_ASSERT(tn_lock_none_held());
    if (connection->is_producer) {
        take_messages(connection);
        return tn_grant_collect(connection);
    }
    tn_lock_acquire(&connection->lock);
    tn_receive_messages(connection);
    tn_share_poll(connection, UINT32_MAX);
    tn_lock_release(&connection->lock);
    return 0;
}

/* Destroys connections of the listener which are over; of NULL, all those without an accept whose
 * listener is gone. */
static void drop(tarn_device *device, const tarn_listener *listener)
{
    tarn_connection *connection = tn_connection_next(device, NULL);

    while (connection != NULL) {
        if (end_if_over(listener, connection))
            connection = tn_connection_next(device, NULL); /* the place in the list is lost */
        else
            connection = tn_connection_next(device, connection);
    }
}

uint64_t tn_shares_collect(tarn_device *device)
{
    uint64_t ended = 0;

    for (tarn_connection *connection = tn_connection_next(device, NULL); connection != NULL;
         connection = tn_connection_next(device, connection))
        ended += serve(connection);
    drop(device, NULL);
    return ended;
}

/* Refuses and ends a connection that nobody else knows. */
static void turn_away(tarn_connection *connection, enum tn_refusal refusal)
{
    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&connection->lock);
    refuse(connection, refusal);
    tn_lock_release(&connection->lock);
    tn_connection_recycle(connection);
}

/* How many consumers of the listener have not greeted. */
static uint32_t count_silent(const tarn_listener *listener)
{
    uint32_t count = 0;

    TN_ASSERT(tn_lock_none_held());
    for (tarn_connection *connection = tn_connection_next(listener->device, NULL);
         connection != NULL; connection = tn_connection_next(listener->device, connection)) {
        if (atomic_load(&connection->listener) != listener)
            continue;
        tn_lock_acquire(&connection->lock);
        count += connection->state == TN_CONNECTION_GREETING;
        tn_lock_release(&connection->lock);
    }
    return count;
}

/* A connection is enlisted once the policy has agreed and all is filled in: from then on other
 * threads serve it. */
static tarn_status welcome(tarn_listener *listener, int channel)
{
    tarn_connection *made;
    tarn_status status =
        tn_connection_create(listener->device, channel, listener->name, true, &made);

    if (status != TARN_OK) {
        tn_channel_close(&channel);
        return status == TARN_ERR_PEER_LOST ? TARN_OK : status;
    }
    made->producer.slot_count = listener->slot_count;
    made->producer.chunk_count = listener->chunk_count;
    atomic_store(&made->listener, listener);
    if (!is_permitted(listener, &made->process)) {
        turn_away(made, TN_REFUSAL_POLICY);
        return TARN_OK;
    }
    if (count_silent(listener) >= SILENT_MAX) {
        turn_away(made, TN_REFUSAL_LIMIT);
        return TARN_OK;
    }
    status = watch_descriptor(listener->poller, channel);
    if (status == TARN_OK)
        status = watch_descriptor(listener->poller, made->process.descriptor);
    made->is_watched = status == TARN_OK;
    if (status == TARN_OK)
        tn_connection_enlist(made);
    else
        turn_away(made, TN_REFUSAL_LIMIT);
    return status;
}

/* What the poller tells of a connection. The end of a process stays readable for ever, and was
 * heard. A welcome that found no room goes out when there is some. Lock held. */
static void change_events(const tarn_listener *listener, tarn_connection *connection)
{
    struct epoll_event event = {.events = EPOLLIN};

    TN_ASSERT(tn_lock_is_held(&connection->lock));
    if (connection->is_watched && connection->state == TN_CONNECTION_GONE) {
        (void)epoll_ctl(listener->poller, EPOLL_CTL_DEL, connection->process.descriptor, NULL);
        connection->is_watched = false;
    }
    if (owes_welcome(connection) != connection->awaits_room && connection->channel >= 0) {
        connection->awaits_room = !connection->awaits_room;
        if (connection->awaits_room)
            event.events |= EPOLLOUT;
        (void)epoll_ctl(listener->poller, EPOLL_CTL_MOD, connection->channel, &event);
    }
}

static void change_all_events(const tarn_listener *listener)
{
    for (tarn_connection *connection = tn_connection_next(listener->device, NULL);
         connection != NULL; connection = tn_connection_next(listener->device, connection)) {
        if (atomic_load(&connection->listener) != listener)
            continue;
        tn_lock_acquire(&connection->lock);
        change_events(listener, connection);
        tn_lock_release(&connection->lock);
    }
}

tarn_status tn_listener_offer(tarn_listener *listener, uint64_t address, struct tn_share *share)
{
    uint64_t sequence;
    uint64_t bytes;
    tarn_status status = tn_grant_check_block(listener->device, address, &sequence, &bytes);

    TN_ASSERT(tn_lock_none_held());
    if (status != TARN_OK)
        return status;
    *share = (struct tn_share){.has_token = 1, .bytes = bytes};
    memcpy(share->name, listener->name, sizeof share->name);
    return tn_offer_add(&listener->offers, address, sequence, share);
}

tarn_status tn_listener_progress(tarn_listener *listener)
{
    tarn_status status = TARN_OK;
    int channel;

    TN_ASSERT(tn_lock_none_held());
    for (int i = 0; i < ACCEPTS_MAX && status == TARN_OK; i++) {
        status = tn_channel_accept(listener->socket, &channel);
        if (status == TARN_OK)
            status = welcome(listener, channel);
    }
    (void)tn_shares_collect(listener->device);
    change_all_events(listener);
    drop(listener->device, listener);
    return status == TARN_ERR_BUSY ? TARN_OK : status;
}

static bool is_acceptable(tarn_listener *listener, tarn_connection *connection)
{
    bool acceptable;

    tn_lock_acquire(&connection->lock);
    acceptable = atomic_load(&connection->listener) == listener && !connection->is_accepted &&
                 connection->state == TN_CONNECTION_READY;
    tn_lock_release(&connection->lock);
    return acceptable;
}

tarn_connection *tn_listener_accept(tarn_listener *listener)
{
    tarn_connection *found = NULL;

    for (tarn_connection *connection = tn_connection_next(listener->device, NULL);
         connection != NULL; connection = tn_connection_next(listener->device, connection)) {
        if (!is_acceptable(listener, connection))
            continue;
        if (found != NULL)
            tn_pins_drop(&found->pins);
        found = connection; /* the list has the newest first */
        tn_pins_add(&found->pins);
    }
    if (found == NULL)
        return NULL;
    tn_lock_acquire(&found->lock);
    found->is_accepted = true;
    tn_lock_release(&found->lock);
    tn_pins_drop(&found->pins);
    return found;
}

static void leave_list(tarn_listener *listener)
{
    tarn_listener **link = &listener->device->listeners;

    tn_lock_acquire(&listener->device->lock);
    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
    tn_lock_release(&listener->device->lock);
}

tarn_status tn_listener_destroy(tarn_listener *listener)
{
    tarn_device *device;

    TN_ASSERT(tn_lock_none_held());
    if (!tn_share_claim(&listener->pins, 0))
        return tn_fail(TARN_ERR_BUSY, "a call uses the listener, or ends it");
    TN_ASSERT(atomic_load(&listener->magic) == TN_LISTENER_MAGIC);
    device = listener->device;
    atomic_store(&listener->magic, 0);
    leave_list(listener);
    for (tarn_connection *connection = tn_connection_next(device, NULL); connection != NULL;
         connection = tn_connection_next(device, connection)) {
        tarn_listener *its = listener;

        (void)atomic_compare_exchange_strong(&connection->listener, &its, NULL);
    }
    drop(device, NULL); /* what another thread serves now goes with a later collect */
    close_descriptors(listener);
    tn_offers_fini(&listener->offers);
    tn_records_give(&listener_records, listener);
    return TARN_OK;
}
