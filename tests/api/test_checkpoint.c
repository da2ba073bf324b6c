// SPDX-License-Identifier: Apache-2.0
/* Checkpoints: what a restore brings back, frees and leaves alone; what it says of that. */
#include <stdio.h>

#include "support/world.h"

enum { WORDS = 4096 };

static void expect(const void *address, uint32_t value)
{
    test_expect_words(world.stream, address, value, WORDS);
}

SUITE("checkpoints")
GROUP(restore, test_world_open, test_world_close)

TEST(restore, an_unchanged_pool_is_restored_to_itself)
{
    void *address = test_filled(WORDS, 1);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);

    for (int i = 0; i < 3; i++)
        tarn_delta_destroy(test_restore(checkpoint, 0, 0));
    expect(address, 1);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

TEST(restore, blocks_of_later_are_freed_and_blocks_of_then_are_revived)
{
    void *kept = test_filled(WORDS, 1);
    void *gone = test_filled(WORDS, 2);
    tarn_checkpoint *checkpoint;
    tarn_block before;
    tarn_block later;
    tarn_block after;
    tarn_delta *delta;
    void *newer;

    OK(tarn_block_at(gone, &before));
    checkpoint = test_take(TARN_CONTENTS_NONE);
    ck_assert_uint_eq(test_stats(world.pool).checkpoint_count, 1);
    OK(tarn_free(gone));
    newer = test_alloc(world.pool, 3 * MIB + 5, world.stream);
    OK(tarn_block_at(newer, &later));
    delta = test_restore(checkpoint, 1, 1);
    ck_assert_ptr_eq(delta->freed[0].address, newer);
    ck_assert_uint_eq(delta->freed[0].bytes, 3 * MIB + 5);
    ck_assert_uint_eq(delta->freed[0].block_bytes, 3 * MIB + 512);
    ck_assert_uint_eq(delta->freed[0].sequence, later.sequence);
    ck_assert_ptr_eq(delta->freed[0].pool, world.pool);
    ck_assert_ptr_eq(delta->revived[0].block.address, gone);
    ck_assert_uint_eq(delta->revived[0].block.bytes, WORDS * 4);
    ck_assert_uint_eq(delta->revived[0].block.sequence, before.sequence);
    ck_assert(delta->revived[0].undefined);
    tarn_delta_destroy(delta);
    OK(tarn_block_at(gone, &after));
    ck_assert_uint_eq(after.sequence, before.sequence);
    ck_assert_uint_eq(after.bytes, before.bytes);
    ck_assert_uint_eq(test_stats(world.pool).live_count, 2);
    REFUSE(TARN_ERR_DOUBLE_FREE, "0x", tarn_free(newer));
    expect(kept, 1); /* untouched */
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(kept));
    OK(tarn_free(gone));
}

TEST(restore, the_same_address_with_another_block_is_freed_and_revived)
{
    void *address = test_filled(WORDS, 1);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);
    tarn_delta *delta;

    OK(tarn_free(address));
    ck_assert_ptr_eq(test_filled(WORDS, 2), address);
    delta = test_restore(checkpoint, 1, 1);
    ck_assert_ptr_eq(delta->freed[0].address, address);
    ck_assert_ptr_eq(delta->revived[0].block.address, address);
    ck_assert_uint_lt(delta->revived[0].block.sequence, delta->freed[0].sequence);
    tarn_delta_destroy(delta);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

TEST(restore, the_delta_may_be_left_out)
{
    void *address = test_filled(WORDS, 1);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);

    OK(tarn_free(address));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 1);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

TEST(restore, an_empty_checkpoint_frees_everything)
{
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);

    for (int i = 0; i < 100; i++)
        (void)test_alloc(world.pool, (size_t)(i % 7 + 1) * 300000, world.stream);
    tarn_delta_destroy(test_restore(checkpoint, 100, 0));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 0);
    OK(tarn_checkpoint_destroy(checkpoint));
}

