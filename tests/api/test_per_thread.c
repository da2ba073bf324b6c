// SPDX-License-Identifier: Apache-2.0
/* What NULL means in each call that takes a stream, by the device's null_stream: each test of a loop runs with both. */
#include <stdlib.h>

#include "support/bodies.h"
#include "support/world.h"

enum { MEANINGS = TARN_NULL_STREAM_PER_THREAD + 1, BYTES = 4096 };

static tarn_null_stream meaning;
static tn_cu_stream meant; /* by NULL */
static tn_cu_stream other; /* the default stream that NULL does not mean */

static void open_world(int chosen)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    meaning = (tarn_null_stream)chosen;
    meant = meaning == TARN_NULL_STREAM_PER_THREAD ? TN_CU_STREAM_PER_THREAD : TN_CU_STREAM_LEGACY;
    other = meaning == TARN_NULL_STREAM_PER_THREAD ? TN_CU_STREAM_LEGACY : TN_CU_STREAM_PER_THREAD;
    options.null_stream = meaning;
    test_world_open_with(&options);
}

/* What differs by the meaning. */
static tarn_status by_meaning(tarn_status legacy, tarn_status per_thread)
{
    return meaning == TARN_NULL_STREAM_PER_THREAD ? per_thread : legacy;
}

static void expect_given(void *address, tn_cu_stream stream, bool given)
{
    void *again = test_alloc(world.default_pool, 4 * MIB, stream);

    ck_assert_int_eq(again == address, given);
    OK(tarn_free(again));
}

SUITE("what NULL means")
GROUP(null, NULL, .name = "what NULL means")

TEST_LOOP(null, memory_freed_is_reused_by_the_meant_stream_alone, 0, MEANINGS)
{
    void *address = NULL;

    open_world(_i);
    for (int i = 0; i < 4; i++) {
        if (i == 0)
            OK(tarn_malloc(world.device, 4 * MIB, NULL, &address));
        else if (i == 1)
            OK(tarn_pool_malloc(world.default_pool, 4 * MIB, 0, NULL, &address));
        else if (i == 2)
            OK(tarn_malloc_aligned(world.device, 4 * MIB, 4096, NULL, &address));
        else
            OK(tarn_calloc(world.device, 4, MIB, NULL, &address));
        OK(tarn_free(address));
        expect_given(address, other, false);
        expect_given(address, meant, true);
    }
    expect_given(address, NULL, true);
    test_world_close();
}

/* Each explicit handle means what it means in CUDA. */
TEST_LOOP(null, explicit_handles_mean_their_streams_whatever_null_means, 0, MEANINGS)
{
    tarn_capture *capture = UNTOUCHED;

    open_world(_i);
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_capture_begin(world.pool, (tarn_stream)TN_CU_STREAM_LEGACY,
                              CAPTURE_MODE(TARN_CAPTURE_RELAXED), &capture));
    ck_assert_untouched(capture);
    STATUS(TARN_ERR_INVALID_ARGUMENT,
           tarn_stream_retire(world.device, (tarn_stream)TN_CU_STREAM_LEGACY));
    OK(tarn_capture_begin(world.pool, (tarn_stream)TN_CU_STREAM_PER_THREAD,
                          CAPTURE_MODE(TARN_CAPTURE_RELAXED), &capture));
    ck_assert_int_eq(test_capture_status(TN_CU_STREAM_PER_THREAD), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_abort(capture));
    OK(tarn_stream_retire(world.device, (tarn_stream)TN_CU_STREAM_PER_THREAD));
    test_world_close();
}

TEST_LOOP(null, a_use_on_null_is_a_use_on_the_meant_stream, 0, MEANINGS)
{
    void *address = NULL;

    open_world(_i);
    address = test_alloc(world.default_pool, 4 * MIB, meant);
    OK(tarn_record_stream(address, NULL)); /* its own: nothing to wait for */
    sim.hold_work();
    test_spin(meant, 1);
    OK(tarn_free_on(address, NULL));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 0);
    address = test_alloc(world.default_pool, 4 * MIB, other);
    OK(tarn_record_stream(address, NULL));
    OK(tarn_free(address));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 1);
    address = test_alloc(world.default_pool, 4 * MIB, world.stream);
    OK(tarn_free_on(address, NULL));
    ck_assert_uint_eq(test_stats(world.default_pool).pending_count, 2);
    sim.resume_work();
    test_world_close();
}

