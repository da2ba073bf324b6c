// SPDX-License-Identifier: Apache-2.0
#include "driver/idle.h"
#include "observe/memory_stats.h"
#include "observe/stats.h"
#include "pools/pool.h"
#include "pools/totals.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;
static tn_cu_stream other;

static void make_pool(void)
{
    device = unit_device();
    pool = unit_pool(device);
    stream = test_stream();
    other = test_stream();
}

static tarn_pool_stats read_pool(void)
{
    tarn_pool_stats stats;

    tn_pool_read_stats(pool, &stats);
    ck_assert_uint_eq(stats.size, sizeof stats);
    return stats;
}

START_TEST(an_empty_pool_has_nothing)
{
    tarn_pool_stats expected = {.size = sizeof expected};
    tarn_pool_stats stats = read_pool();

    ck_assert_mem_eq(&stats, &expected, sizeof stats);
}
END_TEST

START_TEST(a_pools_numbers_are_those_of_its_blocks_and_chunks)
{
    void *small = unit_alloc(pool, 1000, stream);
    void *large = unit_alloc(pool, 3 * MIB, stream);
    tarn_pool_stats stats;

    (void)unit_alloc(pool, 600, other);
    OK(tarn_free(large));
    sim.hold_work();
    test_fill(other, small, 1, 16);
    OK(tarn_free_on(small, other));
    stats = read_pool();
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
    ck_assert_uint_ge(read_pool().unmap_count, 1);
    ck_assert_uint_eq(read_pool().mapped_peak_bytes, 8 * MIB);
}
END_TEST

START_TEST(captured_bytes_are_those_of_held_chunks)
{
    tarn_capture *capture;
    tarn_graph *graph;
    tarn_checkpoint *checkpoint;

    (void)unit_alloc(pool, 4096, stream);
    capture = unit_begin(pool, other);
    (void)unit_alloc(pool, 62 * MIB, other);
    ck_assert_uint_eq(read_pool().capture_count, 1);
    ck_assert_uint_eq(read_pool().captured_bytes, 64 * MIB);
    ck_assert_uint_eq(read_pool().graph_count, 0);
    graph = unit_end(capture);
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    ck_assert_uint_eq(read_pool().capture_count, 0);
    ck_assert_uint_eq(read_pool().captured_bytes, 64 * MIB);
    ck_assert_uint_eq(read_pool().graph_count, 1);
    ck_assert_uint_eq(read_pool().checkpoint_count, 1);
    (void)graph;
}
END_TEST

static void use_pool(void)
{
    void *blocks[4];

    for (size_t i = 0; i < 4; i++)
        blocks[i] = unit_alloc(pool, i % 2 == 0 ? 600 : 3 * MIB, stream);
    sim.hold_work();
    test_set_words(other, blocks[0], 1, 1);
    OK(tarn_record_stream(blocks[0], other));
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
}

START_TEST(both_forms_of_a_pools_numbers_agree)
{
    tarn_memory_stats memory;
    tarn_pool_stats stats;

    use_pool();
    stats = read_pool();
    tn_pool_read_memory_stats(pool, &memory);
    sim.resume_work();
    ck_assert_uint_eq(stats.pending_count, 1);
    ck_assert_uint_eq(stats.mapped_bytes, memory.mapped_bytes.all.current);
    ck_assert_uint_eq(stats.mapped_peak_bytes, memory.mapped_bytes.all.peak);
    ck_assert_uint_eq(stats.live_bytes, memory.live_bytes.all.current);
    ck_assert_uint_eq(stats.live_peak_bytes, memory.live_bytes.all.peak);
    ck_assert_uint_eq(stats.requested_bytes, memory.requested_bytes.all.current);
    ck_assert_uint_eq(stats.pending_bytes, memory.pending_bytes.all.current);
    ck_assert_uint_eq(stats.live_count, memory.live_blocks.all.current);
    ck_assert_uint_eq(stats.pending_count, memory.pending_blocks.all.current);
    ck_assert_uint_eq(stats.segment_count, memory.segments.all.current);
    ck_assert_uint_eq(stats.chunk_count, memory.chunks.all.current);
    ck_assert_uint_eq(stats.map_count, memory.chunks.all.allocated);
    ck_assert_uint_eq(stats.unmap_count, memory.chunks.all.freed);
}
END_TEST

/* Of a pool that is gone, too; but for what a reset sets. */
START_TEST(both_forms_of_a_devices_numbers_agree)
{
    tarn_pool *limited = unit_pool_of(device, "limited", 2 * MIB);
    tarn_memory_stats memory;
    tarn_device_stats stats;
    void *address;

    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(limited, 4 * MIB, 0, stream, &address));
    OK(tarn_pool_destroy(limited));
    use_pool();
    tn_device_read_stats(device, &stats);
    tn_device_read_memory_stats(device, &memory);
    sim.resume_work();
    ck_assert_uint_eq(stats.out_of_memory_count, 1);
    ck_assert_uint_gt(stats.ladder_retries, 0);
    ck_assert_uint_eq(stats.mapped_bytes, memory.mapped_bytes.all.current);
    ck_assert_uint_eq(stats.mapped_peak_bytes, memory.mapped_bytes.all.peak);
    ck_assert_uint_eq(stats.live_bytes, memory.live_bytes.all.current);
    ck_assert_uint_eq(stats.requested_bytes, memory.requested_bytes.all.current);
    ck_assert_uint_eq(stats.pool_count, memory.pool_count);
    ck_assert_uint_eq(stats.ladder_retries, memory.ladder_retries);
    ck_assert_uint_eq(stats.out_of_memory_count, memory.out_of_memory_count);
    tn_device_reset_totals(device);
    tn_device_read_stats(device, &stats);
    ck_assert_uint_eq(stats.out_of_memory_count, 1);
}
END_TEST

