// SPDX-License-Identifier: Apache-2.0
#include "heap/bins.h"
#include "unit/unit.h"

enum { COUNT = 64 };

static struct tn_bins bins;
static struct tn_block blocks[COUNT];

/* Inserts the i-th block with that many bytes. */
static struct tn_block *insert(size_t i, uint64_t bytes)
{
    blocks[i].state = TN_BLOCK_FREE;
    tn_block_set_bytes(&blocks[i], bytes);
    tn_bins_insert(&bins, &blocks[i]);
    return &blocks[i];
}

GROUP(find, NULL)

TEST(find, nothing_is_found_in_empty_bins)
{
    ck_assert_ptr_null(tn_bins_find(&bins, TN_BLOCK_BYTES_MIN));
    ck_assert_ptr_null(tn_bins_find(&bins, TN_BLOCK_BYTES_MAX));
    ck_assert_uint_eq(tn_bins_count(&bins), 0);
}

TEST(find, a_block_is_found_for_every_size_up_to_its_own)
{
    struct tn_block *block = insert(0, 3 * TN_MIB + 512);

    for (uint64_t bytes = TN_BLOCK_BYTES_MIN; bytes <= tn_block_bytes(block); bytes *= 2)
        ck_assert_ptr_eq(tn_bins_find(&bins, bytes), block);
    ck_assert_ptr_eq(tn_bins_find(&bins, tn_block_bytes(block)), block);
    ck_assert_ptr_null(tn_bins_find(&bins, tn_block_bytes(block) + 512));
    ck_assert_ptr_null(tn_bins_find(&bins, TN_BLOCK_BYTES_MAX));
}

TEST(find, the_smallest_and_the_largest_size_have_bins)
{
    struct tn_block *smallest = insert(0, TN_BLOCK_BYTES_MIN);
    struct tn_block *largest = insert(1, TN_BLOCK_BYTES_MAX);

    ck_assert_ptr_eq(tn_bins_find(&bins, TN_BLOCK_BYTES_MIN), smallest);
    ck_assert_ptr_eq(tn_bins_find(&bins, 2 * TN_BLOCK_BYTES_MIN), largest);
    ck_assert_ptr_eq(tn_bins_find(&bins, TN_BLOCK_BYTES_MAX), largest);
    tn_bins_remove(&bins, smallest);
    tn_bins_remove(&bins, largest);
    ck_assert_uint_eq(bins.word_map, 0);
}

TEST(find, the_newest_block_of_a_size_comes_first)
{
    struct tn_block *older = insert(0, 4096);
    struct tn_block *newer = insert(1, 4096);

    ck_assert_ptr_eq(tn_bins_find(&bins, 4096), newer);
    tn_bins_remove(&bins, newer);
    ck_assert_ptr_eq(tn_bins_find(&bins, 4096), older);
}

TEST(find, bins_are_turned_round)
{
    struct tn_block *older = insert(0, 4096);
    struct tn_block *middle = insert(1, 4096);
    struct tn_block *newer = insert(2, 4096);
    struct tn_block *alone = insert(3, 64 * TN_MIB);

    tn_bins_reverse(&bins);
    ck_assert_ptr_eq(tn_bins_find(&bins, 4096), older);
    ck_assert_ptr_eq(tn_bins_next(&bins, older, 4096), middle);
    ck_assert_ptr_eq(tn_bins_next(&bins, middle, 4096), newer);
    tn_bins_remove(&bins, middle);
    ck_assert_ptr_eq(tn_bins_next(&bins, older, 4096), newer);
    tn_bins_remove(&bins, older);
    ck_assert_ptr_eq(tn_bins_find(&bins, 4096), newer);
    ck_assert_ptr_eq(tn_bins_find(&bins, TN_MIB), alone);
    ck_assert_uint_eq(tn_bins_count(&bins), 2);
}

/* Beside a walk in order of address. */
TEST(find, a_bin_with_one_block_is_in_order)
{
    uint64_t looks = 0;

    (void)insert(0, 4096);
    (void)insert(1, 2 * TN_MIB);
    ck_assert(tn_bins_sort(&bins, &looks));
    (void)insert(2, 4096);
    ck_assert(!tn_bins_sort(&bins, &looks));
}

