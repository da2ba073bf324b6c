// SPDX-License-Identifier: Apache-2.0
/* Processes that share memory are killed at every step of the protocol, and the other one goes on.
 *
 * A producer allocates blocks, fills each with a number of its own, shares, frees and collects. A
 * consumer opens the shares, and reads each block when it is opened and again before it is closed: a
 * block that was given to somebody else meanwhile has another number. A step is a function of the
 * library's, before or behind which the process kills itself. Half of the shares are handed on by
 * streams: the consumer's copies a block behind the producer's filling, and returns it. Afterwards the
 * survivor must end by itself, in time, with nothing left and no stream that waits:
 *
 *   - the producer has all memory of its pool back
 *   - the consumer closes what it has open, whose bytes have stayed, and has nothing mapped
 *
 *     TARN_KILLS=... TARN_KILL_SEED=... stress_shares
 *
 * repeats a run: each kill has a seed of its own, and prints it when it fails. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "share/channel.h"
#include "share/handoff.h"
#include "share/process.h"
#include "share/tables.h"
#include "support/apart.h"
#include "support/cuda.h"
#include "support/nodes.h"
#include "vmm/imports.h"

SUITE("killed processes that share memory")

enum { BOXES = 16, BLOCKS = 12, ROUNDS = 300, OPEN_MOST = 8, SECONDS = 30, WORDS_MOST = 4096 };

/* A share on its way from the producer to the consumer, in memory of both. */
struct box {
    atomic_int full; /* the producer fills, the consumer empties */
    uint32_t number; /* in each word of the block */
    uint32_t words;
    bool by_stream;
    tarn_share share;
};

static struct notes {
    char name[56];
    atomic_bool listening;
    atomic_int steps[2]; /* where each process is to be killed: twice the step, and 1 behind it */
    atomic_bool producer_over; /* it shares no more */
    atomic_bool consumer_over; /* its process has ended: for a producer that never saw it */
    struct box boxes[BOXES];
} * notes;

/* Check notes each assertion in a file: of the children, which may be killed then, none. --------- */

static bool is_child;

void __wrap__mark_point(const char *file, int line);
void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line)
{
    if (!is_child)
        __real__mark_point(file, line);
}

/* Steps ----------------------------------------------------------------------------------------- */

enum step {
    TABLES_MADE,
    TABLES_OPENED,
    PROCESS_FOUND,
    SENT,
    RECEIVED,
    EXPORTED,
    IMPORTED,
    WATCHED,
    WATCH_ENDED,
    USED,
    LEFT,
    WORDS_MADE,
    WORDS_OPENED,
    WORD_WRITTEN,
    WORD_AWAITED,
    STEPS
};

/* How often a step is passed at least, about, in a life without a kill. */
static const uint32_t passes[STEPS] = {
    [TABLES_MADE] = 1,  [TABLES_OPENED] = 1, [PROCESS_FOUND] = 1, [SENT] = 1,
    [RECEIVED] = 5,     [EXPORTED] = 1,      [IMPORTED] = 1,      [WATCHED] = 20,
    [WATCH_ENDED] = 3,  [USED] = 8,          [LEFT] = 8,          [WORDS_MADE] = 1,
    [WORDS_OPENED] = 1, [WORD_WRITTEN] = 8,  [WORD_AWAITED] = 8,
};

static struct {
    enum step step;
    bool behind;
    uint32_t left; /* passes before the kill */
    bool armed;
} plan;

static void pass(enum step step, bool behind)
{
    if (!plan.armed || step != plan.step || behind != plan.behind)
        return;
    if (plan.left == 0)
        (void)kill(getpid(), SIGKILL);
    plan.left -= 1;
}

#define STEP(step, type, name, parameters, arguments)                                              \
    type __wrap_##name parameters;                                                                 \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        type result;                                                                               \
                                                                                                   \
        pass(step, false);                                                                         \
        result = __real_##name arguments;                                                          \
        pass(step, true);                                                                          \
        return result;                                                                             \
    }
#define SILENT_STEP(step, name, parameters, arguments)                                             \
    void __wrap_##name parameters;                                                                 \
    void __real_##name parameters;                                                                 \
    void __wrap_##name parameters                                                                  \
    {                                                                                              \
        pass(step, false);                                                                         \
        __real_##name arguments;                                                                   \
        pass(step, true);                                                                          \
    }

