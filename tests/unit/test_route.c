// SPDX-License-Identifier: Apache-2.0
#include "pools/allocate.h"
#include "pools/arena_table.h"
#include "pools/route.h"
#include "support/world.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *first;
static tarn_pool *second;
static tn_cu_stream stream;
static tn_cu_stream other;

static void make_pools(void)
{
    device = unit_device();
    first = unit_pool_of(device, "first", 0);
    second = unit_pool_of(device, "second", 0);
    stream = test_stream();
    other = test_stream();
}

/* Another thread ends this route, and gives the handle of its pool up, just before an allocation there. */
static tarn_route *ended;

tarn_status __real_tn_pool_allocate(tarn_pool *pool, const struct tn_request *request,
                                    tn_cu_stream on, void **address);
tarn_status __wrap_tn_pool_allocate(tarn_pool *pool, const struct tn_request *request,
                                    tn_cu_stream on, void **address);
tarn_status __wrap_tn_pool_allocate(tarn_pool *pool, const struct tn_request *request,
                                    tn_cu_stream on, void **address)
{
    if (ended != NULL) {
        ck_assert_ptr_eq(pool, ended->pool);
        OK(tarn_end_allocate_to_pool(ended));
        STATUS(TARN_ERR_BUSY, tarn_pool_destroy(pool));
        unit_expect_sentence("1 calls under way");
        OK(tarn_pool_release(pool));
        ended = NULL;
    }
    return __real_tn_pool_allocate(pool, request, on, address);
}

static tarn_route *begin(tarn_pool *pool, tarn_route_filter filter, void *user)
{
    tarn_route *route = NULL;

    OK(tn_route_begin(device, pool, filter, user, &route));
    return route;
}

static bool is_listed(const tarn_pool *pool)
{
    const tarn_pool *any = device->pools;

    while (any != NULL && any != pool)
        any = any->next;
    return any != NULL;
}

static tarn_pool *choose(tn_cu_stream at)
{
    struct tn_stream_state state;
    struct tn_route_choice choice;

    OK(tn_stream_look(&device->gpu, at, TN_STREAM_GRAPH, &state));
    OK(tn_route_choose(device, at, state.order, &choice));
    ck_assert_int_eq(choice.pool == NULL, choice.id == 0);
    if (choice.pool != NULL) {
        ck_assert_uint_eq(tn_pins_count(&choice.pool->pins), 1);
        tn_pool_unpin(choice.pool);
    }
    return choice.pool;
}

static bool accept_all(tarn_stream at, void *user)
{
    (void)at;
    if (user != NULL)
        *(int *)user += 1;
    return true;
}

static bool accept_none(tarn_stream at, void *user)
{
    (void)at;
    (void)user;
    return false;
}

GROUP(stack, make_pools)

TEST(stack, without_routes_nothing_is_chosen)
{
    ck_assert_ptr_null(choose(stream));
    ck_assert_ptr_null(choose(NULL));
}

TEST(stack, the_newest_route_that_accepts_wins)
{
    tarn_pool *third = unit_pool(device);
    tarn_route *routes[] = {begin(first, accept_all, NULL), begin(second, accept_all, NULL),
                            begin(third, accept_none, NULL)};

    ck_assert_ptr_eq(choose(stream), second);
    ck_assert(tn_route_end(device, routes[1]));
    ck_assert_ptr_eq(choose(stream), first);
    routes[1] = begin(second, accept_all, NULL); /* the newest again */
    ck_assert_ptr_eq(choose(stream), second);
    ck_assert(tn_route_end(device, routes[0])); /* from the bottom of the stack */
    ck_assert_ptr_eq(choose(stream), second);
    ck_assert(tn_route_end(device, routes[1]));
    ck_assert(tn_route_end(device, routes[2]));
    ck_assert_ptr_null(choose(stream));
    ck_assert_uint_eq(atomic_load(&device->routes.open_count), 0);
}

TEST(stack, a_filter_is_asked_with_its_user_data_until_one_accepts)
{
    int asked_first = 0;
    int asked_second = 0;

    (void)begin(first, accept_all, &asked_first);
    (void)begin(second, accept_all, &asked_second);
    ck_assert_ptr_eq(choose(stream), second);
    ck_assert_int_eq(asked_second, 1);
    ck_assert_int_eq(asked_first, 0);
}

