// SPDX-License-Identifier: Apache-2.0
#include "pools/pool_lock.h"

#include "pools/janitor.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pools[3];
static tn_cu_stream stream;

static void make_pools(void)
{
    device = unit_device();
    for (size_t i = 0; i < 3; i++)
        pools[i] = unit_pool(device);
    stream = test_stream();
}

static void expect(uint64_t ready_count, uint64_t parked_count)
{
    ck_assert_uint_eq(tn_ending_count(device, TN_ENDING_READY), ready_count);
    ck_assert_uint_eq(tn_ending_count(device, TN_ENDING_PARKED), parked_count);
}

GROUP(released, make_pools)

TEST(released, a_pool_without_claims_is_ready_once_released)
{
    expect(0, 0);
    for (size_t i = 0; i < 3; i++)
        unit_release(pools[i]);
    expect(3, 0);
    unit_release(pools[0]); /* it stays where it is */
    expect(3, 0);
    tn_device_end_released(device);
    expect(0, 0);
    ck_assert_ptr_eq(device->pools, device->default_pool);
}

TEST(released, a_claimed_pool_is_ready_when_the_claim_ends)
{
    tn_pool_lock(pools[1]);
    pools[1]->claims.route_count = 1;
    tn_pool_unlock(pools[1]);
    unit_release(pools[1]);
    expect(0, 0);
    tn_device_end_released(device);
    ck_assert_uint_ne(atomic_load(&pools[1]->magic), 0);
    OK(tarn_pool_validate(device->default_pool)); /* P34 */
    tn_pool_lock(pools[1]);
    pools[1]->claims.route_count = 0;
    tn_pool_unlock(pools[1]);
    expect(1, 0);
    tn_device_end_released(device);
    ck_assert_uint_eq(atomic_load(&pools[1]->magic), 0);
}

/* A thread that drops its pin before it sees the release looks at the pool again. */
TEST(released, an_unpin_beside_a_release_ends_the_pool)
{
    tn_pool_pin(pools[2]);
    unit_release(pools[2]);
    expect(1, 0);                                 /* the unpin need not put it there */
    OK(tarn_pool_validate(device->default_pool)); /* P34 */
    tn_pool_unpin(pools[2]);
    ck_assert_uint_eq(atomic_load(&pools[2]->magic), 0);
}

TEST(released, a_pool_claimed_again_is_passed_by)
{
    unit_release(pools[0]);
    expect(1, 0);
    tn_pool_pin(pools[0]); /* a call comes in */
    tn_device_end_released(device);
    expect(1, 0);
    tn_pool_lock(pools[0]);
    pools[0]->claims.route_count = 1; /* and claims the pool */
    tn_pool_unlock(pools[0]);
    tn_pool_unpin(pools[0]);
    tn_device_end_released(device);
    expect(0, 0);
    ck_assert_uint_ne(atomic_load(&pools[0]->magic), 0);
    tn_pool_lock(pools[0]);
    pools[0]->claims.route_count = 0;
    tn_pool_unlock(pools[0]);
    tn_device_end_released(device);
    ck_assert_uint_eq(atomic_load(&pools[0]->magic), 0);
}

TEST(released, places_are_left_from_anywhere)
{
    for (size_t i = 0; i < 3; i++) {
        tn_pool_pin(pools[i]); /* else they would end */
        tn_ending_put(pools[i], TN_ENDING_READY);
    }
    tn_ending_put(pools[1], TN_ENDING_PARKED);
    tn_ending_put(pools[0], TN_ENDING_PARKED);
    expect(1, 2);
    tn_lock_acquire(&device->lock);
    tn_ending_unpark(device);
    ck_assert_ptr_eq(tn_ending_next(device), pools[2]);
    ck_assert_ptr_eq(tn_ending_next(device), pools[1]);
    ck_assert_ptr_eq(tn_ending_next(device), pools[0]);
    ck_assert_ptr_eq(tn_ending_next(device), pools[2]);
    tn_lock_release(&device->lock);
    for (size_t i = 0; i < 3; i++)
        tn_ending_put(pools[i], TN_ENDING_NOT);
    expect(0, 0);
    for (size_t i = 0; i < 3; i++)
        tn_pool_unpin(pools[i]);
}

TEST(released, a_pool_that_nobody_would_end_is_found)
{
    unit_release(pools[0]);
    tn_ending_put(pools[0], TN_ENDING_NOT);
    tn_lock_acquire(&pools[0]->lock);
    tn_pool_stop_others(pools[0], NULL);
    STATUS(TARN_ERR_CORRUPT, tn_pool_check(pools[0]));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "P34"));
    tn_pool_resume_others(pools[0], NULL);
    tn_lock_release(&pools[0]->lock);
    unit_release(pools[0]);
    tn_device_end_released(device);
}
