// SPDX-License-Identifier: Apache-2.0
/* Ranges of time, as they are written and read. */
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "observe/told_ranges.h"
#include "pools/ranges.h"
#include "unit/unit.h"

SUITE("ranges")

enum { PAGES = 64 }; /* of the log: four of ranges */

static struct tn_ring_file file;
static struct tn_ranges ranges;

static void open_ranges(void)
{
    struct tn_ring_plan plan = {.page_count = PAGES};

    tn_ranges_plan(&plan);
    ck_assert(tn_ring_file_make(&file, NULL, &plan));
    ck_assert(tn_ranges_init(&ranges, &file));
    ck_assert_uint_eq(ranges.ring.page_count, 4);
}

static void close_ranges(void)
{
    tn_ranges_fini(&ranges);
    tn_ring_file_remove(&file);
}

GROUP(ranges, open_ranges, .end = close_ranges)

static struct tn_told_ranges retell(void)
{
    struct tn_told_ranges told;

    OK(tn_retell_ranges(tn_ring_from_memory, &ranges.ring, ranges.ring.page_count, &told));
    return told;
}

TEST(ranges, a_range_has_its_title_its_thread_and_its_times)
{
    const uint64_t before = tn_clock_nanoseconds(CLOCK_MONOTONIC);
    const uint64_t outer = tn_range_begin(&ranges, 100);
    const uint64_t inner = tn_range_begin(&ranges, UINT32_MAX);
    struct tn_told_ranges told;

    ck_assert_uint_ne(outer, inner);
    ck_assert(tn_range_end(&ranges, inner));
    ck_assert(tn_range_end(&ranges, outer));
    told = retell();
    ck_assert_uint_eq(told.count, 4);
    ck_assert_uint_eq(told.lost_pages, 0);
    for (size_t i = 0; i < 4; i++) {
        const struct tn_told_range *range = &told.all[i];
        const bool is_outer = i == 0 || i == 3;

        ck_assert_int_eq(range->ends, i >= 2);
        ck_assert_uint_eq(range->range, is_outer ? outer : inner);
        ck_assert_uint_eq(range->title, is_outer ? 100 : UINT32_MAX);
        ck_assert_uint_eq(range->thread, tn_thread_id());
        ck_assert_uint_ge(range->time, i > 0 ? range[-1].time : before);
    }
    ck_assert_uint_le(told.all[3].time, tn_clock_nanoseconds(CLOCK_MONOTONIC));
    tn_told_ranges_free(&told);
}

TEST(ranges, a_range_that_was_never_begun_does_not_end)
{
    const uint64_t range = tn_range_begin(&ranges, 100);

    ck_assert(!tn_range_end(&ranges, 0));
    ck_assert(!tn_range_end(&ranges, range + (UINT64_C(1) << 32)));
    ck_assert(!tn_range_end(&ranges, range & ~(uint64_t)UINT32_MAX));
    ck_assert(tn_range_end(&ranges, range));
}

/* The newest stay, and know their titles. */
TEST(ranges, a_flood_overwrites_the_oldest)
{
    enum { COUNT = 5000 };
    struct tn_told_ranges told;

    for (uint32_t i = 0; i < COUNT; i++)
        ck_assert(tn_range_end(&ranges, tn_range_begin(&ranges, 1000 + i)));
    told = retell();
    ck_assert_uint_gt(told.lost_pages, 0);
    ck_assert_uint_gt(told.count, 300);
    ck_assert_uint_lt(told.count, 4 * TN_RING_WORDS / 3 + 1);
    for (size_t i = 0; i < told.count; i++)
        ck_assert_uint_eq(told.all[i].title, 1000 + COUNT - 1 - (told.count - 1 - i) / 2);
    tn_told_ranges_free(&told);
}

static void *put_ranges(void *argument)
{
    for (uint32_t i = 0; i < 100; i++)
        ck_assert(tn_range_end(&ranges, tn_range_begin(&ranges, 7)));
    return argument;
}

TEST(ranges, threads_write_in_turn)
{
    pthread_t threads[4];
    struct tn_told_ranges told;

    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, put_ranges, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(atomic_load(&ranges.count), 400);
    told = retell();
    for (size_t i = 1; i < told.count; i++)
        ck_assert_uint_ge(told.all[i].time, told.all[i - 1].time);
    tn_told_ranges_free(&told);
}

/* Pages of another writer: events of a later version, and too short ones. */
TEST(ranges, foreign_words_are_left_out)
{
    struct tn_told_ranges told;

    tn_ring_put(&ranges.writer, TN_RANGE_BEGUN, 5);
    tn_ring_put_two(&ranges.writer, 9, 5, 100);
    tn_ring_put_two(&ranges.writer, TN_RANGE_ENDED, 5, 100);
    told = retell();
    ck_assert_uint_eq(told.count, 1);
    ck_assert(told.all[0].ends);
    tn_told_ranges_free(&told);
}
