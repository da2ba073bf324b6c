// SPDX-License-Identifier: Apache-2.0
#include "graphs/admit.h"

#include "pools/captures.h"
#include "pools/free.h"
#include "pools/route.h"
#include "support/world.h"
#include "unit/one_pool.h"

static tarn_sim_ledger before;

/* What another thread does before the library looks whether a capture is to be known: it ends the route, or aborts
 * that capture, and destroys the pool, with that answer. */
static bool ends_pool;
static tarn_capture *aborted; /* NULL: the route is ended */
static tarn_route *route;
static tarn_status ended;

static void end_pool(void *argument)
{
    (void)argument;
    if (aborted != NULL)
        OK(tarn_capture_abort(aborted));
    else
        OK(tarn_end_allocate_to_pool(route));
    ended = tarn_pool_destroy(pool);
}

static void meet_the_end(void)
{
    if (ends_pool)
        test_elsewhere(end_pool, NULL);
    ends_pool = false;
}

bool __real_tn_capture_notice(tarn_pool *of);
bool __wrap_tn_capture_notice(tarn_pool *of);
bool __wrap_tn_capture_notice(tarn_pool *of)
{
    meet_the_end();
    return __real_tn_capture_notice(of);
}

tarn_status __real_tn_capture_admit(tarn_pool *to, tarn_stream at, struct tn_order order,
                                    uint64_t route_id);
tarn_status __wrap_tn_capture_admit(tarn_pool *to, tarn_stream at, struct tn_order order,
                                    uint64_t route_id);
tarn_status __wrap_tn_capture_admit(tarn_pool *to, tarn_stream at, struct tn_order order,
                                    uint64_t route_id)
{
    meet_the_end();
    return __real_tn_capture_admit(to, at, order, route_id);
}

static void set_up(void)
{
    make_pool();
    before = test_ledger();
}

static struct tn_stream_state look(tn_cu_stream at)
{
    struct tn_stream_state state;

    OK(tn_stream_look(&device->gpu, at, TN_STREAM_GRAPH, &state));
    return state;
}

GROUP(admit, set_up)

TEST(admit, a_users_capture_is_admitted_once)
{
    struct tn_stream_state state;
    struct tn_hold *hold;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    state = look(stream);
    OK(tn_capture_admit(pool, stream, state.order, 1));
    hold = unit_find_hold(pool, state.order.capture_id);
    ck_assert_ptr_nonnull(hold);
    ck_assert(!hold->owned);
    OK(tn_capture_admit(pool, stream, state.order, 1));
    ck_assert_uint_eq(pool->holds.count, 1);
    ck_assert_uint_eq(test_ledger().user_objects, before.user_objects + 1);
    test_destroy_graph(test_end_capture(stream));
    unit_expect_no_capture(pool, &before);
}

TEST(admit, the_next_capture_of_a_stream_ends_the_hold_of_the_last)
{
    struct tn_stream_state first;
    struct tn_stream_state second;
    tn_cu_graph graph;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    first = look(stream);
    OK(tn_capture_admit(pool, stream, first.order, 1));
    graph = test_end_capture(stream);
    ck_assert_uint_eq(pool->holds.open_count, 1); /* nobody has said so yet */
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    second = look(stream);
    OK(tn_capture_admit(pool, stream, second.order, 1));
    ck_assert_ptr_null(unit_find_hold(pool, first.order.capture_id));
    ck_assert_ptr_nonnull(unit_find_hold(pool, second.order.capture_id));
    ck_assert_uint_eq(pool->holds.open_count, 1);
    ck_assert_uint_eq(pool->holds.count, 2);
    test_destroy_graph(graph);
    test_destroy_graph(test_end_capture(stream));
    unit_expect_no_capture(pool, &before);
}

/* G2: without its user object no hold is opened. */
TEST(admit, an_admission_that_the_driver_refuses_leaves_no_hold)
{
    static const char *const calls[] = {"cuUserObjectCreate", "cuGraphRetainUserObject"};
    struct tn_stream_state state;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    state = look(stream);
    for (size_t i = 0; i < 2; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tn_capture_admit(pool, stream, state.order, 1));
        ck_assert_ptr_null(unit_find_hold(pool, state.order.capture_id));
        unit_reap_all(pool);
        ck_assert_uint_eq(test_ledger().user_objects, before.user_objects);
    }
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_capture_admit(pool, stream, state.order, 1));
    OK(tn_capture_admit(pool, stream, state.order, 1));
    test_destroy_graph(test_end_capture(stream));
    unit_expect_no_capture(pool, &before);
}

TEST(admit, a_capture_that_is_shut_admits_nobody)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_pool *second = unit_pool(device);
    struct tn_stream_state state;

    OK(tn_stream_look(&device->gpu, stream, TN_STREAM_GRAPH, &state));
    tn_route_shut_capture(device, capture->route_id, true);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_capture_admit(second, stream, state.order, 0));
    ck_assert_uint_eq(second->holds.count, 0);
    tn_route_shut_capture(device, capture->route_id, false);
    OK(tn_capture_admit(second, stream, state.order, 0));
    ck_assert_uint_eq(second->holds.open_count, 1);
    OK(tarn_capture_abort(capture));
    ck_assert_uint_eq(second->holds.open_count, 0);
    STATUS(TARN_ERR_CAPTURE_BROKEN,
           tn_capture_admit(second, stream, state.order, 0)); /* over by now */
    unit_expect_no_capture(pool, &before);
}

