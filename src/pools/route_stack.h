// SPDX-License-Identifier: Apache-2.0
/* route_stack.h -- the records of a device's open routes; pools/route.h says what they do. */
#ifndef TARN_POOLS_ROUTE_STACK_H
#define TARN_POOLS_ROUTE_STACK_H

#include "base/lock.h"
#include "base/thread.h"
#include "tarn/pool.h"

enum { TN_ROUTES_MAX = 64, TN_ROUTES_REMEMBERED_BITS = 6, TN_ROUTES_REMEMBERED = 64 };

struct tn_route {
    uint64_t id;
    tarn_pool *pool;
    tarn_route_filter filter;
    void *user;
    uint64_t thread_id;            /* of begin */
    struct tn_thread_mark *thread; /* the thread filter's: tells when that thread has ended */
    uint64_t capture_id;           /* for the capture filter; 0: not known yet */
    bool of_capture;               /* a tarn_capture began it and ends it */
    bool shut;                     /* that capture is being ended: nothing may join it now */
};

struct tn_routes {
    atomic_size_t open_count; /* the same as count, to be read without the lock */
    /* Another one, of no other device either, with each change of the routes. */
    atomic_uint_fast64_t stamp;
    _Atomic(struct tn_arena *) remembered[TN_ROUTES_REMEMBERED]; /* by stream; NULL: none */
    struct tn_lock lock;                                         /* rank ROUTES */
    struct tn_route routes[TN_ROUTES_MAX];                       /* oldest first */
    size_t count;
};

#endif
