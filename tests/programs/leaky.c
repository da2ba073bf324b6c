// SPDX-License-Identifier: Apache-2.0
/* leaky.c -- leaks on purpose, for TARN_LEAKS: what the library writes about it is compared with what
 * is expected.
 *   leaky         leaks, and ends normally
 *   leaky close   the same, but tries to close the device
 *   leaky fork    the same, and a child that ends normally, too
 *   leaky busy    threads still allocate and free while main returns
 *   leaky late    frees all in a function of atexit() that was there before the device
 *   leaky early   ends by _exit() */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tarn/tarn.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != TARN_OK) {                                                                   \
            (void)printf("%s: %s\n", #call, tarn_last_error());                                    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* What stands behind a call keeps the caller's frame. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

enum { THREADS = 4, KEPT = 64 };

static tarn_device *device;
static tarn_pool *weights;
static void *kept[KEPT];
static size_t kept_count;

/* The loader knows their names. */
#define NAMED __attribute__((visibility("default"), noinline))
NAMED void leak_one(size_t bytes);
NAMED void leak_from_pool(size_t bytes);
NAMED void leak_many(void);
NAMED int main(int count, char **words);

void leak_one(size_t bytes)
{
    OK(tarn_malloc(device, bytes, NULL, &kept[kept_count++]));
    KEEP_FRAME();
}

void leak_from_pool(size_t bytes)
{
    OK(tarn_pool_malloc(weights, bytes, 0, NULL, &kept[kept_count++]));
    KEEP_FRAME();
}

void leak_many(void)
{
    volatile size_t count = 3; /* no loop is rolled out: its calls have one place */

    for (size_t i = 0; i < count; i++)
        leak_one((i + 1) << 20);
    KEEP_FRAME();
}

static void free_all(void)
{
    while (kept_count > 0)
        OK(tarn_free(kept[--kept_count]));
}

static void *stay_busy(void *stream)
{
    unsigned rest = 1;

    for (;;) {
        void *blocks[8];

        for (size_t i = 0; i < 8; i++) {
            rest = rest * 1103515245 + 12345;
            if (tarn_malloc(device, (rest >> 8) % (4 << 20) + 1, stream, &blocks[i]) != TARN_OK)
                return NULL;
        }
        for (size_t i = 0; i < 8; i++)
            if (tarn_free(blocks[i]) != TARN_OK)
                return NULL;
    }
}

static void begin_threads(void)
{
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, stay_busy, NULL) != 0)
            exit(1);
        (void)pthread_detach(thread);
    }
    (void)usleep(20000);
}

int main(int count, char **words)
{
    const char *way = count > 1 ? words[1] : "";
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    void *freed;

    if (strcmp(way, "late") == 0)
        (void)atexit(free_all);
    OK(tarn_device_open(0, NULL, &device));
    options.name = "weights";
    OK(tarn_pool_create(device, &options, &weights));
    leak_many();
    leak_from_pool(5000);
    OK(tarn_malloc(device, 7 << 20, NULL, &freed));
    OK(tarn_free(freed));
    if (strcmp(way, "close") == 0)
        (void)printf("close: %s\n", tarn_status_name(tarn_device_close(device)));
    if (strcmp(way, "fork") == 0) {
        pid_t child = fork();
        int status = -1;

        if (child == 0)
            exit(0);
        (void)waitpid(child, &status, 0);
        (void)printf("child: %d\n", status);
    }
    if (strcmp(way, "busy") == 0)
        begin_threads();
    (void)printf("end\n");
    if (strcmp(way, "early") == 0) {
        (void)fflush(stdout);
        _exit(7);
    }
    return 7;
}
