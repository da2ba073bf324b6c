// SPDX-License-Identifier: Apache-2.0
/* The PTX of the library's kernels, and their launches.
 *
 * tarn_contents: the first warp of a block finds the block's item among the items' first tiles, by
 * looking at 32 of them at a time: three looks for 10,000 items, where a bisection waits for memory
 * 14 times. All threads then move and sum one tile of it, four loads of 16 bytes under way in each.
 * Sums are joined within a warp, then added to the item's digest by one atomic operation. The part
 * of a term that comes from a word's index is a multiple of TN_DIGEST_INDEX. The kernel adds to
 * this multiple from word to word.
 *
 * tarn_contents_begin: a thread for each item.
 *
 * The code is a library of the driver, whose kernels can be launched in any context: a stream may
 * belong to a context other than the primary. The first launch in another context waits for the
 * device.
 *
 * Trade-offs: small items leave most of a tile's threads without work. */
#include "driver/kernel.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "driver/result.h"

// clang-format off
/* Adds the term of word %w, which its index's multiple has been joined to, to %sum. */
#define MIX                                                                                        \
    "    shr.u64 %k, %w, 32;\n"                                                                    \
    "    xor.b64 %w, %w, %k;\n"                                                                    \
    "    mul.lo.u64 %w, %w, 0xD6E8FEB86659FD93;\n"                                                 \
    "    shr.u64 %k, %w, 32;\n"                                                                    \
    "    xor.b64 %w, %w, %k;\n"                                                                    \
    "    mul.lo.u64 %w, %w, 0xD6E8FEB86659FD93;\n"                                                 \
    "    shr.u64 %k, %w, 32;\n"                                                                    \
    "    xor.b64 %w, %w, %k;\n"                                                                    \
    "    add.s64 %sum, %sum, %w;\n"

/* The increase of the index's multiple over the given number of words. */
#define WORDS(count) "0x9E3779B97F4A7C15 * " count

/* Adds the term of the word that lies the given number of words behind the word of %z. */
#define TERM(word, words)                                                                          \
    "    add.s64 %k, %z, " WORDS(words) ";\n"                                                      \
    "    xor.b64 %w, " word ", %k;\n"                                                              \
    MIX

/* Loads the two words of pair n, at an offset from %from; stores them; adds the terms of both. The
 * first lies the given number of words behind the word of %z. */
#define LOAD(n, offset) "    ld.global.v2.u64 {%a" n ", %b" n "}, [%from+" offset "];\n"
#define STORE(n, offset) "    @%copy st.global.v2.u64 [%to+" offset "], {%a" n ", %b" n "};\n"
#define TERMS(n, words, next) TERM("%a" n, words) TERM("%b" n, next)

/* Advances by the given number of bytes, and by the same distance in words. */
#define STEP(label, bytes, words)                                                                  \
    "    add.s64 %z, %z, " WORDS(words) ";\n"                                                      \
    label ":\n"                                                                                    \
    "    add.s64 %at, %at, " bytes ";\n"                                                           \
    "    add.s64 %from, %from, " bytes ";\n"                                                       \
    "    add.s64 %to, %to, " bytes ";\n"

/* Adds the sum of the lane at the given distance. */
#define ADD_LANES(distance)                                                                             \
    "    mov.b64 {%low, %high}, %sum;\n"                                                           \
    "    shfl.sync.bfly.b32 %low, %low, " distance ", 31, 0xffffffff;\n"                           \
    "    shfl.sync.bfly.b32 %high, %high, " distance ", 31, 0xffffffff;\n"                         \
    "    mov.b64 %w, {%low, %high};\n"                                                             \
    "    add.s64 %sum, %sum, %w;\n"

#pragma GCC diagnostic push
/* The standard asks C compilers to accept 4095 characters; the compilers that build this file
 * accept any length. */