STEP(TABLES_MADE, tarn_status, tn_tables_make,
     (struct tn_tables * tables, uint32_t slots, uint32_t chunks), (tables, slots, chunks))
STEP(TABLES_OPENED, tarn_status, tn_tables_open,
     (struct tn_tables * tables, int grants, int returns, uint32_t slots, uint32_t chunks),
     (tables, grants, returns, slots, chunks))
STEP(PROCESS_FOUND, tarn_status, tn_process_find, (int channel, struct tn_process *process),
     (channel, process))
STEP(SENT, tarn_status, tn_channel_send,
     (int channel, const struct tn_message *message, const int *files), (channel, message, files))
STEP(RECEIVED, tarn_status, tn_channel_receive,
     (int channel, struct tn_message *message, int *files), (channel, message, files))
STEP(EXPORTED, tarn_status, tn_gpu_export_memory,
     (struct tn_gpu * gpu, tn_cu_memhandle handle, int *file), (gpu, handle, file))
STEP(IMPORTED, tarn_status, tn_gpu_import_memory,
     (struct tn_gpu * gpu, int file, tn_cu_memhandle *handle), (gpu, file, handle))
STEP(USED, tarn_status, tn_import_use,
     (struct tn_imports * imports, struct tn_import *import, uint64_t *address),
     (imports, import, address))
SILENT_STEP(LEFT, tn_import_leave, (struct tn_imports * imports, struct tn_import *import),
            (imports, import))

STEP(WORDS_MADE, tarn_status, tn_handoff_make,
     (struct tn_gpu * gpu, uint32_t slots, struct tn_handoff *handoff, int *file),
     (gpu, slots, handoff, file))
STEP(WORDS_OPENED, tarn_status, tn_handoff_open,
     (struct tn_gpu * gpu, uint32_t slots, struct tn_handoff *handoff, int file),
     (gpu, slots, handoff, file))
STEP(WORD_WRITTEN, tarn_status, tn_handoff_write,
     (struct tn_gpu * gpu, const struct tn_handoff *handoff, tn_cu_stream on,
      enum tn_handoff_word word, uint32_t slot, uint32_t generation, uint32_t number),
     (gpu, handoff, on, word, slot, generation, number))
STEP(WORD_AWAITED, tarn_status, tn_handoff_wait,
     (struct tn_gpu * gpu, const struct tn_handoff *handoff, tn_cu_stream on, uint32_t slot,
      uint32_t generation),
     (gpu, handoff, on, slot, generation))

struct tn_watch;
STEP(WATCHED, tarn_status, tn_watch_add,
     (struct tn_watch * watch, uint64_t address, uint64_t sequence), (watch, address, sequence))
SILENT_STEP(WATCH_ENDED, tn_watch_end, (struct tn_watch * watch), (watch))

/* Which steps a process has. */
static const struct side {
    const char *name;
    size_t count;
    enum step steps[STEPS];
} sides[2] = {{"producer",
               9,
               {TABLES_MADE, PROCESS_FOUND, SENT, RECEIVED, EXPORTED, WATCHED, WATCH_ENDED,
                WORDS_MADE, WORD_WRITTEN}},
              {"consumer",
               10,
               {TABLES_OPENED, PROCESS_FOUND, SENT, RECEIVED, IMPORTED, USED, LEFT, WORDS_OPENED,
                WORD_WRITTEN, WORD_AWAITED}}};

/* The processes --------------------------------------------------------------------------------- */

static uint64_t random_state;

/* SplitMix64, by S. Vigna. */
static uint32_t below(uint32_t bound)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ (z >> 31)) % bound);
}

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition,               \
                          tarn_last_error());                                                      \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void pause_shortly(void)
{
    const struct timespec time = {.tv_nsec = 50000};

    (void)nanosleep(&time, NULL);
}

static tarn_device *device;
static tn_cu_stream stream;
static tarn_sim_ledger before;

/* Even seeds kill the producer, odd ones the consumer, and each fifth kills both. */
static bool kills_side(uint64_t seed, size_t side)
{
    return seed % 5 == 0 || seed % 2 == side;
}

/* How many seeds up to this one kill the side. */
static uint64_t count_kills(uint64_t seed, size_t side)
{
    return side == 0 ? seed / 2 + (seed + 5) / 10 : (seed + 1) / 2 + seed / 10;
}

/* A side's kills take all steps in turn; where a step comes often, most kills come early: the
 * other process may be killed, too. */