TEST(find, bins_are_put_in_order_of_segment_and_address)
{
    static struct tn_segment segments[2] = {{.index = 1}, {.index = 0}};
    struct tn_block *block;
    uint64_t looks;
    size_t count = 0;

    for (size_t i = 0; i < 7; i++) {
        block = insert(i, 4096);
        block->segment = &segments[i % 2];
        block->offset = (i * 3 % 7) << 20;
    }
    looks = 6;
    ck_assert(!tn_bins_sort(&bins, &looks));
    ck_assert_uint_eq(tn_bins_count(&bins), 7);
    for (int round = 0; round < 2; round++) { /* and what is in order stays so */
        const struct tn_block *last = NULL;

        looks = 7;
        ck_assert(tn_bins_sort(&bins, &looks));
        ck_assert_uint_eq(looks, 0);
        count = 0;
        for (block = tn_bins_find(&bins, 4096); block != NULL; block = block->list_next) {
            ck_assert_ptr_eq(block->list_previous, last);
            if (last != NULL && last->segment == block->segment)
                ck_assert_uint_lt(last->offset, block->offset);
            else if (last != NULL)
                ck_assert_uint_lt(last->segment->index, block->segment->index);
            last = block;
            count += 1;
        }
        ck_assert_uint_eq(count, 7);
    }
}

TEST(find, a_good_fit_comes_before_a_larger_block)
{
    struct tn_block *large = insert(0, 64 * TN_MIB);
    struct tn_block *fit = insert(1, 5 * TN_MIB);

    ck_assert_ptr_eq(tn_bins_find(&bins, 5 * TN_MIB), fit);
    ck_assert_ptr_eq(tn_bins_find(&bins, 4 * TN_MIB), fit);
    ck_assert_ptr_eq(tn_bins_find(&bins, 6 * TN_MIB), large);
}

/* 1 MiB to 1 MiB + 64 KiB is one bin. */
TEST(find, blocks_too_small_in_the_own_bin_are_passed_over)
{
    struct tn_block *fit = insert(0, TN_MIB + 4096);
    struct tn_block *large;

    for (size_t i = 1; i < 8; i++)
        (void)insert(i, TN_MIB + i * 512 - 512);
    ck_assert_ptr_eq(tn_bins_find(&bins, TN_MIB + 4096), fit);
    for (size_t i = 8; i < 11;
         i++) { /* behind eight or more that are too small it is found all the same, */
        (void)insert(i, TN_MIB);
        ck_assert_ptr_eq(tn_bins_find(&bins, TN_MIB + 4096), fit);
    }
    large = insert(11, 2 * TN_MIB); /* but after a larger one, which takes no search */
    ck_assert_ptr_eq(tn_bins_find(&bins, TN_MIB + 4096), large);
}

/* Behind seven that are too small the good fit is found, behind eight the larger one. */
TEST(find, eight_blocks_of_the_own_bin_are_looked_at)
{
    struct tn_block *large = insert(0, 2 * TN_MIB);
    struct tn_block *fit = insert(1, TN_MIB + 4096);

    for (size_t i = 2; i < 9; i++)
        (void)insert(i, TN_MIB);
    ck_assert_ptr_eq(tn_bins_find(&bins, TN_MIB + 4096), fit);
    ck_assert_ptr_eq(tn_bins_find_inner(&bins, TN_MIB + 4096), fit);
    (void)insert(9, TN_MIB);
    ck_assert_ptr_eq(tn_bins_find(&bins, TN_MIB + 4096), large);
    ck_assert_ptr_eq(tn_bins_find_inner(&bins, TN_MIB + 4096), large);
}

GROUP(next, NULL)

TEST(next, the_next_blocks_are_those_that_fit_each_once)
{
    bool seen[COUNT] = {false};
    struct tn_block *block;
    size_t count = 0;

    for (size_t i = 0; i < COUNT; i++)
        (void)insert(i, TN_MIB + i * 128 * TN_KIB);
    block = tn_bins_find(&bins, 3 * TN_MIB);
    while (block != NULL) {
        ck_assert_uint_ge(tn_block_bytes(block), 3 * TN_MIB);
        ck_assert(!seen[block - blocks]);
        seen[block - blocks] = true;
        count += 1;
        block = tn_bins_next(&bins, block, 3 * TN_MIB);
    }
    ck_assert_uint_eq(count, COUNT - 16); /* 16 steps of 128 KiB reach from 1 MiB to 3 MiB */
}

TEST(next, next_passes_over_blocks_too_small_in_the_own_bin)
{
    struct tn_block *older = insert(0, TN_MIB + 4096);
    struct tn_block *newer;

    (void)insert(1, TN_MIB);
    newer = insert(2, TN_MIB + 4096);
    ck_assert_ptr_eq(tn_bins_find(&bins, TN_MIB + 4096), newer);
    ck_assert_ptr_eq(tn_bins_next(&bins, newer, TN_MIB + 4096), older);
    ck_assert_ptr_null(tn_bins_next(&bins, older, TN_MIB + 4096));
}

