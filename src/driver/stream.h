// SPDX-License-Identifier: Apache-2.0
/* stream.h -- streams, events and copies.
 *
 * A stream handle is no identity: the driver gives a destroyed stream's value to the next one. So a
 * handle is looked at once, inside the call that passed it, and turned into an order: the stream's
 * id, which is never reused, and the id of the capture it is in. While a stream is being captured
 * the driver does not tell its id: the very question (cuStreamGetId) invalidates the capture, in
 * every mode. There the handle's value stands in for it, and the capture's id, which is never reused
 * either, keeps orders of different captures apart.
 *
 * NULL and the legacy handle are the default stream of the device's primary context; the per-thread
 * handle is that of the calling thread in it.
 *
 * Locking: none; any thread. Nothing here but tn_event_wait waits for the GPU; nothing disturbs a
 * capture. */
#ifndef TARN_DRIVER_STREAM_H
#define TARN_DRIVER_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hot.h"
#include "driver/gpu.h"

/* An order of work: a stream outside captures, or a stream within one capture. */
struct tn_order {
    uint64_t stream_id;  /* in a capture: the handle's value; odd: a per-thread default stream's */
    uint64_t capture_id; /* 0: the stream is not being captured */
};

/* Of no order: memory in which only recorded uses run. */
#define TN_ORDER_NONE ((struct tn_order){UINT64_MAX - 1, 0})

/* A stream as it is now. */
struct tn_stream_state {
    struct tn_order order;
    tn_cu_graph capture_graph; /* the graph being captured, else NULL */
    bool broken;               /* the stream's capture is invalidated */
};

static inline bool tn_order_equal(struct tn_order a, struct tn_order b)
{
    return ((a.stream_id ^ b.stream_id) | (a.capture_id ^ b.capture_id)) == 0; /* one jump */
}

uint64_t tn_stream_id_of_thread(void);

/* What stands for the id of a stream that is being captured: its handle, which is even; and for the
 * default stream of a thread, whose handle means another stream on each, the thread. */
static inline uint64_t tn_stream_captured_id(tn_cu_stream stream)
{
    return TN_UNLIKELY(stream == TN_CU_STREAM_PER_THREAD) ? tn_stream_id_of_thread()
                                                          : (uint64_t)(uintptr_t)stream;
}

/* The id of the capture that the stream is in, 0 for none and for an invalidated one. Asks nothing
 * else, so another thread may begin to capture the stream meanwhile. DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_stream_capture_id(struct tn_gpu *gpu, tn_cu_stream stream,
                                                 uint64_t *id);

/* The driver's question for the id of a stream that is none of the default ones, and what tn_stream_id says where it is
 * refused: to ask again is to ask of a capture that the first question has broken. */
static TN_ALWAYS_INLINE tn_cu_result tn_stream_try_id(const struct tn_gpu *gpu, tn_cu_stream stream,
                                                      uint64_t *id)
{
    unsigned long long stream_id = 0;
    tn_cu_result result = gpu->driver->cuStreamGetId(stream, &stream_id);

    *id = stream_id;
    return result;
}

TN_RARE tarn_status tn_stream_has_no_id(struct tn_gpu *gpu, tn_cu_result result);

/* The stream's id alone. WRONG_STATE when the stream is being captured, and then not any more. */
TARN_MUST_CHECK tarn_status tn_stream_id(struct tn_gpu *gpu, tn_cu_stream stream, uint64_t *id);

/* True for NULL and the legacy handle, which cannot be captured. */
static inline bool tn_stream_is_legacy(tn_cu_stream stream)
{
    return stream == NULL || stream == TN_CU_STREAM_LEGACY;
}

/* True for those too, and for the per-thread handle: they mean a stream of the current context. */
static inline bool tn_stream_is_default(tn_cu_stream stream)
{
    return (uintptr_t)stream <= (uintptr_t)TN_CU_STREAM_PER_THREAD; /* NULL, 1 and 2: one jump */
}

/* The parts of tn_stream_look: one of the default streams; one that may be being captured; one that is not. */
TARN_MUST_CHECK tarn_status tn_stream_look_at_default(struct tn_gpu *gpu, tn_cu_stream stream,
                                                      struct tn_stream_state *state);

TARN_MUST_CHECK tarn_status tn_stream_look_at_capture(struct tn_gpu *gpu, tn_cu_stream stream,
                                                      struct tn_stream_state *state);

