// SPDX-License-Identifier: Apache-2.0
/* pinned.h -- page-locked host memory, which the device copies from and to without a stop.
 *
 * Taking page-locked memory costs 0.6 ms a MiB, and giving it back waits for the device. The
 * library therefore keeps returned memory for the next take, up to a limit.
 *
 * The library does not rely on the driver's own wait at a free. This wait is for the primary
 * context, and streams of other contexts copy, too.
 *
 *   D5  pinned_cached is the sum of the bytes in the list of pinned memory without an owner
 *
 * Locking: a mutex inside, under which nothing else is taken and the driver is not called. Except
 * for tn_pinned_take, which waits for nothing, no lock may be held. */
#ifndef TARN_DRIVER_PINNED_H
#define TARN_DRIVER_PINNED_H

#include "driver/stream.h"

#define TN_PINNED_CACHE_BYTES ((uint64_t)256 << 20) /* the limit, until another is set */

struct tn_pinned {
    struct tn_pinned *next; /* without an owner: the next older entry */
    void *address;          /* for host and device alike, in every context */
    uint64_t bytes;
    tn_cu_event used; /* without an owner: the end of the last use, or NULL */
    /* without an owner and without an event: the epoch after the last use; 0: idle */
    uint64_t stamp;
    bool fresh; /* with an owner: just taken from the driver */
};

/* Takes at least bytes of memory with which the device has finished. HOST_MEMORY, DEVICE_LOST,
 * DRIVER. */
TARN_MUST_CHECK tarn_status tn_pinned_take(struct tn_gpu *gpu, uint64_t bytes,
                                           struct tn_pinned **pinned);

/* Gives the memory up. used: an event behind all the device's work with the memory, taken over;
 * NULL: no work. */
void tn_pinned_give(struct tn_gpu *gpu, struct tn_pinned *pinned, tn_cu_event used);

/* Gives the memory back to the driver, after a wait for the device: no event stands behind the
 * device's work with it. If the driver refuses the wait, the memory is kept until a later wait
 * proves that it is idle. */
void tn_pinned_drop(struct tn_gpu *gpu, struct tn_pinned *pinned);

/* Sets the limit of memory kept without an owner; memory above the limit goes, as by
 * tn_pinned_trim. */
void tn_pinned_set_limit(struct tn_gpu *gpu, uint64_t bytes);

/* Undoes a take whose memory was not used. */
void tn_pinned_undo(struct tn_gpu *gpu, struct tn_pinned *pinned);

/* Gives memory without an owner back to the driver, oldest first, until at most keep_bytes are
 * left. Waits for the device when any memory is to go. Memory stays if the driver refuses the wait.
 * Memory stays, too, if the driver does not take it back, and is tried again at the end. */
void tn_pinned_trim(struct tn_gpu *gpu, uint64_t keep_bytes);

/* The bytes in all, and the bytes without an owner. */
void tn_pinned_usage(struct tn_gpu *gpu, uint64_t *bytes, uint64_t *cached_bytes);

/* Gives all memory back: nobody uses the device any more. */
void tn_pinned_end(struct tn_gpu *gpu);

#endif
