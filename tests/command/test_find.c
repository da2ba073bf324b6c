// SPDX-License-Identifier: Apache-2.0
/* Which files are histories by their names, and which one a process means. */
#include "find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/registry.h"

SUITE("histories that are found")

/* No process has such a number. */
enum { GONE = 999999991 };

static char folder[] = "/tmp/tarn-find-XXXXXX";

static void begin(void)
{
    (void)strcpy(folder + sizeof folder - 1 - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
}

static void end(void)
{
    char command[64];

    (void)snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void make(const char *name, unsigned user)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/tarn-%u-%s", folder, user, name);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
}

/* In the folder: others may be in /dev/shm. */
static size_t count_own(const struct finds *finds)
{
    size_t count = 0;

    for (size_t i = 0; i < finds->count; i++)
        count += strncmp(finds->all[i].path, folder, strlen(folder)) == 0;
    return count;
}

GROUP(files, begin, .end = end)

TEST(files, are_found_by_names_as_the_library_makes_them)
{
    struct finds finds;

    make("00000000000000ff-12.ring", geteuid());
    make("00000000000000fe-13.ring", geteuid());
    make("00000000000000fd-14.ring.old", geteuid());
    make("00000000000000f9-18.old", geteuid());
    make("00000000000000xd-15.ring", geteuid());
    make("-16.ring", geteuid());
    make("00000000000000fc-.ring", geteuid());
    make("00000000000000fb-99999999999999999999999.ring", geteuid());
    make("00000000000000fa-17.ring", geteuid() + 1);
    ck_assert_int_eq(finds_read(&finds), ANSWER_FOUND);
    ck_assert_uint_eq(count_own(&finds), geteuid() == 0 ? 3 : 2);
    for (size_t i = 1; i < finds.count; i++)
        ck_assert_uint_ge(finds.all[i].made, finds.all[i - 1].made);
    finds_free(&finds);
}

TEST(files, of_one_process_are_one_or_to_be_named)
{
    char path[FIND_PATH_BYTES];
    char word[32];
    char name[64];

    (void)snprintf(word, sizeof word, "%d", GONE);
    ck_assert_int_eq(find_file(word, path), ANSWER_NOTHING);
    (void)snprintf(name, sizeof name, "00000000000000ff-%d.ring", GONE);
    make(name, geteuid());
    ck_assert_int_eq(find_file(word, path), ANSWER_FOUND);
    ck_assert_ptr_nonnull(strstr(path, name));
    (void)snprintf(name, sizeof name, "0000000000000100-%d.ring", GONE);
    make(name, geteuid());
    ck_assert_int_eq(find_file(word, path), ANSWER_WRONG);
}

TEST(files, are_paths_where_the_word_is_no_number)
{
    static char long_path[FIND_PATH_BYTES + 8];
    char path[FIND_PATH_BYTES];

    ck_assert_int_eq(find_file("./12", path), ANSWER_FOUND);
    ck_assert_str_eq(path, "./12");
    ck_assert_int_eq(find_file("12x", path), ANSWER_FOUND);
    memset(long_path, 'a', FIND_PATH_BYTES);
    ck_assert_int_eq(find_file(long_path, path), ANSWER_WRONG);
    long_path[FIND_PATH_BYTES - 1] = '\0';
    ck_assert_int_eq(find_file(long_path, path), ANSWER_FOUND);
}
