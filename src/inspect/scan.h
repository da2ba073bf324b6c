// SPDX-License-Identifier: Apache-2.0
/* scan.h -- addresses of Tarn's in the bytes of a pool's live blocks.
 *
 * The bytes are copied to the host, some MiB at a time, on a stream of the caller's. A copy is enqueued under the pool's
 * lock, of a block that is live then. One that is freed before the copy is made gives its old bytes or the next user's;
 * its memory stays mapped, for that does not go before the device was waited for.
 *
 * Locking: none may be held. Waits for the stream. */
#ifndef TARN_INSPECT_SCAN_H
#define TARN_INSPECT_SCAN_H

#include "inspect/references.h"
#include "pools/pool.h"

/* Zeroed memory is one that has not begun. */
struct tn_scan {
    tarn_pool *pool; /* which the caller keeps */
    tn_cu_stream stream;
    struct tn_pinned *pinned;
    tn_cu_event done;
    tarn_block *blocks; /* those that were live when it began */
    size_t block_count;
    size_t next;     /* the first block that was not copied whole */
    uint64_t offset; /* in that */
    uint64_t scanned_bytes;
};

/* Begins one. WRONG_STATE: the stream is being captured, or is the legacy default one while a blocking stream is;
 * HOST_MEMORY, DEVICE_LOST, DRIVER: it has not begun */
TARN_MUST_CHECK tarn_status tn_scan_begin(struct tn_scan *scan, tarn_pool *pool,
                                          tn_cu_stream stream);

/* Whether there is more to look through. */
static inline bool tn_scan_goes_on(const struct tn_scan *scan)
{
    return scan->next < scan->block_count;
}

/* Looks through the next bytes, and has the references name what it found there, in place of what they named.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: it is good to be ended */
TARN_MUST_CHECK tarn_status tn_scan_read(struct tn_scan *scan, struct tn_references *references);

void tn_scan_end(struct tn_scan *scan); /* one that has not begun is allowed */

#endif
