// SPDX-License-Identifier: Apache-2.0
/* Streams that are destroyed without a word, and streams that are only quiet: nobody can tell them
 * apart. The former keep little, and give their memory back; the latter miss nothing. */
#include "support/world.h"

enum {
    STREAMS = 2000,
    STREAM_BYTES_MAX = 1024, /* of host memory, for each stream gone */
    OTHERS = 800,            /* more than an arena stays whose stream has come back before */
};

static uint64_t host_bytes(void)
{
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_device_stats(world.device, &stats));
    return stats.host_bytes.current;
}

/* Other streams come, use the pool, and go without a word. */
static void let_others_pass(int count)
{
    for (int i = 0; i < count; i++) {
        tn_cu_stream stream = test_stream();
        void *blocks[] = {test_alloc(world.pool, 512, stream), test_alloc(world.pool, 512, stream)};

        OK(tarn_free(blocks[0]));
        OK(tarn_free(blocks[1]));
        test_destroy_stream(stream);
    }
}

SUITE("silent streams")
GROUP(gone, test_world_open_still, test_world_close, .timeout = 120)

TEST(gone, streams_that_go_without_a_word_keep_little)
{
    uint64_t host;
    size_t free_bytes;

    let_others_pass(1);
    OK(tarn_pool_trim(world.pool, NULL));
    host = host_bytes();
    free_bytes = test_free_bytes();
    let_others_pass(STREAMS);
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    ck_assert_uint_eq(test_free_bytes(), free_bytes);
    ck_assert_uint_eq(test_stats(world.pool).arena_count, 0);
    ck_assert_uint_le(host_bytes(), host + (uint64_t)STREAMS * STREAM_BYTES_MAX);
    host = host_bytes();
    let_others_pass(STREAMS); /* which use their records again */
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_le(host_bytes(), host + STREAMS);
}

/* However many have come and gone, and nothing was trimmed. */
TEST(gone, few_arenas_are_left_of_streams_that_have_gone)
{
    let_others_pass(STREAMS);
    ck_assert_uint_le(test_stats(world.pool).arena_count, 400);
    OK(tarn_pool_validate(world.pool));
}

/* The wait of the ladder proves that their work is over. */
TEST(gone, an_allocation_without_memory_gets_that_of_streams_gone)
{
    size_t bytes;
    void *block;

    let_others_pass(STREAMS);
    bytes = test_free_bytes() + test_stats(world.pool).mapped_bytes / 2;
    block = test_alloc(world.pool, bytes & ~(size_t)(2 * MIB - 1), world.stream);
    OK(tarn_free(block));
    OK(tarn_pool_validate(world.pool));
}

GROUP(quiet, test_world_open_still, test_world_close, .timeout = 120)

/* The ladder has made the segments of two streams anyone's, and one of them has the other's now. */
TEST(quiet, a_stream_goes_that_has_anothers_segment)
{
    tn_cu_stream streams[3] = {test_stream(), test_stream(), test_stream()};
    void *large[3];
    void *small[2];

    for (int i = 0; i < 2; i++) {
        large[i] = test_alloc(world.pool, 64 * MIB, streams[i]);
        small[i] = test_alloc(world.pool, 512, streams[i]);
    }
    OK(tarn_free(large[0]));
    OK(tarn_free(large[1]));
    OK(tarn_pool_set_limit(world.pool, test_stats(world.pool).mapped_bytes + 20 * MIB));
    large[2] = test_alloc(world.pool, 64 * MIB, streams[2]);
    ck_assert(large[2] == large[0] || large[2] == large[1]);
    OK(tarn_free(test_alloc(world.pool, 64 * MIB, streams[large[2] == large[1]])));
    OK(tarn_free(small[0]));
    OK(tarn_free(small[1]));
    OK(tarn_pool_set_limit(world.pool, 0));
    let_others_pass(OTHERS);
    OK(tarn_pool_validate(world.pool));
    OK(tarn_free(large[2]));
    for (int i = 0; i < 3; i++)
        test_destroy_stream(streams[i]);
}

