// SPDX-License-Identifier: Apache-2.0
/* Devices that are lost or poisoned: what each call answers then, and that frees and destroys go on. */
#include "support/world.h"

/* One of everything, made while the device was well. */
struct things {
    void *block;
    void *second;
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_checkpoint *checkpoint;
    tarn_pool *routed;
    tarn_route *route;
    tarn_pool *capturing;
    tn_cu_graph driver_graph;
    tn_cu_stream third;
};
static struct things there;

static void make_things(void)
{
    tarn_capture *capture = NULL;
    void *temporary;

    test_world_open();
    there.block = test_malloc(4 * MIB);
    there.second = test_alloc(world.pool, 4 * MIB, world.stream);
    OK(tarn_capture_begin(world.pool, world.stream, CAPTURE_MODE(TARN_CAPTURE_RELAXED), &capture));
    temporary = test_malloc(MIB);
    test_fill(world.stream, temporary, 1, 1);
    OK(tarn_free(temporary));
    OK(tarn_capture_end(capture, &there.graph));
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &there.checkpoint));
    there.routed = test_pool("routed");
    there.route = test_route(there.routed, tarn_filter_stream, world.side);
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    there.driver_graph = test_end_capture(world.stream);
    there.capturing = test_pool("capturing");
    there.third = test_stream();
    OK(tarn_capture_begin(there.capturing, there.third, CAPTURE_MODE(TARN_CAPTURE_RELAXED),
                          &there.capture));
}

