// SPDX-License-Identifier: Apache-2.0
#include "pools/visit.h"

#include <pthread.h>
#include <stdatomic.h>

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

/* What another thread does with a pool, and whether it has. */
struct visitor {
    tarn_pool *pool;
    tn_cu_stream stream;
    atomic_bool begun;
    atomic_bool done;
};

static void *allocate(void *argument)
{
    struct visitor *visitor = argument;

    test_set_context(test_retain(0));
    atomic_store(&visitor->begun, true);
    OK(tarn_free(test_alloc(visitor->pool, 512, visitor->stream)));
    atomic_store(&visitor->done, true);
    test_release(0);
    return NULL;
}

/* Of two threads the first comes with the lock of the pool, and the second in the steady state. */
TEST(visit, nobody_changes_a_pool_while_all_are_stopped)
{
    tarn_device *device = unit_device();
    struct visitor visitors[] = {{.pool = unit_pool(device), .stream = test_stream()},
                                 {.pool = unit_pool(device), .stream = test_stream()}};
    pthread_t threads[2];
    struct met met = {.count = 0};

    for (int i = 0; i < 4; i++)
        OK(tarn_free(unit_alloc(visitors[1].pool, 512, visitors[1].stream)));
    tn_lock_acquire(&device->lock);
    tn_device_stop(device);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate, &visitors[i]), 0);
    for (size_t i = 0; i < 2; i++) {
        while (!atomic_load(&visitors[i].begun))
            (void)test_pause(test_deadline());
    }
    for (int i = 0; i < 20; i++)
        (void)test_pause(test_deadline());
    ck_assert(!atomic_load(&visitors[0].done) && !atomic_load(&visitors[1].done));
    tn_device_look(device, meet, &met);
    ck_assert_uint_eq(met.count, 3);
    ck_assert(!tn_lock_held(TN_RANK_POOL) || !TARN_DEBUG_CHECKS);
    tn_device_resume(device);
    tn_lock_release(&device->lock);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert(atomic_load(&visitors[0].done) && atomic_load(&visitors[1].done));
}
