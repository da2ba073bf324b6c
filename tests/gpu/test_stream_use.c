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

/* Reads the block late on the side stream while its own stream would like to overwrite it. */
static void read_late(bool free_on)
{
    void *source = test_malloc(WORDS * 4);
    void *target = test_alloc(world.pool, WORDS * 4, world.side);
    void *others[8];

    test_fill(world.stream, source, 5, WORDS);
    test_order(world.stream, world.side);
    test_spin(world.side, SPIN);
    test_copy(world.side, target, source, WORDS * 4);
    if (free_on) {
        OK(tarn_free_on(source, world.side));
    } else {
        OK(tarn_record_stream(source, world.side));
        OK(tarn_free(source));
    }
    for (int i = 0; i < 8; i++) {
        others[i] = test_malloc(WORDS * 4);
        test_fill(world.stream, others[i], 0xdead, WORDS);
    }
    test_synchronize(world.stream);
    test_expect_words(world.side, target, 5, WORDS);
    for (int i = 0; i < 8; i++)
        OK(tarn_free(others[i]));
    OK(tarn_free(target));
    OK(tarn_pool_trim(world.default_pool, NULL));
}

START_TEST(a_block_freed_under_a_kernel_on_a_recorded_stream_keeps_its_contents)
{
    read_late(false);
}
END_TEST

START_TEST(a_block_freed_on_another_stream_keeps_its_contents)
{
    read_late(true);
}
END_TEST

START_TEST(a_block_is_reused_when_its_recorded_stream_is_done)
{
    void *address = test_malloc(32 * MIB);

    test_spin(world.side, 5);
    OK(tarn_free_on(address, world.side));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    test_synchronize(world.side);
    ck_assert_ptr_eq(test_malloc(32 * MIB), address);
    OK(tarn_free(address));
}
END_TEST

START_TEST(calls_that_need_no_wait_return_while_the_gpu_is_busy)
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
END_TEST

START_TEST(trim_under_a_kernel_elsewhere_takes_nothing_that_it_uses)
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
END_TEST

START_TEST(destroying_a_pool_waits_for_the_kernel_that_uses_it)
{
    tarn_pool *pool = test_pool("waits");
    void *block = test_alloc(pool, 32 * MIB, world.side);

    test_spin(world.side, SPIN);
    test_fill(world.side, block, 7, WORDS);
    OK(tarn_free(block));
    OK(tarn_pool_destroy(pool));
    ck_assert_int_eq(test_stream_result(world.side), TN_CUDA_SUCCESS);
}
END_TEST

START_TEST(a_stream_that_captures_when_a_block_is_freed_is_asked_later)
{
    void *address = test_malloc(WORDS * 4);
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    OK(tarn_record_stream(address, world.side));
    OK(tarn_capture_begin(world.pool, world.side, TARN_CAPTURE_GLOBAL, &capture));
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
END_TEST

int main(void)
{
    Suite *suite = suite_create("use on several streams");
    TCase *tcase = tcase_create("stream use");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, test_world_open, test_world_close);
    tcase_add_test(tcase, a_block_freed_under_a_kernel_on_a_recorded_stream_keeps_its_contents);
    tcase_add_test(tcase, a_block_freed_on_another_stream_keeps_its_contents);
    tcase_add_test(tcase, a_block_is_reused_when_its_recorded_stream_is_done);
    tcase_add_test(tcase, calls_that_need_no_wait_return_while_the_gpu_is_busy);
    tcase_add_test(tcase, trim_under_a_kernel_elsewhere_takes_nothing_that_it_uses);
    tcase_add_test(tcase, destroying_a_pool_waits_for_the_kernel_that_uses_it);
    tcase_add_test(tcase, a_stream_that_captures_when_a_block_is_freed_is_asked_later);
    return test_main(suite);
}
