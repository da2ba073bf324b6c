// SPDX-License-Identifier: Apache-2.0
/* The lock of a pool: who has it, what stops meanwhile, and the check that has its turn when it is given back. */
#include "heap/arena_lock.h"
#include "unit/unit.h"

static tarn_pool *pool;
static struct tn_arena *mine;
static struct tn_arena *others;

static void make_pool(void)
{
    tn_cu_stream stream;

    pool = unit_pool(unit_device());
    stream = test_stream();
    mine = unit_block(unit_alloc(pool, 4096, stream))->heap->arena;
    stream = test_stream();
    others = unit_block(unit_alloc(pool, 4096, stream))->heap->arena;
    ck_assert_ptr_ne(mine, others);
}

GROUP(locked, make_pool)

TEST(locked, the_lock_is_known_to_be_this_threads_and_stops_all_arenas)
{
    ck_assert(!TARN_DEBUG_CHECKS || !tn_pool_is_locked(pool));
    tn_pool_lock(pool);
    ck_assert(tn_pool_is_locked(pool));
    ck_assert(tn_arena_is_locked(mine));
    ck_assert(tn_arena_is_locked(others));
    tn_pool_unlock(pool);
    ck_assert(!tn_arena_is_locked(mine));
    ck_assert(!tn_arena_is_locked(others));
    ck_assert(!TARN_DEBUG_CHECKS || !tn_pool_is_locked(pool));
}

TEST(locked, all_arenas_but_one_may_go_on_while_a_pool_is_locked)
{
    tn_pool_lock(pool);
    tn_pool_resume_others(pool, mine);
    ck_assert(tn_arena_is_locked(mine));
    ck_assert(!tn_arena_is_locked(others));
    ck_assert_int_eq(others->allocates, TN_STEADY);
    tn_pool_stop_others(pool, mine);
    ck_assert(tn_arena_is_locked(others));
    tn_pool_unlock(pool);
}

static void unlock_often(void)
{
    for (int i = 0; i < 4096; i++) {
        tn_pool_lock(pool);
        tn_pool_unlock(pool);
    }
}

/* P8: of a counter that heaps do not know. */
CONTRACT_TEST(locked, the_pool_is_checked_once_it_was_unlocked_often)
{
    pool->counters.metrics[TN_DISCARDED_BLOCKS].allocated[TN_HEAP_SMALL] += 1;
    unlock_often();
}

/* Its parts may be gone. */
TEST(locked, a_pool_that_goes_is_not_checked)
{
    pool->counters.metrics[TN_DISCARDED_BLOCKS].allocated[TN_HEAP_SMALL] += 1;
    atomic_store(&pool->magic, 0);
    unlock_often();
    atomic_store(&pool->magic, TN_POOL_MAGIC);
    pool->counters.metrics[TN_DISCARDED_BLOCKS].allocated[TN_HEAP_SMALL] -= 1;
    OK(tarn_pool_validate(pool));
}