static void expect_no_route(void *argument)
{
    (void)argument;
    ck_assert_ptr_null(choose(stream));
}

GROUP(filters, make_pools)

TEST(filters, the_thread_filter_accepts_the_thread_that_began)
{
    (void)begin(first, tarn_filter_thread, NULL);
    ck_assert_ptr_eq(choose(stream), first);
    ck_assert_ptr_eq(choose(NULL), first);
    test_elsewhere(expect_no_route, NULL);
}

TEST(filters, the_stream_filter_accepts_its_stream)
{
    (void)begin(first, tarn_filter_stream, stream);
    (void)begin(second, tarn_filter_stream, NULL);
    ck_assert_ptr_eq(choose(stream), first);
    ck_assert_ptr_null(choose(other));
    ck_assert_ptr_eq(choose(NULL), second);
    ck_assert_ptr_eq(choose(TN_CU_STREAM_LEGACY), second);
}

TEST(filters, the_capture_filter_accepts_streams_of_the_capture)
{
    (void)begin(first, tarn_filter_capture, stream);
    ck_assert_ptr_null(choose(stream)); /* not capturing yet */
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    ck_assert_ptr_null(choose(other));
    test_order(stream, other);
    ck_assert_ptr_eq(choose(other), first); /* a forked stream, before the origin was seen */
    ck_assert_ptr_eq(choose(stream), first);
    test_order(other, stream);
    test_destroy_graph(test_end_capture(stream));
    ck_assert_ptr_null(choose(stream));
}

TEST(filters, the_capture_filter_follows_its_stream_to_the_next_capture)
{
    tn_cu_stream stranger = test_stream();

    (void)begin(first, tarn_filter_capture, stream);
    for (int i = 0; i < 2; i++) {
        test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
        test_begin_capture(stranger, TN_CU_CAPTURE_MODE_RELAXED);
        test_order(stream, other);
        ck_assert_ptr_eq(choose(other), first);
        ck_assert_ptr_null(choose(stranger)); /* in a capture of its own */
        test_order(other, stream);
        test_destroy_graph(test_end_capture(stranger));
        test_destroy_graph(test_end_capture(stream));
    }
}

static struct tn_route_choice choose_by(const struct tn_stream_state *state, tn_cu_stream at)
{
    struct tn_route_choice choice;

    OK(tn_route_choose(device, at, state->order, &choice));
    return choice;
}

/* Another pool than the user's would serve it. */
TEST(filters, a_route_whose_stream_cannot_be_asked_is_an_error)
{
    struct tn_stream_state state;
    struct tn_route_choice choice;

    (void)begin(second, tarn_filter_thread, NULL);
    (void)begin(first, tarn_filter_capture, stream);
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_order(stream, other);
    OK(tn_stream_look(&device->gpu, other, TN_STREAM_GRAPH, &state));
    sim.plan_fault("cuStreamGetCaptureInfo", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_route_choose(device, other, state.order, &choice));
    ck_assert_ptr_eq(choose(other), first);
}

