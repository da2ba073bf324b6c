// SPDX-License-Identifier: Apache-2.0
/* Two ranks in one process, each at a thread of its own, and strangers at the door. */
#include "share/hub.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "share/channel.h"
#include "unit/unit.h"

static struct {
    struct tn_hub hubs[2];
    int processes[2][TN_RANKS_MAX];
    tarn_status statuses[2];
    pthread_t host; /* rank 0's thread */
} with;

static uint64_t soon(void)
{
    return tn_clock_nanoseconds(CLOCK_MONOTONIC) + UINT64_C(60000000000);
}

static void open_hubs(void)
{
    static unsigned int begun;

    begun++;
    for (uint32_t i = 0; i < 2; i++) {
        struct tn_hub *hub = &with.hubs[i];

        *hub = (struct tn_hub){.rank = i, .world = 2, .channel_count = 1, .group = "test"};
        (void)snprintf(hub->name, sizeof hub->name, "@tarn-hub-%d-%u", (int)getpid(), begun);
        hub->self.pid = (int32_t)getpid();
    }
}

static void close_hubs(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        tn_hub_close(&with.hubs[i]);
        for (uint32_t j = 0; j < TN_RANKS_MAX; j++)
            tn_channel_close(&with.processes[i][j]);
    }
}

static int count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    ck_assert_ptr_nonnull(directory);
    while (readdir(directory) != NULL)
        count++;
    (void)closedir(directory);
    return count;
}

static void *host(void *nothing)
{
    with.statuses[0] = tn_hub_meet(&with.hubs[0], soon(), with.processes[0]);
    return nothing;
}

static void begin_host(void)
{
    ck_assert_int_eq(pthread_create(&with.host, NULL, host, NULL), 0);
}

static int connect_to_host(void)
{
    int channel = -1;

    while (tn_channel_connect(with.hubs[0].name, &channel) != TARN_OK)
        (void)usleep(1000);
    return channel;
}

/* Rank 1 comes as it should. */
static void meet(void)
{
    OK(tn_hub_meet(&with.hubs[1], soon(), with.processes[1]));
    ck_assert_int_eq(pthread_join(with.host, NULL), 0);
    OK(with.statuses[0]);
}

/* A letter with a descriptor. */
static void send_file(int channel, size_t bytes)
{
    char nothing[8] = "";
    struct iovec part = {.iov_base = nothing, .iov_len = bytes};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control};
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

    ck_assert_int_ge(file, 0);
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.head), &file, sizeof file);
    ck_assert_int_eq(sendmsg(channel, &header, MSG_NOSIGNAL), (ssize_t)bytes);
    (void)close(file);
}

SUITE("hubs")
GROUP(ranks, open_hubs, close_hubs)

/* Letters of no bytes, and of too few, bring descriptors. */
TEST_LOOP(ranks, descriptors_of_bad_letters_are_closed, 0, 2)
{
    int before = count_descriptors();
    int stranger;

    begin_host();
    stranger = connect_to_host();
    send_file(stranger, _i == 0 ? 0 : 8);
    meet();
    (void)close(stranger);
    /* Each rank has a channel, and a descriptor of the other process. */
    ck_assert_int_eq(count_descriptors(), before + 4);
}

/* -- Exchanges -- */

static void *exchange(void *nothing)
{
    int all[TN_RANKS_MAX];

    with.statuses[1] = tn_hub_exchange(&with.hubs[1], STDERR_FILENO, all, soon());
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "no file descriptor left"));
    return nothing;
}

static void limit_descriptors(rlim_t count)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count != 0 ? count : limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* The others hear of it at once. */
TEST(ranks, rank_0_lacks_descriptors)
{
    uint64_t begun = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    int all[TN_RANKS_MAX];
    pthread_t guest;
    int next;

    begin_host();
    meet();
    ck_assert_int_eq(pthread_create(&guest, NULL, exchange, NULL), 0);
    next = dup(STDERR_FILENO);
    (void)close(next);
    limit_descriptors((rlim_t)next);
    with.statuses[0] = tn_hub_exchange(&with.hubs[0], STDERR_FILENO, all, soon());
    ck_assert_int_eq(pthread_join(guest, NULL), 0);
    limit_descriptors(0);
    STATUS(TARN_ERR_LIMIT, with.statuses[0]);
    STATUS(TARN_ERR_PEER_LOST, with.statuses[1]);
    ck_assert_uint_lt(tn_clock_nanoseconds(CLOCK_MONOTONIC) - begun, UINT64_C(50000000000));
}

/* -- Other users: a user may become another one where it is root -- */

enum { NOBODY = 65534 };

/* Runs in a process of another user. */
static void run_as_nobody(void (*body)(void))
{
    int status = -1;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        alarm(100);
        if (setresuid(NOBODY, NOBODY, NOBODY) != 0)
            _exit(1);
        body();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

static struct {
    char bytes[4096];
    ssize_t count;
} hello; /* of a rank 1 with too large a world: it would break the group */

static void record_hello(void)
{
    struct tn_hub hub = with.hubs[1];
    int processes[TN_RANKS_MAX];
    int listening = -1;
    int channel = -1;

    (void)snprintf(hub.name, sizeof hub.name, "@tarn-hub-%d-hello", (int)getpid());
    hub.world = 3;
    OK(tn_channel_listen(hub.name, &listening));
    OK(tn_hub_meet(&hub, soon(), processes));
    OK(tn_channel_accept(listening, &channel));
    hello.count = recv(channel, hello.bytes, sizeof hello.bytes, 0);
    ck_assert_int_gt(hello.count, 0);
    tn_hub_close(&hub);
    tn_channel_close(&processes[0]);
    tn_channel_close(&channel);
    tn_channel_close(&listening);
}

/* Rank 0 hangs up without a letter. */
static void break_the_group(void)
{
    int channel = connect_to_host();
    char byte;

    (void)send(channel, hello.bytes, (size_t)hello.count, MSG_NOSIGNAL);
    if (recv(channel, &byte, 1, 0) > 0)
        _exit(2);
}

TEST(ranks, another_user_breaks_no_group)
{
    if (geteuid() != 0)
        return;
    record_hello();
    begin_host();
    run_as_nobody(break_the_group);
    meet();
}

static void join_the_group(void)
{
    int processes[TN_RANKS_MAX];

    if (tn_hub_meet(&with.hubs[1], soon(), processes) != TARN_ERR_NOT_PERMITTED)
        _exit(3);
}

TEST(ranks, another_user_heads_no_group)
{
    if (geteuid() != 0)
        return;
    begin_host();
    run_as_nobody(join_the_group);
    meet();
}
