// SPDX-License-Identifier: Apache-2.0
/* Live blocks are told without the events, and what happens meanwhile is taken back. */
#include "base/ring_file.h"
#include "heap/history.h"
#include "observe/retell.h"
#include "unit/told.h"

SUITE("blocks that a history tells alone")

GROUP(blocks, NULL)

static struct {
    struct tn_ring_file file;
    struct tn_ring ring;
    struct tn_ring_writer writer;
    bool has_gone_on;
} made;

/* A source: before the table is read, block 7 is freed, and block 8 is allocated. */
static bool from_going_on(void *context, size_t offset, void *bytes, size_t count)
{
    struct tn_history_entry *entries = made.file.parts[0];
    const uint64_t words[] = {tn_ring_first(TN_HISTORY_ALLOC, 1, UINT64_C(2) << 26), 99};

    if (offset >= (size_t)context * TN_RING_PAGE_BYTES && !made.has_gone_on) {
        made.has_gone_on = true;
        atomic_store(&entries[0].number, 0);
        tn_ring_put_more(&made.writer, TN_HISTORY_FREE, 7, words, 2);
        atomic_store(&entries[1].units, 2);
        atomic_store(&entries[1].number, 8);
        tn_ring_put(&made.writer, TN_HISTORY_NUMBER, 8);
        tn_ring_put_two(&made.writer, TN_HISTORY_ALLOC, UINT64_C(2) << 26, 50);
    }
    return tn_ring_from_own_file(&made.file, offset, bytes, count);
}

TEST(blocks, what_happens_meanwhile_is_taken_back_where_no_events_are_kept)
{
    enum { PAGES = 4 };
    static const atomic_uint_fast64_t counter;
    struct tn_told_source source = {from_going_on, (void *)PAGES, PAGES, 0, 1};
    struct tn_history_entry *entries;
    struct tn_told told;

    ck_assert(tn_ring_file_make(&made.file, NULL, &(struct tn_ring_plan){.page_count = PAGES}));
    ck_assert(tn_ring_init(&made.ring, tn_ring_file_pages(&made.file), PAGES, &counter));
    entries = tn_ring_file_add_part(&made.file);
    ck_assert_ptr_nonnull(entries);
    made.writer = tn_ring_new_writer(&made.ring);
    tn_ring_put_stamp(&made.writer);
    atomic_store(&entries[0].units, 2);
    atomic_store(&entries[0].number, 7);
    OK(tn_retell_blocks(&source, &told));
    ck_assert(made.has_gone_on);
    ck_assert_uint_eq(told.count, 1);
    ck_assert_uint_eq(told.blocks[0].sequence, 7);
    ck_assert_uint_eq(told.blocks[0].bytes, 1024);
    tn_told_free(&told);
    tn_ring_leave(&made.writer);
    tn_ring_drop(&made.ring);
    tn_ring_file_remove(&made.file);
}

static void open_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 1 << 20;
    test_world_open_with(&options);
}

GROUP(recorded, open_world, .end = test_world_close)

static struct tn_told retell(void)
{
    const struct tn_told_source source = unit_told_source();
    struct tn_told told;

    OK(tn_retell_blocks(&source, &told));
    return told;
}

static uint32_t title_of(const char *text)
{
    struct tn_title title;

    ck_assert_int_eq(tn_title_make(&title, text), TN_TITLE_GOOD);
    return tn_title_enter(&world.device->history.stacking.stacks, &title);
}

TEST(recorded, blocks_have_their_tags)
{
    void *block = test_malloc(1000);
    struct tn_told told;

    OK(tarn_block_set_tag(block, 7));
    told = retell();
    ck_assert_uint_eq(told.count, 1);
    ck_assert_uint_eq(told.blocks[0].tag, 7);
    tn_told_free(&told);
    OK(tarn_free(block));
    block = test_malloc(1000); /* the same record's */
    told = retell();
    ck_assert_uint_eq(told.blocks[0].tag, 0);
    tn_told_free(&told);
    OK(tarn_free(block));
}

TEST(recorded, blocks_have_their_annotations)
{
    static const char *const texts[] = {"a", "b", "c", "d", "e"};
    void *block = test_malloc(1000);
    struct tn_told told;

    for (size_t i = 0; i < 5; i++)
        OK(tarn_block_annotate(block, texts[i]));
    told = retell();
    ck_assert_uint_eq(told.count, 1);
    for (size_t i = 0; i < TN_HISTORY_ANNOTATIONS; i++)
        ck_assert_uint_eq(told.blocks[0].annotations[i], title_of(texts[i == 0 ? 0 : 4]));
    tn_told_free(&told);
    OK(tarn_free(block));
    block = test_malloc(1000); /* the same record's */
    told = retell();
    ck_assert_uint_eq(told.count, 1);
    ck_assert_uint_eq(told.blocks[0].annotations[0], 0);
    tn_told_free(&told);
    OK(tarn_free(block));
}
