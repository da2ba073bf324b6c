// SPDX-License-Identifier: Apache-2.0
/* Programs compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM: NULL is the calling thread's stream. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "support/world.h"

START_TEST(null_means_the_threads_own_stream)
{
    ck_assert_ptr_eq(tarn_stream_given(NULL), TN_CU_STREAM_PER_THREAD);
    ck_assert_ptr_eq(tarn_stream_given(world.stream), world.stream);
    ck_assert_ptr_eq(tarn_stream_given(TN_CU_STREAM_LEGACY), TN_CU_STREAM_LEGACY);
}
END_TEST

START_TEST(memory_freed_is_reused_by_the_threads_own_stream_alone)
{
    void *address = NULL;
    void *again = NULL;

    OK(tarn_malloc(world.device, 4 * MIB, NULL, &address));
    OK(tarn_free(address));
    OK(tarn_malloc(world.device, 4 * MIB, TN_CU_STREAM_LEGACY, &again));
    ck_assert_ptr_ne(again, address);
    OK(tarn_free(again));
    OK(tarn_pool_malloc(world.default_pool, 4 * MIB, 0, TN_CU_STREAM_PER_THREAD, &again));
    ck_assert_ptr_eq(again, address);
    OK(tarn_free(again));
}
END_TEST

START_TEST(a_use_on_null_is_a_use_on_the_threads_own_stream)
{
    void *address = NULL;

    OK(tarn_malloc(world.device, 4 * MIB, NULL, &address));
    OK(tarn_record_stream(address, NULL)); /* its own: nothing to wait for */
    sim.hold_work();
    test_spin(TN_CU_STREAM_PER_THREAD, 1);
    OK(tarn_free_on(address, NULL));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 0);
    OK(tarn_malloc(world.device, 4 * MIB, world.stream, &address));
    OK(tarn_free_on(address, NULL));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    sim.resume_work();
}
END_TEST

START_TEST(the_threads_own_stream_is_captured_restored_and_replayed_as_null)
{
    tarn_checkpoint *checkpoint = NULL;
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *address = NULL;

    OK(tarn_capture_begin(world.pool, NULL, NULL, &capture));
    OK(tarn_malloc(world.device, 4096, NULL, &address));
    test_add(TN_CU_STREAM_PER_THREAD, address, 1, 1);
    OK(tarn_capture_end(capture, &graph));
    test_set_words(TN_CU_STREAM_PER_THREAD, address, 4, 1);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, NULL, &checkpoint));
    OK(tarn_graph_replay(graph, NULL));
    ck_assert_uint_eq(test_read(TN_CU_STREAM_PER_THREAD, address), 5);
    OK(tarn_checkpoint_restore(checkpoint, NULL, NULL));
    ck_assert_uint_eq(test_read(TN_CU_STREAM_PER_THREAD, address), 4);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(address));
}
END_TEST

static void allocate_on_null(void *argument)
{
    void **address = argument;

    test_set_context(test_retain(0));
    OK(tarn_malloc(world.device, 4 * MIB, NULL, address));
    test_release(0);
}

START_TEST(each_thread_has_its_own_memory)
{
    void *mine = NULL;
    void *theirs = NULL;

    OK(tarn_malloc(world.device, 4 * MIB, NULL, &mine));
    OK(tarn_free(mine));
    test_elsewhere(allocate_on_null, &theirs);
    ck_assert_ptr_ne(theirs, mine);
    OK(tarn_free(theirs));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("per-thread default streams");
    TCase *tcase = tcase_create("per-thread default streams");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, test_world_open, test_world_close);
    tcase_add_test(tcase, null_means_the_threads_own_stream);
    tcase_add_test(tcase, memory_freed_is_reused_by_the_threads_own_stream_alone);
    tcase_add_test(tcase, a_use_on_null_is_a_use_on_the_threads_own_stream);
    tcase_add_test(tcase, the_threads_own_stream_is_captured_restored_and_replayed_as_null);
    tcase_add_test(tcase, each_thread_has_its_own_memory);
    return test_main(suite);
}