#pragma GCC diagnostic ignored "-Woverlength-strings"
static const char contents_ptx[] =
    ".version 7.0\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry " TN_CONTENTS_BEGIN_ENTRY "(.param .u64 given, .param .u64 items,\n"
    "    .param .u64 digests, .param .u32 count)\n"
    "{\n"
    "    .reg .pred %p;\n"
    "    .reg .b32 %item, %low, %high;\n"
    "    .reg .b64 %from, %to, %a, %b;\n"
    "    mov.u32 %item, %tid.x;\n"
    "    mov.u32 %low, %ctaid.x;\n"
    "    mov.u32 %high, %ntid.x;\n"
    "    mad.lo.u32 %item, %low, %high, %item;\n"
    "    ld.param.u32 %low, [count];\n"
    "    setp.ge.u32 %p, %item, %low;\n"
    "    @%p bra done;\n"
    "    ld.param.u64 %from, [given];\n"
    "    mad.wide.u32 %from, %item, 32, %from;\n"
    "    ld.param.u64 %to, [items];\n"
    "    mad.wide.u32 %to, %item, 32, %to;\n"
    "    ld.global.v2.u64 {%a, %b}, [%from];\n"
    "    st.global.v2.u64 [%to], {%a, %b};\n"
    "    ld.global.v2.u64 {%a, %b}, [%from+16];\n"
    "    st.global.v2.u64 [%to+16], {%a, %b};\n"
    "    ld.param.u64 %to, [digests];\n"
    "    mad.wide.u32 %to, %item, 8, %to;\n"
    "    mov.u64 %a, 0;\n"
    "    st.global.u64 [%to], %a;\n"
    "done:\n"
    "    ret;\n"
    "}\n"
    ".visible .entry " TN_CONTENTS_ENTRY "(.param .u64 items, .param .u64 digests,\n"
    "    .param .u32 count, .param .u32 mode, .param .u32 bits)\n"
    ".maxntid 256, 1, 1\n"
    "{\n"
    "    .shared .align 4 .b32 found;\n"
    "    .reg .pred %p, %out, %copy, %digest;\n"
    "    .reg .b32 %mode, %first, %end, %part, %middle, %lane, %low, %high;\n"
    "    .reg .b64 %items, %item, %tile, %from, %to, %bytes, %tiles, %begin, %stop, %limit, %whole;\n"
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
    "    setp.ge.u32 %p, %lane, 32;\n"
    "    @%p bra searched;\n"
    "    mov.u32 %first, 0;\n" /* the item is in [first, end) */
    "search:\n"
    "    sub.u32 %part, %end, %first;\n"
    "    setp.le.u32 %p, %part, 1;\n"
    "    @%p bra chosen;\n"
    "    add.u32 %part, %part, 31;\n" /* each lane looks at the beginning of a part */
    "    shr.u32 %part, %part, 5;\n"
    "    mad.lo.u32 %middle, %lane, %part, %first;\n"
    "    setp.lt.u32 %p, %middle, %end;\n"
    "    mad.wide.u32 %item, %middle, 32, %items;\n"
    "    mov.u64 %tiles, -1;\n"
    "    @%p ld.global.u64 %tiles, [%item+24];\n"
    "    setp.le.u64 %p, %tiles, %tile;\n" /* true for the first lanes, down to lane 0 */
    "    vote.sync.ballot.b32 %low, %p, 0xffffffff;\n"
    "    popc.b32 %low, %low;\n"
    "    sub.u32 %low, %low, 1;\n"
    "    mad.lo.u32 %first, %low, %part, %first;\n"
    "    add.u32 %low, %first, %part;\n"
    "    min.u32 %end, %end, %low;\n"
    "    bra search;\n"
    "chosen:\n"
    "    setp.eq.u32 %p, %lane, 0;\n"
    "    @%p st.shared.u32 [found], %first;\n"
    "searched:\n"
    "    bar.sync 0;\n"
    "    ld.shared.u32 %first, [found];\n"
    "    mad.wide.u32 %item, %first, 32, %items;\n"
    "    ld.global.v2.u64 {%from, %to}, [%item];\n"
    "    ld.global.v2.u64 {%bytes, %tiles}, [%item+16];\n"
    "    @%out bra directed;\n"
    "    mov.b64 %w, %from;\n"
    "    mov.b64 %from, %to;\n"
    "    mov.b64 %to, %w;\n"
    "directed:\n"
    "    sub.s64 %begin, %tile, %tiles;\n"
    "    ld.param.u32 %low, [bits];\n"
    "    mov.u64 %stop, 1;\n"
    "    shl.b64 %stop, %stop, %low;\n"
    "    shl.b64 %begin, %begin, %low;\n"
    "    add.s64 %stop, %stop, %begin;\n"
    "    and.b64 %whole, %bytes, -16;\n"
    "    min.u64 %limit, %stop, %whole;\n"
    "    cvt.u64.u32 %at, %lane;\n"
    "    shl.b64 %at, %at, 4;\n"
    "    add.s64 %at, %at, %begin;\n"
    "    add.s64 %from, %from, %at;\n"
    "    add.s64 %to, %to, %at;\n"
    "    shr.u64 %z, %at, 3;\n"
    "    mad.lo.u64 %z, %z, " WORDS("1") ", " WORDS("1") ";\n"
    "fours:\n" /* 256 threads of 16 bytes: a step is 4 KiB */
    "    add.s64 %w, %at, 12288;\n"
    "    setp.ge.u64 %p, %w, %limit;\n"
    "    @%p bra ones;\n"
    LOAD("0", "0") LOAD("1", "4096") LOAD("2", "8192") LOAD("3", "12288")
    STORE("0", "0") STORE("1", "4096") STORE("2", "8192") STORE("3", "12288")
    "    @!%digest bra fours_done;\n"
    TERMS("0", "0", "1") TERMS("1", "512", "513") TERMS("2", "1024", "1025")
    TERMS("3", "1536", "1537")
    STEP("fours_done", "16384", "2048")
    "    bra fours;\n"
    "ones:\n"
    "    setp.ge.u64 %p, %at, %limit;\n"
    "    @%p bra tail;\n"
    LOAD("0", "0")
    STORE("0", "0")
    "    @!%digest bra ones_done;\n"
    TERMS("0", "0", "1")
    STEP("ones_done", "4096", "512")
    "    bra ones;\n"
    "tail:\n" /* of the last tile: a byte for each of the first threads */
    "    setp.lt.u64 %p, %stop, %bytes;\n"
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
    "    mad.lo.u64 %k, %k, " WORDS("1") ", " WORDS("1") ";\n"
    "    xor.b64 %w, %w, %k;\n"
    MIX
    "join:\n"
    "    @!%digest bra done;\n"
    ADD_LANES("16") ADD_LANES("8") ADD_LANES("4") ADD_LANES("2") ADD_LANES("1")
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

