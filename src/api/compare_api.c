// SPDX-License-Identifier: Apache-2.0
#include "api/call.h"
#include "inspect/compare.h"
#include "inspect/compare_report.h"
#include "tarn/compare.h"

static const char no_diff[] = "diff is NULL: there is nowhere to put the result";

static tarn_status compare(const struct tn_call *call, tarn_driver_graph a, tarn_driver_graph b,
                           tarn_graph_diff **diff)
{
    tarn_status status = tn_call_enter(call);

    if (status == TARN_OK)
        status = tn_graphs_compare(&call->device->regions, a, b, diff);
    return tn_leave(status);
}

tarn_status tarn_graph_compare(tarn_graph *a, tarn_graph *b, tarn_graph_diff **diff)
{
    TN_CALL(call);

    if (!tn_call_graph(&call, a))
        return call.status;
    if (!tn_is_graph(b))
        return tn_bad_handle("graph");
    if (diff == NULL)
        return tn_bad_argument(no_diff);
    if (a->pool->device != b->pool->device)
        return tn_bad_argument("the graphs are of different devices");
    return compare(&call, a->driver_graph, b->driver_graph, diff);
}

tarn_status tarn_driver_graph_compare(tarn_device *device, tarn_driver_graph a, tarn_driver_graph b,
                                      tarn_graph_diff **diff)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (a == NULL || b == NULL)
        return tn_bad_argument("a graph to compare is NULL");
    if (diff == NULL)
        return tn_bad_argument(no_diff);
    return compare(&call, a, b, diff);
}

void tarn_graph_diff_destroy(tarn_graph_diff *diff)
{
    if (tn_call_goes_on() && diff != NULL)
        tn_graph_diff_destroy(diff);
}

tarn_status tarn_graph_diff_report(const tarn_graph_diff *diff, tarn_report_format format,
                                   char *buffer, size_t capacity, size_t *length)
{
    tarn_status status;
    size_t written;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    status = tn_check_report(format, buffer, capacity);
    if (diff == NULL)
        return tn_bad_argument("diff is NULL: there is nothing to report");
    if (status != TARN_OK)
        return status;
    written = tn_graph_diff_write_report(diff, format, buffer, capacity);
    if (length != NULL)
        *length = written;
    return TARN_OK;
}
