// SPDX-License-Identifier: Apache-2.0
/* Which events are told of a log, in which order, and whose they are. */
#include "events.h"
#include "command/made.h"
#include "owners.h"

SUITE("events that the command tells")

enum { POOL = 7, OTHER_POOL = 8, STREAM = 70, CAPTURE = 700 };

static const uint64_t address = UINT64_C(1) << 32;

static struct tn_ring_writer writers[2];

/* Two arenas of two pools. */
static void begin(void)
{
    made_begin();
    for (size_t i = 0; i < 2; i++) {
        writers[i] = tn_ring_new_writer(&made.ring);
        tn_note_put(&made.ring, TN_NOTE_ARENA_BEGUN, POOL + i,
                    TN_OPERANDS(writers[i].id, STREAM + i, i * CAPTURE));
    }
}

static void end(void)
{
    for (size_t i = 0; i < 2; i++)
        tn_ring_leave(&writers[i]);
    made_end();
}

GROUP(events, begin, .end = end)

/* What is asked for, of the history as it is now. */
static struct events read_events(const struct wanted *wanted)
{
    struct history *history = made_open();
    struct owners owners;
    struct events events;
    struct tn_told told;
    uint64_t count;
    uint64_t broken;

    ck_assert_int_eq(tn_retell_blocks(&history->source, &told), TARN_OK);
    ck_assert(owners_read(&owners, history, &count, &broken));
    ck_assert_uint_eq(broken, 0);
    ck_assert(events_read(&events, history, &owners, wanted, &told));
    owners_free(&owners);
    tn_told_free(&told);
    history_close(history);
    return events;
}

