// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ring.h"
#include "unit/unit.h"

SUITE("rings of events")

enum { KIND_ONE = 2, KIND_TWO = 3, KIND_MORE = 4, PAGES = 8 };

/* Shared with children. */
struct shared {
    struct tn_ring_page pages[PAGES];
    atomic_uint_fast64_t written; /* events that the writer has finished */
};
static struct shared *shared;
static struct tn_ring ring;
static atomic_uint_fast64_t counter;

static void open_ring(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    ck_assert(tn_ring_init(&ring, shared->pages, PAGES, &counter));
}

static void close_ring(void)
{
    tn_ring_drop(&ring);
    ck_assert_int_eq(munmap(shared, sizeof *shared), 0);
}

GROUP(rings, open_ring, .end = close_ring)

static struct tn_ring_writer writer_of(uint64_t id)
{
    return (struct tn_ring_writer){.ring = &ring, .id = id};
}

/* The second word of an event with this value. */
static uint64_t echo(uint64_t value)
{
    return ~value * 0x9e3779b97f4a7c15;
}

/* The nth event of a test: of one word, two, or four. */
static void put(struct tn_ring_writer *writer, uint64_t n)
{
    const uint64_t more[] = {echo(n), echo(n + 1), 0};

    if (n % 3 == 0)
        tn_ring_put(writer, KIND_ONE, n);
    else if (n % 3 == 1)
        tn_ring_put_two(writer, KIND_TWO, n, echo(n));
    else
        tn_ring_put_more(writer, KIND_MORE, n, more, 3);
}

/* Plain comparisons: an assertion of Check's takes a microsecond. */
static bool is_event(const uint64_t *words, uint64_t n)
{
    unsigned kind = n % 3 == 0 ? KIND_ONE : n % 3 == 1 ? KIND_TWO : KIND_MORE;
    size_t count = kind == KIND_ONE ? 1 : kind == KIND_TWO ? 2 : 4;

    return tn_ring_value(words[0]) == n && tn_ring_kind(words[0]) == kind &&
           tn_ring_words(words[0]) == count && (count < 2 || words[1] == echo(n)) &&
           (count < 4 || (words[2] == echo(n + 1) && words[3] == 0));
}

struct events {
    uint64_t first;
    uint64_t count;
};

/* The events of a page, which follow each other. */
static struct events check_page(const struct tn_ring_copy *copy)
{
    struct events events = {0, 0};
    uint64_t last_stamp = 0;
    size_t last_stamp_at = 0;
    bool right = true;

    for (size_t at = 0; at < copy->word_count; at += tn_ring_words(copy->words[at])) {
        uint64_t value = tn_ring_value(copy->words[at]);

        if (tn_ring_kind(copy->words[at]) == TN_RING_STAMP) {
            right = right && value >= last_stamp && at - last_stamp_at <= TN_RING_STAMP_WORDS + 1;
            last_stamp = value;
            last_stamp_at = at;
            continue;
        }
        if (events.count == 0)
            events.first = value;
        /* a stamp comes first */
        right = right && last_stamp > 0 && is_event(&copy->words[at], events.first + events.count);
        events.count += 1;
    }
    ck_assert(right);
    return events;
}

/* The events of the only writer that can be read now: the newest of them, without a gap. */
static struct events read_all(void)
{
    struct events all = {UINT64_MAX, 0};
    uint64_t end = 0;

    for (size_t i = 0; i < PAGES; i++) {
        struct tn_ring_copy copy;
        struct events events;

        switch (tn_ring_read(tn_ring_from_memory, &ring, i, &copy)) {
        case TN_RING_EMPTY:
            break;
        case TN_RING_READ:
            events = check_page(&copy);
            if (events.count == 0)
                break;
            if (events.first < all.first)
                all.first = events.first;
            if (events.first + events.count > end)
                end = events.first + events.count;
            all.count += events.count;
            break;
        case TN_RING_BROKEN:
            ck_abort_msg("page %zu is broken", i);
        }
    }
    ck_assert_uint_eq(all.count, all.count == 0 ? 0 : end - all.first);
    return all;
}

