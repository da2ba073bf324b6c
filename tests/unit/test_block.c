// SPDX-License-Identifier: Apache-2.0
#include "heap/block.h"

#include <stdlib.h>

#include "unit/unit.h"

static struct tn_block_store store;
static struct tn_segment segment = {.base = 0x200000000000, .bytes = TN_GIB};

static void *given; /* what the system gives for the next slab; NULL: as always */
static void *given_back;

void *__real_tn_host_alloc_aligned(size_t alignment, size_t bytes);
void *__wrap_tn_host_alloc_aligned(size_t alignment, size_t bytes);
void *__wrap_tn_host_alloc_aligned(size_t alignment, size_t bytes)
{
    return given != NULL ? given : __real_tn_host_alloc_aligned(alignment, bytes);
}

void __real_tn_host_free(void *memory);
void __wrap_tn_host_free(void *memory);
void __wrap_tn_host_free(void *memory)
{
    if (memory != NULL && memory == given)
        given_back = memory;
    else
        __real_tn_host_free(memory);
}

GROUP(records, NULL)

/* Addresses of 52 bits, as Linux gives to who asks for them, and marks in the upper byte. None may be written to. */
TEST(records, records_that_an_index_has_no_room_for_are_refused)
{
    const uintptr_t addresses[] = {(uintptr_t)1 << 48, ((uintptr_t)1 << 52) - 16384,
                                   (uintptr_t)0x0b00aaaabbbb4000, (uintptr_t)1 << 63};

    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        given = (void *)addresses[i];
        given_back = NULL;
        ck_assert(!tn_blocks_reserve(&store, 1));
        ck_assert_ptr_eq(given_back, given);
        ck_assert_ptr_null(store.slabs);
        ck_assert_uint_eq(store.spare_count, 0);
    }
    given = NULL;
    ck_assert(tn_blocks_reserve(&store, 1));
    tn_blocks_fini(&store);
}

TEST(records, records_are_set_aside_before_they_are_taken)
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

static int compare_pointers(const void *a, const void *b)
{
    uintptr_t left = (uintptr_t) * (void *const *)a;
    uintptr_t right = (uintptr_t) * (void *const *)b;

    return (left > right) - (left < right);
}

TEST(records, records_move_between_stores_whether_they_were_ever_taken_or_not)
{
    struct tn_block_store other = {.slabs = NULL};
    struct tn_block *taken[2 * TN_BLOCK_SLAB_RECORDS];
    size_t count = 0;
    size_t all;

    ck_assert(tn_blocks_reserve(&store, 100));
    all = store.spare_count;
    tn_blocks_move(&store, &other, 16); /* none was ever taken */
    ck_assert_uint_eq(other.spare_count, 16);
    ck_assert_uint_eq(store.spare_count, all - 16);
    tn_block_give(&store, tn_block_take(&store));
    tn_blocks_move(&store, &other, 16); /* one was */
    tn_blocks_move(&other, &store, 8);
    ck_assert_uint_eq(other.spare_count, 24);
    ck_assert_uint_eq(store.spare_count, all - 24);
    while (other.spare_count > 0)
        taken[count++] = tn_block_take(&other);
    while (store.spare_count > 0)
        taken[count++] = tn_block_take(&store);
    ck_assert_uint_eq(count, all);
    qsort(taken, count, sizeof taken[0], compare_pointers);
    for (size_t i = 1; i < count; i++)
        ck_assert_ptr_ne(taken[i - 1], taken[i]);
    tn_blocks_move(&store, &other, 1); /* there is none */
    ck_assert_uint_eq(other.spare_count, 0);
    tn_blocks_fini(&store);
}

/* Whatever batches they stand in. */
TEST(records, no_record_is_lost_or_doubled_on_its_way)
{
    enum { STEPS = 20000, SEED = 5 };
    struct tn_block_store stores[2] = {{.slabs = NULL}, {.slabs = NULL}};
    struct tn_block *taken[3 * TN_BLOCK_SLAB_RECORDS];
    unsigned random = SEED;
    size_t count = 0;
    size_t all = 2 * TN_BLOCK_SLAB_RECORDS;

    ck_assert(tn_blocks_reserve(&stores[0], all));
    for (int i = 0; i < STEPS; i++) {
        struct tn_block_store *from;
        size_t before;

        random = random * 1664525 + 1013904223;
        from = &stores[random >> 31];
        if ((random >> 24) % 4 == 0) {
            struct tn_block_store *to = from == stores ? &stores[1] : stores;
            size_t moved = (random >> 12) % 40;

            before = to->spare_count;
            moved = tn_min(moved, from->spare_count);
            tn_blocks_move(from, to, moved);
            ck_assert_uint_eq(to->spare_count, before + moved);
        } else if ((random >> 16) % 2 == 0 && from->spare_count > 0) {
            taken[count++] = tn_block_take(from);
        } else if (count > 0) {
            tn_block_give(from, taken[--count]);
        }
        ck_assert_uint_eq(count + stores[0].spare_count + stores[1].spare_count, all);
    }
    for (int i = 0; i < 2; i++) {
        while (stores[i].spare_count > 0)
            taken[count++] = tn_block_take(&stores[i]);
    }
    ck_assert_uint_eq(count, all);
    qsort(taken, count, sizeof taken[0], compare_pointers);
    for (size_t i = 1; i < count; i++)
        ck_assert_ptr_ne(taken[i - 1], taken[i]);
    tn_blocks_fini(&stores[0]);
}