static inline tarn_status tn_stream_look_at_idle(struct tn_gpu *gpu, tn_cu_stream stream,
                                                 struct tn_stream_state *state)
{
    uint64_t id;
    tn_cu_result result = tn_stream_try_id(gpu, stream, &id);

    if (TN_UNLIKELY(result != TN_CUDA_SUCCESS))
        return tn_gpu_failed(gpu, result, "looking at a stream", "cuStreamGetId");
    *state = (struct tn_stream_state){.order = {id, 0}};
    return TARN_OK;
}

/* For a stream whose context is current, or that needs none. Of the two questions the one whether it is being captured
 * costs least. */
static inline tarn_status tn_stream_look_at_current(struct tn_gpu *gpu, tn_cu_stream stream,
                                                    struct tn_stream_state *state)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;
    tn_cu_result result = gpu->driver->cuStreamIsCapturing(stream, &capturing);

    if (TN_UNLIKELY(result != TN_CUDA_SUCCESS))
        return tn_gpu_failed(gpu, result, "looking at a stream", "cuStreamIsCapturing");
    if (TN_UNLIKELY(capturing != TN_CU_CAPTURE_STATUS_NONE))
        return tn_stream_look_at_capture(gpu, stream, state);
    return tn_stream_look_at_idle(gpu, stream, state);
}

/* What the driver says of the capture of a stream that is none of the default ones. */
struct tn_stream_answer {
    tn_cu_result result;
    tn_cu_capture_status capturing;
    uint64_t capture_id;
};

static TN_ALWAYS_INLINE void tn_stream_ask(const struct tn_gpu *gpu, tn_cu_stream stream,
                                           struct tn_stream_answer *answer)
{
    answer->capturing = TN_CU_CAPTURE_STATUS_NONE;
    answer->capture_id = 0;
    answer->result =
        gpu->driver->cuStreamGetCaptureId(stream, &answer->capturing, &answer->capture_id);
}

/* Whether the stream is in a capture that goes on. */
static TN_ALWAYS_INLINE bool tn_stream_is_in_capture(const struct tn_stream_answer *answer)
{
    return TN_LIKELY(answer->result == TN_CUDA_SUCCESS) &&
           TN_LIKELY(answer->capturing == TN_CU_CAPTURE_STATUS_ACTIVE);
}

/* What tn_stream_look_for_capture gives when the driver has answered so. */
TARN_MUST_CHECK static inline tarn_status
tn_stream_look_after(struct tn_gpu *gpu, tn_cu_stream stream, const struct tn_stream_answer *answer,
                     struct tn_stream_state *state)
{
    if (TN_UNLIKELY(answer->result != TN_CUDA_SUCCESS))
        return tn_gpu_failed(gpu, answer->result, "looking at a stream", "cuStreamGetCaptureInfo");
    if (answer->capturing == TN_CU_CAPTURE_STATUS_NONE)
        return tn_stream_look_at_idle(gpu, stream, state);
    *state =
        (struct tn_stream_state){.order = {tn_stream_captured_id(stream), answer->capture_id},
                                 .broken = answer->capturing == TN_CU_CAPTURE_STATUS_INVALIDATED};
    return TARN_OK;
}

/* As tn_stream_look, but of a stream that is being captured the driver is asked once, not twice, and not for its graph,
 * which stays NULL; of another as often. */
TARN_MUST_CHECK static inline tarn_status
tn_stream_look_for_capture(struct tn_gpu *gpu, tn_cu_stream stream, struct tn_stream_state *state)
{
    struct tn_stream_answer answer;

    if (TN_UNLIKELY(tn_stream_is_default(stream)))
        return tn_stream_look_at_default(gpu, stream, state);
    tn_stream_ask(gpu, stream, &answer);
    return tn_stream_look_after(gpu, stream, &answer, state);
}

/* DEVICE_LOST, DRIVER */
TARN_MUST_CHECK static inline tarn_status tn_stream_look(struct tn_gpu *gpu, tn_cu_stream stream,
                                                         struct tn_stream_state *state)
{
    return TN_UNLIKELY(tn_stream_is_default(stream))
               ? tn_stream_look_at_default(gpu, stream, state)
               : tn_stream_look_at_current(gpu, stream, state);
}

/* The id of a stream that is none of the default ones and not being captured. False: it is, or the driver has refused:
 * tn_stream_look_for_capture is to be asked. */
