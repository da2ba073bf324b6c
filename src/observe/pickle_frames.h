// SPDX-License-Identifier: Apache-2.0
/* pickle_frames.h -- stacks of a snapshot in a pickle: PyTorch's lists of frames, each list and each
 * frame written once, and named by its number from then on.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_PICKLE_FRAMES_H
#define TARN_OBSERVE_PICKLE_FRAMES_H

#include "observe/naming.h"
#include "observe/pickle.h"
#include "observe/snapshot_stacks.h"

struct tn_pickled_frame;

struct tn_pickle_frames {
    const struct tn_snapshot_stacks *stacks;
    struct tn_naming naming;
    uint32_t *lists;                 /* by ids of stacks: the list's number in the pickle, or 0 */
    struct tn_pickled_frame *frames; /* by a hash of the frame; a power of two of them */
    size_t frame_mask;
    uint32_t next; /* number in the pickle */
};

/* HOST_MEMORY, with no end to come. The stacks stay until the end. */
TARN_MUST_CHECK tarn_status tn_pickle_frames_begin(struct tn_pickle_frames *frames,
                                                   const struct tn_snapshot_stacks *stacks);
void tn_pickle_frames_end(struct tn_pickle_frames *frames);

/* Writes the list of a stack's frames, innermost first; 0, or a stack that found no room: an empty
 * list. */
void tn_pickle_frames_put(struct tn_pickle_frames *frames, struct tn_pickle *pickle, uint32_t id);

#endif
