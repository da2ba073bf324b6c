// SPDX-License-Identifier: Apache-2.0
/* graph.h -- captures and graphs on private pools.
 *
 *   tarn_capture_begin(pool, stream, NULL, &capture);
 *   ... tarn_malloc, kernels, tarn_free on the stream and on streams forked from it ...
 *   tarn_capture_end(capture, &graph);
 *   tarn_graph_replay(graph, stream);
 *   tarn_graph_destroy(graph);
 *
 * While a capture is open, its pool serves tarn_malloc on the capture's streams. The graph holds
 * every chunk of memory that its capture touched. Held memory stays mapped at its addresses; a trim
 * leaves it. Only captures of the same pool get held memory, unless the pool's share_captured
 * (pool.h) permits other allocations too. The hold is a user object on the driver's graph. The hold
 * ends when the last of these has gone: the graph, its clones, every executable made of them, the
 * program's own included, and every running launch. The driver reports the end some microseconds
 * later. tarn_pool_trim, tarn_pool_destroy and tarn_device_close wait for a report on its way.
 *
 * Blocks of a capture are the caller's. A block live at the end of its capture stays live until the
 * caller frees it. A freed block serves later captures of the pool, also while the graph exists.
 * Allocations outside its captures get the memory after the hold's end; a trim then unmaps it. Live
 * blocks, captures, graphs and everything in the hold's list keep the pool: tarn_pool_destroy
 * answers BUSY, and a released pool (tarn_pool_release) goes with the last of them.
 *
 * Several graphs may be captured in one pool. A later capture reuses memory that an earlier capture
 * freed, so replays of these graphs must not overlap. tarn_graph_replay keeps the replays in order,
 * or refuses a second stream; see replay_order in pool.h. A capture that allocates from two pools
 * merges both pools' replays into one order. The first replay after the merge waits for the device.
 * A launch that bypasses tarn_graph_replay is ordered by its caller.
 *
 * Work outside graphs on memory from a capture is in no such order; see tarn_graph_replay, and
 * docs/graphs.md.
 *
 * A program may capture with the driver's own calls. Then open a route (tarn_begin_allocate_to_pool
 * in pool.h) around the section, and pass the driver's graph to tarn_graph_adopt.
 *
 * Threads: all functions may be called from any thread, with the exceptions named below. While one
 * thread begins, ends or aborts a capture, no other thread may call Tarn or the driver with a
 * stream of that capture: the driver crashes. Frees without a stream may overlap. */
#ifndef TARN_GRAPH_H
#define TARN_GRAPH_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which other calls the driver permits while the capture is open: CUDA's modes of the same
 * names. */
typedef enum tarn_capture_mode {
    TARN_CAPTURE_GLOBAL = 0,
    TARN_CAPTURE_THREAD_LOCAL = 1,
    TARN_CAPTURE_RELAXED = 2,
} tarn_capture_mode;

/* How to capture. Begin with TARN_CAPTURE_OPTIONS_INIT. docs/graphs.md explains captures into
 * graphs of the caller, and bodies of conditional nodes. */
typedef struct tarn_capture_options {
    /* sizeof(tarn_capture_options), set by the INIT macro. */
    size_t size;

    tarn_capture_mode mode;

    /* The caller's graph to capture into, behind none of its nodes. NULL: the capture makes a
     * graph. A pool captures once into each graph: a second section would run beside the first, in
     * the same memory. To add a section, capture a graph of its own, and add a child node behind
     * the first section. */
    tarn_driver_graph driver_graph;

    /* An open capture of the same pool, where driver_graph is the body of a conditional node in the
     * graph of that capture. The outer graph then holds the memory of the body. A body allocates
     * from this pool alone. NULL: driver_graph stands alone, and holds the memory itself. */
    tarn_capture *outer;

    /* Any number, equal for bodies that exclude each other, such as those of one IF or SWITCH.
     * Bodies of one group in one outer capture share memory: each gets the memory that is free when
     * the bodies before have ended. Different groups are apart. A block that is live at the end of
     * its body is given to no later body. But an earlier body of the group may have used that
     * memory, and writes there when that body runs again. Allocate data that must survive in the
     * outer capture, or in a body of another group. */
    uint64_t group;
} tarn_capture_options;

