// SPDX-License-Identifier: Apache-2.0
/* The reader of recorded traces: what it makes of a good one, and every reason to refuse one. A trace
 * is written here byte by byte, so that the reader is held against docs/traces.md and not against the
 * program that writes traces. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cuda.h"
#include "trace_file.h"

enum {
    BYTES_MAX = 256,
    SUM_AT = 12,
    ALLOCATIONS_AT = 16,
    EVENTS_AT = 24,
    PEAK_AT = 32,
    STREAMS_AT = 56,
    SIZES_AT = 60,
    NAME_AT = 64,
    THREADS_AT = 64, /* in version 2, and all behind it follows 4 bytes later */
    THREADS_BYTES = 4,
    FIRST_SIZE_AT = NAME_AT + 5 + 4 + 4,
};

/* Records of one byte. */
enum {
    ALLOCATE_1000 = 0 << 2,   /* of 1000 bytes, the first size */
    ALLOCATE_20000 = 1 << 2,  /* the second one */
    FREE_LAST = 0 << 2 | 1,   /* the block that was allocated last */
    FREE_BEFORE = 1 << 2 | 1, /* the one before it */
    USE_LAST = 0 << 2 | 2,    /* a byte with the stream follows */
    STREAM_0 = 0 << 3 | 3,
    STREAM_1 = 1 << 3 | 3,
    BEGIN = 0 << 3 | 1 << 2 | 3,
    STEP = 1 << 3 | 1 << 2 | 3,
    THREAD_0 = 2 << 3 | 1 << 2 | 3,
    THREAD_1 = 3 << 3 | 1 << 2 | 3,
    THREAD_2 = 4 << 3 | 1 << 2 | 3,
};

static uint8_t bytes[BYTES_MAX];
static size_t count;
static struct bench_trace trace;
static char error[BENCH_TRACE_ERROR_BYTES];

static void put(size_t at, size_t width, uint64_t value)
{
    for (size_t i = 0; i < width; i++)
        bytes[at + i] = (uint8_t)(value >> (8 * i));
}

/* The CRC-32 of zlib, by its definition: the remainder of a division of polynomials. */
static void put_sum(void)
{
    uint64_t sum = 0xffffffff;

    for (size_t i = SUM_AT + 4; i < count; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = (sum & 1) != 0 ? (sum >> 1) ^ 0xedb88320 : sum >> 1;
    }
    put(SUM_AT, 4, sum ^ 0xffffffff);
}

static void put_counts(uint64_t allocations, uint64_t events, uint64_t peak)
{
    put(ALLOCATIONS_AT, 8, allocations);
    put(EVENTS_AT, 8, events);
    put(PEAK_AT, 8, peak);
}

/* A header for two streams and two sizes, and these records. */
static void write_trace(const uint8_t *records, size_t record_bytes)
{
    static const uint8_t magic[] = {0x89, 'T', 'A', 'R', 'N', 0x0d, 0x0a, 0x1a};
    static const uint8_t sizes[] = {0xe8, 0x07, 0xa0, 0x9c, 0x01}; /* 1000, 20000 */

    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, magic, sizeof magic);
    put(8, 4, 1);
    put(40, 8, 4096);
    put(48, 8, 2048);
    put(STREAMS_AT, 4, 2);
    put(SIZES_AT, 4, 2);
    memcpy(bytes + NAME_AT, "\4tiny\3src\3dev", FIRST_SIZE_AT - NAME_AT);
    memcpy(bytes + FIRST_SIZE_AT, sizes, sizeof sizes);
    count = FIRST_SIZE_AT + sizeof sizes;
    memcpy(bytes + count, records, record_bytes);
    count += record_bytes;
}

#define WRITE(...)                                                                                 \
    do {                                                                                           \
        const uint8_t records[] = {__VA_ARGS__};                                                   \
        write_trace(records, sizeof records);                                                      \
    } while (false)

/* A block that lived already, a step with a block on the other stream, a second step that fills the
 * slot of a freed block. */
static void write_good(void)
{
    WRITE(ALLOCATE_20000, BEGIN, STEP, STREAM_1, ALLOCATE_1000, USE_LAST, 0, FREE_BEFORE, STEP,
          STREAM_0, ALLOCATE_1000, FREE_LAST);
    put_counts(3, 6, 21000);
}

