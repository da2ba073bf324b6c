// SPDX-License-Identifier: Apache-2.0
/* The rows of docs/lifetimes.md for blocks that were freed outside captures: pending, since a stream
 * may use them still, or remembered by a checkpoint alone. */
#include "support/world.h"

enum { BYTES = 4 << 20, WORDS = 1024 };

static void *block; /* that the row is about; in the world's pool */
static tarn_capture *capture;
static tarn_checkpoint *checkpoint;

static bool is_pending(void)
{
    return test_state_of(world.pool, block) == TARN_EXTENT_PENDING;
}

static bool is_given(tn_cu_stream stream)
{
    return test_is_given(block, BYTES, stream);
}

/* Pending: freed with a use recorded on the side stream, whose work has not begun. */

static void pending(void)
{
    test_world_open();
    block = test_alloc(world.pool, BYTES, world.stream);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    sim.hold_work();
    test_fill(world.side, block, 8, WORDS);
    OK(tarn_free_on(block, world.side));
    ck_assert(is_pending());
}

static void finish(void)
{
    sim.resume_work();
    test_synchronize(world.side);
}

static void end_all(void)
{
    sim.resume_work();
    if (checkpoint != NULL)
        OK(tarn_checkpoint_destroy(checkpoint));
    test_world_close();
}

SUITE("lifetimes of freed blocks")
GROUP(pending, pending, end_all, .name = "pending on a stream")

TEST(pending, a_pending_block_is_given_to_nobody_before_its_stream_is_done)
{
    ck_assert(!is_given(world.stream));
    ck_assert(!is_given(world.side));
    ck_assert(is_pending());
    finish();
    ck_assert(is_given(world.stream));
}

TEST(pending, a_pending_block_is_not_freed_twice)
{
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free_on(block, world.stream));
    ck_assert(is_pending());
}

TEST(pending, a_pending_block_is_not_freed_after_its_stream_is_done_either)
{
    finish();
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    ck_assert(is_given(world.stream));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
}

TEST(pending, a_pending_block_has_no_further_use_to_record)
{
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_record_stream(block, world.stream));
    ck_assert(is_pending());
    ck_assert(!is_given(world.stream));
    ck_assert(is_pending());
    finish();
    ck_assert(is_given(world.stream));
}

TEST(pending, a_pending_block_is_waited_for_by_a_trim)
{
    size_t freed = 0;

    finish();
    block = test_alloc(world.pool, 2 * BYTES, world.stream);
    test_spin(world.side, 20);
    test_fill(world.side, block, 9, WORDS); /* faults where no memory is */
    OK(tarn_free_on(block, world.side));
    ck_assert(is_pending());
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_ge(freed, 2 * BYTES);
    ck_assert_int_eq(test_stream_result(world.side), TN_CUDA_SUCCESS);
}

TEST(pending, a_pending_block_stays_pending_through_an_abort)
{
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    ck_assert(!is_given(world.stream));
    ck_assert(is_pending());
    finish();
    ck_assert(is_given(world.stream));
}

TEST(pending, a_pending_block_stays_pending_when_a_graph_is_destroyed)
{
    tarn_graph *graph;

    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    OK(tarn_free(test_malloc(BYTES)));
    graph = test_capture_end(capture);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    ck_assert(!is_given(world.stream));
    ck_assert(is_pending());
    finish();
    ck_assert(is_given(world.stream));
}

TEST(pending, a_pending_block_of_a_retired_stream_is_anyones_after_its_uses)
{
    OK(tarn_stream_retire(world.device, world.stream));
    ck_assert(is_pending());
    ck_assert(!is_given(world.side));
    ck_assert(is_pending());
    finish();
    test_synchronize(world.stream);
    ck_assert(is_given(world.side));
}

TEST(pending, a_pending_block_of_the_checkpoint_is_revived_behind_its_use)
{
    tarn_delta *delta = NULL;

    test_hold_until_waited(); /* so the use is not over before the restore waits for it */
    sim.resume_work();        /* the fixture's hold */
    OK(tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_uint_eq(test_device_stats().idle_waits, 1);
    ck_assert_uint_eq(delta->revived_count, 1);
    ck_assert_ptr_eq(delta->revived[0].block.address, block);
    tarn_delta_destroy(delta);
    test_fill(world.stream, block, 3, WORDS);
    test_synchronize(world.side);
    test_expect_words(world.stream, block, 3, WORDS);
    OK(tarn_free(block));
}

TEST(pending, a_pending_block_that_the_checkpoint_has_not_is_free_behind_its_use)
{
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL)); /* without a wait */
    ck_assert(!is_pending());
    ck_assert(!is_given(world.side));
    ck_assert(is_given(world.stream));
    finish();
}

TEST(pending, a_pending_block_lets_its_released_pool_go_when_it_is_done)
{
    OK(tarn_checkpoint_destroy(checkpoint));
    checkpoint = NULL;
    sim.resume_work();
    test_spin(world.side, 20);
    OK(tarn_pool_release(world.pool)); /* does not wait */
    ck_assert_uint_eq(test_device_stats().idle_waits, 0);
    world.pool = test_pool("next");
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
    ck_assert_int_eq(test_stream_result(world.side), TN_CUDA_SUCCESS);
    REFUSE(TARN_ERR_NOT_OURS, "not handed out", tarn_free(block));
}

