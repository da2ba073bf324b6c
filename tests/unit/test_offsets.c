// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "share/offsets.h"
#include "unit/unit.h"

#define PAGE ((uint64_t)TN_OFFSET_UNIT)

static struct tn_offsets offsets;

static void begin(void)
{
    tn_offsets_init(&offsets);
}

static void end(void)
{
    OK(tn_offsets_check(&offsets));
    tn_offsets_fini(&offsets);
}

static uint32_t take(uint64_t bytes)
{
    uint32_t index = TN_RANGE_NONE;

    OK(tn_offsets_take(&offsets, bytes, &index));
    return index;
}

static uint64_t at(uint32_t index)
{
    return offsets.ranges[index].offset;
}

SUITE("offsets")
GROUP(layout, begin, end)

TEST(layout, takes_are_rounded_and_come_back_together)
{
    uint32_t first;
    uint32_t second;
    uint32_t third;

    OK(tn_offsets_grow(&offsets, 16 * PAGE));
    first = take(1);
    second = take(PAGE + 1);
    third = take(PAGE);
    ck_assert_uint_eq(at(first), 0);
    ck_assert_uint_eq(at(second), PAGE);
    ck_assert_uint_eq(at(third), 3 * PAGE);
    ck_assert_uint_eq(offsets.ranges[second].requested, PAGE + 1);
    OK(tn_offsets_check(&offsets));
    tn_offsets_give(&offsets, first);
    tn_offsets_give(&offsets, third);
    tn_offsets_give(&offsets, second); /* O2: all are one range again */
    ck_assert_uint_eq(at(take(16 * PAGE)), 0);
}

TEST(layout, a_growth_joins_the_free_end)
{
    uint32_t index;

    STATUS(TARN_ERR_LIMIT, tn_offsets_take(&offsets, 1, &index));
    OK(tn_offsets_grow(&offsets, 4 * PAGE));
    STATUS(TARN_ERR_LIMIT, tn_offsets_take(&offsets, 5 * PAGE, &index));
    ck_assert_uint_eq(at(take(PAGE)), 0);
    OK(tn_offsets_grow(&offsets, 4 * PAGE));
    ck_assert_uint_eq(at(take(7 * PAGE)), PAGE);
    STATUS(TARN_ERR_LIMIT, tn_offsets_take(&offsets, 1, &index));
    OK(tn_offsets_grow(&offsets, 4 * PAGE));
    ck_assert_uint_eq(at(take(1)), 8 * PAGE);
}

TEST(layout, ranges_are_found_by_their_offset_alone)
{
    uint32_t index;

    ck_assert_uint_eq(tn_offsets_find(&offsets, 0), TN_RANGE_NONE);
    OK(tn_offsets_grow(&offsets, 4 * PAGE));
    ck_assert_uint_eq(tn_offsets_find(&offsets, 0), TN_RANGE_NONE); /* it is free */
    index = take(2 * PAGE);
    ck_assert_uint_eq(tn_offsets_find(&offsets, 0), index);
    ck_assert_uint_eq(tn_offsets_find(&offsets, 1), TN_RANGE_NONE);
    ck_assert_uint_eq(tn_offsets_find(&offsets, PAGE), TN_RANGE_NONE);
    tn_offsets_give(&offsets, index);
    ck_assert_uint_eq(tn_offsets_find(&offsets, 0), TN_RANGE_NONE);
}

/* A range that is large enough is found behind others of its bin that are not. */
TEST(layout, the_last_range_of_a_bin_is_found_too)
{
    uint32_t held[40];
    uint32_t large;

    OK(tn_offsets_grow(&offsets, 4096 * PAGE));
    large = take(39 * PAGE);
    for (int i = 0; i < 40; i++) {
        held[i] = take(32 * PAGE);
        (void)take(1); /* no two are neighbours */
    }
    while (tn_offsets_find(&offsets, 4095 * PAGE) == TN_RANGE_NONE)
        (void)take(PAGE); /* nothing else is free */
    tn_offsets_give(&offsets, large);
    for (int i = 0; i < 40; i++)
        tn_offsets_give(&offsets, held[i]);
    OK(tn_offsets_check(&offsets));
    ck_assert_uint_eq(at(take(39 * PAGE)), 0);
}

/* The same calls give the same offsets, and no two blocks overlap. */
TEST_LOOP(layout, offsets_depend_on_the_calls_alone, 0, 20)
{
    enum { BLOCKS = 200, STEPS = 4000 };
    struct tn_offsets twin;
    uint32_t mine[BLOCKS];
    uint32_t its[BLOCKS];
    bool live[BLOCKS] = {false};
    unsigned int state = (unsigned int)_i + 1;

    tn_offsets_init(&twin);
    for (int step = 0; step < STEPS; step++) {
        int i = (int)(rand_r(&state) % BLOCKS);
        uint64_t bytes = ((uint64_t)rand_r(&state) % 64 + 1) * ((uint64_t)rand_r(&state) % 700 + 1);
        tarn_status status;

        if (step % 1000 == 0) {
            OK(tn_offsets_grow(&offsets, 1024 * PAGE));
            OK(tn_offsets_grow(&twin, 1024 * PAGE));
        }
        if (live[i]) {
            tn_offsets_give(&offsets, mine[i]);
            tn_offsets_give(&twin, its[i]);
            live[i] = false;
            continue;
        }
        status = tn_offsets_take(&offsets, bytes, &mine[i]);
        ck_assert_int_eq(tn_offsets_take(&twin, bytes, &its[i]), status);
        live[i] = status == TARN_OK;
        if (live[i])
            ck_assert_uint_eq(at(mine[i]), twin.ranges[its[i]].offset);
        if (step % 100 == 0)
            OK(tn_offsets_check(&offsets)); /* O1: none overlap */
    }
    tn_offsets_fini(&twin);
}

TEST(layout, a_check_names_what_is_broken)
{
    uint32_t first;

    OK(tn_offsets_grow(&offsets, 8 * PAGE));
    first = take(PAGE);
    offsets.ranges[first].bytes += PAGE;
    STATUS(TARN_ERR_CORRUPT, tn_offsets_check(&offsets)); /* O1 */
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "O1"));
    offsets.ranges[first].bytes -= PAGE;
    offsets.ranges[first].state = TN_OFFSET_FREE;
    STATUS(TARN_ERR_CORRUPT, tn_offsets_check(&offsets)); /* O2 */
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "O2"));
    offsets.ranges[first].state = TN_OFFSET_LIVE;
    offsets.bins[TN_OFFSET_BINS - 1] = first;
    STATUS(TARN_ERR_CORRUPT, tn_offsets_check(&offsets)); /* O3 */
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "O3"));
    offsets.bins[TN_OFFSET_BINS - 1] = TN_RANGE_NONE;
}

TEST(layout, a_refused_allocation_of_the_host_changes_nothing)
{
    uint32_t index;

    ck_assert_uint_eq(tn_host_plan_fault(1, false), 0);
    STATUS(TARN_ERR_HOST_MEMORY, tn_offsets_grow(&offsets, 4 * PAGE));
    ck_assert_uint_eq(tn_host_plan_fault(2, false), 1);
    STATUS(TARN_ERR_HOST_MEMORY, tn_offsets_grow(&offsets, 4 * PAGE));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_uint_eq(offsets.bytes, 0);
    OK(tn_offsets_grow(&offsets, 4 * PAGE));
    ck_assert_uint_eq(at(take(4 * PAGE)), 0);
    STATUS(TARN_ERR_LIMIT, tn_offsets_take(&offsets, 1, &index));
}
