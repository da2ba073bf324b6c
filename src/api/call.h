// SPDX-License-Identifier: Apache-2.0
/* call.h -- calls that are given a graph, a route, a capture or a checkpoint (pools/entry.h says what a call is).
 *
 * Locking: none may be held, at the beginning and at the end. */
#ifndef TARN_API_CALL_H
#define TARN_API_CALL_H

#include "api/handles.h"

/* Begins a call with a handle. False: FORKED; WRONG_STATE; INVALID_HANDLE. */
bool tn_call_graph(struct tn_call *call, tarn_graph *graph);
bool tn_call_checkpoint(struct tn_call *call, tarn_checkpoint *checkpoint);

/* Of a route, whose end looks again whether it is open; its device is kept, and not its pool. */
bool tn_call_ending_route(struct tn_call *call, tarn_route *route);

/* Of a capture that is gone the device may be closed. Then that is not kept; else it is, and the capture its pool. */
bool tn_call_capture(struct tn_call *call, tarn_capture *capture);

/* The same of a checkpoint: its pool is kept, too. */
bool tn_call_ending_checkpoint(struct tn_call *call, tarn_checkpoint *checkpoint);

/* A whole call with NULL for what it would end: OK; FORKED. */
static inline tarn_status tn_call_nothing(void)
{
    return tn_is_forked() ? tn_fork_refuse() : TARN_OK;
}

#endif
