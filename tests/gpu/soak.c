// SPDX-License-Identifier: Apache-2.0
/* A soak: threads that do everything at random, and every block verified before it is freed.
 *
 * Each thread has streams and blocks, and a pool: every fourth thread the one that they share, the
 * others their own, in which they take and restore checkpoints. All use the default pool besides, hand
 * blocks to each other and free what they were handed on their own streams. The device's limit is low
 * enough for the out-of-memory ladder to be used, callbacks included.
 *
 *   TARN_SOAK_SECONDS   how long; 5
 *   TARN_SOAK_THREADS   how many threads; 16, on the simulator 6
 *   TARN_SOAK_SEED      of all random numbers; the time. The threads race, so it repeats the steps of a
 *                       thread, not how they meet
 *   TARN_SOAK_KIB       of the largest block; 32768, on the simulator 1024
 *   TARN_SOAK_LIMIT_MIB that Tarn may map; by threads and largest block
 *   TARN_SOAK_WITHOUT   operations to leave out, by their names below, to narrow a failure down */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu/soak.h"

enum { SECONDS = 5, THREADS_MAX = 64, MAIL = 16, HOARD = 16 };

struct soak soak;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the mutex: blocks under way from one thread to another, each with an event behind its last
 * use; and blocks that the callback frees when memory runs out. */
static struct {
    struct block block;
    tn_cu_event event;
} mail[MAIL];
static size_t mail_count;
static void *hoard[HOARD];
static size_t hoard_count;
static atomic_uint_fast64_t callback_frees;
static atomic_bool time_is_up;
static struct thread threads[THREADS_MAX];

void soak_silence_others(void)
{
    (void)pthread_mutex_lock(&mutex);
}

_Noreturn void soak_fail(const struct thread *t, const char *file, int line, const char *what)
{
    soak_silence_others();
    (void)printf(
        "FAILED: seed %llu, thread %d, step %llu: %s:%d: %s; Tarn's last sentence here: %s\n",
        (unsigned long long)soak.seed, t->number, (unsigned long long)t->step, file, line, what,
        tarn_last_error());
    (void)fflush(stdout);
    _exit(1);
}