static TN_ALWAYS_INLINE bool tn_stream_is_idle(const struct tn_gpu *gpu, tn_cu_stream stream,
                                               uint64_t *id)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;

    return TN_LIKELY(!tn_stream_is_default(stream)) &&
           TN_LIKELY(gpu->driver->cuStreamIsCapturing(stream, &capturing) == TN_CUDA_SUCCESS) &&
           TN_LIKELY(capturing == TN_CU_CAPTURE_STATUS_NONE) &&
           TN_LIKELY(tn_stream_try_id(gpu, stream, id) == TN_CUDA_SUCCESS);
}

/* Whether two handles mean one stream, called on one thread. */
bool tn_stream_is_same(tn_cu_stream a, tn_cu_stream b);

/* Whether a handle that was given on that thread means another stream here: a thread's own default one. */
bool tn_stream_is_elsewhere(tn_cu_stream stream, uint64_t thread_id);

/* Makes the primary context current when the handle is one of the default streams, which need it;
 * tn_gpu_leave undoes that. */
TARN_MUST_CHECK tarn_status tn_stream_enter(struct tn_gpu *gpu, tn_cu_stream stream, bool *pushed);

/* The same for the context that work on the stream happens in, whichever that is. */
TARN_MUST_CHECK tarn_status tn_stream_enter_own(struct tn_gpu *gpu, tn_cu_stream stream,
                                                bool *pushed);

/* Whether an event recorded on the stream now would disturb or join a capture: the stream is being
 * captured, or it is the legacy one and a blocking stream is. */
bool tn_stream_is_closed(struct tn_gpu *gpu, tn_cu_stream stream);

/* Whether the stream is in a capture that is invalidated, as far as the driver tells. Leaves the thread's sentence as it
 * is. */
bool tn_stream_is_broken(struct tn_gpu *gpu, tn_cu_stream stream);

/* Whether the stream, which is none of the default ones, is in a capture that is not invalidated. Any thread may ask,
 * whatever another one does with the stream. DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_stream_may_give_graph(struct tn_gpu *gpu, tn_cu_stream stream,
                                                     bool *may);

/* The context that work on the stream happens in: the device's primary one, or one of the program's. */
TARN_MUST_CHECK tarn_status tn_stream_context(struct tn_gpu *gpu, tn_cu_stream stream,
                                              tn_cu_context *context);

/* Has the waits for the device cover the stream's context; see tn_gpu_meet_context. */
TARN_MUST_CHECK tarn_status tn_stream_meet(struct tn_gpu *gpu, tn_cu_stream stream);

/* An event in the stream's own context, without timing; or in one that is named, without a look at a
 * stream. */
TARN_MUST_CHECK tarn_status tn_event_create_in(struct tn_gpu *gpu, tn_cu_context context,
                                               tn_cu_event *event);
TARN_MUST_CHECK tarn_status tn_event_create(struct tn_gpu *gpu, tn_cu_stream stream,
                                            tn_cu_event *event);
void tn_event_destroy(struct tn_gpu *gpu, tn_cu_event event);

/* Records the event on a stream that is not being captured. False when the driver refuses. */
bool tn_event_record(struct tn_gpu *gpu, tn_cu_event event, tn_cu_stream stream);

/* The same for an event that may be NULL, or of another context than the stream, or of one that was
 * destroyed: where the driver refuses to record it, one of the stream's own context takes its place.
 * False, and the event is gone and NULL, when the driver refuses that too. */
bool tn_event_renew(struct tn_gpu *gpu, tn_cu_event *event, tn_cu_stream stream);

enum tn_event_answer { TN_EVENT_DONE, TN_EVENT_NOT_YET, TN_EVENT_UNKNOWN };

/* Whether the work before the event has ended. On a lost device everything has. */
enum tn_event_answer tn_event_query(struct tn_gpu *gpu, tn_cu_event event);

/* Makes the stream wait for the event; at once where that went with its context. */
TARN_MUST_CHECK tarn_status tn_stream_wait(struct tn_gpu *gpu, tn_cu_stream stream,
                                           tn_cu_event event);

/* Waits for the work before the event, whatever captures are under way; UNKNOWN: the driver refused,
 * or lost the device. No lock may be held. */
enum tn_event_answer tn_event_wait(struct tn_gpu *gpu, tn_cu_event event);

/* Copies to page-locked host memory from the device's, and zeros: behind the work already on the
 * stream. */
TARN_MUST_CHECK tarn_status tn_stream_download(struct tn_gpu *gpu, void *destination,
                                               uint64_t source, uint64_t bytes,
                                               tn_cu_stream stream);
TARN_MUST_CHECK tarn_status tn_stream_zero(struct tn_gpu *gpu, uint64_t address, uint64_t bytes,
                                           tn_cu_stream stream);

#endif
