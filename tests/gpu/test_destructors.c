// SPDX-License-Identifier: Apache-2.0
/* What the library takes the destructor of a graph's user object for: that the last launch has ended. And what
 * it makes of that: pools go without a wait, and a trim behind the end of a graph gives its memory back. */
#include <stdatomic.h>
#include <stdio.h>

#include "support/nodes.h"
#include "support/world.h"

enum { STREAMS = 4, LAUNCHES = 8, ROUNDS = 25 };

static const size_t bytes = 8 * MIB;

static tn_cu_stream streams[STREAMS];
static uint32_t *ends; /* page-locked; each launch adds 1 when all else of it has ended */
static atomic_int destructor_count;
static atomic_uint seen; /* what the destructor read there */

static void open_streams(void)
{
    test_world_open();
    for (int i = 0; i < STREAMS; i++)
        streams[i] = test_stream();
    ends = test_host_alloc(4096);
    memset(ends, 0, 4096);
    atomic_store(&destructor_count, 0);
}

static void close_streams(void)
{
    for (int i = 0; i < STREAMS; i++)
        test_destroy_stream(streams[i]);
    test_host_free(ends);
    test_world_close();
}

static void note_end(void *unused)
{
    (void)unused;
    atomic_store(&seen, ((volatile uint32_t *)ends)[0]);
    atomic_fetch_add(&destructor_count, 1);
}

