// SPDX-License-Identifier: Apache-2.0
/* staging.h -- page-locked (pinned) memory for copies of Tarn's own: contents of checkpoints, scans.
 *
 * The memory is blocks of a pool of the host, which the device makes at the first take and which
 * nobody else allocates from. A block that the device may still use waits with an event behind this
 * use. Memory of the pool without a block is kept for the next takes, up to a limit; more of it
 * goes to the driver as blocks are given up. Where the pool's memory is registered, blocks above a
 * piece are registrations of their own, which are not kept.
 *
 * Locking: a mutex inside, under which nothing else is taken and the driver is not called. No lock
 * may be held. */
#ifndef TARN_POOLS_STAGING_H
#define TARN_POOLS_STAGING_H

#include "pools/device.h"

struct tn_staging_block {
    struct tn_staging_block *next; /* waiting: the next older one */
    void *address;                 /* for host and device alike, in every context */
    uint64_t bytes;
    tn_cu_event used; /* waiting: the end of the last use, or NULL */
    uint64_t stamp;   /* waiting, without an event: the epoch after the last use */
    uint64_t mapped;  /* bytes of the pool before the take */
    bool is_whole;    /* no block of the pool, but a registration of its own */
};

/* Takes at least bytes of memory with which the device has finished. pool: the device's TN_HOST_STAGING
 * (pools/opening.h). Waits for nothing, and may call functions of the program's where memory is
 * short, as any allocation.
 *   HOST_MEMORY, ADDRESS_SPACE, LIMIT, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_staging_take(tarn_pool *pool, uint64_t bytes,
                                            struct tn_staging_block **block);

/* Gives the block up. used: an event behind all the device's work with it, taken over; NULL: no
 * work, or none is left. Above the limit this waits for the oldest blocks given up. */
void tn_staging_give(tarn_device *device, struct tn_staging_block *block, tn_cu_event used);

/* Undoes a take whose block was not used: memory that was made for it goes to the driver. */
void tn_staging_undo(tarn_device *device, struct tn_staging_block *block);

/* Gives the block up behind a wait for the device: no event stands behind the device's work with it.
 * If the driver refuses the wait, the block waits until a later one proves that it is idle. */
void tn_staging_drop(tarn_device *device, struct tn_staging_block *block);

/* Sets the limit of memory kept; memory above the limit goes, as by tn_staging_trim. */
void tn_staging_set_limit(tarn_device *device, uint64_t bytes);

/* Gives memory that nobody has to the driver, until at most keep_bytes are left. Waits for blocks
 * given up, the oldest first; where the driver refuses the wait, they stay. */
void tn_staging_trim(tarn_device *device, uint64_t keep_bytes);

/* The bytes that are mapped, and those that nobody has. */
void tn_staging_usage(tarn_device *device, uint64_t *bytes, uint64_t *cached_bytes);

/* Frees the blocks given up, behind their work: the device is closed to calls. */
void tn_staging_end(tarn_device *device);

#endif
