// SPDX-License-Identifier: Apache-2.0
/* call.h -- what every public function is inside of, but for the steady part of those that are done most.
 *
 * A call begins with what it was given, and ends by itself with the block that declares it:
 *
 *   TN_CALL(call);
 *
 *   if (!tn_call_pool(&call, pool))
 *       return call.status;
 *
 * Meanwhile:
 *   - it is no child of fork(): there each call is refused, before it looks at anything that a lock guards;
 *   - the thread cannot be cancelled: locks, pins and what is half done would stay. A cancellation waits for
 *     the end of the call, so no function of the library is a cancellation point;
 *   - what it was given is pinned, with pool and device: another thread, or a function of the program's that the call
 *     runs, cannot end it. Whether the handle is one is looked at behind the pin;
 *   - the thread is in no function of the program's that has been left by a jump, or in a route's filter, under whose
 *     lock nothing of the library may be called.
 *
 * The steady parts hold nothing when they call the driver, but for replays, which unwind (graphs/replay.c).
 *
 * Locking: none may be held, at the beginning and at the end. */
#ifndef TARN_API_CALL_H
#define TARN_API_CALL_H

#include "api/handles.h"

struct tn_call {
    tarn_status status; /* why it was refused */
    bool begun;
    int cancel;                  /* whether the thread could be cancelled before */
    tarn_device *device;         /* pinned; NULL: none */
    tarn_pool *pool;             /* pinned; NULL: none */
    tarn_checkpoint *checkpoint; /* pinned; NULL: none */
};

#define TN_CALL(name)                                                                              \
    struct tn_call name __attribute__((cleanup(tn_call_end))) = {.status = TARN_OK}

/* Begins a call that is given no handle. False: FORKED; WRONG_STATE. */
bool tn_call_begin(struct tn_call *call);

/* Begins a call with a handle. False: as above; INVALID_HANDLE. */
bool tn_call_device(struct tn_call *call, tarn_device *device);
bool tn_call_pool(struct tn_call *call, tarn_pool *pool);
bool tn_call_graph(struct tn_call *call, tarn_graph *graph);
bool tn_call_checkpoint(struct tn_call *call, tarn_checkpoint *checkpoint);

/* Begins the rest of an allocation from a pool. routed: a route has led there, and the pool is pinned already, whatever
 * has become of its handle. False: as above. */
bool tn_call_allocation(struct tn_call *call, tarn_pool *pool, bool routed);

/* Goes on with a pool that the call is given beside its device. released: one whose handle was given up will do, which
 * a route keeps. False: INVALID_HANDLE. */
bool tn_call_and_pool(struct tn_call *call, tarn_pool *pool, bool released);

/* The handle of a pool that is to go: its device is kept, and not the pool. */
bool tn_call_ending_pool(struct tn_call *call, tarn_pool *pool);

/* Of a capture that is gone the device may be closed. Then that is not kept; else it is, and the capture its pool. */
bool tn_call_capture(struct tn_call *call, tarn_capture *capture);

/* The same of a checkpoint: its pool is kept, too. */
bool tn_call_ending_checkpoint(struct tn_call *call, tarn_checkpoint *checkpoint);

void tn_call_end(struct tn_call *call);

/* A whole call with NULL for what it would end: OK; FORKED. */
static inline tarn_status tn_call_nothing(void)
{
    return tn_is_forked() ? tn_fork_refuse() : TARN_OK;
}

#endif
