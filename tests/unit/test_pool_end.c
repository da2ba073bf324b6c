// SPDX-License-Identifier: Apache-2.0
/* What keeps a pool, and how it ends. */
#include "pools/end.h"

#include "pools/await.h"
#include "pools/pool_lock.h"
#include "unit/one_pool.h"

GROUP(end, make_pool)

TEST(end, each_claim_keeps_the_pool)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;
    tarn_graph *graph;
    tarn_capture *capture;
    tarn_route *route;

    STATUS(TARN_ERR_BUSY, tn_pool_destroy(pool));
    unit_expect_sentence("1 live block");
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    OK(tarn_free(address));
    STATUS(TARN_ERR_BUSY, tn_pool_destroy(pool));
    unit_expect_sentence("1 checkpoint");
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_begin_allocate_to_pool(device, pool, tarn_filter_thread, NULL, &route));
    STATUS(TARN_ERR_BUSY, tn_pool_destroy(pool));
    unit_expect_sentence("1 route");
    OK(tarn_end_allocate_to_pool(route));
    capture = unit_begin(pool, stream);
    STATUS(TARN_ERR_BUSY, tn_pool_destroy(pool));
    unit_expect_sentence("1 capture");
    graph = unit_end(capture);
    STATUS(TARN_ERR_BUSY, tn_pool_destroy(pool));
    unit_expect_sentence("1 graph");
    tn_pool_lock(pool);
    ck_assert(!tn_pool_is_only_held(pool));
    tn_pool_unlock(pool);
    OK(tarn_graph_destroy(graph));
    tn_await_holds(device, pool, TN_AWAIT_LAST); /* for the driver to drop the graph's hold */
    OK(tn_pool_destroy(pool));
    ck_assert_uint_eq(pool->magic, 0);
    ck_assert_ptr_eq(device->pools, device->default_pool);
}

TEST(end, destroying_waits_for_the_device_where_memory_may_be_in_use)
{
    tarn_pool *fresh = unit_pool(device);

    OK(tarn_pool_destroy(fresh));
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), 0);
    OK(tarn_free(unit_alloc(pool, 4096, stream)));
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_pool_destroy(pool));
    ck_assert_uint_eq(pool->magic, TN_POOL_MAGIC);
    OK(tarn_pool_validate(pool));
    OK(tn_pool_destroy(pool));
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), 2);
}

TEST(end, discarded_blocks_go_with_the_pool)
{
    tarn_sim_ledger before = test_ledger();
    tarn_capture *capture = unit_begin(pool, stream);
    void *inside = unit_alloc(pool, 4096, stream);

    OK(tarn_capture_abort(capture));
    OK(tn_pool_destroy(pool));
    STATUS(TARN_ERR_NOT_OURS, tarn_free(inside));
    unit_trim(device);
    test_same_ledger(&before);
}

/* A thread was past the check of the handle when another one released the pool. */
TEST(end, a_pool_that_is_being_ended_is_destroyed_by_nobody_else)
{
    unit_release(pool);
    tn_lock_acquire(&device->lock);
    tn_ending_put(pool, TN_ENDING_NOW);
    tn_lock_release(&device->lock);
    STATUS(TARN_ERR_INVALID_HANDLE, tn_pool_destroy(pool));
    ck_assert_ptr_eq(device->pools, pool);
    OK(tn_pool_end_now(pool));
    ck_assert_ptr_eq(device->pools, device->default_pool);
}
