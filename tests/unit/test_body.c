// SPDX-License-Identifier: Apache-2.0
#include "claims/body.h"
#include "pools/arenas.h"
#include "pools/captures.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;

static void make_pool(void)
{
    device = unit_device();
    pool = unit_pool(device);
    tn_pool_lock(pool);
}

static void unlock(void)
{
    tn_pool_unlock(pool);
    OK(tarn_pool_destroy(pool));
}

static void open_body(uint64_t id, uint64_t outer, uint64_t group)
{
    OK(tn_body_open(pool, &(struct tn_body){.capture_id = id, .outer_id = outer, .group = group}));
}

GROUP(body, make_pool)

/* P15 */
TEST(body, a_body_is_known_until_its_outermost_capture_ends)
{
    open_body(11, 10, 1);
    open_body(12, 11, 1); /* in the body */
    ck_assert(tn_body_find(&pool->bodies, 11)->open);
    ck_assert_ptr_eq(tn_body_find_open(&pool->bodies, 10), tn_body_find(&pool->bodies, 11));
    tn_bodies_end(&pool->bodies, pool->segments.first, 12);
    ck_assert(!tn_body_find(&pool->bodies, 12)->open);
    ck_assert_ptr_null(tn_body_find_open(&pool->bodies, 11));
    tn_bodies_end(&pool->bodies, pool->segments.first, 11);
    ck_assert_uint_eq(tn_body_find(&pool->bodies, 12)->outer_id, 10);
    tn_bodies_end(&pool->bodies, pool->segments.first, 10);
    ck_assert_ptr_null(pool->bodies.first);
    tn_arenas_drop_empty(pool);
    tn_arenas_end_capture(pool, 10);
    unlock();
}

TEST(body, bodies_are_closed_from_the_inside)
{
    struct tn_body bodies[TN_ROUTES_MAX];

    open_body(11, 10, 1);
    open_body(12, 11, 1); /* in the body */
    open_body(13, 12, 1);
    open_body(21, 20, 1);
    tn_body_find(&pool->bodies, 13)->stream =
        TN_CU_STREAM_PER_THREAD; /* of thread 0, which is none */
    tn_body_find(&pool->bodies, 12)->stream = TN_CU_STREAM_PER_THREAD;
    tn_body_find(&pool->bodies, 12)->thread_id = tn_thread_id();
    ck_assert_uint_eq(tn_bodies_close(&pool->bodies, 10, bodies, TN_ROUTES_MAX), 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(bodies[i].capture_id, 13 - i);
    ck_assert(!tn_body_find(&pool->bodies, 11)->open);
    ck_assert(!tn_body_find(&pool->bodies, 12)->open);
    ck_assert(tn_body_find(&pool->bodies, 13)->open);
    ck_assert(tn_body_find(&pool->bodies, 21)->open);
    ck_assert_uint_eq(tn_bodies_close(&pool->bodies, 10, bodies, TN_ROUTES_MAX), 1);
    tn_arenas_end_capture(pool, 10);
    tn_arenas_end_capture(pool, 11);
    tn_arenas_end_capture(pool, 12);
    tn_arenas_end_capture(pool, 20);
    unlock();
}

/* P15 */
TEST(body, groups_have_arenas_that_end_with_their_outer_capture)
{
    open_body(11, 10, 1);
    open_body(12, 10, 1);
    open_body(13, 10, 2);
    ck_assert_uint_eq(pool->arenas.count, 2);
    ck_assert_ptr_nonnull(tn_arena_find(pool, tn_group_order(tn_body_find(&pool->bodies, 12))));
    tn_arenas_drop_empty(pool); /* not those */
    ck_assert_uint_eq(pool->arenas.count, 2);
    tn_arenas_end_capture(pool, 11);
    ck_assert_uint_eq(pool->arenas.count, 2);
    tn_arenas_end_capture(pool, 10);
    ck_assert_uint_eq(pool->arenas.count, 0);
    ck_assert_ptr_null(pool->bodies.first);
    unlock();
}

TEST(body, a_body_that_cannot_be_known_is_not)
{
    const struct tn_body body = {.capture_id = 11, .outer_id = 10, .group = 1};
    uint64_t arena_count = pool->arenas.count;
    uint64_t nth = 0;
    tarn_status status;

    do {
        nth += 1;
        (void)tn_host_plan_fault(nth, false);
        status = tn_body_open(pool, &body);
        if (status == TARN_OK) {
            tn_body_drop(&pool->bodies, 11); /* as where its hold cannot be had */
        } else {
            ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
            ck_assert_ptr_null(tn_body_find(&pool->bodies, 11));
        }
        tn_arenas_end_capture(pool, 10); /* the group's arena goes, though no body is known */
        ck_assert_uint_eq(pool->arenas.count, arena_count);
    } while (status != TARN_OK);
    ck_assert_uint_gt(nth, 1);
    (void)tn_host_plan_fault(0, false);
    open_body(11, 10, 1);
    open_body(12, 10, 1);
    tn_body_drop(&pool->bodies, 11);
    tn_body_drop(&pool->bodies, 11);
    ck_assert_ptr_null(tn_body_find(&pool->bodies, 11));
    ck_assert_ptr_nonnull(tn_body_find(&pool->bodies, 12));
    tn_body_drop(&pool->bodies, 12);
    ck_assert_ptr_null(pool->bodies.first);
    unlock();
}

/* P15 */
CONTRACT_TEST(body, a_pool_that_ends_before_its_bodies_is_a_broken_contract)
{
    open_body(11, 10, 1);
    unlock();
}
