// SPDX-License-Identifier: Apache-2.0
/* stream.h -- streams, events and copies.
 *
 * A stream handle is no identity: the driver gives a destroyed stream's value to the next one. The
 * call that passes a handle therefore looks at the stream once and makes an order: the stream's id,
 * which is never reused, and the id of the stream's capture. While a stream is being captured the
 * driver does not tell its id: the very question (cuStreamGetId) invalidates the capture, in every
 * mode. In a capture the handle's value stands for the stream's id. The capture's id, which is
 * never reused either, keeps orders of different captures apart.
 *
 * NULL and the legacy handle are the default stream of the device's primary context; the per-thread
 * handle is the calling thread's default stream in this context.
 *
 * Locking: none; any thread. Nothing here but tn_event_wait waits for the GPU; nothing disturbs a
 * capture. */
#ifndef TARN_DRIVER_STREAM_H
#define TARN_DRIVER_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hot.h"
#include "base/order.h"
#include "driver/gpu.h"

/* The aim of a look at a stream, which decides the questions. Each question costs the driver's
 * time, and the question for the id breaks a capture. */
enum tn_stream_want {
    TN_STREAM_STATUS,  /* captured and broken alone; one question, which any thread may ask */
    TN_STREAM_CAPTURE, /* the capture's id, too: in order, with stream_id 0; one question */
    /* The id alone, of a stream that must not be captured. WRONG_STATE when the stream is captured:
     * the question has broken the capture then. */
    TN_STREAM_ID,
    TN_STREAM_ORDER, /* all but the graph: one question in a capture, two outside */
    TN_STREAM_GRAPH, /* all: two questions, in a capture and outside; outside the cheapest ones */
};

/* A stream as it is now. */
struct tn_stream_state {
    struct tn_order order;
    tn_cu_graph capture_graph; /* the graph being captured, else NULL */
    bool captured;             /* the stream is in a capture, which may be broken */
    /* the stream's capture is invalidated; the driver tells no id of it */
    bool broken;
};

uint64_t tn_stream_id_of_thread(void);

/* The number that stands for the id of a stream being captured: its handle, which is even. The
 * handle of a thread's default stream means another stream on each thread, so a number for the
 * thread stands for this stream. */
static inline uint64_t tn_stream_captured_id(tn_cu_stream stream)
{
    return TN_UNLIKELY(stream == TN_CU_STREAM_PER_THREAD) ? tn_stream_id_of_thread()
                                                          : (uint64_t)(uintptr_t)stream;
}

/* True for NULL and the legacy handle, which cannot be captured. */
static inline bool tn_stream_is_legacy(tn_cu_stream stream)
{
    return stream == NULL || stream == TN_CU_STREAM_LEGACY;
}

/* True for NULL, the legacy handle and the per-thread handle: all mean a stream of the current
 * context. */
static inline bool tn_stream_is_default(tn_cu_stream stream)
{
    return (uintptr_t)stream <= (uintptr_t)TN_CU_STREAM_PER_THREAD; /* NULL, 1 and 2: one jump */
}

/* Asks the driver for the wanted part of the stream's state. The legacy stream is never captured,
 * and the driver is not asked about it. Other parts of the state are found as well, or are 0.
 * Another thread may begin to capture the stream meanwhile.
 *   DEVICE_LOST, DRIVER; WRONG_STATE: see TN_STREAM_ID */
TARN_MUST_CHECK tarn_status tn_stream_look(struct tn_gpu *gpu, tn_cu_stream stream,
                                           enum tn_stream_want want, struct tn_stream_state *state);

/* Asks the driver for the id of a stream that is not a default stream. tn_stream_refuse_id makes
 * the status of a look for TN_STREAM_ID from a refusal. A second question would meet a capture that
 * the first has broken. */
static TN_ALWAYS_INLINE tn_cu_result tn_stream_try_id(const struct tn_gpu *gpu, tn_cu_stream stream,
                                                      uint64_t *id)
{
    unsigned long long stream_id = 0;
    tn_cu_result result = gpu->stream_id(stream, &stream_id);

    *id = stream_id;
    return result;
}

TN_RARE tarn_status tn_stream_refuse_id(struct tn_gpu *gpu, tn_cu_result result);

/* The fast look: the id of a stream that is neither a default stream nor being captured. False: the
 * stream is of another kind, or the driver has refused; the caller asks tn_stream_look. */
static TN_ALWAYS_INLINE bool tn_stream_is_idle(const struct tn_gpu *gpu, tn_cu_stream stream,
                                               uint64_t *id)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;

    return TN_LIKELY(!tn_stream_is_default(stream)) &&
           TN_LIKELY(gpu->is_capturing(stream, &capturing) == TN_CUDA_SUCCESS) &&
           TN_LIKELY(capturing == TN_CU_CAPTURE_STATUS_NONE) &&
           TN_LIKELY(tn_stream_try_id(gpu, stream, id) == TN_CUDA_SUCCESS);
}

/* For callers without a device at hand, after the first device was opened. Whether the stream is
 * not a default stream and not in a capture, and all devices are usable. */
static TN_ALWAYS_INLINE bool tn_stream_is_plain(tn_cu_stream stream)
{
    tn_cu_capture_status capturing;

    return TN_LIKELY(!tn_stream_is_default(stream)) &&
           TN_LIKELY(!atomic_load_explicit(&tn_gpu_any_unusable, memory_order_relaxed)) &&
           TN_LIKELY(tn_driver_table.cuStreamIsCapturing(stream, &capturing) == TN_CUDA_SUCCESS) &&
           TN_LIKELY(capturing == TN_CU_CAPTURE_STATUS_NONE);
}