TEST(quiet, a_quiet_stream_works_on_with_its_memory)
{
    void *small = test_alloc(world.pool, 4096, world.side);
    char *large = test_alloc(world.pool, 6 * MIB, world.side);
    size_t mapped;

    test_fill(world.side, large, 1, 64);
    OK(tarn_free(large));
    OK(tarn_free(small));
    for (int round = 0; round < 3; round++) {
        let_others_pass(OTHERS);
        mapped = test_stats(world.pool).mapped_bytes;
        ck_assert_ptr_eq(test_alloc(world.pool, 6 * MIB, world.side), large);
        ck_assert_ptr_eq(test_alloc(world.pool, 4096, world.side), small);
        ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, mapped);
        test_fill(world.side, large, 2, 64);
        test_expect_words(world.side, large, 2, 64);
        OK(tarn_free(small));
        OK(tarn_free(large));
        OK(tarn_pool_validate(world.pool));
    }
}

TEST(quiet, a_quiet_streams_live_blocks_stay)
{
    void *kept = test_alloc(world.pool, 4096, world.side);
    void *freed = test_alloc(world.pool, 4096, world.side);

    test_fill(world.side, kept, 7, 64);
    OK(tarn_free(freed));
    let_others_pass(OTHERS);
    test_expect_words(world.side, kept, 7, 64);
    ck_assert_ptr_eq(test_alloc(world.pool, 4096, world.side), freed);
    OK(tarn_free(kept));
    ck_assert_ptr_eq(test_alloc(world.pool, 4096, world.side), kept);
    OK(tarn_free(kept));
    OK(tarn_free(freed));
}

TEST(quiet, a_quiet_streams_pending_free_takes_effect)
{
    void *block = test_alloc(world.pool, 4 * MIB, world.side);

    test_fill(world.stream, block, 1, 64);
    sim.hold_work();
    test_fill(world.stream, block, 1, 64);
    OK(tarn_free_on(block, world.stream));
    let_others_pass(OTHERS);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    sim.resume_work();
    test_synchronize(world.stream);
    let_others_pass(OTHERS);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.side), block);
    OK(tarn_free(block));
    OK(tarn_pool_validate(world.pool));
}

TEST(quiet, a_quiet_streams_blocks_come_back_with_a_checkpoint)
{
    void *saved = test_alloc(world.pool, 4 * MIB, world.side);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);

    OK(tarn_free(saved));
    let_others_pass(OTHERS);
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    test_fill(world.side, saved, 3, 64);
    test_expect_words(world.side, saved, 3, 64);
    OK(tarn_free(saved));
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.side), saved);
    OK(tarn_free(saved));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* Nor does the restore of a checkpoint in which it has nothing concern what it has freed. */
TEST(quiet, a_restore_beside_dormant_memory_leaves_it)
{
    void *own = test_alloc(world.pool, 4096, world.stream);
    void *block = test_alloc(world.pool, 4 * MIB, world.side);
    tarn_checkpoint *checkpoint;

    OK(tarn_free(block));
    let_others_pass(OTHERS);
    checkpoint = test_take(TARN_CONTENTS_NONE);
    OK(tarn_free(own));
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.side), block);
    tarn_delta_destroy(test_restore(checkpoint, 1, 0));
    let_others_pass(OTHERS);
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.side), block);
    OK(tarn_free(block));
    OK(tarn_free(own));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_pool_validate(world.pool));
}

TEST(quiet, a_quiet_stream_captures)
{
    void *block = test_alloc(world.pool, 4 * MIB, world.side);
    tarn_capture *capture;
    tarn_graph *graph;
    void *output = test_alloc(world.pool, 4096, world.stream);
    void *word;

    OK(tarn_free(block));
    let_others_pass(OTHERS);
    capture = test_capture_on(world.pool, world.side, TARN_CAPTURE_GLOBAL);
    word = test_alloc(world.pool, 4096, world.side);
    test_fill(world.side, word, 5, 64);
    test_copy(world.side, output, word, 4 * (size_t)64);
    OK(tarn_free(word));
    graph = test_capture_end(capture);
    let_others_pass(OTHERS);
    OK(tarn_graph_replay(graph, world.side));
    test_expect_words(world.side, output, 5, 64);
    OK(tarn_graph_destroy(graph));
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.side), block);
    OK(tarn_free(block));
    OK(tarn_free(output));
    OK(tarn_pool_validate(world.pool));
}

TEST(quiet, a_quiet_stream_is_retired)
{
    void *block = test_alloc(world.pool, 4 * MIB, world.side);

    OK(tarn_free(block));
    let_others_pass(OTHERS);
    OK(tarn_stream_retire(world.device, world.side));
    test_synchronize(world.side);
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.stream), block);
    OK(tarn_free(block));
}
