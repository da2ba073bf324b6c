// SPDX-License-Identifier: Apache-2.0
#include "driver/idle.h"
#include "pools/janitor.h"
#include "pools/reclaim.h"
#include "unit/one_pool.h"

static uint64_t trim(bool wait)
{
    uint64_t freed = 7;

    OK(tn_pool_trim(pool, 0, wait, &freed));
    OK(tarn_pool_validate(pool));
    ck_assert(tn_lock_none_held());
    return freed;
}

static uint64_t waits(void)
{
    return atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
}

GROUP(pool, make_pool)

TEST(pool, an_empty_pool_gives_nothing_and_waits_for_nothing)
{
    ck_assert_uint_eq(trim(true), 0);
    ck_assert_uint_eq(waits(), 0);
}

TEST(pool, live_memory_stays)
{
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_eq(trim(true), 0);
    ck_assert_uint_eq(waits(), 0);
    ck_assert_uint_eq(unit_stats(pool).mapped_bytes, 32 * MIB);
}

TEST(pool, free_memory_goes_after_a_wait)
{
    OK(tarn_free(unit_alloc(pool, 32 * MIB, stream)));
    ck_assert_uint_eq(trim(false), 0);
    ck_assert_uint_eq(waits(), 0);
    ck_assert_uint_eq(trim(true), 32 * MIB);
    ck_assert_uint_eq(waits(), 1);
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 0);
}

TEST(pool, proven_memory_goes_without_a_wait)
{
    OK(tarn_free(unit_alloc(pool, 32 * MIB, stream)));
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert_uint_eq(trim(true), 32 * MIB);
    ck_assert_uint_eq(waits(), 1);
}

TEST(pool, what_is_proven_goes_even_when_the_wait_fails)
{
    uint64_t freed = 7;

    device->move_limit_bytes = 0;
    OK(tarn_free(unit_alloc(pool, 32 * MIB, stream)));
    OK(tn_gpu_wait_idle(&device->gpu));
    OK(tarn_free(unit_alloc(pool, 8 * MIB, other)));
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_pool_trim(pool, 0, true, &freed));
    ck_assert_uint_eq(freed, 32 * MIB);
    ck_assert_uint_eq(trim(true), 8 * MIB);
}

TEST(pool, a_trim_breaks_no_capture)
{
    tarn_capture *capture = unit_begin(pool, other);

    (void)unit_alloc(pool, 4096, other);
    OK(tarn_free(unit_alloc(unit_pool(device), 32 * MIB, stream)));
    ck_assert_uint_eq(trim(true), 0);
    OK(tarn_graph_destroy(unit_end(capture)));
}

static int unlocks_before_drop; /* 0: nothing is dropped */

void __real_tn_pool_unlock(tarn_pool *locked);
void __wrap_tn_pool_unlock(tarn_pool *locked);

/* Behind that unlock another thread drops the holds that have gone. */
void __wrap_tn_pool_unlock(tarn_pool *locked)
{
    __real_tn_pool_unlock(locked);
    if (unlocks_before_drop == 0 || --unlocks_before_drop > 0)
        return;
    test_await_destructors(0);
    tn_device_drop_gone(device);
}

/* The library's clock goes by what it sleeps alone. Behind the first pause the driver runs the
 * destructors. */
static bool clock_is_ours;
static int64_t slept_ns;

int __real_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
    if (!clock_is_ours)
        return __real_nanosleep(pause, rest);
    slept_ns += pause->tv_nsec;
    clock_is_ours = false;
    test_await_destructors(test_ledger().graphs); /* one for each graph that lives */
    clock_is_ours = true;
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

/* Trims by the pool or by its device. */
static uint64_t trim_by_our_clock(bool whole)
{
    uint64_t freed = 7;

    slept_ns = 0;
    clock_is_ours = true;
    if (whole)
        OK(tn_device_trim(device, false, 0, true, &freed));
    else
        OK(tn_pool_trim(pool, 0, true, &freed));
    clock_is_ours = false;
    OK(tarn_pool_validate(pool));
    return freed;
}

