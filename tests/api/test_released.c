// SPDX-License-Identifier: Apache-2.0
/* When pools go whose handle nobody has: adopted ones, and released ones. Nothing here waits for the device
 * but where a test says so. */
#include "support/world.h"

enum {
    ROUNDS = 3200,
    LOOKED_AT = 100, /* rounds at the beginning and at the end, whose calls are compared */
};

static const size_t bytes = 8 * MIB;

/* The next call on the device finds that the graphs are gone. */
static struct test_device_stats stats_without_graphs(void)
{
    test_await_destructors(0);
    return test_device_stats();
}

/* left: graphs that are there. */
static void expect_pools_beside(uint64_t count, uint64_t left)
{
    struct test_device_stats stats;

    test_await_destructors(left);
    stats = test_device_stats();

    ck_assert_uint_eq(stats.pool_count, count);
    ck_assert_uint_eq(stats.idle_waits, 0);
}

static void expect_pools(uint64_t count)
{
    expect_pools_beside(count, 0);
}

/* A section of the world's stream that writes a temporary block; of the caller's own, without a route. */
static tn_cu_graph capture_unrouted(void)
{
    tn_cu_graph graph;
    void *block;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    block = test_malloc(bytes);
    test_fill(world.stream, block, 7, 4);
    OK(tarn_free(block));
    graph = test_end_capture(world.stream);
    return graph;
}

static uint64_t calls_of_rounds(int count)
{
    uint64_t before = sim.call_count(NULL);

    for (int i = 0; i < count; i++) {
        test_destroy_graph(capture_unrouted());
        (void)stats_without_graphs();
    }
    return sim.call_count(NULL) - before;
}

GROUP(go, test_world_open, test_world_close)

TEST(go, three_thousand_adopted_graphs_leave_no_pools_and_cost_the_same_to_the_last)
{
    uint64_t first;
    uint64_t last;

    (void)calls_of_rounds(10); /* the cache has what a round takes from here on */
    first = calls_of_rounds(LOOKED_AT);
    for (int i = 0; i < ROUNDS - 2 * LOOKED_AT; i++) {
        tn_cu_graph graph = capture_unrouted();

        if (i % 16 == 0)
            test_launch_once(graph, world.stream);
        test_destroy_graph(graph);
        if (i % 100 == 0) {
            struct test_device_stats stats = stats_without_graphs();

            ck_assert_uint_le(stats.pool_count, 2);
            ck_assert_uint_le(stats.mapped_bytes + stats.cached_bytes, 10 * bytes);
        }
    }
    (void)stats_without_graphs();
    last = calls_of_rounds(LOOKED_AT);
    ck_assert_uint_eq(last, first);
    expect_pools(2);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
}

TEST(go, an_adopted_pool_goes_behind_the_last_launch_of_its_graph)
{
    tn_cu_graph graph = capture_unrouted();
    tn_cu_graphexec exec = test_instantiate(graph);

    sim.hold_work();
    test_launch(exec, world.stream);
    test_destroy_exec(exec);
    test_destroy_graph(graph);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(test_device_stats().pool_count, 3);
    sim.resume_work();
    expect_pools(2);
}

TEST(go, an_output_freed_with_its_last_use_named_goes_without_a_wait)
{
    tn_cu_graph graph;
    void *output;
    uint32_t *copy = test_host_alloc(4);
    int64_t deadline = test_deadline();

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    output = test_malloc(bytes);
    test_fill(world.stream, output, 7, 4);
    graph = test_end_capture(world.stream);
    test_launch_once(graph, world.stream);
    test_destroy_graph(graph);
    sim.hold_work();
    test_copy(world.side, copy, output, 4);
    OK(tarn_free_on(output, world.side));
    test_await_destructors(0);
    ck_assert_uint_eq(test_device_stats().pool_count, 3);
    sim.resume_work();
    while (test_device_stats().pool_count > 2 && test_pause(deadline))
        test_destroy_graph(capture_unrouted()); /* whatever ends next looks at both */
    expect_pools(2);
    test_host_free(copy);
}

/* A released pool with a graph, as tarn_capture makes it. */
static tarn_graph *release_with_a_graph(void)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_graph *graph;
    void *block = test_alloc(world.pool, bytes, world.stream);

    test_fill(world.stream, block, 7, 4);
    OK(tarn_free(block));
    graph = test_capture_end(capture);
    OK(tarn_pool_release(world.pool));
    world.pool = NULL;
    return graph;
}

