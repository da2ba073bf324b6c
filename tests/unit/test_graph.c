// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include "graphs/replay.h"
#include "support/liar.h"
#include "support/world.h"
#include "unit/one_pool.h"

static void *words; /* outside the pool: what the graphs add to */
static tarn_sim_ledger before;

static void set_up(void)
{
    make_pool();
    words = unit_words(stream);
    before = test_ledger();
}

GROUP(replay, set_up)

TEST(replay, a_graph_replays_any_number_of_times)
{
    tarn_graph *graph = unit_end(unit_adding(pool, stream, words, 3));

    ck_assert_uint_eq(graph->magic, TN_GRAPH_MAGIC);
    for (int i = 0; i < 5; i++)
        OK(tn_graph_replay(graph, stream));
    test_expect_words(stream, words, 15, 16);
    tn_graph_destroy(graph);
    ck_assert_uint_eq(graph->magic, 0);
    ck_assert_uint_eq(pool->claims.graph_count, 0);
    unit_reap_all(pool);
    ck_assert_uint_eq(test_ledger().graphs, before.graphs);
    ck_assert_uint_eq(test_ledger().graph_execs, before.graph_execs);
    ck_assert_uint_eq(test_ledger().user_objects, before.user_objects);
}

TEST(replay, a_captured_block_keeps_its_bytes_between_replays)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *output = unit_alloc(pool, 4096, stream);
    tarn_graph *graph;

    test_fill(stream, output, 7, 1024);
    graph = unit_end(capture);
    OK(tn_graph_replay(graph, stream));
    test_expect_words(stream, output, 7, 1024);
    test_fill(stream, output, 8, 1024);
    OK(tn_graph_replay(graph, stream));
    test_expect_words(stream, output, 7, 1024);
}

GROUP(adopt, set_up)

TEST(adopt, a_users_graph_is_adopted_with_its_holds)
{
    tn_cu_graph driver_graph;
    tarn_graph *graph;
    void *block;
    tarn_route *route;

    OK(tarn_begin_allocate_to_pool(device, pool, tarn_filter_capture, stream, &route));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    OK(tarn_malloc(device, 4096, stream, &block));
    test_add(stream, words, 5, 16);
    OK(tarn_free(block));
    driver_graph = test_end_capture(stream);
    ck_assert_uint_eq(pool->holds.open_count, 1);
    OK(tn_graph_adopt(pool, driver_graph, &graph)); /* before the route's end */
    ck_assert_uint_eq(pool->holds.open_count, 0);
    OK(tarn_end_allocate_to_pool(route));
    ck_assert_uint_eq(pool->claims.graph_count, 1);
    ck_assert_uint_eq(unit_chunk(block)->hold_count, 1);
    OK(tn_graph_replay(graph, stream));
    test_expect_words(stream, words, 5, 16);
    tn_graph_destroy(graph); /* the driver's graph with it */
    unit_reap_all(pool);
    ck_assert_uint_eq(test_ledger().graphs, before.graphs);
}

TEST(adopt, a_graph_that_cannot_be_adopted_is_still_the_callers)
{
    tn_cu_graph driver_graph;
    tarn_graph *graph = NULL;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    test_add(stream, words, 5, 16);
    driver_graph = test_end_capture(stream);
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_graph_adopt(pool, driver_graph, &graph));
    sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_graph_adopt(pool, driver_graph, &graph));
    ck_assert_ptr_null(graph);
    ck_assert_uint_eq(pool->claims.graph_count, 0);
    ck_assert_uint_eq(test_node_count(driver_graph), 1);
    OK(tn_graph_adopt(pool, driver_graph, &graph));
    tn_graph_destroy(graph);
}

GROUP(refused, set_up)

