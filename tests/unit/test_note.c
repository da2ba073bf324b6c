// SPDX-License-Identifier: Apache-2.0
/* What happens rarely is written to the history: once, by the action itself, and not if it fails. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/note.h"
#include "observe/retell.h"
#include "pools/route.h"
#include "unit/told.h"

SUITE("notes")

enum { HISTORY_BYTES = 4 << 20, NOTES_MAX = 4096, THREADS = 4 };

GROUP(words, NULL)

TEST(words, a_note_is_read_as_it_was_written)
{
    enum { PAGES = 4 };
    static atomic_uint_fast64_t counter;
    struct tn_ring_page *pages = tn_host_alloc_aligned(4096, PAGES * sizeof *pages);
    struct tn_ring_copy *copy = calloc(1, sizeof *copy);
    struct tn_note_words read;
    struct tn_ring ring;

    ck_assert_ptr_nonnull(copy);
    memset(pages, 0, PAGES * sizeof *pages);
    ck_assert(tn_ring_init(&ring, pages, PAGES, &counter));
    tn_note_write(&ring, TN_NOTE_CAPTURE_BEGUN, 77, TN_OPERANDS(1, UINT64_MAX, 3));
    tn_note_write(&ring, TN_NOTE_POOL_DESTROYED, (UINT64_C(1) << 50) - 1, TN_OPERANDS(5));
    tn_note_write(NULL, TN_NOTE_POOL_DESTROYED, 1, TN_OPERANDS(0));
    ck_assert_int_eq(tn_ring_read(tn_ring_from_memory, &ring, 0, copy), TN_RING_READ);
    ck_assert_uint_eq(copy->word_count, 1 + 3 + 1 + 1);
    ck_assert_uint_eq(tn_ring_kind(copy->words[0]), TN_RING_STAMP);
    ck_assert(tn_note_read(&copy->words[1], &read));
    ck_assert_int_eq(read.note, TN_NOTE_CAPTURE_BEGUN);
    ck_assert_uint_eq(read.pool, 77);
    ck_assert_uint_eq(read.operands[0], 1);
    ck_assert_uint_eq(read.operands[1], UINT64_MAX);
    ck_assert_uint_eq(read.operands[2], 0); /* it has two */
    ck_assert_uint_eq(tn_ring_kind(copy->words[4]), TN_RING_STAMP);
    ck_assert(tn_note_read(&copy->words[5], &read));
    ck_assert_int_eq(read.note, TN_NOTE_POOL_DESTROYED);
    ck_assert_uint_eq(read.pool, (UINT64_C(1) << 50) - 1);
    ck_assert_uint_eq(read.operands[0], 0); /* it has none */
    tn_ring_drop(&ring);
    tn_host_free(pages);
    free(copy);
}

TEST(words, words_of_no_note_are_refused)
{
    const uint64_t wrong[] = {
        tn_ring_first(TN_RING_STAMP, 0, TN_NOTE_POOL_DESTROYED),
        tn_ring_first(TN_RING_NOTE, 0, 0),
        tn_ring_first(TN_RING_NOTE, 0, TN_NOTES),
        tn_ring_first(TN_RING_NOTE, 0, 255),
        tn_ring_first(TN_RING_NOTE, 1, TN_NOTE_POOL_DESTROYED),
        tn_ring_first(TN_RING_NOTE, 2, TN_NOTE_MAPPED),
    };
    const uint64_t right = tn_ring_first(TN_RING_NOTE, 0, TN_NOTE_POOL_DESTROYED);
    struct tn_note_words read;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert(!tn_note_read((const uint64_t[]){wrong[i], 0, 0, 0}, &read));
    ck_assert(tn_note_read(&right, &read));
}

/* What was told last: all notes of the history, and how many had been told before. */
static struct tn_note_words notes[NOTES_MAX];
static size_t note_count;
static size_t seen_count;
static struct tn_told told;

static void read_history(void)
{
    tn_told_free(&told);
    told = unit_retell(NULL);
    ck_assert_uint_eq(told.lost_pages + told.lost_events + told.broken_pages, 0);
    tn_told_sort_by_time(&told);
}

