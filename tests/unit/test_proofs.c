// SPDX-License-Identifier: Apache-2.0
/* Memory that one stream has freed, and that another gets once an event has proven it idle. */
#include "pools/proofs.h"

#include <stdlib.h>

#include "observe/pool_check.h"
#include "pools/grow.h"
#include "unit/two_streams.h"

static struct tn_arena *arena_of(tn_cu_stream of)
{
    struct tn_arena *arena;

    tn_pool_lock(pool);
    arena = tn_arena_find(pool, unit_order(device, of));
    tn_pool_unlock(pool);
    ck_assert_ptr_nonnull(arena);
    return arena;
}

/* Blocks of the other stream. */
static void alloc_all(void **blocks, size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        blocks[i] = unit_alloc(pool, bytes, other);
}

/* The other stream frees 64 MiB; its next allocation asks it. */
static void free_and_ask(void)
{
    OK(tarn_free(unit_alloc(pool, 64 * MIB, other)));
    (void)unit_alloc(pool, 2 * MIB, other);
    ck_assert_uint_eq(arena_of(other)->unasked_bytes, 0);
}

GROUP(events, make_arenas)

TEST(events, memory_moves_to_another_stream_once_an_event_is_done)
{
    uint64_t before;

    free_and_ask();
    test_synchronize(other);
    before = mapped();
    (void)unit_alloc(pool, 96 * MIB, stream); /* more than could be lent */
    ck_assert_uint_le(mapped(), before + 64 * MIB);
    ck_assert_uint_ge(pool->vacated.count, 1);
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), 0);
    OK(tarn_pool_validate(pool));
}

TEST(events, memory_does_not_move_before_the_event_is_done)
{
    uint64_t before;

    sim.hold_work();
    test_fill(other, unit_alloc(pool, 4096, other), 7, 4);
    free_and_ask();
    before = mapped();
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_ge(mapped(), before + 32 * MIB);
    ck_assert_uint_eq(pool->vacated.count, 0);
    sim.resume_work();
    test_synchronize(other);
    before = mapped();
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_eq(mapped(), before);
    OK(tarn_pool_validate(pool));
}

/* What was freed behind the event needs another one. */
TEST(events, an_event_proves_nothing_of_later_frees)
{
    void *block = unit_alloc(pool, 64 * MIB, other);
    uint64_t before;

    free_and_ask();
    OK(tarn_free(block));
    test_synchronize(other);
    OK(tarn_free(unit_alloc(pool, 16 * MIB, stream)));
    before = mapped();
    (void)unit_alloc(pool, 128 * MIB, stream);
    ck_assert_uint_ge(mapped(), before + 64 * MIB - 16 * MIB);
    OK(tarn_pool_validate(pool));
}

/* The pool has put the restore's stream behind the uses of what it freed, not the memory's own. */
TEST(events, an_event_proves_nothing_of_what_a_restore_freed)
{
    uint64_t before;

    free_and_ask();
    test_synchronize(other);
    tn_pool_lock(pool);
    tn_proofs_settle(pool, unit_order(device, stream));
    tn_pool_unlock(pool);
    before = mapped();
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_ge(mapped(), before + 32 * MIB);
}

TEST(events, a_restore_says_what_it_has_freed)
{
    tarn_checkpoint *checkpoint;
    tarn_delta *delta;

    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    (void)unit_alloc(pool, 2 * MIB, other);
    OK(tarn_checkpoint_restore(checkpoint, stream, &delta));
    ck_assert_uint_eq(arena_of(other)->settled_stamp, tn_gpu_epoch(&device->gpu));
    ck_assert_uint_eq(arena_of(stream)->settled_stamp, 0);
    tarn_delta_destroy(delta);
    OK(tarn_checkpoint_destroy(checkpoint));
}

TEST(events, a_capture_grows_without_memory_of_streams)
{
    tarn_capture *capture;
    uint64_t before;

    free_and_ask();
    test_synchronize(other);
    before = mapped();
    capture = unit_begin(pool, stream);
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_ge(mapped(), before + 32 * MIB);
    OK(tarn_graph_destroy(unit_end(capture)));
}

