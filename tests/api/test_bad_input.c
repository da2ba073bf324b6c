// SPDX-License-Identifier: Apache-2.0
/* What programs do wrong, and what runs out on them, in the middle of something: handles used after
 * their end, devices mixed up, and memory that is exhausted in a capture, a restore, a trim. */
#include <stdlib.h>

#include "support/world.h"
#include "tarn/pressure.h"

enum { WORDS = 1024 };

static bool give_nothing(tarn_device *device, size_t wanted_bytes, void *user)
{
    (void)device;
    (void)wanted_bytes;
    (void)user;
    return false;
}

static void see_nothing(tarn_device *device, const tarn_out_of_memory *what, void *user)
{
    (void)device;
    (void)what;
    (void)user;
}

static void hear_nothing(tarn_device *device, const tarn_tracked *what, void *user)
{
    (void)device;
    (void)what;
    (void)user;
}

#define GONE(kind, call) REFUSE(TARN_ERR_INVALID_HANDLE, kind, call)

/* Every call that takes a pool. */
static void refuse_pool(tarn_pool *pool)
{
    tn_cu_graph nodes;
    tarn_stats stats = TARN_STATS_INIT;
    tarn_layout *layout = UNTOUCHED;
    tarn_block_list *list = UNTOUCHED;
    tarn_snapshot *snapshot = UNTOUCHED;
    tarn_leaks *leaks = UNTOUCHED;
    tarn_live_diff *diff = UNTOUCHED;
    tarn_capture *capture = UNTOUCHED;
    tarn_graph *graph = UNTOUCHED;
    tarn_checkpoint *checkpoint = UNTOUCHED;
    tarn_route *route = UNTOUCHED;
    void *address = UNTOUCHED;
    size_t freed = 77;

    GONE("pool", tarn_pool_malloc(pool, MIB, 0, world.stream, &address));
    GONE("pool", tarn_pool_reserve(pool, MIB, world.stream));
    GONE("pool", tarn_pool_trim(pool, &freed));
    GONE("pool", tarn_pool_stats(pool, &stats));
    GONE("pool", tarn_pool_validate(pool));
    GONE("pool", tarn_pool_layout(pool, &layout));
    GONE("pool", tarn_pool_blocks(pool, &list));
    GONE("pool", tarn_snapshot_take(world.device, pool, &snapshot));
    GONE("pool", tarn_leaks_find(world.device, pool, &leaks));
    GONE("pool", tarn_pool_check_live(pool, NULL, 0, &diff));
    GONE("pool", tarn_begin_allocate_to_pool(world.device, pool, tarn_filter_thread, NULL, &route));
    GONE("pool", tarn_capture_begin(pool, world.stream, NULL, &capture));
    GONE("pool", tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    GONE("pool", tarn_pool_release(pool));
    GONE("pool", tarn_pool_destroy(pool));
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    nodes = test_end_capture(world.stream);
    GONE("pool", tarn_graph_adopt(pool, nodes, &graph));
    test_destroy_graph(nodes);
    ck_assert_untouched(layout);
    ck_assert_untouched(list);
    ck_assert_untouched(diff);
    ck_assert_untouched(capture);
    ck_assert_untouched(graph);
    ck_assert_untouched(checkpoint);
    ck_assert_untouched(route);
    ck_assert_untouched(address);
    ck_assert_uint_eq(freed, 77);
}

SUITE("bad input")
GROUP(handles, test_world_open, test_world_close)

TEST(handles, a_pool_used_after_its_end_is_refused)
{
    tarn_pool *destroyed = test_pool("destroyed");
    tarn_pool *released = test_pool("released");
    void *kept = test_alloc(released, MIB, world.stream);

    OK(tarn_pool_destroy(destroyed));
    refuse_pool(destroyed);
    OK(tarn_pool_release(released)); /* its block keeps the pool, and nobody its handle */
    refuse_pool(released);
    OK(tarn_free(kept));
    refuse_pool(released);
}

TEST(handles, a_capture_used_after_its_end_is_refused)
{
    tarn_capture *ended = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_capture *aborted;
    tarn_graph *first = test_capture_end(ended);
    tarn_graph *graph = UNTOUCHED;

    GONE("capture", tarn_capture_end(ended, &graph));
    GONE("capture", tarn_graph_update(first, ended));
    GONE("capture", tarn_capture_abort(ended));
    aborted = test_capture_begin(TARN_CAPTURE_RELAXED);
    OK(tarn_capture_abort(aborted));
    test_await_destructors(1);
    GONE("capture", tarn_capture_end(aborted, &graph));
    GONE("capture", tarn_graph_update(first, aborted));
    GONE("capture", tarn_capture_abort(aborted));
    ck_assert_untouched(graph);
    OK(tarn_graph_replay(first, world.stream));
    OK(tarn_graph_destroy(first));
}

TEST(handles, a_graph_used_after_its_end_is_refused)
{
    tarn_graph *graph = test_capture_end(test_capture_begin(TARN_CAPTURE_RELAXED));
    tarn_capture *capture;
    tarn_driver_graph nodes = UNTOUCHED;
    tarn_driver_exec exec = UNTOUCHED;

    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
    capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    GONE("graph", tarn_graph_replay(graph, world.side));
    GONE("graph", tarn_graph_driver_handles(graph, &nodes, &exec));
    GONE("graph", tarn_graph_update(graph, capture));
    GONE("graph", tarn_graph_destroy(graph));
    ck_assert_untouched(nodes);
    ck_assert_untouched(exec);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_abort(capture));
}

