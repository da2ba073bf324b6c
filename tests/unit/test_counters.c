// SPDX-License-Identifier: Apache-2.0
#include "pools/counters.h"

#include "pools/sweep.h"
#include "pools/totals.h"
#include "unit/unit.h"

static struct tn_metric metric;

static void clear(void)
{
    metric = (struct tn_metric){.peak = {0}};
}

static void expect_peaks(uint64_t small, uint64_t large, uint64_t all)
{
    ck_assert_uint_eq(metric.peak[TN_HEAP_SMALL], small);
    ck_assert_uint_eq(metric.peak[TN_HEAP_LARGE], large);
    ck_assert_uint_eq(metric.peak[TN_ALL_KINDS], all);
}

GROUP(metric, clear)

TEST(metric, the_peak_of_both_kinds_is_of_one_time)
{
    tn_metric_add(&metric, TN_HEAP_SMALL, 5);
    tn_metric_remove(&metric, TN_HEAP_SMALL, 5);
    tn_metric_add(&metric, TN_HEAP_LARGE, 3);
    expect_peaks(5, 3, 5);
    tn_metric_add(&metric, TN_HEAP_SMALL, 4);
    expect_peaks(5, 3, 7);
    ck_assert_uint_eq(tn_metric_current(&metric, TN_HEAP_SMALL), 4);
    ck_assert_uint_eq(tn_metric_all(&metric), 7);
}

TEST(metric, a_reset_peak_is_what_is_there)
{
    tn_metric_add(&metric, TN_HEAP_SMALL, 5);
    tn_metric_add(&metric, TN_HEAP_LARGE, 2);
    tn_metric_remove(&metric, TN_HEAP_SMALL, 4);
    tn_metric_reset_peak(&metric);
    expect_peaks(1, 2, 3);
    tn_metric_add(&metric, TN_HEAP_SMALL, 1);
    expect_peaks(2, 2, 4);
}

TEST(metric, reset_totals_are_counted_from_where_they_are)
{
    tn_metric_add(&metric, TN_HEAP_LARGE, 7);
    tn_metric_remove(&metric, TN_HEAP_LARGE, 2);
    tn_metric_reset_totals(&metric);
    tn_metric_add(&metric, TN_HEAP_LARGE, 1);
    ck_assert_uint_eq(metric.allocated[TN_HEAP_LARGE] - metric.allocated_base[TN_HEAP_LARGE], 1);
    ck_assert_uint_eq(metric.freed[TN_HEAP_LARGE] - metric.freed_base[TN_HEAP_LARGE], 0);
    ck_assert_uint_eq(tn_metric_current(&metric, TN_HEAP_LARGE), 6);
    ck_assert_uint_eq(tn_metric_current(&metric, TN_HEAP_SMALL), 0);
}

CONTRACT_TEST(metric, more_than_there_is_cannot_be_taken_off)
{
    tn_metric_add(&metric, TN_HEAP_SMALL, 5);
    tn_metric_remove(&metric, TN_HEAP_LARGE, 1); /* P8 */
}

TEST(metric, blocks_are_small_or_large_by_their_bytes)
{
    struct tn_metric both[TN_METRICS] = {{.peak = {0}}};

    ck_assert_int_eq(tn_kind_of(TN_SMALL_BYTES_MAX), TN_HEAP_SMALL);
    ck_assert_int_eq(tn_kind_of(TN_SMALL_BYTES_MAX + 512), TN_HEAP_LARGE);
    tn_metrics_add_block(both, TN_PENDING_BLOCKS, 2 * MIB);
    tn_metrics_add_block(both, TN_PENDING_BLOCKS, 512);
    tn_metrics_remove_block(both, TN_PENDING_BLOCKS, 512);
    ck_assert_uint_eq(tn_metric_current(&both[TN_PENDING_BLOCKS], TN_HEAP_LARGE), 1);
    ck_assert_uint_eq(tn_metric_current(&both[TN_PENDING_BYTES], TN_HEAP_LARGE), 2 * MIB);
    ck_assert_uint_eq(tn_metric_current(&both[TN_PENDING_BLOCKS], TN_HEAP_SMALL), 0);
    ck_assert_uint_eq(both[TN_PENDING_BYTES].allocated[TN_HEAP_SMALL], 512);
}