/* Inserts the i-th block, before addresses without memory. */
static struct tn_block *insert_edge(size_t i, uint64_t bytes)
{
    static struct tn_block unmapped; /* it has no heap */

    blocks[i].next = &unmapped;
    return insert(i, bytes);
}

TEST(find, a_block_that_a_growth_can_extend_comes_after_all_others)
{
    struct tn_block *edge = insert_edge(0, 5 * TN_MIB);
    struct tn_block *large;
    struct tn_block *fit;

    ck_assert_ptr_eq(tn_bins_find_inner(&bins, 5 * TN_MIB), edge); /* there is no other */
    (void)insert(1, 4 * TN_MIB);
    ck_assert_ptr_eq(tn_bins_find_inner(&bins, 5 * TN_MIB), edge); /* one that is too small */
    large = insert(2, 64 * TN_MIB);
    ck_assert_ptr_eq(tn_bins_find_inner(&bins, 5 * TN_MIB), large);
    ck_assert_ptr_eq(tn_bins_find_inner(&bins, 3 * TN_MIB), &blocks[1]);
    fit = insert(3, 5 * TN_MIB);
    (void)insert_edge(4, 5 * TN_MIB); /* the newest of its bin */
    ck_assert_ptr_eq(tn_bins_find_inner(&bins, 5 * TN_MIB), fit);
    ck_assert_ptr_eq(tn_bins_find(&bins, 5 * TN_MIB), &blocks[4]);
    (void)insert_edge(5, 65 * TN_MIB); /* in the bin of the large one, above it */
    tn_bins_remove(&bins, fit);
    ck_assert_ptr_eq(tn_bins_find_inner(&bins, 6 * TN_MIB), large);
    ck_assert_ptr_eq(tn_bins_find_inner(&bins, 65 * TN_MIB), &blocks[5]);
    ck_assert_ptr_null(tn_bins_find_inner(&bins, 66 * TN_MIB));
}

/* The rule in words of its own: of each bin above the request's the first two blocks. */
static struct tn_block *inner_above(uint64_t bytes)
{
    for (uint64_t at = bytes; at <= (uint64_t)1 << 36; at += at >> 6) {
        struct tn_block *block = tn_bins_find(&bins, at);

        if (block == NULL)
            return NULL;
        if (!block->extends)
            return block;
        if (block->list_next != NULL && !block->list_next->extends)
            return block->list_next;
    }
    return NULL;
}

/* They lie in bins of one word of the map, and of several; behind one, or several, of them. */
TEST(find, blocks_that_a_growth_can_extend_are_passed_by_in_all_bins)
{
    uint64_t random = 1;

    for (int round = 0; round < 2000; round++) {
        size_t count = 1 + (size_t)(random >> 33) % 12;
        struct tn_block *found;

        for (size_t i = 0; i < count; i++) {
            uint64_t bytes;

            random = random * 6364136223846793005 + 1442695040888963407;
            bytes = TN_MIB << (random >> 40) % 12;
            bytes += (bytes / 16) * ((random >> 52) % 16);
            if ((random >> 60) % 4 == 0)
                (void)insert(i, bytes);
            else
                (void)insert_edge(i, bytes);
        }
        found = tn_bins_find_inner(&bins, 700 * TN_KIB); /* no block is in the bin of this size */
        ck_assert_ptr_nonnull(found);
        if (inner_above(TN_MIB) != NULL)
            ck_assert_ptr_eq(found, inner_above(TN_MIB));
        else
            ck_assert_ptr_eq(found, tn_bins_find(&bins, TN_MIB)); /* the smallest */
        for (size_t i = 0; i < count; i++) {
            tn_bins_remove(&bins, &blocks[i]);
            blocks[i] = (struct tn_block){.state = TN_BLOCK_FREE};
        }
        ck_assert(tn_bins_is_exact(&bins));
    }
}

/* Where no other will do, all blocks of its own bin are looked at. */
TEST(find, an_inner_block_is_found_behind_many_that_are_too_small)
{
    struct tn_block *fit = insert(0, 5 * TN_MIB + 8192);

    for (size_t i = 1; i <= 20; i++)
        (void)insert(i, 5 * TN_MIB);
    ck_assert_ptr_eq(tn_bins_find_inner(&bins, 5 * TN_MIB + 4096), fit);
    ck_assert_ptr_null(tn_bins_find_inner(&bins, 5 * TN_MIB + 16384));
}

