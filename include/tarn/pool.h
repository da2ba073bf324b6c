// SPDX-License-Identifier: Apache-2.0
/* pool.h -- private pools, and the routes that send allocations to them.
 *
 * A pool is a set of arenas with one lifetime. The default pool of a device serves everyone; a
 * private pool serves whoever names it (tarn_pool_malloc) or routes to it (tarn_begin_allocate_to_pool).
 * Every live block, open route, capture, graph and checkpoint of a pool keeps it from going.
 *
 * All functions may be called from any thread. Unless said otherwise they may be called while any
 * stream is being captured, and never disturb the capture. */
#ifndef TARN_POOL_H
#define TARN_POOL_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of replays of a pool with several graphs when they are on several streams. Such graphs
 * share memory, so they must not overlap in time. A graph that was destroyed, and the old section of one that
 * was updated, is one of them until its launches have ended. */
typedef enum tarn_replay_order {
    TARN_REPLAY_ORDERED = 0, /* each replay waits on the GPU for the one before it */
    TARN_REPLAY_REFUSED = 1, /* a replay on another stream than the last one is refused */
} tarn_replay_order;

/* What becomes of the live blocks that a graph refers to and does not hold itself, its inputs and weights, when they are
 * freed: those of other pools, and those of its own in which nothing was captured. See tarn_graph_guard (audit.h).
 *   IGNORE  nothing: a replay reads and writes whatever is there then
 *   KEEP    the memory waits until the graph is gone
 *   REFUSE  the graph is stale from then on: its replay answers TARN_ERR_STALE */
typedef enum tarn_guard {
    TARN_GUARD_IGNORE = 0,
    TARN_GUARD_KEEP = 1,
    TARN_GUARD_REFUSE = 2,
} tarn_guard;

/* Make one with TARN_POOL_OPTIONS_INIT. */
typedef struct tarn_pool_options {
    size_t size;        /* sizeof(tarn_pool_options), set by the INIT macro */
    const char *name;   /* for reports and error sentences, copied, at most 31 bytes; NULL: none */
    size_t limit_bytes; /* physical memory that the pool may map; 0: no limit */
    bool exportable; /* its memory can be exported: cuMemExportToShareableHandle gives a POSIX file
                           descriptor for it. Such memory is never cached */
    bool gpu_direct_rdma; /* its memory is made for GPUDirect RDMA */
    const int *peers;     /* ordinals of other devices that may use its memory, copied */
    size_t peer_count;
    tarn_replay_order replay_order; /* of several graphs on several streams */
    bool share_captured; /* memory that graphs hold, where it is free, serves allocations outside
                            captures too: replays write to it, so between a replay and such a
                            block's life the caller sees to the order */
    /* of each graph of the pool, from its capture, adoption or update on. Reads the graph back
     * then, which takes some 0.1 us a node */
    tarn_guard guard;
} tarn_pool_options;

#define TARN_POOL_OPTIONS_INIT TARN_SIZED(tarn_pool_options)

/* Makes an empty private pool. It takes no device memory before its first allocation.
 *   INVALID_HANDLE; INVALID_ARGUMENT: pool is NULL, an option is out of range, the size of the options is
 *   wrong (tarn/types.h), or a peer is no device; NOT_SUPPORTED: the device has no such memory, or a peer cannot reach it;
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_create(tarn_device *device,
                                                      const tarn_pool_options *options,
                                                      tarn_pool **pool);

/* Ends the pool. Its memory goes to the device's cache, and what the cache does not keep to the driver.
 * Waits for the device first when free memory may still be in use. Where nothing but graphs that are gone
 * keeps it, waits up to 1 s for the driver to say so: it does some microseconds behind the end of their last
 * launch. NULL is allowed.
 *   INVALID_HANDLE
 *   BUSY          a block is live, or a route, capture, graph or checkpoint exists, the running
 *                 launches of destroyed graphs included, or a call with the pool is under way, of another
 *                 thread or around this callback; the sentence counts them
 *   WRONG_STATE   the default pool
 *   DRIVER        the device could not be waited for */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_destroy(tarn_pool *pool);

/* Gives up the handle: the pool goes by itself with its last block, route, capture, graph and
 * checkpoint. Until then they work as before; the handle does not. A route has a handle of its own. Nobody waits
 * for the device to end it. Memory that only graphs and recorded streams have touched is proven idle by
 * their ends. While other free memory is not proven idle the pool stays among the device's pools, until
 * something has waited (a trim, another pool's destruction, the device's close). Where 32 of them stay, the
 * next pool that is made, by tarn_pool_create or for a capture that is adopted, waits for the device and ends
 * them, which breaks no capture: so neither their memory nor the cost of passing them by grows. Who makes
 * pools while the GPU's work waits for that very thread frees by tarn_free_on, or trims before: that wait would not end.
 *   INVALID_HANDLE; WRONG_STATE: the default pool */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_release(tarn_pool *pool);

