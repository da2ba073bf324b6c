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
 * touched stays mapped, at its addresses, and is given to nobody outside captures of this pool (but
 * see tarn_pool_options: share_captured), as long as the graph, any clone or instantiation of it, or a
 * running launch exists: the hold is a user object on the driver's graph, so it lasts exactly as long.
 *
 * Several graphs may be captured in one pool: later ones reuse what earlier ones freed. Such graphs
 * must not overlap in time: each replay waits on the GPU for the pool's last one, whatever the streams
 * and threads; or a replay on another stream is refused, as the pool's options say. A capture that
 * allocates from two pools makes a graph that writes memory of both: from then on replays of both pools'
 * graphs are kept in one order, of which the first one waits for the device. Launches of the
 * driver's executables that do not go through tarn_graph_replay are kept in order by who makes them.
 *
 * What is done outside graphs to memory that a capture allocated is in no such order: see
 * tarn_graph_replay, and memory.h.
 *
 * Who calls cuStreamBeginCapture or cudaStreamBeginCapture themselves brackets the section with
 * tarn_begin_allocate_to_pool and tarn_end_allocate_to_pool (pool.h) and hands the result over with
 * tarn_graph_adopt.
 *
 * All functions may be called from any thread except where said. What begins, ends or aborts a capture must
 * not overlap a call of another thread, of Tarn's or of the driver's, that names the capture's stream or one
 * forked from it: such calls crash the driver. Frees that name no stream may overlap. */
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
 * the capture has ended or been aborted. So must the thread of a per-thread default stream: the driver
 * may crash when a thread exits whose own stream is being captured.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  capture is NULL, the mode is unknown, or the stream is the legacy default one,
 *                     which cannot be captured
 *   WRONG_STATE       the stream is already being captured, or the pool is the default pool
 *   LIMIT             64 routes are open
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_begin(tarn_pool *pool, tarn_stream stream,
                                                        tarn_capture_mode mode,
                                                        tarn_capture **capture);

/* Ends the capture and instantiates its graph, which is guarded as its pool's options say: where something that it
 * refers to was freed already, it is stale. On success the capture handle is gone and the graph
 * is the caller's.
 *   INVALID_HANDLE; INVALID_ARGUMENT: graph is NULL
 *   WRONG_STATE     the capture goes into a graph of the caller's, or a body in it is being captured
 *   WRONG_THREAD    another thread began it, and not in relaxed mode: nothing is lost
 *   CAPTURE_BROKEN  a call in the section broke the capture, a forked stream was not joined, or the
 *                   stream's capture was ended elsewhere: only tarn_capture_abort is left. The
 *                   sentence has the driver's name of the error, what it means for the capture and what
 *                   helps; and, as far as they are known, the newest node of the graph, the newest block
 *                   that was allocated while the capture was good, by its sequence number, and the first
 *                   of Tarn's calls that found it broken, or that broke it. For a fork: streams that
 *                   had joined and allocated, and where one is found, the newest node behind which comes
 *                   nothing
 *   DEVICE_MEMORY, HOST_MEMORY, DRIVER  the graph could not be instantiated: call again, or abort
 *   DEVICE_LOST, POISONED */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_end(tarn_capture *capture, tarn_graph **graph);

/* Begins capturing the stream into a graph of the caller's, behind none of its nodes, with a route as
 * tarn_capture_begin has. The stream and the graph must
 * live until the capture has ended or been aborted. A capture that could have been ended, aborted on the
 * thread that might have done so, leaves what it had captured in the graph. One that was broken, that had
 * a forked stream not joined, or that another thread aborted may have taken the graph with it: that is
 * not to be used any more.
 *
 * Into one graph, or one body, a pool captures once: two sections behind no node run side by side, and
 * would have the same memory. A second capture is refused where the first one has left nodes, ended or
 * aborted. Capture into another graph instead, and add that as a child node behind the first section. (A
 * graph with nodes that has got the handle of one that was destroyed, and whose executable is there still,
 * is taken for that one.)
 *
 * outer NULL: a graph that stands alone. It holds the memory; tarn_graph_adopt makes a tarn_graph of it.
 *
 * outer: an open capture of the same pool, and driver_graph is a body of a conditional node in that
 * capture's graph. The outer graph holds the memory. Bodies of one node that exclude each other, those of
 * IF and SWITCH, are given the same group, any number, within the outer capture: each is given the
 * memory that is free when the ones before it end. A block that is live when its body ends is no later
 * body's, and nothing else of the outer capture's; but it may lie where a body of its group that ended
 * before had memory, and a later run of that body, in the next round of a loop or in another replay,
 * writes there. What must outlive such a run is allocated before the body, in the outer capture, or in a
 * body with a group of its own. Memory of different groups, and of the outer capture's own streams,
 * is apart. All of it is the pool's again when the outer capture has ended. In a body, memory is
 * allocated from its own pool alone.
 *   INVALID_HANDLE    the pool or the outer capture
 *   INVALID_ARGUMENT  driver_graph or capture is NULL, the mode is unknown, the outer capture is of
 *                     another pool, or the stream is the legacy default one
 *   WRONG_STATE       the stream is already being captured, the pool is the default pool, the outer
 *                     capture is over, or the graph has a section of the pool, or is getting one
 *   LIMIT             64 routes are open
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_begin_to_graph(
    tarn_pool *pool, tarn_capture *outer, uint64_t group, tarn_driver_graph driver_graph,
    tarn_stream stream, tarn_capture_mode mode, tarn_capture **capture);

/* Ends a capture into a graph of the caller's, whose nodes are then there. On success the capture handle
 * is gone. The bodies of a capture are ended before it.
 *   INVALID_HANDLE
 *   WRONG_STATE     the capture was begun with tarn_capture_begin, or a body in it is being captured
 *   WRONG_THREAD, CAPTURE_BROKEN  as tarn_capture_end
 *   DRIVER, DEVICE_LOST, POISONED */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_end_to_graph(tarn_capture *capture);

