// SPDX-License-Identifier: Apache-2.0
/* Routes: a stack of records, newest last; the newest route that accepts wins. A record's address
 * is the handle of a user's route. An end looks for the record in its device's stack, under the
 * lock: of several ends, a single end finds the record.
 *
 * The built-in filters are known by their address. Their answers come from the notes of begin: the
 * thread or the stream. The user has promised to keep the stream as long as the route, and the
 * stream's handle is an identity for this time. A capture may begin after its route: while the
 * capture's id is not known, the route's stream is asked.
 *
 * A route's end does not end the captures which the route led to its pool: another route may lead
 * them there again while they go on. Captures which are over by then are closed.
 *
 * A route is a claim on its pool. When the route ends, an allocation which the route has led there
 * has no claim of its own, and pins the pool.
 *
 * Trade-offs: filters run under the ROUTES lock: a route's pool cannot go meanwhile. */
#include "pools/route.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/host.h"
#include "base/thread.h"
#include "base/user_code.h"
#include "driver/open.h"
#include "heap/arena_lock.h"
#include "pools/arena_table.h"
#include "pools/captures.h"
#include "pools/device.h"
#include "pools/sweep.h"

/* Tarn knows these filters by address. Only users who ask a filter directly call the functions. */
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

static struct tn_records route_records = TN_RECORDS_INIT_KEEPING(struct tarn_route, next, device);
static atomic_uint_fast64_t last_id;    /* of a route, in the process */
static atomic_uint_fast64_t last_stamp; /* the same */

/* The routes have changed: no arena that is remembered with an older stamp counts any more. */
static void stamp_anew(struct tn_routes *routes)
{
    atomic_store(&routes->stamp, atomic_fetch_add(&last_stamp, 1) + 1);
}

void tn_routes_init(struct tn_routes *routes)
{
    tn_lock_init(&routes->lock, TN_RANK_ROUTES);
    routes->count = 0;
    atomic_store(&routes->open_count, 0);
    stamp_anew(routes);
    for (size_t i = 0; i < TN_ROUTES_REMEMBERED; i++)
        atomic_store(&routes->remembered[i], NULL);
}

void tn_routes_fini(struct tn_routes *routes)
{
    TN_ASSERT(routes->count == 0);
    tn_lock_fini(&routes->lock);
}

static tarn_route *find_route(const struct tn_routes *routes, uint64_t id)
{
    TN_ASSERT(tn_lock_is_held(&routes->lock));
    for (size_t i = 0; i < routes->count; i++) {
        if (routes->routes[i]->id == id)
            return routes->routes[i];
    }
    return NULL;
}

/* Makes a claim on the pool. From now on any block of the pool may be freed in a capture, and
 * wait. */
static tarn_status claim_pool(tarn_pool *pool)
{
    tarn_status status = TARN_OK;

    tn_pool_lock(pool);
    if (tn_blocks_add_cold(&pool->store))
        pool->claims.route_count += 1; /* P10 */
    else
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a route");
    tn_pool_unlock(pool);
    return status;
}

static tarn_status push_route(tarn_device *device, tarn_route *route)
{
    struct tn_routes *routes = &device->routes;
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&routes->lock);
    if (routes->count == TN_ROUTES_MAX)
        status = tn_fail(TARN_ERR_LIMIT, "%d routes are open; end one first", TN_ROUTES_MAX);
    else
        status = claim_pool(route->pool);
    if (status == TARN_OK) {
        route->id = atomic_fetch_add(&last_id, 1) + 1;
        routes->routes[routes->count] = route;
        routes->count += 1;
        TN_ASSERT(find_route(routes, route->id) == route);
        atomic_store(&routes->open_count, routes->count);
        stamp_anew(routes);
        if (!route->of_capture) /* a capture's route has no handle */
            atomic_store(&route->magic, TN_ROUTE_MAGIC);
        tn_pool_note(route->pool, TN_NOTE_ROUTE_BEGUN, TN_OPERANDS(route->id));
    }
    tn_lock_release(&routes->lock);
    return status;
}

static bool has_stream(const tarn_route *route)
{
    return route->filter == tarn_filter_capture || route->filter == tarn_filter_stream;
}