/* Makes the written trace one of version 2. */
static void put_threads(uint32_t threads)
{
    put(8, 4, 2);
    memmove(bytes + THREADS_AT + THREADS_BYTES, bytes + THREADS_AT, count - THREADS_AT);
    put(THREADS_AT, THREADS_BYTES, threads);
    count += THREADS_BYTES;
}

/* A second thread frees and uses blocks of the first. */
static void write_threads(void)
{
    WRITE(ALLOCATE_1000, BEGIN, THREAD_1, ALLOCATE_1000, FREE_BEFORE, USE_LAST, 1, THREAD_0,
          FREE_LAST);
    put_threads(2);
    put_counts(2, 5, 2000);
}

static bool parse(void)
{
    put_sum();
    memset(error, 0, sizeof error);
    return bench_trace_parse(bytes, count, &trace, error);
}

/* The trace is refused with that sentence, and the result left alone. */
static void expect_refused(const char *sentence)
{
    memset(&trace, 0x5a, sizeof trace);
    ck_assert_msg(!parse(), "a trace was read that should be refused: %s", sentence);
    ck_assert_str_eq(error, sentence);
    ck_assert_uint_eq(trace.event_count & 0xff, 0x5a);
}

static void expect_event(size_t index, enum bench_trace_kind kind, uint64_t size, unsigned slot,
                         unsigned stream)
{
    const struct bench_trace_event *event = &trace.events[index];

    ck_assert_uint_eq(event->kind, kind);
    ck_assert_uint_eq(event->bytes, size);
    ck_assert_uint_eq(event->slot, slot);
    ck_assert_uint_eq(event->stream, stream);
}

static void expect_threads(const char *threads)
{
    ck_assert_uint_eq(trace.event_count, strlen(threads));
    for (size_t i = 0; i < trace.event_count; i++)
        ck_assert_int_eq('0' + trace.events[i].thread, threads[i]);
}

GROUP(good, NULL)

TEST(good, a_good_trace_is_read)
{
    write_good();
    ck_assert_msg(parse(), "%s", error);
    ck_assert_str_eq(trace.name, "tiny");
    ck_assert_str_eq(trace.source, "src");
    ck_assert_str_eq(trace.device, "dev");
    ck_assert_uint_eq(trace.live_peak_bytes, 21000);
    ck_assert_uint_eq(trace.recorded_reserved_peak_bytes, 4096);
    ck_assert_uint_eq(trace.recorded_allocated_peak_bytes, 2048);
    ck_assert_uint_eq(trace.stream_count, 2);
    ck_assert_uint_eq(trace.slot_count, 2);
    ck_assert_uint_eq(trace.event_count, 6);
    ck_assert_uint_eq(trace.begin, 1);
    ck_assert_uint_eq(trace.step_count, 2);
    ck_assert_uint_eq(trace.steps[0], 1);
    ck_assert_uint_eq(trace.steps[1], 4);
    expect_event(0, BENCH_TRACE_ALLOCATE, 20000, 0, 0);
    expect_event(1, BENCH_TRACE_ALLOCATE, 1000, 1, 1);
    expect_event(2, BENCH_TRACE_USE, 0, 1, 0);
    expect_event(3, BENCH_TRACE_FREE, 0, 0, 0);
    expect_event(4, BENCH_TRACE_ALLOCATE, 1000, 0, 0);
    expect_event(5, BENCH_TRACE_FREE, 0, 0, 0);
    bench_trace_destroy(&trace);
    ck_assert_ptr_null(trace.events);
}

TEST(good, version_1_has_one_thread)
{
    write_good();
    ck_assert_msg(parse(), "%s", error);
    ck_assert_uint_eq(trace.thread_count, 1);
    expect_threads("000000");
    bench_trace_destroy(&trace);
}

TEST(good, events_of_version_2_have_their_threads)
{
    write_threads();
    ck_assert_msg(parse(), "%s", error);
    ck_assert_str_eq(trace.name, "tiny");
    ck_assert_str_eq(trace.device, "dev");
    ck_assert_uint_eq(trace.thread_count, 2);
    expect_threads("01110");
    expect_event(1, BENCH_TRACE_ALLOCATE, 1000, 1, 0);
    expect_event(2, BENCH_TRACE_FREE, 0, 0, 0);
    expect_event(3, BENCH_TRACE_USE, 0, 1, 1);
    bench_trace_destroy(&trace);
}

