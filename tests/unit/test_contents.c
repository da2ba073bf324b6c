// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/contents.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tn_cu_stream other;

static void make_pool(void)
{
    device = unit_device();
    pool = unit_pool_of(device, "net", 0);
    stream = test_stream();
    other = test_stream();
}

static tarn_checkpoint *take(void)
{
    tarn_checkpoint *checkpoint;

    OK(tn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &checkpoint));
    return checkpoint;
}

static uint64_t copies(void)
{
    return sim.call_count("cuMemcpyDtoDAsync");
}

START_TEST(bytes_are_as_of_the_stream_at_the_call)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;

    sim.hold_work();
    test_fill(stream, address, 1, 1024); /* before the take */
    checkpoint = take();
    test_fill(stream, address, 2, 1024); /* behind it */
    sim.resume_work();
    test_expect_words(stream, checkpoint->contents, 1, 1024);
    test_expect_words(stream, address, 2, 1024);
}
END_TEST

START_TEST(neighbours_are_copied_as_one)
{
    void *gap;
    uint64_t before;

    for (int i = 0; i < 8; i++)
        (void)unit_alloc(pool, 4096, stream);
    gap = unit_alloc(pool, 4096, stream);
    (void)unit_alloc(pool, 4096, stream);
    OK(tarn_free(gap));
    before = copies();
    (void)take();
    ck_assert_uint_eq(copies() - before, 2);
}
END_TEST

START_TEST(the_memory_is_a_block_of_the_default_pool)
{
    tarn_checkpoint *checkpoint;
    struct tn_block *block;

    (void)unit_alloc(pool, 5000, stream);
    checkpoint = take();
    block = unit_block(checkpoint->contents);
    ck_assert_ptr_eq(atomic_load(&block->segment->owner), device->default_pool);
    ck_assert_uint_eq(block->requested, 5120);
    ck_assert(tn_order_equal(block->order, unit_order(device, stream)));
    ck_assert(tn_order_equal(checkpoint->order, block->order));
    tn_checkpoint_destroy(checkpoint);
    ck_assert_uint_eq(device->default_pool->counters.live_count, 0);
}
END_TEST

START_TEST(another_stream_waits_for_the_copies_out)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;

    test_fill(stream, address, 1, 1024);
    test_synchronize(stream);
    sim.hold_work();
    checkpoint = take(); /* its copies are still to run */
    sim.resume_work();
    test_fill(stream, address, 2, 1024);
    test_synchronize(stream);
    OK(tn_checkpoint_restore(checkpoint, other, NULL));
    test_expect_words(other, address, 1, 1024);
}
END_TEST

START_TEST(a_load_on_another_stream_is_ordered_by_the_event)
{
    uint64_t waits = sim.call_count("cuStreamWaitEvent");
    tarn_checkpoint *checkpoint;
    struct tn_use *use;

    (void)unit_alloc(pool, 4096, stream);
    checkpoint = take();
    OK(tn_use_make(&device->gpu, stream, unit_order(device, stream), &use));
    OK(tn_contents_load(checkpoint, stream, use->order, use));
    ck_assert_uint_eq(sim.call_count("cuStreamWaitEvent"), waits); /* its own stream */
    tn_contents_add_use(checkpoint, use);
    OK(tn_use_make(&device->gpu, other, unit_order(device, other), &use));
    OK(tn_contents_load(checkpoint, other, use->order, use));
    ck_assert_uint_eq(sim.call_count("cuStreamWaitEvent"), waits + 1);
    tn_contents_add_use(checkpoint, use);
    tn_checkpoint_destroy(checkpoint);
}
END_TEST

START_TEST(a_load_that_the_driver_refuses_is_a_failure)
{
    static const char *const calls[] = {"cuMemcpyDtoDAsync", "cuEventRecord", "cuStreamWaitEvent"};
    tarn_checkpoint *checkpoint;
    struct tn_use *use;

    (void)unit_alloc(pool, 4096, stream);
    checkpoint = take();
    OK(tn_use_make(&device->gpu, other, unit_order(device, other), &use));
    for (size_t i = 0; i < 3; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tn_contents_load(checkpoint, other, use->order, use));
        unit_expect_sentence(calls[i]);
    }
    tn_use_end(&device->gpu, use);
}
END_TEST

