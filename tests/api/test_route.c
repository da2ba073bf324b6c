// SPDX-License-Identifier: Apache-2.0
/* Routes and filters: which pool serves an allocation. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/world.h"

SUITE("routes")
GROUP(routes, test_world_open, test_world_close)

TEST(routes, without_a_route_the_default_pool_serves)
{
    tarn_route *route;

    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
    route = test_route(world.pool, tarn_filter_thread, NULL);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    OK(tarn_end_allocate_to_pool(route));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
}

static void choose_default(void *unused)
{
    (void)unused;
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
}

TEST(routes, the_thread_filter_accepts_the_thread_that_began_the_route)
{
    tarn_route *route = test_route(world.pool, tarn_filter_thread, NULL);

    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.side), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(NULL), world.pool);
    test_elsewhere(choose_default, NULL);
    OK(tarn_end_allocate_to_pool(route));
}

TEST(routes, the_stream_filter_accepts_that_very_stream)
{
    tarn_route *route = test_route(world.pool, tarn_filter_stream, world.stream);

    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.side), world.default_pool);
    ck_assert_ptr_eq(test_chosen_pool(NULL), world.default_pool);
    OK(tarn_end_allocate_to_pool(route));
    route = test_route(world.pool, tarn_filter_stream, NULL);
    ck_assert_ptr_eq(test_chosen_pool(NULL), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(TN_CU_STREAM_LEGACY), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
    OK(tarn_end_allocate_to_pool(route));
}

TEST(routes, the_capture_filter_accepts_the_streams_of_one_capture)
{
    tn_cu_stream outside = test_stream();
    tarn_route *route = test_route(world.pool, tarn_filter_capture, world.stream);

    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool); /* not captured yet */
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_order(world.stream, world.side);
    ck_assert_ptr_eq(test_chosen_pool(world.side), world.pool); /* the forked stream first */
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(outside), world.default_pool);
    test_order(world.side, world.stream);
    test_destroy_graph(test_end_capture(world.stream));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
    OK(tarn_end_allocate_to_pool(route));
    test_destroy_stream(outside);
}

TEST(routes, the_capture_filter_follows_the_stream_to_its_next_capture)
{
    tarn_route *route = test_route(world.pool, tarn_filter_capture, world.stream);

    for (int round = 0; round < 3; round++) {
        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
        test_order(world.stream, world.side);
        ck_assert_ptr_eq(test_chosen_pool(world.side), world.pool);
        test_order(world.side, world.stream);
        test_destroy_graph(test_end_capture(world.stream));
    }
    OK(tarn_end_allocate_to_pool(route));
}

TEST(routes, the_capture_filter_leaves_another_capture_alone)
{
    tarn_pool *other = test_pool("other");
    tarn_route *routes[2];

    routes[0] = test_route(world.pool, tarn_filter_capture, world.stream);
    routes[1] = test_route(other, tarn_filter_capture, world.side);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.side), other);
    test_destroy_graph(test_end_capture(world.stream));
    test_destroy_graph(test_end_capture(world.side));
    for (int i = 0; i < 2; i++)
        OK(tarn_end_allocate_to_pool(routes[i]));
    OK(tarn_pool_destroy(other));
}

TEST(routes, the_built_in_filters_may_be_asked_directly)
{
    ck_assert(tarn_filter_stream(world.stream, world.stream));
    ck_assert(!tarn_filter_stream(world.stream, world.side));
    ck_assert(tarn_filter_thread(world.stream, NULL));
    ck_assert(tarn_filter_capture(world.stream, world.stream));
    ck_assert(!tarn_filter_capture(world.stream, world.side));
}

struct asked {
    tarn_stream last;
    int count;
    bool answer;
};

static bool ask(tarn_stream stream, void *user)
{
    struct asked *asked = user;

    asked->last = stream;
    asked->count += 1;
    return asked->answer;
}

