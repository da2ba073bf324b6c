// SPDX-License-Identifier: Apache-2.0
/* The caller's CUDA context: whatever is current before a call is so after it, also nothing. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "support/world.h"

static tn_cu_context expected;

static void same_context(const char *call)
{
    ck_assert_msg(test_context() == expected, "%s changed the current context", call);
}

#define KEEPS(call)                                                                                \
    do {                                                                                           \
        OK(call);                                                                                  \
        same_context(#call);                                                                       \
    } while (0)

/* Calls everything on a device, without a launch: kernels belong to one context. */
static void call_everything(int ordinal, tn_cu_stream stream, tn_cu_stream side)
{
    tarn_device_info info = TARN_DEVICE_INFO_INIT;
    tarn_stats device_stats = TARN_STATS_INIT;
    tarn_stats stats = TARN_STATS_INIT;
    tarn_device *device = NULL;
    tarn_pool *pool = NULL;
    tarn_route *route = NULL;
    tarn_pool *released = NULL;
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    tarn_checkpoint *checkpoint = NULL;
    tarn_layout *layout = NULL;
    tarn_live_diff *diff = NULL;
    tn_cu_graph driver_graph;
    tarn_block block;
    tarn_segment segment = TARN_SEGMENT_INIT;
    size_t bytes;
    void *address = NULL;
    void *inside = NULL;

    KEEPS(tarn_device_open(ordinal, NULL, &device));
    KEEPS(tarn_device_describe(device, &info));
    KEEPS(tarn_device_stats(device, &device_stats));
    KEEPS(tarn_device_default_pool(device, &pool));
    KEEPS(tarn_pool_create(device, NULL, &pool));
    KEEPS(tarn_pool_create(device, NULL, &released));
    KEEPS(tarn_malloc(device, 4 * MIB, NULL, &address));
    KEEPS(tarn_free_on(address, side));
    KEEPS(tarn_malloc(device, 4 * MIB, TN_CU_STREAM_PER_THREAD, &address));
    KEEPS(tarn_record_stream(address, NULL));
    KEEPS(tarn_record_stream(address, side));
    KEEPS(tarn_free(address));
    KEEPS(tarn_pool_malloc(released, MIB, 0, stream, &address));
    KEEPS(tarn_pool_release(released));
    KEEPS(tarn_free(address));
    KEEPS(tarn_pool_malloc(pool, 4 * MIB, 0, stream, &address));
    KEEPS(tarn_block_at(address, &block));
    KEEPS(tarn_segment_at(address, &segment));
    KEEPS(tarn_device_largest(device, pool, stream, &bytes));
    KEEPS(tarn_device_largest(device, NULL, NULL, &bytes));
    KEEPS(tarn_device_largest(device, NULL, TN_CU_STREAM_PER_THREAD, &bytes));
    KEEPS(tarn_pool_reserve(pool, 32 * MIB, stream));
    KEEPS(tarn_pool_stats(pool, &stats));
    KEEPS(tarn_pool_validate(pool));
    KEEPS(tarn_pool_layout(pool, &layout));
    tarn_layout_destroy(layout);
    KEEPS(tarn_pool_check_live(pool, NULL, 0, &diff));
    tarn_live_diff_destroy(diff);
    KEEPS(tarn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &checkpoint));
    KEEPS(tarn_free(address));
    KEEPS(tarn_pool_trim(pool, NULL));
    KEEPS(tarn_checkpoint_restore(checkpoint, NULL, NULL));
    KEEPS(tarn_checkpoint_destroy(checkpoint));
    KEEPS(tarn_capture_begin(pool, stream, NULL, &capture));
    KEEPS(tarn_malloc(device, MIB, stream, &inside));
    KEEPS(tarn_free(inside));
    KEEPS(tarn_capture_end(capture, &graph));
    KEEPS(tarn_graph_replay(graph, stream));
    KEEPS(tarn_graph_replay(graph, NULL));
    KEEPS(tarn_graph_replay(graph, TN_CU_STREAM_PER_THREAD));
    KEEPS(tarn_graph_destroy(graph));
    KEEPS(tarn_capture_begin(pool, TN_CU_STREAM_PER_THREAD, CAPTURE_MODE(TARN_CAPTURE_RELAXED),
                             &capture));
    KEEPS(tarn_malloc(device, MIB, TN_CU_STREAM_PER_THREAD, &inside));
    KEEPS(tarn_capture_abort(capture));
    KEEPS(tarn_free(inside));
    KEEPS(tarn_begin_allocate_to_pool(device, pool, tarn_filter_capture, stream, &route));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    KEEPS(tarn_malloc(device, MIB, stream, &inside));
    KEEPS(tarn_free(inside));
    driver_graph = test_end_capture(stream);
    KEEPS(tarn_end_allocate_to_pool(route));
    KEEPS(tarn_graph_adopt(pool, driver_graph, &graph));
    KEEPS(tarn_graph_driver_handles(graph, &driver_graph, NULL));
    KEEPS(tarn_graph_destroy(graph));
    KEEPS(tarn_free(address));
    KEEPS(tarn_pool_destroy(pool));
    KEEPS(tarn_device_close(device));
}

