// SPDX-License-Identifier: Apache-2.0
/* The driver reports the end of a graph on a thread of its own, where the library may do next to
 * nothing. The hold is put on a list, and the next call drops it. Released pools end likewise.
 *
 * A look for pools which can end asks those that are READY, and no others: pools/pool_lock.h. */
#include "pools/janitor.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/fork.h"
#include "base/hot.h"
#include "driver/idle.h"
#include "pools/captures.h"
#include "pools/end.h"
#include "pools/pending.h"
#include "pools/pool_lock.h"
#include "pools/route.h"
#include "pools/visit.h"

/* A pool with a handle needs no lock:
 *
 *     unpins a pool                            releases its handle
 *     drops the pin                            released = true
 *     reads released                           looks at the pins
 *       true: ends released pools              none: ends the pool
 *
 * At least one of the threads sees the other. The pool may be gone by then, with another pool in
 * its record, which then gets an unneeded look. */
void tn_pool_unpin(tarn_pool *pool)
{
    tarn_device *device = pool->device;
    bool last;

    TN_ASSERT(tn_lock_none_held());
    if (tn_is_forked()) /* behind a function of the program which has forked */
        return;
    if (atomic_load(&pool->released)) {
        tn_pool_lock(pool);
        tn_pins_drop(&pool->pins);
        last = tn_pool_is_unclaimed(pool);
        tn_pool_unlock(pool);
    } else {
        tn_pins_drop(&pool->pins);
        last = atomic_load(&pool->released);
    }
    if (last)
        tn_device_end_released(device);
}

/* The driver of a lost device may destroy nothing: pools there go without its report. */
static bool orphan(tarn_pool *pool, void *unused)
{
    TN_ASSERT(tn_pool_is_locked(pool) && tn_gpu_is_lost(&pool->device->gpu));
    (void)unused;
    if (tn_pool_is_only_held(pool))
        tn_holds_orphan(pool);
    return false;
}

void tn_device_drop_gone(tarn_device *device)
{
    struct tn_hold *hold = tn_is_forked() ? NULL : atomic_exchange(&device->gone_holds, NULL);

    TN_ASSERT(tn_lock_none_held());
    while (hold != NULL) {
        struct tn_hold *next = atomic_load_explicit(&hold->next_gone, memory_order_relaxed);
        tarn_pool *pool = hold->holds->pool;
        uint64_t gone_id;

        tn_pool_lock(pool);
        gone_id = tn_hold_tell_owner(hold);
        if (gone_id != 0) {
            TN_ASSERT(pool->claims.capture_count > 0);
            pool->claims.capture_count -= 1;
        }
        tn_hold_drop(hold);
        if (atomic_load(&pool->released)) /* it may go: whoever reaps next looks at it */
            atomic_store(&device->gpu.proof_news, 1);
        tn_pool_unlock(pool);
        if (gone_id != 0)
            tn_route_end_gone(device, gone_id); /* the route claimed the pool until now */
        hold = next;
    }
    if (tn_gpu_is_lost(&device->gpu))
        (void)tn_device_visit(device, orphan, NULL);
}

/* Parked pools are worth a look when more is proven, or when no proof is needed. The DEVICE lock is
 * held. */
static void unpark(tarn_device *device, bool closing)
{
    uint64_t proven = atomic_load(&device->gpu.proven);

    TN_ASSERT(tn_lock_is_held(&device->lock));
    if (proven == device->parked_proven && !closing && !tn_gpu_is_lost(&device->gpu))
        return;
    device->parked_proven = proven;
    tn_ending_unpark(device);
}

/* Looks at a pool, and sets its ending. Returns whether the pool waits for a proof unparked. */
static bool check_released(tarn_pool *pool, bool closing)
{
    bool waits = false;
    bool parks = false;

    TN_ASSERT(tn_lock_is_held(&pool->device->lock));
    TN_ASSERT(atomic_load(&pool->released));
    tn_pool_lock(pool);
    if (tn_pool_is_unclaimed(pool) && (closing || tn_pool_discarded_count(pool) == 0)) {
        waits = !closing && !tn_pool_is_idle(pool);
        parks = waits && !tn_pool_has_pending(pool);
        if (!waits)
            tn_ending_put(pool, TN_ENDING_NOW);
        else if (parks)
            tn_ending_put(pool, TN_ENDING_PARKED);
    } else if (atomic_load(&pool->ending) == TN_ENDING_READY) {
        tn_ending_put(pool, TN_ENDING_NOT); /* it is READY again when its last claim ends */
    }
    tn_pool_unlock(pool);
    TN_ASSERT(!waits || atomic_load(&pool->ending) != TN_ENDING_NOW);
    return waits && !parks;
}