TEST(filters, a_captures_route_is_told_its_capture_and_never_asks_its_stream)
{
    struct tn_stream_state state;
    struct tn_stream_state on_origin;
    uint64_t id = 0;

    OK(tn_route_begin_capture(device, first, stream, &id));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_order(stream, other);
    OK(tn_stream_look(&device->gpu, other, TN_STREAM_GRAPH, &state));
    OK(tn_stream_look(&device->gpu, stream, TN_STREAM_GRAPH, &on_origin));
    sim.plan_fault("cuStreamGetCaptureInfo", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    ck_assert_ptr_null(choose_by(&state, other).pool);
    ck_assert_ptr_null(choose_by(&on_origin, stream).pool);
    tn_route_set_capture(device, id, state.order.capture_id);
    ck_assert_ptr_eq(choose_by(&state, other).pool, first);
    ck_assert_uint_eq(choose_by(&state, other).id, id);
    state.order.capture_id += 1; /* another capture, perhaps of a stream of the same name */
    ck_assert_ptr_null(choose_by(&state, stream).pool);
    tn_route_end_capture(device, id);
    ck_assert_uint_eq(sim.clear_fault(NULL), 0);
    ck_assert_uint_eq(first->claims.route_count, 0);
}

TEST(filters, a_captures_route_that_is_shut_catches_nothing)
{
    struct tn_stream_state state;
    uint64_t id = 0;

    OK(tn_route_begin_capture(device, first, stream, &id));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tn_stream_look(&device->gpu, stream, TN_STREAM_GRAPH, &state));
    tn_route_set_capture(device, id, state.order.capture_id);
    for (int shut = 1; shut >= 0; shut--) {
        tn_route_shut_capture(device, id, shut);
        tn_lock_acquire(&device->routes.lock);
        ck_assert_int_eq(tn_route_is_shut(device, state.order.capture_id), shut);
        ck_assert(!tn_route_is_shut(device, state.order.capture_id + 1));
        tn_lock_release(&device->routes.lock);
        ck_assert_int_eq(choose_by(&state, stream).pool == NULL, shut);
    }
    tn_route_end_capture(device, id);
    tn_route_shut_capture(device, id, true); /* not there any more */
}

/* The driver does not survive questions about a stream that another thread begins to capture. */
static void look_as_stranger(void *argument)
{
    const struct tn_stream_state *state = argument;
    tarn_stream streams[TN_ROUTES_MAX];
    uint64_t asked = sim.call_count("cuStreamGetCaptureInfo");

    ck_assert_uint_eq(tn_route_streams(device, first, streams), 0);
    ck_assert_ptr_null(choose_by(state, other).pool);
    ck_assert(tn_route_end(device, device->routes.routes[0]));
    ck_assert_uint_eq(sim.call_count("cuStreamGetCaptureInfo"), asked);
}

TEST(filters, another_thread_never_asks_the_stream_of_a_route)
{
    struct tn_stream_state state;

    (void)begin(first, tarn_filter_capture, stream);
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_order(stream, other);
    OK(tn_stream_look(&device->gpu, other, TN_STREAM_GRAPH, &state));
    test_elsewhere(look_as_stranger, &state);
    ck_assert_uint_eq(first->claims.route_count, 0);
}

TEST(filters, streams_of_routes_are_those_that_users_promised)
{
    tarn_stream streams[TN_ROUTES_MAX];
    uint64_t id = 0;

    (void)begin(first, tarn_filter_stream, stream);
    (void)begin(second, tarn_filter_stream, stream);
    (void)begin(first, tarn_filter_capture, other);
    (void)begin(first, tarn_filter_thread, NULL);
    (void)begin(first, accept_none, NULL);
    OK(tn_route_begin_capture(device, first, stream, &id));
    ck_assert_uint_eq(tn_route_streams(device, first, streams), 2);
    ck_assert_ptr_eq(streams[0], stream);
    ck_assert_ptr_eq(streams[1], other);
}

GROUP(limits, make_pools, .name = "begin and end")

/* P10: of several routes to a pool each is counted. */
TEST(limits, a_pool_counts_its_routes)
{
    tarn_route *routes[] = {begin(first, accept_all, NULL), begin(second, accept_all, NULL),
                            begin(first, tarn_filter_stream, stream)};

    ck_assert_uint_eq(first->claims.route_count, 2);
    ck_assert_uint_eq(device->routes.count, 3);
    ck_assert_ptr_eq(choose(stream), first);
    ck_assert(tn_route_end(device, routes[2]));
    ck_assert_uint_eq(first->claims.route_count, 1);
    ck_assert_ptr_eq(choose(stream), second);
    ck_assert(tn_route_end(device, routes[1]));
    ck_assert_ptr_eq(choose(stream), first);
    ck_assert(tn_route_end(device, routes[0]));
    ck_assert_uint_eq(first->claims.route_count, 0);
    ck_assert(!tn_route_end(device, routes[0]));
    ck_assert_uint_eq(first->claims.route_count, 0);
    ck_assert(tn_lock_none_held());
}

static void end_route(void *route)
{
    ck_assert(tn_route_end(device, route));
}

