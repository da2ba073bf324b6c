// SPDX-License-Identifier: Apache-2.0
/* Captures as transactions: whatever becomes of one, in whatever state it is, an abort from any thread
 * leaves the pool, the stream and the device good for the next. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "support/world.h"

/* Nothing of any capture is left, and the next one is as good as the first. */
static void expect_usable(void)
{
    tarn_graph *graph = NULL;
    tarn_capture *capture;
    int64_t deadline = test_deadline();
    void *block;

    while (test_stats(world.pool).captured_bytes > 0 && test_pause(deadline))
        continue;
    ck_assert_uint_eq(test_stats(world.pool).captured_bytes, 0);
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    ck_assert_uint_eq(test_device_stats().route_count, 0);
    OK(tarn_pool_validate(world.pool));
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    block = test_malloc(MIB);
    test_fill(world.stream, block, 6, 1);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, block), 6);
    OK(tarn_free(block));
    OK(tarn_graph_destroy(graph));
}

static void abort_it(void *capture)
{
    OK(tarn_capture_abort(capture));
}

static void expect_broken(tarn_capture *capture)
{
    tarn_graph *graph = UNTOUCHED;

    REFUSE(TARN_ERR_CAPTURE_BROKEN, "tarn_capture_abort", tarn_capture_end(capture, &graph));
    ck_assert_untouched(graph);
}

/* Each way to bring a capture into a state in which it does not end; the stream may be gone after it. */

static void leave_open(tarn_capture *capture, tn_cu_stream *stream)
{
    (void)capture;
    (void)stream;
}

static void invalidate(tarn_capture *capture, tn_cu_stream *stream)
{
    (void)stream;
    test_break_capture();
    expect_broken(capture);
}

static void end_by_stranger(void *stream)
{
    ck_assert_ptr_null(test_try_end_capture(stream));
}

static void end_by_wrong_thread(tarn_capture *capture, tn_cu_stream *stream)
{
    test_elsewhere(end_by_stranger, *stream);
    test_await_destructors(0);
    expect_broken(capture);
}

static void forget_to_join(tarn_capture *capture, tn_cu_stream *stream)
{
    tarn_graph *graph = UNTOUCHED;
    void *block = NULL;

    test_order(*stream, world.side);
    OK(tarn_malloc(world.device, 4096, world.side, &block));
    test_fill(world.side, block, 1, 1);
    STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "not joined"));
    ck_assert_untouched(graph);
    OK(tarn_free(block));
    test_await_destructors(0);
    expect_broken(capture);
}

static void end_by_hand(tarn_capture *capture, tn_cu_stream *stream)
{
    test_destroy_graph(test_end_capture(*stream));
    test_await_destructors(0);
    expect_broken(capture);
}

static void stop(tarn_capture *capture, tn_cu_stream *stream)
{
    tarn_graph *graph = UNTOUCHED;

    (void)stream;
    sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_capture_end(capture, &graph));
    ck_assert_untouched(graph);
}

static void destroy_stream(tarn_capture *capture, tn_cu_stream *stream)
{
    test_destroy_stream(*stream);
    *stream = NULL;
    expect_broken(capture);
}

static void destroy_stream_unseen(tarn_capture *capture, tn_cu_stream *stream)
{
    (void)capture;
    test_destroy_stream(*stream); /* abort is the next call */
    *stream = NULL;
}

static void invalidate_and_destroy_stream(tarn_capture *capture, tn_cu_stream *stream)
{
    invalidate(capture, stream);
    destroy_stream(capture, stream);
}

