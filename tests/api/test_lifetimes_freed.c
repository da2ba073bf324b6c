// SPDX-License-Identifier: Apache-2.0
/* The rows of docs/lifetimes.md for memory of graphs: blocks freed in their own capture, which is
 * still open, and blocks freed after it, whose chunks a graph holds. */
#include "support/world.h"

enum { BYTES = 4 << 20, WORDS = 1024 };

static void *block;  /* that the row is about; in the world's pool */
static void *output; /* of the default pool */
static tarn_graph *graph;
static tarn_capture *capture;
static tarn_checkpoint *checkpoint;

static bool is_given(tn_cu_stream stream)
{
    return test_is_given(block, BYTES, stream);
}

static void expect_mapped(void)
{
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_FREE);
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, BYTES);
}

static void expect_unmapped(void)
{
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_UNMAPPED);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
}

static void expect_held(void)
{
    expect_mapped();
    ck_assert(!is_given(world.side));
}

static void destroy_graph(void)
{
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
}

/* The graph writes 5 through the block to the output. */
static void expect_replay(void)
{
    test_set_words(world.stream, output, 0, WORDS);
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, output, 5, WORDS);
}

/* Freed in its capture, which is open. */

static void freed_inside(void)
{
    test_world_open();
    output = test_malloc(BYTES);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL); /* which a call that is not relaxed breaks */
    block = test_malloc(BYTES);
    test_fill(world.stream, block, 5, WORDS);
    test_copy(world.stream, output, block, WORDS * 4);
    OK(tarn_free(block));
}

/* Ends everything but what the row is about. */
static void end_all(void)
{
    if (checkpoint != NULL)
        OK(tarn_checkpoint_destroy(checkpoint));
    if (output != NULL)
        OK(tarn_free(output));
    test_world_close();
}

SUITE("lifetimes of memory of graphs")
GROUP(inside, freed_inside, end_all, .name = "freed in its capture")

TEST(inside, memory_freed_in_its_capture_is_its_streams_there_at_once_and_nobodys_outside)
{
    ck_assert(!is_given(world.side));
    ck_assert(is_given(world.stream));
    graph = test_capture_end(capture);
    expect_replay();
    destroy_graph();
}

TEST(inside, memory_freed_in_its_capture_is_not_freed_there_twice)
{
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free_on(block, world.stream));
    graph = test_capture_end(capture);
    expect_replay();
    destroy_graph();
}

TEST(inside, memory_freed_in_its_capture_is_not_freed_after_it_either)
{
    graph = test_capture_end(capture);
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    destroy_graph();
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    expect_unmapped();
    REFUSE(TARN_ERR_NOT_OURS, "not handed out", tarn_free(block)); /* its segment is gone, too */
}

TEST(inside, memory_freed_in_its_capture_has_no_use_to_record)
{
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_record_stream(block, world.side));
    ck_assert(is_given(world.stream));
    OK(tarn_capture_abort(capture));
}

TEST(inside, memory_freed_in_its_capture_stays_through_trims)
{
    test_trim_with_a_wait(world.pool);
    expect_mapped();
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    graph = test_capture_end(capture);
    expect_replay();
    destroy_graph();
}

TEST(inside, memory_freed_in_its_capture_is_free_after_the_abort)
{
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    capture = test_capture_on(world.pool, world.side, TARN_CAPTURE_RELAXED);
    ck_assert(is_given(world.side));
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    test_trim_with_a_wait(world.default_pool); /* proves this pool idle, too */
    ck_assert(is_given(world.side));
    expect_unmapped();
}

TEST(inside, memory_freed_in_its_capture_stays_when_another_graph_is_destroyed)
{
    tarn_pool *pool = world.pool;
    tarn_capture *first = capture;
    tarn_graph *other;

    OK(tarn_capture_abort(first));
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    ck_assert(is_given(world.stream));
    other = test_capture_end(capture);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    ck_assert(is_given(world.stream)); /* both have touched it now */
    OK(tarn_graph_destroy(other));
    test_await_destructors(1);
    OK(tarn_pool_trim(pool, NULL));
    expect_mapped();
    ck_assert(is_given(world.stream));
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    expect_unmapped();
}

TEST(inside, memory_freed_in_its_capture_keeps_its_stream_from_being_retired)
{
    REFUSE(TARN_ERR_WRONG_STATE, "captured", tarn_stream_retire(world.device, world.stream));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    ck_assert(is_given(world.stream));
    graph = test_capture_end(capture);
    OK(tarn_stream_retire(world.device, world.stream));
    expect_mapped();
    expect_replay();
    destroy_graph();
}

TEST(inside, memory_freed_in_its_capture_is_not_restored_before_the_end)
{
    REFUSE(TARN_ERR_WRONG_STATE, "capture", tarn_checkpoint_restore(checkpoint, world.side, NULL));
    graph = test_capture_end(capture);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    expect_mapped();
    expect_replay();
    destroy_graph();
}

TEST(inside, memory_freed_in_its_capture_keeps_its_released_pool)
{
    OK(tarn_checkpoint_destroy(checkpoint));
    checkpoint = NULL;
    OK(tarn_pool_release(world.pool));
    world.pool = test_pool("next");
    graph = test_capture_end(capture);
    expect_replay();
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    destroy_graph();
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

TEST(inside, memory_freed_in_its_capture_keeps_its_device_open)
{
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(output));
    checkpoint = NULL;
    output = NULL;
    OK(tarn_pool_release(world.pool));
    world.pool = NULL;
    REFUSE(TARN_ERR_BUSY, "1 private pool", tarn_device_close(world.device));
    OK(tarn_capture_abort(capture));
    test_await_destructors(0);
    world.pool = test_pool("next");
}

