// SPDX-License-Identifier: Apache-2.0
/* The event is recorded behind a rise of the epoch: a free with the old stamp came before. */
#include "driver/progress.h"

#include <stddef.h>

#include "base/contract.h"
#include "driver/stream.h"

void tn_progress_ask(struct tn_gpu *gpu, struct tn_progress *progress, tn_cu_stream stream)
{
    uint64_t begun;

    TN_ASSERT(progress->proven_stamp <= tn_gpu_epoch(gpu));
    if (progress->asked_stamp != 0 ||
        (tn_stream_is_legacy(stream) && tn_stream_is_closed(gpu, stream)))
        return;
    begun = atomic_fetch_add(&gpu->epoch, 1) + 1;
    /* The event becomes part of a capture which another thread begins meanwhile. */
    if (tn_event_renew(gpu, &progress->event, stream) &&
        (tn_stream_is_legacy(stream) || !tn_stream_is_closed(gpu, stream)))
        progress->asked_stamp = begun;
}

void tn_progress_poll(struct tn_gpu *gpu, struct tn_progress *progress)
{
    enum tn_event_answer answer;

    if (progress->asked_stamp == 0)
        return;
    TN_ASSERT(progress->event != NULL && progress->proven_stamp < progress->asked_stamp);
    answer = tn_event_query(gpu, progress->event);
    if (answer == TN_EVENT_DONE)
        progress->proven_stamp = progress->asked_stamp;
    if (answer != TN_EVENT_NOT_YET)
        progress->asked_stamp = 0;
}

void tn_progress_fini(struct tn_gpu *gpu, struct tn_progress *progress)
{
    if (progress->event != NULL)
        tn_event_destroy(gpu, progress->event);
    *progress = (struct tn_progress){.event = NULL};
}
