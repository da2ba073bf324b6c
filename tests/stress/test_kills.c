// SPDX-License-Identifier: Apache-2.0
/* A process is killed at a random moment, and its history tells what was live.
 *
 * The program allocates and frees with four threads: on streams of their own, on streams that they
 * share, blocks of each other, in captures, with checkpoints, restores and trims. In memory that its
 * parent has, too, it notes what it asks for before each call, and what it has got behind it. The
 * parent kills it, and reads the file:
 *
 *   - every block that was had, and whose free was not asked for, is told with its very bytes
 *   - no other block is told but those of calls under way
 *   - the log has allocations in the order of their numbers, and a thread's blocks on its own stream
 *     have numbers in the order in which they were had, up to the last one
 *   - a free that was had is missing in the log at most once for each writer
 *
 *     TARN_KILLS=... TARN_KILL_SEED=... stress_kills
 *
 * repeats a run: each kill has a seed of its own, and prints it when it fails. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/ring_file.h"
#include "heap/history.h"
#include "observe/retell.h"
#include "support/apart.h"
#include "support/cuda.h"

SUITE("what is left of killed processes")

enum {
    THREADS = 4,
    COMMON = 192, /* slots for any thread; the first thread's own follow */
    SLOTS = COMMON + 64,
    OPS = 1 << 15, /* of a thread on its own stream */
    /* What the request leaves when divided by 16: a thread's own stream has its number. */
    TAGS = 16,
    TAG_SHARED = 8,
    TAG_PRIVATE = 9,
};

enum slot_state { FREE, ASKED, LIVE, FREEING };

struct slot {
    atomic_flag taken; /* by a thread, for a call */
    _Atomic(enum slot_state) state;
    uint64_t address;
    uint64_t requested;
    uint64_t serial; /* of the block */
    bool matched;    /* by the judge */
};

/* An allocation on a thread's own stream. */
struct op {
    uint64_t address; /* 0: not had */
    uint64_t requested;
};

/* What the program notes, in memory that outlives it. */
struct notes {
    atomic_bool has_begun; /* the device is open */
    atomic_bool restoring;
    struct slot slots[SLOTS];
    struct slot saved[SLOTS]; /* the first thread's own, at the checkpoint */
    atomic_size_t asked[THREADS];
    atomic_size_t had[THREADS];
    struct op ops[THREADS][OPS];
};
static struct notes *notes;

/* Check notes each assertion in a file: of the program, which may be killed then, none. ---------- */

static bool is_program;

void __wrap__mark_point(const char *file, int line);
void __real__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line)
{
    if (!is_program)
        __real__mark_point(file, line);
}

/* The program ------------------------------------------------------------------------------------ */

static uint64_t seed;
static tarn_device *device;
static tarn_pool *own_pool; /* the first thread's */
static tn_cu_stream shared_streams[2];
static tn_cu_context context;

struct worker {
    size_t number;
    uint64_t random;
    tn_cu_stream stream;
    uint64_t blocks; /* so far */
};