TEST(handles, a_checkpoint_used_after_its_end_is_refused)
{
    void *address = test_alloc(world.pool, MIB, world.stream);
    tarn_checkpoint *checkpoint = NULL;
    tarn_delta *delta = UNTOUCHED;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
    GONE("checkpoint", tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    GONE("checkpoint", tarn_checkpoint_verify(checkpoint, world.stream));
    GONE("checkpoint", tarn_checkpoint_destroy(checkpoint));
    ck_assert_untouched(delta);
}

GROUP(closed, NULL)

/* Nothing else of the device is there any more. */
TEST(closed, a_device_used_after_its_end_is_refused)
{
    tarn_device *device;
    tarn_pool *pool = UNTOUCHED;
    tarn_pool *gone;
    tarn_route *ended;
    tarn_route *route = UNTOUCHED;
    tarn_pool *default_pool;
    tarn_device_info info = TARN_DEVICE_INFO_INIT;
    tarn_stats stats = TARN_STATS_INIT;
    void *address = UNTOUCHED;

    test_world_open();
    device = world.device;
    gone = world.pool;
    default_pool = world.default_pool;
    ended = test_route(gone, tarn_filter_thread, NULL);
    OK(tarn_end_allocate_to_pool(ended));
    OK(tarn_pool_destroy(world.pool));
    OK(tarn_device_close(world.device));
    test_world_abandon();
    GONE("device", tarn_malloc(device, MIB, world.stream, &address));
    GONE("device", tarn_malloc_aligned(device, MIB, 4096, world.stream, &address));
    GONE("device", tarn_calloc(device, 1, MIB, world.stream, &address));
    GONE("device", tarn_pool_create(device, NULL, &pool));
    GONE("device", tarn_device_default_pool(device, &pool));
    GONE("device", tarn_device_describe(device, &info));
    GONE("device", tarn_device_stats(device, &stats));
    GONE("device", tarn_device_add_free_callback(device, give_nothing, NULL));
    GONE("device", tarn_device_remove_free_callback(device, give_nothing, NULL));
    GONE("device", tarn_device_add_oom_observer(device, see_nothing, NULL));
    GONE("device", tarn_device_remove_oom_observer(device, see_nothing, NULL));
    GONE("device", tarn_device_add_tracker(device, hear_nothing, NULL, TARN_TRACKED_ALL));
    GONE("device", tarn_device_remove_tracker(device, hear_nothing, NULL));
    GONE("device", tarn_begin_allocate_to_pool(device, gone, tarn_filter_thread, NULL, &route));
    GONE("route", tarn_end_allocate_to_pool(ended));
    GONE("device", tarn_device_close(device));
    GONE("pool", tarn_pool_malloc(default_pool, MIB, 0, world.stream, &address));
    GONE("pool", tarn_pool_trim(default_pool, NULL));
    ck_assert_untouched(address);
    ck_assert_untouched(pool);
    test_same_ledger(&world.ledger);
}

/* Two devices; the world's is the first. */

static struct {
    tarn_device *device;
    tarn_pool *pool;
    tn_cu_stream stream;
    tn_cu_context context;
} second;

static void open_two(void)
{
    tn_cu_context mine;

    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    test_world_open();
    mine = test_context();
    OK(tarn_device_open(1, NULL, &second.device));
    OK(tarn_pool_create(second.device, NULL, &second.pool));
    second.context = test_retain(1);
    test_set_context(second.context);
    second.stream = test_stream();
    test_set_context(mine);
}

static void close_two(void)
{
    OK(tarn_pool_destroy(second.pool));
    OK(tarn_device_close(second.device));
    test_destroy_stream(second.stream);
    test_release(1);
    test_world_close();
}

GROUP(two, open_two, close_two, .name = "two devices")

TEST(two, a_pool_of_another_device_is_refused)
{
    tarn_route *route = UNTOUCHED;

    REFUSE(
        TARN_ERR_INVALID_ARGUMENT, "another device",
        tarn_begin_allocate_to_pool(world.device, second.pool, tarn_filter_thread, NULL, &route));
    REFUSE(
        TARN_ERR_INVALID_ARGUMENT, "another device",
        tarn_begin_allocate_to_pool(second.device, world.pool, tarn_filter_thread, NULL, &route));
    ck_assert_untouched(route);
    OK(tarn_begin_allocate_to_pool(second.device, second.pool, tarn_filter_thread, NULL, &route));
    OK(tarn_free(test_malloc(MIB)));
    ck_assert_uint_eq(test_stats(second.pool).alloc_count, 0); /* the route is the other's */
    OK(tarn_end_allocate_to_pool(route));
}

TEST(two, a_capture_of_another_devices_pool_updates_no_graph)
{
    tarn_graph *graph = test_capture_end(test_capture_begin(TARN_CAPTURE_RELAXED));
    tarn_capture *capture = NULL;
    tarn_graph *made = NULL;

    OK(tarn_capture_begin(second.pool, second.stream, CAPTURE_MODE(TARN_CAPTURE_RELAXED),
                          &capture));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "pool", tarn_graph_update(graph, capture));
    OK(tarn_capture_end(capture, &made));
    OK(tarn_graph_destroy(made));
    OK(tarn_graph_destroy(graph));
}

