// SPDX-License-Identifier: Apache-2.0
#include "driver/idle.h"
#include "observe/stats.h"
#include "pools/totals.h"
#include "unit/one_pool.h"

/* Not 0: before the pool is locked another thread allocates so much in it, frees that, and will allocate more the next
 * time. */
static size_t passing_bytes;
static size_t passed_bytes; /* the most that it had */

static void allocate_and_free(void *bytes)
{
    OK(tarn_free(unit_alloc(pool, *(const size_t *)bytes, stream)));
}

void __real_tn_lock_acquire(struct tn_lock *lock);
void __wrap_tn_lock_acquire(struct tn_lock *lock);
void __wrap_tn_lock_acquire(struct tn_lock *lock)
{
    size_t bytes = passing_bytes;

    if (bytes > 0 && lock == &pool->lock && atomic_load(&pool->magic) == TN_POOL_MAGIC) {
        passing_bytes = 0;
        test_elsewhere(allocate_and_free, &bytes);
        passed_bytes = bytes;
        passing_bytes = bytes + MIB;
    }
    __real_tn_lock_acquire(lock);
}

static tarn_stats of_pool(void)
{
    tarn_stats stats;

    tn_pool_read_stats(pool, true, &stats);
    ck_assert_uint_eq(stats.size, sizeof stats);
    ck_assert(tn_lock_none_held());
    return stats;
}

static tarn_stats of_device(void)
{
    tarn_stats stats;

    tn_device_read_stats(device, false, true, &stats);
    ck_assert_uint_eq(stats.size, sizeof stats);
    ck_assert(tn_lock_none_held());
    return stats;
}

static struct test_stats numbers(void)
{
    tarn_stats stats = of_pool();

    return test_stats_in(&stats);
}

static struct test_device_stats device_numbers(void)
{
    tarn_stats stats = of_device();

    return test_device_stats_in(&stats);
}

GROUP(pool, make_pool)

TEST(pool, an_empty_pool_has_nothing)
{
    tarn_stats expected = {.size = sizeof expected};
    tarn_stats stats = of_pool();

    ck_assert_mem_eq(&stats.live_blocks, &expected.live_blocks,
                     sizeof stats - offsetof(tarn_stats, live_blocks));
}

TEST(pool, a_pools_numbers_are_those_of_its_blocks_and_chunks)
{
    void *small = unit_alloc(pool, 1000, stream);
    void *large = unit_alloc(pool, 3 * MIB, stream);
    struct test_stats stats;

    (void)unit_alloc(pool, 600, other);
    OK(tarn_free(large));
    sim.hold_work();
    test_fill(other, small, 1, 16);
    OK(tarn_free_on(small, other));
    stats = numbers();
    sim.resume_work();
    ck_assert_uint_eq(stats.mapped_bytes, 8 * MIB);
    ck_assert_uint_eq(stats.mapped_peak_bytes, 8 * MIB);
    ck_assert_uint_eq(stats.live_bytes, 1024);
    ck_assert_uint_eq(stats.live_peak_bytes, 2048 + 3 * MIB);
    ck_assert_uint_eq(stats.requested_bytes, 600);
    ck_assert_uint_eq(stats.pending_bytes, 1024);
    ck_assert_uint_eq(stats.captured_bytes, 0);
    ck_assert_uint_eq(stats.live_count, 1);
    ck_assert_uint_eq(stats.pending_count, 1);
    ck_assert_uint_eq(stats.alloc_count, 3);
    ck_assert_uint_eq(stats.free_count, 2);
    ck_assert_uint_eq(stats.segment_count, 3);
    ck_assert_uint_eq(stats.chunk_count, 3);
    ck_assert_uint_eq(stats.arena_count, 2);
    ck_assert_uint_eq(stats.map_count, 3);
    ck_assert_uint_eq(stats.unmap_count, 0);
    test_synchronize(other);
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_ge(numbers().unmap_count, 1);
    ck_assert_uint_eq(numbers().mapped_peak_bytes, 8 * MIB);
}

TEST(pool, captured_bytes_are_those_of_held_chunks)
{
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_checkpoint *checkpoint;

    (void)unit_alloc(pool, 4096, stream);
    capture = unit_begin(pool, other);
    (void)unit_alloc(pool, 62 * MIB, other);
    ck_assert_uint_eq(numbers().capture_count, 1);
    ck_assert_uint_eq(numbers().captured_bytes, 64 * MIB);
    ck_assert_uint_eq(numbers().graph_count, 0);
    graph = unit_end(capture);
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    ck_assert_uint_eq(numbers().capture_count, 0);
    ck_assert_uint_eq(numbers().captured_bytes, 64 * MIB);
    ck_assert_uint_eq(numbers().graph_count, 1);
    ck_assert_uint_eq(numbers().checkpoint_count, 1);
    (void)graph;
}