TEST(go, released_pools_go_with_their_graphs)
{
    for (int i = 0; i < 50; i++) {
        tarn_graph *graph = release_with_a_graph();

        for (int replay = 0; replay < i % 4; replay++)
            OK(tarn_graph_replay(graph, replay % 2 == 0 ? world.stream : world.side));
        OK(tarn_graph_destroy(graph));
        expect_pools(1);
        ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
        world.pool = test_pool("next");
    }
}

TEST(go, released_pools_of_several_graphs_go_with_the_last)
{
    tarn_graph *graphs[3];

    for (int i = 0; i < 3; i++) {
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
        void *block = test_alloc(world.pool, bytes, world.stream);

        test_fill(world.stream, block, (uint32_t)i, 4);
        OK(tarn_free(block));
        graphs[i] = test_capture_end(capture);
    }
    OK(tarn_pool_release(world.pool));
    for (int i = 0; i < 3; i++) {
        OK(tarn_graph_replay(graphs[i], world.stream));
        OK(tarn_graph_destroy(graphs[i]));
        expect_pools_beside(i < 2 ? 2 : 1, (uint64_t)(2 - i));
    }
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    world.pool = test_pool("next");
}

TEST(go, a_released_pool_goes_with_a_graph_that_its_user_captured)
{
    tn_cu_graph graph;
    void *block;
    tarn_route *route = test_route(world.pool, tarn_filter_capture, world.stream);

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    block = test_malloc(bytes);
    test_fill(world.stream, block, 7, 4);
    OK(tarn_free(block));
    graph = test_end_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_pool_release(world.pool));
    test_launch_once(graph, world.stream);
    test_destroy_graph(graph);
    expect_pools(1);
    world.pool = test_pool("next");
}

TEST(go, a_released_pool_goes_with_an_aborted_capture)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);

    OK(tarn_free(test_alloc(world.pool, bytes, world.stream)));
    OK(tarn_pool_release(world.pool));
    OK(tarn_capture_abort(capture));
    expect_pools(1);
    world.pool = test_pool("next");
}

/* What more than graphs may have touched stays until it is proven idle. Each of these leaves an adopted or a
 * released pool that nothing claims, once its graph is gone. */
static void leave_output_read_on_the_stream(void)
{
    tn_cu_graph graph;
    void *output;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    output = test_malloc(bytes);
    test_fill(world.stream, output, 7, 4);
    graph = test_end_capture(world.stream);
    test_launch_once(graph, world.stream);
    test_fill(world.stream, output, 9, 4); /* nobody is told */
    OK(tarn_free(output));
    test_destroy_graph(graph);
}

static void leave_output_freed_behind_its_graph(void)
{
    tn_cu_graph graph;
    void *output;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    output = test_malloc(bytes);
    graph = test_end_capture(world.stream);
    test_destroy_graph(graph);
    test_await_destructors(0);
    test_fill(world.stream, output, 9, 4);
    OK(tarn_free(output));
}

static void leave_output_recorded_on_another_stream(void)
{
    tn_cu_graph graph;
    void *output;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    output = test_malloc(bytes);
    graph = test_end_capture(world.stream);
    OK(tarn_record_stream(output, world.side));
    test_fill(world.stream, output, 9, 4); /* which is not told */
    OK(tarn_free(output));
    test_destroy_graph(graph);
}

static void release_instead(void)
{
    OK(tarn_pool_release(world.pool));
    world.pool = test_pool("next");
}

static void leave_work_before_the_capture(void)
{
    tarn_capture *capture;
    char *block = test_alloc(world.pool, bytes, world.stream);

    test_fill(world.stream, block, 9, 4);
    OK(tarn_free(block));
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    OK(tarn_free(test_alloc(world.pool, bytes, world.stream)));
    OK(tarn_graph_destroy(test_capture_end(capture)));
    release_instead();
}

static void leave_work_freed_in_the_capture(void)
{
    void *block = test_alloc(world.pool, bytes, world.stream);
    tarn_capture *capture;

    test_fill(world.stream, block, 9, 4);
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    OK(tarn_free(block));
    OK(tarn_graph_destroy(test_capture_end(capture)));
    release_instead();
}

