// SPDX-License-Identifier: Apache-2.0
/* A snapshot of 100,000 live blocks, each with the stack of its allocation, taken and written into a
 * file; and how long another thread then waits, which allocates and frees all the time.
 *
 * The history is kept by a process of its own: its environment says so. The longest wait during a
 * snapshot is compared with that of as long a time without one, for the system's scheduler stops
 * threads, too. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "driver.h"
#include "harness.h"
#include "parts.h"
#include "report.h"
#include "rows.h"

enum {
    ROUNDS = 31,
    QUICK_ROUNDS = 3,
    BLOCKS = 100000,
    FREED = 10000, /* as many more are allocated, and freed */
    BLOCK_BYTES_MAX = 64 << 10,
    PAIR_BYTES = 1 << 20,
    DEPTH = 12, /* calls with two places each: 4,096 stacks, of which some hundred occur */
    STACKS = 500,
    PROCESSES = 3,
};

static const char conf[] = "history_bytes:16M,history_stacks:frames";

/* The numbers of a process. */
enum { TAKE_MS, WRITE_MS, TOTAL_MS, WAIT_US, QUIET_US, FILE_MB, NUMBERS };

/* ---- a process ------------------------------------------------------------------------------ */

/* The bits of path choose the calls that lead to the allocation. */
static __attribute__((noinline)) void *alloc_by(const struct bench *bench, tarn_stream stream,
                                                size_t bytes, unsigned path, int depth)
{
    void *address = NULL;

    if (depth == 0)
        BENCH_OK(tarn_malloc(bench->device, bytes, stream, &address));
    else if (path % 2 == 0)
        address = alloc_by(bench, stream, bytes, path / 2, depth - 1);
    else
        address = alloc_by(bench, stream, bytes, path / 2, depth - 1);
    __asm__ volatile(""
                     : "+r"(address)
                     : "r"(path)
                     : "memory"); /* the call is not the last action */
    return address;
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return *state >> 33;
}

static void **make_blocks(const struct bench *bench, tarn_stream stream)
{
    void **blocks = calloc(BLOCKS + FREED, sizeof *blocks);
    uint64_t random = 1;

    if (blocks == NULL)
        bench_fail("no host memory");
    for (size_t i = 0; i < BLOCKS + FREED; i++)
        blocks[i] = alloc_by(bench, stream, 1 + next_random(&random) % BLOCK_BYTES_MAX,
                             (unsigned)(next_random(&random) % STACKS), DEPTH);
    for (size_t i = 0; i < FREED; i++) {
        const size_t from = next_random(&random) % (BLOCKS + FREED - i);

        BENCH_OK(tarn_free(blocks[from]));
        blocks[from] = blocks[BLOCKS + FREED - i - 1];
    }
    return blocks;
}

/* The other thread, and the longest time that a pair of it has taken since somebody asked. */
struct other {
    tarn_device *device;
    tarn_stream stream;
    atomic_bool ends;
    atomic_llong longest_ns;
};

static void *do_pairs(void *context)
{
    struct other *other = context;

    while (!atomic_load_explicit(&other->ends, memory_order_relaxed)) {
        const long long begin = (long long)bench_now();
        long long took;
        void *address;

        BENCH_OK(tarn_malloc(other->device, PAIR_BYTES, other->stream, &address));
        BENCH_OK(tarn_free(address));
        took = (long long)bench_now() - begin;
        if (took > atomic_load_explicit(&other->longest_ns, memory_order_relaxed))
            atomic_store_explicit(&other->longest_ns, took, memory_order_relaxed);
    }
    return NULL;
}

static tarn_status write_to_file(const void *bytes, size_t count, void *user)
{
    return write(*(int *)user, bytes, count) == (ssize_t)count ? TARN_OK : TARN_ERR_LIMIT;
}

struct measured {
    struct bench_series of[NUMBERS];
};

