// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

#include "graphs/admit.h"
#include "pools/staging.h"
#include "support/world.h"
#include "unit/one_pool.h"

static tarn_checkpoint *take(tarn_contents contents)
{
    tarn_checkpoint *checkpoint;

    OK(tn_checkpoint_take(pool, contents, stream, &checkpoint));
    ck_assert(tn_lock_none_held());
    return checkpoint;
}

GROUP(take, make_pool)

/* C1 */
TEST(take, live_blocks_are_saved_in_order_of_segment_and_offset)
{
    tarn_checkpoint *checkpoint;
    void *freed[20];
    size_t live = 0;

    for (size_t i = 0; i < 20; i++) {
        (void)unit_alloc(pool, (i * 7919) % 300000 + 1, i % 2 == 0 ? stream : other);
        (void)unit_alloc(pool, i % 3 == 0 ? 3 * MIB : 5000, stream);
        freed[i] = unit_alloc(pool, 4096, stream);
        live += 2;
    }
    for (size_t i = 0; i < 20; i++)
        OK(tarn_free(freed[i]));
    checkpoint = take(TARN_CONTENTS_NONE);
    ck_assert_uint_eq(checkpoint->block_count, live);
    for (size_t i = 0; i < live; i++) {
        const struct tn_saved_block *saved = &checkpoint->blocks[i];
        const struct tn_block *block = tn_live_find(pool, tn_saved_address(checkpoint, saved));

        ck_assert_ptr_nonnull(block);
        ck_assert_uint_eq(tn_block_bytes(block), tn_saved_bytes(saved));
        ck_assert_uint_eq(block->requested, saved->requested);
        ck_assert_uint_eq(block->sequence, saved->sequence);
        ck_assert(tn_order_equal(tn_block_order(block), tn_saved_order(checkpoint, saved)));
        if (i == 0)
            continue;
        if (tn_saved_segment(checkpoint, &saved[-1]) == tn_saved_segment(checkpoint, saved))
            ck_assert_uint_ge(tn_saved_offset(saved), tn_saved_end(&saved[-1]));
        else
            ck_assert_uint_gt(tn_saved_segment(checkpoint, saved)->index,
                              tn_saved_segment(checkpoint, &saved[-1])->index);
    }
    ck_assert_uint_eq(checkpoint->live_bytes, tn_pool_live_bytes(pool));
}

/* Side by side in one heap: two of its stream, and between them one of another, as after a restore. */
TEST(take, blocks_are_saved_in_runs_of_one_order)
{
    void *blocks[5];
    tarn_checkpoint *checkpoint;

    for (size_t i = 0; i < 5; i++)
        blocks[i] = unit_alloc(pool, 4096, stream);
    tn_pool_lock(pool);
    ck_assert(tn_blocks_add_cold(&pool->store));
    tn_block_set_order(unit_block(blocks[2]), unit_order(device, other));
    tn_pool_unlock(pool);
    checkpoint = take(TARN_CONTENTS_NONE);
    ck_assert_uint_eq(checkpoint->block_count, 5);
    ck_assert_uint_eq(checkpoint->run_count, 3);
    for (size_t i = 0; i < 5; i++)
        ck_assert(tn_order_equal(tn_saved_order(checkpoint, &checkpoint->blocks[i]),
                                 unit_order(device, i == 2 ? other : stream)));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* C1: broken, the restore looks for a block where it has been already. */
CONTRACT_TEST(take, blocks_out_of_order_are_a_broken_contract)
{
    void *low = unit_alloc(pool, 4096, stream);
    void *keeper = unit_alloc(pool, 4096, stream);
    void *high = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);
    struct tn_saved_block first = checkpoint->blocks[0];

    ck_assert_ptr_ne(keeper, NULL);
    OK(tarn_free(low));
    OK(tarn_free(high));
    checkpoint->blocks[0] = checkpoint->blocks[2];
    checkpoint->blocks[2] = first;
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
}