/* Gives the capture up, from any thread, whatever its state; but while no other thread is in a call that names
 * a stream of the capture, an allocation there included (see above). Blocks allocated in it are discarded:
 * their addresses are handed out again only after their user's tarn_free, which succeeds. Frees made
 * in the section stand. The driver's capture is ended where it is not over, and no later one of the same
 * stream; but that of a per-thread default stream, or of a body on one, goes on when another thread
 * aborts: its own thread alone can end it, with cuStreamEndCapture. The driver's capture around such a body
 * goes on, too, until the body's handle is ended or aborted on its own thread. Of an invalidated capture the
 * driver does not tell which one it is: where the caller ended this one by hand, and its graph lives, one that was
 * begun on the stream afterwards and then broken is taken for it and ended, unless an end of this one has failed
 * before that broke. An end takes it for this one, too, and reads this one's graph for its sentence: so whoever ends
 * a tarn_capture's capture by hand calls tarn_capture_abort before the graph is destroyed. NULL is allowed.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_abort(tarn_capture *capture);

/* Makes a tarn_graph of a graph that the caller captured between tarn_begin_allocate_to_pool and
 * tarn_end_allocate_to_pool, before or after the latter, or of one that tarn_capture_end_to_graph has
 * ended and that stands alone. It takes over the driver's graph, and instantiates it. The graph has had its
 * hold since the capture's first allocation; where blocks of the pool were freed in a capture before Tarn
 * could give it one (a call of the driver failed, or another thread freed), they have waited, and the graph
 * gets a hold of them here. So graphs are adopted in the order of their captures. Tarn does not look into
 * the graph for child nodes: where those are graphs of another pool, the caller keeps its replays in order
 * with that pool's.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  driver_graph or graph is NULL
 *   DEVICE_MEMORY, HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER: the driver's graph is still the
 *   caller's */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_adopt(tarn_pool *pool,
                                                      tarn_driver_graph driver_graph,
                                                      tarn_graph **graph);

/* Launches the graph on the stream. Two threads that replay one graph are serialised by the caller;
 * two that replay two graphs need not be, also where the graphs share a pool.
 *
 * In a pool with several graphs the replay runs after the pool's last one. On the same stream that
 * costs nothing. The first replay on another stream, and the first one after graphs were replayed when
 * they were alone, waits on the host until the device is idle; later ones wait on the GPU, for an event.
 *
 * A replay waits for replays alone, not for work that is enqueued behind them: a copy of an output, say.
 * While the output is live no graph that is captured later has its memory. One that was captured before
 * may have had it, and freed it: its replay overwrites the output, as the output's graph overwrote what
 * was there. So an output is read before a graph is replayed that was captured before its own; or those graphs
 * have pools of their own. The same holds where a graph is nested in another as a child node: what was
 * captured later and is live across the node may lie in its memory.
 *
 * Where graphs of the pool are replayed on several streams, an output is to be freed with that use recorded,
 * or a graph that is captured later may write there before the copy has been made:
 *
 *   tarn_graph_replay(graph, stream);
 *   cuMemcpyDtoHAsync(result, output, bytes, stream);
 *   tarn_free_on(output, stream);
 *
 *   INVALID_HANDLE
 *   STALE        the graph is guarded, and refers to a block that was freed: see tarn_graph_guard; the sentence names
 *                the node, the pointer in it and the block
 *   WRONG_STATE  the pool has several graphs and TARN_REPLAY_REFUSED, and its last replay was on
 *                another stream; or the stream is being captured (nest graphs as child nodes
 *                instead, in a graph of the same pool): the driver has then invalidated that capture,
 *                as it does for a launch of its own. If it is a tarn_capture, its end names this call
 *   DEVICE_MEMORY  a replay that has to wait for the device cannot, for the device is full
 *   DEVICE_LOST, POISONED, DRIVER */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_graph_replay(tarn_graph *graph, tarn_stream stream);

/* Ends the capture, as tarn_capture_end does, and puts its graph into the executable of a graph of the
 * same pool: for sections that are captured again with other addresses or values, since it costs much
 * less than instantiating. On success the capture handle is gone; the graph's next replay runs the new
 * section, and holds the memory of that. Launches under way run the old one to its end, and its memory
 * stays held until they are done. Not while another thread uses the graph.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  the capture is of another pool
 *   WRONG_STATE       as tarn_capture_end
 *   WRONG_THREAD, CAPTURE_BROKEN  as tarn_capture_end
 *   CANNOT_UPDATE   the sections differ in more than parameters; the sentence has the driver's reason.
 *                   The graph is as it was. Nothing more can be captured, but the capture can still be
 *                   ended, which instantiates another graph, or aborted
 *   DEVICE_MEMORY, DRIVER  the same, for other reasons of the driver's
 *   DEVICE_LOST, POISONED */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_update(tarn_graph *graph, tarn_capture *capture);

/* Destroys the executable graph and the graph. Launches that run go on; their memory stays held
 * until they are done. NULL is allowed.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_destroy(tarn_graph *graph);

/* The driver's own handles, for inspection; they stay the graph's.
 *   INVALID_HANDLE; INVALID_ARGUMENT: both outputs are NULL */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_driver_handles(tarn_graph *graph,
                                                               tarn_driver_graph *driver_graph,
                                                               tarn_driver_exec *driver_exec);

#ifdef __cplusplus
}
#endif
#endif
