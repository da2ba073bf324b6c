// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "share/channel.h"
#include "share/process.h"
#include "unit/unit.h"

/* The suite's own, in place of the system's: a system without SO_PEERPIDFD. */
static bool lacks_peer_descriptors;
static bool lacks_descriptors;

int __wrap_getsockopt(int file, int level, int name, void *value, socklen_t *bytes);
int __real_getsockopt(int file, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockopt(int file, int level, int name, void *value, socklen_t *bytes)
{
    if (name == 77 && lacks_peer_descriptors) {
        errno = ENOPROTOOPT;
        return -1;
    }
    return __real_getsockopt(file, level, name, value, bytes);
}

long __wrap_syscall(long number, long first, long second);
long __real_syscall(long number, long first, long second);
long __wrap_syscall(long number, long first, long second)
{
    if (lacks_descriptors) {
        errno = ENOSYS;
        return -1;
    }
    return __real_syscall(number, first, second);
}

static int listening;
static int channel;
static pid_t child;

/* A child that connects, and waits for its end. */
static void begin_child(void)
{
    char name[56];

    (void)snprintf(name, sizeof name, "@tarn-process-%d", (int)getpid());
    OK(tn_channel_listen(name, &listening));
    child = fork();
    if (child == 0) {
        int mine;

        if (tn_channel_connect(name, &mine) == TARN_OK)
            (void)pause();
        _exit(0);
    }
    while (tn_channel_accept(listening, &channel) != TARN_OK)
        (void)usleep(1000);
}

static void end_child(void)
{
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

static void expect_its_end(void)
{
    struct tn_process process;
    int64_t deadline = test_deadline();

    OK(tn_process_find(channel, &process));
    ck_assert_int_eq(process.pid, child);
    ck_assert_uint_eq(process.uid, getuid());
    ck_assert_uint_eq(process.gid, getgid());
    ck_assert(!tn_process_is_gone(&process));
    end_child();
    while (!tn_process_is_gone(&process) && test_pause(deadline))
        continue;
    ck_assert(tn_process_is_gone(&process));
    tn_process_close(&process);
    ck_assert_int_eq(process.descriptor, -1);
}

GROUP(processes, begin_child)

TEST(processes, the_end_of_the_process_is_seen)
{
    expect_its_end();
}

TEST(processes, an_older_system_is_asked_by_number)
{
    lacks_peer_descriptors = true;
    expect_its_end();
}

/* Its number may be another process's by then. */
TEST(processes, a_process_that_has_ended_is_not_asked_by_number)
{
    struct tn_process process;

    lacks_peer_descriptors = true;
    end_child();
    STATUS(TARN_ERR_PEER_LOST, tn_process_find(channel, &process));
}

TEST(processes, a_system_without_descriptors_of_processes_is_named)
{
    struct tn_process process;

    lacks_peer_descriptors = true;
    lacks_descriptors = true;
    STATUS(TARN_ERR_NOT_SUPPORTED, tn_process_find(channel, &process));
    unit_expect_sentence("pidfd_open");
    end_child();
}

TEST(processes, a_socket_of_a_pair_tells_of_no_process)
{
    struct tn_process process;
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    STATUS(TARN_ERR_NOT_SUPPORTED, tn_process_find(ends[0], &process));
    unit_expect_sentence("pair");
    end_child();
}
