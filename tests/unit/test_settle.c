// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/settle.h"
#include "unit/one_pool.h"

/* A block of the stream that was freed behind another one's work, which is not done. */
static struct tn_block *make_pending(tn_cu_stream home, tn_cu_stream user)
{
    void *address = unit_alloc(pool, 4096, home);
    struct tn_block *block = unit_block(address);

    test_spin(user, 20);
    OK(tarn_free_on(address, user));
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    return block;
}

static struct tn_settlement settle_on(tn_cu_stream on, bool all)
{
    struct tn_settlement settlement = {.pool = pool,
                                       .stream = on,
                                       .order = unit_order(device, on),
                                       .by_events = true,
                                       .all = all,
                                       .walk_id = 7};

    tn_pool_lock(pool);
    tn_settle_plan(&settlement);
    ck_assert(tn_blocks_reserve(&pool->store, 2 * settlement.count));
    OK(tn_settle_prepare(&settlement));
    tn_settle_commit(&settlement);
    tn_pool_unlock(pool);
    OK(tarn_pool_validate(pool));
    return settlement;
}

SUITE("settling")
GROUP(settling, make_pool)

/* C8 */
TEST(settling, a_restore_frees_what_is_pending_behind_events)
{
    uint64_t waits = sim.call_count("cuStreamWaitEvent");
    struct tn_settlement settlement;

    (void)make_pending(stream, other);
    (void)make_pending(other, stream);
    settlement = settle_on(stream, true);
    ck_assert(!settlement.needs_wait);
    ck_assert_uint_eq(settlement.count, 2);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_uint_gt(sim.call_count("cuStreamWaitEvent"), waits);
}

/* C8: the other stream does not come behind the take's. */
TEST(settling, a_take_leaves_what_is_another_streams_alone)
{
    struct tn_block *block = make_pending(other, stream);
    struct tn_settlement settlement = settle_on(stream, false);

    ck_assert_uint_eq(settlement.count, 0);
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    (void)make_pending(stream, other);
    ck_assert_uint_eq(settle_on(stream, false).count, 1);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 1);
}

TEST(settling, a_restore_that_may_use_no_event_waits_and_a_take_does_not)
{
    struct tn_settlement settlement = {
        .pool = pool, .stream = stream, .order = unit_order(device, stream), .walk_id = 7};

    (void)make_pending(stream, other);
    for (int all = 0; all < 2; all++) {
        settlement.all = all;
        tn_pool_lock(pool);
        tn_settle_plan(&settlement);
        tn_pool_unlock(pool);
        ck_assert_uint_eq(settlement.count, 0);
        ck_assert_int_eq(settlement.needs_wait, all);
    }
}

TEST(settling, a_stream_that_the_driver_does_not_put_behind_a_use_settles_nothing)
{
    struct tn_settlement settlement = {.pool = pool,
                                       .stream = stream,
                                       .order = unit_order(device, stream),
                                       .by_events = true,
                                       .all = true,
                                       .walk_id = 7};

    (void)make_pending(stream, other);
    tn_pool_lock(pool);
    tn_settle_plan(&settlement);
    sim.plan_fault("cuStreamWaitEvent", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_settle_prepare(&settlement));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    tn_pool_unlock(pool);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 1);
}

TEST(settling, a_walk_id_is_on_no_block_when_it_is_given_again)
{
    void *kept = unit_alloc(pool, 4096, stream);
    struct tn_block *block = unit_block(kept);
    uint8_t first;

    tn_pool_lock(pool);
    first = tn_next_walk_id(pool);
    ck_assert_uint_ne(first, 0);
    ck_assert_uint_gt(tn_next_walk_id(pool), first);
    block->walk_id = first;
    block->next->walk_id = UINT8_MAX;
    while (tn_next_walk_id(pool) != UINT8_MAX)
        ck_assert_uint_eq(block->walk_id, first);
    ck_assert_uint_eq(tn_next_walk_id(pool), first); /* round */
    ck_assert_uint_eq(block->walk_id, 0);
    ck_assert_uint_eq(block->next->walk_id, 0);
    tn_pool_unlock(pool);
}

/* A restore has two walks, and the second one's id must not come round over the first one's. */
TEST_LOOP(settling, a_restore_frees_what_is_pending_wherever_its_walk_ids_are, 0, 4)
{
    tarn_checkpoint *checkpoint = NULL;
    void *block;

    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    block = unit_alloc(pool, 4096, stream);
    test_spin(other, 200);
    OK(tarn_free_on(block, other));
    ck_assert_uint_eq(unit_stats(pool).pending_count, 1);
    pool->copies.last_walk_id = (uint8_t)(UINT8_MAX - _i);
    OK(tarn_checkpoint_restore(checkpoint, stream, NULL));
    ck_assert_uint_eq(unit_stats(pool).pending_count, 0);
    OK(tarn_checkpoint_destroy(checkpoint));
}

CONTRACT_TEST(settling, settling_a_pool_that_another_thread_may_change_is_a_broken_contract)
{
    struct tn_settlement settlement = {.pool = pool, .walk_id = 7};

    tn_settle_plan(&settlement);
}
