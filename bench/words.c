// SPDX-License-Identifier: Apache-2.0
/* tarn_words -- measures order by words: a round of two streams, and barriers of several processes
 * on one GPU.
 *
 *     tarn_words [--quick]
 *
 * Prints a line for each figure: a number, its unit, what was measured. The row `words` of
 * tarn_bench runs this program, since processes that share a GPU must be forked before the driver
 * is loaded.
 *
 * A round is two signals and two waits: there, and back. Rounds and barriers are enqueued one
 * behind the other, and waited for at the end. A graph has ten barriers, in the four steps that can
 * be replayed. All times are those of the first process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base.h"
#include "driver.h"
#include "driver/open.h"
#include "share/pad.h"

/* A message of one byte that carries a file descriptor. */
union message_room {
    struct cmsghdr header; /* which aligns it */
    char bytes[CMSG_SPACE(sizeof(int))];
};

enum { RANKS_MAX = 8, ROUNDS = 200, QUICK_ROUNDS = 10, IN_GRAPH = 10, SAMPLES = 9 };

/* A process of a group. */
struct rank {
    struct tn_gpu gpu;
    struct tn_pad *pad;
    tarn_stream stream;
    tarn_stream other; /* of a round */
    tn_cu_graphexec exec;
    unsigned int number;
    unsigned int count; /* of the group */
    int channels[RANKS_MAX];
    size_t rounds;
};

static void open_rank(struct rank *rank)
{
    const struct tn_driver *driver = NULL;

    bench_driver_open();
    BENCH_OK(tn_driver_load(&driver));
    BENCH_OK(tn_gpu_open(&rank->gpu, driver, 0));
    rank->stream = bench_stream_create();
    rank->other = bench_stream_create();
}

static int by_size(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

/* Prints the middle of the samples; the first process alone. */
static void measure(struct rank *rank, void (*enqueue)(struct rank *rank), size_t in_one,
                    const char *what)
{
    double samples[SAMPLES];

    for (int i = 0; i <= SAMPLES; i++) {
        uint64_t begun = bench_now();

        for (size_t round = 0; round < rank->rounds; round += in_one)
            enqueue(rank);
        bench_stream_drain(rank->stream);
        if (i > 0) /* the first warms up */
            samples[i - 1] = (double)(bench_now() - begun) / (double)rank->rounds / 1e3;
    }
    qsort(samples, SAMPLES, sizeof samples[0], by_size);
    if (rank->number == 0)
        printf("%.3f us %s\n", samples[SAMPLES / 2], what);
    (void)fflush(stdout);
}

/* -- Two streams ------------------------------------------------------------------------------- */

static void enqueue_round(struct rank *rank)
{
    const struct tn_cell there = {.index = 0, .generation = 1};
    const struct tn_cell back = {.index = 1, .generation = 1};
    uint64_t value = 0;

    BENCH_OK(tn_pad_signal(rank->pad, rank->stream, there, &value));
    BENCH_OK(tn_pad_wait(rank->pad, rank->other, there, value));
    BENCH_OK(tn_pad_signal(rank->pad, rank->other, back, &value));
    BENCH_OK(tn_pad_wait(rank->pad, rank->stream, back, value));
}

static void make_pad(struct rank *rank, enum tn_word_place place, uint32_t cells)
{
    struct tn_cell cell;

    BENCH_OK(tn_pad_create(&rank->gpu, place, cells, rank->stream, &rank->pad));
    for (uint32_t i = 0; i < cells; i++)
        BENCH_OK(tn_pad_acquire(rank->pad, &cell));
}

static void measure_streams(struct rank *rank)
{
    open_rank(rank);
    make_pad(rank, TN_WORDS_ON_HOST, 2);
    measure(rank, enqueue_round, 1, "round of two streams, page-locked");
    tn_pad_destroy(rank->pad);
    make_pad(rank, TN_WORDS_ON_DEVICE, 2);
    measure(rank, enqueue_round, 1, "round of two streams, device");
    tn_pad_destroy(rank->pad);
}

/* -- Several processes ------------------------------------------------------------------------- */

static void enqueue_barrier(struct rank *rank)
{
    struct tn_pad_cell outgoing[RANKS_MAX];
    struct tn_pad_cell incoming[RANKS_MAX];
    uint32_t count = 0;

    for (unsigned int peer = 0; peer < rank->count; peer++) {
        if (peer == rank->number)
            continue;
        outgoing[count] = (struct tn_pad_cell){
            rank->pad, {.index = rank->number * rank->count + peer, .generation = 1}};
        incoming[count++] = (struct tn_pad_cell){
            rank->pad, {.index = peer * rank->count + rank->number, .generation = 1}};
    }
    BENCH_OK(tn_pad_barrier(rank->stream, outgoing, incoming, count));
}

static void enqueue_graph(struct rank *rank)
{
    BENCH_CU(cu.cuGraphLaunch(rank->exec, rank->stream));
}

static void capture_barriers(struct rank *rank)
{
    tn_cu_graph graph = NULL;

    BENCH_CU(cu.cuStreamBeginCapture(rank->stream, TN_CU_CAPTURE_MODE_GLOBAL));
    for (int i = 0; i < IN_GRAPH; i++)
        enqueue_barrier(rank);
    BENCH_CU(cu.cuStreamEndCapture(rank->stream, &graph));
    BENCH_CU(cu.cuGraphInstantiateWithFlags(&rank->exec, graph, 0));
    BENCH_CU(cu.cuGraphDestroy(graph));
}

static void send_file(int channel, int file)
{
    union message_room room = {.bytes = {0}};
    struct iovec part = {.iov_base = (char[]){'f'}, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof room.bytes};

    room.header = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof file), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&room.header), &file, sizeof file);
    if (sendmsg(channel, &message, MSG_NOSIGNAL) != 1)
        bench_fail("no descriptor can be sent");
}