TEST(restore, contents_come_back)
{
    void *kept = test_filled(WORDS, 1);
    void *gone = test_filled(WORDS, 2);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    tarn_delta *delta;

    for (uint32_t round = 0; round < 3; round++) {
        test_fill(world.stream, kept, 100 + round, WORDS);
        OK(tarn_free(gone));
        test_fill(world.stream, test_filled(WORDS, 50), 51, WORDS);
        delta = test_restore(checkpoint, 1, 1);
        ck_assert(!delta->revived[0].undefined);
        tarn_delta_destroy(delta);
        expect(kept, 1); /* of untouched blocks too */
        expect(gone, 2);
    }
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(kept));
    OK(tarn_free(gone));
}

TEST(restore, contents_are_copied_behind_the_work_that_is_there)
{
    void *address = test_filled(WORDS, 1);
    tarn_checkpoint *checkpoint;

    sim.hold_work();
    test_add(world.stream, address, 4, WORDS);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    test_add(world.stream, address, 100, WORDS);
    sim.resume_work();
    expect(address, 105);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    expect(address, 5);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

TEST(restore, contents_may_be_restored_on_another_stream)
{
    void *address = test_filled(WORDS, 1);
    tarn_checkpoint *checkpoint;

    test_spin(world.stream, 20);
    checkpoint = test_take(TARN_CONTENTS_DEVICE); /* the copy waits behind the spin */
    test_fill(world.stream, address, 9, WORDS);
    OK(tarn_checkpoint_restore(checkpoint, world.side, NULL));
    test_expect_words(world.side, address, 1, WORDS);
    test_fill(world.side, address, 3, WORDS);
    test_order(world.side, world.stream);
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    expect(address, 1);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

TEST(restore, a_restore_on_another_stream_comes_after_the_copies_out)
{
    void *address = test_alloc(world.pool, WORDS * 4, world.side);
    tarn_checkpoint *checkpoint;

    test_fill(world.side, address, 1, WORDS);
    test_synchronize(world.side);
    test_spin(world.stream, 20);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    OK(tarn_checkpoint_restore(checkpoint, world.side, NULL)); /* the block's own stream */
    test_expect_words(world.side, address, 1, WORDS);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

TEST(restore, a_checkpoint_may_be_destroyed_while_its_copies_run)
{
    void *address = test_filled(WORDS, 1);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    void *others[8];

    test_fill(world.stream, address, 9, WORDS);
    test_synchronize(world.stream);
    sim.hold_work();
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_checkpoint_destroy(checkpoint));
    for (int i = 0; i < 8; i++) { /* the copies' memory is not handed to another stream */
        others[i] = test_alloc(world.default_pool, WORDS * 4, world.side);
        test_fill(world.side, others[i], 0xdead, WORDS);
    }
    sim.resume_work();
    expect(address, 1);
    for (int i = 0; i < 8; i++)
        OK(tarn_free(others[i]));
    OK(tarn_free(address));
}

TEST(restore, contents_come_back_from_page_locked_memory)
{
    void *kept = test_filled(WORDS, 1);
    void *gone = test_filled(WORDS, 2);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_HOST);

    for (uint32_t round = 0; round < 3; round++) {
        test_fill(world.stream, kept, 100 + round, WORDS);
        OK(tarn_free(gone));
        test_fill(world.stream, test_filled(WORDS, 50), 51, WORDS);
        OK(tarn_pool_trim(world.pool, NULL));
        tarn_delta_destroy(test_restore(checkpoint, 1, 1));
        expect(kept, 1);
        expect(gone, 2);
        OK(tarn_checkpoint_verify(checkpoint, world.stream));
    }
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(kept));
    OK(tarn_free(gone));
}