/* The reason why the code is not loaded. */
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
            gpu->ordinal, call, tn_result_name(result), (int)result);
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
    tn_cu_kernel begin = NULL;
    tn_cu_kernel contents = NULL;
    const char *call = "cuLibraryLoadData";
    tn_cu_result result =
        driver->cuLibraryLoadData(&library, contents_ptx, NULL, NULL, 0, NULL, NULL, 0);
    tarn_status status;

    if (result == TN_CUDA_SUCCESS) {
        call = "cuLibraryGetKernel";
        result = driver->cuLibraryGetKernel(&begin, library, TN_CONTENTS_BEGIN_ENTRY);
    }
    if (result == TN_CUDA_SUCCESS)
        result = driver->cuLibraryGetKernel(&contents, library, TN_CONTENTS_ENTRY);
    if (result == TN_CUDA_SUCCESS) {
        gpu->library = library;
        gpu->prepare_kernel = begin;
        atomic_store(&gpu->contents_kernel, contents);
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
        tn_lock_acquire(&gpu->kernel_lock);
        if (atomic_load(&gpu->contents_kernel) == NULL)
            status = load(gpu);
        tn_lock_release(&gpu->kernel_lock);
    }
    if (status == TARN_OK)
        status = tn_stream_enter_own(gpu, stream, &pushed);
    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuKernelGetFunction(&function, atomic_load(&gpu->contents_kernel));
    if (result == TN_CUDA_SUCCESS)
        result = gpu->driver->cuKernelGetFunction(&function, gpu->prepare_kernel);
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

/* A grid and blocks of one dimension; enqueues the whole launch or nothing. */
static tarn_status launch(struct tn_gpu *gpu, tn_cu_stream stream, tn_cu_kernel kernel,
                          unsigned int blocks, void **params)
{
    /* The driver takes a library's kernel for its function. */
    tn_cu_function function = (tn_cu_function)(void *)kernel;
    tn_cu_result result;
    bool pushed;
    tarn_status status;

    TN_ASSERT(function != NULL && blocks > 0);
    status = tn_stream_enter_own(gpu, stream, &pushed);
    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuLaunchKernel(function, blocks, 1, 1, TN_CONTENTS_THREADS, 1, 1, 0,
                                         stream, params, NULL);
    tn_gpu_leave(gpu, pushed);
    return tn_gpu_answered(gpu, result, "copying contents", "cuLaunchKernel");
}

tarn_status tn_kernel_contents_prepare(struct tn_gpu *gpu, tn_cu_stream stream,
                                       const struct tn_contents_table *table, uint64_t given,
                                       uint64_t digests)
{
    uint64_t items = table->items;
    uint32_t count = table->count;
    void *params[] = {&given, &items, &digests, &count};

    return launch(gpu, stream, gpu->prepare_kernel,
                  (count + TN_CONTENTS_THREADS - 1) / TN_CONTENTS_THREADS, params);
}

tarn_status tn_kernel_contents(struct tn_gpu *gpu, tn_cu_stream stream,
                               const struct tn_contents_table *table, uint64_t digests,
                               uint32_t mode)
{
    uint64_t items = table->items;
    uint32_t count = table->count;
    uint32_t bits = table->tile_bits;
    void *params[] = {&items, &digests, &count, &mode, &bits};

    TN_ASSERT(count > 0 && table->tiles < (uint64_t)1 << 31);
    return launch(gpu, stream, atomic_load(&gpu->contents_kernel), (unsigned int)table->tiles,
                  params);
}
