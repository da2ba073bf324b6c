// SPDX-License-Identifier: Apache-2.0
/* Processes in a ring send each other blocks as messages: each produces for the next one, and consumes
 * what the one before sends. A block is filled with a number, shared, and freed at once; the
 * consumer reads the number in all of its words when it is opened, and again before it is closed.
 * At the end nothing is left in any process.
 *
 *     TARN_MESSAGES=... TARN_MESSAGE_SEED=... stress_share_messages
 *
 * has as many messages in all, by turns in rings of two to eight processes. On a GPU: CK_FORK=yes. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/apart.h"
#include "support/cuda.h"

SUITE("messages between processes that share memory")

enum { MOST = 8, QUEUE = 32, OPEN_MOST = 12, SLOTS = 24, WORDS_MOST = 4096 };

#define PATIENCE_NS UINT64_C(60000000000)

/* Shares on their way to one process, in memory of all. */
struct queue {
    _Atomic uint64_t sent; /* by the producer */
    _Atomic uint64_t taken;
    struct letter {
        uint32_t number;
        uint32_t words;
        tarn_share share;
    } letters[QUEUE];
};

static struct ring {
    char names[MOST][56];
    atomic_uint listening;
    struct queue queues[MOST]; /* by receiver */
} * ring;

struct message {
    void *address; /* NULL: none */
    uint32_t number;
    uint32_t words;
};

/* A process of the ring. */
static struct {
    tarn_device *device;
    tn_cu_stream stream;
    tarn_pool *pool;
    tarn_listener *listener;
    tarn_connection *next;   /* that it produces for */
    tarn_connection *before; /* that it consumes of */
    struct message open[OPEN_MOST];
    uint64_t random;
} self;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition,               \
                          tarn_last_error());                                                      \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* SplitMix64, by S. Vigna. */
static uint32_t below(uint32_t bound)
{
    uint64_t z = self.random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ (z >> 31)) % bound);
}

static void pause_shortly(void)
{
    const struct timespec time = {.tv_nsec = 50000};

    (void)nanosleep(&time, NULL);
}

/* Contents: simulated memory is the process's, too -------------------------------------------------- */

static void fill(void *block, uint32_t number, uint32_t words)
{
    uint32_t *at = block;

    if (!test_is_simulated()) {
        test_fill(self.stream, block, number, words);
        test_synchronize(self.stream);
        return;
    }
    for (uint32_t i = 0; i < words; i++)
        at[i] = number;
}

static bool is_filled(const void *block, uint32_t number, uint32_t words)
{
    static uint32_t copy[WORDS_MOST];
    const uint32_t *at = block;

    if (!test_is_simulated()) {
        CU_OK(cu.cuMemcpyDtoHAsync(copy, (tn_cu_deviceptr)(uintptr_t)block, words * sizeof *copy,
                                   self.stream));
        test_synchronize(self.stream);
        at = copy;
    }
    for (uint32_t i = 0; i < words; i++) {
        if (at[i] != number)
            return false;
    }
    return true;
}

/* Messages ------------------------------------------------------------------------------------------ */

/* Sends one message. False: the consumer has as many as it may have. */
static bool send_one(struct queue *queue, uint32_t number)
{
    const uint64_t at = atomic_load(&queue->sent);
    struct letter *letter = &queue->letters[at % QUEUE];
    tarn_status status;
    void *block;

    if (at - atomic_load(&queue->taken) == QUEUE)
        return false;
    letter->number = number;
    letter->words = 1 + below(WORDS_MOST);
    MUST(tarn_pool_malloc(self.pool, letter->words * sizeof(uint32_t), 0, self.stream, &block) ==
         TARN_OK);
    fill(block, number, letter->words);
    status = tarn_share_block(self.next, block, &letter->share);
    MUST(status == TARN_OK || status == TARN_ERR_LIMIT || status == TARN_ERR_BUSY);
    MUST(tarn_free(block) == TARN_OK); /* it waits for its lease */
    if (status == TARN_OK)
        atomic_store(&queue->sent, at + 1);
    return status == TARN_OK;
}

static void close_one(struct message *message)
{
    MUST(is_filled(message->address, message->number, message->words));
    MUST(tarn_share_close(self.before, message->address) == TARN_OK);
    message->address = NULL;
}

