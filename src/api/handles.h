// SPDX-License-Identifier: Apache-2.0
/* handles.h -- the checks at the beginning of every API function.
 *
 * pools/entry.h says how a handle is known, and has the checks of devices and pools. */
#ifndef TARN_API_HANDLES_H
#define TARN_API_HANDLES_H

#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/hot.h"
#include "base/user_code.h"
#include "checkpoint/state.h"
#include "graphs/capture.h"
#include "pools/entry.h"
#include "pools/janitor.h"
#include "pools/route.h"
#include "tarn/stats.h"

static inline tarn_status tn_bad_argument(const char *what)
{
    return tn_fail(TARN_ERR_INVALID_ARGUMENT, "%s", what);
}

static inline bool tn_is_capture(tarn_capture *capture)
{
    return capture != NULL && atomic_load(&capture->magic) == TN_CAPTURE_MAGIC;
}

static inline bool tn_is_graph(tarn_graph *graph)
{
    uint64_t magic = graph != NULL ? atomic_load(&graph->magic) : 0;

    return magic == TN_GRAPH_MAGIC || magic == TN_GRAPH_STALE || magic == TN_GRAPH_RECORDED;
}

/* Whether the handle is a graph's which may be replayed, and nobody is told. */
static inline bool tn_is_fresh_graph(tarn_graph *graph)
{
    return graph != NULL && atomic_load(&graph->magic) == TN_GRAPH_MAGIC;
}

static inline bool tn_is_route(tarn_route *route)
{
    return route != NULL && atomic_load(&route->magic) == TN_ROUTE_MAGIC;
}

static inline bool tn_is_checkpoint(tarn_checkpoint *checkpoint)
{
    return checkpoint != NULL && atomic_load(&checkpoint->magic) == TN_CHECKPOINT_MAGIC;
}

/* The last statement of an API function: the thread holds no lock, except the routes' around a
 * filter. */
static inline tarn_status tn_leave(tarn_status status)
{
    TN_ASSERT(tn_lock_none_held() || tn_user_code_is_filter());
    return status;
}

/* Checks the format of a report, and the buffer for its text. */
static inline tarn_status tn_check_report(tarn_report_format format, const char *buffer,
                                          size_t capacity)
{
    if (buffer == NULL && capacity > 0)
        return tn_bad_argument("buffer is NULL, and its capacity is not 0");
    if ((unsigned)format > TARN_REPORT_JSON)
        return tn_bad_argument("format is not one of tarn_report_format");
    return TARN_OK;
}

/* For calls that release something of a pool: a pool whose handle was given up may now go. */
static inline void tn_released_check(tarn_device *device, bool released)
{
    if (released)
        tn_device_end_released(device);
}

#endif
