// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"

bool tn_call_graph(struct tn_call *call, tarn_graph *graph)
{
    return tn_call_begin(call) &&
           ((tn_is_graph(graph) && tn_call_pin_pool(call, graph->pool) && tn_is_graph(graph)) ||
            tn_call_refuse(call, "graph"));
}

bool tn_call_ending_route(struct tn_call *call, tarn_route *route)
{
    return tn_call_begin(call) &&
           ((tn_is_route(route) && tn_call_pin_device(call, tn_route_device(route))) ||
            tn_call_refuse(call, "route"));
}

bool tn_call_ending_checkpoint(struct tn_call *call, tarn_checkpoint *checkpoint)
{
    return tn_call_begin(call) &&
           ((tn_is_checkpoint(checkpoint) && tn_call_pin_pool(call, checkpoint->pool) &&
             tn_is_checkpoint(checkpoint)) ||
            tn_call_refuse(call, "checkpoint"));
}

bool tn_call_checkpoint(struct tn_call *call, tarn_checkpoint *checkpoint)
{
    if (!tn_call_ending_checkpoint(call, checkpoint))
        return false;
    if (!tn_pins_try(&checkpoint->pins))
        return tn_call_refuse(call, "checkpoint");
    call->pinned = &checkpoint->pins;
    return tn_is_checkpoint(checkpoint) || tn_call_refuse(call, "checkpoint");
}

bool tn_call_capture(struct tn_call *call, tarn_capture *capture)
{
    if (!tn_call_begin(call))
        return false;
    if (!tn_is_capture(capture))
        return tn_call_refuse(call, "capture");
    (void)tn_call_pin_device(call, capture->device);
    return true;
}
