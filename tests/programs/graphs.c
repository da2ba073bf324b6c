// SPDX-License-Identifier: Apache-2.0
/* graphs.c -- a step captured from two streams, replayed, changed, read back, and moved to other
 * memory at the same address. */
#include "program.h"

#include <stdio.h>

#define WORDS 1000
#define BYTES ((size_t)2 << 20)
#define STEPS 3
#define MAX_NODES 16

static void count_step(void *user)
{
    *(int *)user += 1;
}

/* Set, then two branches: one scales the array, one copies it and scales the copy; then the sum of
 * steps on the host. */
static CUgraph capture(CUdeviceptr array, CUdeviceptr copy, int *steps)
{
    CUstream streams[2];
    CUevent events[2];
    CUgraph graph;
    for (int i = 0; i < 2; i++) {
        CALL(StreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        CALL(EventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    }
    CALL(StreamBeginCapture(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    program_launch_scale(streams[0], array, 2, 1, WORDS);
    CALL(MemcpyDtoDAsync(copy, array, WORDS * sizeof(uint32_t), streams[0]));
    CALL(EventRecord(events[0], streams[0]));
    CALL(StreamWaitEvent(streams[1], events[0], 0));
    program_launch_scale(streams[0], array, 1, 5, WORDS);
    program_launch_scale(streams[1], copy, 10, 0, WORDS);
    CALL(EventRecord(events[1], streams[1]));
    CALL(StreamWaitEvent(streams[0], events[1], 0));
    CALL(LaunchHostFunc(streams[0], count_step, steps));
    CALL(StreamEndCapture(streams[0], &graph));
    for (int i = 0; i < 2; i++) {
        CALL(StreamDestroy(streams[i]));
        CALL(EventDestroy(events[i]));
    }
    return graph;
}

/* Lists the graph; returns its first kernel. */
static CUgraphNode list(CUgraph graph)
{
    static const char *const names[] = {"kernel", "memcpy", "memset", "host"};
    CUgraphNode nodes[MAX_NODES];
    CUgraphNode first = NULL;
    size_t count = MAX_NODES;
    CALL(GraphGetNodes(graph, nodes, &count));
    printf("%zu nodes:", count);
    for (size_t i = 0; i < count; i++) {
        CUgraphNodeType type;
        CALL(GraphNodeGetType(nodes[i], &type));
        printf(" %s", (size_t)type < 4 ? names[type] : "other");
        if (type == CU_GRAPH_NODE_TYPE_KERNEL && first == NULL)
            first = nodes[i];
    }
    printf("\n");
    if (first == NULL)
        program_fail("no kernel");
    return first;
}

static void replay(CUgraphExec exec, CUstream stream, const char *label, CUdeviceptr array,
                   CUdeviceptr copy)
{
    for (int i = 0; i < STEPS; i++)
        CALL(GraphLaunch(exec, stream));
    CALL(StreamSynchronize(stream));
    printf("%s\n", label);
    program_print_sum("  array", array, WORDS);
    program_print_sum("  copy", copy, WORDS);
}

int main(void)
{
    CUdeviceptr base;
    CUmemGenericAllocationHandle handles[2];
    CUmemAllocationProp prop = program_prop(0);
    CUstream stream;
    CUgraphExec exec;
    CUDA_KERNEL_NODE_PARAMS params;
    int steps = 0;
    uint32_t factor = 4;
    program_begin();
    program_scale();
    CALL(StreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CALL(MemAddressReserve(&base, BYTES, 0, 0, 0));
    for (int i = 0; i < 2; i++)
        CALL(MemCreate(&handles[i], BYTES, &prop, 0));
    CALL(MemMap(base, BYTES, 0, handles[0], 0));
    program_allow(base, BYTES, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUdeviceptr copy = base + BYTES / 2;
    CALL(MemsetD32Async(base, 1, BYTES / 4, stream));
    CALL(StreamSynchronize(stream));

    CUgraph graph = capture(base, copy, &steps);
    program_print_sum("a capture runs nothing", base, WORDS);
    CUgraphNode kernel = list(graph);
    CALL(GraphInstantiateWithFlags(&exec, graph, 0));
    replay(exec, stream, "replayed:", base, copy);

    CALL(GraphKernelNodeGetParams(kernel, &params));
    printf("the first kernel has %u blocks of %u; factor %u, addend %u\n", params.gridDimX,
           params.blockDimX, *(uint32_t *)params.kernelParams[1],
           *(uint32_t *)params.kernelParams[2]);
    void *arguments[] = {params.kernelParams[0], &factor, params.kernelParams[2],
                         params.kernelParams[3]};
    params.kernelParams = arguments;
    CALL(GraphExecKernelNodeSetParams(exec, kernel, &params));
    replay(exec, stream, "with a factor of 4:", base, copy);

    CALL(GraphDestroy(graph));
    CALL(MemUnmap(base, BYTES));
    CALL(MemMap(base, BYTES, 0, handles[1], 0));
    program_allow(base, BYTES, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CALL(MemsetD32Async(base, 2, BYTES / 4, stream));
    replay(exec, stream, "in other memory at the same address:", base, copy);
    printf("%d steps\n", steps);

    CALL(GraphExecDestroy(exec));
    CALL(MemUnmap(base, BYTES));
    for (int i = 0; i < 2; i++)
        CALL(MemRelease(handles[i]));
    CALL(MemAddressFree(base, BYTES));
    CALL(StreamDestroy(stream));
    return 0;
}
