// SPDX-License-Identifier: Apache-2.0
/* capture_things.c -- makes what the tests of captures share. */
#include "capture_things.h"

struct capture_things there;

static tn_cu_capture_status status_of(tn_cu_stream stream)
{
    tn_cu_capture_status status;
    OK(cu.cuStreamIsCapturing(stream, &status));
    return status;
}

void is_active(tn_cu_stream stream)
{
    ck_assert_int_eq(status_of(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
}

void is_invalidated(tn_cu_stream stream)
{
    ck_assert_int_eq(status_of(stream), TN_CU_CAPTURE_STATUS_INVALIDATED);
}

void is_idle(tn_cu_stream stream)
{
    ck_assert_int_eq(status_of(stream), TN_CU_CAPTURE_STATUS_NONE);
}

tn_cu_stream capturing(unsigned int flags, tn_cu_capture_mode mode)
{
    tn_cu_stream stream = new_stream(flags);
    OK(cu.cuStreamBeginCapture(stream, mode));
    return stream;
}

tn_cu_graph end_capture(tn_cu_stream stream, tn_cu_result expected)
{
    tn_cu_graph graph = (tn_cu_graph)&expected;
    ANSWERS(expected, cu.cuStreamEndCapture(stream, &graph));
    if (expected != TN_CUDA_SUCCESS)
        ck_assert_ptr_null(graph);
    return graph;
}

size_t node_count(tn_cu_graph graph)
{
    size_t count;
    OK(cu.cuGraphGetNodes(graph, NULL, &count));
    return count;
}

void make_capture_things(void)
{
    start_context();
    OK(cu.cuCtxGetCurrent(&there.context));
    there.stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
    there.event = new_event();
    OK(cu.cuEventRecord(there.event, there.stream));
    OK(cu.cuMemAlloc(&there.linear, 100));
    OK(cu.cuMemHostAlloc(&there.host, 100, 0));
    OK(cu.cuGraphCreate(&there.graph, 0));
    OK(cu.cuGraphInstantiateWithFlags(&there.exec, there.graph, 0));
    there.kernels = load_kernels();
    there.mapped = map_new(2 * MIB);
}

tn_cu_result alloc_linear(void)
{
    return cu.cuMemAlloc(&(tn_cu_deviceptr){0}, 100);
}
