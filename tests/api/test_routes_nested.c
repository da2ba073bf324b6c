// SPDX-License-Identifier: Apache-2.0
/* Several routes at once: nested, to one pool, of several captures, of threads that come and go. */
#include <time.h>

#include "support/world.h"

static tarn_pool *second;

static void open_pools(void)
{
    test_world_open();
    second = test_pool("second");
}

static void close_pools(void)
{
    OK(tarn_pool_destroy(second));
    test_world_close();
}

/* The driver destroys user objects a little after their graph. */
static void await_nothing_captured(tarn_pool *pool)
{
    int64_t deadline = test_deadline();

    while (test_stats(pool).captured_bytes > 0 && test_pause(deadline))
        continue;
    ck_assert_uint_eq(test_stats(pool).captured_bytes, 0);
}

SUITE("nested routes")
GROUP(routes, open_pools, close_pools)

TEST(routes, routes_nest_and_each_end_uncovers_the_one_below)
{
    tarn_route *routes[] = {test_route(world.pool, tarn_filter_thread, NULL),
                            test_route(second, tarn_filter_thread, NULL),
                            test_route(world.pool, tarn_filter_stream, world.stream)};

    ck_assert_uint_eq(test_device_stats().route_count, 3);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.side), second);
    OK(tarn_end_allocate_to_pool(routes[2]));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), second);
    OK(tarn_end_allocate_to_pool(routes[1]));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    OK(tarn_end_allocate_to_pool(routes[0]));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
}

/* The pool that serves is always that of the newest that is left. */
TEST_LOOP(routes, routes_end_in_any_order, 0, 6)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const int *order = orders[_i];
    tarn_pool *pools[] = {world.pool, second, world.pool};
    tarn_route *routes[3];

    for (int i = 0; i < 3; i++)
        routes[i] = test_route(pools[i], tarn_filter_thread, NULL);
    for (int ended = 0; ended < 3; ended++) {
        tarn_pool *expected = world.default_pool;

        OK(tarn_end_allocate_to_pool(routes[order[ended]]));
        routes[order[ended]] = NULL;
        for (int i = 0; i < 3; i++)
            expected = routes[i] != NULL ? pools[i] : expected;
        ck_assert_ptr_eq(test_chosen_pool(world.stream), expected);
    }
}

TEST(routes, each_of_several_routes_keeps_its_pool)
{
    tarn_pool *pool = test_pool("routed");
    tarn_route *routes[] = {test_route(pool, tarn_filter_thread, NULL),
                            test_route(pool, tarn_filter_stream, world.stream)};

    for (int left = 2; left > 0; left--) {
        REFUSE(TARN_ERR_BUSY, left == 2 ? "2 routes" : "1 routes", tarn_pool_destroy(pool));
        OK(tarn_end_allocate_to_pool(routes[2 - left]));
    }
    OK(tarn_pool_destroy(pool));
}

TEST(routes, one_route_more_than_there_is_room_for_is_refused)
{
    enum { MAX = 64 };
    tarn_route *routes[MAX];
    tarn_route *more = UNTOUCHED;

    for (int i = 0; i < MAX; i++)
        routes[i] = test_route(i % 2 == 0 ? world.pool : second, tarn_filter_thread, NULL);
    REFUSE(TARN_ERR_LIMIT, "64 routes",
           tarn_begin_allocate_to_pool(world.device, world.pool, tarn_filter_thread, NULL, &more));
    ck_assert_untouched(more);
    for (int i = 0; i < MAX; i++)
        OK(tarn_end_allocate_to_pool(routes[i]));
    ck_assert_uint_eq(test_device_stats().route_count, 0);
}

static void end_here(void *route)
{
    OK(tarn_end_allocate_to_pool(route));
}

TEST(routes, any_thread_ends_a_route_whatever_its_filter)
{
    tarn_route *by_stream = test_route(world.pool, tarn_filter_stream, world.stream);
    tarn_route *by_thread = test_route(second, tarn_filter_thread, NULL);

    test_elsewhere(end_here, by_stream);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), second);
    test_elsewhere(end_here, by_thread);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
    REFUSE(TARN_ERR_INVALID_HANDLE, "route", tarn_end_allocate_to_pool(by_thread));
}