/* Receives one message; false: there is none. */
static bool receive_one(struct queue *queue)
{
    const uint64_t at = atomic_load(&queue->taken);
    const struct letter *letter = &queue->letters[at % QUEUE];
    struct message *message = &self.open[below(OPEN_MOST)];

    if (atomic_load(&queue->sent) == at)
        return false;
    if (message->address != NULL)
        close_one(message);
    *message = (struct message){NULL, letter->number, letter->words};
    MUST(tarn_share_open(self.before, &letter->share, PATIENCE_NS, &message->address) == TARN_OK);
    atomic_store(&queue->taken, at + 1);
    MUST(is_filled(message->address, message->number, message->words));
    return true;
}

/* A process of the ring ----------------------------------------------------------------------------- */

static void begin_process(uint32_t number, uint32_t count)
{
    tarn_listener_options options = TARN_LISTENER_OPTIONS_INIT;
    tarn_pool_options pool_options = TARN_POOL_OPTIONS_INIT;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    test_start();
    self.stream = test_stream();
    MUST(tarn_device_open(0, NULL, &self.device) == TARN_OK);
    pool_options.flags = TARN_POOL_SHARED;
    options.lease_slots = SLOTS;
    MUST(tarn_pool_create(self.device, &pool_options, &self.pool) == TARN_OK);
    MUST(tarn_listener_create(self.device, &options, &self.listener) == TARN_OK);
    MUST(tarn_listener_name(self.listener, ring->names[number]) == TARN_OK);
    atomic_fetch_add(&ring->listening, 1);
    while (atomic_load(&ring->listening) < count)
        pause_shortly();
    MUST(tarn_connection_open(self.device, ring->names[(number + count - 1) % count],
                              &self.before) == TARN_OK);
    while (self.next == NULL) {
        MUST(tarn_listener_progress(self.listener) == TARN_OK);
        if (tarn_listener_accept(self.listener, &self.next) != TARN_OK)
            pause_shortly();
    }
}

static void end_process(void)
{
    for (size_t i = 0; i < OPEN_MOST; i++) {
        if (self.open[i].address != NULL)
            close_one(&self.open[i]);
    }
    MUST(tarn_connection_destroy(self.before) == TARN_OK);
    while (tarn_connection_destroy(self.next) == TARN_ERR_BUSY)
        pause_shortly();
    MUST(tarn_listener_destroy(self.listener) == TARN_OK);
    MUST(tarn_pool_validate(self.pool) == TARN_OK);
    MUST(tarn_pool_destroy(self.pool) == TARN_OK);
    MUST(tarn_device_close(self.device) == TARN_OK);
}

static _Noreturn void take_part(uint32_t number, uint32_t count, uint64_t messages, uint64_t seed)
{
    struct queue *to = &ring->queues[(number + 1) % count];
    struct queue *from = &ring->queues[number];
    tarn_sim_ledger before = {0};
    uint64_t sent = 0;
    uint64_t received = 0;

    test_apart(-1);
    self.random = seed + number;
    test_start();
    if (test_is_simulated())
        before = test_ledger();
    begin_process(number, count);
    while (sent < messages || received < messages) {
        bool moved = false;

        if (sent < messages && send_one(to, (uint32_t)sent * MOST + number)) {
            sent += 1;
            moved = true;
        }
        if (received < messages && receive_one(from)) {
            received += 1;
            moved = true;
        }
        if (below(64) == 0)
            MUST(tarn_pool_trim(self.pool, NULL) == TARN_OK);
        MUST(moved || tarn_listener_progress(self.listener) == TARN_OK);
        if (!moved)
            pause_shortly();
    }
    end_process();
    if (test_is_simulated()) {
        tarn_sim_ledger after = test_ledger();

        MUST(after.handles == before.handles && after.mappings == before.mappings &&
             after.reserved_bytes == before.reserved_bytes);
    }
    _exit(0);
}

static void send_around(uint32_t count, uint64_t messages, uint64_t seed)
{
    pid_t children[MOST];

    memset(ring, 0, sizeof *ring);
    for (uint32_t i = 0; i < count; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0)
            take_part(i, count, messages, seed);
    }
    for (uint32_t i = 0; i < count; i++) {
        int status;

        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                      "seed %llu: process %u of %u has failed: status %x", (unsigned long long)seed,
                      i, count, (unsigned)status);
    }
}

GROUP(messages, NULL, .timeout = 20000)

TEST(messages, what_is_sent_arrives_whole_and_leaves_nothing)
{
    const uint64_t all = test_setting("TARN_MESSAGES", 28000);
    const uint64_t seed = test_seed("TARN_MESSAGE_SEED", 1);

    ring = mmap(NULL, sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(ring, MAP_FAILED);
    for (uint32_t count = 2; count <= MOST; count++)
        send_around(count, all / (MOST - 1) / count, seed + count);
}
