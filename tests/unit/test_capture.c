// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include "pools/route.h"
#include "support/bodies.h"
#include "support/liar.h"
#include "support/world.h"
#include "unit/one_pool.h"

static tarn_sim_ledger before;

static void set_up(void)
{
    make_pool();
    before = test_ledger();
}

GROUP(begin, set_up)

/* G1, G2: from the first moment. */
TEST(begin, an_open_capture_has_its_route_hold_and_user_object)
{
    tarn_capture *capture = unit_begin(pool, stream);
    struct tn_hold *hold;

    ck_assert_int_eq(capture->stage, TN_CAPTURE_OPEN);
    ck_assert_uint_eq(capture->magic, TN_CAPTURE_MAGIC);
    ck_assert_uint_eq(pool->claims.capture_count, 1);
    ck_assert_uint_eq(pool->claims.route_count, 1);
    ck_assert_ptr_eq(device->routes.routes[0]->pool, pool);
    ck_assert_uint_eq(device->routes.routes[0]->capture_id, capture->capture_id);
    hold = unit_find_hold(pool, capture->capture_id);
    ck_assert_ptr_nonnull(hold);
    ck_assert(hold->owned);
    ck_assert_uint_eq(test_ledger().user_objects, before.user_objects + 1);
    OK(tarn_capture_abort(capture));
    unit_expect_no_capture(pool, &before);
}

GROUP(end, set_up)

TEST(end, an_ended_capture_leaves_a_graph_and_its_hold)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *address;
    tarn_graph *graph;

    OK(tarn_malloc(device, 4096, stream, &address)); /* by the route */
    ck_assert_ptr_eq(atomic_load(&unit_segment(address)->owner), pool);
    graph = unit_end(capture);
    ck_assert_uint_eq(capture->magic, 0);
    ck_assert_uint_eq(pool->claims.capture_count, 0);
    ck_assert_uint_eq(pool->claims.route_count, 0);
    ck_assert_uint_eq(pool->claims.graph_count, 1);
    ck_assert_uint_eq(pool->holds.count, 1);
    ck_assert_uint_eq(pool->holds.open_count, 0);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 1);
    ck_assert_int_eq(unit_block(address)->state, TN_BLOCK_LIVE); /* the graph's output */
    OK(tarn_graph_destroy(graph));
    unit_expect_no_capture(pool, &before);
    OK(tarn_free(address));
}

TEST(begin, a_capture_is_refused_where_it_cannot_be)
{
    tarn_capture *capture = NULL;
    tarn_pool *second = unit_pool(device);
    tarn_capture *running;

    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_capture_begin(pool, NULL, NULL, &capture));
    STATUS(TARN_ERR_WRONG_STATE, tn_capture_begin(device->default_pool, stream, NULL, &capture));
    unit_expect_no_capture(pool, &before);
    running = unit_begin(pool, stream);
    STATUS(TARN_ERR_WRONG_STATE,
           tn_capture_begin(second, stream, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL), &capture));
    unit_expect_sentence("already being captured");
    ck_assert_uint_eq(second->claims.route_count, 0);
    ck_assert_ptr_null(capture);
    OK(tarn_graph_destroy(unit_end(running)));
    unit_expect_no_capture(pool, &before);
}

TEST(begin, a_begin_that_the_driver_refuses_leaves_nothing)
{
    uint64_t failed = 1;
    tarn_capture *capture = NULL;

    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        sim.plan_fault(NULL, nth, 0, TN_CUDA_ERROR_INVALID_VALUE);
        status = tn_capture_begin(pool, stream, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL), &capture);
        failed = sim.clear_fault(NULL);
        if (status != TARN_OK) {
            ck_assert_int_eq(status, TARN_ERR_DRIVER);
            ck_assert_ptr_null(capture);
            unit_expect_no_capture(pool, &before);
        }
    }
    ck_assert_ptr_nonnull(capture);
    OK(tarn_capture_abort(capture));
    unit_expect_no_capture(pool, &before);
}

