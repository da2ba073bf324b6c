// SPDX-License-Identifier: Apache-2.0
#include "driver/pinned.h"
#include "support/world.h"
#include "unit/unit.h"

static struct tn_gpu gpu;
static tn_cu_stream stream;

static void open_gpu(void)
{
    const struct tn_driver *driver;

    test_start();
    OK(tn_driver_load(&driver));
    OK(tn_gpu_open(&gpu, driver, 0));
    stream = test_stream();
}

static struct tn_pinned *take(uint64_t bytes)
{
    struct tn_pinned *pinned = NULL;

    OK(tn_pinned_take(&gpu, bytes, &pinned));
    ck_assert_uint_ge(pinned->bytes, bytes);
    memset(pinned->address, 1, bytes); /* it is there */
    return pinned;
}

static uint64_t taken(void)
{
    return sim.call_count("cuMemHostAlloc");
}

START_TEST(what_is_given_up_is_kept_for_the_next_taker)
{
    struct tn_pinned *first = take(MIB);
    void *address = first->address;
    uint64_t before = taken();

    tn_pinned_give(&gpu, first, NULL);
    ck_assert_uint_eq(gpu.pinned_cached, MIB);
    first = take(MIB - 100000);
    ck_assert_ptr_eq(first->address, address);
    ck_assert_uint_eq(gpu.pinned_cached, 0);
    tn_pinned_give(&gpu, first, NULL);
    ck_assert_uint_eq(taken(), before);
    first = take(MIB / 4); /* not one that is much too large */
    ck_assert_uint_eq(taken(), before + 1);
    tn_pinned_give(&gpu, first, NULL);
}
END_TEST

START_TEST(the_smallest_that_fits_is_taken)
{
    static const uint64_t sizes[] = {4, 3, 5, 2};
    struct tn_pinned *pinned[4];

    for (int i = 0; i < 4; i++)
        pinned[i] = take(sizes[i] * MIB);
    for (int i = 0; i < 4; i++)
        tn_pinned_give(&gpu, pinned[i], NULL);
    ck_assert_ptr_eq(take(3 * MIB - 5), pinned[1]);
    tn_pinned_drop(&gpu, pinned[1]);
    tn_gpu_close(&gpu);
}
END_TEST

START_TEST(memory_that_the_device_uses_is_not_handed_out)
{
    struct tn_pinned *first = take(MIB);
    struct tn_pinned *second;
    tn_cu_event event;

    OK(tn_event_create(&gpu, stream, &event));
    sim.hold_work();
    test_spin(stream, 1);
    ck_assert(tn_event_record(&gpu, event, stream));
    tn_pinned_give(&gpu, first, event);
    second = take(MIB);
    ck_assert_ptr_ne(second, first);
    sim.resume_work();
    test_synchronize(stream);
    ck_assert_ptr_eq(take(MIB), first);
    tn_pinned_drop(&gpu, first);
    tn_pinned_drop(&gpu, second);
    tn_gpu_close(&gpu);
}
END_TEST

/* D5 */
START_TEST(what_is_kept_has_a_limit)
{
    struct tn_pinned *pinned[4];
    uint64_t hosts = test_ledger().host_allocations;

    for (int i = 0; i < 4; i++)
        pinned[i] = take(100 * MIB);
    for (int i = 0; i < 4; i++)
        tn_pinned_give(&gpu, pinned[i], NULL);
    ck_assert_uint_eq(gpu.pinned_cached, 200 * MIB);
    ck_assert_uint_eq(atomic_load(&gpu.pinned_bytes), 200 * MIB);
    ck_assert_uint_eq(test_ledger().host_allocations, hosts + 2);
    ck_assert_ptr_eq(gpu.pinned, pinned[3]); /* the oldest have gone */
    tn_pinned_trim(&gpu, 100 * MIB);
    ck_assert_uint_eq(test_ledger().host_allocations, hosts + 1);
    tn_pinned_drop(&gpu, take(10 * MIB));
    tn_gpu_close(&gpu);
    ck_assert_uint_eq(test_ledger().host_allocations, hosts);
}
END_TEST

START_TEST(captures_are_left_alone)
{
    struct tn_pinned *pinned;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    pinned = take(MIB);
    tn_pinned_drop(&gpu, pinned);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(stream));
}
END_TEST

START_TEST(what_cannot_be_had_is_a_failure)
{
    struct tn_pinned *pinned = NULL;

    sim.plan_fault("cuMemHostAlloc", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_HOST_MEMORY, tn_pinned_take(&gpu, MIB, &pinned));
    unit_expect_sentence("page-locked");
    sim.plan_fault("cuMemHostAlloc", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_pinned_take(&gpu, MIB, &pinned));
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_pinned_take(&gpu, MIB, &pinned));
    ck_assert_ptr_null(pinned);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pinned");
    TCase *tcase = tcase_create("pinned");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, open_gpu, NULL);
    tcase_add_test(tcase, what_is_given_up_is_kept_for_the_next_taker);
    tcase_add_test(tcase, the_smallest_that_fits_is_taken);
    tcase_add_test(tcase, memory_that_the_device_uses_is_not_handed_out);
    tcase_add_test(tcase, what_is_kept_has_a_limit);
    tcase_add_test(tcase, captures_are_left_alone);
    tcase_add_test(tcase, what_cannot_be_had_is_a_failure);
    return test_main(suite);
}
