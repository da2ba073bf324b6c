// SPDX-License-Identifier: Apache-2.0
/* Two processes share a GPU under memory pressure: each takes up to 70 % of it at random and gives
 * back at random, so both run out of memory and go down the ladder, again and again. Both must get
 * on, and neither may keep more unmapped memory than its cache may have.
 *
 * The processes are this program, started anew: CUDA does not survive a fork. Each tells on its
 * standard output that it is ready, its context made, and then a line every window: successful allocations,
 * those that failed, and what it has. None takes memory before all are ready: a context takes some
 * itself, and the driver refuses it where another process has the rest.
 *
 *   TARN_TWO_PROCESSES_SECONDS   how long; 60, on the simulator 6
 *   TARN_TWO_PROCESSES_PART      percents of the device that each takes at most; 70. On the simulator,
 *                                where processes share nothing, 150 lets each meet the end of its own */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/pattern.h"

enum { PROCESSES = 2, WINDOWS = 6, STREAMS = 3, POOLS = 3, BLOCKS = 512 };

/* Of each process's cache. */
#define CACHE_BYTES ((size_t)256 << 20)

extern char **environ;

/* Without loading the driver. */
static bool is_simulated(void)
{
    const char *driver = getenv("TARN_DRIVER");

    return driver != NULL && strstr(driver, "sim") != NULL;
}

static uint64_t seconds_of_run(void)
{
    return test_setting("TARN_TWO_PROCESSES_SECONDS", is_simulated() ? WINDOWS : 60);
}

static double now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* One of the processes. */
struct block {
    void *address;
    size_t bytes;
    uint32_t pattern;
    int stream;
    int pool;
};

static struct {
    uint64_t random;
    tarn_device *device;
    tarn_pool *pools[POOLS];
    uint64_t live[POOLS]; /* blocks */
    tn_cu_stream streams[STREAMS];
    struct block blocks[BLOCKS];
    size_t block_count;
    size_t live_bytes;
    size_t device_bytes;
    tn_cu_deviceptr result; /* of all verifications */
    uint64_t verified;
} self;

/* SplitMix64, by S. Vigna. */
static uint64_t next_random(void)
{
    uint64_t z = self.random += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static size_t below(size_t limit)
{
    return (size_t)(next_random() % limit);
}

/* The bytes at both ends of a block: they are where a neighbour, or another process, would show. */
static size_t probe_words(const struct block *block)
{
    return block->bytes / 4 < 4096 ? block->bytes / 4 : 4096;
}

static const void *upper_probe(const struct block *block)
{
    return (char *)block->address + block->bytes - probe_words(block) * 4;
}

static void give_back(size_t index)
{
    struct block *block = &self.blocks[index];
    tn_cu_stream stream = self.streams[block->stream];

    CU_OK(pattern_verify(stream, upper_probe(block), block->pattern, probe_words(block),
                         self.result));
    self.verified += 1;
    OK(tarn_free(block->address));
    self.live_bytes -= block->bytes;
    self.live[block->pool] -= 1;
    self.block_count -= 1;
    *block = self.blocks[self.block_count];
}

/* False when there was no memory. */
static bool take(void)
{
    /* 256 KiB to 1/32 of the device, small ones as likely as large ones. */
    size_t largest = self.device_bytes / 32;
    int doublings = 0;
    struct block block = {.stream = (int)below(STREAMS), .pool = (int)below(POOLS)};
    tarn_status status;

    while (((size_t)512 << 10 << doublings) < largest)
        doublings += 1;
    block.bytes = (size_t)256 << 10 << below((size_t)doublings + 1);
    block.bytes = (block.bytes + below(block.bytes)) & ~(size_t)3;
    block.pattern = (uint32_t)next_random();
    status = tarn_pool_malloc(self.pools[block.pool], block.bytes, 0, self.streams[block.stream],
                              &block.address);
    if (status == TARN_ERR_DEVICE_MEMORY)
        return false;
    STATUS(TARN_OK, status);
    CU_OK(pattern_fill(self.streams[block.stream], upper_probe(&block), block.pattern,
                       probe_words(&block)));
    self.blocks[self.block_count] = block;
    self.block_count += 1;
    self.live_bytes += block.bytes;
    self.live[block.pool] += 1;
    return true;
}

/* A pool that nothing is live in goes, into the cache, and another one comes. */
static void renew_pool(void)
{
    size_t index = below(POOLS);

    if (self.live[index] > 0)
        return;
    OK(tarn_pool_destroy(self.pools[index]));
    OK(tarn_pool_create(self.device, NULL, &self.pools[index]));
}

static void check_cache(void)
{
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_device_stats(self.device, &stats));
    ck_assert_uint_le(stats.cached_bytes, CACHE_BYTES);
    ck_assert_uint_ge(stats.mapped_bytes.all.current, stats.live_bytes.all.current);
}

