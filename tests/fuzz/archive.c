// SPDX-License-Identifier: Apache-2.0
#include "fuzz/archive.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD "tarninp1"
enum { HEAD_BYTES = 8, SIZE_BYTES = 4 };

struct fuzz_input *fuzz_inputs_add(struct fuzz_inputs *inputs, const uint8_t *bytes, size_t size)
{
    struct fuzz_input *added;

    if (inputs->count == FUZZ_INPUTS_MAX)
        return NULL;
    added = &inputs->items[inputs->count];
    added->bytes = malloc(size + 1);
    if (added->bytes == NULL)
        return NULL;
    if (size > 0)
        memcpy(added->bytes, bytes, size);
    added->size = size;
    inputs->count += 1;
    return added;
}

static size_t get_size(const uint8_t *at)
{
    return (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
}

/* Adds what stands behind the head. */
static bool read_archive(struct fuzz_inputs *inputs, FILE *file)
{
    static uint8_t bytes[FUZZ_BYTES_MAX];
    uint8_t size[SIZE_BYTES];

    while (fread(size, 1, sizeof size, file) == sizeof size) {
        if (get_size(size) > sizeof bytes ||
            fread(bytes, 1, get_size(size), file) != get_size(size) ||
            fuzz_inputs_add(inputs, bytes, get_size(size)) == NULL)
            return false;
    }
    return feof(file) != 0;
}

/* Reads an archive, or a file that is one input. */
static bool read_file(struct fuzz_inputs *inputs, const char *path)
{
    static uint8_t bytes[FUZZ_BYTES_MAX];
    FILE *file = fopen(path, "rb");
    size_t size;
    bool good;

    if (file == NULL)
        return false;
    size = fread(bytes, 1, HEAD_BYTES, file);
    if (size == HEAD_BYTES && memcmp(bytes, HEAD, HEAD_BYTES) == 0) {
        good = read_archive(inputs, file);
    } else {
        size += fread(bytes + size, 1, sizeof bytes - size, file);
        good = fuzz_inputs_add(inputs, bytes, size) != NULL;
    }
    (void)fclose(file);
    return good;
}

bool fuzz_inputs_read(struct fuzz_inputs *inputs, const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    char file[512];
    bool good = true;

    if (folder == NULL)
        return read_file(inputs, path);
    while (good && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        good = read_file(inputs, file);
    }
    (void)closedir(folder);
    return good;
}

static int compare(const void *one, const void *other)
{
    const struct fuzz_input *a = one;
    const struct fuzz_input *b = other;

    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return memcmp(a->bytes, b->bytes, a->size);
}

void fuzz_inputs_sort(struct fuzz_inputs *inputs)
{
    size_t kept = 0;

    qsort(inputs->items, inputs->count, sizeof inputs->items[0], compare);
    for (size_t i = 0; i < inputs->count; i++) {
        if (kept > 0 && compare(&inputs->items[kept - 1], &inputs->items[i]) == 0)
            free(inputs->items[i].bytes);
        else
            inputs->items[kept++] = inputs->items[i];
    }
    inputs->count = kept;
}

bool fuzz_inputs_write(const struct fuzz_inputs *inputs, const char *path)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL)
        return false;
    (void)fwrite(HEAD, 1, HEAD_BYTES, file);
    for (size_t i = 0; i < inputs->count; i++) {
        size_t size = inputs->items[i].size;
        uint8_t head[SIZE_BYTES] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16),
                                    (uint8_t)(size >> 24)};

        (void)fwrite(head, 1, sizeof head, file);
        (void)fwrite(inputs->items[i].bytes, 1, size, file);
    }
    return fclose(file) == 0;
}

bool fuzz_input_write(const struct fuzz_input *input, const char *folder, const char *suffix)
{
    char path[512];
    uint64_t hash = 1469598103934665603U; /* FNV-1a */
    FILE *file;

    for (size_t i = 0; i < input->size; i++)
        hash = (hash ^ input->bytes[i]) * 1099511628211U;
    (void)snprintf(path, sizeof path, "%s/%016llx.%s", folder, (unsigned long long)hash, suffix);
    file = fopen(path, "wb");
    if (file == NULL)
        return false;
    (void)fwrite(input->bytes, 1, input->size, file);
    return fclose(file) == 0;
}
