// SPDX-License-Identifier: Apache-2.0
/* test_launch.c -- modules, kernels, copies and sets, and the fault that sticks. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "sim_test.h"

static uint32_t word(tn_cu_deviceptr address)
{
    return *(volatile uint32_t *)address;
}

GROUP(work, start_context)

TEST(work, a_module_knows_its_kernels_and_their_parameters)
{
    static const char ptx[] =
        ".version 8.0 // comment\n.target sm_90\n.address_size 64\n/* .entry not_one( */\n"
        ".visible .entry mixed(\n\t.param .u64 mixed_0,\n\t.param .u32 mixed_1,\n"
        "\t.param .align 8 .b8 mixed_2[40], .param .u8 x)\n.maxntid 32, 1, 1\n{ ret; }\n"
        ".entry plain { ret; }\n.entry empty() { ret; }\n";
    static const size_t layout[][2] = {{0, 8}, {8, 4}, {16, 40}, {56, 1}};
    tn_cu_module module;
    tn_cu_function function;
    size_t offset;
    size_t bytes;
    OK(cu.cuModuleLoadData(&module, ptx));
    OK(cu.cuModuleGetFunction(&function, module, "mixed"));
    for (size_t i = 0; i < 4; i++) {
        OK(cu.cuFuncGetParamInfo(function, i, &offset, &bytes));
        ck_assert_uint_eq(offset, layout[i][0]);
        ck_assert_uint_eq(bytes, layout[i][1]);
    }
    OK(cu.cuFuncGetParamInfo(function, 0, &offset, NULL));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuFuncGetParamInfo(function, 4, &offset, &bytes));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuFuncGetParamInfo(function, 0, NULL, &bytes));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuFuncGetParamInfo(NULL, 0, &offset, &bytes));
    ANSWERS(TN_CUDA_ERROR_NOT_FOUND, cu.cuModuleGetFunction(&function, module, "not_one"));
    OK(cu.cuModuleGetFunction(&function, module, "plain"));
    OK(cu.cuModuleGetFunction(&function, module, "empty"));
    OK(cu.cuModuleUnload(module));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuModuleGetFunction(&function, module, "plain"));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuFuncGetParamInfo(function, 0, &offset, &bytes));
}

TEST(work, what_is_no_ptx_is_no_module)
{
    static const char *const bad[] = {".version 7.0\n.entry",
                                      ".version 7.0\n.entry a(.param .u64 x",
                                      ".version 7.0\n.entry a(x)",
                                      ".version 7.0\n.entry a(.param .u9 x)",
                                      ".version 7.0\n.entry a(.param .b8 x[99999999999999999999])",
                                      ".version 7.0\n.entry a(.param .align 3 .b8 x[4])"};
    tn_cu_module module;
    ANSWERS(TN_CUDA_ERROR_INVALID_IMAGE, cu.cuModuleLoadData(&module, "\177ELF"));
    ANSWERS(TN_CUDA_ERROR_INVALID_IMAGE, cu.cuModuleLoadData(&module, ""));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ANSWERS(TN_CUDA_ERROR_INVALID_PTX, cu.cuModuleLoadData(&module, bad[i]));
    ck_assert_uint_eq(ledger().modules, 0);
}

