// SPDX-License-Identifier: Apache-2.0
/* The statuses and sentences are tests/api's; here is which way an allocation goes, and what that asks of the driver. */
#include "graphs/serve.h"
#include "pools/route.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;

static void open_device(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
}

static tarn_pool *owner(const void *address)
{
    return atomic_load(&unit_segment(address)->owner);
}

/* How often an allocation asks the driver by that call; NULL: by any. from: NULL: the routes decide. */
static uint64_t questions(tarn_pool *from, tn_cu_stream at, const char *call)
{
    uint64_t before = sim.call_count(call);
    uint64_t count;
    void *address = NULL;

    OK(tn_serve(device, from, 4096, 512, at, &address));
    ck_assert(tn_lock_none_held());
    count = sim.call_count(call) - before;
    OK(tarn_free(address));
    return count;
}

GROUP(ways, open_device)

TEST(ways, a_stream_is_looked_at_once_whatever_serves)
{
    for (int i = 0; i < 2; i++) { /* nothing is at hand the first time */
        ck_assert_uint_eq(questions(pool, stream, i == 0 ? "cuStreamIsCapturing" : NULL),
                          i == 0 ? 1 : 2);
    }
    unit_trim(device);
    ck_assert_uint_eq(questions(pool, stream, "cuStreamGetId"), 1);
    ck_assert_uint_eq(questions(pool, NULL, "cuStreamIsCapturing"), 0); /* it is never captured */
}

TEST(ways, a_capture_that_is_remembered_costs_one_question)
{
    tarn_capture *capture = unit_begin(pool, stream);

    (void)questions(NULL, stream, NULL);
    ck_assert_uint_eq(questions(NULL, stream, NULL), 1);
    ck_assert_uint_eq(questions(NULL, stream, "cuStreamGetCaptureInfo"), 1);
    OK(tarn_capture_abort(capture));
}

TEST(ways, another_size_in_a_remembered_capture_asks_where_the_stream_stands)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *address;
    uint64_t before;

    (void)questions(NULL, stream, NULL);
    before = sim.call_count(NULL);
    OK(tn_serve(device, NULL, 8192, 512, stream, &address));
    ck_assert_uint_eq(sim.call_count(NULL), before + 2);
    ck_assert_ptr_eq(owner(address), pool);
    OK(tarn_capture_abort(capture));
}

TEST(ways, an_open_route_leaves_other_streams_to_the_default_pool)
{
    tn_cu_stream streams[] = {test_stream(), NULL, TN_CU_STREAM_PER_THREAD};
    tarn_capture *capture = unit_begin(pool, stream);

    for (int i = 0; i < 3; i++) {
        void *address;

        OK(tn_serve(device, NULL, 4096, 512, streams[i], &address));
        ck_assert_ptr_eq(owner(address), device->default_pool);
        OK(tarn_free(address));
    }
    OK(tarn_capture_abort(capture));
}

TEST(ways, a_capture_without_a_route_is_adopted_and_that_is_counted)
{
    void *address;
    void *again;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tn_serve(device, NULL, 4096, 512, stream, &address));
    ck_assert_ptr_ne(owner(address), device->default_pool);
    ck_assert_uint_eq(atomic_load(&device->unrouted_count), 1);
    OK(tarn_free(address));
    OK(tn_serve(device, device->default_pool, 4096, 512, stream, &again));
    ck_assert_ptr_eq(again, address);
    ck_assert_uint_eq(atomic_load(&device->unrouted_count), 2);
    OK(tarn_free(again));
    test_destroy_graph(test_end_capture(stream));
}

TEST(ways, a_pool_admits_the_capture_that_it_is_to_serve)
{
    void *address;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tn_serve(device, pool, 4096, 512, stream, &address));
    ck_assert_ptr_eq(owner(address), pool);
    ck_assert_uint_eq(pool->holds.open_count, 1);
    OK(tarn_free(address));
    ck_assert_uint_eq(questions(pool, stream, "cuStreamIsCapturing"), 1);
    ck_assert_uint_eq(questions(pool, stream, "cuStreamGetCaptureInfo"),
                      2); /* and where it stands */
    test_destroy_graph(test_end_capture(stream));
}