TEST(good, the_last_thread_that_is_allowed_is_read)
{
    WRITE(BEGIN, ((65 << 3 | 7) & 0x7f) | 0x80, (65 << 3 | 7) >> 7, ALLOCATE_1000);
    put_threads(64);
    put_counts(1, 1, 1000);
    ck_assert_msg(parse(), "%s", error);
    ck_assert_uint_eq(trace.thread_count, 64);
    ck_assert_uint_eq(trace.events[0].thread, 63);
    bench_trace_destroy(&trace);
}

TEST(good, many_steps_are_all_kept)
{
    uint8_t records[60] = {ALLOCATE_1000, BEGIN};

    memset(records + 2, STEP, 57);
    records[59] = FREE_LAST;
    write_trace(records, sizeof records);
    put_counts(1, 2, 1000);
    ck_assert_msg(parse(), "%s", error);
    ck_assert_uint_eq(trace.step_count, 57);
    ck_assert_uint_eq(trace.steps[56], 1);
    bench_trace_destroy(&trace);
}

GROUP(refused, NULL)

TEST(refused, what_is_no_trace_is_refused)
{
    write_good();
    count = 7;
    expect_refused("is no trace: it does not begin with the mark of one");
    write_good();
    bytes[0] = 'P';
    expect_refused("is no trace: it does not begin with the mark of one");
    write_good();
    count = 63;
    expect_refused("ends within the header");
    write_good();
    put(8, 4, 3);
    expect_refused("has version 3; this reader knows versions 1 to 2");
    put(8, 4, 0);
    expect_refused("has version 0; this reader knows versions 1 to 2");
    write_threads();
    count = 67;
    expect_refused("ends within the header");
    write_good();
    ck_assert(!bench_trace_parse(bytes, ((size_t)1 << 30) + 1, &trace, error));
    ck_assert_str_eq(error, "is larger than 1 GiB, as no recording is");
}

TEST(refused, damage_anywhere_is_seen)
{
    write_good();
    put_sum();
    for (size_t at = SUM_AT; at < count; at++) {
        bytes[at] ^= 0x10;
        ck_assert(!bench_trace_parse(bytes, count, &trace, error));
        ck_assert_str_eq(error, "is damaged or cut off: its checksum is not that of its bytes");
        bytes[at] ^= 0x10;
    }
    for (size_t length = NAME_AT; length < count; length++)
        ck_assert(!bench_trace_parse(bytes, length, &trace, error));
    ck_assert(bench_trace_parse(bytes, count, &trace, error));
    bench_trace_destroy(&trace);
}

TEST(refused, counts_that_cannot_be_are_refused)
{
    write_good();
    put_counts(3, 31, 21000);
    expect_refused("promises 31 events in 30 bytes");
    put_counts(7, 6, 21000);
    expect_refused("promises more allocations (7) than events (6)");
    write_good();
    put(SIZES_AT, 4, 0xffffffff);
    expect_refused("promises 4294967295 sizes in 30 bytes");
    write_good();
    put(STREAMS_AT, 4, 0);
    expect_refused("has 0 streams; 1 to 64 are allowed");
    put(STREAMS_AT, 4, 65);
    expect_refused("has 65 streams; 1 to 64 are allowed");
}

TEST(refused, bad_texts_are_refused)
{
    write_good();
    bytes[NAME_AT] = 0;
    expect_refused("has a name of 0 characters; 1 to 31 are allowed");
    bytes[NAME_AT] = 32;
    expect_refused("has a name of 32 characters; 1 to 31 are allowed");
    bytes[NAME_AT] = 31;
    expect_refused("ends within its name");
    write_good();
    bytes[NAME_AT + 2] = '\n';
    expect_refused("has a name that is not printable ASCII");
    write_good();
    bytes[NAME_AT + 5] = 64;
    expect_refused("has a source of 64 characters; 1 to 63 are allowed");
    write_good();
    bytes[NAME_AT + 9 + 3] = 0x7f;
    expect_refused("has a device that is not printable ASCII");
    write_good();
    put_counts(0, 0, 0);
    put(SIZES_AT, 4, 0);
    count = NAME_AT + 9;
    expect_refused("ends before its device");
}

