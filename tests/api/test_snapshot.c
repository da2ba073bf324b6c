// SPDX-License-Identifier: Apache-2.0
/* Snapshots of a device and of a pool: what they show, that they show one moment, and that they are
 * written. tests/tools/test_snapshot.py reads a written one. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/world.h"

enum { BYTES = 4096 };

/* Whether blocks tile their segment, and the segment has their sums. */
static void expect_segment(const tarn_snapshot_segment *segment)
{
    const char *at = segment->address;
    size_t allocated = 0;
    size_t active = 0;
    size_t requested = 0;

    ck_assert_uint_gt(segment->block_count, 0);
    for (size_t i = 0; i < segment->block_count; i++) {
        const tarn_snapshot_block *block = &segment->blocks[i];

        ck_assert_ptr_eq(block->address, at);
        ck_assert_uint_gt(block->block_bytes, 0);
        ck_assert_uint_le(block->bytes, block->block_bytes);
        ck_assert_int_ne(block->state, TARN_EXTENT_UNMAPPED);
        ck_assert_int_eq(block->state == TARN_EXTENT_FREE, block->sequence == 0);
        ck_assert_int_eq(block->state == TARN_EXTENT_FREE, block->bytes == 0);
        at += block->block_bytes;
        requested += block->bytes;
        active += block->state != TARN_EXTENT_FREE ? block->block_bytes : 0;
        allocated += block->state == TARN_EXTENT_LIVE || block->state == TARN_EXTENT_DISCARDED
                         ? block->block_bytes
                         : 0;
    }
    ck_assert_ptr_eq(at, (char *)segment->address + segment->bytes);
    ck_assert_uint_eq(segment->allocated_bytes, allocated);
    ck_assert_uint_eq(segment->active_bytes, active);
    ck_assert_uint_eq(segment->requested_bytes, requested);
    ck_assert_uint_le(segment->held_bytes, segment->bytes);
}

/* Whether the snapshot agrees with itself. */
static void expect_whole(const tarn_snapshot *snapshot)
{
    size_t blocks = 0;

    for (size_t p = 1; p < snapshot->pool_count; p++)
        ck_assert_uint_gt(snapshot->pools[p - 1].number, snapshot->pools[p].number);
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const tarn_snapshot_segment *segment = &snapshot->segments[i];

        expect_segment(segment);
        ck_assert(i == 0 ||
                  (char *)segment[-1].address + segment[-1].bytes <= (char *)segment->address);
        ck_assert(segment->pool >= snapshot->pools &&
                  segment->pool < snapshot->pools + snapshot->pool_count);
        blocks += segment->block_count;
    }
    ck_assert_uint_eq(snapshot->block_count, blocks);
    for (size_t p = 0; p < snapshot->pool_count; p++) {
        uint64_t mapped = 0;

        for (size_t i = 0; i < snapshot->segment_count; i++) {
            if (snapshot->segments[i].pool == &snapshot->pools[p])
                mapped += snapshot->segments[i].bytes;
        }
        ck_assert_uint_eq(snapshot->pools[p].mapped_bytes, mapped);
    }
}

/* pool: NULL: all. */
static tarn_snapshot *take(tarn_pool *pool)
{
    tarn_snapshot *snapshot = NULL;

    OK(tarn_snapshot_take(world.device, pool, &snapshot));
    expect_whole(snapshot);
    return snapshot;
}

static const tarn_snapshot_pool *find_pool(const tarn_snapshot *snapshot, const tarn_pool *pool)
{
    for (size_t i = 0; i < snapshot->pool_count; i++) {
        if (snapshot->pools[i].pool == pool)
            return &snapshot->pools[i];
    }
    ck_abort_msg("a pool is not in the snapshot");
    return NULL;
}

static const tarn_snapshot_segment *find_segment(const tarn_snapshot *snapshot, const void *address)
{
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const tarn_snapshot_segment *segment = &snapshot->segments[i];

        if ((uintptr_t)address - (uintptr_t)segment->address < segment->bytes)
            return segment;
    }
    return NULL;
}