/* The records of a batch are not touched when it passes. */
TEST(records, a_batch_passes_with_its_first_record)
{
    struct tn_block_store other = {.slabs = NULL};
    struct tn_block *taken[2 * TN_BLOCK_BATCH];

    ck_assert(tn_blocks_reserve(&store, 1));
    for (int i = 0; i < 2 * TN_BLOCK_BATCH; i++)
        taken[i] = tn_block_take(&store);
    for (int i = 0; i < 2 * TN_BLOCK_BATCH; i++)
        tn_block_give(&store, taken[i]);
    tn_blocks_move(&store, &other, TN_BLOCK_BATCH);
    ck_assert_ptr_eq(other.batches, taken[TN_BLOCK_BATCH - 1]);
    ck_assert_ptr_null(other.spare);
    ck_assert_ptr_null(store.batches);
    ck_assert_ptr_eq(tn_block_take(&other), taken[TN_BLOCK_BATCH - 1]);
    ck_assert_ptr_eq(tn_block_take(&store), taken[2 * TN_BLOCK_BATCH - 1]);
    tn_blocks_fini(&store);
}

TEST(records, a_record_is_zeroed_when_it_is_taken)
{
    static const struct tn_block zero;
    struct tn_block *block;

    ck_assert(tn_blocks_reserve(&store, 1));
    block = tn_block_take(&store);
    memset(block, 0xAB, sizeof *block);
    block->may_have_claims = false;
    tn_block_give(&store, block);
    ck_assert_uint_eq(block->units, 0); /* no saved block takes it for its place */
    ck_assert_ptr_eq(tn_block_take(&store), block);
    ck_assert_mem_eq(block, &zero, sizeof zero);
    tn_blocks_fini(&store);
}

TEST(records, cold_records_come_with_the_first_block_of_a_slab_that_needs_one)
{
    struct tn_block *block;
    int64_t before;

    ck_assert(tn_blocks_reserve(&store, 2));
    block = tn_block_take(&store);
    before = tn_host_outstanding();
    ck_assert(!tn_block_has_cold(block));
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_block_add_cold(block));
    ck_assert(!tn_block_has_cold(block));
    ck_assert(tn_block_add_cold(block));
    tn_block_cold(block)->proof_stamp = 7;
    (void)tn_host_plan_fault(1, true);
    ck_assert(tn_block_add_cold(block)); /* it is there */
    ck_assert(tn_block_add_cold(tn_block_take(&store)));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
    ck_assert_uint_eq(tn_block_cold(block)->proof_stamp, 7);
    ck_assert_int_eq(tn_host_outstanding(), before + 1);
    tn_blocks_fini(&store);
}

TEST(records, a_store_gives_all_records_cold_ones_from_then_on)
{
    struct tn_block *blocks[600];

    ck_assert(tn_blocks_reserve(&store, 300)); /* two slabs */
    (void)tn_host_plan_fault(2, false);
    ck_assert(!tn_blocks_add_cold(&store));
    ck_assert(!store.all_cold);
    ck_assert(tn_blocks_add_cold(&store));
    (void)tn_host_plan_fault(2, false); /* a slab that has none is no use */
    ck_assert(!tn_blocks_reserve(&store, 600));
    ck_assert(tn_blocks_reserve(&store, 600));
    (void)tn_host_plan_fault(1, true);
    for (size_t i = 0; i < 600; i++) {
        blocks[i] = tn_block_take(&store);
        blocks[i]->offset = i;
        ck_assert(tn_block_has_cold(blocks[i]));
        tn_block_cold(blocks[i])->proof_stamp = i;
    }
    for (size_t i = 0; i < 600; i++) {
        ck_assert_uint_eq(blocks[i]->offset, i);
        ck_assert_uint_eq(tn_block_cold(blocks[i])->proof_stamp, i);
    }
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
    tn_blocks_fini(&store);
    ck_assert(!store.all_cold);
}

static struct tn_block *take_live(uint64_t sequence)
{
    struct tn_block *block = tn_block_take(&store);

    block->state = TN_BLOCK_LIVE;
    block->sequence = sequence;
    return block;
}

