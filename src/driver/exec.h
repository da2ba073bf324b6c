// SPDX-License-Identifier: Apache-2.0
/* exec.h -- stream captures, driver graphs and their user objects.
 *
 * Locking: none here. Graph objects of the driver are not thread-safe: whoever owns one serialises
 * the calls on it. Nothing here waits for the GPU or disturbs another capture. */
#ifndef TARN_DRIVER_EXEC_H
#define TARN_DRIVER_EXEC_H

#include <stdbool.h>

#include "driver/stream.h"

TARN_MUST_CHECK tarn_status tn_driver_capture_start(struct tn_gpu *gpu, tn_cu_stream stream,
                                                    tn_cu_capture_mode mode);

/* The same, into a graph of the caller's, behind none of its nodes. */
TARN_MUST_CHECK tarn_status tn_driver_capture_start_body(struct tn_gpu *gpu, tn_cu_stream stream,
                                                         tn_cu_graph graph,
                                                         tn_cu_capture_mode mode);

/* Ends the stream's capture. Whatever the driver answers, the stream is then not capturing, unless
 * the stream was never part of this capture. *result is the driver's answer, *graph NULL unless
 * *result is success. */
void tn_driver_capture_stop(struct tn_gpu *gpu, tn_cu_stream stream, tn_cu_result *result,
                            tn_cu_graph *graph);

/* Ends an unwanted capture, in whatever state, and drops its graph. */
void tn_driver_capture_cancel(struct tn_gpu *gpu, tn_cu_stream stream);

/* The same for a capture into the caller's graph, which stays. */
void tn_driver_capture_cancel_body(struct tn_gpu *gpu, tn_cu_stream stream);

/* An event of the stream's capture, which tells whether it goes on. Adds nothing to the graph. */
TARN_MUST_CHECK tarn_status tn_driver_capture_event(struct tn_gpu *gpu, tn_cu_stream stream,
                                                    tn_cu_event *event);

/* Whether the event's capture goes on: it has not ended, and is not invalidated. Names no stream,
 * so any thread may ask at any time. */
bool tn_driver_capture_goes_on(struct tn_gpu *gpu, tn_cu_event event);

/* Gives the graph a user object: destroy(user) runs on a thread of the driver when the graph, all
 * its clones and instantiations and their running launches are gone. It may not call the driver.
 * *will_run says whether it will run: always on success, and on failure when the driver took the
 * object but not the graph. */
TARN_MUST_CHECK tarn_status tn_driver_graph_attach(struct tn_gpu *gpu, tn_cu_graph graph,
                                                   tn_cu_hostfn destroy, void *user,
                                                   tn_cu_userobject *object, bool *will_run);

/* Takes the object back from the graph, which has no instantiation yet. */
void tn_driver_graph_detach(struct tn_gpu *gpu, tn_cu_graph graph, tn_cu_userobject object);

/* The number of the graph's nodes. DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_driver_graph_count(struct tn_gpu *gpu, tn_cu_graph graph,
                                                  size_t *count);

TARN_MUST_CHECK tarn_status tn_driver_graph_instantiate(struct tn_gpu *gpu, tn_cu_graph graph,
                                                        tn_cu_graphexec *exec);
/* Gives the executable the other graph's parameters and that graph's user objects. Later launches
 * use these user objects in place of the old; running launches keep theirs.
 *   CANNOT_UPDATE: the graphs differ in more than parameters; DEVICE_MEMORY, DEVICE_LOST, DRIVER. The
 *   executable is as it was */
TARN_MUST_CHECK tarn_status tn_driver_exec_update(struct tn_gpu *gpu, tn_cu_graphexec exec,
                                                  tn_cu_graph graph);

/* Parts of tn_driver_exec_launch: the launch on a stream that needs a context, and the meaning of
 * the driver's refusal. */
TARN_MUST_CHECK tarn_status tn_driver_exec_launch_default(struct tn_gpu *gpu, tn_cu_graphexec exec,
                                                          tn_cu_stream stream);
tarn_status tn_driver_exec_refuse(struct tn_gpu *gpu, tn_cu_result result);

/* The driver's launch call alone, on a stream that is not a default stream; and the status that
 * tn_driver_exec_launch makes of the answer. */
static TN_ALWAYS_INLINE tn_cu_result tn_driver_exec_try_launch(const struct tn_gpu *gpu,
                                                               tn_cu_graphexec exec,
                                                               tn_cu_stream stream)
{
    return gpu->launch(exec, stream);
}

TARN_MUST_CHECK static TN_ALWAYS_INLINE tarn_status tn_driver_exec_conclude(struct tn_gpu *gpu,
                                                                            tn_cu_result result)
{
    return TN_LIKELY(result == TN_CUDA_SUCCESS) ? TARN_OK : tn_driver_exec_refuse(gpu, result);
}

/* WRONG_STATE: the stream is being captured, and then not any more; DEVICE_MEMORY, DEVICE_LOST,
 * DRIVER. */
TARN_MUST_CHECK static inline tarn_status
tn_driver_exec_launch(struct tn_gpu *gpu, tn_cu_graphexec exec, tn_cu_stream stream)
{
    return tn_stream_is_default(stream)
               ? tn_driver_exec_launch_default(gpu, exec, stream)
               : tn_driver_exec_conclude(gpu, tn_driver_exec_try_launch(gpu, exec, stream));
}

/* The memory that the driver has reserved on the device for the allocation nodes of all the
 * process's graphs. DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_driver_graph_memory_reserved(struct tn_gpu *gpu, uint64_t *bytes);

void tn_driver_exec_destroy(struct tn_gpu *gpu, tn_cu_graphexec exec);
void tn_driver_graph_drop(struct tn_gpu *gpu, tn_cu_graph graph);

#endif
