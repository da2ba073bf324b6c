// SPDX-License-Identifier: Apache-2.0
/* Arenas that nobody uses fall asleep, and wake. */
#include "pools/captures.h"
#include "pools/pool_lock.h"
#include "pools/reserve.h"

#include "pools/sweep.h"
#include "unit/two_streams.h"

enum { MANY_LOCKS = 64 };

static void lock_often(void)
{
    for (int i = 0; i < MANY_LOCKS; i++) {
        tn_pool_lock(pool);
        tn_pool_unlock(pool);
    }
}

static struct tn_arena *arena_of(tn_cu_stream of)
{
    return unit_arena(pool, unit_order(device, of));
}

/* The pool's lock is taken as often as the calls that it counts. */
static uint64_t allocations_under_the_lock(void)
{
    return pool->counters.alloc_count;
}

GROUP(arenas, make_arenas)

TEST(arenas, an_arena_that_nobody_uses_falls_asleep)
{
    struct tn_arena *idle = arena_of(other);

    ck_assert(idle->awake && idle->allocates == TN_STEADY && idle->frees == TN_STEADY);
    for (int i = 0; i < MANY_LOCKS; i++) {
        tn_pool_lock(pool);
        tn_pool_unlock(pool);
        OK(tarn_free(unit_alloc(pool, 4096, stream))); /* this one is used */
    }
    ck_assert(!idle->awake && idle->allocates == TN_NOT_STEADY && idle->frees == TN_NOT_STEADY);
    ck_assert_uint_eq(idle->store.spare_count, 0);
    ck_assert(arena_of(stream)->awake);
    ck_assert_uint_le(arena_of(stream)->unused_locks, 3);
    ck_assert_int_eq(arena_of(stream)->allocates, TN_STEADY);
    OK(tarn_pool_validate(pool)); /* P30 */
}

static int locks_until_asleep(const struct tn_arena *arena)
{
    int locks = 0;

    while (arena->awake) {
        tn_pool_lock(pool);
        tn_pool_unlock(pool);
        locks += 1;
    }
    return locks;
}

TEST(arenas, an_arena_whose_stream_came_back_stays_awake_longer)
{
    struct tn_arena *arena;

    (void)unit_alloc(pool, 4096, other);
    arena = arena_of(other);
    ck_assert_int_le(locks_until_asleep(arena), 18);
    (void)unit_alloc(pool, 4096, other);
    ck_assert_int_gt(locks_until_asleep(arena), 24);
    OK(tarn_pool_validate(pool));
}

TEST(arenas, an_arena_with_reserved_memory_stays_awake_longer)
{
    OK(tn_pool_reserve(pool, 4 * MIB, other, unit_order(device, other)));
    ck_assert_int_gt(locks_until_asleep(arena_of(other)), 24);
}

TEST(arenas, an_allocation_wakes_its_arena)
{
    struct tn_arena *arena = arena_of(other);
    void *block;

    lock_often();
    ck_assert(!arena->awake);
    block = unit_alloc(pool, 4096, other);
    ck_assert(arena->awake && arena->allocates == TN_STEADY);
    ck_assert_ptr_eq(unit_block(block)->heap->arena, arena);
    OK(tarn_free(block));
    ck_assert_ptr_eq(unit_alloc(pool, 4096, other), block);
    OK(tarn_pool_validate(pool));
}

TEST(arenas, a_free_wakes_its_arena)
{
    void *blocks[] = {unit_alloc(pool, 4096, other), unit_alloc(pool, 4096, other)};
    struct tn_arena *arena = arena_of(other);

    lock_often();
    ck_assert(!arena->awake);
    OK(tarn_free(blocks[0]));
    ck_assert(arena->awake && arena->frees == TN_STEADY);
    OK(tarn_free(blocks[1]));
    ck_assert_uint_eq(arena->heaps[TN_HEAP_SMALL]->counters.freed.count, 1);
    OK(tarn_pool_validate(pool));
}

