// SPDX-License-Identifier: Apache-2.0
#include "driver/idle.h"
#include "graphs/replay.h"
#include "pools/ladder.h"
#include "support/world.h"
#include "unit/one_pool.h"

static tarn_delta *delta;

static bool disturbed; /* another stream frees memory of the pool after each wait for the device */

tarn_status __real_tn_gpu_wait_idle(struct tn_gpu *gpu);
tarn_status __wrap_tn_gpu_wait_idle(struct tn_gpu *gpu);
tarn_status __wrap_tn_gpu_wait_idle(struct tn_gpu *gpu)
{
    tarn_status status = __real_tn_gpu_wait_idle(gpu);

    if (disturbed)
        OK(tarn_free(unit_alloc(pool, 4096, other)));
    return status;
}

static bool
    overtaken; /* another stream frees memory of the pool just before memory is looked for */

__typeof__(tn_ladder_run) __real_tn_ladder_run;
__typeof__(tn_ladder_run) __wrap_tn_ladder_run;
tarn_status __wrap_tn_ladder_run(tarn_pool *in, tn_ladder_attempt attempt, const void *request,
                                 uint64_t bytes, void **result)
{
    if (overtaken)
        OK(tarn_free(unit_alloc(pool, 4096, other)));
    overtaken = false;
    return __real_tn_ladder_run(in, attempt, request, bytes, result);
}

static tarn_checkpoint *take(tarn_contents contents)
{
    tarn_checkpoint *checkpoint;

    OK(tn_checkpoint_take(pool, contents, stream, &checkpoint));
    return checkpoint;
}

static void restore(tarn_checkpoint *checkpoint)
{
    tarn_delta_destroy(delta);
    OK(tn_checkpoint_restore(checkpoint, stream, &delta));
    OK(tarn_pool_validate(pool));
    ck_assert(tn_lock_none_held());
}

static uint64_t waits(void)
{
    return atomic_load(&device->gpu.calls[TN_CALL_WAIT]);
}

GROUP(sets, make_pool, .name = "live sets")

/* The record of a revived block may be one of a slab without tags. */
TEST(sets, a_restore_has_room_for_tags_or_changes_nothing)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;
    tarn_block block;
    tarn_status status;
    int refused = 0;

    OK(tarn_block_set_tag(address, 7));
    checkpoint = take(TARN_CONTENTS_NONE);
    OK(tarn_free(address));
    for (struct tn_block_slab *slab = pool->store.slabs; slab != NULL; slab = slab->next) {
        tn_host_free(slab->tags);
        slab->tags = NULL;
    }
    for (uint64_t nth = 1;; nth++) {
        (void)tn_host_plan_fault(nth, false);
        status = tn_checkpoint_restore(checkpoint, stream, NULL);
        (void)tn_host_plan_fault(0, false);
        if (status == TARN_OK)
            break;
        ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
        STATUS(TARN_ERR_DOUBLE_FREE, tarn_block_at(address, &block));
        refused += 1;
    }
    ck_assert_int_gt(refused, 0);
    OK(tarn_block_at(address, &block));
    ck_assert_uint_eq(block.tag, 7);
    OK(tarn_free(address));
    restore(checkpoint);
    OK(tarn_block_at(address, &block));
    ck_assert_uint_eq(block.tag, 7);
}

TEST(sets, the_live_set_becomes_that_of_the_checkpoint)
{
    void *kept = unit_alloc(pool, 1000, stream);
    void *lost = unit_alloc(pool, 2000, stream);
    uint64_t kept_sequence = unit_block(kept)->sequence;
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);
    uint64_t lost_sequence = unit_block(lost)->sequence;
    void *extra = unit_alloc(pool, 100000, stream);

    OK(tarn_free(lost));
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    ck_assert_uint_eq(delta->freed_count, 1);
    ck_assert_ptr_eq(delta->freed[0].address, extra);
    ck_assert_uint_eq(delta->freed[0].bytes, 100000);
    ck_assert_uint_eq(delta->revived_count, 1);
    ck_assert_ptr_eq(delta->revived[0].block.address, lost);
    ck_assert_uint_eq(delta->revived[0].block.bytes, 2000);
    ck_assert_uint_eq(delta->revived[0].block.sequence, lost_sequence);
    ck_assert_ptr_eq(delta->revived[0].block.pool, pool);
    ck_assert(delta->revived[0].undefined);
    ck_assert_uint_eq(unit_block(kept)->sequence, kept_sequence);
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(extra));
    OK(tarn_free(lost));
    OK(tarn_free(kept));
    ck_assert_uint_eq(waits(), 0); /* all on one stream */
}

