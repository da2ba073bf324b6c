// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "driver/foreign.h"
#include "driver/idle.h"
#include "driver/open.h"
#include "driver/pinned.h"
#include "support/world.h"
#include "unit/unit.h"

static struct tn_gpu gpu;
static tn_cu_stream stream;

static void open_gpu(void)
{
    unit_gpu(&gpu);
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

GROUP(pinned, open_gpu)

TEST(pinned, what_is_given_up_is_kept_for_the_next_taker)
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

TEST(pinned, the_smallest_that_fits_is_taken)
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

TEST(pinned, memory_that_the_device_uses_is_not_handed_out)
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

static struct tn_pinned *used_abroad;
static atomic_bool given_back;

static void *trim_all(void *argument)
{
    tn_pinned_trim(&gpu, 0);
    atomic_store(&given_back, true);
    return argument;
}

static void *drop_one(void *argument)
{
    tn_pinned_drop(&gpu, used_abroad);
    atomic_store(&given_back, true);
    return argument;
}

/* The driver's own wait, when memory is given back, is for one context. */
TEST(pinned, what_streams_of_another_context_copy_from_is_waited_for)
{
    tn_cu_context own = test_context();
    tn_cu_context context = test_make_context();
    tn_cu_stream foreign = test_stream();
    void *memory = test_linear_alloc(MIB);
    uint64_t hosts = test_ledger().host_allocations;

    test_set_context(own);
    OK(tn_stream_meet(&gpu, foreign));
    for (int how = 0; how < 2; how++) {
        tn_cu_event event = NULL;
        pthread_t thread;

        used_abroad = take(MIB);
        sim.hold_work();
        OK(tn_stream_download(&gpu, used_abroad->address, (uint64_t)(uintptr_t)memory, MIB,
                              foreign));
        if (how == 0) {
            OK(tn_event_create(&gpu, foreign, &event));
            ck_assert(tn_event_record(&gpu, event, foreign));
            tn_pinned_give(&gpu, used_abroad, event);
        }
        atomic_store(&given_back, false);
        ck_assert_int_eq(pthread_create(&thread, NULL, how == 0 ? trim_all : drop_one, NULL), 0);
        (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
        ck_assert(!atomic_load(&given_back));
        ck_assert_uint_eq(test_ledger().host_allocations, hosts + 1);
        sim.resume_work();
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_uint_eq(test_ledger().host_allocations, hosts);
    }
    test_end_context(context);
}

/* _i: whether it is refused once. */
TEST_LOOP(pinned, what_no_context_can_be_had_for_stays_in_the_books, 0, 4)
{
    static const char *const calls[] = {"cuCtxGetCurrent", "cuCtxPushCurrent"};
    uint64_t hosts = test_ledger().host_allocations;
    uint64_t bytes;
    uint64_t cached;

    tn_pinned_give(&gpu, take(MIB), NULL);
    test_set_context(NULL);
    sim.plan_fault(calls[_i / 2], 1, _i % 2, TN_CUDA_ERROR_UNKNOWN);
    tn_pinned_trim(&gpu, 0);
    ck_assert_uint_gt(sim.clear_fault(NULL), 0);
    tn_pinned_usage(&gpu, &bytes, &cached);
    if (_i % 2 == 0) {
        OK(tn_gpu_check(&gpu));
        ck_assert_uint_eq(bytes, 0);
        ck_assert_uint_eq(test_ledger().host_allocations, hosts);
    } else {
        STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu));
        ck_assert_uint_eq(bytes, MIB);
        ck_assert_uint_eq(cached, MIB);
        ck_assert_uint_eq(test_ledger().host_allocations, hosts + 1);
    }
    tn_gpu_close(&gpu); /* where it is tried again */
    ck_assert_uint_eq(test_ledger().host_allocations, hosts);
}

TEST(pinned, what_the_driver_does_not_take_back_is_tried_again_at_the_end)
{
    uint64_t hosts = test_ledger().host_allocations;
    uint64_t bytes;
    uint64_t cached;

    sim.plan_fault("cuMemFreeHost", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    tn_pinned_drop(&gpu, take(MIB));
    (void)sim.clear_fault(NULL);
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu));
    tn_pinned_usage(&gpu, &bytes, &cached);
    ck_assert_uint_eq(bytes, MIB);
    tn_gpu_close(&gpu);
    ck_assert_uint_eq(test_ledger().host_allocations, hosts);
}

TEST(pinned, what_cannot_be_waited_for_is_kept_and_not_handed_out)
{
    uint64_t hosts = test_ledger().host_allocations;
    struct tn_pinned *pinned = take(MIB);
    struct tn_pinned *next;
    tn_cu_event event;
    uint64_t waits;

    sim.plan_fault("cuMemFree", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    tn_pinned_drop(&gpu, pinned);
    tn_pinned_trim(&gpu, 0);
    (void)sim.clear_fault(NULL);
    ck_assert_uint_eq(test_ledger().host_allocations, hosts + 1);
    ck_assert_uint_eq(gpu.pinned_cached, MIB);
    next = take(MIB);
    ck_assert_ptr_ne(next, pinned);
    OK(tn_gpu_wait_idle(&gpu)); /* proves it */
    ck_assert_ptr_eq(take(MIB), pinned);
    OK(tn_event_create(&gpu, stream, &event));
    tn_pinned_give(&gpu, pinned, event);
    tn_pinned_give(&gpu, next, NULL);
    waits = atomic_load(&gpu.calls[TN_CALL_WAIT]);
    sim.plan_fault("cuEventSynchronize", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    tn_pinned_trim(&gpu, 0);
    ck_assert_uint_eq(atomic_load(&gpu.calls[TN_CALL_WAIT]), waits + 1);
    ck_assert_uint_eq(test_ledger().host_allocations, hosts);
}

/* D5 */
TEST(pinned, what_is_kept_has_a_limit)
{
    struct tn_pinned *pinned[4];
    uint64_t hosts = test_ledger().host_allocations;
    uint64_t bytes;
    uint64_t cached_bytes;

    for (int i = 0; i < 4; i++)
        pinned[i] = take(100 * MIB);
    tn_pinned_usage(&gpu, &bytes, &cached_bytes);
    ck_assert_uint_eq(bytes, 400 * MIB);
    ck_assert_uint_eq(cached_bytes, 0);
    for (int i = 0; i < 4; i++)
        tn_pinned_give(&gpu, pinned[i], NULL);
    tn_pinned_usage(&gpu, &bytes, &cached_bytes);
    ck_assert_uint_eq(cached_bytes, 200 * MIB);
    ck_assert_uint_eq(bytes, 200 * MIB);
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

TEST(pinned, captures_are_left_alone)
{
    struct tn_pinned *pinned;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    pinned = take(MIB);
    tn_pinned_drop(&gpu, pinned);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(stream));
}

TEST(pinned, what_cannot_be_had_is_a_failure)
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
