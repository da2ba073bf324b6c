// SPDX-License-Identifier: Apache-2.0
/* broken.h -- what the library knows of a capture that broke.
 *
 * The driver says of an invalidated capture that it is invalidated, and no more: neither its id,
 * nor its graph, nor the call that broke it. Tarn knows three things by itself:
 * - The graph, from the capture's beginning. An end reads its newest node (nodes/seen_node.h).
 * - The newest block. The capture was good when a block was allocated in it, and each arena knows
 *   the number of its newest block.
 * - The first call of the library that was refused for the broken capture, or broke it. The
 *   tarn_capture's hold has a note of this call.
 *
 * The capture broke between the newest block and the noted call.
 *
 * The handle of a stream tells which broken capture the stream is in: the newest capture known to
 * be of this handle. Forked streams are known by the blocks allocated on them. A capture of the
 * user's alone has no note.
 *
 * Locking: none may be held. All of this is for calls that fail. */
#ifndef TARN_GRAPHS_BROKEN_H
#define TARN_GRAPHS_BROKEN_H

#include "base/text.h"
#include "claims/hold.h"
#include "nodes/seen_node.h"
#include "pools/device.h"

/* What is known of a capture. */
struct tn_broken {
    uint64_t sequence;           /* of the newest block allocated in the capture; 0: none */
    uint64_t requested;          /* that block's bytes; 0: freed since */
    struct tn_hold_call noticed; /* the first of the library's calls to notice the break */
};

/* Notes a call that was refused for a broken capture, or broke the capture, if no call was noted
 * before. The capture is that of the stream with this id (tn_stream_captured_id). *before: the
 * known facts before the call. Returns the capture's id; 0: no tarn_capture owns the capture. */
TN_RARE uint64_t tn_broken_note(tarn_device *device, uint64_t stream_id, struct tn_hold_call call,
                                struct tn_broken *before);

/* What the pools of the device know of the capture. */
void tn_broken_find(tarn_device *device, uint64_t capture_id, struct tn_broken *known);

/* Writes the known facts as parts of a sentence, each behind a semicolon; nothing where nothing is
 * known. */
void tn_broken_put(struct tn_text *text, const struct tn_broken *known);

/* Writes the driver's answer to the end of a capture: its name, its meaning, the known facts, the
 * remedy. newest: node of the capture; number 0: not known. */
void tn_broken_put_answer(struct tn_text *text, tn_cu_result result, const struct tn_broken *known,
                          const struct tn_seen_node *newest);

/* Writes the same for a fork that was not joined: the end that was found, and the forked streams
 * that allocated blocks. origin: the order of the capture's own stream. */
void tn_broken_put_unjoined(struct tn_text *text, tarn_device *device, struct tn_order origin,
                            const struct tn_seen_node *end);

/* CAPTURE_BROKEN, for a call that finds its stream's capture broken; notes the call. so: the
 * consequence, as in "nothing can be allocated on it". */
TN_RARE tarn_status tn_broken_refuse(tarn_device *device, uint64_t stream_id,
                                     struct tn_hold_call call, const char *so);

#endif
