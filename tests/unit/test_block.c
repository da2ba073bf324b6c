// SPDX-License-Identifier: Apache-2.0
#include "pools/block.h"
#include "unit/unit.h"

static struct tn_block_store store;
static struct tn_live_table table;
static struct tn_segment segment = {.base = 0x200000000000, .bytes = TN_GIB};

START_TEST(records_are_set_aside_before_they_are_taken)
{
    int64_t before = tn_host_outstanding();
    struct tn_block *blocks[300];

    ck_assert(tn_blocks_reserve(&store, 300)); /* three slabs */
    ck_assert_uint_ge(store.spare_count, 300);
    (void)tn_host_plan_fault(1, true);
    for (size_t i = 0; i < 300; i++) {
        blocks[i] = tn_block_take(&store);
        ck_assert_ptr_nonnull(blocks[i]);
        blocks[i]->offset = i;
    }
    for (size_t i = 0; i < 300; i++) {
        ck_assert_uint_eq(blocks[i]->offset, i);
        tn_block_give(&store, blocks[i]);
    }
    ck_assert(tn_blocks_reserve(&store, 300)); /* they are there */
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
    tn_blocks_fini(&store);
    ck_assert_int_eq(tn_host_outstanding(), before);
    ck_assert_uint_eq(store.spare_count, 0);
}
END_TEST

START_TEST(a_record_is_zeroed_when_it_is_taken)
{
    static const struct tn_block zero;
    struct tn_block *block;

    ck_assert(tn_blocks_reserve(&store, 1));
    block = tn_block_take(&store);
    memset(block, 0xAB, sizeof *block);
    tn_block_give(&store, block);
    ck_assert_ptr_eq(tn_block_take(&store), block);
    ck_assert_mem_eq(block, &zero, sizeof zero);
    tn_blocks_fini(&store);
}
END_TEST

START_TEST(no_memory_sets_nothing_aside)
{
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_blocks_reserve(&store, 1));
    ck_assert_uint_eq(store.spare_count, 0);
    ck_assert_ptr_null(store.slabs);
}
END_TEST

START_TEST(taking_what_was_not_set_aside_is_a_broken_contract)
{
    (void)tn_block_take(&store);
}
END_TEST

/* One block over the whole segment. */
static struct tn_block *whole(enum tn_block_state state)
{
    struct tn_block *block;

    ck_assert(tn_blocks_reserve(&store, 8));
    block = tn_block_take(&store);
    block->segment = &segment;
    block->bytes = segment.bytes;
    block->state = state;
    segment.first_block = block;
    segment.last_block = block;
    segment.unmapped_count = state == TN_BLOCK_UNMAPPED;
    return block;
}

START_TEST(a_split_tiles_and_a_join_undoes_it)
{
    struct tn_heap *heap = (struct tn_heap *)(void *)&table; /* compared, never followed */
    struct tn_block *low = whole(TN_BLOCK_LIVE);
    struct tn_block *high;
    struct tn_block *middle;

    low->heap = heap;
    high = tn_block_split(&store, low, 8 * TN_MIB);
    ck_assert_uint_eq(low->bytes, 8 * TN_MIB);
    ck_assert_uint_eq(high->offset, 8 * TN_MIB);
    ck_assert_uint_eq(tn_block_end(high), segment.bytes);
    ck_assert_int_eq(high->state, TN_BLOCK_LIVE);
    ck_assert_ptr_eq(high->heap, heap);
    ck_assert_ptr_eq(segment.last_block, high);
    middle = tn_block_split(&store, low, 512);
    ck_assert_ptr_eq(low->next, middle);
    ck_assert_ptr_eq(middle->next, high);
    ck_assert_ptr_eq(high->previous, middle);
    ck_assert_ptr_eq(middle->previous, low);
    ck_assert_ptr_eq(segment.last_block, high);
    ck_assert_uint_eq(tn_block_address(middle), segment.base + 512);
    tn_block_join_next(&store, low);
    ck_assert_ptr_eq(high->previous, low);
    tn_block_join_next(&store, low);
    ck_assert_uint_eq(low->bytes, segment.bytes);
    ck_assert_ptr_null(low->next);
    ck_assert_ptr_eq(segment.last_block, low);
    ck_assert_uint_eq(segment.unmapped_count, 0);
}
END_TEST

START_TEST(unmapped_blocks_are_counted_as_they_split_and_join)
{
    struct tn_block *block = whole(TN_BLOCK_UNMAPPED);

    (void)tn_block_split(&store, block, 2 * TN_MIB);
    ck_assert_uint_eq(segment.unmapped_count, 2);
    tn_block_join_next(&store, block);
    ck_assert_uint_eq(segment.unmapped_count, 1);
}
END_TEST

START_TEST(splitting_at_an_edge_is_a_broken_contract)
{
    struct tn_block *block = whole(TN_BLOCK_FREE);

    (void)tn_block_split(&store, block, _i == 0 ? 0 : segment.bytes);
}
END_TEST

/* P1: blocks with a gap between them are not neighbours. */
START_TEST(joining_over_a_gap_is_a_broken_contract)
{
    struct tn_block *block = whole(TN_BLOCK_FREE);

    (void)tn_block_split(&store, block, 2 * TN_MIB);
    block->bytes -= 512;
    tn_block_join_next(&store, block);
}
END_TEST