TEST(arenas, memory_of_an_arena_asleep_moves_and_its_record_goes)
{
    void *large = unit_alloc(pool, 64 * MIB, other);

    OK(tarn_free(large));
    OK(tarn_free(unit_alloc(pool, 4096, other)));
    lock_often();
    test_synchronize(other);
    unit_trim(device); /* a wait proves what the other has freed */
    ck_assert_uint_lt(mapped(), 64 * MIB);
    OK(tarn_pool_validate(pool));
}

/* Whether a walk over so many arenas comes by this one for a block of so many bytes. */
static bool may_give(const struct tn_arena *arena, uint64_t bytes, unsigned count)
{
    struct tn_arena_walk walk = tn_arena_walk_begin(pool, bytes, count);
    const struct tn_arena *giver = tn_arena_walk_next(&walk);

    while (giver != NULL && giver != arena)
        giver = tn_arena_walk_next(&walk);
    return giver != NULL;
}

/* A growth looks into an arena asleep only for what the arena says that it has. */
TEST(arenas, an_arena_asleep_knows_what_it_gets_back)
{
    void *large = unit_alloc(pool, 64 * MIB, other);
    struct tn_arena *arena = arena_of(other);

    sim.hold_work();
    test_fill(stream, large, 7, 4);
    OK(tarn_record_stream(large, stream));
    ck_assert_uint_eq(arena->gives, TN_GIVES_ANY);
    OK(tarn_free(large));
    lock_often();
    ck_assert(!arena->awake && arena->gives <= 21);
    sim.resume_work();
    test_synchronize(stream);
    OK(tarn_device_collect(device));
    ck_assert(!arena->awake);
    ck_assert_uint_eq(arena->gives, 26);
    ck_assert(may_give(arena, 64 * MIB, 1) && !may_give(arena, 128 * MIB, 2));
    ck_assert_ptr_eq(pool->arenas.lists.first[TN_ARENAS_ALL], arena);
    ck_assert(may_give(tn_arena_next(arena), 512, 2) && !may_give(tn_arena_next(arena), 512, 1));
    OK(tarn_pool_validate(pool)); /* P40 */
    arena->gives = 25;
    unit_expect_corrupt(pool, "P40");
    arena->gives = 26;
    ck_assert_uint_lt(tn_bins_log2_max(&arena->heaps[TN_HEAP_SMALL]->bins), 26);
    ck_assert_uint_eq(tn_bins_log2_max(&arena->heaps[TN_HEAP_LARGE]->bins), 26);
}

TEST(arenas, a_stream_asleep_is_retired)
{
    lock_often();
    ck_assert(!arena_of(other)->awake);
    OK(tarn_stream_retire(device, other));
    ck_assert_ptr_null(arena_of(other));
    test_synchronize(other);
    unit_trim(device);
    ck_assert_uint_eq(pool->arenas.retired_count, 0);
    OK(tarn_pool_validate(pool));
}

TEST(arenas, a_capture_ends_arenas_asleep)
{
    tarn_capture *capture = unit_begin(pool, stream);
    tarn_graph *graph;

    (void)unit_alloc(pool, 4096, stream);
    lock_often();
    graph = unit_end(capture);
    ck_assert_ptr_null(pool->arenas.lists.first[TN_ARENAS_OF_CAPTURES]);
    OK(tarn_graph_destroy(graph));
    OK(tarn_pool_validate(pool));
}

/* A round visits each of them once; none is visited for ever. */
TEST(arenas, marks_visit_pools_until_they_sleep)
{
    tarn_pool *more = unit_pool(device);
    struct tn_arena *arena = arena_of(stream);
    uint64_t sequence;
    void *block;

    block = unit_alloc(more, 4096, stream);
    ck_assert(pool->places.listed[TN_POOLS_AWAKE] && more->places.listed[TN_POOLS_AWAKE]);
    OK(tarn_pool_validate(pool)); /* P32 */
    sequence = unit_block(unit_alloc(pool, 4096, stream))->sequence;
    ck_assert_uint_gt(tn_device_mark(device), sequence);
    ck_assert_uint_eq(pool->places.rounds[TN_POOLS_AWAKE], device->lists.round);
    ck_assert_uint_eq(more->places.rounds[TN_POOLS_AWAKE], device->lists.round);
    for (int i = 0; i < MANY_LOCKS; i++)
        (void)tn_device_mark(device);
    ck_assert(!arena->awake && !pool->places.listed[TN_POOLS_AWAKE] &&
              !more->places.listed[TN_POOLS_AWAKE]);
    ck_assert_ptr_null(device->lists.first[TN_POOLS_AWAKE]);
    ck_assert_uint_lt(pool->places.rounds[TN_POOLS_AWAKE], device->lists.round);
    (void)unit_alloc(pool, 4096, stream);
    ck_assert_ptr_eq(device->lists.first[TN_POOLS_AWAKE], pool);
    OK(tarn_free(block));
    OK(tarn_pool_destroy(more));
    OK(tarn_pool_validate(pool));
}