/* The block that begins at the address; NULL: none does. */
static const tarn_snapshot_block *find_block(const tarn_snapshot *snapshot, const void *address)
{
    const tarn_snapshot_segment *segment = find_segment(snapshot, address);

    for (size_t i = 0; segment != NULL && i < segment->block_count; i++) {
        if (segment->blocks[i].address == address)
            return &segment->blocks[i];
    }
    return NULL;
}

/* The block that has the address; NULL: none. */
static const tarn_snapshot_block *find_around(const tarn_snapshot *snapshot, const void *address)
{
    const tarn_snapshot_segment *segment = find_segment(snapshot, address);

    for (size_t i = 0; segment != NULL && i < segment->block_count; i++) {
        const tarn_snapshot_block *block = &segment->blocks[i];

        if ((uintptr_t)address - (uintptr_t)block->address < block->block_bytes)
            return block;
    }
    return NULL;
}

/* Whether the snapshot has the extents of the pool's layout that are mapped, and its statistics. Free
 * extents that touch each other are one block. */
static void expect_pool(const tarn_snapshot *snapshot, tarn_pool *pool)
{
    const tarn_snapshot_pool *found = find_pool(snapshot, pool);
    struct test_stats stats = test_stats(pool);
    tarn_layout *layout = NULL;
    uint64_t live = 0;
    uint64_t requested = 0;

    OK(tarn_pool_layout(pool, &layout));
    for (size_t i = 0; i < layout->extent_count; i++) {
        const tarn_extent *extent = &layout->extents[i];
        const tarn_snapshot_block *block = find_around(snapshot, extent->address);

        ck_assert_int_eq(block == NULL, extent->state == TARN_EXTENT_UNMAPPED);
        if (block == NULL)
            continue;
        if (extent->state == TARN_EXTENT_FREE) {
            ck_assert_uint_ge((uintptr_t)block->address + block->block_bytes,
                              (uintptr_t)extent->address + extent->bytes);
        } else {
            ck_assert_ptr_eq(block->address, extent->address);
            ck_assert_uint_eq(block->block_bytes, extent->bytes);
        }
        ck_assert_int_eq(block->state, extent->state);
        ck_assert_ptr_eq(find_segment(snapshot, extent->address)->pool, found);
        if (block->state != TARN_EXTENT_LIVE)
            continue;
        ck_assert_uint_eq(block->sequence, extent->sequence);
        live += block->block_bytes;
        requested += block->bytes;
    }
    tarn_layout_destroy(layout);
    ck_assert_uint_eq(found->mapped_bytes, stats.mapped_bytes);
    ck_assert_uint_eq(found->capture_count, stats.capture_count);
    ck_assert_uint_eq(found->graph_count, stats.graph_count);
    ck_assert_uint_eq(found->held_graph_count, stats.held_graph_count);
    ck_assert_uint_eq(found->checkpoint_count, stats.checkpoint_count);
    ck_assert_uint_eq(live, stats.live_bytes);
    ck_assert_uint_eq(requested, stats.requested_bytes);
}

GROUP(shown, test_world_open, test_world_close)

TEST(shown, a_device_without_memory_has_its_pools)
{
    tarn_snapshot *snapshot = take(NULL);

    ck_assert_int_eq(snapshot->device, 0);
    ck_assert_uint_eq(snapshot->pool_count, 2);
    ck_assert_uint_eq(snapshot->segment_count, 0);
    ck_assert_int_eq(snapshot->pools[0].kind, TARN_POOL_PRIVATE);
    ck_assert_str_eq(snapshot->pools[0].name, "test");
    ck_assert_int_eq(snapshot->pools[1].kind, TARN_POOL_DEFAULT);
    ck_assert_str_eq(snapshot->pools[1].name, "default");
    tarn_snapshot_destroy(snapshot);
    tarn_snapshot_destroy(NULL);
}