/* SplitMix64, by S. Vigna. */
static uint64_t next_random(uint64_t *random)
{
    uint64_t z = *random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t below(struct worker *worker, uint64_t bound)
{
    return next_random(&worker->random) % bound;
}

/* Few sizes, so that many blocks are allocated again; now and then any size. */
static uint64_t random_request(struct worker *worker, uint64_t tag)
{
    uint64_t bytes = 16 * (1 + below(worker, 8) * 97);

    if (below(worker, 16) == 0)
        bytes = 16 * (1 + below(worker, UINT64_C(1) << (4 + below(worker, 14))));
    return bytes + tag;
}

/* The slot is the caller's, and empty. */
static void allocate(struct worker *worker, struct slot *slot, tarn_pool *pool, tn_cu_stream stream,
                     uint64_t tag)
{
    const size_t number = worker->number;
    const size_t op = atomic_load(&notes->asked[number]);
    void *address = NULL;

    slot->requested = random_request(worker, tag);
    if (tag < THREADS) {
        notes->ops[number][op] = (struct op){0, slot->requested};
        atomic_store(&notes->asked[number], op + 1);
    }
    atomic_store(&slot->state, ASKED);
    if (pool != NULL)
        OK(tarn_pool_malloc(pool, slot->requested, 0, stream, &address));
    else
        OK(tarn_malloc(device, slot->requested, stream, &address));
    slot->address = (uint64_t)(uintptr_t)address;
    slot->serial = ++worker->blocks * THREADS + number;
    atomic_store(&slot->state, LIVE);
    if (tag < THREADS) {
        notes->ops[number][op].address = slot->address;
        atomic_store(&notes->had[number], op + 1);
    }
}

static void deallocate(struct worker *worker, struct slot *slot)
{
    void *address = (void *)(uintptr_t)slot->address;

    atomic_store(&slot->state, FREEING);
    if (below(worker, 16) == 0)
        OK(tarn_free_on(address, shared_streams[0]));
    else
        OK(tarn_free(address));
    atomic_store(&slot->state, FREE);
}

static void use_common(struct worker *worker)
{
    struct slot *slot = &notes->slots[below(worker, COMMON)];
    bool is_own = below(worker, 2) == 0;

    if (atomic_flag_test_and_set(&slot->taken))
        return;
    if (atomic_load(&slot->state) == LIVE)
        deallocate(worker, slot);
    else if (is_own)
        allocate(worker, slot, NULL, worker->stream, worker->number);
    else
        allocate(worker, slot, NULL, shared_streams[below(worker, 2)], TAG_SHARED);
    atomic_flag_clear(&slot->taken);
}

static void use_private(struct worker *worker)
{
    struct slot *slot = &notes->slots[COMMON + below(worker, SLOTS - COMMON)];

    if (atomic_load(&slot->state) == LIVE)
        deallocate(worker, slot);
    else
        allocate(worker, slot, own_pool, worker->stream, TAG_PRIVATE);
}

/* A section with some blocks, some of which stay. */
static void capture(struct worker *worker)
{
    tarn_capture_options options = TARN_CAPTURE_OPTIONS_INIT;
    tarn_capture *capture;
    tarn_graph *graph;

    options.mode = TARN_CAPTURE_THREAD_LOCAL;
    OK(tarn_capture_begin(own_pool, worker->stream, &options, &capture));
    for (uint64_t i = below(worker, 12); i > 0; i--)
        use_private(worker);
    OK(tarn_capture_end(capture, &graph));
    if (below(worker, 2) == 0)
        OK(tarn_graph_replay(graph, worker->stream));
    OK(tarn_graph_destroy(graph));
}

static void restore(struct worker *worker, tarn_checkpoint *checkpoint)
{
    const size_t bytes = (SLOTS - COMMON) * sizeof(struct slot);
    tarn_delta *delta = NULL;

    atomic_store(&notes->restoring, true);
    OK(tarn_checkpoint_restore(checkpoint, worker->stream, &delta));
    memcpy(&notes->slots[COMMON], &notes->saved[COMMON], bytes);
    atomic_store(&notes->restoring, false);
    tarn_delta_destroy(delta);
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* What the first thread does besides. */
static void use_all(struct worker *worker, tarn_checkpoint **checkpoint)
{
    const size_t bytes = (SLOTS - COMMON) * sizeof(struct slot);

    use_private(worker);
    if (below(worker, 64) == 0)
        capture(worker);
    if (below(worker, 64) == 0 && *checkpoint == NULL) {
        OK(tarn_checkpoint_take(own_pool, TARN_CONTENTS_NONE, worker->stream, checkpoint));
        memcpy(&notes->saved[COMMON], &notes->slots[COMMON], bytes);
    } else if (below(worker, 64) == 0 && *checkpoint != NULL) {
        restore(worker, *checkpoint);
        *checkpoint = NULL;
    }
    if (below(worker, 200) == 0)
        OK(tarn_device_trim(device, 0, NULL));
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    tarn_checkpoint *checkpoint = NULL;

    if (worker->number > 0)
        CU_OK(cu.cuCtxSetCurrent(context));
    worker->stream = test_stream();
    while (atomic_load(&notes->asked[worker->number]) < OPS) {
        use_common(worker);
        if (worker->number == 0)
            use_all(worker, &checkpoint);
    }
    for (;;)
        (void)pause();
}

static _Noreturn void run_until_killed(void)
{
    static struct worker workers[THREADS];
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    pthread_t thread;

    is_program = true;
    test_apart(-1);
    options.history_bytes = (size_t)64 << (10 + seed % 5);
    test_start();
    OK(tarn_device_open(0, &options, &device));
    OK(tarn_pool_create(device, NULL, &own_pool));
    CU_OK(cu.cuCtxGetCurrent(&context));
    for (size_t i = 0; i < 2; i++)
        shared_streams[i] = test_stream();
    atomic_store(&notes->has_begun, true);
    for (size_t i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.number = i, .random = seed * THREADS + i};
    for (size_t i = 1; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&thread, NULL, work, &workers[i]), 0);
    (void)work(&workers[0]);
    abort();
}

/* The judge -------------------------------------------------------------------------------------- */

#define JUDGE(condition)                                                                           \
    ck_assert_msg(condition, "to repeat: TARN_KILLS=1 TARN_KILL_SEED=%llu: %s",                    \
                  (unsigned long long)seed, #condition)

static uint64_t bytes_of(uint64_t requested)
{
    return (requested + 511) / 512 * 512;
}

static int compare_slots(const void *a, const void *b)
{
    const struct slot *left = *(struct slot *const *)a;
    const struct slot *right = *(struct slot *const *)b;

    return (left->address > right->address) - (left->address < right->address);
}

/* A slot whose block this may be. */
static bool may_be(struct slot *slot, const struct tn_told_block *block, bool has_address)
{
    if (slot->matched || slot->requested != block->requested ||
        (has_address && slot->address != block->address))
        return false;
    slot->matched = true;
    return true;
}

/* Whether the block is one whose free is under way, or of a restore under way. */
static bool is_leaving(const struct tn_told_block *block)
{
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &notes->slots[i];

        if (slot->state == FREEING && may_be(slot, block, true))
            return true;
        if (i >= COMMON && notes->restoring &&
            ((slot->state == LIVE && may_be(slot, block, true)) ||
             (notes->saved[i].state == LIVE && may_be(&notes->saved[i], block, true))))
            return true;
    }
    return false;
}

/* Whether the block's allocation is under way; its address is not known yet. */
static bool is_coming(const struct tn_told_block *block)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (notes->slots[i].state == ASKED && may_be(&notes->slots[i], block, false))
            return true;
    }
    return false;
}

