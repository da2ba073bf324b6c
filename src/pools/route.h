// SPDX-License-Identifier: Apache-2.0
/* route.h -- which allocations go to which private pool.
 *
 *   P10  a pool's route_count is the number of its routes
 *
 * Routes are numbered; a number is never used again. That of a tarn_capture is tied to the capture: its
 * user does not end it, and its stream is never asked, since the capture may be gone with its stream.
 *
 * Where a capture's allocations on a stream have gone once they go again as long as the routes stay as they are, if
 * it was a route by the capture that accepted, and all newer ones are of tarn_captures, which accept no other capture
 * ever. So the arena is remembered, with the stamp of the routes, and the routes are not asked again.
 *
 * Locking: the ROUTES lock of the device; a counter of open routes is read without it, so that
 * programs without routes pay one load. */
#ifndef TARN_POOLS_ROUTE_H
#define TARN_POOLS_ROUTE_H

#include "base/checked.h"
#include "heap/steady.h"
#include "pools/route_stack.h"
#include "tarn/pool.h"

/* Where an allocation goes. */
struct tn_route_choice {
    tarn_pool *pool; /* pinned; NULL: no route has accepted */
    uint64_t id;     /* of the route; 0: none */
    uint64_t stamp;  /* of routes that will choose the same for the order; 0: they may not */
};

void tn_routes_init(struct tn_routes *routes);
void tn_routes_fini(struct tn_routes *routes);

/* WRONG_STATE (the default pool), LIMIT, HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_route_begin(tarn_device *device, tarn_pool *pool,
                                           tarn_route_filter filter, void *user);

/* Ends the newest route to the pool that the calling thread began; when it began none, the newest that
 * is not another thread's own. The pool's captures by that route which are known to be over end there.
 *   WRONG_STATE: none is open, or only those of tarn_captures; WRONG_THREAD: only other threads'
 *   own */
TARN_MUST_CHECK tarn_status tn_route_end(tarn_device *device, tarn_pool *pool);

/* The route of a tarn_capture on that stream, which catches nothing before tn_route_set_capture.
 * WRONG_STATE, LIMIT */
TARN_MUST_CHECK tarn_status tn_route_begin_capture(tarn_device *device, tarn_pool *pool,
                                                   tarn_stream stream, uint64_t *id);
void tn_route_set_capture(tarn_device *device, uint64_t id, uint64_t capture_id);

/* From here on, or until the opposite is said, nothing is allocated in that capture, and no pool joins
 * it: on return no other thread is about to. */
void tn_route_shut_capture(tarn_device *device, uint64_t id, bool shut);

/* Ends a tarn_capture's route, if it is there; by its number, or by its capture when that is gone. */
void tn_route_end_capture(tarn_device *device, uint64_t id);
void tn_route_end_gone(tarn_device *device, uint64_t capture_id);

/* Whether the capture is a tarn_capture's that is just being ended. The ROUTES lock is held. */
bool tn_route_is_shut(const tarn_device *device, uint64_t capture_id);

/* The streams of the pool's routes by the capture or the stream filter which the calling thread began,
 * those of tarn_captures left out; returns how many. */
size_t tn_route_streams(tarn_device *device, const tarn_pool *pool,
                        tarn_stream streams[TN_ROUTES_MAX]);

/* Whether the stream of such a route, which another thread began, is in a capture that has no hold in the pool. All
 * that another thread may ask the driver is whether it is being captured. Of a thread's own default stream
 * nothing is known elsewhere, the legacy one is never captured, and what an invalidated capture has never runs.
 * DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_route_hides_capture(tarn_device *device, tarn_pool *pool,
                                                   bool *hides);

/* Whether any route is open; without a lock. */
static inline bool tn_route_is_any(const struct tn_routes *routes)
{
    return atomic_load_explicit(&routes->open_count, memory_order_acquire) != 0;
}

/* Finds the newest route that accepts the allocation.
 *   DEVICE_LOST, DRIVER: a route's stream could not be asked */
TARN_MUST_CHECK tarn_status tn_route_choose(tarn_device *device, tarn_stream stream,
                                            struct tn_order order, struct tn_route_choice *choice);

/* Remembers that the order's allocations go to its arena in the chosen pool, which is pinned still. */
void tn_route_remember(tarn_device *device, const struct tn_route_choice *choice,
                       struct tn_order order);

/* Where the arena of an order in a capture is remembered, if it is. By its stream alone, so that it can be brought near
 * before the driver has told of the capture. */
static inline _Atomic(struct tn_arena *) *tn_route_place(struct tn_routes *routes,
                                                         uint64_t stream_id)
{
    return &routes->remembered[(stream_id * TN_GOLDEN) >> (64 - TN_ROUTES_REMEMBERED_BITS)];
}

/* The arena that is remembered for the stream's captures, NULL: none; what such an allocation writes there is brought
 * near while the driver is asked for the capture, which takes as long. */
static inline struct tn_arena *tn_steady_expect_routed(struct tn_routes *routes,
                                                       tn_cu_stream stream, uint64_t requested)
{
    struct tn_arena *arena = atomic_load_explicit(
        tn_route_place(routes, tn_stream_captured_id(stream)), memory_order_acquire);

    if (TN_LIKELY(arena != NULL)) {
        __builtin_prefetch(arena, 1);
        __builtin_prefetch(&arena->counters, 1);
        __builtin_prefetch(&arena->user);
        __builtin_prefetch(tn_steady_heap_for(arena, requested), 1);
    }
    return arena;
}

/* What the routes' choice for the order is, if it is remembered still. */
static TN_ALWAYS_INLINE struct tn_steady_claim
tn_steady_claim_routed(const struct tn_routes *routes, struct tn_order order)
{
    return (struct tn_steady_claim){
        .order = order, .routes_stamp = atomic_load_explicit(&routes->stamp, memory_order_acquire)};
}

#endif