#define TARN_CAPTURE_OPTIONS_INIT TARN_SIZED(tarn_capture_options)

/* Begins to capture the stream, and routes allocations on the streams of the capture to the pool.
 * options: NULL for the defaults. The stream, and the caller's graph if there is a graph, must live
 * until the capture has ended. The thread of a per-thread default stream must live as long: the
 * driver may crash when a thread exits whose own stream is captured.
 *   INVALID_HANDLE    The pool, or the outer capture.
 *   INVALID_ARGUMENT  capture is NULL.
 *                     The stream is the legacy default stream: no capture of it is possible.
 *                     An option is out of range, or their size is wrong (tarn/types.h).
 *                     outer is set without driver_graph, or group without outer.
 *                     The outer capture belongs to another pool.
 *   WRONG_STATE       The stream is captured already.
 *                     The pool is the default pool, or its memory is the host's (host.h).
 *                     The outer capture is over.
 *                     driver_graph has a section of the pool already, or is getting a section. The
 *                     driver may give a new graph the handle of a destroyed graph whose executable
 *                     lives on: with as many nodes as the old one had, it is refused, too.
 *   LIMIT             64 routes are open.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_begin(tarn_pool *pool, tarn_stream stream,
                                                        const tarn_capture_options *options,
                                                        tarn_capture **capture);

/* Ends the capture. On success the capture's handle is gone.
 * A capture of its own: *graph is the instantiated graph, owned by the caller. The pool's options
 * guard the graph; it is stale if the section refers to a block that was freed before.
 * A capture into the caller's graph: graph is NULL, and the nodes are in that graph. The bodies of
 * a capture end before the capture. tarn_graph_adopt makes a tarn_graph of a graph that stands
 * alone.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  graph is NULL, and the capture makes a graph of its own.
 *   WRONG_STATE       graph is not NULL, and the capture goes into the caller's graph.
 *                     A body of the capture is open.
 *   WRONG_THREAD      Another thread began the capture, and not in relaxed mode: nothing is lost.
 *   CAPTURE_BROKEN    A call in the section broke the capture.
 *                     A forked stream was not joined.
 *                     The stream's capture was ended elsewhere.
 *                     Only tarn_capture_abort is left. The sentence names the driver's error and a
 *                     remedy. As far as known the sentence also names: the newest node; the newest
 *                     block allocated before the break, by sequence number; the first Tarn call
 *                     that found or caused the break; for a fork, streams that had joined and
 *                     allocated, and the newest node with nothing behind.
 *   DEVICE_MEMORY, HOST_MEMORY, DRIVER  The graph could not be instantiated: call again, or abort.
 *   DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_end(tarn_capture *capture, tarn_graph **graph);

/* Gives the capture up, in any state, from any thread. During the call no other thread may be in a
 * call with a stream of the capture, allocations included. NULL is allowed.
 *
 * Blocks: those allocated in the capture are discarded. Each stays mapped, and its address is not
 * given out again, until the user's own free, which succeeds. Frees in the section stand: those
 * blocks are free like any other, behind their stream's work.
 *
 * The caller's graph: a capture into that graph leaves its nodes there. The driver may have
 * destroyed the graph in three cases: the capture was broken, a forked stream was not joined, or
 * another thread aborts. Do not use the graph then.
 *
 * The driver's capture: the call ends the capture, if still open, with two exceptions. The capture
 * of a per-thread default stream continues when another thread aborts: end it on its own thread,
 * with cuStreamEndCapture. A capture around a body on such a stream continues until the body is
 * ended or aborted on its own thread.
 *
 * A program that ends a tarn_capture's stream capture by hand must call tarn_capture_abort before
 * destroying the graph. The driver does not identify an invalidated capture: a later, broken
 * capture of the same stream may otherwise be ended in place of this one.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_capture_abort(tarn_capture *capture);

/* Makes a tarn_graph of a graph that the program captured with a route to the pool. The route may
 * be open still. A graph that stands alone (driver_graph above) is adopted the same way. The call
 * takes over the driver's graph and instantiates it. Adopt graphs in the order of their captures:
 * blocks of the pool that were freed in a capture without a hold wait for the adoption of its
 * graph. A new graph may have the handle of a destroyed one, of which an executable lives. If Tarn
 * saw the old capture and not the new one, such blocks stay pending until the pool goes. Tarn does
 * not look for child nodes: order the replays of a graph with a child graph of another pool
 * yourself.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  driver_graph or graph is NULL.
 *   WRONG_STATE       The pool's memory is the host's (host.h).
 *   DEVICE_MEMORY, HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER  The caller keeps the driver's
 *                                                              graph. */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_adopt(tarn_pool *pool,
                                                      tarn_driver_graph driver_graph,
                                                      tarn_graph **graph);