TEST_LOOP(null, null_is_retired_where_it_means_the_threads_own_stream, 0, MEANINGS)
{
    void *address;

    open_world(_i);
    address = test_alloc(world.default_pool, 4 * MIB, meant);
    OK(tarn_free(address));
    STATUS(by_meaning(TARN_ERR_INVALID_ARGUMENT, TARN_OK), tarn_stream_retire(world.device, NULL));
    test_synchronize(meant);
    expect_given(address, world.stream, meaning == TARN_NULL_STREAM_PER_THREAD);
    test_world_close();
}

TEST_LOOP(null, null_is_captured_where_it_means_the_threads_own_stream, 0, MEANINGS)
{
    tn_cu_graph graph;
    tarn_capture *capture = UNTOUCHED;
    tarn_status expected;

    open_world(_i);
    expected = by_meaning(TARN_ERR_INVALID_ARGUMENT, TARN_OK);
    STATUS(expected,
           tarn_capture_begin(world.pool, NULL, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &capture));
    if (expected == TARN_OK)
        OK(tarn_capture_abort(capture));
    else
        ck_assert_untouched(capture);
    graph = test_graph();
    STATUS(expected,
           tarn_capture_begin(world.pool, NULL, CAPTURE_INTO(NULL, 0, graph, TARN_CAPTURE_RELAXED),
                              &capture));
    if (expected == TARN_OK)
        OK(tarn_capture_end(capture, NULL));
    test_destroy_graph(graph);
    test_await_destructors(0);
    test_world_close();
}

TEST(null, the_threads_own_stream_is_captured_restored_and_replayed_as_null)
{
    tarn_checkpoint *checkpoint = NULL;
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    void *address = NULL;

    open_world(TARN_NULL_STREAM_PER_THREAD);
    OK(tarn_capture_begin(world.pool, NULL, NULL, &capture));
    OK(tarn_malloc(world.device, BYTES, NULL, &address));
    ck_assert_ptr_eq(test_pool_of(address), world.pool);
    test_add(TN_CU_STREAM_PER_THREAD, address, 1, 1);
    OK(tarn_capture_end(capture, &graph));
    test_set_words(TN_CU_STREAM_PER_THREAD, address, 4, 1);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, NULL, &checkpoint));
    OK(tarn_graph_replay(graph, NULL));
    ck_assert_uint_eq(test_read(TN_CU_STREAM_PER_THREAD, address), 5);
    OK(tarn_checkpoint_restore(checkpoint, NULL, NULL));
    ck_assert_uint_eq(test_read(TN_CU_STREAM_PER_THREAD, address), 4);
    OK(tarn_checkpoint_verify(checkpoint, NULL));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(address));
    test_world_close();
}

/* The driver invalidates a capture of the thread's own stream for a launch there, and for one on the legacy stream, which
 * waits for that: with different results. How many graphs a pool has decides on which path a replay goes. */
TEST_LOOP(null, a_replay_on_null_is_on_the_meant_stream, 0, MEANINGS)
{
    tarn_graph *graphs[2] = {NULL, NULL};

    open_world(_i);
    for (int i = 0; i < 2; i++) {
        graphs[i] =
            test_capture_end(test_capture_on(world.pool, world.stream, TARN_CAPTURE_RELAXED));
        OK(tarn_graph_replay(graphs[i], NULL));
        OK(tarn_graph_replay(graphs[i], NULL));
        test_begin_capture(TN_CU_STREAM_PER_THREAD, TN_CU_CAPTURE_MODE_RELAXED);
        STATUS(by_meaning(TARN_ERR_DRIVER, TARN_ERR_WRONG_STATE),
               tarn_graph_replay(graphs[i], NULL));
        test_drop_capture(TN_CU_STREAM_PER_THREAD);
    }
    for (int i = 0; i < 2; i++)
        OK(tarn_graph_destroy(graphs[i]));
    test_await_destructors(0);
    test_world_close();
}

static void replay_in_turn(tarn_graph *const *graphs)
{
    OK(tarn_graph_replay(graphs[0], NULL));
    OK(tarn_graph_replay(graphs[1], meant));
    STATUS(TARN_ERR_WRONG_STATE, tarn_graph_replay(graphs[0], other));
}

