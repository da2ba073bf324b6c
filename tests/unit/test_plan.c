// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/plan.h"
#include "claims/watch.h"
#include "driver/idle.h"
#include "heap/sequence.h"
#include "pools/arenas.h"
#include "pools/handover.h"
#include "pools/watches.h"
#include "unit/one_pool.h"

static struct tn_plan plan;

static size_t handovers;            /* that were asked about */
static const struct tn_arena *heir; /* of the last of them */

__typeof__(tn_handover_is_proven) __real_tn_handover_is_proven;
__typeof__(tn_handover_is_proven) __wrap_tn_handover_is_proven;
bool __wrap_tn_handover_is_proven(tarn_pool *of, const struct tn_run *run,
                                  const struct tn_block *inside, const struct tn_arena *arena,
                                  uint64_t idle_sequence)
{
    handovers += 1;
    heir = arena;
    return __real_tn_handover_is_proven(of, run, inside, arena, idle_sequence);
}

static void take(void)
{
    plan = (struct tn_plan){.pool = pool, .stream = stream};
    plan.order = unit_order(device, stream);
    OK(tn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &plan.checkpoint));
}

static tarn_status make(void)
{
    tarn_status status;

    tn_pool_lock(pool);
    status = tn_plan_make(&plan);
    tn_pool_unlock(pool);
    return status;
}

GROUP(plan, make_pool)

TEST(plan, a_plan_says_what_will_be_and_changes_nothing)
{
    void *kept = unit_alloc(pool, 4096, stream);
    void *gone = unit_alloc(pool, 4096, stream);
    struct test_stats before;
    struct test_stats after;

    take();
    OK(tarn_free(gone));
    (void)unit_alloc(pool, 100, stream);
    (void)unit_alloc(pool, 3 * MIB, stream);
    before = unit_stats(pool);
    OK(make());
    after = unit_stats(pool);
    ck_assert_mem_eq(&before, &after, sizeof after);
    ck_assert_uint_eq(plan.freed_count, 2);
    ck_assert_uint_eq(plan.revived_count, 1);
    ck_assert_uint_eq(plan.revived[0], 1);
    ck_assert_uint_eq(plan.hole_count, 0);
    ck_assert(!plan.needs_wait);
    ck_assert_uint_eq(unit_block(kept)->walk_id, plan.walk_id);
    tn_plan_fini(&plan);
}

/* C5: of three blocks on two pages the middle one lies on both. */
TEST(plan, each_page_without_memory_is_in_one_hole)
{
    void *blocks[3];

    blocks[0] = unit_alloc(pool, 3 * MIB / 2, stream);
    blocks[1] = unit_alloc(pool, 5 * MIB / 4, stream);
    blocks[2] = unit_alloc(pool, 5 * MIB / 4, stream);
    take();
    for (int i = 0; i < 3; i++)
        OK(tarn_free(blocks[i]));
    OK(tarn_pool_trim(pool, NULL));
    OK(make());
    ck_assert_uint_eq(plan.revived_count, 3);
    ck_assert_uint_eq(plan.hole_bytes, 4 * MIB);
    for (size_t i = 0; i < plan.hole_count; i++) {
        ck_assert_uint_eq(plan.holes[i].offset % TN_PAGE_BYTES, 0);
        ck_assert_uint_eq(plan.holes[i].bytes % TN_PAGE_BYTES, 0);
        if (i > 0)
            ck_assert_uint_eq(plan.holes[i].offset,
                              plan.holes[i - 1].offset + plan.holes[i - 1].bytes);
    }
    tn_plan_fini(&plan);
}

