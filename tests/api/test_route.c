// SPDX-License-Identifier: Apache-2.0
/* Routes and filters: which pool serves an allocation. */
#include "support/world.h"

static tarn_pool *pool_of(const void *address)
{
    tarn_block block;

    OK(tarn_block_at(address, &block));
    return block.pool;
}

/* The pool that tarn_malloc chooses on that stream now. */
static tarn_pool *chosen(tn_cu_stream stream)
{
    void *address = NULL;
    tarn_pool *pool;

    OK(tarn_malloc(world.device, 512, stream, &address));
    pool = pool_of(address);
    OK(tarn_free(address));
    return pool;
}

static void begin(tarn_pool *pool, tarn_route_filter filter, void *user)
{
    OK(tarn_begin_allocate_to_pool(world.device, pool, filter, user));
}

static void end(tarn_pool *pool)
{
    OK(tarn_end_allocate_to_pool(world.device, pool));
}

START_TEST(without_a_route_the_default_pool_serves)
{
    ck_assert_ptr_eq(chosen(world.stream), world.default_pool);
    begin(world.pool, tarn_filter_thread, NULL);
    ck_assert_ptr_eq(chosen(world.stream), world.pool);
    end(world.pool);
    ck_assert_ptr_eq(chosen(world.stream), world.default_pool);
}
END_TEST

static void choose_default(void *unused)
{
    (void)unused;
    ck_assert_ptr_eq(chosen(world.stream), world.default_pool);
}

START_TEST(the_thread_filter_accepts_the_thread_that_began_the_route)
{
    begin(world.pool, tarn_filter_thread, NULL);
    ck_assert_ptr_eq(chosen(world.stream), world.pool);
    ck_assert_ptr_eq(chosen(world.side), world.pool);
    ck_assert_ptr_eq(chosen(NULL), world.pool);
    test_elsewhere(choose_default, NULL);
    end(world.pool);
}
END_TEST

START_TEST(the_stream_filter_accepts_that_very_stream)
{
    begin(world.pool, tarn_filter_stream, world.stream);
    ck_assert_ptr_eq(chosen(world.stream), world.pool);
    ck_assert_ptr_eq(chosen(world.side), world.default_pool);
    ck_assert_ptr_eq(chosen(NULL), world.default_pool);
    end(world.pool);
    begin(world.pool, tarn_filter_stream, NULL);
    ck_assert_ptr_eq(chosen(NULL), world.pool);
    ck_assert_ptr_eq(chosen(TN_CU_STREAM_LEGACY), world.pool);
    ck_assert_ptr_eq(chosen(world.stream), world.default_pool);
    end(world.pool);
}
END_TEST

START_TEST(the_capture_filter_accepts_the_streams_of_one_capture)
{
    tn_cu_stream outside = test_stream();

    begin(world.pool, tarn_filter_capture, world.stream);
    ck_assert_ptr_eq(chosen(world.stream), world.default_pool); /* not captured yet */
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_order(world.stream, world.side);
    ck_assert_ptr_eq(chosen(world.side), world.pool); /* the forked stream first */
    ck_assert_ptr_eq(chosen(world.stream), world.pool);
    ck_assert_ptr_eq(chosen(outside), world.default_pool);
    test_order(world.side, world.stream);
    test_destroy_graph(test_end_capture(world.stream));
    ck_assert_ptr_eq(chosen(world.stream), world.default_pool);
    end(world.pool);
    test_destroy_stream(outside);
}
END_TEST

START_TEST(the_capture_filter_follows_the_stream_to_its_next_capture)
{
    begin(world.pool, tarn_filter_capture, world.stream);
    for (int round = 0; round < 3; round++) {
        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
        test_order(world.stream, world.side);
        ck_assert_ptr_eq(chosen(world.side), world.pool);
        test_order(world.side, world.stream);
        test_destroy_graph(test_end_capture(world.stream));
    }
    end(world.pool);
}
END_TEST

