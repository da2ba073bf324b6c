// SPDX-License-Identifier: Apache-2.0
/* Where a restore finds the blocks of a checkpoint: in the records that they had, or elsewhere. */
#include "checkpoint/plan.h"
#include "unit/one_pool.h"

static tarn_delta *delta;

static tarn_checkpoint *take(void)
{
    tarn_checkpoint *checkpoint;

    OK(tn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    return checkpoint;
}

static void restore(tarn_checkpoint *checkpoint)
{
    tarn_delta_destroy(delta);
    OK(tn_checkpoint_restore(checkpoint, stream, &delta));
    OK(tarn_pool_validate(pool));
    ck_assert(tn_lock_none_held());
}

GROUP(places, make_pool)

/* Records: one stands for its block's bytes still, one was cut, one was joined and one joined others. */
TEST(places, blocks_come_back_in_their_places_and_elsewhere)
{
    enum { COUNT = 64 };
    void *blocks[COUNT];
    struct tn_block *records[COUNT];
    tarn_checkpoint *checkpoint;

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            blocks[i] = unit_alloc(pool, 4096 * (1 + i % 3), stream);
            records[i] = unit_block(blocks[i]);
        }
        checkpoint = take();
        for (size_t i = 0; i < COUNT; i += 4)
            OK(tarn_free(blocks[i]));
        restore(checkpoint);
        unit_expect_live_set(pool, checkpoint);
        ck_assert_uint_eq(delta->revived_count, COUNT / 4);
        for (size_t i = 0; i < COUNT; i++)
            ck_assert_ptr_eq(unit_block(blocks[i]), records[i]);
        for (size_t i = 1; i < COUNT; i += 8) {
            OK(tarn_free(blocks[i])); /* in its place */
            OK(tarn_free(blocks[i + 2]));
            OK(tarn_free(blocks[i + 3])); /* joined */
        }
        for (size_t i = 0; i < COUNT / 8; i++)
            (void)unit_alloc(pool, 1024, stream); /* some are cut */
        restore(checkpoint);
        unit_expect_live_set(pool, checkpoint);
        ck_assert_uint_eq(delta->revived_count, COUNT / 8 * 3);
        ck_assert_uint_eq(delta->freed_count, COUNT / 8);
        for (size_t i = 0; i < COUNT; i++)
            OK(tarn_free(blocks[i]));
        (void)unit_alloc(pool, 512, stream); /* others begin elsewhere in the next round */
        tn_checkpoint_destroy(checkpoint);
    }
}

/* The record that a checkpoint knows is not the block's any more when another one has revived it. */
TEST(places, a_block_that_another_checkpoint_revived_is_kept)
{
    void *first = unit_alloc(pool, 4096, stream);
    void *second = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *one = take();
    tarn_checkpoint *two = take();

    OK(tarn_free(first));
    OK(tarn_free(second));
    (void)unit_alloc(pool, 512, stream);
    restore(one);
    ck_assert_uint_eq(delta->revived_count, 2);
    restore(two);
    ck_assert_uint_eq(delta->revived_count + delta->freed_count, 0);
    unit_expect_live_set(pool, two);
    OK(tarn_free(second));
    restore(two);
    ck_assert_uint_eq(delta->revived_count, 1);
    unit_expect_live_set(pool, one);
}

/* What is mapped for the blocks behind joins a free place. */
TEST(places, a_place_beside_memory_that_is_mapped_again_is_none)
{
    void *blocks[8];
    tarn_checkpoint *checkpoint;

    for (size_t i = 0; i < 8; i++) /* in two chunks */
        blocks[i] = unit_alloc(pool, MIB / 2, stream);
    ck_assert_ptr_ne(unit_chunk(blocks[3]), unit_chunk(blocks[4]));
    checkpoint = take();
    for (size_t i = 4; i < 8; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_pool_trim(pool, NULL));
    OK(tarn_free(blocks[3]));
    restore(checkpoint);
    ck_assert_uint_eq(delta->revived_count, 5);
    unit_expect_live_set(pool, checkpoint);
}

TEST(places, blocks_over_the_edges_of_chunks_come_back_in_their_places)
{
    enum { COUNT = 32, BYTES = 384 * 1024 };
    void *blocks[COUNT];
    struct tn_block *records[COUNT];
    size_t over_edges = 0;
    tarn_checkpoint *checkpoint;

    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = unit_alloc(pool, BYTES, stream);
        records[i] = unit_block(blocks[i]);
    }
    checkpoint = take();
    for (size_t i = 1; i < COUNT; i += 2) {
        over_edges += unit_chunk(blocks[i]) != unit_chunk((char *)blocks[i] + BYTES - 1);
        OK(tarn_free(blocks[i]));
    }
    ck_assert_uint_gt(over_edges, 0);
    restore(checkpoint);
    ck_assert_uint_eq(delta->revived_count, COUNT / 2);
    unit_expect_live_set(pool, checkpoint);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_ptr_eq(unit_block(blocks[i]), records[i]);
    for (size_t i = 0; i < COUNT; i++)
        OK(tarn_free(blocks[i]));
}