/* C7: two blocks that two graphs of one pool watch, and one that no one watches. */
TEST(plan, each_pool_whose_graphs_watch_a_block_is_visited_once)
{
    tarn_pool *pools[2] = {unit_pool(device), unit_pool(device)};
    void *blocks[3];
    struct tn_watch watches[3];
    _Atomic uint64_t word = 1;

    take();
    for (int i = 0; i < 3; i++) {
        tarn_block block;

        blocks[i] = unit_alloc(pool, 4096, stream);
        OK(tarn_block_at(blocks[i], &block));
        OK(tn_watch_init(&watches[i], pools[i / 2], i == 2, 2, &word, 1, 2));
        OK(tn_watch_add(&watches[i], (uintptr_t)blocks[i], block.sequence));
        OK(tn_watch_add(&watches[i], (uintptr_t)blocks[i], block.sequence));
    }
    OK(make());
    ck_assert_uint_eq(plan.visit_count, 1); /* the second pool's watch keeps what is freed */
    ck_assert_ptr_eq(plan.visits[0], pools[0]);
    (void)tn_host_plan_fault(1, false);
    plan.visit_capacity = 0;
    tn_host_free((void *)plan.visits);
    plan.visits = NULL;
    STATUS(TARN_ERR_HOST_MEMORY, make());
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    for (int i = 0; i < 3; i++)
        tn_watch_end(&watches[i]);
    OK(make());
    ck_assert_uint_eq(plan.visit_count, 0);
    ck_assert(!plan.needs_wait); /* no graph was replayed */
    tn_plan_fini(&plan);
}

TEST(plan, only_memory_of_other_streams_is_waited_for)
{
    void *mine = unit_alloc(pool, 4096, stream);
    void *pending = unit_alloc(pool, 4096, stream);
    void *others = unit_alloc(pool, 4096, other);

    take();
    OK(tarn_free(mine));
    OK(make());
    ck_assert(!plan.needs_wait);
    sim.hold_work();
    test_fill(other, pending, 1, 16);
    OK(tarn_free_on(pending, other));
    OK(make());
    ck_assert(plan.needs_wait);
    sim.resume_work();
    OK(tn_gpu_wait_idle(&device->gpu));
    OK(make());
    ck_assert(!plan.needs_wait); /* the wait proves it */
    OK(tarn_free(others));
    OK(make());
    ck_assert(plan.needs_wait);
    OK(tn_gpu_wait_idle(&device->gpu));
    OK(make());
    ck_assert(!plan.needs_wait);
    ck_assert_ptr_eq(unit_alloc(pool, 4096, other), others); /* a live block in the way */
    OK(make());
    ck_assert(plan.needs_wait);
    plan.idle_sequence = tn_next_sequence();
    OK(make());
    ck_assert(!plan.needs_wait);
    tn_plan_fini(&plan);
}

static void pass_chunk(const void *address, struct tn_arena *arena)
{
    struct tn_chunk *chunk = unit_chunk(address);

    tn_pool_lock(pool);
    ck_assert(tn_blocks_reserve(&pool->store, 2) && tn_blocks_add_cold(&pool->store));
    tn_heap_take_over(pool, arena->heaps[chunk->heap->kind], chunk->segment->first_block,
                      chunk->offset, tn_chunk_end(chunk));
    tn_pool_unlock(pool);
}

/* The plan's stream is behind its own block; who gets what lies beside the one that comes back is not. */
TEST(plan, what_is_left_in_memory_of_another_stream_is_waited_for)
{
    void *saved = unit_alloc(pool, 512, other);
    struct tn_arena *others = unit_chunk(saved)->heap->arena;
    struct tn_arena *own;

    take();
    OK(tarn_free(saved));
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    own = tn_arena_get(pool, plan.order);
    tn_pool_unlock(pool);
    pass_chunk(saved, own);
    ck_assert_ptr_eq(unit_alloc(pool, 4096, stream), saved);
    pass_chunk(saved, others);
    OK(make());
    ck_assert(plan.needs_wait);
    plan.idle_sequence = tn_next_sequence();
    OK(make());
    ck_assert(!plan.needs_wait);
    OK(tarn_free(saved));
    ck_assert_uint_eq(tn_pool_pending_count(pool), 1);
    OK(make());
    ck_assert(plan.needs_wait);
    OK(tn_gpu_wait_idle(&device->gpu));
    OK(make());
    ck_assert(!plan.needs_wait);
    tn_plan_fini(&plan);
}

