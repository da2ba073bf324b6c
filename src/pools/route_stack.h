// SPDX-License-Identifier: Apache-2.0
/* route_stack.h -- a device's open routes; pools/route.h says what they do. */
#ifndef TARN_POOLS_ROUTE_STACK_H
#define TARN_POOLS_ROUTE_STACK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "tarn/pool.h"

enum { TN_ROUTES_MAX = 64, TN_ROUTES_REMEMBERED_BITS = 6, TN_ROUTES_REMEMBERED = 64 };

struct tn_routes {
    atomic_size_t open_count; /* the same as count, to be read without the lock */
    /* Another one, of no other device either, with each change of the routes. */
    atomic_uint_fast64_t stamp;
    _Atomic(struct tn_arena *) remembered[TN_ROUTES_REMEMBERED]; /* by stream; NULL: none */
    struct tn_lock lock;                                         /* rank ROUTES */
    tarn_route *routes[TN_ROUTES_MAX];                           /* oldest first */
    size_t count;
};

#endif