/* A free run that reaches over a chunk that is in use is one, and its bytes there are no trim's. */
TEST(pool, a_free_run_counts_where_a_chunk_under_it_is_in_use)
{
    void *low = unit_alloc(pool, 3 * MIB, stream); /* a chunk of 4 MiB */
    void *high = unit_alloc(pool, 8 * MIB, stream);
    tarn_stats stats = of_pool();
    uint64_t mapped = stats.mapped_bytes.all.current;

    ck_assert_uint_eq(stats.inactive_bytes.large, mapped - 11 * MIB);
    OK(tarn_free(high));
    stats = of_pool();
    ck_assert_uint_eq(stats.inactive_blocks.all,
                      1); /* 1 MiB in the chunk of the other one, and all above */
    ck_assert_uint_eq(stats.inactive_bytes.large, MIB);
    ck_assert_uint_eq(stats.unused_bytes.large, mapped - 4 * MIB);
    OK(tarn_free(low));
    stats = of_pool();
    ck_assert_uint_eq(stats.inactive_blocks.all, 0);
    ck_assert_uint_eq(stats.unused_bytes.all, mapped);
}

TEST(pool, a_chunk_that_a_capture_and_a_graph_keep_counts_for_both)
{
    tarn_graph *graph = unit_graph(pool, stream, 1000, NULL);
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_stats stats;

    ck_assert_uint_eq(of_pool().capture_bytes, 0);
    (void)unit_alloc(pool, 1000, stream);
    stats = of_pool();
    ck_assert_uint_eq(stats.capture_bytes, 2 * MIB);
    ck_assert_uint_eq(stats.graph_bytes, 2 * MIB);
    ck_assert_uint_eq(stats.captured_bytes, 2 * MIB);
    ck_assert_uint_eq(stats.chunks.all.current, 1);
    ck_assert_uint_eq(of_device().graph_bytes, 2 * MIB);
    OK(tarn_capture_abort(capture));
    (void)graph;
}

GROUP(device, make_pool)

/* Whatever is reset, these are since the pool was made, or the device was opened; those of pools that are gone are
 * the device's. */
TEST(device, counts_since_the_beginning_are_never_reset)
{
    uint64_t mapped;

    OK(tarn_free(unit_alloc(pool, 1000, stream)));
    OK(tarn_pool_trim(pool, NULL));
    tn_device_reset_totals(device);
    ck_assert_uint_eq(of_pool().alloc_count, 1);
    ck_assert_uint_eq(of_pool().free_count, 1);
    ck_assert_uint_eq(of_pool().live_blocks.all.allocated, 0);
    mapped = of_pool().map_count;
    ck_assert_uint_gt(mapped, 0);
    ck_assert_uint_eq(of_pool().unmap_count, mapped);
    ck_assert_uint_eq(of_pool().chunks.all.allocated, 0);
    OK(tarn_pool_destroy(pool));
    ck_assert_uint_eq(of_device().alloc_count, 1);
    ck_assert_uint_eq(of_device().free_count, 1);
    ck_assert_uint_eq(of_device().map_count, mapped);
    ck_assert_uint_eq(of_device().unmap_count, mapped);
}

/* Without the walk all else is the same. */
TEST(device, what_is_walked_for_is_left_out_where_nobody_asks)
{
    static const size_t begin = offsetof(tarn_stats, inactive_blocks);
    static const size_t end = offsetof(tarn_stats, capture_count);
    static const char zeros[sizeof(tarn_stats)] = {0};
    tarn_graph *graph = unit_graph(pool, stream, 1000, NULL);
    tarn_checkpoint *checkpoint;
    tarn_stats walked;
    tarn_stats plain;

    (void)unit_alloc(pool, 3 * MIB, other);
    OK(tarn_pool_reserve(pool, 64 * MIB, other));
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    (void)unit_begin(pool, stream);
    (void)unit_alloc(pool, 512, stream);
    for (int of_one = 0; of_one < 2; of_one++) {
        if (of_one) {
            tn_pool_read_stats(pool, true, &walked);
            tn_pool_read_stats(pool, false, &plain);
        } else {
            tn_device_read_stats(device, false, true, &walked);
            tn_device_read_stats(device, false, false, &plain);
        }
        ck_assert(walked.walk && !plain.walk);
        ck_assert_uint_gt(walked.inactive_blocks.all, 0);
        ck_assert_uint_gt(walked.inactive_bytes.all, 0);
        ck_assert_uint_gt(walked.unused_bytes.all, 0);
        ck_assert_uint_gt(walked.captured_bytes, 0);
        ck_assert_uint_gt(walked.graph_bytes, 0);
        ck_assert_uint_gt(walked.capture_bytes, 0);
        ck_assert_uint_gt(walked.checkpoint_addresses, 0);
        ck_assert_mem_eq((const char *)&plain + begin, zeros, end - begin);
        memcpy((char *)&plain + begin, (const char *)&walked + begin, end - begin);
        ck_assert_mem_eq(&plain.live_blocks, &walked.live_blocks,
                         sizeof plain - offsetof(tarn_stats, live_blocks));
    }
    (void)graph;
}