TEST(restore, a_byte_of_the_contents_that_has_changed_is_found)
{
    void *first = test_filled(WORDS, 1);
    void *second = test_filled(WORDS, 2);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    tarn_block block;
    char number[32];

    OK(tarn_checkpoint_verify(checkpoint, world.stream));
    OK(tarn_checkpoint_verify(checkpoint, world.side));
    OK(tarn_block_at(second, &block));
    (void)snprintf(number, sizeof number, "block %llu,", (unsigned long long)block.sequence);
    test_flip_byte(world.stream, (char *)test_live_block(world.default_pool) + WORDS * 4 + 77);
    STATUS(TARN_ERR_CORRUPT, tarn_checkpoint_verify(checkpoint, world.stream));
    ck_assert_msg(strstr(tarn_last_error(), number) != NULL, "%s", tarn_last_error());
    test_flip_byte(world.stream, (char *)test_live_block(world.default_pool) + WORDS * 4 + 77);
    OK(tarn_checkpoint_verify(checkpoint, world.stream));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(first));
    OK(tarn_free(second));
}

TEST(restore, memory_for_contents_is_of_the_default_pool_and_goes_with_the_checkpoint)
{
    void *address = test_alloc(world.pool, 8 * MIB, world.stream);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);

    ck_assert_uint_ge(test_stats(world.default_pool).live_bytes, 8 * MIB);
    ck_assert_uint_le(test_stats(world.default_pool).live_bytes, 8 * MIB + 1024);
    OK(tarn_checkpoint_destroy(checkpoint));
    ck_assert_uint_eq(test_stats(world.default_pool).live_bytes, 0);
    ck_assert_uint_eq(test_stats(world.pool).checkpoint_count, 0);
    OK(tarn_free(address));
}

TEST(restore, a_restore_after_a_trim_maps_the_memory_again)
{
    void *first = test_alloc(world.pool, 8 * MIB, world.stream);
    void *kept = test_alloc(world.pool, 512, world.stream);
    void *second = test_alloc(world.pool, 40 * MIB, world.stream);
    tarn_checkpoint *checkpoint;
    size_t freed = 0;

    test_fill(world.stream, first, 1, 2 * MIB);
    test_fill(world.stream, second, 2, 10 * MIB);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    for (int round = 0; round < 2; round++) {
        OK(tarn_free(first));
        OK(tarn_free(second));
        OK(tarn_pool_trim(world.pool, &freed));
        ck_assert_uint_ge(freed, 48 * MIB);
        tarn_delta_destroy(test_restore(checkpoint, 0, 2));
        ck_assert_uint_ge(test_stats(world.pool).mapped_bytes, 48 * MIB);
        test_expect_words(world.stream, first, 1, 2 * MIB);
        test_expect_words(world.stream, second, 2, 10 * MIB);
    }
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(first));
    OK(tarn_free(kept));
    OK(tarn_free(second));
}

TEST(restore, a_restore_after_all_was_freed_and_trimmed_finds_the_same_addresses)
{
    void *address = test_filled(WORDS, 6);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);
    tarn_pool *other = test_pool("other");
    void *elsewhere;

    OK(tarn_free(address));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    elsewhere = test_alloc(other, WORDS * 4, world.stream);
    ck_assert_ptr_ne(elsewhere, address); /* the checkpoint keeps the addresses */
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    expect(address, 6);
    OK(tarn_free(address));
    OK(tarn_free(elsewhere));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_pool_destroy(other));
}

TEST(restore, a_restore_after_growth_frees_what_grew)
{
    void *address = test_filled(WORDS, 6);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);

    for (int i = 0; i < 6; i++)
        (void)test_alloc(world.pool, (size_t)30 * MIB, world.stream);
    tarn_delta_destroy(test_restore(checkpoint, 6, 0));
    expect(address, 6);
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_le(test_stats(world.pool).mapped_bytes, 2 * MIB);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