/* SplitMix64, by S. Vigna. */
uint64_t soak_random(struct thread *t)
{
    uint64_t z = t->random += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

int soak_below(struct thread *t, int limit)
{
    return (int)(soak_random(t) % (uint64_t)limit);
}

size_t soak_bytes(struct thread *t)
{
    int doublings = 0;
    size_t bytes;

    while (((size_t)4 << doublings) < soak.bytes_max)
        doublings += 1;
    bytes = (size_t)4 << soak_below(t, doublings + 1);
    bytes += soak_random(t) % bytes;
    return (bytes < soak.bytes_max ? bytes : soak.bytes_max) & ~(size_t)3;
}

void soak_order(struct thread *t, int first, int then)
{
    if (first == then || first == NOWHERE)
        return;
    DRIVER(cu.cuEventRecord(t->event, t->streams[first]));
    DRIVER(cu.cuStreamWaitEvent(t->streams[then], t->event, 0));
}

void soak_order_all(struct thread *t, int then)
{
    for (int stream = 0; stream < STREAMS; stream++)
        soak_order(t, stream, then);
}

void soak_synchronize(struct thread *t)
{
    for (int stream = 0; stream < STREAMS; stream++)
        DRIVER(cu.cuStreamSynchronize(t->streams[stream]));
}

void soak_free(struct thread *t, struct block *block, int stream)
{
    soak_verify(t, block, stream, "verified to be freed");
    if (stream != block->home || soak_below(t, 2) == 0)
        TARN(tarn_free_on(block->address, t->streams[stream]));
    else
        TARN(tarn_free(block->address));
    block->address = NULL;
    t->counts[COUNT_FREES] += 1;
}

void soak_add_block(struct thread *t, const struct block *block)
{
    REQUIRE(t->block_count < BLOCKS);
    t->blocks[t->block_count] = *block;
    t->block_count += 1;
}

void soak_remove_block(struct thread *t, size_t index)
{
    t->block_count -= 1;
    t->blocks[index] = t->blocks[t->block_count];
}

static void free_one(struct thread *t)
{
    size_t index;

    if (t->block_count == 0)
        return;
    index = (size_t)soak_below(t, (int)t->block_count);
    soak_free(t, &t->blocks[index], soak_below(t, STREAMS));
    soak_remove_block(t, index);
}

bool soak_is_out_of_memory(const struct thread *t, tarn_status status)
{
    if (status == TARN_OK)
        return false;
    REQUIRE(status == TARN_ERR_DEVICE_MEMORY || status == TARN_ERR_LIMIT);
    return true;
}

void soak_make_room(struct thread *t)
{
    t->counts[COUNT_NO_MEMORY] += 1;
    for (size_t left = t->block_count / 2; t->block_count > left;)
        free_one(t);
    if (soak_below(t, 4) == 0)
        soak_drop_checkpoint(t);
    if (soak_below(t, 4) == 0)
        soak_destroy_graph(t, soak_below(t, GRAPHS));
}

static void allocate(struct thread *t)
{
    static const size_t alignments[] = {0, 0, 0, 0, 4096, 65536, 2 * MIB, 0};
    int stream = soak_below(t, STREAMS);
    bool from_default = soak_below(t, 4) == 0;
    struct block block = {.bytes = soak_bytes(t), .home = stream, .last = stream};
    tarn_block described = {0};
    tarn_status status;

    if (t->block_count == BLOCKS) {
        free_one(t);
        return;
    }
    block.of_pool = !from_default;
    block.own = !from_default && !t->shares;
    status = from_default
                 ? tarn_malloc(soak.device, block.bytes, t->streams[stream], &block.address)
                 : tarn_pool_malloc(t->pool, block.bytes, alignments[soak_below(t, 8)],
                                    t->streams[stream], &block.address);
    if (soak_is_out_of_memory(t, status)) {
        soak_make_room(t);
        return;
    }
    TARN(tarn_block_at(block.address, &described));
    REQUIRE(described.address == block.address && described.bytes == block.bytes);
    block.sequence = described.sequence;
    soak_fill(t, &block, stream);
    soak_add_block(t, &block);
    t->counts[COUNT_ALLOCATIONS] += 1;
}

/* Verified, and filled anew, on whatever stream. */
static void touch(struct thread *t)
{
    struct block *block;

    if (t->block_count == 0)
        return;
    block = &t->blocks[soak_below(t, (int)t->block_count)];
    soak_verify(t, block, soak_below(t, STREAMS), "verified in passing");
    if (soak_below(t, 2) == 0)
        soak_fill(t, block, soak_below(t, STREAMS));
}

/* Puts a block in the mail, or in the hoard; it goes on as it was where neither has room. */
static void give(struct thread *t)
{
    size_t index = (size_t)soak_below(t, (int)t->block_count);
    struct block block = t->blocks[index];
    tn_cu_event event;
    bool hoards = block.home == block.last && soak_below(t, 3) == 0;
    bool gone = true;

    if (block.own)
        return;
    DRIVER(cu.cuEventCreate(&event, TN_CU_EVENT_DISABLE_TIMING));
    DRIVER(cu.cuEventRecord(event, t->streams[block.last]));
    (void)pthread_mutex_lock(&mutex);
    if (mail_count < MAIL && !hoards) {
        mail[mail_count].block = block;
        mail[mail_count].event = event;
        mail_count += 1;
        event = NULL;
    } else if (hoard_count < HOARD && block.home == block.last) {
        hoard[hoard_count] = block.address;
        hoard_count += 1;
    } else {
        gone = false;
    }
    (void)pthread_mutex_unlock(&mutex);
    if (event != NULL)
        DRIVER(cu.cuEventDestroy(event));
    if (!gone)
        return;
    soak_remove_block(t, index);
    t->counts[COUNT_HANDED_OVER] += 1;
}

/* Takes a block out of the mail. */
static void receive(struct thread *t)
{
    struct block block = {0};
    tn_cu_event event = NULL;

    (void)pthread_mutex_lock(&mutex);
    if (mail_count > 0) {
        mail_count -= 1;
        block = mail[mail_count].block;
        event = mail[mail_count].event;
    }
    (void)pthread_mutex_unlock(&mutex);
    if (event == NULL)
        return;
    block.of_pool = block.of_pool && t->shares;
    block.home = NOWHERE;
    block.last = soak_below(t, STREAMS);
    DRIVER(cu.cuStreamWaitEvent(t->streams[block.last], event, 0));
    DRIVER(cu.cuEventDestroy(event));
    TARN(tarn_record_stream(block.address, t->streams[block.last]));
    soak_note(t, &block, "handed over");
    soak_add_block(t, &block);
}

static void exchange(struct thread *t)
{
    if (t->block_count > 0 && soak_below(t, 2) == 0)
        give(t);
    else if (t->block_count < BLOCKS)
        receive(t);
}

static bool free_from_hoard(tarn_device *device, size_t wanted_bytes, void *user)
{
    void *address = NULL;

    (void)device;
    (void)wanted_bytes;
    (void)user;
    (void)pthread_mutex_lock(&mutex);
    if (hoard_count > 0) {
        hoard_count -= 1;
        address = hoard[hoard_count];
    }
    (void)pthread_mutex_unlock(&mutex);
    if (address == NULL)
        return false;
    atomic_fetch_add(&callback_frees, 1);
    return tarn_free(address) == TARN_OK;
}

static void trim(struct thread *t)
{
    size_t freed_bytes = 0;

    TARN(tarn_pool_trim(t->pool, &freed_bytes));
    t->counts[COUNT_TRIMS] += 1;
}

static void validate(struct thread *t)
{
    TARN(tarn_pool_validate(t->pool));
}

/* The stream goes while its work runs; what is to come goes on elsewhere. */
static void retire(struct thread *t)
{
    int stream = soak_below(t, STREAMS);
    int instead = (stream + 1) % STREAMS;

    soak_order(t, stream, instead);
    for (size_t i = 0; i < t->block_count; i++) {
        struct block *block = &t->blocks[i];

        if (block->home == stream)
            block->home = NOWHERE;
        if (block->last == stream)
            block->last = instead;
    }
    soak_graphs_forget_stream(t, stream, instead);
    TARN(tarn_stream_retire(soak.device, t->streams[stream]));
    DRIVER(cu.cuStreamDestroy(t->streams[stream]));
    DRIVER(cu.cuStreamCreate(&t->streams[stream], TN_CU_STREAM_NON_BLOCKING));
    t->counts[COUNT_RETIRED] += 1;
}

static void step(struct thread *t)
{
    static const struct {
        const char *name;
        void (*operation)(struct thread *t);
        int weight;
    } operations[] = {
        {"allocate", allocate, 300},
        {"free", free_one, 230},
        {"touch", touch, 100},
        {"exchange", exchange, 90},
        {"replay", soak_replay, 90},
        {"trim", trim, 6},
        {"validate", validate, 6},
        {"capture", soak_capture, 24},
        {"retire", retire, 8},
        {"look", soak_look, 10},
        {"checkpoint", soak_checkpoint, 8},
        {"restore", soak_restore, 8},
    };
    const char *without = getenv("TARN_SOAK_WITHOUT");
    int sum = 0;
    int drawn;

    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        sum += operations[i].weight;
    drawn = soak_below(t, sum);
    t->step += 1;
    t->counts[COUNT_STEPS] += 1;
    for (size_t i = 0;; i++) {
        drawn -= operations[i].weight;
        if (drawn < 0) {
            if (without == NULL || strstr(without, operations[i].name) == NULL)
                operations[i].operation(t);
            return;
        }
    }
}

static void begin(struct thread *t)
{
    char name[32];

    for (int i = 0; i < STREAMS; i++)
        DRIVER(cu.cuStreamCreate(&t->streams[i], TN_CU_STREAM_NON_BLOCKING));
    DRIVER(cu.cuEventCreate(&t->event, TN_CU_EVENT_DISABLE_TIMING));
    DRIVER(
        cu.cuMemAlloc(&t->results, (RING + GRAPHS * GRAPH_CHECKS) * sizeof(struct pattern_result)));
    DRIVER(cu.cuMemsetD32Async(t->results, 0,
                               (RING + GRAPHS * GRAPH_CHECKS) * sizeof(struct pattern_result) / 4,
                               t->streams[0]));
    DRIVER(cu.cuStreamSynchronize(t->streams[0]));
    t->pool = soak.shared;
    t->shares = t->number % 4 == 0;
    if (!t->shares) {
        tarn_pool_options options = TARN_POOL_OPTIONS_INIT;

        (void)snprintf(name, sizeof name, "thread %d", t->number);
        options.name = name;
        TARN(tarn_pool_create(soak.device, &options, &t->pool));
    }
}

static void end(struct thread *t)
{
    soak_drop_checkpoint(t);
    for (int i = 0; i < GRAPHS; i++)
        soak_destroy_graph(t, i);
    while (t->block_count > 0)
        free_one(t);
    soak_look(t);
    if (!t->shares)
        TARN(tarn_pool_destroy(t->pool));
    for (int i = 0; i < STREAMS; i++) {
        TARN(tarn_stream_retire(soak.device, t->streams[i])); /* blocks in the mail know them */
        DRIVER(cu.cuStreamDestroy(t->streams[i]));
    }
    DRIVER(cu.cuEventDestroy(t->event));
    DRIVER(cu.cuMemFree(t->results));
}

static void *run(void *memory)
{
    struct thread *t = memory;
    tn_cu_context context;

    DRIVER(cu.cuDevicePrimaryCtxRetain(&context, 0));
    DRIVER(cu.cuCtxSetCurrent(context));
    begin(t);
    while (!atomic_load(&time_is_up))
        step(t);
    end(t);
    DRIVER(cu.cuCtxSetCurrent(NULL));
    DRIVER(cu.cuDevicePrimaryCtxRelease(0));
    return NULL;
}

static void clear_mail(struct thread *t)
{
    while (mail_count > 0) {
        mail_count -= 1;
        DRIVER(cu.cuEventDestroy(mail[mail_count].event));
        TARN(tarn_free(mail[mail_count].block.address));
    }
    while (free_from_hoard(soak.device, 0, NULL))
        continue;
}

static void report(const struct thread *all, int count, const tarn_stats *stats)
{
    static const char *const names[COUNT_KINDS] = {
        "steps",       "allocations", "frees",    "verifications", "no_memory",
        "handed_over", "trims",       "captures", "updates",       "aborts",
        "replays",     "checkpoints", "restores", "retired",
    };

    for (int kind = 0; kind < COUNT_KINDS; kind++) {
        uint64_t sum = 0;

        for (int i = 0; i < count; i++)
            sum += all[i].counts[kind];
        (void)printf("%s %llu, ", names[kind], (unsigned long long)sum);
    }
    (void)printf(
        "freed by callback %llu, ladder retries %llu, out of memory %llu, waits %llu, "
        "mapped at most %llu MiB\n",
        (unsigned long long)atomic_load(&callback_frees), (unsigned long long)stats->ladder_retries,
        (unsigned long long)stats->out_of_memory_count, (unsigned long long)stats->idle_waits,
        (unsigned long long)(stats->mapped_bytes.all.peak >> 20));
}

GROUP(soak, NULL, .timeout = (double)(4 * test_setting("TARN_SOAK_SECONDS", SECONDS) + 120))

TEST(soak, every_block_keeps_its_pattern)
{
    bool simulated;
    uint64_t seconds = test_setting("TARN_SOAK_SECONDS", SECONDS);
    struct thread *t = &threads[THREADS_MAX - 1]; /* for what main requires */
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_stats stats = TARN_STATS_INIT;
    tarn_sim_ledger before;
    pthread_t handles[THREADS_MAX];
    int count;

    test_start();
    pattern_start();
    simulated = test_is_simulated();
    count = (int)test_setting("TARN_SOAK_THREADS", simulated ? 6 : 16) % THREADS_MAX;
    soak.seed = test_seed("TARN_SOAK_SEED", 1);
    soak.bytes_max = (size_t)test_setting("TARN_SOAK_KIB", simulated ? 1024 : 32768) << 10;
    options.limit_bytes =
        (size_t)test_setting("TARN_SOAK_LIMIT_MIB",
                             (uint64_t)count * 12 * (soak.bytes_max >> 20 | 1) + 64)
        << 20;
    (void)printf("TARN_SOAK_SEED=%llu TARN_SOAK_THREADS=%d TARN_SOAK_SECONDS=%llu\n",
                 (unsigned long long)soak.seed, count, (unsigned long long)seconds);
    (void)fflush(stdout);
    before = test_ledger();
    TARN(tarn_device_open(0, &options, &soak.device));
    TARN(tarn_pool_create(soak.device, NULL, &soak.shared));
    TARN(tarn_device_add_free_callback(soak.device, free_from_hoard, NULL));
    for (int i = 0; i < count; i++) {
        threads[i].number = i;
        threads[i].random = soak.seed * 1000003 + (uint64_t)i;
        REQUIRE(pthread_create(&handles[i], NULL, run, &threads[i]) == 0);
    }
    (void)sleep((unsigned int)seconds);
    atomic_store(&time_is_up, true);
    for (int i = 0; i < count; i++)
        REQUIRE(pthread_join(handles[i], NULL) == 0);
    clear_mail(t);
    TARN(tarn_pool_destroy(soak.shared));
    TARN(tarn_device_stats(soak.device, &stats));
    REQUIRE(stats.live_bytes.all.current == 0 && stats.pool_count == 1);
    report(threads, count, &stats);
    TARN(tarn_device_close(soak.device));
    if (simulated) {
        tarn_sim_ledger after = test_ledger();

        REQUIRE(after.handles == before.handles && after.mappings == before.mappings &&
                after.reservations == before.reservations && after.events == before.events &&
                after.graphs == before.graphs && after.graph_execs == before.graph_execs &&
                after.user_objects == before.user_objects && after.streams == before.streams);
    }
    (void)printf("no mismatch\n");
}
