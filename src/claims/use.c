// SPDX-License-Identifier: Apache-2.0
/* Uses are records in a list which begins in the block's cold record. A note of a use outside
 * captures sets aside a fence of the stream, which its end needs.
 *
 * A block whose own stream was retired is of no order any more. The fence of the retirement ends
 * the stream's work on the block, like a use.
 *
 * Trade-offs: a list, walked when a stream is noted again: blocks have few uses. */
#include "claims/use.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/thread.h"
#include "heap/live_index.h"

tarn_status tn_use_make(struct tn_streams *streams, tn_cu_stream stream, struct tn_order order,
                        struct tn_use **use)
{
    struct tn_use *made = tn_host_alloc(1, sizeof *made);
    tarn_status status = TARN_OK;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to record a stream's use");
    made->order = order;
    if (order.capture_id != 0) {
        made->handle = stream;
        made->thread = tn_thread_id();
        atomic_fetch_add_explicit(&streams->captured_use_count, 1, memory_order_relaxed);
    } else {
        status = tn_streams_note(streams, stream, order.stream_id, &made->stream);
    }
    if (status != TARN_OK) {
        tn_host_free(made);
        return status;
    }
    *use = made;
    return TARN_OK;
}

void tn_use_end(struct tn_streams *streams, struct tn_use *use)
{
    if (use->order.capture_id != 0)
        atomic_fetch_sub_explicit(&streams->captured_use_count, 1, memory_order_relaxed);
    if (use->stream != NULL)
        tn_streams_unnote(streams, use->stream);
    if (use->fence != NULL)
        tn_fence_release(streams, use->fence);
    tn_host_free(use);
}

void tn_block_note_claims(struct tn_block *block)
{
    block->may_have_claims = true; /* P18 */
    if (block->state == TN_BLOCK_LIVE)
        tn_live_update(block); /* P23 */
}

static void add_use(struct tn_block *block, struct tn_use *use)
{
    struct tn_block_cold *cold = tn_block_cold(block);

    use->next = cold->uses;
    cold->uses = use;
    tn_block_note_claims(block);
}

/* Whether the block's use already notes the order. If so, the calling thread becomes the one which
 * named its stream last. */
static bool name_again(struct tn_streams *streams, struct tn_use *use, struct tn_order order)
{
    if (!tn_order_equal(use->order, order) || use->fence != NULL)
        return false;
    if (use->stream != NULL)
        return tn_streams_name(streams, use->stream);
    use->thread = tn_thread_id();
    return true;
}

tarn_status tn_use_note(struct tn_streams *streams, struct tn_block *block, tn_cu_stream stream,
                        struct tn_order order)
{
    struct tn_use *use;
    tarn_status status;

    TN_ASSERT(block->state == TN_BLOCK_LIVE);
    if (tn_order_equal(tn_block_order(block), order))
        return TARN_OK;
    for (use = tn_block_uses(block); use != NULL; use = use->next) {
        if (name_again(streams, use, order))
            return TARN_OK;
    }
    if (!tn_block_add_cold(block))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to record a stream's use");
    status = tn_use_make(streams, stream, order, &use);
    if (status != TARN_OK)
        return status;
    add_use(block, use);
    return TARN_OK;
}

void tn_use_withdraw(struct tn_streams *streams, struct tn_block *block, struct tn_order order)
{
    struct tn_use **link = block->may_have_claims ? &tn_block_cold(block)->uses : NULL;
    struct tn_use *use;

    TN_ASSERT(block->state == TN_BLOCK_LIVE);
    while (link != NULL && *link != NULL && !tn_order_equal((*link)->order, order))
        link = &(*link)->next;
    if (link == NULL || *link == NULL)
        return;
    use = *link;
    *link = use->next;
    tn_use_end(streams, use);
}

size_t tn_uses_count(const struct tn_block *block)
{
    size_t count = 0;

    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next)
        count += use->stream != NULL;
    return count;
}

void tn_uses_save(struct tn_streams *streams, const struct tn_block *block,
                  struct tn_known_stream **saved)
{
    size_t count = 0;

    TN_ASSERT(block->state == TN_BLOCK_LIVE);
    for (const struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (use->stream == NULL)
            continue;
        tn_streams_acquire(streams, use->stream);
        saved[count] = use->stream;
        count += 1;
    }
}

static tarn_status make_again(struct tn_streams *streams, struct tn_known_stream *stream,
                              struct tn_use **uses)
{
    struct tn_use *made = tn_host_alloc(1, sizeof *made);
    bool noted = false;
    tarn_status status;

    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to record a stream's use");
    status = tn_streams_copy_note(streams, stream, &noted);
    if (status != TARN_OK || !noted) {
        tn_host_free(made);
        return status;
    }
    made->order = (struct tn_order){stream->id, 0};
    made->stream = stream;
    made->next = *uses;
    *uses = made;
    return TARN_OK;
}

