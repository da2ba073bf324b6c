// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include "driver/idle.h"
#include "pools/arenas.h"
#include "pools/handover.h"
#include "pools/retire.h"
#include "unit/one_pool.h"

static uint64_t map_count(void)
{
    return unit_stats(pool).map_count;
}

static struct tn_arena *arena_of(tn_cu_stream at)
{
    struct tn_arena *arena;

    tn_pool_lock(pool);
    arena = tn_arena_get(pool, unit_order(device, at));
    tn_pool_unlock(pool);
    ck_assert_ptr_nonnull(arena);
    return arena;
}

/* Destroys the graph and waits for its hold to go. */
static void end_graph(tarn_graph *graph)
{
    OK(tarn_graph_destroy(graph));
    unit_reap_all(pool);
}

GROUP(arenas, make_pool)

TEST(arenas, an_arena_is_made_once_for_each_order)
{
    struct tn_arena *first = arena_of(stream);
    struct tn_arena *second = arena_of(other);

    ck_assert_ptr_ne(first, second);
    ck_assert_ptr_eq(arena_of(stream), first);
    ck_assert_uint_eq(pool->arenas.count, 2);
    ck_assert_ptr_eq(first->pool, pool);
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        ck_assert_ptr_eq(first->heaps[kind]->arena, first);
        ck_assert_int_eq(first->heaps[kind]->kind, kind);
        ck_assert_uint_eq(first->heaps[kind]->mapped_bytes, 0);
    }
    ck_assert(!tn_arena_is_captured(first));
}

TEST(arenas, the_arena_used_last_is_looked_at_first)
{
    struct tn_arena *first = arena_of(stream);
    struct tn_arena *second = arena_of(other);

    ck_assert_ptr_eq(pool->arenas.lists.first[TN_ARENAS_ALL], second);
    ck_assert_ptr_eq(unit_arena(pool, first->order), first);
    ck_assert_ptr_eq(pool->arenas.lists.first[TN_ARENAS_ALL], first);
    ck_assert_ptr_eq(tn_arena_next(first), second);
    ck_assert_ptr_null(tn_arena_next(second));
    ck_assert_ptr_null(unit_arena(pool, (struct tn_order){12345, 6}));
}

TEST(arenas, no_arena_without_host_memory)
{
    struct tn_order order = unit_order(device, stream);

    (void)tn_host_plan_fault(1, false);
    tn_pool_lock(pool);
    ck_assert_ptr_null(tn_arena_get(pool, order));
    tn_pool_unlock(pool);
    ck_assert_uint_eq(pool->arenas.count, 0);
}

TEST(arenas, small_and_large_blocks_have_chunks_of_their_own)
{
    void *small = unit_alloc(pool, TN_SMALL_BYTES_MAX, stream);
    void *large = unit_alloc(pool, TN_SMALL_BYTES_MAX + 1, stream);

    ck_assert_int_eq(unit_chunk(small)->heap->kind, TN_HEAP_SMALL);
    ck_assert_int_eq(unit_chunk(large)->heap->kind, TN_HEAP_LARGE);
    ck_assert_ptr_ne(unit_chunk(small), unit_chunk(large));
    ck_assert_ptr_ne(unit_segment(small), unit_segment(large));
}

GROUP(blocks, make_pool)

TEST(blocks, a_freed_block_is_reused_by_its_own_order_at_once)
{
    void *first = unit_alloc(pool, 4096, stream);
    void *elsewhere;

    OK(tarn_free(first));
    elsewhere = unit_alloc(pool, 4096, other);
    ck_assert_ptr_ne(elsewhere, first);
    ck_assert_ptr_eq(unit_alloc(pool, 4096, stream), first);
    ck_assert_ptr_ne(unit_chunk(first), unit_chunk(elsewhere));
}