/* A time of taking, and one of giving, and so on: the process breathes between a tenth of its part and
 * all of it. */
static void run_window(double until, size_t part_bytes, uint64_t *taken, uint64_t *refused)
{
    static bool takes = true;

    while (now() < until) {
        if (takes ? below(10) != 0 : below(4) == 0) {
            if (self.block_count == BLOCKS || self.live_bytes > part_bytes) {
                takes = false;
            } else if (take()) {
                *taken += 1;
            } else {
                *refused += 1;
                takes = false;
                if (self.block_count > 0)
                    give_back(below(self.block_count));
            }
        } else if (self.block_count > 0) {
            give_back(below(self.block_count));
        }
        if (self.live_bytes < part_bytes / 10)
            takes = true;
        if (below(50) == 0)
            renew_pool();
        if (below(400) == 0)
            OK(tarn_pool_trim(self.pools[below(POOLS)], NULL));
        check_cache();
    }
}

static void begin_process(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device_info info = TARN_DEVICE_INFO_INIT;

    test_start();
    pattern_start();
    self.random = test_setting("TARN_TWO_PROCESSES_SEED", 1);
    options.cache_limit_bytes = CACHE_BYTES;
    OK(tarn_device_open(0, &options, &self.device));
    OK(tarn_device_describe(self.device, &info));
    self.device_bytes = info.total_bytes;
    for (int i = 0; i < STREAMS; i++)
        self.streams[i] = test_stream();
    for (int i = 0; i < POOLS; i++)
        OK(tarn_pool_create(self.device, NULL, &self.pools[i]));
    CU_OK(cu.cuMemAlloc(&self.result, sizeof(struct pattern_result)));
    CU_OK(cu.cuMemsetD32Async(self.result, 0, sizeof(struct pattern_result) / 4, self.streams[0]));
    test_synchronize(self.streams[0]);
}

static void end_process(void)
{
    struct pattern_result result;

    while (self.block_count > 0)
        give_back(self.block_count - 1);
    for (int i = 0; i < STREAMS; i++)
        test_synchronize(self.streams[i]);
    CU_OK(cu.cuMemcpyDtoHAsync(&result, self.result, sizeof result, self.streams[0]));
    test_synchronize(self.streams[0]);
    ck_assert_uint_eq(result.bad, 0);
    ck_assert_uint_eq(result.runs, (uint32_t)self.verified);
    for (int i = 0; i < POOLS; i++)
        OK(tarn_pool_destroy(self.pools[i]));
    check_cache();
    OK(tarn_device_close(self.device));
}

/* Says that this process is ready, and waits until the one that started it closes its standard input. */
static void await_others(void)
{
    char byte;

    (void)puts("ready");
    (void)fflush(stdout);
    ck_assert_int_eq(read(STDIN_FILENO, &byte, 1), 0);
}

/* The suite runs itself again, once for each of the two. */
static bool is_one_process(void)
{
    return getenv("TARN_TWO_PROCESSES_ROLE") != NULL;
}

SUITE("two processes")
GROUP(processes, NULL, .name = "two processes", .timeout = (double)(4 * seconds_of_run() + 60))

