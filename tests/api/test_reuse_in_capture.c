// SPDX-License-Identifier: Apache-2.0
/* Memory freed in a capture after use on several of its streams is used again in that capture once its
 * graph says that the next use comes after the last one. */
#include "support/world.h"

enum { WORDS = 1 << 10 };

/* Ends the capture, with the side stream joined, replays its graph twice and destroys it. */
static void end_and_replay(tarn_capture *capture)
{
    tarn_graph *graph;

    test_order(world.side, world.stream);
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    OK(tarn_graph_destroy(graph));
}

/* A block that the side stream copies out, slowly. */
static void *use_on_side(uint32_t value, void *output)
{
    void *block = test_malloc(4 * MIB);

    test_fill(world.stream, block, value, WORDS);
    test_order(world.stream, world.side);
    test_spin(world.side, 3);
    test_copy(world.side, output, block, WORDS * 4);
    return block;
}

GROUP(reuse_in_capture, test_outputs_open, test_outputs_close)

TEST(reuse_in_capture, a_block_used_on_a_forked_stream_is_used_again_after_the_join)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *block = use_on_side(5, world.outputs[0]);
    void *early;
    void *late;

    OK(tarn_record_stream(block, world.side));
    OK(tarn_free(block));
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    early = test_malloc(4 * MIB); /* nothing orders it behind the copy */
    ck_assert_ptr_ne(early, block);
    test_fill(world.stream, early, 6, WORDS);
    test_order(world.side, world.stream);
    late = test_malloc(4 * MIB);
    ck_assert_ptr_eq(late, block);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    test_fill(world.stream, late, 7, WORDS);
    test_copy(world.stream, world.outputs[1], late, WORDS * 4);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_free(early));
    OK(tarn_free(late));
    end_and_replay(capture);
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
    test_expect_words(world.stream, world.outputs[1], 7, WORDS);
}

TEST(reuse_in_capture, a_block_freed_after_the_join_is_used_again_at_once)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *block = use_on_side(5, world.outputs[0]);
    void *again;

    OK(tarn_record_stream(block, world.side));
    test_order(world.side, world.stream);
    OK(tarn_free(block));
    again = test_malloc(4 * MIB);
    ck_assert_ptr_eq(again, block);
    test_fill(world.stream, again, 6, WORDS);
    OK(tarn_free(again));
    end_and_replay(capture);
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
}

TEST(reuse_in_capture, free_on_a_forked_stream_waits_for_its_join)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *block = use_on_side(5, world.outputs[0]);
    void *other;

    OK(tarn_free_on(block, world.side));
    other = test_malloc(4 * MIB);
    ck_assert_ptr_ne(other, block);
    test_fill(world.stream, other, 6, WORDS);
    OK(tarn_free(other));
    test_order(world.side, world.stream);
    other = test_malloc(6 * MIB); /* more than one of them has */
    OK(tarn_free(other));
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    end_and_replay(capture);
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
}

/* What counts is the work up to the free, not what the stream does later. */
TEST(reuse_in_capture, work_after_the_free_is_not_waited_for)
{
    tn_cu_stream third = test_stream();
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *block = use_on_side(5, world.outputs[0]);
    void *again;

    OK(tarn_free_on(block, world.side));
    test_order(world.side, third);
    test_fill(world.side, world.outputs[0], 5, WORDS); /* not in third */
    test_order(third, world.stream);
    again = test_malloc(4 * MIB);
    ck_assert_ptr_eq(again, block);
    test_fill(world.stream, again, 6, WORDS);
    OK(tarn_free(again));
    end_and_replay(capture);
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
    test_destroy_stream(third);
}

