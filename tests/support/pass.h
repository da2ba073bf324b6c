// SPDX-License-Identifier: Apache-2.0
/* pass.h -- open files passed from process to process over a socket, each with one byte. */
#ifndef TARN_TESTS_SUPPORT_PASS_H
#define TARN_TESTS_SUPPORT_PASS_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

union test_pass_room {
    struct cmsghdr header; /* which aligns it */
    char bytes[CMSG_SPACE(sizeof(int))];
};

static inline struct msghdr test_pass_message(struct iovec *part, union test_pass_room *room)
{
    struct msghdr message = {0};

    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = room->bytes;
    message.msg_controllen = sizeof room->bytes;
    return message;
}

static inline bool test_pass_send(int socket, int file)
{
    union test_pass_room room = {.bytes = {0}};
    char byte = 'f';
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = test_pass_message(&part, &room);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(header), &file, sizeof file);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

/* -1: none came. */
static inline int test_pass_receive(int socket)
{
    union test_pass_room room = {.bytes = {0}};
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = test_pass_message(&part, &room);
    int file = -1;

    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message) != NULL)
        memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

#endif
