// SPDX-License-Identifier: Apache-2.0
/* Threads that come and go on the simulated driver, with the streams that come and go with them:
 * per-thread default streams, blocking streams and the legacy stream, whose order nobody states but
 * the driver; and captures that outlive the thread that began them.
 *
 * Generations of 16 threads live for a few operations each. What a thread writes by one stream it
 * reads by another that the driver orders behind it, without waiting in between. In the end no
 * thread, file or object of the simulator is left that was not there before.
 *
 * Each run prints the line that repeats it: TARN_STRESS_SEED=... TARN_STRESS_THREADS=... */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/cuda.h"

enum {
    TOGETHER = 16,
    STEPS = 12,
    WORDS = 256,
    PATIENCE_MS = 10000, /* for threads of the simulator to end */
};
#define BYTES (WORDS * sizeof(uint32_t))

struct mortal {
    pthread_t thread;
    uint64_t random;
    tn_cu_deviceptr memory; /* of its place, not of its own */
    tn_cu_stream abandoned; /* a stream with a capture under way; NULL: none */
    size_t nodes;           /* of that capture */
};

static tn_cu_context context;

/* SplitMix64, by S. Vigna. */
static uint64_t next_random(struct mortal *m)
{
    uint64_t z = m->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static void check(const uint32_t *words, uint32_t value, const char *what)
{
    for (int i = 0; i < WORDS; i++)
        ck_assert_msg(words[i] == value, "%s: word %d is %08x instead of %08x", what, i, words[i],
                      value);
}

/* What a synchronous copy reads: it comes after everything in blocking streams. */
static void check_memory(const struct mortal *m, uint32_t value, const char *what)
{
    uint32_t words[WORDS];
    CU_OK(cu.cuMemcpyDtoH(words, m->memory, BYTES));
    check(words, value, what);
}

static tn_cu_stream new_stream(unsigned int flags)
{
    tn_cu_stream stream;
    CU_OK(cu.cuStreamCreate(&stream, flags));
    return stream;
}

static void by_own_stream(struct mortal *m, uint32_t value)
{
    CU_OK(cu.cuMemsetD32Async(m->memory, value - 1, WORDS, TN_CU_STREAM_PER_THREAD));
    test_add(TN_CU_STREAM_PER_THREAD, (void *)(uintptr_t)m->memory, 1, WORDS);
    check_memory(m, value, "the thread's own stream");
}

/* The stream is gone before its work is done. */
static void by_blocking_stream(struct mortal *m, uint32_t value)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_DEFAULT);
    test_fill(stream, (void *)(uintptr_t)m->memory, value, WORDS);
    CU_OK(cu.cuStreamDestroy(stream));
    check_memory(m, value, "a blocking stream");
}

static void by_event(struct mortal *m, uint32_t value)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event;
    CU_OK(cu.cuEventCreate(&event, TN_CU_EVENT_DISABLE_TIMING));
    test_fill(stream, (void *)(uintptr_t)m->memory, value, WORDS);
    CU_OK(cu.cuEventRecord(event, stream));
    CU_OK(cu.cuStreamWaitEvent(TN_CU_STREAM_LEGACY, event, 0));
    CU_OK(cu.cuEventDestroy(event));
    check_memory(m, value, "an event that the legacy stream waits for");
    CU_OK(cu.cuStreamDestroy(stream));
}

static void by_legacy_stream(struct mortal *m, uint32_t value)
{
    uint32_t words[WORDS];
    tn_cu_stream stream = new_stream(TN_CU_STREAM_DEFAULT);
    CU_OK(cu.cuMemsetD32Async(m->memory, value, WORDS, NULL));
    CU_OK(cu.cuMemcpyDtoHAsync(words, m->memory, BYTES, stream));
    CU_OK(cu.cuStreamSynchronize(stream));
    check(words, value, "the legacy stream");
    CU_OK(cu.cuStreamDestroy(stream));
}

