// SPDX-License-Identifier: Apache-2.0
/* Snapshots by the history: the same as by a walk through all blocks, whatever happens meanwhile. */
#include "observe/snapshot_live.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/host.h"
#include "observe/snapshot.h"
#include "unit/unit.h"

SUITE("snapshots by the history")

enum { BLOCKS = 3000 };

static void open_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 1 << 20;
    options.history_stacks = TARN_HISTORY_CALLERS;
    test_world_open_with(&options);
}

GROUP(live, open_world, .end = test_world_close)

static void expect_same_segment(const struct tn_snapshot *left, const struct tn_snapshot *right,
                                size_t i)
{
    const tarn_snapshot_segment *a = &left->read.segments[i];
    const tarn_snapshot_segment *b = &right->read.segments[i];

    ck_assert_ptr_eq(a->address, b->address);
    ck_assert_uint_eq(a->bytes, b->bytes);
    ck_assert_uint_eq(a->pool->number, b->pool->number);
    ck_assert_uint_eq(a->block_count, b->block_count);
    ck_assert_int_eq(a->is_small, b->is_small);
    ck_assert_ptr_eq(a->stream, b->stream);
    ck_assert_uint_eq(a->stream_id, b->stream_id);
    ck_assert_uint_eq(a->capture_id, b->capture_id);
    ck_assert_uint_eq(a->allocated_bytes, b->allocated_bytes);
    ck_assert_uint_eq(a->active_bytes, b->active_bytes);
    ck_assert_uint_eq(a->requested_bytes, b->requested_bytes);
    ck_assert_uint_eq(a->held_bytes, b->held_bytes);
    for (size_t k = 0; k < a->block_count; k++) {
        const tarn_snapshot_block *mine = &a->blocks[k];
        const tarn_snapshot_block *other = &b->blocks[k];

        ck_assert_ptr_eq(mine->address, other->address);
        ck_assert_uint_eq(mine->bytes, other->bytes);
        ck_assert_uint_eq(mine->block_bytes, other->block_bytes);
        ck_assert_uint_eq(mine->sequence, other->sequence);
        ck_assert_uint_eq(mine->tag, other->tag);
        ck_assert_int_eq(mine->state, other->state);
        ck_assert_uint_eq(tn_snapshot_stack_of(left, mine), tn_snapshot_stack_of(right, other));
    }
}

/* Nothing happens between the two. */
static void expect_same(tarn_pool *pool)
{
    struct tn_snapshot *live = tn_snapshot_take_live(world.device, pool);
    struct tn_snapshot *walked = tn_snapshot_take_by_walk(world.device, pool);

    ck_assert_ptr_nonnull(live);
    ck_assert_ptr_nonnull(walked);
    ck_assert_uint_eq(live->read.pool_count, walked->read.pool_count);
    ck_assert_uint_eq(live->read.segment_count, walked->read.segment_count);
    ck_assert_uint_eq(live->read.block_count, walked->read.block_count);
    for (size_t i = 0; i < live->read.pool_count; i++) {
        ck_assert_uint_eq(live->read.pools[i].number, walked->read.pools[i].number);
        ck_assert_uint_eq(live->read.pools[i].mapped_bytes, walked->read.pools[i].mapped_bytes);
        ck_assert_str_eq(live->read.pools[i].name, walked->read.pools[i].name);
    }
    for (size_t i = 0; i < live->read.segment_count; i++)
        expect_same_segment(live, walked, i);
    tn_host_free(live);
    tn_host_free(walked);
}

static void *malloc_in(size_t i, unsigned *seed)
{
    tn_cu_stream streams[] = {world.stream, world.side, NULL};
    size_t bytes = (size_t)rand_r(seed) % (i % 8 == 0 ? 1 << 20 : 8 << 10) + 1;
    void *address;

    if (i % 2 == 0)
        OK(tarn_pool_malloc(world.pool, bytes, 0, streams[i % 3], &address));
    else
        OK(tarn_malloc(world.device, bytes, streams[i % 3], &address));
    return address;
}