static void leave_output_of_a_tarn_graph(void)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *output = test_alloc(world.pool, bytes, world.stream);
    tarn_graph *graph = test_capture_end(capture);

    OK(tarn_graph_replay(graph, world.stream));
    test_fill(world.stream, output, 9, 4);
    OK(tarn_free(output));
    OK(tarn_graph_destroy(graph));
    release_instead();
}

static void leave_output_freed_in_the_next_capture(void)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *output = test_alloc(world.pool, bytes, world.stream);
    tarn_graph *graph = test_capture_end(capture);

    OK(tarn_graph_replay(graph, world.stream));
    test_fill(world.stream, output, 9, 4);
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    OK(tarn_free(output));
    OK(tarn_graph_destroy(test_capture_end(capture)));
    OK(tarn_graph_destroy(graph));
    release_instead();
}

static void leave_output_copied_by_a_checkpoint(void)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *output = test_alloc(world.pool, bytes, world.stream);
    tarn_graph *graph = test_capture_end(capture);
    tarn_checkpoint *checkpoint = NULL;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.side, &checkpoint));
    OK(tarn_free_on(output, world.stream)); /* the copy is on the other one */
    OK(tarn_graph_destroy(graph));
    OK(tarn_checkpoint_destroy(checkpoint));
    release_instead();
}

static void (*const leaves[])(void) = {
    leave_output_read_on_the_stream,         leave_output_freed_behind_its_graph,
    leave_output_recorded_on_another_stream, leave_work_before_the_capture,
    leave_work_freed_in_the_capture,         leave_output_of_a_tarn_graph,
    leave_output_freed_in_the_next_capture,  leave_output_copied_by_a_checkpoint,
};

GROUP(wait, test_world_open, test_world_close)

TEST_LOOP(wait, memory_that_more_than_graphs_touched_waits_for_a_proof, 0,
          sizeof leaves / sizeof leaves[0])
{
    uint64_t pools = test_device_stats().pool_count;

    leaves[_i]();
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(stats_without_graphs().pool_count, pools + 1);
        ck_assert_uint_ge(test_device_stats().mapped_bytes, bytes);
        test_destroy_graph(capture_unrouted()); /* another pool comes and goes beside it */
    }
    ck_assert_uint_eq(test_device_stats().idle_waits, 0);
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(stats_without_graphs().pool_count, pools);
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
}

