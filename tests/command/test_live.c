// SPDX-License-Identifier: Apache-2.0
/* How live blocks are added up. */
#include "live.h"
#include "base/sample.h"
#include "support/registry.h"

SUITE("live blocks by stack and by pool")

GROUP(groups, NULL)

enum { SAMPLE_BYTES = 1 << 20 };

static struct tn_told_block blocks[] = {
    {1, 0x1000, 1024, 1000, 30, 1, {0}, 7}, {2, 0x2000, 512, 100, 20, 2, {0}, 0},
    {3, 0x3000, 4096, 4000, 30, 2, {0}, 7}, {4, 0x4000, 512, 300, 0, 1, {0}, 0},
    {5, 0x5000, 9216, 9000, 0, 1, {0}, 8},
};

static struct tn_told told = {.blocks = blocks, .count = sizeof blocks / sizeof blocks[0]};

TEST(groups, of_stacks_are_worst_first)
{
    struct live_groups groups;

    ck_assert(live_group(&groups, &told, LIVE_BY_STACK, NULL, 1, NULL));
    ck_assert_uint_eq(groups.count, 3);
    ck_assert_uint_eq(groups.all[0].key, 0);
    ck_assert_uint_eq(groups.all[0].requested, 9300);
    ck_assert_uint_eq(groups.all[1].key, 30);
    ck_assert_uint_eq(groups.all[1].blocks, 2);
    ck_assert_uint_eq(groups.all[1].bytes, 5120);
    ck_assert_uint_eq(groups.all[1].requested, 5000);
    ck_assert_uint_eq(groups.all[1].oldest, 1);
    ck_assert_uint_eq(groups.all[1].newest, 3);
    ck_assert_uint_eq(groups.all[1].pool, 2);
    ck_assert_uint_eq(groups.all[2].key, 20);
    ck_assert_uint_eq(groups.total.blocks, 5);
    ck_assert_uint_eq(groups.total.bytes, 15360);
    live_free(&groups);
}

TEST(groups, of_pools_have_all_blocks_of_theirs)
{
    struct live_groups groups;

    ck_assert(live_group(&groups, &told, LIVE_BY_POOL, NULL, 1, NULL));
    ck_assert_uint_eq(groups.count, 2);
    ck_assert_uint_eq(groups.all[0].key, 1);
    ck_assert_uint_eq(groups.all[0].blocks, 3);
    ck_assert_uint_eq(groups.all[1].key, 2);
    ck_assert_uint_eq(groups.all[1].requested, 4100);
    live_free(&groups);
}

TEST(groups, of_tags_have_all_blocks_of_theirs)
{
    struct live_groups groups;

    ck_assert(live_group(&groups, &told, LIVE_BY_TAG, NULL, 1, NULL));
    ck_assert_uint_eq(groups.count, 3);
    ck_assert_uint_eq(groups.all[0].key, 8);
    ck_assert_uint_eq(groups.all[1].key, 7);
    ck_assert_uint_eq(groups.all[1].requested, 5000);
    ck_assert_uint_eq(groups.all[2].key, 0);
    ck_assert_uint_eq(groups.all[2].blocks, 2);
    live_free(&groups);
}

TEST(groups, of_one_pool_have_no_block_of_another)
{
    const uint64_t pool = 2;
    struct live_groups groups;

    ck_assert(live_group(&groups, &told, LIVE_BY_STACK, &pool, 1, NULL));
    ck_assert_uint_eq(groups.count, 2);
    ck_assert_uint_eq(groups.all[0].requested, 4000);
    ck_assert_uint_eq(groups.total.blocks, 2);
    live_free(&groups);
}

/* A sampled block of few bytes stands for many: it comes before a larger one without a stack. */
TEST(groups, with_stacks_stand_for_what_has_none_where_few_have_one)
{
    struct live_groups groups;
    const double weight = tn_sample_weight(100, SAMPLE_BYTES);

    ck_assert(live_group(&groups, &told, LIVE_BY_STACK, NULL, SAMPLE_BYTES, NULL));
    ck_assert_uint_eq(groups.all[2].key, 0);
    ck_assert_uint_eq(groups.all[2].requested, 9300);
    ck_assert_double_eq_tol(groups.all[2].estimated_requested, 9300, 0.5);
    for (size_t i = 0; i < 2; i++) {
        if (groups.all[i].key != 20)
            continue;
        ck_assert_double_eq_tol(groups.all[i].estimated_blocks, weight, 0.5);
        ck_assert_double_eq_tol(groups.all[i].estimated_requested, 100 * weight, 0.5);
    }
    live_free(&groups);
}

TEST(groups, of_nothing_are_none)
{
    struct tn_told none = {.blocks = NULL};
    struct live_groups groups;

    ck_assert(live_group(&groups, &none, LIVE_BY_STACK, NULL, 1, NULL));
    ck_assert_uint_eq(groups.count, 0);
    ck_assert_uint_eq(groups.total.blocks, 0);
    live_free(&groups);
}
