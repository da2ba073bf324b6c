// SPDX-License-Identifier: Apache-2.0
/* A fuzzer for compilers that have none.
 *
 *     fuzz_model FOLDER                            runs each file of the folder
 *     fuzz_model FOLDER -runs=N [-seed=S] [-out=FOLDER]
 *                                                  and then N inputs made of those
 *
 * An input is made of another by changing, leaving out, repeating and inserting frames, or of two. One
 * that shows something new of the library (in a build that records it, TARN_FUZZ) is kept for the
 * rest of the run, and written to -out. The input that fails is left in failed.model, in the folder
 * where the program runs.
 *
 * Trade-offs: what an input shows is a set of steps between basic blocks, not how often. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "model/model.h"

enum { INPUTS_MAX = 4096, SECONDS_MAX = 60 };

struct input {
    uint8_t *bytes;
    size_t size;
};

static struct input inputs[INPUTS_MAX];
static size_t input_count;
static uint8_t seen[FUZZ_EDGES];
static size_t seen_count;
static uint64_t random_state;
static const struct input *running;

static size_t below(size_t bound)
{
    return (size_t)(model_next(&random_state) % bound);
}

static void save_failed(int number)
{
    int file = open("failed.model", O_WRONLY | O_CREAT | O_TRUNC, 0644);

    if (file >= 0 && running != NULL) {
        (void)!write(file, running->bytes, running->size);
        (void)close(file);
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* Runs it; whether it showed something new. */
static bool run(const struct input *input)
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

static struct input *keep(const uint8_t *bytes, size_t size)
{
    struct input *kept;

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

/* Making inputs ------------------------------------------------------------------------------ */

static size_t frames_of(size_t size)
{
    return size > MODEL_HEAD_BYTES ? (size - MODEL_HEAD_BYTES) / MODEL_FRAME_BYTES : 0;
}

static uint8_t *frame_at(uint8_t *bytes, size_t frame)
{
    return bytes + MODEL_HEAD_BYTES + frame * MODEL_FRAME_BYTES;
}

/* Makes room for frames before one, or takes them away; how many there are then. */
static size_t resize(uint8_t *bytes, size_t frames, size_t at, size_t take, size_t give)
{
    size_t most = (FUZZ_BYTES_MAX - MODEL_HEAD_BYTES) / MODEL_FRAME_BYTES;

    if (frames - take + give > most)
        return frames;
    memmove(frame_at(bytes, at + give), frame_at(bytes, at + take),
            (frames - at - take) * MODEL_FRAME_BYTES);
    return frames - take + give;
}

static size_t change(uint8_t *bytes, size_t frames)
{
    const struct input *other = &inputs[below(input_count)];
    size_t at = below(frames + 1);
    size_t count = 1 + below(4);
    size_t from;

    switch (below(7)) {
    case 0:
        bytes[below(MODEL_HEAD_BYTES)] = (uint8_t)below(256);
        return frames;
    case 1:
    case 2: /* another choice in a step */
        if (at < frames)
            frame_at(bytes, at)[below(MODEL_FRAME_BYTES)] = (uint8_t)below(256);
        return frames;
    case 3: /* another step */
        if (at < frames)
            model_random_frame(&random_state, frame_at(bytes, at));
        return frames;
    case 4: /* one more */
        from = resize(bytes, frames, at, 0, 1);
        if (from > frames)
            model_random_frame(&random_state, frame_at(bytes, at));
        return from;
    case 5: /* fewer */
        return at + count <= frames ? resize(bytes, frames, at, count, 0) : frames;
    default: /* some of another input */
        if (frames_of(other->size) < count)
            return frames;
        from = below(frames_of(other->size) - count + 1);
        if (resize(bytes, frames, at, 0, count) == frames)
            return frames;
        memcpy(frame_at(bytes, at), frame_at(other->bytes, from), count * MODEL_FRAME_BYTES);
        return frames + count;
    }
}

static struct input make(void)
{
    static uint8_t bytes[FUZZ_BYTES_MAX + MODEL_FRAME_BYTES];
    const struct input *from = &inputs[below(input_count)];
    size_t frames = frames_of(from->size);

    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, from->bytes, from->size);
    for (size_t changes = 1 + below(6); changes > 0; changes--)
        frames = change(bytes, frames);
    return (struct input){bytes, MODEL_HEAD_BYTES + frames * MODEL_FRAME_BYTES};
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

static void write_input(const char *folder, const struct input *input)
{
    char path[512];
    uint64_t hash = 1469598103934665603U; /* FNV-1a */
    FILE *file;

    for (size_t i = 0; i < input->size; i++)
        hash = (hash ^ input->bytes[i]) * 1099511628211U;
    (void)snprintf(path, sizeof path, "%s/%016llx.model", folder, (unsigned long long)hash);
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
    const struct input *a = one;
    const struct input *b = other;

    return a->size < b->size ? -1 : a->size > b->size;
}

int main(int count, char **words)
{
    const char *out = NULL;
    uint64_t runs = 0;
    size_t given;

    random_state = 1;
    for (int i = 2; i < count; i++) {
        if (strncmp(words[i], "-runs=", 6) == 0)
            runs = strtoull(words[i] + 6, NULL, 0);
        else if (strncmp(words[i], "-seed=", 6) == 0)
            random_state = strtoull(words[i] + 6, NULL, 0);
        else if (strncmp(words[i], "-out=", 5) == 0)
            out = words[i] + 5;
    }
    given = count > 1 ? read_folder(words[1]) : 0;
    if (given == 0) {
        (void)fprintf(stderr, "usage: fuzz_model FOLDER [-runs=N] [-seed=S] [-out=FOLDER]; the "
                              "folder has inputs\n");
        return 1;
    }
    model_repeat_with("");
    (void)signal(SIGABRT, save_failed);
    (void)signal(SIGALRM, save_failed);
    qsort(inputs, given, sizeof inputs[0], compare_sizes);
    for (size_t i = 0; i < given; i++) {
        if (run(&inputs[i]) && out != NULL)
            write_input(out, &inputs[i]);
    }
    (void)printf("%zu inputs of the folder show %zu steps\n", given, seen_count);
    for (uint64_t i = 0; i < runs; i++) {
        struct input made = make();

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
