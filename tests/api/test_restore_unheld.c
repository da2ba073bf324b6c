// SPDX-License-Identifier: Apache-2.0
/* Checkpoints beside a capture that the program has begun for the pool, and of which the pool has heard nothing yet: no
 * call has been made in it. Its graph uses a block that the restored checkpoint has not. */
#include <pthread.h>

#include "support/world.h"

enum { WORDS = 64 };

static const size_t bytes = 4 * MIB;
static tarn_checkpoint *checkpoint;
static uint32_t *block;
static tarn_route *route;

static void begin(void)
{
    test_world_open();
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.side, &checkpoint));
    block = test_alloc(world.pool, bytes, world.side);
    route = test_route(world.pool, tarn_filter_capture, world.stream);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    test_fill(world.stream, block, 1, WORDS);
}

/* What the graph writes when it is replayed is nobody else's. */
static void end(void)
{
    tn_cu_graph captured;
    tarn_graph *graph;
    uint32_t *eager;

    OK(tarn_free(block)); /* kept for the graph */
    captured = test_end_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_graph_adopt(world.pool, captured, &graph));
    eager = test_alloc(world.pool, bytes, world.side);
    test_fill(world.side, eager, 2, WORDS);
    test_synchronize(world.side);
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    test_expect_words(world.side, eager, 2, WORDS);
    OK(tarn_free(eager));
    OK(tarn_graph_destroy(graph));
    OK(tarn_checkpoint_destroy(checkpoint));
    test_world_close();
}

SUITE("restore unheld")
GROUP(capture, begin, end)

TEST(capture, a_restore_is_refused_and_frees_nothing)
{
    REFUSE(TARN_ERR_WRONG_STATE, "a capture is under way",
           tarn_checkpoint_restore(checkpoint, world.side, NULL));
}

/* Another thread may not ask what is captured on the stream of a route that it has not begun, but for whether it is. */
static void *restore_elsewhere(void *unused)
{
    (void)unused;
    STATUS(TARN_ERR_WRONG_STATE, tarn_checkpoint_restore(checkpoint, world.side, NULL));
    return NULL;
}

TEST(capture, another_thread_is_refused_too)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, restore_elsewhere, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* Then nobody knows whether there is a capture. */
TEST(capture, a_stream_that_cannot_be_looked_at_is_an_error)
{
    sim.plan_fault("cuStreamIsCapturing", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuStreamIsCapturing",
           tarn_checkpoint_restore(checkpoint, world.side, NULL));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
}

static void *restore_and_free_beside_a_refusal(void *freed)
{
    sim.plan_fault("cuStreamIsCapturing", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuStreamIsCapturing",
           tarn_checkpoint_restore(checkpoint, world.side, NULL));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    sim.plan_fault("cuStreamIsCapturing", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    OK(tarn_free(freed));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    return NULL;
}

/* Nor does another thread: and what it frees waits for a graph that may use it. */
TEST(capture, a_stream_that_cannot_be_looked_at_elsewhere_is_an_error_too)
{
    void *freed = test_alloc(world.pool, bytes, world.side);
    void *next;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, restore_and_free_beside_a_refusal, freed), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    next = test_alloc(world.pool, bytes, world.side);
    ck_assert_ptr_ne(next, freed);
    OK(tarn_free(next));
}

TEST(capture, no_checkpoint_is_taken)
{
    tarn_checkpoint *another = NULL;

    REFUSE(TARN_ERR_WRONG_STATE, "a capture is under way",
           tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.side, &another));
    ck_assert_ptr_null(another);
}

static void route_legacy(void *unused)
{
    (void)unused;
    route = test_route(world.pool, tarn_filter_stream, NULL);
}

GROUP(others, test_world_open, test_world_close, .name = "no capture")

/* That stream cannot be captured; what the driver says of it, it says of a capture of any blocking one. */
TEST(others, another_threads_route_by_the_legacy_stream_hides_no_capture)
{
    tarn_pool *other = test_pool("other");
    tn_cu_stream blocking = test_blocking_stream();
    tarn_checkpoint *another = NULL;
    tarn_capture *capture;

    test_elsewhere(route_legacy, NULL);
    checkpoint = test_take(TARN_CONTENTS_NONE);
    block = test_alloc(world.pool, bytes, world.side);
    capture = test_capture_on(other, blocking, TARN_CAPTURE_RELAXED);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.side, &another));
    OK(tarn_checkpoint_restore(checkpoint, world.side, NULL));
    OK(tarn_checkpoint_destroy(another));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(test_capture_end(capture)));
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_pool_destroy(other));
    test_destroy_stream(blocking);
}

static void restore_beside_nothing(void *unused)
{
    (void)unused;
    OK(tarn_checkpoint_restore(checkpoint, world.side, NULL));
}

/* What it has captured never runs; on the thread of the route and on others. */
TEST(others, an_invalidated_capture_is_not_under_way)
{
    checkpoint = test_take(TARN_CONTENTS_NONE);
    route = test_route(world.pool, tarn_filter_stream, world.stream);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_break_capture();
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_INVALIDATED);
    restore_beside_nothing(NULL);
    test_elsewhere(restore_beside_nothing, NULL);
    test_end_broken_capture(world.stream);
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_checkpoint_destroy(checkpoint));
}

static void route_stream(void *unused)
{
    (void)unused;
    route = test_route(world.pool, tarn_filter_stream, world.stream);
}

static void end_route(void *unused)
{
    (void)unused;
    OK(tarn_end_allocate_to_pool(route));
}

TEST(others, a_route_that_was_ended_hides_no_capture)
{
    tarn_route *own;

    checkpoint = test_take(TARN_CONTENTS_NONE);
    own = test_route(world.pool, tarn_filter_stream, world.side);
    test_elsewhere(route_stream, NULL);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_WRONG_STATE, tarn_checkpoint_restore(checkpoint, world.side, NULL));
    test_elsewhere(end_route, NULL);
    restore_beside_nothing(NULL);
    OK(tarn_end_allocate_to_pool(own));
    test_destroy_graph(test_end_capture(world.stream));
    OK(tarn_checkpoint_destroy(checkpoint));
}
