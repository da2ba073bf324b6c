// SPDX-License-Identifier: Apache-2.0
/* process.c -- second processes, for cases about what two processes share.
 *
 * A second process is this program again, with --helper, so that it has a driver of its own. The
 * two talk through a socket, over which file descriptors travel too. */
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/contract.h"

extern char **environ;

struct contract_process contract_process_start(const char *helper)
{
    struct contract_process process;
    int ends[2];
    char number[16];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        contract_give_up("no socket");
    int inherited = dup(ends[1]); /* stays open over exec */
    snprintf(number, sizeof number, "%d", inherited);
    char *const arguments[] = {"tarn_contract", "--helper", (char *)(uintptr_t)helper, number,
                               NULL};
    pid_t pid;
    int failed = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ);
    close(inherited);
    close(ends[1]);
    if (failed != 0) {
        close(ends[0]);
        contract_give_up("no second process");
    }
    process = (struct contract_process){.pid = pid, .socket = ends[0]};
    return process;
}

void contract_process_end(struct contract_process *process)
{
    int status = -1;
    close(process->socket);
    while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    contract_holds(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the second process ends well");
}

void contract_send(int socket, const void *bytes, size_t count)
{
    if (send(socket, bytes, count, MSG_NOSIGNAL) != (ssize_t)count)
        contract_give_up("the other process does not listen");
}

void contract_receive(int socket, void *bytes, size_t count)
{
    if (recv(socket, bytes, count, MSG_WAITALL) != (ssize_t)count)
        contract_give_up("the other process does not speak");
}

/* A message of one byte that carries a file descriptor. */
union descriptor_room {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

void contract_send_fd(int socket, int fd)
{
    union descriptor_room room = {.bytes = {0}};
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = room.bytes,
        .msg_controllen = sizeof room.bytes,
    };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1)
        contract_give_up("no descriptor can be sent");
}

int contract_receive_fd(int socket)
{
    union descriptor_room room = {.bytes = {0}};
    char byte = 0;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = room.bytes,
        .msg_controllen = sizeof room.bytes,
    };
    int fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == NULL)
        contract_give_up("no descriptor arrives");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}