TEST(limits, a_thread_ends_the_route_that_it_is_given)
{
    tarn_route *older = begin(first, accept_all, NULL);
    tarn_route *newer = begin(first, tarn_filter_thread, NULL);

    test_elsewhere(end_route, newer);
    ck_assert_uint_eq(device->routes.count, 1);
    ck_assert_ptr_eq(device->routes.routes[0], older);
    ck_assert_uint_eq(first->claims.route_count, 1);
    ck_assert(tn_route_end(device, older));
}

/* The record of one that was ended is the next one's. */
TEST(limits, a_route_that_is_none_is_not_ended)
{
    tarn_route *route = begin(first, accept_all, NULL);
    uint64_t id = 0;

    ck_assert_ptr_eq(tn_route_device(route), device);
    ck_assert(tn_route_end(device, route));
    ck_assert(!tn_route_end(device, route));
    ck_assert_ptr_eq(tn_route_device(route), device); /* which a call may look at still */
    OK(tn_route_begin_capture(device, second, stream, &id));
    ck_assert_ptr_eq(device->routes.routes[0], route);
    ck_assert_uint_eq(atomic_load(&route->magic), 0);
    ck_assert(!tn_route_end(device, route));
    ck_assert_uint_eq(second->claims.route_count, 1);
    tn_route_end_capture(device, id);
}

TEST(limits, no_route_without_host_memory)
{
    tarn_route *route = UNTOUCHED;
    uint64_t id = 0;

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_route_begin(device, first, tarn_filter_thread, NULL, &route));
    ck_assert_untouched(route);
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_route_begin_capture(device, first, stream, &id));
    ck_assert_uint_eq(first->claims.route_count, 0);
    ck_assert_uint_eq(device->routes.count, 0);
    (void)begin(first, tarn_filter_thread, NULL);
}

/* P10: a route that is not counted does not keep its pool. */
TEST(limits, a_route_keeps_its_pool_by_the_count)
{
    tarn_route *route = begin(first, accept_all, NULL);

    ck_assert(!unit_is_unclaimed(first));
    first->claims.route_count = 0;
    ck_assert(unit_is_unclaimed(first));
    first->claims.route_count = 1;
    ck_assert(tn_route_end(device, route));
    ck_assert(unit_is_unclaimed(first));
}

TEST(limits, a_pool_whose_route_ends_on_the_way_serves_the_call_and_goes_with_the_block)
{
    void *address = NULL;

    ended = begin(first, accept_all, NULL);
    OK(tarn_malloc(device, 4096, stream, &address));
    ck_assert_ptr_null(ended);
    ck_assert(is_listed(first));
    ck_assert_uint_eq(tn_pins_count(&first->pins), 0);
    ck_assert_ptr_eq(atomic_load(&unit_segment(address)->owner), first);
    OK(tarn_free(address));
    OK(tn_gpu_wait_idle(&device->gpu)); /* a proof that its memory is idle */
    tn_device_reap(device);
    ck_assert(!is_listed(first));
}

TEST(limits, a_pool_whose_route_ends_on_the_way_goes_with_a_call_that_fails)
{
    void *address = NULL;

    ended = begin(first, accept_all, NULL);
    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_malloc(device, 4096, stream, &address));
    (void)sim.clear_fault(NULL);
    ck_assert_ptr_null(ended);
    ck_assert(!is_listed(first));
}

TEST(limits, a_pin_of_a_released_pool_looks_whether_others_claim_it)
{
    struct tn_stream_state state;
    struct tn_route_choice chosen[2];
    tarn_route *route = begin(first, accept_all, NULL);

    OK(tn_stream_look(&device->gpu, stream, TN_STREAM_GRAPH, &state));
    for (int i = 0; i < 2; i++)
        OK(tn_route_choose(device, stream, state.order, &chosen[i]));
    OK(tarn_pool_release(first));
    OK(tarn_end_allocate_to_pool(route));
    tn_pool_unpin(chosen[0].pool);
    ck_assert(is_listed(first));
    tn_pool_unpin(chosen[1].pool);
    ck_assert(!is_listed(first));
}

