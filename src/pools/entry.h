// SPDX-License-Identifier: Apache-2.0
/* entry.h -- what every public function is inside of, but for the steady part of those that are done most.
 *
 * A call begins with the handle that the function was given, and ends by itself with the block that declares it:
 *
 *   TN_CALL(call);
 *
 *   if (!tn_call_pool(&call, pool))
 *       return call.status;
 *
 * Meanwhile:
 *   - the process is no child of fork(): there each call is refused, before the call looks at anything that a lock
 *     guards;
 *   - the thread cannot be cancelled: locks, pins and what is half done would stay. A cancellation waits for
 *     the end of the call, so no function of the library is a cancellation point;
 *   - the object of the handle is pinned, with pool and device: another thread, or a function of the program's that
 *     the call runs, cannot end it. The call looks behind the pin whether the handle is one;
 *   - the thread is in no function of the program's that has been left by a jump, or in a route's filter, under whose
 *     lock nothing of the library may be called.
 *
 * The steady parts hold nothing when they call the driver, but for replays, which unwind (graphs/replay.c).
 *
 * A handle is known by its magic number, which is small enough to stand in an instruction: records are recycled, never
 * freed, so a stale pointer can be looked at. A pool whose handle was released is not a handle any more.
 *
 * Locking: none may be held, at the beginning and at the end. */
#ifndef TARN_POOLS_ENTRY_H
#define TARN_POOLS_ENTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/hot.h"
#include "base/pins.h"
#include "pools/device.h"
#include "pools/janitor.h"
#include "pools/pool.h"

struct tn_call {
    tarn_status status; /* why it was refused */
    bool begun;
    int cancel;             /* whether the thread could be cancelled before */
    tarn_pool *keeper;      /* pinned; the default pool, which keeps the device; NULL: none */
    tarn_device *device;    /* that is kept; NULL: none */
    tarn_pool *pool;        /* pinned; NULL: none */
    struct tn_pins *pinned; /* of one more object, of that pool; NULL: none */
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

/* Begins a call that is given no handle. False: FORKED; WRONG_STATE. */
bool tn_call_begin(struct tn_call *call);

/* Begins a call with a handle. False: as above; INVALID_HANDLE. */
bool tn_call_device(struct tn_call *call, tarn_device *device);
bool tn_call_pool(struct tn_call *call, tarn_pool *pool);

/* Begins the rest of an allocation from a pool. routed: a route has led there, and the pool is pinned already, whatever
 * has become of its handle. False: as above. */
bool tn_call_allocation(struct tn_call *call, tarn_pool *pool, bool routed);

/* Goes on with a pool that the call is given beside its device. False: INVALID_HANDLE. */
bool tn_call_and_pool(struct tn_call *call, tarn_pool *pool);

/* The handle of a pool that is to go: its device is kept, and not the pool. */
bool tn_call_ending_pool(struct tn_call *call, tarn_pool *pool);

/* The parts of such a beginning for other handles, which stand above: the pin of a device; that of a device and its
 * pool; a refusal, which is false. */
bool tn_call_pin_device(struct tn_call *call, tarn_device *device);
bool tn_call_pin_pool(struct tn_call *call, tarn_pool *pool);
bool tn_call_refuse(struct tn_call *call, const char *kind);

void tn_call_end(struct tn_call *call);

/* For calls that use their device: reaps what is gone, and refuses a device that is lost. A call whose device is closed
 * goes on: the object of the handle is gone, and says so.
 *   DEVICE_LOST */
static inline tarn_status tn_call_enter(const struct tn_call *call)
{
    tarn_device *device = call->device;

    if (device == NULL || tn_device_is_quiet(device))
        return TARN_OK;
    tn_device_reap(device);
    return tn_gpu_check(&device->gpu);
}

/* The call has ended a claim, or has found one gone: a pool whose handle was given up may go with the claim. */
void tn_call_end_claim(const struct tn_call *call);

#endif