TEST(begin, a_capture_that_the_driver_only_says_it_began_is_none)
{
    const struct tn_driver *driver = device->gpu.driver;
    const struct tn_driver liar = test_beginning_nothing(driver);
    tarn_capture *capture = NULL;

    device->gpu.driver = &liar;
    STATUS(TARN_ERR_DRIVER,
           tn_capture_begin(pool, stream, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL), &capture));
    unit_expect_sentence("does not know it");
    device->gpu.driver = driver;
    ck_assert_ptr_null(capture);
    unit_expect_no_capture(pool, &before);
    OK(tn_gpu_check(&device->gpu));
    OK(tarn_graph_destroy(unit_end(unit_begin(pool, stream))));
    unit_expect_no_capture(pool, &before);
}

TEST(begin, a_begin_without_host_memory_leaves_nothing)
{
    uint64_t failed = 1;
    tarn_capture *capture = NULL;
    int met = 0;

    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tn_capture_begin(pool, stream, CAPTURE_MODE(TARN_CAPTURE_THREAD_LOCAL), &capture);
        failed = tn_host_plan_fault(0, false);
        if (failed > 0) {
            met += 1;
            ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
            unit_expect_no_capture(pool, &before);
        }
    }
    ck_assert_int_ge(met, 2);
    OK(tarn_capture_abort(capture));
}

struct end_call {
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_status status;
};

static void end_capture(void *argument)
{
    struct end_call *call = argument;

    call->status = tn_capture_end(call->capture, &call->graph);
}

TEST(end, only_the_beginning_thread_may_end_unless_relaxed)
{
    struct end_call call = {unit_begin(pool, stream), NULL, TARN_OK};
    tarn_graph *graph;

    test_elsewhere(end_capture, &call);
    ck_assert_int_eq(call.status, TARN_ERR_WRONG_THREAD);
    ck_assert_int_eq(call.capture->stage, TN_CAPTURE_OPEN); /* nothing is lost */
    graph = unit_end(call.capture);
    OK(tarn_graph_destroy(graph));
    OK(tarn_capture_begin(pool, stream, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &call.capture));
    test_elsewhere(end_capture, &call);
    ck_assert_int_eq(call.status, TARN_OK);
    OK(tarn_graph_destroy(call.graph));
    unit_expect_no_capture(pool, &before);
}

TEST(end, an_end_that_cannot_instantiate_may_be_repeated)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph = NULL;

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_capture_end(capture, &graph));
    ck_assert_int_eq(capture->stage, TN_CAPTURE_STOPPED);
    ck_assert_ptr_null(graph);
    ck_assert_uint_eq(pool->claims.route_count, 1); /* G1: not gone yet */
    ck_assert_ptr_nonnull(unit_find_hold(pool, capture->capture_id));
    sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_capture_end(capture, &graph));
    OK(tn_capture_end(capture, &graph));
    OK(tarn_graph_destroy(graph));
    unit_expect_no_capture(pool, &before);
}

GROUP(abort, set_up)

TEST(abort, a_stopped_capture_may_be_aborted)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph = NULL;

    sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_capture_end(capture, &graph));
    tn_capture_abort(capture);
    unit_expect_no_capture(pool, &before);
}

static void abort_capture(void *capture)
{
    tn_capture_abort(capture);
}

TEST(abort, any_thread_may_abort)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *inside = unit_alloc(pool, 4096, stream);
    void *freed = unit_alloc(pool, 8192, stream);

    OK(tarn_free(freed));
    test_elsewhere(abort_capture, capture);
    ck_assert_int_eq(unit_block(inside)->state, TN_BLOCK_DISCARDED);
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(freed)); /* frees stand */
    OK(tarn_free(inside));
    unit_expect_no_capture(pool, &before);
    ck_assert_uint_eq(unit_stats(pool).captured_bytes, 0);
}

TEST(abort, blocks_from_before_an_aborted_capture_stay_live)
{
    void *outside = unit_alloc(pool, 4096, other);
    tarn_capture *capture = unit_begin(pool, stream);

    (void)unit_alloc(pool, 4096, stream);
    tn_capture_abort(capture);
    ck_assert_int_eq(unit_block(outside)->state, TN_BLOCK_LIVE);
    ck_assert_uint_eq(tn_pool_live_count(pool), 1);
    OK(tarn_free(outside));
}