static void plan_kill(uint64_t seed, const struct side *side)
{
    const uint64_t turn = count_kills(seed, (size_t)(side - sides));

    plan.armed = kills_side(seed, (size_t)(side - sides));
    plan.step = side->steps[turn % side->count];
    plan.behind = turn / side->count % 2 == 0;
    plan.left = seed % 5 == 0 || below(2) == 0 ? 0 : below(passes[plan.step]);
    atomic_store(&notes->steps[side - sides], (int)plan.step * 2 + plan.behind);
}

static void begin_process(uint64_t seed, const struct side *side)
{
    is_child = true;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGALRM, SIG_DFL);
    (void)alarm(SECONDS);
    random_state = 2 * seed + (uint64_t)(side - sides);
    plan_kill(seed, side);
    test_start();
    stream = test_stream();
    before = test_ledger();
    MUST(tarn_device_open(0, NULL, &device) == TARN_OK);
}

/* The simulated memory is the process's, too. */
static void fill(void *block, uint32_t number, uint32_t words)
{
    volatile uint32_t *at = block;

    for (uint32_t i = 0; i < words; i++)
        at[i] = number;
}

/* Waits for the stream, which no dead process may hold for ever. */
static void settle(void)
{
    while (test_is_at_work(stream)) {
        MUST(tarn_share_collect(device, NULL) == TARN_OK);
        pause_shortly();
    }
}

static bool is_filled(const void *block, uint32_t number, uint32_t words)
{
    const volatile uint32_t *at = block;

    for (uint32_t i = 0; i < words; i++) {
        if (at[i] != number)
            return false;
    }
    return true;
}

struct block {
    void *address; /* NULL: none */
    uint32_t number;
    uint32_t words;
    bool by_stream; /* of a consumer's: opened so */
};

static bool put_in_box(const tarn_share *share, const struct block *block)
{
    for (size_t i = 0; i < BOXES; i++) {
        struct box *box = &notes->boxes[i];

        if (atomic_load(&box->full) != 0)
            continue;
        box->share = *share;
        box->number = block->number;
        box->words = block->words;
        box->by_stream = block->by_stream;
        atomic_store(&box->full, 1);
        return true;
    }
    return false;
}

/* Frees a block, and shares another one in its place. */
static void renew(struct block *block, tarn_pool *pool, tarn_connection *connection)
{
    static uint32_t last_number;
    tarn_share share;
    tarn_status status;

    if (block->address != NULL)
        MUST(tarn_free(block->address) == TARN_OK);
    block->words = 1 + below(WORDS_MOST);
    block->number = ++last_number;
    MUST(tarn_pool_malloc(pool, block->words * sizeof(uint32_t), 0, stream, &block->address) ==
         TARN_OK);
    block->by_stream = below(2) == 0;
    if (block->by_stream) {
        test_fill(stream, block->address, block->number, block->words);
        status = tarn_share_block_on(connection, block->address, stream, &share);
    } else {
        settle();
        fill(block->address, block->number, block->words);
        status = tarn_share_block(connection, block->address, &share);
    }
    MUST(status == TARN_OK || status == TARN_ERR_PEER_LOST || status == TARN_ERR_LIMIT);
    if (status == TARN_OK)
        (void)put_in_box(&share, block);
}

static bool is_over(tarn_connection *connection)
{
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;

    MUST(tarn_connection_describe(connection, &info) == TARN_OK);
    return info.state >= TARN_CONNECTION_PARTED;
}

/* Waits for the consumer to be gone, or to have returned all, and ends with nothing left. */
static _Noreturn void end_producer(tarn_pool *pool, tarn_listener *listener,
                                   tarn_connection *connection, struct block blocks[BLOCKS])
{
    atomic_store(&notes->producer_over, true);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i].address != NULL)
            MUST(tarn_free(blocks[i].address) == TARN_OK);
    }
    while (connection != NULL && tarn_connection_destroy(connection) == TARN_ERR_BUSY)
        pause_shortly();
    MUST(tarn_listener_destroy(listener) == TARN_OK);
    MUST(tarn_pool_validate(pool) == TARN_OK);
    MUST(tarn_pool_destroy(pool) == TARN_OK);
    MUST(tarn_device_close(device) == TARN_OK);
    test_same_ledger(&before);
    _exit(0);
}

