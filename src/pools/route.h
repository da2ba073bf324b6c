// SPDX-License-Identifier: Apache-2.0
/* route.h -- which allocations go to which private pool.
 *
 *   P10  a pool has at most one route, and its route_count says whether it has
 *
 * Locking: the ROUTES lock of the device; a counter of open routes is read without it, so that
 * programs without routes pay one load. */
#ifndef TARN_POOLS_ROUTE_H
#define TARN_POOLS_ROUTE_H

#include <pthread.h>

#include "pools/pool.h"
#include "tarn/pool.h"

enum { TN_ROUTES_MAX = 64 };

struct tn_route {
    tarn_pool *pool;
    tarn_route_filter filter;
    void *user;
    pthread_t thread;    /* of begin; for the thread filter */
    uint64_t capture_id; /* for the capture filter; 0: not known yet */
    bool of_capture;     /* a tarn_capture began it and ends it */
};

struct tn_routes {
    struct tn_lock lock; /* rank ROUTES */
    struct tn_route routes[TN_ROUTES_MAX]; /* oldest first */
    size_t count;
    atomic_size_t open_count; /* the same, to be read without the lock */
};

void tn_routes_init(struct tn_routes *routes);
void tn_routes_fini(struct tn_routes *routes);

/* INVALID_ARGUMENT, WRONG_STATE, LIMIT, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_route_begin(tarn_device *device, tarn_pool *pool,
                                           tarn_route_filter filter, void *user);
/* WRONG_STATE: none is open, or it is that of a tarn_capture */
TARN_MUST_CHECK tarn_status tn_route_end(tarn_device *device, tarn_pool *pool);

/* The end of the route of a tarn_capture. WRONG_STATE: none is open. */
TARN_MUST_CHECK tarn_status tn_route_end_capture(tarn_device *device, tarn_pool *pool);

/* Tells the route of the pool that it is a tarn_capture's, and of which capture. */
void tn_route_set_capture(tarn_device *device, tarn_pool *pool, uint64_t capture_id);

/* The stream of the pool's route, where it has one by the capture or the stream filter. */
bool tn_route_stream(tarn_device *device, tarn_pool *pool, tarn_stream *stream);

/* The pool of the newest route that accepts the allocation; NULL when none does. */
tarn_pool *tn_route_choose(tarn_device *device, tarn_stream stream,
                           const struct tn_stream_state *state);

#endif