TEST(work, a_kernel_without_a_twin_is_found_but_not_launched)
{
    tn_cu_module module;
    tn_cu_function function;
    OK(cu.cuModuleLoadData(&module, ".version 7.0\n.visible .entry orphan() { ret; }"));
    OK(cu.cuModuleGetFunction(&function, module, "orphan"));
    ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED,
            cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

TEST(work, a_kernel_gets_parameters_in_either_form)
{
    struct kernels kernels = load_kernels();
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    uint64_t address = mapped.address;
    OK(launch_fill(&kernels, stream, mapped.address, 17, 4));
    unsigned char packed[16];
    uint32_t amount = 5;
    size_t bytes = 12;
    memcpy(packed, &address, 8);
    memcpy(packed + 8, &amount, 4);
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, packed, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};
    OK(cu.cuLaunchKernel(kernels.add, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(word(mapped.address), 22);
    ck_assert_uint_eq(word(mapped.address + 12), 17);
    void *params[] = {&address, &amount};
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuLaunchKernel(kernels.add, 1, 1, 1, 1, 1, 1, 0, stream, params, extra));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuLaunchKernel(kernels.add, 1, 1, 1, 4096, 1, 1, 0, stream, params, NULL));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuLaunchKernel(kernels.add, 0, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE,
            cu.cuLaunchKernel((tn_cu_function)0x10, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

TEST(work, copies_and_sets_check_their_device_memory_at_the_call)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr address = reserve(8 * MIB);
    tn_cu_memhandle first = physical(2 * MIB);
    tn_cu_memhandle second = physical(2 * MIB);
    char host[64] = "bytes of the host";
    char back[64] = "";
    OK(cu.cuMemMap(address, 2 * MIB, 0, first, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8Async(address, 0, 16, stream));
    OK(give_access(address, 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8Async(address + 2 * MIB - 8, 0, 16, stream));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuMemcpyDtoDAsync(address, address + 4 * MIB, 16, stream));
    OK(cu.cuMemMap(address + 2 * MIB, 2 * MIB, 0, second, 0));
    OK(give_access(address + 2 * MIB, 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    tn_cu_deviceptr seam = address + 2 * MIB - 8;
    OK(cu.cuMemcpyHtoDAsync(seam, host, sizeof host, stream));
    memset(host, 0, sizeof host); /* taken at the call */
    OK(cu.cuMemcpyDtoDAsync(address, seam, sizeof host, stream));
    OK(cu.cuMemcpyDtoHAsync(back, address, sizeof back, stream)); /* waits: ordinary memory */
    ck_assert_str_eq(back, "bytes of the host");
    OK(give_access(address, 2 * MIB, TN_CU_MEM_ACCESS_READ));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32Async(address, 0, 4, stream));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD32Async(address + 2, 0, 4, stream));
    OK(cu.cuMemcpyAsync((tn_cu_deviceptr)(uintptr_t)back, address, 5, stream));
    OK(cu.cuMemsetD32Async(address + 2 * MIB, 9, 2, stream));
    OK(cu.cuStreamSynchronize(stream)); /* which the legacy stream does not wait for */
    OK(cu.cuMemcpyDtoH(back, address + 2 * MIB, 8));
    ck_assert_uint_eq(word(address + 2 * MIB + 4), 9);
    OK(cu.cuMemsetD8Async(address + 7 * MIB, 0, 0, stream)); /* nothing to do, nothing wrong */
}

TEST(work, synchronous_copies_go_both_ways)
{
    tn_cu_deviceptr address;
    uint32_t there = 77;
    uint32_t back = 0;
    OK(cu.cuMemAlloc(&address, sizeof there));
    OK(cu.cuMemcpyHtoD(address, &there, sizeof there));
    OK(cu.cuMemcpyDtoH(&back, address, sizeof back));
    ck_assert_uint_eq(back, 77);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemcpyHtoD(address + 1, &there, sizeof there));
    OK(cu.cuMemFree(address));
}

/* What a dead context still answers, and what it does not. */
static void context_is_dead_of(tn_cu_result fault, tn_cu_stream stream)
{
    tn_cu_event event;
    tn_cu_stream other;
    tn_cu_deviceptr address;
    tn_cu_context context;
    ANSWERS(fault, cu.cuCtxSynchronize());
    ANSWERS(fault, cu.cuEventCreate(&event, 0));
    ANSWERS(fault, cu.cuStreamCreate(&other, 0));
    ANSWERS(fault, cu.cuMemAlloc(&address, 1));
    ANSWERS(fault, cu.cuStreamQuery(stream));
    ANSWERS(fault, cu.cuDevicePrimaryCtxRetain(&context, 0));
    unmap_all(map_new(2 * MIB));
    ANSWERS(fault, cu.cuStreamDestroy(stream));
    OK(cu.cuDevicePrimaryCtxRelease(0));
}

static int skipped_work;

static void count_skipped(void *user)
{
    (void)user;
    skipped_work++;
}

/* Sanitizers turn the signal into a report of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

GROUP(faults, start_context)

TEST(faults, a_kernel_that_touches_nothing_mapped_kills_the_context)
{
    struct kernels kernels = load_kernels();
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr address = reserve(2 * MIB);
    sim.tarn_sim_hold_work(); /* or the fault may come before the host function is enqueued */
    OK(launch_fill(&kernels, stream, address, 1, 1));
    OK(cu.cuLaunchHostFunc(stream, count_skipped, NULL));
    sim.tarn_sim_resume_work();
    ANSWERS(TN_CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
    ck_assert_int_eq(skipped_work, 0);
    context_is_dead_of(TN_CUDA_ERROR_ILLEGAL_ADDRESS, stream);
}

TEST(faults, a_kernel_that_writes_where_it_may_only_read_kills_the_context)
{
    struct kernels kernels = load_kernels();
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    struct mapped mapped = map_new(2 * MIB);
    OK(give_access(mapped.address, mapped.bytes, TN_CU_MEM_ACCESS_READ));
    OK(launch_fill(&kernels, stream, mapped.address, 1, 1));
    ANSWERS(TN_CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
    context_is_dead_of(TN_CUDA_ERROR_ILLEGAL_ADDRESS, stream);
}

TEST_LOOP(faults, memory_unmapped_under_queued_work_kills_the_context, 0, 2)
{
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    struct mapped mapped = map_new(2 * MIB);
    bool set = _i == 0;
    sim.tarn_sim_hold_work();
    if (set)
        OK(cu.cuMemsetD8Async(mapped.address, 0, 64, stream));
    else
        OK(cu.cuMemcpyDtoDAsync(mapped.address, mapped.address + 64, 64, stream));
    unmap_all(mapped);
    sim.tarn_sim_resume_work();
    tn_cu_result fault = set ? TN_CUDA_ERROR_LAUNCH_FAILED : TN_CUDA_ERROR_ILLEGAL_ADDRESS;
    ANSWERS(fault, cu.cuStreamSynchronize(stream));
    context_is_dead_of(fault, stream);
}

TEST_WITH(faults, a_fault_of_the_program_itself_is_not_the_devices, 0, 1, .signal = SIGSEGV,
          .left_out = SANITIZED)
{
    struct kernels kernels = load_kernels();
    tn_cu_stream stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    struct mapped mapped = map_new(2 * MIB);
    OK(launch_fill(&kernels, stream, mapped.address, 1, 1)); /* the handlers are in place now */
    OK(cu.cuStreamSynchronize(stream));
    unmap_all(mapped);
    *(volatile int *)mapped.address = 1;
    abort(); /* not reached: the process ends by SIGSEGV */
}
