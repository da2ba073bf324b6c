// SPDX-License-Identifier: Apache-2.0
/* A fuzzer for compilers that have none.
 *
 *     fuzz_<name> INPUTS                            runs each input of an archive, or file of a folder
 *     fuzz_<name> INPUTS -runs=N [-seed=S] [-out=FOLDER]
 *                                                   and then N inputs made of those
 *
 * An input is made of another by a few changes, which are the target's (fuzz.h). One that shows something
 * new of the library (in a build that records it, TARN_FUZZ) is kept for the rest of the run, and written
 * to -out. The input that fails is left in failed.<name>, in the folder where the program runs.
 *
 * Trade-offs: what an input shows is a set of steps between basic blocks, not how often. */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/archive.h"

enum { SECONDS_MAX = 60 };

static struct fuzz_inputs inputs;
static uint8_t seen[FUZZ_EDGES];
static size_t seen_count;
static const struct fuzz_input *running;

static char failed_path[64];
uint64_t fuzz_random = 1;

/* SplitMix64, by S. Vigna. */
size_t fuzz_below(size_t bound)
{
    uint64_t x = fuzz_random += 0x9e3779b97f4a7c15;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return (size_t)((x ^ (x >> 31)) % bound);
}

static void save_failed(int number)
{
    int file = open(failed_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (file >= 0 && running != NULL) {
        (void)!write(file, running->bytes, running->size);
        (void)close(file);
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* Runs it; whether it showed something new. */
static bool run(const struct fuzz_input *input)
{
    size_t before = seen_count;

    memset(fuzz_edges, 0, sizeof fuzz_edges);
    running = input;
    (void)alarm(SECONDS_MAX);
    (void)LLVMFuzzerTestOneInput(input->bytes, input->size);
    (void)alarm(0);
    running = NULL;
    for (size_t i = 0; i < FUZZ_EDGES; i++) {
        seen_count += fuzz_edges[i] != 0 && seen[i] == 0;
        seen[i] |= fuzz_edges[i];
    }
    return seen_count > before;
}

static struct fuzz_input make(void)
{
    static uint8_t bytes[FUZZ_BYTES_MAX];
    const struct fuzz_input *from = &inputs.items[fuzz_below(inputs.count)];
    size_t size = from->size;

    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, from->bytes, size);
    for (size_t changes = 1 + fuzz_below(6); changes > 0; changes--)
        size = fuzz_change(bytes, size, &inputs.items[fuzz_below(inputs.count)]);
    return (struct fuzz_input){bytes, size};
}

int main(int count, char **words)
{
    const char *out = NULL;
    uint64_t runs = 0;
    size_t given;

    for (int i = 2; i < count; i++) {
        if (strncmp(words[i], "-runs=", 6) == 0)
            runs = strtoull(words[i] + 6, NULL, 0);
        else if (strncmp(words[i], "-seed=", 6) == 0)
            fuzz_random = strtoull(words[i] + 6, NULL, 0);
        else if (strncmp(words[i], "-out=", 5) == 0)
            out = words[i] + 5;
    }
    if (count < 2 || !fuzz_inputs_read(&inputs, words[1]) || inputs.count == 0) {
        (void)fprintf(stderr, "usage: fuzz_%s INPUTS [-runs=N] [-seed=S] [-out=FOLDER]\n",
                      fuzz_name);
        return 1;
    }
    (void)snprintf(failed_path, sizeof failed_path, "failed.%s", fuzz_name);
    fuzz_begin();
    (void)signal(SIGABRT, save_failed);
    (void)signal(SIGALRM, save_failed);
    fuzz_inputs_sort(&inputs);
    given = inputs.count;
    for (size_t i = 0; i < given; i++) {
        if (run(&inputs.items[i]) && out != NULL)
            (void)fuzz_input_write(&inputs.items[i], out, fuzz_name);
    }
    (void)printf("%zu inputs show %zu steps\n", given, seen_count);
    for (uint64_t i = 0; i < runs; i++) {
        struct fuzz_input made = make();

        if (run(&made) && fuzz_inputs_add(&inputs, made.bytes, made.size) != NULL && out != NULL)
            (void)fuzz_input_write(&made, out, fuzz_name);
        if (i % 1000 == 999) {
            (void)printf("%llu runs, %zu inputs, %zu steps\n", (unsigned long long)i + 1,
                         inputs.count, seen_count);
            (void)fflush(stdout);
        }
    }
    (void)printf("%llu runs, nothing found\n", (unsigned long long)(runs + given));
    return 0;
}
