// SPDX-License-Identifier: Apache-2.0
/* Checkpoints on hardware: contents round trips, restores between replays and after trims. */
#include <stdlib.h>

#include "support/world.h"

/* A pattern of which every word is different. */
static uint32_t pattern(uint32_t seed, size_t word)
{
    return ((uint32_t)word ^ seed) * 2654435761U;
}

static void write_pattern(void *address, size_t bytes, uint32_t seed)
{
    uint32_t *words = malloc(bytes);

    ck_assert_ptr_nonnull(words);
    for (size_t i = 0; i < bytes / 4; i++)
        words[i] = pattern(seed, i);
    CU_OK(cu.cuMemcpyHtoDAsync((tn_cu_deviceptr)(uintptr_t)address, words, bytes, world.stream));
    test_synchronize(world.stream);
    free(words);
}

static void expect_pattern(const void *address, size_t bytes, uint32_t seed)
{
    uint32_t *words = malloc(bytes);
    size_t equal = 0;

    ck_assert_ptr_nonnull(words);
    CU_OK(cu.cuMemcpyDtoHAsync(words, (tn_cu_deviceptr)(uintptr_t)address, bytes, world.stream));
    test_synchronize(world.stream);
    while (equal < bytes / 4 && words[equal] == pattern(seed, equal))
        equal += 1;
    ck_assert_msg(equal == bytes / 4, "word %zu of %zu is wrong", equal, bytes / 4);
    free(words);
}

/* beside: of a block that makes the contents larger, and so the tiles that they are copied in; 0: none. */
static void check_contents(tarn_contents contents, size_t beside)
{
    static const size_t sizes[] = {128 * MIB, 64 * MIB,   63 * MIB, 512 * 1024, 512 * 1024 - 4,
                                   65536,     65536 + 20, 12,       4};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    void *blocks[COUNT];
    tarn_checkpoint *checkpoint = NULL;
    void *more = beside > 0 ? test_alloc(world.pool, beside, world.stream) : NULL;

    for (uint32_t i = 0; i < COUNT; i++) {
        blocks[i] = test_alloc(world.pool, sizes[i], world.stream);
        write_pattern(blocks[i], sizes[i], i);
    }
    OK(tarn_checkpoint_take(world.pool, contents, world.stream, &checkpoint));
    for (int round = 0; round < 3; round++) {
        tarn_delta *delta = NULL;
        size_t gone = 0;

        for (size_t i = 0; i < COUNT; i++) {
            test_fill(world.stream, blocks[i], 0xdead, sizes[i] / 4);
            if (round > 0 && i % 2 == 0) {
                OK(tarn_free(blocks[i]));
                gone += 1;
            }
        }
        if (round == 2)
            OK(tarn_pool_trim(world.pool, NULL));
        OK(tarn_checkpoint_restore(checkpoint, world.stream, &delta));
        ck_assert_uint_eq(delta->revived_count, gone);
        tarn_delta_destroy(delta);
        for (uint32_t i = 0; i < COUNT; i++)
            expect_pattern(blocks[i], sizes[i], i);
        OK(tarn_checkpoint_verify(checkpoint, world.stream));
    }
    OK(tarn_checkpoint_destroy(checkpoint));
    for (int i = 0; i < COUNT; i++)
        OK(tarn_free(blocks[i]));
    if (more != NULL)
        OK(tarn_free(more));
}

SUITE("checkpoints")
GROUP(checkpoints, test_world_open, test_world_close, .timeout = 120)

TEST(checkpoints, a_quarter_of_a_gib_comes_back_to_the_bit)
{
    check_contents(TARN_CONTENTS_DEVICE, 0);
}

TEST(checkpoints, larger_contents_come_back_to_the_bit)
{
    check_contents(TARN_CONTENTS_DEVICE, 512 * MIB);
    check_contents(TARN_CONTENTS_DEVICE, 1024 * MIB);
}

TEST(checkpoints, a_quarter_of_a_gib_comes_back_from_host_memory)
{
    check_contents(TARN_CONTENTS_HOST, 0);
    check_contents(TARN_CONTENTS_HOST, 0); /* from memory that was kept */
}

