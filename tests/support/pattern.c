// SPDX-License-Identifier: Apache-2.0
#include "support/pattern.h"

#include <string.h>

static tn_cu_function fill_kernel;
static tn_cu_function verify_kernel;

// clang-format off
static const char kernels_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    /* A grid-stride loop over the words. */
    ".visible .entry tarn_pattern_fill(.param .u64 address, .param .u32 pattern, .param .u32 words)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d1, [address]; ld.param.u32 %r1, [pattern]; ld.param.u32 %r2, [words];\n"
    " cvta.to.global.u64 %d1, %d1;\n"
    " mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
    " mad.lo.u32 %r3, %r3, %r4, %r5; mov.u32 %r6, %nctaid.x; mul.lo.u32 %r6, %r6, %r4;\n"
    "loop: setp.ge.u32 %p, %r3, %r2; @%p bra done;\n"
    " add.u32 %r7, %r1, %r3; mul.lo.u32 %r7, %r7, 0x9E3779B1;\n"
    " mul.wide.u32 %d2, %r3, 4; add.u64 %d2, %d1, %d2; st.global.u32 [%d2], %r7;\n"
    " add.u32 %r3, %r3, %r6; bra loop;\n"
    "done: ret;\n"
    "}\n"
    /* The first thread that finds a wrong word writes it down; one thread counts the run. */
    ".visible .entry tarn_pattern_verify(.param .u64 address, .param .u32 pattern, .param .u32 words,\n"
    " .param .u64 result)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<12>; .reg .b64 %d<5>;\n"
    " ld.param.u64 %d1, [address]; ld.param.u32 %r1, [pattern]; ld.param.u32 %r2, [words];\n"
    " ld.param.u64 %d3, [result];\n"
    " cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d3, %d3;\n"
    " mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
    " mad.lo.u32 %r3, %r3, %r4, %r5; mov.u32 %r6, %nctaid.x; mul.lo.u32 %r6, %r6, %r4;\n"
    " setp.ne.u32 %p, %r3, 0; @%p bra loop;\n"
    " atom.global.add.u32 %r10, [%d3+12], 1;\n"
    "loop: setp.ge.u32 %p, %r3, %r2; @%p bra done;\n"
    " add.u32 %r7, %r1, %r3; mul.lo.u32 %r7, %r7, 0x9E3779B1;\n"
    " mul.wide.u32 %d2, %r3, 4; add.u64 %d2, %d1, %d2; ld.global.u32 %r8, [%d2];\n"
    " setp.eq.u32 %p, %r7, %r8; @%p bra next;\n"
    " atom.global.cas.b32 %r9, [%d3], 0, 1;\n"
    " setp.ne.u32 %p, %r9, 0; @%p bra done;\n"
    " st.global.u32 [%d3+4], %r3; st.global.u32 [%d3+8], %r8;\n"
    " bra done;\n"
    "next: add.u32 %r3, %r3, %r6; bra loop;\n"
    "done: ret;\n"
    "}\n";
// clang-format on

static void fill_twin(const tarn_sim_launch *launch, void *const *params)
{
    uint32_t *words;
    uint32_t pattern;
    uint32_t count;

    (void)launch;
    memcpy(&words, params[0], sizeof words);
    memcpy(&pattern, params[1], sizeof pattern);
    memcpy(&count, params[2], sizeof count);
    for (uint32_t i = 0; i < count; i++)
        words[i] = pattern_word(pattern, i);
}

static void verify_twin(const tarn_sim_launch *launch, void *const *params)
{
    const uint32_t *words;
    struct pattern_result *result;
    uint32_t pattern;
    uint32_t count;
    uint32_t i = 0;

    (void)launch;
    memcpy(&words, params[0], sizeof words);
    memcpy(&pattern, params[1], sizeof pattern);
    memcpy(&count, params[2], sizeof count);
    memcpy(&result, params[3], sizeof result);
    while (i < count && words[i] == pattern_word(pattern, i))
        i += 1;
    if (i < count && result->bad == 0)
        *result = (struct pattern_result){1, i, words[i], result->runs};
    result->runs += 1;
}

void pattern_start(void)
{
    tn_cu_module module;
    tn_cu_deviceptr scratch;
    tn_cu_stream stream = test_stream();

    if (test_is_simulated()) {
        ck_assert_int_eq(sim.register_kernel("tarn_pattern_fill", fill_twin), 0);
        ck_assert_int_eq(sim.register_kernel("tarn_pattern_verify", verify_twin), 0);
    }
    CU_OK(cu.cuModuleLoadData(&module, kernels_ptx));
    CU_OK(cu.cuModuleGetFunction(&fill_kernel, module, "tarn_pattern_fill"));
    CU_OK(cu.cuModuleGetFunction(&verify_kernel, module, "tarn_pattern_verify"));
    /* The driver may load kernels at their first launch, which captures do not survive. */
    CU_OK(cu.cuMemAlloc(&scratch, 4096));
    CU_OK(cu.cuMemsetD32Async(scratch, 0, 4, stream));
    CU_OK(pattern_fill(stream, (void *)(uintptr_t)(scratch + 64), 1, 16));
    CU_OK(pattern_verify(stream, (void *)(uintptr_t)(scratch + 64), 1, 16, scratch));
    test_synchronize(stream);
    ck_assert_uint_eq(test_read(stream, (void *)(uintptr_t)scratch), 0);
    ck_assert_uint_eq(test_read(stream, (void *)(uintptr_t)(scratch + 12)), 1);
    CU_OK(pattern_verify(stream, (void *)(uintptr_t)(scratch + 64), 2, 16, scratch));
    ck_assert_uint_eq(test_read(stream, (void *)(uintptr_t)scratch), 1); /* it does find it */
    CU_OK(cu.cuMemFree(scratch));
    CU_OK(cu.cuStreamDestroy(stream));
}

static unsigned int count_blocks(size_t words)
{
    size_t blocks = (words + 1023) / 1024; /* four words a thread at most, until the grid is full */

    return (unsigned int)(blocks < 512 ? blocks + (blocks == 0) : 512);
}

tn_cu_result pattern_fill(tn_cu_stream stream, const void *address, uint32_t pattern, size_t words)
{
    uint32_t count = (uint32_t)words;
    void *params[] = {&address, &pattern, &count};

    return cu.cuLaunchKernel(fill_kernel, count_blocks(words), 1, 1, 256, 1, 1, 0, stream, params,
                             NULL);
}

tn_cu_result pattern_verify(tn_cu_stream stream, const void *address, uint32_t pattern,
                            size_t words, tn_cu_deviceptr result)
{
    uint32_t count = (uint32_t)words;
    void *params[] = {&address, &pattern, &count, &result};

    return cu.cuLaunchKernel(verify_kernel, count_blocks(words), 1, 1, 256, 1, 1, 0, stream, params,
                             NULL);
}
