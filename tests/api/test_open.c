// SPDX-License-Identifier: Apache-2.0
/* Opening a device: every reason for which it is refused, and that nothing is left behind then. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/world.h"

/* Refused: the output is untouched, and the driver has nothing that it did not have before. */
static void refuse_open(int ordinal, tarn_status expected, const char *word)
{
    tarn_device *device = UNTOUCHED;
    tarn_sim_ledger before = test_ledger();

    STATUS(expected, tarn_device_open(ordinal, NULL, &device));
    ck_assert_untouched(device);
    ck_assert_msg(strstr(tarn_last_error(), word) != NULL, "lacks '%s': %s", word,
                  tarn_last_error());
    if (sim.read_ledger != NULL)
        test_same_ledger(&before);
}

static void open_and_close(void)
{
    tarn_device *device = NULL;
    tarn_sim_ledger before = test_ledger();

    OK(tarn_device_open(0, NULL, &device));
    OK(tarn_device_close(device));
    test_same_ledger(&before);
}

SUITE("opening a device")
GROUP(open, NULL)

TEST(open, a_missing_driver_library_is_no_driver)
{
    ck_assert_int_eq(setenv("TARN_DRIVER", "/nowhere/libcuda.so.1", 1), 0);
    refuse_open(0, TARN_ERR_NO_DRIVER, "/nowhere/libcuda.so.1");
    refuse_open(0, TARN_ERR_NO_DRIVER, "TARN_DRIVER=sim");
}

TEST(open, an_empty_driver_name_means_the_real_driver)
{
    tarn_device *device = UNTOUCHED;

    ck_assert_int_eq(setenv("TARN_DRIVER", "", 1), 0);
    if (tarn_device_open(0, NULL, &device) == TARN_ERR_NO_DRIVER)
        ck_assert_ptr_nonnull(strstr(tarn_last_error(), "libcuda.so.1"));
}

TEST(open, a_library_that_is_not_a_driver_is_too_old)
{
    ck_assert_int_eq(setenv("TARN_DRIVER", "libm.so.6", 1), 0);
    refuse_open(0, TARN_ERR_DRIVER_TOO_OLD, "libm.so.6");
}

TEST(open, a_driver_without_a_function_is_too_old_and_the_sentence_names_it)
{
    ck_assert_int_eq(setenv("TARN_SIM_MISSING", "cuMemMap", 1), 0);
    refuse_open(0, TARN_ERR_DRIVER_TOO_OLD, "cuMemMap");
}

/* 12.2: what is newer is missing, and the sentence names the first of it and its version. */
TEST(open, a_driver_of_an_older_release_is_too_old)
{
    ck_assert_int_eq(setenv("TARN_SIM_DRIVER_VERSION", "12020", 1), 0);
    refuse_open(0, TARN_ERR_DRIVER_TOO_OLD, "cuStreamGetCaptureInfo of version 12.3");
}

TEST(open, a_driver_of_the_oldest_release_that_has_all_is_good)
{
    ck_assert_int_eq(setenv("TARN_SIM_DRIVER_VERSION", "12040", 1), 0);
    open_and_close();
}

TEST(open, a_device_without_virtual_memory_management_is_not_supported)
{
    ck_assert_int_eq(setenv("TARN_SIM_VMM", "0", 1), 0);
    refuse_open(0, TARN_ERR_NOT_SUPPORTED, "virtual memory management");
}

TEST(open, the_simulator_is_found_beside_the_library)
{
    tarn_device_info info = TARN_DEVICE_INFO_INIT;
    tarn_device *device = NULL;

    ck_assert_int_eq(setenv("TARN_DRIVER", "sim", 1), 0);
    OK(tarn_device_open(0, NULL, &device));
    OK(tarn_device_describe(device, &info));
    ck_assert(info.simulated);
    ck_assert_ptr_nonnull(strstr(info.driver, "libtarn_sim.so"));
    OK(tarn_device_close(device));
}

TEST(open, an_ordinal_that_is_not_there_is_no_device)
{
    test_start();
    refuse_open(99, TARN_ERR_NO_DEVICE, "device 99");
    refuse_open(-1, TARN_ERR_NO_DEVICE, "device -1");
    refuse_open(1, TARN_ERR_NO_DEVICE, "has 1");
    open_and_close();
}

TEST(open, a_driver_that_finds_no_device_is_no_device)
{
    test_start();
    sim.plan_fault("cuInit", 1, 0, TN_CUDA_ERROR_NO_DEVICE);
    refuse_open(0, TARN_ERR_NO_DEVICE, "no device");
    open_and_close();
}

TEST(open, no_place_for_the_handle_is_an_invalid_argument)
{
    test_start();
    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, NULL, NULL));
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "device is NULL"));
}

static void refuse_options(tarn_device_options options, const char *word)
{
    tarn_device *device = UNTOUCHED;
    tarn_sim_ledger before = test_ledger();

    STATUS(TARN_ERR_INVALID_ARGUMENT, tarn_device_open(0, &options, &device));
    ck_assert_untouched(device);
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), word));
    test_same_ledger(&before);
}

static void refuse_bad_options(void)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.size = 0;
    refuse_options(options, "size of a tarn_device_options");
    options.size = sizeof options + 1;
    refuse_options(options, "size");
    options.size = sizeof options;
    options.region_bytes = GIB / 2;
    refuse_options(options, "region_bytes");
    options.region_bytes = 8192 * GIB;
    refuse_options(options, "region_bytes");
    options.region_bytes = 3 * GIB;
    refuse_options(options, "power of two");
    options.region_bytes = SIZE_MAX;
    refuse_options(options, "region_bytes");
}

