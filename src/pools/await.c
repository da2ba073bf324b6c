// SPDX-License-Identifier: Apache-2.0
/* Looks repeatedly, at first without a pause: most destructors run within microseconds.
 *
 * Trade-offs: nobody reports the last destructor. A destructor may not wait, and holds have no list
 * of waiting threads. Each look therefore takes the locks of the awaited pools. */
#include "pools/await.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "base/contract.h"
#include "pools/janitor.h"
#include "pools/pool.h"
#include "pools/visit.h"

enum {
    US = 1000,
    MS = 1000 * US,
    BUSY_ROUNDS = 50, /* some 10 us: the time of a destructor on an idle machine */
    PAUSE_NS = 100 * US,
    BRIEF_NS = 250 * US,
    POSSIBLE_NS = 30 * MS,
    POSSIBLE_AGAIN_NS = 5 * MS,
    UNUSABLE_NS = 50 * MS,
    EXPECTED_NS = 200 * MS,
    LAST_NS = 1000 * MS,
};

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * MS + now.tv_nsec;
}

/* A single wait. */
struct awaited {
    tarn_device *device;
    tarn_pool *pool; /* NULL: all of the device */
    enum tn_await what;
    int64_t begun_ns;
};

static bool is_in_time(const struct awaited *awaited, int64_t limit_ns)
{
    TN_ASSERT(limit_ns > 0);
    return now_ns() - awaited->begun_ns < limit_ns;
}

/* How long to wait for holds whose graphs the program may have destroyed. A hold awaited in vain
 * before most likely still has its graph: a program which asks for memory repeatedly should not
 * wait as long each time. */
static int64_t possible_ns(const tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    return pool->holds.awaited_serial == pool->holds.serial ? POSSIBLE_AGAIN_NS : POSSIBLE_NS;
}

static bool keeps_waiting(const struct awaited *awaited, tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    TN_ASSERT(pool->holds.count >= pool->holds.open_count);
    switch (awaited->what) {
    case TN_AWAIT_EXPECTED:
        break;
    case TN_AWAIT_BRIEF:
        if (is_in_time(awaited, BRIEF_NS) && tn_holds_may_let_go(&pool->holds))
            return true;
        break;
    case TN_AWAIT_POSSIBLE:
        if (pool->holds.count > pool->holds.open_count + pool->claims.graph_count) {
            if (is_in_time(awaited, possible_ns(pool)))
                return true;
            pool->holds.awaited_serial = pool->holds.serial; /* in vain */
        }
        break;
    case TN_AWAIT_LAST:
        return pool->holds.count > 0 && tn_pool_is_only_held(pool) &&
               (awaited->pool != NULL || atomic_load(&pool->released));
    }
    return tn_holds_are_expected(&pool->holds);
}

/* Visits the pools of the wait: a single pool, or all of the device. */
static bool visit_pools(const struct awaited *awaited, tn_pool_visitor visitor, void *context)
{
    bool ended;

    TN_ASSERT(awaited->pool == NULL || awaited->pool->device == awaited->device);
    if (awaited->pool == NULL)
        return tn_device_visit(awaited->device, visitor, context);
    tn_pool_lock(awaited->pool);
    ended = visitor(awaited->pool, context);
    tn_pool_unlock(awaited->pool);
    return ended;
}

static bool find_awaited(tarn_pool *pool, void *awaited)
{
    return keeps_waiting(awaited, pool);
}

static bool give_up(tarn_pool *pool, void *unused)
{
    (void)unused;
    tn_holds_expect_none(&pool->holds);
    TN_ASSERT(!tn_holds_are_expected(&pool->holds));
    return false;
}

static bool is_awaited(struct awaited *awaited)
{
    TN_ASSERT(tn_lock_none_held());
    tn_device_drop_gone(awaited->device);
    if (awaited->what == TN_AWAIT_LAST && awaited->pool == NULL &&
        !tn_device_is_last_use(awaited->device))
        return false;
    return visit_pools(awaited, find_awaited, awaited);
}

static int64_t limit_ns(const struct awaited *awaited)
{
    if (!tn_gpu_is_usable(&awaited->device->gpu))
        return UNUSABLE_NS;
    if (awaited->what == TN_AWAIT_EXPECTED || awaited->what == TN_AWAIT_BRIEF)
        return EXPECTED_NS;
    return LAST_NS;
}

void tn_await_holds(tarn_device *device, tarn_pool *pool, enum tn_await what)
{
    const struct timespec pause = {0, PAUSE_NS};
    struct awaited awaited = {device, pool, what, now_ns()};
    bool left = is_awaited(&awaited);
    int steps = 0;

    TN_ASSERT(tn_lock_none_held());
    while (left && is_in_time(&awaited, limit_ns(&awaited))) {
        steps += 1;
        if (steps <= BUSY_ROUNDS)
            (void)sched_yield();
        else
            (void)nanosleep(&pause, NULL);
        left = is_awaited(&awaited);
    }
    if (left && what != TN_AWAIT_LAST)
        (void)visit_pools(&awaited, give_up, NULL);
}

static bool launches_may_run(const tarn_pool *pool)
{
    const struct tn_gpu *gpu = &pool->device->gpu;
    const struct tn_replays *replays = atomic_load(&pool->replays);

    TN_ASSERT(tn_pool_is_locked(pool));
    return !tn_gpu_is_proven(gpu, atomic_load(&replays->alone_stamp)) ||
           !tn_gpu_is_proven(gpu, atomic_load(&replays->stamp));
}

static bool find_launches(tarn_pool *pool, void *unused)
{
    (void)unused;
    TN_ASSERT(tn_pool_is_locked(pool));
    return tn_holds_are_expected(&pool->holds) && launches_may_run(pool);
}

bool tn_await_needs_device(tarn_device *device, tarn_pool *pool)
{
    const struct awaited awaited = {.device = device, .pool = pool};

    TN_ASSERT(tn_lock_none_held());
    return visit_pools(&awaited, find_launches, NULL);
}