/* All calls that need the device answer that status and give nothing. */
static void refuse_all(tarn_status status)
{
    void *address = UNTOUCHED;
    tarn_pool *pool = UNTOUCHED;
    tarn_route *route = UNTOUCHED;
    tarn_capture *capture = UNTOUCHED;
    tarn_graph *graph = UNTOUCHED;
    tarn_checkpoint *checkpoint = UNTOUCHED;
    tarn_delta *delta = UNTOUCHED;
    tarn_graph_diff *diff = UNTOUCHED;
    tarn_audit *audit = UNTOUCHED;
    tarn_device_info info = {.size = sizeof info, .ordinal = -7};
    tarn_graph_memory_info memory = {.size = sizeof memory, .node_count = 77};
    size_t freed = 77;

    STATUS(status, tarn_malloc(world.device, 64 * MIB, world.stream, &address));
    STATUS(status, tarn_malloc_aligned(world.device, 64 * MIB, 4096, world.stream, &address));
    STATUS(status,
           tarn_malloc_labeled(world.device, NULL, 64 * MIB, 0, world.stream, "label", &address));
    STATUS(status, tarn_calloc(world.device, 64, MIB, world.stream, &address));
    STATUS(status, tarn_pool_malloc(world.pool, 64 * MIB, 0, world.stream, &address));
    STATUS(status, tarn_pool_create(world.device, NULL, &pool));
    STATUS(status, tarn_host_malloc(world.device, 64 * MIB, &address));
    STATUS(status, tarn_host_pool(world.device, &pool));
    STATUS(status, tarn_pool_reserve(world.pool, 64 * MIB, world.stream));
    STATUS(status, tarn_pool_trim(world.pool, &freed));
    STATUS(status, tarn_device_set_cache_limit(world.device, 0));
    STATUS(status, tarn_device_set_pinned_cache_limit(world.device, 0));
    STATUS(status, tarn_pool_trim_to(world.pool, 0, &freed));
    STATUS(status, tarn_pool_add_peer(world.pool, 0));
    STATUS(status, tarn_device_add_peer(world.device, 0));
    STATUS(status, tarn_device_trim(world.device, 0, &freed));
    STATUS(status, tarn_device_collect(world.device));
    STATUS(status, tarn_device_largest(world.device, NULL, world.stream, &freed));
    STATUS(status, tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    STATUS(status, tarn_capture_end(there.capture, &graph));
    STATUS(status, tarn_graph_adopt(world.pool, there.driver_graph, &graph));
    STATUS(status, tarn_graph_replay(there.graph, world.stream));
    STATUS(status, tarn_graph_update(there.graph, there.capture));
    STATUS(status, tarn_graph_compare(there.graph, there.graph, &diff));
    STATUS(status,
           tarn_driver_graph_compare(world.device, there.driver_graph, there.driver_graph, &diff));
    STATUS(status, tarn_graph_audit(there.graph, NULL, &audit));
    STATUS(status, tarn_driver_graph_audit(world.device, there.driver_graph, NULL, &audit));
    STATUS(status, tarn_graph_guard(there.graph, TARN_GUARD_IGNORE, NULL));
    STATUS(status, tarn_graph_guard(there.graph, TARN_GUARD_KEEP, NULL));
    STATUS(status, tarn_capture_begin(
                       world.pool, world.stream,
                       CAPTURE_INTO(NULL, 0, there.driver_graph, TARN_CAPTURE_RELAXED), &capture));
    STATUS(status, tarn_capture_end(there.capture, NULL));
    STATUS(status, tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    STATUS(status,
           tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint));
    STATUS(status, tarn_checkpoint_restore(there.checkpoint, world.stream, &delta));
    STATUS(status, tarn_checkpoint_verify(there.checkpoint, world.stream));
    STATUS(status, tarn_record_stream(there.block, world.side));
    STATUS(status, tarn_free_on(there.block, world.side));
    STATUS(status, tarn_stream_retire(world.device, world.side));
    STATUS(status, tarn_begin_allocate_to_pool(world.device, world.pool, tarn_filter_stream,
                                               world.stream, &route));
    STATUS(status, tarn_device_describe(world.device, &info));
    STATUS(status, tarn_graph_memory(there.graph, &memory));
    STATUS(status, tarn_device_graph_memory(world.device, &memory));
    ck_assert_untouched(address);
    ck_assert_untouched(pool);
    ck_assert_untouched(route);
    ck_assert_untouched(capture);
    ck_assert_untouched(graph);
    ck_assert_untouched(checkpoint);
    ck_assert_untouched(delta);
    ck_assert_untouched(diff);
    ck_assert_untouched(audit);
    ck_assert_int_eq(info.ordinal, -7);
    ck_assert_uint_eq(memory.node_count, 77);
    ck_assert_uint_eq(freed, 77);
}

/* What releases or only looks works as ever. */
static void release_all(void)
{
    tarn_pool *pool = NULL;
    tarn_live_diff *diff = NULL;
    tarn_layout *layout = NULL;
    tarn_block block;
    uint64_t mark = 0;

    OK(tarn_device_mark(world.device, &mark));
    OK(tarn_graph_check(there.graph));
    OK(tarn_block_at(there.block, &block));
    ck_assert_uint_eq(block.bytes, 4 * MIB);
    ck_assert_uint_ge(test_stats(world.default_pool).live_count, 2); /* contents are the other */
    OK(tarn_pool_validate(world.pool));
    OK(tarn_pool_layout(world.pool, &layout));
    tarn_layout_destroy(layout);
    OK(tarn_pool_check_live(world.pool, NULL, 0, &diff));
    ck_assert_uint_eq(diff->count, 1);
    tarn_live_diff_destroy(diff);
    OK(tarn_device_default_pool(world.device, &pool));
    OK(tarn_capture_abort(there.capture));
    OK(tarn_end_allocate_to_pool(there.route));
    OK(tarn_checkpoint_destroy(there.checkpoint));
    OK(tarn_graph_destroy(there.graph));
    OK(tarn_free(there.block));
    OK(tarn_free(there.second));
    OK(tarn_pool_release(there.routed));
    OK(tarn_pool_destroy(there.capturing));
    OK(tarn_pool_destroy(world.pool));
    OK(tarn_device_close(world.device));
    test_world_abandon();
}

/* A kernel that writes where no memory is. */
static void fault(void)
{
    test_fill(world.stream, (char *)there.block + 64 * GIB, 1, 1);
    ck_assert_int_eq(test_stream_result(world.stream), TN_CUDA_ERROR_ILLEGAL_ADDRESS);
}

SUITE("lost and poisoned devices")
GROUP(lost, NULL)

TEST(lost, a_lost_device_refuses_everything_but_releases)
{
    make_things();
    fault();
    refuse_all(TARN_ERR_DEVICE_LOST);
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    release_all();
}

/* Each call is the first to hear of the fault. */
static tarn_status first_call(int which)
{
    void *address = NULL;
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    tarn_checkpoint *checkpoint = NULL;

    switch (which) {
    case 0:
        return tarn_malloc(world.device, 64 * MIB, world.stream, &address);
    case 1:
        return tarn_capture_begin(world.pool, world.stream, NULL, &capture);
    case 2:
        return tarn_capture_end(there.capture, &graph);
    case 3:
        return tarn_graph_replay(there.graph, world.stream);
    case 4:
        return tarn_checkpoint_take(world.pool, TARN_CONTENTS_DEVICE, world.stream, &checkpoint);
    case 5:
        return tarn_checkpoint_restore(there.checkpoint, world.stream, NULL);
    case 6:
        return tarn_record_stream(there.block, world.side);
    case 7:
        return tarn_free_on(there.block, world.side);
    case 8:
        return tarn_graph_adopt(world.pool, there.driver_graph, &graph);
    default:
        return tarn_pool_reserve(world.pool, 64 * MIB, world.stream);
    }
}
enum { FIRST_CALLS = 10 };

TEST_LOOP(lost, whichever_call_hears_of_the_fault_first_says_so, 0, FIRST_CALLS)
{
    make_things();
    fault();
    STATUS(TARN_ERR_DEVICE_LOST, first_call(_i));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
    release_all();
}

TEST(lost, releases_work_when_they_are_the_first_to_hear_of_the_fault)
{
    make_things();
    fault();
    release_all();
}

/* As when a library gives its pools back after the driver's own end. */
TEST(lost, a_driver_that_is_gone_at_exit_is_no_error_for_releases)
{
    make_things();
    sim.plan_fault(NULL, 1, 1, TN_CUDA_ERROR_DEINITIALIZED);
    release_all();
}

TEST(lost, a_driver_that_is_gone_at_exit_gives_nothing_more)
{
    make_things();
    sim.plan_fault(NULL, 1, 1, TN_CUDA_ERROR_DEINITIALIZED);
    refuse_all(TARN_ERR_DEVICE_LOST);
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "CUDA_ERROR_DEINITIALIZED"));
    release_all();
}