/* Reads the notes that have come since the last call. */
static void look(void)
{
    seen_count = note_count;
    note_count = 0;
    read_history();
    for (size_t i = 0; i < told.event_count; i++) {
        if (told.events[i].kind != TN_HISTORY_NOTE)
            continue;
        ck_assert_uint_lt(note_count, NOTES_MAX);
        notes[note_count] = told.events[i].note;
        note_count += 1;
    }
    ck_assert_uint_ge(note_count, seen_count);
}

static size_t count_notes(enum tn_note note)
{
    size_t count = 0;

    for (size_t i = seen_count; i < note_count; i++)
        count += notes[i].note == note;
    return count;
}

/* The first or next such note that has come; *at: where the search goes on, from 0. */
static const struct tn_note_words *next(enum tn_note note, size_t *at)
{
    if (*at == 0)
        *at = seen_count;
    while (*at < note_count && notes[*at].note != note)
        *at += 1;
    *at += 1;
    return *at <= note_count ? &notes[*at - 1] : NULL;
}

/* Of these notes one alone has come, with these words. */
static void expect_one(enum tn_note note, const tarn_pool *pool, uint64_t first, uint64_t second,
                       uint64_t third)
{
    size_t at = 0;
    const struct tn_note_words *found;

    ck_assert_msg(count_notes(note) == 1, "%zu notes of kind %d", count_notes(note), (int)note);
    found = next(note, &at);
    ck_assert_uint_eq(found->pool, pool != NULL ? pool->holds.pool_serial : 0);
    ck_assert_uint_eq(found->operands[0], first);
    ck_assert_uint_eq(found->operands[1], second);
    ck_assert_uint_eq(found->operands[2], third);
}

/* So many notes have come since the last look, of whatever kind. */
static void expect_count(size_t count)
{
    ck_assert_uint_eq(note_count - seen_count, count);
}

static void open_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = HISTORY_BYTES;
    test_world_open_with(&options);
    look();
}

static void close_world(void)
{
    tn_told_free(&told);
    test_world_close();
}

static uint64_t writer_of(const struct tn_arena *arena)
{
    return tn_arena_history(arena)->log.id;
}

GROUP(noted, open_world, .end = close_world)

TEST(noted, a_pool_comes_and_goes_with_its_idle_memory)
{
    tarn_pool *pool = test_pool("one");
    const uint64_t serial = pool->holds.pool_serial;
    const uint64_t writer = writer_of(&pool->idle);
    size_t at = 0;

    ck_assert_int_eq(notes[0].note, TN_NOTE_POOL_CREATED);
    ck_assert_uint_eq(notes[0].operands[0], 1); /* the default pool */
    look();
    expect_count(2);
    expect_one(TN_NOTE_POOL_CREATED, pool, 0, 0, 0);
    expect_one(TN_NOTE_ARENA_BEGUN, pool, writer, 0, 0);
    OK(tarn_pool_destroy(pool));
    look();
    expect_count(2);
    ck_assert_uint_eq(next(TN_NOTE_ARENA_ENDED, &at)->operands[0], writer);
    ck_assert_uint_eq(notes[note_count - 1].note, TN_NOTE_POOL_DESTROYED);
    ck_assert_uint_eq(notes[note_count - 1].pool, serial);
}

TEST(noted, a_pool_that_fails_leaves_no_note)
{
    tarn_pool *pool = NULL;
    tarn_status status = TARN_ERR_HOST_MEMORY;

    for (uint64_t fault = 1; status != TARN_OK; fault++) {
        (void)tn_host_plan_fault(fault, false);
        status = tarn_pool_create(world.device, NULL, &pool);
        (void)tn_host_plan_fault(0, false);
        look();
        ck_assert_uint_eq(count_notes(TN_NOTE_POOL_CREATED), status == TARN_OK);
        ck_assert_uint_eq(count_notes(TN_NOTE_ARENA_BEGUN), status == TARN_OK);
    }
    OK(tarn_pool_destroy(pool));
}