/* Whichever call is refused, the other stream has its memory as before. */
TEST(events, a_move_that_fails_leaves_the_other_its_memory)
{
    static const char *const calls[] = {"cuMemMap", "cuMemSetAccess"};
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);
    void *block = unit_alloc(pool, 64 * MIB, other);
    struct tn_metric maps;
    uint64_t before;

    OK(tarn_free(block));
    (void)unit_alloc(pool, 2 * MIB, other);
    test_synchronize(other);
    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 32));
    tn_proofs_poll(pool);
    before = tn_pool_mapped_bytes(pool);
    maps = pool->counters.metrics[TN_CHUNKS];
    for (size_t i = 0; i < 2; i++) {
        sim.plan_fault(calls[i], 2, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
        STATUS(TARN_ERR_DEVICE_MEMORY, tn_heap_grow(pool, heap, 62 * MIB, true));
        ck_assert_uint_eq(sim.clear_fault(NULL), 1);
        ck_assert_uint_eq(tn_pool_mapped_bytes(pool), before);
        ck_assert_mem_eq(&maps, &pool->counters.metrics[TN_CHUNKS], sizeof maps);
        ck_assert_uint_eq(pool->vacated.count, 0);
        OK(tn_pool_check(pool));
    }
    tn_pool_unlock(pool);
    STATUS(TARN_ERR_DOUBLE_FREE,
           tarn_free((char *)block + 32 * MIB)); /* the chunk still has its index */
    ck_assert_uint_eq(tn_block_bytes(unit_block(unit_alloc(pool, 60 * MIB, other))), 60 * MIB);
    ck_assert_uint_eq(mapped(), before);
    OK(tarn_pool_validate(pool));
}

/* The small heap has a chunk that was mapped for large blocks. */
TEST(events, a_move_that_fails_leaves_each_heap_its_chunks)
{
    struct tn_heap *large = unit_heap(pool, stream, TN_HEAP_LARGE);
    struct tn_heap *small = unit_heap(pool, stream, TN_HEAP_SMALL);
    void *block = unit_alloc(pool, 32 * MIB, stream);
    const struct tn_chunk *chunk = unit_chunk(block);
    uint64_t bytes;

    OK(tarn_free(block));
    unit_settle(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 64));
    tn_run_give_idle(pool, large,
                     (struct tn_run){chunk->segment, chunk->offset, tn_chunk_end(chunk)});
    ck_assert_ptr_nonnull(tn_heap_find(pool, small, 8 * MIB));
    bytes = small->mapped_bytes;
    ck_assert_uint_gt(bytes, 8 * MIB);
    sim.plan_fault("cuMemMap", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_heap_grow(pool, large, 8 * MIB, true));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    ck_assert_uint_eq(small->mapped_bytes, bytes);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

TEST(events, memory_that_waited_for_another_stream_counts)
{
    tn_cu_stream third = test_stream();
    uint64_t before;

    for (int i = 0; i < 4; i++) {
        OK(tarn_free_on(unit_alloc(pool, 64 * MIB, other), third));
        test_synchronize(third);
        (void)unit_alloc(pool, 2 * MIB, other);
    }
    (void)unit_alloc(pool, 2 * MIB, other);
    test_synchronize(other);
    before = mapped();
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_eq(mapped(), before);
}

TEST(events, where_nothing_moves_no_stream_is_asked)
{
    uint64_t recorded = sim.call_count("cuEventRecord");

    device->move_limit_bytes = 0;
    for (int i = 0; i < 8; i++) {
        OK(tarn_free(unit_alloc(pool, 64 * MIB, other)));
        (void)unit_alloc(pool, 2 * MIB, other);
    }
    ck_assert_uint_eq(sim.call_count("cuEventRecord"), recorded);
}

/* Until a growth looks for memory again. */
TEST(events, streams_are_asked_less_where_nobody_grows)
{
    uint64_t recorded;

    (void)unit_alloc(pool, 64 * MIB, other);
    OK(tarn_free(unit_alloc(pool, 64 * MIB, other)));
    (void)unit_alloc(pool, 2 * MIB, other);
    recorded = sim.call_count("cuEventRecord");
    for (int i = 0; i < 64; i++) {
        OK(tarn_free(unit_alloc(pool, 32 * MIB, other)));
        OK(tarn_free(unit_alloc(pool, 2 * MIB, other)));
        test_synchronize(other);
    }
    ck_assert_uint_le(sim.call_count("cuEventRecord"), recorded + 10);
    (void)unit_alloc(pool, 256 * MIB, stream);
    ck_assert_uint_eq(arena_of(other)->vain_asks, 0);
}

/* The last frees of a stream's work: nothing is allocated on the stream behind them. owned: by the arena's
 * owner, or by a thread that is only its user. */