TEST(shown, a_snapshot_agrees_with_layouts_and_statistics)
{
    enum { BLOCKS = 400 };
    tarn_pool *pools[] = {world.pool, world.default_pool};
    tn_cu_stream streams[] = {world.stream, world.side, NULL};
    void *blocks[BLOCKS];
    tarn_snapshot *snapshot;

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] =
            test_alloc(pools[i % 2], i % 50 == 0 ? 70 * MIB : 100 + 700 * i, streams[i % 3]);
    for (size_t i = 0; i < BLOCKS; i += 3)
        OK(tarn_free(blocks[i]));
    snapshot = take(NULL);
    for (size_t i = 0; i < 2; i++)
        expect_pool(snapshot, pools[i]);
    tarn_snapshot_destroy(snapshot);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 3 != 0)
            OK(tarn_free(blocks[i]));
    }
}

TEST(shown, blocks_have_their_states_tags_and_numbers)
{
    void *live = test_alloc(world.pool, 1000, world.stream);
    void *pending = test_alloc(world.pool, 2000, world.stream);
    void *freed = test_alloc(world.pool, 3000, world.stream);
    void *fence = test_alloc(world.pool, 512, world.stream); /* keeps what is freed apart */
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *discarded = test_alloc(world.pool, 4000, world.stream);
    const tarn_snapshot_block *block;
    tarn_snapshot *snapshot;
    tarn_block described;

    OK(tarn_capture_abort(capture));
    OK(tarn_block_set_tag(live, 99));
    OK(tarn_block_set_tag(pending, 98));
    OK(tarn_block_at(live, &described));
    sim.hold_work();
    test_spin(world.side, 1);
    OK(tarn_free_on(pending, world.side));
    OK(tarn_free(freed));
    snapshot = take(world.pool);
    block = find_block(snapshot, live);
    ck_assert_int_eq(block->state, TARN_EXTENT_LIVE);
    ck_assert_uint_eq(block->bytes, 1000);
    ck_assert_uint_eq(block->block_bytes, 1024);
    ck_assert_uint_eq(block->sequence, described.sequence);
    ck_assert_uint_eq(block->tag, 99);
    block = find_block(snapshot, pending);
    ck_assert_int_eq(block->state, TARN_EXTENT_PENDING);
    ck_assert_uint_eq(block->bytes, 2000);
    ck_assert_uint_eq(block->sequence, described.sequence + 1);
    ck_assert_uint_eq(block->tag, 98);
    block = find_block(snapshot, freed);
    ck_assert_int_eq(block->state, TARN_EXTENT_FREE);
    ck_assert_uint_eq(block->block_bytes, 3072);
    ck_assert_uint_eq(block->tag, 0);
    ck_assert_int_eq(find_block(snapshot, discarded)->state, TARN_EXTENT_DISCARDED);
    expect_pool(snapshot, world.pool);
    tarn_snapshot_destroy(snapshot);
    sim.resume_work();
    OK(tarn_free(live));
    OK(tarn_free(fence));
    OK(tarn_free(discarded));
    test_await_destructors(0);
}

/* Where checkpoints are, pending blocks of captures wait for a settlement when their users are gone, each
 * for itself. */
TEST(shown, pending_blocks_that_nobody_uses_any_more_are_free)
{
    enum { BLOCKS = 300 };
    void *blocks[BLOCKS];
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    tarn_checkpoint *checkpoint;
    tarn_snapshot *snapshot;
    tarn_graph *graph;

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = test_alloc(world.pool, 512, world.stream);
    graph = test_capture_end(capture);
    checkpoint = test_take(TARN_CONTENTS_NONE);
    test_spin(world.side, 1);
    for (size_t i = 0; i < BLOCKS; i++)
        OK(tarn_free_on(blocks[i], world.side));
    test_synchronize(world.side);
    test_synchronize(world.stream);
    OK(tarn_device_collect(world.device));
    snapshot = take(NULL);
    ck_assert_int_eq(find_block(snapshot, blocks[0])->state, TARN_EXTENT_FREE);
    ck_assert_uint_ge(find_block(snapshot, blocks[0])->block_bytes, BLOCKS * 512);
    ck_assert_ptr_null(find_block(snapshot, blocks[7])); /* free in one piece */
    expect_pool(snapshot, world.pool);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
}

