// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "pools/opening.h"
#include "share/symmetric.h"
#include "support/world.h"
#include "unit/unit.h"

#define MIB ((size_t)1 << 20)

static tarn_group *group;
static tarn_symmetric *pool;

static void open_all(void)
{
    tarn_group_options options = TARN_GROUP_OPTIONS_INIT;

    test_world_open();
    options.name = "alone";
    options.world = 1;
    OK(tarn_group_create(world.device, &options, &group));
    OK(tarn_symmetric_create(group, 8 * MIB, &pool));
    OK(tarn_symmetric_reserve(pool, 4 * MIB, 0));
}

static void close_all(void)
{
    OK(tarn_symmetric_destroy(pool));
    OK(tarn_group_destroy(group));
    test_world_close();
}

static tarn_status check(void)
{
    tarn_status status;

    tn_lock_acquire(&pool->lock);
    status = tn_symmetric_check(pool);
    tn_lock_release(&pool->lock);
    return status;
}

SUITE("symmetric pools")
GROUP(pools, open_all, close_all)

TEST(pools, a_check_names_what_is_broken)
{
    void *block = NULL;

    OK(tarn_symmetric_malloc(pool, 5000, 0, &block));
    OK(check());
    pool->live_bytes++;
    STATUS(TARN_ERR_CORRUPT, check()); /* M1 */
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "M1"));
    pool->live_bytes--;
    OK(tarn_symmetric_free(pool, block, world.stream));
    OK(check());
    pool->freed_bytes++;
    STATUS(TARN_ERR_CORRUPT, check());
    pool->freed_bytes--;
    test_synchronize(world.stream);
    OK(tarn_symmetric_collect(pool, 0));
    OK(check());
    ck_assert_uint_eq(pool->freed_bytes, 0);
}

/* A refused allocation of the host, or call of the driver, changes nothing. */
TEST(pools, a_refusal_changes_nothing)
{
    void *blocks[100] = {NULL};
    uint64_t refused = 0;

    for (int i = 0; i < 100; i++) {
        tarn_status status;

        (void)tn_host_plan_fault(1, false);
        status = tarn_symmetric_malloc(pool, 5000, (uint64_t)(i % 2 * (i + 1)), &blocks[i]);
        refused += tn_host_plan_fault(0, false);
        if (status != TARN_OK) {
            ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
            ck_assert_ptr_null(blocks[i]);
            OK(check());
            OK(tarn_symmetric_malloc(pool, 5000, (uint64_t)(i % 2 * (i + 1)), &blocks[i]));
        }
    }
    for (int i = 0; i < 100; i++) {
        tarn_status status;

        (void)tn_host_plan_fault(1, false);
        status = tarn_symmetric_free(pool, blocks[i], world.stream);
        refused += tn_host_plan_fault(0, false);
        if (status != TARN_OK) {
            ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
            OK(check());
            OK(tarn_symmetric_free(pool, blocks[i], world.stream));
        }
    }
    ck_assert_uint_ge(refused, 4);
    OK(check());
}

TEST(pools, a_growth_that_is_refused_leaves_the_pool_as_before)
{
    uint64_t charged = atomic_load(&world.device->budget.charged_bytes);
    void *block = NULL;

    for (uint64_t nth = 1; nth < 40; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tarn_symmetric_reserve(pool, 8 * MIB, 0);
        if (tn_host_plan_fault(0, false) == 0)
            break;
        ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
        ck_assert_uint_eq(pool->chunk_count, 1);
        ck_assert_uint_eq(atomic_load(&world.device->budget.charged_bytes), charged);
        OK(check());
        STATUS(TARN_ERR_LIMIT, tarn_symmetric_malloc(pool, 5 * MIB, 0, &block));
    }
    OK(tarn_symmetric_reserve(pool, 8 * MIB, 0));
    ck_assert_uint_eq(atomic_load(&world.device->budget.charged_bytes), charged + 4 * MIB);
    OK(tarn_symmetric_malloc(pool, 5 * MIB, 0, &block));
}
