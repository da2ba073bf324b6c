// SPDX-License-Identifier: Apache-2.0
/* pool.h -- private pools, and the routes that send allocations to them.
 *
 * A pool is a set of arenas with one lifetime. The default pool of a device serves everyone. A
 * private pool serves calls that name the pool (tarn_pool_malloc), and allocations that a route
 * sends there (tarn_begin_allocate_to_pool). Every live block, open route, capture, graph and
 * checkpoint of a pool keeps the pool. See docs/pools.md.
 *
 * Threads: all functions may be called from any thread. They may also be called while any stream is
 * being captured, and never disturb the capture; exceptions are named below. */
#ifndef TARN_POOL_H
#define TARN_POOL_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How replays of a pool with several graphs behave on several streams. These graphs share memory,
 * and must not overlap in time. Until its launches have ended, a destroyed graph is one of them, as
 * is the old section of an updated graph. */
typedef enum tarn_replay_order {
    TARN_REPLAY_ORDERED = 0, /* each replay waits on the GPU for the one before it */
    TARN_REPLAY_REFUSED = 1, /* a replay on another stream than the last one is refused */
} tarn_replay_order;

/* The effect of a free on a live block that a graph refers to, and does not hold itself. Inputs and
 * weights are such blocks: those of other pools, and those of the graph's own pool in memory where
 * nothing was captured. See tarn_graph_guard (audit.h).
 *   IGNORE  Nothing: a replay reads and writes whatever is there then.
 *   KEEP    The memory waits until the graph is gone.
 *   REFUSE  The graph is stale from then on: its replay answers TARN_ERR_STALE. */
typedef enum tarn_guard {
    TARN_GUARD_IGNORE = 0,
    TARN_GUARD_KEEP = 1,
    TARN_GUARD_REFUSE = 2,
} tarn_guard;

/* The pool's blocks can be leased to other processes (share.h). A process with a lease can read and
 * write the whole chunk around the block, other blocks of the pool included. The pool's memory is
 * exportable. It never moves, is never cached, and serves no other pool. The location is the
 * device's. */
#define TARN_POOL_SHARED UINT64_C(1)

/* Make one with TARN_POOL_OPTIONS_INIT. */
typedef struct tarn_pool_options {
    /* sizeof(tarn_pool_options), set by the INIT macro. */
    size_t size;
    /* For reports and error sentences, copied, at most 31 bytes; NULL: none. */
    const char *name;
    /* The most physical memory that the pool may map; 0: no limit. */
    size_t limit_bytes;
    /* The pool's memory can be exported: cuMemExportToShareableHandle gives a POSIX file descriptor
     * for it. Exportable memory is never cached. */
    bool exportable;
    /* The pool's memory is made for GPUDirect RDMA. */
    bool gpu_direct_rdma;
    /* Ordinals of other devices that may use the pool's memory, copied. */
    const int *peers;
    size_t peer_count;
    /* For several graphs on several streams. */
    tarn_replay_order replay_order;
    /* Free memory that graphs hold also serves allocations outside captures. Replays write to this
     * memory: the caller orders the life of each such block against the replays, also where a
     * restore ends it. tarn_calloc writes there, too: its stream is put behind the replays before
     * the call. */
    bool share_captured;
    /* For each graph of the pool, from its capture, adoption or update on. The graph is read back
     * at that time, which takes some 0.1 us a node. */
    tarn_guard guard;
    /* A tarn_location: where the pool's memory is. host.h says what is different in memory of the
     * host. */
    uint64_t location;
    /* TARN_POOL_SHARED, or 0. */
    uint64_t flags;
} tarn_pool_options;

#define TARN_POOL_OPTIONS_INIT TARN_SIZED(tarn_pool_options)