TEST(checkpoints, a_bit_of_the_contents_that_has_changed_is_found)
{
    static const size_t sizes[] = {1, 15, 16, 4095, 65536, 65537, 1000003, 32 * MIB + 9};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    void *blocks[COUNT];
    tarn_checkpoint *checkpoint = NULL;
    size_t at = 0;

    for (size_t i = 0; i < COUNT; i++)
        blocks[i] = test_alloc(world.pool, sizes[i], world.stream);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    OK(tarn_checkpoint_verify(checkpoint, world.side));
    for (size_t i = 0; i < COUNT; i++) { /* small blocks come first, in the order of allocation */
        for (size_t place = 0; place < sizes[i]; place += sizes[i] / 3 + 1) {
            test_flip_byte(world.stream, test_live_block(world.default_pool) + at + place);
            STATUS(TARN_ERR_CORRUPT, tarn_checkpoint_verify(checkpoint, world.stream));
            test_flip_byte(world.stream, test_live_block(world.default_pool) + at + place);
        }
        OK(tarn_checkpoint_verify(checkpoint, world.stream));
        at += (sizes[i] + 511) / 512 * 512;
    }
    OK(tarn_checkpoint_destroy(checkpoint));
    for (int i = 0; i < COUNT; i++)
        OK(tarn_free(blocks[i]));
}

TEST(checkpoints, a_restore_between_replays_rewinds_the_graphs_state)
{
    enum { WORDS = 1 << 20 };
    tarn_checkpoint *checkpoint = NULL;
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *state = test_alloc(world.pool, WORDS * 4, world.stream);
    void *temporary;

    test_fill(world.stream, state, 100, WORDS);
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    temporary = test_malloc(WORDS * 4);
    test_copy(world.stream, temporary, state, WORDS * 4);
    test_add(world.stream, temporary, 1, WORDS);
    test_copy(world.stream, state, temporary, WORDS * 4);
    OK(tarn_free(temporary));
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    for (int round = 0; round < 5; round++) {
        for (int replay = 0; replay < 10; replay++)
            OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, state, 110, WORDS);
        if (round % 2 == 1)
            OK(tarn_free(state));
        OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
        test_expect_words(world.stream, state, 100, WORDS);
    }
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(state));
}

TEST(checkpoints, a_replay_after_a_restore_of_trimmed_memory_is_right)
{
    enum { WORDS = 1 << 20 };
    void *input = test_alloc(world.pool, 64 * MIB, world.side);
    void *output = test_malloc(WORDS * 4);
    tarn_checkpoint *checkpoint = NULL;
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    size_t freed = 0;

    test_synchronize(world.stream);
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    test_copy(world.stream, output, input, WORDS * 4);
    OK(tarn_capture_end(capture, &graph));
    test_fill(world.stream, input, 17, 16 * MIB);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    OK(tarn_free(input));
    OK(tarn_pool_trim(world.pool, &freed)); /* the graph only reads it: it is not held */
    ck_assert_uint_ge(freed, 64 * MIB);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, output, 17, WORDS);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(input));
    OK(tarn_free(output));
}

TEST(checkpoints, revived_memory_under_a_kernel_is_waited_for)
{
    enum { WORDS = 1 << 20 };
    void *block = test_alloc(world.pool, WORDS * 4, world.stream);
    tarn_checkpoint *checkpoint = NULL;

    test_fill(world.stream, block, 3, WORDS);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    test_spin(world.side, 60);
    test_fill(world.side, block, 0xdead, WORDS);
    OK(tarn_free_on(block, world.side));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    test_synchronize(world.side);
    test_expect_words(world.stream, block, 3, WORDS);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(block));
}

/* A step of a few kinds of nodes on two streams, with memory in between. */
static tarn_graph *capture_step(void *weights, void *output, uint32_t value)
{
    enum { WORDS = 4096 };
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *one = test_malloc(WORDS * 4);
    void *other = test_malloc(WORDS * 8);

    test_fill(world.stream, one, 1, WORDS);
    test_order(world.stream, world.side);
    test_set_words(world.side, other, 2, WORDS);
    test_copy(world.stream, other, one, 64);
    test_order(world.side, world.stream);
    test_add(world.stream, weights, value, WORDS);
    OK(tarn_free(one));
    test_copy(world.stream, output, other, 4);
    OK(tarn_free(other));
    return test_capture_end(capture);
}

