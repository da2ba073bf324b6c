// SPDX-License-Identifier: Apache-2.0
/* What is told of a log, and that it holds together. */
#include "story.h"

#include "command/made.h"

SUITE("the story of a history")

enum { POOL = 7, OTHER_POOL = 8 };

static const uint64_t address = UINT64_C(1) << 32;

static struct tn_ring_writer writers[2];

static void begin(void)
{
    made_begin();
    for (size_t i = 0; i < 2; i++) {
        writers[i] = tn_ring_new_writer(&made.ring);
        tn_note_put(&made.ring, TN_NOTE_ARENA_BEGUN, POOL + i, TN_OPERANDS(writers[i].id, 1, 0));
    }
}

static void end(void)
{
    for (size_t i = 0; i < 2; i++)
        tn_ring_leave(&writers[i]);
    made_end();
}

GROUP(stories, begin, .end = end)

/* The changes of blocks; notes stand before them. */
static struct story read_story(void)
{
    struct history *history = made_open();
    struct owners owners;
    struct story story;
    struct tn_told told;
    uint64_t count;
    uint64_t broken;

    ck_assert_int_eq(tn_retell_blocks(&history->source, &told), TARN_OK);
    ck_assert(owners_read(&owners, history, &count, &broken));
    ck_assert(story_read(&story, history, &owners, &told));
    owners_free(&owners);
    tn_told_free(&told);
    history_close(history);
    for (size_t i = 1; i < story.count; i++)
        ck_assert_uint_ge(story.all[i].time, story.all[i - 1].time);
    return story;
}

static void expect(const struct change *change, enum change_kind kind, uint64_t block,
                   uint64_t units)
{
    ck_assert_int_eq(change->kind, kind);
    ck_assert_uint_eq(change->block, block);
    ck_assert_uint_eq(change->bytes, units * MADE_UNIT);
    ck_assert_uint_eq(change->address, address + block * MADE_UNIT);
}

TEST(stories, have_the_words_of_a_block_that_a_free_names_by_its_number)
{
    struct story story;

    made_alloc(&writers[0], 1, address + MADE_UNIT, 4);
    made_alloc(&writers[1], 2, address + 2 * MADE_UNIT, 2);
    made_free(&writers[1], 1);
    story = read_story();
    ck_assert_uint_eq(story.count, 5);
    ck_assert_uint_eq(story.note_count, 2);
    ck_assert_int_eq(story.all[0].kind, CHANGE_NOTE);
    ck_assert_int_eq(story.notes[story.all[1].block].note, TN_NOTE_ARENA_BEGUN);
    expect(&story.all[2], CHANGE_ALLOC, 1, 4);
    expect(&story.all[3], CHANGE_ALLOC, 2, 2);
    expect(&story.all[4], CHANGE_FREE, 1, 4);
    ck_assert_uint_eq(story.all[3].pool, OTHER_POOL);
    ck_assert_uint_eq(story.all[4].pool, POOL); /* the block's, whoever frees it */
    story_free(&story);
}

/* The stamp of the free is older than the allocation's. */
TEST(stories, have_no_free_before_its_allocation)
{
    struct story story;

    made_alloc(&writers[1], 1, address + MADE_UNIT, 1);
    made_alloc(&writers[0], 2, address + 2 * MADE_UNIT, 1);
    tn_ring_put(&writers[1], TN_HISTORY_FREE, 2);
    story = read_story();
    ck_assert_uint_eq(story.count, 5);
    expect(&story.all[3], CHANGE_ALLOC, 2, 1);
    expect(&story.all[4], CHANGE_FREE, 2, 1);
    story_free(&story);
}

/* A free and a restore by others, with older stamps, stay in their order, whoever wrote them. */
TEST(stories, have_moved_changes_in_their_order)
{
    struct tn_ring_writer guest = tn_ring_new_writer(&made.ring);
    struct story story;

    made_alloc(&guest, 1, address + MADE_UNIT, 1);
    made_alloc(&writers[0], 3, address + 3 * MADE_UNIT, 1);
    made_alloc(&writers[1], 2, address + 2 * MADE_UNIT, 1);
    tn_ring_put(&guest, TN_HISTORY_FREE, 2);
    tn_ring_put(&writers[0], TN_HISTORY_NUMBER, 2);
    tn_ring_put_two(&writers[0], TN_HISTORY_RESTORED, UINT64_C(1) << TN_HISTORY_WASTE_BITS,
                    address / MADE_UNIT + 2);
    story = read_story();
    ck_assert_uint_eq(story.count, 7);
    expect(&story.all[4], CHANGE_ALLOC, 2, 1);
    expect(&story.all[5], CHANGE_FREE, 2, 1);
    expect(&story.all[6], CHANGE_ALLOC, 2, 1);
    ck_assert(story.all[6].is_restored);
    story_free(&story);
    tn_ring_leave(&guest);
}