/* Makes an empty private pool, which takes no device memory before its first allocation. options:
 * NULL for the defaults. *pool: owned by the caller; end it with tarn_pool_destroy or
 * tarn_pool_release.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  pool is NULL.
 *                     An option is out of range, or their size is wrong (tarn/types.h).
 *                     A peer is no device.
 *   NOT_SUPPORTED     The device has no memory of the kind that the options ask for.
 *                     TARN_POOL_SHARED with a location of the host.
 *                     A peer cannot reach the device's memory.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_create(tarn_device *device,
                                                      const tarn_pool_options *options,
                                                      tarn_pool **pool);

/* Ends the pool. Its memory goes to the device's cache, and to the driver where the cache takes no
 * more. Waits for the device first if free memory may still be in use. If only graphs that are gone
 * keep the pool, waits up to 1 s for the driver's report of their end. The report comes some
 * microseconds behind the last launch. NULL is allowed.
 *   INVALID_HANDLE
 *   BUSY         A block is live, or a guarded graph keeps a freed block.
 *                A route, capture, graph or checkpoint exists, running launches of destroyed graphs
 *                included.
 *                A call with the pool is under way, on another thread or around this callback.
 *                The sentence counts all of these.
 *   WRONG_STATE  The pool is the default pool.
 *   DRIVER       The device could not be waited for. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_destroy(tarn_pool *pool);

/* Gives up the handle. The pool ends by itself with its last block, route, capture, graph and
 * checkpoint. Until then these work as before, but the handle does not. A route has a handle of its
 * own. The end of the pool does not wait for the device.
 *
 * The ends of graphs and of recorded streams prove memory idle if nothing else touched the memory.
 * While other free memory is not proven idle, the pool stays among the device's pools. The pool
 * then ends with the next wait for the device: in a trim, in the destruction of another pool, or in
 * the device's close. Where 32 such pools stay, the next creation of a pool waits for the
 * device and ends them: in tarn_pool_create, or for an adopted capture. This wait breaks no
 * capture.
 *
 * The wait never ends if the GPU's work waits for the very thread that makes the pool. In this case
 * free by tarn_free_on, or trim before.
 *   INVALID_HANDLE
 *   WRONG_STATE  The pool is the default pool. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_release(tarn_pool *pool);

/* Maps memory ahead, on the order of the given stream. Allocations of up to that many bytes in all
 * then need no driver call there, and in the captures that begin next. On a capturing stream the
 * memory serves that capture. Nothing is mapped if as many bytes are free in one piece already.
 * Memory that the stream has used before counts, but serves the stream alone, and no captures.
 *
 * Chunks without any allocation yet also serve other streams of the pool that lack memory, and
 * their reservations, before more is mapped. To provide for several streams, reserve the total in
 * one call.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  bytes is more than any device holds.
 *   UNROUTED          The pool is the default pool, and the stream is being captured.
 *   CAPTURE_BROKEN    The stream's capture is invalidated.
 *   DEVICE_MEMORY, HOST_MEMORY, ADDRESS_SPACE, LIMIT, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_reserve(tarn_pool *pool, size_t bytes,
                                                       tarn_stream stream);

/* Lets another device use the pool's memory, mapped now or later. If the call fails, the device may
 * use none of the memory. No effect for the pool's own device, and for a device that may use the
 * memory already. The caller orders work on the other device: the pool knows only the streams that
 * it is told of.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  No device has this ordinal.
 *   NOT_SUPPORTED     The other device cannot reach this device's memory.
 *   DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_add_peer(tarn_pool *pool, int ordinal);

/* Sets the most bytes that the pool may map; 0: no limit. The limit may be below the mapped bytes:
 * no memory goes back for it, and an allocation that would map more is refused.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_set_limit(tarn_pool *pool, size_t bytes);

/* Gives chunks back to the driver, if all of their blocks are free and no graph holds them.
 * *freed_bytes: the bytes given back; freed_bytes may be NULL. Waits for the device if freed memory
 * may still be in use; this wait breaks no capture. Addresses of live blocks never change.
 *
 * The memory of graphs that tarn_graph_destroy ended, or tarn_graph_update replaced, goes too. The
 * trim waits for their launches, and then up to 200 ms for the driver to give the graphs up. The
 * driver takes some microseconds, unless the program has an executable or a clone of the graph. The
 * program's own destroys are not seen. Where free memory is kept by graphs without a tarn_graph
 * alone, a trim waits for the driver as well: 250 us in all. A graph that lives on, or that an
 * earlier trim awaited in vain, costs no more than this.
 *   INVALID_HANDLE
 *   DRIVER  The device could not be waited for.
 *   DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_trim(tarn_pool *pool, size_t *freed_bytes);

/* The same, until the pool maps no more than keep_bytes. Memory mapped ahead and never used goes
 * first, and the highest addresses go first. Chunks go whole, so less than keep_bytes may be left.
 *   INVALID_HANDLE
 *   DRIVER  The device could not be waited for.
 *   DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_trim_to(tarn_pool *pool, size_t keep_bytes,
                                                       size_t *freed_bytes);

/* Recomputes the invariants of the pool's blocks, chunks, heaps and counters, and of the device's
 * cache. For tests and for doubt: the call visits every block.
 *   INVALID_HANDLE
 *   CORRUPT  An invariant does not hold. The sentence names the invariant and both values. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_validate(tarn_pool *pool);

/* The state of a run of bytes in a segment. */
typedef enum tarn_extent_state {
    TARN_EXTENT_LIVE,      /* a live block */
    TARN_EXTENT_PENDING,   /* freed, but waiting for a recorded stream or for a capture's end */
    TARN_EXTENT_DISCARDED, /* allocated in an aborted capture; waits for its user's free */
    TARN_EXTENT_FREE,      /* mapped, free */
    TARN_EXTENT_UNMAPPED,  /* addresses without memory */
} tarn_extent_state;

