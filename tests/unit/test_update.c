// SPDX-License-Identifier: Apache-2.0
#include "graphs/replay.h"
#include "graphs/update.h"
#include "support/world.h"
#include "unit/one_pool.h"

static void *words; /* outside the pool: what the graphs add to */

static void set_up(void)
{
    make_pool();
    words = unit_words(stream);
}

GROUP(update, set_up)

TEST(update, the_capture_becomes_the_graphs_template)
{
    tarn_graph *graph = unit_end(unit_adding(pool, stream, words, 1));
    tarn_capture *capture = unit_adding(pool, stream, words, 10);
    tn_cu_graph before = graph->driver_graph;

    OK(tn_graph_update(graph, capture));
    ck_assert_uint_eq(capture->magic, 0);
    ck_assert(graph->driver_graph != before);
    ck_assert_uint_eq(pool->claims.graph_count, 1);
    ck_assert_uint_eq(pool->claims.capture_count, 0);
    ck_assert_uint_eq(pool->claims.route_count, 0);
    ck_assert_uint_eq(pool->holds.open_count, 0);
    OK(tn_graph_replay(graph, stream));
    test_expect_words(stream, words, 10, 16);
}

/* G3: the old hold may belong to a launch that runs, and the sections share memory. */
TEST(update, replays_are_ordered_after_an_update)
{
    tarn_graph *graph = unit_end(unit_adding(pool, stream, words, 1));

    OK(tn_graph_replay(graph, stream));
    ck_assert(!atomic_load(&pool->replays->serialized));
    OK(tn_graph_update(graph, unit_adding(pool, stream, words, 10)));
    ck_assert(atomic_load(&pool->replays->serialized));
}

TEST(update, a_refused_capture_stays_stopped)
{
    tarn_graph *graph = unit_end(unit_adding(pool, stream, words, 1));
    tarn_capture *capture = unit_adding(pool, stream, words, 10);
    tn_cu_graph before = graph->driver_graph;

    sim.plan_fault("cuGraphExecUpdate", 1, 0, TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    STATUS(TARN_ERR_CANNOT_UPDATE, tn_graph_update(graph, capture));
    ck_assert_int_eq(capture->stage, TN_CAPTURE_STOPPED);
    ck_assert(graph->driver_graph == before);
    ck_assert_uint_eq(pool->claims.capture_count, 1);
    ck_assert(!atomic_load(&pool->replays->serialized));
    tn_capture_abort(capture);
    ck_assert_uint_eq(pool->claims.capture_count, 0);
}
