// SPDX-License-Identifier: Apache-2.0
/* A file that is written has its name when it is whole, and never before. */
#include "out.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "support/registry.h"

SUITE("where the command writes")

static char folder[] = "/tmp/tarn-out-XXXXXX";
static char path[64];

static void begin(void)
{
    (void)strcpy(folder + sizeof folder - 1 - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/report", folder);
}

static size_t count_files(void)
{
    DIR *files = opendir(folder);
    size_t count = 0;

    ck_assert_ptr_nonnull(files);
    for (const struct dirent *file; (file = readdir(files)) != NULL;)
        count += file->d_name[0] != '.';
    ck_assert_int_eq(closedir(files), 0);
    return count;
}

static void end(void)
{
    (void)unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void expect_text(const char *expected)
{
    char text[64] = "";
    FILE *file = fopen(path, "r");

    ck_assert_ptr_nonnull(file);
    (void)fread(text, 1, sizeof text - 1, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_str_eq(text, expected);
}

static void write_old(void)
{
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    (void)fputs("old", file);
    ck_assert_int_eq(fclose(file), 0);
}

GROUP(files, begin, .end = end)

TEST(files, the_old_one_stays_until_the_new_one_is_whole)
{
    struct out out;
    struct stat what;

    write_old();
    (void)umask(027);
    ck_assert(out_open(&out, path));
    (void)fputs("new", out.file);
    ck_assert_int_eq(fflush(out.file), 0);
    expect_text("old");
    ck_assert(out_close(&out));
    expect_text("new");
    ck_assert_uint_eq(count_files(), 1);
    ck_assert_int_eq(stat(path, &what), 0);
    ck_assert_int_eq(what.st_mode & 0777, 0640);
}

TEST(files, that_are_abandoned_leave_nothing)
{
    struct out out;

    write_old();
    ck_assert(out_open(&out, path));
    (void)fputs("new", out.file);
    out_abandon(&out);
    expect_text("old");
    ck_assert_uint_eq(count_files(), 1);
}

/* The system refuses what is behind the limit, as it does on a full disk. */
TEST(files, that_have_no_room_leave_the_old_one)
{
    const struct rlimit limit = {4096, 4096};
    struct out out;

    write_old();
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert(out_open(&out, path));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 10000; i++)
        (void)fputs("a line that is written\n", out.file);
    ck_assert(!out_close(&out));
    expect_text("old");
    ck_assert_uint_eq(count_files(), 1);
}

TEST(files, in_a_folder_that_is_not_there_are_refused)
{
    struct out out;

    ck_assert(!out_open(&out, "/nowhere/at/all"));
}