static _Noreturn void produce(uint64_t seed)
{
    tarn_listener_options options = TARN_LISTENER_OPTIONS_INIT;
    tarn_pool_options pool_options = TARN_POOL_OPTIONS_INIT;
    struct block blocks[BLOCKS] = {{NULL, 0, 0, false}};
    tarn_connection *connection = NULL;
    tarn_listener *listener;
    tarn_pool *pool;

    begin_process(seed, &sides[0]);
    options.lease_slots = 24;
    pool_options.flags = TARN_POOL_SHARED;
    MUST(tarn_pool_create(device, &pool_options, &pool) == TARN_OK);
    MUST(tarn_listener_create(device, &options, &listener) == TARN_OK);
    MUST(tarn_listener_name(listener, notes->name) == TARN_OK);
    atomic_store(&notes->listening, true);
    /* A consumer that dies before it has greeted is never seen here. */
    while (connection == NULL && !atomic_load(&notes->consumer_over)) {
        MUST(tarn_listener_progress(listener) == TARN_OK);
        if (tarn_listener_accept(listener, &connection) != TARN_OK)
            pause_shortly();
    }
    for (int round = 0; connection != NULL && round < ROUNDS && !is_over(connection); round++) {
        renew(&blocks[below(BLOCKS)], pool, connection);
        if (below(4) == 0)
            MUST(tarn_listener_progress(listener) == TARN_OK);
        if (below(16) == 0)
            MUST(tarn_pool_trim(pool, NULL) == TARN_OK);
        if (below(8) == 0)
            pause_shortly();
    }
    end_producer(pool, listener, connection, blocks);
}

static void *copies[OPEN_MOST]; /* of blocks, by the consumer's stream */

static bool is_gone(tarn_connection *connection)
{
    tarn_connection_info info = TARN_CONNECTION_INFO_INIT;

    MUST(tarn_connection_describe(connection, &info) == TARN_OK);
    return info.state == TARN_CONNECTION_GONE;
}

/* Behind the wait for a dead process any bytes may be. */
static void expect_filled(tarn_connection *connection, const void *address,
                          const struct block *block)
{
    settle();
    MUST(is_filled(address, block->number, block->words) ||
         (block->by_stream && is_gone(connection)));
}

static tarn_status open_block(tarn_connection *connection, const tarn_share *share,
                              struct block *block)
{
    const uint64_t second = UINT64_C(1000000000);

    return block->by_stream ? tarn_share_open_on(connection, share, stream, second, &block->address)
                            : tarn_share_open(connection, share, second, &block->address);
}

/* Opens the share of a full box; false: there was none. */
static bool open_next(tarn_connection *connection, struct block *block)
{
    for (size_t i = 0; i < BOXES; i++) {
        struct box *box = &notes->boxes[i];
        tarn_status status;

        if (atomic_load(&box->full) == 0)
            continue;
        block->number = box->number;
        block->words = box->words;
        block->by_stream = box->by_stream;
        status = open_block(connection, &box->share, block);
        atomic_store(&box->full, 0);
        MUST(status == TARN_OK || status == TARN_ERR_PEER_LOST);
        if (status != TARN_OK)
            block->address = NULL;
        else if (!block->by_stream)
            MUST(is_filled(block->address, block->number, block->words));
        return true;
    }
    return false;
}

/* By its stream, the block is still being copied when it is closed. */
static void close_block(tarn_connection *connection, struct block *block, void *copy)
{
    if (block->by_stream) {
        test_copy_any(stream, copy, block->address, block->words * sizeof(uint32_t));
        MUST(tarn_share_close_on(connection, block->address, stream) == TARN_OK);
    } else {
        MUST(is_filled(block->address, block->number, block->words));
        MUST(tarn_share_close(connection, block->address) == TARN_OK);
    }
    block->address = NULL;
    if (block->by_stream && below(2) == 0)
        expect_filled(connection, copy, block);
}

static void end_consumer(tarn_connection *connection, struct block blocks[OPEN_MOST])
{
    for (size_t i = 0; i < OPEN_MOST; i++) {
        if (blocks[i].address != NULL)
            close_block(connection, &blocks[i], copies[i]);
    }
    settle();
    for (size_t i = 0; i < OPEN_MOST; i++)
        MUST(tarn_free(copies[i]) == TARN_OK);
    while (tarn_connection_destroy(connection) == TARN_ERR_BUSY)
        pause_shortly(); /* until the alarm */
    MUST(tarn_device_close(device) == TARN_OK);
    test_same_ledger(&before);
}

