// SPDX-License-Identifier: Apache-2.0
#include "pools/sweep.h"

#include "claims/body.h"
#include "pools/captures.h"
#include "support/world.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pools[2];
static tn_cu_stream stream;

static void make_pools(void)
{
    device = unit_device();
    for (size_t i = 0; i < 2; i++)
        pools[i] = unit_pool(device);
    stream = test_stream();
}

/* A hold of the capture in each pool. */
static void open_holds(uint64_t capture_id)
{
    for (size_t i = 0; i < 2; i++) {
        struct tn_hold *hold;

        tn_pool_lock(pools[i]);
        OK(tn_hold_open(pools[i], (struct tn_order){17, capture_id}, false, &hold));
        tn_pool_unlock(pools[i]);
    }
}

GROUP(sweep, make_pools)

TEST(sweep, a_capture_is_closed_in_all_pools)
{
    open_holds(4);
    tn_device_close_capture(device, 5, NULL, TN_NODES_UNKNOWN);
    for (size_t i = 0; i < 2; i++)
        ck_assert_uint_eq(pools[i]->holds.open_count, 1);
    tn_device_close_capture(device, 4, NULL, TN_NODES_UNKNOWN);
    for (size_t i = 0; i < 2; i++)
        ck_assert_uint_eq(pools[i]->holds.open_count, 0);
}

/* Numbers that arenas of other pools had set aside are below the end. */
TEST(sweep, blocks_of_all_pools_are_behind_a_captures_end)
{
    const struct tn_hold *hold;
    struct tn_hold *opened;

    (void)unit_alloc(pools[1], 4096, stream);
    (void)unit_alloc(pools[1], 4096, stream);
    tn_pool_lock(pools[0]);
    OK(tn_hold_open(pools[0], (struct tn_order){17, 4}, false, &opened));
    tn_pool_unlock(pools[0]);
    hold = opened;
    (void)unit_alloc(pools[1], 4096, stream);
    tn_device_close_capture(device, 4, NULL, TN_NODES_UNKNOWN);
    ck_assert(!hold->open);
    ck_assert_uint_ge(unit_block(unit_alloc(pools[1], 4096, stream))->sequence, hold->end_mark);
}

/* Of its two blocks the capture's births have one alone. */
TEST_LOOP(sweep, an_abort_finds_blocks_whose_births_are_lost, 0, 2)
{
    struct tn_block *blocks[2];
    struct tn_hold *hold;
    tarn_capture *capture;

    OK(tarn_capture_begin(pools[0], stream, NULL, &capture));
    for (size_t i = 0; i < 2; i++)
        blocks[i] = unit_block(unit_alloc(pools[0], 4096 << i, stream));
    tn_pool_lock(pools[0]);
    hold = pools[0]->holds.open;
    ck_assert_uint_eq(hold->births->count, 2);
    hold->births->count = 1;
    hold->births_lost = _i == 0;
    tn_pool_unlock(pools[0]);
    OK(tarn_capture_abort(capture));
    ck_assert_int_eq(blocks[0]->state, TN_BLOCK_DISCARDED);
    ck_assert_int_eq(blocks[1]->state, _i == 0 ? TN_BLOCK_DISCARDED : TN_BLOCK_LIVE);
}

/* Its block there has no hold any more, and is discarded all the same. */
TEST(sweep, a_pool_whose_hold_left_early_discards_too)
{
    uint64_t early_count = tn_device_count_early(device);
    struct tn_block *block = unit_block(unit_alloc(pools[0], 4096, stream));
    struct tn_hold *hold;

    for (uint64_t capture_id = 4; capture_id <= 5; capture_id++) {
        tn_pool_lock(pools[0]);
        OK(tn_hold_open(pools[0], (struct tn_order){17, capture_id}, false, &hold));
        ck_assert(tn_block_add_cold(block));
        tn_block_set_order(block, (struct tn_order){17, 5});
        if (capture_id == 5)
            tn_hold_drop(hold);
        tn_pool_unlock(pools[0]);
    }
    ck_assert_uint_gt(tn_device_count_early(device), early_count);
    tn_device_discard_capture(device, 5, early_count);
    ck_assert_int_eq(block->state, TN_BLOCK_DISCARDED);
    ck_assert_uint_eq(pools[0]->holds.open_count, 1);
    tn_device_discard_capture(device, 4, early_count);
    ck_assert_uint_eq(pools[0]->holds.open_count, 0);
    early_count = tn_device_count_early(device);
    tn_pool_lock(pools[0]);
    tn_hold_drop(pools[0]->holds.first);
    tn_pool_unlock(pools[0]);
    ck_assert_uint_eq(tn_device_count_early(device), early_count);
}

