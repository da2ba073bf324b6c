// SPDX-License-Identifier: Apache-2.0
#include "driver/idle.h"
#include "pools/await.h"
#include "support/bodies.h"
#include "unit/one_pool.h"

/* The library's clock goes by what it sleeps alone, so nothing depends on the machine. */
static bool clock_is_ours;
static int64_t slept_ns;

int __real_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
    if (!clock_is_ours)
        return __real_nanosleep(pause, rest);
    slept_ns += pause->tv_nsec;
    return 0;
}

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    if (!clock_is_ours)
        return __real_clock_gettime(id, now);
    *now = (struct timespec){slept_ns / 1000000000, slept_ns % 1000000000};
    return 0;
}

/* How long it waits. */
static int64_t await_us(tarn_pool *of, enum tn_await what)
{
    slept_ns = 0;
    clock_is_ours = true;
    tn_await_holds(device, of, what);
    clock_is_ours = false;
    ck_assert(tn_lock_none_held());
    return slept_ns / 1000;
}

static int64_t await_ms(tarn_pool *of, enum tn_await what)
{
    return await_us(of, what) / 1000;
}

/* A graph that was destroyed, and a clone of it that keeps its hold. */
static tn_cu_graph leave_clone(void)
{
    tarn_graph *graph = unit_graph(pool, stream, 4 * MIB, NULL);
    tarn_driver_graph nodes = NULL;
    tn_cu_graph clone;

    OK(tarn_graph_driver_handles(graph, &nodes, NULL));
    clone = test_clone(nodes);
    OK(tarn_graph_destroy(graph));
    return clone;
}

GROUP(await, make_pool)

TEST(await, nothing_is_awaited_where_no_hold_is_expected)
{
    tarn_graph *graph = unit_graph(pool, stream, 4 * MIB, NULL);

    ck_assert(!tn_holds_are_expected(&pool->holds));
    ck_assert(!tn_await_needs_device(device, NULL));
    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_EXPECTED), 0);
    ck_assert_int_eq(await_ms(pool, TN_AWAIT_EXPECTED), 0);
    ck_assert_int_eq(await_ms(pool, TN_AWAIT_POSSIBLE), 0); /* a tarn_graph has it */
    ck_assert_int_eq(await_ms(pool, TN_AWAIT_LAST), 0);     /* and keeps the pool */
    OK(tarn_graph_destroy(graph));
}

TEST_LOOP(await, a_hold_that_goes_late_is_awaited_and_dropped, 0, 2)
{
    sim.delay_destructors(20000);
    OK(tarn_graph_destroy(unit_graph(pool, stream, 4 * MIB, NULL)));
    ck_assert_uint_eq(pool->holds.count, 1);
    tn_await_holds(device, _i == 0 ? pool : NULL, TN_AWAIT_EXPECTED);
    ck_assert_uint_eq(pool->holds.count, 0);
    ck_assert_ptr_null(atomic_load(&device->gone_holds));
}

TEST_LOOP(await, an_expected_hold_is_awaited_in_vain_for_200_ms_and_once, 0, 2)
{
    tn_cu_graph clone = leave_clone();

    ck_assert(tn_holds_are_expected(&pool->holds));
    ck_assert(!tn_await_needs_device(device, pool));
    ck_assert_int_eq(await_ms(_i == 0 ? pool : NULL, TN_AWAIT_EXPECTED), 200);
    ck_assert(!tn_holds_are_expected(&pool->holds));
    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_EXPECTED), 0);
    ck_assert_uint_eq(pool->holds.count, 1);
    test_destroy_graph(clone);
}

TEST(await, a_replay_of_its_pool_may_be_one_of_an_expected_hold)
{
    tarn_graph *graph = unit_graph(pool, stream, 4 * MIB, NULL);

    sim.delay_destructors(10000000);
    OK(tarn_graph_replay(graph, stream));
    OK(tarn_graph_destroy(graph));
    ck_assert(tn_await_needs_device(device, NULL));
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(tn_holds_are_expected(&pool->holds));
    ck_assert(!tn_await_needs_device(device, NULL));
    test_await_destructors(0); /* which runs them at once */
}

