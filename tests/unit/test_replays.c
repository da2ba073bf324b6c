// SPDX-License-Identifier: Apache-2.0
#include "claims/replays.h"
#include "driver/idle.h"
#include "pools/captures.h"
#include "pools/series.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pools[3];

static struct tn_spin
    *awaited; /* another thread joins the first two pools just before it is taken */

void __real_tn_lock_acquire_spin(struct tn_spin *lock, enum tn_rank rank);
void __wrap_tn_lock_acquire_spin(struct tn_spin *lock, enum tn_rank rank);
void __wrap_tn_lock_acquire_spin(struct tn_spin *lock, enum tn_rank rank)
{
    if (lock == awaited) {
        awaited = NULL;
        tn_replays_merge_pools(pools[1], 5, NULL);
    }
    __real_tn_lock_acquire_spin(lock, rank);
}

/* What a thread that launches alone in the first pool has stored is seen by others from the next heavy fence
 * on; it has launched when they have slept so often. */
static int launching_for;
static struct tn_replays *launching;

void __real_tn_barrier_heavy(void);
void __wrap_tn_barrier_heavy(void);
void __wrap_tn_barrier_heavy(void)
{
    __real_tn_barrier_heavy();
    if (launching != NULL) {
        ck_assert(atomic_load(&launching->serialized)); /* a launch that begins now sees it */
        atomic_store(&launching->launching_alone, true);
    }
}

int __real_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *pause, struct timespec *rest)
{
    if (launching != NULL && launching_for > 0) {
        launching_for -= 1;
        if (launching_for == 0)
            atomic_store(&launching->launching_alone, false);
    }
    return __real_nanosleep(pause, rest);
}

static void make_pools(void)
{
    device = unit_device();
    for (int i = 0; i < 3; i++)
        pools[i] = unit_pool(device);
}

static struct tn_hold *open_hold(tarn_pool *pool, uint64_t capture_id)
{
    struct tn_hold *hold = NULL;

    tn_pool_lock(pool);
    OK(tn_hold_open(pool, (struct tn_order){17, capture_id}, true, &hold));
    tn_pool_unlock(pool);
    return hold;
}

static void drop_hold(struct tn_hold *hold)
{
    tarn_pool *pool = hold->holds->pool;

    tn_pool_lock(pool);
    tn_hold_drop(hold);
    tn_pool_unlock(pool);
}

static struct tn_replays *replays_of(tarn_pool *pool)
{
    return atomic_load(&pool->replays);
}

GROUP(pools, make_pools, .name = "order of pools")

TEST(pools, a_pool_begins_with_an_order_of_its_own)
{
    ck_assert_ptr_ne(replays_of(pools[0]), replays_of(pools[1]));
    ck_assert_uint_eq(replays_of(pools[0])->pool_count, 1);
    ck_assert(!atomic_load(&replays_of(pools[0])->shared));
}

/* P17 */
TEST(pools, pools_of_one_capture_share_one_order)
{
    struct tn_hold *holds[4] = {open_hold(pools[0], 5), open_hold(pools[1], 5),
                                open_hold(pools[1], 6), open_hold(pools[2], 6)};

    tn_replays_merge_pools(pools[1], 5, NULL);
    ck_assert_ptr_eq(replays_of(pools[0]), replays_of(pools[1]));
    ck_assert_ptr_ne(replays_of(pools[0]), replays_of(pools[2]));
    ck_assert_uint_eq(replays_of(pools[0])->pool_count, 2);
    tn_replays_merge_pools(pools[1], 6, NULL); /* brings the first along */
    ck_assert_ptr_eq(replays_of(pools[0]), replays_of(pools[2]));
    ck_assert_uint_eq(replays_of(pools[0])->pool_count, 3);
    ck_assert(atomic_load(&replays_of(pools[0])->serialized));
    tn_replays_merge_pools(pools[0], 5, NULL); /* nothing more to do */
    ck_assert_uint_eq(replays_of(pools[0])->pool_count, 3);
    for (int i = 0; i < 4; i++)
        drop_hold(holds[i]);
    OK(tarn_pool_destroy(pools[0]));
    ck_assert_uint_eq(replays_of(pools[1])->pool_count, 2);
    OK(tarn_pool_destroy(pools[1]));
    OK(tarn_pool_destroy(pools[2]));
}

/* G3 */
TEST(pools, a_merge_waits_for_a_launch_whose_beginning_is_seen_late)
{
    for (int i = 0; i < 2; i++) {
        struct tn_hold *holds[2] = {open_hold(pools[i], 5), open_hold(pools[2], 5)};

        launching = replays_of(pools[i]); /* the one that is joined, and one that joins */
        launching_for = 3;
        tn_replays_merge_pools(pools[i], 5, NULL);
        ck_assert_int_eq(launching_for, 0);
        launching = NULL;
        drop_hold(holds[0]);
        drop_hold(holds[1]);
    }
}

TEST(pools, the_order_that_is_locked_is_the_pools)
{
    struct tn_hold *first = open_hold(pools[0], 5);
    struct tn_hold *second = open_hold(pools[1], 5);
    struct tn_replays *before = replays_of(pools[1]);
    struct tn_replays *locked;

    awaited = &before->lock;
    locked = tn_replays_lock(&pools[1]->replays);
    ck_assert_ptr_null(awaited);
    ck_assert_ptr_ne(locked, before); /* it came to the other pool's meanwhile */
    ck_assert_ptr_eq(locked, replays_of(pools[0]));
    ck_assert_ptr_eq(locked, replays_of(pools[1]));
    tn_replays_unlock(locked);
    ck_assert(tn_lock_none_held());
    drop_hold(first);
    drop_hold(second);
}

