// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/scroll.h"
#include "unit/unit.h"

SUITE("scrolls of records")

enum { WORDS = 4096, BYTES = WORDS * 8 };

/* Shared with children. */
struct shared {
    uint64_t words[WORDS];
    atomic_uint_fast64_t written; /* records that the writer has finished */
};
static struct shared *shared;
static struct tn_scroll scroll;
static struct tn_scroll_reader reader;

static void open_scroll(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    tn_scroll_init(&scroll, shared->words, BYTES);
    reader = (struct tn_scroll_reader){tn_scroll_from_memory, &scroll, BYTES};
}

static void close_scroll(void)
{
    ck_assert_int_eq(munmap(shared, sizeof *shared), 0);
}

GROUP(scrolls, open_scroll, .end = close_scroll)

/* The nth record: 0 to 6 words. */
static size_t make(uint64_t n, uint64_t *words)
{
    for (size_t i = 0; i < n % 7; i++)
        words[i] = ~(n + i) * TN_GOLDEN;
    return (size_t)(n % 7);
}

static uint32_t add(uint64_t n)
{
    uint64_t words[7];
    size_t count = make(n, words);

    return tn_scroll_add(&scroll, words, count);
}

/* Reads the records, each of which must be the next one. Returns how many there are. */
static uint64_t read_all(void)
{
    uint32_t id = TN_SCROLL_FIRST;

    for (uint64_t n = 0;; n++) {
        uint64_t expected[7];
        uint64_t words[TN_SCROLL_WORDS_MAX];
        size_t count = 0;
        enum tn_scroll_answer answer = tn_scroll_read(&reader, id, words, &count);

        if (answer == TN_SCROLL_EMPTY)
            return n;
        if (answer != TN_SCROLL_READ || count != make(n, expected) ||
            memcmp(words, expected, count * sizeof *words) != 0)
            ck_abort_msg("record %lu is broken", (unsigned long)n);
        id += 1 + (uint32_t)count;
    }
}

TEST(scrolls, records_are_read_as_they_were_written)
{
    uint32_t id = 0;

    ck_assert_uint_eq(read_all(), 0);
    for (uint64_t n = 0; n < 100; n++) {
        uint32_t next = add(n);

        ck_assert_uint_gt(next, id);
        id = next;
    }
    ck_assert_uint_eq(read_all(), 100);
    ck_assert_uint_eq(tn_scroll_words(&scroll, id)[0], ~UINT64_C(99) * TN_GOLDEN);
    ck_assert_uint_eq(tn_scroll_lost(&scroll), 0);
}

TEST(scrolls, a_record_without_room_is_counted_and_a_shorter_one_is_added)
{
    const uint64_t words[TN_SCROLL_WORDS_MAX] = {1, 2, 3};
    uint32_t id;

    tn_scroll_init(&scroll, shared->words, 20 * 8);
    reader.bytes = 20 * 8;
    ck_assert_uint_eq(tn_scroll_add(&scroll, words, 12), 0);
    ck_assert_uint_eq(tn_scroll_add(&scroll, words, TN_SCROLL_WORDS_MAX), 0);
    ck_assert_uint_eq(tn_scroll_lost(&scroll), 2);
    id = tn_scroll_add(&scroll, words, 11);
    ck_assert_uint_eq(id, TN_SCROLL_FIRST);
    ck_assert_uint_eq(tn_scroll_add(&scroll, words, 0), 0);
    ck_assert_uint_eq(tn_scroll_lost(&scroll), 3);
    ck_assert_uint_eq(shared->words[20], 0);
}

TEST(scrolls, memory_without_a_whole_head_has_room_for_nothing)
{
    const uint64_t word = 1;

    for (size_t bytes = 0; bytes <= 64; bytes += 8) {
        tn_scroll_init(&scroll, shared->words, bytes);
        ck_assert_uint_eq(tn_scroll_add(&scroll, &word, 1), 0);
        ck_assert_uint_eq(tn_scroll_lost(&scroll), bytes == 64);
        for (size_t i = 1; i < 20; i++)
            ck_assert_uint_eq(shared->words[i], 0);
    }
}

