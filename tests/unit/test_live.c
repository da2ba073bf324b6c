// SPDX-License-Identifier: Apache-2.0
#include "unit/ordered.h"
#include "unit/one_pool.h"

static void *blocks[3];
static tarn_expected expected[8];
static tarn_live_diff *diff;

static void set_up(void)
{
    make_pool();
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = unit_alloc(pool, 1000 + i, stream);
        expected[i] = (tarn_expected){blocks[i], 1000 + i};
    }
}

static size_t compare(size_t count)
{
    OK(tn_pool_check_live(pool, expected, count, &diff));
    ck_assert(tn_lock_none_held());
    return diff->count;
}

static void expect(size_t i, tarn_difference_kind kind, const void *address, size_t bytes)
{
    ck_assert_int_eq(diff->differences[i].kind, kind);
    ck_assert_ptr_eq(diff->differences[i].block.address, address);
    ck_assert_uint_eq(diff->differences[i].expected_bytes, bytes);
}

GROUP(compare, set_up)

TEST(compare, an_exact_match_has_no_difference)
{
    int64_t before = tn_host_outstanding();

    ck_assert_uint_eq(compare(3), 0);
    tarn_live_diff_destroy(diff);
    expected[1].bytes = 0; /* any size */
    ck_assert_uint_eq(compare(3), 0);
    tarn_live_diff_destroy(diff);
    tarn_live_diff_destroy(NULL);
    ck_assert_int_eq(tn_host_outstanding(), before);
}

TEST(compare, a_block_that_nobody_expects_is_unexpected)
{
    ck_assert_uint_eq(compare(2), 1);
    expect(0, TARN_DIFFERENCE_UNEXPECTED, blocks[2], 0);
    ck_assert_uint_eq(diff->differences[0].block.bytes, 1002);
    ck_assert_uint_eq(diff->differences[0].block.block_bytes, 1024);
    ck_assert_ptr_eq(diff->differences[0].block.pool, pool);
    ck_assert_uint_eq(diff->differences[0].block.sequence, unit_block(blocks[2])->sequence);
}

TEST(compare, nothing_expected_means_every_block_in_order_of_address)
{
    ck_assert_uint_eq(compare(0), 3);
    for (size_t i = 0; i < 3; i++)
        expect(i, TARN_DIFFERENCE_UNEXPECTED, blocks[i], 0);
}

TEST(compare, what_is_not_live_is_missing)
{
    OK(tarn_free(blocks[1]));
    expected[3] = (tarn_expected){(char *)blocks[2] + 1, 5}; /* inside a block */
    ck_assert_uint_eq(compare(4), 2);
    expect(0, TARN_DIFFERENCE_MISSING, blocks[1], 1001);
    expect(1, TARN_DIFFERENCE_MISSING, (char *)blocks[2] + 1, 5);
    ck_assert_ptr_null(diff->differences[0].block.pool);
}

TEST(compare, an_address_expected_twice_is_missing_the_second_time)
{
    expected[3] = expected[0];
    ck_assert_uint_eq(compare(4), 1);
    expect(0, TARN_DIFFERENCE_MISSING, blocks[0], 1000);
}

/* Some are found as the next ones, and some, behind what differs, by their addresses. */
TEST(compare, differences_among_many_blocks_in_order_are_all_found)
{
    enum { MANY = 100 };
    tarn_expected many[MANY];
    tarn_pool *large = unit_pool(device);

    for (size_t i = 0; i < MANY; i++)
        many[i] = (tarn_expected){unit_alloc(large, 1000 + i, stream), 1000 + i};
    OK(tn_pool_check_live(large, many, MANY, &diff));
    ck_assert_uint_eq(diff->count, 0);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(
        (void *)(uintptr_t)many[30].address)); /* missing; what follows is found behind the gap */
    many[50] = many[49];                       /* twice, and so one is unexpected */
    many[60].bytes += 1;
    many[70].bytes = 0; /* any size */
    OK(tarn_free((void *)(uintptr_t)many[80].address));
    OK(tarn_free((void *)(uintptr_t)many[81].address));
    many[80] = many[82];
    many[81] = many[83]; /* their turn comes once more */
    OK(tn_pool_check_live(large, many, MANY, &diff));
    ck_assert_uint_eq(diff->count, 6);
    expect(0, TARN_DIFFERENCE_MISSING, many[30].address, 1030);
    expect(1, TARN_DIFFERENCE_MISSING, many[49].address, 1049);
    ck_assert_int_eq(diff->differences[2].kind, TARN_DIFFERENCE_UNEXPECTED);
    expect(3, TARN_DIFFERENCE_SIZE, many[60].address, 1061);
    expect(4, TARN_DIFFERENCE_MISSING, many[82].address, 1082);
    expect(5, TARN_DIFFERENCE_MISSING, many[83].address, 1083);
    tarn_live_diff_destroy(diff);
    OK(tn_pool_check_live(large, &many[2], 20, &diff));
    ck_assert_uint_eq(diff->count, MANY - 3 - 20);
}

TEST(compare, another_size_is_a_difference)
{
    expected[1].bytes = 1024; /* as taken, not as requested */
    ck_assert_uint_eq(compare(3), 1);
    expect(0, TARN_DIFFERENCE_SIZE, blocks[1], 1024);
    ck_assert_uint_eq(diff->differences[0].block.bytes, 1001);
}

TEST(compare, a_block_of_another_pool_is_named_as_such)
{
    tarn_pool *second = unit_pool(device);
    void *there = unit_alloc(second, 77, stream);

    expected[3] = (tarn_expected){there, 77};
    ck_assert_uint_eq(compare(4), 1);
    expect(0, TARN_DIFFERENCE_POOL, there, 77);
    ck_assert_ptr_eq(diff->differences[0].block.pool, second);
    ck_assert_uint_eq(diff->differences[0].block.bytes, 77);
}

TEST(compare, discarded_and_pending_blocks_are_not_live)
{
    tarn_capture *capture = unit_begin(pool, other);
    void *discarded = unit_alloc(pool, 4096, other);

    OK(tarn_capture_abort(capture));
    sim.hold_work();
    test_fill(other, blocks[0], 1, 16);
    OK(tarn_free_on(blocks[0], other));
    expected[3] = (tarn_expected){discarded, 4096};
    ck_assert_uint_eq(compare(4), 2);
    ck_assert_int_eq(diff->differences[0].kind, TARN_DIFFERENCE_MISSING);
    ck_assert_int_eq(diff->differences[1].kind, TARN_DIFFERENCE_MISSING);
    sim.resume_work();
}

TEST(compare, a_comparison_changes_nothing_and_can_be_repeated)
{
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(compare(2), 1);
        tarn_live_diff_destroy(diff);
    }
    OK(tarn_pool_validate(pool));
}

TEST(compare, a_comparison_without_host_memory_leaves_nothing)
{
    int64_t before = tn_host_outstanding();
    uint64_t failed = 1;
    int met = 0;

    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tn_pool_check_live(pool, expected, 0, &diff);
        failed = tn_host_plan_fault(0, false);
        if (failed > 0) {
            met += 1;
            ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
            ck_assert_int_eq(tn_host_outstanding(), before);
            ck_assert(tn_lock_none_held());
        }
    }
    ck_assert_int_eq(met, 2);
    (void)tn_host_plan_fault(2, false); /* while what is expected is looked up */
    expected[0].bytes = 5;
    STATUS(TARN_ERR_HOST_MEMORY, tn_pool_check_live(pool, expected, 1, &diff));
}
