// SPDX-License-Identifier: Apache-2.0
/* route.h -- which allocations go to which private pool.
 *
 *   P10  a pool's route_count is the number of its routes
 *
 * Routes are numbered; a number is never used again. A tarn_capture's route is tied to the capture:
 * the user has no handle of this route. Its stream is never asked, since the capture may be gone
 * with the stream.
 *
 * A capture's allocations on a stream go to the same arena again as long as the routes stay the
 * same, on two conditions. A route by the capture accepted the first allocation; and all newer
 * routes are those of tarn_captures, which never accept another capture. The arena is remembered
 * then, with the stamp of the routes, and the routes are not asked again. Newer routes to pools of
 * the host change nothing: they accept allocations of the host alone.
 *
 * Locking: the ROUTES lock of the device. A counter of open routes is read without the lock: a
 * program without routes pays for a single load. */
#ifndef TARN_POOLS_ROUTE_H
#define TARN_POOLS_ROUTE_H

#include "base/checked.h"
#include "heap/steady.h"
#include "pools/route_stack.h"
#include "tarn/pool.h"

/* Guarded by the ROUTES lock of the device, unless a field says otherwise. */
struct tarn_route {
    /* TN_ROUTE_MAGIC: the user has the handle. 0 in a tarn_capture's route, and in a recycled
     * record. */
    _Atomic uint64_t magic;
    tarn_route *next; /* links recycled records */
    uint64_t id;      /* immutable */
    tarn_pool *pool;  /* immutable */
    tarn_route_filter filter;
    void *user;
    uint64_t thread_id;  /* immutable; the thread of begin */
    uint64_t capture_id; /* for the capture filter; 0: not known yet */
    bool of_capture;     /* immutable; a tarn_capture begins and ends the route */
    bool shut;           /* the capture is being ended: nothing may enter now */
    /* Kept in a recycled record: calls read the device before they know whether their handle is
     * stale. */
    _Atomic(tarn_device *) device;
};

#define TN_ROUTE_MAGIC 0x54527465ULL

/* Where an allocation goes. */
struct tn_route_choice {
    tarn_pool *pool; /* pinned; NULL: no route has accepted */
    uint64_t id;     /* of the route; 0: none */
    uint64_t stamp; /* of routes that will choose the same for the order; 0: they may not do this */
};

void tn_routes_init(struct tn_routes *routes);
void tn_routes_fini(struct tn_routes *routes);

/* WRONG_STATE (the default pool), INVALID_ARGUMENT (a filter with a stream, and a pool of the host),
 * LIMIT, HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_route_begin(tarn_device *device, tarn_pool *pool,
                                           tarn_route_filter filter, void *user,
                                           tarn_route **route);

/* The device of a route, by its handle alone. */
static inline tarn_device *tn_route_device(tarn_route *route)
{
    return atomic_load_explicit(&route->device, memory_order_relaxed);
}

/* Ends a route of the user's. The pool's captures by the route which are known to be over end
 * there. False: the device has no open route of this handle. */
TARN_MUST_CHECK bool tn_route_end(tarn_device *device, tarn_route *route);

/* Begins the route of a tarn_capture on the stream. The route catches nothing before
 * tn_route_set_capture.
 *   WRONG_STATE (the default pool), LIMIT, HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_route_begin_capture(tarn_device *device, tarn_pool *pool,
                                                   tarn_stream stream, uint64_t *id);
void tn_route_set_capture(tarn_device *device, uint64_t id, uint64_t capture_id);

/* Shuts the capture, or opens the capture again. In a shut capture nothing is allocated, and no
 * pool joins: on return no other thread is about to do either. */
void tn_route_shut_capture(tarn_device *device, uint64_t id, bool shut);

/* Ends a tarn_capture's route, if still open: by the route's number, or by a capture which is
 * gone. */
void tn_route_end_capture(tarn_device *device, uint64_t id);
void tn_route_end_gone(tarn_device *device, uint64_t capture_id);

/* Whether the capture is a tarn_capture's and is just being ended. The ROUTES lock is held. */
bool tn_route_is_shut(const tarn_device *device, uint64_t capture_id);

/* Lists the streams of the pool's routes by the capture or the stream filter which the calling
 * thread began. Routes of tarn_captures are left out. Returns how many streams. */
size_t tn_route_streams(tarn_device *device, const tarn_pool *pool,
                        tarn_stream streams[TN_ROUTES_MAX]);

/* Whether the stream of a route by one of these filters, begun by another thread, is in a capture
 * without a hold in the pool. The driver tells another thread only whether the stream is being
 * captured. Three kinds are passed over:
 * - a thread's own default stream, about which the driver tells other threads nothing;
 * - the legacy stream, which is never captured;
 * - a stream in an invalidated capture, whose work never runs.
 *
 *   DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_route_hides_capture(tarn_device *device, tarn_pool *pool,
                                                   bool *hides);

/* Whether any route is open; without a lock. */
static inline bool tn_route_is_any(const struct tn_routes *routes)
{
    return atomic_load_explicit(&routes->open_count, memory_order_acquire) != 0;
}

/* Finds the newest route that accepts the allocation. Those to pools of the host accept allocations
 * of TN_ORDER_HOST alone, and other routes all others.
 *   DEVICE_LOST, DRIVER: a route's stream could not be asked */
TARN_MUST_CHECK tarn_status tn_route_choose(tarn_device *device, tarn_stream stream,
                                            struct tn_order order, struct tn_route_choice *choice);

/* Remembers the order's arena in the chosen pool for its next allocations. The pool is still
 * pinned. */
void tn_route_remember(tarn_device *device, const struct tn_route_choice *choice,
                       struct tn_order order);

/* The place where an order's arena in a capture is remembered, if at all. The place depends on the
 * stream alone: the arena can be brought near before the driver has told of the capture. */
static inline _Atomic(struct tn_arena *) *tn_route_place(struct tn_routes *routes,
                                                         uint64_t stream_id)
{
    return &routes->remembered[(stream_id * TN_GOLDEN) >> (64 - TN_ROUTES_REMEMBERED_BITS)];
}

/* The arena which is remembered for the stream's captures; NULL: none. Brings near the memory which
 * an allocation writes there, while the driver is asked for the capture, which takes as long. */
static inline struct tn_arena *tn_routes_expect_arena(struct tn_routes *routes, tn_cu_stream stream,
                                                      uint64_t requested)
{
    struct tn_arena *arena = atomic_load_explicit(
        tn_route_place(routes, tn_stream_captured_id(stream)), memory_order_acquire);

    if (TN_LIKELY(arena != NULL)) {
        __builtin_prefetch(arena, 1);
        __builtin_prefetch(&arena->counters, 1);
        __builtin_prefetch(&arena->user);
        /* The arena may end meanwhile, and its heaps with it: nothing of them is read. */
        __builtin_prefetch(__atomic_load_n(&arena->heaps[tn_kind_of(requested)], __ATOMIC_RELAXED),
                           1);
    }
    return arena;
}

/* The key that an order's remembered arena is still the routes' choice, by their stamp alone. */
static TN_ALWAYS_INLINE struct tn_steady_key tn_routes_steady_key(const struct tn_routes *routes,
                                                                  struct tn_order order)
{
    return (struct tn_steady_key){
        .order = order, .routes_stamp = atomic_load_explicit(&routes->stamp, memory_order_acquire)};
}

#endif