/* A thread leaves at most one capture behind, which another one ends. */
static void abandon(struct mortal *m, uint32_t value)
{
    if (m->abandoned != NULL)
        return;
    m->abandoned = new_stream(TN_CU_STREAM_NON_BLOCKING);
    m->nodes = value % 4;
    CU_OK(cu.cuStreamBeginCapture(m->abandoned, TN_CU_CAPTURE_MODE_RELAXED));
    for (size_t i = 0; i < m->nodes; i++)
        CU_OK(cu.cuMemsetD32Async(m->memory, value, WORDS, m->abandoned));
}

static void *live(void *argument)
{
    static void (*const ways[])(struct mortal *, uint32_t) = {by_own_stream, by_blocking_stream,
                                                              by_event, by_legacy_stream, abandon};
    struct mortal *m = argument;
    CU_OK(cu.cuCtxSetCurrent(context));
    for (int i = 0; i < STEPS; i++) {
        uint64_t choice = next_random(m) % (sizeof ways / sizeof ways[0]);
        ways[choice](m, (uint32_t)next_random(m));
    }
    return NULL;
}

/* Ends the capture that a thread has left, or lets it go with its stream. */
static void clear_up(struct mortal *m)
{
    tn_cu_graph graph;
    size_t nodes;
    if (m->abandoned == NULL)
        return;
    if (next_random(m) % 2 == 0) {
        CU_OK(cu.cuStreamEndCapture(m->abandoned, &graph));
        CU_OK(cu.cuGraphGetNodes(graph, NULL, &nodes));
        ck_assert_uint_eq(nodes, m->nodes);
        CU_OK(cu.cuGraphDestroy(graph));
    }
    CU_OK(cu.cuStreamDestroy(m->abandoned));
    m->abandoned = NULL;
}

static size_t entries(const char *path)
{
    size_t count = 0;
    DIR *folder = opendir(path);
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* Threads of the simulator end a little after the streams that they served. */
static void await_threads(size_t before)
{
    for (int waited = 0; entries("/proc/self/task") > before; waited++) {
        ck_assert_msg(waited < PATIENCE_MS, "%zu threads are left, %zu were there before",
                      entries("/proc/self/task"), before);
        usleep(1000);
    }
}

SUITE("stress")
GROUP(churn, NULL, .name = "threads that come and go", .timeout = 600)

TEST(churn, threads_that_end_leave_nothing)
{
    static struct mortal mortals[TOGETHER];
    uint64_t seed = test_seed("TARN_STRESS_SEED", 7919);
    uint64_t count = test_setting("TARN_STRESS_THREADS", 2000);

    (void)fprintf(stderr, "to repeat: TARN_STRESS_SEED=%llu TARN_STRESS_THREADS=%llu\n",
                  (unsigned long long)seed, (unsigned long long)count);
    test_start();
    CU_OK(cu.cuCtxGetCurrent(&context));
    CU_OK(cu.cuStreamSynchronize(NULL));
    for (int i = 0; i < TOGETHER; i++) {
        mortals[i].random = seed * TOGETHER + (uint64_t)i;
        CU_OK(cu.cuMemAlloc(&mortals[i].memory, BYTES));
    }
    /* The first copy starts the legacy stream's own thread. */
    CU_OK(cu.cuMemsetD32Async(mortals[0].memory, 0, 1, NULL));
    CU_OK(cu.cuStreamSynchronize(NULL));
    tarn_sim_ledger before = test_ledger();
    size_t threads = entries("/proc/self/task");
    size_t files = entries("/proc/self/fd");

    for (uint64_t done = 0; done < count; done += TOGETHER) {
        for (int i = 0; i < TOGETHER; i++)
            ck_assert_int_eq(pthread_create(&mortals[i].thread, NULL, live, &mortals[i]), 0);
        for (int i = 0; i < TOGETHER; i++)
            ck_assert_int_eq(pthread_join(mortals[i].thread, NULL), 0);
        for (int i = 0; i < TOGETHER; i++)
            clear_up(&mortals[i]);
    }
    CU_OK(cu.cuCtxSynchronize());
    test_same_ledger(&before);
    await_threads(threads);
    ck_assert_uint_eq(entries("/proc/self/fd"), files);
    for (int i = 0; i < TOGETHER; i++)
        CU_OK(cu.cuMemFree(mortals[i].memory));
}
