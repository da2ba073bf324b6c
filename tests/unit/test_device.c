// SPDX-License-Identifier: Apache-2.0
#include "support/world.h"
#include "unit/unit.h"

GROUP(charge, NULL)

TEST(charge, the_peak_is_the_most_that_was_mapped)
{
    tarn_device *device = unit_device();

    tn_device_count_mapped(device, false, TN_HEAP_LARGE, 10 * TN_MIB, 2);
    tn_device_count_unmapped(device, false, TN_HEAP_LARGE, 4 * TN_MIB);
    tn_device_count_mapped(device, false, TN_HEAP_SMALL, 2 * TN_MIB, 1);
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 8 * TN_MIB);
    ck_assert_uint_eq(device->counters.mapped[TN_CHUNK_BYTES].peak[TN_ALL_KINDS], 10 * TN_MIB);
    ck_assert_uint_eq(device->counters.mapped[TN_CHUNK_BYTES].peak[TN_HEAP_SMALL], 2 * TN_MIB);
    ck_assert_uint_eq(device->counters.mapped[TN_CHUNKS].peak[TN_ALL_KINDS], 2);
    tn_device_count_unmapped(device, false, TN_HEAP_LARGE, 6 * TN_MIB);
    tn_device_count_unmapped(device, false, TN_HEAP_SMALL, 2 * TN_MIB);
}

TEST(charge, what_cannot_be_mapped_does_not_count_to_the_peak)
{
    tarn_device *device = unit_device();
    tarn_pool *pool = unit_pool_of(device, "small", 32 * TN_MIB);
    void *address;

    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(pool, 62 * MIB, 0, test_stream(), &address));
    ck_assert_uint_eq(device->counters.mapped[TN_CHUNK_BYTES].peak[TN_ALL_KINDS], 0);
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 0);
}

TEST(charge, segments_that_are_gone_are_counted_off)
{
    static const enum tn_metric_id ids[] = {TN_SEGMENTS, TN_SEGMENT_BYTES};
    tarn_device *device = unit_device();
    const struct tn_metric *mapped = device->counters.mapped;

    OK(tarn_free(unit_alloc(unit_pool(device), 500 * MIB, test_stream())));
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        ck_assert_uint_gt(tn_metric_all(&mapped[ids[i]]), 0);
    unit_trim(device);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        ck_assert_uint_eq(tn_metric_all(&mapped[ids[i]]), 0);
        ck_assert_uint_gt(mapped[ids[i]].freed[TN_HEAP_LARGE], 0);
    }
}
