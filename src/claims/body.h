// SPDX-License-Identifier: Apache-2.0
/* body.h -- captures of bodies of conditional nodes, and which memory they may share.
 *
 * A body runs where its node stands in the graph of an outer capture, whatever was captured before
 * or after it by then. Nothing orders its memory against the memory of the outer capture's streams,
 * or of other nodes' bodies. It is therefore kept apart until the outer capture ends. Bodies of one
 * group exclude each other, and share the memory which is free at a body's end. The group has an
 * arena, which takes over an ended body's chunks and gives them to the next body.
 *
 *   P15  a body is known from its begin until its outermost capture has ended; its group has an
 *        arena
 *
 * Locking: the lock of the pool whose captures they are. */
#ifndef TARN_CLAIMS_BODY_H
#define TARN_CLAIMS_BODY_H

#include "claims/hold.h"

struct tn_body {
    struct tn_body *next; /* of the pool */
    uint64_t capture_id;  /* immutable; of the body */
    uint64_t outer_id;    /* the capture under way which the body is a part of */
    uint64_t group;       /* immutable */
    tn_cu_stream stream;  /* immutable; the captured stream; not used after the end */
    uint64_t thread_id;   /* immutable; the thread that began it */
    bool open;            /* the body is being captured */
};

/* This bit distinguishes a group's arena: the driver counts captures from small numbers. */
#define TN_GROUP_BIT ((uint64_t)1 << 63)

static inline struct tn_order tn_group_order(const struct tn_body *body)
{
    return (struct tn_order){body->group, body->outer_id | TN_GROUP_BIT};
}

/* The bodies that a pool knows. */
struct tn_bodies {
    struct tn_body *first; /* newest first */
};

/* Enters an open body, whose group has an arena. HOST_MEMORY. */
TARN_MUST_CHECK tarn_status tn_body_enter(struct tn_bodies *bodies, const struct tn_body *body);

/* Forgets a body whose capture failed to begin. */
void tn_body_drop(struct tn_bodies *bodies, uint64_t capture_id);

/* The body of this capture, or NULL. */
struct tn_body *tn_body_find(const struct tn_bodies *bodies, uint64_t capture_id);

/* A body of the capture which is being captured, or NULL. */
struct tn_body *tn_body_find_open(const struct tn_bodies *bodies, uint64_t outer_id);

/* Whether capture_id is a body's capture, known as part of outer_id or of a body in it. */
bool tn_body_is_within(const struct tn_bodies *bodies, uint64_t capture_id, uint64_t outer_id);

/* Lists the bodies being captured in the capture, and in its bodies, inner bodies before outer
 * ones. Closes all of them, except bodies which only another thread can end. Returns their number,
 * at most capacity. */
size_t tn_bodies_close(struct tn_bodies *bodies, uint64_t capture_id, struct tn_body closed[],
                       size_t capacity);

/* Adds the chunks under a block of the capture to the holds of the captures around it. */
void tn_bodies_hold(const struct tn_bodies *bodies, const struct tn_holds *holds,
                    uint64_t capture_id, const struct tn_block *block);

/* The capture has ended, and so have its bodies. If another capture is around it, this other
 * capture now has its bodies. Otherwise the bodies are forgotten, and the capture takes over their
 * live blocks in the segments, as if they were allocated in it. */
void tn_bodies_end(struct tn_bodies *bodies, struct tn_segment *segments, uint64_t capture_id);

#endif