TEST(sets, restoring_when_nothing_changed_changes_nothing)
{
    tarn_checkpoint *checkpoint;

    (void)unit_alloc(pool, 1000, stream);
    checkpoint = take(TARN_CONTENTS_NONE);
    restore(checkpoint);
    ck_assert_uint_eq(delta->freed_count, 0);
    ck_assert_uint_eq(delta->revived_count, 0);
    unit_expect_live_set(pool, checkpoint);
    OK(tn_checkpoint_restore(checkpoint, stream, NULL)); /* no delta wanted */
}

TEST(sets, a_checkpoint_is_restored_any_number_of_times)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint;

    test_fill(stream, address, 1, 1024);
    checkpoint = take(TARN_CONTENTS_DEVICE);
    for (uint32_t i = 0; i < 4; i++) {
        test_fill(stream, address, i + 5, 1024);
        OK(tarn_free(address));
        (void)unit_alloc(pool, 4096 * (i + 1), stream);
        restore(checkpoint);
        unit_expect_live_set(pool, checkpoint);
        ck_assert(!delta->revived[0].undefined);
        test_expect_words(stream, address, 1, 1024);
    }
}

/* Of three records two are left over when what they stand for becomes one. */
TEST(sets, blocks_that_coalesced_with_others_come_back)
{
    void *blocks[4];
    tarn_checkpoint *checkpoint;

    for (int i = 0; i < 4; i++)
        blocks[i] = unit_alloc(pool, 4096, stream);
    checkpoint = take(TARN_CONTENTS_NONE);
    OK(tarn_free(blocks[2]));
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
    OK(tarn_pool_validate(pool)); /* nothing is loose */
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    OK(tarn_pool_validate(pool));
}

TEST(sets, a_block_at_the_same_address_is_not_the_same_block)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);

    OK(tarn_free(address));
    ck_assert_ptr_eq(unit_alloc(pool, 4096, stream), address); /* a later one */
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    ck_assert_uint_eq(delta->freed_count, 1);
    ck_assert_uint_eq(delta->revived_count, 1);
    ck_assert_ptr_eq(delta->freed[0].address, delta->revived[0].block.address);
}

TEST(sets, blocks_that_lie_across_saved_ones_make_way)
{
    void *saved[6];
    tarn_checkpoint *checkpoint;

    for (size_t i = 0; i < 6; i++)
        saved[i] = unit_alloc(pool, 64 * 1024, stream);
    checkpoint = take(TARN_CONTENTS_NONE);
    for (size_t i = 0; i < 6; i++)
        OK(tarn_free(saved[i]));
    OK(tarn_pool_validate(pool));                                     /* nothing is loose */
    ck_assert_ptr_eq(unit_alloc(pool, 200 * 1024, stream), saved[0]); /* over three and a bit */
    (void)unit_alloc(pool, 100 * 1024, stream);
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    ck_assert_uint_eq(delta->freed_count, 2);
    ck_assert_uint_eq(delta->revived_count, 6);
}

GROUP(holes, make_pool)

