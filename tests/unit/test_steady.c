// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/state.h"
#include "driver/idle.h"
#include "heap/sequence.h"
#include "heap/steady.h"
#include "pools/allocate.h"
#include "pools/arena_table.h"
#include "pools/arenas.h"
#include "pools/handover.h"
#include "unit/one_pool.h"

static struct tn_order order;

static void set_up(void)
{
    make_pool();
    order = unit_order(device, stream);
}

static void *try_allocate(struct tn_order at, uint64_t bytes)
{
    const struct tn_steady_key claim = {.order = at, .pool = pool};
    const struct tn_place place = {.known = false};
    struct tn_arena *arena = at.capture_id != 0 ? tn_arena_seek(pool, at) : NULL;
    void *address = NULL;

    if (at.capture_id == 0)
        return unit_try_alloc(pool, at, bytes, 512, &address) ? address : NULL;
    return arena != NULL &&
                   tn_steady_allocate_and_note_birth(arena, &claim, &place, bytes, 512, &address)
               ? address
               : NULL;
}

static bool try_free(const void *address)
{
    return tn_steady_free((uint64_t)(uintptr_t)address);
}

GROUP(arena, set_up, .name = "one arena")

TEST(arena, memory_of_the_streams_own_is_served_and_taken_back)
{
    void *first = unit_alloc(pool, 4096, stream);
    void *second = try_allocate(order, 4096);

    ck_assert_ptr_nonnull(second);
    ck_assert(try_free(first));
    ck_assert_ptr_eq(try_allocate(order, 4096), first);
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 2);
    ck_assert_uint_eq(unit_stats(pool).alloc_count, 3);
    ck_assert_uint_eq(unit_stats(pool).free_count, 1);
    ck_assert_uint_eq(unit_stats(pool).live_peak_bytes, 8192);
}

/* P19 */
TEST(arena, what_was_freed_last_is_loose_until_it_is_asked_for_otherwise)
{
    void *first = unit_alloc(pool, 4096, stream);
    void *second = try_allocate(order, 8192);
    struct tn_heap *heap = unit_block(first)->heap;

    ck_assert(try_free(first));
    ck_assert_ptr_eq(heap->loose, tn_live_find(pool, (uint64_t)(uintptr_t)first));
    ck_assert(!try_free(first)); /* freed it is all the same */
    ck_assert_ptr_eq(try_allocate(order, 4000), first);
    ck_assert_ptr_null(heap->loose);
    ck_assert(try_free(first));
    ck_assert(try_free(second)); /* takes its place */
    ck_assert_ptr_eq(heap->loose, tn_live_find(pool, (uint64_t)(uintptr_t)second));
    ck_assert_uint_eq(heap->loose_count, 1);
    ck_assert(!try_free(first));
    OK(tarn_pool_validate(pool));
    ck_assert_ptr_null(heap->loose);
    ck_assert_uint_eq(unit_chunk(first)->used_bytes, 0);
    ck_assert_uint_eq(unit_stats(pool).live_count, 0);
    STATUS(TARN_ERR_DOUBLE_FREE, tarn_free(first));
}

/* P19 */
TEST(arena, what_was_freed_lately_is_found_by_its_size)
{
    enum { BLOCKS = 12 };
    void *blocks[BLOCKS];
    struct tn_heap *heap;

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_alloc(pool, (size_t)(i + 1) * 4096, stream);
    heap = unit_block(blocks[0])->heap;
    for (int i = 0; i < BLOCKS; i++)
        ck_assert(try_free(blocks[i]));
    ck_assert_uint_eq(heap->loose_count, BLOCKS - 1);
    for (int i = 0; i < BLOCKS; i++)
        ck_assert_ptr_eq(try_allocate(order, (size_t)(i * 5 % BLOCKS + 1) * 4096),
                         blocks[i * 5 % BLOCKS]);
    ck_assert_uint_eq(heap->loose_count, 0);
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, BLOCKS);
    ck_assert_uint_eq(unit_stats(pool).alloc_count, 2 * BLOCKS);
}

