// SPDX-License-Identifier: Apache-2.0
/* snapshot_stacks.h -- the stacks and modules of a history, copied for a snapshot: the device may be
 * closed before the snapshot is written.
 *
 * Locking: tn_snapshot_stacks_copy is called without locks; a copy is the snapshot's. */
#ifndef TARN_OBSERVE_SNAPSHOT_STACKS_H
#define TARN_OBSERVE_SNAPSHOT_STACKS_H

#include "base/modules.h"
#include "base/stacks.h"
#include "pools/device.h"

/* Zeroed: there are none. */
struct tn_snapshot_stacks {
    struct tn_scroll stacks;
    struct tn_scroll modules;
    void *memory; /* of both */
};

/* Copies what the device's history has by now, in place of an earlier copy. Ids of stacks stay.
 * False: no memory, and the earlier copy stays. */
bool tn_snapshot_stacks_copy(struct tn_snapshot_stacks *stacks, tarn_device *device);
void tn_snapshot_stacks_drop(struct tn_snapshot_stacks *stacks);

/* The frames of a stack: none where the copy has no such stack. */
void tn_snapshot_stack_read(const struct tn_snapshot_stacks *stacks, uint32_t id,
                            struct tn_stack *stack);

/* A reader of the copied stacks and titles. */
struct tn_scroll_reader tn_snapshot_stacks_reader(const struct tn_snapshot_stacks *stacks);

#endif
