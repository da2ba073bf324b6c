// SPDX-License-Identifier: Apache-2.0
#include "pools/opening.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "observe/pool_check.h"
#include "pools/captures.h"
#include "support/world.h"
#include "unit/unit.h"

static struct tn_hold
    *goes_meanwhile; /* its claimant, while the default pool's holds are being ended */

void __real_tn_holds_end_passing(tarn_pool *pool);
void __wrap_tn_holds_end_passing(tarn_pool *pool);
void __wrap_tn_holds_end_passing(tarn_pool *pool)
{
    struct tn_hold *hold = goes_meanwhile;

    goes_meanwhile = NULL;
    if (hold != NULL)
        tn_hold_gone(hold);
    __real_tn_holds_end_passing(pool);
}

/* No folder has room for a file. */
int __wrap_posix_fallocate(int fd, off_t offset, off_t bytes);
int __wrap_posix_fallocate(int fd, off_t offset, off_t bytes)
{
    (void)fd;
    (void)offset;
    (void)bytes;
    return ENOSPC;
}

static tarn_status open_device(uint64_t region_bytes, uint64_t limit_bytes, tarn_device **device)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;

    options.region_bytes = region_bytes;
    options.limit_bytes = limit_bytes;
    return tn_device_open(0, &options, true, tn_pool_check_own, device);
}

GROUP(open, NULL)

TEST(open, a_history_without_a_file_is_noted_once)
{
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    FILE *log = tmpfile();
    tarn_device *device;
    char text[256] = "";

    ck_assert_ptr_nonnull(log);
    ck_assert_int_eq(setenv("TARN_LOG", "1", 1), 0);
    ck_assert_int_ge(dup2(fileno(log), STDERR_FILENO), 0);
    options.history_bytes = 64 << 10;
    options.region_bytes = 4 * TN_GIB; /* more may be refused, and said so */
    test_start();
    for (int i = 0; i < 2; i++) {
        OK(tarn_device_open(0, &options, &device));
        ck_assert_int_eq(device->history.file.error, ENOSPC);
        ck_assert_str_eq(device->history.file.path, "");
        OK(tarn_device_close(device));
    }
    rewind(log);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, log), 0);
    ck_assert_str_eq(text, "tarn: note: a history ends with the process, since it has no file: No "
                           "space left on device\n");
    ck_assert_int_eq(fclose(log), 0);
}

TEST(open, a_device_keeps_a_history_unless_it_is_told_not_to)
{
    static const size_t bytes[] = {0, 64 << 10, TARN_NO_HISTORY};
    tarn_device_options options = TARN_DEVICE_OPTIONS_INIT;
    tarn_device *device;

    test_start();
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        const struct tn_history *history;

        options.history_bytes = bytes[i];
        OK(tarn_device_open(0, &options, &device));
        history = &device->history;
        ck_assert_int_eq(history->file.head != NULL, bytes[i] != TARN_NO_HISTORY);
        ck_assert_int_eq(history->replays, i == 1);
        ck_assert_uint_eq(history->ring.page_count * TN_RING_PAGE_BYTES, i == 0   ? 16 << 20
                                                                         : i == 1 ? 64 << 10
                                                                                  : 0);
        ck_assert_uint_eq(history->ring.reserved * TN_RING_PAGE_BYTES, i == 0   ? 512 << 10
                                                                       : i == 1 ? 64 << 10
                                                                                : 0);
        ck_assert_uint_eq(history->file.spare_bytes, i == 0 ? 32 << 20 : 0);
        OK(tarn_device_close(device));
    }
}

TEST(open, a_device_is_opened_once_and_counted)
{
    tarn_device *first;
    tarn_device *second;
    tarn_sim_ledger before;

    test_start();
    before = test_ledger();
    OK(open_device(4 * TN_GIB, 0, &first));
    OK(open_device(8 * TN_GIB, 5, &second)); /* the first open's options count */
    ck_assert_ptr_eq(first, second);
    ck_assert_uint_eq(first->user_count, 2);
    ck_assert_uint_eq(first->regions.region_bytes, 4 * TN_GIB);
    ck_assert_uint_eq(atomic_load(&first->budget.limit_bytes), 0);
    ck_assert_uint_eq(first->magic, TN_DEVICE_MAGIC);
    OK(tn_device_close(first));
    ck_assert_uint_eq(first->magic, TN_DEVICE_MAGIC);
    OK(tn_device_close(first));
    ck_assert_uint_eq(first->magic, 0);
    test_same_ledger(&before);
    ck_assert(tn_lock_none_held());
}