TEST(holes, memory_trimmed_meanwhile_is_mapped_again)
{
    void *small = unit_alloc(pool, 4096, stream);
    void *large = unit_alloc(pool, 5 * MIB, stream);
    void *huge = unit_alloc(pool, 100 * MIB, other);
    tarn_checkpoint *checkpoint;

    test_fill(stream, small, 1, 1024);
    test_fill(stream, large, 2, 1024);
    test_fill(other, huge, 3, 1024);
    test_synchronize(other);
    checkpoint = take(TARN_CONTENTS_DEVICE);
    test_synchronize(stream);
    OK(tarn_free(small));
    OK(tarn_free(large));
    OK(tarn_free(huge));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 0);
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), (2 + 6 + 100) * MIB); /* to the page */
    test_expect_words(stream, small, 1, 1024);
    test_expect_words(stream, large, 2, 1024);
    test_expect_words(stream, huge, 3, 1024);
    OK(tarn_free(small)); /* to the heaps of their own orders */
    ck_assert_ptr_eq(unit_alloc(pool, 4096, stream), small);
    OK(tarn_free(huge));
    ck_assert_ptr_eq(unit_alloc(pool, 100 * MIB, other), huge);
    OK(tarn_pool_validate(pool));
}

/* Of the third segment, the first and third of four chunks went. */
TEST(holes, holes_in_the_middle_are_mapped_again)
{
    void *blocks[7];
    tarn_checkpoint *checkpoint;

    for (int i = 0; i < 7; i++)
        blocks[i] = unit_alloc(pool, 32 * MIB, stream);
    checkpoint = take(TARN_CONTENTS_NONE);
    for (int i = 3; i < 6; i += 2)
        OK(tarn_free(blocks[i]));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 5 * 32 * MIB);
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    ck_assert_uint_eq(delta->revived_count, 2);
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 7 * 32 * MIB);
}

TEST(holes, two_blocks_in_one_page_share_the_chunk_that_is_mapped)
{
    void *first = unit_alloc(pool, 4096, stream);
    void *second = unit_alloc(pool, 8192, stream);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);

    OK(tarn_free(first));
    OK(tarn_free(second));
    OK(tarn_pool_trim(pool, NULL));
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), TN_PAGE_BYTES);
    ck_assert_ptr_eq(unit_chunk(first), unit_chunk(second));
}

/* A capture's graph then holds its memory, which is idle memory for other captures. */
static tarn_graph *free_in_capture(void *address)
{
    tarn_capture *capture = unit_begin(pool, other);
    tarn_graph *graph;

    OK(tarn_free(address));
    graph = unit_end(capture);
    OK(tarn_pool_trim(pool, NULL)); /* waits for what its own stream did */
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    return graph;
}

/* The page of a hole has blocks of two heaps: one of a stream, and one of a capture that took the
 * chunk over. */
TEST(holes, blocks_of_two_orders_share_a_page)
{
    void *eager = unit_alloc(pool, 4096, stream);
    void *freed = unit_alloc(pool, 4096, stream);
    tarn_graph *first = free_in_capture(freed);
    tarn_capture *capture = unit_begin(pool, other);
    tarn_checkpoint *checkpoint;
    tarn_graph *graph;
    void *captured;

    captured = unit_alloc(pool, 2048, other);
    if (unit_chunk(captured) != unit_chunk(eager)) /* the poll comes when nothing else is free */
        captured = unit_alloc(pool, MIB, other);
    ck_assert_ptr_eq(unit_chunk(captured), unit_chunk(eager));
    graph = unit_end(capture);
    checkpoint = take(TARN_CONTENTS_NONE);
    OK(tarn_free(eager));
    OK(tarn_free(captured));
    OK(tarn_graph_destroy(first));
    OK(tarn_graph_destroy(graph));
    unit_reap_all(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    OK(tarn_pool_trim(pool, NULL));
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 0);
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    ck_assert_ptr_eq(unit_block(eager)->heap, unit_block(captured)->heap);
    OK(tarn_free(eager));
    OK(tarn_free(captured));
    OK(tarn_pool_validate(pool));
}

GROUP(owners, make_pool)

