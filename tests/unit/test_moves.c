// SPDX-License-Identifier: Apache-2.0
/* Memory that moves to where it is lacking, and the places that it leaves. */
#include "pools/moves.h"

#include "driver/idle.h"
#include "observe/pool_check.h"
#include "pools/grow.h"
#include "pools/handover.h"
#include "pools/vacated.h"
#include "unit/one_pool.h"

static uint64_t mapped(void)
{
    return unit_stats(pool).mapped_bytes;
}

static uint64_t vacated(void)
{
    return pool->vacated.count;
}

/* Four blocks in chunks of their own, and the second and the fourth are freed. */
static void make_comb(void *blocks[4])
{
    for (size_t i = 0; i < 4; i++)
        blocks[i] = unit_alloc(pool, 8 * MIB, stream);
    ck_assert_uint_eq(mapped(), 32 * MIB);
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 4);
    OK(tarn_free(blocks[1]));
    OK(tarn_free(blocks[3]));
}

static void expect_gone(const void *address)
{
    ck_assert_ptr_null(tn_address_table_chunk((uint64_t)(uintptr_t)address));
}

GROUP(moves, make_pool)

TEST(moves, memory_moves_before_any_is_made)
{
    void *blocks[4];
    void *large;
    uint64_t created;

    make_comb(blocks);
    created = sim.call_count("cuMemCreate");
    large = unit_alloc(pool, 16 * MIB, stream);
    ck_assert_uint_eq(sim.call_count("cuMemCreate"), created);
    ck_assert_uint_eq(mapped(), 32 * MIB);
    ck_assert_uint_eq(test_ledger().handle_bytes, 32 * MIB);
    ck_assert_uint_eq(pool->counters.metrics[TN_CHUNK_BYTES].peak[TN_ALL_KINDS], 32 * MIB);
    ck_assert_uint_eq(vacated(), 2);
    expect_gone(blocks[1]);
    expect_gone(blocks[3]);
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(blocks[1]));
    OK(tarn_pool_validate(pool));
    OK(tarn_free(large));
}

/* The fill of before is under way at the old place while the later one waits at the new place. */
TEST(moves, memory_moves_in_the_order_of_its_stream_without_a_wait)
{
    void *blocks[4];
    void *large;
    uint32_t word = 0;

    make_comb(blocks);
    sim.hold_work();
    blocks[1] = unit_alloc(pool, 8 * MIB, stream);
    test_fill(stream, blocks[1], 7, 1024);
    OK(tarn_free(blocks[1]));
    large = unit_alloc(pool, 16 * MIB, stream);
    ck_assert_uint_eq(vacated(), 2);
    for (size_t i = 0; i < 16; i += 8)
        test_fill(stream, (char *)large + i * MIB, 9, 1024);
    sim.resume_work();
    for (size_t i = 0; i < 16; i += 8) {
        test_read_bytes(stream, &word, (char *)large + i * MIB, sizeof word);
        ck_assert_uint_eq(word, 9);
    }
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), 0);
    OK(tarn_free(large));
}

/* Growths of another stream's arena, which has nothing to move. */
static void let_pass(uint64_t growths)
{
    for (uint64_t i = 0; i < growths; i++)
        (void)unit_alloc(pool, 66 * MIB, other);
}

GROUP(places, make_pool)

TEST(places, a_place_is_closed_when_proven_and_some_growths_later)
{
    void *blocks[4];
    void *large;

    make_comb(blocks);
    sim.hold_work();
    test_fill(stream, blocks[0], 7, 4);
    large = unit_alloc(pool, 16 * MIB, stream); /* asks how far its stream has come */
    let_pass(TN_VACATED_GROWTHS + 2);
    ck_assert_uint_eq(vacated(), 2); /* old, and not proven */
    sim.resume_work();
    test_synchronize(stream);
    (void)unit_alloc(pool, 64 * MIB, stream); /* asks the event */
    ck_assert_uint_eq(vacated(), 0);
    OK(tarn_free(large));
    (void)unit_alloc(pool, 66 * MIB, stream);
    ck_assert_uint_ge(vacated(), 1);
    test_synchronize(stream);
    (void)unit_alloc(pool, 68 * MIB, stream); /* proven, and young */
    ck_assert_uint_ge(vacated(), 1);
    OK(tarn_pool_validate(pool));
}