/* The bytes of [begin, begin + bytes) that lie in the chunk. */
static uint64_t bytes_in(const struct tn_chunk *chunk, const void *begin, uint64_t bytes)
{
    uint64_t low = tn_max(tn_chunk_address(chunk), (uint64_t)(uintptr_t)begin);
    uint64_t high =
        tn_min(tn_chunk_address(chunk) + chunk->bytes, (uint64_t)(uintptr_t)begin + bytes);

    return low < high ? high - low : 0;
}

/* P6, and the stamps of frees: of a part of the first chunk, of whole ones, of a part of the last. */
TEST(arena, a_block_counts_in_each_chunk_under_it)
{
    const uint64_t bytes = 420 * TN_MIB;
    void *all = unit_alloc(pool, 640 * TN_MIB, stream);
    const struct tn_segment *segment = unit_block(all)->segment;
    struct tn_arena *arena = unit_block(all)->heap->arena;
    void *before;
    void *block;
    size_t whole = 0;
    size_t partly = 0;

    ck_assert(try_free(all));
    before = try_allocate(order, 33 * TN_MIB);
    block = try_allocate(order, bytes);
    ck_assert_ptr_nonnull(block);
    for (uint64_t at = 0; at < segment->mapped_bytes;
         at += tn_segment_chunk_at(segment, at)->bytes) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, at);
        uint64_t here = bytes_in(chunk, block, bytes);

        ck_assert_uint_eq(chunk->used_bytes, here + bytes_in(chunk, before, 33 * TN_MIB));
        whole += here == chunk->bytes;
        partly += here > 0 && here < chunk->bytes;
        chunk->freed_stamp = 0;
    }
    ck_assert_uint_ge(whole, 2);
    ck_assert_uint_eq(partly, 2);
    ck_assert(try_free(block));
    OK(tarn_pool_validate(pool));
    for (uint64_t at = 0; at < segment->mapped_bytes;
         at += tn_segment_chunk_at(segment, at)->bytes) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(segment, at);

        ck_assert_uint_eq(chunk->used_bytes, bytes_in(chunk, before, 33 * TN_MIB));
        ck_assert_uint_eq(chunk->freed_stamp,
                          bytes_in(chunk, block, bytes) > 0 ? tn_arena_epoch(arena) : 0);
    }
    OK(tarn_free(before));
}

/* P19: what a slot says of its sizes it says by 64 bits, and none of them says what the slot says. */
TEST(arena, sizes_of_a_slot_are_told_apart_by_each_of_its_bits)
{
    uint64_t seen[TN_LOOSE_SLOTS] = {0};

    for (uint64_t units = 1; units <= TN_MIB / TN_BLOCK_BYTES_MIN; units++) {
        void *block = unit_alloc(pool, units * TN_BLOCK_BYTES_MIN, stream);
        void *behind = unit_alloc(pool, units * TN_BLOCK_BYTES_MIN, stream);
        const struct tn_heap *heap = unit_block(block)->heap;

        ck_assert(try_free(block) && try_free(behind)); /* the former is in its slot */
        ck_assert_uint_eq(heap->loose_count, 1);
        for (size_t i = 0; i < TN_LOOSE_SLOTS; i++)
            seen[i] |= heap->loose_slots[i].sizes;
        tn_pool_lock(pool); /* all joins */
        tn_pool_unlock(pool);
    }
    for (size_t i = 0; i < TN_LOOSE_SLOTS; i++)
        ck_assert_uint_eq(seen[i], UINT64_MAX);
}

/* P19: what is loose keeps no holes apart where something needs them. */
TEST(arena, loose_blocks_coalesce_before_the_heap_would_grow)
{
    enum { BLOCKS = 8 };
    void *blocks[BLOCKS];

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_alloc(pool, 256 * TN_KIB, stream); /* one chunk, full */
    ck_assert_ptr_null(try_allocate(order, 512));
    ck_assert(try_free(blocks[2]));
    ck_assert(try_free(blocks[3]));
    ck_assert(try_free(blocks[6]));
    ck_assert_ptr_eq(try_allocate(order, 512 * TN_KIB), blocks[2]);
    ck_assert_ptr_eq(try_allocate(order, 256 * TN_KIB), blocks[6]);
    ck_assert_ptr_null(try_allocate(order, 512));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).chunk_count, 1);
}

