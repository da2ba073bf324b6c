// SPDX-License-Identifier: Apache-2.0
/* use.h -- blocks that other orders use, and freed blocks that wait for them.
 *
 * A use is set aside, with its event, when a stream is recorded, so that the free cannot fail. At the
 * free the event is recorded on the stream; the block is PENDING until every event is done. A use in
 * a capture never runs by itself: it ends when that capture's hold closes.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_USE_H
#define TARN_POOLS_USE_H

#include "pools/pool.h"

enum tn_use_state {
    TN_USE_NOTED,    /* the block is live, or the stream was being captured when it was freed */
    TN_USE_RECORDED, /* the event stands for the end of the use */
    TN_USE_UNKNOWN,  /* the driver refused the event: only a wait for the device proves the end */
};

struct tn_use {
    struct tn_use *next; /* of the block */
    tn_cu_stream stream; /* the user's, who promised that it lives until the free takes effect */
    struct tn_order order;
    tn_cu_event event;
    uint64_t stamp; /* UNKNOWN: the epoch of the free */
    enum tn_use_state state;
};

/* Notes that the order uses the LIVE block; nothing when it is the block's own order or noted
 * before. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_use_note(tarn_pool *pool, struct tn_block *block,
                                        tn_cu_stream stream, struct tn_order order);

/* Adds a use that ends with an event recorded before; takes over the record, see tn_use_make. */
void tn_use_add_recorded(struct tn_block *block, struct tn_use *use);

/* A record with an event of the stream's context; NULL event when stream use is not to be recorded
 * by the caller. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_use_make(struct tn_gpu *gpu, tn_cu_stream stream,
                                        struct tn_order order, struct tn_use **use);
void tn_use_end(struct tn_gpu *gpu, struct tn_use *use);

/* Makes a freed block PENDING: the last step of a free that cannot be carried out at once. */
void tn_pending_add(tarn_pool *pool, struct tn_block *block);

/* Frees the PENDING blocks whose uses have ended. force: all of them, when the device is idle and no
 * capture is under way. */
void tn_pending_poll(tarn_pool *pool, bool force);

/* Takes a PENDING block off the list and ends its uses: the device was waited for, and its memory is
 * to be used again at once. The caller makes it FREE. */
void tn_pending_remove(tarn_pool *pool, struct tn_block *block);

#endif
