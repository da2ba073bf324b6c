// SPDX-License-Identifier: Apache-2.0
/* The lock of a pool (pools/pool.h). Its release decides what arenas may do by themselves. */
#include "pools/pool_lock.h"

#include <stddef.h>

#include "base/barrier.h"
#include "base/contract.h"
#include "base/fork.h"
#include "base/hot.h"
#include "driver/sanitizer.h"
#include "heap/arena_lock.h"
#include "heap/check.h"
#include "heap/steady.h"
#include "pools/device.h"
#include "pools/pool.h"

enum {
    UNUSED_LOCKS_FIRST = 16, /* of an arena that is not expected to be used again */
    UNUSED_LOCKS_MAX = 32,
    CHANCES = 3,      /* of an arena asleep: see pools/arenas.h */
    AWAKE_MANY = 256, /* arenas; more cost a lock 8 us */
    /* Locks, after more were awake: the next try to keep many awake costs a fraction of these. */
    CROWDED_LOCKS = AWAKE_MANY * UNUSED_LOCKS_MAX,
};

/* These two have the lock of the lists. */

static void append(tarn_pool *pool, enum tn_pool_list list)
{
    struct tn_pool_lists *lists = &pool->device->lists;
    tarn_pool *last = lists->last[list];

    pool->places.in[list] = (struct tn_pool_link){.previous = last};
    if (last != NULL)
        last->places.in[list].next = pool;
    else
        lists->first[list] = pool;
    lists->last[list] = pool;
    lists->count[list] += 1;
}

/* Neighbours of before may be gone: no link to them stays. */
static void take_out(tarn_pool *pool, enum tn_pool_list list)
{
    struct tn_pool_lists *lists = &pool->device->lists;
    struct tn_pool_link *link = &pool->places.in[list];

    TN_ASSERT(lists->count[list] > 0);
    if (link->previous != NULL)
        link->previous->places.in[list].next = link->next;
    else
        lists->first[list] = link->next;
    if (link->next != NULL)
        link->next->places.in[list].previous = link->previous;
    else
        lists->last[list] = link->previous;
    *link = (struct tn_pool_link){.next = NULL};
    lists->count[list] -= 1;
}

static void lock_lists(tarn_device *device)
{
    tn_lock_acquire_spin(&device->lists.lock, TN_RANK_AWAKE);
}

static void unlock_lists(tarn_device *device)
{
    tn_lock_release_spin(&device->lists.lock, TN_RANK_AWAKE);
}

tarn_pool *tn_pools_next(tarn_device *device, enum tn_pool_list list, uint64_t round)
{
    tarn_pool *pool;

    TN_ASSERT(tn_lock_is_held(&device->lock));
    lock_lists(device);
    pool = device->lists.first[list];
    if (pool != NULL && pool->places.rounds[list] == round)
        pool = NULL;
    if (pool != NULL) {
        pool->places.rounds[list] = round;
        take_out(pool, list);
        append(pool, list);
    }
    unlock_lists(device);
    return pool;
}

void tn_pool_list(tarn_pool *pool, enum tn_pool_list list, bool listed)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    lock_lists(pool->device);
    TN_ASSERT(pool->places.listed[list] != listed);
    pool->places.listed[list] = listed;
    if (listed)
        append(pool, list);
    else
        take_out(pool, list);
    unlock_lists(pool->device);
}

tarn_pool *tn_pools_find_adopting(tarn_device *device, uint64_t capture_id)
{
    tarn_pool *pool;

    TN_ASSERT(tn_lock_is_held(&device->lock));
    lock_lists(device);
    pool = device->lists.first[TN_POOLS_ADOPTING];
    while (pool != NULL && pool->graphs.adopted_capture_id != capture_id)
        pool = pool->places.in[TN_POOLS_ADOPTING].next;
    unlock_lists(device);
    return pool;
}

/* The list of pools whose end has come so far; TN_POOL_LISTS: none. */
static enum tn_pool_list list_of(int ending)
{
    switch (ending) {
    case TN_ENDING_READY:
        return TN_POOLS_READY;
    case TN_ENDING_PARKED:
        return TN_POOLS_PARKED;
    default:
        return TN_POOL_LISTS;
    }
}

/* The lists' lock is held. */
static void put(tarn_pool *pool, enum tn_ending ending)
{
    enum tn_pool_list from = list_of(atomic_load(&pool->ending));
    enum tn_pool_list to = list_of(ending);

    if (from != TN_POOL_LISTS)
        take_out(pool, from);
    atomic_store(&pool->ending, (unsigned char)ending);
    if (to != TN_POOL_LISTS)
        append(pool, to);
}

