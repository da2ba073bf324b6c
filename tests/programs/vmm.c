// SPDX-License-Identifier: Apache-2.0
/* vmm.c -- an array that grows where it is, keeps its contents when its memory moves, and is seen
 * at two addresses. */
#include "program.h"

#include <stdio.h>

#define PIECES 4
#define PIECE ((size_t)4 << 20)
#define PIECE_WORDS (PIECE / sizeof(uint32_t))

static CUmemGenericAllocationHandle create(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = program_prop(0);
    CALL(MemCreate(&handle, PIECE, &prop, 0));
    return handle;
}

/* Adds pieces one by one behind the others, and uses all of the array each time. */
static void grow(CUdeviceptr base, CUmemGenericAllocationHandle *handles, CUstream stream)
{
    for (int i = 0; i < PIECES; i++) {
        CUdeviceptr end = base + (CUdeviceptr)i * PIECE;
        char label[32];
        handles[i] = create();
        CALL(MemMap(end, PIECE, 0, handles[i], 0));
        program_allow(end, PIECE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        CALL(MemsetD32Async(end, (unsigned int)i + 1, PIECE_WORDS, stream));
        program_launch_scale(stream, base, 3, 1, (uint32_t)((size_t)(i + 1) * PIECE_WORDS));
        CALL(StreamSynchronize(stream));
        snprintf(label, sizeof label, "%d pieces", i + 1);
        program_print_sum(label, base, (size_t)(i + 1) * PIECE_WORDS);
    }
}

/* The physical memory of two pieces changes places. */
static void swap(CUdeviceptr base, CUmemGenericAllocationHandle *handles)
{
    CUmemGenericAllocationHandle first = handles[0];
    CALL(MemUnmap(base, 2 * PIECE));
    CALL(MemMap(base, PIECE, 0, handles[1], 0));
    CALL(MemMap(base + PIECE, PIECE, 0, first, 0));
    handles[0] = handles[1];
    handles[1] = first;
    program_allow(base, 2 * PIECE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    program_print_sum("first piece after the swap", base, PIECE_WORDS);
    program_print_sum("second piece after the swap", base + PIECE, PIECE_WORDS);
}

/* What is written at one address is read at the other, which cannot be written. */
static void second_view(CUdeviceptr base, CUmemGenericAllocationHandle handle, CUstream stream)
{
    CUdeviceptr view;
    CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    unsigned long long flags = 0;
    CALL(MemAddressReserve(&view, PIECE, 0, 0, 0));
    CALL(MemMap(view, PIECE, 0, handle, 0));
    program_allow(view, PIECE, CU_MEM_ACCESS_FLAGS_PROT_READ);
    CALL(MemsetD32Async(base, 7, PIECE_WORDS, stream));
    CALL(StreamSynchronize(stream));
    program_print_sum("seen at the second address", view, PIECE_WORDS);
    CALL(MemGetAccess(&flags, &device, view));
    printf("access at the second address: %llu\n", flags);
    printf("writing there gives %d\n", (int)cu.MemsetD32Async(view, 1, 1, stream));
    CALL(MemUnmap(view, PIECE));
    CALL(MemAddressFree(view, PIECE));
}

/* Uses all that the program will use once, so that the driver takes nothing for it later. */
static void warm_up(CUdeviceptr base, CUstream stream)
{
    CUmemGenericAllocationHandle handle = create();
    uint32_t word;
    CALL(MemMap(base, PIECE, 0, handle, 0));
    program_allow(base, PIECE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CALL(MemsetD32Async(base, 0, PIECE_WORDS, stream));
    program_launch_scale(stream, base, 1, 0, PIECE_WORDS);
    CALL(StreamSynchronize(stream));
    CALL(MemcpyDtoH(&word, base, sizeof word));
    CALL(MemUnmap(base, PIECE));
    CALL(MemRelease(handle));
}

int main(void)
{
    CUdeviceptr base;
    CUmemGenericAllocationHandle handles[PIECES];
    CUmemAllocationProp prop = program_prop(0);
    CUstream stream;
    size_t granularity;
    size_t before;
    size_t during;
    size_t after;
    size_t total;
    program_begin();
    program_scale();
    CALL(StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CALL(MemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    printf("granularity: %zu\n", granularity);
    CALL(MemAddressReserve(&base, PIECES * PIECE, 0, 0, 0));
    warm_up(base, stream);
    CALL(MemGetInfo(&before, &total));
    grow(base, handles, stream);
    CALL(MemGetInfo(&during, &total));
    printf("taken: %zu MiB\n", (before - during) >> 20);
    swap(base, handles);
    second_view(base, handles[0], stream);
    for (int i = 0; i < PIECES; i++)
        CALL(MemRelease(handles[i]));
    CALL(MemGetInfo(&during, &total));
    printf("taken while mapped, released: %zu MiB\n", (before - during) >> 20);
    CALL(MemUnmap(base, PIECES * PIECE));
    CALL(MemAddressFree(base, PIECES * PIECE));
    CALL(MemGetInfo(&after, &total));
    printf("taken at the end: %zu MiB\n", (before - after) >> 20);
    CALL(StreamDestroy(stream));
    return 0;
}
