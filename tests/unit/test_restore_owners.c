// SPDX-License-Identifier: Apache-2.0
/* Restores after which memory is another's than before: whoever gets it next comes after its last use. */
#include "driver/idle.h"
#include "pools/arenas.h"
#include "pools/handover.h"
#include "support/world.h"
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
    unit_expect_live_set(pool, checkpoint);
    OK(tarn_pool_validate(pool));
}

static uint64_t waits(void)
{
    return atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
}

static void wait_and_poll(void)
{
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    tn_pending_poll(pool, false);
    tn_pool_unlock(pool);
}

/* A block of a capture in a chunk that a restore has brought back to the stream; the capture is aborted, or its graph
 * is gone. */
static void *leave_in_chunk(bool aborted)
{
    void *saved = unit_alloc(pool, 4096, stream);
    void *beside = unit_alloc(pool, 4096, stream);
    tarn_capture *capture = unit_begin(pool, other);
    tarn_checkpoint *checkpoint;
    tarn_graph *graph;
    void *left;

    OK(tarn_free(beside));
    graph = unit_end(capture);
    wait_and_poll(); /* the chunk goes to captures */
    capture = unit_begin(pool, other);
    left = unit_alloc(pool, 4096, other);
    ck_assert_ptr_eq(unit_chunk(left), unit_chunk(saved));
    OK(tarn_graph_destroy(graph));
    if (aborted)
        OK(tarn_capture_abort(capture));
    else
        OK(tarn_graph_destroy(unit_end(capture)));
    unit_reap_all(pool);
    checkpoint = take();
    OK(tarn_free(saved));
    wait_and_poll();
    restore(checkpoint);
    ck_assert_ptr_eq(unit_chunk(left)->heap->arena, unit_arena(pool, unit_order(device, stream)));
    return left;
}

GROUP(restore_owners, make_pool)

/* The stream is not ordered behind what graphs do. */
TEST(restore_owners, a_block_of_a_capture_in_memory_of_a_stream_waits_for_a_proof)
{
    void *output = leave_in_chunk(false);
    struct tn_block *block = unit_block(output);
    tarn_capture *capture = unit_begin(pool, other);
    tarn_graph *graph;

    test_fill(other, output, 3, 16); /* it is live: no other claim is needed */
    graph = unit_end(capture);
    sim.hold_work();
    OK(tarn_graph_replay(graph, other));
    OK(tarn_free(output));
    ck_assert_int_eq(block->state, TN_BLOCK_PENDING);
    ck_assert_ptr_ne(unit_alloc(pool, 4096, stream), output);
    sim.resume_work();
    wait_and_poll();
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    OK(tarn_pool_validate(pool));
    OK(tarn_graph_destroy(graph));
}

/* P24: freed beside a capture it is pending as any other. */
TEST(restore_owners, a_discarded_block_in_memory_of_a_stream_waits_for_a_proof)
{
    void *discarded = leave_in_chunk(true);
    tarn_capture *capture = unit_begin(pool, other);

    OK(tarn_free(discarded));
    OK(tarn_pool_validate(pool));
    OK(tarn_capture_abort(capture));
    unit_reap_all(pool);
    wait_and_poll();
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    OK(tarn_pool_validate(pool));
}

/* Blocks over the edges of three chunks: the one that comes back reaches into memory of a graph, the one beside it
 * into memory that a third stream works in. All of it goes to captures, and none of them waits for that stream. */
TEST(restore_owners, what_passes_to_captures_with_a_block_that_comes_back_is_waited_for)
{
    const tn_cu_stream third = test_stream();
    void *all = unit_alloc(pool, 14 * MIB, other);
    tarn_checkpoint *checkpoint;
    tarn_graph *graph;
    void *first;
    void *across;
    void *saved;
    uint64_t before;

    OK(tarn_free(all));
    first = unit_alloc(pool, 4 * MIB, other);
    across = unit_alloc(pool, 6 * MIB, other);
    saved = unit_alloc(pool, 3 * MIB, other);
    ck_assert_ptr_eq(first, all);
    ck_assert_uint_eq(unit_chunk(all)->bytes, 8 * MIB);
    ck_assert_uint_eq(unit_chunk(saved)->bytes, 4 * MIB);
    ck_assert_uint_eq(unit_offset(saved) - unit_offset(all), 10 * MIB);
    OK(tarn_free(first));
    checkpoint = take();
    OK(tarn_free(saved));
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_arenas_give_idle(pool), 2 * MIB);
    tn_pool_unlock(pool);
    graph = unit_graph(pool, third, 2 * MIB, &saved);
    ck_assert_uint_eq(unit_offset(saved) - unit_offset(all), 12 * MIB);
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert_ptr_eq(unit_alloc(pool, 4 * MIB, other), first);
    OK(tarn_free(first)); /* the stream may work there still */
    before = waits();
    restore(checkpoint);
    ck_assert_ptr_eq(unit_chunk(across)->heap->arena, &pool->idle);
    ck_assert_ptr_eq(unit_chunk(first)->heap->arena, &pool->idle);
    ck_assert_uint_eq(waits(), before + 1);
    OK(tarn_graph_destroy(graph));
}

/* The same where the block beside belongs to captures itself, and none of the chunks is held any more. */
TEST(restore_owners, what_passes_from_heap_to_heap_with_blocks_that_come_back_is_waited_for)
{
    const tn_cu_stream third = test_stream();
    void *all = unit_alloc(pool, 14 * MIB, other);
    tarn_checkpoint *all_four;
    tarn_checkpoint *ends;
    tarn_checkpoint *begins;
    tarn_capture *capture;
    tarn_graph *graphs[2];
    void *first;
    void *saved;
    void *last;
    uint64_t before;

    OK(tarn_free(all));
    first = unit_alloc(pool, 4 * MIB, other);
    (void)unit_alloc(pool, 6 * MIB, other);
    saved = unit_alloc(pool, 3 * MIB, other);
    last = unit_alloc(pool, MIB, other);
    ck_assert_uint_eq(unit_offset(last) - unit_offset(all), 13 * MIB);
    capture = unit_begin(pool, third);
    OK(tarn_free(last));
    graphs[0] = unit_end(capture);
    wait_and_poll(); /* all chunks go to captures */
    capture = unit_begin(pool, third);
    ck_assert_ptr_eq(unit_alloc(pool, MIB, third), last);
    graphs[1] = unit_end(capture);
    all_four = take();
    OK(tarn_free(first));
    ends = take();
    restore(all_four);
    OK(tarn_free(saved));
    OK(tarn_free(last));
    begins = take();
    OK(tarn_free(first));
    OK(tarn_graph_destroy(graphs[0]));
    OK(tarn_graph_destroy(graphs[1]));
    unit_reap_all(pool);
    wait_and_poll();
    restore(begins);
    ck_assert_ptr_eq(unit_chunk(first)->heap->arena, unit_arena(pool, unit_order(device, other)));
    ck_assert_ptr_eq(unit_chunk(last)->heap->arena, &pool->idle);
    OK(tarn_free(first)); /* the stream may work there still */
    before = waits();
    restore(ends);
    ck_assert_ptr_eq(unit_chunk(first)->heap->arena, &pool->idle);
    ck_assert_uint_eq(waits(), before + 1);
}