TEST(checkpoints, a_step_that_is_captured_again_after_a_restore_is_the_same_graph)
{
    enum { WORDS = 4096 };
    void *weights = test_filled(WORDS, 5);
    void *elsewhere = test_filled(WORDS, 5);
    void *output = test_filled(1, 0);
    tarn_graph *graphs[4] = {capture_step(weights, output, 3)};
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    tarn_graph_diff *diff = NULL;

    OK(tarn_graph_replay(graphs[0], world.stream));
    (void)test_filled(WORDS, 9); /* left behind */
    tarn_delta_destroy(test_restore(checkpoint, 1, 0));
    graphs[1] = capture_step(weights, output, 3);
    graphs[2] = capture_step(weights, output, 4);
    graphs[3] = capture_step(elsewhere, output, 3);
    OK(tarn_graph_compare(graphs[0], graphs[1], &diff));
    ck_assert_msg(diff->equal, "%zu differences", diff->difference_count);
    ck_assert_uint_eq(diff->node_count, 5);
    tarn_graph_diff_destroy(diff);
    OK(tarn_graph_compare(graphs[0], graphs[2], &diff));
    ck_assert(diff->same_structure && diff->complete && !diff->corresponds);
    ck_assert_uint_eq(diff->difference_count, 1);
    ck_assert_int_eq(diff->differences[0].kind, TARN_GRAPH_DIFFERENCE_PARAMETER);
    ck_assert_uint_eq(diff->differences[0].index, 1);
    ck_assert_uint_eq(diff->differences[0].values[1], 4);
    tarn_graph_diff_destroy(diff);
    OK(tarn_graph_compare(graphs[0], graphs[3], &diff));
    ck_assert(diff->corresponds && !diff->equal);
    ck_assert_uint_eq(diff->difference_count, 1);
    tarn_graph_diff_destroy(diff);
    for (size_t i = 0; i < 4; i++)
        OK(tarn_graph_destroy(graphs[i]));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(weights));
    OK(tarn_free(elsewhere));
    OK(tarn_free(output));
}

/* Forty replays of a graph of another pool, guarded, each of which reads a block for a while when that is restored: they read
 * what was there, and the next one what the restore has put there. */
static void check_guarded(tarn_guard guard)
{
    enum { WORDS = 1 << 20, SAVED = 7, ROUNDS = 40 };
    tarn_pool *graphs = test_pool("graphs");
    uint32_t *input = test_alloc(world.pool, WORDS * 4, world.stream);
    uint32_t *output = test_alloc(world.default_pool, WORDS * 4, world.stream);
    tarn_checkpoint *checkpoint = NULL;
    tarn_capture *capture;
    tarn_graph *graph;
    void *temporary;

    test_fill(world.stream, input, SAVED, WORDS);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    test_synchronize(world.stream);
    capture = test_capture_on(graphs, world.side, TARN_CAPTURE_THREAD_LOCAL);
    OK(tarn_malloc(world.device, WORDS * 4, world.side, &temporary));
    test_spin(world.side, 5);
    test_copy(world.side, temporary, input, WORDS * 4);
    test_copy(world.side, output, temporary, WORDS * 4);
    OK(tarn_free(temporary));
    graph = test_capture_end(capture);
    OK(tarn_graph_guard(graph, guard, NULL));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        test_fill(world.side, input, 100 + round, WORDS);
        OK(tarn_graph_replay(graph, world.side));
        OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
        test_synchronize(world.side);
        test_expect_words(world.side, output, 100 + round, WORDS);
        test_spin(world.stream, 5);
        OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
        OK(tarn_graph_replay(graph, world.side));
        test_synchronize(world.side);
        test_expect_words(world.side, output, SAVED, WORDS);
        test_synchronize(world.stream);
    }
    OK(tarn_graph_destroy(graph));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(input));
    OK(tarn_free(output));
    test_await_destructors(0);
    OK(tarn_pool_destroy(graphs));
}

TEST(checkpoints, no_replay_of_a_guarded_graph_reads_restored_bytes_before_its_time)
{
    check_guarded(TARN_GUARD_KEEP);
    check_guarded(TARN_GUARD_REFUSE);
}
