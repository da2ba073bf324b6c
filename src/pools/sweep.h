// SPDX-License-Identifier: Apache-2.0
/* sweep.h -- what is said to every pool of a device, or asked of it.
 *
 * Locking: no lock of rank DEVICE or later may be held. */
#ifndef TARN_POOLS_SWEEP_H
#define TARN_POOLS_SWEEP_H

#include "pools/device.h"

/* Asks after all pending blocks of the device. Never waits. */
void tn_device_collect(tarn_device *device);

/* Closes the open holds of a capture that is over: by the capture's id, or by the graph that it made.
 * discard: live blocks of the capture become DISCARDED ones. */
void tn_device_close_capture(tarn_device *device, uint64_t capture_id, tn_cu_graph graph,
                             bool discard);

/* The library is about to destroy the graph. Holds that the graph keeps are worth waiting for, and the
 * next graph that gets its handle is not taken for it. */
void tn_device_expect_gone(tarn_device *device, tn_cu_graph graph);

/* The driver has destroyed the graph of a capture: the same of the capture's own holds, open ones included. */
void tn_device_forget_capture(tarn_device *device, uint64_t capture_id);

/* Closes the holds of captures that the user began and that are over. */
void tn_device_close_over(tarn_device *device);

/* The same before an allocation outside captures, or the first one in another capture: memory of a
 * capture that is over is not theirs. Cheap where no user's capture is known. */
static inline void tn_device_see_end(tarn_device *device)
{
    if (atomic_load(&device->user_hold_count) > 0)
        tn_device_close_over(device);
}

/* The mark behind the end of the captures whose memory the graph holds: blocks with that number or a
 * higher one were allocated later. 0: there are none, or the end of one was not noticed. */
uint64_t tn_device_end_mark(tarn_device *device, tn_cu_graph graph);

/* Ends the promise that the stream, outside captures and of that id, lives. All pools forget the stream,
 * and memory that waits for it waits for a fence. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_device_retire_stream(tarn_device *device, tn_cu_stream stream,
                                                    uint64_t id);

/* Blocks allocated from now on have this sequence number or a higher one, earlier blocks a lower one. */
uint64_t tn_device_mark(tarn_device *device);

/* Whether the device has a pool that knows the capture as a body's. */
bool tn_device_has_body(tarn_device *device, uint64_t capture_id);

#endif
