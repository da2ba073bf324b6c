// SPDX-License-Identifier: Apache-2.0
/* Devices whose blocks a tool is told of: at each moment the tool allows exactly the bytes that the
 * program, or a graph, may use. */
#include <pthread.h>
#include <stdlib.h>

#include "support/fake_tool.h"
#include "support/gate.h"
#include "support/world.h"

static struct fake_tool tool;

static void open_with_tool(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    fake_tool_use(&tool, NULL);
    options.sanitizer = true;
    test_world_open_with(&options);
}

static void close_with_tool(void)
{
    test_world_close();
    ck_assert_uint_eq(fake_tool_look(&tool).heaps, 0);
    ck_assert_uint_eq(fake_tool_look(&tool).regions, 0);
    ck_assert_uint_eq(fake_tool_look(&tool).mistakes, 0);
}

static bool allows(const void *address, size_t bytes)
{
    return tool.allows((uint64_t)(uintptr_t)address, bytes);
}

/* The block's bytes are allowed, and none beside them. */
static void expect_exact(const void *address, size_t bytes)
{
    uint64_t base;
    uint64_t length;

    ck_assert(allows(address, bytes));
    ck_assert(tool.nearest((uint64_t)(uintptr_t)address, &base, &length));
    ck_assert_uint_eq(base, (uintptr_t)address);
    ck_assert_uint_eq(length, bytes);
}

static char *alloc(size_t bytes)
{
    return test_alloc(world.pool, bytes, world.stream);
}

GROUP(told, open_with_tool, close_with_tool)

TEST(told, a_block_is_allowed_to_its_last_byte_and_no_further)
{
    static const size_t sizes[] = {1,   3,       511,     512,      513,         1000,      MIB - 1,
                                   MIB, MIB + 1, 5 * MIB, 40 * MIB, 2 * MIB + 7, 2000 * MIB};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    char *blocks[COUNT];

    for (int i = 0; i < COUNT; i++)
        blocks[i] = alloc(sizes[i]);
    for (int i = 0; i < COUNT; i++) {
        expect_exact(blocks[i], sizes[i]);
        ck_assert(!allows(blocks[i] + sizes[i], 1));
        ck_assert(!allows(blocks[i] + sizes[i] + 511, 1)); /* nor between it and the next */
        OK(tarn_free(blocks[i]));
        ck_assert(!allows(blocks[i], 1));
        ck_assert(!allows(blocks[i] + sizes[i] - 1, 1));
    }
}

TEST(told, a_free_waits_for_the_work_before_it)
{
    char *block = alloc(65536);

    for (int i = 0; i < 20; i++)
        test_fill(world.stream, block, (uint32_t)i, 16384);
    OK(tarn_free(block));
    ck_assert(!test_is_at_work(world.stream));
    ck_assert(!allows(block, 1));
}

TEST(told, memory_that_is_used_again_has_the_new_bytes)
{
    char *first = alloc(3000);
    char *second;

    OK(tarn_free(first));
    second = alloc(2600);
    ck_assert_ptr_eq(second, first);
    expect_exact(second, 2600);
    OK(tarn_free(second));
}

TEST(told, a_free_on_another_stream_ends_the_use_at_once)
{
    char *block = alloc(1000);

    OK(tarn_record_stream(block, world.side));
    test_fill(world.side, block, 1, 250);
    OK(tarn_free_on(block, world.side));
    ck_assert(!allows(block, 1));
}

TEST(told, a_trim_changes_nothing_for_live_blocks)
{
    char *block = alloc(3 * MIB);
    char *other = alloc(30 * MIB);

    OK(tarn_free(other));
    OK(tarn_pool_trim(world.pool, NULL));
    expect_exact(block, 3 * MIB);
    ck_assert(!allows(other, 1));
    test_fill(world.stream, block, 1, 100);
    OK(tarn_free(block));
}

