// SPDX-License-Identifier: Apache-2.0
/* Bodies of conditional nodes: captured one by one into an outer capture's graph, they share the memory
 * that they can and no other. */
#include "support/bodies.h"
#include "support/world.h"

enum { WORDS = 1 << 10, OUTER = 4 * MIB };

/* A body that fills a temporary block and copies it out; where the block was. */
static void *capture_body(tarn_capture *outer, uint64_t group, tn_cu_graph body, uint32_t value,
                          void *output)
{
    tarn_capture *capture = test_begin_body(outer, group, body);
    void *temporary = test_copy_through(world.pool, world.side, value, output, WORDS);

    OK(tarn_capture_end(capture, NULL));
    return temporary;
}

static void run(tarn_graph *graph, void *output, uint32_t expected)
{
    test_set_words(world.stream, output, 77, WORDS);
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, output, expected, WORDS);
}

GROUP(bodies, test_world_open, test_world_close)

TEST(bodies, if_and_else_share_memory_and_give_right_results)
{
    void *output = test_malloc(WORDS * 4);

    for (unsigned int value = 0; value < 2; value++) {
        tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
        void *before = test_malloc(OUTER);
        struct test_node node;
        tarn_graph *graph = NULL;
        void *then;
        void *otherwise;
        void *after;

        test_fill(world.stream, before, 1, WORDS);
        node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 2, value);
        then = capture_body(outer, 1, node.bodies[0], 10, output);
        otherwise = capture_body(outer, 1, node.bodies[1], 20, output);
        ck_assert_ptr_eq(otherwise, then);
        OK(tarn_free(before));
        after = test_malloc(OUTER);
        ck_assert_ptr_eq(after, before); /* its own order's */
        OK(tarn_free(after));
        OK(tarn_pool_validate(world.pool));
        OK(tarn_capture_end(outer, &graph));
        run(graph, output, value != 0 ? 10 : 20);
        run(graph, output, value != 0 ? 10 : 20);
        OK(tarn_graph_destroy(graph));
        test_await_destructors(0);
        ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    }
    OK(tarn_free(output));
}

TEST(bodies, the_bodies_of_a_switch_share_memory_and_give_right_results)
{
    enum { COUNT = 3 };
    void *output = test_malloc(WORDS * 4);

    for (unsigned int value = 0; value <= COUNT; value++) {
        tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
        struct test_node node =
            test_add_conditional(world.stream, TN_CU_GRAPH_COND_SWITCH, COUNT, value);
        tarn_graph *graph = NULL;
        void *where[COUNT];

        for (uint32_t i = 0; i < COUNT; i++) {
            where[i] = capture_body(outer, 5, node.bodies[i], 10 + i, output);
            ck_assert_ptr_eq(where[i], where[0]);
        }
        OK(tarn_capture_end(outer, &graph));
        run(graph, output, value < COUNT ? 10 + value : 77);
        OK(tarn_graph_destroy(graph));
    }
    OK(tarn_free(output));
}

/* Two nodes of one graph may run at once. */
TEST(bodies, bodies_of_different_groups_share_nothing)
{
    void *outputs[2] = {test_malloc(WORDS * 4), test_malloc(WORDS * 4)};
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node one = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    struct test_node two = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    void *first = capture_body(outer, 1, one.bodies[0], 10, outputs[0]);
    void *second = capture_body(outer, 2, two.bodies[0], 20, outputs[1]);
    tarn_graph *graph = NULL;
    void *own;

    ck_assert_ptr_ne(second, first);
    own = test_malloc(OUTER);
    ck_assert_ptr_ne(own, first);
    ck_assert_ptr_ne(own, second);
    OK(tarn_free(own));
    OK(tarn_capture_end(outer, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, outputs[0], 10, WORDS);
    test_expect_words(world.stream, outputs[1], 20, WORDS);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(outputs[0]));
    OK(tarn_free(outputs[1]));
}

