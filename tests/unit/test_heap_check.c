// SPDX-License-Identifier: Apache-2.0
/* Blocks, bins and counts are broken by hand, one thing at a time: the check of the neighbours names
 * the invariant, and so does the next mutation beside it. */
#include <stdlib.h>

#include "heap/check.h"
#include "unit/unit.h"

static tarn_pool *pool;
static tn_cu_stream stream;
static void *low; /* three blocks of 4 KiB, one behind the other, and what is free behind them */
static void *live;
static void *high;
static struct tn_block *block; /* of live */
static struct tn_block *rest;  /* FREE, behind high */
static struct tn_chunk *chunk;
static struct tn_heap *heap;

static void make_blocks(void)
{
    pool = unit_pool(unit_device());
    stream = test_stream();
    low = unit_alloc(pool, 4096, stream);
    live = unit_alloc(pool, 4096, stream);
    high = unit_alloc(pool, 4096, stream);
    block = unit_block(live);
    chunk = unit_chunk(live);
    heap = block->heap;
    rest = unit_block(high)->next;
    ck_assert_ptr_eq(block->previous, unit_block(low));
    ck_assert_ptr_eq(block->next, unit_block(high));
    ck_assert_int_eq(rest->state, TN_BLOCK_FREE);
    OK(tn_block_check_near(block));
    OK(tn_block_check_near(rest));
}

static uint64_t heap_looks(tarn_status expected)
{
    uint64_t looks = 0;

    STATUS(expected, tn_heap_check(heap, pool->segments.first, &looks));
    return looks;
}

static void expect_broken(const struct tn_block *near, const char *invariant)
{
    STATUS(TARN_ERR_CORRUPT, tn_block_check_near(near));
    unit_expect_sentence(invariant);
}

GROUP(near, make_blocks)

/* P1 */
TEST(near, a_block_that_its_neighbour_does_not_know_is_found)
{
    block->next->previous = unit_block(low);
    expect_broken(block, "P1");
    block->next->previous = block;
    block->previous->next = block->next;
    expect_broken(block, "P1");
    block->previous->next = block;
    block->next->offset += 512;
    expect_broken(block, "P1");
    block->next->offset -= 512;
    block->segment->first_block = block;
    expect_broken(block->previous, "P1");
    block->segment->first_block = block->previous;
    OK(tn_block_check_near(block));
}

/* P2, V4 */
TEST(near, a_chunk_of_another_heap_under_a_block_is_found)
{
    struct tn_arena *arena = chunk->arena;
    struct tn_segment *segment = block->segment;

    atomic_store(&chunk->heap, arena->heaps[TN_HEAP_LARGE]);
    expect_broken(block, "P2");
    atomic_store(&chunk->heap, heap);
    atomic_store(&chunk->arena, &pool->idle);
    expect_broken(block, "P2");
    atomic_store(&chunk->arena, arena);
    chunk->offset += TN_PAGE_BYTES;
    expect_broken(block, "V4");
    chunk->offset -= TN_PAGE_BYTES;
    tn_address_table_set_pages(segment->base, TN_PAGE_BYTES, NULL);
    expect_broken(block, "P2");
    tn_address_table_set_pages(segment->base, TN_PAGE_BYTES, chunk);
    OK(tn_block_check_near(block));
}

/* P3 */
TEST(near, two_free_neighbours_of_one_heap_are_found)
{
    struct tn_block *upper;

    ck_assert(tn_blocks_reserve(&pool->store, 1));
    tn_bins_remove(&heap->bins, rest);
    upper = tn_block_split(&pool->store, rest, rest->offset + 4096);
    tn_bins_insert(&heap->bins, rest);
    tn_bins_insert(&heap->bins, upper);
    expect_broken(rest, "P3");
}

/* P4 */
TEST(near, a_free_block_that_is_in_no_bin_is_found_from_beside)
{
    uint32_t units;

    tn_bins_remove(&heap->bins, rest);
    expect_broken(rest->previous, "P4");
    tn_bins_insert(&heap->bins, rest);
    units = rest->units;
    rest->units = 8; /* in the bin of another size */
    STATUS(TARN_ERR_CORRUPT, tn_block_check(rest));
    unit_expect_sentence("P4");
    rest->units = units;
    rest->extends = !rest->extends;
    expect_broken(rest, "P4");
    rest->extends = !rest->extends;
    OK(tn_block_check_near(rest));
}

GROUP(heap, make_blocks)

/* P4 */
TEST(heap, a_bin_with_what_is_not_free_is_found_by_the_heaps_check)
{
    (void)heap_looks(TARN_OK);
    rest->state = TN_BLOCK_PENDING;
    (void)heap_looks(TARN_ERR_CORRUPT);
    unit_expect_sentence("P4");
    rest->state = TN_BLOCK_FREE;
    heap->bins.words[TN_BIN_WORDS] = 1;
    (void)heap_looks(TARN_ERR_CORRUPT);
    unit_expect_sentence("P4");
    heap->bins.words[TN_BIN_WORDS] = 0;
    (void)heap_looks(TARN_OK);
}