/* A few blocks live at a time, of so many sizes that hardly one is loose when it is asked for. */
TEST(arena, loose_blocks_coalesce_before_the_pool_is_asked_for_more)
{
    enum { LIVE = 10, ROUNDS = 8000, SIZES = 200 };
    void *blocks[LIVE] = {NULL};
    uint32_t random = 1;
    size_t left = 0;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t bytes;

        random = random * 1664525 + 1013904223;
        bytes = (random >> 16) % SIZES * 512 + 512;
        if (blocks[i % LIVE] != NULL)
            ck_assert(try_free(blocks[i % LIVE]));
        blocks[i % LIVE] = try_allocate(order, bytes);
        left += blocks[i % LIVE] == NULL;
        if (blocks[i % LIVE] == NULL)
            blocks[i % LIVE] = unit_alloc(pool, bytes, stream);
    }
    ck_assert_uint_le(left, 8);
    OK(tarn_pool_validate(pool));
}

/* Which block an allocation gets does not depend on when the pool was locked. */
TEST(arena, in_a_pool_with_checkpoints_nothing_is_loose)
{
    void *block = unit_alloc(pool, 4096, stream);
    struct tn_heap *heap = unit_block(block)->heap;
    tarn_checkpoint *checkpoint;

    OK(tn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    ck_assert(try_free(block));
    ck_assert_ptr_null(heap->loose);
    ck_assert_ptr_null(tn_live_find(pool, (uint64_t)(uintptr_t)block));
    ck_assert_ptr_eq(try_allocate(order, 8192), block);
    tn_checkpoint_destroy(checkpoint);
    ck_assert(try_free(block));
    ck_assert_ptr_nonnull(heap->loose);
}

/* With a size of its own each. */
TEST(arena, only_so_many_blocks_are_loose)
{
    enum { BLOCKS = 200 };
    void *blocks[BLOCKS];
    struct tn_heap *heap;

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_alloc(pool, (size_t)(i + 1) * 512, stream);
    heap = unit_block(blocks[0])->heap;
    for (int i = 0; i < BLOCKS; i++) {
        ck_assert(try_free(blocks[i]));
        ck_assert_uint_lt(heap->loose_count, 64);
    }
    ck_assert_uint_gt(heap->loose_count, 8);
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(heap->loose_count, 0);
    ck_assert_uint_eq(unit_chunk(blocks[0])->used_bytes, 0);
}

/* It was freed before another one was allocated: more may be live than ever. */
TEST(arena, what_was_loose_may_make_a_peak)
{
    const struct tn_metric *live = &pool->counters.metrics[TN_LIVE_BYTES];
    void *first = unit_alloc(pool, 4096, stream);

    ck_assert(try_free(first));
    ck_assert_ptr_nonnull(try_allocate(order, 8192));
    ck_assert_ptr_eq(try_allocate(order, 4096), first);
    ck_assert(try_free(first));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(live->peak[TN_HEAP_SMALL], 12288);
    ck_assert_uint_eq(live->peak[TN_ALL_KINDS], 12288);
}

/* The largest are few: they are given the best place there is. */
TEST(arena, all_that_is_loose_coalesces_before_the_largest_are_cut)
{
    void *rest = unit_alloc(pool, 200 * MIB, stream);
    void *low = unit_alloc(pool, 40 * MIB, stream);
    void *high = unit_alloc(pool, 30 * MIB, stream);
    void *end = unit_alloc(pool, MIB, stream);

    ck_assert(try_free(rest));
    unit_settle(pool);
    ck_assert_ptr_eq(try_allocate(order, 128 * MIB), rest); /* so some 72 MiB are left of it */
    ck_assert(try_free(low));
    ck_assert(try_free(high));
    ck_assert_ptr_nonnull(try_allocate(order, 66 * MIB));
    ck_assert_uint_eq(unit_block(end)->heap->loose_count, 0);
    OK(tarn_pool_validate(pool));
}

/* P19 */
CONTRACT_TEST(arena, a_loose_block_under_the_pools_lock_is_a_broken_contract)
{
    struct tn_block *block = unit_block(unit_alloc(pool, 4096, stream));

    tn_pool_lock(pool);
    block->heap->loose = block;
    tn_pool_unlock(pool);
}

/* What is free at the end of the mapped memory is the last to be cut, and a large block that was freed there is
 * no exception. */
TEST(arena, a_large_block_that_is_loose_is_looked_for_anew)
{
    void *hole = unit_alloc(pool, 8 * MIB, stream);
    void *between = unit_alloc(pool, 2 * MIB, stream);
    void *last = unit_alloc(pool, 8 * MIB, stream);

    ck_assert_int_eq(unit_block(last)->next->state, TN_BLOCK_UNMAPPED);
    ck_assert(try_free(hole));
    ck_assert(try_free(last));
    ck_assert_ptr_eq(try_allocate(order, 8 * MIB), hole);
    ck_assert(try_free(hole)); /* there is no other large enough that was joined */
    ck_assert_ptr_eq(try_allocate(order, 8 * MIB), hole);
    ck_assert_ptr_eq(try_allocate(order, 8 * MIB), last);
    ck_assert(try_free(between));
    ck_assert_ptr_eq(try_allocate(order, 2 * MIB), between);
    OK(tarn_pool_validate(pool));
}

TEST(arena, what_is_loose_serves_no_stricter_alignment)
{
    const struct tn_request request = {4096, MIB, order};
    void *low = unit_alloc(pool, 4096, stream);
    void *odd = try_allocate(order, 4096);
    void *aligned = NULL;

    ck_assert(try_free(odd));
    ck_assert(unit_try_alloc(pool, request.order, request.requested, request.alignment, &aligned));
    ck_assert_ptr_ne(aligned, odd);
    ck_assert_uint_eq((uintptr_t)aligned % MIB, 0);
    ck_assert(try_free(low));
    OK(tarn_pool_validate(pool));
}

TEST(arena, what_needs_more_than_the_arena_is_left_to_the_pool)
{
    void *address;

    ck_assert_ptr_null(try_allocate(order, 4096)); /* there is no arena */
    address = unit_alloc(pool, 4096, stream);
    ck_assert_ptr_null(try_allocate(order, 3 * MIB)); /* no memory */
    ck_assert_ptr_null(try_allocate(unit_order(device, other), 4096));
    ck_assert(!try_free((char *)address + 512));
    ck_assert(!try_free(&address));
    ck_assert(try_free(address));
    ck_assert(!try_free(address));
    OK(tarn_pool_validate(pool));
}

TEST(arena, an_arena_without_records_leaves_a_cut_to_the_pool)
{
    struct tn_arena *arena = unit_block(unit_alloc(pool, 4096, stream))->heap->arena;
    size_t live;

    tn_pool_lock(pool);
    tn_blocks_move(&arena->store, &pool->store, arena->store.spare_count - 1);
    tn_pool_unlock(pool);
    live = unit_stats(pool).live_count;
    ck_assert_ptr_null(try_allocate(order, 4096));
    ck_assert_uint_eq(unit_stats(pool).live_count, live);
    ck_assert_uint_eq(arena->store.spare_count, 1);
    (void)unit_alloc(pool, 4096, stream); /* provides for the next ones, too */
    ck_assert_ptr_nonnull(try_allocate(order, 4096));
    OK(tarn_pool_validate(pool));
}

/* Lets other streams have the memory of a block: it goes to the pool's idle memory. */
static void hand_over(void *address)
{
    OK(tarn_free(address));
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_arenas_give_idle(pool), 2 * MIB);
    tn_pool_unlock(pool);
}

