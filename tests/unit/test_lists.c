// SPDX-License-Identifier: Apache-2.0
#include "observe/lists.h"

#include "base/host.h"
#include "pools/pool.h"
#include "unit/one_pool.h"

GROUP(lists, make_pool)

TEST(lists, an_empty_pool_has_an_empty_list)
{
    tarn_block_list *list = NULL;

    OK(tn_pool_list_blocks(pool, &list));
    ck_assert_uint_eq(list->count, 0);
    tn_host_free(list);
}

/* The driver may grant a later segment a lower address: here the order of the pool's list is turned round. */
TEST(lists, blocks_are_in_order_of_address_whatever_their_segments_order)
{
    void *blocks[] = {unit_alloc(pool, 512, stream), unit_alloc(pool, 1024, stream),
                      unit_alloc(pool, 3 * GIB, stream), unit_alloc(pool, 512, stream)};
    struct tn_segment *first = pool->segments.first;
    struct tn_segment *second = first->next;
    tarn_block_list *list = NULL;

    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_null(second->next);
    second->next = first;
    first->next = NULL;
    pool->segments.first = second;
    OK(tn_pool_list_blocks(pool, &list));
    pool->segments.first = first;
    first->next = second;
    second->next = NULL;
    ck_assert_uint_eq(list->count, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert(i == 0 ||
                  (uintptr_t)list->blocks[i - 1].address < (uintptr_t)list->blocks[i].address);
    tn_host_free(list);
    for (size_t i = 0; i < 4; i++)
        OK(tarn_free(blocks[i]));
}

TEST(lists, a_pool_that_is_being_made_or_has_nothing_yet_is_left_out)
{
    const struct tn_pool_settings settings = {.name = "adopted", .is_adopted = true};
    tarn_pool_list *list = NULL;
    tarn_pool *adopted;

    OK(tn_pool_create(device, &settings, &adopted));
    atomic_store(&pool->magic, 0); /* as until its record is whole */
    OK(tn_device_list_pools(device, &list));
    atomic_store(&pool->magic, TN_POOL_MAGIC);
    ck_assert_uint_eq(list->count, 1);
    ck_assert_int_eq(list->pools[0].kind, TARN_POOL_DEFAULT);
    tn_host_free(list);
    OK(tarn_pool_destroy(adopted));
}

TEST(lists, no_memory_makes_no_list)
{
    tarn_block_list *blocks = NULL;
    tarn_pool_list *pools = NULL;

    (void)tn_host_plan_fault(1, true);
    STATUS(TARN_ERR_HOST_MEMORY, tn_pool_list_blocks(pool, &blocks));
    STATUS(TARN_ERR_HOST_MEMORY, tn_device_list_pools(device, &pools));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 2);
    ck_assert_ptr_null(blocks);
    ck_assert_ptr_null(pools);
    ck_assert(tn_lock_none_held());
}
