// SPDX-License-Identifier: Apache-2.0
/* test_context.c -- contexts that programs make, primary ones, and what goes with each; peers. */
#include "sim_test.h"

static tn_cu_context make_context(int device)
{
    tn_cu_context context;
    OK(cu.cuCtxCreate(&context, 0, device));
    return context;
}

static tn_cu_context current(void)
{
    tn_cu_context context;
    OK(cu.cuCtxGetCurrent(&context));
    return context;
}

GROUP(bare, start_driver, .name = "no context")

/* SX2 */
TEST(bare, a_context_takes_with_it_what_it_has)
{
    tarn_sim_ledger before = ledger();
    tn_cu_context outer = make_context(0);
    tn_cu_context inner = make_context(0);
    ck_assert_ptr_eq(current(), inner);
    ck_assert_uint_eq(ledger().contexts, before.contexts + 2);
    tn_cu_deviceptr linear;
    void *host;
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = new_event();
    load_kernels();
    OK(cu.cuMemAlloc(&linear, 4096));
    OK(cu.cuMemHostAlloc(&host, 4096, 0));
    struct mapped mapped = map_new(2 * MIB);
    OK(cu.cuMemsetD8Async(mapped.address, 7, 2 * MIB, stream));
    OK(cu.cuCtxDestroy(inner)); /* its work is done first */
    ck_assert_ptr_eq(current(), outer);
    ck_assert_uint_eq(*(volatile unsigned char *)(mapped.address + 2 * MIB - 1), 7);
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuStreamQuery(stream));
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuEventQuery(event));
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuEventDestroy(event));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuEventDestroy(event));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemFree(linear));
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuCtxSetCurrent(inner));
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuCtxPushCurrent(inner));
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxDestroy(inner));
    unmap_all(mapped);
    OK(cu.cuCtxDestroy(outer));
    ck_assert_ptr_null(current());
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

static tn_cu_result ask_with_destroyed(void *argument)
{
    tn_cu_context context = argument;
    tn_cu_stream stream;
    OK(cu.cuCtxSetCurrent(context));
    OK(cu.cuCtxPushCurrent(context));
    OK(cu.cuCtxDestroy(context));
    ck_assert_ptr_eq(current(), context); /* one entry of two has gone */
    return cu.cuStreamCreate(&stream, 0);
}

TEST(bare, a_thread_that_has_a_destroyed_context_learns_it)
{
    tn_cu_context context = make_context(0);
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, elsewhere(ask_with_destroyed, context));
    ck_assert_ptr_eq(current(), context);
    tn_cu_device device;
    OK(cu.cuCtxGetDevice(&device)); /* it still says where it was */
    OK(cu.cuCtxPopCurrent(&context));
    ck_assert_ptr_null(current());
}

TEST(bare, each_context_has_default_streams_of_its_own)
{
    unsigned long long ids[4];
    tn_cu_context first = make_context(0);
    OK(cu.cuStreamGetId(TN_CU_STREAM_PER_THREAD, &ids[0]));
    OK(cu.cuStreamGetId(NULL, &ids[1]));
    make_context(0);
    OK(cu.cuStreamGetId(TN_CU_STREAM_PER_THREAD, &ids[2]));
    OK(cu.cuStreamGetId(NULL, &ids[3]));
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++)
            ck_assert_uint_ne(ids[i], ids[j]);
    }
    unsigned long long again;
    OK(cu.cuCtxSetCurrent(first));
    OK(cu.cuStreamGetId(TN_CU_STREAM_PER_THREAD, &again));
    ck_assert_uint_eq(again, ids[0]);
}

/* SX1 */
TEST(bare, a_primary_context_lives_while_it_is_retained)
{
    tn_cu_context context;
    int active;
    unsigned int flags;
    OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    ck_assert_int_eq(active, 0);
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxDestroy(context));
    OK(cu.cuDevicePrimaryCtxRelease(0));
    OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    ck_assert_int_eq(active, 1);
    OK(cu.cuDevicePrimaryCtxRelease(0));
    OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    ck_assert_int_eq(active, 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease(0));
}

