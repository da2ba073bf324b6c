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
 * Locking: that of the pool whose captures they are. */
#ifndef TARN_CLAIMS_BODY_H
#define TARN_CLAIMS_BODY_H

#include "claims/hold.h"

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

/* The bodies that a pool knows. */
struct tn_bodies {
    struct tn_body *first; /* newest first */
};

/* Makes a body known, which is open; its group has an arena. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_body_enter(struct tn_bodies *bodies, const struct tn_body *body);

/* Forgets a body whose capture did not come about. */
void tn_body_drop(struct tn_bodies *bodies, uint64_t capture_id);

/* The body of that capture, or NULL. */
struct tn_body *tn_body_find(const struct tn_bodies *bodies, uint64_t capture_id);

/* A body of the capture that is being captured, or NULL. */
struct tn_body *tn_body_find_open(const struct tn_bodies *bodies, uint64_t outer_id);

/* Whether the capture is that of a body that is known in the other one, or in a body of it. */
bool tn_body_is_within(const struct tn_bodies *bodies, uint64_t capture_id, uint64_t outer_id);

/* Lists the bodies in the capture, and in bodies of it, that are being captured, the inner ones before
 * those around them, and makes all closed but those that another thread alone can end. Returns how many, at most
 * capacity. */
size_t tn_bodies_close(struct tn_bodies *bodies, uint64_t capture_id, struct tn_body closed[],
                       size_t capacity);

/* Adds the chunks under a block of the capture to the holds of the captures that it is a part of. */
void tn_bodies_hold(const struct tn_bodies *bodies, const struct tn_holds *holds,
                    uint64_t capture_id, const struct tn_block *block);

/* The capture has ended, and so have its bodies, which are parts of what it is a part of. Where it is part of no other
 * their live blocks, in the segments, are its own, as if they had been allocated in it. */
void tn_bodies_end(struct tn_bodies *bodies, struct tn_segment *segments, uint64_t capture_id);

#endif
