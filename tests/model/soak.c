// SPDX-License-Identifier: Apache-2.0
/* Random runs of the model in one process, one after the other, until so many steps are done:
 *
 *     model_soak [STEPS [FIRST_SEED]]
 *
 * STEPS is 10 million unless said; seeds go on from FIRST_SEED, the time unless said. The length of
 * a run varies with its seed. Prints a line every few seconds and the totals; a failure ends it with
 * the line that repeats the run. With --reduce SEED STEPS it finds frames that can be left out of a
 * failing run, and writes those that must stay to the file reduced.model, which --file runs. With
 * --write SEED STEPS FILE it writes a run as an input of the fuzzer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "model/model.h"
#include "support/cuda.h"

enum {
    STEPS_MIN = 200,
    STEPS_SPREAD = 4000,
    REPORT_SECONDS = 20,
    SECONDS_MAX = 300,
    REDUCE_SECONDS = 60
};

static char line[200];

static uint64_t steps_of(uint64_t seed)
{
    uint64_t random = seed;

    return STEPS_MIN + model_next(&random) % STEPS_SPREAD;
}

static int soak(uint64_t steps, uint64_t seed)
{
    time_t begun = time(NULL);
    time_t reported = begun;
    uint64_t done = 0;
    uint64_t runs = 0;

    for (; done < steps; seed++, runs++) {
        (void)snprintf(line, sizeof line,
                       "to repeat: TARN_MODEL_SEED=%llu TARN_MODEL_STEPS=%llu model_random\n",
                       (unsigned long long)seed, (unsigned long long)steps_of(seed));
        (void)alarm(SECONDS_MAX);
        model_run_random(seed, steps_of(seed));
        done += steps_of(seed);
        if (time(NULL) - reported < REPORT_SECONDS)
            continue;
        reported = time(NULL);
        (void)printf("%llu steps in %llu runs, %lld s, next seed %llu\n", (unsigned long long)done,
                     (unsigned long long)runs, (long long)(reported - begun),
                     (unsigned long long)seed + 1);
        (void)fflush(stdout);
    }
    (void)printf("total: %llu steps in %llu runs, %lld s, seeds to %llu: nothing found\n",
                 (unsigned long long)done, (unsigned long long)runs,
                 (long long)(time(NULL) - begun), (unsigned long long)seed - 1);
    return 0;
}

/* Reducing ----------------------------------------------------------------------------------- */

/* How the run ends: as waitpid says, 0 when well. Only one that hangs is ended by the alarm. */
static int end_of(const uint8_t *bytes, size_t size)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        model_repeat_with("");
        (void)alarm(REDUCE_SECONDS);
        model_run_bytes(bytes, size);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

/* Leaves out runs of frames, shorter and shorter, as long as it still ends in that way. */
static size_t reduce(uint8_t *bytes, size_t size, int end)
{
    size_t frames = (size - MODEL_HEAD_BYTES) / MODEL_FRAME_BYTES;
    uint8_t *tried = malloc(size);

    ck_assert_ptr_nonnull(tried);
    for (size_t part = frames / 2; part > 0; part = part > 1 ? (part + 1) / 2 : 0) {
        for (size_t at = frames; at >= part; at -= part) {
            size_t from = MODEL_HEAD_BYTES + (at - part) * MODEL_FRAME_BYTES;
            size_t to = from + part * MODEL_FRAME_BYTES;

            memcpy(tried, bytes, from);
            memcpy(tried + from, bytes + to, size - to);
            if (end_of(tried, size - (to - from)) != end)
                continue;
            size -= to - from;
            memcpy(bytes, tried, size);
            frames -= part;
        }
    }
    free(tried);
    return size;
}

static void write_file(const char *name, const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(name, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    (void)fclose(file);
}

static int reduce_run(uint64_t seed, uint64_t steps)
{
    size_t size;
    uint8_t *bytes = model_random_bytes(seed, steps, &size);

    int end = end_of(bytes, size);

    if (end == 0) {
        (void)printf("the run does not fail\n");
        return 1;
    }
    size = reduce(bytes, size, end);
    size = reduce(bytes, size, end);
    write_file("reduced.model", bytes, size);
    (void)printf("%zu steps are left, in reduced.model\n",
                 (size - MODEL_HEAD_BYTES) / MODEL_FRAME_BYTES);
    free(bytes);
    return 0;
}

/* The bytes of a run, as an input of the fuzzer. */
static int write_run(uint64_t seed, uint64_t steps, const char *name)
{
    size_t size;
    uint8_t *bytes = model_random_bytes(seed, steps, &size);

    write_file(name, bytes, size);
    free(bytes);
    return 0;
}

static int run_file(const char *name)
{
    static uint8_t bytes[1 << 20];
    FILE *file = fopen(name, "rb");
    size_t size;

    ck_assert_ptr_nonnull(file);
    size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    model_run_bytes(bytes, size);
    return 0;
}

int main(int count, char **words)
{
    model_repeat_with(line);
    if (count == 4 && strcmp(words[1], "--reduce") == 0)
        return reduce_run(strtoull(words[2], NULL, 0), strtoull(words[3], NULL, 0));
    if (count == 3 && strcmp(words[1], "--file") == 0)
        return run_file(words[2]);
    if (count == 5 && strcmp(words[1], "--write") == 0)
        return write_run(strtoull(words[2], NULL, 0), strtoull(words[3], NULL, 0), words[4]);
    return soak(count > 1 ? strtoull(words[1], NULL, 0) : 10000000,
                count > 2 ? strtoull(words[2], NULL, 0)
                          : test_setting("TARN_FRESH_SEED", (uint64_t)time(NULL)));
}