TEST(owners, memory_that_another_order_took_comes_back)
{
    void *address = unit_alloc(pool, 2 * MIB, stream);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);
    tarn_graph *first = free_in_capture(address);
    tarn_graph *graph;
    void *captured;

    {
        tarn_capture *capture = unit_begin(pool, other);

        captured = unit_alloc(pool, 2 * MIB, other);
        ck_assert_ptr_eq(captured, address);
        OK(tarn_free(captured));
        graph = unit_end(capture);
    }
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    /* The graph exists still, so what is free around the block is for captures alone. */
    ck_assert_ptr_eq(unit_chunk(address)->heap->arena, &pool->idle);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 2);
    OK(tarn_graph_destroy(first));
    OK(tarn_graph_destroy(graph));
}

TEST(owners, blocks_of_a_capture_that_is_over_go_to_idle_memory)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *output = unit_alloc(pool, 4096, stream);
    tarn_graph *graph;
    tarn_checkpoint *checkpoint;

    test_fill(stream, output, 9, 1024);
    graph = unit_end(capture);
    checkpoint = take(TARN_CONTENTS_NONE);
    OK(tarn_free(output));
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    ck_assert_ptr_eq(unit_block(output)->heap, pool->idle.heaps[TN_HEAP_SMALL]);
    OK(tn_graph_replay(graph, stream));
    test_expect_words(stream, output, 9, 1024);
}

GROUP(waits, make_pool)

TEST(waits, pending_memory_is_waited_for)
{
    void *address = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);

    test_spin(other, 50);
    test_fill(other, address, 7, 16);
    OK(tarn_free_on(address, other));
    ck_assert_uint_eq(tn_pool_pending_count(pool), 1);
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    ck_assert_uint_eq(waits(), 1);
    ck_assert_uint_eq(tn_pool_pending_count(pool), 0);
    ck_assert_uint_eq(test_read(stream, address), 7); /* the other stream was done */
}

TEST(waits, memory_last_used_on_another_stream_is_waited_for)
{
    void *address = unit_alloc(pool, 4096, other);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);

    OK(tarn_free(address));
    restore(checkpoint); /* on `stream` */
    ck_assert_uint_eq(waits(), 1);
    OK(tarn_free(address));
    OK(tn_gpu_wait_idle(&device->gpu));
    restore(checkpoint); /* proven */
    ck_assert_uint_eq(waits(), 2);
}

TEST(waits, contents_of_memory_that_graphs_write_wait_for_replays)
{
    void *address;
    tarn_graph *graph = unit_graph(pool, stream, 4096, &address);
    void *block = unit_alloc(pool, 4096, stream);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_DEVICE);

    restore(checkpoint);
    ck_assert_uint_eq(waits(), 0); /* nothing was replayed */
    OK(tn_graph_replay(graph, other));
    restore(checkpoint);
    ck_assert_uint_eq(waits(), 1);
    OK(tarn_free(block));
}

GROUP(refused, make_pool)

TEST(refused, a_discarded_block_is_in_the_way)
{
    void *address = unit_alloc(pool, 2 * MIB, stream);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);
    tarn_graph *graph = free_in_capture(address);
    tarn_capture *capture = unit_begin(pool, other);
    void *discarded;
    struct test_stats before;
    struct test_stats after;

    discarded = unit_alloc(pool, 2 * MIB, other);
    ck_assert_ptr_eq(discarded, address);
    OK(tarn_capture_abort(capture));
    before = unit_stats(pool);
    STATUS(TARN_ERR_WRONG_STATE, tn_checkpoint_restore(checkpoint, stream, &delta));
    unit_expect_sentence("aborted capture");
    ck_assert(tn_lock_none_held());
    after = unit_stats(pool);
    ck_assert_uint_eq(after.live_count, before.live_count);
    ck_assert_uint_eq(after.mapped_bytes, before.mapped_bytes);
    OK(tarn_pool_validate(pool));
    OK(tarn_free(discarded));
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    OK(tarn_graph_destroy(graph));
}

TEST(refused, a_restore_is_refused_during_captures)
{
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);
    tarn_capture *capture = unit_begin(pool, other);

    STATUS(TARN_ERR_WRONG_STATE, tn_checkpoint_restore(checkpoint, stream, NULL));
    unit_expect_sentence("capture is under way");
    STATUS(TARN_ERR_WRONG_STATE, tn_checkpoint_restore(checkpoint, other, NULL));
    unit_expect_sentence("being captured");
    OK(tarn_graph_destroy(unit_end(capture)));
    restore(checkpoint);
}