TEST_WITH(processes, a_process_gets_on, 0, 1, .left_out = !is_one_process())
{
    double window = (double)seconds_of_run() / WINDOWS;
    size_t part_bytes;
    double begun;

    begin_process();
    await_others();
    part_bytes = self.device_bytes / 100 * (size_t)test_setting("TARN_TWO_PROCESSES_PART", 70);
    begun = now();
    for (int i = 0; i < WINDOWS; i++) {
        tarn_stats stats = TARN_STATS_INIT;
        uint64_t taken = 0;
        uint64_t refused = 0;

        run_window(begun + window * (i + 1), part_bytes, &taken, &refused);
        OK(tarn_device_stats(self.device, &stats));
        (void)printf("window %d: %llu allocations, %llu refused, %llu retries on the ladder, %llu "
                     "waits; %llu MiB mapped, %llu live, %llu cached\n",
                     i, (unsigned long long)taken, (unsigned long long)refused,
                     (unsigned long long)stats.ladder_retries, (unsigned long long)stats.idle_waits,
                     (unsigned long long)(stats.mapped_bytes.all.current >> 20),
                     (unsigned long long)(stats.live_bytes.all.current >> 20),
                     (unsigned long long)(stats.cached_bytes >> 20));
        (void)fflush(stdout);
    }
    end_process();
}

/* The program that starts two of itself. */
struct process {
    pid_t pid;
    int gate; /* its standard input: closed, it begins */
    FILE *lines;
};

static void start_process(int number, struct process *process)
{
    posix_spawn_file_actions_t actions;
    char seed[64];
    char *arguments[] = {(char *)(uintptr_t) "two_processes", NULL};
    int output[2];
    int input[2];

    (void)snprintf(seed, sizeof seed, "%d", 1000 + number);
    ck_assert_int_eq(setenv("TARN_TWO_PROCESSES_ROLE", "one", 1), 0);
    ck_assert_int_eq(setenv("TARN_TWO_PROCESSES_SEED", seed, 1), 0);
    ck_assert_int_eq(pipe2(output, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(input, O_CLOEXEC), 0);
    ck_assert_int_eq(posix_spawn_file_actions_init(&actions), 0);
    ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO), 0);
    ck_assert_int_eq(posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO), 0);
    ck_assert_int_eq(
        posix_spawn(&process->pid, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(output[1]);
    (void)close(input[0]);
    ck_assert_int_eq(unsetenv("TARN_TWO_PROCESSES_ROLE"), 0);
    process->gate = input[1];
    process->lines = fdopen(output[0], "r");
    ck_assert_ptr_nonnull(process->lines);
}

/* Returns when the process is ready, or has ended without. */
static void await_ready(int number, struct process *process)
{
    char line[512];

    while (fgets(line, sizeof line, process->lines) != NULL && strcmp(line, "ready\n") != 0)
        (void)printf("process %d: %s", number, line);
}

/* How many windows the process had, in each of which it must have allocated; *refused: allocations that
 * failed. */
static int read_windows(int number, const struct process *process, uint64_t *refused)
{
    char line[512];
    int windows = 0;

    while (fgets(line, sizeof line, process->lines) != NULL) {
        unsigned long long taken;
        unsigned long long failed;
        int window;

        (void)printf("process %d: %s", number, line);
        if (sscanf(line, "window %d: %llu allocations, %llu refused", &window, &taken, &failed) !=
            3)
            continue;
        ck_assert_msg(taken > 0, "process %d got nothing in window %d", number, window);
        *refused += failed;
        windows += 1;
    }
    (void)fclose(process->lines);
    return windows;
}

TEST_WITH(processes, two_processes_get_on, 0, 1, .left_out = is_one_process())
{
    struct process processes[PROCESSES];
    uint64_t refused[PROCESSES] = {0};

    for (int i = 0; i < PROCESSES; i++)
        start_process(i, &processes[i]);
    for (int i = 0; i < PROCESSES; i++)
        await_ready(i, &processes[i]);
    for (int i = 0; i < PROCESSES; i++)
        (void)close(processes[i].gate);
    for (int i = 0; i < PROCESSES; i++) {
        int windows = read_windows(i, &processes[i], &refused[i]);
        int status = 0;

        ck_assert_int_eq(waitpid(processes[i].pid, &status, 0), processes[i].pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            _exit(77); /* no GPU */
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d ended with %d", i,
                      status);
        ck_assert_int_eq(windows, WINDOWS);
    }
    if (!is_simulated())
        ck_assert_msg(refused[0] > 0 && refused[1] > 0, "there was memory enough for both");
}