/* Nothing tells whether it goes. Where one is newer, that may go. */
TEST(await, a_hold_that_may_go_is_awaited_for_30_ms_and_then_for_5)
{
    tn_cu_graph clone = leave_clone();
    tn_cu_graph newer;

    (void)await_ms(pool, TN_AWAIT_EXPECTED);
    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_POSSIBLE), 30);
    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_POSSIBLE), 5);
    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_POSSIBLE), 5);
    newer = leave_clone();
    (void)await_ms(pool, TN_AWAIT_EXPECTED);
    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_POSSIBLE), 30);
    test_destroy_graph(clone);
    test_destroy_graph(newer);
}

/* Slept in pauses of 100 us. What was in vain is awaited anew, as the program may end it later. */
TEST(await, a_hold_that_keeps_free_memory_is_awaited_for_250_us_each_time)
{
    tn_cu_graph clone = leave_clone();

    ck_assert_int_eq(await_ms(pool, TN_AWAIT_BRIEF), 200); /* is expected, too */
    ck_assert_int_eq(await_us(pool, TN_AWAIT_BRIEF), 300);
    ck_assert_int_eq(await_us(NULL, TN_AWAIT_BRIEF), 300);
    ck_assert_int_eq(await_us(NULL, TN_AWAIT_EXPECTED), 0);
    test_destroy_graph(clone);
}

/* _i: a tarn_graph has the graph; its executable took a new section; another graph that has a
 * tarn_graph holds the chunk, too; a block in the chunk is discarded. */
TEST_LOOP(await, a_hold_that_keeps_no_memory_alone_is_awaited_for_nothing, 0, 4)
{
    tn_cu_graph clone = _i >= 2 ? leave_clone() : NULL;
    tarn_capture *capture;
    tarn_graph *graph = NULL;
    void *block;

    if (_i < 3)
        graph = unit_graph(pool, stream, 4 * MIB, NULL);
    if (_i == 1 || _i == 3) {
        capture = unit_begin(pool, stream);
        block = unit_alloc(pool, 4 * MIB, stream);
        test_fill(stream, block, 7, 128);
        if (_i == 1)
            OK(tarn_free(block));
        OK(_i == 1 ? tarn_graph_update(graph, capture) : tarn_capture_abort(capture));
    }
    (void)await_ms(NULL, TN_AWAIT_EXPECTED);
    ck_assert_uint_eq(pool->chunks.count, 1);
    ck_assert_int_eq(await_us(pool, TN_AWAIT_BRIEF), 0);
    if (graph != NULL)
        OK(tarn_graph_destroy(graph));
    if (clone != NULL)
        test_destroy_graph(clone);
}

/* What a graph of the library's keeps is not waited for: in vain is what was. */
TEST(await, a_hold_that_was_not_awaited_is_awaited_for_30_ms)
{
    tarn_graph *graph = unit_graph(pool, stream, 4 * MIB, NULL);
    tn_cu_graph clone = test_clone(graph->driver_graph);

    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_POSSIBLE), 0);
    OK(tarn_graph_destroy(graph));
    (void)await_ms(pool, TN_AWAIT_EXPECTED);
    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_POSSIBLE), 30);
    test_destroy_graph(clone);
}

TEST(await, the_last_holds_of_a_pool_are_awaited_for_a_second)
{
    tn_cu_graph clone = leave_clone();

    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_LAST), 0); /* the pool has its handle */
    ck_assert_int_eq(await_ms(pool, TN_AWAIT_LAST), 1000);
    unit_release(pool);
    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_LAST), 1000);
    device->user_count += 1;
    ck_assert_int_eq(await_ms(NULL, TN_AWAIT_LAST), 0); /* not the last use of the device */
    device->user_count -= 1;
    test_destroy_graph(clone);
}

TEST_LOOP(await, on_a_gpu_that_is_not_well_holds_are_awaited_for_50_ms, 0, 2)
{
    static const enum tn_await whats[] = {TN_AWAIT_EXPECTED, TN_AWAIT_LAST};
    tn_cu_graph clone = leave_clone();

    tn_gpu_teardown(&device->gpu, TN_CUDA_ERROR_UNKNOWN, "cuGraphDestroy");
    ck_assert_int_eq(await_ms(pool, whats[_i]), 50);
    test_destroy_graph(clone);
}