TEST(blocks, a_freed_block_coalesces_with_its_free_neighbours)
{
    void *blocks[4];
    struct tn_block *joined;

    for (size_t i = 0; i < 4; i++)
        blocks[i] = unit_alloc(pool, 256 * TN_KIB, stream);
    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[2]));
    ck_assert_int_eq(unit_block(blocks[0])->state, TN_BLOCK_FREE);
    ck_assert_uint_eq(tn_block_bytes(unit_block(blocks[0])), 256 * TN_KIB);
    OK(tarn_free(blocks[1])); /* joins both */
    joined = unit_block(blocks[0]);
    ck_assert_uint_eq(tn_block_bytes(joined), 768 * TN_KIB);
    ck_assert_ptr_null(unit_block(blocks[1]));
    ck_assert_ptr_null(unit_block(blocks[2]));
    OK(tarn_pool_validate(pool));
    OK(tarn_free(blocks[3]));
    ck_assert_uint_eq(tn_block_bytes(unit_block(blocks[0])), TN_PAGE_BYTES);
    OK(tarn_pool_validate(pool));
}

TEST(blocks, free_blocks_coalesce_over_the_edge_of_two_chunks)
{
    void *first = unit_alloc(pool, 2 * MIB, stream);
    void *second = unit_alloc(pool, 2 * MIB, stream);

    ck_assert_ptr_ne(unit_chunk(first), unit_chunk(second));
    ck_assert_ptr_eq((char *)first + 2 * MIB, second);
    OK(tarn_free(first));
    OK(tarn_free(second));
    ck_assert_uint_eq(tn_block_bytes(unit_block(first)), 4 * MIB);
    ck_assert_ptr_eq(unit_alloc(pool, 4 * MIB, stream), first);
    OK(tarn_pool_validate(pool));
}

/* Two FREE chunks side by side, one of each stream, and behind them a live one of the second. */
static void make_free_neighbours(void **of_stream, void **of_other)
{
    struct tn_segment *segment;
    void *first;
    void *second;

    tn_pool_lock(pool); /* side by side in idle memory */
    for (int i = 0; i < 3; i++)
        OK(tn_heap_grow(pool, pool->idle.heaps[TN_HEAP_LARGE], 2 * TN_MIB, true));
    tn_pool_unlock(pool);
    segment = pool->segments.first;
    ck_assert_uint_eq(tn_block_bytes(segment->first_block), 6 * MIB);
    first = unit_alloc(pool, 2 * MIB, stream);
    second = unit_alloc(pool, 2 * MIB, other);
    ck_assert_ptr_eq(unit_segment(first), segment);
    ck_assert_ptr_eq((char *)first + 2 * MIB, second);
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, other), (char *)second + 2 * MIB);
    OK(tarn_free(first));
    OK(tarn_free(second));
    *of_stream = first;
    *of_other = second;
}

/* P3: neighbours, FREE both, of two heaps. */
TEST(blocks, free_blocks_of_two_heaps_do_not_coalesce)
{
    void *first;
    void *second;

    make_free_neighbours(&first, &second);
    ck_assert_uint_eq(tn_block_bytes(unit_block(first)), 2 * MIB);
    ck_assert_uint_eq(tn_block_bytes(unit_block(second)), 2 * MIB);
    OK(tarn_pool_validate(pool));
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, other), second);
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, stream), first);
}

TEST(blocks, carving_leaves_what_is_before_and_behind_free)
{
    void *anchor = unit_alloc(pool, 4096, stream);
    struct tn_block *rest = unit_block(anchor)->next;
    uint64_t begin = rest->offset;
    uint64_t end = tn_block_end(rest);
    struct tn_block *cut;

    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 2) && tn_blocks_add_cold(&pool->store));
    cut = tn_heap_carve(&pool->store, rest, begin + 8192, 4096);
    ck_assert_uint_eq(cut->offset, begin + 8192);
    ck_assert_uint_eq(tn_block_bytes(cut), 4096);
    ck_assert_uint_eq(cut->previous->offset, begin);
    ck_assert_int_eq(cut->previous->state, TN_BLOCK_FREE);
    ck_assert_int_eq(cut->next->state, TN_BLOCK_FREE);
    ck_assert_uint_eq(tn_block_end(cut->next), end);
    ck_assert_uint_eq(tn_block_bytes(tn_heap_put(&pool->store, cut)), end - begin); /* P4 again */
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

GROUP(idle, make_pool, .name = "idle memory")

