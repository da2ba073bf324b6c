// SPDX-License-Identifier: Apache-2.0
/* Arenas of streams that nobody uses end, and their memory is dormant until the stream comes back. */
#include "pools/arena_table.h"
#include "pools/pool_lock.h"
#include "pools/reclaim.h"
#include "pools/retire.h"

#include "unit/two_streams.h"

enum { LOCKS = 300 };

/* Nobody uses the streams through that many locks of the pool. */
static void let_pass(int locks)
{
    for (int i = 0; i < locks; i++) {
        tn_pool_lock(pool);
        tn_pool_unlock(pool);
    }
}

/* Arenas that nobody has used for long end. */
static void tend(void)
{
    tn_pool_lock(pool);
    for (int i = 0; i < 4; i++)
        tn_arenas_tend(pool);
    tn_pool_unlock(pool);
    OK(tarn_pool_validate(pool));
}

static struct tn_arena *arena_of(tn_cu_stream of)
{
    struct tn_order order = unit_order(device, of);
    struct tn_arena *arena;

    tn_pool_lock(pool);
    arena = tn_arena_seek(pool, order);
    tn_pool_unlock(pool);
    return arena;
}

static uint64_t dormant_bytes(void)
{
    uint64_t bytes = 0;

    for (const struct tn_segment *segment = pool->segments.dormant.first; segment != NULL;
         segment = segment->next)
        bytes += segment->mapped_bytes;
    return bytes;
}

/* A stream that has freed what it had, in both of its heaps; then it goes unused. small, large: where
 * that was; NULL: of no interest. */
static tn_cu_stream leave(void **small, void **large)
{
    tn_cu_stream left = test_stream();
    void *blocks[2] = {unit_alloc(pool, 4096, left), unit_alloc(pool, 4 * MIB, left)};

    OK(tarn_free(blocks[0]));
    OK(tarn_free(blocks[1]));
    if (small != NULL)
        *small = blocks[0];
    if (large != NULL)
        *large = blocks[1];
    return left;
}

static tn_cu_stream leave_for_long(void **small, void **large)
{
    tn_cu_stream left = leave(small, large);

    let_pass(LOCKS);
    tend();
    return left;
}

GROUP(memory, make_arenas)

TEST(memory, an_arena_unused_for_long_ends)
{
    tn_cu_stream left = leave(NULL, NULL);
    uint64_t arenas = pool->arenas.count;

    tend();
    ck_assert_ptr_nonnull(arena_of(left));
    let_pass(LOCKS);
    tend();
    ck_assert_ptr_null(arena_of(left));
    ck_assert_uint_eq(pool->arenas.count, arenas - 1);
    ck_assert_uint_ge(dormant_bytes(), 6 * MIB);
    ck_assert_ptr_eq(pool->segments.dormant.first->grower->arena, pool->segments.dormant.arena);
    ck_assert_ptr_nonnull(arena_of(other)); /* it has a live block */
}

/* Its later work comes behind its earlier work, as if nothing had happened. */
TEST(memory, a_stream_that_comes_back_finds_its_memory)
{
    void *small;
    void *large;
    tn_cu_stream left = leave_for_long(&small, &large);
    void *younger = unit_alloc(pool, 4096, test_stream()); /* of another segment */
    uint64_t before = mapped();
    uint64_t growths = pool->counters.events[TN_GROWTHS].count;

    ck_assert_ptr_eq(unit_alloc(pool, 4096, left), small);
    ck_assert_uint_eq(dormant_bytes(), 0);
    ck_assert_ptr_null(pool->segments.dormant.last);
    for (const struct tn_segment *segment = pool->segments.first; segment->next != NULL;
         segment = segment->next)
        ck_assert_uint_lt(segment->index, segment->next->index);
    ck_assert_ptr_eq(unit_alloc(pool, 4 * MIB, left), large);
    ck_assert_uint_eq(pool->counters.events[TN_GROWTHS].count, growths);
    ck_assert_uint_eq(mapped(), before);
    OK(tarn_free(small));
    OK(tarn_free(large));
    OK(tarn_free(younger));
    OK(tarn_pool_validate(pool));
}