/* Whose the events of a writer are. */
TEST(noted, an_arena_is_named_before_its_events_are)
{
    const struct tn_order order = unit_order(world.device, world.stream);
    void *block = test_alloc(world.pool, 1000, world.stream);
    uint64_t writer;
    bool found = false;

    look();
    writer = writer_of(unit_arena(world.pool, order));
    expect_one(TN_NOTE_ARENA_BEGUN, world.pool, writer, order.stream_id, 0);
    for (size_t i = 0; i < told.event_count; i++)
        found =
            found || (told.events[i].kind == TN_HISTORY_ALLOC && told.events[i].writer == writer &&
                      told.events[i].block.address == (uint64_t)(uintptr_t)block);
    ck_assert(found);
    OK(tarn_free(block));
    OK(tarn_pool_destroy(world.pool));
    world.pool = NULL;
    look();
    ck_assert_uint_eq(count_notes(TN_NOTE_ARENA_ENDED), 2); /* with that of idle memory */
    ck_assert_uint_eq(count_notes(TN_NOTE_ARENA_BEGUN), 0);
}

TEST(noted, memory_is_mapped_and_unmapped)
{
    void *block = test_alloc(world.pool, 8 * MIB, world.stream);
    const struct tn_segment *segment = unit_segment(block);
    const struct tn_chunk *chunk = unit_chunk(block);
    const uint64_t base = segment->base, bytes = segment->bytes;
    const uint64_t address = tn_chunk_address(chunk), memory = chunk->memory->handle;

    look();
    expect_one(TN_NOTE_SEGMENT_RESERVED, world.pool, base, bytes, 0);
    expect_one(TN_NOTE_MEMORY_CREATED, world.pool, memory, chunk->bytes, 0);
    expect_one(TN_NOTE_MAPPED, world.pool, address, chunk->bytes, memory);
    OK(tarn_free(block));
    test_synchronize(world.stream);
    OK(tarn_pool_trim(world.pool, NULL));
    look();
    expect_one(TN_NOTE_UNMAPPED, world.pool, address, 8 * MIB, memory);
    expect_one(TN_NOTE_MEMORY_RELEASED, world.pool, memory, 8 * MIB, 0);
    expect_one(TN_NOTE_SEGMENT_DROPPED, world.pool, base, bytes, 0);
    expect_one(TN_NOTE_TRIMMED, world.pool, 8 * MIB, 0, 0);
    OK(tarn_device_trim(world.device, 5, NULL));
    look();
    expect_one(TN_NOTE_TRIMMED, NULL, 0, 5, 0);
    expect_count(1);
}

TEST(noted, memory_waits_in_the_cache_and_comes_back)
{
    void *block = test_alloc(world.pool, 8 * MIB, world.stream);
    const uint64_t memory = unit_chunk(block)->memory->handle;

    OK(tarn_free(block));
    test_synchronize(world.stream);
    OK(tarn_pool_destroy(world.pool));
    world.pool = test_pool("another");
    look();
    expect_one(TN_NOTE_MEMORY_CACHED, NULL, memory, 8 * MIB, 0);
    ck_assert_uint_eq(count_notes(TN_NOTE_MEMORY_RELEASED), 0);
    block = test_alloc(world.pool, 8 * MIB, world.stream);
    look();
    expect_one(TN_NOTE_MEMORY_REUSED, NULL, memory, 8 * MIB, 0);
    ck_assert_uint_eq(count_notes(TN_NOTE_MEMORY_CREATED), 0);
    OK(tarn_free(block));
    test_synchronize(world.stream);
    OK(tarn_pool_destroy(world.pool));
    world.pool = test_pool("a third");
    OK(tarn_device_trim(world.device, 0, NULL));
    look();
    expect_one(TN_NOTE_MEMORY_RELEASED, NULL, memory, 8 * MIB, 0);
    expect_one(TN_NOTE_TRIMMED, NULL, 8 * MIB, 0, 0);
}

TEST(noted, memory_moves_and_its_old_place_is_unmapped_later)
{
    void *blocks[4];
    void *large;
    uint64_t from[2];
    size_t at = 0;

    for (size_t i = 0; i < 4; i++)
        blocks[i] = test_alloc(world.pool, 8 * MIB, world.stream);
    for (size_t i = 0; i < 2; i++) {
        from[i] = (uint64_t)(uintptr_t)blocks[2 * i + 1];
        OK(tarn_free(blocks[2 * i + 1]));
    }
    look();
    large = test_alloc(world.pool, 16 * MIB, world.stream);
    look();
    ck_assert_uint_eq(count_notes(TN_NOTE_MOVED), 2);
    ck_assert_uint_eq(count_notes(TN_NOTE_MAPPED) + count_notes(TN_NOTE_UNMAPPED), 0);
    for (size_t i = 0; i < 2; i++) {
        const struct tn_note_words *moved = next(TN_NOTE_MOVED, &at);

        ck_assert(moved->operands[0] == from[0] || moved->operands[0] == from[1]);
        ck_assert_uint_eq(moved->operands[1], (uint64_t)(uintptr_t)large + i * 8 * MIB);
        ck_assert_uint_eq(moved->operands[2], 8 * MIB);
    }
    OK(tarn_free(large));
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[2]));
    test_synchronize(world.stream);
    OK(tarn_pool_trim(world.pool, NULL));
    look();
    ck_assert_uint_eq(count_notes(TN_NOTE_UNMAPPED), 6); /* four places, and two that were left */
}