static _Noreturn void consume(uint64_t seed)
{
    struct block blocks[OPEN_MOST] = {{NULL, 0, 0, false}};
    tarn_connection *connection = NULL;
    bool some = true;

    begin_process(seed, &sides[1]);
    while (!atomic_load(&notes->listening))
        pause_shortly(); /* until the alarm, where the producer died before */
    if (tarn_connection_open(device, notes->name, &connection) != TARN_OK)
        _exit(0); /* it died since */
    for (size_t i = 0; i < OPEN_MOST; i++)
        MUST(tarn_malloc(device, WORDS_MOST * sizeof(uint32_t), stream, &copies[i]) == TARN_OK);
    while (!is_over(connection) && (some || !atomic_load(&notes->producer_over))) {
        const size_t at = below(OPEN_MOST);

        if (blocks[at].address != NULL)
            close_block(connection, &blocks[at], copies[at]);
        some = open_next(connection, &blocks[at]);
        MUST(tarn_share_collect(device, NULL) == TARN_OK);
        if (!some)
            pause_shortly();
    }
    end_consumer(connection, blocks);
    _exit(0);
}

/* The judge ------------------------------------------------------------------------------------- */

static struct {
    uint64_t killed[2];
    uint64_t survived[2];
    uint64_t at[2][2 * STEPS]; /* kills there */
} seen;

/* How a process ended: killed as planned, or by itself with nothing left. */
static bool judge(int status, uint64_t seed, const char *what)
{
    ck_assert_msg(!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL,
                  "seed %llu: the %s ended by signal %d: it hung, or crashed",
                  (unsigned long long)seed, what, WTERMSIG(status));
    ck_assert_msg(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "seed %llu: the %s failed",
                  (unsigned long long)seed, what);
    return WIFSIGNALED(status);
}

static pid_t begin(bool is_producer, uint64_t seed)
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0)
        test_apart(-1);
    if (child == 0 && is_producer)
        produce(seed);
    if (child == 0)
        consume(seed);
    return child;
}

static void kill_some(uint64_t seed)
{
    const bool kills[2] = {kills_side(seed, 0), kills_side(seed, 1)};
    bool ended[2] = {false, false};
    pid_t children[2];

    memset(notes, 0, sizeof *notes);
    for (size_t i = 0; i < 2; i++)
        children[i] = begin(i == 0, seed);
    while (!ended[0] || !ended[1]) {
        for (size_t i = 0; i < 2; i++) {
            int status;
            bool gone;

            if (ended[i] || waitpid(children[i], &status, WNOHANG) != children[i])
                continue;
            ended[i] = true;
            gone = judge(status, seed, sides[i].name);
            ck_assert(!gone || kills[i] || (i == 1 && !atomic_load(&notes->listening)));
            seen.killed[i] += gone;
            if (gone && kills[i])
                seen.at[i][atomic_load(&notes->steps[i])] += 1;
            seen.survived[i] += !gone;
            if (i == 1)
                atomic_store(&notes->consumer_over, true);
            else if (gone && !atomic_load(&notes->listening) && !ended[1])
                (void)kill(children[1], SIGKILL); /* it would wait for its alarm */
        }
        pause_shortly();
    }
}

GROUP(kills, NULL, .timeout = 20000)

TEST(kills, whoever_is_killed_the_other_one_has_everything_back)
{
    const uint64_t kills = test_setting("TARN_KILLS", 1000);
    const uint64_t first = test_seed("TARN_KILL_SEED", 1);

    notes = mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(notes, MAP_FAILED);
    for (uint64_t i = 0; i < kills; i++)
        kill_some(first + i);
    (void)printf("killed: %llu producers, %llu consumers; ended by themselves: %llu and %llu; from "
                 "seed %llu\n",
                 (unsigned long long)seen.killed[0], (unsigned long long)seen.killed[1],
                 (unsigned long long)seen.survived[0], (unsigned long long)seen.survived[1],
                 (unsigned long long)first);
    for (size_t i = 0; i < 2 && kills >= 1000; i++) {
        for (size_t k = 0; k < sides[i].count; k++) {
            const uint64_t *at = &seen.at[i][2 * (size_t)sides[i].steps[k]];

            ck_assert_msg(at[0] + at[1] >= kills / 50 && tn_min(at[0], at[1]) >= kills / 100,
                          "%llu and %llu kills of the %s, before and behind step %zu",
                          (unsigned long long)at[0], (unsigned long long)at[1], sides[i].name, k);
        }
    }
}