/* A graph's temporary, and another in the same memory: both may be used as long as the graph is. */
TEST(told, a_graph_may_use_what_was_freed_in_its_capture)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    char *first = alloc(5000);
    char *second;
    tarn_graph *graph;

    test_fill(world.stream, first, 1, 1250);
    OK(tarn_free(first));
    second = alloc(1000);
    ck_assert_ptr_eq(second, first);
    test_fill(world.stream, second, 2, 250);
    OK(tarn_free(second));
    graph = test_capture_end(capture);
    ck_assert(allows(first, 5000));
    ck_assert(!allows(first + 5000, 1));
    OK(tarn_graph_replay(graph, world.stream));
    test_synchronize(world.stream);
    ck_assert(allows(first, 5000));
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert(!allows(first, 1));
    ck_assert(!allows(first + 4999, 1));
}

TEST(told, a_block_over_kept_bytes_leaves_them_to_the_graph)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    char *small = alloc(600);
    char *large;
    char *again;
    tarn_graph *graph;

    OK(tarn_free(small));
    large = alloc(9000);
    OK(tarn_free(large));
    again = alloc(700);
    graph = test_capture_end(capture);
    ck_assert(allows(small, 600));
    ck_assert(allows(large, 9000));
    ck_assert(allows(again, 700));
    OK(tarn_free(again));
    ck_assert(allows(large, 9000));
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert(!allows(large, 1));
}

TEST(told, an_input_that_is_freed_behind_the_capture_is_named)
{
    char *input = alloc(4096);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_graph *graph;

    test_fill(world.stream, input, 1, 1024);
    graph = test_capture_end(capture);
    ck_assert(allows(input, 4096));
    OK(tarn_free(input));
    ck_assert(!allows(input, 1));
    OK(tarn_graph_destroy(graph));
}

TEST(told, an_aborted_capture_leaves_nothing)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    char *freed = alloc(3000);
    char *left = alloc(70000);

    OK(tarn_free(freed));
    OK(tarn_capture_abort(capture));
    ck_assert(!allows(freed, 1));
    OK(tarn_free(left));
    ck_assert(!allows(left, 1));
}

TEST(told, a_restore_tells_of_the_blocks_that_come_and_go)
{
    char *stays = alloc(1000);
    char *comes_back = alloc(2000);
    tarn_checkpoint *checkpoint;
    char *goes;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    OK(tarn_free(comes_back));
    goes = alloc(1700);
    ck_assert_ptr_eq(goes, comes_back);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    expect_exact(stays, 1000);
    expect_exact(comes_back, 2000);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(stays));
    OK(tarn_free(comes_back));
    ck_assert(!allows(comes_back, 1));
}

static void finish_late(void *done)
{
    test_gate_linger();
    atomic_store((atomic_bool *)done, true);
}

TEST(told, a_checkpoint_gives_its_memory_up_behind_its_copies)
{
    char *block = alloc(1000);
    atomic_bool done = false;
    tarn_checkpoint *checkpoint;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    test_call_host(world.stream, finish_late, &done); /* in place of copies that take long */
    OK(tarn_checkpoint_destroy(checkpoint));
    ck_assert(atomic_load(&done));
    OK(tarn_free(block));
}

TEST(told, a_restore_that_cannot_wait_leaves_nothing)
{
    char *block = alloc(1000);
    tarn_checkpoint *checkpoint;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(block));
}

TEST(told, a_block_kept_for_a_graph_that_is_gone_is_free_behind_a_take)
{
    char *input = alloc(4096);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_checkpoint *checkpoint;
    tarn_graph *graph;

    test_fill(world.stream, input, 1, 1024);
    graph = test_capture_end(capture);
    OK(tarn_graph_guard(graph, TARN_GUARD_KEEP, NULL));
    OK(tarn_free(input));
    ck_assert(allows(input, 4096));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(test_malloc(100))); /* waits for the device */
    ck_assert(allows(input, 4096));
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    ck_assert(!allows(input, 1));
    OK(tarn_checkpoint_destroy(checkpoint));
}

enum { THREADS = 4 };

