// SPDX-License-Identifier: Apache-2.0
#include "pools/live_index.h"
#include "unit/unit.h"

enum { COUNT = 600, FIRST_ROOM = 18 /* nine sixteenths of 32 */ };

static tarn_pool *const owner = (tarn_pool *)(void *)&owner; /* compared, and never used */
static struct tn_segment segment = {.base = 0x200000000000, .bytes = TN_SLOT_BYTES};
static struct tn_chunk chunk = {.bytes = 16 * TN_MIB, .offset = 8 * TN_MIB};
static struct tn_block blocks[COUNT];

static void map_chunk(void)
{
    OK(tn_address_table_init());
    atomic_store(&segment.owner, (void *)owner);
    atomic_store(&chunk.segment, &segment);
    tn_address_table_set_pages(segment.base + chunk.offset, chunk.bytes, &chunk);
}

static void unmap_chunk(void)
{
    tn_host_free(chunk.live);
    tn_address_table_set_pages(segment.base + chunk.offset, chunk.bytes, NULL);
}

static struct tn_block *place(size_t i, uint64_t offset, uint64_t bytes)
{
    blocks[i].segment = &segment;
    blocks[i].offset = chunk.offset + offset;
    tn_block_set_bytes(&blocks[i], bytes);
    return &blocks[i];
}

START_TEST(nothing_is_found_where_nothing_began)
{
    uint64_t address = segment.base + chunk.offset;

    ck_assert_ptr_null(tn_live_find(owner, address));
    ck_assert(tn_live_reserve(&chunk, 1));
    ck_assert_ptr_null(tn_live_find(owner, address));
    ck_assert_ptr_null(tn_live_find(owner, segment.base)); /* no chunk is there */
    ck_assert_ptr_null(tn_live_find(owner, UINT64_MAX));
}
END_TEST

/* P5, as the index sees it: beside a naive set. */
START_TEST(the_index_agrees_with_a_naive_set)
{
    uint64_t random = 0x7461726e;
    bool in[COUNT] = {false};
    uint32_t count = 0;

    ck_assert(tn_live_reserve(&chunk, COUNT));
    for (size_t i = 0; i < COUNT; i++)
        (void)place(i, i * 512, 512);
    for (int round = 0; round < 6000; round++) {
        size_t i;

        random = random * 6364136223846793005U + 1442695040888963407U; /* Knuth's MMIX */
        i = (size_t)(random >> 40) % COUNT;
        if (in[i])
            tn_live_remove(&blocks[i]);
        else
            tn_live_insert(&blocks[i]);
        in[i] = !in[i];
        count = in[i] ? count + 1 : count - 1;
        ck_assert_uint_eq(chunk.live_count, count);
        for (size_t k = 0; k < COUNT && round % 100 == 0; k++)
            ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(&blocks[k])),
                             in[k] ? &blocks[k] : NULL);
    }
}
END_TEST

START_TEST(small_and_large_blocks_are_found_beside_each_other)
{
    struct tn_block *small = place(0, 0, TN_SMALL_BYTES_MAX);
    struct tn_block *large = place(1, TN_SMALL_BYTES_MAX, TN_SMALL_BYTES_MAX + 512);
    struct tn_block *last = place(2, 2 * TN_SMALL_BYTES_MAX + 512, 512);

    ck_assert(tn_live_reserve(&chunk, 3));
    tn_live_insert(small);
    tn_live_insert(large);
    tn_live_insert(last);
    ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(small)), small);
    ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(large)), large);
    ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(last)), last);
    ck_assert_ptr_null(tn_live_find(owner, tn_block_address(small) + 1));
    ck_assert_ptr_null(tn_live_find(owner, tn_block_address(large) + 512));
}
END_TEST

START_TEST(blocks_of_another_pool_are_not_found)
{
    struct tn_block *block = place(0, 0, 512);

    ck_assert(tn_live_reserve(&chunk, 1));
    tn_live_insert(block);
    ck_assert_ptr_null(
        tn_live_find((const tarn_pool *)(const void *)&blocks, tn_block_address(block)));
}
END_TEST