TEST(reuse_in_capture, every_stream_that_uses_the_block_must_be_joined)
{
    enum { COUNT = 3 };
    tn_cu_stream sides[COUNT];
    void *outputs[COUNT];
    tarn_capture *capture;
    void *block;
    void *others[COUNT];
    void *again;

    for (int i = 0; i < COUNT; i++) {
        sides[i] = test_stream();
        outputs[i] = test_malloc(WORDS * 4);
    }
    capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    block = test_malloc(4 * MIB);
    test_fill(world.stream, block, 5, WORDS);
    test_order(world.stream, world.side);
    for (int i = 0; i < COUNT; i++) {
        test_order(world.stream, sides[i]);
        test_spin(sides[i], (uint32_t)i + 1);
        test_copy(sides[i], outputs[i], block, WORDS * 4);
        OK(tarn_record_stream(block, sides[i]));
    }
    OK(tarn_free(block));
    for (int i = 0; i < COUNT; i++) {
        others[i] = test_malloc(4 * MIB);
        ck_assert_ptr_ne(others[i], block);
        test_fill(world.stream, others[i], 6, WORDS);
        test_order(sides[i], world.stream);
    }
    again = test_malloc(4 * MIB);
    ck_assert_ptr_eq(again, block);
    test_fill(world.stream, again, 6, WORDS);
    OK(tarn_free(again));
    end_and_replay(capture);
    for (int i = 0; i < COUNT; i++) {
        test_expect_words(world.stream, outputs[i], 5, WORDS);
        test_destroy_stream(sides[i]);
        OK(tarn_free(others[i]));
        OK(tarn_free(outputs[i]));
    }
}

/* A block of the forked stream goes back to that stream, which must come after the other's use. */
TEST(reuse_in_capture, the_order_that_uses_memory_again_is_the_blocks_own)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *block;
    void *mine;
    void *again = NULL;

    test_fill(world.stream, world.outputs[0], 0, WORDS);
    test_order(world.stream, world.side);
    block = test_alloc(world.pool, 4 * MIB, world.side);
    test_fill(world.side, block, 5, WORDS);
    test_order(world.side, world.stream);
    test_spin(world.stream, 3);
    test_copy(world.stream, world.outputs[0], block, WORDS * 4);
    OK(tarn_free_on(block, world.stream));
    mine = test_malloc(4 * MIB); /* comes after all of it, but the block is the side stream's */
    ck_assert_ptr_ne(mine, block);
    again = test_alloc(world.pool, 4 * MIB, world.side);
    ck_assert_ptr_ne(again, block);
    OK(tarn_free(again));
    test_order(world.stream, world.side);
    again = test_alloc(world.pool, 6 * MIB, world.side);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    test_fill(world.side, again, 6, WORDS);
    OK(tarn_free(again));
    OK(tarn_free(mine));
    end_and_replay(capture);
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
}

TEST(reuse_in_capture, a_stream_that_leaves_its_past_behind_reuses_nothing_of_it)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    tn_cu_graphnode first;
    void *block;

    test_fill(world.stream, world.outputs[0], 0, WORDS);
    first = test_last_node(world.stream);
    block = use_on_side(5, world.outputs[0]);
    OK(tarn_free_on(block, world.side));
    test_order(world.side, world.stream);
    test_set_past(world.stream, first, true);
    ck_assert_ptr_ne(test_malloc(4 * MIB), block);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    OK(tarn_capture_abort(capture));
    OK(tarn_pool_release(world.pool));
    world.pool = NULL;
}

TEST(reuse_in_capture, a_stream_with_too_many_ends_waits_for_the_captures_end)
{
    enum { COUNT = 9 };
    tn_cu_stream others[COUNT];
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *block = test_malloc(4 * MIB);
    void *again;

    test_fill(world.stream, block, 5, WORDS);
    for (int i = 0; i < COUNT; i++) {
        others[i] = test_stream();
        test_order(world.stream, others[i]);
        test_fill(others[i], (char *)block + (size_t)(i + 1) * WORDS * 4, 5, WORDS);
        test_order(others[i], world.side);
    }
    OK(tarn_free_on(block, world.side));
    test_order(world.side, world.stream);
    again = test_malloc(4 * MIB);
    ck_assert_ptr_ne(again, block);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    OK(tarn_free(again));
    end_and_replay(capture);
    for (int i = 0; i < COUNT; i++)
        test_destroy_stream(others[i]);
    OK(tarn_free(test_alloc(world.pool, 64 * MIB, world.stream)));
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
}

TEST(reuse_in_capture, where_the_graph_cannot_be_asked_memory_waits_for_the_captures_end)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *block = use_on_side(5, world.outputs[0]);
    void *other;

    OK(tarn_free_on(block, world.side));
    test_order(world.side, world.stream);
    sim.plan_fault("cuGraphNodeGetDependencies", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    other = test_malloc(4 * MIB);
    ck_assert_ptr_ne(other, block);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    ck_assert_ptr_eq(test_malloc(4 * MIB), block); /* now it can */
    OK(tarn_free(other));
    OK(tarn_free(block));
    end_and_replay(capture);
}
