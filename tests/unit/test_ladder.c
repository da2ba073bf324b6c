// SPDX-License-Identifier: Apache-2.0
#include "pools/ladder.h"
#include "unit/unit.h"

static tarn_device *device;
static tarn_pool *pool;
static tn_cu_stream stream;

static void make_pool(void)
{
    device = unit_device();
    pool = unit_pool_of(device, "net", 0);
    stream = test_stream();
}

/* Fails with the next status of the list at each try; the list ends with TARN_OK. */
struct tries {
    const tarn_status *statuses;
    int count;
    int frugal_count;
};

static tarn_status attempt(tarn_pool *tried, const void *request, bool frugal, void **result)
{
    struct tries *tries = *result;

    (void)request;
    ck_assert_ptr_eq(tried, pool);
    ck_assert(tn_lock_held(TN_RANK_POOL));
    tries->frugal_count += frugal;
    tries->count += 1;
    return tries->statuses[tries->count - 1];
}

static tarn_status run(struct tries *tries)
{
    void *result = tries;
    tarn_status status = tn_ladder_run(pool, attempt, NULL, 4096, &result);

    ck_assert(tn_lock_none_held());
    return status;
}

START_TEST(what_works_at_once_is_tried_once)
{
    struct tries tries = {(tarn_status[]){TARN_OK}, 0, 0};

    OK(run(&tries));
    ck_assert_int_eq(tries.count, 1);
    ck_assert_int_eq(tries.frugal_count, 0);
}
END_TEST

/* No memory, frugal or not; and when the device was waited for, memory and no addresses. */
START_TEST(missing_addresses_are_named_whenever_they_are_what_is_missing)
{
    struct tries tries = {(tarn_status[]){TARN_ERR_DEVICE_MEMORY, TARN_ERR_DEVICE_MEMORY,
                                          TARN_ERR_ADDRESS_SPACE},
                          0, 0};
    struct tries addresses = {(tarn_status[]){TARN_ERR_ADDRESS_SPACE}, 0, 0};
    uint64_t failures = atomic_load(&device->out_of_memory_count);

    STATUS(TARN_ERR_ADDRESS_SPACE, run(&tries));
    ck_assert_int_eq(tries.count, 3);
    unit_expect_sentence("region_bytes");
    STATUS(TARN_ERR_ADDRESS_SPACE, run(&addresses));
    ck_assert_int_eq(addresses.count, 1);
    ck_assert_int_eq(addresses.frugal_count, 0);
    unit_expect_sentence("'net'");
    ck_assert_uint_eq(atomic_load(&device->out_of_memory_count), failures);
}
END_TEST

START_TEST(other_failures_are_no_reason_to_go_down)
{
    struct tries tries = {(tarn_status[]){TARN_ERR_HOST_MEMORY}, 0, 0};

    STATUS(TARN_ERR_HOST_MEMORY, run(&tries));
    ck_assert_int_eq(tries.count, 1);
}
END_TEST

START_TEST(a_limit_goes_down_the_ladder_too)
{
    struct tries tries = {(tarn_status[]){TARN_ERR_LIMIT, TARN_ERR_DEVICE_MEMORY, TARN_OK}, 0, 0};

    OK(run(&tries));
    ck_assert_int_eq(tries.count, 3);
}
END_TEST

START_TEST(the_sentence_names_each_pool_and_fits)
{
    for (int i = 0; i < 40; i++) /* more than the sentence can name */
        (void)unit_pool_of(device, "a name of thirty-one characters", 0);
    (void)unit_alloc(pool, 3 * MIB, stream);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_ladder_failed(pool, 12345));
    unit_expect_sentence("device 0 has no 12345 bytes for pool 'net'");
    unit_expect_sentence("Tarn maps 4 MiB; pool 'a name of thirty-one characters' maps 0 MiB");
    ck_assert(tn_lock_none_held());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ladder");
    TCase *tcase = tcase_create("ladder");

    tcase_add_checked_fixture(tcase, make_pool, NULL);
    tcase_add_test(tcase, what_works_at_once_is_tried_once);
    tcase_add_test(tcase, missing_addresses_are_named_whenever_they_are_what_is_missing);
    tcase_add_test(tcase, other_failures_are_no_reason_to_go_down);
    tcase_add_test(tcase, a_limit_goes_down_the_ladder_too);
    tcase_add_test(tcase, the_sentence_names_each_pool_and_fits);
    suite_add_tcase(suite, tcase);
    return test_main(suite);
}