TEST(memory, a_stream_that_has_come_back_is_waited_for_longer)
{
    tn_cu_stream left = leave_for_long(NULL, NULL);

    OK(tarn_free(unit_alloc(pool, 4096, left)));
    for (int i = 0; i < 3; i++) {
        let_pass(LOCKS);
        tend();
        ck_assert_ptr_nonnull(arena_of(left));
    }
    let_pass(LOCKS);
    tend();
    ck_assert_ptr_null(arena_of(left));
}

TEST(memory, no_other_stream_gets_dormant_memory)
{
    void *small;
    void *large;
    char *block;

    sim.hold_work(); /* nothing is proven */
    (void)leave_for_long(&small, &large);
    for (int i = 0; i < 16; i++) {
        block = unit_alloc(pool, 4 * MIB, stream);
        ck_assert(block + 4 * MIB <= (char *)large || block >= (char *)large + 4 * MIB);
        ck_assert_ptr_ne(unit_alloc(pool, 4096, test_stream()), small);
    }
    ck_assert_uint_ge(dormant_bytes(), 6 * MIB);
    OK(tarn_pool_validate(pool));
    sim.resume_work();
}

TEST(memory, an_arena_that_something_needs_does_not_end)
{
    tn_cu_stream streams[] = {test_stream(), test_stream(), test_stream(), test_stream()};
    tarn_checkpoint *checkpoint;
    void *pending = unit_alloc(pool, 4096, streams[1]);
    void *saved = unit_alloc(pool, 4096, streams[2]);
    void *room[] = {unit_alloc(pool, 4096, streams[3]), unit_alloc(pool, 4 * MIB, streams[3])};

    OK(tarn_free(room[0])); /* no checkpoint has them */
    OK(tarn_free(room[1]));
    (void)unit_alloc(pool, 4096, streams[0]); /* live */
    test_set_words(stream, pending, 1, 1);    /* the stream is known */
    sim.hold_work();
    test_set_words(stream, pending, 1, 1);
    OK(tarn_free_on(pending, stream));
    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, streams[2], &checkpoint));
    OK(tarn_free(saved));
    OK(tarn_pool_reserve(pool, MIB, streams[3]));
    let_pass(LOCKS);
    tend();
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_nonnull(arena_of(streams[i]));
    ck_assert_ptr_null(pool->segments.dormant.first);
    sim.resume_work();
    OK(tarn_checkpoint_destroy(checkpoint));
}

/* Wherever they lay, a restore brings them back to the arena. */
/* Sections that are captured again behind restores find the same idle memory. */
TEST(memory, while_a_pool_has_checkpoints_no_arena_ends)
{
    tarn_checkpoint *checkpoint;
    tn_cu_stream left;

    OK(tarn_checkpoint_take(pool, TARN_CONTENTS_NONE, stream, &checkpoint));
    left = leave_for_long(NULL, NULL);
    ck_assert_ptr_nonnull(arena_of(left));
    OK(tarn_checkpoint_destroy(checkpoint));
    tend();
    ck_assert_ptr_null(arena_of(left));
}

TEST(memory, an_arena_to_which_saved_blocks_come_back_does_not_end)
{
    tn_cu_stream left = leave(NULL, NULL);
    struct tn_order order = unit_order(device, left);

    tn_pool_lock(pool);
    tn_arena_save(pool, order, 2);
    tn_pool_unlock(pool);
    let_pass(LOCKS);
    tend();
    ck_assert_ptr_nonnull(arena_of(left));
    tn_pool_lock(pool);
    tn_arena_forget(pool, order, 2);
    tn_pool_unlock(pool);
    let_pass(LOCKS);
    tend();
    ck_assert_ptr_null(arena_of(left));
}