TEST(events, the_last_ones_are_in_the_order_of_time_whoever_wrote_them)
{
    struct events events;

    for (uint64_t i = 1; i <= 40; i++)
        made_alloc(&writers[i % 2], i, address + i * MADE_UNIT, 1);
    events = read_events(&(struct wanted){.most = 5});
    ck_assert_uint_eq(events.matching, 42);
    ck_assert_uint_eq(events.count, 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert_uint_eq(events.all[i].block.sequence, 36 + i);
    events_free(&events);
    events = read_events(&(struct wanted){.most = 1000});
    ck_assert_uint_eq(events.count, 42);
    for (size_t i = 1; i < events.count; i++)
        ck_assert_uint_ge(events.all[i].since, events.all[i - 1].since);
    events_free(&events);
}

TEST(events, none_are_kept_where_none_are_asked_for)
{
    struct events events = read_events(&(struct wanted){.most = 0});

    ck_assert_uint_eq(events.matching, 2);
    ck_assert_uint_eq(events.count, 0);
    events_free(&events);
}

/* A free by a writer without an arena names its block by the number. */
TEST(events, of_a_pool_are_those_of_its_arenas_blocks_and_notes)
{
    struct tn_ring_writer guest = tn_ring_new_writer(&made.ring);
    struct events events;

    made_alloc(&writers[0], 1, address, 1);
    made_alloc(&writers[1], 2, address + MADE_UNIT, 1);
    made_free(&guest, 1);
    made_free(&guest, 2);
    tn_note_put(&made.ring, TN_NOTE_TRIMMED, OTHER_POOL, TN_OPERANDS(1, 2));
    events = read_events(&(struct wanted){.most = 10, .by_pool = true, .pool = POOL});
    ck_assert_uint_eq(events.count, 3); /* with the arena */
    ck_assert_uint_eq(events.all[1].block.sequence, 1);
    ck_assert_uint_eq(events.all[2].block.sequence, 1);
    ck_assert_uint_eq(events.all[2].kind, TN_HISTORY_FREE);
    events_free(&events);
    tn_ring_leave(&guest);
}

TEST(events, of_an_address_are_those_of_each_block_that_had_it)
{
    struct events events;

    made_alloc(&writers[0], 1, address, 4);
    made_free(&writers[0], 1);
    made_alloc(&writers[1], 2, address + MADE_UNIT, 1);
    made_alloc(&writers[1], 3, address + 2 * MADE_UNIT, 1);
    made_free(&writers[1], 3);
    made_alloc(&writers[0], 4, address, 1); /* it ends there */
    events = read_events(
        &(struct wanted){.most = 10, .by_address = true, .address = address + MADE_UNIT});
    ck_assert_uint_eq(events.count, 3);
    ck_assert_uint_eq(events.all[0].block.sequence, 1);
    ck_assert_uint_eq(events.all[1].kind, TN_HISTORY_FREE);
    ck_assert_uint_eq(events.all[2].block.sequence, 2);
    events_free(&events);
}

/* The allocation is lost, and the table has the block. */
TEST(events, of_an_address_are_uses_of_a_block_that_the_table_alone_has)
{
    struct events events;

    made_live(
        3,
        (struct tn_told_block){
            .sequence = 9, .address = address, .bytes = MADE_UNIT, .requested = 500, .pool = POOL});
    tn_note_put(&made.ring, TN_NOTE_STREAM_USED, POOL, TN_OPERANDS(9, STREAM, 0));
    tn_note_put(&made.ring, TN_NOTE_STREAM_USED, POOL, TN_OPERANDS(10, STREAM, 0));
    events = read_events(&(struct wanted){.most = 10, .by_address = true, .address = address});
    ck_assert_uint_eq(events.count, 1);
    ck_assert_uint_eq(events.all[0].note.operands[0], 9);
    events_free(&events);
}

TEST(events, of_an_address_are_graphs_of_its_pools_and_the_last_replay_of_each)
{
    struct events events;

    made_alloc(&writers[0], 1, address, 1);
    tn_note_put(&made.ring, TN_NOTE_GRAPH_MADE, POOL, TN_OPERANDS(5, CAPTURE));
    tn_note_put(&made.ring, TN_NOTE_GRAPH_MADE, OTHER_POOL, TN_OPERANDS(6, CAPTURE));
    for (uint64_t i = 0; i < 20; i++)
        tn_note_put(&made.ring, TN_NOTE_GRAPH_REPLAYED, POOL, TN_OPERANDS(5 + i % 2 * 10, i));
    tn_note_put(&made.ring, TN_NOTE_FENCE_DONE, POOL, TN_OPERANDS(STREAM));
    events = read_events(&(struct wanted){.most = 10, .by_address = true, .address = address});
    ck_assert_uint_eq(events.count, 4);
    ck_assert_uint_eq(events.all[1].note.note, TN_NOTE_GRAPH_MADE);
    ck_assert_uint_eq(events.all[2].note.operands[1], 18);
    ck_assert_uint_eq(events.all[3].note.operands[1], 19);
    events_free(&events);
}

TEST(events, of_an_address_are_the_last_replays_of_many_graphs)
{
    enum { GRAPHS = 100, ROUNDS = 3 };
    struct events events;
    uint64_t graph = 1;

    made_alloc(&writers[0], 1, address, 1);
    for (uint64_t i = 0; i < GRAPHS * ROUNDS; i++) {
        graph = graph * 6364136223846793005U % 1000003;
        if (i % GRAPHS == 0)
            graph = 1; /* the same graphs each time */
        tn_note_put(&made.ring, TN_NOTE_GRAPH_REPLAYED, POOL, TN_OPERANDS(graph, i));
    }
    events = read_events(&(struct wanted){.most = 2000, .by_address = true, .address = address});
    ck_assert_uint_eq(events.count, 1 + GRAPHS); /* the allocation, too */
    for (uint64_t i = 1; i <= GRAPHS; i++)
        ck_assert_uint_eq(events.all[i].note.operands[1], (ROUNDS - 1) * GRAPHS + i - 1);
    events_free(&events);
}

TEST(events, of_an_address_is_the_memory_under_it)
{
    struct events events;

    tn_note_put(&made.ring, TN_NOTE_MAPPED, POOL, TN_OPERANDS(address, 4096, 1));
    tn_note_put(&made.ring, TN_NOTE_MAPPED, POOL, TN_OPERANDS(address + 4096, 4096, 2));
    tn_note_put(&made.ring, TN_NOTE_MOVED, POOL, TN_OPERANDS(8192, address, 4096));
    tn_note_put(&made.ring, TN_NOTE_MEMORY_CREATED, POOL, TN_OPERANDS(address, 4096));
    events =
        read_events(&(struct wanted){.most = 10, .by_address = true, .address = address + 4095});
    ck_assert_uint_eq(events.count, 2);
    ck_assert_uint_eq(events.all[0].note.operands[2], 1);
    ck_assert_uint_eq(events.all[1].note.note, TN_NOTE_MOVED);
    events_free(&events);
}

GROUP(owners, begin, .end = end)

TEST(owners, a_writer_has_its_arenas_pool_stream_and_capture)
{
    struct history *history = made_open();
    struct owners owners;
    uint64_t count;
    uint64_t broken;

    ck_assert(owners_read(&owners, history, &count, &broken));
    ck_assert_uint_eq(count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct owner *owner = owners_find(&owners, writers[i].id);

        ck_assert_ptr_nonnull(owner);
        ck_assert_uint_eq(owner->pool, POOL + i);
        ck_assert_uint_eq(owner->stream, STREAM + i);
        ck_assert_uint_eq(owner->capture, i * CAPTURE);
    }
    ck_assert_ptr_null(owners_find(&owners, 1 << 20));
    owners_free(&owners);
    history_close(history);
}

/* A thread's writer is written of before its arena where pages lie so; one whose arena is lost has no
 * owner. */
TEST(owners, a_threads_writer_has_what_its_arena_has)
{
    struct history *history;
    struct owners owners;
    const struct owner *owner;
    uint64_t count;
    uint64_t broken;

    tn_note_put(&made.ring, TN_NOTE_MAGAZINE_BEGUN, POOL, TN_OPERANDS(900, writers[1].id));
    tn_note_put(&made.ring, TN_NOTE_MAGAZINE_BEGUN, POOL, TN_OPERANDS(901, 899));
    history = made_open();
    ck_assert(owners_read(&owners, history, &count, &broken));
    owner = owners_find(&owners, 900);
    ck_assert_ptr_nonnull(owner);
    ck_assert_uint_eq(owner->pool, OTHER_POOL);
    ck_assert_ptr_null(owners_find(&owners, 901));
    owners_free(&owners);
    history_close(history);
}
