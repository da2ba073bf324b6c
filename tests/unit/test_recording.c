// SPDX-License-Identifier: Apache-2.0
/* What a history records, changed while it does, and a history that begins anew. */
#include <pthread.h>
#include <string.h>

#include "observe/retell.h"
#include "observe/told_ranges.h"
#include "pools/recording.h"
#include "tarn/history.h"
#include "unit/told.h"

SUITE("what is recorded")

static void open_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 1 << 20;
    test_world_open_with(&options);
}

GROUP(recorded, open_world, .end = test_world_close, .timeout = 60)

static struct tn_told told;

/* Frees that wait for the pool's lock are written. */
static void flush(void)
{
    tn_pool_lock(world.default_pool);
    tn_pool_unlock(world.default_pool);
}

static void look(void)
{
    told = unit_retell(NULL);
}

/* Events of a kind; of notes: of this one, or of any. */
static size_t count(unsigned kind, enum tn_note note)
{
    size_t found = 0;

    for (size_t i = 0; i < told.event_count; i++)
        found += told.events[i].kind == kind && (note == 0 || told.events[i].note.note == note);
    return found;
}

static size_t count_blocks(void)
{
    return told.event_count - count(TN_HISTORY_NOTE, 0);
}

static void set(uint64_t skipped, tarn_history_stacks stacks, bool live_stacks_alone)
{
    tarn_history_settings settings = TARN_HISTORY_SETTINGS_INIT;
    tarn_history_info info = TARN_HISTORY_INFO_INIT;

    settings.skipped = skipped;
    settings.stacks = stacks;
    settings.live_stacks_alone = live_stacks_alone;
    OK(tarn_device_set_history(world.device, &settings));
    OK(tarn_device_history_info(world.device, &info));
    ck_assert_uint_eq(info.skipped, skipped);
    ck_assert_int_eq(info.stacks, stacks);
    ck_assert_int_eq(info.live_stacks_alone, live_stacks_alone);
}

/* The table is kept, and what comes later is told whole. */
TEST(recorded, events_of_blocks_are_skipped_and_come_again)
{
    void *first = test_malloc(1000);
    void *second;
    uint64_t number;
    size_t before;

    OK(tarn_free(test_malloc(2000)));
    look();
    before = count_blocks();
    ck_assert_uint_eq(before, 2); /* the free waits */
    before += 1;
    tn_told_free(&told);
    set(TARN_HISTORY_BLOCKS, TARN_HISTORY_NO_STACKS, false);
    for (int i = 0; i < 1000; i++)
        OK(tarn_free(test_malloc((size_t)(i % 3 + 1) * 1000)));
    second = test_malloc(5000);
    number = unit_block(second)->sequence;
    OK(tarn_free(first));
    flush();
    look();
    ck_assert_uint_eq(count_blocks(), before);
    ck_assert_uint_eq(told.count, 1);
    ck_assert_uint_eq(told.blocks[0].address, (uintptr_t)second);
    ck_assert_uint_eq(told.blocks[0].requested, 5000);
    ck_assert_uint_eq(told.lost_events, 0);
    tn_told_free(&told);
    set(0, TARN_HISTORY_NO_STACKS, false);
    first = test_malloc(1000);
    OK(tarn_free(second));
    flush();
    look();
    ck_assert_uint_eq(count_blocks(), before + 2);
    for (size_t i = 0; i < told.event_count; i++) {
        const struct tn_told_event *event = &told.events[i];

        if (event->kind == TN_HISTORY_FREE && event->block.sequence == number)
            ck_assert_uint_eq(event->block.requested, 5000);
    }
    ck_assert_uint_eq(told.count, 1);
    ck_assert_uint_eq(told.blocks[0].address, (uintptr_t)first);
    tn_told_free(&told);
    OK(tarn_free(first));
}

/* A free by another thread goes to the log by a shared writer. */
TEST(recorded, frees_by_others_are_skipped_too)
{
    struct tn_block *block;
    void *address = test_malloc(1000);

    set(TARN_HISTORY_BLOCKS, TARN_HISTORY_NO_STACKS, false);
    block = unit_block(address);
    look();
    ck_assert_uint_eq(count(TN_HISTORY_FREE, 0), 0);
    tn_told_free(&told);
    tn_history_free_by_guest(&world.device->history.ring, block);
    look();
    ck_assert_uint_eq(count(TN_HISTORY_FREE, 0), 0);
    ck_assert_uint_eq(told.count, 0);
    tn_told_free(&told);
    atomic_store(&tn_history_entry(block)->number, block->sequence);
    OK(tarn_free(address));
}