/* Whether the slot's block is live for certain. */
static bool is_certain(size_t i)
{
    const struct slot *slot = &notes->slots[i];

    if (slot->state != LIVE)
        return false;
    return i < COMMON || !notes->restoring ||
           (notes->saved[i].state == LIVE && notes->saved[i].serial == slot->serial);
}

static size_t count_writers(const struct tn_told *told)
{
    size_t count = 0;

    for (size_t i = 0; i < told->event_count; i++)
        count += i == 0 || told->events[i].writer != told->events[i - 1].writer;
    return count;
}

static void judge_blocks(const struct tn_told *told)
{
    struct slot *certain[SLOTS];
    size_t count = 0;
    size_t matched = 0;
    const struct tn_told_block *others[SLOTS];
    size_t other_count = 0;
    size_t behind = 0;

    for (size_t i = 0; i < SLOTS; i++) {
        notes->slots[i].matched = false;
        notes->saved[i].matched = false;
        if (is_certain(i))
            certain[count++] = &notes->slots[i];
    }
    qsort(certain, count, sizeof certain[0], compare_slots);
    for (size_t i = 0; i < told->count; i++) {
        const struct tn_told_block *block = &told->blocks[i];
        const struct slot key = {.address = block->address};
        const struct slot *key_pointer = &key;
        struct slot **found =
            bsearch(&key_pointer, certain, count, sizeof certain[0], compare_slots);

        JUDGE(block->bytes == bytes_of(block->requested));
        if (found != NULL && may_be(*found, block, true))
            matched += 1;
        else if (!is_leaving(block)) {
            JUDGE(other_count < SLOTS);
            others[other_count++] = block;
        }
    }
    JUDGE(matched == count);
    for (size_t i = 0; i < other_count; i++)
        behind += !is_coming(others[i]);
    JUDGE(behind <= count_writers(told)); /* the last free of each may not be written */
}

/* The allocations of a thread on its own stream. */
struct own {
    struct tn_told_block *blocks; /* in order of their numbers */
    size_t count;
};

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = ((const struct tn_told_block *)a)->sequence;
    uint64_t right = ((const struct tn_told_block *)b)->sequence;

    return (left > right) - (left < right);
}

static struct own find_own(const struct tn_told *told, size_t thread)
{
    struct own own = {calloc(told->event_count + 1, sizeof *own.blocks), 0};

    ck_assert_ptr_nonnull(own.blocks);
    for (size_t i = 0; i < told->event_count; i++) {
        const struct tn_told_event *event = &told->events[i];

        if (event->kind == TN_HISTORY_ALLOC && event->block.requested % TAGS == thread)
            own.blocks[own.count++] = event->block;
    }
    qsort(own.blocks, own.count, sizeof own.blocks[0], compare_numbers);
    return own;
}

static bool is_op(const struct op *op, const struct tn_told_block *block)
{
    return op->requested == block->requested && (op->address == 0 || op->address == block->address);
}

/* Whether these are the thread's first count allocations; where pages are lost, some of them: a
 * large block may be in the memory, and in the log, of another writer. */