static tarn_status open_route(tarn_device *device, tarn_pool *pool, tarn_route_filter filter,
                              void *user, bool of_capture, tarn_route **route)
{
    tarn_route *made;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held());
    if (pool->is_default)
        return tn_fail(TARN_ERR_WRONG_STATE, "the default pool serves what no route catches; a "
                                             "route needs a private pool");
    if (pool->in_host && (filter == tarn_filter_capture || filter == tarn_filter_stream))
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "pool '%s' has memory of the host, and its allocations name no stream: the "
                       "filter is to be tarn_filter_thread, or one of the program's",
                       pool->name);
    TN_ASSERT(!pool->in_host || !of_capture);
    made = tn_records_take(&route_records);
    if (made == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a route");
    made->pool = pool;
    made->filter = filter;
    made->user = has_stream(made) ? tn_device_stream(device, user) : user;
    made->of_capture = of_capture;
    made->thread_id = tn_thread_id();
    atomic_store_explicit(&made->device, device, memory_order_relaxed);
    status = push_route(device, made);
    if (status == TARN_OK)
        *route = made;
    else
        tn_records_give(&route_records, made);
    return status;
}

tarn_status tn_route_begin(tarn_device *device, tarn_pool *pool, tarn_route_filter filter,
                           void *user, tarn_route **route)
{
    return open_route(device, pool, filter, user, false, route);
}

tarn_status tn_route_begin_capture(tarn_device *device, tarn_pool *pool, tarn_stream stream,
                                   uint64_t *id)
{
    tarn_route *route;
    tarn_status status = open_route(device, pool, tarn_filter_capture, stream, true, &route);

    if (status == TARN_OK)
        *id = route->id;
    return status;
}

/* Whether the calling thread may ask the route's stream: only the thread that named the stream may.
 * The driver does not survive another thread's question while a thread begins or ends captures of a
 * stream. */
static bool may_ask(const tarn_route *route)
{
    return !route->of_capture && route->thread_id == tn_thread_id();
}

/* Whether the stream is the route's. A thread's own default stream is another stream on each
 * thread. */
static bool is_routes_stream(const tarn_route *route, tarn_stream stream)
{
    return tn_stream_is_same(stream, route->user) &&
           (stream != TN_CU_STREAM_PER_THREAD || route->thread_id == tn_thread_id());
}

/* Takes the route off the stack, and ends the route; the ROUTES lock is held. A tarn_capture's
 * route has led no other capture to its pool. Its end leaves the user's captures there alone. */
static void remove_route(struct tn_routes *routes, tarn_route *route)
{
    tarn_pool *pool = route->pool;
    const uint64_t id = route->id;
    size_t at = 0;

    TN_ASSERT(tn_lock_is_held(&routes->lock));
    TN_ASSERT(find_route(routes, id) == route);
    while (routes->routes[at] != route)
        at += 1;
    routes->count -= 1;
    for (; at < routes->count; at++)
        routes->routes[at] = routes->routes[at + 1];
    atomic_store(&routes->open_count, routes->count);
    stamp_anew(routes);
    atomic_store(&route->magic, 0);
    tn_records_give(&route_records, route);
    tn_pool_lock(pool);
    TN_ASSERT(pool->claims.route_count > 0); /* P10 */
    pool->claims.route_count -= 1;
    tn_pool_note(pool, TN_NOTE_ROUTE_ENDED, TN_OPERANDS(id));
    tn_pool_unlock(pool);
}

/* Ends a route of the user's; the ROUTES lock is held. Captures which the route led to its pool,
 * and which are over, end. */
static void end_users(tarn_device *device, tarn_route *route)
{
    bool closed;

    tn_pool_lock(route->pool);
    closed = tn_holds_close_over(route->pool, route->id);
    tn_pool_unlock(route->pool);
    if (closed)
        (void)tn_device_mark(device);
    remove_route(&device->routes, route);
}

/* Whether the record is an open route of the user's; the ROUTES lock is held. */
static bool is_users(const struct tn_routes *routes, const tarn_route *route)
{
    bool found = false;

    TN_ASSERT(tn_lock_is_held(&routes->lock));
    for (size_t i = 0; i < routes->count && !found; i++)
        found = routes->routes[i] == route && !route->of_capture;
    return found;
}

bool tn_route_end(tarn_device *device, tarn_route *route)
{
    bool found;

    TN_ASSERT(tn_lock_none_held());
    tn_lock_acquire(&device->routes.lock);
    found = is_users(&device->routes, route);
    if (found)
        end_users(device, route);
    tn_lock_release(&device->routes.lock);
    return found;
}