TEST(limits, the_route_of_a_capture_ends_with_it)
{
    uint64_t id = 0;
    uint64_t other_id = 0;

    OK(tn_route_begin_capture(device, first, stream, &id));
    OK(tn_route_begin_capture(device, first, other, &other_id));
    ck_assert_uint_ne(id, other_id);
    tn_route_set_capture(device, id, 5);
    tn_route_set_capture(device, other_id, 6);
    ck_assert(!tn_route_end(device, device->routes.routes[0]));
    ck_assert_uint_eq(first->claims.route_count, 2);
    tn_route_end_capture(device, id);
    ck_assert_uint_eq(first->claims.route_count, 1);
    ck_assert_uint_eq(device->routes.routes[0]->id, other_id);
    tn_route_end_capture(device, id); /* not there any more */
    tn_route_end_gone(device, 5);
    ck_assert_uint_eq(first->claims.route_count, 1);
    tn_route_end_gone(device, 6);
    ck_assert_uint_eq(first->claims.route_count, 0);
}

TEST(limits, the_default_pool_has_no_route)
{
    tarn_route *route = UNTOUCHED;
    uint64_t id = 0;

    STATUS(TARN_ERR_WRONG_STATE, tn_route_begin_capture(device, device->default_pool, stream, &id));
    STATUS(TARN_ERR_WRONG_STATE,
           tn_route_begin(device, device->default_pool, accept_all, NULL, &route));
    ck_assert_untouched(route);
}

TEST(limits, sixty_four_routes_may_be_open)
{
    tarn_route *more = UNTOUCHED;

    for (int i = 0; i < TN_ROUTES_MAX; i++)
        (void)begin(unit_pool(device), accept_all, NULL);
    STATUS(TARN_ERR_LIMIT, tn_route_begin(device, first, accept_all, NULL, &more));
    ck_assert_untouched(more);
    unit_expect_sentence("64");
    ck_assert_uint_eq(first->claims.route_count, 0);
    for (size_t left = TN_ROUTES_MAX; left > TN_ROUTES_MAX / 2; left--) { /* from the middle */
        ck_assert_uint_eq(device->routes.count, left);
        ck_assert(tn_route_end(device, device->routes.routes[TN_ROUTES_MAX / 2]));
    }
    ck_assert_uint_eq(device->routes.count, TN_ROUTES_MAX / 2);
}

TEST(limits, ending_a_route_closes_the_holds_of_captures_that_are_over)
{
    void *address;
    tn_cu_graph graph;
    tarn_route *route = begin(first, tarn_filter_capture, stream);

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(device, 4096, stream, &address));
    ck_assert_ptr_eq(atomic_load(&unit_segment(address)->owner), first);
    OK(tarn_free(address));
    graph = test_end_capture(stream);
    ck_assert_uint_eq(first->holds.open_count, 1);
    ck_assert(tn_route_end(device, route));
    ck_assert_uint_eq(first->holds.open_count, 0);
    ck_assert_uint_eq(first->holds.count, 1);
    test_destroy_graph(graph);
}

TEST(limits, a_capture_that_goes_on_keeps_its_hold_when_the_route_ends)
{
    void *address;
    tarn_route *route = begin(first, tarn_filter_capture, stream);

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(device, 4096, stream, &address));
    ck_assert(tn_route_end(device, route));
    ck_assert_uint_eq(first->holds.open_count, 1);
    route = begin(first, tarn_filter_thread, NULL); /* which cannot tell */
    ck_assert(tn_route_end(device, route));
    ck_assert_uint_eq(first->holds.open_count, 1);
    OK(tarn_free(address));
    test_destroy_graph(test_end_capture(stream));
}

/* The pool that a block allocated on the stream now is of. */
static tarn_pool *serves(tn_cu_stream at)
{
    void *address;

    OK(tarn_malloc(device, 4096, at, &address));
    return atomic_load(&unit_segment(address)->owner);
}

static struct tn_arena *remembered(tn_cu_stream at)
{
    struct tn_stream_state state;
    struct tn_arena *arena;

    OK(tn_stream_look(&device->gpu, at, TN_STREAM_GRAPH, &state));
    arena = atomic_load(tn_route_place(&device->routes, state.order.stream_id));
    return arena != NULL && tn_order_equal(arena->order, state.order) &&
                   arena->routes_stamp == atomic_load(&device->routes.stamp)
               ? arena
               : NULL;
}

GROUP(remembered, make_pools)