/* Maps memory ahead, so that allocations of up to that many bytes in all, on the order of the given
 * stream and in the captures that begin next, need no driver call. Where that much is free in one
 * piece already, nothing is mapped; what the stream has used before counts, and serves it alone, not
 * captures. On a capturing stream it serves that capture. Chunks that nothing was
 * allocated in yet serve the pool's other streams, too, where they lack memory, and their reservations,
 * before more is mapped: what several streams are to have in all is asked for at once.
 *   INVALID_HANDLE, INVALID_ARGUMENT (more than any device holds), DEVICE_MEMORY, HOST_MEMORY,
 *   ADDRESS_SPACE, LIMIT, UNROUTED (the default pool, on a capturing stream), CAPTURE_BROKEN (the
 *   stream's capture is invalidated), DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_reserve(tarn_pool *pool, size_t bytes,
                                                       tarn_stream stream);

/* Lets another device use the memory of the pool, what is mapped now and what will be; all or nothing.
 * No effect for a device that may already, and for the pool's own. Work on the other device is the
 * caller's to order: the pool knows only the streams that it is told of.
 *   INVALID_HANDLE; INVALID_ARGUMENT: no such device; NOT_SUPPORTED: it cannot reach this device's
 *   memory; DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_add_peer(tarn_pool *pool, int ordinal);

/* Sets what the pool may map; 0: no limit. Less than it has mapped is allowed: nothing goes for it, and
 * an allocation that would map more is refused.
 *   INVALID_HANDLE */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_set_limit(tarn_pool *pool, size_t bytes);

/* Gives chunks whose blocks are all free, and that no graph holds, back to the driver, and says how
 * many bytes went. Waits for the device when freed memory may still be in use; that wait breaks no
 * capture. Addresses of live blocks never change. freed_bytes may be NULL.
 * The memory of a graph that tarn_graph_destroy has ended, or tarn_graph_update replaced, goes with it: the
 * trim waits for its launches, and then up to 200 ms for the driver to give it up. It does that within some
 * microseconds, unless the program has an executable or a clone of the graph; then no later trim waits for it.
 *   INVALID_HANDLE, DEVICE_LOST, POISONED; DRIVER: the device could not be waited for */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_trim(tarn_pool *pool, size_t *freed_bytes);

/* The same, until the pool maps no more than keep_bytes: first what was mapped ahead and never used, and
 * the highest addresses first. Chunks go whole, so less than keep_bytes may be left.
 *   INVALID_HANDLE, DEVICE_LOST, POISONED; DRIVER: the device could not be waited for */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_trim_to(tarn_pool *pool, size_t keep_bytes,
                                                       size_t *freed_bytes);

/* Recomputes the invariants of the pool's blocks, chunks, heaps and counters, and of the device's
 * cache. For tests and for doubt: it visits every block.
 *   INVALID_HANDLE; CORRUPT: the sentence names the invariant and both values */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_validate(tarn_pool *pool);

/* What a run of bytes in a segment is. */
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
    size_t segment_index; /* rising with the segment's creation; extents of one are adjacent */
    tarn_extent_state state;
    uint64_t sequence; /* of a live block, else 0 */
} tarn_extent;

/* The pool's segments, cut into extents in order of segment and address; they tile each segment. */
typedef struct tarn_layout {
    size_t extent_count;
    size_t segment_count;
    const tarn_extent *extents;
} tarn_layout;

/* *layout: owned by the caller; end it with tarn_layout_destroy.
 *   INVALID_HANDLE; INVALID_ARGUMENT: layout is NULL; HOST_MEMORY */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_layout(tarn_pool *pool, tarn_layout **layout);
TARN_API void tarn_layout_destroy(tarn_layout *layout); /* NULL is allowed. */

/* All live blocks of a pool at one moment, in order of address. */
typedef struct tarn_block_list {
    size_t count;
    const tarn_block *blocks;
} tarn_block_list;

/* Lists the live blocks of the pool. In the default pool, contents of checkpoints are among them. Other
 * threads' allocations and frees in the pool wait meanwhile. *list: owned by the caller; end it with tarn_block_list_destroy.
 *   INVALID_HANDLE.
 *   INVALID_ARGUMENT  list is NULL.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_blocks(tarn_pool *pool, tarn_block_list **list);
TARN_API void tarn_block_list_destroy(tarn_block_list *list); /* NULL is allowed. */

