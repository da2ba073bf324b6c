// SPDX-License-Identifier: Apache-2.0
/* capture_tools.c -- states of captures, their ends, and a node to capture. */
#include "contract/capture_tools.h"

void capture_show(const char *which, tn_cu_stream stream, tn_cu_capture_status expected)
{
    static const char *const names[] = {"not capturing", "active", "invalidated"};
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;
    SET_UP(cuStreamIsCapturing(stream, &status));
    HOLDS(status == expected, "%s is %s", which, names[expected]);
}

void capture_end(tn_cu_stream stream, size_t nodes, size_t edges)
{
    tn_cu_graph graph = NULL;
    if (GIVES(SUCCESS, cuStreamEndCapture(stream, &graph)) != TN_CUDA_SUCCESS)
        return;
    HOLDS(graph_node_count(graph) == nodes, "%zu nodes", nodes);
    HOLDS(graph_edge_count(graph) == edges, "%zu edges", edges);
    SET_UP(cuGraphDestroy(graph));
}

void capture_end_badly(tn_cu_stream stream, tn_cu_result expected)
{
    tn_cu_graph graph = NULL;
    contract_gives(expected, "cuStreamEndCapture(", cu.cuStreamEndCapture(stream, &graph));
    HOLDS(graph == NULL, "no graph");
    if (graph != NULL)
        SET_UP(cuGraphDestroy(graph));
}

void capture_abandon(tn_cu_stream stream)
{
    tn_cu_graph graph = NULL;
    if (cu.cuStreamEndCapture(stream, &graph) == TN_CUDA_SUCCESS)
        cu.cuGraphDestroy(graph);
}

tn_cu_result capture_launch(tn_cu_stream stream)
{
    return cu.cuLaunchKernel(contract_kernels()->empty, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

void capture_node(tn_cu_stream stream)
{
    contract_set_up("cuLaunchKernel(", capture_launch(stream), __FILE__, __LINE__);
}

tn_cu_result capture_allocate(tn_cu_stream stream)
{
    tn_cu_deviceptr address;
    (void)stream;
    tn_cu_result result = cu.cuMemAlloc(&address, 4096);
    if (result == TN_CUDA_SUCCESS) {
        tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
        cu.cuThreadExchangeStreamCaptureMode(&mode);
        cu.cuMemFree(address);
        cu.cuThreadExchangeStreamCaptureMode(&mode);
    }
    return result;
}
