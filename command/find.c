// SPDX-License-Identifier: Apache-2.0
#include "find.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host.h"

static const char shared_folder[] = "/dev/shm";

/* The number that the text is up to the end; false: it is none. */
static bool read_number(const char *text, const char *end, int base, uint64_t *number)
{
    char *stop;

    if (strchr("0123456789abcdef", *text) == NULL || *text == '\0')
        return false;
    errno = 0;
    *number = strtoull(text, &stop, base);
    return errno == 0 && stop == end;
}

/* tarn-USER-TIME-PROCESS.ring; false: the name is not of this kind, or another user's. Root sees all. */
static bool read_name(const char *name, struct found *found)
{
    static const char prefix[] = "tarn-";
    const char *user = name + sizeof prefix - 1;
    const char *time;
    const char *process;
    const char *end = strrchr(name, '.');
    uint64_t number;

    if (strncmp(name, prefix, sizeof prefix - 1) != 0 || end == NULL || strcmp(end, ".ring") != 0)
        return false;
    time = strchr(user, '-');
    process = time != NULL ? strchr(time + 1, '-') : NULL;
    return process != NULL && read_number(user, time, 10, &number) &&
           (number == geteuid() || geteuid() == 0) &&
           read_number(time + 1, process, 16, &found->made) &&
           read_number(process + 1, end, 10, &found->process);
}

static int compare_made(const void *a, const void *b)
{
    const struct found *left = a;
    const struct found *right = b;

    return left->made != right->made ? (left->made > right->made) - (left->made < right->made)
                                     : strcmp(left->path, right->path);
}

static bool read_folder(struct finds *finds, size_t *capacity, const char *path)
{
    DIR *folder = opendir(path);
    void *all = finds->all;
    bool has_memory = true;

    if (folder == NULL)
        return true; /* there are none */
    for (const struct dirent *entry; has_memory && (entry = readdir(folder)) != NULL;) {
        struct found found;
        int length;

        if (!read_name(entry->d_name, &found))
            continue;
        length = snprintf(found.path, sizeof found.path, "%s/%s", path, entry->d_name);
        if (length < 0 || (size_t)length >= sizeof found.path)
            continue; /* longer than any that the library makes */
        has_memory = tn_host_grow(&all, capacity, finds->count + 1, sizeof found);
        finds->all = all;
        if (has_memory)
            finds->all[finds->count++] = found;
    }
    (void)closedir(folder);
    return has_memory;
}

enum answer finds_read(struct finds *finds)
{
    char folder[TN_RING_FOLDER_MAX];
    size_t capacity = 0;
    bool has_memory = true;

    *finds = (struct finds){.all = NULL};
    if (tn_ring_folder(folder, sizeof folder) && strcmp(folder, shared_folder) != 0)
        has_memory = read_folder(finds, &capacity, folder);
    has_memory = has_memory && read_folder(finds, &capacity, shared_folder);
    if (!has_memory) {
        finds_free(finds);
        return say(ANSWER_WRONG, "no memory for the list of histories");
    }
    if (finds->count > 0)
        qsort(finds->all, finds->count, sizeof *finds->all, compare_made);
    return ANSWER_FOUND;
}

void finds_free(struct finds *finds)
{
    tn_host_free(finds->all);
    *finds = (struct finds){.all = NULL};
}

/* A process that has no history: is there one at all, and whose is it? */
static enum answer say_none(uint64_t process)
{
    if (process > INT32_MAX || (kill((pid_t)process, 0) != 0 && errno == ESRCH))
        return say(ANSWER_NOTHING, "process %llu is gone, and has left no history",
                   (unsigned long long)process);
    if (kill((pid_t)process, 0) != 0)
        return say(ANSWER_NOTHING, "process %llu is another user's: only root reads its history",
                   (unsigned long long)process);
    return say(ANSWER_NOTHING,
               "process %llu has no history: does it use Tarn, and with a history that has a file?",
               (unsigned long long)process);
}

static enum answer choose(const struct finds *finds, uint64_t process, char path[FIND_PATH_BYTES])
{
    const struct found *chosen = NULL;
    size_t count = 0;

    for (size_t i = 0; i < finds->count; i++) {
        if (finds->all[i].process != process)
            continue;
        chosen = &finds->all[i];
        count += 1;
    }
    if (chosen == NULL)
        return say_none(process);
    memcpy(path, chosen->path, sizeof chosen->path);
    if (count == 1)
        return ANSWER_FOUND;
    return say(ANSWER_WRONG,
               "process %llu has %zu histories, one for each device: name a file, as "
               "\"tarn list\" shows them; the newest is %s",
               (unsigned long long)process, count, path);
}

enum answer find_file(const char *word, char path[FIND_PATH_BYTES])
{
    struct finds finds;
    uint64_t process;
    enum answer answer;

    if (!read_number(word, word + strlen(word), 10, &process)) {
        int length = snprintf(path, FIND_PATH_BYTES, "%s", word);

        if (length < 0 || length >= FIND_PATH_BYTES)
            return say(ANSWER_WRONG, "the path is longer than %d bytes", FIND_PATH_BYTES - 1);
        return ANSWER_FOUND;
    }
    answer = finds_read(&finds);
    if (answer == ANSWER_FOUND)
        answer = choose(&finds, process, path);
    finds_free(&finds);
    return answer;
}