static int receive_file(int channel)
{
    union message_room room = {.bytes = {0}};
    struct iovec part = {.iov_base = (char[]){0}, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = room.bytes,
                             .msg_controllen = sizeof room.bytes};
    int file = -1;

    if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == NULL)
        bench_fail("no descriptor has come");
    memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
    return file;
}

/* The first process sends the pad to the others, and all begin together. */
static void share_pad(struct rank *rank)
{
    uint32_t cells = rank->count * rank->count;
    int file = -1;

    if (rank->number == 0) {
        make_pad(rank, TN_WORDS_ON_DEVICE, cells);
        BENCH_OK(tn_pad_export(rank->pad, &file));
        for (unsigned int peer = 1; peer < rank->count; peer++)
            send_file(rank->channels[peer], file);
    } else {
        file = receive_file(rank->channels[0]);
        BENCH_OK(tn_pad_import(&rank->gpu, TN_WORDS_ON_DEVICE, cells, file, &rank->pad));
        for (uint32_t i = 0; i < cells; i++)
            BENCH_OK(tn_pad_adopt(rank->pad, (struct tn_cell){.index = i, .generation = 1}));
    }
    close(file);
}

static void measure_barriers(struct rank *rank)
{
    char what[64];

    open_rank(rank);
    share_pad(rank);
    (void)snprintf(what, sizeof what, "barrier of %u processes", rank->count);
    measure(rank, enqueue_barrier, 1, what);
    capture_barriers(rank);
    (void)snprintf(what, sizeof what, "barrier of %u processes, in a graph", rank->count);
    measure(rank, enqueue_graph, IN_GRAPH, what);
    BENCH_CU(cu.cuGraphExecDestroy(rank->exec));
    enqueue_barrier(rank); /* nobody ends the pad before all are done */
    bench_stream_drain(rank->stream);
    tn_pad_destroy(rank->pad);
}

/* -- Groups ------------------------------------------------------------------------------------ */

/* Channels between the first process and each other one. */
static void be_rank(int (*channels)[2], unsigned int number, unsigned int count, size_t rounds)
{
    static struct rank rank;

    rank.number = number;
    rank.count = count;
    rank.rounds = rounds;
    if (number > 0)
        rank.channels[0] = channels[number][1];
    for (unsigned int peer = 1; peer < count && number == 0; peer++)
        rank.channels[peer] = channels[peer][0];
    if (count == 1)
        measure_streams(&rank);
    else
        measure_barriers(&rank);
    _exit(0);
}

static void run_group(unsigned int count, size_t rounds)
{
    int channels[RANKS_MAX][2] = {{-1, -1}};
    pid_t pids[RANKS_MAX];
    bool failed = false;

    for (unsigned int i = 1; i < count; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channels[i]) != 0)
            bench_fail("no socket");
    }
    for (unsigned int i = 0; i < count; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            be_rank(channels, i, count, rounds);
    }
    for (unsigned int i = 0; i < count; i++) {
        int status = -1;

        failed |= waitpid(pids[i], &status, 0) != pids[i] || status != 0;
        close(channels[i][0]);
        close(channels[i][1]);
    }
    if (failed)
        bench_fail("a process of %u has failed", count);
}

int main(int count, char **arguments)
{
    bool quick = count == 2 && strcmp(arguments[1], "--quick") == 0;

    if (count > 1 && !quick)
        bench_fail("usage: tarn_words [--quick]");
    for (unsigned int ranks = 1; ranks <= RANKS_MAX; ranks *= 2)
        run_group(ranks, quick ? QUICK_ROUNDS : ROUNDS);
    return 0;
}