/* Memory exhausted in the middle; the device has 128 MiB. */

static void open_small(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_MEMORY_MIB", "128", 1), 0);
    test_world_open();
}

GROUP(full, open_small, test_world_close)

TEST(full, a_capture_on_a_full_device_goes_on)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_graph *graph;
    void *first = test_malloc(48 * MIB);
    void *output = test_malloc(16 * MIB);
    void *more = UNTOUCHED;

    test_fill(world.stream, first, 5, WORDS);
    REFUSE(TARN_ERR_DEVICE_MEMORY, "'test' maps",
           tarn_malloc(world.device, 96 * MIB, world.stream, &more));
    ck_assert_untouched(more);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_copy(world.stream, output, first, (size_t)WORDS * 4);
    OK(tarn_free(first));
    ck_assert_ptr_eq(test_malloc(48 * MIB), first); /* what is freed serves the capture */
    OK(tarn_free(first));
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    test_expect_words(world.stream, output, 5, WORDS);
    OK(tarn_free(output));
    OK(tarn_graph_destroy(graph));
}

TEST(full, a_capture_on_a_full_device_may_be_aborted)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *first = test_malloc(100 * MIB);
    void *more = UNTOUCHED;

    REFUSE(TARN_ERR_DEVICE_MEMORY, "'test' maps",
           tarn_malloc(world.device, 96 * MIB, world.stream, &more));
    OK(tarn_capture_abort(capture));
    OK(tarn_free(first));
    test_await_destructors(0);
    OK(tarn_malloc(world.device, 100 * MIB, world.stream, &more)); /* all of it is free */
    OK(tarn_free(more));
}