TEST(noted, a_growth_that_fails_has_mapped_nothing)
{
    void *block = NULL;
    size_t created;

    sim.plan_fault("cuMemMap", 2, true, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_pool_malloc(world.pool, 24 * MIB, 0, world.stream, &block));
    (void)sim.clear_fault(NULL);
    look();
    created = count_notes(TN_NOTE_MEMORY_CREATED) + count_notes(TN_NOTE_MEMORY_REUSED);
    ck_assert_uint_gt(created, 0);
    ck_assert_uint_eq(count_notes(TN_NOTE_MEMORY_RELEASED) + count_notes(TN_NOTE_MEMORY_CACHED),
                      created);
    ck_assert_uint_eq(count_notes(TN_NOTE_MAPPED), 0);
    ck_assert_uint_eq(count_notes(TN_NOTE_UNMAPPED), 0);
    ck_assert_uint_eq(count_notes(TN_NOTE_SEGMENT_RESERVED), count_notes(TN_NOTE_SEGMENT_DROPPED));
}

TEST(noted, routes_begin_and_end)
{
    tarn_route *route = test_route(world.pool, tarn_filter_stream, world.stream);
    const uint64_t id = route->id;

    look();
    expect_count(1);
    expect_one(TN_NOTE_ROUTE_BEGUN, world.pool, id, 0, 0);
    OK(tarn_end_allocate_to_pool(route));
    look();
    expect_count(1);
    expect_one(TN_NOTE_ROUTE_ENDED, world.pool, id, 0, 0);
    STATUS(TARN_ERR_WRONG_STATE, tarn_begin_allocate_to_pool(world.device, world.default_pool,
                                                             tarn_filter_thread, NULL, &route));
    look();
    expect_count(0);
}

TEST(noted, a_capture_begins_and_ends_with_a_graph)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    const uint64_t id = capture->capture_id, route = capture->route_id;
    const uint64_t hold = world.pool->holds.first->serial;
    uint64_t number;
    tarn_graph *graph;

    look();
    expect_count(3);
    expect_one(TN_NOTE_ROUTE_BEGUN, world.pool, route, 0, 0);
    expect_one(TN_NOTE_HOLD_TAKEN, world.pool, hold, id, 0);
    expect_one(TN_NOTE_CAPTURE_BEGUN, world.pool, id,
               unit_order(world.device, world.stream).stream_id, 0);
    graph = test_capture_end(capture);
    look();
    expect_count(3);
    expect_one(TN_NOTE_GRAPH_MADE, world.pool, graph->number, id, 0);
    expect_one(TN_NOTE_CAPTURE_ENDED, world.pool, id, 0, 0);
    expect_one(TN_NOTE_ROUTE_ENDED, world.pool, route, 0, 0);
    for (int i = 0; i < 2; i++) {
        OK(tarn_graph_replay(graph, i == 0 ? world.stream : world.side));
        look();
        expect_count(1);
        expect_one(TN_NOTE_GRAPH_REPLAYED, world.pool, graph->number,
                   unit_order(world.device, i == 0 ? world.stream : world.side).stream_id, 0);
    }
    sim.plan_fault("cuGraphLaunch", 1, false, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_graph_replay(graph, world.stream));
    look();
    expect_count(0);
    test_wait_for_all();
    number = graph->number;
    OK(tarn_graph_destroy(graph));
    unit_reap_all(world.pool);
    look();
    expect_one(TN_NOTE_GRAPH_DESTROYED, world.pool, number, 0, 0);
    expect_one(TN_NOTE_HOLD_DROPPED, world.pool, hold, 0, 0);
    expect_count(2);
}