TEST(rings, events_are_read_as_they_were_written)
{
    struct tn_ring_writer writer = writer_of(7);
    struct tn_ring_copy copy;

    writer.base = 99;
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_EMPTY);
    for (uint64_t n = 0; n < 100; n++)
        put(&writer, n);
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_READ);
    ck_assert_uint_eq(copy.writer, 7);
    ck_assert_uint_eq(copy.base, 99);
    ck_assert_uint_eq(copy.place, 0);
    ck_assert_uint_eq(copy.lost, 0);
    ck_assert_uint_eq(check_page(&copy).count, 100);
    ck_assert_uint_eq(read_all().count, 100);
    tn_ring_leave(&writer);
}

TEST(rings, the_oldest_pages_are_overwritten_and_the_others_follow_each_other)
{
    struct tn_ring_writer writer = writer_of(1);
    struct events all;
    uint64_t places = 0;

    for (uint64_t n = 0; n < 10000; n++)
        put(&writer, n);
    all = read_all();
    ck_assert_uint_eq(all.first + all.count, 10000);
    ck_assert_uint_gt(all.count, (PAGES - 1) * (uint64_t)TN_RING_WORDS / 3);
    for (size_t i = 0; i < PAGES; i++) {
        struct tn_ring_copy copy;

        ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, i, &copy), TN_RING_READ);
        places |= UINT64_C(1) << (writer.place - copy.place);
    }
    ck_assert_uint_eq(places, 0x1fe); /* the last eight */
    tn_ring_leave(&writer);
}

/* What a ring of two pages with memory asks for, when and how often. */
struct asked {
    bool granted;
    unsigned times;
    uint64_t when; /* pages that were taken */
};

static bool reserve(void *context, size_t page, size_t count)
{
    struct asked *asked = context;

    ck_assert_uint_eq(page, 2);
    ck_assert_uint_eq(count, PAGES - 2);
    asked->times += 1;
    asked->when = ring.taken;
    return asked->granted;
}

TEST(rings, pages_get_memory_when_they_are_first_taken)
{
    struct tn_ring_writer writer = writer_of(1);
    struct asked asked = {.granted = true};

    tn_ring_reserve_by(&ring, 2, reserve, &asked);
    for (uint64_t n = 0; n < 10000; n++)
        put(&writer, n);
    ck_assert_uint_eq(asked.times, 1);
    ck_assert_uint_eq(asked.when, 2);
    ck_assert_uint_gt(read_all().count, (PAGES - 1) * (uint64_t)TN_RING_WORDS / 3);
    tn_ring_leave(&writer);
}

TEST(rings, without_memory_a_ring_has_fewer_pages)
{
    struct tn_ring_writer writer = writer_of(1);
    struct asked asked = {.granted = false};
    struct tn_ring_copy copy;
    struct events all;

    tn_ring_reserve_by(&ring, 2, reserve, &asked);
    for (uint64_t n = 0; n < 10000; n++) {
        atomic_store(&counter, n);
        put(&writer, n);
    }
    all = read_all();
    ck_assert_uint_eq(asked.times, 1);
    ck_assert_uint_eq(writer.lost, 0);
    ck_assert_uint_eq(all.first + all.count, 10000);
    ck_assert_uint_gt(all.count, TN_RING_WORDS / 3);
    for (size_t i = 2; i < PAGES; i++)
        ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, i, &copy), TN_RING_EMPTY);
    ck_assert_uint_gt(atomic_load(&ring.recent), 9000); /* as of a ring of two pages */
    tn_ring_leave(&writer);
}

TEST(rings, a_page_in_use_is_not_taken)
{
    struct tn_ring_writer quiet = writer_of(1);
    struct tn_ring_writer busy = writer_of(2);
    struct tn_ring_copy copy;

    put(&quiet, 0);
    for (uint64_t n = 0; n < 10000; n++)
        put(&busy, n);
    put(&quiet, 1);
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_READ);
    ck_assert_uint_eq(copy.writer, 1);
    ck_assert_uint_eq(check_page(&copy).count, 2);
    tn_ring_leave(&quiet);
    for (uint64_t n = 0; n < 10000; n++)
        put(&busy, n);
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_READ);
    ck_assert_uint_eq(copy.writer, 2);
    tn_ring_leave(&busy);
}