TEST(arenas, a_list_of_pools_awake_that_is_wrong_is_found)
{
    lock_often();
    ck_assert(!pool->places.listed[TN_POOLS_AWAKE]);
    pool->places.listed[TN_POOLS_AWAKE] = true;
    unit_expect_corrupt(pool, "P32");
    pool->places.listed[TN_POOLS_AWAKE] = false;
    device->lists.first[TN_POOLS_AWAKE] = pool;
    device->lists.last[TN_POOLS_AWAKE] = pool;
    unit_expect_corrupt(pool, "P32");
    device->lists.first[TN_POOLS_AWAKE] = NULL;
    device->lists.last[TN_POOLS_AWAKE] = NULL;
    OK(tarn_pool_validate(pool));
}

/* P36 */
TEST(arenas, a_collection_visits_the_pools_that_wait)
{
    tarn_pool *more = unit_pool(device);
    tn_cu_stream busy = test_stream();
    void *block = unit_alloc(more, 4096, stream);

    test_set_words(busy, block, 1, 1); /* the stream is known */
    sim.hold_work();
    test_set_words(busy, block, 1, 1);
    OK(tarn_free_on(block, busy));
    ck_assert(more->places.listed[TN_POOLS_WAITING] && !pool->places.listed[TN_POOLS_WAITING]);
    OK(tarn_pool_validate(more));
    device->lists.first[TN_POOLS_WAITING] = NULL;
    unit_expect_corrupt(more, "P36");
    device->lists.first[TN_POOLS_WAITING] = more;
    tn_device_collect(device);
    ck_assert(more->places.listed[TN_POOLS_WAITING]); /* it waits on */
    ck_assert_uint_lt(pool->places.rounds[TN_POOLS_WAITING], device->lists.round);
    sim.resume_work();
    test_synchronize(busy);
    tn_device_collect(device);
    ck_assert(!more->places.listed[TN_POOLS_WAITING]);
    ck_assert_ptr_null(device->lists.first[TN_POOLS_WAITING]);
    OK(tarn_pool_destroy(more));
}

/* P36 */
TEST(arenas, lists_of_pools_with_holds_that_are_wrong_are_found)
{
    static const enum tn_pool_list lists[] = {TN_POOLS_HELD, TN_POOLS_OPEN};
    tarn_pool *more = unit_pool(device);
    struct tn_hold *hold;

    tn_pool_lock(more);
    OK(tn_hold_open(more, (struct tn_order){17, 4}, false, &hold));
    tn_pool_unlock(more);
    for (size_t i = 0; i < 2; i++) {
        ck_assert(more->places.listed[lists[i]] && !pool->places.listed[lists[i]]);
        device->lists.first[lists[i]] = NULL;
        unit_expect_corrupt(more, "P36");
        device->lists.first[lists[i]] = more;
    }
    tn_pool_lock(more);
    tn_hold_close(hold);
    tn_pool_unlock(more);
    ck_assert(more->places.listed[TN_POOLS_HELD] && !more->places.listed[TN_POOLS_OPEN]);
    tn_pool_lock(more);
    tn_hold_drop(hold);
    tn_pool_unlock(more);
    ck_assert_ptr_null(device->lists.first[TN_POOLS_HELD]);
    OK(tarn_pool_destroy(more));
}

