// SPDX-License-Identifier: Apache-2.0
/* hold.h -- a claim that keeps chunks from going.
 *
 *   P7  a chunk's hold_count is the number of holds of its pool that contain it
 *
 * A hold is OPEN while the work that claims is being captured: every chunk in which that capture
 * allocates, or in which a block is freed meanwhile, joins it. CLOSED, it stays as it is until its
 * claimant says that it is gone, from any thread and without a lock; the next call on the device
 * then reaps it.
 *
 * Chunks of a hold are captured: their memory serves captures of this pool alone.
 *
 * Locking: the pool's lock, except where said. Records are recycled, never freed. */
#ifndef TARN_POOLS_HOLD_H
#define TARN_POOLS_HOLD_H

#include <stdatomic.h>

#include "pools/arena.h"

enum tn_claim {
    TN_CLAIM_HELD,     /* the claimant will say when it is gone */
    TN_CLAIM_GONE,     /* it has; the hold is, or will be at once, on the device's list */
    TN_CLAIM_ORPHANED, /* nobody listens any more; the record is never used again */
};

struct tn_hold {
    uint64_t magic;       /* TN_HOLD_MAGIC; 0 in a recycled record */
    struct tn_hold *next; /* of the pool; also links recycled records */
    struct tn_hold *_Atomic next_gone; /* on the device's list of those to reap */
    atomic_int claim;     /* enum tn_claim */
    tarn_pool *pool;      /* immutable */
    uint64_t capture_id;  /* immutable */
    uint64_t origin_id;   /* stream id of the order that opened it; immutable */
    bool open;
    bool owned;    /* a tarn_capture opened it and will close it */
    bool routed;   /* a route led its first allocation here, and closes it when it ends */
    tn_cu_graph graph; /* that is being captured; immutable, compared and never used */
    uint64_t *map; /* a bit for each chunk id */
    size_t word_count;
};

#define TN_HOLD_MAGIC 0x546e486f6c643031ULL

/* Opens a hold. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_hold_open(tarn_pool *pool, struct tn_order order, bool owned,
                                         struct tn_hold **hold);

/* The open hold of that capture in the pool, or NULL. */
struct tn_hold *tn_hold_find(tarn_pool *pool, uint64_t capture_id);

/* Makes every open hold have room for chunk ids below count; false when there is no memory. */
bool tn_holds_reserve(tarn_pool *pool, size_t count);

/* Adds the chunks under the block. */
void tn_hold_add(struct tn_hold *hold, const struct tn_block *block);

/* Closes it: the arenas of its capture end. */
void tn_hold_close(struct tn_hold *hold);

/* Closes the open holds of one stream that no tarn_capture owns, but for that of the capture given:
 * the stream's other captures are over. */
void tn_holds_close_unowned(tarn_pool *pool, uint64_t stream_id, uint64_t capture_id);

/* Closes the open holds that a route led here and no tarn_capture owns: their route has ended. */
void tn_holds_close_routed(tarn_pool *pool);

/* Closes the open holds of a capture that is over: by its id, or by the graph that it made. */
void tn_holds_close_capture(tarn_pool *pool, uint64_t capture_id, tn_cu_graph graph);

/* Says that the claimant is gone. No lock; any thread, those of the driver included: it calls
 * nothing. void * so that it can be a user object's destructor. */
void tn_hold_gone(void *hold);

/* Drops a hold at once: for one that never got a claimant. */
void tn_hold_drop(struct tn_hold *hold);

/* Drops all holds whose claimants are not gone: on a lost device, whose driver destroys nothing and
 * runs nothing. */
void tn_holds_orphan(tarn_pool *pool);

#endif