TEST(ways, memory_is_reserved_for_no_capture_of_the_default_pool)
{
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    STATUS(TARN_ERR_UNROUTED, tn_serve_reserve(device->default_pool, 4096, stream));
    test_break_capture();
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_serve_reserve(pool, 4096, stream));
    unit_expect_sentence("nothing can be reserved on it");
    test_end_broken_capture(stream);
    OK(tn_serve_reserve(pool, 4096, stream));
    ck_assert_uint_gt(tn_pool_mapped_bytes(pool), 0);
}

GROUP(rest, open_device, .name = "frees and uses")

TEST(rest, a_use_in_a_capture_gives_that_a_hold)
{
    void *address = unit_alloc(pool, 4096, stream);
    tn_cu_stream other = test_stream();

    test_begin_capture(other, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tn_serve_use(address, other, "test"));
    ck_assert(tn_lock_none_held());
    ck_assert_uint_eq(pool->holds.open_count, 1);
    ck_assert_ptr_nonnull(tn_block_uses(unit_block(address)));
    OK(tn_serve_free_on(address, other));
    ck_assert_uint_eq(tn_pool_pending_count(pool), 1);
    test_destroy_graph(test_end_capture(other));
}

TEST(rest, a_use_that_cannot_be_noted_leaves_nothing_locked)
{
    void *address = unit_alloc(pool, 4096, stream);
    tn_cu_stream other = test_stream();

    sim.plan_fault("cuStreamIsCapturing", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_serve_use(address, other, "test"));
    ck_assert(tn_lock_none_held());
    test_begin_capture(other, TN_CU_CAPTURE_MODE_GLOBAL);
    test_break_capture();
    STATUS(TARN_ERR_CAPTURE_BROKEN, tn_serve_use(address, other, "test"));
    ck_assert(tn_lock_none_held());
    test_end_broken_capture(other);
    ck_assert_ptr_null(tn_block_uses(unit_block(address)));
    STATUS(TARN_ERR_NOT_OURS, tn_serve_use(&address, other, "test"));
    OK(tn_serve_free(address));
    STATUS(TARN_ERR_DOUBLE_FREE, tn_serve_free(address));
    ck_assert(tn_lock_none_held());
}

TEST(rest, a_free_notices_the_capture_of_a_route)
{
    tarn_route *route;
    void *address = unit_alloc(pool, 4096, stream);

    OK(tn_route_begin(device, pool, tarn_filter_stream, stream, &route));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tn_serve_free(address));
    ck_assert_uint_eq(pool->holds.open_count, 1);
    ck_assert_uint_eq(pool->pending.unheld_count, 0);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 1);
    test_destroy_graph(test_end_capture(stream));
    ck_assert(tn_route_end(device, route));
}

/* Its address was given to nobody: the capture's graph has no use of the block. */
TEST(rest, an_undo_notices_no_capture)
{
    tarn_route *route;
    void *address = unit_alloc(pool, 4096, stream);

    OK(tn_route_begin(device, pool, tarn_filter_stream, stream, &route));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tn_serve_undo(address));
    ck_assert_uint_eq(pool->holds.open_count, 0);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    STATUS(TARN_ERR_DOUBLE_FREE, tn_serve_undo(address));
    ck_assert(tn_lock_none_held());
    test_destroy_graph(test_end_capture(stream));
    ck_assert(tn_route_end(device, route));
}

TEST(rest, the_last_free_ends_a_released_pool)
{
    void *address = unit_alloc(pool, 4096, stream);

    OK(tarn_pool_release(pool));
    ck_assert_ptr_eq(device->pools, pool);
    OK(tn_serve_free(address));
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_device_end_released(device);
    ck_assert_ptr_eq(device->pools, device->default_pool);
}