static void (*const ways[])(tarn_capture *capture, tn_cu_stream *stream) = {
    leave_open,
    invalidate,
    end_by_wrong_thread,
    forget_to_join,
    end_by_hand,
    stop,
    destroy_stream,
    destroy_stream_unseen,
    invalidate_and_destroy_stream,
};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* Brings a capture there, aborts it on this thread or another, and looks at what is left. */
static void abort_after(int way, bool elsewhere)
{
    tn_cu_stream stream = test_stream();
    void *before = test_alloc(world.pool, MIB, world.stream);
    tarn_capture *capture = test_capture_on(world.pool, stream, TARN_CAPTURE_THREAD_LOCAL);
    void *live = NULL;
    void *freed = NULL;

    OK(tarn_malloc(world.device, MIB, stream, &live));
    OK(tarn_malloc(world.device, 4096, stream, &freed));
    test_fill(stream, live, 1, 1);
    OK(tarn_free(freed));
    OK(tarn_free(before));
    ways[way](capture, &stream);
    ck_assert_uint_eq(test_stats(world.pool).live_count, 1);
    if (elsewhere)
        test_elsewhere(abort_it, capture);
    else
        abort_it(capture);
    STATUS(TARN_ERR_INVALID_HANDLE, tarn_capture_abort(capture));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0); /* it is discarded */
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(freed));          /* and frees stand */
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(before));
    OK(tarn_free(live));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(live));
    if (stream != NULL) {
        ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_NONE);
        test_destroy_stream(stream);
    }
    ck_assert_int_eq(test_capture_status(world.side), TN_CU_CAPTURE_STATUS_NONE);
    expect_usable();
}

SUITE("captures as transactions")
GROUP(transactions, test_world_open, test_world_close)

TEST_LOOP(transactions, an_abort_ends_a_capture_in_any_state, 0, WAYS)
{
    abort_after(_i, false);
}

TEST_LOOP(transactions, any_thread_may_abort_a_capture_in_any_state, 0, WAYS)
{
    abort_after(_i, true);
}

static void end_elsewhere(void *capture)
{
    tarn_graph *graph = UNTOUCHED;

    STATUS(TARN_ERR_WRONG_THREAD, tarn_capture_end(capture, &graph));
    ck_assert_untouched(graph);
}

TEST_LOOP(transactions, another_thread_ends_a_capture_in_no_state, 0, WAYS)
{
    tn_cu_stream stream = test_stream();
    tarn_capture *capture = test_capture_on(world.pool, stream, TARN_CAPTURE_THREAD_LOCAL);

    ways[_i](capture, &stream);
    test_elsewhere(end_elsewhere, capture);
    OK(tarn_capture_abort(capture));
    if (stream != NULL)
        test_destroy_stream(stream);
    expect_usable();
}

TEST(transactions, a_capture_whose_handle_is_lost_keeps_nothing_when_its_stream_is_gone)
{
    tarn_pool *pool = test_pool("lost");
    tn_cu_stream stream = test_stream();
    tarn_capture *capture = NULL;
    void *block = NULL;

    OK(tarn_capture_begin(pool, stream, NULL, &capture));
    OK(tarn_malloc(world.device, MIB, stream, &block));
    REFUSE(TARN_ERR_BUSY, "1 captures", tarn_pool_destroy(pool));
    test_destroy_stream(stream);
    ck_assert_uint_eq(test_device_stats().route_count, 0);
    OK(tarn_free(block));
    OK(tarn_pool_destroy(pool));
    expect_usable();
}

TEST(transactions, a_lost_captures_handle_is_good_for_abort_when_its_pool_is_gone)
{
    tarn_pool *pool = test_pool("gone");
    tn_cu_stream stream = test_stream();
    tarn_capture *capture = NULL;

    OK(tarn_capture_begin(pool, stream, NULL, &capture));
    OK(tarn_pool_release(pool));
    test_destroy_stream(stream);
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
    expect_broken(capture);
    OK(tarn_capture_abort(capture));
    expect_usable();
}

TEST(transactions, an_abort_leaves_alone_the_stream_that_took_the_lost_ones_place)
{
    tn_cu_stream stream = test_stream();
    tarn_capture *capture = test_capture_on(world.pool, stream, TARN_CAPTURE_RELAXED);
    tn_cu_stream streams[8];

    test_destroy_stream(stream);
    for (int i = 0; i < 8; i++) {
        streams[i] = test_stream(); /* one may have the same name */
        test_begin_capture(streams[i], TN_CU_CAPTURE_MODE_RELAXED);
    }
    OK(tarn_capture_abort(capture));
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(test_capture_status(streams[i]), TN_CU_CAPTURE_STATUS_ACTIVE);
        test_destroy_graph(test_end_capture(streams[i]));
        test_destroy_stream(streams[i]);
    }
    expect_usable();
}

