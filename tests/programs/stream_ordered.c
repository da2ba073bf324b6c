// SPDX-License-Identifier: Apache-2.0
/* stream_ordered.c -- memory that is allocated and freed in the order of streams, from a pool of the
 * program's own and in a graph. */
#include "program.h"

#include <stdio.h>

#define WORDS ((size_t)1 << 20)
#define BYTES (WORDS * sizeof(uint32_t))
#define ROUNDS 8

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    CALL(MemPoolGetAttribute(pool, which, &value));
    return value;
}

static CUmemoryPool create(void)
{
    CUmemoryPool pool;
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
    };
    cuuint64_t keep_all = UINT64_MAX;
    CALL(MemPoolCreate(&pool, &props));
    CALL(MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all));
    return pool;
}

/* Each round allocates, uses and frees; what one round freed serves the next. */
static void rounds(CUmemoryPool pool, CUstream stream)
{
    CUdeviceptr first = 0;
    int same = 1;
    uint32_t last = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CUdeviceptr array;
        CALL(MemAllocFromPoolAsync(&array, BYTES, pool, stream));
        if (i == 0)
            first = array;
        same = same && array == first;
        CALL(MemsetD32Async(array, i, WORDS, stream));
        program_launch_scale(stream, array, 2, 1, (uint32_t)WORDS);
        CALL(MemcpyDtoHAsync(&last, array + BYTES - sizeof last, sizeof last, stream));
        CALL(MemFreeAsync(array, stream));
        CALL(StreamSynchronize(stream));
        printf("round %u: %u\n", i, last);
    }
    printf("the same memory every time: %s\n", same ? "yes" : "no");
}

/* Allocated on one stream, used and freed on another. */
static void across(CUmemoryPool pool, CUstream one, CUstream other)
{
    CUdeviceptr array;
    CUevent ready;
    uint32_t word = 0;
    CALL(EventCreate(&ready, CU_EVENT_DISABLE_TIMING));
    CALL(MemAllocFromPoolAsync(&array, BYTES, pool, one));
    CALL(MemsetD32Async(array, 20, WORDS, one));
    CALL(EventRecord(ready, one));
    CALL(StreamWaitEvent(other, ready, 0));
    program_launch_scale(other, array, 2, 2, (uint32_t)WORDS);
    CALL(MemcpyDtoHAsync(&word, array, sizeof word, other));
    CALL(MemFreeAsync(array, other));
    CALL(StreamSynchronize(other));
    printf("across streams: %u\n", word);
    CALL(EventDestroy(ready));
}

/* A graph that allocates what it needs at every launch. */
static void in_a_graph(CUstream stream)
{
    CUdeviceptr array;
    CUgraph graph;
    CUgraphExec exec;
    uint32_t word = 0;
    size_t nodes = 0;
    CALL(StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CALL(MemAllocAsync(&array, BYTES, stream));
    CALL(MemsetD32Async(array, 11, WORDS, stream));
    program_launch_scale(stream, array, 3, 0, (uint32_t)WORDS);
    CALL(MemcpyDtoHAsync(&word, array + BYTES - sizeof word, sizeof word, stream));
    CALL(MemFreeAsync(array, stream));
    CALL(StreamEndCapture(stream, &graph));
    CALL(GraphGetNodes(graph, NULL, &nodes));
    CALL(GraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 2; i++) {
        word = 0;
        CALL(GraphLaunch(exec, stream));
        CALL(StreamSynchronize(stream));
        printf("a graph of %zu nodes: %u\n", nodes, word);
    }
    CALL(GraphExecDestroy(exec));
    CALL(GraphDestroy(graph));
}

int main(void)
{
    CUstream streams[2];
    program_begin();
    program_scale();
    for (int i = 0; i < 2; i++)
        CALL(StreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    CUmemoryPool pool = create();
    rounds(pool, streams[0]);
    printf("used: %llu bytes\n",
           (unsigned long long)attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    printf("kept: %s\n",
           attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= BYTES ? "yes" : "no");
    across(pool, streams[0], streams[1]);
    CALL(MemPoolTrimTo(pool, 0));
    printf("after a trim: %llu bytes\n",
           (unsigned long long)attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
    in_a_graph(streams[0]);
    CALL(MemPoolDestroy(pool));
    for (int i = 0; i < 2; i++)
        CALL(StreamDestroy(streams[i]));
    return 0;
}