START_TEST(joining_blocks_of_two_states_is_a_broken_contract)
{
    struct tn_block *block = whole(TN_BLOCK_FREE);

    tn_block_split(&store, block, 2 * TN_MIB)->state = TN_BLOCK_LIVE;
    tn_block_join_next(&store, block);
}
END_TEST

enum { COUNT = 600 };

static struct tn_block blocks[COUNT];

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13; /* G. Marsaglia, Xorshift RNGs, 2003 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

START_TEST(an_empty_table_finds_nothing)
{
    ck_assert_ptr_null(tn_live_find(&table, segment.base));
    ck_assert(tn_live_reserve(&table, 1));
    ck_assert_uint_ge(table.capacity, 2);
    ck_assert_ptr_null(tn_live_find(&table, segment.base));
    tn_live_fini(&table);
    ck_assert_ptr_null(tn_live_find(&table, segment.base));
}
END_TEST

/* P5, as the table sees it: beside a naive set, through thousands of changes and three sizes. */
START_TEST(the_table_agrees_with_a_naive_set)
{
    uint64_t random = 0x7461726e;
    bool in[COUNT] = {false};
    size_t count = 0;

    for (size_t i = 0; i < COUNT; i++) {
        blocks[i].segment = &segment;
        blocks[i].offset = i * 512;
    }
    for (int round = 0; round < 6000; round++) {
        size_t i = (size_t)(next_random(&random) % COUNT);

        if (in[i]) {
            tn_live_remove(&table, &blocks[i]);
            count -= 1;
        } else {
            ck_assert(tn_live_reserve(&table, 1));
            tn_live_insert(&table, &blocks[i]);
            count += 1;
        }
        in[i] = !in[i];
        ck_assert_uint_eq(table.count, count);
        ck_assert_uint_le(count * 2, table.capacity);
        if (round % 100 != 0)
            continue;
        for (size_t k = 0; k < COUNT; k++) {
            struct tn_block *found = tn_live_find(&table, tn_block_address(&blocks[k]));

            ck_assert_ptr_eq(found, in[k] ? &blocks[k] : NULL);
        }
    }
    tn_live_fini(&table);
}
END_TEST

START_TEST(room_that_was_reserved_needs_no_memory)
{
    ck_assert(tn_live_reserve(&table, 100));
    (void)tn_host_plan_fault(1, true);
    for (size_t i = 0; i < 100; i++) {
        blocks[i].segment = &segment;
        blocks[i].offset = i * 512;
        ck_assert(tn_live_reserve(&table, 1));
        tn_live_insert(&table, &blocks[i]);
    }
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
    tn_live_fini(&table);
}
END_TEST

START_TEST(a_table_that_cannot_grow_is_unchanged)
{
    blocks[0].segment = &segment;
    ck_assert(tn_live_reserve(&table, 1));
    tn_live_insert(&table, &blocks[0]);
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_live_reserve(&table, 1000));
    ck_assert_uint_eq(table.count, 1);
    ck_assert_ptr_eq(tn_live_find(&table, segment.base), &blocks[0]);
    tn_live_fini(&table);
}
END_TEST

/* P5: an address has one block. */
START_TEST(entering_an_address_twice_is_a_broken_contract)
{
    blocks[0].segment = &segment;
    ck_assert(tn_live_reserve(&table, 2));
    tn_live_insert(&table, &blocks[0]);
    tn_live_insert(&table, &blocks[0]);
}
END_TEST

START_TEST(removing_what_is_not_there_is_a_broken_contract)
{
    blocks[0].segment = &segment;
    ck_assert(tn_live_reserve(&table, 1));
    tn_live_remove(&table, &blocks[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block");
    TCase *records = tcase_create("records");
    TCase *tiles = tcase_create("split and join");
    TCase *live = tcase_create("live table");

    tcase_add_test(records, records_are_set_aside_before_they_are_taken);
    tcase_add_test(records, a_record_is_zeroed_when_it_is_taken);
    tcase_add_test(records, no_memory_sets_nothing_aside);
    unit_add_contract_test(records, taking_what_was_not_set_aside_is_a_broken_contract);
    suite_add_tcase(suite, records);
    tcase_add_test(tiles, a_split_tiles_and_a_join_undoes_it);
    tcase_add_test(tiles, unmapped_blocks_are_counted_as_they_split_and_join);
    if (TARN_DEBUG_CHECKS)
        tcase_add_loop_test_raise_signal(tiles, splitting_at_an_edge_is_a_broken_contract, SIGABRT,
                                         0, 2);
    unit_add_contract_test(tiles, joining_over_a_gap_is_a_broken_contract);
    unit_add_contract_test(tiles, joining_blocks_of_two_states_is_a_broken_contract);
    suite_add_tcase(suite, tiles);
    tcase_add_test(live, an_empty_table_finds_nothing);
    tcase_add_test(live, the_table_agrees_with_a_naive_set);
    tcase_add_test(live, room_that_was_reserved_needs_no_memory);
    tcase_add_test(live, a_table_that_cannot_grow_is_unchanged);
    unit_add_contract_test(live, entering_an_address_twice_is_a_broken_contract);
    unit_add_contract_test(live, removing_what_is_not_there_is_a_broken_contract);
    suite_add_tcase(suite, live);
    return test_main(suite);
}
