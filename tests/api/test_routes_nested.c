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

static void begin(tarn_pool *pool, tarn_route_filter filter, void *user)
{
    OK(tarn_begin_allocate_to_pool(world.device, pool, filter, user));
}

static void end(tarn_pool *pool)
{
    OK(tarn_end_allocate_to_pool(world.device, pool));
}

/* The driver destroys user objects a little after their graph. */
static void await_nothing_captured(tarn_pool *pool)
{
    int64_t deadline = test_deadline();

    while (test_stats(pool).captured_bytes > 0 && test_pause(deadline))
        continue;
    ck_assert_uint_eq(test_stats(pool).captured_bytes, 0);
}

START_TEST(routes_nest_and_each_end_uncovers_the_one_below)
{
    begin(world.pool, tarn_filter_thread, NULL);
    begin(second, tarn_filter_thread, NULL);
    begin(world.pool, tarn_filter_stream, world.stream);
    ck_assert_uint_eq(test_device_stats().route_count, 3);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.side), second);
    end(world.pool); /* the newest */
    ck_assert_ptr_eq(test_chosen_pool(world.stream), second);
    end(second);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    end(world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
    REFUSE(TARN_ERR_WRONG_STATE, "no route to pool 'test'",
           tarn_end_allocate_to_pool(world.device, world.pool));
}
END_TEST

START_TEST(each_of_several_routes_keeps_its_pool)
{
    tarn_pool *pool = test_pool("routed");

    begin(pool, tarn_filter_thread, NULL);
    begin(pool, tarn_filter_stream, world.stream);
    for (int left = 2; left > 0; left--) {
        REFUSE(TARN_ERR_BUSY, left == 2 ? "2 routes" : "1 routes", tarn_pool_destroy(pool));
        end(pool);
    }
    OK(tarn_pool_destroy(pool));
}
END_TEST

START_TEST(one_route_more_than_there_is_room_for_is_refused)
{
    enum { MAX = 64 };

    for (int i = 0; i < MAX; i++)
        begin(i % 2 == 0 ? world.pool : second, tarn_filter_thread, NULL);
    REFUSE(TARN_ERR_LIMIT, "64 routes",
           tarn_begin_allocate_to_pool(world.device, world.pool, tarn_filter_thread, NULL));
    for (int i = 0; i < MAX / 2; i++) {
        end(world.pool);
        end(second);
    }
    ck_assert_uint_eq(test_device_stats().route_count, 0);
}
END_TEST

static void end_as_stranger(void *unused)
{
    (void)unused;
    test_set_context(test_retain(0)); /* so that the picture is the same */
    REFUSE(TARN_ERR_WRONG_THREAD, "another thread's own",
           tarn_end_allocate_to_pool(world.device, world.pool));
    test_release(0);
}

static void begin_end_own(void *unused)
{
    (void)unused;
    begin(world.pool, tarn_filter_thread, NULL);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    end(world.pool); /* its own, though there is another */
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
}

START_TEST(a_threads_own_route_is_ended_by_that_thread_alone)
{
    begin(world.pool, tarn_filter_thread, NULL);
    test_elsewhere(end_as_stranger, NULL);
    test_elsewhere(begin_end_own, NULL);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    end(world.pool);
}
END_TEST

static void end_any(void *unused)
{
    (void)unused;
    end(world.pool);
}

START_TEST(a_route_by_stream_may_be_ended_by_any_thread)
{
    begin(world.pool, tarn_filter_stream, world.stream);
    begin(world.pool, tarn_filter_thread, NULL);
    test_elsewhere(end_any, NULL);
    ck_assert_ptr_eq(test_chosen_pool(world.side), world.pool); /* the thread's own is there */
    end(world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
}
END_TEST

static void begin_and_exit(void *unused)
{
    (void)unused;
    begin(world.pool, tarn_filter_thread, NULL);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
}

static void expect_default(void *unused)
{
    (void)unused;
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.default_pool);
}

START_TEST(the_route_of_a_thread_that_exited_catches_nobody_and_can_be_ended)
{
    for (int i = 0; i < 8; i++)
        test_elsewhere(begin_and_exit, NULL);
    for (int i = 0; i < 8; i++) /* among them one of the same name to the system */
        test_elsewhere(expect_default, NULL);
    expect_default(NULL);
    ck_assert_uint_eq(test_device_stats().route_count, 8);
    for (int i = 0; i < 8; i++)
        end(world.pool);
    REFUSE(TARN_ERR_WRONG_STATE, "no route", tarn_end_allocate_to_pool(world.device, world.pool));
}
END_TEST

