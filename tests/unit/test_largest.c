// SPDX-License-Identifier: Apache-2.0
/* States in which the largest allocation is hard to foresee; api/test_largest.c makes states at random. In each, a
 * process allocates what was answered, and another one 2 MiB more. */
#include "pools/largest.h"
#include "pools/arena_table.h"
#include "pools/moves.h"
#include "unit/one_pool.h"

static struct test_device_stats device_stats(void)
{
    tarn_stats stats = TARN_STATS_INIT;

    OK(tarn_device_stats(device, &stats));
    return test_device_stats_in(&stats);
}

static uint64_t wait_count(void)
{
    return device_stats().idle_waits;
}

static uint64_t find_largest(tn_cu_stream on)
{
    uint64_t bytes = 77;

    OK(tn_pool_find_largest(pool, on, unit_order(device, on), &bytes));
    ck_assert(tn_lock_none_held());
    return bytes;
}

/* What is proven idle by now; nothing is taken from the pool. */
static void prove_idle(void)
{
    OK(tn_gpu_wait_idle(&device->gpu));
}

/* Makes no memory but these bytes. */
static void leave(uint64_t bytes)
{
    OK(tarn_device_set_cache_limit(device, TARN_NO_CACHE));
    OK(tarn_device_set_limit(device, device_stats().mapped_bytes + bytes));
}

/* more: the allocation of a granule more needs a wait; else that of the answer needs none. */
static void expect_largest(tn_cu_stream on, uint64_t expected, bool more)
{
    uint64_t waits = wait_count();
    void *address = NULL;
    tarn_status status;

    ck_assert_uint_eq(find_largest(on), expected);
    ck_assert_uint_eq(find_largest(on), expected);
    status = tarn_pool_malloc(pool, expected + (more ? 2 * MIB : 0), 0, on, &address);
    ck_assert_int_eq(status == TARN_OK && wait_count() == waits, !more);
    OK(tarn_pool_validate(pool));
}

/* Both streams have arenas, and small memory. */
static void make_arenas(void)
{
    make_pool();
    (void)unit_alloc(pool, 4096, stream);
    (void)unit_alloc(pool, 4096, other);
}

GROUP(largest, make_arenas)

/* The arena's free bytes are a tail of 1 MiB, a chunk that is proven idle, and one that is not. On the second rung the
 * chunk between would be idle memory, and the tail of no use. */
TEST_LOOP(largest, free_bytes_below_a_growth_count_at_first, 0, 2)
{
    void *proven;
    void *unproven;

    (void)unit_alloc(pool, 3 * MIB, stream);
    proven = unit_alloc(pool, 9 * MIB, stream);
    unproven = unit_alloc(pool, 8 * MIB, stream);
    OK(tarn_free(proven));
    prove_idle();
    OK(tarn_free(unproven));
    leave(4 * MIB);
    expect_largest(stream, 21 * MIB, _i == 1);
}

/* A free chunk has moved away above a tail of 1 MiB. The place is closed when memory is unmapped, and here none is. */
TEST_LOOP(largest, a_place_that_memory_has_left_is_no_room_for_a_growth, 0, 2)
{
    (void)unit_alloc(pool, 3 * MIB, stream);
    OK(tarn_free(unit_alloc(pool, 9 * MIB, stream)));
    (void)unit_alloc(pool, 40 * MIB, stream);
    ck_assert_uint_eq(pool->vacated.count, 1);
    prove_idle();
    leave(4 * MIB);
    expect_largest(stream, 4 * MIB, _i == 1);
}

/* The first segment would be chosen, and goes: the growth comes to the second one, behind a tail of 1 MiB. */
TEST_LOOP(largest, a_segment_without_memory_is_given_up, 0, 2)
{
    void *block = unit_alloc(pool, 8 * MIB, stream);

    (void)unit_alloc(pool, 39 * MIB, stream);
    OK(tarn_free(block));
    prove_idle();
    leave(4 * MIB);
    expect_largest(stream, 13 * MIB, _i == 1);
}

