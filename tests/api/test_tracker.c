// SPDX-License-Identifier: Apache-2.0
/* Trackers, as programs see them. tests/unit/test_trackers.c has the rest. */
#include "support/world.h"

/* What is known of the device's memory. */
struct known {
    uint64_t mapped;
    uint64_t unmapping;
    tarn_status failure;
    bool refused; /* a call on the device, inside the tracker */
};

static void hear(tarn_device *device, const tarn_tracked *what, void *user)
{
    tarn_device_info info = TARN_DEVICE_INFO_INIT;
    struct known *known = user;

    known->refused = tarn_device_describe(device, &info) == TARN_ERR_INVALID_HANDLE;
    if (what->event == TARN_TRACKED_MAPPED)
        known->mapped += what->bytes;
    else if (what->event == TARN_TRACKED_UNMAPPING)
        known->unmapping += what->bytes;
    else
        known->failure = what->status;
}

GROUP(trackers, test_world_open, test_world_close)

TEST(trackers, a_tracker_hears_of_all_memory)
{
    struct known known = {0};
    void *address = UNTOUCHED;

    OK(tarn_device_add_tracker(world.device, hear, &known, TARN_TRACKED_ALL));
    OK(tarn_free(test_alloc(world.pool, 5 * MIB, world.stream)));
    ck_assert_uint_eq(known.mapped, test_device_stats().mapped_bytes);
    ck_assert(!known.refused);
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tarn_pool_malloc(world.pool, (size_t)8191 << 20, 0, world.stream, &address));
    ck_assert_untouched(address);
    ck_assert_int_eq(known.failure, TARN_ERR_DEVICE_MEMORY);
    test_synchronize(world.stream);
    OK(tarn_device_trim(world.device, 0, NULL));
    ck_assert_uint_eq(test_device_stats().mapped_bytes, 0);
    ck_assert_uint_eq(known.unmapping, known.mapped);
    OK(tarn_device_remove_tracker(world.device, hear, &known));
}

TEST(trackers, what_is_wrong_with_a_registration_is_said)
{
    static struct known known; /* the tracker goes with the device */

    REFUSE(TARN_ERR_INVALID_HANDLE, "device",
           tarn_device_add_tracker(NULL, hear, &known, TARN_TRACKED_ALL));
    REFUSE(TARN_ERR_INVALID_HANDLE, "device", tarn_device_remove_tracker(NULL, hear, &known));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "NULL",
           tarn_device_add_tracker(world.device, NULL, &known, TARN_TRACKED_ALL));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "events",
           tarn_device_add_tracker(world.device, hear, &known, 0));
    REFUSE(TARN_ERR_INVALID_ARGUMENT, "events",
           tarn_device_add_tracker(world.device, hear, &known, TARN_TRACKED_ALL + 1));
    REFUSE(TARN_ERR_WRONG_STATE, "not registered",
           tarn_device_remove_tracker(world.device, hear, &known));
    OK(tarn_device_add_tracker(world.device, hear, &known, TARN_TRACKED_MAPPED));
    REFUSE(TARN_ERR_WRONG_STATE, "already",
           tarn_device_add_tracker(world.device, hear, &known, TARN_TRACKED_ALL));
}

GROUP(closing, NULL, NULL)

TEST(closing, a_device_that_closes_tells_of_its_memory)
{
    struct known known = {0};
    tarn_device *device;
    tarn_pool *pool;

    test_start();
    OK(tarn_device_open(0, NULL, &device));
    OK(tarn_device_default_pool(device, &pool));
    OK(tarn_free(test_alloc(pool, 8 * MIB, test_stream())));
    OK(tarn_device_add_tracker(device, hear, &known, TARN_TRACKED_UNMAPPING));
    OK(tarn_device_close(device));
    ck_assert_uint_eq(known.unmapping, 8 * MIB);
    ck_assert(known.refused);
}