TEST(bare, a_reset_ends_a_primary_context_and_leaves_its_count)
{
    tn_cu_context context;
    tn_cu_deviceptr linear;
    size_t bytes;
    tarn_sim_ledger before = ledger();
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxPushCurrent(context));
    OK(cu.cuMemAlloc(&linear, 4096));
    new_stream(TN_CU_STREAM_DEFAULT);
    OK(cu.cuDevicePrimaryCtxReset(0));
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuMemGetInfo(&bytes, &bytes));
    OK(cu.cuCtxPopCurrent(NULL));
    OK(cu.cuDevicePrimaryCtxRelease(0));
    OK(cu.cuDevicePrimaryCtxRelease(0));
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

GROUP(two, load_two_devices, .name = "two devices")

TEST(two, a_fault_is_every_contexts_of_its_device)
{
    tn_cu_context first = make_context(0);
    tn_cu_stream stream_of_first = new_stream(TN_CU_STREAM_NON_BLOCKING);
    make_context(0);
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_context elsewhere_context = make_context(1);
    tn_cu_stream stream_elsewhere = new_stream(TN_CU_STREAM_NON_BLOCKING);
    struct mapped mapped = map_new(2 * MIB);
    sim.tarn_sim_hold_work();
    OK(cu.cuMemsetD8Async(mapped.address, 1, 16, stream));
    unmap_all(mapped);
    sim.tarn_sim_resume_work();
    ANSWERS(TN_CUDA_ERROR_LAUNCH_FAILED, cu.cuStreamSynchronize(stream));
    ANSWERS(TN_CUDA_ERROR_LAUNCH_FAILED, cu.cuStreamQuery(stream_of_first));
    OK(cu.cuStreamQuery(stream_elsewhere));
    OK(cu.cuCtxDestroy(first));
    ANSWERS(TN_CUDA_ERROR_LAUNCH_FAILED, cu.cuCtxCreate(&first, 0, 0));
    OK(cu.cuDevicePrimaryCtxReset(0));
    ANSWERS(TN_CUDA_ERROR_LAUNCH_FAILED, cu.cuDevicePrimaryCtxRetain(&first, 0));
    OK(cu.cuCtxDestroy(elsewhere_context));
}

GROUP(lax, load_lax_driver)

TEST(lax, a_lax_driver_makes_a_destroyed_context_current)
{
    tn_cu_context context = make_context(0);
    size_t bytes;
    OK(cu.cuCtxDestroy(context));
    OK(cu.cuCtxSetCurrent(context));
    OK(cu.cuCtxPushCurrent(context));
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuMemGetInfo(&bytes, &bytes));
}

TEST(two, a_peer_context_lets_sets_in_and_copies_need_none)
{
    tn_cu_context here = current();
    tn_cu_deviceptr linear;
    tn_cu_deviceptr own;
    int can;
    OK(cu.cuDeviceCanAccessPeer(&can, 0, 1));
    ck_assert_int_eq(can, 1);
    OK(cu.cuDeviceCanAccessPeer(&can, 0, 0));
    ck_assert_int_eq(can, 0);
    tn_cu_context there;
    OK(cu.cuDevicePrimaryCtxRetain(&there, 1));
    OK(cu.cuCtxSetCurrent(there));
    OK(cu.cuMemAlloc(&linear, 4096));
    OK(cu.cuCtxSetCurrent(here));
    OK(cu.cuMemAlloc(&own, 4096));
    OK(cu.cuMemcpyDtoDAsync(own, linear, 4096, NULL));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyDtoDAsync(own, linear, 4097, NULL));
    ANSWERS(TN_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cu.cuCtxDisablePeerAccess(there));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8Async(linear, 1, 16, NULL));
    ANSWERS(TN_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cu.cuCtxEnablePeerAccess(here, 0));
    OK(cu.cuCtxEnablePeerAccess(there, 0));
    ANSWERS(TN_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cu.cuCtxEnablePeerAccess(there, 0));
    OK(cu.cuMemsetD8Async(linear, 1, 16, NULL));
    OK(cu.cuCtxSynchronize());
    OK(cu.cuCtxDisablePeerAccess(there));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8Async(linear, 1, 16, NULL));
    OK(cu.cuCtxEnablePeerAccess(there, 0));
    OK(cu.cuDevicePrimaryCtxRelease(1)); /* and with it, the access */
    ANSWERS(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, cu.cuCtxDisablePeerAccess(there));
    OK(cu.cuDevicePrimaryCtxRetain(&there, 1));
    ANSWERS(TN_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cu.cuCtxDisablePeerAccess(there));
    make_context(0);
    ANSWERS(TN_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cu.cuCtxEnablePeerAccess(here, 0));
}
