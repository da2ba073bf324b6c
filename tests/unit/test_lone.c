// SPDX-License-Identifier: Apache-2.0
#include "pools/lone.h"

#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;

static void open_by(size_t alignment)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    test_start();
    options.overrun_alignment = alignment;
    options.roundup_power2_divisions[0] = 4; /* does not count here */
    OK(tarn_device_open(0, &options, &device));
    pool = unit_pool_of(device, "lone", 0);
    stream = test_stream();
}

static void open_by_bytes(void)
{
    open_by(1);
}

static struct tn_block *block_of(const void *address)
{
    struct tn_block *block;

    tn_pool_lock(pool);
    block = tn_lone_find(pool, (uint64_t)(uintptr_t)address);
    tn_pool_unlock(pool);
    return block;
}

GROUP(lone, open_by_bytes, NULL)

TEST(lone, a_block_is_alone_in_a_segment_whose_last_page_has_no_memory)
{
    static const uint64_t sizes[] = {1, 512, 2 * MIB, 30 * MIB, 32 * MIB, 64 * MIB};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct tn_block *block = block_of(unit_alloc(pool, sizes[i], stream));
        const struct tn_segment *segment = block->segment;

        ck_assert_uint_eq(tn_block_end(block) % TN_PAGE_BYTES, 0);
        ck_assert_uint_eq(tn_block_end(block), segment->mapped_bytes);
        ck_assert_uint_ge(segment->bytes, segment->mapped_bytes + TN_PAGE_BYTES);
        ck_assert(segment->is_own);
        ck_assert_int_eq(segment->last_block->state, TN_BLOCK_UNMAPPED);
    }
}

TEST(lone, requests_are_rounded_to_bytes_alone)
{
    const char *address = unit_alloc(pool, 1300, stream);

    ck_assert_uint_eq(tn_block_bytes(block_of(address)), 1536);
    ck_assert_uint_eq(((uintptr_t)address + 1300) % TN_PAGE_BYTES, 0);
}

TEST(lone, a_block_is_found_by_its_own_and_its_users_address)
{
    const char *address = unit_alloc(pool, 700, stream);
    const struct tn_block *block = block_of(address);

    ck_assert_ptr_nonnull(block);
    ck_assert_uint_eq(tn_lone_address(pool, block), (uintptr_t)address);
    ck_assert_uint_ne(tn_block_address(block), (uintptr_t)address);
    ck_assert_ptr_eq(block_of((const void *)(uintptr_t)tn_block_address(block)), block);
    ck_assert_ptr_null(block_of(address + 1));
    ck_assert_ptr_null(block_of(address - 1));
    ck_assert_ptr_null(block_of(address + 512));
}

TEST(lone, places_are_used_again_as_late_as_possible)
{
    const void *seen[40];

    for (size_t i = 0; i < 40; i++) {
        seen[i] = unit_alloc(pool, 4 * MIB, stream);
        for (size_t k = 0; k < i; k++)
            ck_assert_ptr_ne(seen[i], seen[k]);
        OK(tarn_free((void *)(uintptr_t)seen[i]));
        test_synchronize(stream);
    }
    tn_pool_lock(pool);
    ck_assert_uint_lt(tn_pool_segment_count(pool), 10);
    tn_pool_unlock(pool);
}

TEST(lone, idle_memory_goes_at_the_next_allocation)
{
    OK(tarn_free(unit_alloc(pool, 8 * MIB, stream)));
    (void)unit_alloc(pool, 512, stream); /* asks the stream */
    test_synchronize(stream);
    (void)unit_alloc(pool, 512, stream);
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 4 * MIB);
    tn_pool_unlock(pool);
}

static void hear(tarn_device *of, const tarn_tracked *what, void *count)
{
    (void)of;
    (void)what;
    *(size_t *)count += 1;
}

/* Trackers hear of memory before it goes, which only a trim awaits. */
TEST(lone, memory_that_trackers_follow_goes_by_a_trim)
{
    size_t count = 0;

    OK(tarn_device_add_tracker(device, hear, &count, TARN_TRACKED_ALL));
    OK(tarn_free(unit_alloc(pool, 8 * MIB, stream)));
    (void)unit_alloc(pool, 512, stream);
    test_synchronize(stream);
    (void)unit_alloc(pool, 512, stream);
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 12 * MIB);
    tn_pool_unlock(pool);
    OK(tarn_pool_trim(pool, NULL));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 4 * MIB);
    tn_pool_unlock(pool);
    ck_assert_uint_gt(count, 0);
    OK(tarn_device_remove_tracker(device, hear, &count));
}

TEST(lone, an_aligned_block_begins_at_its_users_address)
{
    void *address;

    for (size_t bytes = 1000; bytes <= 2 * MIB; bytes *= 2) {
        OK(tarn_pool_malloc(pool, bytes, 2 * MIB, stream, &address));
        ck_assert_uint_eq((uintptr_t)address % (2 * MIB), 0);
        ck_assert_uint_eq(tn_block_address(block_of(address)), (uintptr_t)address);
        ck_assert_uint_ne(tn_block_end(block_of(address)) % TN_PAGE_BYTES, 0);
    }
    OK(tarn_pool_malloc(pool, 2 * MIB, 2 * MIB, stream, &address));
    ck_assert_uint_eq((uintptr_t)address % (2 * MIB), 0);
}
