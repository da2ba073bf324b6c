// SPDX-License-Identifier: Apache-2.0
#include "pools/callbacks.h"
#include "unit/unit.h"

static struct tn_lock lock = TN_LOCK_INIT(TN_RANK_DEVICE);
static struct tn_callbacks callbacks;
static int users[3];

static void nothing(void)
{
}

static void init(void)
{
    tn_callbacks_init(&callbacks, &lock, false);
}

static void fini(void)
{
    tn_callbacks_fini(&callbacks);
    ck_assert_int_eq(tn_host_outstanding(), 0);
}

GROUP(callbacks, init, fini)

TEST(callbacks, an_empty_list_has_none_to_enter)
{
    ck_assert_ptr_null(tn_callbacks_enter(&callbacks, 0));
    STATUS(TARN_ERR_WRONG_STATE, tn_callbacks_remove(&callbacks, nothing, &users[0]));
}

TEST(callbacks, a_walk_sees_what_is_added_and_misses_what_is_removed_meanwhile)
{
    struct tn_callback *callback;

    OK(tn_callbacks_add(&callbacks, nothing, &users[0], 1));
    OK(tn_callbacks_add(&callbacks, nothing, &users[1], 1));
    callback = tn_callbacks_enter(&callbacks, 0);
    ck_assert_ptr_eq(callback->user, &users[0]);
    ck_assert_ptr_null(tn_callbacks_enter(&callbacks, 0)); /* inside one already */
    tn_callbacks_leave(&callbacks, callback);
    OK(tn_callbacks_remove(&callbacks, nothing, &users[1]));
    OK(tn_callbacks_add(&callbacks, nothing, &users[2], 1));
    callback = tn_callbacks_enter(&callbacks, 1);
    ck_assert_ptr_eq(callback->user, &users[2]);
    ck_assert_uint_eq(callback->id, 3);
    OK(tn_callbacks_remove(&callbacks, nothing, &users[0]));
    OK(tn_callbacks_remove(&callbacks, nothing, &users[2])); /* its own: stays until it is left */
    ck_assert(callback->removed);
    tn_callbacks_leave(&callbacks, callback);
    ck_assert_ptr_null(callbacks.first);
}

TEST(callbacks, a_pair_is_there_once)
{
    OK(tn_callbacks_add(&callbacks, nothing, &users[0], 1));
    STATUS(TARN_ERR_WRONG_STATE, tn_callbacks_add(&callbacks, nothing, &users[0], 1));
    ck_assert_ptr_null(callbacks.first->next);
}

TEST(callbacks, without_host_memory_nothing_is_added)
{
    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_callbacks_add(&callbacks, nothing, &users[0], 1));
    ck_assert_ptr_null(callbacks.first);
}