TEST(memory, memory_that_is_proven_is_anyones_at_once)
{
    void *large;
    tn_cu_stream left = leave(NULL, &large);

    let_pass(LOCKS);
    test_synchronize(left);
    OK(tn_gpu_wait_idle(&device->gpu));
    tend();
    ck_assert_ptr_null(arena_of(left));
    ck_assert_ptr_null(pool->segments.dormant.first);
    ck_assert_ptr_eq(unit_alloc(pool, 4 * MIB, stream), large);
    OK(tarn_pool_validate(pool));
}

TEST(memory, dormant_memory_is_anyones_once_it_is_proven)
{
    void *small;
    void *large;
    tn_cu_stream left = leave_for_long(&small, &large);

    ck_assert_uint_ge(dormant_bytes(), 6 * MIB);
    OK(tn_gpu_wait_idle(&device->gpu));
    tend();
    ck_assert_ptr_null(pool->segments.dormant.first);
    ck_assert_ptr_eq(unit_alloc(pool, 4 * MIB, stream), large);
    ck_assert_ptr_eq(unit_alloc(pool, 4096, left), small); /* of idle memory, like anyone */
    OK(tarn_pool_validate(pool));
}

/* The first rung of the ladder. */
TEST(memory, all_dormant_memory_that_is_proven_is_given_at_once)
{
    uint64_t bytes;

    for (int i = 0; i < 8; i++)
        (void)leave(NULL, NULL);
    let_pass(LOCKS);
    tend();
    bytes = dormant_bytes();
    ck_assert_uint_ge(bytes, (uint64_t)8 * 6 * MIB);
    tn_pool_lock(pool);
    ck_assert_uint_eq(tn_arenas_give_idle(pool), 0);
    tn_pool_unlock(pool);
    OK(tn_gpu_wait_idle(&device->gpu));
    tn_pool_lock(pool);
    ck_assert_uint_ge(tn_arenas_give_idle(pool), bytes);
    tn_pool_unlock(pool);
    ck_assert_ptr_null(pool->segments.dormant.first);
    OK(tarn_pool_validate(pool));
}

TEST(memory, a_trim_gives_dormant_memory_to_the_driver)
{
    uint64_t before = mapped();
    uint64_t segments;

    (void)leave(NULL, NULL);
    segments = tn_pool_segment_count(pool);
    let_pass(LOCKS);
    tend();
    unit_trim(device);
    ck_assert_uint_eq(mapped(), before);
    ck_assert_uint_eq(tn_pool_segment_count(pool), segments - 2);
    ck_assert_ptr_null(pool->segments.dormant.first);
    ck_assert_ptr_null(pool->segments.dormant.arena);
    OK(tarn_pool_validate(pool));
}

/* Without a wait nothing that is unproven goes. */
TEST(memory, a_part_of_dormant_memory_goes)
{
    tn_cu_stream left = leave_for_long(NULL, NULL);
    uint64_t before = dormant_bytes();
    uint64_t freed;

    OK(tn_gpu_wait_idle(&device->gpu));
    OK(tn_pool_trim(pool, mapped() - 2 * MIB, false, &freed));
    ck_assert_uint_ge(freed, 2 * MIB);
    ck_assert_uint_eq(dormant_bytes(), before - freed);
    OK(tarn_pool_validate(pool));
    OK(tarn_free(unit_alloc(pool, 4096, left)));
    OK(tarn_pool_validate(pool));
}

TEST(memory, a_stream_with_dormant_memory_is_retired)
{
    void *large;
    tn_cu_stream left = leave_for_long(NULL, &large);

    OK(tarn_stream_retire(device, left));
    ck_assert_ptr_null(pool->segments.dormant.first);
    ck_assert_ptr_null(arena_of(left));
    test_synchronize(left);
    ck_assert_ptr_eq(unit_alloc(pool, 4 * MIB, stream), large);
    OK(tarn_pool_validate(pool));
}

