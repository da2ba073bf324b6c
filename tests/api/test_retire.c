// SPDX-License-Identifier: Apache-2.0
/* Streams that are retired before they are destroyed: no memory stays behind with them, nothing is
 * handed out early, and their handles are not used any more. */
#include "support/world.h"

static tn_cu_stream own; /* to be retired */
static tn_cu_context context;

static void open_with_stream(void)
{
    test_world_open();
    own = test_stream();
    context = test_context();
}

static void retire_and_destroy(tn_cu_stream stream)
{
    OK(tarn_stream_retire(world.device, stream));
    test_destroy_stream(stream);
}

/* Retired busy, synchronised by an event of ours: the handle goes with the retirement. */
static void retire_busy(void *used)
{
    sim.hold_work();
    test_fill(own, used, 1, 64);
    retire_and_destroy(own);
}

static void let_work_end(void)
{
    sim.resume_work();
    test_wait_for_all();
}

SUITE("retired streams")
GROUP(streams, open_with_stream, test_world_close, .name = "retired streams")

TEST(streams, memory_of_a_retired_stream_serves_others_when_its_work_has_ended)
{
    void *address = test_alloc(world.pool, 4 * MIB, own);
    void *other;
    size_t mapped = test_stats(world.pool).mapped_bytes;

    OK(tarn_free(address));
    retire_busy(address);
    other = test_alloc(world.pool, 4 * MIB, world.side);
    ck_assert_ptr_ne(other, address);
    OK(tarn_free(other));
    ck_assert_uint_gt(test_stats(world.pool).mapped_bytes, mapped);
    let_work_end();
    mapped = test_stats(world.pool).mapped_bytes;
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.stream), address);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, mapped);
    OK(tarn_free(address));
    OK(tarn_pool_validate(world.pool));
}

TEST(streams, a_live_block_outlives_its_retired_stream)
{
    void *address = test_alloc(world.pool, 4 * MIB, own);

    retire_busy(address);
    let_work_end();
    test_expect_words(world.stream, address, 1, 64);
    OK(tarn_free(address));
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.stream), address);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    OK(tarn_free(address));
}

TEST(streams, a_restore_waits_for_the_streams_that_use_a_block_of_a_retired_one)
{
    tarn_checkpoint *checkpoint = NULL;
    void *address = test_alloc(world.pool, 4 * MIB, own);

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    retire_and_destroy(own);
    test_spin(world.side, 60);
    test_fill(world.side, address, 1, 64);
    OK(tarn_free_on(address, world.side));
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    test_fill(world.stream, address, 2, 64); /* which would come before, if it did not wait */
    test_synchronize(world.side);
    test_expect_words(world.stream, address, 2, 64);
    OK(tarn_free(address));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* A take frees a retired stream's memory behind itself; captures get it, and their graphs run on any stream. */
TEST(streams, replays_come_behind_a_retired_stream_whose_memory_a_take_has_freed)
{
    enum { WORDS = 1 << 12 };
    tn_cu_stream third = test_stream();
    void *output = test_alloc(world.pool, 4 * MIB, own);
    void *copy = test_alloc(world.default_pool, WORDS * 4, world.side);
    tarn_checkpoint *checkpoint;
    tarn_capture *capture;
    tarn_graph *graph;
    void *next;

    test_spin(own, 20);
    test_fill(own, output, 1, WORDS);
    test_copy(own, copy, output, WORDS * 4);
    OK(tarn_free(output));
    retire_and_destroy(own);
    checkpoint = test_take(TARN_CONTENTS_NONE);
    capture = test_capture_begin(TARN_CAPTURE_GLOBAL);
    next = test_malloc(4 * MIB);
    ck_assert_ptr_eq(next, output);
    test_fill(world.stream, next, 2, WORDS);
    OK(tarn_free(next));
    graph = test_capture_end(capture);
    OK(tarn_graph_replay(graph, third)); /* neither the take's stream nor the retired one */
    test_wait_for_all();
    test_expect_words(third, copy, 1, WORDS);
    test_expect_words(third, next, 2, WORDS);
    OK(tarn_graph_destroy(graph));
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(copy));
    test_destroy_stream(third);
}

TEST(streams, a_block_freed_after_its_stream_was_retired_waits_for_the_work_before)
{
    void *address = test_alloc(world.pool, 4 * MIB, own);
    void *other;

    retire_busy(address);
    OK(tarn_free(address));
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    other = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_ptr_ne(other, address);
    let_work_end();
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.stream), address);
    OK(tarn_free(address));
    OK(tarn_free(other));
}

TEST(streams, a_recorded_stream_is_retired_before_the_free)
{
    void *address = test_alloc(world.pool, 4 * MIB, world.stream);
    void *other;

    OK(tarn_record_stream(address, own));
    retire_busy(address);
    OK(tarn_free(address)); /* its handle would be a crash */
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    other = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_ptr_ne(other, address);
    let_work_end();
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.stream), address);
    OK(tarn_free(address));
    OK(tarn_free(other));
}