/* A kernel of some ms, and behind it one that counts. */
static tn_cu_graph counting_graph(uint32_t spin_ms)
{
    tn_cu_userobject object;
    tn_cu_graph graph;

    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_spin(world.stream, spin_ms);
    test_add(world.stream, ends, 1, 1);
    graph = test_end_capture(world.stream);
    CU_OK(cu.cuUserObjectCreate(&object, NULL, note_end, 1, TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    CU_OK(cu.cuGraphRetainUserObject(graph, object, 1, TN_CU_GRAPH_USER_OBJECT_MOVE));
    return graph;
}

static void await_destructors(int count)
{
    int64_t deadline = test_deadline();

    while (atomic_load(&destructor_count) < count && test_pause(deadline))
        continue;
    ck_assert_int_eq(atomic_load(&destructor_count), count);
}

GROUP(destructors, open_streams, close_streams)

/* _i: what is destroyed first. */
TEST_LOOP(destructors, the_destructor_runs_behind_the_end_of_the_last_of_many_launches, 0, 2)
{
    uint32_t launches = 0;

    for (int round = 0; round < ROUNDS; round++) {
        tn_cu_graph graph = counting_graph(round % 5 == 0 ? 20 : 1);
        tn_cu_graphexec execs[2] = {test_instantiate(graph), test_instantiate(graph)};

        for (int i = 0; i < LAUNCHES; i++)
            test_launch(execs[0], streams[i % STREAMS]);
        launches += LAUNCHES;
        if (round % 2 == 1) { /* the executable that is launched last may be gone first */
            for (int i = 1; i < STREAMS;
                 i++) /* two launches beside each other would lose an addition */
                test_order(streams[i], streams[0]);
            test_launch(execs[1], streams[0]);
            launches += 1;
        }
        if (_i == 0)
            test_destroy_graph(graph);
        test_destroy_exec(execs[0]);
        test_destroy_exec(execs[1]);
        if (_i == 1)
            test_destroy_graph(graph);
        await_destructors(round + 1);
        ck_assert_uint_eq(atomic_load(&seen), launches);
    }
}

TEST(destructors, the_destructor_of_an_updated_graph_runs_behind_its_last_launch)
{
    uint32_t launches = 0;

    for (int round = 0; round < ROUNDS; round++) {
        tn_cu_graph graph = counting_graph(5);
        tn_cu_graph other = counting_graph(1);
        tn_cu_graphexec exec = test_instantiate(graph);

        for (int i = 0; i < LAUNCHES; i++)
            test_launch(exec, streams[i % STREAMS]);
        launches += LAUNCHES;
        test_destroy_graph(graph);
        test_update_exec(exec, other);
        await_destructors(2 * round + 1);
        ck_assert_uint_eq(atomic_load(&seen), launches);
        test_destroy_graph(other);
        test_destroy_exec(exec);
        await_destructors(2 * round + 2);
    }
}

static void await_pools(uint64_t count)
{
    int64_t deadline = test_deadline();

    while (test_device_stats().pool_count > count && test_pause(deadline))
        continue;
    ck_assert_uint_eq(test_device_stats().pool_count, count);
}

static void await_holds(tarn_pool *pool)
{
    int64_t deadline = test_deadline();

    while (test_stats(pool).held_graph_count > 0 && test_pause(deadline))
        continue;
    ck_assert_uint_eq(test_stats(pool).held_graph_count, 0);
}

TEST(destructors, adopted_pools_go_behind_running_launches_without_a_wait)
{
    uint64_t waits = test_device_stats().idle_waits;

    for (int round = 0; round < 50; round++) {
        tn_cu_graph graph;
        tn_cu_graphexec exec;
        void *block;

        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
        block = test_malloc(bytes);
        test_spin(world.stream, 2);
        test_fill(world.stream, block, 7, bytes / 4);
        OK(tarn_free(block));
        graph = test_end_capture(world.stream);
        exec = test_instantiate(graph);
        for (int i = 0; i < round % 4; i++)
            test_launch(exec, streams[i]);
        test_destroy_exec(exec);
        test_destroy_graph(graph);
        await_pools(2);
        ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    }
    ck_assert_uint_eq(test_device_stats().idle_waits, waits);
    for (int i = 0; i < STREAMS; i++)
        ck_assert_int_eq(test_stream_result(streams[i]), TN_CUDA_SUCCESS);
}

static tarn_graph *replayed_graph(uint32_t spin_ms)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    tarn_graph *graph;
    void *block = test_alloc(world.pool, bytes, world.stream);

    if (spin_ms > 0)
        test_spin(world.stream, spin_ms);
    test_fill(world.stream, block, 7, bytes / 4);
    OK(tarn_free(block));
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    return graph;
}

/* _i: launches that have ended, or run. */
TEST_LOOP(destructors, a_trim_behind_the_end_of_a_graph_gives_its_memory_back, 0, 2)
{
    for (int round = 0; round < 200; round++) {
        size_t freed = 0;
        tarn_graph *graph = replayed_graph(_i == 0 ? 0 : 1);

        if (_i == 0)
            test_synchronize(world.stream);
        OK(tarn_graph_destroy(graph));
        if (_i == 0 && round % 2 == 0)
            test_synchronize(world.stream);
        if (round % 4 < 2)
            OK(tarn_pool_trim(world.pool, &freed));
        else
            OK(tarn_device_trim(world.device, 0, &freed));
        ck_assert_uint_eq(freed, bytes);
        ck_assert_uint_eq(test_stats(world.pool).held_graph_count, 0);
    }
    ck_assert_int_eq(test_stream_result(world.stream), TN_CUDA_SUCCESS);
}

TEST(destructors, pools_end_behind_the_end_of_their_graphs)
{
    for (int round = 0; round < 50; round++) {
        OK(tarn_graph_destroy(replayed_graph((uint32_t)(round % 3))));
        OK(tarn_pool_destroy(world.pool));
        world.pool = test_pool("next");
    }
    ck_assert_int_eq(test_stream_result(world.stream), TN_CUDA_SUCCESS);
}

/* The driver gives most of these graphs the handle of the one before. The program keeps executables alone. */
TEST(destructors, a_graph_with_the_handle_of_a_destroyed_one_is_another)
{
    enum { GRAPHS = 50 };
    tn_cu_graphexec execs[GRAPHS];
    tn_cu_graph former = NULL;
    int same = 0;

    for (uint64_t i = 0; i < GRAPHS; i++) {
        tarn_route *route = test_route(world.pool, tarn_filter_capture, world.stream);
        tn_cu_graph graph;
        void *block;

        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
        OK(tarn_malloc(world.device, bytes, world.stream, &block));
        test_fill(world.stream, block, 7, bytes / 4);
        OK(tarn_free(block));
        graph = test_end_capture(world.stream);
        OK(tarn_end_allocate_to_pool(route));
        same += graph == former;
        former = graph;
        execs[i] = test_instantiate(graph);
        test_destroy_graph(graph);
        OK(tarn_device_collect(world.device)); /* sees that the capture is over */
        ck_assert_uint_eq(test_stats(world.pool).held_graph_count, i + 1);
    }
    printf("%d of %d graphs had the handle of the one before\n", same, GRAPHS);
    for (int i = 0; i < GRAPHS; i++)
        test_destroy_exec(execs[i]);
    await_holds(world.pool); /* a trim waits 250 us for graphs that the program destroyed itself */
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
}
