// SPDX-License-Identifier: Apache-2.0
/* Captures of bodies that are given up, or whose outer captures are. */
#include "support/bodies.h"
#include "support/world.h"

enum { WORDS = 1 << 10, OUTER = 4 * MIB };

GROUP(body_aborts, test_world_open, test_world_close)

TEST(body_aborts, an_aborted_body_leaves_the_outer_capture_to_be_aborted)
{
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *body = test_begin_body(outer, 1, node.bodies[0]);
    void *block = test_alloc(world.pool, OUTER, world.side);

    test_fill(world.side, block, 1, WORDS);
    OK(tarn_capture_abort(body));
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_NONE);
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_DISCARDED);
    OK(tarn_free(block));
    OK(tarn_capture_abort(outer));
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    OK(tarn_pool_validate(world.pool));
}

TEST(body_aborts, the_abort_of_an_outer_capture_ends_its_bodies)
{
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *body = test_begin_body(outer, 1, node.bodies[0]);
    void *block = test_alloc(world.pool, OUTER, world.side);

    test_fill(world.side, block, 1, WORDS);
    OK(tarn_capture_abort(outer));
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_NONE);
    test_await_destructors(0);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(body, NULL));
    OK(tarn_capture_abort(body));
    OK(tarn_free(block));
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    OK(tarn_pool_validate(world.pool));
}

TEST(body_aborts, the_abort_of_an_outer_capture_leaves_alone_what_is_no_body)
{
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *body = test_begin_body(outer, 1, node.bodies[0]);

    (void)test_end_capture(world.side); /* by hand: the body is there, and Tarn is not told */
    test_begin_capture(world.side, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    OK(tarn_capture_abort(outer));
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_abort(body));
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(world.side));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    OK(tarn_pool_validate(world.pool));
}

static void abort_beside_a_capture(void *outer)
{
    test_set_context(test_retain(0));
    test_begin_capture(TN_CU_STREAM_PER_THREAD, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_capture_abort(outer));
    ck_assert_int_eq(test_capture_status(TN_CU_STREAM_PER_THREAD), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(TN_CU_STREAM_PER_THREAD));
    test_release(0);
}

TEST(body_aborts, the_abort_of_an_outer_capture_elsewhere_ends_no_capture_of_its_thread)
{
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_RELAXED);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *body = NULL;

    OK(tarn_capture_begin(world.pool, TN_CU_STREAM_PER_THREAD,
                          CAPTURE_INTO(outer, 1, node.bodies[0], TARN_CAPTURE_RELAXED), &body));
    (void)test_end_capture(TN_CU_STREAM_PER_THREAD); /* nobody else can */
    test_elsewhere(abort_beside_a_capture, outer);
    OK(tarn_capture_abort(body));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    OK(tarn_pool_validate(world.pool));
}

static void abort_captures(void *first)
{
    for (tarn_capture **capture = first; *capture != NULL; capture++)
        OK(tarn_capture_abort(*capture));
}

/* Begins a relaxed outer capture, of the user's graph or of none, and a body on the thread's own stream. */
static tarn_capture *begin_on_own_stream(tn_cu_graph into, tarn_capture **body)
{
    tarn_capture *outer = NULL;
    struct test_node node;

    if (into != NULL)
        OK(tarn_capture_begin(world.pool, world.stream,
                              CAPTURE_INTO(NULL, 0, into, TARN_CAPTURE_RELAXED), &outer));
    else
        outer = test_capture_begin(TARN_CAPTURE_RELAXED);
    node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    OK(tarn_capture_begin(world.pool, TN_CU_STREAM_PER_THREAD,
                          CAPTURE_INTO(outer, 1, node.bodies[0], TARN_CAPTURE_RELAXED), body));
    return outer;
}

static void expect_all_over(void)
{
    test_await_destructors(0);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    OK(tarn_free(test_alloc(world.pool, 4096, world.stream))); /* the device is not POISONED */
    OK(tarn_pool_validate(world.pool));
}

TEST(body_aborts, a_capture_aborted_elsewhere_goes_on_until_its_body_is_aborted)
{
    tarn_capture *body = NULL;
    tarn_capture *aborted[] = {begin_on_own_stream(NULL, &body), NULL};

    test_elsewhere(abort_captures, aborted);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_abort(body));
    expect_all_over();
}

TEST(body_aborts, a_capture_aborted_elsewhere_goes_on_until_its_body_is_ended)
{
    tarn_capture *body = NULL;
    tarn_capture *aborted[] = {begin_on_own_stream(NULL, &body), NULL};

    test_elsewhere(abort_captures, aborted);
    OK(tarn_capture_end(body, NULL));
    expect_all_over();
}

TEST(body_aborts, a_graph_of_the_callers_is_left_when_its_body_is_over)
{
    tn_cu_graph driver_graph = test_graph();
    tarn_capture *body = NULL;
    tarn_capture *aborted[] = {begin_on_own_stream(driver_graph, &body), NULL};

    test_elsewhere(abort_captures, aborted);
    OK(tarn_capture_abort(body));
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
    test_destroy_graph(driver_graph); /* is there still */
    expect_all_over();
}