static void shuffle(void **blocks, size_t count, uint32_t *dice)
{
    for (size_t i = count - 1; i > 0; i--) {
        void *block = blocks[i];
        size_t with;

        *dice = *dice * 1664525 + 1013904223;
        with = *dice / 65536 % (i + 1);
        blocks[i] = blocks[with];
        blocks[with] = block;
    }
}

/* By turns half of the blocks are freed, at random, and a large one takes their memory. */
TEST(places, the_oldest_of_very_many_places_are_closed_before_their_time)
{
    enum { BLOCKS = 64, TURNS = 24 };
    void *blocks[BLOCKS];
    uint32_t dice = 1;
    uint64_t vacated_most = 0;
    uint64_t most;

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = unit_alloc(pool, 66 * MIB, stream);
    most = mapped() + mapped() / 5; /* what is left of the large one is in pieces */
    for (size_t turn = 0; turn < TURNS; turn++) {
        void *large;

        shuffle(blocks, BLOCKS, &dice);
        for (size_t i = 0; i < BLOCKS / 2; i++)
            OK(tarn_free(blocks[i]));
        large = unit_alloc(pool, BLOCKS / 2 * 66 * MIB, stream);
        ck_assert_uint_le(mapped(), most);
        vacated_most = vacated() > vacated_most ? vacated() : vacated_most;
        test_synchronize(stream);
        OK(tarn_free(large));
        for (size_t i = 0; i < BLOCKS / 2; i++)
            blocks[i] = unit_alloc(pool, 66 * MIB, stream);
    }
    ck_assert_uint_gt(vacated_most, TN_VACATED_KEPT);
    OK(tarn_pool_validate(pool));
}

TEST(places, nothing_is_mapped_at_a_vacated_place)
{
    void *blocks[4];
    void *large;
    const struct tn_chunk *place;

    make_comb(blocks);
    large = unit_alloc(pool, 16 * MIB, stream);
    ck_assert_uint_eq(
        tn_vacated_room(pool, unit_segment(blocks[0]), unit_offset(blocks[1]), 8 * MIB), 0);
    for (uint64_t bytes = 2; bytes < 64; bytes += 2) {
        const char *address = unit_alloc(pool, bytes * MIB, stream);

        for (place = pool->vacated.first; place != NULL; place = place->next) {
            uint64_t at = tn_chunk_address(place);

            ck_assert(at >= (uintptr_t)address + bytes * MIB ||
                      at + place->bytes <= (uintptr_t)address);
        }
    }
    OK(tarn_pool_validate(pool));
    OK(tarn_free(large));
}

TEST(moves, what_a_graph_holds_does_not_move)
{
    tarn_graph *graph = unit_graph(pool, stream, 32 * MIB, NULL);
    void *large;

    OK(tn_gpu_wait_idle(&device->gpu)); /* the hold alone keeps it */
    large = unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_eq(vacated(), 0);
    ck_assert_uint_eq(mapped(), 64 * MIB);
    OK(tarn_free(large));
    OK(tarn_graph_destroy(graph));
}

TEST(moves, memory_of_another_stream_does_not_move)
{
    OK(tarn_free(unit_alloc(pool, 32 * MIB, other)));
    (void)unit_alloc(pool, 32 * MIB, stream);
    ck_assert_uint_eq(vacated(), 0);
    ck_assert_uint_eq(mapped(), 64 * MIB);
}

