// SPDX-License-Identifier: Apache-2.0
/* Files are opened where they are histories, and read as they are, whoever writes them. */
#include "history.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "command/made.h"

SUITE("histories that are opened")

GROUP(opened, made_begin, .end = made_end)

/* The file's own bytes, from an offset behind the head. */
static uint64_t word_at(size_t offset)
{
    uint64_t word = 0;
    int fd = open(made.file.path, O_RDONLY | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &word, sizeof word, (off_t)(TN_RING_PAGE_BYTES + offset)),
                     sizeof word);
    ck_assert_int_eq(close(fd), 0);
    return word;
}

/* As when its process has died: the lock is gone. */
static void kill_writer(void)
{
    ck_assert_int_eq(flock(made.file.fd, LOCK_UN), 0);
}

/* Every word of the log, the areas and the first part is the file's: in pieces, too. */
static void check_words(struct history *history)
{
    const size_t bytes =
        MADE_PAGES * TN_RING_PAGE_BYTES + 2 * TN_RING_PAGE_BYTES + TN_RING_FIRST_PART_BYTES;

    for (size_t offset = 0; offset < bytes; offset += 8 * 37) {
        uint64_t word;

        ck_assert(history->source.read(history, offset, &word, sizeof word));
        ck_assert_uint_eq(word, word_at(offset));
    }
}

TEST(opened, a_process_that_runs_is_read_as_it_writes)
{
    struct history *history;
    uint64_t word;

    history = made_open();
    ck_assert(history->is_alive);
    check_words(history);
    ck_assert(history->source.read(history, 0, &word, sizeof word));
    ck_assert_uint_eq(word, 0);
    atomic_store((atomic_uint_fast64_t *)tn_ring_file_pages(&made.file), 77);
    ck_assert(history->source.read(history, 0, &word, sizeof word));
    ck_assert_uint_eq(word, 77);
    history_close(history);
}

TEST(opened, a_dead_process_is_read_in_pieces_that_lie_in_one_part)
{
    struct history *history;
    uint64_t *words = made.file.parts[0];

    for (size_t i = 0; i < TN_RING_FIRST_PART_BYTES / 8; i++)
        words[i] = i * TN_GOLDEN;
    kill_writer();
    history = made_open();
    ck_assert(!history->is_alive);
    check_words(history);
    history_close(history);
}

/* What the file has there is a hole, not the part. */
TEST(opened, a_part_that_is_not_in_the_file_is_not_read)
{
    const size_t parts = (MADE_PAGES + 2) * TN_RING_PAGE_BYTES;
    struct history *history;
    uint64_t word;

    kill_writer();
    atomic_store(&made.file.head->private_parts, 1);
    history = made_open();
    ck_assert(history->source.read(history, parts - 8, &word, sizeof word));
    ck_assert(!history->source.read(history, parts, &word, sizeof word));
    ck_assert(!history->source.read(history, parts + 4096, &word, sizeof word));
    history_close(history);
}

TEST(opened, the_newest_module_with_an_address_is_the_addresss)
{
    struct tn_module modules[] = {
        {.start = 100, .end = 200}, {.start = 150, .end = 300}, {.start = 400, .end = 500}};
    const struct history history = {.modules = modules, .module_count = 3};

    ck_assert_ptr_eq(history_module_at(&history, 149), &modules[0]);
    ck_assert_ptr_eq(history_module_at(&history, 150), &modules[1]);
    ck_assert_ptr_eq(history_module_at(&history, 299), &modules[1]);
    ck_assert_ptr_null(history_module_at(&history, 300));
}

TEST(opened, what_is_no_history_is_refused)
{
    struct history history;

    ck_assert(!history_open(&history, "/nowhere/at/all"));
    ck_assert(!history_open(&history, "/dev/null"));
    ck_assert(!history_open(&history, "/tmp"));
    made.file.head->version += 1;
    ck_assert_int_eq(history_try(&history, made.file.path), TN_RING_VERSION);
    made.file.head->version -= 1;
    ck_assert_int_eq(truncate(made.file.path, MADE_PAGES * TN_RING_PAGE_BYTES), 0);
    ck_assert_int_eq(history_try(&history, made.file.path), TN_RING_FOREIGN);
}
