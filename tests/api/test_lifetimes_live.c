// SPDX-License-Identifier: Apache-2.0
/* The rows of docs/lifetimes.md for blocks that are live: allocated outside captures, or in one. */
#include "support/world.h"

enum { BYTES = 4 << 20, WORDS = 1024 };

static void *block; /* that the row is about; in the world's pool */
static tarn_graph *graph;
static tarn_capture *capture;
static tarn_checkpoint *checkpoint;

static void take(void)
{
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
}

/* Restores and asserts what it freed and revived; then the checkpoint is not needed any more. */
static void restore(size_t freed, size_t revived)
{
    tarn_delta_destroy(test_restore(checkpoint, freed, revived));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_pool_validate(world.pool));
}

static void expect_live(void)
{
    tarn_block found;

    OK(tarn_block_at(block, &found));
    ck_assert_ptr_eq(found.address, block);
    ck_assert_uint_eq(found.bytes, BYTES);
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_LIVE);
}

/* Ten allocations of every kind, none of which lies in the block. */
static void expect_given_to_nobody(tn_cu_stream stream)
{
    void *others[10];

    for (size_t i = 0; i < 10; i++) {
        others[i] = test_alloc(world.pool, i % 2 == 0 ? BYTES : 512, stream);
        ck_assert((uintptr_t)others[i] + BYTES <= (uintptr_t)block ||
                  (uintptr_t)others[i] >= (uintptr_t)block + BYTES);
    }
    for (size_t i = 0; i < 10; i++)
        OK(tarn_free(others[i]));
}

/* Eager: allocated outside captures, and written. */

static void eager(void)
{
    test_world_open();
    block = test_alloc(world.pool, BYTES, world.stream);
    test_fill(world.stream, block, 7, WORDS);
    test_order(world.stream, world.side);
}

SUITE("lifetimes of live blocks")
GROUP(eager, eager, test_world_close, .name = "eager live")

TEST(eager, an_eager_live_block_is_given_to_nobody)
{
    expect_given_to_nobody(world.stream);
    expect_given_to_nobody(world.side);
    test_expect_words(world.stream, block, 7, WORDS);
    OK(tarn_free(block));
}

TEST(eager, an_eager_live_block_when_freed_is_its_own_streams_at_once)
{
    void *others[2];

    OK(tarn_free(block));
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_FREE);
    others[0] = test_alloc(world.pool, BYTES, world.side);
    ck_assert_ptr_ne(others[0], block);
    ck_assert_ptr_eq(test_alloc(world.pool, BYTES, world.stream), block);
    OK(tarn_free(block));
    OK(tarn_pool_set_limit(world.pool, 2 * BYTES)); /* no other memory is to be had */
    ck_assert_uint_eq(test_device_stats().idle_waits, 0);
    others[1] = test_alloc(world.pool, BYTES, world.side);
    ck_assert_int_ne(test_state_of(world.pool, block), TARN_EXTENT_FREE);
    ck_assert_uint_eq(test_device_stats().idle_waits, 1); /* which proved it idle */
    OK(tarn_free(others[0]));
    OK(tarn_free(others[1]));
}

TEST(eager, an_eager_live_block_is_freed_once)
{
    OK(tarn_free(block));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free_on(block, world.side));
}

TEST(eager, an_eager_live_block_recorded_on_a_stream_is_pending_after_its_free)
{
    sim.hold_work();
    test_fill(world.side, block, 8, WORDS);
    OK(tarn_record_stream(block, world.side));
    expect_live();
    OK(tarn_free(block));
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_PENDING);
    sim.resume_work();
    test_synchronize(world.side);
    ck_assert_ptr_eq(test_alloc(world.pool, BYTES, world.stream), block);
    OK(tarn_free(block));
}

TEST(eager, an_eager_live_block_stays_through_trims)
{
    OK(tarn_free(test_alloc(world.pool, 32 * MIB, world.stream)));
    OK(tarn_pool_trim(world.pool, NULL));
    expect_live();
    test_expect_words(world.stream, block, 7, WORDS);
    OK(tarn_free(block));
}

TEST(eager, an_eager_live_block_survives_the_abort_of_a_capture_that_used_it)
{
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    test_fill(world.stream, block, 8, WORDS);
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    expect_live();
    test_expect_words(world.stream, block, 7, WORDS);
    OK(tarn_free(block));
}

TEST(eager, an_eager_live_block_survives_a_graph_that_used_it)
{
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    test_add(world.stream, block, 1, WORDS);
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    expect_live();
    test_expect_words(world.stream, block, 8, WORDS);
    OK(tarn_free(block));
}

TEST(eager, an_eager_live_block_outlives_its_retired_stream)
{
    void *other;

    sim.hold_work();
    test_fill(world.stream, block, 8, WORDS);
    OK(tarn_stream_retire(world.device, world.stream));
    expect_live();
    OK(tarn_free(block));
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_PENDING);
    other = test_alloc(world.pool, BYTES, world.side);
    ck_assert_ptr_ne(other, block);
    sim.resume_work();
    test_expect_words(world.stream, block, 8, WORDS); /* waits */
    ck_assert_ptr_eq(test_alloc(world.pool, BYTES, world.side), block);
    OK(tarn_free(other));
    OK(tarn_free(block));
}