START_TEST(room_is_made_for_as_many_as_are_asked_for)
{
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_live_has_room(&chunk));
    ck_assert(!tn_live_reserve(&chunk, 1));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert(tn_live_reserve(&chunk, FIRST_ROOM));
    (void)tn_host_plan_fault(1, true);
    for (size_t i = 0; i < FIRST_ROOM; i++) {
        ck_assert(tn_live_has_room(&chunk) && tn_live_reserve(&chunk, 1));
        tn_live_insert(place(i, i * 4096, 512));
    }
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
    ck_assert(!tn_live_has_room(&chunk));
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_live_reserve(&chunk, 1));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    for (size_t i = 0; i < FIRST_ROOM; i++)
        ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(&blocks[i])), &blocks[i]);
    ck_assert(tn_live_reserve(&chunk, 1)); /* takes all along */
    ck_assert(tn_live_has_room(&chunk));
    for (size_t i = 0; i < FIRST_ROOM; i++)
        ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(&blocks[i])), &blocks[i]);
}
END_TEST

/* Of blocks that fill a tenth of the chunk there will be ten times as many; of some that leave no room, hardly
 * more. */
START_TEST(a_table_becomes_as_large_as_its_chunk_will_need)
{
    ck_assert(tn_live_reserve(&chunk, FIRST_ROOM));
    for (size_t i = 0; i < FIRST_ROOM; i++)
        tn_live_insert(place(i, i * 4096, 4096));
    chunk.used_bytes = chunk.bytes / 10;
    ck_assert(tn_live_reserve(&chunk, 1)); /* twice, at most */
    ck_assert_uint_ge(chunk.live_room, 2 * FIRST_ROOM);
    ck_assert_uint_le(chunk.live_room, 2 * FIRST_ROOM + 2);
    for (size_t i = FIRST_ROOM; i < 2 * FIRST_ROOM; i++)
        tn_live_insert(place(i, i * 4096, 4096));
    chunk.used_bytes = chunk.bytes - 4096;
    ck_assert(tn_live_reserve(&chunk, 3));
    ck_assert_uint_le(chunk.live_room, 2 * FIRST_ROOM + 2 * FIRST_ROOM / 8 + 2);
    for (size_t i = 0; i < 2 * FIRST_ROOM; i++)
        ck_assert_ptr_eq(tn_live_find(owner, tn_block_address(&blocks[i])), &blocks[i]);
    for (size_t i = 0; i < 2 * FIRST_ROOM; i++)
        tn_live_remove(&blocks[i]);
    tn_live_drop(&chunk);
    ck_assert(!tn_live_has_room(&chunk));
    ck_assert_ptr_null(tn_live_find(owner, tn_block_address(&blocks[0])));
}
END_TEST

/* P5: an address has one block. */
START_TEST(entering_an_address_twice_is_a_broken_contract)
{
    ck_assert(tn_live_reserve(&chunk, 1));
    tn_live_insert(place(0, 0, 512));
    tn_live_insert(&blocks[0]);
}
END_TEST

START_TEST(removing_what_is_not_there_is_a_broken_contract)
{
    ck_assert(tn_live_reserve(&chunk, 1));
    tn_live_remove(place(0, 0, 512));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("live index");
    TCase *index = tcase_create("index");

    tcase_add_checked_fixture(index, map_chunk, unmap_chunk);
    tcase_add_test(index, nothing_is_found_where_nothing_began);
    tcase_add_test(index, the_index_agrees_with_a_naive_set);
    tcase_add_test(index, small_and_large_blocks_are_found_beside_each_other);
    tcase_add_test(index, blocks_of_another_pool_are_not_found);
    tcase_add_test(index, room_is_made_for_as_many_as_are_asked_for);
    tcase_add_test(index, a_table_becomes_as_large_as_its_chunk_will_need);
    unit_add_contract_test(index, entering_an_address_twice_is_a_broken_contract);
    unit_add_contract_test(index, removing_what_is_not_there_is_a_broken_contract);
    suite_add_tcase(suite, index);
    return test_main(suite);
}