/* 18 blocks fill the first index of their chunk. */
TEST(arena, a_chunk_without_room_in_its_index_is_left_to_the_pool)
{
    void *address = NULL;

    (void)unit_alloc(pool, 4096, stream);
    for (int i = 0; i < 17; i++)
        ck_assert_ptr_nonnull(try_allocate(order, 4096));
    ck_assert_ptr_null(try_allocate(order, 4096));
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tarn_pool_malloc(pool, 4096, 0, stream, &address));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_null(try_allocate(order, 4096));
    (void)unit_alloc(pool, 4096, stream);
    ck_assert_ptr_nonnull(try_allocate(order, 4096));
    OK(tarn_pool_validate(pool));
}

TEST(arena, a_block_with_uses_is_left_to_the_pool)
{
    void *address = unit_alloc(pool, 4096, stream);

    OK(tarn_record_stream(address, other));
    ck_assert(!try_free(address));
    OK(tarn_free(address));
}

static void count(uint64_t *counter, uint64_t value)
{
    tn_pool_lock(pool);
    *counter = value;
    tn_pool_unlock(pool);
}

TEST(arena, while_a_capture_is_under_way_frees_are_left_to_the_pool)
{
    void *address = unit_alloc(pool, 4096, stream);

    count(&pool->holds.open_count, 1);
    ck_assert(!try_free(address));
    count(&pool->holds.open_count, 0);
    count(&pool->claims.route_count, 1);
    ck_assert(!try_free(address));
    count(&pool->claims.route_count, 0);
    ck_assert(try_free(address));
}