static void begin_there(void *argument)
{
    OK(tarn_capture_begin(world.pool, world.stream, NULL, argument));
    (void)test_malloc(MIB);
}

TEST(transactions, a_capture_whose_thread_exited_is_aborted_by_another)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = UNTOUCHED;

    test_elsewhere(begin_there, &capture);
    REFUSE(TARN_ERR_WRONG_THREAD, "another thread", tarn_capture_end(capture, &graph));
    ck_assert_untouched(graph);
    OK(tarn_capture_abort(capture));
    expect_usable();
}

TEST(transactions, a_failed_capture_leaves_another_of_its_pool_as_it_was)
{
    tn_cu_stream stream = test_stream();
    tarn_capture *good = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_capture *bad = test_capture_on(world.pool, stream, TARN_CAPTURE_RELAXED);
    tarn_graph *graph = NULL;
    void *mine = test_malloc(MIB);
    void *other = NULL;

    OK(tarn_malloc(world.device, MIB, stream, &other));
    test_fill(world.stream, mine, 8, 1);
    test_destroy_stream(stream);
    OK(tarn_capture_abort(bad));
    OK(tarn_free(other));
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 1);
    OK(tarn_capture_end(good, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, mine), 8);
    OK(tarn_free(mine));
    OK(tarn_graph_destroy(graph));
    expect_usable();
}

TEST(transactions, an_abort_discards_what_the_capture_took_from_other_pools)
{
    tarn_pool *second = test_pool("second");
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_alloc(second, MIB, world.stream);

    OK(tarn_capture_abort(capture));
    ck_assert_uint_eq(test_stats(second).live_count, 0);
    ck_assert_uint_eq(test_stats(second).capture_count, 0);
    OK(tarn_free(block));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(block));
    OK(tarn_pool_destroy(second));
    expect_usable();
}

TEST(transactions, a_graph_ended_by_hand_and_adopted_outlives_the_abort_of_its_capture)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_malloc(MIB);
    tarn_graph *graph = NULL;

    test_fill(world.stream, block, 5, 1);
    OK(tarn_graph_adopt(world.pool, test_end_capture(world.stream), &graph));
    expect_broken(capture);
    OK(tarn_capture_abort(capture));
    OK(tarn_graph_replay(graph, world.stream));
    ck_assert_uint_eq(test_read(world.stream, block), 5);
    OK(tarn_free(block));
    OK(tarn_graph_destroy(graph));
    expect_usable();
}

/* Of a capture that is invalidated the driver does not say which one it is. */
TEST(transactions, an_abort_leaves_alone_a_broken_capture_that_came_later)
{
    for (int how = 0; how < 3; how++) {
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
        tn_cu_graph driver_graph = NULL;
        tarn_graph *graph = NULL;
        void *block = test_malloc(4096);

        if (how == 0) { /* broken, and ended by the user */
            test_break_capture();
            test_end_broken_capture(world.stream);
        } else if (how == 1) { /* ended by the user, who keeps the graph: an end has seen that */
            driver_graph = test_end_capture(world.stream);
            expect_broken(capture);
        } else { /* broken by its end */
            test_order(world.stream, world.side);
            test_set_words(world.side, block, 1, 1);
            STATUS(TARN_ERR_CAPTURE_BROKEN, tarn_capture_end(capture, &graph));
        }
        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
        test_break_capture();
        OK(tarn_capture_abort(capture));
        ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_INVALIDATED);
        test_end_broken_capture(world.stream);
        if (driver_graph != NULL)
            test_destroy_graph(driver_graph);
        OK(tarn_free(block));
    }
    expect_usable();
}

