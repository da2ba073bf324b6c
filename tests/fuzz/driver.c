// SPDX-License-Identifier: Apache-2.0
/* A fuzzer for compilers that have none.
 *
 *     fuzz_<name> FOLDER                            runs each file of the folder
 *     fuzz_<name> FOLDER -runs=N [-seed=S] [-out=FOLDER]
 *                                                   and then N inputs made of those
 *
 * An input is made of another by a few changes, which are the target's (fuzz.h). One that shows something
 * new of the library (in a build that records it, TARN_FUZZ) is kept for the rest of the run, and written
 * to -out. The input that fails is left in failed.<name>, in the folder where the program runs.
 *
 * Trade-offs: what an input shows is a set of steps between basic blocks, not how often. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"

enum { INPUTS_MAX = 4096, SECONDS_MAX = 60 };

static struct fuzz_input inputs[INPUTS_MAX];
static size_t input_count;
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

static struct fuzz_input *keep(const uint8_t *bytes, size_t size)
{
    struct fuzz_input *kept;

    if (input_count == INPUTS_MAX)
        return NULL;
    kept = &inputs[input_count];
    kept->bytes = malloc(size + 1);
    if (kept->bytes == NULL)
        return NULL;
    memcpy(kept->bytes, bytes, size);
    kept->size = size;
    input_count += 1;
    return kept;
}

static struct fuzz_input make(void)
{
    static uint8_t bytes[FUZZ_BYTES_MAX];
    const struct fuzz_input *from = &inputs[fuzz_below(input_count)];
    size_t size = from->size;

    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, from->bytes, size);
    for (size_t changes = 1 + fuzz_below(6); changes > 0; changes--)
        size = fuzz_change(bytes, size, &inputs[fuzz_below(input_count)]);
    return (struct fuzz_input){bytes, size};
}

/* Files -------------------------------------------------------------------------------------- */

static bool read_file(const char *folder, const char *name)
{
    static uint8_t bytes[FUZZ_BYTES_MAX];
    char path[512];
    FILE *file;
    size_t size;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (file == NULL)
        return false;
    size = fread(bytes, 1, sizeof bytes, file);
    (void)fclose(file);
    return keep(bytes, size) != NULL;
}

static void write_input(const char *folder, const struct fuzz_input *input)
{
    char path[512];
    uint64_t hash = 1469598103934665603U; /* FNV-1a */
    FILE *file;

    for (size_t i = 0; i < input->size; i++)
        hash = (hash ^ input->bytes[i]) * 1099511628211U;
    (void)snprintf(path, sizeof path, "%s/%016llx.%s", folder, (unsigned long long)hash, fuzz_name);
    file = fopen(path, "wb");
    if (file == NULL)
        return;
    (void)fwrite(input->bytes, 1, input->size, file);
    (void)fclose(file);
}

static size_t read_folder(const char *name)
{
    DIR *folder = opendir(name);
    struct dirent *entry;
    size_t count = 0;

    if (folder == NULL)
        return 0;
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.' && read_file(name, entry->d_name))
            count += 1;
    }
    (void)closedir(folder);
    return count;
}

static int compare_sizes(const void *one, const void *other)
{
    const struct fuzz_input *a = one;
    const struct fuzz_input *b = other;

    return a->size < b->size ? -1 : a->size > b->size;
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
    given = count > 1 ? read_folder(words[1]) : 0;
    if (given == 0) {
        (void)fprintf(
            stderr,
            "usage: fuzz_%s FOLDER [-runs=N] [-seed=S] [-out=FOLDER]; the folder has inputs\n",
            fuzz_name);
        return 1;
    }
    (void)snprintf(failed_path, sizeof failed_path, "failed.%s", fuzz_name);
    fuzz_begin();
    (void)signal(SIGABRT, save_failed);
    (void)signal(SIGALRM, save_failed);
    qsort(inputs, given, sizeof inputs[0], compare_sizes);
    for (size_t i = 0; i < given; i++) {
        if (run(&inputs[i]) && out != NULL)
            write_input(out, &inputs[i]);
    }
    (void)printf("%zu inputs of the folder show %zu steps\n", given, seen_count);
    for (uint64_t i = 0; i < runs; i++) {
        struct fuzz_input made = make();

        if (run(&made) && keep(made.bytes, made.size) != NULL && out != NULL)
            write_input(out, &made);
        if (i % 1000 == 999) {
            (void)printf("%llu runs, %zu inputs, %zu steps\n", (unsigned long long)i + 1,
                         input_count, seen_count);
            (void)fflush(stdout);
        }
    }
    (void)printf("%llu runs, nothing found\n", (unsigned long long)(runs + given));
    return 0;
}
