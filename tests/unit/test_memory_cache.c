// SPDX-License-Identifier: Apache-2.0
#include "driver/mapping.h"
#include "unit/unit.h"
#include "vmm/memory_cache.h"

static tarn_device *device;
static struct tn_memory_cache *cache;
static tarn_sim_ledger before;

static const struct tn_memory_properties plain = {.exportable = false};
static const struct tn_memory_properties rdma = {.rdma = true};
static const struct tn_memory_properties exportable = {.exportable = true};

static void open_cache(void)
{
    device = unit_device();
    cache = &device->cache;
    tn_memory_cache_set_limit(cache, 64 * MIB);
    before = test_ledger();
}

/* As growth makes one: charged, and mapped nowhere. */
static struct tn_memory *memory_of(uint64_t bytes, struct tn_memory_properties properties)
{
    struct tn_memory *memory;

    OK(tn_budget_charge(&device->budget, bytes));
    OK(tn_memory_create(&device->gpu, bytes, properties, &memory));
    return memory;
}

static struct tn_memory *put(uint64_t bytes, struct tn_memory_properties properties)
{
    struct tn_memory *memory = memory_of(bytes, properties);

    tn_memory_cache_put(cache, memory);
    return memory;
}

static void expect_cached(uint64_t bytes, uint64_t count)
{
    OK(tn_memory_cache_check(cache));
    ck_assert_uint_eq(tn_memory_cache_bytes(cache), bytes);
    ck_assert_uint_eq(atomic_load(&cache->count), count);
    ck_assert_uint_eq(atomic_load(&device->budget.charged_bytes), bytes);
    ck_assert_uint_eq(test_ledger().handle_bytes, before.handle_bytes + bytes);
    ck_assert(tn_lock_none_held());
}

/* Of 2 MiB and of 4 MiB; there are no others. */
static void expect_counts(struct tn_memory_properties properties, uint32_t first, uint32_t second)
{
    uint32_t counts[TN_CACHE_SIZES];

    tn_memory_cache_count(cache, properties, counts);
    ck_assert_uint_eq(counts[0], first);
    ck_assert_uint_eq(counts[1], second);
    for (size_t size = 2; size < TN_CACHE_SIZES; size++)
        ck_assert_uint_eq(counts[size], 0);
}

GROUP(chunks, open_cache)

TEST(chunks, what_was_put_is_taken_by_size_and_kind_the_newest_first)
{
    struct tn_memory *first = put(4 * MIB, plain);
    struct tn_memory *second = put(4 * MIB, plain);
    struct tn_memory *other = put(4 * MIB, rdma);
    struct tn_memory *third = put(2 * MIB, plain);

    expect_cached(14 * MIB, 4);
    expect_counts(plain, 1, 2);
    expect_counts(rdma, 0, 1);
    expect_counts(exportable, 0, 0);
    ck_assert_ptr_null(tn_memory_cache_take(cache, 8 * MIB, plain));
    ck_assert_ptr_null(tn_memory_cache_take(cache, 4 * MIB, exportable));
    ck_assert_ptr_null(tn_memory_cache_take(cache, 2 * MIB, rdma));
    ck_assert_ptr_eq(tn_memory_cache_take(cache, 4 * MIB, plain), second);
    ck_assert_ptr_eq(tn_memory_cache_take(cache, 4 * MIB, plain), first);
    ck_assert_ptr_null(tn_memory_cache_take(cache, 4 * MIB, plain));
    OK(tn_memory_cache_check(cache));
    ck_assert_uint_eq(atomic_load(&device->budget.charged_bytes),
                      14 * MIB); /* whoever took them has them */
    ck_assert_ptr_eq(tn_memory_cache_take(cache, 4 * MIB, rdma), other);
    ck_assert_ptr_eq(tn_memory_cache_take(cache, 2 * MIB, plain), third);
    ck_assert_uint_eq(tn_memory_cache_bytes(cache), 0);
    tn_memory_destroy(&device->gpu, first);
    tn_memory_destroy(&device->gpu, second);
    tn_memory_destroy(&device->gpu, other);
    tn_memory_destroy(&device->gpu, third);
}

GROUP(limits, open_cache)