/* Launches the graph on the stream. Callers serialise replays of one graph; replays of two graphs
 * may run on two threads, in one pool as well.
 *
 * In a pool with several graphs, the replay runs after the pool's last replay. On the same stream
 * the order costs nothing. On another stream the replay waits on the GPU, for an event. The host
 * waits for the device at the first change of streams, and at the first replay after a pool's only
 * graph was replayed.
 *
 * A replay does not wait for other work behind earlier replays, such as a copy of an output. Tarn
 * learns of such work by tarn_record_stream(output, stream) or tarn_free_on(output, stream)
 * (memory.h). Once the block is freed, its memory waits for the stream; replays do not. After a
 * plain tarn_free the memory serves the pool's next capture at once. A replay of that capture's
 * graph on another stream may then overwrite the output under the copy. Hence:
 *
 *   tarn_graph_replay(graph, stream);
 *   cuMemcpyDtoHAsync(result, output, bytes, stream);
 *   tarn_free_on(output, stream);
 *
 * A graph captured before the output's own graph may use the memory of a live output. Finish
 * reading the output before the next replay of such a graph, or order that replay behind the copy.
 *
 *   INVALID_HANDLE
 *   STALE          The graph is guarded and refers to a freed block (tarn_graph_guard in audit.h).
 *                  The sentence names the node, the pointer and the block.
 *   WRONG_STATE    The pool has several graphs and TARN_REPLAY_REFUSED, and its last replay was on
 *                  another stream.
 *                  The stream is being captured. The driver has then invalidated that capture, as
 *                  for any launch. Nest graphs as child nodes of a graph of the same pool instead.
 *   DEVICE_MEMORY  The replay has to wait for the device, and the device is full.
 *   DEVICE_LOST, POISONED, DRIVER. */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_graph_replay(tarn_graph *graph, tarn_stream stream);

/* Ends the capture, and puts its section into the executable of a graph of the same pool. An update
 * costs much less than an instantiation. On success the capture's handle is gone, and the next
 * replay runs the new section. Running launches finish the old section, and hold its memory until
 * then. No other thread may use the graph during the call.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  The capture is of another pool.
 *   WRONG_STATE       The capture goes into the caller's graph, or a body of the capture is open.
 *   WRONG_THREAD, CAPTURE_BROKEN  As tarn_capture_end.
 *   CANNOT_UPDATE     The sections differ in more than parameters; the sentence has the driver's
 *                     reason. The graph is unchanged. The capture takes no more work, but can be
 *                     ended, which makes another graph, or aborted.
 *   DEVICE_MEMORY, DRIVER  The same state, for other reasons.
 *   DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_update(tarn_graph *graph, tarn_capture *capture);

/* Destroys the graph and its executable. Running launches finish, and hold their memory until then;
 * so do clones and executables of the program's own. NULL is allowed.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_destroy(tarn_graph *graph);

/* Gives the driver's handles, for inspection. The graph keeps them. Either output may be NULL.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  Both outputs are NULL. */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_driver_handles(tarn_graph *graph,
                                                               tarn_driver_graph *driver_graph,
                                                               tarn_driver_exec *driver_exec);

#ifdef __cplusplus
}
#endif
#endif
