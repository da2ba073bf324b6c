// SPDX-License-Identifier: Apache-2.0
/* scan.h -- addresses of Tarn's in the bytes of a pool's live blocks.
 *
 * A scan copies the bytes to the host, some MiB at a time, on a stream of the caller's. A copy of a
 * live block is enqueued under the pool's lock. If the block is freed before the copy runs, the
 * copy has its old bytes or the next user's. Its memory stays mapped: nobody unmaps memory before a
 * wait for the device.
 *
 * Locking: none may be held. Waits for the stream. */
#ifndef TARN_INSPECT_SCAN_H
#define TARN_INSPECT_SCAN_H

#include "inspect/references.h"
#include "pools/pool.h"

/* Zeroed memory is a scan that has not begun. */
struct tn_scan {
    tarn_pool *pool; /* the caller keeps it */
    tn_cu_stream stream;
    struct tn_staging_block *pinned;
    tn_cu_event done;
    tarn_block *blocks; /* live blocks at the beginning */
    size_t block_count;
    size_t next;     /* the first block not yet copied whole */
    uint64_t offset; /* in this block */
    uint64_t scanned_bytes;
};

/* Begins a scan. May call functions of the program's where memory is short (pools/staging.h).
 *   WRONG_STATE: the stream is being captured, or is the legacy default stream while a blocking
 *   stream is;
 *   HOST_MEMORY, ADDRESS_SPACE, LIMIT, NOT_SUPPORTED, DEVICE_LOST, DRIVER: the scan has not begun */
TARN_MUST_CHECK tarn_status tn_scan_begin(struct tn_scan *scan, tarn_pool *pool,
                                          tn_cu_stream stream);

/* Whether bytes are left to look through. */
static inline bool tn_scan_goes_on(const struct tn_scan *scan)
{
    return scan->next < scan->block_count;
}

/* Looks through the next bytes, and puts the references found there in place of those before.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: the scan can only be ended */
TARN_MUST_CHECK tarn_status tn_scan_read(struct tn_scan *scan, struct tn_references *references);

void tn_scan_end(struct tn_scan *scan); /* also for a scan that has not begun */

#endif