TEST(pending, a_pending_block_is_waited_for_when_the_device_closes)
{
    void *own = test_malloc(BYTES); /* of the default pool, which goes with the device */

    finish();
    test_spin(world.side, 20);
    test_fill(world.side, own, 9, WORDS);
    OK(tarn_free_on(own, world.side));
    OK(tarn_checkpoint_destroy(checkpoint));
    checkpoint = NULL;
    OK(tarn_pool_destroy(world.pool));
    OK(tarn_device_close(world.device));
    world.device = NULL;
    world.pool = NULL;
    ck_assert_int_eq(test_stream_result(world.side), TN_CUDA_SUCCESS);
    test_same_ledger(&world.ledger);
}

/* In a checkpoint only: freed since, and its bytes kept by the checkpoint. */

static void checkpointed(void)
{
    test_world_open();
    block = test_alloc(world.pool, BYTES, world.stream);
    test_fill(world.stream, block, 7, WORDS);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    OK(tarn_free(block));
}

/* Restores; the block is live again with its bytes, and then freed. */
static void expect_restored(size_t freed)
{
    tarn_delta *delta = NULL;

    OK(tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_uint_eq(delta->freed_count, freed);
    ck_assert_uint_eq(delta->revived_count, 1);
    ck_assert_ptr_eq(delta->revived[0].block.address, block);
    ck_assert(!delta->revived[0].undefined);
    tarn_delta_destroy(delta);
    OK(tarn_pool_validate(world.pool));
    test_expect_words(world.stream, block, 7, WORDS);
    OK(tarn_free(block));
}

GROUP(saved, checkpointed, end_all, .name = "in a checkpoint only")

TEST(saved, memory_of_a_block_in_a_checkpoint_only_is_given_to_others)
{
    void *other = test_alloc(world.pool, BYTES / 2, world.stream);

    ck_assert_ptr_eq(other, block);
    test_fill(world.stream, other, 1, WORDS);
    expect_restored(1); /* which takes it back */
    OK(tarn_free(test_alloc(world.pool, BYTES, world.stream)));
    expect_restored(0);
}

TEST(saved, a_block_in_a_checkpoint_only_is_not_freed)
{
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free_on(block, world.side));
    expect_restored(0);
}

TEST(saved, a_block_in_a_checkpoint_only_is_freed_once_after_each_restore)
{
    for (int round = 0; round < 3; round++) {
        expect_restored(0);
        REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    }
}

TEST(saved, a_block_in_a_checkpoint_only_has_no_use_to_record)
{
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_record_stream(block, world.side));
    expect_restored(0);
}

TEST(saved, a_block_in_a_checkpoint_only_loses_its_memory_to_a_trim_and_keeps_its_address)
{
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    REFUSE(TARN_ERR_DOUBLE_FREE, "has no memory", tarn_free(block));
    expect_restored(0);
}

TEST(saved, a_block_in_a_checkpoint_only_is_restored_after_an_abort)
{
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    OK(tarn_free(test_malloc(BYTES)));
    test_fill(world.stream, test_malloc(BYTES), 1, WORDS);
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    expect_restored(0);
}

TEST(saved, a_block_in_a_checkpoint_only_is_restored_after_a_graph_is_destroyed)
{
    tarn_graph *graph;

    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    OK(tarn_free(test_malloc(BYTES)));
    graph = test_capture_end(capture);
    expect_restored(0);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    OK(tarn_pool_trim(world.pool, NULL));
    expect_restored(0);
}

TEST(saved, a_block_in_a_checkpoint_only_is_restored_after_its_stream_is_retired)
{
    OK(tarn_stream_retire(world.device, world.stream));
    test_synchronize(world.stream);
    ck_assert(is_given(world.side));
    expect_restored(0);
    expect_restored(0);
}

TEST(saved, a_block_in_a_checkpoint_only_is_live_again_after_a_restore)
{
    expect_restored(0);
    expect_restored(0);
}

TEST(saved, a_block_in_a_checkpoint_only_keeps_its_released_pool)
{
    tarn_delta *delta = NULL;

    OK(tarn_pool_release(world.pool));
    world.pool = test_pool("next");
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_uint_eq(delta->revived_count, 1);
    tarn_delta_destroy(delta);
    test_expect_words(world.stream, block, 7, WORDS);
    OK(tarn_free(block));
    OK(tarn_checkpoint_destroy(checkpoint));
    checkpoint = NULL;
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

TEST(saved, a_block_in_a_checkpoint_only_keeps_its_device_open)
{
    OK(tarn_pool_release(world.pool));
    world.pool = NULL;
    REFUSE(TARN_ERR_BUSY, "1 private pool", tarn_device_close(world.device));
    OK(tarn_checkpoint_destroy(checkpoint));
    checkpoint = NULL;
    world.pool = test_pool("next");
}