typedef struct tarn_extent {
    void *address;
    size_t bytes;
    /* Rises with the creation of the segment. Extents of one segment are adjacent. */
    size_t segment_index;
    tarn_extent_state state;
    /* The number of a live block, else 0. */
    uint64_t sequence;
} tarn_extent;

/* The pool's segments, cut into extents in order of segment and address. The extents tile each
 * segment. */
typedef struct tarn_layout {
    size_t extent_count;
    size_t segment_count;
    const tarn_extent *extents;
} tarn_layout;

/* Gives the layout of the pool. *layout: owned by the caller; end it with tarn_layout_destroy.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  layout is NULL.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_layout(tarn_pool *pool, tarn_layout **layout);
TARN_API void tarn_layout_destroy(tarn_layout *layout); /* NULL is allowed. */

/* All live blocks of a pool at one moment, in order of address. */
typedef struct tarn_block_list {
    size_t count;
    const tarn_block *blocks;
} tarn_block_list;

/* Lists the live blocks of the pool. In the default pool, contents of checkpoints are among them.
 * Allocations and frees of other threads in the pool wait meanwhile. *list: owned by the caller;
 * end it with tarn_block_list_destroy.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  list is NULL.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_blocks(tarn_pool *pool, tarn_block_list **list);
TARN_API void tarn_block_list_destroy(tarn_block_list *list); /* NULL is allowed. */

/* How a pool was made, and who may still name the pool.
 *   PRIVATE   Made by tarn_pool_create; its handle is valid.
 *   DEFAULT   The device's default pool; its handle is valid.
 *   RELEASED  A private pool; its handle was given up (tarn_pool_release).
 *   ADOPTED   Made by Tarn for a capture without a route (tarn_unrouted); nobody has had a handle.
 */
typedef enum tarn_pool_kind {
    TARN_POOL_PRIVATE = 0,
    TARN_POOL_DEFAULT = 1,
    TARN_POOL_RELEASED = 2,
    TARN_POOL_ADOPTED = 3,
} tarn_pool_kind;

typedef struct tarn_pool_entry {
    /* NULL: RELEASED or ADOPTED. */
    tarn_pool *pool;
    tarn_pool_kind kind;
    /* As given to tarn_pool_create; "default" and "adopted" for pools that Tarn made. */
    char name[32];
} tarn_pool_entry;

/* All pools of a device at one moment: the newest first, the default pool last. */
typedef struct tarn_pool_list {
    size_t count;
    const tarn_pool_entry *pools;
} tarn_pool_list;