TEST(idle, memory_of_an_ended_capture_passes_to_the_next)
{
    void *first;
    void *second;
    tarn_graph *one = unit_graph(pool, stream, 64 * MIB, &first);
    uint64_t maps = map_count();
    tarn_graph *two = unit_graph(pool, other, 64 * MIB, &second);

    ck_assert_ptr_eq(first, second);
    ck_assert_uint_eq(map_count(), maps);
    ck_assert_uint_eq(unit_chunk(first)->hold_count, 2);
    ck_assert_ptr_eq(unit_chunk(first)->heap->arena, &pool->idle);
    ck_assert_uint_eq(pool->arenas.count, 0); /* a capture's arenas end with it */
    OK(tarn_pool_validate(pool));
    OK(tarn_graph_destroy(one));
    end_graph(two);
    ck_assert_uint_eq(unit_chunk(first)->hold_count, 0);
}

TEST(idle, work_may_not_take_captured_memory)
{
    void *captured;
    tarn_graph *graph = unit_graph(pool, stream, 64 * MIB, &captured);
    void *block;

    OK(tn_gpu_wait_idle(&device->gpu)); /* idle it is, but the graph may be replayed */
    block = unit_alloc(pool, 64 * MIB, stream);
    ck_assert_ptr_ne(unit_chunk(block), unit_chunk(captured));
    ck_assert(!unit_idle_has(pool, TN_HEAP_LARGE, false, 64 * MIB));
    ck_assert(unit_idle_has(pool, TN_HEAP_LARGE, true, 64 * MIB));
    ck_assert(!unit_idle_has(pool, TN_HEAP_LARGE, true, 65 * MIB));
    (void)graph;
}

/* Its end proves what the graph has done, and not what was done with its output. */
TEST(idle, work_takes_memory_of_a_graph_that_is_gone_once_it_is_proven_idle)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *captured = unit_alloc(pool, 64 * MIB, stream);
    tarn_graph *graph = unit_end(capture);
    uint64_t maps;
    void *unproven;

    OK(tarn_free(captured)); /* its output */
    end_graph(graph);
    ck_assert_uint_eq(unit_chunk(captured)->hold_count, 0);
    unproven = unit_alloc(pool, 64 * MIB, stream);
    ck_assert_ptr_ne(unproven, captured);
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(unit_idle_has(pool, TN_HEAP_LARGE, false, 64 * MIB));
    maps = map_count();
    ck_assert_ptr_eq(unit_alloc(pool, 64 * MIB, other), captured);
    ck_assert_uint_eq(map_count(), maps);
    ck_assert_ptr_eq(unit_chunk(captured)->heap->arena, arena_of(other));
    OK(tarn_pool_validate(pool));
}

TEST(idle, work_takes_memory_at_once_that_a_graph_that_is_gone_had_for_itself)
{
    void *captured;
    uint64_t maps;

    end_graph(unit_graph(pool, stream, 64 * MIB, &captured));
    ck_assert_uint_eq(unit_chunk(captured)->freed_stamp, 0);
    ck_assert(unit_chunk(captured)->was_used);
    maps = map_count();
    ck_assert_ptr_eq(unit_alloc(pool, 64 * MIB, other), captured);
    ck_assert_uint_eq(map_count(), maps);
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), 0);
    OK(tarn_pool_validate(pool));
}

/* Free: the upper quarter of a chunk with a live block, and the whole chunk above it. */
TEST(idle, work_takes_whole_chunks_alone)
{
    tarn_capture *capture = unit_begin(pool, stream);
    char *live = unit_alloc(pool, 3 * MIB / 2, stream);
    char *freed = unit_alloc(pool, 2 * MIB, stream);

    ck_assert_ptr_eq(freed, live + 3 * MIB / 2);
    OK(tarn_free(freed));
    end_graph(unit_end(capture));
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert_uint_eq(tn_block_bytes(unit_block(freed)), 5 * MIB / 2);
    ck_assert(unit_idle_has(pool, TN_HEAP_LARGE, false, 2 * MIB));
    ck_assert(!unit_idle_has(pool, TN_HEAP_LARGE, false, 2 * MIB + 512));
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, other), live + 2 * MIB);
    ck_assert_ptr_eq(unit_chunk(live)->heap->arena, &pool->idle);
    ck_assert_ptr_eq(unit_chunk(live + 2 * MIB)->heap->arena, arena_of(other));
    OK(tarn_pool_validate(pool));
    OK(tarn_free(live));
    OK(tarn_pool_validate(pool));
}

