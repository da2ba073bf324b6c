// SPDX-License-Identifier: Apache-2.0
/* The list of devices that keep a history. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pools/histories.h"
#include "unit/unit.h"

SUITE("histories")

enum { SOON_NS = 1000000 };

static void open_two(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 1), 0);
    (void)unsetenv("TARN_CONF"); /* which comes before the options */
    test_start();
}

GROUP(two, open_two)

static tarn_device *open_device(int ordinal, size_t history_bytes)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device;

    options.history_bytes = history_bytes;
    OK(tarn_device_open(ordinal, &options, &device));
    return device;
}

/* The newest device, and how many there are. */
static size_t count_devices(tarn_device **newest)
{
    size_t count = 0;

    ck_assert(tn_histories_lock(SOON_NS));
    *newest = tn_histories_first();
    for (tarn_device *device = *newest; device != NULL; device = device->history.next)
        count += 1;
    tn_histories_unlock();
    return count;
}

TEST(two, open_devices_with_a_history_are_listed_until_they_are_closed)
{
    tarn_device *first = open_device(0, 1 << 20);
    tarn_device *second = open_device(1, 1 << 20);
    tarn_device *newest;

    ck_assert_uint_eq(count_devices(&newest), 2);
    ck_assert_ptr_eq(newest, second);
    ck_assert_ptr_eq(newest->history.next, first);
    OK(tarn_device_close(first));
    ck_assert_uint_eq(count_devices(&newest), 1);
    ck_assert_ptr_eq(newest, second);
    OK(tarn_device_close(second));
    ck_assert_uint_eq(count_devices(&newest), 0);
}

TEST(two, a_device_without_a_history_is_not_listed)
{
    tarn_device *without = open_device(0, TARN_NO_HISTORY);
    tarn_device *with = open_device(1, 1 << 20);
    tarn_device *newest;

    ck_assert_uint_eq(count_devices(&newest), 1);
    ck_assert_ptr_eq(newest, with);
    OK(tarn_device_close(without));
    ck_assert_uint_eq(count_devices(&newest), 1);
    OK(tarn_device_close(with));
}

TEST(two, there_is_no_list_before_the_first_device)
{
    ck_assert(!tn_histories_lock(SOON_NS));
}

TEST(two, a_locked_list_is_waited_for_no_longer_than_asked)
{
    tarn_device *device = open_device(0, 1 << 20);
    tarn_device *newest;

    ck_assert(tn_histories_lock(SOON_NS));
    ck_assert(!tn_histories_lock(SOON_NS));
    tn_histories_unlock();
    ck_assert_uint_eq(count_devices(&newest), 1);
    OK(tarn_device_close(device));
}

/* The parent's thread may have the lock, and is not there in the child. */
TEST(two, a_child_has_no_list_of_its_parents)
{
    tarn_device *device = open_device(0, 1 << 20);
    int status = -1;
    pid_t child;

    ck_assert(tn_histories_lock(SOON_NS));
    child = fork();
    if (child == 0)
        _exit(tn_histories_lock(UINT64_MAX) ? 1 : 0);
    tn_histories_unlock();
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    OK(tarn_device_close(device));
}