TEST(open, a_closed_device_opens_again_as_new)
{
    tarn_device *device = unit_device();
    tn_cu_stream stream = test_stream();
    void *address;

    OK(tarn_malloc(device, 4096, stream, &address));
    OK(tarn_free(address));
    OK(tn_device_close(device));
    OK(open_device(4 * TN_GIB, 7 * TN_GIB, &device));
    ck_assert_uint_eq(atomic_load(&device->budget.limit_bytes), 7 * TN_GIB);
    ck_assert_uint_eq(tn_device_mapped_bytes(device, false), 0);
    ck_assert_uint_eq(atomic_load(&device->gpu.calls[TN_CALL_WAIT]), 0);
    OK(tarn_malloc(device, 4096, stream, &address));
    OK(tarn_free(address));
    OK(tn_device_close(device));
}

TEST(open, an_open_that_fails_leaves_nothing)
{
    tarn_device *device = NULL;
    tarn_sim_ledger before;
    uint64_t failed = 1;
    int64_t host;

    OK(tn_device_close(unit_device())); /* slabs of records stay from here on */
    before = test_ledger();
    host = tn_host_outstanding();
    for (uint64_t nth = 1; failed > 0; nth++) {
        const char *last = NULL;
        tarn_status status;

        sim.plan_fault(NULL, nth, 0, TN_CUDA_ERROR_UNKNOWN);
        status = open_device(4 * TN_GIB, 0, &device);
        failed = sim.clear_fault(&last);
        if (failed == 0) {
            OK(status);
        } else if (status == TARN_OK) { /* a hint given up is no failure, but poisons */
            if (strncmp(last, "cuLibrary", 9) == 0 || strncmp(last, "cuKernel", 8) == 0)
                OK(tn_kernels_load(&device->gpu, NULL)); /* code is asked for again */
            else if (strcmp(last, "cuCtxGetCurrent") != 0)
                STATUS(TARN_ERR_POISONED, tn_gpu_check(&device->gpu));
            OK(tn_device_close(device));
            device = NULL;
            before = test_ledger();
        } else {
            ck_assert_ptr_null(device);
            ck_assert_int_eq(tn_host_outstanding(), host);
            test_same_ledger(&before);
        }
    }
    OK(tn_device_close(device));
}

TEST(open, an_open_without_host_memory_leaves_nothing)
{
    tarn_device *device = NULL;
    tarn_sim_ledger before;
    uint64_t failed = 1;
    int met = 0;

    test_start();
    before = test_ledger();
    for (uint64_t nth = 1; failed > 0; nth++) {
        tarn_status status;

        (void)tn_host_plan_fault(nth, false);
        status = open_device(4 * TN_GIB, 0, &device);
        failed = tn_host_plan_fault(0, false);
        met += failed > 0;
        if (failed > 0) {
            ck_assert_int_eq(status, TARN_ERR_HOST_MEMORY);
            test_same_ledger(&before);
        } else {
            OK(status);
        }
    }
    ck_assert_int_ge(met, 3);
    OK(tn_device_close(device));
}

TEST(open, a_granularity_that_does_not_divide_the_page_is_not_supported)
{
    tarn_device *device = NULL;

    test_start();
    sim.plan_fault("cuMemGetAllocationGranularity", 1, 0, TN_CUDA_SUCCESS); /* answers 0 */
    STATUS(TARN_ERR_NOT_SUPPORTED, open_device(4 * TN_GIB, 0, &device));
    ck_assert_ptr_null(device);
}

TEST(open, a_device_without_vmm_is_not_supported)
{
    tarn_device *device = NULL;

    test_start();
    sim.plan_fault("cuDeviceGetAttribute", 1, 0, TN_CUDA_SUCCESS); /* answers 0 */
    STATUS(TARN_ERR_NOT_SUPPORTED, open_device(4 * TN_GIB, 0, &device));
}

GROUP(close, NULL)

