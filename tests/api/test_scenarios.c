// SPDX-License-Identifier: Apache-2.0
/* What users of other allocators for captured work have met, and must not meet here. Each test names
 * the trouble; most are reported against PyTorch's caching allocator. */
#include "support/world.h"

enum { WORDS = 1024 };

static void *filled(tarn_pool *pool, size_t bytes, uint32_t value)
{
    void *block = test_alloc(pool, bytes, world.stream);

    test_fill(world.stream, block, value, WORDS);
    return block;
}

static void expect(const void *block, uint32_t value)
{
    test_expect_words(world.stream, block, value, WORDS);
}

static void restore(tarn_checkpoint *checkpoint)
{
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    OK(tarn_pool_validate(world.pool));
}

GROUP(troubles, test_world_open, test_world_close, .name = "known troubles")

/* A checkpoint cannot be restored once memory in the middle of an expandable segment has been
 * given back: "expandable segment has an interior hole". */
TEST(troubles, a_checkpoint_is_restored_over_a_hole_in_the_middle_of_a_segment)
{
    char *blocks[8];
    tarn_checkpoint *checkpoint;
    size_t freed = 0;

    for (uint32_t i = 0; i < 8; i++)
        blocks[i] = filled(world.pool, 2 * MIB, i + 1);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    for (int i = 2; i < 6; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_ge(freed, 2 * MIB);
    restore(checkpoint);
    for (uint32_t i = 0; i < 8; i++) {
        expect(blocks[i], i + 1);
        OK(tarn_free(blocks[i]));
    }
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* Nor when a segment was mapped to its very end, so that no unmapped tail is left. */
TEST(troubles, a_checkpoint_is_restored_into_a_segment_that_was_mapped_to_its_end)
{
    tarn_checkpoint *checkpoint;
    char *blocks[16];

    for (uint32_t i = 0; i < 16; i++) /* the first segment has 32 MiB */
        blocks[i] = filled(world.pool, 2 * MIB, i + 1);
    checkpoint = test_take(TARN_CONTENTS_DEVICE);
    ck_assert_uint_ge(test_stats(world.pool).mapped_bytes, 32 * MIB);
    for (int i = 0; i < 16; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    restore(checkpoint);
    for (uint32_t i = 0; i < 16; i++) {
        expect(blocks[i], i + 1);
        OK(tarn_free(blocks[i]));
    }
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* A restore forgets what was asked for, and statistics count rounded sizes from then on. */
TEST(troubles, a_restore_keeps_the_sizes_that_were_asked_for)
{
    void *block = test_alloc(world.pool, 1001, world.stream);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);
    tarn_block described;

    OK(tarn_free(block));
    restore(checkpoint);
    OK(tarn_block_at(block, &described));
    ck_assert_uint_eq(described.bytes, 1001);
    ck_assert_uint_eq(test_stats(world.pool).requested_bytes, 1001);
    OK(tarn_free(block));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* A restore forgets which streams use a block, and its next free hands it out under their work. */
TEST(troubles, a_restore_keeps_the_streams_that_use_a_block)
{
    void *block = filled(world.pool, MIB, 1);
    tarn_checkpoint *checkpoint;

    OK(tarn_record_stream(block, world.side));
    checkpoint = test_take(TARN_CONTENTS_NONE);
    OK(tarn_free(block));
    test_synchronize(world.side);
    restore(checkpoint);
    sim.hold_work();
    test_fill(world.side, block, 2, WORDS);
    OK(tarn_free(block));
    ck_assert_uint_eq(test_stats(world.pool).pending_count, 1);
    ck_assert_ptr_ne(test_alloc(world.pool, MIB, world.stream), block);
    sim.resume_work();
    OK(tarn_checkpoint_restore(checkpoint, world.stream, NULL)); /* frees the other one, too */
    OK(tarn_free(block));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* A restore frees everything before it finds out that it cannot go on: the pool is left half
 * restored. Here it is refused for want of memory, and nothing has changed. */
TEST(troubles, a_restore_that_cannot_be_done_changes_nothing)
{
    char *then = filled(world.pool, 64 * MIB, 1);
    tarn_checkpoint *checkpoint = test_take(TARN_CONTENTS_NONE);
    void *now;

    OK(tarn_free(then));
    OK(tarn_pool_trim(world.pool, NULL));
    now = filled(world.pool, MIB, 2);
    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    REFUSE(TARN_ERR_DEVICE_MEMORY, "memory",
           tarn_checkpoint_restore(checkpoint, world.stream, NULL));
    (void)sim.clear_fault(NULL);
    expect(now, 2);
    restore(checkpoint);
    OK(tarn_free(then));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* A pool's state cannot be taken while blocks wait for other streams. */
TEST(troubles, a_checkpoint_is_taken_while_blocks_are_pending)
{
    void *kept = filled(world.pool, MIB, 1);
    void *pending = filled(world.pool, MIB, 2);
    tarn_checkpoint *checkpoint;

    test_order(world.stream, world.side);
    sim.hold_work();
    test_fill(world.side, pending, 3, WORDS);
    OK(tarn_free_on(pending, world.side));
    checkpoint = test_take(TARN_CONTENTS_NONE);
    ck_assert_uint_eq(test_stats(world.pool).pending_count,
                      0); /* its stream is behind the side's */
    OK(tarn_free(kept));
    sim.resume_work();
    restore(checkpoint);
    OK(tarn_free(kept));
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* Graphs that share a pool reuse each other's memory only when they were captured on one stream. */
TEST(troubles, graphs_captured_on_different_streams_share_memory)
{
    tn_cu_stream streams[2] = {world.stream, world.side};
    tarn_graph *graphs[4];
    uint64_t mapped = 0;

    for (int i = 0; i < 4; i++) {
        tarn_capture *capture =
            test_capture_on(world.pool, streams[i % 2], TARN_CAPTURE_THREAD_LOCAL);
        void *scratch;

        OK(tarn_malloc(world.device, 24 * MIB, streams[i % 2], &scratch));
        test_fill(streams[i % 2], scratch, 1, WORDS);
        OK(tarn_free(scratch));
        graphs[i] = test_capture_end(capture);
        if (i == 0)
            mapped = test_stats(world.pool).mapped_bytes;
    }
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, mapped);
    for (int i = 0; i < 4; i++)
        OK(tarn_graph_destroy(graphs[i]));
}

/* A capture that nobody ends keeps its pool's memory for ever. */
TEST(troubles, an_abandoned_capture_gives_its_memory_back)
{
    tn_cu_stream stream = test_stream();
    tarn_capture *capture = test_capture_on(world.pool, stream, TARN_CAPTURE_THREAD_LOCAL);
    void *block;

    OK(tarn_malloc(world.device, 32 * MIB, stream, &block));
    test_fill(stream, block, 1, WORDS);
    test_destroy_stream(stream); /* and nobody ever ends the capture */
    test_await_destructors(0);
    OK(tarn_free(block));
    OK(tarn_pool_trim(world.pool, NULL));
    ck_assert_uint_eq(test_stats(world.pool).mapped_bytes, 0);
    OK(tarn_capture_abort(capture)); /* the handle is good for this still */
}

/* A pool's life is counted in driver allocations and frees: what one call maps and several unmap
 * takes the count to zero under a live block, or never. */
TEST(troubles, a_pool_lives_by_what_is_in_it_not_by_counted_calls)
{
    tarn_pool *pool = test_pool("counted");
    char *blocks[32];
    void *kept;

    kept = filled(pool, MIB, 7);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 32; i++)
            blocks[i] = test_alloc(pool, 4 * MIB, world.stream); /* grown in few large pieces */
        for (int i = 0; i < 32; i++) {
            OK(tarn_free(blocks[i]));
            OK(tarn_pool_trim(pool, NULL)); /* given back in many small ones */
        }
    }
    OK(tarn_pool_release(pool));
    expect(kept, 7); /* the pool is there for its block */
    OK(tarn_free(kept));
    OK(tarn_device_trim(world.device, 0, NULL));          /* a free does not wait for the GPU */
    ck_assert_uint_eq(test_device_stats().pool_count, 2); /* and goes with it */
}

/* Mapping fails half-way through a growth, and the pool believes in memory that is not there. */
TEST(troubles, a_growth_that_fails_half_way_is_undone_whole)
{
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (uint64_t nth = 1; nth <= 3; nth++) { /* 14 MiB are 8 + 4 + 2 */
            void *block = UNTOUCHED;
            tarn_status status;
            struct test_picture before = test_picture();

            sim.plan_fault(calls[i], nth, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
            status = tarn_pool_malloc(world.pool, 14 * MIB, 0, world.stream, &block);
            (void)sim.clear_fault(NULL);
            ck_assert_int_eq(status, TARN_ERR_DEVICE_MEMORY);
            ck_assert_untouched(block);
            test_same_picture(&before);
            OK(tarn_pool_validate(world.pool));
        }
    }
    OK(tarn_free(filled(world.pool, 14 * MIB, 1)));
}

/* Out of memory within the scope of a private pool, although another pool's free memory is there. */
TEST(troubles, a_routed_allocation_is_served_from_free_memory_of_other_pools)
{
    void *block;
    void *held;
    tarn_route *route;

    OK(tarn_free(filled(world.default_pool, 256 * MIB, 1)));
    route = test_route(world.pool, tarn_filter_thread, NULL);
    sim.plan_fault("cuMemCreate", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    OK(tarn_malloc(world.device, 128 * MIB, world.stream, &block));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    OK(tarn_end_allocate_to_pool(route));
    held = filled(world.pool, MIB, 1);
    OK(tarn_free(block));
    OK(tarn_free(held));
}

/* Running out of memory in a capture makes calls that break it. */
TEST(troubles, running_out_of_memory_in_a_capture_does_not_break_it)
{
    tarn_capture *capture;
    void *block;
    void *refused = UNTOUCHED;

    OK(tarn_free(filled(world.default_pool, 64 * MIB, 1)));
    capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    block = test_malloc(MIB);
    test_fill(world.stream, block, 1, WORDS);
    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_malloc(world.device, 512 * MIB, world.stream, &refused));
    (void)sim.clear_fault(NULL);
    ck_assert_int_eq(test_capture_status(world.stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    OK(tarn_free(block));
    OK(tarn_graph_destroy(test_capture_end(capture)));
}

/* Freed blocks of the default pool wait for events, and asking for those events breaks a capture
 * that is under way in a thread-local mode. */
TEST(troubles, waiting_frees_of_the_default_pool_do_not_disturb_a_capture)
{
    void *shared = filled(world.default_pool, MIB, 1);
    tn_cu_stream third = test_stream();
    tarn_capture *capture;
    void *scratch;

    OK(tarn_record_stream(shared, third));
    test_synchronize(world.stream);
    test_fill(third, shared, 2, WORDS);
    OK(tarn_free(shared));
    capture = test_capture_on(world.pool, world.side, TARN_CAPTURE_THREAD_LOCAL);
    OK(tarn_malloc(world.device, MIB, world.side, &scratch));
    test_fill(world.side, scratch, 3, WORDS);
    for (int i = 0; i < 64; i++) /* memory is needed: what waits is asked after */
        OK(tarn_free(test_alloc(world.default_pool, 8 * MIB, world.stream)));
    OK(tarn_pool_trim(world.default_pool, NULL));
    OK(tarn_free(scratch));
    OK(tarn_graph_destroy(test_capture_end(capture)));
    test_destroy_stream(third);
}

/* Memory is kept by the value of a stream handle, which the driver gives to the next stream: its
 * allocations then get memory that the destroyed stream's work is still using. */
TEST(troubles, a_new_stream_with_an_old_handle_does_not_inherit_memory_in_use)
{
    tn_cu_stream old = test_stream();
    char *first = test_alloc(world.pool, 4 * MIB, old);
    tn_cu_stream young;
    char *second;

    sim.hold_work();
    test_fill(old, first, 1, WORDS);
    OK(tarn_free(first)); /* for its own stream at once */
    test_destroy_stream(old);
    young = test_stream();
    second = test_alloc(world.pool, 4 * MIB, young);
    ck_assert(second + 4 * MIB <= first || second >= first + 4 * MIB);
    sim.resume_work();
    OK(tarn_free(second));
    test_destroy_stream(young);
}

/* Memory that a graph used on two streams stays out of use for the rest of the capture, and graphs
 * grow with every record_stream. */
TEST(troubles, memory_used_on_two_streams_of_a_capture_is_reused_in_it)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *first = test_malloc(16 * MIB);
    void *second;

    test_fill(world.stream, first, 1, WORDS);
    test_order(world.stream, world.side);
    test_add(world.side, first, 1, WORDS);
    OK(tarn_free_on(first, world.side));
    second = test_malloc(16 * MIB); /* beside the other stream's work: not the same memory */
    ck_assert_ptr_ne(second, first);
    test_fill(world.stream, second, 1, WORDS);
    test_order(world.side, world.stream);
    ck_assert_ptr_eq(test_malloc(16 * MIB), first); /* behind it: the same */
    OK(tarn_free(second));
    OK(tarn_free(first));
    OK(tarn_graph_destroy(test_capture_end(capture)));
}

/* Of two pools in use at once the older one wins, or the order depends on which was made first. */
TEST(troubles, of_nested_scopes_the_inner_one_decides)
{
    tarn_pool *inner = test_pool("inner");
    tarn_route *routes[2];
    void *blocks[3];
    tarn_block described;

    routes[0] = test_route(world.pool, tarn_filter_thread, NULL);
    blocks[0] = test_malloc(64);
    routes[1] = test_route(inner, tarn_filter_thread, NULL);
    blocks[1] = test_malloc(64);
    OK(tarn_end_allocate_to_pool(routes[1]));
    blocks[2] = test_malloc(64);
    OK(tarn_end_allocate_to_pool(routes[0]));
    for (int i = 0; i < 3; i++) {
        OK(tarn_block_at(blocks[i], &described));
        ck_assert_ptr_eq(described.pool, i == 1 ? inner : world.pool);
        OK(tarn_free(blocks[i]));
    }
    OK(tarn_pool_destroy(inner));
}

/* The error of an allocation that found no memory does not say which private pool has it. */
TEST(troubles, an_out_of_memory_error_names_the_pools_that_hold_the_memory)
{
    tarn_pool *guilty = test_pool("guilty");
    void *held = test_alloc(guilty, 300 * MIB, world.stream);
    void *block = UNTOUCHED;

    sim.plan_fault("cuMemCreate", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tarn_malloc(world.device, GIB, world.stream, &block));
    (void)sim.clear_fault(NULL);
    ck_assert_untouched(block);
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "'guilty'"));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "300"));
    OK(tarn_free(held));
    OK(tarn_pool_destroy(guilty));
}

/* Memory of a pool with a live graph can only be given back all or not at all. */
TEST(troubles, a_pool_with_a_live_graph_is_trimmed_around_it)
{
    tarn_capture *capture = test_capture_begin(TARN_CAPTURE_THREAD_LOCAL);
    void *scratch = test_malloc(4 * MIB);
    tarn_graph *graph;
    char *eager;
    size_t freed = 0;

    test_add(world.stream, scratch, 1, WORDS);
    OK(tarn_free(scratch));
    graph = test_capture_end(capture);
    eager = filled(world.pool, 64 * MIB, 1);
    OK(tarn_free(eager));
    OK(tarn_pool_trim(world.pool, &freed));
    ck_assert_uint_ge(freed, 64 * MIB);
    test_set_words(world.stream, scratch, 5, WORDS);
    OK(tarn_graph_replay(graph, world.stream));
    expect(scratch, 6);
    OK(tarn_graph_destroy(graph));
}