TEST(sweep, blocks_are_behind_a_mark_or_before_it)
{
    const struct tn_block *before = unit_block(unit_alloc(pools[0], 4096, stream));
    uint64_t mark = tn_device_mark(device);
    const struct tn_block *behind = unit_block(unit_alloc(pools[0], 4096, stream));

    ck_assert_uint_lt(before->sequence, mark);
    ck_assert_uint_ge(behind->sequence, mark);
}

TEST(sweep, a_body_is_found_in_any_pool)
{
    const struct tn_body body = {.capture_id = 11, .outer_id = 10, .group = 1};

    open_holds(10);
    open_holds(11);
    ck_assert(!tn_device_has_body(device, 11));
    tn_pool_lock(pools[0]);
    OK(tn_body_open(pools[0], &body));
    tn_pool_unlock(pools[0]);
    ck_assert(tn_device_has_body(device, 11));
    ck_assert(!tn_device_has_body(device, 10));
    tn_pool_lock(pools[0]);
    tn_body_drop(&pools[0]->bodies, 11);
    tn_pool_unlock(pools[0]);
    ck_assert(!tn_device_has_body(device, 11));
}

/* P36 */
TEST(sweep, the_end_of_captures_is_seen_in_pools_with_open_holds)
{
    tarn_route *route;
    void *block;

    OK(tarn_begin_allocate_to_pool(device, pools[1], tarn_filter_stream, stream, &route));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(device, 4096, stream, &block));
    OK(tarn_free(block));
    ck_assert_uint_eq(pools[1]->holds.open_count, 1);
    tn_device_close_over(device);
    ck_assert_uint_eq(pools[1]->holds.open_count, 1);
    (void)test_end_capture(stream);
    tn_device_close_over(device);
    ck_assert_uint_eq(pools[1]->holds.open_count, 0);
    OK(tarn_end_allocate_to_pool(route));
}

/* A pool with no arena of the stream may have a block of it in other memory. */
TEST(sweep, a_retirement_visits_the_pools_with_blocks_of_its_stream)
{
    tn_cu_stream other = test_stream();
    struct tn_order order = unit_order(device, other);
    struct tn_block *stray = unit_block(unit_alloc(pools[0], 4096, stream));
    const struct tn_arena *arena;
    uint32_t locks;

    (void)unit_alloc(pools[1], 4096, stream);
    (void)unit_alloc(device->default_pool, 4096, other);
    tn_pool_lock(pools[0]);
    ck_assert(tn_block_add_cold(stray));
    tn_block_set_order(stray, order);
    tn_pool_unlock(pools[0]);
    ck_assert(pools[0]->places.listed[TN_POOLS_STRAYS]);
    ck_assert(!pools[1]->places.listed[TN_POOLS_STRAYS]);
    arena = pools[1]->arenas.lists.first[TN_ARENAS_AWAKE];
    locks = arena->unused_locks;
    OK(tn_device_retire_stream(device, other, order.stream_id));
    ck_assert_uint_eq(arena->unused_locks, locks);
    ck_assert_ptr_nonnull(tn_block_fence(stray));
    ck_assert_uint_eq(pools[0]->arenas.retired_count, 0);
    ck_assert_uint_eq(device->default_pool->arenas.retired_count, 1);
    OK(tarn_pool_validate(pools[0]));
}

TEST(sweep, a_stream_is_retired_in_all_pools_or_in_none)
{
    uint64_t id = unit_order(device, stream).stream_id;
    uint64_t failed = 1;

    for (size_t i = 0; i < 2; i++)
        (void)unit_alloc(pools[i], 4096, stream);
    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tn_device_retire_stream(device, stream, id);
        failed = tn_host_plan_fault(0, false);
        ck_assert_int_eq(status, failed > 0 ? TARN_ERR_HOST_MEMORY : TARN_OK);
        for (size_t i = 0; i < 2; i++)
            ck_assert_uint_eq(pools[i]->arenas.retired_count, failed > 0 ? 0 : 1);
    }
}

TEST(sweep, pending_blocks_of_all_pools_are_asked_after)
{
    tn_cu_stream other = test_stream();

    sim.hold_work();
    for (size_t i = 0; i < 2; i++) {
        void *address = unit_alloc(pools[i], 4096, stream);

        test_set_words(other, address, 1, 1);
        OK(tarn_record_stream(address, other));
        OK(tarn_free(address));
        ck_assert_uint_eq(tn_pool_pending_count(pools[i]), 1);
    }
    tn_device_collect(device);
    for (size_t i = 0; i < 2; i++)
        ck_assert_uint_eq(pools[i]->pending.ended_bytes, 0);
    sim.resume_work();
    ck_assert_int_eq(test_stream_result(other), TN_CUDA_SUCCESS);
    tn_device_collect(device);
    for (size_t i = 0; i < 2; i++)
        ck_assert_uint_eq(tn_pool_pending_count(pools[i]), 0);
}