TEST(open, options_out_of_range_are_invalid_arguments)
{
    test_start();
    refuse_bad_options();
}

TEST(open, options_are_checked_by_every_open_and_used_by_the_first)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_stats stats = TARN_STATS_INIT;
    tarn_device *device = NULL;
    tarn_device *again = NULL;

    test_start();
    options.region_bytes = GIB;
    OK(tarn_device_open(0, &options, &device));
    refuse_bad_options();
    options.region_bytes = 4 * GIB;
    OK(tarn_device_open(0, &options, &again));
    ck_assert_ptr_eq(device, again);
    OK(tarn_device_stats(device, &stats));
    ck_assert_uint_eq(stats.reserved_bytes, GIB);
    OK(tarn_device_close(device));
    OK(tarn_device_close(again));
}

TEST(open, too_few_addresses_are_a_smaller_region)
{
    tarn_stats stats = TARN_STATS_INIT;
    tarn_device *device = NULL;

    test_start();
    OK(tarn_device_open(0, NULL, &device));
    OK(tarn_device_stats(device, &stats));
    ck_assert_uint_ge(stats.reserved_bytes, GIB);
    OK(tarn_device_close(device));
    sim.set_hints(2, 2 * GIB);
    OK(tarn_device_open(0, NULL, &device));
    OK(tarn_device_stats(device, &stats));
    ck_assert_uint_eq(stats.reserved_bytes, 2 * GIB);
    OK(tarn_device_close(device));
}

TEST(open, less_than_a_gib_of_addresses_is_no_address_space)
{
    test_start();
    sim.set_hints(2, GIB / 2);
    refuse_open(0, TARN_ERR_ADDRESS_SPACE, "addresses");
    sim.set_hints(0, 0);
    open_and_close();
}

TEST(open, a_region_that_the_driver_moves_elsewhere_serves_as_well)
{
    tarn_device *device = NULL;
    void *address = NULL;
    tn_cu_stream stream;

    test_start();
    stream = test_stream();
    sim.set_hints(1, 0);
    OK(tarn_device_open(0, NULL, &device));
    OK(tarn_malloc(device, MIB, stream, &address));
    test_fill(stream, address, 7, MIB / 4);
    test_expect_words(stream, address, 7, MIB / 4);
    OK(tarn_free(address));
    OK(tarn_device_close(device));
}

static const char *const calls_of_open[] = {
    "cuDeviceGetCount",     "cuDeviceGet",
    "cuDeviceGetName",      "cuDeviceTotalMem",
    "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
    "cuMemAlloc",           "cuMemGetAllocationGranularity",
    "cuMemAddressReserve",  "cuCtxPushCurrent",
};
enum { CALLS_OF_OPEN = sizeof calls_of_open / sizeof calls_of_open[0] };

TEST_LOOP(open, a_call_that_the_driver_refuses_ends_the_open_and_leaves_nothing, 0, CALLS_OF_OPEN)
{
    test_start();
    open_and_close(); /* cuInit is over */
    test_set_context(NULL);
    sim.plan_fault(calls_of_open[_i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
    refuse_open(0, TARN_ERR_DRIVER, calls_of_open[_i]);
    ck_assert_ptr_nonnull(strstr(tarn_last_error(), "CUDA_ERROR_UNKNOWN"));
    ck_assert_uint_eq(sim.clear_fault(NULL), 1);
    open_and_close();
}

TEST(open, a_driver_that_cannot_be_initialised_is_refused_and_may_be_tried_again)
{
    test_start();
    sim.plan_fault("cuInit", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    refuse_open(0, TARN_ERR_DRIVER, "CUDA_ERROR_UNKNOWN");
    open_and_close();
}

TEST(open, a_device_that_faulted_cannot_be_opened)
{
    test_start();
    sim.plan_fault("cuDevicePrimaryCtxRetain", 1, 0, TN_CUDA_ERROR_ILLEGAL_ADDRESS);
    refuse_open(0, TARN_ERR_DEVICE_LOST, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST(open, a_full_device_cannot_be_opened)
{
    test_start();
    sim.plan_fault("cuMemAlloc", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    refuse_open(0, TARN_ERR_DEVICE_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
    open_and_close();
}

static bool is_forked(const char *call, tarn_status status)
{
    test_note_status(call, status, tarn_last_error());
    return status == TARN_ERR_FORKED;
}

/* In the child of a fork: 0 when everything is as documented. */
static int try_after_fork(void *address)
{
    tarn_device *device = UNTOUCHED;
    void *other = UNTOUCHED;

    if (!is_forked("tarn_device_open", tarn_device_open(0, NULL, &device)) || device != UNTOUCHED)
        return 1;
    if (strstr(tarn_last_error(), "fork") == NULL)
        return 2;
    if (!is_forked("tarn_malloc", tarn_malloc(world.device, 512, NULL, &other)) ||
        other != UNTOUCHED)
        return 3;
    if (!is_forked("tarn_pool_malloc", tarn_pool_malloc(world.pool, 512, 0, NULL, &other)) ||
        other != UNTOUCHED)
        return 4;
    if (!is_forked("tarn_stream_retire", tarn_stream_retire(world.device, TN_CU_STREAM_PER_THREAD)))
        return 5;
    return is_forked("tarn_free", tarn_free(address)) ? 0 : 6;
}

TEST(open, a_fork_of_a_process_that_used_the_driver_is_told_so)
{
    void *address;
    int status = -1;
    pid_t child;

    test_world_open();
    address = test_malloc(512);
    child = fork();
    if (child == 0)
        _exit(try_after_fork(address));
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    OK(tarn_free(address)); /* the parent's goes on */
    test_world_close();
}