TEST(routes, a_users_filter_is_asked_with_stream_and_argument)
{
    struct asked asked = {.answer = false};
    tarn_route *route = test_route(world.pool, ask, &asked);

    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
    ck_assert_int_eq(asked.count, 1);
    ck_assert_ptr_eq(asked.last, world.stream);
    asked.answer = true;
    ck_assert_ptr_eq(test_chosen_pool(world.side), world.pool);
    ck_assert_ptr_eq(asked.last, world.side);
    OK(tarn_free(test_alloc(world.default_pool, 512, world.stream)));
    ck_assert_int_eq(asked.count, 2); /* who names the pool is not routed */
    OK(tarn_end_allocate_to_pool(route));
}

TEST(routes, the_newest_route_that_accepts_wins)
{
    tarn_pool *second = test_pool("second");
    tarn_pool *third = test_pool("third");
    tarn_route *routes[] = {test_route(world.pool, tarn_filter_thread, NULL),
                            test_route(second, tarn_filter_stream, world.stream),
                            test_route(third, tarn_filter_stream, world.side)};

    ck_assert_ptr_eq(test_chosen_pool(world.stream), second);
    ck_assert_ptr_eq(test_chosen_pool(world.side), third);
    ck_assert_ptr_eq(test_chosen_pool(NULL), world.pool);
    OK(tarn_end_allocate_to_pool(routes[1])); /* not the newest */
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.side), third);
    OK(tarn_end_allocate_to_pool(routes[0]));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
    OK(tarn_end_allocate_to_pool(routes[2]));
    OK(tarn_pool_destroy(second));
    OK(tarn_pool_destroy(third));
}

TEST(routes, a_route_ends_once)
{
    tarn_route *route = test_route(world.pool, tarn_filter_thread, NULL);
    tarn_route *other = test_route(world.pool, tarn_filter_thread, NULL);

    OK(tarn_end_allocate_to_pool(route));
    REFUSE(TARN_ERR_INVALID_HANDLE, "the route handle", tarn_end_allocate_to_pool(route));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool); /* the other is open */
    OK(tarn_end_allocate_to_pool(other));
    REFUSE(TARN_ERR_INVALID_HANDLE, "the route handle", tarn_end_allocate_to_pool(other));
}

enum { RACES = 200, RACERS = 2 };

static struct {
    tarn_route *_Atomic route;
    atomic_int round; /* of the route that is there */
    atomic_int tried; /* ends of that */
    atomic_int ended; /* and how many were well */
} race;

static void *end_each(void *unused)
{
    (void)unused;
    for (int round = 1; round <= RACES; round++) {
        tarn_status status;

        while (atomic_load(&race.round) < round)
            (void)sched_yield();
        status = tarn_end_allocate_to_pool(atomic_load(&race.route));
        ck_assert(status == TARN_OK || status == TARN_ERR_INVALID_HANDLE);
        atomic_fetch_add(&race.ended, status == TARN_OK);
        atomic_fetch_add(&race.tried, 1);
    }
    return NULL;
}

TEST(routes, of_threads_that_end_a_route_at_once_one_does)
{
    pthread_t threads[RACERS];

    for (int i = 0; i < RACERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, end_each, NULL), 0);
    for (int round = 1; round <= RACES; round++) {
        atomic_store(&race.route, test_route(world.pool, tarn_filter_stream, world.stream));
        atomic_store(&race.round, round);
        while (atomic_load(&race.tried) < round * RACERS)
            (void)sched_yield();
        ck_assert_int_eq(atomic_load(&race.ended), round);
    }
    for (int i = 0; i < RACERS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    ck_assert_uint_eq(test_device_stats().route_count, 0);
}

TEST(routes, the_default_pool_has_no_route)
{
    tarn_route *route = UNTOUCHED;

    REFUSE(TARN_ERR_WRONG_STATE, "default pool",
           tarn_begin_allocate_to_pool(world.device, world.default_pool, tarn_filter_thread, NULL,
                                       &route));
    ck_assert_untouched(route);
}