TEST(device, a_devices_numbers_are_sums_over_its_pools)
{
    tarn_pool *second = unit_pool(device);
    struct test_device_stats stats;
    tarn_route *route;
    void *address;

    OK(tarn_malloc(device, 1000, stream, &address));
    (void)unit_alloc(pool, 600, stream);
    OK(tarn_begin_allocate_to_pool(device, second, tarn_filter_thread, NULL, &route));
    OK(tn_gpu_wait_idle(&device->gpu));
    stats = device_numbers();
    ck_assert_uint_eq(stats.live_bytes, 2048);
    ck_assert_uint_eq(stats.requested_bytes, 1600);
    ck_assert_uint_eq(stats.mapped_bytes, 4 * MIB);
    ck_assert_uint_eq(stats.mapped_peak_bytes, 4 * MIB);
    ck_assert_uint_eq(stats.pool_count, 3);
    ck_assert_uint_eq(stats.route_count, 1);
    ck_assert_uint_eq(stats.idle_waits, 1);
    ck_assert_uint_eq(stats.reserved_bytes, atomic_load(&device->regions.reserved_bytes));
    ck_assert(tn_lock_none_held());
}

/* The library's counts of the driver's calls are the simulator's own. */
TEST(device, calls_are_those_that_the_driver_was_asked)
{
    static const char *const names[] = {
        "cuMemCreate",         "cuMemRelease",     "cuMemMap",
        "cuMemUnmap",          "cuMemSetAccess",   "cuEventRecord",
        "cuMemAddressReserve", "cuMemAddressFree", "cuEventQuery",
    };
    static const enum tn_gpu_call calls[] = {
        TN_CALL_CREATE, TN_CALL_RELEASE, TN_CALL_MAP,       TN_CALL_UNMAP, TN_CALL_SET_ACCESS,
        TN_CALL_RECORD, TN_CALL_RESERVE, TN_CALL_UNRESERVE, TN_CALL_QUERY,
    };
    enum { CALLS = sizeof calls / sizeof calls[0] };
    uint64_t before[CALLS];
    uint64_t counted[CALLS];
    void *address = NULL;

    for (int i = 0; i < CALLS; i++) {
        before[i] = sim.call_count(names[i]);
        counted[i] = atomic_load(&device->gpu.calls[calls[i]]);
    }
    OK(tarn_free_on(unit_alloc(pool, 62 * MIB, stream), other));
    OK(tarn_record_stream(unit_alloc(pool, 1000, stream), other));
    sim.plan_fault("cuMemMap", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    OK(tarn_pool_malloc(pool, 200 * MIB, 0, stream, &address));
    OK(tarn_free(address));
    unit_trim(device);
    for (int i = 0; i < CALLS; i++)
        ck_assert_msg(sim.call_count(names[i]) - before[i] ==
                          atomic_load(&device->gpu.calls[calls[i]]) - counted[i],
                      "%s", names[i]);
    ck_assert_uint_gt(sim.call_count("cuMemUnmap"), before[3]);
    ck_assert_uint_gt(sim.call_count("cuEventRecord"), before[5]);
}

/* What is undone was never mapped for good, and is no growth; the driver was asked all the same. */
TEST(pool, a_growth_that_is_undone_is_none)
{
    tarn_stats stats;
    void *address = NULL;

    sim.plan_fault("cuMemMap", 2, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_pool_malloc(pool, 200 * MIB, 0, stream, &address));
    (void)sim.clear_fault(NULL);
    stats = of_pool();
    ck_assert_uint_eq(stats.growth_count, 0);
    ck_assert_uint_eq(stats.mapped_bytes.all.peak, 0);
    ck_assert_uint_eq(stats.out_of_memory_count, 1);
    ck_assert_uint_ge(stats.ladder_retries, 1);
    ck_assert_uint_eq(stats.live_blocks.all.allocated, 0);
    ck_assert_uint_gt(of_device().map_calls, stats.map_calls);
    ck_assert_uint_eq(stats.map_calls, stats.unmap_calls);
}

/* Two pools at a time, then one of them and a third: the highest sum is what is kept. */
TEST(device, the_sum_of_peaks_before_a_pool_goes_is_kept)
{
    tarn_pool *second = unit_pool(device);
    tarn_pool *third;

    OK(tarn_free(unit_alloc(pool, 1000, stream)));
    OK(tarn_free(unit_alloc(second, 2 * MIB, stream)));
    ck_assert_uint_eq(of_device().live_bytes.all.peak, 1024 + 2 * MIB);
    ck_assert_uint_eq(of_device().live_bytes.small.peak, 1024);
    ck_assert_uint_eq(of_device().live_bytes.large.peak, 2 * MIB);
    OK(tarn_pool_destroy(second));
    ck_assert_uint_eq(of_device().live_bytes.all.peak, 1024 + 2 * MIB);
    third = unit_pool(device);
    OK(tarn_free(unit_alloc(third, 512, stream)));
    ck_assert_uint_eq(of_device().live_bytes.all.peak, 1024 + 2 * MIB);
    OK(tarn_free(unit_alloc(third, 3 * MIB, stream)));
    ck_assert_uint_eq(of_device().live_bytes.all.peak, 1024 + 3 * MIB);
    tn_pool_reset_peaks(pool);
    ck_assert_uint_eq(of_device().live_bytes.all.peak, 1024 + 3 * MIB);
    tn_device_reset_peaks(device);
    ck_assert_uint_eq(of_device().live_bytes.all.peak, 0);
    OK(tarn_pool_destroy(third));
    ck_assert_uint_eq(of_device().live_bytes.all.peak, 0);
    ck_assert_uint_eq(of_device().live_bytes.all.allocated, 1536 + 5 * MIB);
}

TEST(device, a_peak_of_another_thread_is_not_lost_when_peaks_are_reset)
{
    OK(tarn_free(unit_alloc(pool, 40 * MIB, stream))); /* memory for what is to come */
    tn_device_reset_peaks(device);
    passing_bytes = MIB;
    tn_pool_reset_peaks(pool);
    passing_bytes = 0;
    ck_assert_uint_gt(passed_bytes, 0);
    ck_assert_uint_ge(of_device().live_bytes.all.peak, passed_bytes);
}

TEST(device, a_peak_of_another_thread_is_not_lost_when_its_pool_goes)
{
    OK(tarn_free(unit_alloc(pool, 40 * MIB, stream)));
    tn_device_reset_peaks(device);
    passing_bytes = MIB;
    OK(tarn_pool_destroy(pool));
    passing_bytes = 0;
    ck_assert_uint_gt(passed_bytes, 0);
    ck_assert_uint_ge(of_device().live_bytes.all.peak, passed_bytes);
}

/* A pool that is released with a block of an aborted capture goes at the device's end: its totals are kept. */
TEST(device, what_a_pool_leaves_behind_is_freed_with_it)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_stats stats;

    (void)unit_alloc(pool, 1000, stream);
    OK(tarn_capture_abort(capture));
    ck_assert_uint_eq(of_device().active_bytes.all.current, 1024);
    OK(tarn_pool_destroy(pool));
    stats = of_device();
    ck_assert_uint_eq(stats.active_bytes.all.current, 0);
    ck_assert_uint_eq(stats.discarded_blocks.small.allocated, 1);
    ck_assert_uint_eq(stats.discarded_blocks.small.freed, 1);
    ck_assert_uint_eq(stats.mapped_bytes.all.current, 0);
    ck_assert_uint_eq(stats.segments.all.current, 0);
}

TEST(device, the_end_of_a_pool_is_counted)
{
    tarn_stats stats;

    OK(tarn_free(
        unit_alloc(pool, 300 * MIB, stream))); /* chunks that the cache does not all keep */
    OK(tarn_pool_destroy(pool));
    stats = of_device();
    ck_assert_uint_gt(stats.unmap_calls, 0);
    ck_assert_uint_eq(stats.unmap_calls, stats.map_calls);
    ck_assert_uint_eq(device->counters.events[TN_CHUNK_UNMAPS].count, stats.unmap_calls);
    ck_assert_uint_eq(stats.growth_count, 1);
}