/* G1: a caller who ends the route of a capture would break it. */
TEST(begin, the_route_of_a_capture_is_not_ended_by_hand)
{
    tarn_route *route;
    tarn_capture *capture;

    OK(tarn_begin_allocate_to_pool(device, pool, tarn_filter_thread, NULL, &route));
    OK(tarn_end_allocate_to_pool(route));
    capture = unit_begin(pool, stream);
    ck_assert_ptr_eq(device->routes.routes[0], route); /* the record that the handle is of */
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_end_allocate_to_pool(route));
    ck_assert_uint_eq(pool->claims.route_count, 1);
    OK(tarn_graph_destroy(unit_end(capture)));
    unit_expect_no_capture(pool, &before);
}

/* G1 */
CONTRACT_TEST(abort, a_capture_that_its_hold_does_not_know_is_a_broken_contract)
{
    tarn_capture *capture = unit_begin(pool, stream);

    tn_hold_find_owned(&pool->holds, capture->capture_id)->owner_gone = NULL;
    tn_capture_abort(capture);
}

TEST(begin, a_pool_may_have_several_captures)
{
    tarn_capture *first = unit_begin(pool, stream);
    tarn_capture *second = unit_begin(pool, other);
    void *in_first;
    void *in_second;
    tarn_graph *graph;

    ck_assert_uint_eq(pool->claims.capture_count, 2);
    ck_assert_uint_eq(pool->holds.open_count, 2);
    ck_assert_uint_eq(pool->claims.route_count, 2);
    OK(tarn_malloc(device, 4096, stream, &in_first));
    OK(tarn_malloc(device, 4096, other, &in_second));
    ck_assert_uint_eq(tn_block_order(unit_block(in_first)).capture_id, first->capture_id);
    ck_assert_uint_eq(tn_block_order(unit_block(in_second)).capture_id, second->capture_id);
    ck_assert_ptr_ne(unit_chunk(in_first), unit_chunk(in_second));
    tn_capture_abort(first);
    ck_assert_int_eq(unit_block(in_first)->state, TN_BLOCK_DISCARDED);
    ck_assert_int_eq(unit_block(in_second)->state, TN_BLOCK_LIVE);
    ck_assert_uint_eq(pool->claims.capture_count, 1);
    ck_assert_ptr_nonnull(unit_find_hold(pool, second->capture_id));
    OK(tarn_free(in_first));
    OK(tarn_free(in_second));
    graph = unit_end(second);
    OK(tarn_graph_destroy(graph));
    unit_expect_no_capture(pool, &before);
}

TEST(abort, a_capture_that_the_driver_drops_gives_up_its_claims)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *block = unit_alloc(pool, 4096, stream);
    tarn_graph *graph = NULL;

    test_destroy_stream(stream);
    unit_await_gone(capture);
    unit_expect_no_capture(pool, &before);
    ck_assert_uint_eq(capture->magic, TN_CAPTURE_MAGIC); /* its handle is good for abort */
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    unit_expect_sentence("tarn_capture_abort");
    ck_assert_ptr_null(graph);
    ck_assert_int_eq(unit_block(block)->state, TN_BLOCK_LIVE);
    OK(tarn_capture_abort(capture));
    ck_assert_uint_eq(capture->magic, 0);
    ck_assert_int_eq(unit_block(block)->state, TN_BLOCK_DISCARDED);
    OK(tarn_free(block));
}

TEST(abort, the_handle_of_a_dropped_capture_outlives_pool_and_device)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph = NULL;

    test_destroy_graph(test_end_capture(stream));
    unit_await_gone(capture);
    OK(tarn_pool_destroy(pool));
    OK(tarn_device_close(device));
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    OK(tarn_capture_abort(capture));
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_capture_abort(capture));
}

