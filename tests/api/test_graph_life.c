// SPDX-License-Identifier: Apache-2.0
/* How long a graph's memory is held: executables and child nodes that outlive the tarn_graph, and graphs
 * destroyed or updated while they run. */
#include "support/bodies.h"
#include "support/world.h"

enum { WORDS = 1 << 10, COUNT = 8 };

static void *temporary; /* of the graph */

static tarn_graph *make_graph(uint32_t value)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

    temporary = test_copy_through(world.pool, world.stream, value, world.outputs[0], WORDS);
    return test_capture_end(capture);
}

static tn_cu_graph template_of(tarn_graph *graph)
{
    tarn_driver_graph driver_graph = NULL;

    OK(tarn_graph_driver_handles(graph, &driver_graph, NULL));
    return driver_graph;
}

/* The memory is held: whatever is allocated and written outside captures is other memory. */
static void expect_held(void)
{
    void *others[COUNT];

    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 4 * MIB);
    OK(tarn_pool_trim(world.pool, NULL));
    for (int i = 0; i < COUNT; i++) {
        others[i] = test_alloc(world.pool, 4 * MIB, world.side);
        ck_assert_ptr_ne(others[i], temporary);
    }
    for (int i = 0; i < COUNT; i++)
        OK(tarn_free(others[i]));
    OK(tarn_pool_validate(world.pool));
}

static void expect_given_up(void)
{
    test_await_destructors(0);
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
}

GROUP(graph_life, test_outputs_open, test_outputs_close)

TEST(graph_life, an_executable_of_the_users_outlives_the_graph)
{
    tarn_graph *graph = make_graph(5);
    tn_cu_graphexec exec = test_instantiate(template_of(graph));

    OK(tarn_graph_destroy(graph));
    for (int round = 0; round < 3; round++) {
        expect_held();
        test_set_words(world.stream, world.outputs[0], 0, WORDS);
        test_launch(exec, world.stream);
        test_expect_words(world.stream, world.outputs[0], 5, WORDS);
    }
    test_destroy_exec(exec);
    expect_given_up();
}

TEST(graph_life, a_child_node_holds_what_its_graph_held)
{
    tarn_graph *graph = make_graph(5);
    tn_cu_graph parent = test_graph();
    tn_cu_graphexec exec;

    test_add_child(parent, template_of(graph));
    OK(tarn_graph_destroy(graph));
    expect_held();
    exec = test_instantiate(parent);
    test_destroy_graph(parent);
    expect_held();
    test_launch(exec, world.stream);
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
    test_destroy_exec(exec);
    expect_given_up();
}

TEST(graph_life, a_parent_graph_is_adopted_and_ordered_with_its_pools_others)
{
    tarn_graph *graph = make_graph(5);
    tarn_graph *other = make_graph(6);
    tarn_graph *whole = NULL;
    tn_cu_graph parent = test_graph();

    test_add_child(parent, template_of(graph));
    OK(tarn_graph_adopt(world.pool, parent, &whole));
    OK(tarn_graph_destroy(graph));
    expect_held();
    OK(tarn_graph_replay(other, world.side));
    OK(tarn_graph_replay(whole, world.stream));
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
    OK(tarn_graph_destroy(other));
    OK(tarn_graph_destroy(whole));
    expect_given_up();
}

TEST(graph_life, a_graph_destroyed_while_it_runs_holds_its_memory_until_the_end)
{
    tarn_graph *graph = make_graph(5);
    void *other;

    sim.hold_work();
    OK(tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_replay(graph, world.side));
    OK(tarn_graph_destroy(graph));
    ck_assert_uint_ge(test_stats(world.pool).captured_bytes, 4 * MIB);
    other = test_alloc(world.pool, 4 * MIB, world.side);
    ck_assert_ptr_ne(other, temporary);
    sim.resume_work();
    test_synchronize(world.side);
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
    OK(tarn_free(other));
    expect_given_up();
}

TEST(graph_life, an_executable_of_the_users_keeps_the_section_before_an_update)
{
    tarn_graph *graph = make_graph(5);
    tn_cu_graphexec exec = test_instantiate(template_of(graph));
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);

    temporary = test_malloc(4 * MIB);
    test_fill(world.stream, temporary, 6, WORDS);
    test_copy(world.stream, world.outputs[0], temporary, WORDS * 4);
    OK(tarn_free(temporary));
    OK(tarn_graph_update(graph, capture));
    OK(tarn_graph_destroy(graph));
    expect_held();
    test_launch(exec, world.stream);
    test_expect_words(world.stream, world.outputs[0], 5, WORDS);
    test_destroy_exec(exec);
    expect_given_up();
}