void tn_ending_put(tarn_pool *pool, enum tn_ending ending)
{
    lock_lists(pool->device);
    put(pool, ending);
    unlock_lists(pool->device);
}

tarn_pool *tn_ending_next(tarn_device *device)
{
    tarn_pool *pool;

    TN_ASSERT(tn_lock_is_held(&device->lock));
    lock_lists(device);
    pool = device->lists.first[TN_POOLS_READY];
    if (pool != NULL)
        put(pool, TN_ENDING_READY);
    unlock_lists(device);
    return pool;
}

uint64_t tn_ending_count(tarn_device *device, enum tn_ending ending)
{
    uint64_t count;

    TN_ASSERT(list_of(ending) != TN_POOL_LISTS);
    lock_lists(device);
    count = device->lists.count[list_of(ending)];
    unlock_lists(device);
    return count;
}

void tn_ending_unpark(tarn_device *device)
{
    TN_ASSERT(tn_lock_is_held(&device->lock));
    lock_lists(device);
    while (device->lists.first[TN_POOLS_PARKED] != NULL)
        put(device->lists.first[TN_POOLS_PARKED], TN_ENDING_READY);
    unlock_lists(device);
}

/* A released pool's lock is about to be given back: claims end under it, but for calls, which a pool
 * that is READY may have. */
static TN_APART void note_released(tarn_pool *pool)
{
    if (atomic_load(&pool->magic) == 0 || atomic_load(&pool->ending) != TN_ENDING_NOT ||
        !tn_pool_is_unused(pool) || pool->holds.count > 0 || tn_pool_discarded_count(pool) > 0)
        return;
    lock_lists(pool->device);
    if (atomic_load(&pool->ending) == TN_ENDING_NOT)
        put(pool, TN_ENDING_READY); /* P34 */
    unlock_lists(pool->device);
}

void tn_arena_wake(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool) && arena->pool == pool && arena != &pool->idle);
    arena->unused_locks = 0;
    if (arena->awake)
        return;
    tn_arena_lock(arena);
    if (arena->asleep) {
        tn_arena_unlink(&pool->arenas.lists, arena, TN_ARENAS_ASLEEP);
        arena->returned = true;
    }
    arena->asleep = false;
    arena->awake = true;
    arena->gives = TN_GIVES_ANY; /* P40 */
    if (pool->arenas.lists.first[TN_ARENAS_AWAKE] == NULL)
        tn_pool_list(pool, TN_POOLS_AWAKE, true); /* P32 */
    tn_arena_link(&pool->arenas.lists, arena, TN_ARENAS_AWAKE);
    pool->arenas.awake_count += 1;
    if (pool->arenas.awake_count > AWAKE_MANY)
        pool->arenas.crowded_until = pool->arenas.lock_count + CROWDED_LOCKS;
    TN_ASSERT(tn_arena_is_locked(arena) && arena->allocates == TN_NOT_STEADY); /* P30 */
}

void tn_arena_wake_to_use(tarn_pool *pool, struct tn_arena *arena)
{
    pool->arenas.only_woken = pool->arenas.only_woken || arena->asleep;
    tn_arena_wake(pool, arena);
}

void tn_arena_sleep(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool) && arena->awake && tn_arena_is_locked(arena));
    tn_arena_unlink(&pool->arenas.lists, arena, TN_ARENAS_AWAKE);
    pool->arenas.awake_count -= 1;
    if (pool->arenas.lists.first[TN_ARENAS_AWAKE] == NULL)
        tn_pool_list(pool, TN_POOLS_AWAKE, false); /* P32 */
    arena->awake = false;
    arena->gives = arena->pool == pool ? tn_arena_can_give(arena) : 0;
    arena->asleep = arena->pool == pool && !tn_arena_is_captured(arena) && arena->fence == NULL;
    arena->asleep_since = pool->arenas.lock_count;
    arena->chances = arena->returned ? CHANCES : 0;
    if (arena->asleep)
        tn_arena_link(&pool->arenas.lists, arena, TN_ARENAS_ASLEEP);
    arena->expected = true;
    arena->allocates = TN_NOT_STEADY; /* P30 */
    arena->frees = TN_NOT_STEADY;
    arena->captured = NULL;
    tn_blocks_move(&arena->store, &pool->store, arena->store.spare_count);
    tn_arena_unlock(arena);
}