/* It stands where it would stand if it had been taken out and put in again. */
TEST(find, a_block_of_another_size_stands_in_its_new_bin)
{
    struct tn_block *first = insert(0, 4 * TN_MIB);
    struct tn_block *second = insert(1, 4 * TN_MIB);

    tn_block_set_bytes(second, 4 * TN_MIB + 512); /* of the same bin, at its head */
    tn_bins_resized(&bins, second, 4 * TN_MIB);
    ck_assert_ptr_eq(tn_bins_find(&bins, 4 * TN_MIB), second);
    tn_block_set_bytes(first, 4 * TN_MIB + 1024); /* of the same, not at its head */
    tn_bins_resized(&bins, first, 4 * TN_MIB);
    ck_assert_ptr_eq(tn_bins_find(&bins, 4 * TN_MIB), first);
    ck_assert_ptr_eq(first->list_next, second);
    ck_assert_ptr_null(second->list_next);
    tn_block_set_bytes(first, 64 * TN_KIB);
    tn_bins_resized(&bins, first, 4 * TN_MIB + 1024);
    ck_assert_ptr_eq(tn_bins_find(&bins, 64 * TN_KIB), first);
    ck_assert_ptr_eq(tn_bins_find(&bins, 64 * TN_KIB + 512), second);
    tn_bins_remove(&bins, second);
    ck_assert_uint_eq(tn_bins_count(&bins), 1);
    ck_assert(!tn_bins_may_have(&bins, TN_MIB));
}

TEST(find, what_may_be_there_is_told_by_classes)
{
    ck_assert(!tn_bins_may_have(&bins, TN_BLOCK_BYTES_MIN));
    (void)insert(0, 5 * TN_MIB);
    ck_assert(tn_bins_may_have(&bins, TN_BLOCK_BYTES_MIN));
    ck_assert(tn_bins_may_have(&bins, 5 * TN_MIB));
    ck_assert(tn_bins_may_have(&bins, 6 * TN_MIB)); /* of its class */
    ck_assert(!tn_bins_may_have(&bins, 8 * TN_MIB));
    ck_assert(!tn_bins_may_have(&bins, TN_BLOCK_BYTES_MAX));
}

GROUP(lists, NULL, .name = "insert and remove")

TEST(lists, removing_from_anywhere_in_a_bin_keeps_the_others)
{
    for (size_t out = 0; out < 3; out++) {
        for (size_t i = 0; i < 3; i++)
            (void)insert(i, 4096);
        tn_bins_remove(&bins, &blocks[out]);
        ck_assert_uint_eq(tn_bins_count(&bins), 2);
        for (size_t i = 0; i < 3; i++) {
            if (i != out)
                tn_bins_remove(&bins, &blocks[i]);
        }
        ck_assert_uint_eq(tn_bins_count(&bins), 0);
        ck_assert_uint_eq(bins.word_map, 0);
    }
}

/* From the head, the middle and the end of a bin into another one. */
TEST(lists, resizing_from_anywhere_in_a_bin_keeps_the_others)
{
    for (size_t out = 0; out < 3; out++) {
        struct tn_block *head = &blocks[out == 2 ? 1 : 2];
        struct tn_block *last = &blocks[out == 0 ? 1 : 0];

        for (size_t i = 0; i < 3; i++)
            (void)insert(i, 4 * TN_MIB);
        tn_block_set_bytes(&blocks[out], 64 * TN_KIB);
        tn_bins_resized(&bins, &blocks[out], 4 * TN_MIB);
        ck_assert_ptr_eq(tn_bins_find(&bins, TN_MIB), head);
        ck_assert_ptr_eq(head->list_next, last);
        ck_assert_ptr_eq(last->list_previous, head);
        ck_assert_ptr_null(last->list_next);
        for (size_t i = 0; i < 3; i++)
            tn_bins_remove(&bins, &blocks[i]);
        ck_assert_uint_eq(bins.word_map, 0);
    }
}

TEST(lists, bins_of_one_word_are_emptied_one_by_one)
{
    struct tn_block *low = insert(0, 4 * TN_MIB);
    struct tn_block *high = insert(1, 5 * TN_MIB);

    tn_bins_remove(&bins, low);
    ck_assert_ptr_eq(tn_bins_find(&bins, TN_BLOCK_BYTES_MIN), high);
    low = insert(0, 4 * TN_MIB);
    tn_bins_remove(&bins, high);
    ck_assert_ptr_eq(tn_bins_find(&bins, TN_BLOCK_BYTES_MIN), low);
    ck_assert(tn_bins_is_exact(&bins));
    tn_bins_remove(&bins, low);
    ck_assert_uint_eq(bins.word_map, 0);
}