TEST(shown, a_snapshot_of_a_pool_has_that_pool_alone)
{
    void *mine = test_alloc(world.pool, BYTES, world.stream);
    void *others = test_malloc(BYTES);
    tarn_snapshot *snapshot = take(world.pool);

    ck_assert_uint_eq(snapshot->pool_count, 1);
    ck_assert_ptr_eq(snapshot->pools[0].pool, world.pool);
    ck_assert_ptr_nonnull(find_block(snapshot, mine));
    ck_assert_ptr_null(find_segment(snapshot, others));
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(mine));
    OK(tarn_free(others));
}

TEST(shown, segments_are_cut_where_a_trim_has_unmapped_memory)
{
    char *blocks[3];
    tarn_snapshot *snapshot;

    for (size_t i = 0; i < 3; i++)
        blocks[i] = test_alloc(world.pool, 8 * MIB, world.stream);
    ck_assert_ptr_eq(blocks[1], blocks[0] + 8 * MIB);
    ck_assert_ptr_eq(blocks[2], blocks[1] + 8 * MIB);
    snapshot = take(NULL);
    ck_assert_ptr_eq(find_segment(snapshot, blocks[0]), find_segment(snapshot, blocks[2]));
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(blocks[1]));
    OK(tarn_pool_trim(world.pool, NULL));
    snapshot = take(NULL);
    ck_assert_ptr_null(find_segment(snapshot, blocks[1] + 4 * MIB));
    ck_assert_ptr_ne(find_segment(snapshot, blocks[0]), find_segment(snapshot, blocks[2]));
    expect_pool(snapshot, world.pool);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[2]));
}

TEST(shown, segments_have_their_streams)
{
    void *blocks[] = {test_alloc(world.pool, BYTES, world.stream),
                      test_alloc(world.pool, BYTES, world.side),
                      test_alloc(world.pool, BYTES, NULL)};
    tarn_snapshot *snapshot = take(world.pool);
    const tarn_snapshot_segment *segments[3];

    for (size_t i = 0; i < 3; i++) {
        segments[i] = find_segment(snapshot, blocks[i]);
        ck_assert(segments[i]->is_small);
        ck_assert_uint_ne(segments[i]->stream_id, 0);
        ck_assert_uint_eq(segments[i]->capture_id, 0);
        ck_assert_uint_eq(segments[i]->held_bytes, 0);
    }
    ck_assert_ptr_eq(segments[0]->stream, world.stream);
    ck_assert_ptr_eq(segments[1]->stream, world.side);
    ck_assert_ptr_null(segments[2]->stream);
    ck_assert_uint_ne(segments[0]->stream_id, segments[1]->stream_id);
    tarn_snapshot_destroy(snapshot);
    for (size_t i = 0; i < 3; i++)
        OK(tarn_free(blocks[i]));
}

TEST(shown, a_capture_under_way_and_its_graph_hold_memory)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    void *block = test_alloc(world.pool, 3 * MIB, world.stream);
    tarn_snapshot *snapshot = take(NULL);
    const tarn_snapshot_segment *segment = find_segment(snapshot, block);
    tarn_graph *graph;

    ck_assert_uint_eq(find_pool(snapshot, world.pool)->capture_count, 1);
    ck_assert_uint_eq(find_pool(snapshot, world.pool)->route_count, 1);
    ck_assert_ptr_eq(segment->stream, world.stream);
    ck_assert_uint_ne(segment->capture_id, 0);
    ck_assert_uint_eq(segment->stream_id, 0);
    ck_assert(!segment->is_small);
    ck_assert_uint_ge(segment->held_bytes, 3 * MIB);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(block));
    graph = test_capture_end(capture);
    snapshot = take(world.pool);
    segment = find_segment(snapshot, block);
    ck_assert_uint_eq(snapshot->pools[0].capture_count, 0);
    ck_assert_uint_eq(snapshot->pools[0].graph_count, 1);
    ck_assert_uint_eq(snapshot->pools[0].held_graph_count, 1);
    ck_assert_ptr_null(segment->stream);
    ck_assert_uint_eq(segment->capture_id, 0);
    ck_assert_uint_ge(segment->held_bytes, 3 * MIB);
    expect_pool(snapshot, world.pool);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
}

