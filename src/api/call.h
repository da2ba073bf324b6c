// SPDX-License-Identifier: Apache-2.0
/* call.h -- calls with the handle of a graph, route, capture or checkpoint. pools/entry.h explains
 * calls.
 *
 * Locking: the thread holds no lock at the beginning and at the end. */
#ifndef TARN_API_CALL_H
#define TARN_API_CALL_H

#include "api/handles.h"
#include "base/user_code.h"

/* Begins a call with a handle. False: FORKED; WRONG_STATE; INVALID_HANDLE. */
bool tn_call_graph(struct tn_call *call, tarn_graph *graph);
bool tn_call_checkpoint(struct tn_call *call, tarn_checkpoint *checkpoint);

/* Begins the call that ends a route: keeps the route's device, and not its pool. The end itself
 * looks again whether the route is open. */
bool tn_call_ending_route(struct tn_call *call, tarn_route *route);

/* Begins a call with a capture: keeps the device, and the capture keeps its pool. A capture may be
 * gone and its device closed: then the call keeps no device. */
bool tn_call_capture(struct tn_call *call, tarn_capture *capture);

/* Begins the call that ends a checkpoint: keeps its device and its pool. */
bool tn_call_ending_checkpoint(struct tn_call *call, tarn_checkpoint *checkpoint);

/* For a whole call that only gives host memory back: whether the process is no child of a fork. Ends
 * the process behind a jump out of a function of the program. */
static inline bool tn_call_goes_on(void)
{
    tn_user_code_check();
    return !tn_is_forked();
}

/* A whole call that would end an object and is given NULL. OK; FORKED. */
static inline tarn_status tn_call_nothing(void)
{
    return tn_call_goes_on() ? TARN_OK : tn_fork_refuse();
}

#endif