TEST(body_aborts, a_body_whose_outer_capture_was_aborted_has_no_bodies)
{
    tarn_capture *body = NULL;
    tarn_capture *aborted[] = {begin_on_own_stream(NULL, &body), NULL};
    struct test_node node =
        test_add_conditional(TN_CU_STREAM_PER_THREAD, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *inner = UNTOUCHED;

    test_elsewhere(abort_captures, aborted);
    REFUSE(TARN_ERR_WRONG_STATE, "outer capture is over",
           tarn_capture_begin(world.pool, world.side,
                              CAPTURE_INTO(body, 1, node.bodies[0], TARN_CAPTURE_RELAXED), &inner));
    ck_assert_untouched(inner);
    OK(tarn_capture_abort(body));
    expect_all_over();
}

/* The driver's own thread alone can end that body's capture: nothing is destroyed under it. */
TEST(body_aborts, a_capture_whose_bodies_are_aborted_elsewhere_too_is_the_users_to_end)
{
    tarn_capture *body = NULL;
    tarn_capture *outer = begin_on_own_stream(NULL, &body);
    tarn_capture *aborted[] = {outer, body, NULL};

    test_elsewhere(abort_captures, aborted);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    (void)test_end_capture(TN_CU_STREAM_PER_THREAD);
    test_destroy_graph(test_end_capture(world.stream));
    expect_all_over();
}

/* An end of the outer capture would make a graph of which a part is being captured. */
TEST(body_aborts, an_outer_capture_has_an_open_body_where_a_body_around_it_was_aborted_elsewhere)
{
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_RELAXED);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *aborted[] = {NULL, NULL};
    tarn_capture *inner = NULL;
    tarn_graph *graph = UNTOUCHED;

    OK(tarn_capture_begin(world.pool, world.side,
                          CAPTURE_INTO(outer, 1, node.bodies[0], TARN_CAPTURE_RELAXED),
                          &aborted[0]));
    node = test_add_conditional(world.side, TN_CU_GRAPH_COND_IF, 1, 1);
    OK(tarn_capture_begin(world.pool, TN_CU_STREAM_PER_THREAD,
                          CAPTURE_INTO(aborted[0], 1, node.bodies[0], TARN_CAPTURE_RELAXED),
                          &inner));
    test_elsewhere(abort_captures, aborted);
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_NONE);
    REFUSE(TARN_ERR_WRONG_STATE, "a body of the capture", tarn_capture_end(outer, &graph));
    aborted[0] = outer;
    test_elsewhere(abort_captures, aborted);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_abort(inner));
    expect_all_over();
}

TEST(body_aborts, the_abort_of_an_outer_capture_ends_bodies_in_bodies)
{
    tn_cu_stream third = test_stream();
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *body = test_begin_body(outer, 1, node.bodies[0]);
    struct test_node nested = test_add_conditional(world.side, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *inner = NULL;
    void *block;

    OK(tarn_capture_begin(world.pool, third,
                          CAPTURE_INTO(body, 1, nested.bodies[0], TARN_CAPTURE_THREAD_LOCAL),
                          &inner));
    block = test_alloc(world.pool, OUTER, third);
    test_fill(third, block, 1, WORDS);
    OK(tarn_capture_abort(outer));
    ck_assert_int_eq(test_capture_status(third), TN_CU_CAPTURE_STATUS_NONE);
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_NONE);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(inner, NULL));
    OK(tarn_capture_abort(inner));
    OK(tarn_capture_abort(body));
    OK(tarn_free(block));
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    OK(tarn_pool_validate(world.pool));
    test_destroy_stream(third);
}

/* A block that is live at the end of a body in a body in the capture. */
static void *keep_block_inside(tarn_capture *outer, tarn_capture **middle)
{
    tn_cu_stream third = test_stream();
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    struct test_node nested;
    tarn_capture *inner = NULL;
    void *block;

    *middle = test_begin_body(outer, 1, node.bodies[0]);
    nested = test_add_conditional(world.side, TN_CU_GRAPH_COND_IF, 1, 1);
    OK(tarn_capture_begin(world.pool, third,
                          CAPTURE_INTO(*middle, 1, nested.bodies[0], TARN_CAPTURE_THREAD_LOCAL),
                          &inner));
    block = test_alloc(world.pool, OUTER, third);
    test_fill(third, block, 1, WORDS);
    OK(tarn_capture_end(inner, NULL));
    test_destroy_stream(third);
    return block;
}

static void expect_discarded(void *block)
{
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_DISCARDED);
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    OK(tarn_free(block));
    OK(tarn_pool_validate(world.pool));
}

TEST(body_aborts, an_abort_discards_what_ended_bodies_left)
{
    enum way { OF_MIDDLE, OF_OUTER, AFTER_MIDDLE_ENDED, AFTER_THE_DRIVERS_CAPTURE, WAYS };

    for (enum way way = 0; way < WAYS; way++) {
        tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
        tarn_capture *middle = NULL;
        void *block = keep_block_inside(outer, &middle);

        if (way == OF_MIDDLE) {
            OK(tarn_capture_abort(middle));
            ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_DISCARDED);
            OK(tarn_capture_abort(outer));
        } else if (way == OF_OUTER) {
            OK(tarn_capture_abort(outer));
            OK(tarn_capture_abort(middle));
        } else {
            OK(tarn_capture_end(middle, NULL));
            ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_LIVE);
            if (way == AFTER_THE_DRIVERS_CAPTURE)
                test_destroy_graph(test_end_capture(world.stream));
            OK(tarn_capture_abort(outer));
        }
        test_await_destructors(0);
        expect_discarded(block);
    }
}

TEST(body_aborts, what_ended_bodies_left_is_live_when_the_outer_capture_has_ended)
{
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    tarn_capture *middle = NULL;
    void *block = keep_block_inside(outer, &middle);
    tarn_graph *graph = NULL;

    OK(tarn_capture_end(middle, NULL));
    OK(tarn_capture_end(outer, &graph));
    ck_assert_int_eq(test_state_of(world.pool, block), TARN_EXTENT_LIVE);
    OK(tarn_free(block));
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_validate(world.pool));
}
