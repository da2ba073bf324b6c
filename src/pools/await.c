// SPDX-License-Identifier: Apache-2.0
/* Looks again and again, at first without a pause: most destructors run within microseconds.
 *
 * Trade-offs: nobody says when the last one has run, for a destructor may not wait and holds have no list of those who
 * await them. So a look takes the locks of the pools that are waited for. */
#include "pools/await.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

enum {
    US = 1000,
    MS = 1000 * US,
    BUSY_LOOKS = 50, /* some 10 us of them: what a destructor takes on an idle machine */
    PAUSE_NS = 100 * US,
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

/* One wait. */
struct awaited {
    tarn_device *device;
    tarn_pool *pool; /* NULL: all of the device */
    enum tn_await what;
    int64_t begun_ns;
};

static bool is_in_time(const struct awaited *awaited, int64_t limit_ns)
{
    return now_ns() - awaited->begun_ns < limit_ns;
}

/* How long for holds whose graphs the program may have destroyed. What was waited for in vain is most likely still its own:
 * who asks for memory again and again should not wait each time as long. */
static int64_t possible_ns(const tarn_pool *pool)
{
    return pool->awaited_serial == pool->hold_serial ? POSSIBLE_AGAIN_NS : POSSIBLE_NS;
}

static bool keeps_waiting(const struct awaited *awaited, tarn_pool *pool)
{
    switch (awaited->what) {
    case TN_AWAIT_EXPECTED:
        break;
    case TN_AWAIT_POSSIBLE:
        if (pool->hold_count > pool->open_hold_count + pool->graph_count) {
            if (is_in_time(awaited, possible_ns(pool)))
                return true;
            pool->awaited_serial = pool->hold_serial; /* in vain */
        }
        break;
    case TN_AWAIT_LAST:
        return pool->hold_count > 0 && tn_pool_is_only_held(pool) &&
               (awaited->pool != NULL || atomic_load(&pool->released));
    }
    return tn_holds_are_expected(pool);
}

/* What is done with the pools of a wait, each locked; true ends it. */
typedef bool (*visitor)(const struct awaited *awaited, tarn_pool *pool, void *argument);

static bool visit_locked(const struct awaited *awaited, tarn_pool *pool, visitor visit,
                         void *argument)
{
    bool done;

    tn_pool_lock(pool);
    done = visit(awaited, pool, argument);
    tn_pool_unlock(pool);
    return done;
}

static bool visit_pools(const struct awaited *awaited, visitor visit, void *argument)
{
    tarn_device *device = awaited->device;
    bool done = false;

    if (awaited->pool != NULL)
        return visit_locked(awaited, awaited->pool, visit, argument);
    tn_lock_acquire(&device->lock);
    for (tarn_pool *pool = device->pools; pool != NULL && !done; pool = pool->next)
        done = visit_locked(awaited, pool, visit, argument);
    tn_lock_release(&device->lock);
    return done;
}

static bool look(const struct awaited *awaited, tarn_pool *pool, void *unused)
{
    (void)unused;
    return keeps_waiting(awaited, pool);
}

static bool give_up(const struct awaited *awaited, tarn_pool *pool, void *unused)
{
    (void)awaited;
    (void)unused;
    tn_holds_expect_none(pool);
    return false;
}

static bool is_awaited(const struct awaited *awaited)
{
    tn_device_drop_gone(awaited->device);
    if (awaited->what == TN_AWAIT_LAST && awaited->pool == NULL &&
        !tn_device_is_last_use(awaited->device))
        return false;
    return visit_pools(awaited, look, NULL);
}

static int64_t limit_ns(const struct awaited *awaited)
{
    if (!tn_gpu_is_usable(&awaited->device->gpu))
        return UNUSABLE_NS;
    return awaited->what == TN_AWAIT_EXPECTED ? EXPECTED_NS : LAST_NS;
}

void tn_await_holds(tarn_device *device, tarn_pool *pool, enum tn_await what)
{
    const struct timespec pause = {0, PAUSE_NS};
    const struct awaited awaited = {device, pool, what, now_ns()};
    bool left = is_awaited(&awaited);
    int looks = 0;

    while (left && is_in_time(&awaited, limit_ns(&awaited))) {
        looks += 1;
        if (looks <= BUSY_LOOKS)
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

    return !tn_gpu_is_proven(gpu, atomic_load(&replays->alone_stamp)) ||
           !tn_gpu_is_proven(gpu, atomic_load(&replays->stamp));
}

/* What a look for expected holds has found. */
struct found {
    bool any;
    bool runs;
};

static bool find_expected(const struct awaited *awaited, tarn_pool *pool, void *argument)
{
    struct found *found = argument;

    (void)awaited;
    if (tn_holds_are_expected(pool)) {
        found->any = true;
        found->runs = found->runs || launches_may_run(pool);
    }
    return found->runs;
}

bool tn_holds_to_await(tarn_device *device, tarn_pool *pool, bool *runs)
{
    const struct awaited awaited = {.device = device, .pool = pool};
    struct found found = {false, false};

    (void)visit_pools(&awaited, find_expected, &found);
    *runs = *runs || found.runs;
    return found.any;
}
