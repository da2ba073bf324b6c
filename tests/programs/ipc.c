// SPDX-License-Identifier: Apache-2.0
/* ipc.c -- two processes use the same device memory; the second gets it as a file descriptor.
 *
 * The parent forks before either process has a driver. It makes memory, sends its descriptor through
 * a socket (SCM_RIGHTS), and gives its own handle up; the two then take turns. */
#include "program.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)2 << 20)
#define WORDS 1000
#define TURNS 3

union room {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static struct msghdr message_in(union room *room, struct iovec *part, char *byte)
{
    memset(room, 0, sizeof *room);
    *part = (struct iovec){.iov_base = byte, .iov_len = 1};
    return (struct msghdr){
        .msg_iov = part,
        .msg_iovlen = 1,
        .msg_control = room->bytes,
        .msg_controllen = sizeof room->bytes,
    };
}

static void send_fd(int socket, int fd)
{
    union room room;
    struct iovec part;
    char byte = 'f';
    struct msghdr message = message_in(&room, &part, &byte);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1)
        program_fail("the descriptor is not sent");
}

static int receive_fd(int socket)
{
    union room room;
    struct iovec part;
    char byte;
    int fd;
    struct msghdr message = message_in(&room, &part, &byte);
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == NULL)
        program_fail("no descriptor comes");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static void tell(int socket)
{
    char byte = 't';
    if (send(socket, &byte, 1, MSG_NOSIGNAL) != 1)
        program_fail("the other process is gone");
}

static void hear(int socket)
{
    char byte;
    if (recv(socket, &byte, 1, 0) != 1)
        program_fail("the other process is gone");
}

/* Maps a handle somewhere, with access, and gives the handle up: the mapping keeps the memory. */
static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
    CUdeviceptr address;
    CALL(MemAddressReserve(&address, BYTES, 0, 0, 0));
    CALL(MemMap(address, BYTES, 0, handle, 0));
    program_allow(address, BYTES, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CALL(MemRelease(handle));
    return address;
}

static void unmap(CUdeviceptr address)
{
    CALL(MemUnmap(address, BYTES));
    CALL(MemAddressFree(address, BYTES));
}

/* Doubles the words and adds one, each time it is told to. */
static int second_process(int socket)
{
    CUmemGenericAllocationHandle handle;
    CUstream stream;
    program_begin();
    CALL(StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    program_scale();
    int fd = receive_fd(socket);
    CALL(MemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    CUdeviceptr words = map(handle);
    for (int i = 0; i < TURNS; i++) {
        hear(socket);
        program_launch_scale(stream, words, 2, 1, WORDS);
        CALL(StreamSynchronize(stream));
        tell(socket);
    }
    hear(socket);
    unmap(words);
    CALL(StreamDestroy(stream));
    return 0;
}

static void first_process(int socket)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = program_prop(1);
    CUstream stream;
    int fd;
    program_begin();
    CALL(StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    program_scale();
    CALL(MemCreate(&handle, BYTES, &prop, 0));
    CALL(MemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    send_fd(socket, fd);
    close(fd);
    CUdeviceptr words = map(handle);
    CALL(MemsetD32Async(words, 1, WORDS, stream));
    CALL(StreamSynchronize(stream));
    program_print_sum("at first", words, WORDS);
    for (int i = 0; i < TURNS; i++) {
        tell(socket);
        hear(socket);
        program_print_sum("after the other's turn", words, WORDS);
        program_launch_scale(stream, words, 1, 10, WORDS);
        CALL(StreamSynchronize(stream));
        program_print_sum("after its own turn", words, WORDS);
    }
    tell(socket);
    unmap(words);
    CALL(StreamDestroy(stream));
}

int main(void)
{
    int ends[2];
    int status = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        program_fail("no socket");
    pid_t pid = fork();
    if (pid < 0)
        program_fail("no second process");
    if (pid == 0) {
        close(ends[0]);
        return second_process(ends[1]);
    }
    close(ends[1]);
    first_process(ends[0]);
    waitpid(pid, &status, 0);
    printf("the second process ends with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return 0;
}