/* Of another thread's routes to the same pool none is ended with it. */
TEST(routes, an_end_is_of_that_route_alone)
{
    tarn_route *older = test_route(world.pool, tarn_filter_stream, world.side);
    tarn_route *ended = test_route(world.pool, tarn_filter_thread, NULL);
    tarn_route *newer = test_route(world.pool, tarn_filter_stream, world.side);

    test_elsewhere(end_here, ended);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
    ck_assert_uint_eq(test_device_stats().route_count, 2);
    OK(tarn_end_allocate_to_pool(older));
    ck_assert_ptr_eq(test_chosen_pool(world.side), world.pool);
    OK(tarn_end_allocate_to_pool(newer));
}

static void begin_and_exit(void *route)
{
    *(tarn_route **)route = test_route(world.pool, tarn_filter_thread, NULL);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
}

static void expect_default(void *unused)
{
    (void)unused;
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
}

TEST(routes, the_route_of_a_thread_that_exited_catches_nobody_and_can_be_ended)
{
    enum { THREADS = 8 };
    tarn_route *routes[THREADS];

    for (int i = 0; i < THREADS; i++)
        test_elsewhere(begin_and_exit, &routes[i]);
    for (int i = 0; i < THREADS; i++) /* among them one of the same name to the system */
        test_elsewhere(expect_default, NULL);
    expect_default(NULL);
    ck_assert_uint_eq(test_device_stats().route_count, THREADS);
    for (int i = 0; i < THREADS; i++)
        OK(tarn_end_allocate_to_pool(routes[i]));
    ck_assert_uint_eq(test_device_stats().route_count, 0);
}

TEST(routes, a_route_ends_by_its_handle_when_its_pools_is_released)
{
    tarn_pool *pool = test_pool("released");
    tarn_route *route = test_route(pool, tarn_filter_thread, NULL);
    tarn_route *more = UNTOUCHED;

    OK(tarn_pool_release(pool));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_begin_allocate_to_pool(world.device, pool, tarn_filter_thread, NULL, &more));
    ck_assert_untouched(more);
    ck_assert_uint_eq(test_device_stats().pool_count, 4);
    test_elsewhere(end_here, route);
    ck_assert_uint_eq(test_device_stats().pool_count, 3); /* it went with the route */
    REFUSE(TARN_ERR_INVALID_HANDLE, "route", tarn_end_allocate_to_pool(route));
}

/* The capture's route has the record of one that was ended. */
TEST(routes, no_handle_ends_the_route_of_a_capture)
{
    tarn_route *ended = test_route(world.pool, tarn_filter_thread, NULL);
    tarn_capture *capture = NULL;

    OK(tarn_end_allocate_to_pool(ended));
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    ck_assert_uint_eq(test_device_stats().route_count, 1);
    REFUSE(TARN_ERR_INVALID_HANDLE, "route", tarn_end_allocate_to_pool(ended));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.side), world.default_pool);
    OK(tarn_graph_destroy(test_capture_end(capture)));
    ck_assert_uint_eq(test_device_stats().route_count, 0);
}

TEST(routes, a_route_within_a_capture_goes_before_the_captures_own)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *inner;
    uint64_t captured;
    tarn_route *route;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    route = test_route(second, tarn_filter_thread, NULL);
    inner = test_malloc(4 * MIB);
    ck_assert_ptr_eq(test_pool_of(inner), second);
    test_fill(world.stream, inner, 3, 1);
    OK(tarn_end_allocate_to_pool(route));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    route = test_route(second, tarn_filter_thread, NULL); /* once more in the same capture */
    OK(tarn_free(inner));
    ck_assert_ptr_eq(test_malloc(4 * MIB), inner);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_free(inner));
    OK(tarn_capture_end(capture, &graph));
    captured = test_stats(second).captured_bytes;
    ck_assert_uint_ge(captured, 4 * MIB); /* the graph holds what it touched there, too */
    ck_assert_uint_eq(test_stats(second).capture_count, 0);
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, inner), 3);
    OK(tarn_graph_destroy(graph));
    await_nothing_captured(second);
}