TEST(wait, a_pool_that_waits_for_a_proof_goes_with_the_next_wait_whoever_makes_it)
{
    tarn_pool *other = test_pool("other");

    leave_output_freed_behind_its_graph();
    ck_assert_uint_eq(test_device_stats().pool_count, 4);
    OK(tarn_free(test_alloc(other, MIB, world.stream)));
    OK(tarn_pool_destroy(other)); /* waits */
    ck_assert_uint_ge(test_device_stats().idle_waits, 1);
    OK(tarn_free(test_malloc(MIB)));
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

/* No call is made for what is parked, whoever comes and goes beside it. */
TEST(wait, pools_that_wait_for_a_proof_cost_later_rounds_no_calls)
{
    uint64_t alone;

    (void)calls_of_rounds(10);
    alone = calls_of_rounds(LOOKED_AT);
    for (int i = 0; i < 24; i++) /* fewer than somebody waits for */
        leave_output_read_on_the_stream();
    (void)calls_of_rounds(10);
    ck_assert_uint_eq(test_device_stats().pool_count, 26);
    ck_assert_uint_eq(calls_of_rounds(LOOKED_AT), alone);
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

/* A graph that tarn_graph_destroy has ended, whose end the driver tells later. */
static tarn_graph *replayed_graph(void)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_graph *graph;
    void *block = test_alloc(world.pool, bytes, world.stream);

    test_fill(world.stream, block, 7, 4);
    OK(tarn_free(block));
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    return graph;
}

/* A block that is freed behind a release, or behind a capture that was adopted, without a word on who used it. */
static void leave_unproven(bool adopted)
{
    tarn_pool *pool;
    void *block;

    if (adopted) {
        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
        block = test_malloc(bytes);
        test_destroy_graph(test_end_capture(world.stream));
    } else {
        pool = test_pool("left");
        block = test_alloc(pool, bytes, world.stream);
        OK(tarn_pool_release(pool));
    }
    test_fill(world.stream, block, 1, 1);
    OK(tarn_free(block));
}

TEST_LOOP(wait, pools_that_wait_for_a_proof_are_never_many, 0, 2)
{
    enum { MOST = 32, LEFT = 10 * MOST };
    struct test_device_stats stats;

    for (int i = 0; i < LEFT; i++) {
        leave_unproven(_i == 1);
        test_await_destructors(0);
        stats = test_device_stats();
        ck_assert_uint_le(stats.pool_count, MOST + 3);
        ck_assert_uint_le(stats.mapped_bytes + stats.cached_bytes, (MOST + 3) * (bytes + 2 * MIB));
    }
    ck_assert_uint_ge(stats.idle_waits, 1);
    ck_assert_uint_le(stats.idle_waits, LEFT / MOST);
}

static void open_late(void)
{
    test_world_open();
    sim.delay_destructors(10000);
}

GROUP(late, open_late, test_world_close)

TEST_LOOP(late, a_trim_behind_the_end_of_a_graph_gives_its_memory_back, 0, 2)
{
    size_t freed = 0;

    for (int i = 0; i < 5; i++) {
        OK(tarn_graph_destroy(replayed_graph()));
        if (i % 2 == 0)
            test_synchronize(world.stream);
        if (_i == 0)
            OK(tarn_pool_trim(world.pool, &freed));
        else
            OK(tarn_device_trim(world.device, 0, &freed));
        ck_assert_uint_eq(freed, bytes);
        ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
        ck_assert_uint_eq(test_stats(world.pool).held_graph_count, 0);
    }
}

TEST(late, a_trim_waits_for_the_running_launch_of_a_graph_that_is_destroyed)
{
    size_t freed = 0;

    test_spin(world.stream, 20);
    OK(tarn_graph_destroy(replayed_graph()));
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_eq(freed, bytes);
}

TEST(late, a_released_pool_goes_whose_hold_a_trim_has_awaited)
{
    tarn_graph *graph = replayed_graph();

    OK(tarn_pool_release(world.pool));
    world.pool = test_pool("next");
    OK(tarn_graph_destroy(graph));
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

TEST(late, a_pool_and_a_device_end_directly_behind_their_graphs)
{
    OK(tarn_graph_destroy(replayed_graph()));
    OK(tarn_pool_destroy(world.pool));
    world.pool = test_pool("next");
    OK(tarn_graph_destroy(replayed_graph()));
    OK(tarn_pool_release(world.pool));
    world.pool = NULL;
    OK(tarn_device_close(world.device));
    world.device = NULL;
}

TEST(late, an_allocation_gets_the_memory_of_a_graph_that_was_just_destroyed)
{
    void *block = NULL;

    OK(tarn_pool_set_limit(world.pool, bytes));
    OK(tarn_graph_destroy(replayed_graph()));
    OK(tarn_pool_malloc(world.pool, bytes, 0, world.side, &block));
    OK(tarn_free(block));
}

static void expect_held(uint64_t graphs, uint64_t held)
{
    tarn_stats stats = {.size = sizeof stats, .walk = true};

    ck_assert_uint_eq(test_stats(world.pool).graph_count, graphs);
    ck_assert_uint_eq(test_stats(world.pool).held_graph_count, held);
    OK(tarn_pool_stats(world.pool, &stats));
    ck_assert_uint_eq(stats.graph_count, graphs);
    ck_assert_uint_eq(stats.held_graph_count, held);
    OK(tarn_device_stats(world.device, &stats));
    ck_assert_uint_eq(stats.held_graph_count, held);
    ck_assert_uint_eq(stats.graph_bytes, held > 0 ? bytes : 0);
}

TEST(late, a_graph_whose_executable_the_program_has_is_counted)
{
    tarn_graph *graph = replayed_graph();
    tarn_driver_graph nodes = NULL;
    tn_cu_graphexec exec;
    size_t freed = 7;

    OK(tarn_graph_driver_handles(graph, &nodes, NULL));
    exec = test_instantiate(nodes);
    expect_held(1, 1);
    OK(tarn_graph_destroy(graph));
    expect_held(0, 1);
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_eq(freed, 0);
    expect_held(0, 1);
    REFUSE(TARN_ERR_BUSY, "an executable or a clone", tarn_pool_destroy(world.pool));
    REFUSE(TARN_ERR_BUSY, "1 graphs keep memory", tarn_device_close(world.device));
    test_destroy_exec(exec);
    test_await_destructors(0);
    expect_held(0, 0);
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_eq(freed, bytes);
}