TEST(arenas, what_is_wrong_with_an_arena_asleep_is_found)
{
    struct tn_arena *arena = arena_of(other);

    lock_often();
    ck_assert(!arena->awake);
    arena->frees = TN_STEADY;
    unit_expect_corrupt(pool, "P30");
    arena->frees = TN_NOT_STEADY;
    arena->heaps[TN_HEAP_LARGE]->counters.freed.count = 1;
    unit_expect_corrupt(pool, "P30");
    arena->heaps[TN_HEAP_LARGE]->counters.freed.count = 0;
    pool->arenas.awake_count += 1;
    unit_expect_corrupt(pool, "P30");
    pool->arenas.awake_count -= 1;
    OK(tarn_pool_validate(pool));
}

TEST(arenas, many_streams_wake_few_arenas)
{
    enum { STREAMS = 200 };
    uint64_t before;
    size_t awake = 0;

    for (int i = 0; i < STREAMS; i++)
        (void)unit_alloc(pool, 4096, test_stream());
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_AWAKE]; arena != NULL;
         arena = arena->in[TN_ARENAS_AWAKE].next)
        awake += 1;
    ck_assert_uint_eq(pool->arenas.count, STREAMS + 2);
    ck_assert_uint_le(awake, 48);
    before = allocations_under_the_lock();
    for (int i = 0; i < STREAMS; i++)
        OK(tarn_free(unit_alloc(pool, 4096, stream)));
    ck_assert_uint_le(allocations_under_the_lock(), before + 1);
    OK(tarn_pool_validate(pool));
}

/* Rounds of pairs on so many streams; returns the locks of the last round. */
static uint64_t take_turns(tn_cu_stream *streams, int count, int rounds)
{
    uint64_t locks = 0;

    for (int i = 0; i < count; i++)
        streams[i] = test_stream();
    for (int round = 0; round < rounds; round++) {
        locks = pool->arenas.lock_count;
        for (int i = 0; i < count; i++)
            OK(tarn_free(unit_alloc(pool, 4096, streams[i])));
    }
    return pool->arenas.lock_count - locks;
}

/* More than the locks after which an arena falls asleep. */
TEST(arenas, streams_that_take_turns_stay_awake)
{
    enum { STREAMS = 100 };
    tn_cu_stream streams[STREAMS];

    ck_assert_uint_eq(take_turns(streams, STREAMS, 4), 0);
    ck_assert_uint_ge(pool->arenas.awake_count, STREAMS);
    ck_assert_int_le(locks_until_asleep(arena_of(streams[0])), 34);
    OK(tarn_pool_validate(pool));
}

TEST(arenas, few_of_very_many_that_take_turns_stay_awake)
{
    enum { STREAMS = 400 };
    tn_cu_stream streams[STREAMS];
    uint64_t sum = 0;

    (void)take_turns(streams, STREAMS, 4);
    for (int i = 0; i < STREAMS; i++) {
        OK(tarn_free(unit_alloc(pool, 4096, streams[i])));
        sum += pool->arenas.awake_count;
    }
    ck_assert_uint_lt(sum, 64 * STREAMS);
    OK(tarn_pool_validate(pool));
}

/* Each lock counts: an arena is made, and grows. */
TEST(arenas, few_arenas_of_streams_that_come_and_go_stay_awake)
{
    for (int i = 0; i < 1000; i++) {
        tn_cu_stream passing = test_stream();

        OK(tarn_free(unit_alloc(pool, 4096, passing)));
        test_destroy_stream(passing);
        ck_assert_uint_lt(pool->arenas.awake_count, 48);
    }
    OK(tarn_pool_validate(pool));
}

/* _i: the arena that wakes has no memory for the allocation. */
TEST_LOOP(arenas, a_growth_of_an_arena_that_was_asleep_counts, 0, 2)
{
    struct tn_arena *unused = arena_of(stream);
    uint32_t before;
    bool counts;

    (void)unit_alloc(pool, 4096, other);
    (void)locks_until_asleep(arena_of(other));
    (void)unit_alloc(pool, 4096, stream);
    tn_pool_lock(pool);
    before = unused->unused_locks;
    tn_pool_unlock(pool);
    (void)unit_alloc(pool, _i == 0 ? 4096 : 64 * MIB, other);
    counts = unused->unused_locks > before;
    ck_assert(unused->awake && arena_of(other)->awake);
    ck_assert_int_eq(counts, _i != 0);
}