/* The checkpoint's block would need the memory of another pool. */
TEST(full, a_restore_on_a_full_device_changes_nothing_and_may_be_repeated)
{
    void *block = test_alloc(world.pool, 64 * MIB, world.stream);
    tarn_checkpoint *checkpoint = NULL;
    tarn_delta *delta = UNTOUCHED;
    void *later;
    void *other;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    OK(tarn_free(block));
    OK(tarn_pool_trim(world.pool, NULL));
    later = test_alloc(world.pool, MIB, world.side);
    test_fill(world.side, later, 3, WORDS);
    other = test_malloc(96 * MIB);
    REFUSE(TARN_ERR_DEVICE_MEMORY, "memory",
           tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_untouched(delta);
    test_expect_words(world.side, later, 3, WORDS);
    OK(tarn_free(other));
    OK(tarn_pool_trim(world.default_pool, NULL));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, &delta));
    ck_assert_uint_eq(delta->freed_count, 1);
    ck_assert_uint_eq(delta->revived_count, 1);
    tarn_delta_destroy(delta);
    OK(tarn_free(block));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* A trim waits for the device by an allocation that a full device has no room for. */
TEST(full, a_trim_on_a_full_device_gives_memory_back)
{
    void *free_soon = test_alloc(world.pool, 32 * MIB, world.stream);
    void *linear[128];
    size_t count = test_linear_fill(linear, 128, MIB);
    size_t freed = 0;

    test_spin(world.stream, 10);
    test_fill(world.stream, free_soon, 1, WORDS);
    OK(tarn_free(free_soon));
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_ge(freed, 32 * MIB);
    OK(tarn_free(test_alloc(world.pool, 32 * MIB, world.stream)));
    OK(tarn_pool_trim(world.pool, &freed)); /* and again */
    ck_assert_uint_ge(freed, 32 * MIB);
    while (count > 0)
        test_linear_free(linear[--count]);
}

/* A kernel faults while a call waits for the device. */

enum { WAITS = 6 };

static tarn_status wait_in(int which, tarn_checkpoint *checkpoint, tarn_graph *graph)
{
    void *address = UNTOUCHED;

    switch (which) {
    case 0:
        return tarn_pool_trim(world.pool, NULL);
    case 1:
        return tarn_checkpoint_restore(checkpoint, world.stream, NULL);
    case 2:
        return tarn_checkpoint_verify(checkpoint, world.stream);
    case 3:
        return tarn_graph_replay(graph, world.stream);
    case 4:
        return tarn_malloc(world.device, 100 * MIB, world.stream, &address);
    default:
        return tarn_pool_reserve(world.pool, 100 * MIB, world.stream);
    }
}

GROUP(lost, open_small, test_world_close)

TEST_LOOP(lost, a_device_that_is_lost_during_a_call_is_told_and_released, 0, WAITS)
{
    void *block = test_alloc(world.pool, 32 * MIB, world.stream);
    void *live = test_malloc(MIB);
    tarn_checkpoint *checkpoint = NULL;
    tarn_graph *graph;
    tarn_graph *other;
    tarn_status status;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_HOST, world.stream, &checkpoint));
    graph = test_capture_end(test_capture_begin(TARN_CAPTURE_RELAXED));
    OK(tarn_graph_replay(graph, world.side));
    other = test_capture_end(
        test_capture_begin(TARN_CAPTURE_RELAXED)); /* from here on replays are ordered */
    test_synchronize(world.stream);
    test_synchronize(world.side);
    test_hold_until_waited();
    test_fill(world.stream, (char *)block + 64 * GIB, 1, 1);
    OK(tarn_free_on(block, world.side));
    status = wait_in(_i, checkpoint, graph);
    ck_assert_msg(status == TARN_ERR_DEVICE_LOST, "%s; %s", tarn_status_name(status),
                  tarn_last_error());
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    OK(tarn_pool_validate(world.pool));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    OK(tarn_graph_destroy(graph));
    OK(tarn_graph_destroy(other));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(live));
    OK(tarn_pool_destroy(world.pool));
    OK(tarn_device_close(world.device));
    test_world_abandon();
}

TEST_LOOP(lost, a_device_that_is_lost_while_its_pool_ends_lets_it_end, 0, 2)
{
    void *block = test_alloc(world.pool, 32 * MIB, world.stream);
    tarn_pool *pool = world.pool;

    test_hold_until_waited();
    test_fill(world.stream, (char *)block + 64 * GIB, 1, 1);
    OK(tarn_free(block));
    if (_i == 0)
        OK(tarn_pool_destroy(pool));
    else
        OK(tarn_pool_release(pool));
    world.pool = NULL;
    GONE("pool", tarn_pool_trim(pool, NULL));
    GONE("pool", tarn_pool_destroy(pool));
    OK(tarn_device_close(world.device));
    test_world_abandon();
}