/* C2 */
TEST(take, segments_with_saved_blocks_are_held)
{
    void *small = unit_alloc(pool, 4096, stream);
    void *large = unit_alloc(pool, 8 * MIB, stream);
    struct tn_segment *segment = unit_segment(small);
    tarn_checkpoint *first = take(TARN_CONTENTS_NONE);
    tarn_checkpoint *second;

    OK(tarn_free(large)); /* the second holds the small one's segment alone */
    second = take(TARN_CONTENTS_NONE);
    ck_assert_uint_eq(segment->checkpoint_count, 2);
    ck_assert_uint_eq(unit_segment(large)->checkpoint_count, 1);
    ck_assert_uint_eq(pool->claims.checkpoint_count, 2);
    OK(tarn_free(small));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 0);
    ck_assert_ptr_eq(unit_segment(small), segment); /* addresses without memory */
    OK(tarn_pool_validate(pool));
    tn_checkpoint_destroy(first);
    ck_assert_uint_eq(segment->checkpoint_count, 1);
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_ptr_null(unit_segment(large));
    ck_assert_ptr_eq(unit_segment(small), segment);
    tn_checkpoint_destroy(second);
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_ptr_null(unit_segment(small));
    ck_assert_uint_eq(pool->claims.checkpoint_count, 0);
}

/* C2: broken, a trim gives the addresses away. */
TEST(take, a_segment_that_is_not_held_loses_its_addresses)
{
    void *address = unit_alloc(pool, 4096, stream);
    struct tn_segment *segment = unit_segment(address);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);

    segment->checkpoint_count = 0;
    OK(tarn_free(address));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_ptr_null(unit_segment(address));
    (void)checkpoint;
}

/* C3 */
TEST(take, contents_lie_one_after_the_other)
{
    char *blocks[5];
    tarn_checkpoint *checkpoint;
    char *saved;

    for (uint32_t i = 0; i < 5; i++) {
        blocks[i] = unit_alloc(pool, i == 2 ? 3 * MIB : 1024 * (i + 1), stream);
        test_fill(stream, blocks[i], i + 1, 256);
    }
    OK(tarn_free(blocks[1])); /* a gap between two of them */
    checkpoint = take(TARN_CONTENTS_DEVICE);
    saved = checkpoint->contents;
    ck_assert_uint_eq(checkpoint->block_count, 4);
    for (size_t i = 0; i < checkpoint->block_count; i++) {
        const struct tn_saved_block *block = &checkpoint->blocks[i];
        const void *live = (const void *)(uintptr_t)tn_saved_address(checkpoint, block);

        test_expect_words(stream, saved, test_read(stream, live), 256);
        saved += tn_saved_bytes(block);
    }
    ck_assert_ptr_eq(saved, (char *)checkpoint->contents + checkpoint->live_bytes);
    ck_assert_uint_eq(checkpoint->digests, (uintptr_t)saved);
    tn_checkpoint_destroy(checkpoint);
}

/* C3: broken, a block gets the bytes of another. */
TEST(take, contents_are_found_by_the_sizes_of_the_blocks)
{
    void *first = unit_alloc(pool, 4096, stream);
    void *gap = unit_alloc(pool, 4096, stream);
    void *second = unit_alloc(pool, 4096, stream);
    void *saved_field;
    tarn_checkpoint *checkpoint;

    OK(tarn_free(gap));
    test_fill(stream, first, 1, 1024);
    test_fill(stream, second, 2, 1024);
    checkpoint = take(TARN_CONTENTS_DEVICE);
    saved_field = (void *)(uintptr_t)(checkpoint->table.items + sizeof(struct tn_contents_item) +
                                      offsetof(struct tn_contents_item, saved));
    test_set_words(stream, saved_field, (uint32_t)checkpoint->saved, 1);
    test_fill(stream, second, 3, 1024);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    test_expect_words(stream, second, 1, 1024); /* with the right address it would be 2 */
    test_set_words(stream, saved_field, (uint32_t)checkpoint->saved + 4096, 1);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    test_expect_words(stream, second, 2, 1024);
}

TEST(take, an_empty_pool_has_an_empty_checkpoint)
{
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_DEVICE);

    ck_assert_uint_eq(checkpoint->block_count, 0);
    ck_assert_ptr_null(checkpoint->contents);
    (void)unit_alloc(pool, 4096, stream);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    ck_assert_uint_eq(tn_pool_live_count(pool), 0);
    tn_checkpoint_destroy(checkpoint);
}

GROUP(refused, make_pool)