TEST(bodies, a_block_live_at_its_bodys_end_overlaps_nothing)
{
    void *output = test_malloc(WORDS * 4);
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 2, 1);
    tarn_capture *body = test_begin_body(outer, 1, node.bodies[0]);
    tarn_graph *graph = NULL;
    void *live = test_alloc(world.pool, OUTER, world.side);
    void *scratch;
    void *other;

    test_fill(world.side, live, 10, WORDS);
    OK(tarn_capture_end(body, NULL));
    scratch = capture_body(outer, 1, node.bodies[1], 20, output);
    ck_assert_ptr_ne(scratch, live);
    test_copy(world.stream, output, live, WORDS * 4);
    OK(tarn_record_stream(live, world.stream));
    OK(tarn_free(live)); /* captured now, but the bodies run before the copy */
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    ck_assert_ptr_ne(other = test_malloc(OUTER), live);
    OK(tarn_free(other));
    OK(tarn_capture_end(outer, &graph));
    run(graph, output, 10);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(output));
}

/* What a body had freed by its end the next one of its group may keep; of another group's it gets nothing. */
TEST(bodies, what_a_body_keeps_may_lie_where_one_of_its_group_had_freed)
{
    void *output = test_malloc(WORDS * 4);

    for (uint64_t group = 1; group <= 2; group++) {
        tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
        struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 2, 0);
        void *freed = capture_body(outer, 1, node.bodies[0], 20, output);
        tarn_capture *body = test_begin_body(outer, group, node.bodies[1]);
        void *kept = test_alloc(world.pool, OUTER, world.side);
        tarn_graph *graph = NULL;

        test_fill(world.side, kept, 10, WORDS);
        OK(tarn_capture_end(body, NULL));
        ck_assert((kept == freed) == (group == 1));
        test_copy(world.stream, output, kept, WORDS * 4);
        OK(tarn_capture_end(outer, &graph));
        run(graph, output, 10);
        OK(tarn_free(kept));
        OK(tarn_graph_destroy(graph));
        test_await_destructors(0);
    }
    OK(tarn_free(output));
}

TEST(bodies, a_block_freed_after_its_body_is_not_the_next_bodys)
{
    void *output = test_malloc(WORDS * 4);
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 2, 1);
    tarn_capture *body = test_begin_body(outer, 1, node.bodies[0]);
    void *live = test_alloc(world.pool, OUTER, world.side);
    tarn_graph *graph = NULL;

    test_fill(world.side, live, 10, WORDS);
    OK(tarn_capture_end(body, NULL));
    test_copy(world.stream, output, live, WORDS * 4);
    OK(tarn_free_on(live, world.stream));
    /* The copy comes after the node, and so after this body, too. */
    ck_assert_ptr_ne(capture_body(outer, 1, node.bodies[1], 20, output), live);
    OK(tarn_capture_end(outer, &graph));
    run(graph, output, 10);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(output));
}

TEST(bodies, an_outer_block_used_in_a_body_waits_for_the_outer_captures_end)
{
    void *output = test_malloc(WORDS * 4);
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *block = test_malloc(OUTER);
    tarn_capture *body;
    tarn_graph *graph = NULL;
    struct test_node node;
    void *next;

    test_fill(world.stream, block, 10, WORDS);
    node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    body = test_begin_body(outer, 1, node.bodies[0]);
    test_copy(world.side, output, block, WORDS * 4);
    OK(tarn_free_on(block, world.side));
    OK(tarn_capture_end(body, NULL));
    next = test_malloc(OUTER);
    ck_assert_ptr_ne(next, block);
    test_fill(world.stream, next, 30, WORDS);
    OK(tarn_free(next));
    OK(tarn_capture_end(outer, &graph));
    run(graph, output, 10);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(test_alloc(world.pool, 64 * MIB, world.stream)));
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    OK(tarn_free(output));
}