static bool are_own(const struct own *own, size_t thread, size_t count, bool has_lost)
{
    const struct op *ops = notes->ops[thread];

    if (!has_lost && own->count != count)
        return false;
    for (size_t i = own->count; i-- > 0;) {
        while (has_lost && count > 0 && !is_op(&ops[count - 1], &own->blocks[i]))
            count -= 1;
        if (count == 0 || !is_op(&ops[count - 1], &own->blocks[i]))
            return false;
        count -= 1;
    }
    return true;
}

static void judge_own(const struct tn_told *told, size_t thread)
{
    struct own own = find_own(told, thread);

    JUDGE(are_own(&own, thread, notes->had[thread], told->lost_pages > 0) ||
          are_own(&own, thread, notes->asked[thread], told->lost_pages > 0));
    free(own.blocks);
}

/* What the log has of a block's number. */
struct balance {
    uint64_t number;
    int allocations;
    int live; /* allocations and restores less frees */
};

static int compare_balances(const void *a, const void *b)
{
    uint64_t left = ((const struct balance *)a)->number;
    uint64_t right = ((const struct balance *)b)->number;

    return (left > right) - (left < right);
}

/* One for each number, of which there are *count. */
static struct balance *make_balances(const struct tn_told *told, size_t *count)
{
    struct balance *all = calloc(told->event_count + 1, sizeof *all);
    size_t end = 0;

    ck_assert_ptr_nonnull(all);
    for (size_t i = 0; i < told->event_count; i++)
        all[i] = (struct balance){.number = told->events[i].block.sequence,
                                  .allocations = told->events[i].kind == TN_HISTORY_ALLOC,
                                  .live = told->events[i].kind == TN_HISTORY_FREE ? -1 : 1};
    qsort(all, told->event_count, sizeof *all, compare_balances);
    for (size_t i = 0; i < told->event_count; i++) {
        if (end > 0 && all[end - 1].number == all[i].number) {
            all[end - 1].allocations += all[i].allocations;
            all[end - 1].live += all[i].live;
        } else {
            all[end++] = all[i];
        }
    }
    *count = end;
    return all;
}

/* Both are in order of numbers. */
static void judge_log(const struct tn_told *told)
{
    size_t count;
    struct balance *balances = make_balances(told, &count);
    struct tn_told_event last = {.writer = UINT64_MAX};
    size_t frees_behind = 0;
    size_t frees_ahead = 0;
    size_t at = 0;

    for (size_t i = 0; i < told->event_count; i++) {
        const struct tn_told_event *event = &told->events[i];

        JUDGE(event->block.bytes == bytes_of(event->block.requested));
        if (event->kind != TN_HISTORY_ALLOC)
            continue;
        JUDGE(event->writer != last.writer || event->block.sequence > last.block.sequence);
        last = *event;
    }
    for (size_t i = 0; i < count; i++) {
        const struct balance *balance = &balances[i];
        bool is_told;

        while (at < told->count && told->blocks[at].sequence < balance->number)
            at += 1;
        is_told = at < told->count && told->blocks[at].sequence == balance->number;
        JUDGE(balance->allocations <= 1);
        JUDGE(told->lost_pages > 0 ||
              (balance->allocations == 1 && balance->live >= 0 && balance->live <= 1));
        frees_behind += balance->live == 1 && !is_told;
        frees_ahead += balance->live < balance->allocations && is_told;
    }
    free(balances);
    if (notes->restoring || told->lost_pages > 0)
        return; /* a free's page may be lost, and the allocation's not yet */
    JUDGE(frees_behind <= count_writers(told) + THREADS); /* and calls under way */
    JUDGE(frees_ahead <= THREADS);
}

/* How often was something seen that should be: that nothing is judged goes unseen otherwise. */
static struct {
    uint64_t begun;
    uint64_t blocks;
    uint64_t events;
    uint64_t overwritten;
    uint64_t in_pages; /* no event was without a page */
    uint64_t whole;    /* no page was overwritten, either */
} seen;

/* Without the events that are of no block. */
static void leave_blocks_alone(struct tn_told *told)
{
    size_t count = 0;

    for (size_t i = 0; i < told->event_count; i++) {
        if (told->events[i].kind != TN_HISTORY_NOTE)
            told->events[count++] = told->events[i];
    }
    told->event_count = count;
}