TEST(arena, a_capture_is_served_from_what_its_hold_has)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *first = unit_alloc(pool, 4096, stream);
    struct tn_order captured = tn_block_order(unit_block(first));
    void *second = try_allocate(captured, 8192);

    ck_assert_uint_ne(captured.capture_id, 0);
    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_null(
        try_allocate((struct tn_order){captured.stream_id, captured.capture_id + 1}, 4096));
    ck_assert(try_free(first));
    ck_assert_ptr_eq(try_allocate(captured, 4096), first);
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 2);
    count(&pool->claims.route_count, 2); /* by which there may be a capture that is not known */
    ck_assert(!try_free(second));
    count(&pool->claims.route_count, 1);
    count(&pool->holds.open_count, 2);
    ck_assert(!try_free(second));
    count(&pool->holds.open_count, 1);
    ck_assert(try_free(second));
    OK(tarn_graph_destroy(unit_end(capture)));
    ck_assert_ptr_null(try_allocate(captured, 4096));
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 1);
}

TEST(arena, a_chunk_that_the_capture_has_not_touched_is_left_to_the_pool)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *block = unit_alloc(pool, 4096, stream);
    struct tn_order captured = tn_block_order(unit_block(block));
    struct tn_chunk *chunk = unit_chunk(block);
    struct tn_hold *hold = unit_find_hold(pool, captured.capture_id);
    uint64_t bit = (uint64_t)1 << chunk->id;

    hold->chunks.words[0] &= ~bit;
    ck_assert_ptr_null(try_allocate(captured, 4096));
    hold->chunks.words[0] |= bit;
    ck_assert_ptr_nonnull(try_allocate(captured, 4096));
    OK(tarn_capture_abort(capture));
}

/* By a tarn_capture alone it is known what else is captured. */
TEST(arena, frees_in_a_users_own_capture_are_left_to_the_pool)
{
    tarn_graph *graph;
    tarn_route *route;
    void *block;

    OK(tarn_begin_allocate_to_pool(device, pool, tarn_filter_stream, stream, &route));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    OK(tarn_malloc(device, 4096, stream, &block));
    ck_assert_ptr_nonnull(try_allocate(tn_block_order(unit_block(block)), 4096));
    ck_assert(!try_free(block));
    OK(tarn_graph_adopt(pool, test_end_capture(stream), &graph));
    OK(tarn_end_allocate_to_pool(route));
    OK(tarn_graph_destroy(graph));
}