TEST(bodies, bodies_in_bodies_are_kept_apart_in_the_same_way)
{
    void *output = test_malloc(WORDS * 4);
    tn_cu_stream third = test_stream();
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 2, 1);
    tarn_capture *body = test_begin_body(outer, 1, node.bodies[0]);
    void *in_body = test_alloc(world.pool, OUTER, world.side);
    tarn_capture *inner = NULL;
    tarn_graph *graph = NULL;
    struct test_node nested;
    void *deepest;
    void *otherwise;

    test_fill(world.side, in_body, 5, WORDS);
    nested = test_add_conditional(world.side, TN_CU_GRAPH_COND_IF, 1, 1);
    OK(tarn_capture_begin(world.pool, third,
                          CAPTURE_INTO(body, 1, nested.bodies[0], TARN_CAPTURE_THREAD_LOCAL),
                          &inner));
    deepest = test_alloc(world.pool, OUTER, third);
    test_fill(third, deepest, 10, WORDS);
    test_copy(third, output, deepest, WORDS * 4);
    OK(tarn_free(deepest));
    REFUSE(TARN_ERR_WRONG_STATE, "still being captured", tarn_capture_end(body, NULL));
    OK(tarn_capture_end(inner, NULL));
    OK(tarn_free(in_body));
    otherwise = test_alloc(world.pool, OUTER, world.side);
    ck_assert_ptr_eq(otherwise, in_body);
    ck_assert_ptr_ne(deepest, in_body);
    OK(tarn_free(otherwise));
    OK(tarn_capture_end(body, NULL));
    otherwise = capture_body(outer, 1, node.bodies[1], 20, output); /* either one's memory */
    ck_assert(otherwise == in_body || otherwise == deepest);
    OK(tarn_capture_end(outer, &graph));
    run(graph, output, 10);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    test_destroy_stream(third);
    OK(tarn_free(output));
}

TEST(bodies, memory_of_a_body_is_held_as_long_as_a_launch_of_the_outer_graph)
{
    void *output = test_malloc(WORDS * 4);
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    void *temporary = capture_body(outer, 1, node.bodies[0], 10, output);
    tarn_graph *graph = NULL;
    void *others[8];

    OK(tarn_capture_end(outer, &graph));
    sim.hold_work();
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    for (int i = 0; i < 8; i++) {
        others[i] = test_alloc(world.pool, OUTER, world.side);
        ck_assert_ptr_ne(others[i], temporary);
        test_set_words(world.side, others[i], 0xdead, WORDS);
    }
    sim.resume_work();
    test_expect_words(world.stream, output, 10, WORDS);
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    for (int i = 0; i < 8; i++)
        OK(tarn_free(others[i]));
    OK(tarn_free(output));
}

TEST(bodies, an_outer_capture_ends_after_its_bodies)
{
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *body = test_begin_body(outer, 1, node.bodies[0]);
    tarn_graph *graph = UNTOUCHED;

    REFUSE(TARN_ERR_WRONG_STATE, "still being captured", tarn_capture_end(outer, &graph));
    ck_assert_untouched(graph);
    OK(tarn_capture_end(body, NULL));
    OK(tarn_capture_end(outer, &graph));
    OK(tarn_graph_destroy(graph));
}

