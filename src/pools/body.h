// SPDX-License-Identifier: Apache-2.0
/* body.h -- captures of bodies of conditional nodes, and which memory they may share.
 *
 * A body runs where its node stands in the graph of an outer capture, whatever has been captured before
 * or after it by then. So nothing orders its memory against that of the outer capture's streams or of
 * other nodes' bodies: it is kept apart until the outer capture ends. Bodies of one group exclude each
 * other, and share what is free at a body's end: the group has an arena, which takes over what an ended
 * body owned and gives it to the next.
 *
 *   P15  a body is known from its begin until its outermost capture has ended; its group has an arena
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_BODY_H
#define TARN_POOLS_BODY_H

#include "pools/pool.h"
#include "pools/route.h"

struct tn_body {
    struct tn_body *next; /* of the pool */
    uint64_t capture_id;  /* immutable; of the body */
    uint64_t outer_id;    /* of the capture under way that it is a part of */
    uint64_t group;       /* immutable */
    tn_cu_stream stream;  /* immutable; that is captured; not used when it has ended */
    uint64_t thread_id;   /* immutable; that began it */
    bool open;            /* it is being captured */
};

/* The driver counts captures from small numbers, so this bit tells the arena of a group apart. */
#define TN_GROUP_BIT ((uint64_t)1 << 63)

static inline struct tn_order tn_group_order(const struct tn_body *body)
{
    return (struct tn_order){body->group, body->outer_id | TN_GROUP_BIT};
}

/* Makes a body known. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_body_open(tarn_pool *pool, const struct tn_body *body);

/* Forgets a body whose capture did not come about. */
void tn_body_drop(tarn_pool *pool, uint64_t capture_id);

/* The body of that capture, or NULL. */
struct tn_body *tn_body_find(const tarn_pool *pool, uint64_t capture_id);

/* A body of the capture that is being captured, or NULL. */
struct tn_body *tn_body_find_open(const tarn_pool *pool, uint64_t outer_id);

/* Whether the capture is that of a body that is known in the other one, or in a body of it. */
bool tn_body_is_within(const tarn_pool *pool, uint64_t capture_id, uint64_t outer_id);

/* Lists the bodies in the capture, and in bodies of it, that are being captured, the inner ones before
 * those around them, and makes all closed but those that another thread alone can end. Returns how many;
 * each has a route. */
size_t tn_bodies_close(tarn_pool *pool, uint64_t capture_id, struct tn_body bodies[TN_ROUTES_MAX]);

/* Adds the chunks under a block of the capture to the holds of the captures that it is a part of. */
void tn_bodies_hold(tarn_pool *pool, uint64_t capture_id, const struct tn_block *block);

/* The capture has ended, and so have its bodies, which are parts of what it is a part of. Where it is part of no other
 * their live blocks are its own, as if they had been allocated in it. */
void tn_bodies_end(tarn_pool *pool, uint64_t capture_id);

/* Whether the device has a pool that knows the capture as a body's. The DEVICE lock and those below it
 * must not be held. */
bool tn_device_has_body(tarn_device *device, uint64_t capture_id);

#endif