TEST(arena, a_retired_streams_arena_serves_nobody)
{
    void *address = unit_alloc(pool, 4096, stream);

    OK(tarn_stream_retire(device, stream));
    ck_assert_ptr_null(try_allocate(order, 4096));
    ck_assert(!try_free(address));
    OK(tarn_free(address));
}

/* The chunks of three streams lie side by side. */
TEST(arena, neighbours_of_other_arenas_are_left_alone)
{
    tn_cu_stream streams[3] = {stream, other, test_stream()};
    void *blocks[9];

    for (int i = 0; i < 9; i++)
        blocks[i] = unit_alloc(pool, 2 * MIB, stream);
    for (int i = 0; i < 9; i++) {
        hand_over(blocks[i]);
        ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, streams[i % 3]), blocks[i]);
        OK(tarn_pool_validate(pool));
    }
    for (int round = 0; round < 3; round++) {
        for (int i = round; i < 9; i += 2) {
            OK(tarn_free(blocks[i]));
            OK(tarn_pool_validate(pool));
            blocks[i] = unit_alloc(pool, (size_t)(round + 1) * 300000 + 1100000, streams[i % 3]);
            OK(tarn_pool_validate(pool));
        }
    }
    for (int i = 0; i < 9; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_pool_validate(pool));
}

/* Behind the free memory lies another arena's block, which knows the record before it. */
TEST(arena, an_aligned_block_is_cut_out_below_another_arena)
{
    const struct tn_request request = {5 * MIB / 4, MIB, order};
    char *blocks[3];
    struct tn_block *behind;
    void *address = NULL;

    for (int i = 0; i < 3; i++)
        blocks[i] = unit_alloc(pool, 2 * MIB, stream);
    hand_over(blocks[2]);
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, other), blocks[2]);
    behind = unit_block(blocks[2]);
    ck_assert(try_free(blocks[0]));
    ck_assert(try_free(blocks[1]));
    ck_assert_ptr_eq(try_allocate(order, 3 * MIB / 2), blocks[0]);
    ck_assert_ptr_eq(behind->previous, unit_block(blocks[0])->next);
    ck_assert(unit_try_alloc(pool, request.order, request.requested, request.alignment, &address));
    ck_assert_ptr_eq(address, blocks[1]);
    ck_assert_uint_eq(tn_block_bytes(unit_block(address)->previous),
                      MIB / 2); /* free, as is what is behind */
    ck_assert_uint_eq(tn_block_bytes(behind->previous), 3 * MIB / 4);
    OK(tarn_pool_validate(pool));
    ck_assert(try_free(address));
    unit_settle(pool);
    ck_assert_uint_eq(tn_block_bytes(behind->previous), 5 * MIB / 2);
    OK(tarn_pool_validate(pool));
}

/* A run of three blocks, freed in each order, with another arena's memory below it or above: its records are in
 * neighbours' links, which nobody may write. */
TEST_LOOP(arena, the_record_beside_another_arena_stays, 0, 12)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const bool above = _i % 2 != 0;
    char *blocks[5];
    struct tn_block *edge;
    struct tn_block *foreign;

    for (int i = 0; i < 5; i++)
        blocks[i] = unit_alloc(pool, 2 * MIB, stream);
    hand_over(blocks[above ? 4 : 0]);
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, other), blocks[above ? 4 : 0]);
    foreign = unit_block(blocks[above ? 4 : 0]);
    edge = unit_block(blocks[above ? 3 : 1]);
    for (int i = 0; i < 3; i++) {
        ck_assert(try_free(blocks[1 + orders[_i / 2][i]]));
        unit_settle(pool);
        ck_assert_ptr_eq(above ? foreign->previous : foreign->next, edge);
        OK(tarn_pool_validate(pool));
    }
    ck_assert_uint_eq(tn_block_bytes(edge), 6 * MIB);
    ck_assert_ptr_eq(try_allocate(order, 5 * MIB), blocks[1]);
    edge = above ? foreign->previous : foreign->next;
    ck_assert_uint_eq(tn_block_bytes(edge), above ? MIB : 5 * MIB);
    OK(tarn_pool_validate(pool));
}

