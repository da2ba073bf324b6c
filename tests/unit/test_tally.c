// SPDX-License-Identifier: Apache-2.0
#include "heap/tally.h"
#include "unit/unit.h"

GROUP(tally, NULL)

TEST(tally, blocks_up_to_512_kib_are_small)
{
    ck_assert_int_eq(tn_kind_of(512), TN_HEAP_SMALL);
    ck_assert_int_eq(tn_kind_of(512 << 10), TN_HEAP_SMALL);
    ck_assert_int_eq(tn_kind_of((512 << 10) + 1), TN_HEAP_LARGE);
}

/* What is freed may have been allocated before the counting began. */
TEST(tally, a_peak_is_what_was_live_above_the_beginning)
{
    struct tn_heap_counters counters = {.allocated = {3, 3 * 4096, 3000},
                                        .freed = {4, 4 * 4096, 4000}};

    ck_assert(!tn_heap_counters_rise(&counters, 4096)); /* as many as there were */
    ck_assert(tn_heap_counters_rise(&counters, 8192));
    tn_heap_counters_raise(&counters, 8192, 8000);
    ck_assert_uint_eq(counters.peak.bytes, 4096);
    ck_assert_uint_eq(counters.peak.count, 0);
    ck_assert_uint_eq(counters.peak.requested, 7000);
    ck_assert(!tn_heap_counters_rise(&counters, 8192));
}
