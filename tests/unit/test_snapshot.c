// SPDX-License-Identifier: Apache-2.0
#include "observe/snapshot.h"

#include "base/host.h"
#include "pools/pool.h"
#include "unit/one_pool.h"

/* What another thread does while room is made. */
static void *late_blocks[5000];
static size_t late_count;
static size_t alloc_count;

void *__real_tn_host_alloc_unset(size_t count, size_t item_bytes);
void *__wrap_tn_host_alloc_unset(size_t count, size_t item_bytes);
void *__wrap_tn_host_alloc_unset(size_t count, size_t item_bytes)
{
    size_t now = late_count;

    late_count = 0;
    for (size_t i = 0; i < now; i++)
        late_blocks[i] = unit_alloc(pool, 512, stream);
    if (now > 0)
        alloc_count = 0; /* those were no snapshot's */
    alloc_count += 1;
    return __real_tn_host_alloc_unset(count, item_bytes);
}

static tarn_snapshot *take(tarn_pool *of)
{
    tarn_snapshot *snapshot = NULL;

    OK(tn_snapshot_take(device, of, &snapshot));
    ck_assert(tn_lock_none_held());
    return snapshot;
}

static void drop(const tarn_snapshot *snapshot)
{
    tn_snapshot_drop((struct tn_snapshot *)(uintptr_t)snapshot);
}

GROUP(snapshot, make_pool)

TEST(snapshot, a_pool_without_memory_is_there)
{
    tarn_snapshot *snapshot = take(pool);

    ck_assert_uint_eq(snapshot->pool_count, 1);
    ck_assert_ptr_eq(snapshot->pools[0].pool, pool);
    ck_assert_uint_eq(snapshot->segment_count, 0);
    ck_assert_uint_eq(snapshot->block_count, 0);
    drop(snapshot);
}

/* The driver may grant a later segment a lower address: here the order of the pool's list is turned round. */
TEST(snapshot, segments_are_in_order_of_address_whatever_the_pools_order)
{
    void *blocks[] = {unit_alloc(pool, 512, stream), unit_alloc(pool, 3 * GIB, stream)};
    struct tn_segment *first = pool->segments.first;
    struct tn_segment *second = first->next;
    tarn_snapshot *snapshot;

    ck_assert_ptr_null(second->next);
    second->next = first;
    first->next = NULL;
    pool->segments.first = second;
    snapshot = take(pool);
    pool->segments.first = first;
    first->next = second;
    second->next = NULL;
    ck_assert_uint_ge(snapshot->segment_count, 2);
    for (size_t i = 1; i < snapshot->segment_count; i++)
        ck_assert_uint_lt((uintptr_t)snapshot->segments[i - 1].address,
                          (uintptr_t)snapshot->segments[i].address);
    drop(snapshot);
    for (size_t i = 0; i < 2; i++)
        OK(tarn_free(blocks[i]));
}

/* Blocks that touch each other, one in two of them free: the most that the bound allows for. */
TEST(snapshot, there_is_room_for_the_most_blocks)
{
    enum { BLOCKS = 4096 };
    void *blocks[BLOCKS];
    tarn_snapshot *snapshot;
    size_t live = 0;

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = unit_alloc(pool, 512, stream);
    for (size_t i = 0; i < BLOCKS; i += 2)
        OK(tarn_free(blocks[i]));
    snapshot = take(NULL);
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        for (size_t k = 0; k < snapshot->segments[i].block_count; k++)
            live += snapshot->segments[i].blocks[k].state == TARN_EXTENT_LIVE;
    }
    ck_assert_uint_eq(live, BLOCKS / 2);
    ck_assert_uint_ge(snapshot->block_count, BLOCKS);
    drop(snapshot);
    for (size_t i = 1; i < BLOCKS; i += 2)
        OK(tarn_free(blocks[i]));
}

TEST(snapshot, a_pool_that_is_being_made_or_has_nothing_yet_is_left_out)
{
    const struct tn_pool_settings settings = {.name = "adopted", .is_adopted = true};
    tarn_snapshot *snapshot;
    tarn_pool *adopted;

    OK(tn_pool_create(device, &settings, &adopted));
    atomic_store(&pool->magic, 0); /* as until its record is whole */
    snapshot = take(NULL);
    atomic_store(&pool->magic, TN_POOL_MAGIC);
    ck_assert_uint_eq(snapshot->pool_count, 1);
    ck_assert_int_eq(snapshot->pools[0].kind, TARN_POOL_DEFAULT);
    drop(snapshot);
    OK(tarn_pool_destroy(adopted));
}

TEST(snapshot, no_memory_makes_no_snapshot)
{
    tarn_snapshot *snapshot = NULL;

    (void)tn_host_plan_fault(1, true);
    STATUS(TARN_ERR_HOST_MEMORY, tn_snapshot_take(device, NULL, &snapshot));
    STATUS(TARN_ERR_HOST_MEMORY, tn_snapshot_take(device, pool, &snapshot));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 2);
    ck_assert_ptr_null(snapshot);
    ck_assert(tn_lock_none_held());
    OK(tarn_free(unit_alloc(pool, 512, stream))); /* the pools go on */
}

TEST(snapshot, settings_are_those_of_the_device)
{
    const tarn_snapshot *snapshot = take(NULL);
    const struct tn_snapshot *whole = (const struct tn_snapshot *)(const void *)snapshot;

    ck_assert_int_eq(snapshot->device, device->gpu.ordinal);
    ck_assert(whole->record_stream_reuse);
    for (size_t i = 0; i < TARN_ROUNDUP_SIZES; i++)
        ck_assert_uint_eq(whole->roundup_divisions[i], 0);
    drop(snapshot);
}

TEST_LOOP(snapshot, room_is_made_again_where_blocks_come_meanwhile, 0, 2)
{
    enum { LATE = 5000 };
    tarn_snapshot *snapshot;

    OK(tarn_free(unit_alloc(pool, 512, stream)));
    late_count = LATE;
    alloc_count = 0;
    snapshot = take(_i == 0 ? pool : NULL);
    ck_assert_uint_eq(alloc_count, 2);
    ck_assert_uint_ge(snapshot->block_count, LATE);
    drop(snapshot);
    alloc_count = 0;
    drop(take(pool));
    ck_assert_uint_eq(alloc_count, 1);
    for (size_t i = 0; i < LATE; i++)
        OK(tarn_free(late_blocks[i]));
}