TEST_LOOP(null, replays_of_a_pool_know_null_as_the_meant_stream, 0, MEANINGS)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_graph *graphs[2];
    tarn_pool *pool;

    open_world(_i);
    options.replay_order = TARN_REPLAY_REFUSED;
    pool = test_pool_with(&options);
    for (int i = 0; i < 2; i++)
        graphs[i] = test_capture_end(test_capture_on(pool, world.stream, TARN_CAPTURE_RELAXED));
    replay_in_turn(graphs);
    replay_in_turn(graphs);
    for (int i = 0; i < 2; i++)
        OK(tarn_graph_destroy(graphs[i]));
    test_await_destructors(0);
    OK(tarn_pool_destroy(pool));
    test_world_close();
}

/* The driver allows no work on the legacy stream beside a capture of a blocking one, but on others. */
TEST_LOOP(null, work_for_null_is_enqueued_on_the_meant_stream, 0, MEANINGS)
{
    tarn_audit_options options = TARN_AUDIT_OPTIONS_INIT;
    tarn_checkpoint *checkpoint = NULL;
    tarn_checkpoint *more = NULL;
    tarn_audit *audit = NULL;
    tarn_graph *graph;
    tarn_status expected;
    tn_cu_stream blocking;
    void *address;

    open_world(_i);
    expected = by_meaning(TARN_ERR_WRONG_STATE, TARN_OK);
    blocking = test_blocking_stream();
    address = test_alloc(world.pool, BYTES, world.stream);
    test_fill(world.stream, address, 0, BYTES / sizeof(uint32_t));
    test_synchronize(world.stream);
    graph = test_capture_end(test_capture_on(world.pool, world.stream, TARN_CAPTURE_RELAXED));
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_HOST, world.stream, &checkpoint));
    test_begin_capture(blocking, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(expected, tarn_checkpoint_take(world.pool, TARN_CONTENTS_HOST, NULL, &more));
    STATUS(expected, tarn_checkpoint_restore(checkpoint, NULL, NULL));
    STATUS(expected, tarn_checkpoint_verify(checkpoint, NULL));
    options.scan = true;
    STATUS(expected, tarn_graph_audit(graph, &options, &audit));
    ck_assert_int_eq(test_capture_status(blocking), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_drop_capture(blocking);
    if (expected == TARN_OK)
        tarn_audit_destroy(audit);
    OK(tarn_checkpoint_destroy(more));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(address));
    test_destroy_stream(blocking);
    test_world_close();
}