START_TEST(a_captures_route_is_not_ended_while_another_to_the_pool_is)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    begin(world.pool, tarn_filter_thread, NULL);
    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    ck_assert_uint_eq(test_device_stats().route_count, 2);
    end(world.pool); /* the older one: the newer is the capture's */
    REFUSE(TARN_ERR_WRONG_STATE, "ends with it",
           tarn_end_allocate_to_pool(world.device, world.pool));
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(world.side), world.default_pool);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_destroy(graph));
}
END_TEST

START_TEST(a_route_within_a_capture_goes_before_the_captures_own)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *inner;
    uint64_t captured;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    begin(second, tarn_filter_thread, NULL);
    inner = test_malloc(4 * MIB);
    ck_assert_ptr_eq(test_pool_of(inner), second);
    test_fill(world.stream, inner, 3, 1);
    end(second);
    ck_assert_ptr_eq(test_chosen_pool(world.stream), world.pool);
    begin(second, tarn_filter_thread, NULL); /* once more in the same capture */
    OK(tarn_free(inner));
    ck_assert_ptr_eq(test_malloc(4 * MIB), inner);
    end(second);
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
END_TEST

/* Memory freed on one stream of a capture is no other's, though a route ended in between. */
START_TEST(a_route_that_ends_in_mid_capture_does_not_end_the_capture)
{
    void *mine;
    void *forked = NULL;
    tn_cu_graph graph;

    for (int by_thread = 0; by_thread < 2; by_thread++) {
        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
        test_order(world.stream, world.side);
        begin(world.pool, by_thread ? tarn_filter_thread : tarn_filter_capture,
              by_thread ? NULL : world.stream);
        mine = test_malloc(4 * MIB);
        test_fill(world.stream, mine, 1, 1);
        OK(tarn_free(mine));
        end(world.pool);
        begin(world.pool, by_thread ? tarn_filter_thread : tarn_filter_capture,
              by_thread ? NULL : world.stream);
        OK(tarn_malloc(world.device, 4 * MIB, world.side, &forked));
        ck_assert_ptr_ne(forked, mine); /* nothing orders the side behind the origin's work */
        ck_assert_ptr_eq(test_malloc(4 * MIB), mine);
        OK(tarn_free(mine));
        OK(tarn_free(forked));
        test_order(world.side, world.stream);
        graph = test_end_capture(world.stream);
        end(world.pool);
        test_destroy_graph(graph);
        await_nothing_captured(world.pool);
    }
}
END_TEST

START_TEST(several_captures_of_one_pool_are_served_side_by_side)
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
END_TEST

START_TEST(a_block_freed_while_several_captures_are_open_is_held_for_each)
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
END_TEST

START_TEST(routes_of_a_pool_of_another_device_are_refused)
{
    /* one device is open here: any other pool handle is none of its */
    tarn_pool *gone = test_pool("gone");

    OK(tarn_pool_destroy(gone));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_begin_allocate_to_pool(world.device, gone, tarn_filter_thread, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_end_allocate_to_pool(world.device, gone));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nested routes");
    TCase *tcase = tcase_create("routes");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, open_pools, close_pools);
    tcase_add_test(tcase, routes_nest_and_each_end_uncovers_the_one_below);
    tcase_add_test(tcase, each_of_several_routes_keeps_its_pool);
    tcase_add_test(tcase, one_route_more_than_there_is_room_for_is_refused);
    tcase_add_test(tcase, a_threads_own_route_is_ended_by_that_thread_alone);
    tcase_add_test(tcase, a_route_by_stream_may_be_ended_by_any_thread);
    tcase_add_test(tcase, the_route_of_a_thread_that_exited_catches_nobody_and_can_be_ended);
    tcase_add_test(tcase, a_captures_route_is_not_ended_while_another_to_the_pool_is);
    tcase_add_test(tcase, a_route_within_a_capture_goes_before_the_captures_own);
    tcase_add_test(tcase, a_route_that_ends_in_mid_capture_does_not_end_the_capture);
    tcase_add_test(tcase, several_captures_of_one_pool_are_served_side_by_side);
    tcase_add_test(tcase, a_block_freed_while_several_captures_are_open_is_held_for_each);
    tcase_add_test(tcase, routes_of_a_pool_of_another_device_are_refused);
    return test_main(suite);
}