/* A graph of the program's own, with memory of the pool or, with NULL, of the capture's pool. */
static tn_cu_graph own_graph(tarn_pool *of)
{
    void *address;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    if (of != NULL)
        OK(tarn_pool_malloc(of, 4 * MIB, 0, stream, &address));
    else
        OK(tarn_malloc(device, 4 * MIB, stream, &address));
    OK(tarn_free(address));
    return test_end_capture(stream);
}

/* _i: by the pool or the device; of a pool of the program's or of the capture. Nobody has noticed
 * the end of the capture. */
TEST_LOOP(pool, the_memory_of_a_graph_that_the_program_destroyed_goes, 0, 3)
{
    tn_cu_graph graph = own_graph(_i < 2 ? pool : NULL);
    tn_cu_graph clone = test_clone(graph); /* a graph that was never copied goes at once */

    sim.delay_destructors(10000000);
    test_destroy_graph(clone);
    test_destroy_graph(graph);
    ck_assert_uint_eq(trim_by_our_clock(_i > 0), 4 * MIB);
    ck_assert_int_eq(slept_ns, 100000);
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 0);
}

/* An earlier trim has awaited it in vain. */
TEST_LOOP(pool, the_memory_of_a_clone_that_the_program_destroyed_goes, 0, 2)
{
    tarn_graph *graph = unit_graph(pool, stream, 4 * MIB, NULL);
    tn_cu_graph clone = test_clone(graph->driver_graph);

    OK(tarn_graph_destroy(graph));
    ck_assert_uint_eq(trim_by_our_clock(_i == 1), 0);
    ck_assert_int_eq(slept_ns, 200000000);
    ck_assert_uint_eq(trim_by_our_clock(_i == 1), 0);
    ck_assert_int_eq(slept_ns, 300000); /* in pauses of 100 us */
    sim.delay_destructors(10000000);
    test_destroy_graph(clone);
    ck_assert_uint_eq(trim_by_our_clock(_i == 1), 4 * MIB);
    ck_assert_int_eq(slept_ns, 100000);
}

/* However many passes a trim makes. */
TEST_LOOP(pool, a_graph_that_lives_on_costs_a_trim_250_us, 0, 2)
{
    tn_cu_graph graph = own_graph(pool);

    OK(tarn_free(unit_alloc(pool, 32 * MIB, other)));
    ck_assert_uint_eq(trim_by_our_clock(_i == 1), 32 * MIB);
    ck_assert_int_eq(slept_ns, 300000);
    ck_assert_uint_eq(waits(), 1);
    test_destroy_graph(graph);
}

TEST_LOOP(pool, a_tarn_graph_costs_a_trim_nothing, 0, 2)
{
    tarn_graph *captured = unit_graph(pool, stream, 4 * MIB, NULL);
    tarn_graph *adopted;

    OK(tarn_graph_adopt(pool, own_graph(pool), &adopted));
    ck_assert_uint_eq(trim_by_our_clock(_i == 1), 0);
    ck_assert_int_eq(slept_ns, 0);
    OK(tarn_graph_destroy(captured));
    OK(tarn_graph_destroy(adopted));
}

TEST(pool, memory_whose_hold_goes_behind_a_trims_look_goes_too)
{
    sim.delay_destructors(10000000);
    OK(tarn_graph_destroy(unit_graph(pool, stream, 4 * MIB, NULL)));
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert_uint_eq(pool->holds.count, 1);
    unlocks_before_drop = 2; /* the trim is counted, and looks */
    ck_assert_uint_eq(trim(true), 4 * MIB);
    ck_assert_int_eq(unlocks_before_drop, 0);
}