TEST(shown, a_checkpoint_is_counted_and_its_contents_are_a_block)
{
    void *block = test_alloc(world.pool, BYTES, world.stream);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    tarn_snapshot *snapshot = take(NULL);

    ck_assert_uint_eq(find_pool(snapshot, world.pool)->checkpoint_count, 1);
    expect_pool(snapshot, world.pool);
    expect_pool(snapshot, world.default_pool);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(block));
}

TEST(shown, pools_have_their_kinds_and_numbers_of_their_own)
{
    tarn_snapshot *snapshot = take(world.pool);
    uint64_t number = snapshot->pools[0].number;
    tarn_pool *released = test_pool("released");
    void *kept = test_alloc(released, BYTES, world.stream);
    void *address = NULL;

    tarn_snapshot_destroy(snapshot);
    OK(tarn_pool_release(released));
    test_begin_capture(world.stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tarn_malloc(world.device, BYTES, world.stream, &address));
    snapshot = take(NULL);
    ck_assert_uint_eq(snapshot->pool_count, 4);
    ck_assert_int_eq(snapshot->pools[0].kind, TARN_POOL_ADOPTED);
    ck_assert_int_eq(snapshot->pools[1].kind, TARN_POOL_RELEASED);
    ck_assert_ptr_null(snapshot->pools[0].pool);
    ck_assert_ptr_null(snapshot->pools[1].pool);
    ck_assert_str_eq(snapshot->pools[1].name, "released");
    ck_assert_uint_eq(snapshot->pools[2].number, number);
    ck_assert_uint_gt(snapshot->pools[1].number, number);
    number = snapshot->pools[0].number;
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(address));
    test_destroy_graph(test_end_capture(world.stream));
    OK(tarn_free(kept));
    test_await_destructors(0);
    OK(tarn_device_trim(world.device, 0, NULL));
    released = test_pool("another"); /* whose record may be that of a pool before */
    snapshot = take(released);
    ck_assert_uint_gt(snapshot->pools[0].number, number);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_pool_destroy(released));
}

TEST(shown, a_snapshot_is_a_copy)
{
    void *block = test_alloc(world.pool, BYTES, world.stream);
    tarn_snapshot *snapshot = take(NULL);

    OK(tarn_free(block));
    OK(tarn_pool_trim(world.pool, NULL));
    expect_whole(snapshot);
    ck_assert_int_eq(find_block(snapshot, block)->state, TARN_EXTENT_LIVE);
    tarn_snapshot_destroy(snapshot);
}

/* -- One moment --------------------------------------------------------------------------------------- */

enum { SLOW_BLOCKS = 3000, SNAPSHOTS = 100 };

static atomic_bool done;
static tarn_pool *passed[2];

/* One block goes from pool to pool: it is allocated there before it is freed here. */
static void *pass_on(void *block)
{
    test_set_context(test_retain(0));
    for (size_t i = 1; !atomic_load(&done); i++) {
        void *next = test_alloc(passed[i % 2], BYTES, world.side);

        OK(tarn_free(block));
        block = next;
    }
    OK(tarn_free(block));
    test_release(0);
    return NULL;
}

static size_t count_live(const tarn_snapshot *snapshot, const tarn_pool *pool)
{
    size_t live = 0;

    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const tarn_snapshot_segment *segment = &snapshot->segments[i];

        for (size_t k = 0; segment->pool->pool == pool && k < segment->block_count; k++)
            live += segment->blocks[k].state == TARN_EXTENT_LIVE;
    }
    return live;
}

/* Between the two pools stands one that takes long to copy. Pools looked at one after the other show
 * no block at all, or three. */