/* Memory freed on one stream of a capture is no other's, though a route ended in between. */
TEST(routes, a_route_that_ends_in_mid_capture_does_not_end_the_capture)
{
    void *mine;
    void *forked = NULL;
    tn_cu_graph graph;
    tarn_route *route;

    for (int by_thread = 0; by_thread < 2; by_thread++) {
        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
        test_order(world.stream, world.side);
        route = test_route(world.pool, by_thread ? tarn_filter_thread : tarn_filter_capture,
                           by_thread ? NULL : world.stream);
        mine = test_malloc(4 * MIB);
        test_fill(world.stream, mine, 1, 1);
        OK(tarn_free(mine));
        OK(tarn_end_allocate_to_pool(route));
        route = test_route(world.pool, by_thread ? tarn_filter_thread : tarn_filter_capture,
                           by_thread ? NULL : world.stream);
        OK(tarn_malloc(world.device, 4 * MIB, world.side, &forked));
        ck_assert_ptr_ne(forked, mine); /* nothing orders the side behind the origin's work */
        ck_assert_ptr_eq(test_malloc(4 * MIB), mine);
        OK(tarn_free(mine));
        OK(tarn_free(forked));
        test_order(world.side, world.stream);
        graph = test_end_capture(world.stream);
        OK(tarn_end_allocate_to_pool(route));
        test_destroy_graph(graph);
        await_nothing_captured(world.pool);
    }
}

TEST(routes, several_captures_of_one_pool_are_served_side_by_side)
{
    tarn_capture *captures[2] = {NULL, NULL};
    tarn_graph *graphs[2] = {NULL, NULL};
    tn_cu_stream streams[2] = {world.stream, world.side};
    void *blocks[2] = {NULL, NULL};

    for (int i = 0; i < 2; i++)
        OK(tarn_capture_begin(world.pool, streams[i], CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL),
                              &captures[i]));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 2);
    for (int i = 0; i < 2; i++) {
        OK(tarn_malloc(world.device, MIB, streams[i], &blocks[i]));
        ck_assert_ptr_eq(test_pool_of(blocks[i]), world.pool);
        test_fill(streams[i], blocks[i], 10 + (uint32_t)i, 1);
    }
    OK(tarn_pool_validate(world.pool));
    OK(tarn_capture_end(captures[0], &graphs[0])); /* which leaves the other as it was */
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 1);
    OK(tarn_free(blocks[0])); /* in the other's section, and of the first graph */
    ck_assert_ptr_eq(test_chosen_pool(world.side), world.pool);
    OK(tarn_capture_end(captures[1], &graphs[1]));
    OK(tarn_pool_validate(world.pool));
    for (int i = 0; i < 2; i++) {
        OK(tarn_graph_replay(graphs[i], world.stream));
        ck_assert_uint_eq(test_read(world.stream, blocks[i]), 10 + (uint32_t)i);
    }
    OK(tarn_free(blocks[1]));
    OK(tarn_graph_destroy(graphs[0]));
    OK(tarn_graph_destroy(graphs[1]));
    await_nothing_captured(world.pool);
}

TEST(routes, a_block_freed_while_several_captures_are_open_is_held_for_each)
{
    void *block = test_alloc(world.pool, 8 * MIB, world.stream);
    tarn_capture *captures[2] = {NULL, NULL};
    tarn_graph *graphs[2] = {NULL, NULL};
    uint64_t held;

    OK(tarn_capture_begin(world.pool, world.stream, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL),
                          &captures[0]));
    OK(tarn_capture_begin(world.pool, world.side, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL),
                          &captures[1]));
    OK(tarn_free(block));
    held = test_stats(world.pool).captured_bytes;
    ck_assert_uint_ge(held, 8 * MIB);
    for (int i = 0; i < 2; i++)
        OK(tarn_capture_end(captures[i], &graphs[i]));
    OK(tarn_graph_destroy(graphs[0]));
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, held);
    OK(tarn_graph_destroy(graphs[1]));
    await_nothing_captured(world.pool);
}

TEST(routes, routes_of_a_pool_of_another_device_are_refused)
{
    /* one device is open here: any other pool handle is none of its */
    tarn_pool *gone = test_pool("gone");
    tarn_route *route = UNTOUCHED;

    OK(tarn_pool_destroy(gone));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_begin_allocate_to_pool(world.device, gone, tarn_filter_thread, NULL, &route));
    ck_assert_untouched(route);
}