GROUP(owners, make_pool)

/* 6 MiB are chunks of 4 and 2 MiB; the block lies over the edge between them. */
TEST(owners, a_block_over_an_edge_takes_the_next_chunk_along)
{
    tarn_capture *capture = unit_begin(pool, stream);
    void *live = unit_alloc(pool, 5 * MIB, stream);
    tarn_graph *one = unit_end(capture);
    struct tn_chunk *low = unit_chunk(live);
    struct tn_chunk *high = unit_chunk((char *)live + 4 * MIB);
    void *small;

    ck_assert_ptr_ne(low, high);
    ck_assert_ptr_eq(low->heap, pool->idle.heaps[TN_HEAP_LARGE]);
    capture = unit_begin(pool, other);
    small = unit_alloc(pool, 4096, other); /* in the free end of the upper chunk */
    ck_assert_ptr_eq(unit_chunk(small), high);
    ck_assert_ptr_eq(low->heap, high->heap);
    ck_assert_int_eq(low->heap->kind, TN_HEAP_SMALL);
    ck_assert_ptr_eq(unit_block(live)->heap, pool->idle.heaps[TN_HEAP_LARGE]); /* until its free */
    OK(tarn_pool_validate(pool));
    OK(tarn_free(live)); /* its bytes go to the heap that owns the chunks now */
    OK(tarn_free(small));
    OK(tarn_pool_validate(pool));
    (void)one;
    OK(tarn_capture_abort(capture));
    OK(tarn_pool_validate(pool));
}

static bool is_idle(void *block)
{
    return unit_block(block)->heap->arena == &pool->idle && !unit_block(block)->own_order;
}

/* _i: the second capture is ended, or aborted; its births are found, or missing; and a block there
 * waits when it takes memory, or none does. */
TEST_LOOP(owners, a_capture_takes_and_leaves_memory_beside_live_blocks_of_others, 0, 8)
{
    enum { OUTPUTS = 300, HOLES = 7 };
    void *outputs[OUTPUTS];
    void *kept[3];
    void *temporary;
    tarn_capture *capture = unit_begin(pool, stream);

    for (int i = 0; i < OUTPUTS; i++)
        outputs[i] = unit_alloc(pool, 4096, stream);
    (void)unit_end(capture);
    for (int i = 0; i < OUTPUTS; i += HOLES)
        OK(tarn_free(outputs[i]));
    OK(tarn_pool_validate(pool));
    capture = unit_begin(pool, other);
    if (_i / 4 == 1)
        OK(tarn_free(outputs[OUTPUTS - 1]));
    temporary = unit_alloc(pool, 4096, other);
    ck_assert_ptr_eq(unit_chunk(temporary), unit_chunk(outputs[1]));
    ck_assert(is_idle(outputs[1]) && !is_idle(temporary));
    OK(tarn_pool_validate(pool));
    kept[0] = unit_alloc(pool, 4096, other);
    kept[1] = unit_alloc(pool, 8192, other);
    for (int i = 1; i < OUTPUTS; i += HOLES) /* within the capture */
        OK(tarn_free(outputs[i]));
    OK(tarn_free(temporary));
    kept[2] = unit_alloc(pool, 4096, other);
    OK(tarn_pool_validate(pool));
    if (_i / 2 % 2 == 1) {
        pool->holds.open->births->lost = true;
        pool->holds.open->births->count = 1;
    }
    if (_i % 2 == 0)
        (void)unit_end(capture);
    else
        OK(tarn_capture_abort(capture));
    OK(tarn_pool_validate(pool));
    for (int i = 0; i < 3; i++) {
        ck_assert(is_idle(kept[i]));
        OK(tarn_free(kept[i]));
    }
    for (int i = 2; i < OUTPUTS - _i / 4; i++) {
        if (i % HOLES >= 2)
            OK(tarn_free(outputs[i]));
    }
    OK(tarn_pool_validate(pool));
    ck_assert_uint_eq(unit_stats(pool).live_count, 0);
}

