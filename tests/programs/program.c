// SPDX-License-Identifier: Apache-2.0
/* program.c -- loads the driver as any program does that is not linked to it. */
#include "program.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUM_WORDS 4096 /* copied to the host at a time */

struct driver cu;
static void *library;

void program_fail(const char *what)
{
    printf("FAILED: %s\n", what);
    exit(1);
}

void program_check(const char *call, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return;
    printf("FAILED: cu%.*s gives %d\n", (int)strcspn(call, "("), call, (int)result);
    exit(1);
}

void program_begin(void)
{
    CUcontext context;
    void *found;
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        program_fail(dlerror());
#define DRIVER_FIND(name, symbol, parameters)                                                      \
    found = dlsym(library, symbol);                                                                \
    if (found == NULL)                                                                             \
        program_fail("the driver has no " symbol);                                                 \
    memcpy(&cu.name, &found, sizeof found);
    DRIVER_FUNCTIONS(DRIVER_FIND)
#undef DRIVER_FIND
    CALL(Init(0));
    CALL(PrimaryCtxRetain(&context, 0));
    CALL(CtxSetCurrent(context));
}

static const char scale_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry scale(.param .u64 words, .param .u32 factor, .param .u32 addend,\n"
    " .param .u32 count)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<3>;\n"
    " ld.param.u64 %d1, [words]; ld.param.u32 %r1, [factor]; ld.param.u32 %r2, [addend];\n"
    " ld.param.u32 %r3, [count]; cvta.to.global.u64 %d1, %d1;\n"
    " mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x;\n"
    " mad.lo.u32 %r4, %r4, %r5, %r6;\n"
    " mov.u32 %r7, %nctaid.x; mul.lo.u32 %r7, %r7, %r5;\n"
    "loop: setp.ge.u32 %p, %r4, %r3; @%p bra done;\n"
    " mul.wide.u32 %d2, %r4, 4; add.u64 %d2, %d1, %d2; ld.global.u32 %r8, [%d2];\n"
    " mad.lo.u32 %r8, %r8, %r1, %r2; st.global.u32 [%d2], %r8;\n"
    " add.u32 %r4, %r4, %r7; bra loop;\n"
    "done: ret;\n"
    "}\n";

/* The same in C, for a driver that runs C. */
static void scale_in_c(const void *launch, void *const *params)
{
    uint32_t *words;
    uint32_t factor;
    uint32_t addend;
    uint32_t count;
    (void)launch;
    memcpy(&words, params[0], sizeof words);
    memcpy(&factor, params[1], sizeof factor);
    memcpy(&addend, params[2], sizeof addend);
    memcpy(&count, params[3], sizeof count);
    for (uint32_t i = 0; i < count; i++)
        words[i] = words[i] * factor + addend;
}

CUfunction program_scale(void)
{
    static CUfunction function;
    CUmodule module;
    int (*registration)(const char *, void (*)(const void *, void *const *));
    if (function != NULL)
        return function;
    void *found = dlsym(library, "tarn_sim_register_kernel");
    if (found != NULL) {
        memcpy(&registration, &found, sizeof found);
        registration("scale", scale_in_c);
    }
    CALL(ModuleLoadData(&module, scale_ptx));
    CALL(ModuleGetFunction(&function, module, "scale"));
    return function;
}

void program_launch_scale(CUstream stream, CUdeviceptr words, uint32_t factor, uint32_t addend,
                          uint32_t count)
{
    void *params[] = {&words, &factor, &addend, &count};
    CALL(LaunchKernel(program_scale(), 16, 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

CUmemAllocationProp program_prop(int exported)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (exported)
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return prop;
}

void program_allow(CUdeviceptr address, size_t bytes, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc;
    memset(&desc, 0, sizeof desc);
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.flags = flags;
    CALL(MemSetAccess(address, bytes, &desc, 1));
}

void program_print_sum(const char *label, CUdeviceptr words, size_t count)
{
    static uint32_t host[SUM_WORDS];
    uint64_t sum = 0;
    for (size_t done = 0; done < count;) {
        size_t now = count - done < SUM_WORDS ? count - done : SUM_WORDS;
        CALL(MemcpyDtoH(host, words + done * sizeof *host, now * sizeof *host));
        for (size_t i = 0; i < now; i++)
            sum += host[i];
        done += now;
    }
    printf("%s: %llu\n", label, (unsigned long long)sum);
}