TEST(bodies, a_body_allocates_from_its_own_pool_alone)
{
    tarn_pool *other = test_pool("other");
    void *block = test_alloc(other, MIB, world.stream);
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *body = test_begin_body(outer, 1, node.bodies[0]);
    tarn_graph *graph = NULL;
    void *address = UNTOUCHED;
    tarn_route *route;

    REFUSE(TARN_ERR_WRONG_STATE, "captured into a body",
           tarn_pool_malloc(other, MIB, 0, world.side, &address));
    REFUSE(TARN_ERR_WRONG_STATE, "captured into a body", tarn_record_stream(block, world.side));
    REFUSE(TARN_ERR_WRONG_STATE, "captured into a body", tarn_free_on(block, world.side));
    ck_assert_int_eq(test_state_of(other, block), TARN_EXTENT_LIVE);
    route = test_route(other, tarn_filter_stream, world.side);
    REFUSE(TARN_ERR_WRONG_STATE, "captured into a body",
           tarn_malloc(world.device, MIB, world.side, &address));
    REFUSE(TARN_ERR_WRONG_STATE, "captured into a body",
           tarn_malloc_aligned(world.device, MIB, 4096, world.side, &address));
    REFUSE(TARN_ERR_WRONG_STATE, "captured into a body",
           tarn_malloc_labeled(world.device, NULL, MIB, 0, world.side, "label", &address));
    REFUSE(TARN_ERR_WRONG_STATE, "captured into a body",
           tarn_calloc(world.device, 1, MIB, world.side, &address));
    OK(tarn_end_allocate_to_pool(route));
    ck_assert_untouched(address);
    OK(tarn_capture_end(body, NULL));
    OK(tarn_capture_end(outer, &graph));
    OK(tarn_free_on(block, world.side));
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_destroy(other));
}

TEST(bodies, a_body_is_captured_into_once)
{
    void *output = test_malloc(WORDS * 4);
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *body = UNTOUCHED;
    tarn_graph *graph = NULL;

    (void)capture_body(outer, 1, node.bodies[0], 10, output);
    REFUSE(TARN_ERR_WRONG_STATE, "child node",
           tarn_capture_begin(world.pool, world.side,
                              CAPTURE_INTO(outer, 1, node.bodies[0], TARN_CAPTURE_THREAD_LOCAL),
                              &body));
    ck_assert_untouched(body);
    OK(tarn_capture_end(outer, &graph));
    run(graph, output, 10);
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(output));
}

TEST(bodies, a_body_of_no_open_capture_is_refused)
{
    tarn_pool *other = test_pool("other");
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *capture = UNTOUCHED;
    tarn_graph *graph = NULL;

    REFUSE(TARN_ERR_INVALID_ARGUMENT, "another pool",
           tarn_capture_begin(other, world.side,
                              CAPTURE_INTO(outer, 1, node.bodies[0], TARN_CAPTURE_GLOBAL),
                              &capture));
    sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_capture_end(outer, &graph)); /* stopped */
    REFUSE(TARN_ERR_WRONG_STATE, "is over",
           tarn_capture_begin(world.pool, world.side,
                              CAPTURE_INTO(outer, 1, node.bodies[0], TARN_CAPTURE_GLOBAL),
                              &capture));
    OK(tarn_capture_abort(outer));
    REFUSE(TARN_ERR_INVALID_HANDLE, "outer capture",
           tarn_capture_begin(world.pool, world.side,
                              CAPTURE_INTO(outer, 1, node.bodies[0], TARN_CAPTURE_GLOBAL),
                              &capture));
    ck_assert_untouched(capture);
    OK(tarn_pool_destroy(other));
}

/* The outer capture was ended by the driver's own call; its handle is good for abort alone. */
TEST(bodies, a_body_of_a_capture_that_became_a_graph_is_refused)
{
    tarn_capture *outer = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    struct test_node node = test_add_conditional(world.stream, TN_CU_GRAPH_COND_IF, 1, 1);
    tarn_capture *capture = UNTOUCHED;
    tarn_graph *graph = NULL;

    OK(tarn_graph_adopt(world.pool, test_end_capture(world.stream), &graph));
    REFUSE(TARN_ERR_WRONG_STATE, "is over",
           tarn_capture_begin(world.pool, world.side,
                              CAPTURE_INTO(outer, 1, node.bodies[0], TARN_CAPTURE_GLOBAL),
                              &capture));
    ck_assert_untouched(capture);
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_NONE);
    OK(tarn_capture_abort(outer));
    OK(tarn_graph_destroy(graph));
}