static void judge(struct tn_ring_reader *reader)
{
    struct tn_told_source source = {.read = tn_ring_from_file,
                                    .context = reader,
                                    .page_count = (size_t)reader->head.page_count,
                                    .area_bytes = tn_ring_area_offset(&reader->head, TN_RING_AREAS),
                                    .part_count = tn_ring_reader_parts(reader)};
    struct tn_told told;

    JUDGE(!tn_ring_reader_is_alive(reader));
    OK(tn_retell(&source, NULL, &told));
    leave_blocks_alone(&told);
    JUDGE(told.broken_pages + told.unread_parts + told.lost_blocks == 0);
    judge_blocks(&told);
    if (told.lost_events == 0) {
        judge_log(&told);
        for (size_t thread = 0; thread < THREADS; thread++)
            judge_own(&told, thread);
    }
    seen.blocks += told.count;
    seen.events += told.event_count;
    seen.overwritten += told.lost_pages > 0;
    seen.in_pages += told.lost_events == 0;
    seen.whole += told.lost_events + told.lost_pages == 0;
    tn_told_free(&told);
}

/* The path of the only ring in the folder; false: there is none. */
static bool find_file(const char *folder, char *path)
{
    DIR *files = opendir(folder);
    bool found = false;

    ck_assert_ptr_nonnull(files);
    for (const struct dirent *file; (file = readdir(files)) != NULL;) {
        if (strstr(file->d_name, ".ring") == NULL)
            continue;
        (void)snprintf(path, TN_RING_PATH_MAX, "%s/%.100s", folder, file->d_name);
        found = true;
    }
    ck_assert_int_eq(closedir(files), 0);
    return found;
}

static void sleep_us(uint64_t microseconds)
{
    struct timespec time = {.tv_nsec = (long)microseconds * 1000};

    (void)nanosleep(&time, NULL);
}

/* Runs the program and kills it: mostly when it has begun, up to 16 ms later. */
static void kill_at_random(void)
{
    uint64_t random = seed;
    bool early = next_random(&random) % 16 == 0;
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (child == 0)
        run_until_killed();
    while (!early && !atomic_load(&notes->has_begun) && waitpid(child, &status, WNOHANG) == 0)
        sleep_us(50);
    sleep_us(next_random(&random) % 16000);
    (void)kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    JUDGE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* As they were; what was never written is not touched. */
static void forget_notes(void)
{
    for (size_t i = 0; i < THREADS; i++) {
        memset(notes->ops[i], 0, notes->asked[i] * sizeof notes->ops[i][0]);
        notes->asked[i] = 0;
        notes->had[i] = 0;
    }
    memset(notes->slots, 0, sizeof notes->slots);
    memset(notes->saved, 0, sizeof notes->saved);
    notes->restoring = false;
    notes->has_begun = false;
}

GROUP(kills, NULL, .timeout = 20000)

TEST(kills, what_was_live_is_told_after_a_kill_at_any_moment)
{
    const uint64_t count = test_setting("TARN_KILLS", 1000);
    const uint64_t first = test_seed("TARN_KILL_SEED", 1);
    char folder[] = "/dev/shm/tarn-kills-XXXXXX";
    char path[TN_RING_PATH_MAX];

    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    notes = mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(notes, MAP_FAILED);
    for (seed = first; seed < first + count; seed++) {
        struct tn_ring_reader reader = {.fd = -1};
        enum tn_ring_opened opened = TN_RING_NO_FILE;

        kill_at_random();
        if (find_file(folder, path))
            opened = tn_ring_reader_open(&reader, path);
        JUDGE(opened == TN_RING_OPENED || !notes->has_begun);
        if (opened == TN_RING_OPENED) {
            judge(&reader);
            ck_assert_int_eq(close(reader.fd), 0);
        }
        seen.begun += notes->has_begun;
        if (opened != TN_RING_NO_FILE)
            ck_assert_int_eq(unlink(path), 0);
        forget_notes();
    }
    ck_assert_int_eq(rmdir(folder), 0);
    (void)printf(
        "%llu kills, %llu begun, %llu in pages, %llu whole, %llu overwritten: %llu blocks, "
        "%llu events\n",
        (unsigned long long)count, (unsigned long long)seen.begun,
        (unsigned long long)seen.in_pages, (unsigned long long)seen.whole,
        (unsigned long long)seen.overwritten, (unsigned long long)seen.blocks,
        (unsigned long long)seen.events);
    if (count < 100)
        return;
    ck_assert_uint_gt(seen.begun, count / 2);
    ck_assert_uint_gt(seen.in_pages, count / 2);
    ck_assert_uint_gt(seen.whole, count / 20);
    ck_assert_uint_gt(seen.overwritten, count / 20);
    ck_assert_uint_gt(seen.blocks, 10 * count);
}