TEST(shown, a_snapshot_of_a_device_shows_one_moment)
{
    static void *slow_blocks[SLOW_BLOCKS];
    pthread_t thread;
    tarn_pool *slow;

    passed[0] = test_pool("older");
    slow = test_pool("slow");
    passed[1] = test_pool("newer");
    for (size_t i = 0; i < SLOW_BLOCKS; i++)
        slow_blocks[i] = test_alloc(slow, 512, world.stream);
    ck_assert_int_eq(
        pthread_create(&thread, NULL, pass_on, test_alloc(passed[0], BYTES, world.side)), 0);
    for (size_t taken = 0; taken < SNAPSHOTS; taken++) {
        tarn_snapshot *snapshot = take(NULL);
        size_t live = count_live(snapshot, passed[0]) + count_live(snapshot, passed[1]);

        ck_assert_msg(live == 1 || live == 2, "%zu blocks are live", live);
        tarn_snapshot_destroy(snapshot);
    }
    atomic_store(&done, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < SLOW_BLOCKS; i++)
        OK(tarn_free(slow_blocks[i]));
    OK(tarn_pool_destroy(slow));
    for (size_t i = 0; i < 2; i++)
        OK(tarn_pool_destroy(passed[i]));
}

/* -- Written ------------------------------------------------------------------------------------------ */

struct text {
    unsigned char *bytes;
    size_t count;
    size_t part_count;
    size_t refused_part; /* the number of the part that is refused; 0: none */
};

static tarn_status keep(const void *bytes, size_t count, void *user)
{
    struct text *text = user;

    text->part_count += 1;
    if (text->part_count == text->refused_part)
        return TARN_ERR_LIMIT;
    ck_assert_uint_gt(count, 0);
    ck_assert_uint_le(count, 64 * 1024);
    text->bytes = realloc(text->bytes, text->count + count);
    ck_assert_ptr_nonnull(text->bytes);
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    return TARN_OK;
}

static bool has(const struct text *text, const char *word)
{
    return memmem(text->bytes, text->count, word, strlen(word)) != NULL;
}

GROUP(written, test_world_open, test_world_close)

TEST(written, a_snapshot_is_a_pickle)
{
    void *block = test_alloc(world.pool, BYTES, world.stream);
    tarn_snapshot *snapshot = take(NULL);
    struct text text = {.count = 0};
    struct text again = {.count = 0};

    OK(tarn_free(block)); /* what is written is the copy */
    OK(tarn_snapshot_write_pytorch(snapshot, keep, &text));
    OK(tarn_snapshot_write_pytorch(snapshot, keep, &again));
    ck_assert_uint_eq(text.part_count, 1);
    ck_assert_mem_eq(text.bytes, "\x80\x02}", 3);
    ck_assert_int_eq(text.bytes[text.count - 1], '.');
    ck_assert(has(&text, "segments") && has(&text, "active_allocated"));
    ck_assert(!has(&text, "active_pending_free"));
    ck_assert_uint_eq(text.count, again.count);
    ck_assert_mem_eq(text.bytes, again.bytes, text.count);
    free(text.bytes);
    free(again.bytes);
    tarn_snapshot_destroy(snapshot);
}

TEST(written, a_large_snapshot_comes_in_parts_and_any_of_them_may_be_refused)
{
    enum { BLOCKS = 8000 };
    static void *blocks[BLOCKS];
    struct text text = {.count = 0};
    tarn_snapshot *snapshot;

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = test_alloc(world.pool, 512, world.stream);
    snapshot = take(NULL);
    OK(tarn_snapshot_write_pytorch(snapshot, keep, &text));
    ck_assert_uint_ge(text.part_count, 4);
    free(text.bytes);
    for (size_t refused = 1; refused <= 4; refused++) {
        text = (struct text){.refused_part = refused};
        REFUSE(TARN_ERR_LIMIT, "the writer answered TARN_ERR_LIMIT",
               tarn_snapshot_write_pytorch(snapshot, keep, &text));
        ck_assert_uint_eq(text.part_count, refused);
        free(text.bytes);
    }
    tarn_snapshot_destroy(snapshot);
    for (size_t i = 0; i < BLOCKS; i++)
        OK(tarn_free(blocks[i]));
}

