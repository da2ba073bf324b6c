// SPDX-License-Identifier: Apache-2.0
/* test_library.c -- libraries: kernels of no context, their functions in each. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "sim_test.h"

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry library_store(.param .u64 address, .param .u32 value) { ret; }\n";

static void store(const tarn_sim_launch *launch, void *const *params)
{
    uint32_t *address;
    (void)launch;
    memcpy(&address, params[0], sizeof address);
    memcpy(address, params[1], sizeof *address);
}

static tn_cu_library load(void)
{
    tn_cu_library library;
    ck_assert_int_eq(sim.tarn_sim_register_kernel("library_store", store), 0);
    OK(cu.cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

static tn_cu_kernel kernel_of(tn_cu_library library)
{
    tn_cu_kernel kernel;
    OK(cu.cuLibraryGetKernel(&kernel, library, "library_store"));
    return kernel;
}

static tn_cu_function function_of(tn_cu_kernel kernel)
{
    tn_cu_function function;
    OK(cu.cuKernelGetFunction(&function, kernel));
    return function;
}

static tn_cu_result launch(void *handle, tn_cu_stream stream, tn_cu_deviceptr address,
                           uint32_t value)
{
    void *params[] = {&address, &value};
    return cu.cuLaunchKernel(handle, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

GROUP(library, start_context)

/* SL2 */
TEST(library, a_kernel_has_one_function_in_each_context)
{
    tn_cu_context own;
    tarn_sim_ledger before = ledger();
    tn_cu_kernel kernel = kernel_of(load());
    tn_cu_function here = function_of(kernel);
    ck_assert_ptr_eq(function_of(kernel), here);
    OK(cu.cuCtxCreate(&own, 0, 0));
    tn_cu_function there = function_of(kernel);
    ck_assert_ptr_ne(there, here);
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, launch(here, stream, mapped.address, 1));
    OK(launch(there, stream, mapped.address, 2));
    OK(launch(kernel, stream, mapped.address + 4, 3));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(*(volatile uint32_t *)mapped.address, 2);
    ck_assert_uint_eq(*(volatile uint32_t *)(mapped.address + 4), 3);
    unmap_all(mapped);
    OK(cu.cuCtxDestroy(own));
    ck_assert_uint_eq(ledger().modules, before.modules + 1); /* the library itself */
}

/* SL1 */
TEST(library, functions_go_with_their_context_and_with_the_library)
{
    tn_cu_context own;
    const char *name;
    tarn_sim_ledger before = ledger();
    tn_cu_library library = load();
    tn_cu_kernel kernel = kernel_of(library);
    tn_cu_function here = function_of(kernel);
    OK(cu.cuCtxCreate(&own, 0, 0));
    tn_cu_function there = function_of(kernel);
    OK(cu.cuCtxDestroy(own));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuFuncGetName(&name, there));
    OK(cu.cuFuncGetName(&name, here));
    ck_assert_str_eq(name, "library_store");
    OK(cu.cuLibraryUnload(library));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuFuncGetName(&name, here));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuKernelGetName(&name, kernel));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuLibraryUnload(library));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE,
            launch(kernel, new_stream(TN_CU_STREAM_NON_BLOCKING), 0, 0));
    before.streams++;
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

TEST(library, a_module_of_a_library_can_be_unloaded_alone)
{
    tn_cu_module module;
    const char *name;
    tn_cu_library library = load();
    tn_cu_kernel kernel = kernel_of(library);
    tn_cu_function first = function_of(kernel);
    OK(cu.cuFuncGetModule(&module, first));
    OK(cu.cuModuleUnload(module));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuFuncGetName(&name, first));
    OK(cu.cuFuncGetName(&name, function_of(kernel))); /* made anew */
    ck_assert_uint_eq(ledger().modules, 1);
    OK(cu.cuLibraryUnload(library));
    ck_assert_uint_eq(ledger().modules, 0);
}

static void *resume_soon(void *unused)
{
    (void)unused;
    usleep(20000);
    sim.tarn_sim_resume_work();
    return NULL;
}

TEST(library, unloading_a_library_waits_for_work_that_may_use_it)
{
    pthread_t thread;
    tn_cu_library library = load();
    tn_cu_kernel kernel = kernel_of(library);
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    sim.tarn_sim_hold_work();
    OK(launch(kernel, stream, mapped.address, 9));
    ck_assert_int_eq(pthread_create(&thread, NULL, resume_soon, NULL), 0);
    OK(cu.cuLibraryUnload(library));
    ck_assert_uint_eq(*(volatile uint32_t *)mapped.address, 9);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    unmap_all(mapped);
}
