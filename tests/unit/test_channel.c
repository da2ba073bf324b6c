// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "share/channel.h"
#include "unit/unit.h"

static const struct tn_message hello = {
    .magic = TN_MESSAGE_MAGIC, .version = TN_SHARE_VERSION, .kind = TN_MESSAGE_HELLO};
static const struct tn_message chunk = {.magic = TN_MESSAGE_MAGIC,
                                        .version = TN_SHARE_VERSION,
                                        .kind = TN_MESSAGE_CHUNK,
                                        .connection_id = 5,
                                        .generation = 1,
                                        .bytes = 2 * MIB};

static int listening;
static int ends[2]; /* the one that connected, and the other */
static size_t descriptors_before;

static size_t count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;

    ck_assert_ptr_nonnull(folder);
    while (readdir(folder) != NULL)
        count += 1;
    (void)closedir(folder);
    return count;
}

static void connect_ends(void)
{
    char name[56];

    (void)snprintf(name, sizeof name, "@tarn-test-%d", (int)getpid());
    OK(tn_channel_listen(name, &listening));
    OK(tn_channel_connect(name, &ends[0]));
    OK(tn_channel_accept(listening, &ends[1]));
    descriptors_before = count_descriptors();
}

/* What is received besides must be closed again. */
static void close_ends(void)
{
    ck_assert_uint_eq(count_descriptors(), descriptors_before);
    tn_channel_close(&ends[0]);
    tn_channel_close(&ends[1]);
    tn_channel_close(&listening);
}

static tarn_status receive(struct tn_message *message)
{
    int descriptors[TN_SHARE_DESCRIPTORS_MAX] = {-1, -1};
    tarn_status status = tn_channel_receive(ends[1], message, descriptors);

    tn_channel_close(&descriptors[0]);
    tn_channel_close(&descriptors[1]);
    return status;
}

/* Bytes as no good process sends them, with so many copies of a descriptor. */
static void send_raw(const void *bytes, size_t length, size_t count)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(64 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    int descriptors[64];

    for (size_t i = 0; i < count; i++)
        descriptors[i] = listening;
    if (count > 0) {
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.head), descriptors, count * sizeof(int));
    }
    ck_assert_int_eq(sendmsg(ends[0], &header, MSG_NOSIGNAL), (ssize_t)length);
}

GROUP(channels, connect_ends, close_ends)

TEST(channels, messages_come_whole_and_in_order)
{
    struct tn_message message;

    OK(tn_channel_send(ends[0], &hello, NULL));
    OK(tn_channel_send(ends[0], &chunk, &listening));
    OK(receive(&message));
    ck_assert_mem_eq(&message, &hello, sizeof message);
    OK(receive(&message));
    ck_assert_mem_eq(&message, &chunk, sizeof message);
    ck_assert_int_eq(receive(&message), TARN_ERR_BUSY);
}

TEST(channels, descriptors_are_received_with_their_message_and_closed_by_exec)
{
    int descriptors[TN_SHARE_DESCRIPTORS_MAX] = {-1, -1};
    struct tn_message message;

    OK(tn_channel_send(ends[0], &chunk, &listening));
    OK(tn_channel_receive(ends[1], &message, descriptors));
    ck_assert_int_ge(descriptors[0], 0);
    ck_assert_int_eq(descriptors[1], -1);
    ck_assert_int_eq(fcntl(descriptors[0], F_GETFD), FD_CLOEXEC);
    tn_channel_close(&descriptors[0]);
}

TEST(channels, the_end_of_the_other_process_is_told)
{
    struct tn_message message;

    OK(tn_channel_send(ends[0], &hello, NULL));
    tn_channel_close(&ends[0]);
    OK(receive(&message)); /* what was sent before comes first */
    STATUS(TARN_ERR_PEER_LOST, receive(&message));
    STATUS(TARN_ERR_PEER_LOST, tn_channel_send(ends[1], &hello, NULL));
    ends[0] = dup(listening); /* as many descriptors as before */
}

TEST(channels, what_is_no_message_is_refused_and_its_descriptors_are_closed)
{
    static const size_t counts[] = {0, 1, 2, 3, 15, 16, 17, 40};
    struct tn_message message;
    char long_one[4 * sizeof message] = {0};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        send_raw(&chunk, sizeof chunk, counts[i]);
        ck_assert_int_eq(receive(&message), counts[i] == 1 ? TARN_OK : TARN_ERR_PEER_LOST);
        send_raw(&chunk, sizeof chunk - 1, counts[i]);
        STATUS(TARN_ERR_PEER_LOST, receive(&message));
        send_raw(long_one, sizeof long_one, counts[i]);
        STATUS(TARN_ERR_PEER_LOST, receive(&message));
    }
    send_raw("", 0, 1);
    STATUS(TARN_ERR_PEER_LOST, receive(&message));
    unit_expect_sentence("length");
}

/* Nobody reads: the sender is told so, and does not wait. */
TEST(channels, a_full_channel_is_busy)
{
    tarn_status status = TARN_OK;

    for (int i = 0; i < 100000 && status == TARN_OK; i++)
        status = tn_channel_send(ends[0], &hello, NULL);
    ck_assert_int_eq(status, TARN_ERR_BUSY);
}

TEST(channels, names_that_cannot_be_are_refused)
{
    char name[80];
    int made = -1;

    memset(name, 'x', sizeof name);
    name[56] = '\0';
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_channel_listen("", &made));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_channel_listen("@", &made));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_channel_listen(name, &made));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_channel_connect(name, &made));
    STATUS(TARN_ERR_PEER_LOST, tn_channel_connect("@tarn-nobody-is-here", &made));
    STATUS(TARN_ERR_PEER_LOST, tn_channel_connect("/nowhere/at/all", &made));
    STATUS(TARN_ERR_NOT_SUPPORTED, tn_channel_listen("/nowhere/at/all", &made));
    (void)snprintf(name, sizeof name, "@tarn-test-%d", (int)getpid());
    STATUS(TARN_ERR_BUSY, tn_channel_listen(name, &made));
    ck_assert_int_eq(made, -1);
    ck_assert_int_eq(tn_channel_accept(listening, &made), TARN_ERR_BUSY);
}
