// SPDX-License-Identifier: Apache-2.0
#include "observe/extents.h"
#include "unit/one_pool.h"

GROUP(layout, make_pool)

TEST(layout, a_layout_tiles_every_segment_with_its_extents)
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

TEST(layout, the_layout_of_an_empty_pool_is_empty)
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

TEST(layout, no_layout_without_host_memory)
{
    tarn_layout *layout = NULL;

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_pool_read_layout(pool, &layout));
    ck_assert_ptr_null(layout);
    ck_assert(tn_lock_none_held());
}