/* How a pool came to be, and who may still name it.
 *   PRIVATE   made by tarn_pool_create; its handle is valid
 *   DEFAULT   the device's default pool; its handle is valid
 *   RELEASED  a private pool whose handle was given up (tarn_pool_release)
 *   ADOPTED   made by Tarn for a capture without a route (tarn_unrouted); no one has had a handle */
typedef enum tarn_pool_kind {
    TARN_POOL_PRIVATE = 0,
    TARN_POOL_DEFAULT = 1,
    TARN_POOL_RELEASED = 2,
    TARN_POOL_ADOPTED = 3,
} tarn_pool_kind;

typedef struct tarn_pool_entry {
    /* NULL: RELEASED or ADOPTED */
    tarn_pool *pool;
    tarn_pool_kind kind;
    /* as given to tarn_pool_create; "default" and "adopted" for Tarn's own */
    char name[32];
} tarn_pool_entry;

/* All pools of a device at one moment: the newest first, the default pool last. */
typedef struct tarn_pool_list {
    size_t count;
    const tarn_pool_entry *pools;
} tarn_pool_list;

/* Lists the device's pools, as many as the statistics count. A handle in the list keeps nothing: another
 * thread may destroy its pool before the caller uses the handle. *list: owned by the caller; end it with
 * tarn_pool_list_destroy.
 *   INVALID_HANDLE.
 *   INVALID_ARGUMENT  list is NULL.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_pools(tarn_device *device, tarn_pool_list **list);
TARN_API void tarn_pool_list_destroy(tarn_pool_list *list); /* NULL is allowed. */

/* Decides whether an allocation on this stream goes to the route's pool. Called by tarn_malloc on
 * the allocating thread, under the lock of the routes: it must not call Tarn, whose functions answer WRONG_STATE there,
 * but for what is steady. It returns, and leaves in no other way; see status.h.
 * stream: as tarn_malloc was given it; (tarn_stream)2 instead of NULL where the device was opened with
 * TARN_NULL_STREAM_PER_THREAD. */
typedef bool (*tarn_route_filter)(tarn_stream stream, void *user);

/* Built-in filters, known by their address. */
TARN_API bool tarn_filter_capture(tarn_stream stream, void *user); /* user: a tarn_stream. Streams
    of the capture that this stream is in, as its origin or forked. The capture may begin after the
    route; the stream must live until the route ends. Another thread than the one that began the route is
    served on a forked stream once something was allocated on the route's own. */
TARN_API bool tarn_filter_thread(tarn_stream stream, void *user);  /* user: NULL. Allocations of the
    thread that began the route. */
TARN_API bool tarn_filter_stream(tarn_stream stream, void *user);  /* user: a tarn_stream.
    Allocations on that very stream, which must live until the route ends. Of these two filters, the
    handle of a thread's own default stream means that of the thread that begins the route. NULL is the
    default stream that the device was opened for (tarn_null_stream). */

/* Opens a route, and gives its handle. Until the route ends, the pool serves each tarn_malloc,
 * tarn_malloc_aligned and tarn_calloc that the filter accepts. Several routes may be open, to one pool
 * or to many: the newest that accepts wins. A route holds its pool. tarn_end_allocate_to_pool ends it.
 * Around a capture of the caller's own, use the filter for a capture or a stream: it tells Tarn which
 * capture a block of the pool is freed in, on any thread (but where the stream is a thread's own default
 * stream, on that thread alone), and such blocks wait for the graph to be adopted; of one that never is
 * they stay set aside until the pool goes. With another filter Tarn learns of the capture at its first
 * allocation from the pool, or at the first tarn_free_on or tarn_record_stream of a block of the pool with
 * one of its streams; a block from before the capture must not be freed in it by tarn_free before that.
 *   INVALID_HANDLE    device or pool is none
 *   INVALID_ARGUMENT  filter or route is NULL, or the pool is of another device
 *   WRONG_STATE       the default pool
 *   LIMIT             64 routes are open
 *   HOST_MEMORY, DEVICE_LOST, POISONED */
TARN_API TARN_MUST_CHECK tarn_status tarn_begin_allocate_to_pool(tarn_device *device,
                                                                 tarn_pool *pool,
                                                                 tarn_route_filter filter,
                                                                 void *user, tarn_route **route);

/* Ends a route. Routes end in any order, and on any thread: also when the thread that began the route
 * has exited, and when the handle of the pool was released. The captures that the route led to the
 * pool, where they are known to be over, give their free memory to the pool's later captures.
 *   INVALID_HANDLE  route is NULL, no route, or has ended: nothing is ended */
TARN_API TARN_MUST_CHECK tarn_status tarn_end_allocate_to_pool(tarn_route *route);

#ifdef __cplusplus
}
#endif
#endif
