// SPDX-License-Identifier: Apache-2.0
/* Processes that meet at barriers of words, and are killed.
 *
 * Some processes, the ranks, have mapped one pad and one piece of device memory. In each round a
 * rank writes its number there, meets the others, copies what they wrote, and meets them again. The
 * words are on the host or on the device; a round is enqueued, or is a graph that is replayed.
 *
 *   - what a rank copied are the numbers of that very round
 *   - a rank is killed at a random moment: every other one ends its waits and has a stream that
 *     works, and what it copied before is right
 *
 *     TARN_KILLS=... TARN_KILL_SEED=... stress_ranks
 *
 * repeats a run: each kill has a seed of its own, and prints it when it fails. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver/open.h"
#include "share/pad.h"
#include "support/apart.h"
#include "support/pass.h"
#include "support/world.h"

SUITE("ranks that meet by words")

enum {
    RANKS_MAX = 8,
    ROUNDS = 30,
    AHEAD = 4, /* rounds that are enqueued before the first is looked at */
    LONGEST_KILL_US = 20000,
    HUNG_S = 10,   /* for a survivor's stream to end */
    CHILD_S = 120, /* for all that a rank does */
};

struct plan {
    unsigned int seed;
    unsigned int ranks;
    enum tn_word_place place;
    bool in_graph;
    int victim; /* -1: nobody is killed */
    long kill_us;
};

/* -- A rank ----------------------------------------------------------------------------------- */

struct rank {
    const struct plan *plan;
    unsigned int number;
    int channel; /* to the parent */
    struct tn_gpu gpu;
    struct tn_pad *pad;
    struct tn_word_memory data; /* a word of each rank, 64 bytes apart */
    tn_cu_stream stream;
    tn_cu_stream helper;
    tn_cu_graphexec exec; /* of a round; NULL where none is captured */
    uint32_t *seen;       /* page-locked: what was copied in each round, by rank; of a graph once */
    uint32_t enqueued;    /* rounds */
    uint32_t verified;
};

/* A rank is no process of Check's, and says itself what went wrong. */
static void must(bool holds, const struct rank *rank, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "seed %u, rank %u of %u, round %u: %s; %s\n", rank->plan->seed, rank->number,
            rank->plan->ranks, rank->enqueued, what, tarn_last_error());
    _exit(1);
}

#define MUST(rank, condition) must((condition), (rank), #condition)