/* A block whose last use is on the stream that it was allocated on: one question, whether that is captured. */
TEST(rest, a_free_on_the_own_stream_asks_whether_that_is_captured)
{
    void *first = unit_alloc(pool, 4096, stream);
    uint64_t before;

    OK(tarn_free_on(first, stream)); /* from then on the arena has an owner */
    first = unit_alloc(pool, 4096, stream);
    before = sim.call_count(NULL);
    OK(tarn_free_on(first, stream));
    ck_assert_uint_eq(sim.call_count(NULL), before + 1);
    ck_assert_uint_eq(unit_stats(pool).live_count, 0);
    ck_assert_uint_eq(unit_stats(pool).pending_count, 0);
    ck_assert_ptr_eq(unit_alloc(pool, 4096, stream), first);
}

/* The program captures the stream itself: what is freed there is kept for the graph. */
TEST(rest, a_free_on_the_own_stream_in_a_capture_is_a_use_in_that)
{
    void *block = unit_alloc(pool, 4096, stream);

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    ck_assert(!tn_serve_free_own(block, stream));
    OK(tarn_free_on(block, stream));
    ck_assert_uint_eq(pool->holds.open_count, 1);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 1);
    test_destroy_graph(test_end_capture(stream));
}

TEST(rest, a_free_on_another_stream_is_more_than_an_arenas_affair)
{
    tn_cu_stream other = test_stream();
    void *block = unit_alloc(pool, 4096, stream);
    void *on_default = unit_alloc(pool, 4096, NULL);

    ck_assert(!tn_serve_free_own(NULL, stream));
    ck_assert(!tn_serve_free_own((char *)block + 512, stream));
    ck_assert(!tn_serve_free_own(block, other));
    ck_assert(!tn_serve_free_own(block, NULL));
    ck_assert(!tn_serve_free_own(on_default, NULL)); /* another thread's, in another context */
    OK(tarn_stream_retire(device, stream));
    ck_assert_uint_eq(atomic_load(&unit_block(block)->heap->arena->stream), 0);
    ck_assert(!tn_serve_free_own(block, stream));
    OK(tarn_free(block));
    OK(tarn_free(on_default));
}

/* As on any other stream, though tarn_free works still. */
TEST(rest, a_free_on_the_own_stream_of_an_unusable_device_is_refused)
{
    void *block = unit_alloc(pool, 4096, stream);

    OK(tarn_free_on(unit_alloc(pool, 4096, stream), stream));
    tn_gpu_teardown(&device->gpu, TN_CUDA_ERROR_INVALID_VALUE, "a test");
    STATUS(TARN_ERR_POISONED, tarn_free_on(block, stream));
    ck_assert_uint_eq(unit_stats(pool).live_count, 1);
    OK(tarn_free(block));
}

/* The stream of a block went without a word, and the next one has got its handle: the block goes to an arena that nobody
 * allocates from any more, and whoever takes its memory waits for the device. */
TEST(rest, a_handle_that_was_given_again_frees_to_an_arena_that_serves_nobody)
{
    tn_cu_stream next = test_stream();
    void *block = unit_alloc(pool, 4 * TN_MIB, stream);
    struct tn_arena *left = unit_block(block)->heap->arena;
    void *after;

    OK(tarn_free(unit_alloc(pool, 4096, next)));
    atomic_store(&left->stream, (uintptr_t)next); /* as if both were one handle */
    sim.hold_work();
    test_fill(next, block, 1, 16);
    OK(tarn_free_on(block, next));
    ck_assert_uint_eq(unit_stats(pool).live_count, 0);
    after = unit_alloc(pool, 4 * TN_MIB, next);
    ck_assert_ptr_ne(after, block);
    sim.resume_work();
    OK(tarn_free(after));
    OK(tarn_pool_validate(pool));
}
