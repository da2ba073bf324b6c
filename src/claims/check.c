// SPDX-License-Identifier: Apache-2.0
/* Looks at every known stream and fence, with all streams locked. */
#include "claims/check.h"

#include <inttypes.h>

#include "base/error.h"

static bool is_linked(const struct tn_known_stream *stream, const struct tn_fence *fence)
{
    return fence->stream == stream &&
           (fence->previous != NULL ? fence->previous->next == fence : stream->first == fence) &&
           (fence->next != NULL ? fence->next->previous == fence : stream->last == fence);
}

static tarn_status check_stream(const struct tn_known_stream *stream)
{
    uint64_t reserved = 0;
    uint64_t refs = stream->noted_count;
    uint64_t stamp = 0;
    const struct tn_fence *first_open = NULL;

    for (const struct tn_fence *fence = stream->reserve; fence != NULL; fence = fence->next)
        reserved += fence->ref_count == 0 && fence->event != NULL;
    if (reserved != stream->reserve_count || (reserved < stream->noted_count && !stream->retired))
        return tn_fail(TARN_ERR_CORRUPT,
                       "invariant P11 does not hold: stream id %" PRIu64 " has %" PRIu64
                       " fences set aside, counted as %" PRIu64 ", for %" PRIu64 " noted uses",
                       stream->id, reserved, stream->reserve_count, stream->noted_count);
    for (const struct tn_fence *fence = stream->first; fence != NULL; fence = fence->next) {
        enum tn_fence_state state = tn_fence_state_of(fence);

        refs += fence->ref_count;
        if (first_open == NULL && state == TN_FENCE_OPEN)
            first_open = fence;
        if (state == TN_FENCE_DONE || (first_open != NULL && state != TN_FENCE_OPEN) ||
            atomic_load(&fence->stamp) < stamp || !is_linked(stream, fence))
            return tn_fail(TARN_ERR_CORRUPT,
                           "invariant P12 does not hold: a fence of stream id %" PRIu64
                           " is in state %d out of its order",
                           stream->id, (int)state);
        stamp = atomic_load(&fence->stamp);
    }
    if (stream->first_open != first_open)
        return tn_fail(TARN_ERR_CORRUPT,
                       "invariant P12 does not hold: stream id %" PRIu64
                       " has another first fence that is OPEN than it says",
                       stream->id);
    if (stream->waits != (stream->first != NULL))
        return tn_fail(TARN_ERR_CORRUPT,
                       "invariant P12 does not hold: stream id %" PRIu64
                       " is not polled as its fences want",
                       stream->id);
    if (stream->ref_count == 0 || refs > stream->ref_count)
        return tn_fail(TARN_ERR_CORRUPT,
                       "invariant P12 does not hold: stream id %" PRIu64 " has %" PRIu64
                       " references, and at least %" PRIu64 " uses and fences refer to it",
                       stream->id, stream->ref_count, refs);
    return TARN_OK;
}

tarn_status tn_streams_check(struct tn_streams *streams)
{
    uint64_t count = 0;
    tarn_status status = TARN_OK;

    tn_lock_acquire(&streams->lock);
    for (const struct tn_known_stream *stream = streams->table.known;
         stream != NULL && status == TARN_OK; stream = stream->next) {
        status = check_stream(stream);
        count += 1;
    }
    if (status == TARN_OK && count != atomic_load(&streams->known_count))
        status = tn_fail(TARN_ERR_CORRUPT,
                         "invariant P12 does not hold: %" PRIu64 " streams are known, counted as "
                         "%" PRIu64,
                         count, atomic_load(&streams->known_count));
    tn_lock_release(&streams->lock);
    return status;
}