TEST(routes, bad_arguments_of_routes_are_refused)
{
    _Alignas(128) uint64_t zeros[1024] = {0}; /* aligned as a record is */
    tarn_device *no_device = (tarn_device *)(void *)zeros;
    tarn_pool *no_pool = (tarn_pool *)(void *)zeros;
    tarn_route *no_route = (tarn_route *)(void *)zeros;
    tarn_route *route = UNTOUCHED;
    void *address = UNTOUCHED;

    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_begin_allocate_to_pool(NULL, world.pool, tarn_filter_thread, NULL, &route));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_begin_allocate_to_pool(no_device, world.pool, tarn_filter_thread, NULL, &route));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_begin_allocate_to_pool(world.device, NULL, tarn_filter_thread, NULL, &route));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_begin_allocate_to_pool(world.device, no_pool, tarn_filter_thread, NULL, &route));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "filter is NULL",
           tarn_begin_allocate_to_pool(world.device, world.pool, NULL, NULL, &route));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "route is NULL",
           tarn_begin_allocate_to_pool(world.device, world.pool, tarn_filter_thread, NULL, NULL));
    ck_assert_untouched(route);
    route = test_route(world.pool, tarn_filter_thread, NULL);
    REFUSE(TARN_ERR_INVALID_HANDLE, "route", tarn_end_allocate_to_pool(NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "route", tarn_end_allocate_to_pool(no_route));
    REFUSE(TARN_ERR_INVALID_HANDLE, "route",
           tarn_end_allocate_to_pool((tarn_route *)(void *)world.pool));
    REFUSE(TARN_ERR_INVALID_HANDLE, "route",
           tarn_end_allocate_to_pool((tarn_route *)(void *)world.device));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_pool_malloc((tarn_pool *)(void *)route, MIB, 0, world.stream, &address));
    ck_assert_untouched(address);
    OK(tarn_end_allocate_to_pool(route));
}

