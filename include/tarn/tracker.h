// SPDX-License-Identifier: Apache-2.0
/* tracker.h -- following the memory of a device: hearing what is mapped, before it is unmapped, and
 * when memory runs out. For libraries that register memory, as those of communication do.
 *
 * A tracker is told on the thread whose call is the cause, without any lock of Tarn's:
 * - of new memory and of failures at the end of that call;
 * - of memory that goes, before the unmapping, and Tarn waits until the tracker returns.
 *
 * Memory that a tracker knows stays mapped until the tracker hears that the memory goes. Another
 * thread may want the memory again meanwhile. Then the memory stays, and the tracker hears of it
 * once more, as of new memory. Memory of a pool that ends is told of at the end of the call.
 *
 * A tracker may hear of the end of memory of which it has not heard before:
 * - memory mapped before its registration, which tarn_snapshot_take lists;
 * - memory whose coming was lost. Events that calls of trackers cause are lost, and events behind
 *   256 others that wait to be told. lost_count counts them.
 * No end of memory is lost.
 *
 * While a tracker of MAPPED or UNMAPPING is registered, no memory moves to other addresses
 * (tarn_device_options.move_limit_bytes), and growths create more.
 *
 * A tracker may call Tarn; its thread's capture mode is relaxed meanwhile. Several threads may be
 * inside a tracker at once. Trackers return, and leave in no other way (status.h). Inside a
 * tracker:
 * - Memory that trackers know is not unmapped: a trim gives back less, and the memory of a pool
 *   that ends goes behind the tracker.
 * - To destroy the pool or checkpoint of the surrounding call, or to close any device, is BUSY.
 * - After fork() the surrounding call comes back in the child, too. If its work was not done yet,
 *   the call answers FORKED there.
 *
 * Memory of which a tracker is being told stays meanwhile. Other threads wait for a tracker in
 * these calls alone, and trackers may not wait for them:
 * - the removal of the tracker;
 * - the end of the device, whose handle trackers find refused then;
 * - an allocation that finds no memory: for a second at most.
 *
 * All functions may be called from any thread, during captures, and from within a tracker. */
#ifndef TARN_TRACKER_H
#define TARN_TRACKER_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Events that a tracker hears of. A mask has the bits of several. */
typedef enum tarn_tracked_event {
    /* Memory was mapped. */
    TARN_TRACKED_MAPPED = 1,
    /* Memory is about to be unmapped. */
    TARN_TRACKED_UNMAPPING = 2,
    /* An allocation or reservation has failed, or a restore. */
    TARN_TRACKED_OUT_OF_MEMORY = 4,
} tarn_tracked_event;

#define TARN_TRACKED_ALL 7U

/* In bytes unless named otherwise. */
typedef struct tarn_tracked {
    /* sizeof(tarn_tracked) in the library. A newer program reads no field beyond it. */
    size_t size;
    tarn_tracked_event event;
    /* OUT_OF_MEMORY: DEVICE_MEMORY or LIMIT; else TARN_OK. */
    tarn_status status;
    /* MAPPED, UNMAPPING: where the memory is, a multiple of 2 MiB; else NULL. */
    void *address;
    /* The size of the memory, one allocation of the driver's; or what the failed call asked for. */
    size_t bytes;
    /* Lost events of the device, so far. */
    uint64_t lost_count;
} tarn_tracked;

#define TARN_TRACKED_INIT TARN_SIZED(tarn_tracked)

/* *what is the library's, and stays until the tracker returns. */
typedef void (*tarn_tracker)(tarn_device *device, const tarn_tracked *what, void *user);

/* Registers a tracker, until it is removed or the device is closed. events: a mask of
 * tarn_tracked_event. Trackers are called in the order of their registration.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  tracker is NULL; or events is 0, or has other bits than those.
 *   WRONG_STATE       The tracker is registered with this user already.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_add_tracker(tarn_device *device,
                                                             tarn_tracker tracker, void *user,
                                                             unsigned events);

/* Removes a tracker, and waits until no other thread is inside. Afterwards user may go. A tracker
 * may remove itself.
 *   INVALID_HANDLE
 *   WRONG_STATE  The tracker is not registered with this user. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_remove_tracker(tarn_device *device,
                                                                tarn_tracker tracker, void *user);

#ifdef __cplusplus
}
#endif
#endif