/* Another thread's growth comes between the preparation and the retirement. */
TEST(memory, a_stream_that_falls_dormant_while_it_is_retired_is_retired)
{
    tn_cu_stream left = leave(NULL, NULL);
    struct tn_order order = unit_order(device, left);
    struct tn_fence *fence;

    let_pass(LOCKS);
    tn_lock_acquire(&device->lock);
    tn_pool_lock(pool);
    ck_assert(tn_arenas_prepare_retire(pool, order));
    tn_pool_unlock(pool);
    OK(tn_streams_retire_prepare(&device->streams, left, order.stream_id, &fence));
    tn_pool_lock(pool);
    tn_arenas_tend(pool);
    ck_assert_ptr_nonnull(pool->segments.dormant.first);
    tn_arenas_retire(pool, order, fence);
    tn_pool_unlock(pool);
    tn_streams_retire_commit(&device->streams, fence);
    tn_lock_release(&device->lock);
    ck_assert_ptr_null(arena_of(left));
    ck_assert_uint_eq(pool->arenas.retired_count, 1);
}

/* Their memory is among others' then, and goes back to idle memory. */
TEST(memory, arenas_that_took_idle_memory_end)
{
    for (int i = 0; i < 1500; i++) {
        tn_cu_stream gone = test_stream();

        OK(tarn_free(unit_alloc(pool, 4096, gone)));
        test_destroy_stream(gone);
        if (i % 50 == 0)
            OK(tn_gpu_wait_idle(&device->gpu));
    }
    ck_assert_uint_lt(pool->arenas.count, 400);
    OK(tarn_pool_validate(pool));
}

/* A thread that shares an arena, or divides it, has let go of the arena's lock before. */
TEST(memory, an_arena_that_has_ended_is_not_shared)
{
    struct tn_arena *arena = arena_of(leave(NULL, NULL));

    let_pass(LOCKS);
    tend();
    ck_assert_ptr_null(arena->pool);
    (void)tn_steady_divide(arena);
    ck_assert(!arena->shared && !arena->divided);
}

/* Else a block that comes there later could be taken for one that a restore has met. */
TEST(memory, records_of_dormant_segments_were_met_by_no_walk)
{
    void *large;
    struct tn_segment *segment;

    (void)leave(NULL, &large);
    segment = unit_segment(large);
    for (struct tn_block *block = segment->first_block; block != NULL; block = block->next)
        block->walk_id = 7;
    let_pass(LOCKS);
    tend();
    ck_assert_ptr_nonnull(segment->dormant);
    ck_assert_int_eq(segment->last_block->state, TN_BLOCK_UNMAPPED);
    for (struct tn_block *block = segment->first_block; block != NULL; block = block->next)
        ck_assert_uint_eq(block->walk_id, 0);
}

TEST(memory, a_pool_with_dormant_memory_goes)
{
    (void)leave_for_long(NULL, NULL);
    tn_pool_lock(pool);
    for (struct tn_block *block = tn_live_first(pool->segments.first); block != NULL;
         block = tn_live_first(pool->segments.first)) {
        uint64_t address = tn_block_address(block);

        tn_pool_unlock(pool);
        OK(tarn_free((void *)(uintptr_t)address));
        tn_pool_lock(pool);
    }
    tn_pool_unlock(pool);
    ck_assert_ptr_nonnull(pool->segments.dormant.first);
    OK(tarn_pool_destroy(pool));
    ck_assert_uint_eq(device->index.tables[TN_BY_STREAM].count, 0);
    pool = unit_pool(device);
    ck_assert_ptr_null(pool->segments.dormant.arena);
    OK(tarn_pool_validate(pool));
}

