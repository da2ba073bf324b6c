// SPDX-License-Identifier: Apache-2.0
#include "pools/janitor.h"

#include "driver/idle.h"
#include "pools/opening.h"
#include "support/world.h"
#include "unit/unit.h"

static tarn_pool
    *pinned;      /* by another thread, while the pool is being ended, and until that has failed */
static int looks; /* at the device since then */

static void unpin(void *pool)
{
    tn_pool_unpin(pool);
}

void __real_tn_lock_acquire(struct tn_lock *lock);
void __wrap_tn_lock_acquire(struct tn_lock *lock);
void __wrap_tn_lock_acquire(struct tn_lock *lock)
{
    tarn_pool *pool = pinned;

    if (pool == NULL || lock != &pool->device->lock) {
        __real_tn_lock_acquire(lock);
        return;
    }
    looks += 1;
    if (looks == 3) {
        pinned = NULL;
        test_elsewhere(unpin, pool);
    }
    __real_tn_lock_acquire(lock);
    if (looks == 2)
        tn_pool_pin(pool);
}

/* Waits until the driver has destroyed the user object of the graph that went. */
static void await_gone(tarn_device *device)
{
    int64_t deadline = test_deadline();

    while (atomic_load(&device->gone_holds) == NULL && test_pause(deadline))
        continue;
    ck_assert_ptr_nonnull(atomic_load(&device->gone_holds));
}

GROUP(reap, NULL)

TEST(reap, a_released_pool_goes_with_its_last_hold)
{
    tarn_device *device = unit_device();
    tarn_pool *pool = unit_pool(device);
    tarn_graph *graph = unit_graph(pool, test_stream(), 4096, NULL);

    OK(tarn_pool_release(pool));
    ck_assert_ptr_eq(device->pools, pool);
    OK(tarn_graph_destroy(graph));
    unit_reap_all(pool);
    OK(tn_gpu_wait_idle(&device->gpu)); /* proves that its memory is idle */
    tn_device_reap(device);
    ck_assert_ptr_eq(device->pools, device->default_pool);
    OK(tn_device_close(device));
}

TEST(reap, a_reap_drops_what_is_gone_and_no_more)
{
    tarn_device *device = unit_device();
    tarn_pool *pool = unit_pool(device);
    tn_cu_stream stream = test_stream();
    tarn_graph *first = unit_graph(pool, stream, 4096, NULL);
    tarn_graph *second = unit_graph(pool, stream, 4096, NULL);

    tn_device_reap(device);
    ck_assert_uint_eq(pool->holds.count, 2);
    tn_graph_destroy(first); /* which reaps nothing itself */
    await_gone(device);
    tn_device_drop_gone(device);
    ck_assert_uint_eq(pool->holds.count, 1);
    ck_assert_ptr_null(atomic_load(&device->gone_holds));
    OK(tarn_graph_destroy(second));
    OK(tarn_pool_destroy(pool));
}

TEST(reap, a_released_pool_that_cannot_go_yet_is_tried_again)
{
    tarn_device *device = unit_device();
    tarn_pool *pool = unit_pool(device);

    uint64_t waits = atomic_load(&device->gpu.calls[TN_CALL_WAIT]);

    OK(tarn_free(unit_alloc(pool, 4096, test_stream()))); /* not proven idle */
    unit_release(pool);
    tn_device_end_released(device);
    ck_assert_uint_eq(device->unproven_count, 1); /* parked in this look, and counted once */
    tn_device_reap(device);
    ck_assert_ptr_eq(device->pools, pool);
    ck_assert_uint_eq(pool->ending, TN_ENDING_PARKED);
    ck_assert(tn_device_is_quiet(device)); /* no allocation minds it */
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]),
                      waits);           /* nobody waits to end it */
    OK(tn_gpu_wait_idle(&device->gpu)); /* proves that its memory is idle */
    ck_assert(!tn_device_is_quiet(device));
    tn_device_reap(device);
    ck_assert_ptr_eq(device->pools, device->default_pool);
    OK(tn_gpu_wait_idle(&device->gpu)); /* which nobody wants to know of any more */
    ck_assert(tn_device_is_quiet(device));
}

/* An allocation in a capture that found an empty adopted pool, and failed. */
/* A call with a stale handle pins the pool for a moment, and lets go without a look at it. */
TEST(reap, a_pool_that_a_call_pinned_while_it_was_released_goes)
{
    tarn_device *device = unit_device();
    tarn_pool *pool = unit_pool(device);

    tn_pool_pin(pool);
    unit_release(pool);
    ck_assert_uint_eq(pool->ending, TN_ENDING_READY);
    tn_device_end_released(device);
    ck_assert_ptr_eq(device->pools, pool);
    tn_pins_drop(&pool->pins);
    tn_device_end_released(device);
    ck_assert_ptr_eq(device->pools, device->default_pool);
}

TEST(reap, a_released_pool_goes_whose_claim_went_while_its_end_failed)
{
    tarn_device *device = unit_device();
    tarn_pool *pool = unit_pool(device);

    unit_release(pool);
    pinned = pool;
    tn_device_end_released(device);
    ck_assert_ptr_null(pinned);
    ck_assert_ptr_eq(device->pools, device->default_pool);
}