enum { ROUNDS = 200, SLOTS = 48, CHECKPOINTS = 4 };

/* A walk of allocations, frees, graphs, trims, takes and restores; the check after each restore. */
TEST(sets, restores_hold_through_a_long_walk)
{
    tarn_checkpoint *checkpoints[CHECKPOINTS] = {NULL};
    tn_cu_stream streams[2] = {stream, other};
    uint64_t random = 99;

    for (int round = 0; round < ROUNDS; round++) {
        size_t pick;

        random = random * 6364136223846793005U + 1442695040888963407U; /* Knuth's MMIX */
        pick = (size_t)(random >> 40);
        if (round % 20 == 7) {
            if (checkpoints[pick % CHECKPOINTS] != NULL)
                tn_checkpoint_destroy(checkpoints[pick % CHECKPOINTS]);
            checkpoints[pick % CHECKPOINTS] = take(TARN_CONTENTS_NONE);
        } else if (round % 10 == 9 && checkpoints[pick % CHECKPOINTS] != NULL) {
            restore(checkpoints[pick % CHECKPOINTS]);
            unit_expect_live_set(pool, checkpoints[pick % CHECKPOINTS]);
        } else if (round % 25 == 11) {
            OK(tarn_pool_trim(pool, NULL));
        } else if (round % 40 == 13) {
            OK(tarn_graph_destroy(unit_graph(pool, streams[pick % 2], pick % (9 * MIB) + 1, NULL)));
        } else if (tn_pool_live_count(pool) > SLOTS || round % 3 == 0) {
            struct tn_block *block = tn_live_first(pool->segments.first); /* some live block */

            for (size_t i = pick % SLOTS; i > 0 && block != NULL && tn_live_next(block) != NULL;
                 i--)
                block = tn_live_next(block);
            if (block != NULL)
                OK(tarn_free_on((void *)(uintptr_t)tn_block_address(block), streams[pick % 2]));
        } else {
            (void)unit_alloc(pool, pick % (round % 4 == 0 ? 5 * MIB : 50000) + 1,
                             streams[pick % 2]);
        }
        OK(tarn_pool_validate(pool));
    }
}

/* Between the plan, which found nothing in use and memory missing, and the search for that. */
TEST(waits, memory_freed_while_a_restore_looks_for_memory_is_waited_for)
{
    void *kept = unit_alloc(pool, 4096, other);
    void *small = unit_alloc(pool, 4096, other);
    void *large = unit_alloc(pool, 5 * MIB, other);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);

    ck_assert_ptr_eq(unit_chunk(kept), unit_chunk(small));
    OK(tarn_free(small));
    OK(tarn_free(large));
    unit_trim(device); /* waits once */
    overtaken = true;
    restore(checkpoint);
    ck_assert_uint_eq(waits(), 2);
    unit_expect_live_set(pool, checkpoint);
}

TEST(refused, a_restore_gives_up_where_the_memory_is_freed_anew_after_each_wait)
{
    void *address = unit_alloc(pool, 4096, other);
    tarn_checkpoint *checkpoint = take(TARN_CONTENTS_NONE);
    struct tn_block *block;

    OK(tarn_free(address));
    disturbed = true;
    STATUS(TARN_ERR_BUSY, tn_checkpoint_restore(checkpoint, stream, &delta));
    unit_expect_sentence("other threads keep freeing or restoring memory of pool 'net'");
    ck_assert_uint_eq(waits(), 9);
    ck_assert_ptr_null(delta);
    block = unit_block(address);
    ck_assert_int_eq(block->state, TN_BLOCK_FREE);
    OK(tarn_pool_validate(pool));
    disturbed = false;
    restore(checkpoint);
    unit_expect_live_set(pool, checkpoint);
    ck_assert_uint_eq(waits(), 10);
}
