// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: a search for a connection walks over all connections of the device, which are few. */
#include "share/connection.h"

#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "share/channel.h"

static struct tn_records connection_records =
    TN_RECORDS_INIT_KEEPING(struct tarn_connection, next, lock);

uint64_t tn_share_random(void)
{
    uint64_t number = 0;

    while (number == 0) {
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
            number = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    }
    return number;
}

static void leave_list(tarn_device *device, tarn_connection *connection)
{
    tarn_connection **link = &device->connections;

    tn_lock_acquire(&device->lock);
    while (*link != connection)
        link = &(*link)->next;
    *link = connection->next;
    tn_lock_release(&device->lock);
}

tarn_status tn_connection_create(tarn_device *device, int channel, const char *name,
                                 bool is_producer, tarn_connection **connection)
{
    struct tn_process process;
    tarn_connection *made;
    tarn_status status = tn_process_find(channel, &process);

    TN_ASSERT(tn_lock_none_held() && strlen(name) <= TN_SHARE_NAME_MAX);
    if (status != TARN_OK)
        return status;
    made = tn_records_take(&connection_records);
    if (made == NULL) {
        tn_process_close(&process);
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a connection");
    }
    if (!made->has_lock) {
        tn_lock_init(&made->lock, TN_RANK_SHARES);
        tn_lock_init(&made->closes, TN_RANK_CLOSES);
    }
    made->has_lock = true;
    made->device = device;
    made->is_producer = is_producer;
    made->process = process;
    made->channel = channel;
    made->tables = (struct tn_tables){.grants_file = -1, .returns_file = -1};
    memcpy(made->name, name, strlen(name));
    *connection = made;
    return TARN_OK;
}

void tn_connection_enlist(tarn_connection *connection)
{
    tarn_device *device = connection->device;

    TN_ASSERT(tn_lock_none_held() && atomic_load(&connection->magic) == 0);
    atomic_store(&connection->magic, TN_CONNECTION_MAGIC);
    tn_pins_open(&connection->pins);
    tn_lock_acquire(&device->lock);
    connection->next = device->connections;
    device->connections = connection;
    tn_lock_release(&device->lock);
}

tarn_status tn_connection_claim(tarn_connection *connection, uint64_t own)
{
    bool is_used;

    TN_ASSERT(tn_lock_none_held() && own <= 1);
    if (!tn_share_claim(&connection->pins, own))
        return tn_fail(TARN_ERR_BUSY, "a call uses the connection, or ends it");
    TN_ASSERT(atomic_load(&connection->magic) == TN_CONNECTION_MAGIC);
    tn_lock_acquire(&connection->lock);
    is_used = connection->consumer.opened_count > 0 || connection->producer.granted_count > 0;
    tn_lock_release(&connection->lock);
    if (!is_used)
        return TARN_OK;
    tn_connection_yield(connection);
    return tn_fail(TARN_ERR_BUSY, "the connection has just got a lease");
}

void tn_connection_yield(tarn_connection *connection)
{
    tn_pins_open(&connection->pins);
}

void tn_connection_close(tarn_connection *connection, uint64_t own)
{
    TN_ASSERT(tn_lock_none_held() && atomic_load(&connection->magic) == TN_CONNECTION_MAGIC);
    atomic_store(&connection->magic, 0);
    leave_list(connection->device, connection);
    if (own > 0)
        tn_pins_drop(&connection->pins);
}

void tn_connection_recycle(tarn_connection *connection)
{
    TN_ASSERT(atomic_load(&connection->magic) == 0);
    tn_channel_close(&connection->channel);
    tn_process_close(&connection->process);
    tn_tables_close(&connection->tables);
    tn_records_give(&connection_records, connection);
}

void tn_connection_part(tarn_connection *connection)
{
    TN_ASSERT(tn_lock_is_held(&connection->lock));
    if (connection->state < TN_CONNECTION_PARTED)
        connection->state = TN_CONNECTION_PARTED;
    tn_channel_close(&connection->channel);
}

/* The dead producer's streams write no word any more: streams of this process go on. */
static void finish_waits(const tarn_connection *connection)
{
    const struct tn_opened *opened = connection->consumer.opened;

    for (uint32_t slot = 0; opened != NULL && slot < connection->tables.slot_count; slot++) {
        if (opened[slot].wait_count > 0)
            tn_handoff_finish(&connection->handoff, slot, opened[slot].generation);
    }
}

void tn_connection_look(tarn_connection *connection)
{
    TN_ASSERT(tn_lock_is_held(&connection->lock));
    if (connection->state == TN_CONNECTION_GONE || !tn_process_is_gone(&connection->process))
        return;
    tn_connection_part(connection);
    connection->state = TN_CONNECTION_GONE;
    tn_device_note(connection->device, TN_NOTE_PEER_LOST,
                   TN_OPERANDS(connection->id, (uint64_t)connection->process.pid));
    finish_waits(connection);
}

tarn_status tn_connection_check(const tarn_connection *connection)
{
    TN_ASSERT(tn_lock_is_held(&connection->lock));
    switch (connection->state) {
    case TN_CONNECTION_READY:
        return TARN_OK;
    case TN_CONNECTION_GREETING:
        return tn_fail(TARN_ERR_BUSY, "the two processes have not greeted each other yet");
    case TN_CONNECTION_PARTED:
        if (connection->refusal == TN_REFUSAL_POLICY)
            return tn_fail(TARN_ERR_NOT_PERMITTED, "the policy of process %d refuses this process",
                           (int)connection->process.pid);
        return tn_fail(TARN_ERR_PEER_LOST, "the connection with process %d is over",
                       (int)connection->process.pid);
    default:
        return tn_fail(TARN_ERR_PEER_LOST, "process %d, at the other end, is gone",
                       (int)connection->process.pid);
    }
}

void tn_connection_await(int channel, uint64_t timeout_ns)
{
    struct pollfd asked = {.fd = channel, .events = POLLIN};
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000U),
                               .tv_nsec = (long)(timeout_ns % 1000000000U)};

    TN_ASSERT(tn_lock_none_held());
    (void)ppoll(&asked, 1, &timeout, NULL);
}

tarn_connection *tn_connection_next(tarn_device *device, tarn_connection *connection)
{
    tarn_connection *next;

    tn_lock_acquire(&device->lock);
    next = connection != NULL ? connection->next : device->connections;
    while (next != NULL && !tn_pins_try(&next->pins))
        next = next->next;
    tn_lock_release(&device->lock);
    if (connection != NULL)
        tn_pins_drop(&connection->pins);
    return next;
}
