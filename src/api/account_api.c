// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"
#include "graphs/account.h"

static tarn_status check_memory(const tarn_graph_memory_info *memory)
{
    if (memory == NULL || memory->size != sizeof *memory)
        return tn_bad_argument("memory is NULL or its size is not sizeof(tarn_graph_memory_info)");
    return TARN_OK;
}

tarn_status tarn_graph_memory(tarn_graph *graph, tarn_graph_memory_info *memory)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_graph(&call, graph))
        return call.status;
    status = check_memory(memory);
    if (status == TARN_OK)
        status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_account_graph(graph, memory);
    return tn_leave(status);
}

tarn_status tarn_device_graph_memory(tarn_device *device, tarn_graph_memory_info *memory)
{
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = check_memory(memory);
    if (status == TARN_OK)
        status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_account_device(device, memory);
    return tn_leave(status);
}
