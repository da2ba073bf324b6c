// SPDX-License-Identifier: Apache-2.0
/* The driver gives a new graph the handle of one that was destroyed, while an executable of that lives: graphs/former.h.
 * Each case runs twice, with the handle and without, and what is seen of the new graph is the same. */
#include <stdlib.h>

#include "support/bodies.h"
#include "support/nodes.h"
#include "support/world.h"

enum { WORDS = 1 << 10, BYTES = WORDS * 4 };

static void *input;
static void *output;
static tn_cu_graph former;
static tn_cu_graphexec former_exec;
static bool recycled;

static void open_world(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_STRICT", "0", 1), 0);
    test_world_open();
    input = test_alloc(world.default_pool, BYTES, world.stream);
    output = test_alloc(world.default_pool, BYTES, world.stream);
}

static void close_world(void)
{
    OK(tarn_free(input));
    OK(tarn_free(output));
    test_world_close();
}

/* route: NULL: none. *kept: the section's block, which it leaves live; kept NULL: it frees the block. */
static tn_cu_graph capture(tarn_pool *pool, const void *source, void **kept)
{
    tarn_route *route = pool != NULL ? test_route(pool, tarn_filter_capture, world.stream) : NULL;
    tn_cu_graph graph;
    void *block;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(world.device, BYTES, world.stream, &block));
    test_copy(world.stream, block, source, BYTES);
    test_copy(world.stream, output, block, BYTES);
    if (kept != NULL)
        *kept = block;
    else
        OK(tarn_free(block));
    graph = test_end_capture(world.stream);
    if (route != NULL)
        OK(tarn_end_allocate_to_pool(route));
    return graph;
}

/* The program keeps an executable of the graph, and in one of the runs no more. */
static void leave(tn_cu_graph graph, int run)
{
    former = graph;
    former_exec = test_instantiate(graph);
    recycled = run == 1;
    if (recycled)
        test_destroy_graph(graph);
}

static void expect_handle(tn_cu_graph graph)
{
    ck_assert(!recycled || graph == former);
}

static void end_former(void)
{
    if (!recycled)
        test_destroy_graph(former);
    test_destroy_exec(former_exec);
}

static void expect_mistakes(tn_cu_graph graph, tarn_pointer_class found, size_t mistakes)
{
    tarn_audit *audit;

    OK(tarn_driver_graph_audit(world.device, graph, NULL, &audit));
    ck_assert_uint_eq(audit->mistake_count, mistakes);
    ck_assert_uint_ge(audit->counts[found], 1);
    tarn_audit_destroy(audit);
}

SUITE("former graphs")
GROUP(former, open_world, close_world)

TEST_LOOP(former, graphs_are_counted_apart, 0, 2)
{
    enum { GRAPHS = 3 };
    tn_cu_graph graphs[GRAPHS];
    tn_cu_graphexec execs[GRAPHS];
    tarn_graph *adopted;

    for (int i = 0; i < GRAPHS; i++) {
        graphs[i] = capture(world.pool, input, NULL);
        ck_assert(_i == 0 || graphs[i] == graphs[0]);
        execs[i] = test_instantiate(graphs[i]);
        if (_i == 1 && i < GRAPHS - 1)
            test_destroy_graph(graphs[i]);
    }
    OK(tarn_graph_adopt(world.pool, graphs[GRAPHS - 1], &adopted));
    ck_assert_uint_eq(test_stats(world.pool).held_graph_count, GRAPHS);
    OK(tarn_graph_destroy(adopted));
    for (uint64_t left = GRAPHS; left > 0; left--) {
        test_destroy_exec(execs[left - 1]);
        if (_i == 0 && left < GRAPHS)
            test_destroy_graph(graphs[left - 1]);
        test_await_destructors(left - 1 == 0 ? 0 : UINT64_MAX);
        ck_assert_uint_eq(test_stats(world.pool).held_graph_count, left - 1);
    }
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
}

/* The new graph reads a block of another pool, and the former one had allocated that. */
TEST_LOOP(former, a_guard_sees_a_block_of_the_former_graph_go, 0, 2)
{
    tarn_pool *other = test_pool("other");
    tarn_graph *graph;
    tn_cu_graph made;
    void *kept;

    leave(capture(other, input, &kept), _i);
    made = capture(world.pool, kept, NULL);
    expect_handle(made);
    OK(tarn_graph_adopt(world.pool, made, &graph));
    OK(tarn_graph_guard(graph, TARN_GUARD_REFUSE, NULL));
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    OK(tarn_free(kept));
    STATUS(TARN_ERR_STALE, tarn_graph_check(graph));
    STATUS(TARN_ERR_STALE, tarn_graph_replay(graph, world.stream));
    OK(tarn_graph_destroy(graph));
    end_former();
    test_await_destructors(0);
    OK(tarn_pool_destroy(other));
}