TEST(restore, a_restore_over_blocks_of_other_sizes_finds_room)
{
    void *blocks[16];
    tarn_checkpoint *checkpoint;

    for (uint32_t i = 0; i < 16; i++)
        blocks[i] = test_filled(WORDS, i);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    for (int i = 0; i < 16; i++)
        OK(tarn_free(blocks[i]));
    for (int i = 0; i < 50; i++) /* across the old edges */
        (void)test_alloc(world.pool, (size_t)(i % 5) * 1536 + 512, world.stream);
    tarn_delta_destroy(test_restore(checkpoint, 50, 16));
    for (uint32_t i = 0; i < 16; i++) {
        expect(blocks[i], i);
        OK(tarn_free(blocks[i]));
    }
    OK(tarn_checkpoint_destroy(checkpoint));
}

TEST(restore, revived_memory_that_another_stream_may_use_is_waited_for)
{
    void *address = test_filled(WORDS, 1);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_DEVICE);

    test_synchronize(world.stream);
    test_spin(world.side, 30);
    test_fill(world.side, address, 0xdead, WORDS);
    OK(tarn_free_on(address, world.side));
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    ck_assert_uint_ge(test_device_stats().idle_waits, 1);
    test_synchronize(world.side);
    expect(address, 1);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
}

GROUP(still, test_world_open_still, test_world_close)

/* _i: 0: the restoring stream has freed its block, whose memory goes back to the other one; 1: the
 * restore frees it. */
TEST_LOOP(still, memory_that_a_restore_gives_to_another_stream_is_waited_for, 0, 2)
{
    tarn_pool *other = test_pool("other");
    void *whole = test_alloc(world.pool, 16 * MIB, world.side);
    tarn_checkpoint *checkpoint;
    uint64_t waits;
    void *part;
    void *block;

    OK(tarn_free(whole));
    part = test_alloc(world.pool, 6 * MIB, world.side);
    ck_assert_ptr_eq(part, whole);
    checkpoint = test_take(TARN_CONTENTS_NONE);
    OK(tarn_free(part));
    OK(tarn_free(test_alloc(other, 1, world.stream)));
    OK(tarn_pool_trim(other, NULL)); /* a wait: the memory may go to another stream */
    OK(tarn_pool_set_limit(world.pool, test_stats(world.pool).mapped_bytes));
    block = test_alloc(world.pool, 6 * MIB, world.stream);
    ck_assert_ptr_eq(block, whole);
    OK(tarn_free(block));
    block = test_alloc(world.pool, (_i == 0 ? 16 : 6) * MIB, world.stream);
    ck_assert_ptr_eq(block, whole);
    test_fill(world.stream, _i == 0 ? block : test_alloc(world.pool, 8 * MIB, world.stream), 1, 4);
    if (_i == 0)
        OK(tarn_free(block));
    waits = test_device_stats().idle_waits;
    tarn_delta_destroy(test_restore(checkpoint, _i == 0 ? 0 : 2, 1));
    block = test_alloc(world.pool, 8 * MIB, world.side); /* what is left of the memory */
    ck_assert((char *)block >= (char *)whole && (char *)block < (char *)whole + 16 * MIB);
    ck_assert_uint_gt(test_device_stats().idle_waits, waits); /* the fill is over */
    OK(tarn_free(block));
    OK(tarn_free(part));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_pool_destroy(other));
}

TEST_LOOP(restore, a_restore_within_its_pools_limit_gets_what_other_pools_have_free, 0, 2)
{
    tarn_pool *other = test_pool("other");
    tarn_pool *third = test_pool("third");
    void *kept = test_alloc(world.pool, 32 * MIB, world.stream);
    void *gone = test_alloc(world.pool, 8 * MIB, world.stream);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);
    size_t mapped = test_stats(world.pool).mapped_bytes;

    OK(tarn_free(gone));
    OK(tarn_pool_trim(world.pool, NULL));
    OK(tarn_device_trim(world.device, 0, NULL));
    OK(tarn_free(test_alloc(other, 8 * MIB, world.stream)));
    OK(tarn_free(test_alloc(third, 1, world.stream)));
    OK(tarn_pool_trim(third, NULL));
    if (_i == 1)
        OK(tarn_pool_set_limit(world.pool, mapped));
    OK(tarn_device_set_limit(world.device,
                             test_device_stats().mapped_bytes + test_device_stats().cached_bytes));
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    OK(tarn_free(kept));
    OK(tarn_free(gone));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_pool_destroy(other));
    OK(tarn_pool_destroy(third));
}

