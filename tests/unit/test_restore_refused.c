// SPDX-License-Identifier: Apache-2.0
/* Restores that the driver, or the want of host memory, refuses: nothing has changed. And what others leave behind:
 * nothing. */
#include "support/world.h"
#include "unit/one_pool.h"

static tarn_checkpoint *take(tarn_contents contents)
{
    tarn_checkpoint *checkpoint;

    OK(tn_checkpoint_take(pool, contents, stream, &checkpoint));
    return checkpoint;
}

/* A checkpoint whose restore must free, revive over holes, and copy. */
static tarn_checkpoint *changed_much(void **address)
{
    tarn_checkpoint *checkpoint;
    void *trimmed = unit_alloc(pool, 6 * MIB, stream);

    *address = unit_alloc(pool, 4096, stream);
    test_fill(stream, *address, 1, 1024);
    checkpoint = take(TARN_CONTENTS_DEVICE);
    OK(tarn_free(*address));
    OK(tarn_free(trimmed));
    OK(tarn_pool_trim(pool, NULL));
    (void)unit_alloc(pool, 3000, other);
    return checkpoint;
}

GROUP(refused, make_pool)

TEST(refused, a_restore_that_fails_changes_no_live_set)
{
    void *address;
    tarn_checkpoint *checkpoint = changed_much(&address);
    uint64_t mapped = tn_pool_mapped_bytes(pool);
    uint64_t live = tn_pool_live_count(pool);
    uint64_t failed = 1;
    int met = 0;

    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        sim.plan_fault(NULL, nth, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
        status = tn_checkpoint_restore(checkpoint, stream, NULL);
        failed = sim.clear_fault(NULL);
        OK(tarn_pool_validate(pool));
        OK(tarn_pool_validate(device->default_pool));
        ck_assert(tn_lock_none_held());
        if (status == TARN_OK)
            break; /* a refused teardown is no failure of the restore */
        met += 1;
        ck_assert_uint_eq(tn_pool_live_count(pool), live);
        ck_assert_uint_eq(tn_pool_mapped_bytes(pool), mapped);
    }
    ck_assert_int_ge(met, 8);
    unit_expect_live_set(pool, checkpoint);
    test_expect_words(stream, address, 1, 1024);
}

TEST(refused, a_restore_without_host_memory_changes_nothing)
{
    void *address;
    tarn_checkpoint *checkpoint = changed_much(&address);
    uint64_t mapped = tn_pool_mapped_bytes(pool);
    uint64_t failed = 1;
    int met = 0;

    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = tn_checkpoint_restore(checkpoint, stream, NULL);
        failed = tn_host_plan_fault(0, false);
        OK(tarn_pool_validate(pool));
        if (failed > 0) {
            met += 1;
            ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
            ck_assert_uint_eq(tn_pool_live_count(pool), 1);
            ck_assert_uint_eq(tn_pool_mapped_bytes(pool), mapped);
        } else {
            OK(status);
        }
    }
    ck_assert_int_ge(met, 4);
    unit_expect_live_set(pool, checkpoint);
    test_expect_words(stream, address, 1, 1024);
}

TEST(refused, a_restore_leaves_nothing_behind)
{
    void *address;
    tarn_checkpoint *checkpoint = changed_much(&address);
    tarn_sim_ledger before;
    int64_t host;

    OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    test_synchronize(stream);
    host = tn_host_outstanding();
    before = test_ledger();
    for (int i = 0; i < 5; i++) {
        OK(tarn_free(address));
        OK(tn_checkpoint_restore(checkpoint, stream, NULL));
    }
    ck_assert_int_eq(tn_host_outstanding(), host);
    test_same_ledger(&before);
}

/* The nth allocation from now on fails, once, and with it a restore into a pool without memory. */
static void expect_nothing_mapped_without(tarn_checkpoint *checkpoint, uint64_t nth)
{
    (void)tn_host_plan_fault(nth, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_checkpoint_restore(checkpoint, stream, NULL));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 0);
    ck_assert_uint_eq(tn_pool_live_count(pool), 0);
    OK(tarn_pool_validate(pool));
}

/* A capture left a large block, and the next one had many small blocks beside it. The last allocation is
 * for their places in the chunk that the restore has mapped for the large one. */
TEST(refused, a_restore_without_host_memory_for_a_new_chunk_unmaps_it_again)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *large = unit_alloc(pool, 3 * MIB, stream);
    tarn_graph *graph = unit_end(capture);
    tarn_checkpoint *checkpoint;
    uint64_t count = 0;
    void *small[40];

    capture = unit_begin(pool, other);
    for (size_t i = 0; i < 40; i++) {
        small[i] = unit_alloc(pool, 4096, other);
        ck_assert_ptr_eq(unit_chunk(small[i]), unit_chunk(large));
    }
    OK(tarn_graph_destroy(graph));
    OK(tarn_graph_destroy(unit_end(capture)));
    unit_reap_all(pool);
    checkpoint = take(TARN_CONTENTS_NONE);
    for (int round = 0; round < 2; round++) {
        OK(tarn_free(large));
        for (size_t i = 0; i < 40; i++)
            OK(tarn_free(small[i]));
        unit_trim(device);
        ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 0);
        if (round == 1)
            expect_nothing_mapped_without(checkpoint, count);
        count = tn_host_alloc_count();
        OK(tn_checkpoint_restore(checkpoint, stream, NULL));
        count = tn_host_alloc_count() - count;
        unit_expect_live_set(pool, checkpoint);
    }
}

/* Each of two holes gets a chunk, and each chunk an index of its many blocks: the last two allocations. */
TEST(refused, a_restore_without_host_memory_for_two_new_chunks_unmaps_them_again)
{
    enum { IN_CHUNK = 2048, BYTES = 1024 };
    static void *blocks[3 * IN_CHUNK];
    tarn_checkpoint *checkpoint;
    uint64_t count = 0;

    for (size_t i = 0; i < 3 * IN_CHUNK; i++)
        blocks[i] = unit_alloc(pool, BYTES, stream);
    for (size_t i = IN_CHUNK; i < 2 * IN_CHUNK; i++)
        OK(tarn_free(blocks[i]));
    checkpoint = take(TARN_CONTENTS_NONE);
    for (uint64_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < IN_CHUNK; i++) {
            OK(tarn_free(blocks[i]));
            OK(tarn_free(blocks[2 * IN_CHUNK + i]));
        }
        unit_trim(device);
        if (round >= 2) { /* the first has made records that stay */
            expect_nothing_mapped_without(checkpoint, count + 2 - round);
            unit_trim(device);
        }
        count = tn_host_alloc_count();
        OK(tn_checkpoint_restore(checkpoint, stream, NULL));
        count = tn_host_alloc_count() - count;
        ck_assert_uint_eq(unit_stats(pool).chunk_count, 2);
        unit_expect_live_set(pool, checkpoint);
    }
}