TEST_LOOP(former, an_audit_sees_it_where_no_route_leads_to_a_pool, 0, 2)
{
    tn_cu_graph graph;
    void *kept;

    leave(capture(NULL, input, &kept), _i);
    graph = capture(NULL, kept, NULL);
    expect_handle(graph);
    expect_mistakes(graph, TARN_POINTER_EXTERNAL, 0);
    OK(tarn_free(kept));
    expect_mistakes(graph, TARN_POINTER_FREED_EXTERNAL, 1);
    test_destroy_graph(graph);
    end_former();
    test_await_destructors(0);
}

TEST_LOOP(former, replays_of_pools_that_share_no_graph_stay_apart, 0, 2)
{
    tarn_pool_options refused = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pools[2];
    tarn_graph *graphs[2][2];
    tn_cu_graph graph;

    refused.replay_order = TARN_REPLAY_REFUSED;
    for (int i = 0; i < 2; i++) {
        pools[i] = test_pool_with(&refused);
        for (int j = 0; j < 2; j++) {
            tarn_capture *section =
                test_capture_on(pools[i], world.stream, TARN_CAPTURE_THREAD_LOCAL);

            test_copy(world.stream, output, input, BYTES);
            graphs[i][j] = test_capture_end(section);
        }
    }
    leave(capture(pools[1], input, NULL), _i);
    graph = capture(pools[0], input, NULL);
    expect_handle(graph);
    OK(tarn_graph_replay(graphs[0][0], world.stream));
    test_synchronize(world.stream);                  /* both write the output */
    OK(tarn_graph_replay(graphs[1][0], world.side)); /* on another stream */
    test_synchronize(world.side);
    test_destroy_graph(graph);
    end_former();
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++)
            OK(tarn_graph_destroy(graphs[i][j]));
    }
    test_await_destructors(0);
    for (int i = 0; i < 2; i++)
        OK(tarn_pool_destroy(pools[i]));
}

/* The former graph's end is not the end of the adopted one, of whose capture nobody told Tarn. */
TEST_LOOP(former, an_adopted_graph_has_a_hold_of_its_own, 0, 2)
{
    tarn_graph *graph;
    tn_cu_graph made;
    tn_cu_graphexec own;
    tarn_pool *pool = test_pool("adopting");

    leave(capture(pool, input, NULL), _i);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_copy(world.stream, output, input, BYTES);
    made = test_end_capture(world.stream);
    expect_handle(made);
    OK(tarn_graph_adopt(pool, made, &graph));
    end_former();
    own = test_instantiate(made);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(UINT64_MAX);
    REFUSE(TARN_ERR_BUSY, "in use", tarn_pool_destroy(pool));
    test_destroy_exec(own);
    OK(tarn_pool_destroy(pool));
}

static void section_into(tn_cu_graph graph, int copies)
{
    tarn_capture_options options = TARN_CAPTURE_OPTIONS_INIT;
    tarn_capture *section;
    void *block;

    options.driver_graph = graph;
    OK(tarn_capture_begin(world.pool, world.stream, &options, &section));
    OK(tarn_malloc(world.device, BYTES, world.stream, &block));
    for (int i = 0; i < copies; i++)
        test_copy(world.stream, output, block, BYTES);
    OK(tarn_free(block));
    OK(tarn_capture_end(section, NULL));
}

/* A section that left no node, and another one in the same graph: no former graph is there. */
TEST(former, a_graph_stays_the_same_beside_an_empty_section)
{
    tn_cu_graph graph = test_graph();
    tarn_graph *adopted;

    section_into(graph, 0);
    section_into(graph, 2);
    ck_assert_uint_eq(test_stats(world.pool).held_graph_count, 1);
    expect_mistakes(graph, TARN_POINTER_REUSED, 0);
    OK(tarn_graph_adopt(world.pool, graph, &adopted));
    ck_assert_uint_eq(test_stats(world.pool).held_graph_count, 1);
    OK(tarn_graph_destroy(adopted));
    test_await_destructors(0);
}

/* The program's own graph has fewer nodes than the former one: a section goes into it. With as many nodes, the two
 * cannot be told apart. */
TEST_LOOP(former, a_section_goes_into_a_graph_with_fewer_nodes, 0, 2)
{
    tarn_capture_options options = TARN_CAPTURE_OPTIONS_INIT;
    tn_cu_graph graph = test_graph();
    tarn_capture *section = NULL;

    section_into(graph, 2);
    leave(graph, 1);
    graph = test_graph();
    expect_handle(graph);
    test_begin_capture_to(world.stream, graph);
    test_copy(world.stream, output, input, BYTES);
    (void)test_end_capture(world.stream);
    if (_i == 0) {
        section_into(graph, 2);
        ck_assert_uint_eq(test_stats(world.pool).held_graph_count, 2);
    } else {
        test_begin_capture_to(world.stream, graph);
        test_copy(world.stream, output, input, BYTES);
        (void)test_end_capture(world.stream);
        options.driver_graph = graph;
        REFUSE(TARN_ERR_WRONG_STATE, "has a section",
               tarn_capture_begin(world.pool, world.stream, &options, &section));
        ck_assert_ptr_null(section);
    }
    test_destroy_graph(graph);
    end_former();
    test_await_destructors(0);
}
