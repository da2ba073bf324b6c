// SPDX-License-Identifier: Apache-2.0
/* Comparing the live blocks with what the caller expects. */
#include "support/world.h"

static tarn_live_diff *check(const tarn_expected *expected, size_t count, size_t differences)
{
    tarn_live_diff *diff = NULL;

    OK(tarn_pool_check_live(world.pool, expected, count, &diff));
    ck_assert_uint_eq(diff->count, differences);
    return diff;
}

SUITE("live blocks")
GROUP(check, test_world_open, test_world_close)

TEST(check, an_exact_expectation_has_no_difference)
{
    void *first = test_alloc(world.pool, 1000, world.stream);
    void *second = test_alloc(world.pool, 3 * MIB, world.stream);
    tarn_expected expected[] = {{second, 3 * MIB}, {first, 1000}}; /* in any order */
    tarn_expected any_size[] = {{first, 0}, {second, 0}};

    tarn_live_diff_destroy(check(expected, 2, 0));
    tarn_live_diff_destroy(check(any_size, 2, 0));
    OK(tarn_free(first));
    OK(tarn_free(second));
    tarn_live_diff_destroy(check(NULL, 0, 0));
}

TEST(check, null_of_0_bytes_is_always_as_expected)
{
    void *nothing = UNTOUCHED;
    void *address = test_alloc(world.pool, 1000, world.stream);
    tarn_expected expected[3];
    tarn_live_diff *diff;

    OK(tarn_pool_malloc(world.pool, 0, 0, world.stream, &nothing));
    expected[0] = (tarn_expected){nothing, 0};
    expected[1] = (tarn_expected){address, 1000};
    expected[2] = (tarn_expected){nothing, 0};
    tarn_live_diff_destroy(check(expected, 3, 0));
    expected[2].bytes = 1; /* that no allocation gives */
    diff = check(expected, 3, 1);
    ck_assert_int_eq(diff->differences[0].kind, TARN_DIFFERENCE_MISSING);
    ck_assert_ptr_null(diff->differences[0].block.address);
    ck_assert_uint_eq(diff->differences[0].expected_bytes, 1);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(nothing));
    OK(tarn_free(address));
    tarn_live_diff_destroy(check(expected, 1, 0));
}

TEST(check, a_block_that_is_not_expected_is_described)
{
    void *address = test_alloc(world.pool, 1000, world.stream);
    tarn_live_diff *diff = check(NULL, 0, 1);
    tarn_block block;

    OK(tarn_block_at(address, &block));
    ck_assert_int_eq(diff->differences[0].kind, TARN_DIFFERENCE_UNEXPECTED);
    ck_assert_ptr_eq(diff->differences[0].block.address, address);
    ck_assert_uint_eq(diff->differences[0].block.bytes, 1000);
    ck_assert_uint_eq(diff->differences[0].block.block_bytes, 1024);
    ck_assert_uint_eq(diff->differences[0].block.sequence, block.sequence);
    ck_assert_ptr_eq(diff->differences[0].block.pool, world.pool);
    ck_assert_uint_eq(diff->differences[0].expected_bytes, 0);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(address));
}

TEST(check, what_is_expected_and_not_live_is_missing)
{
    char *address = test_alloc(world.pool, 4096, world.stream);
    int local = 0;
    tarn_expected expected[] = {{address + 512, 7}, {&local, 4}, {NULL, 9}};
    tarn_live_diff *diff = check(expected, 3, 4);
    size_t missing = 0;

    for (size_t i = 0; i < diff->count; i++) {
        const tarn_difference *difference = &diff->differences[i];

        if (difference->kind != TARN_DIFFERENCE_MISSING)
            continue;
        missing += 1;
        ck_assert_uint_eq(difference->block.bytes, difference->expected_bytes);
        ck_assert_uint_eq(difference->block.sequence, 0);
        ck_assert_ptr_null(difference->block.pool);
    }
    ck_assert_uint_eq(missing, 3);
    ck_assert_ptr_null(diff->differences[0].block.address);
    ck_assert_uint_eq(diff->differences[0].expected_bytes, 9);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(address));
    expected[0] = (tarn_expected){address, 4096};
    diff = check(expected, 1, 1);
    ck_assert_int_eq(diff->differences[0].kind, TARN_DIFFERENCE_MISSING);
    ck_assert_ptr_eq(diff->differences[0].block.address, address);
    tarn_live_diff_destroy(diff);
}