void tn_route_set_capture(tarn_device *device, uint64_t id, uint64_t capture_id)
{
    tarn_route *route;

    TN_ASSERT(tn_lock_none_held() && capture_id != 0);
    tn_lock_acquire(&device->routes.lock);
    route = find_route(&device->routes, id);
    TN_ASSERT(route != NULL && route->of_capture);
    route->capture_id = capture_id;
    stamp_anew(&device->routes);
    tn_lock_release(&device->routes.lock);
}

void tn_route_shut_capture(tarn_device *device, uint64_t id, bool shut)
{
    tarn_route *route;

    tn_lock_acquire(&device->routes.lock);
    route = find_route(&device->routes, id);
    if (route != NULL)
        route->shut = shut;
    stamp_anew(&device->routes);
    tn_lock_release(&device->routes.lock);
}

void tn_route_end_capture(tarn_device *device, uint64_t id)
{
    tarn_route *route;

    tn_lock_acquire(&device->routes.lock);
    route = find_route(&device->routes, id);
    if (route != NULL)
        remove_route(&device->routes, route);
    tn_lock_release(&device->routes.lock);
}

/* The route of the tarn_capture with this id, or NULL; the ROUTES lock is held. */
static tarn_route *find_capture(const struct tn_routes *routes, uint64_t capture_id)
{
    TN_ASSERT(tn_lock_is_held(&routes->lock) && capture_id != 0);
    for (size_t i = 0; i < routes->count; i++) {
        if (routes->routes[i]->of_capture && routes->routes[i]->capture_id == capture_id)
            return routes->routes[i];
    }
    return NULL;
}

void tn_route_end_gone(tarn_device *device, uint64_t capture_id)
{
    tarn_route *route;

    tn_lock_acquire(&device->routes.lock);
    route = find_capture(&device->routes, capture_id);
    if (route != NULL)
        remove_route(&device->routes, route);
    tn_lock_release(&device->routes.lock);
}

bool tn_route_is_shut(const tarn_device *device, uint64_t capture_id)
{
    const tarn_route *route = find_capture(&device->routes, capture_id);

    TN_ASSERT(tn_lock_held(TN_RANK_ROUTES));
    return route != NULL && route->shut;
}

size_t tn_route_streams(tarn_device *device, const tarn_pool *pool,
                        tarn_stream streams[TN_ROUTES_MAX])
{
    size_t count = 0;

    tn_lock_acquire(&device->routes.lock);
    for (size_t i = 0; i < device->routes.count; i++) {
        const tarn_route *route = device->routes.routes[i];

        if (route->pool != pool || !has_stream(route) || !may_ask(route))
            continue;
        streams[count] = route->user;
        count += 1;
    }
    tn_lock_release(&device->routes.lock);
    TN_ASSERT(count <= TN_ROUTES_MAX);
    return count;
}

/* Whether the capture in which the route's stream was last seen goes on: then the stream is still
 * in it. */
static bool is_in_known_capture(tarn_pool *pool, const tarn_route *route)
{
    const struct tn_hold *hold;
    bool known;

    TN_ASSERT(tn_lock_is_held(&pool->device->routes.lock));
    tn_pool_lock(pool);
    hold = tn_hold_find(&pool->holds, route->capture_id);
    known = hold != NULL && tn_hold_goes_on(hold);
    tn_pool_unlock(pool);
    return known;
}

tarn_status tn_route_hides_capture(tarn_device *device, tarn_pool *pool, bool *hides)
{
    struct tn_stream_state state;
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    *hides = false;
    tn_lock_acquire(&device->routes.lock);
    for (size_t i = 0; i < device->routes.count && !*hides && status == TARN_OK; i++) {
        const tarn_route *route = device->routes.routes[i];

        if (route->pool != pool || !has_stream(route) || route->of_capture || may_ask(route) ||
            tn_stream_is_default(route->user))
            continue;
        status = tn_stream_look(&device->gpu, route->user, TN_STREAM_STATUS, &state);
        *hides = state.captured && !state.broken && !is_in_known_capture(pool, route);
    }
    tn_lock_release(&device->routes.lock);
    return status;
}