/* Takes a snapshot in the middle of the writing of one, and gives back a block that it has. */
static tarn_status call_tarn(const void *bytes, size_t count, void *user)
{
    void **block = user;

    (void)bytes;
    ck_assert_uint_gt(count, 0);
    tarn_snapshot_destroy(take(NULL));
    OK(tarn_free(*block));
    *block = NULL;
    OK(tarn_pool_trim(world.pool, NULL));
    return TARN_OK;
}

TEST(written, a_writer_may_call_tarn)
{
    void *block = test_alloc(world.pool, BYTES, world.stream);
    tarn_snapshot *snapshot = take(NULL);

    OK(tarn_snapshot_write_pytorch(snapshot, call_tarn, &block));
    ck_assert_ptr_null(block);
    tarn_snapshot_destroy(snapshot);
}

/* -- Refused ------------------------------------------------------------------------------------------ */

TEST(written, no_output_no_handle_and_no_writer_are_refused)
{
    tarn_snapshot *snapshot = UNTOUCHED;
    tarn_pool *gone = test_pool("gone");

    OK(tarn_pool_destroy(gone));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "snapshot", tarn_snapshot_take(world.device, NULL, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "snapshot",
           tarn_snapshot_take(world.device, world.pool, NULL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_snapshot_take(NULL, NULL, &snapshot));
    REFUSE(TARN_ERR_INVALID_HANDLE, "pool", tarn_snapshot_take(world.device, gone, &snapshot));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "snapshot", tarn_snapshot_add_history(NULL, world.device));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_snapshot_add_history(NULL, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "snapshot", tarn_snapshot_write_pytorch(NULL, keep, NULL));
    ck_assert_untouched(snapshot);
    snapshot = take(NULL);
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "writer", tarn_snapshot_write_pytorch(snapshot, NULL, NULL));
    tarn_snapshot_destroy(snapshot);
}

GROUP(unrecorded, test_world_open_unrecorded, test_world_close)

TEST(unrecorded, a_device_without_a_history_has_none_to_add)
{
    tarn_snapshot *snapshot = take(NULL);

    REFUSE(TARN_ERR_NOT_SUPPORTED, "history", tarn_snapshot_add_history(snapshot, world.device));
    tarn_snapshot_destroy(snapshot);
}

static void open_two(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    test_world_open();
}

GROUP(devices, open_two, test_world_close)

TEST(devices, a_pool_of_another_device_is_refused_and_numbers_are_of_the_process)
{
    tarn_snapshot *snapshot = UNTOUCHED;
    tarn_snapshot *mine = take(world.pool);
    tarn_device *device = NULL;
    tarn_pool *pool = NULL;

    OK(tarn_device_open(1, NULL, &device));
    OK(tarn_pool_create(device, NULL, &pool));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "another device",
           tarn_snapshot_take(world.device, pool, &snapshot));
    ck_assert_untouched(snapshot);
    OK(tarn_snapshot_take(device, NULL, &snapshot));
    expect_whole(snapshot);
    ck_assert_int_eq(snapshot->device, 1);
    ck_assert_uint_eq(snapshot->pool_count, 2);
    ck_assert_uint_gt(snapshot->pools[1].number, mine->pools[0].number);
    tarn_snapshot_destroy(snapshot);
    tarn_snapshot_destroy(mine);
    OK(tarn_pool_destroy(pool));
    OK(tarn_device_close(device));
}

/* Numbers of stacks are of one opening. */
TEST(devices, a_history_of_another_opening_is_refused)
{
    tarn_snapshot *snapshot = NULL;
    tarn_device *device = NULL;

    OK(tarn_device_open(1, NULL, &device));
    OK(tarn_snapshot_take(device, NULL, &snapshot));
    OK(tarn_device_close(device));
    OK(tarn_device_open(1, NULL, &device));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "opened anew", tarn_snapshot_add_history(snapshot, device));
    tarn_snapshot_destroy(snapshot);
    OK(tarn_device_close(device));
}