TEST(records, tags_come_with_the_first_of_a_slab_and_go_with_the_block)
{
    struct tn_block *block;
    struct tn_block *other;
    int64_t at_first = tn_host_outstanding();
    int64_t before;

    ck_assert(tn_blocks_reserve(&store, 2));
    block = take_live(7);
    other = take_live(8);
    before = tn_host_outstanding();
    (void)tn_host_plan_fault(1, true);
    ck_assert(tn_block_set_tag(&store, block, 0)); /* which is no tag */
    ck_assert(!tn_block_set_tag(&store, block, 5));
    ck_assert_uint_eq(tn_block_tag(block), 0);
    ck_assert(!store.tagged);
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert(tn_block_set_tag(&store, block, 5));
    ck_assert(store.tagged);
    (void)tn_host_plan_fault(1, true);
    ck_assert(tn_block_set_tag(&store, other, 6)); /* there is room */
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
    ck_assert_uint_eq(tn_block_tag(block), 5);
    ck_assert_uint_eq(tn_block_tag(other), 6);
    ck_assert_int_eq(tn_host_outstanding(), before + 1);
    block->sequence = 9; /* another block's record */
    ck_assert_uint_eq(tn_block_tag(block), 0);
    ck_assert(tn_block_set_tag(&store, other, 0));
    ck_assert_uint_eq(tn_block_tag(other), 0);
    tn_blocks_fini(&store);
    ck_assert(!store.tagged);
    ck_assert_int_eq(tn_host_outstanding(), at_first);
}

TEST(records, a_store_makes_room_for_the_tags_of_all_records)
{
    struct tn_block *block;

    ck_assert(tn_blocks_reserve(&store, 300)); /* two slabs */
    (void)tn_host_plan_fault(2, false);
    ck_assert(!tn_blocks_add_tags(&store));
    ck_assert(tn_blocks_add_tags(&store));
    (void)tn_host_plan_fault(1, true);
    for (uint64_t i = 1; i <= 300; i++) {
        block = take_live(i);
        ck_assert(tn_block_set_tag(&store, block, 1000 + i));
        ck_assert_uint_eq(tn_block_tag(block), 1000 + i);
    }
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 0);
    tn_blocks_fini(&store);
}

TEST(records, no_memory_sets_nothing_aside)
{
    (void)tn_host_plan_fault(1, false);
    ck_assert(!tn_blocks_reserve(&store, 1));
    ck_assert_uint_eq(store.spare_count, 0);
    ck_assert_ptr_null(store.slabs);
}

CONTRACT_TEST(records, taking_what_was_not_set_aside_is_a_broken_contract)
{
    (void)tn_block_take(&store);
}

/* One block over the whole segment. */
static struct tn_block *whole(enum tn_block_state state)
{
    struct tn_block *block;

    ck_assert(tn_blocks_reserve(&store, 8));
    block = tn_block_take(&store);
    block->segment = &segment;
    tn_block_set_bytes(block, segment.bytes);
    block->state = (uint8_t)state;
    segment.first_block = block;
    segment.last_block = block;
    segment.unmapped_count = state == TN_BLOCK_UNMAPPED;
    return block;
}

GROUP(tiles, NULL, .name = "split and join")

TEST(tiles, a_split_tiles_and_coalescing_undoes_it)
{
    struct tn_heap *heap = (struct tn_heap *)(void *)&store; /* compared, never followed */
    struct tn_block *low = whole(TN_BLOCK_LIVE);
    struct tn_block *high;
    struct tn_block *middle;

    low->heap = heap;
    high = tn_block_split(&store, low, 8 * TN_MIB);
    ck_assert_uint_eq(tn_block_bytes(low), 8 * TN_MIB);
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
    tn_block_coalesce_next(&store, low);
    ck_assert_ptr_eq(high->previous, low);
    tn_block_coalesce_next(&store, low);
    ck_assert_uint_eq(tn_block_bytes(low), segment.bytes);
    ck_assert_ptr_null(low->next);
    ck_assert_ptr_eq(segment.last_block, low);
    ck_assert_uint_eq(segment.unmapped_count, 0);
}

TEST(tiles, unmapped_blocks_are_counted_as_they_split_and_coalesce)
{
    struct tn_block *block = whole(TN_BLOCK_UNMAPPED);

    (void)tn_block_split(&store, block, 2 * TN_MIB);
    ck_assert_uint_eq(segment.unmapped_count, 2);
    tn_block_coalesce_next(&store, block);
    ck_assert_uint_eq(segment.unmapped_count, 1);
}

CONTRACT_TEST_LOOP(tiles, splitting_at_an_edge_is_a_broken_contract, 0, 2)
{
    struct tn_block *block = whole(TN_BLOCK_FREE);

    (void)tn_block_split(&store, block, _i == 0 ? 0 : segment.bytes);
}

/* P1: blocks with a gap between them are not neighbours. */
CONTRACT_TEST(tiles, coalescing_over_a_gap_is_a_broken_contract)
{
    struct tn_block *block = whole(TN_BLOCK_FREE);

    (void)tn_block_split(&store, block, 2 * TN_MIB);
    block->units -= 1;
    tn_block_coalesce_next(&store, block);
}

CONTRACT_TEST(tiles, coalescing_blocks_of_two_states_is_a_broken_contract)
{
    struct tn_block *block = whole(TN_BLOCK_FREE);

    tn_block_split(&store, block, 2 * TN_MIB)->state = TN_BLOCK_LIVE;
    tn_block_coalesce_next(&store, block);
}