/* Whether the stream is in the same capture as the route's own stream now. */
static tarn_status accepts_capture(tarn_device *device, tarn_route *route, tarn_stream stream,
                                   struct tn_order order, bool *accepted)
{
    struct tn_stream_state own;
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_is_held(&device->routes.lock));
    *accepted = false;
    if (order.capture_id == 0)
        return TARN_OK;
    if (route->of_capture) {
        *accepted = route->capture_id == order.capture_id && !route->shut;
        return TARN_OK;
    }
    if (is_routes_stream(route, stream)) {
        route->capture_id = order.capture_id;
    } else if (route->capture_id != order.capture_id && may_ask(route)) {
        status = tn_stream_look(&device->gpu, route->user, TN_STREAM_CAPTURE, &own);
        route->capture_id = own.order.capture_id;
    }
    *accepted = route->capture_id == order.capture_id;
    return status;
}

/* The child of a filter which has forked must go on with nothing: true, which ends the search. */
static TN_USER_CODE_ON_STACK bool call_filter(tarn_device *device, const tarn_route *route,
                                              tarn_stream stream)
{
    bool accepted;
    TN_USER_CODE(code);

    TN_ASSERT(tn_lock_is_held(&device->routes.lock));
    tn_gpus_enter_user_code();
    tn_user_code_enter(&code, TN_USER_FILTER);
    accepted = route->filter(stream, route->user);
    tn_user_code_leave(&code);
    tn_gpus_leave_user_code();
    return accepted || tn_is_forked();
}

static tarn_status accepts(tarn_device *device, tarn_route *route, tarn_stream stream,
                           struct tn_order order, bool *accepted)
{
    if (route->filter == tarn_filter_capture)
        return accepts_capture(device, route, stream, order, accepted);
    if (route->filter == tarn_filter_thread)
        *accepted = route->thread_id == tn_thread_id();
    else if (route->filter == tarn_filter_stream)
        *accepted = is_routes_stream(route, stream);
    else
        *accepted = call_filter(device, route, stream);
    return *accepted && tn_is_forked() ? tn_fork_refuse() : TARN_OK;
}

/* Whether the route will send each further allocation of the order to the same pool, as long as the
 * routes stay the same. No other capture ever has the number of the order's capture. */
static bool is_lasting(const struct tn_routes *routes, const tarn_route *route)
{
    size_t at = routes->count;

    TN_ASSERT(find_route(routes, route->id) == route);
    if (route->filter != tarn_filter_capture)
        return false;
    while (routes->routes[--at] != route) {
        if (!routes->routes[at]->of_capture && !routes->routes[at]->pool->in_host)
            return false;
    }
    return true;
}

tarn_status tn_route_choose(tarn_device *device, tarn_stream stream, struct tn_order order,
                            struct tn_route_choice *choice)
{
    struct tn_routes *routes = &device->routes;
    const bool host = tn_order_equal(order, TN_ORDER_HOST);
    bool accepted = false;
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    *choice = (struct tn_route_choice){NULL, 0, 0};
    if (!tn_route_is_any(routes))
        return TARN_OK;
    tn_lock_acquire(&routes->lock);
    for (size_t i = routes->count; i-- > 0 && !accepted && status == TARN_OK;) {
        tarn_route *route = routes->routes[i];

        if (route->pool->in_host != host)
            continue;
        status = accepts(device, route, stream, order, &accepted);
        if (accepted && status == TARN_OK) {
            choice->pool = route->pool;
            choice->id = route->id;
            choice->stamp = is_lasting(routes, route) ? atomic_load(&routes->stamp) : 0;
            tn_pool_pin(route->pool);
        }
    }
    tn_lock_release(&routes->lock);
    TN_ASSERT((choice->pool == NULL) == (choice->id == 0));
    return status;
}

void tn_route_remember(tarn_device *device, const struct tn_route_choice *choice,
                       struct tn_order order)
{
    struct tn_arena *arena = tn_arena_seek(choice->pool, order);
    bool is_there;

    TN_ASSERT(tn_pins_count(&choice->pool->pins) > 0);
    if (choice->stamp == 0 || arena == NULL)
        return;
    tn_arena_lock(arena);
    is_there = arena->pool == choice->pool && tn_order_equal(arena->order, order);
    if (is_there)
        arena->routes_stamp = choice->stamp;
    tn_arena_unlock(arena);
    if (is_there)
        atomic_store_explicit(tn_route_place(&device->routes, order.stream_id), arena,
                              memory_order_release);
}