START_TEST(the_capture_filter_leaves_another_capture_alone)
{
    tarn_pool *other = test_pool("other");

    begin(world.pool, tarn_filter_capture, world.stream);
    begin(other, tarn_filter_capture, world.side);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_RELAXED);
    ck_assert_ptr_eq(chosen(world.stream), world.pool);
    ck_assert_ptr_eq(chosen(world.side), other);
    test_destroy_graph(test_end_capture(world.stream));
    test_destroy_graph(test_end_capture(world.side));
    end(world.pool);
    end(other);
    OK(tarn_pool_destroy(other));
}
END_TEST

START_TEST(the_built_in_filters_may_be_asked_directly)
{
    ck_assert(tarn_filter_stream(world.stream, world.stream));
    ck_assert(!tarn_filter_stream(world.stream, world.side));
    ck_assert(tarn_filter_thread(world.stream, NULL));
    ck_assert(tarn_filter_capture(world.stream, world.stream));
    ck_assert(!tarn_filter_capture(world.stream, world.side));
}
END_TEST

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

START_TEST(a_users_filter_is_asked_with_stream_and_argument)
{
    struct asked asked = {.answer = false};

    begin(world.pool, ask, &asked);
    ck_assert_ptr_eq(chosen(world.stream), world.default_pool);
    ck_assert_int_eq(asked.count, 1);
    ck_assert_ptr_eq(asked.last, world.stream);
    asked.answer = true;
    ck_assert_ptr_eq(chosen(world.side), world.pool);
    ck_assert_ptr_eq(asked.last, world.side);
    OK(tarn_free(test_alloc(world.default_pool, 512, world.stream)));
    ck_assert_int_eq(asked.count, 2); /* who names the pool is not routed */
    end(world.pool);
}
END_TEST

START_TEST(the_newest_route_that_accepts_wins)
{
    tarn_pool *second = test_pool("second");
    tarn_pool *third = test_pool("third");

    begin(world.pool, tarn_filter_thread, NULL);
    begin(second, tarn_filter_stream, world.stream);
    begin(third, tarn_filter_stream, world.side);
    ck_assert_ptr_eq(chosen(world.stream), second);
    ck_assert_ptr_eq(chosen(world.side), third);
    ck_assert_ptr_eq(chosen(NULL), world.pool);
    end(second); /* not the newest */
    ck_assert_ptr_eq(chosen(world.stream), world.pool);
    ck_assert_ptr_eq(chosen(world.side), third);
    end(world.pool);
    ck_assert_ptr_eq(chosen(world.stream), world.default_pool);
    end(third);
    OK(tarn_pool_destroy(second));
    OK(tarn_pool_destroy(third));
}
END_TEST

START_TEST(an_end_without_a_begin_is_refused)
{
    REFUSE(TARN_ERR_WRONG_STATE, "no route to pool 'test'",
           tarn_end_allocate_to_pool(world.device, world.pool));
    begin(world.pool, tarn_filter_thread, NULL);
    end(world.pool);
    REFUSE(TARN_ERR_WRONG_STATE, "no route to pool 'test'",
           tarn_end_allocate_to_pool(world.device, world.pool));
}
END_TEST

START_TEST(the_default_pool_has_no_route)
{
    REFUSE(TARN_ERR_WRONG_STATE, "default pool",
           tarn_begin_allocate_to_pool(world.device, world.default_pool, tarn_filter_thread, NULL));
    REFUSE(TARN_ERR_WRONG_STATE, "no route",
           tarn_end_allocate_to_pool(world.device, world.default_pool));
}
END_TEST