START_TEST(a_devices_numbers_are_sums_over_its_pools)
{
    tarn_pool *second = unit_pool(device);
    tarn_device_stats stats;
    tarn_route *route;
    void *address;

    OK(tarn_malloc(device, 1000, stream, &address));
    (void)unit_alloc(pool, 600, stream);
    OK(tarn_begin_allocate_to_pool(device, second, tarn_filter_thread, NULL, &route));
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_device_read_stats(device, &stats);
    ck_assert_uint_eq(stats.size, sizeof stats);
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
END_TEST

START_TEST(a_layout_tiles_every_segment_with_its_extents)
{
    static const tarn_extent_state expected[] = {TARN_EXTENT_LIVE, TARN_EXTENT_PENDING,
                                                 TARN_EXTENT_DISCARDED, TARN_EXTENT_FREE,
                                                 TARN_EXTENT_UNMAPPED};
    size_t seen[5] = {0};
    tarn_layout *layout = NULL;
    char *at = NULL;
    void *live = unit_alloc(pool, 4096, stream);
    void *pending = unit_alloc(pool, 4096, stream);
    tarn_capture *capture = unit_begin(pool, other);

    (void)unit_alloc(pool, 4096, other);
    OK(tarn_capture_abort(capture));
    sim.hold_work();
    test_fill(other, pending, 1, 16);
    OK(tarn_free_on(pending, other));
    OK(tn_pool_read_layout(pool, &layout));
    sim.resume_work();
    ck_assert_uint_eq(layout->segment_count, tn_pool_segment_count(pool));
    for (size_t i = 0; i < layout->extent_count; i++) {
        const tarn_extent *extent = &layout->extents[i];
        struct tn_segment *segment = unit_segment(extent->address);

        ck_assert_uint_eq(extent->segment_index, segment->index);
        if (i > 0 && layout->extents[i - 1].segment_index == extent->segment_index)
            ck_assert_ptr_eq(extent->address, at);
        else
            ck_assert_uint_eq((uintptr_t)extent->address, segment->base);
        at = (char *)extent->address + extent->bytes;
        for (size_t k = 0; k < 5; k++)
            seen[k] += extent->state == expected[k];
        ck_assert_uint_eq(extent->sequence,
                          extent->address == live ? unit_block(live)->sequence : 0);
    }
    ck_assert_uint_eq(seen[0], 1);
    ck_assert_uint_eq(seen[1], 1);
    ck_assert_uint_eq(seen[2], 1);
    ck_assert_uint_ge(seen[3], 1);
    ck_assert_uint_ge(seen[4], 1);
    tarn_layout_destroy(layout);
}
END_TEST

START_TEST(the_layout_of_an_empty_pool_is_empty)
{
    tarn_layout *layout = NULL;
    int64_t before = tn_host_outstanding();

    OK(tn_pool_read_layout(pool, &layout));
    ck_assert_uint_eq(layout->extent_count, 0);
    ck_assert_uint_eq(layout->segment_count, 0);
    tarn_layout_destroy(layout);
    tarn_layout_destroy(NULL);
    ck_assert_int_eq(tn_host_outstanding(), before);
}
END_TEST

START_TEST(no_layout_without_host_memory)
{
    tarn_layout *layout = NULL;

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_pool_read_layout(pool, &layout));
    ck_assert_ptr_null(layout);
    ck_assert(tn_lock_none_held());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stats");
    TCase *pools = tcase_create("pool");
    TCase *devices = tcase_create("device");
    TCase *layouts = tcase_create("layout");

    tcase_add_checked_fixture(pools, make_pool, NULL);
    tcase_add_test(pools, an_empty_pool_has_nothing);
    tcase_add_test(pools, a_pools_numbers_are_those_of_its_blocks_and_chunks);
    tcase_add_test(pools, captured_bytes_are_those_of_held_chunks);
    tcase_add_test(pools, both_forms_of_a_pools_numbers_agree);
    suite_add_tcase(suite, pools);
    tcase_add_checked_fixture(devices, make_pool, NULL);
    tcase_add_test(devices, a_devices_numbers_are_sums_over_its_pools);
    tcase_add_test(devices, both_forms_of_a_devices_numbers_agree);
    suite_add_tcase(suite, devices);
    tcase_add_checked_fixture(layouts, make_pool, NULL);
    tcase_add_test(layouts, a_layout_tiles_every_segment_with_its_extents);
    tcase_add_test(layouts, the_layout_of_an_empty_pool_is_empty);
    tcase_add_test(layouts, no_layout_without_host_memory);
    suite_add_tcase(suite, layouts);
    return test_main(suite);
}