/* Behind free bytes of 10 MiB there is room for 2 MiB, and the only chunk that may move has 8 MiB. */
TEST_LOOP(largest, a_chunk_that_is_too_large_for_its_room_does_not_move_there, 0, 2)
{
    void *movable = unit_alloc(pool, 8 * MIB, stream);
    void *below;
    void *between;

    OK(tarn_free(unit_alloc(pool, 16 * MIB, stream)));
    (void)unit_alloc(pool, 6 * MIB, stream);
    below = unit_alloc(pool, 10 * MIB, stream);
    between = unit_alloc(pool, 2 * MIB, stream);
    (void)unit_alloc(pool, 6 * MIB, stream);
    OK(tarn_free(between));
    OK(tarn_pool_trim(pool, NULL));
    OK(tarn_free(below));
    OK(tarn_free(movable)); /* unproven, or it would be unmapped */
    leave(2 * MIB);
    expect_largest(stream, 10 * MIB, _i == 1);
}

/* Another stream's reserved memory is idle memory again before any of it is lent: 16 MiB, and 2 MiB for small
 * blocks. Otherwise the stream would lend 28 MiB in one piece. */
TEST_LOOP(largest, reserved_memory_is_not_lent_beyond_what_is_used, 0, 2)
{
    OK(tarn_pool_reserve(pool, 48 * MIB, other));
    (void)unit_alloc(pool, 20 * MIB, other);
    leave(0);
    expect_largest(stream, 18 * MIB, _i == 1);
}

/* 256 KiB are free for large blocks, which no request of this size gets. */
TEST_LOOP(largest, small_blocks_have_memory_of_their_own, 0, 2)
{
    (void)unit_alloc(pool, 2 * MIB - (256 << 10), stream);
    leave(0);
    expect_largest(stream, TN_SMALL_BYTES_MAX, _i == 1);
}

/* A stream that nobody has used for long has its memory again with its next call. */
TEST_LOOP(largest, dormant_memory_of_the_stream_counts, 0, 2)
{
    tn_cu_stream left = test_stream();

    OK(tarn_free(unit_alloc(pool, 8 * MIB, left)));
    for (int i = 0; i < 300; i++) {
        tn_pool_lock(pool);
        tn_pool_unlock(pool);
    }
    tn_pool_lock(pool);
    for (int i = 0; i < 4; i++)
        tn_arenas_tend(pool);
    ck_assert_ptr_nonnull(pool->segments.dormant.first);
    tn_pool_unlock(pool);
    leave(0);
    ck_assert_uint_le(find_largest(stream), TN_SMALL_BYTES_MAX);
    expect_largest(left, 8 * MIB, _i == 1);
}

/* Its arena is asleep, and stays so. */
TEST_LOOP(largest, a_stream_that_nobody_uses_is_asked_about, 0, 2)
{
    struct tn_arena *arena = tn_arena_seek(pool, unit_order(device, other));

    OK(tarn_free(unit_alloc(pool, 8 * MIB, other)));
    for (int i = 0; i < 60; i++) {
        tn_pool_lock(pool);
        tn_pool_unlock(pool);
    }
    leave(0);
    ck_assert(arena->asleep);
    (void)find_largest(other);
    ck_assert(arena->asleep);
    OK(tarn_pool_validate(pool));
    expect_largest(other, 8 * MIB, _i == 1);
}

TEST_LOOP(largest, memory_that_a_graph_holds_does_not_count, 0, 2)
{
    tarn_graph *graph = unit_graph(pool, other, 8 * MIB, NULL);

    prove_idle();
    leave(2 * MIB);
    expect_largest(stream, 2 * MIB, _i == 1);
    (void)graph;
}

/* Some more chunks are free than may move. */
TEST_LOOP(largest, no_more_chunks_count_than_move, 0, 2)
{
    enum { CHUNKS = 2 * (TN_MOVES_MAX + 6) };
    void *blocks[CHUNKS];

    device->move_limit_bytes = 0;
    for (size_t i = 0; i < CHUNKS; i++) {
        OK(tarn_pool_set_limit(pool, unit_stats(pool).mapped_bytes + 2 * MIB)); /* none ahead */
        blocks[i] = unit_alloc(pool, 2 * MIB, stream);
    }
    OK(tarn_pool_set_limit(pool, 0));
    device->move_limit_bytes = SIZE_MAX;
    for (size_t i = 0; i < CHUNKS; i += 2)
        OK(tarn_free(blocks[i]));
    leave(0);
    expect_largest(stream, 2 * MIB * TN_MOVES_MAX, _i == 1);
}

TEST(largest, no_answer_without_host_memory)
{
    uint64_t bytes = 77;
    struct tn_order order = unit_order(device, stream);

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_pool_find_largest(pool, stream, order, &bytes));
    ck_assert_uint_eq(bytes, 77);
    ck_assert(tn_lock_none_held());
}