/* _i: 1: a wait has proven the memory idle. */
TEST_LOOP(moves, idle_memory_moves_when_it_is_proven, 0, 2)
{
    void *blocks[4];

    make_comb(blocks);
    unit_settle(pool);
    for (size_t i = 1; i < 4; i += 2) {
        const struct tn_chunk *chunk = unit_chunk(blocks[i]);

        tn_pool_lock(pool);
        ck_assert(tn_blocks_reserve(&pool->store, 2));
        tn_run_give_idle(pool, chunk->heap,
                         (struct tn_run){chunk->segment, chunk->offset, tn_chunk_end(chunk)});
        tn_pool_unlock(pool);
    }
    if (_i == 1)
        OK(tn_gpu_wait_idle(&device->gpu));
    (void)unit_alloc(pool, 16 * MIB, other);
    ck_assert_uint_eq(vacated(), _i == 1 ? 2 : 0);
    ck_assert_uint_eq(mapped(), _i == 1 ? 32 * MIB : 48 * MIB);
    OK(tarn_pool_validate(pool));
}

TEST(moves, where_moves_are_forbidden_memory_is_made)
{
    void *blocks[4];

    device->move_limit_bytes = 8 * MIB - 1;
    make_comb(blocks);
    (void)unit_alloc(pool, 16 * MIB, stream);
    ck_assert_uint_eq(vacated(), 0);
    ck_assert_uint_gt(mapped(), 32 * MIB);
}

/* Live: 16 MiB, and one block of 4 to 196 MiB. */
TEST(moves, blocks_that_grow_and_shrink_for_ever_take_no_more_memory)
{
    (void)unit_alloc(pool, 16 * MIB, stream);
    for (uint64_t i = 0; i < 1000; i++) {
        void *first = unit_alloc(pool, (i * 37 % 97 + 2) * 2 * MIB, stream);

        OK(tarn_free(first));
        test_synchronize(stream);
    }
    ck_assert_uint_le(mapped(), (16 + 196 + 2 * 32) * MIB);
    OK(tarn_pool_validate(pool));
}

/* Whichever call is refused, all is as before: three calls of each, for two moves and 2 MiB more. */
TEST(moves, a_move_that_fails_changes_nothing)
{
    static const char *const calls[] = {"cuMemMap", "cuMemSetAccess", "cuMemCreate"};
    struct tn_heap *heap = unit_heap(pool, stream, TN_HEAP_LARGE);
    void *blocks[4];
    tarn_sim_ledger before;

    make_comb(blocks);
    unit_settle(pool);
    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 32));
    before = test_ledger();
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t nth = 1; nth <= (i < 2 ? 3 : 1); nth++) {
            sim.plan_fault(calls[i], nth, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
            STATUS(TARN_ERR_DEVICE_MEMORY, tn_heap_grow(pool, heap, 18 * MIB, true));
            ck_assert_uint_eq(sim.clear_fault(NULL), 1);
            test_same_ledger(&before);
            ck_assert_uint_eq(vacated(), 0);
            ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 32 * MIB);
            ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 32 * MIB);
            ck_assert_uint_eq(pool->counters.metrics[TN_CHUNK_BYTES].peak[TN_ALL_KINDS], 32 * MIB);
            OK(tn_pool_check(pool));
        }
    }
    OK(tn_gpu_check(&device->gpu));
    OK(tn_heap_grow(pool, heap, 18 * MIB, true));
    ck_assert_uint_eq(vacated(), 2);
    ck_assert_uint_eq(tn_pool_mapped_bytes(pool), 34 * MIB);
    tn_pool_unlock(pool);
    OK(tarn_pool_validate(pool));
}

TEST(places, a_place_that_cannot_be_closed_poisons_the_device)
{
    void *blocks[4];
    void *large;

    make_comb(blocks);
    large = unit_alloc(pool, 16 * MIB, stream);
    OK(tarn_free(large));
    sim.plan_fault("cuMemUnmap", 1, 1, TN_CUDA_ERROR_INVALID_VALUE);
    STATUS(TARN_ERR_POISONED, tarn_pool_trim(pool, NULL));
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&device->gpu));
    ck_assert_uint_eq(vacated(), 0);
}