SUITE("contexts")
GROUP(contexts, NULL)

TEST(contexts, the_devices_own_context_stays_current)
{
    test_start();
    expected = test_context();
    ck_assert_ptr_nonnull(expected);
    call_everything(0, test_stream(), test_stream());
}

TEST(contexts, without_a_context_there_is_none_afterwards)
{
    tn_cu_stream stream;
    tn_cu_stream side;

    test_start();
    stream = test_stream();
    side = test_stream();
    test_set_context(NULL);
    expected = NULL;
    call_everything(0, stream, side);
}

TEST(contexts, another_devices_context_stays_current)
{
    tn_cu_stream stream;
    tn_cu_stream side;

    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    test_start();
    expected = test_context();
    test_set_context(test_retain(1));
    stream = test_stream();
    side = test_stream();
    test_set_context(expected);
    call_everything(1, stream, side);
}

static void call_from_a_new_thread(void *argument)
{
    tn_cu_stream *streams = argument;

    ck_assert_ptr_null(test_context());
    expected = NULL;
    call_everything(0, streams[0], streams[1]);
}

TEST(contexts, a_new_thread_needs_no_context)
{
    tn_cu_stream streams[2];

    test_start();
    streams[0] = test_stream();
    streams[1] = test_stream();
    test_elsewhere(call_from_a_new_thread, streams);
}

TEST(contexts, refused_calls_keep_the_context_too)
{
    static const char *const calls[] = {"cuMemCreate",          "cuEventCreate",
                                        "cuStreamBeginCapture", "cuUserObjectCreate",
                                        "cuLaunchKernel",       "cuMemFree"};
    tarn_capture *capture = NULL;
    tarn_checkpoint *checkpoint = NULL;
    void *address = NULL;
    void *other = NULL;
    tarn_status status;

    test_world_open();
    address = test_alloc(world.pool, MIB, world.stream);
    test_set_context(NULL);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        sim.plan_fault(calls[i], 1, 1, TN_CUDA_ERROR_UNKNOWN);
        status = tarn_malloc(world.device, 64 * MIB, NULL, &other);
        if (status == TARN_OK)
            OK(tarn_free(other));
        ck_assert_ptr_null(test_context());
        status = tarn_record_stream(address, NULL);
        ck_assert_ptr_null(test_context());
        status = tarn_capture_begin(world.pool, world.stream, NULL, &capture);
        if (status == TARN_OK)
            OK(tarn_capture_abort(capture));
        ck_assert_ptr_null(test_context());
        status = tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, NULL, &checkpoint);
        if (status == TARN_OK)
            OK(tarn_checkpoint_destroy(checkpoint));
        ck_assert_ptr_null(test_context());
        status = tarn_pool_trim(world.default_pool, NULL);
        ck_assert_ptr_null(test_context());
        (void)sim.clear_fault(NULL);
    }
    (void)status;
    test_set_context(test_retain(0));
    test_release(0);
    OK(tarn_free(address));
    test_world_close();
}

static atomic_bool trimmed;

static void *trim(void *argument)
{
    OK(tarn_pool_trim(argument, NULL));
    atomic_store(&trimmed, true);
    return NULL;
}

/* Memory that was used on a stream of a context of the program's own is unmapped when that work has
 * ended, and not before: no free in the primary context waits for it. */
TEST(contexts, a_trim_waits_for_the_work_of_every_context)
{
    tn_cu_context own;
    tn_cu_context context;
    tn_cu_stream stream;
    pthread_t thread;
    void *address;

    test_world_open();
    own = test_context();
    context = test_make_context();
    stream = test_stream();
    test_set_context(own);
    address = test_alloc(world.pool, 4 * MIB, stream);
    sim.hold_work();
    test_set_words(stream, address, 7, 16);
    OK(tarn_free(address));
    ck_assert_int_eq(pthread_create(&thread, NULL, trim, world.pool), 0);
    (void)nanosleep(&(struct timespec){0, 30000000}, NULL);
    ck_assert(!atomic_load(&trimmed));
    ck_assert_uint_gt(test_stats(world.pool).mapped_bytes, 0);
    sim.resume_work();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    test_destroy_stream(stream);
    test_set_context(context);
    test_end_context(context); /* takes it off the stack too */
    test_world_close();
}