TEST(refused, a_replay_that_cannot_be_is_refused)
{
    tarn_graph *graph = unit_end(unit_adding(pool, stream, words, 1));

    sim.plan_fault("cuGraphLaunch", 1, 0, TN_CUDA_ERROR_INVALID_VALUE);
    STATUS(TARN_ERR_DRIVER, tn_graph_replay(graph, stream));
    tn_gpu_teardown(&device->gpu, TN_CUDA_ERROR_UNKNOWN, "cuMemUnmap");
    STATUS(TARN_ERR_POISONED, tn_graph_replay(graph, stream));
    tn_gpu_teardown(&device->gpu, TN_CUDA_ERROR_LAUNCH_FAILED, "cuMemFree");
    STATUS(TARN_ERR_DEVICE_LOST, tn_graph_replay(graph, stream));
    tn_graph_destroy(graph); /* still works */
}

TEST(refused, a_refused_destruction_poisons)
{
    tarn_graph *graph = unit_end(unit_adding(pool, stream, words, 1));

    sim.plan_fault("cuGraphExecDestroy", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    tn_graph_destroy(graph);
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&device->gpu));
    ck_assert_uint_eq(pool->claims.graph_count, 0);
}

GROUP(list, set_up)

TEST(list, a_device_lists_its_graphs_until_they_are_destroyed)
{
    tarn_graph *graphs[3];

    for (int i = 0; i < 3; i++)
        graphs[i] = unit_end(unit_adding(i < 2 ? pool : unit_pool(device), stream, words, 1));
    ck_assert_ptr_eq(device->graphs, graphs[2]);
    ck_assert_ptr_eq(graphs[2]->next, graphs[1]);
    ck_assert_ptr_eq(graphs[1]->next, graphs[0]);
    ck_assert_ptr_null(graphs[0]->next);
    tn_graph_destroy(graphs[1]);
    ck_assert_ptr_eq(graphs[2]->next, graphs[0]);
    tn_graph_destroy(graphs[2]);
    ck_assert_ptr_eq(device->graphs, graphs[0]);
    tn_graph_destroy(graphs[0]);
    ck_assert_ptr_null(device->graphs);
}

TEST(list, a_graph_that_was_not_made_is_not_listed)
{
    tarn_capture *capture = unit_adding(pool, stream, words, 1);
    tarn_graph *graph = NULL;

    sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_capture_end(capture, &graph));
    ck_assert_ptr_null(device->graphs);
    OK(tarn_capture_end(capture, &graph));
    ck_assert_ptr_eq(device->graphs, graph);
    tn_graph_destroy(graph);
}

/* Free memory that has become more was given back by someone else. */
TEST(list, an_executable_costs_what_the_device_has_less_behind_it)
{
    static const size_t told[] = {9 * GIB, 9 * GIB - 6 * MIB, GIB, GIB, GIB, 2 * GIB, MIB, 0};
    static const uint64_t costs[] = {6 * MIB, 0, 0, MIB};
    const struct tn_driver *driver = device->gpu.driver;
    const struct tn_driver liar = test_telling_free_bytes(driver, told);

    for (int i = 0; i < 4; i++) {
        tarn_capture *capture = unit_adding(pool, stream, words, 1);
        tarn_graph *graph;

        device->gpu.driver = &liar;
        graph = unit_end(capture);
        device->gpu.driver = driver;
        ck_assert_uint_eq(graph->exec_bytes, costs[i]);
        tn_graph_destroy(graph);
    }
    ck_assert_uint_eq(atomic_load(&device->exec_bytes), 7 * MIB);
}

CONTRACT_TEST(refused, a_graph_enters_no_pool_that_another_thread_may_change)
{
    tarn_graph *graph = unit_graph(pool, stream, 4096, NULL);

    atomic_store(&graph->magic, 0);
    tn_graph_commit(graph, NULL);
}

CONTRACT_TEST(refused, a_graph_is_not_destroyed_under_a_lock)
{
    tarn_graph *graph = unit_graph(pool, stream, 4096, NULL);

    tn_lock_acquire(&pool->device->lock);
    tn_graph_destroy(graph);
}