/* Lists the device's pools, as many as the statistics count. A handle in the list keeps nothing:
 * another thread may destroy its pool before the caller uses the handle. *list: owned by the
 * caller; end it with tarn_pool_list_destroy.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  list is NULL.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_pools(tarn_device *device, tarn_pool_list **list);
TARN_API void tarn_pool_list_destroy(tarn_pool_list *list); /* NULL is allowed. */

/* Decides whether an allocation on this stream goes to the route's pool. Called by tarn_malloc,
 * tarn_malloc_aligned and tarn_calloc, on the allocating thread, under the lock of the routes. The
 * filter must not call Tarn: calls answer WRONG_STATE there, unless they need no more than a
 * stream's own memory. The filter returns, and leaves in no other way (status.h).
 * Filters of routes to pools of the host are
 * called by tarn_host_malloc alone, with the stream NULL.
 * stream: as the allocation was given it; (tarn_stream)2 instead of NULL if the device was opened
 * with TARN_NULL_STREAM_PER_THREAD. */
typedef bool (*tarn_route_filter)(tarn_stream stream, void *user);

/* Built-in filters, known by their address. NULL is the default stream that the device was opened
 * for (tarn_null_stream). For the filters with a stream, the handle of a thread's own default
 * stream means the stream of the thread that begins the route. */

/* user: a tarn_stream. Accepts streams of the capture that this stream is in, as its origin or
 * forked. The capture may begin after the route. The stream must live until the route ends. A
 * thread that did not begin the route is served on a forked stream only after an allocation on the
 * route's own stream. */
TARN_API bool tarn_filter_capture(tarn_stream stream, void *user);
/* user: NULL. Accepts allocations of the thread that began the route. */
TARN_API bool tarn_filter_thread(tarn_stream stream, void *user);
/* user: a tarn_stream. Accepts allocations on this stream alone, which must live until the route
 * ends. */
TARN_API bool tarn_filter_stream(tarn_stream stream, void *user);

/* Opens a route, and gives its handle; end it with tarn_end_allocate_to_pool. Until then the pool
 * serves each tarn_malloc, tarn_malloc_aligned and tarn_calloc that the filter accepts. Several
 * routes may be open, to one pool or to many: the newest that accepts wins. A route holds its pool.
 * A route to a pool of the host (host.h) serves tarn_host_malloc, and no other call. Its filter is
 * tarn_filter_thread, or one of the program's: allocations of the host name no stream.
 *
 * Around a capture of your own, use the filter for a capture or for a stream. Tarn then knows which
 * frees of the pool's blocks belong to the capture, on any thread. For a thread's own default
 * stream this holds on that thread alone. These blocks wait for the graph to be adopted. If the
 * graph is never adopted, they stay set aside until the pool ends.
 *
 * With another filter Tarn learns of the capture from the first of these:
 * - its first allocation from the pool;
 * - the first tarn_free_on or tarn_record_stream of a block of the pool with a stream of the
 *   capture.
 * Until then, do not free a block from before the capture by tarn_free in the capture.
 *   INVALID_HANDLE    device or pool is not a valid handle.
 *   INVALID_ARGUMENT  filter or route is NULL.
 *                     The pool is of another device.
 *                     The filter has a stream, and the pool's memory is the host's (host.h).
 *   WRONG_STATE       The pool is a default pool.
 *   LIMIT             64 routes are open.
 *   HOST_MEMORY, DEVICE_LOST, POISONED. */
TARN_API TARN_MUST_CHECK tarn_status tarn_begin_allocate_to_pool(tarn_device *device,
                                                                 tarn_pool *pool,
                                                                 tarn_route_filter filter,
                                                                 void *user, tarn_route **route);

/* Ends a route. Routes end in any order, and on any thread. A route can also be ended after the
 * thread that began the route has exited, or the pool's handle was released. The route may have led
 * captures to the pool. Those known to be over give their free memory to the pool's later captures.
 * Forget the handle of an ended route: a route that begins later may get the same handle.
 *   INVALID_HANDLE  route is NULL, no route, or has ended: nothing is ended. */
TARN_API TARN_MUST_CHECK tarn_status tarn_end_allocate_to_pool(tarn_route *route);

#ifdef __cplusplus
}
#endif
#endif
