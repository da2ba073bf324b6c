// SPDX-License-Identifier: Apache-2.0
#include "graphs/unrouted.h"

#include <time.h>

#include "driver/idle.h"
#include "graphs/serve.h"
#include "pools/captures.h"
#include "support/world.h"
#include "unit/unit.h"

static tarn_device *device;
static tn_cu_stream stream;
static void allocate_elsewhere(void *address);
static void
    *faster; /* UNTOUCHED: another thread allocates here while the next pool is being made */

tarn_status __real_tn_pool_create(tarn_device *in, const struct tn_pool_settings *settings,
                                  tarn_pool **pool);
tarn_status __wrap_tn_pool_create(tarn_device *in, const struct tn_pool_settings *settings,
                                  tarn_pool **pool);
tarn_status __wrap_tn_pool_create(tarn_device *in, const struct tn_pool_settings *settings,
                                  tarn_pool **pool)
{
    if (faster == UNTOUCHED) {
        faster = NULL;
        test_elsewhere(allocate_elsewhere, &faster);
    }
    return __real_tn_pool_create(in, settings, pool);
}

static void open_device(void)
{
    device = unit_device();
    stream = test_stream();
}

static void open_allowing(void)
{
    open_device();
    device->unrouted = TARN_UNROUTED_ALLOW;
}

static tarn_pool *adopted(void)
{
    tarn_pool *pool = device->pools;

    while (pool != NULL && pool->graphs.adopted_capture_id == 0)
        pool = pool->next;
    return pool;
}

static tarn_status allocate(void **address)
{
    return tn_serve(device, device->default_pool, 4096, 512, stream, address);
}

static void allocate_elsewhere(void *address)
{
    OK(allocate((void **)address));
}

static void await_end(void)
{
    int64_t deadline = test_deadline();

    while (adopted() != NULL && test_pause(deadline)) {
        OK(tn_gpu_wait_idle(&device->gpu)); /* a proof that its memory is idle */
        tn_device_reap(device);
        tn_device_end_released(device);
    }
    ck_assert_ptr_null(adopted());
}

GROUP(adopt, open_device)

TEST(adopt, an_adopted_pool_is_released_pinned_and_held)
{
    void *address = NULL;
    tarn_pool *pool;
    struct tn_hold *hold;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(allocate(&address));
    pool = adopted();
    ck_assert_ptr_eq(atomic_load(&unit_segment(address)->owner), pool);
    ck_assert(atomic_load(&pool->released));
    ck_assert_uint_eq(tn_pins_count(&pool->pins), 0);
    ck_assert_uint_eq(pool->holds.count, 1);
    hold = unit_find_hold(pool, pool->graphs.adopted_capture_id);
    ck_assert_ptr_nonnull(hold);
    ck_assert(!hold->owned && !hold->passing);
    tn_pool_pin(pool); /* another call is at it */
    test_destroy_graph(test_end_capture(stream));
    OK(tarn_free(address));
    unit_reap_all(pool);
    ck_assert_ptr_eq(adopted(), pool);
    tn_pool_unpin(pool);
    await_end();
}

TEST(adopt, two_threads_that_adopt_a_capture_share_its_pool)
{
    void *address = NULL;
    tarn_pool *pool;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    faster = UNTOUCHED;
    OK(allocate(&address));
    ck_assert_ptr_nonnull(faster);
    pool = adopted();
    ck_assert_ptr_eq(atomic_load(&unit_segment(address)->owner), pool);
    ck_assert_ptr_eq(atomic_load(&unit_segment(faster)->owner), pool);
    ck_assert_ptr_eq(device->pools, pool); /* the slower thread's is gone */
    ck_assert_ptr_eq(pool->next, device->default_pool);
    ck_assert_uint_eq(tn_pins_count(&pool->pins), 0);
    ck_assert_uint_eq(pool->holds.count, 1);
    ck_assert_uint_eq(atomic_load(&device->adopted_count), 1);
    ck_assert_uint_eq(atomic_load(&device->unrouted_count), 2);
    OK(tarn_free(address));
    OK(tarn_free(faster));
    test_destroy_graph(test_end_capture(stream));
    await_end();
}

/* Until nothing fails, or the room for births, without which it succeeds. */
TEST(adopt, no_adoption_without_host_memory)
{
    tarn_status status = TARN_ERR_HOST_MEMORY;
    void *address = NULL;
    int met = 0;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    for (uint64_t nth = 1; status != TARN_OK; nth++) {
        (void)tn_host_plan_fault(nth, false);
        status = allocate(&address);
        (void)tn_host_plan_fault(0, false);
        if (status != TARN_OK) {
            met += 1;
            ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
            ck_assert_ptr_null(address);
            ck_assert_uint_eq(atomic_load(&device->unrouted_count), 0);
        }
    }
    ck_assert_int_ge(met, 3);
    ck_assert_uint_eq(atomic_load(&device->unrouted_count), 1);
    ck_assert_uint_eq(atomic_load(&device->adopted_count), 1);
    OK(tarn_free(address));
    test_destroy_graph(test_end_capture(stream));
    await_end();
}

GROUP(allow, open_allowing)

TEST(allow, an_allowed_capture_has_a_passing_hold_in_the_default_pool)
{
    tarn_pool *pool = device->default_pool;
    void *address = NULL;
    struct tn_hold *hold;
    tn_cu_graph graph;
    struct tn_stream_state state;

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    OK(tn_stream_look(&device->gpu, stream, TN_STREAM_GRAPH, &state));
    OK(allocate(&address));
    hold = unit_find_hold(pool, state.order.capture_id);
    ck_assert(hold->passing && !hold->owned);
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 1);
    OK(tarn_pool_validate(pool));
    graph = test_end_capture(stream);
    tn_pool_lock(pool);
    tn_holds_close_capture(pool, 0, state.capture_graph, TN_NODES_UNKNOWN);
    tn_pool_unlock(pool);
    ck_assert_uint_eq(pool->holds.count, 0); /* though its claimant is there */
    ck_assert_uint_eq(unit_chunk(address)->hold_count, 0);
    ck_assert_int_eq(atomic_load(&hold->claim), TN_CLAIM_ORPHANED);
    ck_assert_uint_eq(atomic_load(&device->user_hold_count), 0);
    OK(tarn_pool_validate(pool));
    OK(tarn_free(address));
    test_destroy_graph(graph);
}

TEST(adopt, a_refusing_device_says_what_to_do)
{
    void *address = NULL;

    device->unrouted = TARN_UNROUTED_REFUSE;
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_RELAXED);
    STATUS(TARN_ERR_UNROUTED, allocate(&address));
    unit_expect_sentence("tarn_capture_begin");
    ck_assert_ptr_null(adopted());
    test_destroy_graph(test_end_capture(stream));
}