/* The driver's answer about the capture of a stream that is not a default stream: the first
 * question of a look for TN_STREAM_ORDER. */
struct tn_stream_answer {
    tn_cu_result result;
    tn_cu_capture_status capturing;
    uint64_t capture_id;
};

/* Asks the first question, for allocations in captures, which need no more than the answer. True:
 * the stream is in a capture that goes on. False: the caller goes on with tn_stream_finish_look. */
static TN_ALWAYS_INLINE bool tn_stream_ask(const struct tn_gpu *gpu, tn_cu_stream stream,
                                           struct tn_stream_answer *answer)
{
    answer->capturing = TN_CU_CAPTURE_STATUS_NONE;
    answer->capture_id = 0;
    answer->result =
        gpu->driver->cuStreamGetCaptureId(stream, &answer->capturing, &answer->capture_id);
    return TN_LIKELY(answer->result == TN_CUDA_SUCCESS) &&
           TN_LIKELY(answer->capturing == TN_CU_CAPTURE_STATUS_ACTIVE);
}

/* Completes a look for TN_STREAM_ORDER that tn_stream_ask has begun. DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_stream_finish_look(struct tn_gpu *gpu, tn_cu_stream stream,
                                                  const struct tn_stream_answer *answer,
                                                  struct tn_stream_state *state);

/* Whether two handles mean the same stream, in calls on one thread. */
bool tn_stream_is_same(tn_cu_stream a, tn_cu_stream b);

/* Whether a handle that was passed on the given thread means another stream on this thread: a
 * thread's own default stream does. */
bool tn_stream_is_elsewhere(tn_cu_stream stream, uint64_t thread_id);

/* Makes the primary context current for a default stream's handle, which needs a current context;
 * undo with tn_gpu_leave. */
TARN_MUST_CHECK tarn_status tn_stream_enter(struct tn_gpu *gpu, tn_cu_stream stream, bool *pushed);

/* The same for the context of the stream's work, whichever context this is. */
TARN_MUST_CHECK tarn_status tn_stream_enter_own(struct tn_gpu *gpu, tn_cu_stream stream,
                                                bool *pushed);

/* Whether an event recorded on the stream now would disturb or join a capture. True when the stream
 * is being captured, or is the legacy stream while a blocking stream is being captured. Unlike a
 * look, this function asks the driver about the legacy stream, too. */
bool tn_stream_is_closed(struct tn_gpu *gpu, tn_cu_stream stream);

/* Whether the stream is in an invalidated capture, as far as the driver tells. Unlike a look, this
 * function leaves the thread's sentence as another call has set it. */
bool tn_stream_is_broken(struct tn_gpu *gpu, tn_cu_stream stream);

/* The context of the stream's work: the device's primary context, or a context of the program's. */
TARN_MUST_CHECK tarn_status tn_stream_context(struct tn_gpu *gpu, tn_cu_stream stream,
                                              tn_cu_context *context);

/* Has the waits for the device cover the stream's context; see tn_gpu_meet_context. */
TARN_MUST_CHECK tarn_status tn_stream_meet(struct tn_gpu *gpu, tn_cu_stream stream);

/* Makes an event without timing, in the stream's own context; or in the given context, without a
 * look at a stream. */
TARN_MUST_CHECK tarn_status tn_context_create_event(struct tn_gpu *gpu, tn_cu_context context,
                                                    tn_cu_event *event);
TARN_MUST_CHECK tarn_status tn_event_create(struct tn_gpu *gpu, tn_cu_stream stream,
                                            tn_cu_event *event);
void tn_event_destroy(struct tn_gpu *gpu, tn_cu_event event);

/* Records the event on a stream that is not being captured. False when the driver refuses. */
bool tn_event_record(struct tn_gpu *gpu, tn_cu_event event, tn_cu_stream stream);

/* The same for an event that may be NULL, destroyed, or of another context than the stream's. If
 * the driver refuses to record the event, a new event of the stream's own context takes its place.
 * False when the driver refuses the new event, too; the event is then gone and NULL. */
bool tn_event_renew(struct tn_gpu *gpu, tn_cu_event *event, tn_cu_stream stream);

enum tn_event_answer { TN_EVENT_DONE, TN_EVENT_NOT_YET, TN_EVENT_UNKNOWN };

/* Whether the work before the event has ended. On a lost device everything has. */
enum tn_event_answer tn_event_query(struct tn_gpu *gpu, tn_cu_event event);

/* Makes the stream wait for the event; if the event went with its context, the stream does not
 * wait. */
TARN_MUST_CHECK tarn_status tn_stream_wait(struct tn_gpu *gpu, tn_cu_stream stream,
                                           tn_cu_event event);

/* Waits for the work before the event, whatever captures are under way; UNKNOWN: the driver
 * refused, or lost the device. No lock may be held. */
enum tn_event_answer tn_event_wait(struct tn_gpu *gpu, tn_cu_event event);

/* Copies to page-locked host memory from the device's, and zeros: behind the work already on the
 * stream. */
TARN_MUST_CHECK tarn_status tn_stream_download(struct tn_gpu *gpu, void *destination,
                                               uint64_t source, uint64_t bytes,
                                               tn_cu_stream stream);
TARN_MUST_CHECK tarn_status tn_stream_zero(struct tn_gpu *gpu, uint64_t address, uint64_t bytes,
                                           tn_cu_stream stream);

#endif
