// SPDX-License-Identifier: Apache-2.0
/* entry.h -- the frame around every public function, except the steady parts of the most frequent
 * functions.
 *
 * A call begins with the handle which the function was given, and ends by itself with the block
 * that declares it:
 *
 *   TN_CALL(call);
 *
 *   if (!tn_call_pool(&call, pool))
 *       return call.status;
 *
 * Meanwhile:
 * - The process is no child of fork(): there each call is refused, before it looks at anything
 *   which a lock guards.
 * - The thread cannot be cancelled, which would leave locks, pins and unfinished changes. A
 *   cancellation waits for the end of the call, so no function of the library is a cancellation
 *   point.
 * - The object of the handle is pinned, with pool and device: another thread, or a function of the
 *   program which the call runs, cannot end it. The call checks the handle again behind the pin.
 * - The thread is in no function of the program which was left by a jump, nor in a route's filter,
 *   under whose lock nothing of the library may be called.
 *
 * The steady parts hold nothing when they call the driver; only replays do, and unwind
 * (graphs/replay.c).
 *
 * A handle is known by its magic number, which is small enough for an instruction. Records are
 * recycled, never freed, so a stale pointer can be read. A pool whose handle was released is not a
 * handle any more.
 *
 * Locking: the thread holds no lock at the beginning and at the end. */
#ifndef TARN_POOLS_ENTRY_H
#define TARN_POOLS_ENTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/fork.h"
#include "base/hot.h"
#include "base/pins.h"
#include "pools/device.h"
#include "pools/end.h"
#include "pools/janitor.h"
#include "pools/pool.h"
#include "pools/trackers.h"

struct tn_call {
    tarn_status status; /* why the call was refused */
    bool begun;
    int cancel;             /* whether the thread could be cancelled before the call */
    tarn_pool *keeper;      /* pinned; the default pool, which keeps the device; NULL: none */
    tarn_device *device;    /* the device kept by keeper; NULL: none */
    tarn_pool *pool;        /* pinned; NULL: none */
    struct tn_pins *pinned; /* of another object, of this pool; NULL: none */
};

#define TN_CALL(name)                                                                              \
    struct tn_call name __attribute__((cleanup(tn_call_end))) = {.status = TARN_OK}

static inline bool tn_is_device(tarn_device *device)
{
    return device != NULL && atomic_load(&device->magic) == TN_DEVICE_MAGIC;
}

static inline bool tn_is_pool(tarn_pool *pool)
{
    return pool != NULL && atomic_load(&pool->magic) == TN_POOL_MAGIC &&
           !atomic_load_explicit(&pool->released, memory_order_relaxed);
}

/* INVALID_HANDLE; FORKED */
TN_RARE tarn_status tn_bad_handle(const char *kind);

/* Begins a call without a handle. False: FORKED; WRONG_STATE. */
bool tn_call_begin(struct tn_call *call);

/* Begins a call with a handle. False: as above; INVALID_HANDLE. */
bool tn_call_device(struct tn_call *call, tarn_device *device);
bool tn_call_pool(struct tn_call *call, tarn_pool *pool);

/* Begins the rest of an allocation from a pool. routed: a route has led there, and the pool is
 * already pinned, whatever has become of its handle. False: as above. */
bool tn_call_allocation(struct tn_call *call, tarn_pool *pool, bool routed);

/* Adds a pool which the call is given beside its device. False: INVALID_HANDLE. */
bool tn_call_and_pool(struct tn_call *call, tarn_pool *pool);

/* Begins a call with the handle of a pool which is to go: keeps its device, and not the pool. */
bool tn_call_ending_pool(struct tn_call *call, tarn_pool *pool);

/* Parts of the beginning for handles of higher folders: the pin of a device; the pins of a device
 * and its pool; a refusal, which returns false. */
bool tn_call_pin_device(struct tn_call *call, tarn_device *device);
bool tn_call_pin_pool(struct tn_call *call, tarn_pool *pool);
bool tn_call_refuse(struct tn_call *call, const char *kind);

void tn_call_end(struct tn_call *call);

/* For calls which use their device: reaps holds and pools, and refuses a lost device. A call whose
 * device is closed goes on: the object of the handle is gone, too, and the call reports this.
 *   DEVICE_LOST; FORKED: in a tracker */
static inline tarn_status tn_call_enter(const struct tn_call *call)
{
    tarn_device *device = call->device;

    if (device == NULL || tn_device_is_quiet(device))
        return TARN_OK;
    tn_device_reap(device);
    if (tn_trackers_are_due(device))
        tn_pools_end_told(device, false);
    return tn_is_forked() ? tn_fork_refuse() : tn_gpu_check(&device->gpu);
}

/* The call has ended a claim, or found one gone: a pool whose handle was given up may go with the
 * claim. */
void tn_call_end_claim(const struct tn_call *call);

#endif
