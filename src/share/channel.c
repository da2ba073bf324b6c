// SPDX-License-Identifier: Apache-2.0
/* The buffer for descriptors has room for more than a message may bring. The system drops the
 * others, and sets a flag. Descriptors of a bad message are closed here. A message is read without
 * its removal first: one whose descriptors find no room stays for a later call.
 *
 * Trade-offs: no name is unlinked before its bind. The program removes a path left by a dead
 * process. An abstract name goes with the socket. */
#include "share/channel.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/contract.h"
#include "base/error.h"

enum { ROOM = 16, BACKLOG = 64 };

/* Room for control data, aligned. */
union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(ROOM * sizeof(int))];
};

void tn_channel_close(int *descriptor)
{
    if (*descriptor >= 0)
        (void)close(*descriptor);
    *descriptor = -1;
}

static tarn_status no_descriptor(void)
{
    return tn_fail(TARN_ERR_LIMIT, "the process has no file descriptor left (RLIMIT_NOFILE)");
}

static tarn_status make_socket(int *made)
{
    *made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*made >= 0)
        return TARN_OK;
    if (errno == EMFILE || errno == ENFILE)
        return no_descriptor();
    return tn_fail(TARN_ERR_NOT_SUPPORTED, "no socket of AF_UNIX and SOCK_SEQPACKET: %s",
                   strerror(errno));
}

static tarn_status make_address(const char *name, struct sockaddr_un *address, socklen_t *bytes)
{
    size_t length = strnlen(name, TN_SHARE_NAME_MAX + 1);

    if (length == 0 || length > TN_SHARE_NAME_MAX || strcmp(name, "@") == 0)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "the name of a listener has 1 to %d bytes, an @ before it left out",
                       (int)TN_SHARE_NAME_MAX);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, length);
    if (name[0] == '@')
        address->sun_path[0] = '\0';
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (name[0] != '@'));
    return TARN_OK;
}

tarn_status tn_channel_listen(const char *name, int *listening)
{
    struct sockaddr_un address;
    socklen_t bytes;
    int made;
    bool is_bound;
    tarn_status status = make_address(name, &address, &bytes);

    if (status == TARN_OK)
        status = make_socket(&made);
    if (status != TARN_OK)
        return status;
    is_bound = bind(made, (const struct sockaddr *)&address, bytes) == 0;
    if (is_bound && listen(made, BACKLOG) == 0) {
        *listening = made;
        return TARN_OK;
    }
    status = errno == EADDRINUSE ? tn_fail(TARN_ERR_BUSY,
                                           "the name '%s' is taken: another listener has it, or a "
                                           "process has left its path",
                                           name)
                                 : tn_fail(TARN_ERR_NOT_SUPPORTED, "nothing can listen at '%s': %s",
                                           name, strerror(errno));
    if (is_bound)
        tn_channel_unlink(name);
    tn_channel_close(&made);
    return status;
}

void tn_channel_unlink(const char *name)
{
    TN_ASSERT(name[0] != '\0');
    if (name[0] != '@')
        (void)unlink(name);
}

tarn_status tn_channel_accept(int listening, int *channel)
{
    int made = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (made >= 0) {
        *channel = made;
        return TARN_OK;
    }
    if (errno == EMFILE || errno == ENFILE)
        return no_descriptor();
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
        return TARN_ERR_BUSY;
    return tn_fail(TARN_ERR_NOT_SUPPORTED, "accepting a connection: %s", strerror(errno));
}

static tarn_status explain_connect(const char *name, int error)
{
    switch (error) {
    case ECONNREFUSED:
    case ENOENT:
        return tn_fail(TARN_ERR_PEER_LOST, "nobody listens at '%s'", name);
    case EAGAIN:
        return tn_fail(TARN_ERR_BUSY, "too many processes wait at '%s'", name);
    case EACCES:
    case EPERM:
        return tn_fail(TARN_ERR_NOT_PERMITTED, "the system lets this process not connect to '%s'",
                       name);
    default:
        return tn_fail(TARN_ERR_NOT_SUPPORTED, "connecting to '%s': %s", name, strerror(error));
    }
}