tarn_status tn_uses_make(struct tn_streams *streams, struct tn_known_stream *const *of,
                         size_t count, struct tn_use **uses)
{
    struct tn_use *made = NULL;

    for (size_t i = 0; i < count; i++) {
        tarn_status status = make_again(streams, of[i], &made);

        if (status != TARN_OK) {
            tn_uses_drop(streams, made);
            return status;
        }
    }
    *uses = made;
    return TARN_OK;
}

void tn_uses_drop(struct tn_streams *streams, struct tn_use *uses)
{
    while (uses != NULL) {
        struct tn_use *next = uses->next;

        tn_use_end(streams, uses);
        uses = next;
    }
}

void tn_uses_give(struct tn_block *block, struct tn_use *uses)
{
    struct tn_use **link;

    TN_ASSERT(uses == NULL || block->state == TN_BLOCK_LIVE);
    if (uses == NULL)
        return;
    link = &tn_block_cold(block)->uses;
    while (*link != NULL)
        link = &(*link)->next;
    *link = uses;
    tn_block_note_claims(block);
}

/* All work of the use is on its stream: a fence ends the use. */
static void fence_use(struct tn_streams *streams, struct tn_use *use)
{
    TN_ASSERT(use->stream != NULL && use->fence == NULL);
    use->fence = tn_streams_enter_fence(streams, use->stream);
    use->stream = NULL;
}

void tn_uses_enter_fences(struct tn_streams *streams, struct tn_block *block)
{
    TN_ASSERT(block->state != TN_BLOCK_PENDING); /* the block is being freed */
    for (struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
        if (use->stream != NULL)
            fence_use(streams, use);
    }
}

void tn_uses_forget(const struct tn_streams *streams, struct tn_segment *segments,
                    tn_cu_stream handle)
{
    if (!tn_uses_are_captured(streams))
        return;
    for (struct tn_block *block = tn_live_first(segments); block != NULL;
         block = tn_live_next(block)) {
        for (struct tn_use *use = tn_block_uses(block); use != NULL; use = use->next) {
            if (use->handle == handle)
                use->handle = NULL;
        }
    }
}

tarn_status tn_use_record(struct tn_streams *streams, struct tn_use *use)
{
    TN_ASSERT(use->stream != NULL);
    fence_use(streams, use);
    if (tn_fence_flush(streams, use->fence))
        return TARN_OK;
    if (atomic_load(&use->fence->state) == TN_FENCE_OPEN)
        return tn_fail(TARN_ERR_DRIVER, "the stream began to be captured during the call");
    return TARN_ERR_DRIVER; /* with the driver layer's sentence */
}

void tn_use_add(struct tn_streams *streams, struct tn_block *block, struct tn_use *use)
{
    struct tn_use **link = &tn_block_cold(block)->uses;

    TN_ASSERT(use->fence != NULL && block->state == TN_BLOCK_LIVE);
    while (*link != NULL && ((*link)->fence == NULL || !tn_order_equal((*link)->order, use->order)))
        link = &(*link)->next;
    if (*link != NULL) {
        struct tn_use *older = *link;

        *link = older->next;
        tn_use_end(streams, older);
    }
    add_use(block, use);
}

void tn_block_drop_fence(struct tn_streams *streams, struct tn_block *block)
{
    struct tn_fence *fence = tn_block_fence(block);

    if (fence == NULL)
        return;
    tn_block_cold(block)->fence = NULL;
    tn_fence_release(streams, fence);
}

void tn_block_retire(struct tn_streams *streams, struct tn_block *block, struct tn_fence *fence)
{
    struct tn_block_cold *cold = tn_block_cold(block);

    TN_ASSERT(block->state == TN_BLOCK_LIVE || block->state == TN_BLOCK_PENDING);
    TN_ASSERT(tn_block_fence(block) == NULL);
    tn_fence_acquire(streams, fence);
    cold->fence = fence;
    cold->order = TN_ORDER_NONE;
    block->own_order = false;
    tn_block_note_claims(block);
    cold->freed_stamp = 0; /* the fence proves the stream's work */
    cold->proof_stamp = 0;
}

bool tn_block_end_fences(struct tn_streams *streams, struct tn_block *block)
{
    const struct tn_fence *fence = tn_block_fence(block);

    if (fence != NULL && !tn_fence_is_done(streams, fence))
        return false;
    tn_block_drop_fence(streams, block);
    return true;
}

void tn_uses_end(struct tn_streams *streams, struct tn_block *block)
{
    tn_block_drop_fence(streams, block);
    if (tn_block_uses(block) == NULL)
        return;
    tn_uses_drop(streams, tn_block_uses(block));
    tn_block_cold(block)->uses = NULL;
}