TEST(limits, over_the_limit_the_oldest_go)
{
    struct tn_memory *kept;

    put(32 * MIB, plain);
    put(16 * MIB, rdma);
    kept = put(16 * MIB, plain);
    expect_cached(64 * MIB, 3);
    put(2 * MIB, plain);
    expect_cached(34 * MIB, 3);
    put(32 * MIB, plain);
    expect_cached(50 * MIB, 3);
    ck_assert_ptr_null(tn_memory_cache_take(cache, 16 * MIB, rdma));
    ck_assert_ptr_eq(tn_memory_cache_take(cache, 16 * MIB, plain), kept);
    tn_memory_destroy(&device->gpu, kept);
}

TEST(limits, memory_above_the_limit_goes_alone)
{
    put(2 * MIB, plain);
    put(128 * MIB, plain);
    expect_cached(2 * MIB, 1);
}

TEST(limits, memory_of_just_the_limit_stays)
{
    struct tn_memory *memory;

    put(2 * MIB, plain);
    memory = put(64 * MIB, plain);
    expect_cached(64 * MIB, 1);
    ck_assert_ptr_eq(tn_memory_cache_take(cache, 64 * MIB, plain), memory);
    tn_memory_destroy(&device->gpu, memory);
}

TEST(limits, usage_is_what_is_there_and_the_limit)
{
    uint64_t bytes = 77;
    uint64_t count = 77;
    uint64_t limit_bytes = 77;

    put(4 * MIB, plain);
    put(8 * MIB, plain);
    tn_memory_cache_usage(cache, &bytes, &count, &limit_bytes);
    ck_assert_uint_eq(bytes, 12 * MIB);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(limit_bytes, 64 * MIB);
}

TEST(limits, a_release_stops_at_what_is_to_be_kept)
{
    for (int i = 0; i < 5; i++)
        put(4 * MIB, plain);
    ck_assert_uint_eq(tn_memory_cache_release(cache, 21 * MIB), 0);
    expect_cached(20 * MIB, 5);
    ck_assert_uint_eq(tn_memory_cache_release(cache, 11 * MIB), 12 * MIB);
    expect_cached(8 * MIB, 2);
    ck_assert_uint_eq(tn_memory_cache_release(cache, 0), 8 * MIB);
    expect_cached(0, 0);
    ck_assert_ptr_null(cache->newest);
    ck_assert_ptr_null(cache->oldest);
    test_same_ledger(&before);
}

TEST(limits, a_lower_limit_holds_at_once)
{
    for (int i = 0; i < 4; i++)
        put(8 * MIB, plain);
    tn_memory_cache_set_limit(cache, 20 * MIB);
    expect_cached(16 * MIB, 2);
    tn_memory_cache_set_limit(cache, 0);
    expect_cached(0, 0);
    put(2 * MIB, plain);
    expect_cached(0, 0);
    tn_memory_cache_set_limit(cache, 8 * MIB);
    put(2 * MIB, plain);
    expect_cached(2 * MIB, 1);
}

TEST(chunks, closing_the_device_gives_the_cache_back)
{
    tarn_sim_ledger open = test_ledger();

    put(32 * MIB, plain);
    put(2 * MIB, rdma);
    ck_assert_uint_eq(test_ledger().handles, open.handles + 2);
    OK(tarn_device_close(device));
    ck_assert_uint_eq(test_ledger().handles, open.handles);
}

GROUP(wrong, open_cache)

TEST(wrong, the_check_sees_a_wrong_sum)
{
    put(2 * MIB, plain);
    atomic_fetch_add(&cache->bytes, 1);
    STATUS(TARN_ERR_CORRUPT, tn_memory_cache_check(cache));
    unit_expect_sentence("V8");
    atomic_fetch_sub(&cache->bytes, 1);
    OK(tn_memory_cache_check(cache));
}

TEST(wrong, the_check_sees_memory_in_the_wrong_list)
{
    struct tn_memory *memory = put(2 * MIB, plain);

    cache->alike[1][0] = memory;
    cache->alike[0][0] = NULL;
    STATUS(TARN_ERR_CORRUPT, tn_memory_cache_check(cache));
    cache->alike[0][0] = memory;
    cache->alike[1][0] = NULL;
    OK(tn_memory_cache_check(cache));
}

CONTRACT_TEST(wrong, putting_mapped_memory_is_a_broken_contract)
{
    tn_cu_stream stream = test_stream();

    tn_memory_cache_put(cache, unit_chunk(unit_alloc(unit_pool(device), 2 * MIB, stream))->memory);
}