TEST(rings, where_every_page_is_written_events_are_counted_as_lost)
{
    struct tn_ring_writer writers[PAGES];
    struct tn_ring_writer late = writer_of(PAGES);
    struct tn_ring_copy copy;
    bool seen = false;

    for (unsigned i = 0; i < PAGES; i++) {
        writers[i] = writer_of(i);
        put(&writers[i], 0);
    }
    for (uint64_t n = 0; n < 5; n++)
        put(&late, n);
    ck_assert_uint_eq(late.lost, 5);
    ck_assert_uint_eq(tn_ring_lost(tn_ring_from_memory, &ring), 5);
    tn_ring_leave(&writers[0]);
    put(&late, 5);
    ck_assert_uint_eq(late.lost, 5);
    for (size_t i = 0; i < PAGES; i++) {
        ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, i, &copy), TN_RING_READ);
        if (copy.writer != PAGES)
            continue;
        ck_assert_uint_eq(copy.lost, 5);
        ck_assert_uint_eq(check_page(&copy).first, 5);
        seen = true;
    }
    ck_assert(seen);
    tn_ring_leave(&late);
    ck_assert_uint_eq(tn_ring_lost(tn_ring_from_memory, &ring), 5); /* its page was taken anew */
    for (unsigned i = 0; i < PAGES; i++)
        tn_ring_leave(&writers[i]);
}

TEST(rings, a_writer_without_a_ring_writes_nothing)
{
    struct tn_ring_writer writer = {.ring = NULL};

    put(&writer, 0);
    put(&writer, 1);
    put(&writer, 2);
    ck_assert_uint_eq(writer.lost, 0);
    ck_assert_ptr_null(writer.page);
}

TEST(rings, words_that_no_writer_writes_are_refused)
{
    struct tn_ring_writer writer = writer_of(1);
    struct tn_ring_page *page = &shared->pages[0];
    struct tn_ring_copy copy;

    put(&writer, 0);
    tn_ring_leave(&writer);
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_READ);
    atomic_store(&page->words[1], 0x40); /* without a kind */
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_BROKEN);
    for (size_t i = 0; i < TN_RING_WORDS; i++)
        atomic_store(&page->words[i], KIND_MORE);
    atomic_store(&page->count, TN_RING_WORDS);
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_READ);
    ck_assert_uint_eq(copy.word_count, TN_RING_WORDS);
    /* an event that passes the count, and a count that passes the page */
    atomic_store(&page->words[TN_RING_WORDS - 1], tn_ring_first(KIND_MORE, 1, 0));
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_BROKEN);
    atomic_store(&page->count, TN_RING_WORDS + 1);
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_BROKEN);
}

TEST(rings, a_thread_without_a_writer_uses_a_shared_one)
{
    struct tn_ring_writer *writer = tn_ring_enter(&ring);
    struct tn_ring_copy copy;

    put(writer, 0);
    tn_ring_put_stamp(writer);
    put(writer, 1);
    ck_assert(tn_ring_enter != NULL && writer->at == 1 + 1 + 1 + 2);
    tn_ring_exit(writer);
    ck_assert_ptr_eq(tn_ring_enter(&ring), writer);
    tn_ring_exit(writer);
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_READ);
    ck_assert_uint_eq(copy.word_count, 5);
    ck_assert_uint_eq(tn_ring_kind(copy.words[2]), TN_RING_STAMP);
}

/* What is recent stays for some seven sixteenths of a ring at least. */
TEST(rings, what_is_recent_is_not_overwritten_soon)
{
    struct tn_ring_writer writer = writer_of(1);
    struct tn_ring_writer quiet = writer_of(2);
    uint64_t serials[64] = {0}; /* that the counter had with each page */

    put(&quiet, 0);
    ck_assert_uint_eq(atomic_load(&ring.recent), 0);
    for (uint64_t n = 0; ring.taken < 60; n++) {
        atomic_store(&counter, ring.taken + 1);
        put(&writer, n);
        serials[ring.taken] = atomic_load(&ring.recent);
    }
    /* The counter counts pages: half of those without a writer are recent. */
    for (uint64_t taken = 2 * (uint64_t)PAGES; taken < 60; taken++) {
        ck_assert_uint_gt(serials[taken] + PAGES / 2, taken);
        ck_assert_uint_lt(serials[taken], taken);
    }
    tn_ring_leave(&writer);
    tn_ring_leave(&quiet);
}