TEST(refused, bad_sizes_and_numbers_are_refused)
{
    static const uint8_t much[] = {0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10}; /* 2^46 + 1 */

    write_good();
    bytes[FIRST_SIZE_AT] = 0x80;
    bytes[FIRST_SIZE_AT + 1] = 0;
    expect_refused("has a size of 0 bytes; 1 to 2^46 are allowed");
    write_good();
    memcpy(bytes + FIRST_SIZE_AT, much, sizeof much);
    expect_refused("has a size of 70368744177665 bytes; 1 to 2^46 are allowed");
    write_good();
    bytes[count - 1] |= 0x80;
    expect_refused("ends within the number at byte 93");
    write_good();
    memset(bytes + FIRST_SIZE_AT, 0xff, 9);
    bytes[FIRST_SIZE_AT + 9] = 2;
    expect_refused("the number at byte 77 has more than 64 bits");
    bytes[FIRST_SIZE_AT + 9] = 0x81;
    bytes[FIRST_SIZE_AT + 10] = 1;
    expect_refused("the number at byte 77 has more than 64 bits");
}

TEST(refused, records_about_blocks_that_are_not_live_are_refused)
{
    WRITE(ALLOCATE_1000, BEGIN, FREE_BEFORE);
    put_counts(1, 2, 1000);
    expect_refused("has a free of a block before the first one (event 1)");
    WRITE(ALLOCATE_1000, BEGIN, FREE_LAST, FREE_LAST);
    put_counts(1, 3, 1000);
    expect_refused("has a free of block 0, which is not live (event 2)");
    WRITE(ALLOCATE_1000, BEGIN, FREE_LAST, USE_LAST, 1);
    put_counts(1, 3, 1000);
    expect_refused("has a use of block 0, which is not live (event 2)");
}

TEST(refused, bad_streams_sizes_and_marks_are_refused)
{
    WRITE(ALLOCATE_1000, BEGIN, USE_LAST, 2, FREE_LAST);
    put_counts(1, 3, 1000);
    expect_refused("has a use on stream 2 of 2");
    WRITE(ALLOCATE_1000, BEGIN, USE_LAST, 0, FREE_LAST);
    put_counts(1, 3, 1000);
    expect_refused("has a use of block 0 on its own stream");
    WRITE(2 << 3 | 3, ALLOCATE_1000, BEGIN, FREE_LAST);
    put_counts(1, 2, 1000);
    expect_refused("selects stream 2 of 2");
    WRITE(2 << 2, BEGIN, FREE_LAST);
    put_counts(1, 2, 1000);
    expect_refused("allocation 0 has size number 2 of 2");
    WRITE(ALLOCATE_1000, BEGIN, 2 << 3 | 1 << 2 | 3, FREE_LAST);
    put_counts(1, 2, 1000);
    expect_refused("has a mark 2, which this version does not have");
}

TEST(refused, bad_threads_are_refused)
{
    write_threads();
    put(THREADS_AT, THREADS_BYTES, 0);
    expect_refused("has 0 threads; 1 to 64 are allowed");
    put(THREADS_AT, THREADS_BYTES, 65);
    expect_refused("has 65 threads; 1 to 64 are allowed");
    put(THREADS_AT, THREADS_BYTES, 1);
    expect_refused("selects thread 1 of 1");
    WRITE(ALLOCATE_1000, BEGIN, THREAD_2, FREE_LAST);
    put_threads(2);
    put_counts(1, 2, 1000);
    expect_refused("selects thread 2 of 2");
    WRITE(BEGIN, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, ALLOCATE_1000);
    put_threads(64);
    put_counts(1, 1, 1000);
    expect_refused("selects thread 2305843009213693949 of 64");
    WRITE(ALLOCATE_1000, BEGIN, THREAD_0, FREE_LAST);
    put_counts(1, 2, 1000);
    expect_refused("has a mark 2, which this version does not have");
    write_threads();
    put_counts(2, 32, 2000);
    expect_refused("promises 32 events in 27 bytes");
}

