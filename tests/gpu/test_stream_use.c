// SPDX-License-Identifier: Apache-2.0
/* Memory in use on hardware: a block is not handed out, and not unmapped, before its last use. */
#include <time.h>

#include "support/world.h"

enum { WORDS = 1 << 20, SPIN = 60 };

static uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Takes memory of the same size over and over on the world's stream, and writes to all of it. */
static void overwrite(tarn_pool *pool)
{
    void *others[8];

    for (int i = 0; i < 8; i++) {
        others[i] = test_alloc(pool, WORDS * 4, world.stream);
        test_fill(world.stream, others[i], 0xdead, WORDS);
    }
    test_synchronize(world.stream);
    for (int i = 0; i < 8; i++)
        OK(tarn_free(others[i]));
}

/* Enqueues what reads the block late into the target on the stream. */
static void read_late(tn_cu_stream stream, void *target, const void *source)
{
    test_spin(stream, SPIN);
    test_copy(stream, target, source, WORDS * 4);
}

enum when { NEVER, BEFORE_THE_FREE, AFTER_THE_FREE };

/* A block is used on another stream than its own, which is retired and destroyed at some time. */
static void free_under_a_kernel(bool free_on, enum when retired)
{
    tn_cu_stream reader = test_stream();
    void *source = test_malloc(WORDS * 4);
    void *target = test_alloc(world.pool, WORDS * 4, world.side);

    test_fill(world.stream, source, 5, WORDS);
    test_order(world.stream, reader);
    read_late(reader, target, source);
    if (!free_on)
        OK(tarn_record_stream(source, reader));
    if (retired == BEFORE_THE_FREE) {
        OK(tarn_stream_retire(world.device, reader));
        test_destroy_stream(reader);
    }
    if (free_on)
        OK(tarn_free_on(source, reader));
    else
        OK(tarn_free(source));
    if (retired == AFTER_THE_FREE) {
        OK(tarn_stream_retire(world.device, reader));
        test_destroy_stream(reader);
    }
    overwrite(world.default_pool);
    test_wait_for_all();
    test_expect_words(world.side, target, 5, WORDS);
    if (retired == NEVER)
        test_destroy_stream(reader);
    OK(tarn_free(target));
    OK(tarn_free(test_malloc(WORDS * 64))); /* looks at what is pending */
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 0);
    OK(tarn_pool_trim(world.default_pool, NULL));
}

SUITE("use on several streams")
GROUP(uses, test_world_open, test_world_close, .name = "stream use", .timeout = 120)

TEST(uses, a_block_freed_under_a_kernel_on_a_recorded_stream_keeps_its_contents)
{
    free_under_a_kernel(false, NEVER);
}

TEST(uses, a_block_freed_on_another_stream_keeps_its_contents)
{
    free_under_a_kernel(true, NEVER);
}

TEST(uses, a_block_whose_recorded_stream_went_before_the_free_keeps_its_contents)
{
    free_under_a_kernel(false, BEFORE_THE_FREE);
}

TEST(uses, a_block_whose_recorded_stream_goes_after_the_free_keeps_its_contents)
{
    free_under_a_kernel(false, AFTER_THE_FREE);
    free_under_a_kernel(true, AFTER_THE_FREE);
}

/* Many blocks share one event of their stream: none may come back before it. */
TEST(uses, a_hundred_blocks_freed_under_one_kernel_keep_their_contents)
{
    enum { COUNT = 100, SOME = 1 << 16 };
    tn_cu_stream reader = test_stream();
    void *sources[COUNT];
    unsigned char *target = test_alloc(world.pool, COUNT * SOME * 4, world.side);

    for (uint32_t i = 0; i < COUNT; i++) {
        sources[i] = test_malloc(SOME * 4);
        test_fill(world.stream, sources[i], i + 1, SOME);
    }
    test_order(world.stream, reader);
    test_spin(reader, SPIN);
    for (size_t i = 0; i < COUNT; i++) {
        test_copy(reader, target + i * SOME * 4, sources[i], SOME * 4);
        OK(tarn_free_on(sources[i], reader));
    }
    for (size_t i = 0; i < COUNT; i++) {
        sources[i] = test_malloc(SOME * 4);
        test_fill(world.stream, sources[i], 0xdead, SOME);
    }
    test_wait_for_all();
    for (uint32_t i = 0; i < COUNT; i++) {
        test_expect_words(world.side, target + (size_t)i * SOME * 4, i + 1, SOME);
        OK(tarn_free(sources[i]));
    }
    test_destroy_stream(reader);
    OK(tarn_free(target));
    OK(tarn_free(test_malloc(COUNT * SOME * 8))); /* looks at the pending blocks */
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 0);
    OK(tarn_pool_trim(world.default_pool, NULL));
}

/* A block of the stream that goes, freed before or after that. */
static void retire_own_stream(bool free_first)
{
    tn_cu_stream own = test_stream();
    void *source = test_alloc(world.default_pool, WORDS * 4, own);
    void *target = test_alloc(world.pool, WORDS * 4, own);

    test_fill(own, source, 5, WORDS);
    read_late(own, target, source);
    if (free_first)
        OK(tarn_free(source));
    OK(tarn_stream_retire(world.device, own));
    test_destroy_stream(own);
    if (!free_first)
        OK(tarn_free(source));
    overwrite(world.default_pool);
    test_wait_for_all();
    test_expect_words(world.side, target, 5, WORDS);
    OK(tarn_free(target));
    OK(tarn_free(test_alloc(world.default_pool, WORDS * 64, world.side))); /* looks again */
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 0);
    OK(tarn_pool_trim(world.default_pool, NULL));
}