START_TEST(contents_dropped_while_another_stream_reads_them_are_kept)
{
    void *address = unit_alloc(pool, 4096, other);
    tarn_checkpoint *checkpoint;
    void *contents;

    test_fill(other, address, 1, 1024);
    test_synchronize(other);
    checkpoint = take();
    contents = checkpoint->contents;
    test_synchronize(stream);
    test_fill(other, address, 2, 1024);
    sim.hold_work();
    OK(tn_checkpoint_restore(checkpoint, other, NULL)); /* reads them later */
    tn_checkpoint_destroy(checkpoint);
    ck_assert_int_eq(unit_block(contents)->state, TN_BLOCK_PENDING);
    sim.resume_work();
    test_expect_words(other, address, 1, 1024);
    tn_lock_acquire(&device->default_pool->lock);
    tn_pending_poll(device->default_pool, false);
    tn_lock_release(&device->default_pool->lock);
    ck_assert_uint_eq(device->default_pool->counters.pending_count, 0);
    OK(tarn_pool_validate(device->default_pool));
}
END_TEST

START_TEST(bytes_that_nobody_asked_for_are_not_copied)
{
    char *first = unit_alloc(pool, 1000, stream); /* of 1024 */
    char *second = unit_alloc(pool, 1024, stream);
    tarn_checkpoint *checkpoint;
    uint64_t before = copies();

    ck_assert_ptr_eq(second, first + 1024);
    test_fill(stream, first, 1, 250);
    test_fill(stream, second, 2, 256);
    checkpoint = take();
    ck_assert_uint_eq(copies() - before, 2); /* padding lies between them */
    test_fill(stream, first, 3, 512);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    test_expect_words(stream, first, 1, 250);
    test_expect_words(stream, first + 1000, 3, 6);
    test_expect_words(stream, second, 2, 256);
}
END_TEST

START_TEST(a_stream_that_loads_twice_has_one_use)
{
    tarn_checkpoint *checkpoint;
    uint64_t events;

    (void)unit_alloc(pool, 4096, stream);
    checkpoint = take();
    OK(tn_checkpoint_restore(checkpoint, other, NULL));
    events = test_ledger().events;
    for (int i = 0; i < 5; i++)
        OK(tn_checkpoint_restore(checkpoint, other, NULL));
    ck_assert_uint_eq(test_ledger().events, events);
    ck_assert_ptr_nonnull(unit_block(checkpoint->contents)->uses);
    ck_assert_ptr_null(unit_block(checkpoint->contents)->uses->next);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("contents");
    TCase *save = tcase_create("save");
    TCase *load = tcase_create("load");
    TCase *drop = tcase_create("drop");

    tcase_add_checked_fixture(save, make_pool, NULL);
    tcase_add_test(save, bytes_are_as_of_the_stream_at_the_call);
    tcase_add_test(save, neighbours_are_copied_as_one);
    tcase_add_test(save, bytes_that_nobody_asked_for_are_not_copied);
    tcase_add_test(save, the_memory_is_a_block_of_the_default_pool);
    suite_add_tcase(suite, save);
    tcase_add_checked_fixture(load, make_pool, NULL);
    tcase_add_test(load, another_stream_waits_for_the_copies_out);
    tcase_add_test(load, a_load_on_another_stream_is_ordered_by_the_event);
    tcase_add_test(load, a_load_that_the_driver_refuses_is_a_failure);
    tcase_add_test(load, a_stream_that_loads_twice_has_one_use);
    suite_add_tcase(suite, load);
    tcase_add_checked_fixture(drop, make_pool, NULL);
    tcase_add_test(drop, contents_dropped_while_another_stream_reads_them_are_kept);
    suite_add_tcase(suite, drop);
    return test_main(suite);
}