TEST(places, a_trim_closes_what_is_proven_and_memory_goes)
{
    void *blocks[4];
    void *large;

    make_comb(blocks);
    large = unit_alloc(pool, 16 * MIB, stream);
    OK(tarn_free(large));
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[2]));
    unit_trim(device);
    ck_assert_uint_eq(vacated(), 0);
    ck_assert_uint_eq(mapped(), 0);
    ck_assert_uint_eq(test_ledger().handle_bytes, 0);
    ck_assert_uint_eq(unit_stats(pool).segment_count, 0);
}

/* Its stream's end leaves only the device's proofs. */
TEST(places, places_of_an_arena_that_ended_are_closed_by_a_wait)
{
    void *blocks[4];

    make_comb(blocks);
    (void)unit_alloc(pool, 16 * MIB, stream);
    test_synchronize(stream);
    tn_pool_lock(pool);
    tn_vacated_orphan(pool, tn_arena_find(pool, unit_order(device, stream)));
    tn_vacated_sweep(pool);
    ck_assert_uint_eq(vacated(), 2);
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    tn_vacated_sweep(pool);
    ck_assert_uint_eq(vacated(), 0);
    tn_pool_unlock(pool);
}

/* Its old place is mapped anew, behind a wait, since work may use it. */
TEST(places, a_restore_maps_again_where_memory_has_moved_away)
{
    void *blocks[4];
    tarn_checkpoint *checkpoint;
    tarn_delta *delta;
    void *large;

    for (size_t i = 0; i < 4; i++)
        blocks[i] = unit_alloc(pool, 8 * MIB, stream);
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    OK(tarn_free(blocks[1]));
    OK(tarn_free(blocks[3]));
    large = unit_alloc(pool, 16 * MIB, stream);
    ck_assert_uint_eq(vacated(), 2);
    OK(tarn_checkpoint_restore(checkpoint, stream, &delta));
    ck_assert_uint_eq(vacated(), 0);
    ck_assert_uint_eq(unit_stats(pool).live_count, 4);
    ck_assert_uint_eq(tn_block_bytes(unit_block(blocks[1])), 8 * MIB);
    OK(tarn_pool_validate(pool));
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(large));
    for (size_t i = 0; i < 4; i++)
        OK(tarn_free(blocks[i]));
    tarn_delta_destroy(delta);
    OK(tarn_checkpoint_destroy(checkpoint));
}

TEST(moves, within_a_limit_what_is_free_serves)
{
    void *blocks[24];

    OK(tarn_pool_set_limit(pool, 1000 * MIB));
    for (size_t i = 0; i < 24; i++)
        blocks[i] = unit_alloc(pool, 40 * MIB, stream);
    for (size_t i = 0; i < 24; i += 2)
        OK(tarn_free(blocks[i]));
    (void)unit_alloc(pool, 440 * MIB, stream);
    ck_assert_uint_le(mapped(), 1000 * MIB);
    OK(tarn_pool_validate(pool));
}

TEST(moves, what_large_blocks_leave_goes_with_a_trim)
{
    void *blocks[24];

    for (size_t i = 0; i < 24; i++)
        blocks[i] = unit_alloc(pool, 250 * MIB, stream);
    for (size_t i = 0; i < 24; i += 2)
        OK(tarn_free(blocks[i]));
    unit_trim(device);
    ck_assert_uint_le(mapped(), 12 * 250 * MIB + 24 * 2 * MIB);
    OK(tarn_pool_validate(pool));
}

/* What P28 and P29 say. */
TEST(places, a_wrong_vacated_place_is_found)
{
    void *blocks[4];
    struct tn_chunk *place;
    uint64_t stamp;

    make_comb(blocks);
    (void)unit_alloc(pool, 16 * MIB, stream);
    place = pool->vacated.first;
    pool->vacated.count += 1;
    unit_expect_corrupt(pool, "P28");
    pool->vacated.count -= 1;
    stamp = place->freed_stamp;
    place->freed_stamp += 100;
    unit_expect_corrupt(pool, "P29");
    place->freed_stamp = stamp;
    OK(tarn_pool_validate(pool));
}