TEST(refused, a_recording_begins_once_and_before_its_events)
{
    WRITE(ALLOCATE_1000, BEGIN, BEGIN, FREE_LAST);
    put_counts(1, 2, 1000);
    expect_refused("has two marks that begin the recording");
    WRITE(ALLOCATE_1000, FREE_LAST, BEGIN);
    put_counts(1, 2, 1000);
    expect_refused("has a free before the mark that begins the recording");
    WRITE(ALLOCATE_1000, USE_LAST, 1, BEGIN);
    put_counts(1, 2, 1000);
    expect_refused("has a use before the mark that begins the recording");
    WRITE(ALLOCATE_1000, STEP, BEGIN, FREE_LAST);
    put_counts(1, 2, 1000);
    expect_refused("has a step before the mark that begins the recording");
    WRITE(ALLOCATE_1000, ALLOCATE_1000);
    put_counts(2, 2, 2000);
    expect_refused("has no mark that begins the recording");
    WRITE(ALLOCATE_1000, BEGIN);
    put_counts(1, 1, 1000);
    expect_refused("has no event after its begin");
}

TEST(refused, sums_that_do_not_agree_are_refused)
{
    write_good();
    put_counts(2, 6, 21000);
    expect_refused("has more allocations than the 2 that it promises");
    put_counts(4, 6, 21000);
    expect_refused("has 3 allocations, and promises 4");
    put_counts(3, 5, 21000);
    expect_refused("has more events than the 5 that it promises");
    put_counts(3, 7, 21000);
    expect_refused("has 6 events, and promises 7");
    put_counts(3, 6, 20999);
    expect_refused("has 21000 bytes live at most, and promises 20999");
}

TEST(refused, more_bytes_live_than_a_device_holds_are_refused)
{
    static const uint8_t most[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10, 1}; /* 2^46, 1 */
    static const uint8_t records[] = {ALLOCATE_1000, ALLOCATE_20000, BEGIN, FREE_LAST};

    write_trace(records, sizeof records);
    count = FIRST_SIZE_AT + sizeof most + sizeof records;
    memcpy(bytes + FIRST_SIZE_AT, most, sizeof most);
    memcpy(bytes + FIRST_SIZE_AT + sizeof most, records, sizeof records);
    put_counts(2, 3, 1);
    expect_refused("has more than 2^46 bytes live with allocation 1");
}

/* Nothing is asserted but that the reader comes back; sanitizers see the rest. */
TEST(refused, no_bytes_whatever_break_the_reader)
{
    uint64_t random = 1;

    for (int round = 0; round < 20000; round++) {
        if (round % 2 == 0)
            write_good();
        else
            write_threads();
        for (int i = 0; i < 3; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            bytes[16 + (random >> 33) % (count - 16)] = (uint8_t)(random >> 20);
        }
        if (parse())
            bench_trace_destroy(&trace);
    }
}

static void write_file(char *path)
{
    int file = mkstemp(path);

    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, bytes, count), (ssize_t)count);
    ck_assert_int_eq(close(file), 0);
}

TEST(good, a_file_is_read_as_its_bytes_are)
{
    char path[] = "/tmp/tarn_trace_XXXXXX";

    write_good();
    put_sum();
    write_file(path);
    ck_assert_msg(bench_trace_load(path, &trace, error), "%s", error);
    ck_assert_uint_eq(trace.event_count, 6);
    bench_trace_destroy(&trace);
    ck_assert_int_eq(truncate(path, 20), 0);
    ck_assert(!bench_trace_load(path, &trace, error));
    ck_assert_str_eq(error, "ends within the header");
    ck_assert_int_eq(truncate(path, ((off_t)1 << 30) + 1), 0);
    ck_assert(!bench_trace_load(path, &trace, error));
    ck_assert_str_eq(error, "is larger than 1 GiB, as no recording is");
    ck_assert_int_eq(unlink(path), 0);
}

TEST(refused, what_is_no_file_is_refused)
{
    ck_assert(!bench_trace_load("/nowhere/at/all", &trace, error));
    ck_assert_str_eq(error, "cannot be opened: No such file or directory");
    ck_assert(!bench_trace_load("/tmp", &trace, error));
    ck_assert_str_eq(error, "is no file");
}
