// SPDX-License-Identifier: Apache-2.0
/* Blocks of one stream in the free memory of another. */
#include "pools/loans.h"

#include "observe/pool_check.h"
#include "pools/proofs.h"
#include "unit/two_streams.h"

/* The stream frees so many bytes; its next allocation asks it, and it is done. */
static void *free_and_prove(uint64_t bytes, tn_cu_stream of)
{
    void *block = unit_alloc(pool, bytes, of);

    OK(tarn_free(block));
    (void)unit_alloc(pool, 2 * MIB, of);
    test_synchronize(of);
    return block;
}

static bool is_of_arena(void *block, tn_cu_stream of)
{
    return tn_order_equal(unit_block(block)->heap->arena->order, unit_order(device, of));
}

/* A block of the stream in the other's memory. */
static void *borrow(uint64_t bytes)
{
    uint64_t before;
    void *loan;

    (void)free_and_prove(64 * MIB, other);
    before = mapped();
    loan = unit_alloc(pool, bytes, stream);
    ck_assert_uint_eq(mapped(), before);
    ck_assert(is_of_arena(loan, other));
    ck_assert(tn_block_is_of(unit_block(loan), unit_order(device, stream)));
    return loan;
}

GROUP(loans, make_arenas)

TEST(loans, a_block_is_lent_where_it_lies)
{
    (void)borrow(32 * MIB);
    ck_assert_uint_eq(pool->vacated.count, 0);
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), 0);
    OK(tarn_pool_validate(pool));
}

/* Work of the lender may still run there. */
TEST(loans, what_is_not_proven_is_not_lent)
{
    void *block = unit_alloc(pool, 64 * MIB, other);
    uint64_t before;

    sim.hold_work();
    test_fill(other, block, 7, 4);
    OK(tarn_free(block));
    (void)unit_alloc(pool, 2 * MIB, other); /* asks */
    before = mapped();
    ck_assert(is_of_arena(unit_alloc(pool, 32 * MIB, stream), stream));
    ck_assert_uint_ge(mapped(), before + 32 * MIB);
    sim.resume_work();
    OK(tarn_pool_validate(pool));
}

TEST(loans, small_blocks_are_not_lent)
{
    (void)free_and_prove(64 * MIB, other);
    ck_assert(is_of_arena(unit_alloc(pool, MIB - 512, stream), stream));
    (void)free_and_prove(64 * MIB, other);
    ck_assert(is_of_arena(unit_alloc(pool, 64 * MIB - 2 * MIB, stream), other));
}

TEST(loans, nothing_is_lent_where_nothing_moves)
{
    device->move_limit_bytes = 0;
    (void)free_and_prove(64 * MIB, other);
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(is_of_arena(unit_alloc(pool, 32 * MIB, stream), stream));
}

TEST(loans, what_a_hold_has_is_not_lent)
{
    struct tn_chunk *chunk = unit_chunk(free_and_prove(64 * MIB, other));
    const struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);

    tn_pool_lock(pool);
    tn_proofs_poll(pool);
    chunk->hold_count += 1;
    ck_assert_ptr_null(tn_heap_borrow(pool, heap, 60 * MIB));
    chunk->hold_count -= 1;
    ck_assert_ptr_nonnull(tn_heap_borrow(pool, heap, 60 * MIB));
    tn_pool_unlock(pool);
}

TEST(loans, the_smallest_block_is_lent)
{
    tn_cu_stream third = test_stream();
    void *large = unit_alloc(pool, 128 * MIB, other);

    (void)free_and_prove(48 * MIB, third);
    OK(tarn_free(large));
    (void)unit_alloc(pool, 2 * MIB, other);
    test_synchronize(other);
    ck_assert(is_of_arena(unit_alloc(pool, 32 * MIB, stream), third));
    ck_assert(is_of_arena(unit_alloc(pool, 64 * MIB, stream), other));
    OK(tarn_pool_validate(pool));
}

TEST(loans, a_retired_stream_lends_nothing)
{
    sim.hold_work();
    (void)free_and_prove(64 * MIB, other);
    test_fill(other, unit_alloc(pool, 4096, other), 7, 4);
    OK(tarn_stream_retire(device, other));
    ck_assert(is_of_arena(unit_alloc(pool, 32 * MIB, stream), stream));
    sim.resume_work();
    OK(tarn_pool_validate(pool));
}