TEST(routes, sixty_four_routes_are_open_at_most)
{
    enum { MAX = 64 };
    tarn_pool *pools[MAX];
    tarn_route *routes[MAX];
    tarn_route *more = UNTOUCHED;
    tarn_capture *capture = UNTOUCHED;

    for (int i = 0; i < MAX; i++) {
        pools[i] = test_pool("one of many");
        routes[i] = test_route(pools[i], tarn_filter_stream, world.side);
    }
    ck_assert_uint_eq(test_device_stats().route_count, MAX);
    REFUSE(TARN_ERR_LIMIT, "64 routes",
           tarn_begin_allocate_to_pool(world.device, world.pool, tarn_filter_thread, NULL, &more));
    ck_assert_untouched(more);
    REFUSE(TARN_ERR_LIMIT, "64 routes",
           tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    ck_assert_untouched(capture);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
    OK(tarn_end_allocate_to_pool(routes[10]));
    routes[10] = test_route(world.pool, tarn_filter_stream, world.stream);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    for (int i = 0; i < MAX; i++) {
        OK(tarn_end_allocate_to_pool(routes[i]));
        OK(tarn_pool_destroy(pools[i]));
    }
}

TEST(routes, a_captures_route_ends_with_the_capture_and_is_for_its_streams_alone)
{
    tarn_capture *capture = NULL;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    ck_assert_ptr_eq(test_chosen_pool(world.side), world.default_pool); /* not of the capture */
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    OK(tarn_capture_abort(capture));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
}

static tarn_stream per_thread(void)
{
    return (tarn_stream)TN_CU_STREAM_PER_THREAD;
}

static void allocate_on_own_stream(void *result)
{
    void *address = NULL;

    OK(tarn_malloc(world.device, 4096, per_thread(), &address));
    *(tarn_block *)result = (tarn_block){.address = address};
    OK(tarn_block_at(address, result));
    OK(tarn_free(address));
}

TEST_LOOP(routes, a_route_of_a_threads_own_stream_is_of_that_thread, 0, 2)
{
    static const tarn_route_filter filters[] = {tarn_filter_stream, tarn_filter_capture};
    tarn_block block;
    void *address = NULL;
    tarn_route *route = test_route(world.pool, filters[_i], per_thread());

    if (_i == 1) {
        test_begin_capture(per_thread(), TN_CU_CAPTURE_MODE_RELAXED);
        OK(tarn_malloc(world.device, 4096, per_thread(), &address));
        OK(tarn_free(address));
    } else {
        allocate_on_own_stream(&block);
        ck_assert_ptr_eq(block.pool, world.pool);
    }
    test_elsewhere(allocate_on_own_stream, &block);
    ck_assert_ptr_eq(block.pool, world.default_pool);
    if (_i == 1)
        test_destroy_graph(test_end_capture(per_thread()));
    OK(tarn_end_allocate_to_pool(route));
}

GROUP(recycled, NULL, .name = "recycled handles")

/* A capture goes on when a stream that was forked from it is destroyed, and the driver gives the next
 * stream its handle: that stream's captures are no sign that the first is over. */
TEST(recycled, a_capture_is_known_as_long_as_it_goes_on)
{
    tn_cu_graph graphs[2];
    tn_cu_stream fork;
    tn_cu_stream next;
    void *before;
    void *blocks[2];
    tarn_route *route;

    ck_assert_int_eq(setenv("TARN_SIM_STRICT", "0", 1), 0);
    test_world_open();
    before = test_alloc(world.pool, 4 * MIB, world.side);
    fork = test_stream();
    route = test_route(world.pool, tarn_filter_thread, NULL);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_order(world.stream, fork);
    OK(tarn_malloc(world.device, 4096, fork, &blocks[0]));
    test_set_words(fork, blocks[0], 1, 1);
    test_set_words(fork, before, 1, 1);
    test_order(fork, world.stream);
    test_destroy_stream(fork);
    next = test_stream();
    ck_assert_ptr_eq(next, fork);
    test_begin_capture(next, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(world.device, 4096, next, &blocks[1]));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 2);
    graphs[1] = test_end_capture(next);
    test_destroy_graph(graphs[1]);
    OK(tarn_free(before)); /* in the section of the first: its graph writes there */
    graphs[0] = test_end_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    before = test_alloc(world.pool, 4 * MIB, world.side);
    test_set_words(world.side, before, 2, 1);
    test_launch_once(graphs[0], world.stream);
    ck_assert_uint_eq(test_read(world.side, before), 2);
    OK(tarn_free(before));
    for (int i = 0; i < 2; i++)
        OK(tarn_free(blocks[i]));
    test_destroy_graph(graphs[0]);
    test_destroy_stream(next);
    test_world_close();
}

/* Also of a stream that Tarn has not seen outside captures before, and by a route without one. */
TEST(routes, a_capture_that_is_over_is_forgotten)
{
    tarn_route *route;

    for (int how = 0; how < 3; how++) {
        tn_cu_stream stream = how == 2 ? TN_CU_STREAM_PER_THREAD : test_stream();
        tn_cu_graph graph;
        void *block;
        void *outside;

        route = test_route(world.pool, tarn_filter_thread, NULL);
        test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
        OK(tarn_malloc(world.device, 4096, stream, &block));
        graph = test_end_capture(stream);
        ck_assert_uint_eq(test_stats(world.pool).capture_count, 1); /* nobody has said so */
        if (how != 1) {
            OK(tarn_malloc(world.device, 4096, stream, &outside));
            OK(tarn_free(outside));
            ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
        }
        OK(tarn_end_allocate_to_pool(route));
        ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
        OK(tarn_free(block));
        test_destroy_graph(graph);
        if (how != 2)
            test_destroy_stream(stream);
    }
}
