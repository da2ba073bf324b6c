// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/ring_file.h"
#include "unit/unit.h"

SUITE("files of rings")

enum { KIND = 2, PAGES = 4 };

static char folder[] = "/tmp/tarn-ring-XXXXXX";

static void make_folder(void)
{
    strcpy(folder + sizeof folder - 1 - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

/* Calls act with the path of each file in the folder; returns how many there are. */
static size_t each_file(void (*act)(const char *path))
{
    char command[sizeof folder + 32];
    char line[TN_RING_PATH_MAX];
    size_t count = 0;
    FILE *list;

    (void)snprintf(command, sizeof command, "find %s -type f | sort", folder);
    list = popen(command, "r");
    ck_assert_ptr_nonnull(list);
    while (fgets(line, sizeof line, list) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        count += 1;
        if (act != NULL)
            act(line);
    }
    ck_assert_int_eq(pclose(list), 0);
    return count;
}

static void remove_file(const char *path)
{
    ck_assert_int_eq(unlink(path), 0);
}

static void remove_folder(void)
{
    (void)each_file(remove_file);
    ck_assert_int_eq(rmdir(folder), 0);
}

GROUP(files, make_folder, .end = remove_folder)

/* Writes one event with the value into a file that is made, and leaves it there. */
static void write_value(struct tn_ring_file *file, uint64_t value)
{
    static const atomic_uint_fast64_t counter;
    struct tn_ring ring;
    struct tn_ring_writer writer = {.ring = &ring, .id = 1};

    ck_assert(tn_ring_file_make(file, folder, &(struct tn_ring_plan){.page_count = PAGES}));
    ck_assert(tn_ring_init(&ring, tn_ring_file_pages(file), PAGES, &counter));
    tn_ring_put(&writer, KIND, value);
    tn_ring_leave(&writer);
    tn_ring_drop(&ring);
}

/* The value of that event, in a file that is whole. */
static uint64_t value_in(struct tn_ring_reader *reader, const char *path)
{
    struct tn_ring_copy copy;

    ck_assert_int_eq(tn_ring_reader_open(reader, path), TN_RING_OPENED);
    ck_assert_uint_eq(reader->head.page_count, PAGES);
    ck_assert_int_eq(tn_ring_read(tn_ring_from_file, reader, 0, &copy), TN_RING_READ);
    ck_assert_uint_eq(copy.word_count, 2);
    ck_assert_uint_eq(tn_ring_kind(copy.words[1]), KIND);
    return tn_ring_value(copy.words[1]);
}

/* A process writes the value, and ends without a word. Returns its pid. */
static pid_t write_and_die(uint64_t value)
{
    struct tn_ring_file file;
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        write_value(&file, value);
        (void)raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return child;
}

TEST(files, a_living_process_has_a_file_of_its_own_until_it_removes_it)
{
    struct tn_ring_file file;
    struct tn_ring_reader reader;
    struct stat what;

    write_value(&file, 42);
    ck_assert_int_eq(file.error, 0);
    ck_assert_int_eq(stat(file.path, &what), 0);
    ck_assert_uint_eq(what.st_mode & 07777, 0600);
    ck_assert_int_eq(what.st_size, (PAGES + 1) * TN_RING_PAGE_BYTES);
    ck_assert_int_ge(what.st_blocks * 512, what.st_size); /* no hole to be filled later */
    ck_assert_uint_eq(value_in(&reader, file.path), 42);
    ck_assert_uint_eq(reader.head.process, (uint64_t)getpid());
    ck_assert(tn_ring_reader_is_alive(&reader));
    tn_ring_file_remove(&file);
    ck_assert_uint_eq(each_file(NULL), 0);
    ck_assert_int_eq(close(reader.fd), 0);
}

static pid_t dead;
static void check_dead(const char *path)
{
    struct tn_ring_reader reader;

    ck_assert_uint_eq(value_in(&reader, path), 7);
    ck_assert_uint_eq(reader.head.process, (uint64_t)dead);
    ck_assert(!tn_ring_reader_is_alive(&reader));
    ck_assert_int_eq(close(reader.fd), 0);
}

TEST(files, a_file_outlives_its_process)
{
    dead = write_and_die(7);
    ck_assert_uint_eq(each_file(check_dead), 1);
}

/* A process dies, and a child that it has forked lives on. */
TEST(files, a_child_does_not_keep_its_parents_file_running)
{
    struct tn_ring_file file;
    int ends[2];
    int begun[2];
    int status;
    char byte = 0;

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(pipe(begun), 0);
    dead = fork();
    ck_assert_int_ge(dead, 0);
    if (dead == 0) {
        tn_fork_stake();
        write_value(&file, 7);
        if (fork() == 0) {
            (void)close(ends[1]);
            (void)!write(begun[1], &byte, 1);
            _exit((int)read(ends[0], &byte, 1)); /* until the test closes the other end */
        }
        (void)!read(begun[0], &byte, 1);
        (void)raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(dead, &status, 0), dead);
    ck_assert(WIFSIGNALED(status));
    ck_assert_uint_eq(each_file(check_dead), 1);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(close(ends[i]), 0);
        ck_assert_int_eq(close(begun[i]), 0);
    }
}

static uint64_t least_left;
static void note_least(const char *path)
{
    struct tn_ring_reader reader;
    uint64_t value = value_in(&reader, path);

    least_left = value < least_left ? value : least_left;
    ck_assert_int_eq(close(reader.fd), 0);
}

TEST(files, of_dead_processes_the_newest_eight_are_kept)
{
    struct tn_ring_file living;
    struct tn_ring_file later;

    write_value(&living, 0);
    for (uint64_t i = 0; i < TN_RING_FILES_KEPT + 5; i++)
        (void)write_and_die(100 + i);
    write_value(&later, 1000);
    /* the eight, the living one, which is the oldest, and this one */
    ck_assert_uint_eq(each_file(NULL), TN_RING_FILES_KEPT + 2);
    tn_ring_file_remove(&living);
    tn_ring_file_remove(&later);
    least_left = UINT64_MAX;
    ck_assert_uint_eq(each_file(note_least), TN_RING_FILES_KEPT);
    ck_assert_uint_eq(least_left, 105);
}

TEST(files, files_of_others_and_other_names_are_left_alone)
{
    enum { FOREIGN = TN_RING_FILES_KEPT + 4 };
    struct tn_ring_file file;
    char path[TN_RING_PATH_MAX];

    for (int i = 0; i < FOREIGN; i++) {
        FILE *foreign;

        (void)snprintf(path, sizeof path, "%s/tarn-%d-notes.txt", folder, i);
        foreign = fopen(path, "w");
        ck_assert_ptr_nonnull(foreign);
        ck_assert_int_eq(fclose(foreign), 0);
        (void)snprintf(path, sizeof path, "%s/tarn-%u-%d.ring", folder, geteuid(), i);
        ck_assert_int_eq(symlink("/etc/passwd", path), 0);
    }
    write_value(&file, 1);
    ck_assert_uint_eq(each_file(NULL), FOREIGN + 1); /* links are no files for find */
    tn_ring_file_remove(&file);
    for (int i = 0; i < FOREIGN; i++) {
        (void)snprintf(path, sizeof path, "%s/tarn-%u-%d.ring", folder, geteuid(), i);
        ck_assert_int_eq(unlink(path), 0); /* still there */
    }
}

/* How many files the folder has room for. */
static size_t room = SIZE_MAX;

int __wrap_posix_fallocate(int fd, off_t offset, off_t bytes);
int __real_posix_fallocate(int fd, off_t offset, off_t bytes);
int __wrap_posix_fallocate(int fd, off_t offset, off_t bytes)
{
    return each_file(NULL) > room ? ENOSPC : __real_posix_fallocate(fd, offset, bytes);
}

/* What the folder says that it has free. */
static uint64_t free_bytes = UINT64_MAX;

int __wrap_fstatvfs(int fd, struct statvfs *what);
int __real_fstatvfs(int fd, struct statvfs *what);
int __wrap_fstatvfs(int fd, struct statvfs *what)
{
    int result = __real_fstatvfs(fd, what);

    what->f_frsize = TN_RING_PAGE_BYTES;
    what->f_bavail = free_bytes / TN_RING_PAGE_BYTES;
    return result;
}

TEST(files, pages_may_get_memory_later_and_what_others_need_is_left_to_them)
{
    enum { SPARE = 8 * TN_RING_PAGE_BYTES };
    const struct tn_ring_plan plan = {.page_count = PAGES,
                                      .first_pages = 1,
                                      .area_bytes = {TN_RING_PAGE_BYTES},
                                      .spare_bytes = SPARE};
    struct tn_ring_file file;
    struct stat what;

    free_bytes = SPARE + (PAGES + 2) * TN_RING_PAGE_BYTES;
    ck_assert(tn_ring_file_make(&file, folder, &plan));
    ck_assert_int_eq(file.error, 0);
    ck_assert_int_eq(stat(file.path, &what), 0);
    ck_assert_int_eq(what.st_size, (PAGES + 2) * TN_RING_PAGE_BYTES);
    ck_assert_int_eq(what.st_blocks * 512, 3 * TN_RING_PAGE_BYTES); /* head, page, area */
    free_bytes = SPARE + TN_RING_PAGE_BYTES;
    ck_assert(tn_ring_file_reserve(&file, 1, 1));
    ck_assert(!tn_ring_file_reserve(&file, 2, 2));
    free_bytes = UINT64_MAX;
    ck_assert(tn_ring_file_reserve(&file, 2, 2));
    room = 0;
    ck_assert(!tn_ring_file_reserve(&file, 2, 2));
    room = SIZE_MAX;
    ck_assert_int_eq(stat(file.path, &what), 0);
    ck_assert_int_ge(what.st_blocks * 512, what.st_size);
    tn_ring_file_remove(&file);

    free_bytes = SPARE + (PAGES + 1) * TN_RING_PAGE_BYTES; /* a page too few */
    ck_assert(tn_ring_file_make(&file, folder, &plan));
    ck_assert_int_eq(file.error, ENOSPC);
    ck_assert(tn_ring_file_reserve(&file, 1, 3)); /* the process's own memory */
    tn_ring_file_remove(&file);
}

TEST(files, where_there_is_no_room_files_of_dead_processes_go_oldest_first)
{
    struct tn_ring_file living;
    struct tn_ring_file file;

    write_value(&living, 1000);
    for (uint64_t i = 0; i < 6; i++)
        (void)write_and_die(100 + i);
    room = 4;
    write_value(&file, 1000);
    ck_assert_int_eq(file.error, 0);
    ck_assert_uint_eq(each_file(NULL), 4); /* both, and the newest two */
    least_left = UINT64_MAX;
    (void)each_file(note_least);
    ck_assert_uint_eq(least_left, 104);
    tn_ring_file_remove(&file);
    room = 1; /* not even without them */
    write_value(&file, 1000);
    ck_assert_int_eq(file.error, ENOSPC);
    tn_ring_file_remove(&file);
    ck_assert_uint_eq(each_file(NULL), 1);
    tn_ring_file_remove(&living);
}

/* Areas stand between the pages and the parts. */
TEST(files, a_private_part_behind_areas_is_told_from_the_others)
{
    const struct tn_ring_plan plan = {.page_count = PAGES,
                                      .area_bytes = {TN_RING_FIRST_PART_BYTES}};
    const size_t areas = PAGES * TN_RING_PAGE_BYTES;
    struct tn_ring_file file;
    struct tn_ring_reader reader;
    uint64_t word;

    ck_assert(tn_ring_file_make(&file, folder, &plan));
    ck_assert_ptr_nonnull(tn_ring_file_add_part(&file));
    room = 0;
    ck_assert_ptr_nonnull(tn_ring_file_add_part(&file));
    room = SIZE_MAX;
    ck_assert_int_eq(tn_ring_reader_open(&reader, file.path), TN_RING_OPENED);
    ck_assert_uint_eq(tn_ring_reader_parts(&reader), 2);
    ck_assert(tn_ring_from_file(&reader, areas, &word, sizeof word));
    ck_assert(tn_ring_from_file(&reader, areas + TN_RING_FIRST_PART_BYTES, &word, sizeof word));
    ck_assert(!tn_ring_from_file(&reader, areas + 2 * (size_t)TN_RING_FIRST_PART_BYTES, &word,
                                 sizeof word));
    ck_assert_int_eq(close(reader.fd), 0);
    tn_ring_file_remove(&file);
}

TEST(files, a_part_without_room_is_private_and_not_to_be_read)
{
    struct tn_ring_file file;
    struct tn_ring_reader reader;
    uint64_t word = 0;

    write_value(&file, 1);
    ck_assert_uint_eq(value_in(&reader, file.path), 1);
    ck_assert_uint_eq(tn_ring_reader_parts(&reader), 0);
    room = 0;
    ck_assert_ptr_nonnull(tn_ring_file_add_part(&file));
    room = SIZE_MAX;
    memset(tn_ring_file_add_part(&file), 0xff, tn_ring_part_bytes(1));
    ck_assert_uint_eq(tn_ring_reader_parts(&reader), 2);
    for (size_t part = 0; part < 2; part++) {
        const size_t last = PAGES * TN_RING_PAGE_BYTES + tn_ring_part_offset(part + 1) - 8;

        ck_assert(tn_ring_from_file(&reader, last, &word, sizeof word) == (part == 1));
        ck_assert(tn_ring_from_own_file(&file, last, &word, sizeof word));
        ck_assert_uint_eq(word, part == 0 ? 0 : UINT64_MAX);
    }
    ck_assert_int_eq(close(reader.fd), 0);
    tn_ring_file_remove(&file);
}

TEST(files, without_a_folder_or_room_the_memory_is_private)
{
    struct rlimit old;
    struct rlimit small;
    struct tn_ring_file file;

    ck_assert(tn_ring_file_make(&file, NULL, &(struct tn_ring_plan){.page_count = PAGES}));
    ck_assert_int_eq(file.fd, -1);
    ck_assert_int_eq(file.error, ENOENT);
    tn_ring_file_remove(&file);
    ck_assert(tn_ring_file_make(&file, "/nowhere", &(struct tn_ring_plan){.page_count = PAGES}));
    ck_assert_int_eq(file.error, ENOENT);
    tn_ring_file_remove(&file);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = TN_RING_PAGE_BYTES, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ck_assert(tn_ring_file_make(&file, folder, &(struct tn_ring_plan){.page_count = PAGES}));
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(file.error, EFBIG);
    ck_assert_str_eq(file.path, "");
    memset(tn_ring_file_pages(&file), 1, PAGES * TN_RING_PAGE_BYTES);
    tn_ring_file_remove(&file);
    ck_assert_uint_eq(each_file(NULL), 0);
}

TEST(files, a_removed_or_shortened_file_is_survived)
{
    struct tn_ring_file file;
    struct tn_ring_reader reader;
    struct tn_ring_copy copy;

    write_value(&file, 3);
    ck_assert_uint_eq(value_in(&reader, file.path), 3);
    ck_assert_int_eq(truncate(file.path, 2 * TN_RING_PAGE_BYTES - 8), 0);
    ck_assert_int_eq(tn_ring_read(tn_ring_from_file, &reader, 0, &copy), TN_RING_BROKEN);
    ck_assert_int_eq(close(reader.fd), 0);
    ck_assert_int_eq(tn_ring_reader_open(&reader, file.path), TN_RING_FOREIGN);
    ck_assert_int_eq(unlink(file.path), 0);
    ck_assert_int_eq(tn_ring_reader_open(&reader, file.path), TN_RING_NO_FILE);
    ck_assert_int_eq(errno, ENOENT);
    tn_ring_file_remove(&file);
}

/* Writes one byte of the head of a file that is whole, and opens it. */
static enum tn_ring_opened opened_with(size_t offset, uint8_t byte)
{
    struct tn_ring_file file;
    struct tn_ring_reader reader;
    enum tn_ring_opened opened;

    write_value(&file, 1);
    ((uint8_t *)file.head)[offset] = byte;
    opened = tn_ring_reader_open(&reader, file.path);
    if (opened == TN_RING_OPENED)
        ck_assert_int_eq(close(reader.fd), 0);
    tn_ring_file_remove(&file);
    return opened;
}

TEST(files, foreign_files_and_other_versions_are_told_apart)
{
    struct tn_ring_reader reader;

    ck_assert_int_eq(tn_ring_reader_open(&reader, "/etc/passwd"), TN_RING_FOREIGN);
    ck_assert_int_eq(tn_ring_reader_open(&reader, "/dev/null"), TN_RING_FOREIGN);
    ck_assert_int_eq(tn_ring_reader_open(&reader, folder), TN_RING_FOREIGN);
    ck_assert_int_eq(opened_with(0, 0), TN_RING_FOREIGN);
    ck_assert_int_eq(opened_with(offsetof(struct tn_ring_file_head, version), 1), TN_RING_VERSION);
    ck_assert_int_eq(opened_with(offsetof(struct tn_ring_file_head, page_bytes), 1),
                     TN_RING_FOREIGN);
    ck_assert_int_eq(opened_with(offsetof(struct tn_ring_file_head, page_count), 0),
                     TN_RING_FOREIGN);
    ck_assert_int_eq(opened_with(offsetof(struct tn_ring_file_head, page_count) + 7, 0xff),
                     TN_RING_FOREIGN);
    ck_assert_int_eq(opened_with(offsetof(struct tn_ring_file_head, process), 0xff),
                     TN_RING_OPENED);
}

TEST(files, a_link_is_not_followed)
{
    struct tn_ring_file file;
    struct tn_ring_reader reader;
    char link[TN_RING_PATH_MAX];

    write_value(&file, 1);
    (void)snprintf(link, sizeof link, "%s/link", folder);
    ck_assert_int_eq(symlink(file.path, link), 0);
    ck_assert_int_eq(tn_ring_reader_open(&reader, link), TN_RING_NO_FILE);
    ck_assert_int_eq(errno, ELOOP);
    ck_assert_int_eq(unlink(link), 0);
    tn_ring_file_remove(&file);
}

TEST(files, the_folder_is_the_users_own)
{
    char found[TN_RING_FOLDER_MAX];

    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    ck_assert(tn_ring_folder(found, sizeof found));
    ck_assert_str_eq(found, folder);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    if (tn_ring_folder(found, sizeof found))
        ck_assert_str_eq(found, "/dev/shm");
    ck_assert_int_eq(chmod(folder, 0700), 0);
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", "tmp", 1), 0);
    if (tn_ring_folder(found, sizeof found))
        ck_assert_str_eq(found, "/dev/shm");
    ck_assert(!tn_ring_folder(found, 2));
}

/* A program with another effective user: its rights count, not those of the user who started it. */
TEST(files, the_folder_is_the_effective_users)
{
    const uid_t nobody = 65534;
    char found[TN_RING_FOLDER_MAX];

    if (geteuid() != 0)
        return;
    ck_assert_int_eq(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    ck_assert_int_eq(chown(folder, nobody, nobody), 0);
    ck_assert_int_eq(chmod(folder, 0500), 0);
    ck_assert_int_eq(seteuid(nobody), 0);
    ck_assert(!tn_ring_folder(found, sizeof found));
    ck_assert_int_eq(chmod(folder, 0700), 0);
    ck_assert(tn_ring_folder(found, sizeof found));
    ck_assert_int_eq(seteuid(0), 0);
}