/* P5 */
TEST(near, a_live_block_without_an_entry_is_found_from_beside)
{
    tn_live_remove(block);
    expect_broken(block->previous, "P5");
    expect_broken(block->next, "P5");
    tn_live_insert(block);
    OK(tn_block_check_near(block));
    chunk->live_count = 0;
    expect_broken(block, "P5");
    chunk->live_count = 4;
    OK(tn_block_check_near(block)); /* no neighbour sees it */
    (void)heap_looks(TARN_ERR_CORRUPT);
    unit_expect_sentence("P5");
    unit_expect_sentence("is 4 and should be 3");
}

/* P6 */
TEST(near, used_bytes_of_a_chunk_that_cannot_be_are_found_from_beside)
{
    uint64_t used = chunk->used_bytes;

    chunk->used_bytes = 512;
    expect_broken(block, "P6");
    chunk->used_bytes = chunk->bytes + 512;
    expect_broken(block, "P6");
    chunk->used_bytes = chunk->bytes;
    expect_broken(rest, "P6"); /* a part is free */
    chunk->used_bytes = used - 512;
    OK(tn_block_check_near(block)); /* no neighbour sees it */
    (void)heap_looks(TARN_ERR_CORRUPT);
    unit_expect_sentence("P6");
    chunk->used_bytes = used;
    (void)heap_looks(TARN_OK);
}

/* P8 */
TEST(heap, wrong_mapped_bytes_of_a_heap_are_found_by_its_check)
{
    heap->mapped_bytes += 512;
    (void)heap_looks(TARN_ERR_CORRUPT);
    unit_expect_sentence("P8");
}

/* P18 */
TEST(near, a_use_of_a_block_without_claims_is_found_from_beside)
{
    static int use;

    ck_assert(tn_block_add_cold(block));
    tn_block_cold(block)->uses = (struct tn_use *)&use;
    expect_broken(block->next, "P18");
    block->may_have_claims = true;
    OK(tn_block_check_near(block->next));
}

/* P19 */
TEST(heap, loose_blocks_that_are_not_counted_or_not_loose_are_found)
{
    OK(tarn_free(low));
    OK(tarn_free(high)); /* moves the other to a slot */
    ck_assert_uint_eq(heap->loose_count, 1);
    (void)heap_looks(TARN_OK);
    heap->loose_count = 2;
    (void)heap_looks(TARN_ERR_CORRUPT);
    unit_expect_sentence("P19");
    heap->loose_count = 1;
    heap->loose->state = TN_BLOCK_LIVE;
    (void)heap_looks(TARN_ERR_CORRUPT);
    unit_expect_sentence("P19");
    heap->loose->state = TN_BLOCK_LOOSE;
    block->previous->state = TN_BLOCK_LIVE;
    (void)heap_looks(TARN_ERR_CORRUPT);
    unit_expect_sentence("P19");
}

/* P20 */
TEST(near, a_block_that_says_it_is_in_the_other_heap_is_found_from_beside)
{
    block->in_other_heap = true;
    expect_broken(block->previous, "P20");
}

TEST(heap, a_mixed_segment_is_left_to_the_pools_check)
{
    uint64_t looks = heap_looks(TARN_OK);

    block->segment->mixed = true;
    chunk->used_bytes -= 512;
    ck_assert_uint_lt(heap_looks(TARN_OK), looks);
    block->segment->mixed = false;
    (void)heap_looks(TARN_ERR_CORRUPT);
}

TEST(near, a_neighbour_of_another_arena_is_not_looked_into)
{
    struct tn_heap *other = pool->idle.heaps[TN_HEAP_SMALL];

    block->next->heap = other;
    block->next->in_other_heap = true;
    OK(tn_block_check_near(block));
    block->next->previous = block->previous; /* but its links are */
    expect_broken(block, "P1");
}

/* What a contract says goes to standard error; the test ends by its handler. */
static const char *expected;

static void leave_by_exit(const char *file, int line, const char *text)
{
    (void)file;
    (void)line;
    exit(strstr(text, expected) != NULL && strstr(text, "is 1 and should be 0") != NULL ? 3 : 4);
}

GROUP(turns, make_blocks)

/* P20: both values are in the sentence. */
TEST_WITH(turns, the_free_beside_a_broken_block_breaks_the_contract, 0, 1, .status = 3,
          .left_out = !TARN_DEBUG_CHECKS)
{
    expected = "P20";
    block->in_other_heap = true;
    tn_contract_set_handler(leave_by_exit);
    OK(tarn_free(low));
}

/* P6: the count is wrong by less than a neighbour can see. */
CONTRACT_TEST(turns, the_heap_is_checked_once_as_many_mutations_have_passed_as_it_has_blocks)
{
    chunk->used_bytes -= 512;
    for (int i = 0; i < 64; i++)
        OK(tarn_free(unit_alloc(pool, 4096, stream)));
}