static void nap(long microseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The cell that the first rank writes and the second waits for. */
static struct tn_pad_cell cell_between(const struct rank *rank, unsigned int from, unsigned int to)
{
    return (struct tn_pad_cell){
        .pad = rank->pad,
        .cell = {.index = from * rank->plan->ranks + to, .generation = 1},
    };
}

/* The first rank makes the pad and the data, and the parent passes both on. */
static void make_shared(struct rank *rank)
{
    uint32_t cells = rank->plan->ranks * rank->plan->ranks;
    struct tn_cell cell;
    int file = -1;

    MUST(rank,
         tn_pad_create(&rank->gpu, rank->plan->place, cells, rank->stream, &rank->pad) == TARN_OK);
    for (uint32_t i = 0; i < cells; i++)
        MUST(rank, tn_pad_acquire(rank->pad, &cell) == TARN_OK && cell.index == i);
    MUST(rank, tn_word_memory_create(&rank->gpu, TN_WORDS_ON_DEVICE, 64 * RANKS_MAX, &rank->data) ==
                   TARN_OK);
    test_set_words(rank->stream, (void *)(uintptr_t)rank->data.address, 0, 16 * RANKS_MAX);
    test_synchronize(rank->stream);
    MUST(rank, tn_pad_export(rank->pad, &file) == TARN_OK && test_pass_send(rank->channel, file));
    close(file);
    MUST(rank, tn_word_memory_export(&rank->gpu, &rank->data, &file) == TARN_OK &&
                   test_pass_send(rank->channel, file));
    close(file);
}

static void map_shared(struct rank *rank)
{
    uint32_t cells = rank->plan->ranks * rank->plan->ranks;
    int pad = test_pass_receive(rank->channel);
    int data = test_pass_receive(rank->channel);

    MUST(rank, pad >= 0 && data >= 0);
    MUST(rank, tn_pad_import(&rank->gpu, rank->plan->place, cells, pad, &rank->pad) == TARN_OK);
    for (uint32_t i = 0; i < cells; i++)
        MUST(rank,
             tn_pad_adopt(rank->pad, (struct tn_cell){.index = i, .generation = 1}) == TARN_OK);
    MUST(rank, tn_word_memory_import(&rank->gpu, TN_WORDS_ON_DEVICE, 64 * RANKS_MAX, data,
                                     &rank->data) == TARN_OK);
    close(pad);
    close(data);
}

static void *data_of(const struct rank *rank, unsigned int number)
{
    return (void *)(uintptr_t)(rank->data.address + 64 * (uint64_t)number);
}

/* The rank waits for all others. */
static void meet(struct rank *rank)
{
    struct tn_pad_cell outgoing[RANKS_MAX];
    struct tn_pad_cell incoming[RANKS_MAX];
    uint32_t count = 0;

    for (unsigned int peer = 0; peer < rank->plan->ranks; peer++) {
        if (peer == rank->number)
            continue;
        outgoing[count] = cell_between(rank, rank->number, peer);
        incoming[count++] = cell_between(rank, peer, rank->number);
    }
    MUST(rank, tn_pad_barrier(rank->stream, outgoing, incoming, count) == TARN_OK);
}

static void copy_all(struct rank *rank, uint32_t *to)
{
    for (unsigned int peer = 0; peer < rank->plan->ranks; peer++)
        test_copy(rank->stream, &to[peer], data_of(rank, peer), sizeof *to);
}

/* A round as a graph: the number is one more at each replay. */
static void capture_round(struct rank *rank)
{
    tn_cu_graph graph;

    test_begin_capture(rank->stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_add(rank->stream, data_of(rank, rank->number), 1, 1);
    meet(rank);
    copy_all(rank, rank->seen);
    meet(rank);
    graph = test_end_capture(rank->stream);
    rank->exec = test_instantiate(graph);
    test_destroy_graph(graph);
}

static void enqueue_round(struct rank *rank)
{
    uint32_t round = rank->enqueued + 1;

    if (rank->exec != NULL) {
        test_launch(rank->exec, rank->stream);
    } else {
        test_set_words(rank->stream, data_of(rank, rank->number), round, 1);
        meet(rank);
        copy_all(rank, &rank->seen[(round % AHEAD) * RANKS_MAX]);
        meet(rank);
    }
    rank->enqueued = round;
}

/* Looks at the rounds that are over. */
static void verify(struct rank *rank)
{
    for (uint32_t round = rank->verified + 1; round <= rank->enqueued; round++) {
        const uint32_t *seen =
            rank->exec != NULL ? rank->seen : &rank->seen[(round % AHEAD) * RANKS_MAX];

        for (unsigned int peer = 0; peer < rank->plan->ranks; peer++)
            MUST(rank, seen[peer] == round);
    }
    rank->verified = rank->enqueued;
}

static bool heard_of_a_death(const struct rank *rank)
{
    char byte;

    return recv(rank->channel, &byte, 1, MSG_DONTWAIT) == 1;
}

/* Works until there are enough rounds, or a rank is dead: then true. */
static bool work(struct rank *rank)
{
    uint32_t ahead = rank->exec != NULL ? 1 : AHEAD;

    while (rank->plan->victim >= 0 || rank->enqueued < ROUNDS) {
        for (uint32_t i = 0; i < ahead; i++)
            enqueue_round(rank);
        while (test_is_at_work(rank->stream)) {
            if (heard_of_a_death(rank))
                return true;
            nap(100);
        }
        verify(rank);
    }
    return false;
}

/* Ends all waits: the group is over, for the ranks may have come to different rounds. */
static void end_waits(struct rank *rank)
{
    double limit = now_s() + HUNG_S;

    while (test_is_at_work(rank->stream)) {
        for (unsigned int peer = 0; peer < rank->plan->ranks; peer++) {
            struct tn_cell to = cell_between(rank, rank->number, peer).cell;
            struct tn_cell from = cell_between(rank, peer, rank->number).cell;

            if (peer != rank->number)
                MUST(rank, tn_pad_finish(rank->pad, to, rank->helper) == TARN_OK &&
                               tn_pad_finish(rank->pad, from, rank->helper) == TARN_OK);
        }
        MUST(rank, now_s() < limit);
        nap(100);
    }
}

static void open_rank(struct rank *rank)
{
    const struct tn_driver *driver;

    alarm(CHILD_S);
    test_start();
    MUST(rank, tn_driver_load(&driver) == TARN_OK);
    MUST(rank, tn_gpu_open(&rank->gpu, driver, 0) == TARN_OK);
    rank->stream = test_stream();
    rank->helper = test_stream();
    rank->seen = test_host_alloc(AHEAD * RANKS_MAX * sizeof *rank->seen);
    if (rank->number == 0)
        make_shared(rank);
    else
        map_shared(rank);
    if (rank->plan->in_graph)
        capture_round(rank);
}

_Noreturn static void be_rank(const struct plan *plan, unsigned int number, int channel)
{
    static struct rank rank;
    char byte = 'r';

    test_apart(channel);
    rank.plan = plan;
    rank.number = number;
    rank.channel = channel;
    open_rank(&rank);
    MUST(&rank, send(channel, &byte, 1, MSG_NOSIGNAL) == 1);
    MUST(&rank, recv(channel, &byte, 1, 0) == 1);
    if (work(&rank)) {
        MUST(&rank, send(channel, &byte, 1, MSG_NOSIGNAL) == 1);
        MUST(&rank, recv(channel, &byte, 1, 0) == 1);
        end_waits(&rank);
    }
    test_synchronize(rank.helper);
    /* The stream works, and nothing is poisoned. */
    test_set_words(rank.stream, data_of(&rank, number), 7, 1);
    test_synchronize(rank.stream);
    MUST(&rank, tn_gpu_check(&rank.gpu) == TARN_OK);
    tn_pad_destroy(rank.pad);
    tn_word_memory_end(&rank.gpu, &rank.data);
    MUST(&rank, tn_gpu_check(&rank.gpu) == TARN_OK);
    _exit(0);
}

/* -- The parent ------------------------------------------------------------------------------- */

struct group {
    pid_t pids[RANKS_MAX];
    int channels[RANKS_MAX];
};

static void start(const struct plan *plan, struct group *group)
{
    for (unsigned int i = 0; i < plan->ranks; i++) {
        int ends[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        group->channels[i] = ends[0];
        group->pids[i] = fork();
        if (group->pids[i] == 0)
            be_rank(plan, i, ends[1]);
        close(ends[1]);
    }
}

/* Passes the first rank's files on, and lets all begin. */
static void let_begin(const struct plan *plan, const struct group *group)
{
    char byte;

    for (int i = 0; i < 2; i++) {
        int file = test_pass_receive(group->channels[0]);

        ck_assert_int_ge(file, 0);
        for (unsigned int peer = 1; peer < plan->ranks; peer++)
            ck_assert(test_pass_send(group->channels[peer], file));
        close(file);
    }
    for (unsigned int i = 0; i < plan->ranks; i++)
        ck_assert_int_eq(recv(group->channels[i], &byte, 1, 0), 1);
    for (unsigned int i = 0; i < plan->ranks; i++)
        ck_assert_int_eq(send(group->channels[i], "g", 1, MSG_NOSIGNAL), 1);
}

/* Survivors end waits when all of them know of the death: a rank that did not would take what it has
 * copied for the round's. */
static void kill_victim(const struct plan *plan, const struct group *group)
{
    pid_t victim = group->pids[plan->victim];
    char byte;

    nap(plan->kill_us);
    ck_assert_int_eq(kill(victim, SIGKILL), 0);
    ck_assert_int_eq(waitpid(victim, NULL, 0), victim); /* nothing of it runs any more */
    for (unsigned int i = 0; i < plan->ranks; i++) {
        if ((int)i != plan->victim)
            ck_assert_int_eq(send(group->channels[i], "d", 1, MSG_NOSIGNAL), 1);
    }
    for (unsigned int i = 0; i < plan->ranks; i++) {
        if ((int)i != plan->victim)
            ck_assert_int_eq(recv(group->channels[i], &byte, 1, 0), 1);
    }
    for (unsigned int i = 0; i < plan->ranks; i++) {
        if ((int)i != plan->victim)
            ck_assert_int_eq(send(group->channels[i], "e", 1, MSG_NOSIGNAL), 1);
    }
}

static void run(const struct plan *plan)
{
    struct group group;

    start(plan, &group);
    let_begin(plan, &group);
    if (plan->victim >= 0)
        kill_victim(plan, &group);
    for (unsigned int i = 0; i < plan->ranks; i++) {
        int status = -1;

        if ((int)i != plan->victim) {
            ck_assert_int_eq(waitpid(group.pids[i], &status, 0), group.pids[i]);
            ck_assert_msg(status == 0, "TARN_KILL_SEED=%u: rank %u ended with %x", plan->seed, i,
                          (unsigned int)status);
        }
        close(group.channels[i]);
    }
}

GROUP(ranks, NULL, NULL, .timeout = 800)

TEST_LOOP(ranks, what_they_copy_is_of_the_round, 0, 12)
{
    static const unsigned int counts[] = {2, 4, 8};

    run(&(struct plan){.ranks = counts[_i / 4],
                       .place = _i % 2 == 0 ? TN_WORDS_ON_HOST : TN_WORDS_ON_DEVICE,
                       .in_graph = _i / 2 % 2 == 1,
                       .victim = -1});
}

static unsigned int number_from(const char *name, unsigned int otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : (unsigned int)strtoul(text, NULL, 10);
}

TEST(ranks, survivors_of_a_kill_go_on)
{
    unsigned int kills = number_from("TARN_KILLS", 1000);
    unsigned int first = number_from("TARN_KILL_SEED", 1);

    for (unsigned int seed = first; seed < first + kills; seed++) {
        unsigned int dice = seed * 2654435761u;
        struct plan plan = {.seed = seed,
                            .ranks = 2 + dice % 3,
                            .place = dice / 3 % 2 == 0 ? TN_WORDS_ON_HOST : TN_WORDS_ON_DEVICE,
                            .in_graph = dice / 6 % 2 == 1,
                            .kill_us = (long)(dice / 12 % LONGEST_KILL_US)};

        plan.victim = (int)(dice / 97 % plan.ranks);
        run(&plan);
    }
}