TEST(scrolls, an_id_that_was_never_given_has_no_record)
{
    uint64_t words[TN_SCROLL_WORDS_MAX];
    size_t count;
    uint64_t found = 0;

    for (uint64_t n = 0; n < 100; n++)
        (void)add(n);
    for (uint32_t id = 0; id < WORDS + 10; id++)
        found += tn_scroll_read(&reader, id, words, &count) == TN_SCROLL_READ;
    ck_assert_uint_eq(found, 100);
    ck_assert_int_eq(tn_scroll_read(&reader, 0, words, &count), TN_SCROLL_BROKEN);
    ck_assert_int_eq(tn_scroll_read(&reader, 7, words, &count), TN_SCROLL_BROKEN);
    ck_assert_int_eq(tn_scroll_read(&reader, WORDS, words, &count), TN_SCROLL_EMPTY);
    ck_assert_int_eq(tn_scroll_read(&reader, UINT32_MAX, words, &count), TN_SCROLL_EMPTY);
}

static enum tn_scroll_answer read_with_head(uint64_t id, uint64_t head, size_t *count)
{
    uint64_t words[TN_SCROLL_WORDS_MAX];

    shared->words[id] = head;
    return tn_scroll_read(&reader, (uint32_t)id, words, count);
}

TEST(scrolls, heads_that_no_writer_writes_are_refused)
{
    static const uint64_t heads[][2] = {
        {8, UINT64_C(9) << 32 | 1},                   /* another's id */
        {8, 1},                                       /* none */
        {8, UINT64_C(8) << 32 | 256},                 /* too long */
        {8, UINT64_C(8) << 32 | UINT64_C(1) << 31},   /* a bit that is never set */
        {WORDS - 1, ((uint64_t)WORDS - 1) << 32 | 1}, /* beyond the end */
        {WORDS - 4, ((uint64_t)WORDS - 4) << 32 | 4}, /* the same */
    };
    size_t count;

    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        ck_assert_int_eq(read_with_head(heads[i][0], heads[i][1], &count), TN_SCROLL_BROKEN);
    ck_assert_int_eq(read_with_head(WORDS - 4, ((uint64_t)WORDS - 4) << 32 | 3, &count),
                     TN_SCROLL_READ);
    ck_assert_uint_eq(count, 3);
}

/* Fails at the nth call. */
static unsigned calls_left;
static bool from_a_short_file(void *context, size_t offset, void *bytes, size_t count)
{
    if (calls_left == 0)
        return false;
    calls_left -= 1;
    return tn_scroll_from_memory(context, offset, bytes, count);
}

TEST(scrolls, a_source_that_ends_has_no_record)
{
    uint64_t words[TN_SCROLL_WORDS_MAX];
    uint32_t id = add(3);
    size_t count;

    reader.source = from_a_short_file;
    for (unsigned calls = 0; calls <= 2; calls++) {
        calls_left = calls;
        ck_assert_int_eq(tn_scroll_read(&reader, id, words, &count),
                         calls == 2 ? TN_SCROLL_READ : TN_SCROLL_BROKEN);
    }
}

/* Writes records for good, and says after each that it was written. */
static _Noreturn void write_until_killed(void)
{
    for (uint64_t n = 0;; n++) {
        if (add(n) == 0)
            (void)pause();
        atomic_store(&shared->written, n + 1);
    }
}

TEST(scrolls, after_a_kill_at_any_moment_all_records_but_one_are_there)
{
    enum { KILLS = 200 };

    for (unsigned i = 0; i < KILLS; i++) {
        pid_t child;
        int status;
        uint64_t count;

        memset(shared, 0, sizeof *shared);
        tn_scroll_init(&scroll, shared->words, BYTES);
        child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
            write_until_killed();
        while (atomic_load(&shared->written) < i * UINT64_C(4)) {
        }
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        count = read_all();
        ck_assert_uint_ge(count, atomic_load(&shared->written));
        ck_assert_uint_le(count, atomic_load(&shared->written) + 1);
    }
}