/* Whether the lock counts for nobody: it is due to the sleep of arenas that are used after all. */
static bool is_own_fault(const tarn_pool *pool)
{
    return pool->arenas.only_woken && pool->arenas.lock_count >= pool->arenas.crowded_until;
}

/* Whether a stopped arena has gone unused for long. */
static bool is_tired(const struct tn_arena *arena)
{
    TN_ASSERT(arena->awake);
    return arena->unused_locks > UNUSED_LOCKS_FIRST &&
           (arena->unused_locks > UNUSED_LOCKS_MAX || !arena->expected);
}

static TN_APART void await_owners(const tarn_pool *pool, const struct tn_arena *but)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    tn_barrier_heavy(); /* its light side: tn_arena_enter */
    for (const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_AWAKE]; arena != NULL;
         arena = arena->in[TN_ARENAS_AWAKE].next) {
        if (arena != but)
            tn_arena_await_owner(arena);
    }
}

void tn_pool_stop_others(tarn_pool *pool, const struct tn_arena *but)
{
    const struct tn_arena *first = pool->arenas.lists.first[TN_ARENAS_AWAKE];
    bool owned = false;

    TN_ASSERT(tn_pool_is_locked(pool));
    if (but != NULL && first == but && first->in[TN_ARENAS_AWAKE].next == NULL)
        return; /* nobody went on */
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_AWAKE]; arena != NULL;
         arena = arena->in[TN_ARENAS_AWAKE].next) {
        if (arena != but)
            owned = tn_arena_request_lock(arena) || owned;
    }
    if (owned)
        await_owners(pool, but);
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_AWAKE]; arena != NULL;
         arena = arena->in[TN_ARENAS_AWAKE].next) {
        if (arena != but)
            tn_steady_end(arena); /* P19 */
    }
    tn_counters_collect(&pool->counters, pool->arenas.lists.first[TN_ARENAS_AWAKE]);
}

/* Whether frees in the arena may have to be kept for captures under way. The arena's own capture
 * does not count, for its hold has all chunks of its blocks. An open route may stand for more
 * captures than are known, but a tarn_capture's route leads to no other capture. hold: of the
 * arena's capture; NULL: none. */
static bool may_have_other_captures(const tarn_pool *pool, const struct tn_hold *hold)
{
    uint64_t own = hold != NULL && hold->owned ? 1 : 0;

    TN_ASSERT(pool->holds.open_count >= own);
    if (pool->in_host) /* captures only use its blocks, by claims */
        return false;
    return pool->holds.open_count != own || pool->claims.route_count != own;
}

/* The permissions of the arena once the pool is unlocked. */
static struct tn_steady_terms terms_of(const tarn_pool *pool, const struct tn_arena *arena)
{
    bool captured = tn_arena_is_captured(arena);
    const struct tn_hold *hold =
        captured ? tn_hold_find(&pool->holds, arena->order.capture_id) : NULL;
    struct tn_steady_terms terms = {
        .coalesces = pool->claims.checkpoint_count > 0,
        .captured = hold != NULL ? &hold->chunks : NULL,
        .asks = pool->arenas.count > 1 && !captured && !pool->in_host &&
                pool->device->move_limit_bytes != 0,
    };

    TN_ASSERT(arena != &pool->idle);
    /* A pool without its magic number is going, and callers with its handle are told. */
    terms.allocates = !tn_pool_is_lone(pool) && arena->met && arena->fence == NULL &&
                      atomic_load(&pool->magic) != 0 && !tn_gpu_is_linear(&pool->device->gpu) &&
                      (!captured || (hold != NULL && pool->bodies.first == NULL));
    /* The last free of a released pool ends the pool, and therefore needs its lock. */
    terms.frees =
        terms.allocates && !may_have_other_captures(pool, hold) && !atomic_load(&pool->released);
    return terms;
}

void tn_pool_resume_others(tarn_pool *pool, const struct tn_arena *but)
{
    const bool uncounted = is_own_fault(pool);
    struct tn_arena *next;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_AWAKE]; arena != NULL;
         arena = next) {
        struct tn_steady_terms terms;

        next = arena->in[TN_ARENAS_AWAKE].next;
        if (arena == but)
            continue;
        if (uncounted && arena->unused_locks > 0)
            arena->unused_locks -= 1;
        if (is_tired(arena)) {
            tn_arena_sleep(pool, arena);
            continue;
        }
        terms = terms_of(pool, arena);
        tn_steady_begin(arena, &terms);
        tn_arena_unlock(arena);
    }
}