TEST(owners, giving_up_a_block_gives_its_chunk_to_idle_memory)
{
    void *kept = unit_alloc(pool, 4096, stream);
    void *given = unit_alloc(pool, 4096, stream);
    struct tn_arena *arena = arena_of(stream);

    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 2) && tn_blocks_add_cold(&pool->store));
    tn_heap_give_up(pool, unit_block(given));
    ck_assert_ptr_eq(unit_chunk(kept)->heap, pool->idle.heaps[TN_HEAP_SMALL]);
    ck_assert_ptr_eq(unit_block(kept)->heap, pool->idle.heaps[TN_HEAP_SMALL]);
    ck_assert_uint_eq(arena->heaps[TN_HEAP_SMALL]->mapped_bytes, 0);
    ck_assert_uint_eq(pool->idle.heaps[TN_HEAP_SMALL]->mapped_bytes, TN_PAGE_BYTES);
    OK(tn_pool_check(pool));
    tn_heap_give_up(pool, unit_block(given)); /* again: nothing */
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

TEST(owners, taking_over_changes_the_owner_of_every_chunk_of_a_range)
{
    void *blocks[4];
    struct tn_heap *heap = arena_of(other)->heaps[TN_HEAP_LARGE];

    for (size_t i = 0; i < 4; i++)
        blocks[i] = unit_alloc(pool, 2 * MIB, stream);
    OK(tarn_free(blocks[1]));
    OK(tarn_free(blocks[2]));
    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 8) && tn_blocks_add_cold(&pool->store));
    tn_heap_take_over(pool, heap, unit_segment(blocks[0])->first_block,
                      unit_offset(blocks[1]) + 512, unit_offset(blocks[3]));
    ck_assert_ptr_ne(unit_chunk(blocks[0])->heap, heap);
    ck_assert_ptr_eq(unit_chunk(blocks[1])->heap, heap);
    ck_assert_ptr_eq(unit_chunk(blocks[2])->heap, heap);
    ck_assert_ptr_ne(unit_chunk(blocks[3])->heap, heap);
    ck_assert_uint_eq(heap->mapped_bytes, 4 * MIB);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    ck_assert_ptr_eq(unit_alloc(pool, 4 * MIB, other), blocks[1]);
}

TEST(owners, free_memory_coalesces_with_what_its_new_owner_has_beside_it)
{
    void *first;
    void *second;

    make_free_neighbours(&first, &second);
    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 4) && tn_blocks_add_cold(&pool->store));
    tn_heap_take_over(pool, unit_chunk(first)->heap, unit_block(second), unit_offset(second),
                      unit_offset(second) + 4 * MIB);
    ck_assert_uint_eq(tn_block_bytes(unit_block(first)), 4 * MIB);
    ck_assert_ptr_null(unit_block(second));
    ck_assert_ptr_eq(unit_chunk((char *)second + 2 * MIB)->heap, unit_chunk(first)->heap);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
    ck_assert_ptr_eq(unit_alloc(pool, 4 * MIB, stream), first);
}

/* Chunks of 2 MiB, the first the other stream's, and a live block over the edge of the next two: what is
 * free before it goes along, and joins what is free in the first chunk. */
TEST(owners, taking_over_goes_on_behind_what_has_coalesced)
{
    struct tn_heap *heap = arena_of(other)->heaps[TN_HEAP_LARGE];
    char *first;
    char *before;
    char *over;

    tn_pool_lock(pool);
    for (int i = 0; i < 4; i++)
        OK(tn_heap_grow(pool, pool->idle.heaps[TN_HEAP_LARGE], 2 * TN_MIB, true));
    tn_pool_unlock(pool);
    first = unit_alloc(pool, 2 * MIB, other);
    before = unit_alloc(pool, 3 * MIB / 2, stream);
    over = unit_alloc(pool, 3 * MIB / 2, stream);
    ck_assert_ptr_eq(before, first + 2 * MIB);
    ck_assert_ptr_eq(over, before + 3 * MIB / 2);
    OK(tarn_free(first));
    OK(tarn_free(before));
    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 8) && tn_blocks_add_cold(&pool->store));
    tn_heap_take_over(pool, heap, unit_block(over), unit_offset(first) + 4 * MIB,
                      unit_offset(first) + 8 * MIB);
    ck_assert_uint_eq(heap->mapped_bytes, 8 * MIB);
    ck_assert_uint_eq(tn_block_bytes(unit_block(first)), 7 * MIB / 2);
    ck_assert_ptr_eq(unit_block(over)->heap, heap);
    ck_assert_uint_eq(tn_block_bytes(unit_block(over + 3 * MIB / 2)), 3 * MIB);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