TEST(eager, an_eager_live_block_is_freed_by_a_restore_to_before_it_and_else_untouched)
{
    take();
    restore(0, 0);
    expect_live();
    OK(tarn_free(block));
    take();
    block = test_alloc(world.pool, BYTES, world.stream);
    restore(1, 0);
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
}

TEST(eager, an_eager_live_block_keeps_its_released_pool)
{
    OK(tarn_pool_release(world.pool));
    world.pool = test_pool("next");
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    test_expect_words(world.stream, block, 7, WORDS);
    OK(tarn_free(block));
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

TEST(eager, an_eager_live_block_keeps_its_device_open)
{
    REFUSE(TARN_ERR_BUSY, "1 private pool", tarn_device_close(world.device));
    expect_live();
    OK(tarn_free(block));
}

/* Captured: allocated in a capture that has become a graph, which writes it. Some rows begin while
 * the capture is open. */

static void open_capture(void)
{
    test_world_open();
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL); /* which a call that is not relaxed breaks */
    block = test_malloc(BYTES);
    test_fill(world.stream, block, 9, WORDS);
}

static void end_capture(void)
{
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, block, 9, WORDS);
}

static void destroy_graph(void)
{
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
}

GROUP(captured, open_capture, test_world_close, .name = "captured live")

TEST(captured, a_captured_live_block_is_given_to_nobody)
{
    expect_given_to_nobody(world.stream); /* in its own capture */
    expect_given_to_nobody(world.side);
    end_capture();
    expect_given_to_nobody(world.stream);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    expect_given_to_nobody(world.stream);
    OK(tarn_capture_abort(capture));
    test_expect_words(world.stream, block, 9, WORDS);
    destroy_graph();
    expect_given_to_nobody(world.stream);
    OK(tarn_free(block));
}

TEST(captured, a_captured_live_block_freed_after_its_capture_serves_later_captures_alone)
{
    end_capture();
    OK(tarn_free(block));
    expect_given_to_nobody(world.stream);
    expect_given_to_nobody(world.side);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    ck_assert_ptr_eq(test_malloc(BYTES), block);
    OK(tarn_free(block));
    OK(tarn_capture_abort(capture));
    destroy_graph();
}

TEST(captured, a_captured_live_block_is_freed_once)
{
    end_capture();
    OK(tarn_free(block));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    destroy_graph();
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
}

TEST(captured, a_captured_live_block_recorded_on_a_forked_stream_waits_for_it)
{
    void *next;

    test_order(world.stream, world.side);
    test_add(world.side, block, 1, WORDS);
    OK(tarn_record_stream(block, world.side));
    OK(tarn_free(block)); /* the streams run side by side here */
    next = test_malloc(BYTES);
    ck_assert_ptr_ne(next, block);
    test_fill(world.stream, next, 3, WORDS);
    test_order(world.side, world.stream);
    ck_assert_ptr_eq(test_malloc(BYTES), block); /* behind the use now */
    OK(tarn_free(block));
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, next, 3, WORDS);
    OK(tarn_free(next));
    destroy_graph();
}

TEST(captured, a_captured_live_block_recorded_on_an_unordered_stream_waits_for_the_end)
{
    test_order(world.stream, world.side);
    test_add(world.side, block, 1, WORDS);
    OK(tarn_free_on(block, world.side));
    expect_given_to_nobody(world.stream);
    test_order(world.side, world.stream);
    graph = test_capture_end(capture);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    ck_assert(test_is_given(block, BYTES, world.stream));
    OK(tarn_capture_abort(capture));
    destroy_graph();
}

/* Freed before the other capture's end, or after it. */
TEST_LOOP(captured, a_captured_live_block_recorded_in_another_capture_waits_for_both, 0, 2)
{
    void *output = test_alloc(world.pool, WORDS * 4, world.side);
    tarn_capture *other = test_capture_on(world.pool, world.side, TARN_CAPTURE_RELAXED);
    tarn_graph *reads = NULL;
    void *next;

    test_copy(world.side, output, block, WORDS * 4);
    OK(tarn_record_stream(block, world.side));
    if (_i == 0)
        OK(tarn_free(block));
    OK(tarn_capture_end(other, &reads));
    if (_i != 0)
        OK(tarn_free(block));
    next = test_malloc(BYTES); /* what is written here the copy would read */
    ck_assert_ptr_ne(next, block);
    test_fill(world.stream, next, 3, WORDS);
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_replay(reads, world.stream));
    test_expect_words(world.stream, output, 9, WORDS);
    OK(tarn_graph_destroy(reads));
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    ck_assert(test_is_given(block, BYTES, world.stream));
    OK(tarn_capture_abort(capture));
    OK(tarn_free(next));
    OK(tarn_free_on(output, world.stream));
    destroy_graph();
}