/* The lender's next work would not wait for the borrower's. */
TEST(loans, a_freed_loan_waits_for_the_borrower)
{
    void *loan = borrow(48 * MIB);

    sim.hold_work();
    test_fill(stream, loan, 7, 4);
    OK(tarn_free(loan));
    ck_assert_uint_eq(unit_stats(pool).pending_bytes, 48 * MIB);
    ck_assert_ptr_ne(unit_alloc(pool, 32 * MIB, other), loan);
    (void)unit_alloc(pool, 2 * MIB, stream); /* asks */
    ck_assert_ptr_ne(unit_alloc(pool, 32 * MIB, other), loan);
    sim.resume_work();
    test_synchronize(stream);
    ck_assert_uint_eq(unit_stats(pool).pending_bytes, 48 * MIB);
    ck_assert_ptr_eq(unit_alloc(pool, 48 * MIB, other), loan);
    ck_assert_uint_eq(unit_stats(pool).pending_bytes, 0);
    OK(tarn_pool_validate(pool));
}

/* The lender need not be asked again: what was lent is known to be idle. */
TEST(loans, a_loan_that_came_back_is_lent_again)
{
    void *loan = borrow(48 * MIB);

    OK(tarn_free(loan));
    (void)unit_alloc(pool, 4096, stream); /* asks */
    test_synchronize(stream);
    ck_assert_ptr_eq(unit_alloc(pool, 48 * MIB, stream), loan);
    ck_assert_ptr_eq(unit_block(loan)->heap, unit_heap(pool, other, TN_HEAP_LARGE));
    OK(tarn_pool_validate(pool));
}

TEST(loans, a_loan_outlives_its_lender)
{
    void *loan = borrow(48 * MIB);

    OK(tarn_stream_retire(device, other));
    test_synchronize(other);
    (void)unit_alloc(pool, 128 * MIB, stream); /* ends the arena */
    OK(tarn_pool_validate(pool));
    sim.hold_work();
    test_fill(stream, loan, 7, 4);
    OK(tarn_free(loan));
    ck_assert_uint_eq(unit_stats(pool).pending_bytes, 48 * MIB);
    sim.resume_work();
    OK(tarn_pool_trim(pool, 0));
    ck_assert_uint_eq(unit_stats(pool).pending_bytes, 0);
    OK(tarn_pool_validate(pool));
}

TEST(loans, a_loan_outlives_its_borrower)
{
    void *loan = borrow(48 * MIB);

    OK(tarn_stream_retire(device, stream));
    test_synchronize(stream);
    OK(tarn_free(loan));
    ck_assert_ptr_eq(unit_alloc(pool, 48 * MIB, other), loan);
    OK(tarn_pool_validate(pool));
}

TEST(loans, a_restore_brings_a_loan_back)
{
    void *loan = borrow(48 * MIB);
    tarn_checkpoint *checkpoint;
    tarn_delta *delta;

    test_fill(stream, loan, 7, 4);
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_DEVICE, stream, &checkpoint));
    OK(tarn_free(loan));
    OK(tarn_pool_trim(pool, 0));
    (void)unit_alloc(pool, 60 * MIB, other);
    OK(tarn_checkpoint_restore(checkpoint, stream, &delta));
    tarn_delta_destroy(delta);
    ck_assert(tn_block_is_of(unit_block(loan), unit_order(device, stream)));
    test_expect_words(stream, loan, 7, 4);
    OK(tarn_pool_validate(pool));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* Nothing has changed then. */
TEST(loans, without_host_memory_nothing_is_lent)
{
    const struct tn_heap *heap;

    (void)free_and_prove(64 * MIB, other);
    heap = unit_heap(pool, stream, TN_HEAP_LARGE);
    tn_pool_lock(pool);
    tn_proofs_poll(pool);
    tn_host_plan_fault(1, false);
    ck_assert_ptr_null(tn_heap_borrow(pool, heap, 32 * MIB));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_nonnull(tn_heap_borrow(pool, heap, 32 * MIB));
    tn_pool_unlock(pool);
}

/* Whichever allocation of host memory fails, the call leaves all as it was. */
TEST(loans, a_loan_that_fails_changes_nothing)
{
    void *address = NULL;
    uint64_t failed = 0;
    tarn_status status;

    (void)free_and_prove(64 * MIB, other);
    for (uint64_t nth = 1; address == NULL; nth++) {
        struct test_stats before = unit_stats(pool);
        struct test_stats behind;

        ck_assert_uint_le(nth, 64);
        tn_host_plan_fault(nth, false);
        status = tarn_pool_malloc(pool, 32 * MIB, 0, stream, &address);
        failed += tn_host_plan_fault(0, false);
        behind = unit_stats(pool);
        ck_assert(status == TARN_OK || status == TARN_ERR_HOST_MEMORY);
        ck_assert_uint_eq(behind.live_bytes,
                          before.live_bytes + (status == TARN_OK ? 32 * MIB : 0));
        ck_assert_uint_eq(behind.pending_bytes, before.pending_bytes);
        OK(tarn_pool_validate(pool));
    }
    ck_assert_uint_ge(failed, 1);
}