/* What waits for the graph is what was freed after the newest hold that it is known to have. */
TEST(admit, a_graph_gets_a_hold_of_what_was_freed_without_one)
{
    void *block = unit_alloc(pool, 2 * MIB, stream);
    struct tn_chunk *chunk = unit_chunk(block);
    struct tn_stream_state state;
    struct tn_hold *empty;
    tn_cu_graph graph;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    state = look(stream);
    OK(tn_capture_admit(pool, stream, state.order, 1));
    graph = test_end_capture(stream);
    tn_pool_lock(pool);
    tn_hold_close(unit_find_hold(pool, state.order.capture_id));
    tn_pool_free_unheld(pool, unit_block(block));
    ck_assert_uint_eq(pool->pending.unheld_count, 1);
    tn_pool_unlock(pool);
    OK(tn_capture_hold_graph(pool, graph, &empty)); /* whose hold is older than the free */
    ck_assert_uint_eq(pool->pending.unheld_count, 1);
    ck_assert_uint_eq(chunk->hold_count, 0);
    test_destroy_graph(graph);
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    graph = test_end_capture(stream);
    sim.plan_fault("cuUserObjectCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_capture_hold_graph(pool, graph, &empty));
    ck_assert_uint_eq(pool->pending.unheld_count, 1);
    OK(tn_capture_hold_graph(pool, graph, &empty));
    ck_assert_uint_eq(pool->pending.unheld_count, 0);
    ck_assert_uint_eq(chunk->hold_count, 1);
    OK(tn_capture_hold_graph(pool, graph, &empty)); /* nothing waits any more */
    OK(tarn_pool_validate(pool));
    test_destroy_graph(graph);
    unit_expect_no_capture(pool, &before);
    ck_assert_uint_eq(chunk->hold_count, 0);
}

/* _i: 1: the driver does not take it back, and it goes with the graph. */
TEST_LOOP(admit, a_hold_without_memory_is_taken_back, 0, 2)
{
    struct tn_hold *empty;
    tn_cu_graph graph;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    graph = test_end_capture(stream);
    OK(tn_capture_hold_graph(pool, graph, &empty));
    ck_assert_ptr_nonnull(empty);
    ck_assert_uint_eq(pool->holds.count, 1);
    if (_i == 1)
        sim.plan_fault("cuGraphReleaseUserObject", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    tn_capture_unhold_graph(pool, graph, empty);
    ck_assert_uint_eq(sim.clear_fault(NULL), _i == 1);
    test_await_destructors((uint64_t)_i);
    if (_i == 0)
        unit_reap_all(pool);
    ck_assert_uint_eq(pool->holds.count, (uint64_t)_i);
    OK(tarn_pool_validate(pool));
    test_destroy_graph(graph);
    unit_expect_no_capture(pool, &before);
}

static bool noticed;

static void notice(void *unused)
{
    (void)unused;
    noticed = tn_capture_notice(pool);
}

TEST(admit, a_capture_is_noticed_on_its_routes_thread_alone)
{
    OK(tarn_begin_allocate_to_pool(device, pool, tarn_filter_stream, stream, &route));
    test_elsewhere(notice, NULL);
    ck_assert(noticed); /* there is none */
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_elsewhere(notice, NULL);
    ck_assert(!noticed);
    ck_assert_uint_eq(pool->holds.count, 0);
    ck_assert(tn_capture_notice(pool));
    ck_assert_uint_eq(pool->holds.open_count, 1);
    test_destroy_graph(test_end_capture(stream));
    OK(tarn_end_allocate_to_pool(route));
    unit_expect_no_capture(pool, &before);
}

TEST(admit, a_pool_stays_while_a_discarded_block_is_freed)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *block = unit_alloc(pool, 4096, stream);

    OK(tarn_capture_abort(capture));
    OK(tarn_begin_allocate_to_pool(device, pool, tarn_filter_stream, stream, &route));
    ends_pool = true;
    OK(tarn_free(block));
    ck_assert(!ends_pool);
    ck_assert_int_eq(ended, TARN_ERR_BUSY);
    OK(tarn_pool_destroy(pool));
}

TEST(admit, a_pool_stays_while_a_use_of_a_block_is_noted_whose_capture_is_aborted)
{
    void *block;

    aborted = unit_begin(pool, stream);
    block = unit_alloc(pool, 4096, stream);
    test_begin_capture(other, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    ends_pool = true;
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_record_stream(block, other));
    ck_assert(!ends_pool);
    ck_assert_int_eq(ended, TARN_ERR_BUSY);
    test_destroy_graph(test_end_capture(other));
    OK(tarn_free(block));
    unit_expect_no_capture(pool, &before);
}