/* Below what there was when the pool was last locked, nothing is a peak. */
TEST(metric, a_heaps_peak_is_above_what_there_was)
{
    struct tn_heap_counters counters = {.freed = {3, 3000, 2000}};

    ck_assert(!tn_heap_counters_rise(&counters, 3000));
    ck_assert(tn_heap_counters_rise(&counters, 3072));
    tn_heap_counters_raise(&counters, 3072, 2500);
    ck_assert_uint_eq(counters.peak.count, 0);
    ck_assert_uint_eq(counters.peak.bytes, 72);
    ck_assert_uint_eq(counters.peak.requested, 500);
    counters.allocated = (struct tn_tally){5, 3072, 2100};
    tn_heap_counters_raise(&counters, 512, 300);
    ck_assert_uint_eq(counters.peak.count, 3);
    ck_assert_uint_eq(counters.peak.bytes, 584);
    ck_assert_uint_eq(counters.peak.requested, 500);
}

static tarn_pool *pool;
static tn_cu_stream stream;

/* An arena with 16 blocks of either size that are free, in the steady state. */
static void warm_up(void)
{
    void *blocks[32];

    pool = unit_pool(unit_device());
    stream = test_stream();
    for (int i = 0; i < 32; i++)
        blocks[i] = unit_alloc(pool, i % 2 == 0 ? 4096 : 2 * MIB, stream);
    for (int i = 0; i < 32; i++)
        OK(tarn_free(blocks[i]));
    tn_pool_lock(pool);
    tn_counters_complete(&pool->counters);
    for (int id = 0; id < TN_METRICS; id++)
        tn_metric_reset_peak(&pool->counters.metrics[id]);
    tn_pool_unlock(pool);
}

static uint64_t allocated_of(int id, enum tn_heap_kind kind)
{
    return pool->counters.metrics[id].allocated[kind];
}

static uint64_t peak_of(int id, int kind)
{
    return pool->counters.metrics[id].peak[kind];
}

GROUP(collecting, warm_up)

TEST(collecting, what_arenas_count_is_the_pools_when_it_is_locked)
{
    struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL];
    struct tn_heap_counters *own = &arena->heaps[TN_HEAP_SMALL]->counters;
    uint64_t before = allocated_of(TN_LIVE_REQUESTED, TN_HEAP_SMALL);
    void *first = unit_alloc(pool, 1000, stream);
    void *second = unit_alloc(pool, 600, stream);
    void *large = unit_alloc(pool, 2 * MIB, stream);

    OK(tarn_free(second));
    ck_assert_uint_eq(own->allocated.count, 2);
    ck_assert_uint_eq(own->allocated.bytes, 2048);
    ck_assert_uint_eq(own->allocated.requested, 1600);
    ck_assert_uint_eq(own->freed.count, 1);
    ck_assert_uint_eq(own->freed.requested, 600);
    ck_assert_uint_eq(own->peak.count, 2);
    ck_assert_uint_eq(allocated_of(TN_LIVE_REQUESTED, TN_HEAP_SMALL), before);
    tn_pool_lock(pool);
    tn_pool_unlock(pool);
    ck_assert_uint_eq(own->allocated.count + own->freed.count + own->peak.count, 0);
    ck_assert_uint_eq(allocated_of(TN_LIVE_REQUESTED, TN_HEAP_SMALL), before + 1600);
    ck_assert_uint_eq(peak_of(TN_LIVE_BLOCKS, TN_HEAP_SMALL), 2);
    ck_assert_uint_eq(peak_of(TN_LIVE_BYTES, TN_HEAP_SMALL), 2048);
    ck_assert_uint_eq(peak_of(TN_LIVE_REQUESTED, TN_HEAP_SMALL), 1600);
    ck_assert_uint_eq(peak_of(TN_ACTIVE_BYTES, TN_HEAP_SMALL), 2048);
    ck_assert_uint_eq(peak_of(TN_LIVE_BYTES, TN_HEAP_LARGE), 2 * MIB);
    ck_assert_uint_eq(peak_of(TN_LIVE_BYTES, TN_ALL_KINDS), 2048 + 2 * MIB);
    OK(tarn_pool_validate(pool));
    OK(tarn_free(first));
    OK(tarn_free(large));
}