/* A restore brings the block back to its stream's arena, if that is there. */
TEST(owners, an_empty_arena_goes_unless_a_checkpoint_names_it)
{
    void *address = unit_alloc(pool, 4096, other);
    tarn_checkpoint *first;
    tarn_checkpoint *second;
    struct tn_order order = unit_order(device, other);

    (void)arena_of(stream);
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &first));
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &second));
    OK(tarn_free(address));
    OK(tarn_checkpoint_destroy(first));
    unit_trim(device);
    ck_assert_uint_eq(pool->arenas.count, 1);
    ck_assert_ptr_nonnull(unit_arena(pool, order));
    OK(tarn_checkpoint_restore(second, stream, NULL));
    ck_assert_ptr_eq(unit_block(address)->heap->arena, unit_arena(pool, order));
    OK(tarn_free(address));
    OK(tarn_checkpoint_destroy(second));
    unit_trim(device);
    ck_assert_uint_eq(pool->arenas.count, 0);
}

/* A stream used again after its retirement is a new one, which no older checkpoint counts on. */
TEST(owners, a_checkpoint_keeps_no_arena_of_a_retired_stream)
{
    void *address = unit_alloc(pool, 4096, other);
    tarn_checkpoint *checkpoint;

    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, NULL, &checkpoint));
    OK(tarn_free(address));
    OK(tarn_stream_retire(device, other));
    unit_trim(device);
    ck_assert_uint_eq(pool->arenas.count, 0);
    (void)arena_of(other);
    OK(tarn_checkpoint_destroy(checkpoint));
    unit_trim(device);
    ck_assert_uint_eq(pool->arenas.count, 0);
}

/* A block's fence is in its cold record. */
TEST(owners, a_stream_is_not_retired_without_host_memory_for_its_blocks_fences)
{
    void *address = unit_alloc(pool, 4096, stream);
    struct tn_order order = unit_order(device, stream);

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tarn_stream_retire(device, stream));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert(tn_block_is_of(unit_block(address), order));
    ck_assert_ptr_null(device->streams.table.known);
    OK(tarn_stream_retire(device, stream));
    ck_assert(tn_block_is_of(unit_block(address), TN_ORDER_NONE));
    OK(tarn_pool_validate(pool));
}

/* As with a block that was allocated on the stream while it was being retired. */
TEST(owners, a_pool_that_lacks_room_for_a_fence_knows_nothing_of_the_retirement)
{
    void *address = unit_alloc(pool, 4096, stream);
    struct tn_order order = unit_order(device, stream);
    struct tn_fence *fence = (struct tn_fence *)(void *)&order; /* never followed */

    tn_pool_lock(pool);
    (void)tn_host_plan_fault(1, false);
    tn_arenas_retire(pool, order, fence);
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert(tn_block_is_of(unit_block(address), order));
    ck_assert_ptr_nonnull(tn_arena_find(pool, order));
    ck_assert_uint_eq(pool->arenas.retired_count, 0);
    tn_pool_unlock(pool);
    OK(tarn_pool_validate(pool));
    OK(tarn_free(address));
}

TEST(owners, arenas_give_idle_memory_what_is_proven_idle)
{
    void *first;
    void *second;

    make_free_neighbours(&first, &second);
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_arenas_give_idle(pool), 0); /* their streams may be at work there */
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_arenas_give_idle(pool), 4 * MIB);
    ck_assert_uint_eq(tn_block_bytes(unit_block(first)), 4 * MIB); /* both, joined */
    ck_assert_ptr_eq(unit_block(first)->heap, pool->idle.heaps[TN_HEAP_LARGE]);
    ck_assert_uint_eq(tn_arenas_give_idle(pool), 0);
    OK(tn_pool_check(pool));
    tn_pool_unlock(pool);
}