static void measure_snapshot(const struct bench *bench, struct other *other, const char *path,
                             struct measured *measured)
{
    tarn_snapshot *snapshot;
    long long begin;
    long long taken;
    long long written;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (file < 0)
        bench_fail("no file %s", path);
    atomic_store(&other->longest_ns, 0);
    begin = (long long)bench_now();
    BENCH_OK(tarn_snapshot_take(bench->device, NULL, &snapshot));
    taken = (long long)bench_now();
    BENCH_OK(tarn_snapshot_write_pytorch(snapshot, write_to_file, &file));
    written = (long long)bench_now();
    bench_series_add(&measured->of[WAIT_US], (double)atomic_load(&other->longest_ns) / 1e3);
    bench_series_add(&measured->of[TAKE_MS], (double)(taken - begin) / 1e6);
    bench_series_add(&measured->of[WRITE_MS], (double)(written - taken) / 1e6);
    bench_series_add(&measured->of[TOTAL_MS], (double)(written - begin) / 1e6);
    bench_series_add(&measured->of[FILE_MB], (double)lseek(file, 0, SEEK_END) / 1e6);
    tarn_snapshot_destroy(snapshot);
    (void)close(file);
    /* As long a time without a snapshot. */
    atomic_store(&other->longest_ns, 0);
    begin = (long long)bench_now();
    while ((long long)bench_now() - begin < written - taken)
        ;
    bench_series_add(&measured->of[QUIET_US], (double)atomic_load(&other->longest_ns) / 1e3);
}

void bench_part_snapshot(const struct bench *bench)
{
    static struct measured measured;
    const char *folder = getenv("TMPDIR");
    struct other other = {.device = bench->device, .stream = bench_stream_create()};
    tarn_stream stream = bench_stream_create();
    void **blocks = make_blocks(bench, stream);
    double numbers[NUMBERS];
    char path[256];
    pthread_t thread;

    (void)snprintf(path, sizeof path, "%s/tarn-bench-%ld.pickle", folder != NULL ? folder : "/tmp",
                   (long)getpid());
    if (pthread_create(&thread, NULL, do_pairs, &other) != 0)
        bench_fail("no thread");
    for (int i = 0; i < (bench->quick ? QUICK_ROUNDS : ROUNDS); i++)
        measure_snapshot(bench, &other, path, &measured);
    atomic_store(&other.ends, true);
    (void)pthread_join(thread, NULL);
    (void)unlink(path);
    for (size_t i = 0; i < BLOCKS; i++)
        BENCH_OK(tarn_free(blocks[i]));
    free(blocks);
    bench_stream_destroy(stream);
    bench_stream_destroy(other.stream);
    for (size_t i = 0; i < NUMBERS; i++)
        numbers[i] = bench_summarize(&measured.of[i]).median;
    bench_part_give(numbers, NUMBERS);
}

/* ---- the row -------------------------------------------------------------------------------- */

void bench_row_snapshot(const struct bench *bench)
{
    static const struct {
        const char *variant;
        const char *unit;
    } rows[NUMBERS] = {
        [TAKE_MS] = {"100000 blocks, taken", "ms"},
        [WRITE_MS] = {"100000 blocks, written", "ms"},
        [TOTAL_MS] = {"100000 blocks, taken and written", "ms"},
        [WAIT_US] = {"longest wait of another thread", "us"},
        [QUIET_US] = {"longest wait without a snapshot", "us"},
        [FILE_MB] = {"100000 blocks, file", "MB"},
    };
    static double numbers[PROCESSES * NUMBERS];
    static struct bench_series series[NUMBERS + 1];
    const size_t processes = bench->quick ? 1 : PROCESSES;
    const char *outer = getenv("TARN_CONF");
    char *kept = outer != NULL ? strdup(outer) : NULL;

    if (setenv("TARN_CONF", conf, 1) != 0)
        bench_fail("no host memory");
    bench_parts_measure("snapshot", bench->quick, processes, NUMBERS, numbers);
    if (kept != NULL)
        (void)setenv("TARN_CONF", kept, 1);
    else
        (void)unsetenv("TARN_CONF");
    free(kept);
    for (size_t i = 0; i < processes; i++) {
        const double *own = &numbers[i * NUMBERS];

        for (size_t k = 0; k < NUMBERS; k++)
            bench_series_add(&series[k], own[k]);
        bench_series_add(&series[NUMBERS],
                         own[WAIT_US] > own[QUIET_US] ? own[WAIT_US] - own[QUIET_US] : 0);
    }
    for (size_t k = 0; k < NUMBERS; k++)
        bench_report("snapshot", rows[k].variant, NULL, rows[k].unit, bench_summarize(&series[k]));
    bench_report("snapshot", "longest wait, added by a snapshot", NULL, "us",
                 bench_summarize(&series[NUMBERS]));
}