TEST(noted, a_capture_that_fails_to_begin_leaves_what_began_with_it_ended)
{
    tarn_capture *capture = NULL;
    tarn_status status = TARN_ERR_DRIVER;

    for (uint64_t fault = 1; status != TARN_OK; fault++) {
        sim.plan_fault(NULL, fault, false, TN_CUDA_ERROR_INVALID_VALUE);
        status = tarn_capture_begin(world.pool, world.stream, NULL, &capture);
        (void)sim.clear_fault(NULL);
        look();
        ck_assert_uint_eq(count_notes(TN_NOTE_CAPTURE_BEGUN), status == TARN_OK);
        ck_assert_uint_eq(count_notes(TN_NOTE_HOLD_TAKEN) - count_notes(TN_NOTE_HOLD_DROPPED),
                          status == TARN_OK);
        ck_assert_uint_eq(count_notes(TN_NOTE_ROUTE_BEGUN) - count_notes(TN_NOTE_ROUTE_ENDED),
                          status == TARN_OK);
        ck_assert_uint_eq(count_notes(TN_NOTE_CAPTURE_ABORTED), 0);
    }
    OK(tarn_capture_abort(capture));
}

TEST(noted, a_capture_is_aborted)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    const uint64_t id = capture->capture_id;

    look();
    OK(tarn_capture_abort(capture));
    unit_reap_all(world.pool);
    look();
    expect_one(TN_NOTE_CAPTURE_ABORTED, world.pool, id, 0, 0);
    ck_assert_uint_eq(count_notes(TN_NOTE_CAPTURE_ENDED), 0);
    ck_assert_uint_eq(count_notes(TN_NOTE_HOLD_DROPPED), 1);
    /* One whose driver's part has gone without Tarn. */
    capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    look();
    test_drop_capture(world.stream);
    unit_await_gone(capture);
    look();
    ck_assert_uint_eq(count_notes(TN_NOTE_CAPTURE_ABORTED), 0);
    OK(tarn_capture_abort(capture));
    look();
    expect_count(1);
    expect_one(TN_NOTE_CAPTURE_ABORTED, world.pool, notes[note_count - 1].operands[0], 0, 0);
}

TEST(noted, a_graph_is_updated_or_stays_as_it_was)
{
    tarn_graph *graph = unit_graph(world.pool, world.stream, 4096, NULL);
    tarn_capture *capture = unit_begin(world.pool, world.stream);
    const uint64_t id = capture->capture_id;
    void *block = unit_alloc(world.pool, 4096, world.stream);

    test_fill(world.stream, block, 9, 128);
    OK(tarn_free(block));
    look();
    sim.plan_fault("cuGraphExecUpdate", 1, false, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_graph_update(graph, capture));
    look();
    ck_assert_uint_eq(count_notes(TN_NOTE_GRAPH_UPDATED), 0);
    ck_assert_uint_eq(count_notes(TN_NOTE_CAPTURE_ENDED), 0);
    OK(tarn_graph_update(graph, capture));
    look();
    expect_one(TN_NOTE_GRAPH_UPDATED, world.pool, graph->number, id, 0);
    expect_one(TN_NOTE_CAPTURE_ENDED, world.pool, id, 0, 0);
    ck_assert_uint_eq(count_notes(TN_NOTE_GRAPH_MADE), 0);
    OK(tarn_graph_destroy(graph));
}

TEST(noted, a_guarded_graph_is_replayed_until_it_is_stale)
{
    tarn_pool_options options = TARN_POOL_OPTIONS_INIT;
    tarn_pool *pool;
    void *input;
    tarn_capture *capture;
    tarn_graph *graph;

    options.guard = TARN_GUARD_REFUSE;
    pool = test_pool_with(&options);
    input = test_alloc(world.default_pool, 4096, world.stream);
    capture = test_capture_on(pool, world.stream, TARN_CAPTURE_THREAD_LOCAL);
    test_fill(world.stream, input, 7, 16);
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, world.stream));
    look();
    ck_assert_uint_eq(count_notes(TN_NOTE_GRAPH_REPLAYED), 1);
    OK(tarn_free(input));
    STATUS(TARN_ERR_STALE, tarn_graph_replay(graph, world.stream));
    look();
    ck_assert_uint_eq(count_notes(TN_NOTE_GRAPH_REPLAYED), 0);
    OK(tarn_graph_destroy(graph));
    unit_reap_all(pool);
    OK(tarn_pool_destroy(pool));
}