/* What lies side by side and comes back to several goes to each of them alone: the own chunk needs no proof. */
TEST(plan, neighbours_are_waited_for_each_for_itself)
{
    void *own = unit_alloc(pool, 2 * MIB, stream);
    void *others = unit_alloc(pool, 2 * MIB, stream);
    struct tn_arena *arena;

    OK(tarn_free(others));
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    arena = tn_arena_get(pool, unit_order(device, other));
    tn_pool_unlock(pool);
    pass_chunk(others, arena);
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, other), others);
    take();
    OK(tarn_free(others));
    OK(tn_gpu_wait_idle(&device->gpu)); /* which proves the other stream's free */
    OK(tarn_free(own));
    ck_assert_ptr_eq(unit_alloc(pool, MIB, stream), own); /* or it would be there in its place */
    ck_assert_ptr_eq(unit_alloc(pool, MIB, other), others);
    plan.idle_sequence = tn_next_sequence();
    OK(make());
    ck_assert_uint_eq(plan.revived_count, 2);
    ck_assert(!plan.needs_wait);
    tn_plan_fini(&plan);
}

TEST(plan, a_block_comes_back_over_several_others_and_their_chunks)
{
    void *first = unit_alloc(pool, 2 * MIB, stream);
    void *second = unit_alloc(pool, 2 * MIB, stream);
    void *over;

    ck_assert_ptr_ne(unit_chunk(first), unit_chunk(second));
    OK(tarn_free(first));
    OK(tarn_free(second));
    over = unit_alloc(pool, 4 * MIB, stream);
    ck_assert_ptr_eq(over, first);
    take();
    OK(tarn_free(over));
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, stream), first);
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, stream), second);
    OK(make());
    ck_assert_uint_eq(plan.freed_count, 2);
    ck_assert_uint_eq(plan.revived_count, 1);
    ck_assert(!plan.needs_wait);
    tn_plan_fini(&plan);
}

/* The chunk is looked at for the first of the blocks that come back in it. */
TEST(plan, what_was_looked_at_for_a_block_is_not_for_the_next)
{
    enum { BLOCKS = 4 };
    void *blocks[BLOCKS];

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = unit_alloc(pool, 4096, stream);
    take();
    for (int i = 0; i < BLOCKS; i++)
        OK(tarn_free(blocks[i]));
    ck_assert_ptr_eq(unit_alloc(pool, (size_t)BLOCKS * 4096, stream), blocks[0]);
    OK(make());
    ck_assert_uint_eq(plan.revived_count, BLOCKS);
    ck_assert_uint_eq(handovers, 1);
    tn_plan_fini(&plan);
}

/* Two streams' blocks come back in one chunk, which is not the first of its segment: it is neither's alone. */
TEST(plan, a_chunk_that_several_come_back_to_is_proven_for_all)
{
    void *blocks[2];

    (void)unit_alloc(pool, 2 * MIB, stream);
    for (size_t i = 0; i < 2; i++)
        blocks[i] = unit_alloc(pool, MIB, stream);
    ck_assert_ptr_eq(unit_chunk(blocks[0]), unit_chunk(blocks[1]));
    ck_assert_uint_gt(unit_chunk(blocks[0])->offset, 0);
    (void)unit_alloc(pool, 512, other); /* it has an arena */
    tn_pool_lock(pool);
    ck_assert(tn_blocks_add_cold(&pool->store));
    tn_block_set_order(unit_block(blocks[1]), unit_order(device, other));
    tn_pool_unlock(pool);
    take();
    for (size_t i = 0; i < 2; i++)
        OK(tarn_free(blocks[i]));
    OK(tn_gpu_wait_idle(&device->gpu)); /* what the other stream used is free */
    ck_assert_ptr_eq(unit_alloc(pool, 2 * MIB, stream), blocks[0]);
    OK(make());
    ck_assert_uint_eq(plan.revived_count, 2);
    ck_assert_uint_eq(handovers, 2);
    ck_assert_ptr_null(heir);
    ck_assert(plan.needs_wait); /* for what lies there now */
    tn_plan_fini(&plan);
}

static struct tn_heap *home_of(const struct tn_saved_block *saved)
{
    struct tn_heap *home;

    tn_pool_lock(pool);
    home = tn_plan_home(&plan, saved);
    tn_pool_unlock(pool);
    return home;
}