TEST(arena, an_enclosed_block_is_cut_under_the_pools_lock)
{
    void *blocks[3];
    struct tn_block *middle;

    for (int i = 0; i < 3; i++)
        blocks[i] = unit_alloc(pool, 2 * MIB, other);
    hand_over(blocks[1]);
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, stream), blocks[1]);
    middle = unit_block(blocks[1]);
    ck_assert(tn_run_is_enclosed(middle, middle, middle->heap->arena));
    ck_assert(try_free(blocks[1])); /* nothing is joined */
    ck_assert_ptr_null(try_allocate(order, 3 * MIB / 2));
    ck_assert_ptr_eq(unit_alloc(pool, 3 * MIB / 2, stream), blocks[1]);
    ck_assert(!try_free(blocks[1])); /* it would be joined with the rest, between the others' */
    OK(tarn_free(blocks[1]));
    OK(tarn_pool_validate(pool));
}

/* A program that frees what it has allocated, and does so again. */
TEST(arena, an_arena_that_has_run_out_of_records_keeps_what_it_needs)
{
    enum { BLOCKS = 700, ROUNDS = 3 };
    void *blocks[BLOCKS];

    for (int round = 0; round < ROUNDS; round++) {
        size_t left = 0;

        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = try_allocate(order, 4096);
            left += blocks[i] == NULL;
            if (blocks[i] == NULL)
                blocks[i] = unit_alloc(pool, 4096, stream);
        }
        ck_assert_uint_le(left, round == 0 ? 16 : 0);
        for (int i = 0; i < BLOCKS; i++)
            OK(tarn_free(blocks[i]));
        OK(tarn_pool_validate(
            pool)); /* all have joined, and what is too much is the pool's again */
    }
}

/* The pool gets back what an arena has too many of. */
TEST(arena, an_arena_keeps_no_more_records_than_it_has_run_out_of)
{
    enum { RECORDS = 1000 };
    struct tn_arena *arena = unit_block(unit_alloc(pool, 4096, stream))->heap->arena;

    OK(tn_blocks_reserve(&pool->store, RECORDS) ? TARN_OK : TARN_ERR_HOST_MEMORY);
    tn_pool_lock(pool);
    tn_blocks_move(&pool->store, &arena->store, RECORDS);
    tn_pool_unlock(pool);
    OK(tarn_pool_validate(pool)); /* looks at it again */
    ck_assert_uint_le(arena->store.spare_count, 64);
    ck_assert_uint_ge(pool->store.spare_count, RECORDS - 64);
}

/* What frees join comes back to what restores cut. */
TEST(arena, records_do_not_pile_up)
{
    enum { BLOCKS = 64 };
    void *blocks[BLOCKS];
    tarn_checkpoint *checkpoint = NULL;
    size_t spare = 0;

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_alloc(pool, 4096, stream);
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    for (int round = 0; round < 100; round++) {
        size_t now;

        for (int i = 0; i < BLOCKS; i++)
            OK(tarn_free(blocks[i]));
        OK(tarn_checkpoint_restore(checkpoint, stream, NULL));
        tn_pool_lock(pool);
        now = pool->store.spare_count + unit_block(blocks[0])->heap->arena->store.spare_count;
        tn_pool_unlock(pool);
        if (round == 10)
            spare = now;
        if (round > 10)
            ck_assert_uint_le(now, spare);
    }
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* Numbers that were set aside are dropped when the pool is looked at. */
TEST(arena, later_blocks_have_higher_numbers)
{
    uint64_t between;

    (void)unit_alloc(pool, 4096, stream);
    ck_assert_ptr_nonnull(try_allocate(order, 4096));
    tn_pool_lock(pool);
    between = tn_next_sequence();
    tn_pool_unlock(pool);
    ck_assert_uint_gt(unit_block(try_allocate(order, 4096))->sequence, between);
}
