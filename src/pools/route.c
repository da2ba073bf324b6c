// SPDX-License-Identifier: Apache-2.0
/* Routes: a stack, newest last; the newest that accepts wins.
 *
 * The built-in filters are known by their address and answered from what begin has noted: the thread,
 * or the stream, which the user promised lives as long as the route, so that its handle is an
 * identity. A capture may begin after its route, so its id is asked of the route's stream when it is
 * not known.
 *
 * Trade-offs: filters run under the ROUTES lock, so that a route's pool cannot go meanwhile. */
#include "pools/route.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "pools/device.h"

/* Known by address; only their names are called, and only by users who ask them directly. */
bool tarn_filter_capture(tarn_stream stream, void *user)
{
    return stream == (tarn_stream)user;
}

bool tarn_filter_thread(tarn_stream stream, void *user)
{
    (void)stream;
    (void)user;
    return true;
}

bool tarn_filter_stream(tarn_stream stream, void *user)
{
    return stream == (tarn_stream)user;
}

void tn_routes_init(struct tn_routes *routes)
{
    tn_lock_init(&routes->lock, TN_RANK_ROUTES);
    routes->count = 0;
    atomic_store(&routes->open_count, 0);
}

void tn_routes_fini(struct tn_routes *routes)
{
    TN_ASSERT(routes->count == 0);
    tn_lock_fini(&routes->lock);
}

static struct tn_route *find_route(struct tn_routes *routes, const tarn_pool *pool)
{
    for (size_t i = 0; i < routes->count; i++) {
        if (routes->routes[i].pool == pool)
            return &routes->routes[i];
    }
    return NULL;
}

static tarn_status push_route(struct tn_routes *routes, const struct tn_route *route)
{
    tarn_status status = TARN_OK;

    tn_lock_acquire(&routes->lock);
    if (find_route(routes, route->pool) != NULL) {
        status = tn_fail(TARN_ERR_WRONG_STATE,
                         "a route to pool '%s' is open; end it before beginning another",
                         route->pool->name);
    } else if (routes->count == TN_ROUTES_MAX) {
        status = tn_fail(TARN_ERR_LIMIT, "%d routes are open; end one first", TN_ROUTES_MAX);
    } else {
        routes->routes[routes->count] = *route;
        routes->count += 1;
        atomic_store(&routes->open_count, routes->count);
        tn_lock_acquire(&route->pool->lock);
        route->pool->route_count += 1; /* P10 */
        tn_lock_release(&route->pool->lock);
    }
    tn_lock_release(&routes->lock);
    return status;
}

tarn_status tn_route_begin(tarn_device *device, tarn_pool *pool, tarn_route_filter filter,
                           void *user)
{
    struct tn_route route = {.pool = pool, .filter = filter, .user = user};
    if (pool->is_default)
        return tn_fail(TARN_ERR_WRONG_STATE, "the default pool serves what no route catches; a "
                                             "route needs a private pool");
    route.thread = pthread_self();
    return push_route(&device->routes, &route);
}

/* of_capture: it is the end of the pool's capture, which alone ends its own route. */
static tarn_status end_route(tarn_device *device, tarn_pool *pool, bool of_capture)
{
    struct tn_routes *routes = &device->routes;
    struct tn_route *route;
    tarn_status status = TARN_OK;

    tn_lock_acquire(&routes->lock);
    route = find_route(routes, pool);
    if (route == NULL) {
        status = tn_fail(TARN_ERR_WRONG_STATE, "no route to pool '%s' is open", pool->name);
    } else if (route->of_capture && !of_capture) {
        status = tn_fail(TARN_ERR_WRONG_STATE,
                         "the route to pool '%s' is that of its capture and ends with it",
                         pool->name);
    } else {
        size_t behind = routes->count - 1 - (size_t)(route - routes->routes);

        for (size_t i = 0; i < behind; i++)
            route[i] = route[i + 1];
        routes->count -= 1;
        atomic_store(&routes->open_count, routes->count);
        tn_lock_acquire(&pool->lock);
        pool->route_count -= 1;
        tn_holds_close_routed(pool);
        tn_lock_release(&pool->lock);
    }
    tn_lock_release(&routes->lock);
    return status;
}

tarn_status tn_route_end(tarn_device *device, tarn_pool *pool)
{
    return end_route(device, pool, false);
}

tarn_status tn_route_end_capture(tarn_device *device, tarn_pool *pool)
{
    return end_route(device, pool, true);
}

void tn_route_set_capture(tarn_device *device, tarn_pool *pool, uint64_t capture_id)
{
    struct tn_route *route;

    tn_lock_acquire(&device->routes.lock);
    route = find_route(&device->routes, pool);
    TN_ASSERT(route != NULL);
    route->capture_id = capture_id;
    route->of_capture = true;
    tn_lock_release(&device->routes.lock);
}

bool tn_route_stream(tarn_device *device, tarn_pool *pool, tarn_stream *stream)
{
    const struct tn_route *route;
    bool found;

    tn_lock_acquire(&device->routes.lock);
    route = find_route(&device->routes, pool);
    found = route != NULL &&
            (route->filter == tarn_filter_capture || route->filter == tarn_filter_stream);
    if (found)
        *stream = route->user;
    tn_lock_release(&device->routes.lock);
    return found;
}

/* Whether the stream is in the capture that the route's own stream is in now. */
static bool accepts_capture(tarn_device *device, struct tn_route *route, tarn_stream stream,
                            const struct tn_stream_state *state)
{
    if (state->order.capture_id == 0)
        return false;
    if (tn_stream_is_same(stream, route->user))
        route->capture_id = state->order.capture_id;
    else if (route->capture_id != state->order.capture_id)
        route->capture_id = tn_stream_capture_id(&device->gpu, route->user);
    return route->capture_id == state->order.capture_id;
}

static bool accepts(tarn_device *device, struct tn_route *route, tarn_stream stream,
                    const struct tn_stream_state *state)
{
    if (route->filter == tarn_filter_thread)
        return pthread_equal(route->thread, pthread_self()) != 0;
    if (route->filter == tarn_filter_stream)
        return tn_stream_is_same(stream, route->user);
    if (route->filter == tarn_filter_capture)
        return accepts_capture(device, route, stream, state);
    return route->filter(stream, route->user);
}

tarn_pool *tn_route_choose(tarn_device *device, tarn_stream stream,
                           const struct tn_stream_state *state)
{
    struct tn_routes *routes = &device->routes;
    tarn_pool *chosen = NULL;

    if (atomic_load_explicit(&routes->open_count, memory_order_acquire) == 0)
        return NULL;
    tn_lock_acquire(&routes->lock);
    for (size_t i = routes->count; i-- > 0 && chosen == NULL;) {
        if (accepts(device, &routes->routes[i], stream, state))
            chosen = routes->routes[i].pool;
    }
    tn_lock_release(&routes->lock);
    return chosen;
}