/* The limit of the above: ended by the user, who keeps the graph, without an end that has seen it. */
TEST(transactions, an_abort_takes_a_broken_capture_that_came_later_for_its_own_where_nothing_tells)
{
    for (int breaks = 0; breaks < 2; breaks++) {
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
        tn_cu_graph driver_graph = test_end_capture(world.stream);

        test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_GLOBAL);
        if (breaks == 1)
            test_break_capture();
        OK(tarn_capture_abort(capture));
        ck_assert_int_eq(test_capture_status(world.stream),
                         breaks == 1 ? TN_CU_CAPTURE_STATUS_NONE : TN_CU_CAPTURE_STATUS_ACTIVE);
        if (breaks == 0)
            test_destroy_graph(test_end_capture(world.stream));
        test_destroy_graph(driver_graph);
    }
    expect_usable();
}

/* The driver's capture of a per-thread stream can be ended on its own thread alone. */
TEST(transactions, an_abort_elsewhere_leaves_a_per_thread_streams_capture_to_its_thread)
{
    tarn_capture *capture =
        test_capture_on(world.pool, TN_CU_STREAM_PER_THREAD, TARN_CAPTURE_RELAXED);
    void *block = NULL;

    OK(tarn_malloc(world.device, MIB, TN_CU_STREAM_PER_THREAD, &block));
    test_elsewhere(end_elsewhere, capture); /* though it is relaxed */
    test_elsewhere(abort_it, capture);
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).capture_count, 0);
    ck_assert_uint_eq(test_device_stats().route_count, 0);
    ck_assert_int_eq(test_capture_status(TN_CU_STREAM_PER_THREAD), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_free(block));
    test_destroy_graph(test_end_capture(TN_CU_STREAM_PER_THREAD));
    expect_usable();
}

struct allocator {
    pthread_t thread;
    pthread_mutex_t mutex; /* calls that name the stream do not overlap an abort */
    atomic_bool stop;
    atomic_int served;
};

static void *allocate_on(void *argument)
{
    struct allocator *allocator = argument;
    tarn_pool *second = test_pool("of the thread"); /* joined by the capture at any moment */

    while (!atomic_load(&allocator->stop)) {
        void *blocks[2] = {NULL, NULL};
        tarn_status statuses[2];

        for (int i = 0; i < 2; i++) { /* the abort may come between them */
            (void)pthread_mutex_lock(&allocator->mutex);
            statuses[i] = i == 0 ? tarn_malloc(world.device, 4096, world.stream, &blocks[i])
                                 : tarn_pool_malloc(second, 4096, 0, world.stream, &blocks[i]);
            (void)pthread_mutex_unlock(&allocator->mutex);
        }
        for (int i = 0; i < 2; i++) { /* or beside these */
            ck_assert_msg(statuses[i] == TARN_OK || statuses[i] == TARN_ERR_CAPTURE_BROKEN,
                          "%s: %s", tarn_status_name(statuses[i]), tarn_last_error());
            if (statuses[i] == TARN_OK)
                OK(tarn_free(blocks[i]));
        }
        atomic_fetch_add(&allocator->served, 1);
    }
    OK(tarn_pool_destroy(second));
    return NULL;
}

TEST(transactions, a_capture_is_aborted_between_the_allocations_of_another_thread_in_it)
{
    for (int round = 0; round < 40; round++) {
        struct allocator allocator = {.mutex = PTHREAD_MUTEX_INITIALIZER};
        tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
        int seen;

        ck_assert_int_eq(pthread_create(&allocator.thread, NULL, allocate_on, &allocator), 0);
        while (atomic_load(&allocator.served) < 1 + round % 5)
            continue;
        (void)pthread_mutex_lock(&allocator.mutex);
        OK(tarn_capture_abort(capture));
        (void)pthread_mutex_unlock(&allocator.mutex);
        seen = atomic_load(&allocator.served);
        while (atomic_load(&allocator.served) < seen + 2)
            continue;
        atomic_store(&allocator.stop, true);
        (void)pthread_join(allocator.thread, NULL);
        ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_NONE);
    }
    expect_usable();
}