TEST(streams, a_recorded_stream_is_retired_after_the_free)
{
    void *blocks[3];
    void *other;

    for (int i = 0; i < 3; i++)
        blocks[i] = test_alloc(world.pool, 4 * MIB, world.stream);
    sim.hold_work();
    for (int i = 0; i < 3; i++) {
        test_fill(own, blocks[i], 1, 64);
        OK(tarn_free_on(blocks[i], own));
    }
    retire_and_destroy(own);
    other = test_alloc(world.pool, 12 * MIB, world.stream);
    ck_assert_ptr_ne(other, blocks[0]);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 3);
    let_work_end();
    ck_assert_ptr_eq(test_alloc(world.pool, 12 * MIB, world.stream), blocks[0]);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    OK(tarn_free(blocks[0]));
    OK(tarn_free(other));
}

TEST(streams, a_stream_may_be_retired_twice_and_used_again)
{
    void *address = test_alloc(world.pool, 4 * MIB, own);
    void *again;

    OK(tarn_stream_retire(world.device, own));
    OK(tarn_stream_retire(world.device, own));
    again = test_alloc(world.pool, 4 * MIB, own);
    ck_assert_ptr_ne(again, address);
    OK(tarn_free(again));
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, own), again);
    OK(tarn_free(again));
    OK(tarn_stream_retire(world.device, own));
    test_synchronize(own);
    OK(tarn_free(address));
    ck_assert_ptr_eq(test_alloc(world.pool, 8 * MIB, world.stream), address); /* both are one now */
    OK(tarn_free(address));
    test_destroy_stream(own);
}

/* A block of the stream is of none when that is retired: its use there counts like any other. */
TEST(streams, use_on_a_retired_stream_is_recorded_like_any_other)
{
    void *address = test_alloc(world.pool, 4 * MIB, own);
    void *other;

    OK(tarn_stream_retire(world.device, own));
    sim.hold_work();
    test_fill(own, address, 1, 64);
    OK(tarn_free_on(address, own));
    other = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_ptr_ne(other, address);
    sim.resume_work();
    test_synchronize(own);
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.stream), address);
    OK(tarn_free(address));
    OK(tarn_free(other));
    test_destroy_stream(own);
}

TEST(streams, all_pools_forget_a_retired_stream)
{
    void *in_default = test_alloc(world.default_pool, 4 * MIB, own);
    void *in_pool = test_alloc(world.pool, 4 * MIB, own);

    OK(tarn_free(in_default));
    OK(tarn_free(in_pool));
    retire_and_destroy(own);
    test_wait_for_all();
    ck_assert_ptr_eq(test_alloc(world.default_pool, 4 * MIB, world.stream), in_default);
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.stream), in_pool);
    OK(tarn_free(in_default));
    OK(tarn_free(in_pool));
}

TEST(streams, a_thousand_streams_come_and_go_in_the_memory_of_one)
{
    size_t mapped = 0;

    for (int i = 0; i < 1000; i++) {
        tn_cu_stream stream = test_stream();
        void *address = test_alloc(world.pool, 4 * MIB, stream);

        test_fill(stream, address, 1, 64);
        OK(tarn_free(address));
        OK(tarn_stream_retire(world.device, stream));
        test_synchronize(stream);
        test_destroy_stream(stream);
        if (i == 0)
            mapped = test_stats(world.pool).mapped_bytes;
    }
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, mapped);
    test_destroy_stream(own);
}

TEST(streams, trim_takes_the_memory_of_a_retired_stream_when_its_work_has_ended)
{
    void *address = test_alloc(world.pool, 4 * MIB, own);
    size_t freed = 0;

    OK(tarn_free(address));
    retire_and_destroy(own);
    test_wait_for_all();
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    ck_assert_uint_ge(freed, 4 * MIB);
}

TEST(streams, streams_that_cannot_be_retired_are_refused)
{
    tarn_capture *capture = NULL;
    tarn_graph *graph = NULL;

    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_stream_retire(NULL, own));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "legacy", tarn_stream_retire(world.device, NULL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "legacy",
           tarn_stream_retire(world.device, TN_CU_STREAM_LEGACY));
    OK(tarn_capture_begin(world.pool, own, NULL, &capture));
    REFUSE(TARN_ERR_WRONG_STATE, "captured", tarn_stream_retire(world.device, own));
    ck_assert_int_eq(test_capture_status(own), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_capture_end(capture, &graph));
    OK(tarn_graph_destroy(graph));
    test_begin_capture(own, TN_CU_CAPTURE_MODE_GLOBAL);
    test_break_capture();
    REFUSE(TARN_ERR_WRONG_STATE, "captured", tarn_stream_retire(world.device, own));
    test_end_broken_capture(own);
    test_destroy_stream(own);
}

