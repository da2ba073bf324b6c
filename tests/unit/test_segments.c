// SPDX-License-Identifier: Apache-2.0
#include "observe/segments.h"

#include "observe/extents.h"
#include "unit/one_pool.h"

/* What the library's own records say of a page. */
static void expect_page(const struct tn_segment *segment, uint64_t offset, tarn_segment *told)
{
    const struct tn_chunk *chunk = tn_segment_chunk_at(segment, offset);
    const struct tn_block *block = tn_segment_block_at(segment, offset);

    OK(tn_segment_describe(segment->base + offset, told));
    ck_assert(tn_lock_none_held());
    ck_assert_ptr_nonnull(chunk);
    ck_assert_uint_eq(told->size, sizeof *told);
    ck_assert_uint_eq((uintptr_t)told->base, segment->base);
    ck_assert_uint_eq(told->bytes, segment->bytes);
    ck_assert_uint_eq((uintptr_t)told->chunk, segment->base + chunk->offset);
    ck_assert_uint_eq(told->chunk_bytes, chunk->bytes);
    ck_assert_uint_eq((uintptr_t)told->run, tn_block_address(block));
    ck_assert_uint_eq(told->run_bytes, tn_block_bytes(block));
    ck_assert_int_eq(told->run_state, tn_extent_state(block));
    ck_assert_int_eq(told->is_held, chunk->hold_count > 0);
    ck_assert_uint_eq(told->index, segment->index);
    ck_assert_int_eq(told->location, TARN_LOCATION_DEVICE);
    ck_assert_int_eq(told->device, device->gpu.ordinal);
}

static void expect_nothing(const struct tn_segment *segment, uint64_t offset)
{
    tarn_segment told = {.size = 77};

    STATUS(TARN_ERR_NOT_OURS, tn_segment_describe(segment->base + offset, &told));
    unit_expect_sentence("nothing is mapped there");
    unit_expect_sentence("'net'");
    ck_assert_uint_eq(told.size, 77);
    ck_assert(tn_lock_none_held());
}

/* How many pages of each state; the last is UNMAPPED. */
struct pages {
    size_t count[TARN_EXTENT_UNMAPPED + 1];
    size_t held;
};

static struct pages look_at_all_pages(void)
{
    struct pages pages = {.held = 0};

    for (const struct tn_segment *segment = tn_pool_first_segment(pool); segment != NULL;
         segment = tn_pool_next_segment(pool, segment)) {
        for (uint64_t offset = 0; offset < segment->bytes; offset += TN_PAGE_BYTES) {
            tarn_segment told;

            if (tn_segment_block_at(segment, offset)->state == TN_BLOCK_UNMAPPED) {
                expect_nothing(segment, offset);
                expect_nothing(segment, offset + TN_PAGE_BYTES - 1);
                pages.count[TARN_EXTENT_UNMAPPED] += 1;
                continue;
            }
            expect_page(segment, offset + TN_PAGE_BYTES - 1, &told);
            expect_page(segment, offset, &told);
            pages.count[told.run_state] += 1;
            pages.held += told.is_held;
        }
    }
    return pages;
}

GROUP(segments, make_pool)

TEST(segments, each_page_is_described_as_the_records_have_it)
{
    void *first = unit_alloc(pool, 40 * MIB, stream);
    void *pending = unit_alloc(pool, 4 * MIB, stream);
    tarn_capture *capture = unit_begin(pool, other);
    struct pages pages;

    (void)unit_alloc(pool, 6 * MIB, other);
    (void)unit_alloc(pool, 4096, stream);
    pages = look_at_all_pages();
    ck_assert_uint_ge(pages.held, 3);
    OK(tarn_capture_abort(capture));
    sim.hold_work();
    test_fill(other, pending, 1, 16);
    OK(tarn_free_on(pending, other));
    OK(tarn_free(first));
    pages = look_at_all_pages();
    sim.resume_work();
    ck_assert_uint_ge(pages.count[TARN_EXTENT_LIVE], 1);
    ck_assert_uint_ge(pages.count[TARN_EXTENT_PENDING], 2);
    ck_assert_uint_ge(pages.count[TARN_EXTENT_DISCARDED], 3);
    ck_assert_uint_ge(pages.count[TARN_EXTENT_FREE], 20);
    ck_assert_uint_ge(pages.count[TARN_EXTENT_UNMAPPED], 1);
}

TEST(segments, an_address_next_to_a_segment_is_reserved_and_without_memory)
{
    tarn_segment told = {.size = 77};
    struct tn_segment *segment = unit_segment(unit_alloc(pool, 4 * MIB, stream));

    STATUS(TARN_ERR_NOT_OURS, tn_segment_describe(segment->base + 16 * GIB, &told));
    unit_expect_sentence("Tarn has reserved it, and no pool uses it");
    STATUS(TARN_ERR_NOT_OURS, tn_segment_describe((uintptr_t)&told, &told));
    unit_expect_sentence("was not handed out by Tarn");
    ck_assert_uint_eq(told.size, 77);
    ck_assert(tn_lock_none_held());
}
