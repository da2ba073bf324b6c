// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "heap/history.h"
#include "unit/unit.h"

SUITE("what is written of blocks")

enum { PAGES = 4, BLOCKS = 8 };

static struct tn_ring_file file;
static struct tn_ring ring;
static struct tn_history_tables tables;
static struct tn_block_store store;
static atomic_uint_fast64_t counter;
static struct tn_segment segment = {.base = UINT64_C(1) << 40};
static struct tn_block *blocks[BLOCKS];
static struct tn_history_writer writer;

static void open_history(void)
{
    ck_assert(tn_ring_file_make(&file, NULL, &(struct tn_ring_plan){.page_count = PAGES}));
    ck_assert(tn_ring_init(&ring, tn_ring_file_pages(&file), PAGES, &counter));
    tables = (struct tn_history_tables){.file = &file};
    ck_assert(tn_blocks_add_tables(&store, &tables));
    store.tables->pool_serial = 1;
    ck_assert(tn_blocks_reserve(&store, BLOCKS));
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = tn_block_take(&store);
        blocks[i]->segment = &segment;
        blocks[i]->offset = (uint64_t)i << 20;
    }
    writer = tn_history_new_writer(&ring);
}

static void close_history(void)
{
    tn_history_leave(&writer);
    tn_ring_drop(&ring);
    tn_blocks_fini(&store);
    tn_ring_file_remove(&file);
}

GROUP(history, open_history, .end = close_history)

static struct tn_block *live(size_t i, uint64_t number, uint64_t requested)
{
    blocks[i]->sequence = number;
    blocks[i]->requested = requested;
    blocks[i]->units = (uint32_t)((requested + 511) / 512);
    return blocks[i];
}

static void allocate(size_t i, uint64_t number, uint64_t requested)
{
    tn_history_alloc(&writer, live(i, number, requested));
}

static void deallocate(size_t i)
{
    tn_history_free(&writer, blocks[i], blocks[i]->sequence);
}

/* The kinds of the first page's events but for stamps, in a text. */
static const char *kinds(void)
{
    static char text[TN_RING_WORDS + 1];
    struct tn_ring_copy copy;
    size_t count = 0;

    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, &copy), TN_RING_READ);
    for (size_t at = 0; at < copy.word_count; at += tn_ring_words(copy.words[at])) {
        static const char letters[] = "?.NAFRJ";

        if (tn_ring_kind(copy.words[at]) != TN_RING_STAMP)
            text[count++] = letters[tn_ring_kind(copy.words[at])];
    }
    text[count] = '\0';
    return text;
}

static uint64_t number_in_table(size_t i)
{
    return atomic_load(&tn_history_entry(blocks[i])->number);
}

TEST(history, a_block_is_in_the_table_while_it_is_live)
{
    allocate(0, 5, 1000);
    ck_assert_uint_eq(number_in_table(0), 5);
    ck_assert_uint_eq(atomic_load(&tn_history_entry(blocks[0])->address), segment.base);
    ck_assert_uint_eq(atomic_load(&tn_history_entry(blocks[0])->requested), 1000);
    ck_assert_uint_eq(atomic_load(&tn_history_entry(blocks[0])->units), 2);
    deallocate(0);
    tn_history_flush(&writer);
    ck_assert_uint_eq(number_in_table(0), 0);
}

TEST(history, a_number_stands_where_it_is_not_the_next)
{
    allocate(0, 5, 1000);
    allocate(1, 6, 1000);
    allocate(2, 9, 1000);
    ck_assert_str_eq(kinds(), "NAANA");
}

TEST(history, the_same_block_again_takes_one_event_with_its_free)
{
    allocate(0, 5, 1000);
    deallocate(0);
    ck_assert_str_eq(kinds(), "NA"); /* the free waits */
    allocate(0, 6, 1000);
    ck_assert_str_eq(kinds(), "NAJ");
    ck_assert_uint_eq(number_in_table(0), 6);
    deallocate(0);
    tn_history_flush(&writer);
    ck_assert_str_eq(kinds(), "NAJF");
}

