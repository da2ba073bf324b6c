// SPDX-License-Identifier: Apache-2.0
#include "heap/pool_index.h"

#include "claims/hold.h"
#include "unit/unit.h"

enum { HOLDS = 1000, POOLS = 10 };

static struct tn_pool_index holds_by;
static struct tn_hold holds[HOLDS];
static tarn_pool *pools; /* compared alone */

/* Each POOLS holds in a row are of one capture, and of pools of their own. */
static void enter_all(void)
{
    static char places[POOLS];

    pools = (tarn_pool *)(void *)places;
    for (uint64_t i = 0; i < HOLDS; i++) {
        holds[i].entries[TN_BY_CAPTURE] =
            (struct tn_index_entry){.hold = &holds[i],
                                    .pool = (tarn_pool *)(void *)&places[i % POOLS],
                                    .pool_serial = 1 + i % POOLS};
        tn_pool_index_put(&holds_by, TN_BY_CAPTURE, &holds[i].entries[TN_BY_CAPTURE],
                          1 + i / POOLS);
    }
}

static void leave_all(void)
{
    for (int i = 0; i < HOLDS; i++)
        tn_pool_index_put(&holds_by, TN_BY_CAPTURE, &holds[i].entries[TN_BY_CAPTURE], 0);
    tn_pool_index_fini(&holds_by);
}

static struct tn_hold *first_of(int i, uint64_t key)
{
    return tn_pool_index_first(&holds_by, TN_BY_CAPTURE, holds[i].entries[TN_BY_CAPTURE].pool, key);
}

static struct tn_hold *next_of(const struct tn_hold *hold)
{
    return tn_pool_index_next(&holds_by, &hold->entries[TN_BY_CAPTURE]);
}

static void expect_all(void)
{
    for (int i = 0; i < HOLDS; i++) {
        ck_assert_ptr_eq(first_of(i, 1 + (uint64_t)i / POOLS), &holds[i]);
        ck_assert_ptr_null(next_of(&holds[i]));
        ck_assert(tn_pool_index_has(&holds_by, TN_BY_CAPTURE, &holds[i].entries[0]));
    }
    ck_assert_ptr_null(first_of(0, 1 + HOLDS / POOLS));
}

GROUP(pool_index, NULL)

TEST(pool_index, a_hold_is_found_among_many)
{
    enter_all();
    expect_all();
    ck_assert_uint_ge(holds_by.tables[TN_BY_CAPTURE].chain_count, HOLDS / 2);
    ck_assert_uint_eq(holds_by.tables[TN_BY_CAPTURE].count, HOLDS);
    leave_all();
    ck_assert_uint_eq(holds_by.tables[TN_BY_CAPTURE].count, 0);
}

TEST(pool_index, without_host_memory_the_chains_grow)
{
    (void)tn_host_plan_fault(1, true);
    enter_all();
    ck_assert_uint_gt(tn_host_plan_fault(0, false), 0);
    ck_assert_ptr_null(holds_by.tables[TN_BY_CAPTURE].chains);
    expect_all();
    leave_all();
}

TEST(pool_index, a_hold_goes_from_one_key_to_another)
{
    struct tn_index_entry *entry = &holds[5].entries[TN_BY_CAPTURE];

    enter_all();
    tn_pool_index_put(&holds_by, TN_BY_CAPTURE, entry, 2000);
    ck_assert_ptr_null(first_of(5, 1));
    ck_assert_ptr_eq(first_of(5, 2000), &holds[5]);
    tn_pool_index_put(&holds_by, TN_BY_CAPTURE, entry, 0);
    ck_assert_ptr_null(first_of(5, 2000));
    ck_assert(!tn_pool_index_has(&holds_by, TN_BY_CAPTURE, entry));
    leave_all();
}

/* However the table grows meanwhile. */
TEST(pool_index, holds_of_one_key_stay_newest_first)
{
    const struct tn_hold *hold;

    enter_all();
    for (int i = 0; i < HOLDS; i += POOLS)
        tn_pool_index_put(&holds_by, TN_BY_GRAPH, &holds[i].entries[TN_BY_GRAPH], 7);
    for (int i = 0; i < HOLDS; i += POOLS) {
        holds[i].entries[TN_BY_KEEPER] = holds[i].entries[TN_BY_CAPTURE];
        holds[i].entries[TN_BY_KEEPER].key = 0;
        tn_pool_index_put(&holds_by, TN_BY_KEEPER, &holds[i].entries[TN_BY_KEEPER], 7);
    }
    hold = tn_pool_index_first(&holds_by, TN_BY_KEEPER, pools, 7);
    for (int i = HOLDS - POOLS; i >= 0; i -= POOLS) {
        ck_assert_ptr_eq(hold, &holds[i]);
        hold = tn_pool_index_next(&holds_by, &hold->entries[TN_BY_KEEPER]);
    }
    ck_assert_ptr_null(hold);
    for (int i = 0; i < HOLDS; i += POOLS) {
        tn_pool_index_put(&holds_by, TN_BY_GRAPH, &holds[i].entries[TN_BY_GRAPH], 0);
        tn_pool_index_put(&holds_by, TN_BY_KEEPER, &holds[i].entries[TN_BY_KEEPER], 0);
    }
    leave_all();
}

TEST(pool_index, pools_come_once_each_and_newest_first)
{
    const struct tn_index_keys keys = {.capture_id = 3, .graph = (tn_cu_graph)9};
    uint64_t below = UINT64_MAX;

    enter_all();
    holds[99].entries[TN_BY_GRAPH] =
        (struct tn_index_entry){.hold = &holds[99], .pool = pools, .pool_serial = 77};
    tn_pool_index_put(&holds_by, TN_BY_GRAPH, &holds[99].entries[TN_BY_GRAPH], 9);
    /* a second hold in one of the pools */
    tn_pool_index_put(&holds_by, TN_BY_CAPTURE, &holds[5].entries[TN_BY_CAPTURE], 3);
    ck_assert_ptr_eq(tn_pool_index_pool(&holds_by, &keys, &below), pools);
    ck_assert_uint_eq(below, 77);
    for (uint64_t serial = POOLS; serial > 0; serial--) {
        ck_assert_ptr_eq(tn_pool_index_pool(&holds_by, &keys, &below),
                         holds[serial - 1].entries[TN_BY_CAPTURE].pool);
        ck_assert_uint_eq(below, serial);
    }
    ck_assert_ptr_null(tn_pool_index_pool(&holds_by, &keys, &below));
    tn_pool_index_put(&holds_by, TN_BY_GRAPH, &holds[99].entries[TN_BY_GRAPH], 0);
    leave_all();
}