tarn_status tn_channel_connect(const char *name, int *channel)
{
    struct sockaddr_un address;
    socklen_t bytes;
    int made;
    tarn_status status = make_address(name, &address, &bytes);

    if (status == TARN_OK)
        status = make_socket(&made);
    if (status != TARN_OK)
        return status;
    if (connect(made, (const struct sockaddr *)&address, bytes) == 0) {
        *channel = made;
        return TARN_OK;
    }
    status = explain_connect(name, errno);
    tn_channel_close(&made);
    return status;
}

static tarn_status explain_send(int error)
{
    if (error == EAGAIN || error == ENOBUFS || error == EINTR)
        return tn_fail(TARN_ERR_BUSY, "the other process has not yet read what was sent");
    if (error == ETOOMANYREFS)
        return tn_fail(TARN_ERR_LIMIT,
                       "too many file descriptors of this user are on their way between processes");
    return tn_fail(TARN_ERR_PEER_LOST, "the connection is over: %s", strerror(error));
}

tarn_status tn_channel_send(int channel, const struct tn_message *message, const int *descriptors)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof *message};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    size_t count = tn_message_descriptor_count(message->kind);
    union control control = {.bytes = {0}};

    TN_ASSERT(channel >= 0 && count <= TN_SHARE_DESCRIPTORS_MAX);
    if (count > 0) {
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.head), descriptors, count * sizeof(int));
    }
    if (sendmsg(channel, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *message)
        return TARN_OK;
    return explain_send(errno);
}

/* All received descriptors; at most ROOM. */
static size_t take_descriptors(struct msghdr *header, int descriptors[ROOM])
{
    size_t count = 0;

    for (struct cmsghdr *head = CMSG_FIRSTHDR(header); head != NULL;
         head = CMSG_NXTHDR(header, head)) {
        size_t bytes = head->cmsg_len - CMSG_LEN(0);

        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        TN_ASSERT(count + bytes / sizeof(int) <= ROOM);
        memcpy(&descriptors[count], CMSG_DATA(head), bytes);
        count += bytes / sizeof(int);
    }
    return count;
}

static tarn_status refuse(const char *what)
{
    return tn_fail(TARN_ERR_PEER_LOST,
                   "the other process has sent what is no message of Tarn's: %s is wrong", what);
}

/* Checks a received message, and the count of descriptors. */
static tarn_status check(const struct msghdr *header, const void *bytes, size_t length,
                         size_t count, struct tn_message *message)
{
    enum tn_message_fault fault;

    if ((header->msg_flags & MSG_CTRUNC) != 0)
        return count < TN_SHARE_DESCRIPTORS_MAX ? no_descriptor()
                                                : refuse("its count of file descriptors");
    if ((header->msg_flags & MSG_TRUNC) != 0)
        return refuse(tn_message_fault_name(TN_MESSAGE_LENGTH));
    fault = tn_message_check(bytes, length, count, message);
    return fault == TN_MESSAGE_GOOD ? TARN_OK : refuse(tn_message_fault_name(fault));
}

tarn_status tn_channel_receive(int channel, struct tn_message *message,
                               int descriptors[TN_SHARE_DESCRIPTORS_MAX])
{
    char bytes[sizeof *message + 1];
    union control control;
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control};
    int came[ROOM];
    size_t count;
    ssize_t length = recvmsg(channel, &header, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    tarn_status status;

    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return TARN_ERR_BUSY;
    if (length < 0)
        return tn_fail(TARN_ERR_PEER_LOST, "the connection is over: %s", strerror(errno));
    count = take_descriptors(&header, came);
    if (length == 0 && count == 0)
        return tn_fail(TARN_ERR_PEER_LOST, "the other process has closed the connection");
    status = check(&header, bytes, (size_t)length, count, message);
    if (status != TARN_ERR_LIMIT)
        (void)recv(channel, NULL, 0, MSG_DONTWAIT); /* the message goes */
    if (status == TARN_OK)
        memcpy(descriptors, came, count * sizeof(int));
    for (size_t i = 0; status != TARN_OK && i < count; i++)
        tn_channel_close(&came[i]);
    return status;
}