TEST(live, all_is_as_by_a_walk)
{
    static void *blocks[BLOCKS];
    unsigned seed = 1;

    expect_same(NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = malloc_in(i, &seed);
    expect_same(NULL);
    for (size_t i = 0; i < BLOCKS; i += 3) {
        OK(tarn_free(blocks[i]));
        blocks[i] = NULL;
    }
    OK(tarn_block_set_tag(blocks[1], 77));
    OK(tarn_block_set_tag(blocks[2], 78));
    OK(tarn_block_set_tag(blocks[2], 79));
    expect_same(NULL);
    expect_same(world.pool);
    expect_same(world.default_pool);
    sim.hold_work();
    test_spin(world.side, 1);
    for (size_t i = 2; i < BLOCKS / 4; i += 3) { /* of the default stream */
        OK(tarn_free_on(blocks[i], world.side));
        blocks[i] = NULL;
    }
    expect_same(NULL);
    sim.resume_work();
    test_wait_for_all();
    OK(tarn_device_trim(world.device, 0, NULL));
    expect_same(NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        OK(tarn_free(blocks[i]));
    expect_same(NULL);
}

TEST(live, memory_of_several_streams_in_one_segment_is_told_apart)
{
    void *blocks[6];

    OK(tarn_pool_reserve(world.pool, 64 << 20, world.stream));
    expect_same(world.pool);
    for (size_t i = 0; i < 6; i++)
        blocks[i] = test_alloc(world.pool, 3 << 20, i % 2 == 0 ? world.stream : world.side);
    expect_same(world.pool);
    for (size_t i = 0; i < 6; i++)
        OK(tarn_free(blocks[i]));
    expect_same(world.pool);
}

TEST(live, captures_checkpoints_and_restores_are_as_by_a_walk)
{
    void *before = test_alloc(world.pool, 100000, world.stream);
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *inside = test_alloc(world.pool, 50000, world.stream);
    tarn_checkpoint *checkpoint;
    tarn_graph *graph;

    expect_same(NULL);
    OK(tarn_free(before));
    expect_same(NULL);
    graph = test_capture_end(capture);
    checkpoint = test_take(TARN_CONTENTS_NONE);
    OK(tarn_free(inside));
    expect_same(NULL);
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    expect_same(NULL);
    OK(tarn_free(inside));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
    test_await_destructors(0);
}

/* These are in no table and in no list. */
TEST(live, discarded_blocks_need_a_walk)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_RELAXED);
    void *block = test_alloc(world.pool, 4000, world.stream);
    tarn_snapshot *snapshot;

    OK(tarn_capture_abort(capture));
    ck_assert_ptr_null(tn_snapshot_take_live(world.device, NULL));
    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    ck_assert_uint_gt(snapshot->block_count, 0);
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(block));
}

enum { THREADS = 2, FIXED = 100, SNAPSHOTS = 100 };

static void open_large(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 16 << 20;
    test_world_open_with(&options);
}

GROUP(beside, open_large, .end = test_world_close, .timeout = 120)

struct churner {
    tn_cu_stream stream;
    atomic_bool *ends;
    atomic_bool begun;
};

/* At each moment the thread has its fixed blocks, and one or two more. */
static void *churn(void *context)
{
    struct churner *own = context;
    void *fixed[FIXED];
    void *last = NULL;
    unsigned seed = (unsigned)(uintptr_t)own->stream;

    for (size_t i = 0; i < FIXED; i++)
        OK(tarn_pool_malloc(world.pool, 1000 + i, 0, own->stream, &fixed[i]));
    OK(tarn_pool_malloc(world.pool, 500, 0, own->stream, &last));
    atomic_store(&own->begun, true);
    while (!atomic_load(own->ends)) {
        void *next;

        OK(tarn_pool_malloc(world.pool, (size_t)rand_r(&seed) % 3000 + 1, 0, own->stream, &next));
        OK(tarn_free(last));
        last = next;
    }
    OK(tarn_free(last));
    for (size_t i = 0; i < FIXED; i++)
        OK(tarn_free(fixed[i]));
    return NULL;
}

static size_t count_live(const struct tn_snapshot *snapshot, tn_cu_stream stream)
{
    size_t count = 0;

    for (size_t i = 0; i < snapshot->read.segment_count; i++) {
        const tarn_snapshot_segment *segment = &snapshot->read.segments[i];

        for (size_t k = 0; segment->stream == (tarn_stream)stream && k < segment->block_count; k++)
            count += segment->blocks[k].state == TARN_EXTENT_LIVE;
    }
    return count;
}

TEST(beside, threads_that_go_on_are_shown_at_one_moment)
{
    struct churner churners[THREADS] = {{.stream = world.stream}, {.stream = world.side}};
    pthread_t threads[THREADS];
    atomic_bool ends = false;
    size_t taken = 0;

    for (size_t i = 0; i < THREADS; i++) {
        churners[i].ends = &ends;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &churners[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        while (!atomic_load(&churners[i].begun))
            (void)usleep(100);
    }
    for (size_t n = 0; n < SNAPSHOTS; n++) {
        struct tn_snapshot *snapshot =
            tn_snapshot_take_live(world.device, n % 2 == 0 ? NULL : world.pool);

        taken += snapshot != NULL;
        for (size_t i = 0; snapshot != NULL && i < THREADS; i++) {
            const size_t count = count_live(snapshot, churners[i].stream);

            ck_assert_uint_ge(count, FIXED + 1);
            ck_assert_uint_le(count, FIXED + 2);
        }
        tn_host_free(snapshot);
    }
    ck_assert_uint_ge(taken, SNAPSHOTS / 4);
    atomic_store(&ends, true);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

GROUP(plain, test_world_open, .end = test_world_close)

static void take_nothing(void)
{
    tarn_snapshot *snapshot;

    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    OK(tarn_snapshot_add_history(snapshot, world.device));
    tarn_snapshot_destroy(snapshot);
    OK(tarn_device_clear_history(world.device));
}

/* Even a read would give memory to a page, or end the process where the folder has none. */
TEST(plain, pages_of_the_log_without_memory_are_left_alone)
{
    const char *path = world.device->history.file.path;
    struct stat before;
    struct stat after;

    ck_assert_str_ne(path, "");
    ck_assert_int_eq(stat(path, &before), 0);
    ck_assert_int_lt(before.st_blocks * 512, before.st_size);
    take_nothing();
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_int_eq(after.st_blocks, before.st_blocks);
}
