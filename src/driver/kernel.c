// SPDX-License-Identifier: Apache-2.0
/* The PTX of the library's kernel, and its launch.
 *
 * A block of threads finds its item by bisecting the items' first tiles, then moves and sums one tile
 * of it, four loads of 16 bytes under way in each thread. Sums are joined within a warp, then added
 * to the item's digest by one atomic operation.
 *
 * The code is a library of the driver, so that its kernel can be launched in any context: a stream
 * may belong to another one than the primary. There the first launch waits for the device.
 *
 * Trade-offs: small items leave most of a tile's threads without work. */
#include "driver/kernel.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"

// clang-format off
/* Adds the term of word %w, whose index is %k, to %sum. */
#define TERM                                                                                       \
    "    add.s64 %z, %k, 1;\n"                                                                     \
    "    mul.lo.u64 %z, %z, 0x9E3779B97F4A7C15;\n"                                                 \
    "    xor.b64 %w, %w, %z;\n"                                                                    \
    "    shr.u64 %z, %w, 32;\n"                                                                    \
    "    xor.b64 %w, %w, %z;\n"                                                                    \
    "    mul.lo.u64 %w, %w, 0xD6E8FEB86659FD93;\n"                                                 \
    "    shr.u64 %z, %w, 32;\n"                                                                    \
    "    xor.b64 %w, %w, %z;\n"                                                                    \
    "    mul.lo.u64 %w, %w, 0xD6E8FEB86659FD93;\n"                                                 \
    "    shr.u64 %z, %w, 32;\n"                                                                    \
    "    xor.b64 %w, %w, %z;\n"                                                                    \
    "    add.s64 %sum, %sum, %w;\n"

/* Loads the two words of number n, at an offset from %from; stores them; adds their terms. %at is the
 * offset in the item of number 0. */
#define LOAD(n, offset) "    ld.global.v2.u64 {%a" n ", %b" n "}, [%from+" offset "];\n"
#define STORE(n, offset) "    @%copy st.global.v2.u64 [%to+" offset "], {%a" n ", %b" n "};\n"
#define TERMS(n, index)                                                                            \
    "    shr.u64 %k, %at, 3;\n"                                                                    \
    "    add.s64 %k, %k, " index ";\n"                                                             \
    "    mov.b64 %w, %a" n ";\n"                                                                   \
    TERM                                                                                           \
    "    add.s64 %k, %k, 1;\n"                                                                     \
    "    mov.b64 %w, %b" n ";\n"                                                                   \
    TERM

/* Adds the sum of the lane that many lanes away. */
#define JOIN(distance)                                                                             \
    "    mov.b64 {%low, %high}, %sum;\n"                                                           \
    "    shfl.sync.bfly.b32 %low, %low, " distance ", 31, 0xffffffff;\n"                           \
    "    shfl.sync.bfly.b32 %high, %high, " distance ", 31, 0xffffffff;\n"                         \
    "    mov.b64 %w, {%low, %high};\n"                                                             \
    "    add.s64 %sum, %sum, %w;\n"

