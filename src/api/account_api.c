// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"
#include "api/structs.h"
#include "graphs/account.h"

tarn_status tarn_graph_memory(tarn_graph *graph, tarn_graph_memory_info *memory)
{
    tarn_graph_memory_info known;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_graph(&call, graph))
        return call.status;
    status = tn_sized_check(TN_GRAPH_MEMORY_INFO, memory);
    if (status == TARN_OK)
        status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_account_graph(graph, &known);
    if (status == TARN_OK)
        tn_sized_write(TN_GRAPH_MEMORY_INFO, memory, &known);
    return tn_leave(status);
}

tarn_status tarn_device_graph_memory(tarn_device *device, tarn_graph_memory_info *memory)
{
    tarn_graph_memory_info known;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = tn_sized_check(TN_GRAPH_MEMORY_INFO, memory);
    if (status == TARN_OK)
        status = tn_call_enter(&call);
    if (status == TARN_OK)
        status = tn_account_device(device, &known);
    if (status == TARN_OK)
        tn_sized_write(TN_GRAPH_MEMORY_INFO, memory, &known);
    return tn_leave(status);
}