TEST_LOOP(null, memory_is_reserved_for_the_meant_stream, 0, MEANINGS)
{
    open_world(_i);
    test_begin_capture(TN_CU_STREAM_PER_THREAD, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(by_meaning(TARN_OK, TARN_ERR_UNROUTED),
           tarn_pool_reserve(world.default_pool, 4 * MIB, NULL));
    test_drop_capture(TN_CU_STREAM_PER_THREAD);
    test_world_close();
}

TEST_LOOP(null, a_route_of_null_is_of_the_meant_stream, 0, MEANINGS)
{
    tarn_route *route;

    open_world(_i);
    route = test_route(world.pool, tarn_filter_stream, NULL);
    ck_assert_ptr_eq(test_chosen_pool(NULL), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(meant), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(other), world.default_pool);
    OK(tarn_end_allocate_to_pool(route));
    route = test_route(world.pool, tarn_filter_capture, NULL);
    test_begin_capture(TN_CU_STREAM_PER_THREAD, TN_CU_CAPTURE_MODE_RELAXED);
    ck_assert_int_eq(test_chosen_pool(TN_CU_STREAM_PER_THREAD) == world.pool,
                     meaning == TARN_NULL_STREAM_PER_THREAD);
    test_drop_capture(TN_CU_STREAM_PER_THREAD);
    OK(tarn_end_allocate_to_pool(route));
    test_await_destructors(0);
    test_world_close();
}

static bool note_stream(tarn_stream stream, void *user)
{
    *(tarn_stream *)user = stream;
    return false;
}

TEST_LOOP(null, a_filter_is_given_the_threads_own_stream_for_null, 0, MEANINGS)
{
    tarn_stream seen = world.stream;
    tarn_route *route;

    open_world(_i);
    route = test_route(world.pool, note_stream, &seen);
    (void)test_chosen_pool(NULL);
    ck_assert_ptr_eq(seen, meaning == TARN_NULL_STREAM_PER_THREAD ? meant : NULL);
    (void)test_chosen_pool(world.stream);
    ck_assert_ptr_eq(seen, world.stream);
    OK(tarn_end_allocate_to_pool(route));
    test_world_close();
}

static void allocate_on_null(void *argument)
{
    void **address = argument;

    test_set_context(test_retain(0));
    OK(tarn_malloc(world.device, 4 * MIB, NULL, address));
    test_release(0);
}

TEST_LOOP(null, each_thread_has_its_own_memory_where_null_is_its_own_stream, 0, MEANINGS)
{
    void *mine = NULL;
    void *theirs = NULL;

    open_world(_i);
    OK(tarn_malloc(world.device, 4 * MIB, NULL, &mine));
    OK(tarn_free(mine));
    test_elsewhere(allocate_on_null, &theirs);
    ck_assert_int_eq(theirs == mine, meaning == TARN_NULL_STREAM_LEGACY);
    OK(tarn_free(theirs));
    test_world_close();
}

/* The first open's options hold, and those of a later open may not say another thing. */
TEST_LOOP(null, opens_that_disagree_about_null_are_refused, 0, MEANINGS)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = UNTOUCHED;

    open_world(_i);
    options.null_stream =
        _i == TARN_NULL_STREAM_LEGACY ? TARN_NULL_STREAM_PER_THREAD : TARN_NULL_STREAM_LEGACY;
    REFUSE(TARN_ERR_WRONG_STATE, "TARN_NULL_STREAM_LEGACY", tarn_device_open(0, &options, &device));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "TARN_NULL_STREAM_PER_THREAD"));
    ck_assert_ptr_nonnull(
        strstr(tarn_last_error(), _i == TARN_NULL_STREAM_LEGACY
                                      ? "opened with null_stream TARN_NULL_STREAM_L"
                                      : "opened with null_stream TARN_NULL_STREAM_P"));
    ck_assert_untouched(device);
    options.null_stream = meaning;
    OK(tarn_device_open(0, &options, &device));
    OK(tarn_device_close(device));
    OK(tarn_device_open(0, NULL, &device)); /* says nothing */
    OK(tarn_device_close(device));
    test_world_close();
}

/* A device that was closed is opened anew. */
TEST(null, the_next_first_open_chooses_again)
{
    for (int i = 0; i < 4; i++) {
        open_world(i % MEANINGS);
        expect_given(NULL, NULL, false);
        test_world_close();
    }
}

TEST_LOOP(null, tarn_conf_says_for_all_opens_what_null_means, 0, MEANINGS)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = NULL;
    tarn_route *route;

    ck_assert_int_eq(
        setenv("TARN_CONF", _i == 0 ? "null_stream:legacy" : "null_stream:per_thread", 1), 0);
    open_world(MEANINGS - 1 - _i); /* which TARN_CONF overrules */
    ck_assert_ptr_eq(test_chosen_pool(NULL), world.default_pool);
    route = test_route(world.pool, tarn_filter_stream, NULL);
    ck_assert_ptr_eq(test_chosen_pool(other), world.pool);
    ck_assert_ptr_eq(test_chosen_pool(meant), world.default_pool);
    OK(tarn_end_allocate_to_pool(route));
    for (int i = 0; i < MEANINGS; i++) {
        options.null_stream = (tarn_null_stream)i;
        OK(tarn_device_open(0, &options, &device));
        OK(tarn_device_close(device));
    }
    test_world_close();
}

TEST(null, a_meaning_that_is_none_is_refused)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = UNTOUCHED;

    test_start();
    options.null_stream = (tarn_null_stream)MEANINGS;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, &options, &device));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "null_stream"));
    options.null_stream = TARN_NULL_STREAM_LEGACY;
    ck_assert_int_eq(setenv("TARN_CONF", "null_stream:own", 1), 0);
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, &options, &device));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "legacy or per_thread"));
    ck_assert_untouched(device);
}