/* The layout is in order of segments, whichever of them are dormant. */
TEST(memory, a_layout_shows_dormant_segments_in_their_places)
{
    tarn_layout *layout;

    (void)leave(NULL, NULL);
    (void)unit_alloc(pool, 4096, test_stream()); /* a younger segment */
    let_pass(LOCKS);
    tend();
    ck_assert_ptr_nonnull(pool->segments.dormant.first);
    OK(tarn_pool_layout(pool, &layout));
    for (size_t i = 1; i < layout->extent_count; i++)
        ck_assert_uint_le(layout->extents[i - 1].segment_index, layout->extents[i].segment_index);
    ck_assert_uint_eq(layout->segment_count, tn_pool_segment_count(pool));
    tarn_layout_destroy(layout);
}

TEST(memory, without_host_memory_an_arena_does_not_end)
{
    void *small;
    tn_cu_stream left = leave(&small, NULL);

    let_pass(LOCKS);
    for (uint64_t nth = 1; arena_of(left) != NULL; nth++) {
        ck_assert_uint_lt(nth, 10);
        (void)tn_host_plan_fault(nth, false);
        tend();
        (void)tn_host_plan_fault(0, false);
        ck_assert(arena_of(left) == NULL || pool->segments.dormant.first == NULL);
        let_pass(LOCKS);
    }
    ck_assert_uint_ge(dormant_bytes(), 6 * MIB);
    ck_assert_ptr_eq(unit_alloc(pool, 4096, left), small);
    OK(tarn_pool_validate(pool));
}

/* Events of the stream do not prove what a restore may have freed there. */
TEST(memory, events_of_the_stream_do_not_prove_what_was_dormant)
{
    tn_cu_stream left = leave_for_long(NULL, NULL);
    uint64_t stamp = pool->segments.dormant.last->dormant->stamp;

    (void)unit_alloc(pool, 4096, left);
    ck_assert_uint_ge(arena_of(left)->settled_stamp, stamp);
}

/* P39, and P38 of dormant segments */
TEST(memory, what_is_wrong_with_dormant_memory_is_found)
{
    struct tn_segment *segment;
    struct tn_dormant *dormant;
    uint64_t stamp;

    (void)leave_for_long(NULL, NULL);
    segment = pool->segments.dormant.first;
    dormant = segment->dormant;
    segment->checkpoint_count += 1;
    unit_expect_corrupt(pool, "P39");
    segment->checkpoint_count -= 1;
    stamp = dormant->stamp;
    dormant->stamp = 0;
    unit_expect_corrupt(pool, "P39");
    dormant->stamp = stamp;
    dormant->segment = pool->segments.first;
    unit_expect_corrupt(pool, "P39");
    dormant->segment = segment;
    segment->dormant = NULL;
    unit_expect_corrupt(pool, "P39");
    segment->dormant = dormant;
    tn_pool_index_put(&device->index, TN_BY_STREAM, &dormant->by_stream, 0);
    unit_expect_corrupt(pool, "P38");
    tn_pool_index_put(&device->index, TN_BY_STREAM, &dormant->by_stream, 12345);
    OK(tarn_pool_validate(pool));
}

/* P30 */
TEST(memory, a_list_of_those_asleep_that_is_wrong_is_found)
{
    struct tn_arena *arena = arena_of(other);

    let_pass(64);
    ck_assert(arena->asleep && !arena->awake);
    arena->asleep = false;
    unit_expect_corrupt(pool, "P30");
    arena->asleep = true;
    ck_assert_ptr_nonnull(pool->arenas.lists.first[TN_ARENAS_ASLEEP]);
    pool->arenas.lists.first[TN_ARENAS_ASLEEP] = NULL;
    unit_expect_corrupt(pool, "P30");
    arena = arena_of(other)->in[TN_ARENAS_ASLEEP].previous;
    pool->arenas.lists.first[TN_ARENAS_ASLEEP] = arena != NULL ? arena : arena_of(other);
    OK(tarn_pool_validate(pool));
}