/* 6 MiB are chunks of 4 and 2 MiB, with a live block over the edge, so both change hands. */
TEST(owners, a_handover_is_proven_when_all_that_goes_along_is)
{
    char *live = unit_alloc(pool, 9 * MIB / 2, stream);
    char *freed = unit_alloc(pool, 3 * MIB / 2, stream);
    struct tn_run low = {unit_segment(live), unit_offset(live), unit_offset(live) + 1};
    struct tn_run high = {unit_segment(freed), unit_offset(freed), unit_offset(freed) + 1};
    struct tn_arena *owner = arena_of(stream);
    struct tn_arena *to = arena_of(other);
    uint64_t sequence = unit_block(live)->sequence;

    ck_assert_ptr_eq(freed, live + 9 * MIB / 2);
    ck_assert_ptr_ne(unit_chunk(live), unit_chunk(freed));
    OK(tarn_free(freed));
    tn_run_close(&low, unit_block(live));
    tn_run_close(&high, unit_block(freed));
    ck_assert_uint_eq(low.end - low.begin, 6 * MIB);
    ck_assert_mem_eq(&high, &low, sizeof low);
    tn_pool_lock(pool);
    ck_assert(tn_handover_is_proven(pool, &low, unit_block(live), owner, 0)); /* to its owner */
    ck_assert(!tn_handover_is_proven(pool, &low, unit_block(live), NULL, sequence));
    ck_assert(!tn_handover_is_proven(pool, &low, unit_block(live), to, sequence));
    ck_assert(!tn_handover_is_proven(pool, &high, unit_block(freed), to, sequence));
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu)); /* the free is proven; the live block, by its number */
    tn_pool_lock(pool);
    ck_assert(!tn_handover_is_proven(pool, &high, unit_block(freed), to, sequence - 1));
    ck_assert(tn_handover_is_proven(pool, &low, unit_block(live), to, sequence));
    ck_assert(tn_handover_is_proven(pool, &high, unit_block(freed), to, sequence));
    tn_pool_unlock(pool);
}

TEST(owners, the_grower_of_a_captures_segment_is_idle_memory_afterwards)
{
    void *address;
    tarn_graph *graph = unit_graph(pool, stream, 4096, &address);

    /* P9: the arena that grew it is gone. */
    ck_assert_ptr_eq(unit_segment(address)->grower, pool->idle.heaps[TN_HEAP_SMALL]);
    (void)graph;
}

/* P2: of those who had memory in it one has all. */
TEST(owners, a_segment_that_passes_whole_is_not_mixed)
{
    void *captured;
    void *again;
    void *beside;
    tarn_graph *one = unit_graph(pool, stream, 4096, &captured);
    const struct tn_segment *segment = unit_segment(captured);
    tarn_capture *section;

    ck_assert(!segment->mixed);
    ck_assert_ptr_eq(segment->first_arena, &pool->idle);
    section = unit_begin(pool, other);
    again = unit_alloc(pool, 4096, other);
    ck_assert_ptr_eq(again, captured);
    ck_assert(!segment->mixed);
    ck_assert_ptr_eq(segment->first_arena, unit_chunk(again)->arena);
    OK(tarn_free(again));
    (void)unit_end(section);
    beside = unit_alloc(pool, 4096, stream); /* not captured memory, but in the segment */
    ck_assert_ptr_eq(unit_segment(beside), segment);
    ck_assert(segment->mixed);
    OK(tarn_pool_validate(pool));
    (void)one;
}

GROUP(wrong, make_pool)

/* P6: counted free twice. */
CONTRACT_TEST(wrong, freeing_more_than_is_used_is_a_broken_contract)
{
    void *address = unit_alloc(pool, 4096, stream);

    unit_chunk(address)->used_bytes = 0;
    OK(tarn_free(address));
    unit_settle(pool);
}

/* P6: counted used twice. */
CONTRACT_TEST(wrong, using_more_than_a_chunk_has_is_a_broken_contract)
{
    void *address = unit_alloc(pool, 2 * MIB, stream);

    tn_block_count_used(unit_block(address));
}

/* P2: a chunk under a block that belongs to another heap. */
CONTRACT_TEST(wrong, freeing_into_a_foreign_chunk_is_a_broken_contract)
{
    void *address = unit_alloc(pool, 4096, stream);

    tn_chunk_pass(unit_chunk(address), pool->idle.heaps[TN_HEAP_SMALL]);
    OK(tarn_free(address));
}