#pragma GCC diagnostic push
/* The least that C compilers must take is 4095 characters; those that compile this take any. */
#pragma GCC diagnostic ignored "-Woverlength-strings"
static const char contents_ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry " TN_CONTENTS_ENTRY "(.param .u64 items, .param .u64 digests,\n"
    "    .param .u32 count, .param .u32 mode)\n"
    "{\n"
    "    .reg .pred %p, %out, %copy, %digest;\n"
    "    .reg .b32 %mode, %first, %end, %half, %middle, %lane, %low, %high;\n"
    "    .reg .b64 %items, %item, %tile, %from, %to, %bytes, %tiles, %begin, %limit, %whole;\n"
    "    .reg .b64 %at, %w, %k, %z, %sum, %a0, %b0, %a1, %b1, %a2, %b2, %a3, %b3;\n"
    "    ld.param.u64 %items, [items];\n"
    "    ld.param.u32 %end, [count];\n"
    "    ld.param.u32 %mode, [mode];\n"
    "    and.b32 %low, %mode, 1;\n"
    "    setp.ne.u32 %out, %low, 0;\n"
    "    and.b32 %low, %mode, 2;\n"
    "    setp.ne.u32 %copy, %low, 0;\n"
    "    and.b32 %low, %mode, 4;\n"
    "    setp.ne.u32 %digest, %low, 0;\n"
    "    mov.u32 %low, %ctaid.x;\n"
    "    cvt.u64.u32 %tile, %low;\n"
    "    mov.u32 %lane, %tid.x;\n"
    "    mov.u64 %sum, 0;\n"
    "    mov.u32 %first, 0;\n" /* the item is in [first, end) */
    "bisect:\n"
    "    sub.u32 %half, %end, %first;\n"
    "    setp.le.u32 %p, %half, 1;\n"
    "    @%p bra found;\n"
    "    shr.u32 %half, %half, 1;\n"
    "    add.u32 %middle, %first, %half;\n"
    "    mad.wide.u32 %item, %middle, 32, %items;\n"
    "    ld.global.u64 %tiles, [%item+24];\n"
    "    setp.le.u64 %p, %tiles, %tile;\n"
    "    @%p mov.u32 %first, %middle;\n"
    "    @!%p mov.u32 %end, %middle;\n"
    "    bra bisect;\n"
    "found:\n"
    "    mad.wide.u32 %item, %first, 32, %items;\n"
    "    ld.global.v2.u64 {%from, %to}, [%item];\n"
    "    ld.global.v2.u64 {%bytes, %tiles}, [%item+16];\n"
    "    @%out bra directed;\n"
    "    mov.b64 %w, %from;\n"
    "    mov.b64 %from, %to;\n"
    "    mov.b64 %to, %w;\n"
    "directed:\n"
    "    sub.s64 %begin, %tile, %tiles;\n"
    "    shl.b64 %begin, %begin, 16;\n" /* tiles have 64 KiB */
    "    and.b64 %whole, %bytes, -16;\n"
    "    add.s64 %limit, %begin, 65536;\n"
    "    min.u64 %limit, %limit, %whole;\n"
    "    cvt.u64.u32 %at, %lane;\n"
    "    shl.b64 %at, %at, 4;\n"
    "    add.s64 %at, %at, %begin;\n"
    "    add.s64 %from, %from, %at;\n"
    "    add.s64 %to, %to, %at;\n"
    "fours:\n" /* 256 threads of 16 bytes: a step is 4 KiB */
    "    add.s64 %w, %at, 12288;\n"
    "    setp.ge.u64 %p, %w, %limit;\n"
    "    @%p bra ones;\n"
    LOAD("0", "0") LOAD("1", "4096") LOAD("2", "8192") LOAD("3", "12288")
    STORE("0", "0") STORE("1", "4096") STORE("2", "8192") STORE("3", "12288")
    "    @!%digest bra fours_done;\n"
    TERMS("0", "0") TERMS("1", "512") TERMS("2", "1024") TERMS("3", "1536")
    "fours_done:\n"
    "    add.s64 %at, %at, 16384;\n"
    "    add.s64 %from, %from, 16384;\n"
    "    add.s64 %to, %to, 16384;\n"
    "    bra fours;\n"
    "ones:\n"
    "    setp.ge.u64 %p, %at, %limit;\n"
    "    @%p bra tail;\n"
    LOAD("0", "0")
    STORE("0", "0")
    "    @!%digest bra ones_done;\n"
    TERMS("0", "0")
    "ones_done:\n"
    "    add.s64 %at, %at, 4096;\n"
    "    add.s64 %from, %from, 4096;\n"
    "    add.s64 %to, %to, 4096;\n"
    "    bra ones;\n"
    "tail:\n" /* of the last tile: a byte for each of the first threads */
    "    add.s64 %w, %begin, 65536;\n"
    "    setp.lt.u64 %p, %w, %bytes;\n"
    "    @%p bra join;\n"
    "    cvt.u64.u32 %k, %lane;\n"
    "    add.s64 %k, %k, %whole;\n"
    "    setp.ge.u64 %p, %k, %bytes;\n"
    "    @%p bra join;\n"
    "    sub.s64 %z, %k, %at;\n"
    "    add.s64 %from, %from, %z;\n"
    "    add.s64 %to, %to, %z;\n"
    "    ld.global.u8 %w, [%from];\n"
    "    @%copy st.global.u8 [%to], %w;\n"
    "    @!%digest bra join;\n"
    "    or.b64 %k, %k, 0x8000000000000000;\n"
    TERM
    "join:\n"
    "    @!%digest bra done;\n"
    JOIN("16") JOIN("8") JOIN("4") JOIN("2") JOIN("1")
    "    and.b32 %low, %lane, 31;\n"
    "    setp.ne.u32 %p, %low, 0;\n"
    "    @%p bra done;\n"
    "    ld.param.u64 %z, [digests];\n"
    "    mad.wide.u32 %z, %first, 8, %z;\n"
    "    red.global.add.u64 [%z], %sum;\n"
    "done:\n"
    "    ret;\n"
    "}\n";
#pragma GCC diagnostic pop
// clang-format on

/* Why the code is not there. */
static tarn_status cannot_load(struct tn_gpu *gpu, tn_cu_result result, const char *call)
{
    switch ((int)result) {
    case TN_CUDA_ERROR_INVALID_IMAGE:
    case TN_CUDA_ERROR_NO_BINARY_FOR_GPU:
    case TN_CUDA_ERROR_INVALID_PTX:
    case 221: /* no compiler */
    case 222: /* PTX of a version that is too new */
    case 223: /* compiling is switched off */
        return tn_fail(
            TARN_ERR_NOT_SUPPORTED,
            "device %d: %s answered %s (%d): Tarn's kernels, which copy contents and sum "
            "them up, cannot be used; is the driver's PTX compiler installed?",
            gpu->ordinal, call, tn_driver_result_name(result), (int)result);
    default:
        return tn_gpu_failed(gpu, result, "loading Tarn's kernels", call);
    }
}

static void unload(struct tn_gpu *gpu, tn_cu_library library)
{
    int before = tn_gpu_relax(gpu);

    tn_gpu_teardown(gpu, gpu->driver->cuLibraryUnload(library), "cuLibraryUnload");
    tn_gpu_unrelax(gpu, before);
}

static tarn_status load(struct tn_gpu *gpu)
{
    const struct tn_driver *driver = gpu->driver;
    tn_cu_library library = NULL;
    tn_cu_kernel kernel = NULL;
    const char *call = "cuLibraryLoadData";
    tn_cu_result result =
        driver->cuLibraryLoadData(&library, contents_ptx, NULL, NULL, 0, NULL, NULL, 0);
    tarn_status status;

    if (result == TN_CUDA_SUCCESS) {
        call = "cuLibraryGetKernel";
        result = driver->cuLibraryGetKernel(&kernel, library, TN_CONTENTS_ENTRY);
    }
    if (result == TN_CUDA_SUCCESS) {
        gpu->library = library;
        atomic_store(&gpu->contents_kernel, kernel);
        return TARN_OK;
    }
    status = cannot_load(gpu, result, call);
    if (library != NULL)
        unload(gpu, library);
    return status;
}

tarn_status tn_kernels_load(struct tn_gpu *gpu, tn_cu_stream stream)
{
    tn_cu_function function = NULL;
    tn_cu_result result;
    tarn_status status = TARN_OK;
    bool pushed;

    if (atomic_load(&gpu->contents_kernel) == NULL) {
        (void)pthread_mutex_lock(&gpu->kernel_mutex);
        if (atomic_load(&gpu->contents_kernel) == NULL)
            status = load(gpu);
        (void)pthread_mutex_unlock(&gpu->kernel_mutex);
    }
    if (status == TARN_OK)
        status = tn_stream_enter_own(gpu, stream, &pushed);
    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuKernelGetFunction(&function, atomic_load(&gpu->contents_kernel));
    tn_gpu_leave(gpu, pushed);
    return result == TN_CUDA_SUCCESS ? TARN_OK : cannot_load(gpu, result, "cuKernelGetFunction");
}

void tn_kernels_unload(struct tn_gpu *gpu)
{
    if (atomic_load(&gpu->contents_kernel) == NULL)
        return;
    unload(gpu, gpu->library);
    atomic_store(&gpu->contents_kernel, NULL);
}

tarn_status tn_kernel_contents(struct tn_gpu *gpu, tn_cu_stream stream,
                               const struct tn_contents_table *table, uint64_t digests,
                               uint32_t mode)
{
    uint64_t items = table->items;
    uint32_t count = table->count;
    void *params[] = {&items, &digests, &count, &mode};
    /* The driver takes a library's kernel for its function. */
    tn_cu_function function = (tn_cu_function)(void *)atomic_load(&gpu->contents_kernel);
    tn_cu_result result;
    bool pushed;
    tarn_status status;

    TN_ASSERT(function != NULL && table->count > 0);
    TN_ASSERT(table->tiles > 0 && table->tiles < (uint64_t)1 << 31);
    status = tn_stream_enter_own(gpu, stream, &pushed);
    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuLaunchKernel(function, (unsigned int)table->tiles, 1, 1,
                                         TN_CONTENTS_THREADS, 1, 1, 0, stream, params, NULL);
    tn_gpu_leave(gpu, pushed);
    return tn_gpu_answered(gpu, result, "copying contents", "cuLaunchKernel");
}