TEST(refused, a_checkpoint_is_refused_where_it_cannot_be)
{
    tarn_checkpoint *checkpoint = NULL;
    tarn_capture *capture;

    STATUS(TARN_ERR_WRONG_STATE,
           tn_checkpoint_take(device->default_pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    unit_expect_sentence("private pool");
    capture = unit_begin(pool, stream);
    STATUS(TARN_ERR_WRONG_STATE, tn_checkpoint_take(pool, TARN_CONTENTS_NONE, other, &checkpoint));
    unit_expect_sentence("capture is under way");
    OK(tarn_capture_abort(capture));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    STATUS(TARN_ERR_WRONG_STATE,
           tn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &checkpoint));
    unit_expect_sentence("being captured");
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint)); /* stream not used */
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(stream));
    tn_checkpoint_destroy(checkpoint);
    ck_assert_uint_eq(pool->claims.checkpoint_count, 0);
}

TEST(refused, a_users_capture_under_way_is_seen)
{
    struct tn_stream_state state;
    tarn_checkpoint *checkpoint = NULL;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    OK(tn_stream_look(&device->gpu, stream, TN_STREAM_GRAPH, &state));
    OK(tn_capture_admit(pool, stream, state.order, 0));
    STATUS(TARN_ERR_WRONG_STATE, tn_checkpoint_take(pool, TARN_CONTENTS_NONE, other, &checkpoint));
    test_destroy_graph(test_end_capture(stream));
}

TEST(refused, a_take_that_fails_leaves_nothing)
{
    tarn_checkpoint *checkpoint = NULL;
    void *address = unit_alloc(pool, 4096, stream);
    uint64_t live = tn_pool_live_count(device->default_pool);
    uint64_t events = test_ledger().events;
    uint64_t failed = 1;

    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        sim.plan_fault(NULL, nth, 0, TN_CUDA_ERROR_INVALID_VALUE);
        status = tn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &checkpoint);
        failed = sim.clear_fault(NULL);
        if (status != TARN_OK) {
            ck_assert_ptr_null(checkpoint);
            ck_assert_uint_eq(pool->claims.checkpoint_count, 0);
            ck_assert_uint_eq(unit_segment(address)->checkpoint_count, 0);
            ck_assert_uint_eq(tn_pool_live_count(device->default_pool), live);
            ck_assert_uint_le(test_ledger().events, events);
            ck_assert_str_ne(tarn_last_error(), "");
        } else { /* none failed, or one that is latched */
            tn_checkpoint_destroy(checkpoint);
            test_synchronize(stream);
            checkpoint = NULL;
            events = test_ledger().events; /* one goes with page-locked memory that is kept */
        }
    }
}

TEST(refused, a_take_without_host_memory_leaves_nothing)
{
    tarn_checkpoint *checkpoint = NULL;
    void *address = unit_alloc(pool, 4096, stream);
    uint64_t failed = 1;
    int met = 0;

    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &checkpoint);
        failed = tn_host_plan_fault(0, false);
        if (failed > 0) {
            met += 1;
            ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
            ck_assert_ptr_null(checkpoint);
            ck_assert_uint_eq(pool->claims.checkpoint_count, 0);
            ck_assert_uint_eq(unit_segment(address)->checkpoint_count, 0);
        }
    }
    ck_assert_int_ge(met, 3);
    tn_checkpoint_destroy(checkpoint);
}

GROUP(destroy, make_pool)

TEST(destroy, a_destroyed_checkpoint_leaves_nothing)
{
    int64_t host;
    uint64_t events;
    tarn_checkpoint *checkpoint;

    (void)unit_alloc(pool, 4096, stream);
    tn_checkpoint_destroy(take(TARN_CONTENTS_DEVICE));
    test_synchronize(stream);
    tn_staging_trim(device, SIZE_MAX); /* what waited is free for the next */
    host = tn_host_outstanding();
    events = test_ledger().events;
    checkpoint = take(TARN_CONTENTS_DEVICE);
    ck_assert_uint_eq(checkpoint->magic, TN_CHECKPOINT_MAGIC);
    ck_assert_uint_eq(unit_heap(pool, stream, TN_HEAP_SMALL)->arena->saved_count, 1);
    tn_checkpoint_destroy(checkpoint);
    ck_assert_uint_eq(unit_heap(pool, stream, TN_HEAP_SMALL)->arena->saved_count, 0);
    ck_assert_uint_eq(checkpoint->magic, 0);
    test_synchronize(stream);
    tn_staging_trim(device, SIZE_MAX);
    ck_assert_int_eq(tn_host_outstanding(), host);
    ck_assert_uint_eq(test_ledger().events, events);
    ck_assert_uint_eq(tn_pool_live_count(device->default_pool), 0);
}