TEST(plan, a_block_whose_stream_has_no_arena_comes_back_to_idle_memory)
{
    void *mine = unit_alloc(pool, 4096, stream);
    void *others = unit_alloc(pool, 4096, other);
    const struct tn_saved_block *saved;
    struct tn_order *order;

    take();
    saved = plan.checkpoint->blocks;
    ck_assert_uint_eq(tn_saved_address(plan.checkpoint, &saved[0]), (uintptr_t)mine);
    OK(tarn_free(mine));
    OK(tarn_free(others));
    OK(make());
    ck_assert_uint_eq(plan.checkpoint->run_count, 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert_ptr_eq(home_of(&saved[i]),
                         unit_arena(pool, plan.checkpoint->runs[i].order)->heaps[TN_HEAP_SMALL]);
    ck_assert(!plan.needs_cold);
    order = &plan.checkpoint->runs[1].order;
    order->stream_id += 1000; /* of a stream that is not known */
    ck_assert_ptr_eq(home_of(&saved[1]), pool->idle.heaps[TN_HEAP_SMALL]);
    OK(make());
    ck_assert(plan.needs_cold); /* its order will not be that of idle memory */
    ck_assert_ptr_null(unit_arena(pool, *order));
    order->capture_id = 7;
    ck_assert_ptr_eq(home_of(&saved[1]), pool->idle.heaps[TN_HEAP_SMALL]);
    tn_plan_fini(&plan);
}

TEST(plan, a_plan_without_host_memory_is_none)
{
    void *address = unit_alloc(pool, 4096, stream);

    take();
    OK(tarn_free(address));
    OK(tarn_pool_trim(pool, NULL));
    for (uint64_t nth = 1; nth <= 2; nth++) {
        (void)tn_host_plan_fault(nth, false);
        STATUS(TARN_ERR_HOST_MEMORY, make());
        ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
        tn_plan_fini(&plan);
        plan.revived = NULL;
        plan.holes = NULL;
        plan.hole_capacity = 0;
    }
}

/* The block of a stream that was retired comes back to the restore's own stream. */
TEST(plan, a_plan_that_cannot_give_its_stream_an_arena_is_none)
{
    uint64_t id = 1000; /* of streams that nobody has */
    void *address = unit_alloc(pool, 4096, other);

    OK(tarn_stream_retire(device, other));
    take();
    OK(tarn_free(address));
    tn_pool_lock(pool);
    (void)tn_host_plan_fault(1, true);
    while (tn_arena_get(pool, (struct tn_order){id, 0}) != NULL) /* records that are there */
        id += 1;
    tn_pool_unlock(pool);
    (void)tn_host_plan_fault(0, false);
    (void)tn_host_plan_fault(2, false); /* the list of blocks to revive is the first */
    STATUS(TARN_ERR_HOST_MEMORY, make());
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_null(unit_arena(pool, plan.order));
    OK(make());
    ck_assert_ptr_nonnull(unit_arena(pool, plan.order));
    ck_assert_uint_eq(plan.revived_count, 1);
    tn_plan_fini(&plan);
}

/* As above, where the block's own record waits for it between two that are live. */
TEST(plan, a_plan_that_cannot_give_a_block_in_its_place_an_arena_is_none)
{
    uint64_t id = 1000; /* of streams that nobody has */
    void *blocks[3];

    for (size_t i = 0; i < 3; i++)
        blocks[i] = unit_alloc(pool, 4096, other);
    OK(tarn_stream_retire(device, other));
    take();
    OK(tarn_free(blocks[1]));
    tn_pool_lock(pool);
    tn_pending_poll(pool, true);
    ck_assert_int_eq(tn_live_find(pool, (uintptr_t)blocks[0])->next->state, TN_BLOCK_FREE);
    (void)tn_host_plan_fault(1, true);
    while (tn_arena_get(pool, (struct tn_order){id, 0}) != NULL) /* records that are there */
        id += 1;
    tn_pool_unlock(pool);
    (void)tn_host_plan_fault(0, false);
    (void)tn_host_plan_fault(2, false);
    STATUS(TARN_ERR_HOST_MEMORY, make());
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_null(unit_arena(pool, plan.order));
    OK(make());
    ck_assert_ptr_nonnull(unit_arena(pool, plan.order));
    ck_assert_uint_eq(plan.revived_count, 1);
    tn_plan_fini(&plan);
}
