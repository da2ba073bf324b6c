// SPDX-License-Identifier: Apache-2.0
/* pressure.h -- having a say when the memory of a device runs out.
 *
 * An allocation that finds no memory goes down a ladder:
 * - memory whose use on other streams has ended;
 * - free memory of the pool's other streams;
 * - the callbacks registered here;
 * - chunks that are mapped nowhere;
 * - free memory of other pools;
 * - a smaller growth;
 * - a single wait for the device, and a second look at all free memory.
 *
 * Only then it fails. Observers are told before the call returns.
 *
 * Callbacks and observers run on the allocating thread, without any lock of Tarn's. That thread's
 * capture mode is relaxed: their calls break no capture. They may free, trim and read statistics.
 * Their own allocations from Tarn call no callback and no observer. They are called in the order of
 * their registration, possibly by several threads at once. They must return, and leave in no other
 * way (status.h).
 *
 * Inside a callback or observer the objects of the surrounding call stay:
 * - To destroy its pool or checkpoint, or to close its device, is BUSY.
 * - Its pool may be released, and goes behind the call.
 * - If its capture is ended or aborted, by Tarn or by the program, an allocation answers
 *   CAPTURE_BROKEN.
 * - If a capture begins on the stream of a take, restore or tarn_calloc, the call answers
 *   WRONG_STATE.
 * - The stream of an allocation outside captures, or of tarn_pool_reserve, may be destroyed. In a
 *   capture it lives on (memory.h).
 * - The stream of a take, restore, verification or tarn_calloc may not: its work comes behind.
 *
 * All functions may be called from any thread, during captures, and from within a callback. */
#ifndef TARN_PRESSURE_H
#define TARN_PRESSURE_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives memory of Tarn's back, if possible: frees blocks, trims, destroys graphs. wanted_bytes: the
 * bytes that the allocation asked for. Returns true if the allocation is worth another try. */
typedef bool (*tarn_free_callback)(tarn_device *device, size_t wanted_bytes, void *user);

/* Registers a callback, until it is removed or the device is closed.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  callback is NULL.
 *   WRONG_STATE       The callback is registered with this user already.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_add_free_callback(tarn_device *device,
                                                                   tarn_free_callback callback,
                                                                   void *user);

/* Removes a callback, and waits until no other thread is inside. Afterwards user may go.
 *   INVALID_HANDLE
 *   WRONG_STATE  The callback is not registered with this user. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_remove_free_callback(tarn_device *device,
                                                                      tarn_free_callback callback,
                                                                      void *user);

/* Gives the size of the largest allocation that would succeed now on the stream, without a wait for
 * the GPU. Libraries size their workspaces by it. Free memory of the pool
 * counts, free memory that other pools would give, and the driver's. The limits hold.
 *
 * pool: as for tarn_pool_malloc; NULL: the pool that tarn_malloc would choose, by the routes.
 * *bytes: 0: nothing can be allocated. On a device where nothing else happens, an allocation of
 * *bytes succeeds without a wait, and one of 2 MiB more does not. Exceptions:
 * - Callbacks registered here are not asked, and may give more.
 * - Of the driver's free memory 4 MiB are left out: the driver does not give its last.
 * - Work ends meanwhile, and an event tells Tarn so.
 * - In a pool with a checkpoint, freed blocks that still wait for a restore are not counted.
 * - Addresses may be short.
 *
 * Asking allocates, moves and gives back nothing. Like an allocation, it looks which streams have
 * passed, and may record an event on the stream. It looks at all segments of the pool, and at the
 * chunks of the device's other pools.
 *   INVALID_HANDLE    The device; or the pool, which is not NULL.
 *   INVALID_ARGUMENT  bytes is NULL.
 *                     The pool is of another device.
 *   WRONG_STATE       The stream is being captured.
 *   NOT_SUPPORTED     The pool's memory is the host's (host.h): nobody tells what the host has.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_largest(tarn_device *device, tarn_pool *pool,
                                                         tarn_stream stream, size_t *bytes);

/* An allocation, or a reservation, that fails. In bytes unless named otherwise. */
typedef struct tarn_out_of_memory {
    /* sizeof(tarn_out_of_memory) in the library. A newer program reads no field beyond it. */
    size_t size;
    /* The pool that was to serve; NULL: its handle was given up. */
    tarn_pool *pool;
    /* As asked for. */
    size_t requested_bytes;
    /* Free memory as the driver reports; 0: the driver does not answer. */
    size_t driver_free_bytes;
    /* Memory of the device as the driver reports; 0: the driver does not answer. */
    size_t driver_total_bytes;
    /* Mapped by Tarn on the device. */
    size_t mapped_bytes;
    /* In live blocks, of the mapped bytes. */
    size_t live_bytes;
    /* Taken by Tarn, and mapped nowhere. */
    size_t cached_bytes;
    /* The status of the failure: DEVICE_MEMORY or LIMIT; HOST_MEMORY for a pool in memory of the
     * host. The three numbers above are then of that memory. */
    tarn_status status;
} tarn_out_of_memory;

#define TARN_OUT_OF_MEMORY_INIT TARN_SIZED(tarn_out_of_memory)

/* Hears of a failing allocation before the allocation returns. */
typedef void (*tarn_oom_observer)(tarn_device *device, const tarn_out_of_memory *what, void *user);

/* Registers an observer, until it is removed or the device is closed.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  observer is NULL.
 *   WRONG_STATE       The observer is registered with this user already.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_add_oom_observer(tarn_device *device,
                                                                  tarn_oom_observer observer,
                                                                  void *user);

/* Removes an observer, and waits until no other thread is inside. Afterwards user may go.
 *   INVALID_HANDLE
 *   WRONG_STATE  The observer is not registered with this user. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_remove_oom_observer(tarn_device *device,
                                                                     tarn_oom_observer observer,
                                                                     void *user);

#ifdef __cplusplus
}
#endif
#endif
