// SPDX-License-Identifier: Apache-2.0
/* What a listener owes its consumers, and what is left when it ends. Both ends are in this process. */
#include <poll.h>

#include "share/channel.h"
#include "share/listener.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_listener *listener;
static char name[56];

static void listen_here(void)
{
    device = unit_device();
    OK(tarn_listener_create(device, NULL, &listener));
    OK(tarn_listener_name(listener, name));
}

SUITE("listeners")
GROUP(listeners, listen_here)

static bool is_readable(void)
{
    struct pollfd asked = {.events = POLLIN};

    OK(tarn_listener_descriptor(listener, &asked.fd));
    return poll(&asked, 1, 0) == 1;
}

static void greet(int channel)
{
    const struct tn_message hello = {
        .magic = TN_MESSAGE_MAGIC, .version = TN_SHARE_VERSION, .kind = TN_MESSAGE_HELLO};

    OK(tn_channel_send(channel, &hello, NULL));
}

static void end_listener(void)
{
    OK(tarn_listener_destroy(listener));
    OK(tarn_device_close(device));
}

/* A consumer's socket, and the producer's end of it, which has no room left. */
static tarn_connection *fill(int *channel)
{
    const struct tn_message refusal = {.magic = TN_MESSAGE_MAGIC,
                                       .version = TN_SHARE_VERSION,
                                       .kind = TN_MESSAGE_REFUSAL,
                                       .refusal = TN_REFUSAL_LIMIT};
    tarn_connection *made;

    OK(tn_channel_connect(name, channel));
    OK(tarn_listener_progress(listener));
    made = tn_connection_next(device, NULL);
    tn_pins_drop(&made->pins);
    while (tn_channel_send(made->channel, &refusal, NULL) == TARN_OK)
        continue;
    return made;
}

TEST(listeners, a_welcome_that_finds_no_room_goes_out_later)
{
    int files[TN_SHARE_DESCRIPTORS_MAX] = {-1, -1};
    struct tn_message message = {.kind = TN_MESSAGE_REFUSAL};
    int channel;
    tarn_connection *connection = fill(&channel);

    greet(channel);
    OK(tarn_listener_progress(listener));
    ck_assert_int_eq(connection->state, TN_CONNECTION_GREETING);
    ck_assert(!is_readable());
    while (tn_channel_receive(channel, &message, files) == TARN_OK)
        ck_assert_uint_eq(message.kind, TN_MESSAGE_REFUSAL);
    ck_assert(is_readable()); /* there is room */
    OK(tarn_listener_progress(listener));
    ck_assert(!is_readable());
    ck_assert_int_eq(connection->state, TN_CONNECTION_READY);
    OK(tn_channel_receive(channel, &message, files));
    ck_assert_uint_eq(message.kind, TN_MESSAGE_WELCOME);
    tn_channel_close(&files[0]);
    tn_channel_close(&files[1]);
    tn_channel_close(&channel);
    OK(tarn_listener_progress(listener));
    end_listener();
}

TEST(listeners, nothing_more_is_read_before_the_welcome_has_gone)
{
    int channel;
    tarn_connection *connection = fill(&channel);

    greet(channel);
    OK(tarn_listener_progress(listener));
    greet(channel);
    tn_pins_add(&connection->pins); /* it is looked at afterwards */
    OK(tarn_listener_progress(listener));
    OK(tarn_listener_progress(listener));
    ck_assert_int_eq(connection->state, TN_CONNECTION_GREETING); /* nothing is read before */
    tn_channel_close(&channel);
    tn_pins_drop(&connection->pins);
    OK(tarn_listener_progress(listener));
    end_listener();
}

/* Another thread serves it while its listener ends: nobody has a handle of it. */
TEST(listeners, a_device_closes_although_a_connection_was_being_served)
{
    tarn_connection *consumer;
    tarn_connection *served;

    OK(tarn_connection_open(device, name, &consumer));
    OK(tarn_listener_progress(listener));
    served = tn_connection_next(device, NULL);
    ck_assert(served->is_producer);
    OK(tarn_listener_destroy(listener));
    tn_pins_drop(&served->pins);
    OK(tarn_connection_destroy(consumer));
    ck_assert_ptr_nonnull(device->connections);
    OK(tarn_device_close(device));
}