TEST(uses, memory_of_a_stream_that_goes_keeps_its_contents_until_its_work_has_ended)
{
    retire_own_stream(true);
    retire_own_stream(false);
}

/* The branch of a graph that reads a block late runs beside the one that allocates. */
TEST(uses, a_block_freed_in_a_capture_that_forks_keeps_its_contents)
{
    void *target = test_alloc(world.pool, WORDS * 4, world.side);
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *source = NULL;
    void *others[8] = {NULL};

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    OK(tarn_malloc(world.device, WORDS * 4, world.stream, &source));
    test_fill(world.stream, source, 5, WORDS);
    test_order(world.stream, world.side);
    read_late(world.side, target, source);
    OK(tarn_free_on(source, world.side));
    for (int i = 0; i < 8; i++) {
        OK(tarn_malloc(world.device, WORDS * 4, world.stream, &others[i]));
        test_fill(world.stream, others[i], 0xdead, WORDS);
    }
    test_order(world.side, world.stream);
    OK(tarn_capture_end(capture, &graph));
    for (int i = 0; i < 3; i++) {
        test_set_words(world.stream, target, 0, WORDS);
        OK(tarn_graph_replay(graph, world.stream));
        test_expect_words(world.stream, target, 5, WORDS);
    }
    for (int i = 0; i < 8; i++)
        OK(tarn_free(others[i]));
    OK(tarn_free(target));
    OK(tarn_graph_destroy(graph));
}

/* Trim waits for the kernel: unmapped under it, the copy would fault. */
TEST(uses, a_block_pending_while_its_pool_is_trimmed_keeps_its_contents)
{
    void *source = test_alloc(world.pool, WORDS * 4, world.stream);
    void *target = test_alloc(world.default_pool, WORDS * 4, world.side);
    size_t freed = 0;

    test_fill(world.stream, source, 5, WORDS);
    test_order(world.stream, world.side);
    read_late(world.side, target, source);
    OK(tarn_free_on(source, world.side));
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_ge(freed, WORDS * 4);
    ck_assert_int_eq(test_stream_result(world.side), TN_CUDA_SUCCESS);
    test_expect_words(world.side, target, 5, WORDS);
    OK(tarn_free(target));
}

TEST(uses, a_block_is_reused_when_its_recorded_stream_is_done)
{
    void *address = test_malloc(32 * MIB);

    test_spin(world.side, 5);
    OK(tarn_free_on(address, world.side));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    test_synchronize(world.side);
    ck_assert_ptr_eq(test_malloc(32 * MIB), address);
    OK(tarn_free(address));
}

TEST(uses, calls_that_need_no_wait_return_while_the_gpu_is_busy)
{
    void *address = test_malloc(WORDS * 4);
    uint64_t begun;
    uint64_t took;

    test_spin(world.side, 300);
    begun = now_ms();
    OK(tarn_free_on(address, world.side));
    for (int i = 0; i < 10; i++)
        OK(tarn_free(test_malloc((size_t)(i + 1) * 4 * MIB)));
    took = now_ms() - begun;
    ck_assert_msg(took < 250, "allocation and free took %llu ms: they waited for a kernel",
                  (unsigned long long)took);
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    test_synchronize(world.side);
}

TEST(uses, trim_under_a_kernel_elsewhere_takes_nothing_that_it_uses)
{
    void *kept = test_alloc(world.pool, WORDS * 4, world.side);
    void *used = test_alloc(world.pool, 32 * MIB, world.side);
    void *idle = test_alloc(world.pool, 32 * MIB, world.stream);
    size_t freed = 0;

    test_fill(world.side, kept, 1, WORDS);
    test_spin(world.side, SPIN);
    test_fill(world.side, used, 7, WORDS);
    test_copy(world.side, kept, used, WORDS * 4);
    OK(tarn_free(used)); /* its own stream still writes to it */
    OK(tarn_free(idle));
    OK(tarn_pool_trim(world.pool, &freed)); /* unmapped too early, the kernel would fault */
    ck_assert_uint_ge(freed, 64 * MIB);
    ck_assert_int_eq(test_stream_result(world.side), TN_CUDA_SUCCESS);
    test_expect_words(world.side, kept, 7, WORDS);
    OK(tarn_free(kept));
}

TEST(uses, destroying_a_pool_waits_for_the_kernel_that_uses_it)
{
    tarn_pool *pool = test_pool("waits");
    void *block = test_alloc(pool, 32 * MIB, world.side);

    test_spin(world.side, SPIN);
    test_fill(world.side, block, 7, WORDS);
    OK(tarn_free(block));
    OK(tarn_pool_destroy(pool));
    ck_assert_int_eq(test_stream_result(world.side), TN_CUDA_SUCCESS);
}

TEST(uses, a_stream_that_captures_when_a_block_is_freed_is_asked_later)
{
    void *address = test_malloc(WORDS * 4);
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    OK(tarn_record_stream(address, world.side));
    OK(tarn_capture_begin(world.pool, world.side, NULL, &capture));
    OK(tarn_free(address));
    OK(tarn_free(test_malloc(64 * MIB))); /* looks at the pending block */
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_free(test_malloc(128 * MIB)));
    test_synchronize(world.side);
    OK(tarn_free(test_malloc(192 * MIB)));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 0);
    OK(tarn_graph_destroy(graph));
}
