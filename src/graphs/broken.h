// SPDX-License-Identifier: Apache-2.0
/* broken.h -- what the library knows of a capture that broke.
 *
 * Of an invalidated capture the driver says that it is one, and no more: neither its id, nor its graph, nor which
 * call it was. What is known without it: the graph, from the capture's beginning, whose newest node an end reads
 * (nodes/seen_node.h). When a block was allocated in the capture the capture was good, and each arena knows the number of
 * its newest block. And the first call of the library's that was refused for the broken capture, or that broke it, is
 * noted in the hold of the tarn_capture. So what broke it came between those.
 *
 * Which capture a stream with a broken one is in, the stream's handle tells: the newest capture known to be of that
 * handle. Forked streams are known by what was allocated on them. A capture of the user's alone has no note.
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
    uint64_t sequence;           /* of the newest block allocated in it; 0: there is none */
    uint64_t requested;          /* its bytes; 0: it was freed since */
    struct tn_hold_call noticed; /* by the first of the library's calls that did */
};

/* The call was refused for the broken capture that the stream of that id (tn_stream_captured_id) is in, or has broken
 * it: notes that, if it is the first.
 * What was known of the capture before, and its id; 0: it is none of a tarn_capture's. */
TN_RARE uint64_t tn_broken_note(tarn_device *device, uint64_t stream_id, struct tn_hold_call call,
                                struct tn_broken *before);

/* What the pools of the device know of the capture. */
void tn_broken_find(tarn_device *device, uint64_t capture_id, struct tn_broken *known);

/* Writes what is known, as parts of a sentence that each begin with a semicolon; nothing where nothing is. */
void tn_broken_put(struct tn_text *text, const struct tn_broken *known);

/* Writes what the driver has answered to the end of a capture: its name, what it means, what is known, what helps.
 * newest: node of the capture; number 0: not known. */
void tn_broken_put_answer(struct tn_text *text, tn_cu_result result, const struct tn_broken *known,
                          const struct tn_seen_node *newest);

/* The same of a fork that was not joined. What is known of that is the end that was found, and the forked streams on
 * which blocks were allocated. origin: the order of the capture's own stream. */
void tn_broken_put_unjoined(struct tn_text *text, tarn_device *device, struct tn_order origin,
                            const struct tn_seen_node *end);

/* CAPTURE_BROKEN, for a call that finds its stream's capture broken; notes it. so: "nothing can be allocated on it". */
TN_RARE tarn_status tn_broken_refuse(tarn_device *device, uint64_t stream_id,
                                     struct tn_hold_call call, const char *so);

#endif