TEST_LOOP(events, frees_that_name_their_stream_ask_it, 0, 2)
{
    bool owned = _i == 1;
    void *blocks[5];
    uint64_t before;

    for (int i = 0; i < 200 && owned; i++)
        OK(tarn_free_on(unit_alloc(pool, 4096, other), other));
    alloc_all(blocks, 5, 32 * MIB);
    ck_assert_int_eq((atomic_load(&arena_of(other)->user) & TN_ARENA_OWNED) != 0, owned);
    for (size_t i = 0; i < 3; i++)
        OK(tarn_free_on(blocks[i], other));
    unit_settle(pool);
    ck_assert_uint_ne(arena_of(other)->progress.asked_stamp, 0);
    test_synchronize(other);
    before = mapped();
    (void)unit_alloc(pool, 64 * MIB, stream);
    ck_assert_uint_eq(mapped(), before);
    OK(tarn_pool_validate(pool));
}

/* With the lock not taken between: what was allocated since the lock counts, too. */
TEST(events, frees_ask_where_less_is_live_than_at_most_since_the_lock)
{
    void *blocks[32];
    uint64_t recorded;

    alloc_all(blocks, 32, 2 * MIB);
    for (size_t i = 0; i < 32; i++)
        OK(tarn_free(blocks[i]));
    arena_of(other)->unasked_bytes = 0;
    arena_of(other)->fallen_bytes = 0;
    tn_pool_lock(pool);
    tn_pool_unlock(pool);
    recorded = sim.call_count("cuEventRecord");
    for (size_t i = 0; i < 24; i++) /* the pool's lock is not taken before one asks */
        blocks[i] = unit_alloc(pool, 2 * MIB, other);
    for (size_t i = 0; i < 24; i++)
        OK(tarn_free_on(blocks[i], other));
    ck_assert_uint_eq(sim.call_count("cuEventRecord"), recorded + 1);
}

/* The GPU is far behind: the first question is under way all the time. */
TEST(events, questions_prove_all_that_was_freed_until_the_last)
{
    void *blocks[4];
    uint64_t before;

    alloc_all(blocks, 4, 64 * MIB);
    test_synchronize(other);
    sim.hold_work();
    test_fill(other, blocks[3], 7, 4);
    for (size_t i = 0; i < 4; i++)
        OK(tarn_free_on(blocks[i], other));
    before = mapped();
    (void)unit_alloc(pool, 64 * MIB, stream);
    ck_assert_uint_eq(mapped(), before + 64 * MIB);
    sim.resume_work();
    test_synchronize(other);
    (void)unit_alloc(pool, 256 * MIB, stream);
    ck_assert_uint_eq(mapped(), before + 64 * MIB);
    ck_assert_uint_eq(arena_of(other)->progress.asked_stamp, 0);
    OK(tarn_pool_validate(pool));
}

/* A thread that does not own the arena asks with the second one. */
static void free_two(void **blocks, size_t *freed)
{
    for (int i = 0; i < 2; i++)
        OK(tarn_free_on(blocks[(*freed)++], other));
}

/* The second event is not made, or not recorded, and later not recorded again: the first one stands, and
 * nothing says that the second one proves anything. */
TEST_LOOP(events, a_second_question_that_is_refused_does_no_harm, 0, 2)
{
    static const char *const calls[] = {"cuEventRecord", "cuEventCreate"};
    const struct tn_progress *progress = &arena_of(other)->progress;
    void *blocks[8];
    size_t freed = 0;
    uint64_t stamp;

    alloc_all(blocks, 8, 64 * MIB);
    test_synchronize(other);
    sim.hold_work();
    test_fill(other, blocks[7], 7, 4);
    free_two(blocks, &freed);
    stamp = progress->asked_stamp;
    ck_assert_uint_ne(stamp, 0);
    sim.plan_fault(calls[_i], 1, 2, TN_CUDA_ERROR_OUT_OF_MEMORY);
    free_two(blocks, &freed);
    ck_assert_uint_ge(sim.clear_fault(NULL), 1);
    ck_assert_ptr_null(progress->later);
    free_two(blocks, &freed);
    ck_assert_uint_gt(progress->later_stamp, stamp);
    sim.plan_fault("cuEventRecord", 1, 2, TN_CUDA_ERROR_OUT_OF_MEMORY);
    free_two(blocks, &freed);
    ck_assert_uint_eq(sim.clear_fault(NULL), 2);
    ck_assert_uint_eq(progress->asked_stamp, stamp);
    ck_assert_uint_eq(progress->later_stamp, 0);
    ck_assert_ptr_null(progress->later);
    sim.resume_work();
    test_synchronize(other);
    (void)unit_alloc(pool, 64 * MIB, stream); /* looks whether it is done */
    OK(tarn_pool_validate(pool));
}

