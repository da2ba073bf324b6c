// SPDX-License-Identifier: Apache-2.0
/* A process belongs to a control group in each hierarchy, and the limits of all groups above hold as
 * well. In a container the path of the group may be the host's. Missing folders are passed over, up
 * to the root, which is the container's own group.
 *
 * Trade-offs: hierarchies are looked for where distributions mount them; others count as no limit.
 * Swap counts as nothing, since page-locked memory is never swapped. */
#include "base/room.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/contract.h"

enum { LINE_BYTES = 1024, PATH_BYTES = 2 * LINE_BYTES };

/* Without a limit, version 1 has a larger number; version 2 has a word. */
static const uint64_t no_limit = UINT64_MAX / 4;

static atomic_uint_fast64_t promised;

/* How a version of control groups names its files. */
struct version {
    const char *root;
    const char *limit;
    const char *usage;
    const char *unused; /* in memory.stat */
};

static const struct version version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                         "memory.usage_in_bytes", "total_inactive_file "};
static const struct version version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                         "inactive_file "};

/* The number behind the words at the beginning of a line; false: no line has it. */
static bool read_number(const char *path, const char *words, uint64_t *number)
{
    char line[LINE_BYTES];
    bool found = false;
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, words, strlen(words)) == 0) {
            const char *digits = line + strlen(words);
            char *end = NULL;

            *number = strtoull(digits, &end, 10);
            found = end != digits;
        }
    }
    (void)fclose(file);
    return found;
}

static bool read_of_group(const struct version *version, const char *group, const char *name,
                          const char *words, uint64_t *number)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s%s/%s", version->root, group, name);

    return length > 0 && (size_t)length < sizeof path && read_number(path, words, number);
}

static void narrow(struct tn_room *room, uint64_t bytes, const char *limit)
{
    if (bytes >= room->bytes)
        return;
    room->bytes = bytes;
    room->limit = limit;
}

/* The group and all above it; the text is cut shorter from group to group. */
static void read_groups(const struct version *version, char *group, struct tn_room *room)
{
    bool is_root;

    TN_ASSERT(*group == '/' || *group == '\0');
    do {
        uint64_t limit = no_limit;
        uint64_t usage = 0;
        uint64_t unused = 0;
        char *last = strrchr(group, '/');

        is_root = last == NULL;
        if (last != NULL && last[1] == '\0')
            *last = '\0';
        if (read_of_group(version, group, version->limit, "", &limit) && limit < no_limit &&
            read_of_group(version, group, version->usage, "", &usage)) {
            (void)read_of_group(version, group, "memory.stat", version->unused, &unused);
            usage -= tn_min(usage, unused);
            narrow(room, limit - tn_min(limit, usage), "the memory limit of its control group");
        }
        if (last != NULL)
            *last = '\0';
    } while (!is_root);
}

/* Lines are "number:controllers:path"; version 2 has number 0 and no controllers. */
static void read_hierarchies(struct tn_room *room)
{
    char line[LINE_BYTES];
    FILE *file = fopen("/proc/self/cgroup", "re");

    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');

        if (group == NULL || group[1] != '/')
            continue;
        *controllers++ = '\0';
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (strcmp(line, "0") == 0 && *controllers == '\0')
            read_groups(&version_2, group, room);
        else if (strcmp(controllers, "memory") == 0)
            read_groups(&version_1, group, room);
    }
    (void)fclose(file);
}

struct tn_room tn_room_read(void)
{
    struct tn_room room = {UINT64_MAX, "nothing"};
    uint64_t kib;

    if (read_number("/proc/meminfo", "MemAvailable:", &kib) && kib < UINT64_MAX / TN_KIB)
        narrow(&room, kib * TN_KIB, "what the machine has available");
    read_hierarchies(&room);
    return room;
}

bool tn_room_promise(uint64_t bytes, struct tn_room *room)
{
    uint64_t before = atomic_fetch_add(&promised, bytes);

    *room = tn_room_read();
    room->bytes -= tn_min(room->bytes, before);
    if (bytes <= room->bytes)
        return true;
    tn_room_return(bytes);
    return false;
}

void tn_room_return(uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub(&promised, bytes);

    TN_ASSERT(before >= bytes);
    (void)before;
}
