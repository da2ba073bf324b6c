// SPDX-License-Identifier: Apache-2.0
/* progress.h -- how far the work of an arena's stream has come, as an event of the stream tells.
 *
 * All work in an arena's free memory is on its stream, or was over before the memory became free.
 * So an event recorded now proves idle, once the event is done, what the arena has freed until now.
 * It is recorded inside a call which passes the stream and has just looked at it, for only then the
 * handle may be used. Nobody waits for the event.
 *
 * The GPU may be far behind. A question while an event is under way therefore records a second one,
 * and the next question records this one anew: the first proves something soon, the second all that
 * was freed until the last question.
 *
 * Locking: the lock of the arena's pool. No call waits for the GPU or disturbs a capture. */
#ifndef TARN_DRIVER_PROGRESS_H
#define TARN_DRIVER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/cuda.h"

struct tn_gpu;

struct tn_progress {
    tn_cu_event event;    /* NULL: none yet */
    uint64_t asked_stamp; /* the event proves lower stamps; 0: none is under way */
    tn_cu_event later;    /* the second one, as the two fields above */
    uint64_t later_stamp;
    uint64_t proven_stamp; /* lower stamps of the arena's frees are proven */
};

/* Records an event for the frees before now. The stream is the arena's, as
 * this call has looked at it, and not in a capture. A refusal proves nothing, and does no harm. */
void tn_progress_ask(struct tn_gpu *gpu, struct tn_progress *progress, tn_cu_stream stream);

/* Asks whether the events under way, if any, are done. */
void tn_progress_poll(struct tn_gpu *gpu, struct tn_progress *progress);

/* Whether a free of the arena with this stamp is proven idle. */
static inline bool tn_progress_proves(const struct tn_progress *progress, uint64_t stamp)
{
    return stamp < progress->proven_stamp;
}

/* Gives the events back. */
void tn_progress_fini(struct tn_gpu *gpu, struct tn_progress *progress);

#endif