START_TEST(bad_arguments_of_routes_are_refused)
{
    uint64_t zeros[1024] = {0};
    tarn_device *no_device = (tarn_device *)(void *)zeros;
    tarn_pool *no_pool = (tarn_pool *)(void *)zeros;

    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_begin_allocate_to_pool(NULL, world.pool, tarn_filter_thread, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_begin_allocate_to_pool(no_device, world.pool, tarn_filter_thread, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_begin_allocate_to_pool(world.device, NULL, tarn_filter_thread, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool",
           tarn_begin_allocate_to_pool(world.device, no_pool, tarn_filter_thread, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "filter is NULL",
           tarn_begin_allocate_to_pool(world.device, world.pool, NULL, NULL));
    begin(world.pool, tarn_filter_thread, NULL);
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_end_allocate_to_pool(NULL, world.pool));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_end_allocate_to_pool(no_device, world.pool));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_end_allocate_to_pool(world.device, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_end_allocate_to_pool(world.device, no_pool));
    end(world.pool);
}
END_TEST

START_TEST(sixty_four_routes_are_open_at_most)
{
    enum { MAX = 64 };
    tarn_pool *pools[MAX];
    tarn_capture *capture = UNTOUCHED;

    for (int i = 0; i < MAX; i++) {
        pools[i] = test_pool("one of many");
        begin(pools[i], tarn_filter_stream, world.side);
    }
    ck_assert_uint_eq(test_device_stats().route_count, MAX);
    REFUSE(TARN_ERR_LIMIT, "64 routes",
           tarn_begin_allocate_to_pool(world.device, world.pool, tarn_filter_thread, NULL));
    REFUSE(TARN_ERR_LIMIT, "64 routes",
           tarn_capture_begin(world.pool, world.stream, TARN_CAPTURE_GLOBAL, &capture));
    ck_assert_untouched(capture);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
    end(pools[10]);
    begin(world.pool, tarn_filter_stream, world.stream);
    ck_assert_ptr_eq(chosen(world.stream), world.pool);
    end(world.pool);
    for (int i = 0; i < MAX; i++) {
        if (i != 10)
            end(pools[i]);
        OK(tarn_pool_destroy(pools[i]));
    }
}
END_TEST

START_TEST(a_captures_route_ends_with_the_capture_and_is_for_its_streams_alone)
{
    tarn_capture *capture = NULL;

    OK(tarn_capture_begin(world.pool, world.stream, TARN_CAPTURE_GLOBAL, &capture));
    ck_assert_ptr_eq(chosen(world.side), world.default_pool); /* not of the capture */
    ck_assert_ptr_eq(chosen(world.stream), world.pool);
    OK(tarn_capture_abort(capture));
    ck_assert_ptr_eq(chosen(world.stream), world.default_pool);
}
END_TEST

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

START_TEST(a_route_of_a_threads_own_stream_is_of_that_thread)
{
    static const tarn_route_filter filters[] = {tarn_filter_stream, tarn_filter_capture};
    tarn_block block;
    void *address = NULL;

    OK(tarn_begin_allocate_to_pool(world.device, world.pool, filters[_i], per_thread()));
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
    OK(tarn_end_allocate_to_pool(world.device, world.pool));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("routes");
    TCase *tcase = tcase_create("routes");

    tcase_add_loop_test(tcase, a_route_of_a_threads_own_stream_is_of_that_thread, 0, 2);
    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, test_world_open, test_world_close);
    tcase_add_test(tcase, without_a_route_the_default_pool_serves);
    tcase_add_test(tcase, the_thread_filter_accepts_the_thread_that_began_the_route);
    tcase_add_test(tcase, the_stream_filter_accepts_that_very_stream);
    tcase_add_test(tcase, the_capture_filter_accepts_the_streams_of_one_capture);
    tcase_add_test(tcase, the_capture_filter_follows_the_stream_to_its_next_capture);
    tcase_add_test(tcase, the_capture_filter_leaves_another_capture_alone);
    tcase_add_test(tcase, the_built_in_filters_may_be_asked_directly);
    tcase_add_test(tcase, a_users_filter_is_asked_with_stream_and_argument);
    tcase_add_test(tcase, the_newest_route_that_accepts_wins);
    tcase_add_test(tcase, an_end_without_a_begin_is_refused);
    tcase_add_test(tcase, the_default_pool_has_no_route);
    tcase_add_test(tcase, bad_arguments_of_routes_are_refused);
    tcase_add_test(tcase, sixty_four_routes_are_open_at_most);
    tcase_add_test(tcase, a_captures_route_ends_with_the_capture_and_is_for_its_streams_alone);
    return test_main(suite);
}