/* Freed behind its capture: the hold goes first, and only a wait for the device proves the rest. */
TEST_LOOP(pool, memory_that_waits_for_a_hold_and_then_for_the_device_goes_too, 0, 2)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *address = unit_alloc(pool, 4 * MIB, stream);
    tarn_graph *graph = unit_end(capture);
    uint64_t freed = 7;

    OK(tarn_free(address));
    sim.delay_destructors(3000);
    OK(tarn_graph_destroy(graph));
    if (_i == 0)
        freed = trim(true);
    else
        OK(tn_device_trim(device, false, 0, true, &freed));
    ck_assert_uint_eq(freed, 4 * MIB);
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 0);
}

/* Freed, used on another stream, and that use over by the time the device was waited for. */
TEST(pool, memory_that_waited_for_another_stream_goes_too)
{
    void *address = unit_alloc(pool, 32 * MIB, stream);

    test_spin(other, 20);
    OK(tarn_free_on(address, other));
    ck_assert_uint_eq(unit_stats(pool).pending_count, 1);
    ck_assert_uint_eq(trim(true), 32 * MIB);
    ck_assert_uint_eq(unit_stats(pool).pending_count, 0);
}

/* Freed where its chunks belong to another order by now: only a wait for the device proves it. */
TEST(pool, memory_that_waits_for_a_proof_goes_too)
{
    void *kept = unit_alloc(pool, 4096, stream);
    void *freed = unit_alloc(pool, 4096, stream);
    tarn_capture *capture = unit_begin(pool, other);

    tarn_graph *graph;

    OK(tarn_free(freed));
    (void)unit_alloc(pool, 2048, other);
    graph = unit_end(capture);
    OK(tarn_free(kept));
    ck_assert_uint_eq(unit_stats(pool).pending_count, 1);
    (void)trim(true);
    ck_assert_uint_eq(unit_stats(pool).pending_count, 0);
    OK(tarn_graph_destroy(graph));
}

GROUP(device, make_pool)

TEST(device, a_device_trims_all_its_pools)
{
    tarn_pool *second = unit_pool(device);
    uint64_t freed = 7;
    void *address;

    OK(tarn_malloc(device, 8 * MIB, stream, &address));
    OK(tarn_free(address));
    OK(tarn_free(unit_alloc(pool, 16 * MIB, stream)));
    OK(tarn_free(unit_alloc(second, 32 * MIB, stream)));
    OK(tn_device_trim(device, false, 0, false, &freed));
    ck_assert_uint_eq(freed, 0);
    OK(tn_device_trim(device, false, 0, true, &freed));
    ck_assert_uint_eq(freed, 56 * MIB);
    ck_assert_uint_eq(waits(), 1);
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 0);
    OK(tn_device_trim(device, false, 0, true, &freed));
    ck_assert_uint_eq(freed, 0);
    ck_assert_uint_eq(waits(), 1);
}

/* _i: how much of 56 MiB is to stay, in units of 8 MiB: less, just as much and more than the newest pool has. */
TEST_LOOP(device, a_device_trim_stops_inside_a_pool, 0, 8)
{
    tarn_pool *second = unit_pool_of(device, "second", 0);
    uint64_t keep_bytes = (uint64_t)_i * 8 * MIB;
    uint64_t freed = 0;
    void *blocks[7];

    for (int i = 0; i < 7; i++)
        blocks[i] = unit_alloc(i < 4 ? pool : second, 8 * MIB, stream);
    for (int i = 0; i < 7; i++)
        OK(tarn_free(blocks[i]));
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 56 * MIB);
    OK(tn_device_trim(device, false, keep_bytes, true, &freed));
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), keep_bytes);
    ck_assert_uint_eq(freed, 56 * MIB - keep_bytes);
    ck_assert_uint_eq(unit_stats(pool).mapped_bytes, _i < 4 ? keep_bytes : 32 * MIB);
    ck_assert_uint_eq(unit_stats(second).mapped_bytes, _i < 4 ? 0 : keep_bytes - 32 * MIB);
    ck_assert_uint_eq(waits(), _i < 7 ? 1 : 0);
    OK(tarn_pool_validate(pool));
    OK(tarn_pool_validate(second));
}