/* Enqueues with no work done: a replay, and a copy of the block, which takes long, on the same stream; then
 * the block's free. */
static void copy_and_free(void *copy, bool with_free_on)
{
    sim.hold_work();
    OK(tarn_graph_replay(graph, world.stream));
    test_spin(world.stream, 50);
    test_copy(world.stream, copy, block, WORDS * 4);
    if (with_free_on) {
        OK(tarn_free_on(block, world.stream));
        return;
    }
    OK(tarn_record_stream(block, world.stream));
    OK(tarn_free(block));
}

/* A graph, captured on the side stream, that writes two blocks. */
static tarn_graph *capture_two(void *blocks[2])
{
    capture = test_capture_on(world.pool, world.side, TARN_CAPTURE_RELAXED);
    for (int i = 0; i < 2; i++) {
        blocks[i] = test_alloc(world.pool, BYTES, world.side);
        test_fill(world.side, blocks[i], 2, WORDS);
    }
    return test_capture_end(capture);
}

/* Though the stream is that of its capture and of the replay. */
TEST_LOOP(captured, a_captured_live_block_read_after_a_replay_is_waited_for, 0, 2)
{
    void *copy = test_alloc(world.default_pool, BYTES, world.stream);
    tarn_graph *other;
    void *blocks[2];

    end_capture();
    other = capture_two(blocks);
    OK(tarn_graph_replay(other, world.side)); /* replays change streams: events from now on */
    OK(tarn_graph_replay(graph, world.stream));
    copy_and_free(copy, _i == 0);
    OK(tarn_graph_destroy(other));
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
    other = capture_two(blocks);
    OK(tarn_graph_replay(other, world.side)); /* beside the copy */
    sim.resume_work();
    test_synchronize(world.side);
    test_expect_words(world.stream, copy, 9, WORDS);
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
    OK(tarn_graph_destroy(other));
    destroy_graph();
    OK(tarn_free(copy));
}

TEST(captured, a_captured_live_block_stays_through_trims)
{
    test_trim_with_a_wait(world.pool); /* while the capture is open, too */
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    end_capture();
    OK(tarn_pool_trim(world.pool, NULL));
    expect_live();
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, block, 9, WORDS);
    OK(tarn_free(block));
    destroy_graph();
}

TEST(captured, a_captured_live_block_is_discarded_by_the_abort_of_its_capture)
{
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_DISCARDED);
    expect_given_to_nobody(world.stream);
    REFUSE(TARN_ERR_DOUBLE_FREE, "not live", tarn_record_stream(block, world.side));
    OK(tarn_free(block));
    ck_assert_int_ne(test_state_of(world.pool, block), TARN_EXTENT_DISCARDED);
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
}

TEST(captured, a_captured_live_block_outlives_its_graph)
{
    end_capture();
    destroy_graph();
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    expect_live();
    test_expect_words(world.stream, block, 9, WORDS);
    OK(tarn_free(block));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
}

TEST(captured, a_captured_live_block_is_its_captures_and_not_its_retired_streams)
{
    REFUSE(TARN_ERR_WRONG_STATE, "captured", tarn_stream_retire(world.device, world.stream));
    end_capture();
    OK(tarn_stream_retire(world.device, world.stream));
    expect_live();
    OK(tarn_graph_replay(graph, world.side));
    test_expect_words(world.side, block, 9, WORDS);
    OK(tarn_free(block));
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_FREE); /* for captures */
    expect_given_to_nobody(world.side);
    destroy_graph();
}

TEST(captured, a_captured_live_block_is_freed_by_a_restore_to_before_its_capture)
{
    OK(tarn_capture_abort(capture));
    OK(tarn_free(block));
    take();
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    block = test_malloc(BYTES);
    test_fill(world.stream, block, 9, WORDS);
    REFUSE(TARN_ERR_WRONG_STATE, "capture",
           tarn_checkpoint_restore(checkpoint, world.side, NULL)); /* not in its capture */
    end_capture();
    restore(1, 0);
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    OK(tarn_graph_replay(graph, world.stream)); /* its memory is the graph's still */
    test_expect_words(world.stream, block, 9, WORDS);
    destroy_graph();
}

TEST(captured, a_captured_live_block_keeps_its_released_pool)
{
    OK(tarn_pool_release(world.pool));
    world.pool = test_pool("next");
    end_capture();
    destroy_graph();
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    test_expect_words(world.stream, block, 9, WORDS);
    OK(tarn_free(block));
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

TEST(captured, a_captured_live_block_keeps_its_device_open)
{
    REFUSE(TARN_ERR_BUSY, "1 private pool", tarn_device_close(world.device));
    end_capture();
    destroy_graph();
    REFUSE(TARN_ERR_BUSY, "1 private pool", tarn_device_close(world.device));
    OK(tarn_free(block));
}
