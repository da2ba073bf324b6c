// SPDX-License-Identifier: Apache-2.0
/* pool.h -- private pools, and the routes that send allocations to them.
 *
 * A pool is a set of arenas with one lifetime. The default pool of a device serves everyone; a
 * private pool serves whoever names it (tarn_alloc) or routes to it (tarn_begin_allocate_to_pool).
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

/* Make one with TARN_POOL_OPTIONS_INIT. */
typedef struct tarn_pool_options {
    size_t size;        /* sizeof(tarn_pool_options), set by the INIT macro */
    const char *name;   /* for reports and error sentences, copied, at most 31 bytes; NULL: none */
    size_t limit_bytes; /* physical memory that the pool may map; 0: no limit */
} tarn_pool_options;

#define TARN_POOL_OPTIONS_INIT {sizeof(tarn_pool_options), NULL, 0}

/* Makes an empty private pool. It takes no device memory before its first allocation.
 *   INVALID_HANDLE; INVALID_ARGUMENT: pool is NULL or an option is out of range;
 *   HOST_MEMORY, DEVICE_LOST, POISONED */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_create(tarn_device *device,
                                                      const tarn_pool_options *options,
                                                      tarn_pool **pool);

/* Ends the pool and gives its memory back to the driver; waits for the device first when free
 * memory may still be in use. NULL is allowed.
 *   INVALID_HANDLE
 *   BUSY          a block is live, or a route, capture, graph or checkpoint exists, the running
 *                 launches of destroyed graphs included; the sentence counts them
 *   WRONG_STATE   the default pool
 *   DRIVER        the device could not be waited for */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_destroy(tarn_pool *pool);

/* Gives up the handle: the pool goes by itself with its last block, route, capture, graph and
 * checkpoint. Until then they work as before; the handle does not, except to end its route.
 *   INVALID_HANDLE; WRONG_STATE: the default pool */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_release(tarn_pool *pool);

/* Maps memory ahead, so that allocations of up to that many bytes in all, on the order of the given
 * stream and in the captures that begin next, need no driver call. Where that much is free in one
 * piece already, nothing is mapped. On a capturing stream it serves that capture.
 *   INVALID_HANDLE, INVALID_ARGUMENT (more than any device holds), DEVICE_MEMORY, HOST_MEMORY,
 *   ADDRESS_SPACE, LIMIT, UNROUTED (the default pool, on a capturing stream), DEVICE_LOST,
 *   POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_reserve(tarn_pool *pool, size_t bytes,
                                                       tarn_stream stream);

/* Gives chunks whose blocks are all free, and that no graph holds, back to the driver, and says how
 * many bytes went. Waits for the device when freed memory may still be in use; that wait breaks no
 * capture. Addresses of live blocks never change. freed_bytes may be NULL.
 *   INVALID_HANDLE, DEVICE_LOST, POISONED; DRIVER: the device could not be waited for */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_trim(tarn_pool *pool, size_t *freed_bytes);

/* In bytes unless named otherwise. */
typedef struct tarn_pool_stats {
    size_t size;                /* sizeof(tarn_pool_stats), set by the caller */
    uint64_t mapped_bytes;      /* physical memory mapped */
    uint64_t mapped_peak_bytes; /* its highest value; exact */
    uint64_t live_bytes;        /* in live blocks, as taken */
    uint64_t live_peak_bytes;   /* its highest value; exact */
    uint64_t requested_bytes;   /* in live blocks, as requested */
    uint64_t pending_bytes;     /* freed, but waiting for a recorded stream */
    uint64_t captured_bytes;    /* in chunks that a capture or graph holds */
    uint64_t live_count;        /* blocks live */
    uint64_t pending_count;     /* blocks pending */
    uint64_t alloc_count;       /* allocations since the pool was made */
    uint64_t free_count;        /* frees since the pool was made */
    uint64_t segment_count;     /* segments */
    uint64_t chunk_count;       /* chunks mapped */
    uint64_t arena_count;       /* arenas */
    uint64_t capture_count;     /* captures under way or waiting to be adopted */
    uint64_t graph_count;       /* graphs that hold memory of the pool */
    uint64_t checkpoint_count;  /* checkpoints */
    uint64_t map_count;         /* chunks mapped since the pool was made */
    uint64_t unmap_count;       /* chunks unmapped since the pool was made */
} tarn_pool_stats;

/*   INVALID_HANDLE; INVALID_ARGUMENT: stats is NULL or its size is unknown */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_get_stats(tarn_pool *pool, tarn_pool_stats *stats);

/* Recomputes the invariants of the pool's blocks, chunks, heaps and counters. For tests and for doubt: it visits every block.
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

/* Decides whether an allocation on this stream goes to the route's pool. Called by tarn_malloc on
 * the allocating thread, under the lock of the routes: it must not call Tarn. */
typedef bool (*tarn_route_filter)(tarn_stream stream, void *user);

/* Built-in filters, known by their address. */
TARN_API bool tarn_filter_capture(tarn_stream stream, void *user); /* user: a tarn_stream. Streams
    of the capture that this stream is the origin of, forked ones included. The capture may begin
    after the route; the stream must live until the route ends. */
TARN_API bool tarn_filter_thread(tarn_stream stream, void *user); /* user: NULL. Allocations of the
    thread that began the route. */
TARN_API bool tarn_filter_stream(tarn_stream stream, void *user); /* user: a tarn_stream.
    Allocations on that very stream, which must live until the route ends. */

/* Opens a route: until it ends, tarn_malloc calls that the filter accepts are served by the pool.
 * Of several routes the newest that accepts wins. A route holds its pool.
 * Around a capture of the caller's own, use the filter for a capture or a stream: it tells Tarn which
 * capture a block of the pool is freed in. With another filter a block from before the capture must
 * not be freed in it before the capture's first allocation from the pool.
 *   INVALID_HANDLE (device or pool); INVALID_ARGUMENT: filter is NULL, or the pool is of another
 *   device; WRONG_STATE: a route to this pool is open, or it is the default pool;
 *   LIMIT: 64 routes are open; HOST_MEMORY, DEVICE_LOST, POISONED */
TARN_API TARN_MUST_CHECK tarn_status tarn_begin_allocate_to_pool(tarn_device *device,
                                                                 tarn_pool *pool,
                                                                 tarn_route_filter filter,
                                                                 void *user);

/* Ends the route to that pool. The pool's captures that are over give their free memory to the
 * pool's later captures.
 *   INVALID_HANDLE; WRONG_STATE: no route to this pool is open, or it is that of a tarn_capture */
TARN_API TARN_MUST_CHECK tarn_status tarn_end_allocate_to_pool(tarn_device *device,
                                                               tarn_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