/* Two blocks in the first and the last bin of every other class. */
TEST(lists, all_bins_are_turned_and_put_in_order)
{
    uint64_t looks = COUNT;
    size_t count = 0;

    for (unsigned bits = TN_BLOCK_BITS + 4; bits < 41; bits += 2) {
        for (uint64_t step = 0; step < TN_BIN_STEPS; step += TN_BIN_STEPS - 1) {
            uint64_t bytes = ((uint64_t)16 + step) << (bits - 4);

            insert(count, bytes)->offset = 512;
            insert(count + 1, bytes)->offset = 0;
            count += 2;
        }
    }
    ck_assert_uint_le(count, COUNT);
    tn_bins_reverse(&bins);
    for (size_t i = 0; i < count; i += 2)
        ck_assert(tn_bins_has_head(&bins, &blocks[i]));
    ck_assert(tn_bins_sort(&bins, &looks));
    ck_assert_uint_eq(looks, COUNT - count);
    for (size_t i = 0; i < count; i += 2)
        ck_assert(tn_bins_has_head(&bins, &blocks[i + 1]));
    ck_assert(tn_bins_is_exact(&bins));
}

TEST(lists, of_every_class_it_is_told_whether_it_may_serve)
{
    for (unsigned has = TN_BLOCK_BITS; has < 41; has++) {
        (void)insert(0, (uint64_t)1 << has);
        for (unsigned asked = TN_BLOCK_BITS; asked < 41; asked++)
            ck_assert_int_eq(tn_bins_may_have(&bins, (uint64_t)1 << asked), asked <= has);
        tn_bins_remove(&bins, &blocks[0]);
    }
}

TEST(lists, maps_that_are_not_those_of_the_heads_are_seen) /* P4 */
{
    (void)insert(0, 4096);
    ck_assert(tn_bins_is_exact(&bins));
    bins.word_map = 0;
    ck_assert(!tn_bins_is_exact(&bins));
    bins.word_map = 1 | 2;
    ck_assert(!tn_bins_is_exact(&bins));
    bins.word_map = 1;
    bins.words[0] <<= 1;
    ck_assert(!tn_bins_is_exact(&bins));
    bins.words[0] >>= 1;
    ck_assert(tn_bins_is_exact(&bins));
    bins.words[TN_BIN_WORDS] = 1;
    ck_assert(!tn_bins_is_exact(&bins));
}

/* Sizes at and beside every edge between bins: the bin found holds what fits, the maps are exact. */
TEST(lists, every_edge_between_bins_is_exact)
{
    for (unsigned bits = TN_BLOCK_BITS + 4; bits < 41; bits++) {
        for (uint64_t step = 0; step < TN_BIN_STEPS; step++) {
            uint64_t edge = ((uint64_t)16 + step) << (bits - 4);

            (void)insert(0, edge - 512);
            ck_assert_ptr_null(tn_bins_find(&bins, edge));
            (void)insert(1, edge);
            ck_assert_ptr_eq(tn_bins_find(&bins, edge), &blocks[1]);
            ck_assert(tn_bins_has_head(&bins, &blocks[1]));
            tn_bins_remove(&bins, &blocks[1]);
            ck_assert(!tn_bins_has_head(&bins, &blocks[1]));
            tn_bins_remove(&bins, &blocks[0]);
        }
    }
    ck_assert_uint_eq(bins.word_map, 0);
    for (unsigned word = 0; word <= TN_BIN_WORDS; word++)
        ck_assert_uint_eq(bins.words[word], 0);
}

/* P4: nothing but FREE blocks. */
CONTRACT_TEST(lists, a_live_block_in_a_bin_is_a_broken_contract)
{
    blocks[0].state = TN_BLOCK_LIVE;
    tn_block_set_bytes(&blocks[0], 4096);
    tn_bins_insert(&bins, &blocks[0]);
}

/* P4: in the bin of its size. */
CONTRACT_TEST(lists, removing_a_block_whose_size_changed_is_a_broken_contract)
{
    (void)insert(0, 4096);
    tn_block_set_bytes(&blocks[0], 8192);
    tn_bins_remove(&bins, &blocks[0]);
}

CONTRACT_TEST_LOOP(find, a_size_without_a_bin_is_a_broken_contract, 0, 2)
{
    (void)tn_bins_find(&bins, _i == 0 ? TN_BLOCK_BYTES_MIN - 1 : TN_BLOCK_BYTES_MAX + 1);
}
