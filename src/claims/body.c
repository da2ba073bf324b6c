// SPDX-License-Identifier: Apache-2.0
/* Bodies are records in a list of their bodies, and groups are arenas. The order of a group's arena
 * is the group's number and the outer capture's id, marked by a bit. A group therefore ends with
 * its outer capture, as the capture's own arenas do.
 *
 * Trade-offs: in a pool with bodies each allocation in a capture walks the list. */
#include "claims/body.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/stream.h"

tarn_status tn_body_enter(struct tn_bodies *bodies, const struct tn_body *body)
{
    struct tn_body *made = tn_host_alloc(1, sizeof *made);

    TN_ASSERT(tn_body_find(bodies, body->capture_id) == NULL); /* P15 */
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a body's capture");
    *made = *body;
    made->open = true;
    made->next = bodies->first;
    bodies->first = made;
    return TARN_OK;
}

struct tn_body *tn_body_find(const struct tn_bodies *bodies, uint64_t capture_id)
{
    struct tn_body *body = bodies->first;

    while (body != NULL && body->capture_id != capture_id)
        body = body->next;
    return body;
}

struct tn_body *tn_body_find_open(const struct tn_bodies *bodies, uint64_t outer_id)
{
    struct tn_body *body = bodies->first;

    while (body != NULL && (!body->open || body->outer_id != outer_id))
        body = body->next;
    return body;
}

void tn_body_drop(struct tn_bodies *bodies, uint64_t capture_id)
{
    struct tn_body **link = &bodies->first;
    struct tn_body *dropped;

    while (*link != NULL && (*link)->capture_id != capture_id)
        link = &(*link)->next;
    dropped = *link;
    if (dropped == NULL)
        return;
    *link = dropped->next;
    tn_host_free(dropped);
}

static bool is_within(const struct tn_bodies *bodies, const struct tn_body *body,
                      uint64_t capture_id)
{
    while (body != NULL && body->outer_id != capture_id)
        body = tn_body_find(bodies, body->outer_id);
    return body != NULL;
}

bool tn_body_is_within(const struct tn_bodies *bodies, uint64_t capture_id, uint64_t outer_id)
{
    return bodies->first != NULL && is_within(bodies, tn_body_find(bodies, capture_id), outer_id);
}

/* The list is newest first, and bodies in a body are newer than it. */
size_t tn_bodies_close(struct tn_bodies *bodies, uint64_t capture_id, struct tn_body closed[],
                       size_t capacity)
{
    size_t count = 0;

    TN_ASSERT(capture_id != 0);
    for (struct tn_body *body = bodies->first; body != NULL && count < capacity;
         body = body->next) {
        if (!body->open || !is_within(bodies, body, capture_id))
            continue;
        closed[count++] = *body;
        body->open = tn_stream_is_elsewhere(body->stream, body->thread_id);
    }
    return count;
}

void tn_bodies_hold(const struct tn_bodies *bodies, const struct tn_holds *holds,
                    uint64_t capture_id, const struct tn_block *block)
{
    TN_ASSERT(capture_id != 0);
    for (struct tn_body *body = tn_body_find(bodies, capture_id); body != NULL;
         body = tn_body_find(bodies, body->outer_id)) {
        struct tn_hold *hold = tn_hold_find(holds, body->outer_id);

        if (hold != NULL)
            tn_hold_add(hold, block);
    }
}

/* For a capture around which no other is: the live blocks of its ended bodies become its own, for
 * the bodies are no longer known. Where a body's arenas still exist, its own end takes care of its
 * blocks. */
static void take_blocks_over(const struct tn_bodies *bodies, struct tn_segment *segments,
                             uint64_t capture_id)
{
    for (struct tn_block *block = tn_live_first(segments); block != NULL;
         block = tn_live_next(block)) {
        struct tn_order order = tn_block_order(block);

        if (!block->own_order && tn_body_is_within(bodies, order.capture_id, capture_id))
            tn_block_set_order(block, (struct tn_order){order.stream_id, capture_id});
    }
}

void tn_bodies_end(struct tn_bodies *bodies, struct tn_segment *segments, uint64_t capture_id)
{
    struct tn_body *ended = tn_body_find(bodies, capture_id);
    struct tn_body **link = &bodies->first;

    TN_ASSERT(capture_id != 0);
    if (ended != NULL)
        ended->open = false;
    else
        take_blocks_over(bodies, segments, capture_id);
    while (*link != NULL) {
        struct tn_body *body = *link;

        if (body->outer_id != capture_id) {
            link = &body->next;
        } else if (ended != NULL) {
            body->outer_id = ended->outer_id;
            link = &body->next;
        } else {
            *link = body->next;
            tn_host_free(body);
        }
    }
}