TEST(streams, a_retirement_that_the_driver_refuses_changes_nothing)
{
    void *address = test_alloc(world.pool, 4 * MIB, own);

    sim.plan_fault("cuEventCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuEventCreate", tarn_stream_retire(world.device, own));
    sim.plan_fault("cuStreamGetId", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    REFUSE(TARN_ERR_DRIVER, "cuStreamGetId", tarn_stream_retire(world.device, own));
    OK(tarn_free(address));
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, own), address); /* its own order's still */
    OK(tarn_free(address));
    retire_and_destroy(own);
}

TEST(streams, a_retirement_whose_event_is_refused_is_proven_by_a_wait)
{
    void *address = test_alloc(world.pool, 4 * MIB, own);
    void *other;

    OK(tarn_free(address));
    sim.plan_fault("cuEventRecord", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    retire_and_destroy(own);
    other = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_ptr_ne(other, address);
    OK(tarn_free(other));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
}

/* Events go with the context that they were made in. */
TEST(streams, the_context_of_a_retired_stream_may_be_destroyed)
{
    void *blocks[4];
    tn_cu_context other;
    tn_cu_stream stream;
    void *late;

    test_destroy_stream(own);
    for (int i = 0; i < 4; i++)
        blocks[i] = test_alloc(world.pool, 4 * MIB, world.stream);
    other = test_make_context();
    stream = test_stream();
    late = test_alloc(world.pool, 4 * MIB, stream);
    sim.hold_work();
    test_set_words(stream, late, 1, 64);
    for (int i = 0; i < 3; i++)
        OK(tarn_free_on(blocks[i], stream));
    OK(tarn_record_stream(blocks[3], stream));
    OK(tarn_stream_retire(world.device, stream));
    OK(tarn_free(blocks[3]));
    sim.resume_work();
    test_wait_for_all();
    test_destroy_stream(stream);
    test_end_context(other);
    test_set_context(context);
    OK(tarn_free(late));
    ck_assert_ptr_eq(test_alloc(world.pool, 16 * MIB, world.stream), blocks[0]);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    OK(tarn_free(blocks[0]));
    OK(tarn_pool_validate(world.pool)); /* and the driver refused nothing */
}

static void use_own_stream(void *argument)
{
    void **address = argument;

    test_set_context(context);
    *address = test_alloc(world.pool, 4 * MIB, TN_CU_STREAM_PER_THREAD);
    test_fill(TN_CU_STREAM_PER_THREAD, *address, 1, 64);
    OK(tarn_free(*address));
    OK(tarn_stream_retire(world.device, TN_CU_STREAM_PER_THREAD));
    test_synchronize(TN_CU_STREAM_PER_THREAD);
}

TEST(streams, a_thread_retires_its_default_stream_before_it_ends)
{
    void *address = NULL;

    test_elsewhere(use_own_stream, &address);
    ck_assert_ptr_eq(test_alloc(world.pool, 4 * MIB, world.stream), address);
    OK(tarn_free(address));
    test_destroy_stream(own);
}

static void record_own_stream(void *argument)
{
    test_set_context(context);
    OK(tarn_record_stream(argument, TN_CU_STREAM_PER_THREAD));
    test_fill(TN_CU_STREAM_PER_THREAD, argument, 1, 64);
    test_synchronize(TN_CU_STREAM_PER_THREAD);
}

/* The handle means another stream here, whose events would say nothing. */
TEST(streams, a_default_stream_of_a_thread_that_ended_is_proven_by_a_wait)
{
    void *address = test_alloc(world.pool, 4 * MIB, world.stream);
    uint64_t records = sim.call_count("cuEventRecord");
    void *other;

    test_elsewhere(record_own_stream, address);
    OK(tarn_free(address));
    other = test_alloc(world.pool, 4 * MIB, world.stream);
    ck_assert_ptr_ne(other, address);
    ck_assert_uint_eq(sim.call_count("cuEventRecord"), records);
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    OK(tarn_free(other));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 0);
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    test_destroy_stream(own);
}

TEST(streams, a_restore_makes_no_arena_for_a_retired_stream)
{
    void *address = test_alloc(world.pool, 4 * MIB, own);
    tarn_checkpoint *checkpoint = NULL;

    OK(tarn_checkpoint_take(world.pool, TARN_CONTENTS_NONE, world.stream, &checkpoint));
    OK(tarn_free(address));
    retire_and_destroy(own);
    test_wait_for_all();
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_pool_validate(world.pool));
    ck_assert_uint_eq(test_stats(world.pool).live_count, 1);
    OK(tarn_checkpoint_destroy(checkpoint));
    OK(tarn_free(address));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
}