static void put_with_stack(enum tn_history_kind kind, uint64_t block, uint64_t stack)
{
    tn_ring_put_stamp(&writers[0]);
    tn_ring_put(&writers[0], TN_HISTORY_NUMBER, block);
    tn_ring_put_more(&writers[0], kind, UINT64_C(1) << TN_HISTORY_WASTE_BITS,
                     (const uint64_t[]){address / MADE_UNIT + block, stack}, 2);
}

/* So sums by stack come to nothing when the block is free. */
TEST(stories, have_frees_with_the_stack_of_what_they_end)
{
    static const uint32_t stacks[] = {11, 11, 12, 12, 11, 11};
    struct story story;

    put_with_stack(TN_HISTORY_ALLOC, 1, 11);
    made_free(&writers[0], 1);
    put_with_stack(TN_HISTORY_RESTORED, 1, 12);
    made_free(&writers[0], 1);
    put_with_stack(TN_HISTORY_RESTORED, 1, 11);
    made_free(&writers[0], 1);
    story = read_story();
    ck_assert_uint_eq(story.count, 2 + 6);
    for (size_t i = 0; i < 6; i++) {
        expect(&story.all[2 + i], i % 2 == 0 ? CHANGE_ALLOC : CHANGE_FREE, 1, 1);
        ck_assert_uint_eq(story.all[2 + i].stack, stacks[i]);
    }
    story_free(&story);
}

TEST(stories, begin_with_what_the_log_has_lost)
{
    struct story story;

    made_live(3, (struct tn_told_block){.sequence = 1,
                                        .address = address + MADE_UNIT,
                                        .bytes = MADE_UNIT,
                                        .requested = 500,
                                        .pool = OTHER_POOL});
    made_alloc(&writers[0], 5, address + 5 * MADE_UNIT, 1);
    tn_ring_put_more(
        &writers[0], TN_HISTORY_FREE, 2, /* it repeats the allocation */
        (const uint64_t[]){UINT64_C(3) << TN_HISTORY_WASTE_BITS << 6, address / MADE_UNIT + 2}, 2);
    made_free(&writers[0], 3);
    story = read_story();
    ck_assert_uint_eq(story.unknown, 1);
    ck_assert_uint_eq(story.count, 6);
    expect(&story.all[0], CHANGE_BEFORE, 1, 1);
    ck_assert_uint_eq(story.all[0].pool, OTHER_POOL);
    ck_assert_uint_eq(story.all[0].requested, 500);
    expect(&story.all[1], CHANGE_BEFORE, 2, 3);
    expect(&story.all[4], CHANGE_ALLOC, 5, 1);
    expect(&story.all[5], CHANGE_FREE, 2, 3);
    story_free(&story);
}

TEST(stories, have_no_block_twice)
{
    struct story story;

    made_alloc(&writers[0], 1, address + MADE_UNIT, 1);
    made_alloc(&writers[0], 1, address + MADE_UNIT, 1);
    made_free(&writers[0], 1);
    made_free(&writers[0], 1);
    story = read_story();
    ck_assert_uint_eq(story.count, 4);
    expect(&story.all[2], CHANGE_ALLOC, 1, 1);
    expect(&story.all[3], CHANGE_FREE, 1, 1);
    story_free(&story);
}

TEST(stories, have_a_sum_of_each_pool)
{
    const struct change changes[] = {
        {.kind = CHANGE_ALLOC, .pool = 5, .bytes = 1024, .requested = 1000},
        {.kind = CHANGE_BEFORE, .pool = 3, .bytes = 512, .requested = 1},
        {.kind = CHANGE_ALLOC, .pool = 9, .bytes = 512, .requested = 2},
        {.kind = CHANGE_NOTE, .pool = 5, .bytes = 512},
        {.kind = CHANGE_ALLOC, .pool = 5, .bytes = 512, .requested = 500},
        {.kind = CHANGE_FREE, .pool = 5, .bytes = 1024, .requested = 1000},
    };
    struct sums sums = {.all = NULL};
    const struct sum *sum = NULL;

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        sum = sums_add(&sums, &changes[i]);
    ck_assert_ptr_nonnull(sum);
    ck_assert_uint_eq(sum->bytes, 512);
    ck_assert_uint_eq(sum->requested, 500);
    ck_assert_uint_eq(sum->blocks, 1);
    ck_assert_uint_eq(sums.count, 3);
    ck_assert_uint_eq(sums.all[0].pool, 3);
    ck_assert_uint_eq(sums.all[2].pool, 9);
    sums_free(&sums);
}
