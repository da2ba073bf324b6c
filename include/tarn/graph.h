// SPDX-License-Identifier: Apache-2.0
/* graph.h -- captures and graphs on private pools.
 *
 *   tarn_capture_begin(pool, stream, TARN_CAPTURE_GLOBAL, &capture);
 *   ... tarn_malloc, kernels, tarn_free on the stream and on streams forked from it ...
 *   tarn_capture_end(capture, &graph);
 *   tarn_graph_replay(graph, stream);            any number of times
 *   tarn_graph_destroy(graph);
 *
 * While a capture is open, tarn_malloc on its streams is served by its pool. Memory that the capture
 * touched stays mapped, at its addresses, and is given to nobody outside captures of this pool, as
 * long as the graph, any clone or instantiation of it, or a running launch exists: the hold is a
 * user object on the driver's graph, so it lasts exactly as long.
 *
 * Several graphs may be captured in one pool: later ones reuse what earlier ones freed. Such graphs
 * must not overlap in time, so all of them are replayed on one stream; a replay on another is
 * refused.
 *
 * Who calls cuStreamBeginCapture or cudaStreamBeginCapture themselves brackets the section with
 * tarn_begin_allocate_to_pool and tarn_end_allocate_to_pool (pool.h) and hands the result over with
 * tarn_graph_adopt.
 *
 * All functions may be called from any thread except where said. */
#ifndef TARN_GRAPH_H
#define TARN_GRAPH_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What else may be called while the capture is open: the driver's modes of the same names. */
typedef enum tarn_capture_mode {
    TARN_CAPTURE_GLOBAL = 0,
    TARN_CAPTURE_THREAD_LOCAL = 1,
    TARN_CAPTURE_RELAXED = 2,
} tarn_capture_mode;

/* Begins capturing the stream, with a route of its streams to the pool. The stream must live until
 * the capture has ended or been aborted.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  capture is NULL, the mode is unknown, or the stream is the legacy default one,
 *                     which cannot be captured
 *   WRONG_STATE       the stream is already being captured, the pool is the default pool, or a route
 *                     to it or another capture of it is open
 *   LIMIT             64 routes are open
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_begin(tarn_pool *pool, tarn_stream stream,
                                                        tarn_capture_mode mode,
                                                        tarn_capture **capture);

/* Ends the capture and instantiates its graph. On success the capture handle is gone and the graph
 * is the caller's.
 *   INVALID_HANDLE; INVALID_ARGUMENT: graph is NULL
 *   WRONG_THREAD    another thread began it, and not in relaxed mode: nothing is lost
 *   CAPTURE_BROKEN  a call in the section broke the capture, a forked stream was not joined, or the
 *                   stream's capture was ended elsewhere: only tarn_capture_abort is left. The
 *                   sentence has the driver's reason
 *   DEVICE_MEMORY, HOST_MEMORY, DRIVER  the graph could not be instantiated: call again, or abort
 *   DEVICE_LOST, POISONED */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_end(tarn_capture *capture, tarn_graph **graph);

/* Gives the capture up, from any thread, whatever its state. Blocks allocated in it are discarded:
 * their addresses are handed out again only after their user's tarn_free, which succeeds. Frees made
 * in the section stand. NULL is allowed.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_abort(tarn_capture *capture);

/* Makes a tarn_graph of a graph that the caller captured between tarn_begin_allocate_to_pool and
 * tarn_end_allocate_to_pool, before or after the latter. It takes over the driver's graph, gives it
 * the hold on all memory that captures of this pool touched and no graph holds yet, and
 * instantiates it.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  driver_graph or graph is NULL
 *   DEVICE_MEMORY, HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER: the driver's graph is still the
 *   caller's */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_adopt(tarn_pool *pool,
                                                      tarn_driver_graph driver_graph,
                                                      tarn_graph **graph);

/* Launches the graph on the stream. Two threads that replay one graph are serialised by the caller.
 *   INVALID_HANDLE
 *   WRONG_STATE  the pool has several graphs, and its last replay was on another stream, or the
 *                stream is being captured (nest graphs as child nodes instead): the driver has
 *                then invalidated that capture, as it does for a launch of its own
 *   DEVICE_MEMORY  the first ordered replay of graphs that were replayed before waits for the device,
 *                  and a full device cannot be waited for
 *   DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_replay(tarn_graph *graph, tarn_stream stream);

/* Destroys the executable graph and the graph. Launches that run go on; their memory stays held
 * until they are done. NULL is allowed.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_destroy(tarn_graph *graph);

/* The driver's own handles, for inspection; they stay the graph's.
 *   INVALID_HANDLE; INVALID_ARGUMENT: both outputs are NULL */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_driver_handles(tarn_graph *graph,
                                                               tarn_driver_graph *driver_graph,
                                                               tarn_driver_exec *driver_exec);

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define tarn_capture_begin(pool, stream, mode, capture)                                            \
    tarn_capture_begin(pool, tarn_stream_given(stream), mode, capture)
#define tarn_graph_replay(graph, stream) tarn_graph_replay(graph, tarn_stream_given(stream))
#endif

#ifdef __cplusplus
}
#endif
#endif