/* The caller destroyed the stopped capture's graph, and another thread has reaped its hold. */
TEST(end, a_capture_whose_hold_goes_while_it_is_seized_is_given_back_as_gone)
{
    tarn_capture *capture = unit_begin(pool, stream);
    struct tn_section section;
    tarn_graph *graph = NULL;

    OK(tn_capture_seize(capture, &section));
    ck_assert_int_eq(capture->stage, TN_CAPTURE_STOPPED);
    test_destroy_graph(section.graph);
    unit_reap_all(pool);
    ck_assert(!atomic_load(&capture->gone)); /* the claims are the call's */
    ck_assert_uint_eq(pool->claims.capture_count, 1);
    ck_assert_uint_eq(pool->claims.route_count, 1);
    tn_capture_let_go(capture);
    ck_assert(atomic_load(&capture->gone));
    unit_expect_no_capture(pool, &before);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    OK(tarn_capture_abort(capture));
    unit_expect_no_capture(pool, &before);
}

TEST(abort, an_abort_discards_in_every_pool)
{
    tarn_pool *second = unit_pool(device);
    tarn_capture *capture = unit_begin(pool, stream);
    void *block = unit_alloc(second, 4096, stream);

    OK(tarn_capture_abort(capture));
    ck_assert_int_eq(unit_block(block)->state, TN_BLOCK_DISCARDED);
    ck_assert_uint_eq(tn_pool_live_count(second), 0);
    OK(tarn_free(block));
    unit_expect_no_capture(pool, &before);
}

/* Where the driver's capture is stopped, or broken since a fork is not joined, the graph has gone at that. */
enum { OPEN, STOPPED, UNJOINED, ABORTS };

/* A clone that the program has made of the graph keeps the memory, and goes by no handle of what is gone. */
TEST_LOOP(abort, a_hold_that_a_clone_keeps_of_an_aborted_capture_has_no_graph, 0, ABORTS)
{
    struct tn_stream_state state;
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph;
    tn_cu_graph clone;

    (void)unit_alloc(pool, 4096, stream);
    OK(tn_stream_look(&device->gpu, stream, TN_STREAM_GRAPH, &state));
    clone = test_clone(state.capture_graph);
    if (_i == STOPPED) {
        sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
        STATUS(TARN_ERR_DEVICE_MEMORY, tn_capture_end(capture, &graph));
    } else if (_i == UNJOINED) {
        test_order(stream, other);
        test_fill(other, unit_alloc(pool, 4096, other), 1, 16);
        STATUS(TARN_ERR_CAPTURE_BROKEN, tn_capture_end(capture, &graph));
    }
    tn_capture_abort(capture);
    test_await_destructors(1);
    ck_assert_uint_eq(pool->holds.count, 1);
    ck_assert(!pool->holds.first->open);
    ck_assert_ptr_null(pool->holds.first->graph);
    ck_assert_ptr_null(pool->holds.first->keeper);
    test_destroy_graph(clone);
    test_await_destructors(0);
}

static void abort_elsewhere(void *capture)
{
    OK(tarn_capture_abort(capture));
}

/* The same of one whose end was left to that of a body, on the thread's own stream. */
TEST(abort, nor_has_one_of_a_capture_that_is_left_to_a_body)
{
    struct tn_stream_state state;
    tarn_capture *outer;
    tarn_capture *body;
    struct test_node node;
    tn_cu_graph clone;

    OK(tarn_capture_begin(pool, stream, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &outer));
    (void)unit_alloc(pool, 4096, stream);
    OK(tn_stream_look(&device->gpu, stream, TN_STREAM_GRAPH, &state));
    clone = test_clone(state.capture_graph);
    node = test_add_conditional(stream, TN_CU_GRAPH_COND_IF, 1, 1);
    OK(tarn_capture_begin(pool, TN_CU_STREAM_PER_THREAD,
                          CAPTURE_INTO(outer, 1, node.bodies[0], TARN_CAPTURE_RELAXED), &body));
    test_elsewhere(abort_elsewhere, outer);
    OK(tarn_capture_abort(body));
    ck_assert_ptr_nonnull(pool->holds.first);
    for (const struct tn_hold *hold = pool->holds.first; hold != NULL; hold = hold->next) {
        ck_assert(!hold->open);
        ck_assert_ptr_null(hold->keeper);
        ck_assert(hold->graph == NULL || hold->graph == node.bodies[0]);
    }
    test_destroy_graph(clone);
}