/* The end of the device overrides what keeps a pool, and looks at all. */
static tarn_pool *pick_last(tarn_device *device)
{
    for (tarn_pool *pool = device->pools; pool != NULL; pool = pool->next) {
        if (!atomic_load(&pool->released) || atomic_load(&pool->ending) == TN_ENDING_NOW)
            continue;
        (void)check_released(pool, true);
        if (atomic_load(&pool->ending) == TN_ENDING_NOW)
            return pool;
    }
    return NULL;
}

/* Those which wait for a proof, and are not parked, stay READY. */
static tarn_pool *pick_ready(tarn_device *device, uint_fast32_t *waiting)
{
    for (uint64_t left = tn_ending_count(device, TN_ENDING_READY); left > 0; left--) {
        tarn_pool *pool = tn_ending_next(device);

        if (pool == NULL)
            break;
        *waiting += check_released(pool, false);
        if (atomic_load(&pool->ending) == TN_ENDING_NOW)
            return pool;
    }
    *waiting = (uint_fast32_t)(*waiting + tn_ending_count(device, TN_ENDING_PARKED));
    return NULL;
}

/* Picks a released, unclaimed pool which no thread is ending, and marks it as being ended. Two
 * things keep a pool:
 * - DISCARDED blocks, which their users will free;
 * - memory which is not proven idle, since nobody waits for the device to end a pool.
 *
 * Only the end of the device overrides both. A pool which only a proof lets go is parked: until the
 * proof nobody looks at the pool, and allocations go on as if it were gone. */
static tarn_pool *pick_released(tarn_device *device, bool closing)
{
    tarn_pool *picked;
    uint_fast32_t waiting = 0;

    tn_lock_acquire(&device->lock);
    tn_gpu_want_proof(&device->gpu);
    unpark(device, closing);
    picked = closing ? pick_last(device) : pick_ready(device, &waiting);
    if (picked == NULL)
        atomic_store(&device->unproven_count, waiting);
    if (picked == NULL && waiting == 0)
        tn_gpu_want_no_proof(&device->gpu);
    tn_lock_release(&device->lock);
    TN_ASSERT(picked == NULL || atomic_load(&picked->ending) == TN_ENDING_NOW);
    return picked;
}

/* Ends released pools; the status is that of a wait for the device. If another thread has just
 * claimed the pool, it is looked at again: this claim may have ended while this thread was still
 * ending the pool, and then nobody else ends the pool. */
static tarn_status end_released(tarn_device *device, bool closing)
{
    tarn_pool *pool = pick_released(device, closing);
    tarn_status status = TARN_OK;

    while (pool != NULL && status == TARN_OK) {
        tn_device_drop_gone(device); /* the claims on the next pool may have gone, too */
        status = tn_pool_end_now(pool);
        if (status != TARN_OK) {
            tn_lock_acquire(&device->lock);
            tn_ending_put(pool, TN_ENDING_READY);
            tn_lock_release(&device->lock);
        }
        if (status == TARN_ERR_BUSY)
            status = TARN_OK;
        if (status == TARN_OK)
            pool = pick_released(device, closing);
    }
    return status;
}

void tn_device_end_released(tarn_device *device)
{
    tarn_status status = tn_is_forked() ? TARN_OK : end_released(device, false);

    (void)status; /* the pool stays, and is tried again */
}

tarn_status tn_device_clear(tarn_device *device)
{
    return end_released(device, true);
}

void tn_device_reap(tarn_device *device)
{
    if (atomic_load_explicit(&device->gone_holds, memory_order_relaxed) == NULL &&
        atomic_load(&device->gpu.proof_news) == 0 && !tn_gpu_is_lost(&device->gpu))
        return;
    tn_device_drop_gone(device);
    tn_device_end_released(device);
}

void tn_device_bound_released(tarn_device *device)
{
    enum { MOST_UNPROVEN = 32 }; /* each gets a look when a pool is made, captured in or ends */

    TN_ASSERT(tn_lock_none_held());
    if (atomic_load(&device->unproven_count) < MOST_UNPROVEN)
        return;
    if (tn_gpu_wait_idle(&device->gpu) == TARN_OK)
        tn_device_reap(device);
}
