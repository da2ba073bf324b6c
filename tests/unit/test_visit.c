// SPDX-License-Identifier: Apache-2.0
#include "pools/visit.h"

#include "pools/captures.h"
#include "support/world.h"
#include "unit/unit.h"

enum { POOLS = 3 };

/* What a walk has met. */
struct met {
    tarn_pool *pools[POOLS + 1];
    size_t count;
    size_t most; /* the walk ends with so many */
};

static bool meet(tarn_pool *pool, void *context)
{
    struct met *met = context;

    ck_assert_uint_le(met->count, POOLS);
    ck_assert(tn_lock_held(TN_RANK_DEVICE));
    ck_assert(tn_lock_held(TN_RANK_POOL));
    met->pools[met->count] = pool;
    met->count += 1;
    return met->count == met->most;
}

GROUP(visit, NULL)

TEST(visit, each_pool_is_visited_once_the_newest_first)
{
    tarn_device *device = unit_device();
    tarn_pool *pools[POOLS];
    struct met met = {.count = 0};

    for (size_t i = 0; i < POOLS; i++)
        pools[i] = unit_pool(device);
    ck_assert(!tn_device_visit(device, meet, &met));
    ck_assert_uint_eq(met.count, POOLS + 1);
    for (size_t i = 0; i < POOLS; i++)
        ck_assert_ptr_eq(met.pools[i], pools[POOLS - 1 - i]);
    ck_assert_ptr_eq(met.pools[POOLS], device->default_pool);
    ck_assert(tn_lock_none_held());
}

TEST(visit, a_visitor_ends_the_walk_by_true)
{
    tarn_device *device = unit_device();
    tarn_pool *pool = unit_pool(device);
    struct met met = {.most = 1};

    ck_assert(tn_device_visit(device, meet, &met));
    ck_assert_uint_eq(met.count, 1);
    ck_assert_ptr_eq(met.pools[0], pool);
    ck_assert(tn_lock_none_held());
}

TEST(visit, a_walk_leaves_the_lock_of_the_device_to_its_caller)
{
    tarn_device *device = unit_device();
    struct met met = {.count = 0};

    tn_lock_acquire(&device->lock);
    ck_assert(!tn_device_walk(device, meet, &met));
    ck_assert_uint_eq(met.count, 1);
    ck_assert(tn_lock_held(TN_RANK_DEVICE));
    tn_lock_release(&device->lock);
}

/* Each pool of the list once, though a pool that is locked leaves the list and comes back. */
TEST(visit, the_pools_of_a_list_are_visited_once_each)
{
    tarn_device *device = unit_device();
    tarn_pool *pools[POOLS];
    struct met met = {.count = 0};

    for (size_t i = 0; i < POOLS; i++) {
        struct tn_hold *hold;

        pools[i] = unit_pool(device);
        if (i == 1)
            continue;
        tn_pool_lock(pools[i]);
        OK(tn_hold_open(pools[i], (struct tn_order){17, 4}, false, &hold));
        tn_pool_unlock(pools[i]);
    }
    for (size_t round = 0; round < 2; round++) {
        met.count = 0;
        ck_assert(!tn_device_visit_listed(device, TN_POOLS_OPEN, meet, &met));
        ck_assert_uint_eq(met.count, 2);
        ck_assert_ptr_eq(met.pools[0], pools[0]);
        ck_assert_ptr_eq(met.pools[1], pools[2]);
    }
    met = (struct met){.most = 1};
    ck_assert(tn_device_visit_listed(device, TN_POOLS_OPEN, meet, &met));
    ck_assert_uint_eq(met.count, 1);
    ck_assert(tn_lock_none_held());
}