/* Freed after its capture; a graph that writes it holds its memory. */

static void held(void)
{
    test_world_open();
    output = test_malloc(BYTES);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    block = test_malloc(BYTES);
    test_fill(world.stream, block, 5, WORDS);
    test_copy(world.stream, output, block, WORDS * 4);
    graph = test_capture_end(capture);
    test_fill(world.stream, block, 6, WORDS);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    OK(tarn_free(block));
}

GROUP(held, held, end_all, .name = "held by a graph")

TEST(held, memory_held_by_a_graph_is_given_to_later_captures_alone)
{
    tarn_graph *second;

    ck_assert(!is_given(world.stream));
    ck_assert(!is_given(world.side));
    expect_replay();
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    ck_assert(is_given(world.stream));
    second = test_capture_end(capture);
    expect_replay();
    OK(tarn_graph_destroy(second));
    destroy_graph();
}

TEST(held, memory_held_by_a_graph_is_not_freed_twice)
{
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free_on(block, world.side));
    expect_replay();
    destroy_graph();
}

/* An address names the block that lives there. */
TEST(held, memory_held_by_a_graph_that_lives_again_is_freed_by_its_address_once)
{
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    ck_assert_ptr_eq(test_malloc(BYTES), block);
    OK(tarn_free(block));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    OK(tarn_capture_abort(capture));
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_free(block));
    destroy_graph();
}

TEST(held, memory_held_by_a_graph_has_no_use_to_record)
{
    REFUSE(TARN_ERR_DOUBLE_FREE, "freed before", tarn_record_stream(block, world.side));
    expect_replay();
    destroy_graph();
}

TEST(held, memory_held_by_a_graph_stays_through_trims)
{
    OK(tarn_pool_trim(world.pool, NULL));
    expect_mapped();
    expect_replay();
    destroy_graph();
}

TEST(held, memory_held_by_a_graph_stays_when_a_later_capture_of_it_is_aborted)
{
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    ck_assert(is_given(world.stream));
    OK(tarn_capture_abort(capture));
    test_await_destructors(1);
    OK(tarn_pool_trim(world.pool, NULL));
    expect_mapped();
    expect_replay();
    destroy_graph();
}

TEST(held, memory_held_by_a_graph_goes_when_graph_and_launches_are_gone)
{
    tarn_driver_graph nodes = NULL;
    tn_cu_graph clone;
    tn_cu_graphexec exec;

    expect_replay();
    OK(tarn_graph_driver_handles(graph, &nodes, NULL));
    clone = test_clone(nodes);
    exec = test_instantiate(nodes);
    sim.hold_work();
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    expect_held();
    test_destroy_graph(clone);
    expect_held();
    test_destroy_exec(exec);
    expect_held(); /* by the launch, which has not begun */
    sim.resume_work();
    test_synchronize(world.stream);
    test_await_destructors(0);
    test_trim_with_a_wait(world.default_pool); /* proves this pool idle, too */
    ck_assert(is_given(world.side));
    expect_unmapped();
}

TEST(held, memory_held_by_a_graph_stays_when_its_stream_is_retired)
{
    OK(tarn_stream_retire(world.device, world.stream));
    OK(tarn_pool_trim(world.pool, NULL));
    expect_mapped();
    ck_assert(!is_given(world.side));
    expect_replay();
    capture = test_capture_on(world.pool, world.side, TARN_CAPTURE_RELAXED);
    ck_assert(is_given(world.side));
    OK(tarn_capture_abort(capture));
    destroy_graph();
}

TEST(held, memory_held_by_a_graph_is_revived_in_place_and_the_graph_goes_on)
{
    tarn_delta *delta = NULL;

    expect_replay();
    OK(tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_uint_eq(delta->freed_count, 0);
    ck_assert_uint_eq(delta->revived_count, 1);
    ck_assert_ptr_eq(delta->revived[0].block.address, block);
    tarn_delta_destroy(delta);
    test_expect_words(world.stream, block, 6, WORDS);
    expect_replay();
    test_expect_words(world.stream, block, 5, WORDS);
    OK(tarn_free(block));
    destroy_graph();
}

TEST(held, memory_held_by_a_graph_keeps_its_released_pool)
{
    OK(tarn_checkpoint_destroy(checkpoint));
    checkpoint = NULL;
    OK(tarn_pool_release(world.pool));
    world.pool = test_pool("next");
    expect_replay();
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    destroy_graph();
    OK(tarn_device_trim(world.device, 0, NULL)); /* proves that its memory is idle */
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

TEST(held, memory_held_by_a_graph_keeps_its_device_open)
{
    OK(tarn_checkpoint_destroy(checkpoint));
    checkpoint = NULL;
    OK(tarn_pool_release(world.pool));
    world.pool = NULL;
    REFUSE(TARN_ERR_BUSY, "1 private pool", tarn_device_close(world.device));
    expect_replay();
    destroy_graph();
    world.pool = test_pool("next");
}
