// SPDX-License-Identifier: Apache-2.0
/* What calls of several threads see is tests/api/test_callback_ends.c's, test_cancel.c's and test_fork.c's. */
#include <pthread.h>

#include "pools/entry.h"
#include "pools/route.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;

static void open_device(void)
{
    device = unit_device();
    pool = unit_pool(device);
}

static uint64_t pins(const tarn_pool *of)
{
    return tn_pins_count(&of->pins);
}

GROUP(calls, open_device)

TEST(calls, a_call_pins_its_pool_and_device_and_cannot_be_cancelled)
{
    int before;
    int meanwhile;

    {
        TN_CALL(call);

        ck_assert(tn_call_pool(&call, pool));
        ck_assert_uint_eq(pins(pool), 1);
        ck_assert_uint_eq(pins(device->default_pool), 1); /* the device's */
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &meanwhile);
        ck_assert_int_eq(meanwhile, PTHREAD_CANCEL_DISABLE);
    }
    ck_assert_uint_eq(pins(pool), 0);
    ck_assert_uint_eq(pins(device->default_pool), 0);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    ck_assert_int_eq(before, PTHREAD_CANCEL_ENABLE);
}

TEST(calls, a_handle_that_is_none_is_refused_and_leaves_no_pin)
{
    void *block = unit_alloc(pool, 4096, test_stream()); /* it keeps the pool */

    OK(tarn_pool_release(pool));
    for (int i = 0; i < 2; i++) {
        TN_CALL(call);

        ck_assert(!tn_call_pool(&call, i == 0 ? NULL : pool));
        ck_assert_int_eq(call.status, TARN_ERR_INVALID_HANDLE);
        unit_expect_sentence("pool handle");
    }
    ck_assert_uint_eq(pins(pool), 0);
    ck_assert_uint_eq(pins(device->default_pool), 0);
    OK(tarn_free(block));
}

TEST(calls, a_route_leads_to_a_pool_whose_handle_is_given_up)
{
    tarn_route *route;

    OK(tn_route_begin(device, pool, tarn_filter_thread, NULL, &route));
    OK(tarn_pool_release(pool));
    {
        TN_CALL(call);

        ck_assert(tn_call_allocation(&call, pool, true));
        ck_assert_uint_eq(pins(pool), 0); /* the route's choice is pinned */
        ck_assert_uint_eq(pins(device->default_pool), 1);
    }
    {
        TN_CALL(call);

        ck_assert(!tn_call_allocation(&call, pool, false));
        ck_assert_int_eq(call.status, TARN_ERR_INVALID_HANDLE);
    }
    {
        TN_CALL(call);

        ck_assert(tn_call_device(&call, device));
        ck_assert(!tn_call_and_pool(&call, pool));
        ck_assert_uint_eq(pins(pool), 0);
    }
    ck_assert(tn_route_end(device, route));
}