/* Another stream's handle says nothing about the block's own stream. */
TEST(events, frees_that_name_no_stream_or_another_ask_none)
{
    void *blocks[3];

    alloc_all(blocks, 3, 64 * MIB);
    for (size_t i = 0; i < 2; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_free_on(blocks[2], stream));
    ck_assert_uint_eq(arena_of(other)->fallen_bytes, 128 * MIB);
    ck_assert_uint_eq(arena_of(other)->progress.asked_stamp, 0);
}

/* As much is live as before: others get nothing of it. */
TEST(events, frees_of_what_is_allocated_again_ask_none)
{
    void *blocks[32];
    uint64_t recorded;

    alloc_all(blocks, 32, 2 * MIB);
    recorded = sim.call_count("cuEventRecord");
    for (size_t i = 0; i < 1024; i++) {
        OK(tarn_free_on(blocks[i % 32], other));
        blocks[i % 32] = unit_alloc(pool, 2 * MIB, other);
        if (i % 16 == 0)
            unit_settle(pool);
    }
    /* Those of allocations: the bytes between two double. */
    ck_assert_uint_le(sim.call_count("cuEventRecord"), recorded + 8);
}

/* What the pool's lock comes between is counted on. */
TEST(events, falls_go_on_behind_the_pools_lock)
{
    void *blocks[32];

    alloc_all(blocks, 32, 2 * MIB);
    for (size_t i = 0; i < 15; i++) {
        OK(tarn_free_on(blocks[i], other));
        unit_settle(pool);
        ck_assert_uint_eq(arena_of(other)->fallen_bytes, (i + 1) * 2 * MIB);
    }
    ck_assert_uint_eq(arena_of(other)->progress.asked_stamp, 0);
    (void)unit_alloc(pool, 2 * MIB, other);
    unit_settle(pool);
    ck_assert_uint_eq(arena_of(other)->fallen_bytes, 28 * MIB);
    OK(tarn_free_on(blocks[15], other));
    ck_assert_uint_eq(arena_of(other)->progress.asked_stamp, 0);
    OK(tarn_free_on(blocks[16], other));
    OK(tarn_free_on(blocks[17], other));
    ck_assert_uint_ne(arena_of(other)->progress.asked_stamp, 0);
    ck_assert_uint_le(arena_of(other)->fallen_bytes, 2 * MIB);
}

/* Questions in vain are counted to 32. */
TEST(events, frees_ask_less_once_questions_were_long_in_vain)
{
    uint64_t recorded = sim.call_count("cuEventRecord");

    for (int i = 0; i < 64; i++)
        OK(tarn_free_on(unit_alloc(pool, 64 * MIB, other), other));
    recorded = sim.call_count("cuEventRecord") - recorded;
    ck_assert_uint_ge(recorded, 32);
    ck_assert_uint_le(recorded, 36);
    ck_assert_uint_eq(arena_of(other)->vain_asks, TN_VAIN_ASKS_MAX);
    (void)unit_alloc(pool, 256 * MIB, stream);
    ck_assert_uint_eq(arena_of(other)->vain_asks, 0);
}

TEST(events, a_stream_alone_is_never_asked)
{
    tarn_pool *own = unit_pool(device);
    uint64_t recorded = sim.call_count("cuEventRecord");

    for (int i = 0; i < 8; i++) {
        OK(tarn_free(unit_alloc(own, 64 * MIB, stream)));
        (void)unit_alloc(own, 2 * MIB, stream);
    }
    ck_assert_uint_eq(sim.call_count("cuEventRecord"), recorded);
}

/* 1/16 of what is mapped: of 1 GiB 64 MiB. */
TEST(events, a_stream_is_asked_after_frees_of_a_part_of_its_memory)
{
    void *blocks[64];

    (void)unit_alloc(pool, TN_GIB, other);
    alloc_all(blocks, 64, 2 * MIB);
    arena_of(other)->unasked_bytes = 0;
    for (size_t i = 0; i < 32; i++) {
        OK(tarn_free(blocks[i]));
        (void)unit_alloc(pool, 4096, other);
    }
    unit_settle(pool);
    ck_assert_uint_eq(arena_of(other)->progress.asked_stamp, 0);
    for (size_t i = 32; i < 64; i++) {
        OK(tarn_free(blocks[i]));
        (void)unit_alloc(pool, 4096, other);
    }
    unit_settle(pool);
    ck_assert_uint_ne(arena_of(other)->progress.asked_stamp, 0);
}