TEST(check, differences_of_one_address_are_in_order_of_kind)
{
    void *address = test_alloc(world.pool, 512, world.stream);
    tarn_expected expected[] = {{address, 1024}, {address, 1024}};
    tarn_live_diff *diff = check(expected, 2, 2);

    ck_assert_int_eq(diff->differences[0].kind, TARN_DIFFERENCE_MISSING);
    ck_assert_int_eq(diff->differences[1].kind, TARN_DIFFERENCE_SIZE);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(address));
}

TEST(check, another_size_is_told_with_both)
{
    void *address = test_alloc(world.pool, 1000, world.stream);
    tarn_expected expected = {address, 1024};
    tarn_live_diff *diff = check(&expected, 1, 1);

    ck_assert_int_eq(diff->differences[0].kind, TARN_DIFFERENCE_SIZE);
    ck_assert_ptr_eq(diff->differences[0].block.address, address);
    ck_assert_uint_eq(diff->differences[0].block.bytes, 1000);
    ck_assert_uint_eq(diff->differences[0].expected_bytes, 1024);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(address));
}

TEST(check, a_block_of_another_pool_is_told_with_its_pool)
{
    void *elsewhere = test_malloc(1000);
    tarn_expected expected = {elsewhere, 1000};
    tarn_live_diff *diff = check(&expected, 1, 1);

    ck_assert_int_eq(diff->differences[0].kind, TARN_DIFFERENCE_POOL);
    ck_assert_ptr_eq(diff->differences[0].block.address, elsewhere);
    ck_assert_ptr_eq(diff->differences[0].block.pool, world.default_pool);
    ck_assert_uint_eq(diff->differences[0].block.bytes, 1000);
    ck_assert_uint_eq(diff->differences[0].expected_bytes, 1000);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(elsewhere));
}

TEST(check, an_address_expected_twice_is_missing_the_second_time)
{
    void *address = test_alloc(world.pool, 512, world.stream);
    tarn_expected expected[] = {{address, 512}, {address, 512}};
    tarn_live_diff *diff = check(expected, 2, 1);

    ck_assert_int_eq(diff->differences[0].kind, TARN_DIFFERENCE_MISSING);
    ck_assert_ptr_eq(diff->differences[0].block.address, address);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(address));
}

TEST(check, all_kinds_of_differences_are_told_at_once)
{
    enum { COUNT = 12 };
    tarn_pool *elsewhere = test_pool("elsewhere");
    void *blocks[COUNT];
    tarn_expected expected[COUNT];
    tarn_live_diff *diff = NULL;
    size_t count = 0;
    size_t kinds[4] = {0};

    for (size_t i = 0; i < COUNT; i++) /* a third of them large */
        blocks[i] = test_alloc(i % 4 == 3 ? elsewhere : world.pool, i % 3 == 0 ? 2 * MIB : 1000,
                               world.stream);
    for (size_t i = 0; i < COUNT; i++) {
        size_t bytes = i % 3 == 0 ? 2 * MIB : 1000;

        if (i % 4 == 0)
            continue; /* unexpected */
        expected[count] = (tarn_expected){blocks[i], i % 4 == 1 ? bytes + 1 : bytes};
        count += 1;
        if (i % 4 == 2)
            OK(tarn_free(blocks[i])); /* missing */
    }
    OK(tarn_pool_check_live(world.pool, expected, count, &diff));
    ck_assert_uint_eq(diff->count, COUNT);
    for (size_t i = 0; i < diff->count; i++) {
        const tarn_difference *difference = &diff->differences[i];
        size_t at = 0;

        while (blocks[at] != difference->block.address)
            at += 1;
        kinds[difference->kind] += 1;
        switch (at % 4) {
        case 0:
            ck_assert_int_eq(difference->kind, TARN_DIFFERENCE_UNEXPECTED);
            ck_assert_uint_ne(difference->block.sequence, 0);
            break;
        case 1:
            ck_assert_int_eq(difference->kind, TARN_DIFFERENCE_SIZE);
            ck_assert_uint_eq(difference->expected_bytes, difference->block.bytes + 1);
            break;
        case 2:
            ck_assert_int_eq(difference->kind, TARN_DIFFERENCE_MISSING);
            break;
        default:
            ck_assert_int_eq(difference->kind, TARN_DIFFERENCE_POOL);
            ck_assert_ptr_eq(difference->block.pool, elsewhere);
        }
        if (i > 0)
            ck_assert(difference->block.address > diff->differences[i - 1].block.address);
    }
    for (size_t kind = 0; kind < 4; kind++)
        ck_assert_uint_eq(kinds[kind], COUNT / 4);
    tarn_live_diff_destroy(diff);
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 4 != 2)
            OK(tarn_free(blocks[i]));
    }
    OK(tarn_pool_destroy(elsewhere));
}

