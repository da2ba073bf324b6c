// SPDX-License-Identifier: Apache-2.0
/* pressure.h -- having a say when the memory of a device runs out.
 *
 * Before an allocation fails for want of memory, Tarn goes down a ladder: memory whose use on other
 * streams has ended; free memory of the pool's other streams; the callbacks registered here; chunks
 * that are mapped nowhere; free memory of other pools; a smaller growth; and at last one wait for the
 * device, after which the free memory of all is looked at again. Only then it fails, and whoever
 * observes is told first.
 *
 * Callbacks and observers run on the thread that allocates, without any lock of Tarn's, and with that
 * thread's capture mode relaxed, so that what they call breaks no capture. They may free, trim and
 * read statistics. What they allocate from Tarn themselves calls no callback and no observer. They
 * are called in the order in which they were added, and possibly by several threads at once.
 *
 * What the call around them uses stays: in them its pool and checkpoint cannot be destroyed, nor its device be closed, which
 * is BUSY; its pool may be released, and goes behind the call. Where its capture is ended or aborted there, by
 * Tarn or by the program, an allocation answers CAPTURE_BROKEN; where one is begun there on the stream of a take or restore,
 * that answers WRONG_STATE. The stream of an allocation or of tarn_pool_reserve may be destroyed there, that of a
 * take, restore or verification may not: copies come behind. They return, and leave in no other way; see status.h.
 *
 * All functions may be called from any thread, during captures, and from within a callback. */
#ifndef TARN_PRESSURE_H
#define TARN_PRESSURE_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives memory of Tarn's back, if it can: frees blocks, trims, destroys graphs. wanted_bytes: what the
 * allocation asked for. Returns true when the allocation is worth another try. */
typedef bool (*tarn_free_callback)(tarn_device *device, size_t wanted_bytes, void *user);

/* Registers a callback, until it is removed or the device is closed.
 *   INVALID_HANDLE; INVALID_ARGUMENT: callback is NULL; WRONG_STATE: this callback with this user is
 *   registered already; HOST_MEMORY */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_add_free_callback(tarn_device *device,
                                                                   tarn_free_callback callback,
                                                                   void *user);

/* Removes it, and waits until no other thread is inside it: afterwards user may go.
 *   INVALID_HANDLE; WRONG_STATE: this callback with this user is not registered */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_remove_free_callback(tarn_device *device,
                                                                      tarn_free_callback callback,
                                                                      void *user);

/* An allocation, or a reserve, that fails. Tarn fills it in. In bytes unless named otherwise. */
typedef struct tarn_out_of_memory {
    /* sizeof(tarn_out_of_memory) in the library: a program whose own is larger reads no field beyond it */
    size_t size;
    /* the pool that was to serve; NULL when its handle was given up */
    tarn_pool *pool;
    /* as asked for */
    size_t requested_bytes;
    /* free memory as the driver says; 0 when it does not answer */
    size_t driver_free_bytes;
    /* memory of the device as the driver says; 0 when it does not answer */
    size_t driver_total_bytes;
    /* mapped by Tarn on the device */
    size_t mapped_bytes;
    /* of these in live blocks */
    size_t live_bytes;
    /* taken by Tarn and mapped nowhere */
    size_t cached_bytes;
    /* of the failure: DEVICE_MEMORY or LIMIT */
    tarn_status status;
} tarn_out_of_memory;

#define TARN_OUT_OF_MEMORY_INIT TARN_SIZED(tarn_out_of_memory)

/* Is told of an allocation that fails, before it returns. */
typedef void (*tarn_oom_observer)(tarn_device *device, const tarn_out_of_memory *what, void *user);

/* Registers an observer, until it is removed or the device is closed.
 *   INVALID_HANDLE; INVALID_ARGUMENT: observer is NULL; WRONG_STATE: this observer with this user is
 *   registered already; HOST_MEMORY */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_add_oom_observer(tarn_device *device,
                                                                  tarn_oom_observer observer,
                                                                  void *user);

/* Removes it, and waits until no other thread is inside it: afterwards user may go.
 *   INVALID_HANDLE; WRONG_STATE: this observer with this user is not registered */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_remove_oom_observer(tarn_device *device,
                                                                     tarn_oom_observer observer,
                                                                     void *user);

#ifdef __cplusplus
}
#endif
#endif