/* What waits for streams is active all the while. */
TEST(collecting, peaks_of_active_blocks_are_above_what_waits)
{
    tn_cu_stream other = test_stream();
    void *pending = unit_alloc(pool, 8192, stream);
    void *block;

    sim.hold_work();
    test_fill(other, pending, 1, 16);
    OK(tarn_free_on(pending, other));
    tn_pool_lock(pool);
    tn_counters_complete(&pool->counters);
    tn_metric_reset_peak(&pool->counters.metrics[TN_ACTIVE_BYTES]);
    tn_pool_unlock(pool);
    block = unit_alloc(pool, 4096, stream);
    OK(tarn_free(block));
    tn_pool_lock(pool);
    tn_pool_unlock(pool);
    sim.resume_work();
    ck_assert_uint_eq(peak_of(TN_ACTIVE_BYTES, TN_HEAP_SMALL), 8192 + 4096);
    ck_assert_uint_eq(peak_of(TN_ACTIVE_BYTES, TN_ALL_KINDS), 8192 + 4096);
}

static uint64_t summed(tarn_device *device)
{
    return device->counters.sums.peaks[TN_LIVE_BYTES][TN_ALL_KINDS];
}

GROUP(sums, NULL)

/* P35 */
TEST(sums, a_device_has_the_sums_of_what_its_pools_have_published)
{
    tarn_device *device = unit_device();
    tarn_pool *pools[2] = {unit_pool(device), unit_pool(device)};
    tn_cu_stream used = test_stream();
    tarn_stats stats = {.size = sizeof stats};
    void *blocks[2];

    for (int i = 0; i < 2; i++)
        blocks[i] = unit_alloc(pools[i], (size_t)(1 + i) * MIB, used);
    (void)tn_device_mark(device); /* locks the pools, which counts what their arenas have */
    ck_assert_uint_eq(summed(device), 0);
    ck_assert(pools[0]->places.listed[TN_POOLS_UNPUBLISHED]);
    tn_totals_publish_some(device);
    ck_assert_uint_eq(summed(device), 3 * MIB);
    ck_assert(!pools[0]->places.listed[TN_POOLS_UNPUBLISHED]);
    for (int i = 0; i < 2; i++) {
        OK(tarn_free(blocks[i]));
        OK(tarn_pool_validate(pools[i]));
    }
    tn_pool_lock(pools[0]);
    pools[0]->counters.published[TN_LIVE_BYTES][TN_ALL_KINDS] -= 1;
    STATUS(TARN_ERR_CORRUPT, tn_pool_check(pools[0]));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "P35"));
    pools[0]->counters.published[TN_LIVE_BYTES][TN_ALL_KINDS] += 1;
    tn_pool_unlock(pools[0]);
    OK(tarn_pool_destroy(pools[1]));
    ck_assert_uint_eq(summed(device), MIB);
    tn_pool_reset_peaks(pools[0]);
    ck_assert_uint_eq(summed(device), 0);
    OK(tarn_device_stats(device, &stats));
    ck_assert_uint_eq(stats.live_bytes.all.peak, 3 * MIB); /* which were live at one time */
}