TEST(check, differences_are_in_order_of_address)
{
    enum { COUNT = 40 };
    void *blocks[COUNT];
    tarn_expected expected[COUNT];
    tarn_live_diff *diff;

    for (int i = 0; i < COUNT; i++) {
        blocks[i] = test_alloc(world.pool, (size_t)(i % 3) * MIB + 512, world.stream);
        expected[COUNT - 1 - i] = (tarn_expected){blocks[i], 77};
    }
    diff = check(expected, COUNT, COUNT);
    for (size_t i = 0; i < diff->count; i++) {
        ck_assert_int_eq(diff->differences[i].kind, TARN_DIFFERENCE_SIZE);
        if (i > 0)
            ck_assert_uint_gt((uintptr_t)diff->differences[i].block.address,
                              (uintptr_t)diff->differences[i - 1].block.address);
    }
    tarn_live_diff_destroy(diff);
    for (int i = 0; i < COUNT; i++)
        OK(tarn_free(blocks[i]));
}

TEST(check, pending_and_discarded_blocks_are_not_live)
{
    void *pending = test_alloc(world.pool, 4 * MIB, world.stream);
    tarn_capture *capture = NULL;
    tarn_expected expected[2];
    tarn_live_diff *diff;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    expected[0] = (tarn_expected){test_malloc(4 * MIB), 0};
    OK(tarn_capture_abort(capture));
    sim.hold_work();
    test_spin(world.side, 1);
    OK(tarn_free_on(pending, world.side));
    expected[1] = (tarn_expected){pending, 0};
    diff = check(expected, 2, 2);
    ck_assert_int_eq(diff->differences[0].kind, TARN_DIFFERENCE_MISSING);
    ck_assert_int_eq(diff->differences[1].kind, TARN_DIFFERENCE_MISSING);
    tarn_live_diff_destroy(diff);
    tarn_live_diff_destroy(check(NULL, 0, 0));
    sim.resume_work();
    OK(tarn_free((void *)(uintptr_t)expected[0].address));
}

TEST(check, a_restored_pool_is_as_expected)
{
    void *address = test_alloc(world.pool, 1000, world.stream);
    tarn_expected expected = {address, 1000};
    tarn_checkpoint *checkpoint = NULL;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    OK(tarn_free(address));
    OK(tarn_pool_validate(world.pool)); /* it is joined to what lies behind */
    (void)test_alloc(world.pool, 4096, world.stream);
    tarn_live_diff_destroy(check(&expected, 1, 1)); /* in its place, with another size */
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    tarn_live_diff_destroy(check(&expected, 1, 0));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

TEST(check, bad_arguments_are_refused)
{
    _Alignas(128) uint64_t zeros[1024] = {0}; /* aligned as a record is */
    tarn_expected expected = {zeros, 1};
    tarn_live_diff *diff = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_pool_check_live(NULL, &expected, 1, &diff));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_pool_check_live((tarn_pool *)(void *)zeros, &expected, 1, &diff));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "diff is NULL",
           tarn_pool_check_live(world.pool, &expected, 1, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "expected is NULL",
           tarn_pool_check_live(world.pool, NULL, 1, &diff));
    ck_assert_untouched(diff);
}

TEST(check, the_default_pool_may_be_checked_too)
{
    void *address = test_malloc(700);
    tarn_expected expected = {address, 700};
    tarn_live_diff *diff = NULL;

    OK(tarn_pool_check_live(world.default_pool, &expected, 1, &diff));
    ck_assert_uint_eq(diff->count, 0);
    tarn_live_diff_destroy(diff);
    OK(tarn_free(address));
}