TEST(history, what_is_not_the_same_takes_two_events)
{
    allocate(0, 5, 1000);
    deallocate(0);
    allocate(0, 6, 1001); /* another request */
    deallocate(0);
    allocate(1, 7, 1001); /* another block */
    deallocate(1);
    blocks[1]->offset += 512; /* its record has another block */
    allocate(1, 8, 1001);
    deallocate(1);
    blocks[1]->units += 1;
    blocks[1]->sequence = 9;
    tn_history_alloc(&writer, blocks[1]);
    deallocate(1);
    allocate(1, 20, 1001); /* another number than the next */
    ck_assert_str_eq(kinds(), "NAFAFAFAFAFNA");
}

/* The reader counts a page's allocations from the last number that stands between. */
/* Nor where the log has no stacks: the table has. */
TEST(history, the_block_of_a_stack_is_not_the_same_again)
{
    for (int i = 0; i < 2; i++) {
        const uint64_t number = 5 + 2 * (uint64_t)i;

        atomic_store(&ring.skipped, i == 1 ? TN_HISTORY_SKIPS_STACKS : 0);
        tn_history_stack = 9;
        allocate(0, number, 1000);
        tn_history_stack = 0;
        ck_assert_uint_eq(atomic_load(&tn_history_entry(blocks[0])->stack), 9);
        deallocate(0);
        allocate(0, number + 1, 1000);
        ck_assert_uint_eq(atomic_load(&tn_history_entry(blocks[0])->stack), 0);
        deallocate(0);
        tn_history_flush(&writer);
    }
}

TEST(history, a_block_of_before_a_number_is_not_the_same_again)
{
    allocate(0, 5, 1000);
    allocate(1, 9, 1000);
    deallocate(0);
    allocate(0, 10, 1000);
    ck_assert_str_eq(kinds(), "NANAFA");
    deallocate(1);
    allocate(1, 11, 1000);
    ck_assert_str_eq(kinds(), "NANAFAJ");
}

/* Magazines and arenas free each other's blocks. */
TEST(history, a_block_that_another_writer_allocated_is_not_the_same_again)
{
    struct tn_history_writer other = tn_history_new_writer(&ring);

    allocate(0, 5, 1000);
    tn_history_alloc(&other, live(1, 300, 1000));
    deallocate(1);
    allocate(1, 6, 1000); /* this writer's run has no block 300 */
    ck_assert_str_eq(kinds(), "NAFA");
    tn_history_leave(&other);
}

TEST(history, an_event_without_a_page_is_counted_once)
{
    struct tn_history_writer others[PAGES];

    for (size_t i = 0; i < PAGES; i++) {
        others[i] = tn_history_new_writer(&ring);
        tn_history_alloc(&others[i], live(i, 10 * (i + 1), 1000));
    }
    allocate(PAGES, 100, 1000);
    ck_assert_uint_eq(writer.log.lost, 1);
    deallocate(PAGES);
    tn_history_flush(&writer);
    ck_assert_uint_eq(writer.log.lost, 2);
    tn_history_leave(&others[2]);
    allocate(PAGES, 101, 1000);
    ck_assert_uint_eq(atomic_load(&writer.log.page->lost), 2);
    ck_assert_uint_eq(atomic_load(&writer.log.page->base), 101);
    for (size_t i = 0; i < PAGES; i++)
        tn_history_leave(&others[i]);
}

TEST(history, restored_blocks_are_told_apart)
{
    allocate(0, 5, 1000);
    allocate(1, 6, 1000);
    deallocate(0);
    tn_history_restored(&writer, live(0, 5, 1000));
    ck_assert_uint_eq(number_in_table(0), 5);
    allocate(2, 7, 1000);
    deallocate(0);
    allocate(0, 8, 1000);
    deallocate(1); /* of before the numbers in between */
    allocate(1, 9, 1000);
    deallocate(1);
    allocate(1, 10, 1000);
    ck_assert_str_eq(kinds(), "NAAFNRNAFAFAJ");
}

TEST(history, a_block_of_an_earlier_page_is_not_the_same_again)
{
    allocate(0, 5, 1000);
    while (writer.log.place < 2)
        allocate(1 + writer.log.base % 2, writer.log.base, 1000),
            deallocate(2 - writer.log.base % 2);
    deallocate(0);
    allocate(0, writer.log.base, 1000);
    tn_history_flush(&writer);
    ck_assert_ptr_null(writer.freed);
    ck_assert_uint_eq(tn_ring_kind(atomic_load(&writer.log.page->words[writer.log.at - 2])),
                      TN_HISTORY_ALLOC);
}

