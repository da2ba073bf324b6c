// SPDX-License-Identifier: Apache-2.0
/* pinned.h -- page-locked host memory, which the device copies from and to without a stop.
 *
 * Taking some costs 0.6 ms a MiB, and giving it back waits for the device. So what is given up is
 * kept for the next taker, up to a limit.
 *
 * The driver's own wait when it takes memory back is not relied on: it is for the primary context, and
 * streams of others copy too.
 *
 *   D5  pinned_cached is the sum of the bytes in the list of pinned memory that nobody has
 *
 * Locking: a mutex inside, under which nothing else is taken and the driver is not called. Except for
 * tn_pinned_take, which waits for nothing, no lock may be held. */
#ifndef TARN_DRIVER_PINNED_H
#define TARN_DRIVER_PINNED_H

#include "driver/stream.h"

#define TN_PINNED_CACHE_BYTES ((uint64_t)256 << 20) /* the limit, until another is set */

struct tn_pinned {
    struct tn_pinned *next; /* nobody has it: the next older one */
    void *address;          /* for host and device alike, in every context */
    uint64_t bytes;
    tn_cu_event used; /* nobody has it: stands for the end of the last use, unless NULL */
    /* nobody has it, without such an event: the epoch after the last use; 0: idle */
    uint64_t stamp;
    bool fresh; /* somebody has it who took it from the driver */
};

/* At least bytes of it, with which nothing on the device is busy. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_pinned_take(struct tn_gpu *gpu, uint64_t bytes,
                                           struct tn_pinned **pinned);

/* Gives it up. used: an event behind all that the device does with it, taken over; NULL: nothing. */
void tn_pinned_give(struct tn_gpu *gpu, struct tn_pinned *pinned, tn_cu_event used);

/* The same, to the driver, where no event is behind what the device does with it: after a wait for the
 * device. If the driver refuses the wait, it is kept until one proves that it is idle. */
void tn_pinned_drop(struct tn_gpu *gpu, struct tn_pinned *pinned);

/* Sets how much is kept that nobody has; what is over it goes, as by tn_pinned_trim. */
void tn_pinned_set_limit(struct tn_gpu *gpu, uint64_t bytes);

/* Undoes a take, of memory that was not used. */
void tn_pinned_undo(struct tn_gpu *gpu, struct tn_pinned *pinned);

/* Gives memory that nobody has back to the driver, oldest first, until no more than keep_bytes are
 * left: waits for the device when there is any to go. What the driver refuses to wait for stays, and what it does not
 * take back: the latter is tried again at the end. */
void tn_pinned_trim(struct tn_gpu *gpu, uint64_t keep_bytes);

/* How much there is, and how much of that nobody has. */
void tn_pinned_usage(struct tn_gpu *gpu, uint64_t *bytes, uint64_t *cached_bytes);

/* Gives all of it back: nobody uses the device any more. */
void tn_pinned_end(struct tn_gpu *gpu);

#endif