/* Then nothing is proven, and nothing else happens. */
TEST(events, an_event_that_is_refused_does_no_harm)
{
    uint64_t before;

    sim.plan_fault("cuEventRecord", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    free_and_ask();
    ck_assert_uint_ge(sim.clear_fault(NULL), 1);
    test_synchronize(other);
    before = mapped();
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_ge(mapped(), before + 32 * MIB);
    OK(tarn_free(unit_alloc(pool, 256 * MIB, other)));
    (void)unit_alloc(pool, 2 * MIB, other);
    test_synchronize(other);
    before = mapped();
    (void)unit_alloc(pool, 128 * MIB, stream);
    ck_assert_uint_eq(mapped(), before);
}

/* The driver does not say whether the event is done: it may not be. */
TEST(events, a_question_that_is_refused_proves_nothing)
{
    uint64_t before;

    free_and_ask();
    test_synchronize(other);
    before = mapped();
    sim.plan_fault("cuEventQuery", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_ge(sim.clear_fault(NULL), 1);
    ck_assert_uint_ge(mapped(), before + 32 * MIB);
    ck_assert_uint_eq(arena_of(other)->progress.asked_stamp, 0); /* asked anew some time */
    OK(tarn_pool_validate(pool));
}

static void *working_on; /* the work still writes there */
static bool makes_room_by_a_free;

/* From a third stream: its places are vacated. */
static void move_memory(void)
{
    tn_cu_stream third = test_stream();

    OK(tarn_free(unit_alloc(pool, 64 * MIB, third)));
    (void)unit_alloc(pool, 2 * MIB, third);
    test_synchronize(third);
    (void)unit_alloc(pool, 96 * MIB, stream);
    ck_assert_uint_ge(pool->vacated.count, 1);
}

/* Makes room, destroys the stream of the allocation that calls it, and makes the next stream, to which
 * the driver gives the same handle. */
static bool destroy_the_stream(tarn_device *of, size_t wanted_bytes, void *user)
{
    const tn_cu_stream gone = other;
    const bool makes_room = working_on != NULL;

    (void)of;
    (void)wanted_bytes;
    (void)user;
    if (!makes_room)
        return false;
    if (makes_room_by_a_free) {
        sim.hold_work();
        test_fill(gone, working_on, 7, 16);
        OK(tarn_free(working_on));
    } else {
        OK(tarn_pool_set_limit(pool, 0));
        move_memory();
    }
    working_on = NULL;
    test_destroy_stream(gone);
    other = test_stream();
    ck_assert_ptr_eq(other, gone);
    return true;
}

static void make_arenas_of_streams_with_handles_used_again(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_STRICT", "0", 1), 0);
    make_arenas();
}

GROUP(again, make_arenas_of_streams_with_handles_used_again, .name = "handles used again")

/* _i: its next attempt finds the memory freed; it grows, with places which memory has left. */
TEST_LOOP(again, a_stream_that_the_program_destroys_meanwhile_is_not_asked, 0, 2)
{
    struct tn_arena *arena = arena_of(other);
    char *freed = unit_alloc(pool, 64 * MIB, other);
    void *address = NULL;

    while (tarn_pool_malloc(pool, MIB, 0, other, &address) == TARN_OK) /* nothing is free then */
        OK(tarn_pool_set_limit(pool, mapped()));
    makes_room_by_a_free = _i == 0;
    working_on = freed;
    OK(tarn_device_add_free_callback(device, destroy_the_stream, NULL));
    OK(tarn_pool_malloc(pool, _i == 0 ? 4 * MIB : 128 * MIB, 0, other, &address));
    ck_assert_ptr_null(working_on);
    ck_assert(!arena->was_asked);
    if (_i == 0) {
        OK(tarn_pool_set_limit(pool, 0));
        address = unit_alloc(pool, 32 * MIB, stream);
        ck_assert((char *)address >= freed + 64 * MIB || (char *)address + 32 * MIB <= freed);
    }
    if (_i == 0)
        sim.resume_work();
    OK(tarn_pool_trim(pool, NULL)); /* waits for the work of the stream that is gone */
    OK(tarn_pool_validate(pool));
}
