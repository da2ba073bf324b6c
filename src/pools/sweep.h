// SPDX-License-Identifier: Apache-2.0
/* sweep.h -- questions and news for every pool of a device.
 *
 * Locking: no lock of rank DEVICE or later may be held. */
#ifndef TARN_POOLS_SWEEP_H
#define TARN_POOLS_SWEEP_H

#include "pools/device.h"

/* Polls all pending blocks of the device. Never waits. */
void tn_device_collect(tarn_device *device);

/* Closes the open holds of a capture which is over: by the capture's id, or by the graph which it
 * made. node_count: of the graph now, or TN_NODES_UNKNOWN. */
void tn_device_close_capture(tarn_device *device, uint64_t capture_id, tn_cu_graph graph,
                             size_t node_count);

/* tn_device_close_capture by the id, which also makes live blocks of the capture DISCARDED.
 * early_count: what tn_device_count_early returned before the capture began. If holds have left
 * early since then, all pools are visited. */
void tn_device_discard_capture(tarn_device *device, uint64_t capture_id, uint64_t early_count);
uint64_t tn_device_count_early(tarn_device *device);

/* A tarn_graph stands for the graph from now on: nobody waits for its holds before
 * tn_device_expect_gone. */
void tn_device_know_graph(tarn_device *device, tn_cu_graph graph);

/* The library is about to destroy the graph. Its holds are then worth waiting for, and the next
 * graph with its handle is not mistaken for it. */
void tn_device_expect_gone(tarn_device *device, tn_cu_graph graph);

/* The driver has destroyed the graph of a capture: tn_device_expect_gone for the capture's own
 * holds, open ones included. */
void tn_device_forget_capture(tarn_device *device, uint64_t capture_id);

/* Closes the holds of captures which the user began and which are over. */
void tn_device_close_over(tarn_device *device);

/* tn_device_close_over before an allocation outside captures, or the first one in another capture:
 * these must not use memory of a capture which is over. Cheap if no user's capture is known. */
static inline void tn_device_see_end(tarn_device *device)
{
    if (atomic_load(&device->user_hold_count) > 0)
        tn_device_close_over(device);
}

/* The mark behind the end of the captures whose memory the graph holds: blocks with this number or
 * a higher one were allocated later. 0: no captures, or an end was not noticed. */
uint64_t tn_device_end_mark(tarn_device *device, tn_cu_graph graph);

/* Ends the promise that the stream lives: a stream outside captures, with this id. All pools forget
 * the stream, and memory which waits for the stream then waits for a fence. HOST_MEMORY,
 * DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_device_retire_stream(tarn_device *device, tn_cu_stream stream,
                                                    uint64_t id);

/* Returns a sequence number: later blocks have this number or a higher one, earlier blocks a lower
 * one. */
uint64_t tn_device_mark(tarn_device *device);

/* Whether any pool of the device knows the capture, which is under way, as a body's. */
bool tn_device_has_body(tarn_device *device, uint64_t capture_id);

#endif