TEST(lost, a_trim_that_must_wait_hears_of_the_fault)
{
    void *freed = NULL;

    make_things();
    freed = test_alloc(world.pool, 64 * MIB, world.stream);
    OK(tarn_free(freed));
    fault();
    STATUS(TARN_ERR_DEVICE_LOST, tarn_pool_trim(world.pool, NULL));
    release_all();
}

TEST(lost, a_collect_that_is_refused_leaves_what_is_pending)
{
    tarn_stats before = TARN_STATS_INIT;
    tarn_stats after = TARN_STATS_INIT;
    void *block = NULL;

    make_things();
    block = test_alloc(world.pool, 64 * MIB, world.stream);
    OK(tarn_record_stream(block, world.side));
    OK(tarn_free(block));
    fault();
    STATUS(TARN_ERR_DEVICE_LOST, first_call(1));
    OK(tarn_pool_stats(world.pool, &before));
    ck_assert_uint_ge(before.pending_bytes.all.current, 64 * MIB);
    STATUS(TARN_ERR_DEVICE_LOST, tarn_device_collect(world.device));
    OK(tarn_pool_stats(world.pool, &after));
    ck_assert_uint_eq(after.pending_bytes.all.current, before.pending_bytes.all.current);
    release_all();
}

TEST(lost, a_device_that_keeps_memory_from_the_driver_is_poisoned)
{
    tarn_status status;
    size_t freed = 77;

    make_things();
    OK(tarn_free(test_alloc(world.pool, 64 * MIB, world.stream)));
    sim.plan_fault("cuMemUnmap", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    status = tarn_pool_trim(world.pool, &freed);
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    ck_assert_msg(status == TARN_ERR_POISONED, "%s; %s", tarn_status_name(status),
                  tarn_last_error());
    ck_assert_uint_eq(freed, 77);
    refuse_all(TARN_ERR_POISONED);
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "cuMemUnmap"));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "CUDA_ERROR_UNKNOWN"));
    release_all();
}