/* Waits at the lock of idle memory, with the pool's lock given back: who stops pools has it. Pools are
 * stopped as long as a copy of them takes, so a wait without a signal will do. */
static TN_APART void await_resume(tarn_pool *pool)
{
    tn_lock_release(&pool->lock);
    tn_arena_lock(&pool->idle);
    tn_arena_unlock(&pool->idle);
    tn_lock_acquire(&pool->lock);
}

void tn_pool_lock(tarn_pool *pool)
{
    tn_lock_acquire(&pool->lock);
    if (tn_is_forked())
        return;
    while (TN_UNLIKELY(pool->arenas.stopped))
        await_resume(pool);
    pool->arenas.lock_count += 1;
    pool->arenas.only_woken = false;
    tn_pool_stop_others(pool, NULL);
}

#if TARN_DEBUG_CHECKS
/* Checks the pool after as many unlocks as the last check looked at things. A pool which is going
 * is not checked, for its parts may be gone. */
static void check_turn(tarn_pool *pool)
{
    if (atomic_load(&pool->magic) == 0)
        return;
    pool->unlock_count += 1;
    if (pool->unlock_count < pool->last_check_count)
        return;
    pool->unlock_count = 0;
    pool->last_check_count =
        pool->holds.count * (1 + pool->chunks.count); /* each hold for each chunk: P7 */
    TN_CHECK_STATUS(pool->device->check_pool(pool, &pool->last_check_count));
}
#else
static void check_turn(tarn_pool *pool)
{
    (void)pool;
}
#endif

static TN_ALWAYS_INLINE void note_list(tarn_pool *pool, enum tn_pool_list list, bool listed)
{
    if (TN_UNLIKELY(listed != pool->places.listed[list]))
        tn_pool_list(pool, list, listed);
}

/* Enters and leaves the lists of pools for which something is to be done. A pool which is going, or
 * gone, has left them: of its record nothing else is read. */
static void note_lists(tarn_pool *pool)
{
    if (TN_UNLIKELY(atomic_load_explicit(&pool->magic, memory_order_relaxed) == 0))
        return;
    note_list(pool, TN_POOLS_WAITING,
              pool->pending.first != NULL || pool->arenas.retired_count > 0); /* P36 */
    note_list(pool, TN_POOLS_HELD, pool->holds.count > 0);
    note_list(pool, TN_POOLS_OPEN, pool->holds.open_count > 0);
    note_list(pool, TN_POOLS_STRAYS, pool->store.has_strays);
    if (TN_UNLIKELY(pool->counters.unpublished) && !pool->places.listed[TN_POOLS_UNPUBLISHED])
        tn_pool_list(pool, TN_POOLS_UNPUBLISHED, true); /* P35 */
    if (TN_UNLIKELY(pool->places.listed[TN_POOLS_ADOPTING]) && pool->holds.serial > 0 &&
        pool->holds.open_count == 0)
        tn_pool_list(pool, TN_POOLS_ADOPTING, false);
}

void tn_pool_unlock(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (!tn_is_forked()) {
        if (pool->counters.risen && pool->arenas.lists.first[TN_ARENAS_AWAKE] == NULL)
            tn_counters_collect(&pool->counters, NULL); /* nobody may lock a pool asleep for long */
        note_lists(pool);
        if (TN_UNLIKELY(atomic_load_explicit(&pool->released, memory_order_relaxed)))
            note_released(pool);
        check_turn(pool);
        tn_pool_resume_others(pool, NULL);
    }
    tn_lock_release(&pool->lock);
}

void tn_pool_stop(tarn_pool *pool)
{
    TN_ASSERT(tn_lock_is_held(&pool->device->lock));
    tn_pool_lock(pool);
    tn_arena_lock(&pool->idle);
    pool->arenas.stopped = true;
    tn_lock_release(&pool->lock);
}

void tn_pool_resume(tarn_pool *pool)
{
    tn_pool_look_begin(pool);
    pool->arenas.stopped = false;
    tn_arena_unlock(&pool->idle);
    tn_pool_unlock(pool);
}

void tn_pool_look_begin(tarn_pool *pool)
{
    TN_ASSERT(tn_lock_is_held(&pool->device->lock));
    tn_lock_acquire(&pool->lock);
    TN_ASSERT(pool->arenas.stopped && tn_arena_is_locked(&pool->idle));
}

void tn_pool_look_end(tarn_pool *pool)
{
    TN_ASSERT(pool->arenas.stopped);
    tn_lock_release(&pool->lock);
}