static uint64_t records_of(const tarn_pool *pool)
{
    uint64_t count = 0;

    for (const struct tn_replays *record = pool->first_replays; record != NULL;
         record = record->merged_into)
        count += 1;
    return count;
}

TEST(pools, the_younger_pool_comes_and_takes_its_record_along_when_it_goes)
{
    struct tn_hold *hold = open_hold(pools[0], 5);
    struct tn_replays *kept = replays_of(pools[0]);

    for (int round = 0; round < 10; round++) {
        tarn_pool *passing = unit_pool(device);
        struct tn_hold *other = open_hold(passing, 5);

        tn_replays_merge_pools(round % 2 == 0 ? passing : pools[0], 5, NULL);
        ck_assert_ptr_eq(replays_of(passing), kept);
        ck_assert_uint_eq(records_of(passing), 2);
        ck_assert_uint_eq(passing->first_replays->pool_count, 1);
        drop_hold(other);
        OK(tarn_pool_destroy(passing));
        ck_assert_ptr_eq(replays_of(pools[0]), kept);
        ck_assert_uint_eq(records_of(pools[0]), 1);
        ck_assert_uint_eq(kept->pool_count, 1);
    }
    drop_hold(hold);
}

TEST(pools, those_that_share_come_to_an_older_pool)
{
    struct tn_hold *holds[4] = {open_hold(pools[1], 5), open_hold(pools[2], 5),
                                open_hold(pools[0], 6), open_hold(pools[2], 6)};
    struct tn_replays *oldest = replays_of(pools[0]);

    tn_replays_merge_pools(pools[2], 5, NULL);
    ck_assert_ptr_eq(replays_of(pools[2]), replays_of(pools[1]));
    tn_replays_merge_pools(pools[0], 6, NULL); /* one against two, but the oldest of all */
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(replays_of(pools[i]), oldest);
    ck_assert_uint_eq(oldest->pool_count, 3);
    ck_assert_uint_eq(records_of(pools[0]), 1);
    for (int i = 0; i < 4; i++)
        drop_hold(holds[i]);
    OK(tarn_pool_destroy(pools[0])); /* its record stays with the others */
    ck_assert_ptr_eq(replays_of(pools[1]), oldest);
    ck_assert_uint_eq(oldest->pool_count, 2);
    OK(tarn_pool_destroy(pools[2]));
    ck_assert_uint_eq(records_of(pools[1]), 2);
    OK(tarn_pool_destroy(pools[1]));
}

/* The age of an order is that of its oldest pool, whichever of its pools meets another. */
TEST(pools, a_pool_that_stays_keeps_one_record_while_others_share_and_go)
{
    struct tn_replays *kept = replays_of(pools[0]);

    for (int round = 0; round < 10; round++) {
        tarn_pool *passing[2] = {unit_pool(device), unit_pool(device)};
        struct tn_hold *holds[4] = {open_hold(passing[0], 5), open_hold(passing[1], 5),
                                    open_hold(passing[1], 6), open_hold(pools[0], 6)};

        tn_replays_merge_pools(passing[0], 5, NULL);
        tn_replays_merge_pools(round % 2 == 0 ? passing[1] : pools[0], 6, NULL);
        ck_assert_ptr_eq(replays_of(pools[0]), kept);
        ck_assert_ptr_eq(replays_of(passing[0]), kept);
        for (int i = 0; i < 4; i++)
            drop_hold(holds[i]);
        OK(tarn_pool_destroy(passing[round % 2]));
        OK(tarn_pool_destroy(passing[1 - round % 2]));
        ck_assert_uint_eq(records_of(pools[0]), 1);
        ck_assert_uint_eq(kept->pool_count, 1);
    }
}

TEST(pools, pools_of_sections_in_one_graph_share_one_order)
{
    tn_cu_graph graph = (tn_cu_graph)(void *)&device; /* compared, and never used */
    struct tn_hold *first = open_hold(pools[0], 5);
    struct tn_hold *second = open_hold(pools[1], 6);

    tn_pool_lock(pools[0]);
    tn_hold_set_graph(first, graph);
    tn_pool_unlock(pools[0]);
    tn_replays_merge_pools(pools[1], 6, NULL);
    ck_assert(!atomic_load(&replays_of(pools[1])->shared));
    tn_replays_merge_pools(pools[1], 6, graph);
    ck_assert_ptr_eq(replays_of(pools[0]), replays_of(pools[1]));
    drop_hold(first);
    drop_hold(second);
}

/* What ran last in a pool that came is not known: all that was launched until then must be over. */
TEST(pools, after_a_merge_the_last_replay_is_unknown)
{
    struct tn_hold *first = open_hold(pools[0], 5);
    struct tn_hold *second = open_hold(pools[1], 5);
    uint64_t stamp;

    tn_replays_merge_pools(pools[1], 5, NULL);
    stamp = atomic_load(&replays_of(pools[0])->alone_stamp);
    ck_assert_uint_eq(stamp, tn_gpu_epoch(&device->gpu));
    ck_assert(!tn_gpu_is_proven(&device->gpu, stamp));
    OK(tn_gpu_wait_idle(&device->gpu));
    ck_assert(tn_gpu_is_proven(&device->gpu, stamp));
    drop_hold(first);
    drop_hold(second);
}

TEST(pools, the_default_pool_shares_with_nobody)
{
    struct tn_hold *hold = open_hold(pools[0], 5);

    tn_replays_merge_pools(device->default_pool, 5, NULL);
    ck_assert(!atomic_load(&replays_of(pools[0])->shared));
    drop_hold(hold);
}