/* The restore's stream is put behind the use; nobody asks whether that has ended. */
TEST(restore, a_pending_block_that_the_checkpoint_has_not_is_free_behind_its_use)
{
    void *kept = test_filled(WORDS, 1);
    void *gone = test_filled(WORDS, 2);
    tarn_checkpoint *checkpoint;
    void *later;
    uint64_t waits;

    OK(tarn_free(gone));
    checkpoint = test_take(TARN_CONTENTS_NONE);
    later = test_filled(WORDS, 3);
    test_order(world.stream, world.side);
    sim.hold_work();
    test_fill(world.side, later, 4, WORDS);
    OK(tarn_free_on(later, world.side));
    OK(tarn_free(kept));
    waits = test_device_stats().idle_waits;
    tarn_delta_destroy(test_restore(checkpoint, 0, 1)); /* beside it, and without a wait */
    ck_assert_uint_eq(test_device_stats().idle_waits, waits);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    ck_assert_ptr_eq(test_filled(WORDS, 5), later);
    sim.resume_work();
    test_synchronize(world.side);
    test_expect_words(world.stream, later, 5, WORDS);
    OK(tarn_free(later));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(kept));
}

TEST(restore, a_checkpoint_outlives_all_that_it_was_taken_of)
{
    tarn_pool *pool = test_pool("left");
    void *first = test_alloc(pool, 5 * MIB, world.stream);
    void *second = test_alloc(pool, 700, world.stream);
    tarn_checkpoint *checkpoint = NULL;

    test_fill(world.stream, first, 5, WORDS);
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_HOST, world.stream, &checkpoint));
    OK(tarn_free(first));
    OK(tarn_free(second));
    OK(tarn_pool_trim(pool, NULL));
    OK(tarn_pool_release(pool));
    OK(tarn_device_trim(world.device, 0, NULL));
    OK(tarn_checkpoint_verify(checkpoint, world.stream));
    for (int round = 0; round < 2; round++) {
        OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL)); /* into a released pool */
        test_expect_words(world.stream, first, 5, WORDS);
        OK(tarn_free(second));
        OK(tarn_device_trim(world.device, 0, NULL));
    }
    OK(tarn_free(first));
    OK(tarn_checkpoint_destroy(checkpoint)); /* and with it the pool */
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(test_device_stats().pool_count, 2);
}

TEST(restore, several_checkpoints_are_restored_in_any_order)
{
    enum { COUNT = 5 };
    tarn_checkpoint *checkpoints[COUNT];
    void *blocks[COUNT];
    static const int order[] = {2, 0, 4, 4, 1, 3, 0};

    for (uint32_t i = 0; i < COUNT; i++) {
        blocks[i] = test_filled(WORDS, i);
        checkpoints[i] = test_take(TARN_CONTENTS_DEVICE);
    }
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        OK(tarn_checkpoint_restore(checkpoints[order[i]], world.stream, NULL));
        ck_assert_uint_eq(test_stats(world.pool).live_count, (uint64_t)order[i] + 1);
        for (int block = 0; block <= order[i]; block++)
            expect(blocks[block], (uint32_t)block);
    }
    OK(tarn_free(blocks[0]));
    for (int i = 0; i < COUNT; i++)
        OK(tarn_checkpoint_destroy(checkpoints[i]));
}