static const struct {
    tarn_history_kind kind;
    enum tn_note first, last;
} kinds[] = {
    {TARN_HISTORY_MEMORY, TN_NOTE_SEGMENT_RESERVED, TN_NOTE_UNMAPPED},
    {TARN_HISTORY_POOLS, TN_NOTE_POOL_CREATED, TN_NOTE_ROUTE_ENDED},
    {TARN_HISTORY_GRAPHS, TN_NOTE_CAPTURE_BEGUN, TN_NOTE_CHECKPOINT_DROPPED},
    {TARN_HISTORY_STREAMS, TN_NOTE_STREAM_USED, TN_NOTE_FENCE_DONE},
    {TARN_HISTORY_PRESSURE, TN_NOTE_RUNG, TN_NOTE_TRIMMED},
    {TARN_HISTORY_SNAPSHOTS, TN_NOTE_SNAPSHOT, TN_NOTE_SNAPSHOT},
    {TARN_HISTORY_ANNOTATIONS, TN_NOTE_ANNOTATED, TN_NOTE_ANNOTATED},
    {TARN_HISTORY_SHARES, TN_NOTE_SHARED, TN_NOTE_IMPORT_UNMAPPED},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void write_all_notes(void)
{
    for (enum tn_note note = 1; note < TN_NOTES; note++)
        tn_device_note(world.device, note, TN_OPERANDS(0, 0, 0));
}

TEST_LOOP(recorded, notes_are_skipped_by_their_kind, 0, KINDS)
{
    set((uint64_t)kinds[_i].kind, TARN_HISTORY_NO_STACKS, false);
    OK(tarn_device_clear_history(world.device));
    write_all_notes();
    look();
    for (enum tn_note note = 1; note < TN_NOTES; note++)
        ck_assert_uint_eq(count(TN_HISTORY_NOTE, note),
                          note < kinds[_i].first || note > kinds[_i].last);
    tn_told_free(&told);
    set(0, TARN_HISTORY_NO_STACKS, false);
    write_all_notes();
    look();
    for (enum tn_note note = kinds[_i].first; note <= kinds[_i].last; note++)
        ck_assert_uint_eq(count(TN_HISTORY_NOTE, note), 1);
    tn_told_free(&told);
}

/* No note is of no kind. */
TEST(recorded, all_are_skipped_at_once)
{
    set(TARN_HISTORY_ALL, TARN_HISTORY_NO_STACKS, false);
    OK(tarn_device_clear_history(world.device));
    write_all_notes();
    OK(tarn_free(test_malloc(1000)));
    look();
    ck_assert_uint_eq(told.event_count, 0);
    tn_told_free(&told);
}

static size_t count_ranges(uint64_t *lost)
{
    struct tn_ring *ring = &world.device->history.ranges.ring;
    struct tn_told_ranges ranges;
    size_t found;

    OK(tn_retell_ranges(tn_ring_from_memory, ring, ring->page_count, &ranges));
    found = ranges.count;
    *lost = ranges.lost_pages;
    tn_told_ranges_free(&ranges);
    return found;
}

TEST(recorded, ranges_are_skipped_and_cleared)
{
    uint64_t range;
    uint64_t lost;

    OK(tarn_range_begin(world.device, "range", &range));
    set(TARN_HISTORY_RANGES, TARN_HISTORY_NO_STACKS, false);
    OK(tarn_range_end(world.device, range));
    ck_assert_uint_eq(count_ranges(&lost), 1);
    set(0, TARN_HISTORY_NO_STACKS, false);
    for (int i = 0; i < 5000; i++)
        OK(tarn_range_end(world.device, range));
    ck_assert_uint_gt(count_ranges(&lost), 100);
    ck_assert_uint_gt(lost, 0);
    OK(tarn_device_clear_history(world.device));
    ck_assert_uint_eq(count_ranges(&lost), 0);
    ck_assert_uint_eq(lost, 0);
    OK(tarn_range_end(world.device, range));
    ck_assert_uint_eq(count_ranges(&lost), 1);
    ck_assert_uint_eq(lost, 0);
}

/* Blocks that are live stay known, and their frees repeat what was cleared. */
TEST(recorded, a_cleared_log_begins_anew)
{
    void *block = test_malloc(3000);
    const uint64_t number = unit_block(block)->sequence;

    for (int i = 0; i < 100000; i++)
        OK(tarn_free(test_malloc((size_t)(i % 3 + 1) * 1000)));
    look();
    ck_assert_uint_gt(told.lost_pages, 0);
    tn_told_free(&told);
    OK(tarn_device_clear_history(world.device));
    look();
    ck_assert_uint_eq(told.event_count + told.lost_pages + told.lost_events, 0);
    ck_assert_uint_eq(told.count, 1);
    ck_assert_uint_eq(told.blocks[0].requested, 3000);
    tn_told_free(&told);
    OK(tarn_free(block));
    OK(tarn_free(test_malloc(1000)));
    flush();
    look();
    ck_assert_uint_eq(told.lost_pages, 0);
    ck_assert_uint_eq(count(TN_HISTORY_FREE, 0), 2);
    for (size_t i = 0; i < told.event_count; i++) {
        if (told.events[i].kind == TN_HISTORY_FREE && told.events[i].block.sequence == number)
            ck_assert_uint_eq(told.events[i].block.requested, 3000);
    }
    ck_assert_uint_eq(told.count, 0);
    tn_told_free(&told);
    for (int i = 0; i < 100000; i++) /* the circle of pages is whole */
        OK(tarn_free(test_malloc((size_t)(i % 3 + 1) * 1000)));
    look();
    ck_assert_uint_gt(told.lost_pages, 0);
    ck_assert_uint_eq(told.broken_pages, 0);
    tn_told_free(&told);
}

/* Of a log that has lost nothing. */
TEST(recorded, a_free_repeats_an_allocation_that_was_cleared)
{
    void *block = test_malloc(3000);

    OK(tarn_device_clear_history(world.device));
    OK(tarn_free(block));
    flush();
    look();
    ck_assert_uint_eq(count_blocks(), 1);
    for (size_t i = 0; i < told.event_count; i++) {
        if (told.events[i].kind == TN_HISTORY_FREE)
            ck_assert_uint_eq(told.events[i].block.requested, 3000);
    }
    tn_told_free(&told);
}

TEST(recorded, stacks_come_and_go)
{
    void *blocks[4];

    ck_assert_uint_eq(world.device->history.file.head->notes[TN_STACKING_STACKS], 0);
    blocks[0] = test_malloc(1000);
    set(0, TARN_HISTORY_CALLERS, false);
    ck_assert_uint_eq(atomic_load(&tn_stacking_count), 1);
    ck_assert_uint_eq(world.device->history.file.head->notes[TN_STACKING_STACKS], 1);
    blocks[1] = test_malloc(1000);
    set(0, TARN_HISTORY_FRAMES, true);
    ck_assert_uint_eq(atomic_load(&tn_stacking_count), 1);
    blocks[2] = test_malloc(1000);
    set(0, TARN_HISTORY_NO_STACKS, false);
    ck_assert_uint_eq(atomic_load(&tn_stacking_count), 0);
    blocks[3] = test_malloc(1000);
    look();
    ck_assert_uint_eq(told.count, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(told.blocks[i].stack != 0, i == 1 || i == 2);
    for (size_t i = 0; i < told.event_count; i++) { /* the third stands in the table alone */
        const struct tn_told_event *event = &told.events[i];

        if (event->kind == TN_HISTORY_ALLOC)
            ck_assert_int_eq(event->block.stack != 0, event->block.address == (uintptr_t)blocks[1]);
    }
    tn_told_free(&told);
    for (size_t i = 0; i < 4; i++)
        OK(tarn_free(blocks[i]));
}

static atomic_bool over;

static void *allocate(void *argument)
{
    while (!atomic_load(&over)) {
        void *block = test_malloc(4096);
        void *other = test_malloc(512);

        OK(tarn_free(block));
        OK(tarn_free(other));
    }
    return argument;
}

/* Threads of one stream share an arena, and have magazines. */
TEST(recorded, settings_change_while_threads_allocate)
{
    enum { THREADS = 4, ROUNDS = 30 };
    pthread_t threads[THREADS];

    atomic_store(&over, false);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate, NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        set(i % 2 == 0 ? TARN_HISTORY_BLOCKS : 0, i % 3 == 0 ? TARN_HISTORY_CALLERS : 0,
            i % 5 == 0);
        if (i % 4 == 0)
            OK(tarn_device_clear_history(world.device));
        look();
        ck_assert_uint_eq(told.broken_pages, 0);
        tn_told_free(&told);
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    OK(tarn_device_clear_history(world.device)); /* each pool's frees are told */
    look();
    ck_assert_uint_eq(told.count, 0);
    tn_told_free(&told);
}