TEST(remembered, a_captures_memory_is_found_without_a_question_to_the_routes)
{
    tarn_capture *capture = unit_begin(first, stream);
    void *address;
    void *again;
    uint64_t asked;

    ck_assert_ptr_null(remembered(stream));
    ck_assert_ptr_eq(serves(stream), first);
    ck_assert_ptr_eq(remembered(stream)->pool, first);
    asked = sim.call_count(NULL);
    OK(tarn_malloc(device, 4096, stream, &address)); /* and where the stream stands by then */
    ck_assert_uint_eq(sim.call_count(NULL), asked + 2);
    ck_assert_ptr_eq(atomic_load(&unit_segment(address)->owner), first);
    OK(tarn_free(address));
    OK(tarn_malloc(device, 4096, stream, &again)); /* what was freed last */
    ck_assert_uint_eq(sim.call_count(NULL), asked + 3);
    ck_assert_ptr_eq(again, address);
    OK(tarn_capture_abort(capture));
    ck_assert_ptr_null(remembered(stream));
    ck_assert_ptr_eq(serves(stream), device->default_pool);
}

/* Each change of the routes. */
TEST(remembered, what_is_remembered_counts_no_more_when_routes_change)
{
    tarn_capture *capture = unit_begin(first, stream);
    tarn_route *route;

    ck_assert_ptr_eq(serves(stream), first);
    route = begin(second, tarn_filter_thread, NULL);
    ck_assert_ptr_eq(serves(stream), second);
    ck_assert_ptr_null(remembered(stream)); /* by a thread */
    ck_assert(tn_route_end(device, route));
    ck_assert_ptr_eq(serves(stream), first);
    ck_assert_ptr_nonnull(remembered(stream));
    route = begin(second, tarn_filter_capture, stream);
    ck_assert_ptr_eq(serves(stream), second);
    ck_assert_ptr_eq(remembered(stream)->pool, second); /* the newest, which nothing can overrule */
    ck_assert(tn_route_end(device, route));
    ck_assert_ptr_eq(serves(stream), first);
    tn_route_shut_capture(device, device->routes.routes[0]->id, true);
    ck_assert_ptr_null(remembered(stream));
    tn_route_shut_capture(device, device->routes.routes[0]->id, false);
    OK(tarn_capture_abort(capture));
}

/* The stream of a route that a user began may yet come into this capture. */
TEST(remembered, nothing_is_remembered_where_a_newer_route_may_accept_later)
{
    tarn_capture *capture = unit_begin(first, stream);
    tarn_capture *another;
    tarn_route *route = begin(second, tarn_filter_capture, other);

    ck_assert_ptr_eq(serves(stream), first);
    ck_assert_ptr_null(remembered(stream));
    test_order(stream, other);
    ck_assert_ptr_eq(serves(stream), second);
    ck_assert(tn_route_end(device, route));
    another = unit_begin(second, test_stream()); /* never accepts what is not its own */
    ck_assert_ptr_eq(serves(stream), first);
    ck_assert_ptr_nonnull(remembered(stream));
    OK(tarn_capture_abort(another));
    OK(tarn_capture_abort(capture));
}

TEST(remembered, a_record_that_is_another_orders_arena_now_is_not_remembered)
{
    tarn_capture *capture;
    struct tn_arena *arena;
    void *address;
    tarn_route *route = begin(first, tarn_filter_capture, stream);

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(device, 4096, stream, &address));
    arena = remembered(stream);
    ck_assert_ptr_nonnull(arena);
    OK(tarn_free(address));
    ck_assert(tn_route_end(device, route));
    test_destroy_graph(test_end_capture(stream));
    OK(tarn_pool_destroy(first));
    capture = unit_begin(second, stream);
    OK(tarn_pool_malloc(second, 4096, 0, stream, &address)); /* where no route is asked */
    ck_assert_ptr_eq(tn_arena_seek(second, unit_order(device, stream)), arena);
    ck_assert_uint_eq(arena->routes_stamp, 0);
    OK(tarn_capture_abort(capture));
}

CONTRACT_TEST(limits, ending_with_routes_open_is_a_broken_contract)
{
    (void)begin(first, accept_all, NULL);
    tn_routes_fini(&device->routes);
}