TEST(history, the_free_of_an_old_block_repeats_its_allocation)
{
    struct tn_history_block told;
    uint64_t words[2];

    allocate(0, 5, 700);
    atomic_store(&ring.recent, 5);
    deallocate(0);
    tn_history_flush(&writer);
    for (size_t i = 0; i < 2; i++)
        words[i] = atomic_load(&writer.log.page->words[writer.log.at - 2 + i]);
    told = tn_history_block_of(words);
    ck_assert_uint_eq(told.address, segment.base);
    ck_assert_uint_eq(told.bytes, 1024);
    ck_assert_uint_eq(told.requested, 700);
    allocate(0, 6, 700);
    deallocate(0);
    tn_history_flush(&writer); /* above what is recent */
    ck_assert_uint_eq(tn_ring_words(atomic_load(&writer.log.page->words[writer.log.at - 1])), 1);
}

TEST(history, a_large_difference_is_kept_whole)
{
    struct tn_history_block told;
    uint64_t words[2];

    blocks[0]->sequence = 1;
    blocks[0]->units = UINT32_MAX;
    blocks[0]->requested = 3;
    tn_history_alloc(&writer, blocks[0]);
    for (size_t i = 0; i < 2; i++)
        words[i] = atomic_load(&writer.log.page->words[writer.log.at - 2 + i]);
    told = tn_history_block_of(words);
    ck_assert_uint_eq(told.bytes, TN_BLOCK_BYTES_MAX);
    ck_assert_uint_eq(told.requested, 3);
}

TEST(history, a_guest_writes_at_once)
{
    struct tn_ring_copy copy;

    allocate(0, 5, 1000);
    tn_history_free_by_guest(&ring, blocks[0]);
    ck_assert_uint_eq(number_in_table(0), 0);
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 1, &copy), TN_RING_READ);
    ck_assert_uint_eq(copy.words[1], tn_ring_first(TN_HISTORY_FREE, 0, 5));
}

TEST(history, a_writer_without_a_ring_is_not_kept)
{
    struct tn_history_writer none = tn_history_new_writer(NULL);

    ck_assert(!tn_history_is_kept(&none) && tn_history_is_kept(&writer));
    tn_history_flush(&none);
    tn_history_leave(&none);
}

/* The annotations of the block's entry, and the number that they are of. */
static void expect_annotations(size_t i, uint64_t number, uint64_t first, uint64_t newest)
{
    const struct tn_history_entry *entry = tn_history_entry(blocks[i]);

    ck_assert_uint_eq(atomic_load(&entry->noted), number);
    ck_assert_uint_eq(atomic_load(&entry->titles), newest << 32 | first);
}

TEST(history, a_block_has_its_first_annotation_and_the_newest)
{
    allocate(0, 5, 1000);
    expect_annotations(0, 0, 0, 0);
    tn_history_annotate(blocks[0], 100);
    expect_annotations(0, 5, 100, 0);
    tn_history_annotate(blocks[0], UINT32_MAX);
    expect_annotations(0, 5, 100, UINT32_MAX);
    tn_history_annotate(blocks[0], 103);
    expect_annotations(0, 5, 100, 103);
}

TEST(history, the_next_block_of_a_record_has_annotations_of_its_own)
{
    allocate(0, 5, 1000);
    tn_history_annotate(blocks[0], 100);
    tn_history_annotate(blocks[0], 101);
    deallocate(0);
    allocate(0, 6, 1000); /* the same again: in one event */
    ck_assert_uint_eq(atomic_load(&tn_history_entry(blocks[0])->noted), 5);
    tn_history_annotate(blocks[0], 200);
    expect_annotations(0, 6, 200, 0);
}

TEST(history, a_tag_and_annotations_are_of_one_block_and_stay_beside_each_other)
{
    struct tn_history_entry *entry;

    allocate(0, 5, 1000);
    entry = tn_history_entry(blocks[0]);
    tn_history_set_tag(entry, 5, 42);
    tn_history_annotate(blocks[0], 100);
    ck_assert_uint_eq(tn_history_tag(entry, 5), 42);
    tn_history_set_tag(entry, 5, 43);
    expect_annotations(0, 5, 100, 0);
    deallocate(0);
    allocate(0, 6, 1000);
    ck_assert_uint_eq(tn_history_tag(entry, 6), 0);
    tn_history_annotate(blocks[0], 200);
    ck_assert_uint_eq(tn_history_tag(entry, 6), 0);
    expect_annotations(0, 6, 200, 0);
}