static void *allocate_and_free(void *argument)
{
    tn_cu_stream stream = argument;
    unsigned seed = (unsigned)(uintptr_t)stream;
    char *blocks[16] = {NULL};

    for (int i = 0; i < 200; i++) {
        unsigned at = (unsigned)rand_r(&seed) % 16;
        size_t bytes = (size_t)rand_r(&seed) % 100000 + 1;

        if (blocks[at] != NULL)
            OK(tarn_free(blocks[at]));
        blocks[at] = test_alloc(world.pool, bytes, stream);
        expect_exact(blocks[at], bytes);
    }
    for (int i = 0; i < 16; i++) {
        if (blocks[i] != NULL)
            OK(tarn_free(blocks[i]));
    }
    return NULL;
}

TEST(told, threads_tell_in_order)
{
    pthread_t threads[THREADS];
    tn_cu_stream streams[THREADS];

    for (int i = 0; i < THREADS; i++) {
        streams[i] = test_stream();
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate_and_free, streams[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        OK(tarn_stream_retire(world.device, streams[i]));
        test_destroy_stream(streams[i]);
    }
    ck_assert_uint_eq(fake_tool_look(&tool).regions, 0);
    ck_assert_uint_gt(fake_tool_look(&tool).regions_added, THREADS * 100);
}

TEST(told, memory_that_must_be_mapped_is_refused)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool = NULL;
    void *block = NULL;

    options.exportable = true;
    STATUS(TARN_ERR_NOT_SUPPORTED, tarn_pool_create(world.device, &options, &pool));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "sanitizer"));
    STATUS(TARN_ERR_NOT_SUPPORTED, tarn_host_malloc(world.device, 4096, &block));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "sanitizer"));
    ck_assert_ptr_null(pool);
    ck_assert_ptr_null(block);
}

GROUP(opening, NULL)

static tarn_status open_device(tarn_device **device)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    test_start();
    options.sanitizer = true;
    return tarn_device_open(0, &options, device);
}

TEST(opening, without_a_tool_is_refused)
{
    tarn_device *device = NULL;

    ck_assert_int_eq(unsetenv("NVTX_INJECTION64_PATH"), 0);
    STATUS(TARN_ERR_NOT_SUPPORTED, open_device(&device));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "compute-sanitizer --nvtx yes"));
    ck_assert_ptr_null(device);
}

TEST(opening, needs_the_setting_beside_the_tool)
{
    void *block;
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device;

    fake_tool_use(&tool, NULL);
    test_start();
    OK(tarn_device_open(0, &options, &device));
    OK(tarn_malloc(device, 100, NULL, &block));
    ck_assert_uint_eq(fake_tool_look(&tool).heaps, 0);
    OK(tarn_free(block));
    OK(tarn_device_close(device));
}

TEST(opening, goes_by_the_environment)
{
    tarn_device *device;
    void *block;

    fake_tool_use(&tool, NULL);
    ck_assert_int_eq(setenv("TARN_CONF", "sanitizer:True", 1), 0);
    test_start();
    OK(tarn_device_open(0, NULL, &device));
    OK(tarn_malloc(device, 100, NULL, &block));
    expect_exact(block, 100);
    OK(tarn_free(block));
    OK(tarn_device_close(device));
    ck_assert_uint_eq(fake_tool_look(&tool).heaps, 0);
}

TEST(opening, beside_blocks_that_end_with_their_pages_is_refused)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device = NULL;

    fake_tool_use(&tool, NULL);
    test_start();
    options.sanitizer = true;
    options.overrun_alignment = 1;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, &options, &device));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "overrun_alignment"));
    options.overrun_alignment = 0;
    ck_assert_int_eq(setenv("TARN_CONF", "overrun_alignment:1", 1), 0);
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, &options, &device));
    ck_assert_ptr_null(device);
}

TEST(opening, without_room_for_linear_memory_fails)
{
    tarn_device *device = NULL;

    fake_tool_use(&tool, NULL);
    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "512", 1), 0);
    STATUS(TARN_ERR_DEVICE_MEMORY, open_device(&device));
    ck_assert_ptr_null(device);
    ck_assert_uint_eq(fake_tool_look(&tool).heaps, 0);
}