TEST(close, the_last_close_waits_for_every_claim)
{
    tarn_device *device = unit_device();
    tn_cu_stream stream = test_stream();
    tarn_pool *pool = unit_pool(device);
    void *address;

    STATUS(TARN_ERR_BUSY, tn_device_close(device));
    unit_expect_sentence("1 private pool");
    OK(tarn_pool_destroy(pool));
    OK(tarn_malloc(device, 4096, stream, &address));
    STATUS(TARN_ERR_BUSY, tn_device_close(device));
    unit_expect_sentence("1 live block");
    ck_assert_uint_eq(device->user_count, 1);
    ck_assert_uint_eq(device->magic, TN_DEVICE_MAGIC);
    OK(tarn_free(address));
    OK(tn_device_close(device));
}

static void *close_it(void *device)
{
    OK(tn_device_close(device));
    return NULL;
}

/* There is one device of an ordinal, also while its close may fail yet. */
TEST(close, a_device_that_is_opened_while_its_close_waits_stays)
{
    tarn_device *device = unit_device();
    tarn_device *again;
    tn_cu_stream stream = test_stream();
    pthread_t thread;
    void *address;

    OK(tarn_malloc(device, 4096, stream, &address));
    sim.hold_work();
    test_set_words(stream, address, 1, 1);
    OK(tarn_free(address));
    ck_assert_int_eq(pthread_create(&thread, NULL, close_it, device), 0);
    while (atomic_load(&device->gpu.calls[TN_CALL_WAIT]) == 0)
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
    OK(open_device(4 * TN_GIB, 0, &again));
    ck_assert_ptr_eq(again, device);
    sim.resume_work();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(device->magic, TN_DEVICE_MAGIC);
    ck_assert_uint_eq(device->user_count, 1);
    OK(tn_device_close(device));
}

TEST(close, a_close_that_cannot_wait_for_the_device_leaves_it_open)
{
    tarn_device *device = unit_device();
    tarn_device *again;
    void *address;

    OK(tarn_malloc(device, 4096, test_stream(), &address));
    OK(tarn_free(address)); /* not proven idle */
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_device_close(device));
    ck_assert_uint_eq(device->magic, TN_DEVICE_MAGIC);
    OK(open_device(4 * TN_GIB, 0, &again));
    ck_assert_ptr_eq(again, device);
    OK(tn_device_close(device));
    OK(tn_device_close(device));
}

TEST(close, a_close_that_cannot_end_a_released_pool_says_why)
{
    tarn_device *device = unit_device();
    tarn_pool *pool = unit_pool(device);

    OK(tarn_free(unit_alloc(pool, 4096, test_stream()))); /* not proven idle */
    OK(tarn_pool_release(pool));
    ck_assert_ptr_eq(device->pools, pool);
    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_device_close(device));
    unit_expect_sentence("waiting for the device");
    ck_assert_uint_eq(device->magic, TN_DEVICE_MAGIC);
    ck_assert_ptr_eq(device->pools, pool);
    ck_assert_uint_ne(pool->ending, TN_ENDING_NOW);
    OK(tn_device_close(device));
}

TEST(close, a_claimant_of_the_default_pool_may_go_during_the_close)
{
    tarn_device *device = unit_device();
    tarn_pool *pool = device->default_pool;

    tn_pool_lock(pool);
    OK(tn_hold_open(pool, (struct tn_order){17, 4}, false, &goes_meanwhile));
    tn_pool_unlock(pool);
    OK(tn_device_close(device)); /* after the hold was reaped */
    ck_assert_ptr_null(goes_meanwhile);
    ck_assert_uint_eq(device->magic, 0);
}

TEST(close, a_close_leaves_the_other_devices_open)
{
    tarn_device *devices[3];

    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "3", 1), 0);
    test_start();
    for (int i = 0; i < 3; i++)
        OK(tarn_device_open(i, NULL, &devices[i]));
    OK(tn_device_close(devices[0]));
    for (int i = 1; i < 3; i++) {
        tarn_device *again;

        OK(tarn_device_open(i, NULL, &again));
        ck_assert_ptr_eq(again, devices[i]);
        OK(tn_device_close(again));
    }
    OK(tn_device_close(devices[1]));
    OK(tn_device_close(devices[2]));
    ck_assert_uint_eq(test_ledger().primary_retains, 1); /* the test's own */
}