TEST(noted, checkpoints_are_taken_restored_and_dropped)
{
    void *block = test_alloc(world.pool, 1000, world.stream);
    tarn_checkpoint *checkpoint;
    tarn_capture *capture;
    uint64_t number;

    look();
    STATUS(TARN_ERR_WRONG_STATE,
           tarn_checkpoint_take(world.default_pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    look();
    expect_count(0);
    checkpoint = test_take(TARN_CONTENTS_NONE);
    number = checkpoint->number;
    look();
    expect_one(TN_NOTE_CHECKPOINT_TAKEN, world.pool, number, 1, 0);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    look();
    expect_one(TN_NOTE_CHECKPOINT_RESTORED, world.pool, number, 0, 0);
    capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    STATUS(TARN_ERR_WRONG_STATE, tarn_checkpoint_restore(checkpoint, world.side, NULL));
    OK(tarn_capture_abort(capture));
    look();
    ck_assert_uint_eq(count_notes(TN_NOTE_CHECKPOINT_RESTORED), 0);
    OK(tarn_checkpoint_destroy(checkpoint));
    look();
    expect_one(TN_NOTE_CHECKPOINT_DROPPED, world.pool, number, 0, 0);
    OK(tarn_free(block));
}

TEST(noted, a_stream_is_used_and_its_fence_is_done)
{
    const struct tn_order side = unit_order(world.device, world.side);
    void *block = test_alloc(world.pool, 1000, world.stream);
    const uint64_t sequence = unit_block(block)->sequence;
    tn_cu_stream gone = test_stream();
    const uint64_t gone_id = unit_order(world.device, gone).stream_id;
    uint64_t no_block = 0;

    look();
    OK(tarn_record_stream(block, world.side));
    look();
    expect_count(1);
    expect_one(TN_NOTE_STREAM_USED, world.pool, sequence, side.stream_id, 0);
    sim.hold_work();
    test_fill(world.side, block, 7, 4);
    OK(tarn_free(block));
    look();
    expect_one(TN_NOTE_FENCE_RECORDED, NULL, side.stream_id, 0, 0);
    ck_assert_uint_eq(count_notes(TN_NOTE_FENCE_DONE), 0);
    sim.resume_work();
    test_synchronize(world.side);
    OK(tarn_pool_trim(world.pool, NULL));
    look();
    expect_one(TN_NOTE_FENCE_DONE, NULL, side.stream_id, 0, 0);
    STATUS(TARN_ERR_NOT_OURS, tarn_record_stream(&no_block, world.side));
    OK(tarn_stream_retire(world.device, gone));
    look();
    expect_count(1);
    expect_one(TN_NOTE_STREAM_RETIRED, NULL, gone_id, 0, 0);
    test_destroy_stream(gone);
}

TEST(noted, a_fence_that_the_driver_refuses_is_not_recorded)
{
    void *block = test_alloc(world.pool, 1000, world.stream);

    OK(tarn_record_stream(block, world.side));
    sim.plan_fault("cuEventRecord", 1, false, TN_CUDA_ERROR_OUT_OF_MEMORY);
    OK(tarn_free(block));
    (void)sim.clear_fault(NULL);
    look();
    ck_assert_uint_eq(count_notes(TN_NOTE_STREAM_USED), 1);
    ck_assert_uint_eq(count_notes(TN_NOTE_FENCE_RECORDED), 0);
    test_wait_for_all();
    OK(tarn_device_trim(world.device, 0, NULL));
}

TEST(noted, the_ladder_is_climbed_down_and_memory_is_out)
{
    void *block = NULL;
    size_t free_bytes;

    OK(tarn_pool_set_limit(world.pool, 4 * MIB));
    free_bytes = test_free_bytes();
    STATUS(TARN_ERR_LIMIT, tarn_pool_malloc(world.pool, 8 * MIB, 0, world.stream, &block));
    look();
    expect_one(TN_NOTE_OUT_OF_MEMORY, world.pool, 8 * MIB, free_bytes, TARN_ERR_LIMIT);
    ck_assert_uint_eq(count_notes(TN_NOTE_RUNG), 6 + 1 + 6);
    for (size_t i = 0, at = 0; i < 13; i++) {
        const struct tn_note_words *rung = next(TN_NOTE_RUNG, &at);

        ck_assert_uint_eq(rung->operands[0], i <= 6 ? i : i - 7);
        ck_assert_uint_eq(rung->operands[1], 8 * MIB);
        ck_assert_uint_eq(rung->pool, world.pool->holds.pool_serial);
    }
}

TEST(noted, snapshots_are_taken)
{
    tarn_snapshot *snapshot;
    void *block = test_alloc(world.pool, 1000, world.stream);

    look();
    OK(tarn_snapshot_take(world.device, world.pool, &snapshot));
    look();
    expect_one(TN_NOTE_SNAPSHOT, world.pool, snapshot->block_count, 0, 0);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    look();
    expect_one(TN_NOTE_SNAPSHOT, NULL, snapshot->block_count, 0, 0);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(block));
}

static atomic_size_t turn;

/* The threads allocate in turn. */
static void *take_turns(void *number)
{
    const size_t own = *(const size_t *)number;

    for (size_t i = 0; i < 100; i++) {
        while (atomic_load(&turn) % THREADS != own)
            (void)sched_yield();
        OK(tarn_free(test_malloc(1000)));
        atomic_fetch_add(&turn, 1);
    }
    return NULL;
}

static bool is_begun(enum tn_note note, uint64_t writer)
{
    bool found = false;

    for (size_t i = 0; i < note_count; i++)
        found = found || (notes[i].note == note && notes[i].operands[0] == writer);
    return found;
}

TEST(noted, magazines_are_their_arenas)
{
    static const size_t numbers[THREADS] = {0, 1, 2, 3};
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_turns, (void *)&numbers[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    look();
    ck_assert_uint_gt(count_notes(TN_NOTE_MAGAZINE_BEGUN), 0);
    for (size_t i = 0; i < note_count; i++) {
        if (notes[i].note == TN_NOTE_MAGAZINE_BEGUN)
            ck_assert(is_begun(TN_NOTE_ARENA_BEGUN, notes[i].operands[1]));
        if (notes[i].note == TN_NOTE_MAGAZINE_ENDED)
            ck_assert(is_begun(TN_NOTE_MAGAZINE_BEGUN, notes[i].operands[0]));
    }
    /* Each writer of blocks is one of the two. */
    for (size_t i = 0; i < told.event_count; i++) {
        if (told.events[i].kind == TN_HISTORY_ALLOC)
            ck_assert(is_begun(TN_NOTE_ARENA_BEGUN, told.events[i].writer) ||
                      is_begun(TN_NOTE_MAGAZINE_BEGUN, told.events[i].writer));
    }
}

static void *create_pools(void *pools)
{
    for (size_t i = 0; i < 50; i++)
        ((tarn_pool **)pools)[i] = test_pool("many");
    return NULL;
}

/* Pools have rising numbers; those of one thread are made in order. */
TEST(noted, events_of_all_writers_are_put_in_the_order_of_their_time)
{
    static tarn_pool *pools[THREADS][50];
    pthread_t threads[THREADS];
    uint64_t last[THREADS] = {0};

    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, create_pools, pools[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    read_history();
    for (size_t i = 1; i < told.event_count; i++) {
        const struct tn_told_event *left = &told.events[i - 1];
        const struct tn_told_event *right = &told.events[i];

        ck_assert_uint_le(left->since, right->since);
        if (left->writer == right->writer)
            ck_assert(left->place < right->place ||
                      (left->place == right->place && left->at <= right->at));
    }
    for (size_t i = 0; i < told.event_count; i++) {
        if (told.events[i].note.note != TN_NOTE_POOL_CREATED)
            continue;
        for (size_t j = 0; j < THREADS; j++) {
            for (size_t k = 0; k < 50; k++) {
                if (pools[j][k]->holds.pool_serial != told.events[i].note.pool)
                    continue;
                ck_assert_uint_eq(last[j], k);
                last[j] = k + 1;
            }
        }
    }
    for (size_t j = 0; j < THREADS; j++) {
        ck_assert_uint_eq(last[j], 50);
        for (size_t k = 0; k < 50; k++)
            OK(tarn_pool_destroy(pools[j][k]));
    }
}
