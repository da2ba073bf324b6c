// SPDX-License-Identifier: Apache-2.0
/* Stacks in a pickle, and their copies in a snapshot. */
#include "observe/pickle_frames.h"

#include "base/host.h"
#include "observe/snapshot.h"
#include "unit/unit.h"

SUITE("stacks of snapshots")

enum { BLOCKS = 4 };

static struct {
    unsigned char bytes[1 << 16];
    size_t count;
} got;

static tarn_status keep(void *context, const void *bytes, size_t count)
{
    (void)context;
    ck_assert_uint_le(got.count + count, sizeof got.bytes);
    memcpy(got.bytes + got.count, bytes, count);
    got.count += count;
    return TARN_OK;
}

static void open_world(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.history_bytes = 1 << 20;
    options.history_stacks = TARN_HISTORY_CALLERS;
    test_world_open_with(&options);
}

GROUP(stacks, open_world, .end = test_world_close)

static __attribute__((noinline)) void *alloc_here(void)
{
    void *address;

    OK(tarn_malloc(world.device, 4096, world.stream, &address));
    __asm__ volatile("" ::: "memory");
    return address;
}

static const tarn_snapshot_block *block_at(const tarn_snapshot *snapshot, const void *address)
{
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        for (size_t k = 0; k < snapshot->segments[i].block_count; k++) {
            if (snapshot->segments[i].blocks[k].address == address)
                return &snapshot->segments[i].blocks[k];
        }
    }
    ck_abort_msg("no block at the address");
    return NULL;
}

static const struct tn_snapshot *whole(const tarn_snapshot *snapshot)
{
    return (const struct tn_snapshot *)(const void *)snapshot;
}

TEST(stacks, a_block_has_the_stack_of_its_allocation_and_a_free_one_has_none)
{
    void *blocks[BLOCKS];
    tarn_snapshot *snapshot;
    uint32_t first;

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = i < BLOCKS - 1 ? alloc_here() : test_malloc(4096);
    OK(tarn_free(blocks[1]));
    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    first = tn_snapshot_stack_of(whole(snapshot), block_at(snapshot, blocks[0]));
    ck_assert_uint_ne(first, 0);
    ck_assert_uint_eq(tn_snapshot_stack_of(whole(snapshot), block_at(snapshot, blocks[2])), first);
    ck_assert_uint_ne(tn_snapshot_stack_of(whole(snapshot), block_at(snapshot, blocks[3])), first);
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        for (size_t k = 0; k < snapshot->segments[i].block_count; k++) {
            const tarn_snapshot_block *block = &snapshot->segments[i].blocks[k];

            ck_assert_int_eq(tn_snapshot_stack_of(whole(snapshot), block) == 0,
                             block->state == TARN_EXTENT_FREE);
        }
    }
    tarn_snapshot_destroy(snapshot);
    for (size_t i = 0; i < BLOCKS; i++)
        OK(i == 1 ? TARN_OK : tarn_free(blocks[i]));
}

/* A block that waits was freed, and its table's number is 0; its stack is still known. */
TEST(stacks, a_pending_block_keeps_its_stack)
{
    void *block = alloc_here();
    tarn_snapshot *snapshot;

    sim.hold_work();
    test_spin(world.side, 1);
    OK(tarn_free_on(block, world.side));
    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    ck_assert_int_eq(block_at(snapshot, block)->state, TARN_EXTENT_PENDING);
    ck_assert_uint_ne(tn_snapshot_stack_of(whole(snapshot), block_at(snapshot, block)), 0);
    tarn_snapshot_destroy(snapshot);
    sim.resume_work();
}

/* Each stack as a list, and by its number afterwards. */
TEST(stacks, a_list_is_written_once_and_then_named)
{
    void *block = alloc_here();
    struct tn_pickle pickle;
    struct tn_pickle_frames frames;
    tarn_snapshot *snapshot;
    uint32_t id;
    size_t first_bytes;

    OK(tarn_snapshot_take(world.device, NULL, &snapshot));
    id = tn_snapshot_stack_of(whole(snapshot), block_at(snapshot, block));
    OK(tarn_free(block));
    got.count = 0;
    OK(tn_pickle_frames_begin(&frames, &whole(snapshot)->stacks));
    OK(tn_pickle_begin(&pickle, keep, NULL));
    tn_pickle_begin_list(&pickle);
    tn_pickle_frames_put(&frames, &pickle, id);
    first_bytes = pickle.used;
    tn_pickle_frames_put(&frames, &pickle, id);
    ck_assert_uint_eq(pickle.used, first_bytes + 5);
    tn_pickle_frames_put(&frames, &pickle, TN_STACKS_NONE);
    ck_assert_uint_eq(pickle.used, first_bytes + 8); /* an empty list */
    tn_pickle_frames_put(&frames, &pickle, TN_STACKS_FULL);
    tn_pickle_frames_put(&frames, &pickle, UINT32_MAX); /* the snapshot's copy has none such */
    tn_pickle_end_list(&pickle);
    OK(tn_pickle_end(&pickle));
    tn_pickle_frames_end(&frames);
    tarn_snapshot_destroy(snapshot);
}

TEST(stacks, no_memory_copies_and_writes_nothing)
{
    tarn_snapshot *snapshot = NULL;
    struct tn_pickle_frames frames;
    void *block = alloc_here();
    bool failed = true;

    for (uint64_t nth = 1; failed; nth++) { /* until no allocation fails */
        tarn_status status;

        snapshot = NULL;
        (void)tn_host_plan_fault(nth, false);
        status = tarn_snapshot_take(world.device, NULL, &snapshot);
        failed = tn_host_plan_fault(0, false) > 0;
        ck_assert_int_eq(status, snapshot == NULL ? TARN_ERR_HOST_MEMORY : TARN_OK);
        if (failed)
            tarn_snapshot_destroy(snapshot);
    }
    for (uint64_t nth = 1; nth <= 3; nth++) {
        (void)tn_host_plan_fault(nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, tn_pickle_frames_begin(&frames, &whole(snapshot)->stacks));
        (void)tn_host_plan_fault(0, false);
    }
    tarn_snapshot_destroy(snapshot);
    OK(tarn_free(block));
}
