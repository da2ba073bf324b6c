// SPDX-License-Identifier: Apache-2.0
/* The event is recorded behind a rise of the epoch: a free with the old stamp came before. */
#include "driver/progress.h"

#include <stddef.h>

#include "base/contract.h"
#include "driver/stream.h"

void tn_progress_ask(struct tn_gpu *gpu, struct tn_progress *progress, tn_cu_stream stream)
{
    bool under_way = progress->asked_stamp != 0;
    uint64_t *stamp = under_way ? &progress->later_stamp : &progress->asked_stamp;
    uint64_t begun;

    TN_ASSERT(progress->proven_stamp <= tn_gpu_epoch(gpu));
    if (tn_stream_is_legacy(stream) && tn_stream_is_closed(gpu, stream))
        return;
    begun = atomic_fetch_add(&gpu->epoch, 1) + 1;
    *stamp = 0;
    /* The event becomes part of a capture which another thread begins meanwhile. */
    if (tn_event_renew(gpu, under_way ? &progress->later : &progress->event, stream) &&
        (tn_stream_is_legacy(stream) || !tn_stream_is_closed(gpu, stream)))
        *stamp = begun;
}

/* The second event is the only one now. */
static void go_on(struct tn_progress *progress)
{
    tn_cu_event event = progress->event;

    progress->event = progress->later;
    progress->asked_stamp = progress->later_stamp;
    progress->later = event;
    progress->later_stamp = 0;
}

void tn_progress_poll(struct tn_gpu *gpu, struct tn_progress *progress)
{
    while (progress->asked_stamp != 0) { /* twice at most */
        enum tn_event_answer answer = tn_event_query(gpu, progress->event);

        TN_ASSERT(progress->event != NULL && progress->proven_stamp < progress->asked_stamp);
        if (answer == TN_EVENT_NOT_YET)
            return;
        if (answer == TN_EVENT_DONE)
            progress->proven_stamp = progress->asked_stamp;
        go_on(progress);
    }
}

void tn_progress_fini(struct tn_gpu *gpu, struct tn_progress *progress)
{
    if (progress->event != NULL)
        tn_event_destroy(gpu, progress->event);
    if (progress->later != NULL)
        tn_event_destroy(gpu, progress->later);
    *progress = (struct tn_progress){.event = NULL};
}