static void *write_for_long(void *context)
{
    struct tn_ring_writer writer = writer_of(1);
    atomic_bool *stop = context;

    for (uint64_t n = 0; !atomic_load_explicit(stop, memory_order_relaxed); n++)
        put(&writer, n);
    tn_ring_leave(&writer);
    return NULL;
}

/* A source that reads the last word first, as a copy by the system may. */
static bool from_the_end(void *context, size_t offset, void *bytes, size_t count)
{
    for (size_t at = count; at > 0; at -= sizeof(uint64_t)) {
        if (!tn_ring_from_memory(context, offset + at - sizeof(uint64_t),
                                 (char *)bytes + at - sizeof(uint64_t), sizeof(uint64_t)))
            return false;
    }
    return true;
}

TEST_LOOP(rings, a_reader_beside_a_writer_sees_whole_events, 0, 2)
{
    const tn_ring_source source = _i == 0 ? tn_ring_from_memory : from_the_end;
    enum { READS = 20000 };
    atomic_bool stop = false;
    uint64_t read = 0;
    uint64_t last = 0;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, write_for_long, &stop), 0);
    for (uint64_t i = 0; i < READS || read == 0; i++) {
        struct tn_ring_copy copy;
        enum tn_ring_read result = tn_ring_read(source, &ring, i % PAGES, &copy);

        ck_assert_int_ne(result, TN_RING_BROKEN);
        if (result != TN_RING_READ)
            continue;
        read += check_page(&copy).count > 0;
        last = copy.serial > last ? copy.serial : last;
    }
    atomic_store(&stop, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_gt(last, 0);
}

/* What the writer of a child has for the head of its next page. */
static uint64_t base_at(uint64_t place)
{
    return place * 1000 + 7;
}

static void put_and_tell(struct tn_ring_writer *writer, uint64_t n)
{
    writer->base = base_at(writer->place);
    put(writer, n);
    atomic_store(&shared->written, n + 1);
}

/* Writes events for good, and says after each that it was written. */
static _Noreturn void write_until_killed(void)
{
    struct tn_ring_writer writer = writer_of(1);

    for (uint64_t n = 0;; n++)
        put_and_tell(&writer, n);
}

/* All events that the dead writer has finished are there, and at most one more. */
static void check_what_is_left(void)
{
    uint64_t written = atomic_load(&shared->written);
    struct events all = read_all();
    uint64_t end = all.count == 0 ? 0 : all.first + all.count;

    ck_assert_uint_ge(end, written);
    ck_assert_uint_le(end, written + 1);
    for (size_t i = 0; i < PAGES; i++) { /* no head is half of the page before */
        struct tn_ring_copy copy;

        if (tn_ring_read(tn_ring_from_memory, &ring, i, &copy) == TN_RING_READ)
            ck_assert_uint_eq(copy.base, base_at(copy.place));
    }
}

TEST(rings, after_a_kill_at_any_moment_all_events_but_one_are_there)
{
    enum { KILLS = 200 };

    for (unsigned i = 0; i < KILLS; i++) {
        pid_t child;
        int status;

        memset(shared, 0, sizeof *shared);
        child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
            write_until_killed();
        while (atomic_load(&shared->written) < i * UINT64_C(37)) {
        }
        ck_assert_int_eq(kill(child, SIGKILL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        check_what_is_left();
    }
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
/* Instruction by instruction: over the ring's end, so that a page is overwritten, too. */
TEST(rings, between_any_two_instructions_all_events_but_one_are_there)
{
    enum { EVENTS = PAGES * TN_RING_WORDS / 2, STEPS_MAX = 200000 };
    const uint64_t from = EVENTS - 200; /* a page's and more */
    uint64_t steps = 0;
    int status;
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct tn_ring_writer writer = writer_of(1);

        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        for (uint64_t n = 0; n < EVENTS; n++) {
            if (n == from)
                (void)raise(SIGSTOP);
            put_and_tell(&writer, n);
        }
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) { /* an emulator, or a machine that forbids it */
        ck_assert_int_eq(WEXITSTATUS(status), 77);
        return;
    }
    while (WIFSTOPPED(status) && steps < STEPS_MAX) {
        check_what_is_left();
        ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        steps += 1;
    }
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_uint_gt(steps, 1000);
    ck_assert_uint_eq(atomic_load(&shared->written), EVENTS);
}
#endif