TEST(restore, a_restore_between_replays_keeps_the_graphs_memory)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    tarn_checkpoint *checkpoint;
    void *state = test_filled(WORDS, 10);
    void *temporary;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    temporary = test_malloc(MIB);
    test_fill(world.stream, temporary, 3, 1);
    test_add(world.stream, state, 1, WORDS);
    OK(tarn_free(temporary));
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_replay(graph, world.stream));
    expect(state, 11);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    for (int round = 0; round < 3; round++) {
        for (uint32_t replay = 1; replay <= 3; replay++) {
            OK(tarn_graph_replay(graph, world.stream));
            expect(state, 11 + replay);
        }
        tarn_delta_destroy(test_restore(checkpoint, 0, 0));
        expect(state, 11);
    }
    OK(tarn_free(state));
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    OK(tarn_graph_replay(graph, world.stream));
    expect(state, 12);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(state));
}

TEST(restore, a_graphs_own_live_blocks_are_restored_too)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    tarn_checkpoint *checkpoint;
    void *block;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    block = test_malloc(WORDS * 4);
    test_add(world.stream, block, 1, WORDS);
    OK(tarn_capture_end(capture, &graph));
    test_fill(world.stream, block, 5, WORDS);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    OK(tarn_free(block));
    OK(tarn_graph_replay(graph, world.stream));
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    expect(block, 5);
    OK(tarn_graph_replay(graph, world.stream));
    expect(block, 6);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
}

TEST(restore, revived_memory_of_a_graph_that_runs_on_another_stream_is_waited_for)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;
    tarn_checkpoint *checkpoint;
    uint64_t waits;
    void *block;

    OK(tarn_capture_begin(world.pool, world.stream, NULL, &capture));
    block = test_malloc(WORDS * 4);
    test_spin(world.stream, 20);
    test_fill(world.stream, block, 0xdead, WORDS);
    OK(tarn_capture_end(capture, &graph));
    checkpoint = test_take(TARN_CONTENTS_NONE);
    OK(tarn_free(block));
    OK(tarn_free(test_malloc(MIB)));
    OK(tarn_pool_trim(world.default_pool, NULL)); /* a wait: the free itself is over */
    OK(tarn_graph_replay(graph, world.side));
    waits = test_device_stats().idle_waits;
    tarn_delta_destroy(test_restore(checkpoint, 0, 1));
    ck_assert_uint_eq(test_device_stats().idle_waits, waits + 1);
    test_fill(world.stream, block, 4, WORDS);
    test_synchronize(world.side);
    expect(block, 4); /* the launch wrote before */
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_graph_destroy(graph));
    OK(tarn_free(block));
}

/* What a take still copies, on another stream, is what was there when it was taken; whoever's block it is. */
TEST(restore, a_restore_waits_for_a_take_on_another_stream)
{
    enum { WORDS_TAKEN = 1 << 10 };
    tarn_checkpoint *before = NULL;
    tarn_checkpoint *after = NULL;
    void *block = test_alloc(world.pool, WORDS_TAKEN * 4, world.side);

    test_fill(world.stream, block, 1, WORDS_TAKEN);
    test_synchronize(world.stream);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_HOST, world.stream, &before));
    test_synchronize(world.stream);
    test_fill(world.stream, block, 2, WORDS_TAKEN);
    test_synchronize(world.stream);
    test_spin(world.stream, 50);
    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_HOST, world.stream, &after));
    OK(tarn_checkpoint_restore(before, world.side, NULL)); /* waits on the GPU, not here */
    test_expect_words(world.side, block, 1, WORDS_TAKEN);
    test_synchronize(world.stream);
    OK(tarn_checkpoint_restore(after, world.stream, NULL));
    test_expect_words(world.stream, block, 2, WORDS_TAKEN);
    OK(tarn_checkpoint_destroy(before));
    OK(tarn_checkpoint_destroy(after));
    OK(tarn_free(block));
}
