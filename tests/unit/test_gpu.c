// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver/idle.h"
#include "driver/mapping.h"
#include "driver/open.h"
#include "support/world.h"
#include "unit/unit.h"

static struct tn_gpu gpu;
static tarn_sim_ledger before_open;

static void open_gpu(void)
{
    test_start();
    before_open = test_ledger();
    unit_gpu(&gpu);
}

GROUP(open, open_gpu)

TEST(open, an_open_device_is_known_and_gives_all_back_on_close)
{
    ck_assert_int_eq(gpu.ordinal, 0);
    ck_assert_uint_gt(gpu.total_bytes, 0);
    ck_assert_str_ne(gpu.name, "");
    OK(tn_gpu_check(&gpu));
    ck_assert(!tn_gpu_is_lost(&gpu));
    ck_assert_uint_eq(test_ledger().linear_allocations, before_open.linear_allocations + 2);
    tn_gpu_close(&gpu);
    test_same_ledger(&before_open);
}

/* Whichever device calls a function of the program's, and whenever another one is opened or closed. */
TEST(open, no_open_gpu_is_calm_while_the_programs_code_runs)
{
    struct tn_gpu other = {0};

    ck_assert(tn_gpu_is_calm(&gpu));
    tn_gpus_enter_user_code();
    tn_gpus_enter_user_code();
    ck_assert(!tn_gpu_is_calm(&gpu));
    OK(tn_gpu_open(&other, gpu.driver, 0));
    ck_assert(!tn_gpu_is_calm(&other));
    tn_gpus_leave_user_code();
    ck_assert(!tn_gpu_is_calm(&gpu) && !tn_gpu_is_calm(&other));
    tn_gpus_leave_user_code();
    ck_assert(tn_gpu_is_calm(&gpu) && tn_gpu_is_calm(&other));
    tn_gpus_enter_user_code();
    tn_gpu_close(&other);
    tn_gpus_leave_user_code();
    ck_assert(tn_gpu_is_calm(&gpu));
    ck_assert_uint_eq(atomic_load(&other.attention), 0);
}

TEST(open, an_ordinal_that_the_driver_lacks_is_refused)
{
    struct tn_gpu other = {0};

    STATUS(TARN_ERR_NO_DEVICE, tn_gpu_open(&other, gpu.driver, 1));
    unit_expect_sentence("device 1");
    STATUS(TARN_ERR_NO_DEVICE, tn_gpu_open(&other, gpu.driver, -1));
}

TEST(open, an_open_that_fails_leaves_nothing)
{
    static const char *const calls[] = {
        "cuDeviceGetCount", "cuDeviceGet",          "cuDeviceGetName",
        "cuDeviceTotalMem", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
        "cuMemAlloc",       "cuCtxGetCurrent",
    };
    tarn_sim_ledger before = test_ledger();

    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct tn_gpu other = {0};

        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tn_gpu_open(&other, gpu.driver, 0));
        ck_assert_uint_eq(sim.clear_fault(NULL), 1);
        test_same_ledger(&before);
    }
    sim.plan_fault("cuMemAlloc", 2, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_gpu_open(&(struct tn_gpu){0}, gpu.driver, 0));
    test_same_ledger(&before);
}

GROUP(faults, open_gpu)

TEST(faults, out_of_memory_is_a_status_of_its_own)
{
    STATUS(TARN_ERR_DEVICE_MEMORY,
           tn_gpu_failed(&gpu, TN_CUDA_ERROR_OUT_OF_MEMORY, "asking", "a call"));
    ck_assert_str_eq(tarn_last_error(), "asking: a call answered CUDA_ERROR_OUT_OF_MEMORY");
    STATUS(TARN_ERR_DRIVER, tn_gpu_failed(&gpu, TN_CUDA_ERROR_INVALID_VALUE, "asking", "a call"));
    STATUS(TARN_ERR_DRIVER, tn_gpu_failed(&gpu, TN_CUDA_ERROR_NOT_PERMITTED, "asking", "a call"));
    unit_expect_sentence("host functions");
    OK(tn_gpu_check(&gpu));
}

TEST(faults, the_first_fault_stays)
{
    STATUS(TARN_ERR_DEVICE_LOST,
           tn_gpu_failed(&gpu, TN_CUDA_ERROR_ILLEGAL_ADDRESS, "asking", "a call"));
    ck_assert(tn_gpu_is_lost(&gpu) && !tn_gpu_is_usable(&gpu));
    STATUS(TARN_ERR_DEVICE_LOST,
           tn_gpu_failed(&gpu, TN_CUDA_ERROR_LAUNCH_FAILED, "asking", "a call"));
    STATUS(TARN_ERR_DEVICE_LOST, tn_gpu_check(&gpu));
    unit_expect_sentence("CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST(faults, a_child_of_fork_can_use_none_that_was_open)
{
    struct tn_gpu others[2] = {{.ordinal = 0}, {.ordinal = 0}};
    int result = 0;
    pid_t child;

    for (int i = 0; i < 2; i++)
        OK(tn_gpu_open(&others[i], gpu.driver, 0));
    tn_gpu_close(&others[0]); /* neither the first nor the last that was opened */
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(!tn_gpu_is_usable(&gpu) && !tn_gpu_is_usable(&others[1]) &&
                      tn_gpu_check(&gpu) == TARN_ERR_FORKED
                  ? 0
                  : 1);
    ck_assert_int_eq(waitpid(child, &result, 0), child);
    ck_assert_int_eq(result, 0);
    ck_assert(tn_gpu_is_usable(&gpu) && tn_gpu_is_usable(&others[1]));
    tn_gpu_close(&others[1]);
}

TEST(faults, a_refused_teardown_poisons_with_its_first_cause)
{
    tn_gpu_teardown(&gpu, TN_CUDA_SUCCESS, "cuMemUnmap");
    OK(tn_gpu_check(&gpu));
    ck_assert(tn_gpu_is_usable(&gpu));
    tn_gpu_teardown(&gpu, TN_CUDA_ERROR_INVALID_VALUE, "cuMemUnmap");
    ck_assert(!tn_gpu_is_usable(&gpu));
    tn_gpu_teardown(&gpu, TN_CUDA_ERROR_UNKNOWN, "cuMemRelease");
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu));
    unit_expect_sentence("cuMemUnmap with CUDA_ERROR_INVALID_VALUE");
    ck_assert(!tn_gpu_is_lost(&gpu));
}

TEST(faults, a_driver_that_is_gone_loses_the_device)
{
    tn_gpu_teardown(&gpu, TN_CUDA_ERROR_DEINITIALIZED, "cuMemUnmap");
    ck_assert(tn_gpu_is_lost(&gpu));
    STATUS(TARN_ERR_DEVICE_LOST, tn_gpu_check(&gpu));
    unit_expect_sentence("CUDA_ERROR_DEINITIALIZED");
}

TEST(faults, a_teardown_that_meets_a_fault_loses_the_device)
{
    tn_gpu_teardown(&gpu, TN_CUDA_ERROR_LAUNCH_FAILED, "cuMemUnmap");
    ck_assert(tn_gpu_is_lost(&gpu));
    tn_gpu_teardown(&gpu, TN_CUDA_ERROR_INVALID_VALUE, "cuMemUnmap"); /* does not count now */
    STATUS(TARN_ERR_DEVICE_LOST, tn_gpu_check(&gpu));
    ck_assert_int_eq(atomic_load(&gpu.poison_result), 0);
}

/* D1: the thread's context and capture mode are as before, here none and an unusual one. */
static const struct tn_memory_properties plain = {.exportable = false};

static void call_everything(void)
{
    static const uint64_t bytes = 32 * TN_MIB;
    size_t free_bytes;
    size_t total_bytes;
    uint64_t granularity;
    uint64_t address = 0;
    tn_cu_memhandle handle;
    bool pushed;

    OK(tn_gpu_granularity(&gpu, &granularity));
    OK(tn_gpu_reserve_addresses(&gpu, bytes, bytes, 0, &address));
    OK(tn_gpu_create_memory(&gpu, 2 * TN_MIB, plain, &handle));
    OK(tn_gpu_map(&gpu, address, 2 * TN_MIB, handle, 0, false));
    tn_gpu_unmap(&gpu, address, 2 * TN_MIB);
    tn_gpu_release_memory(&gpu, handle);
    tn_gpu_free_addresses(&gpu, address, bytes);
    tn_gpu_memory_info(&gpu, &free_bytes, &total_bytes);
    ck_assert_uint_eq(total_bytes, gpu.total_bytes);
    OK(tn_gpu_wait_idle(&gpu));
    OK(tn_gpu_enter(&gpu, gpu.context, &pushed));
    tn_gpu_leave(&gpu, pushed);
}

static void call_everything_without_a_context(void *argument)
{
    (void)argument;
    ck_assert_ptr_null(test_context());
    ck_assert_int_eq(tn_gpu_relax(&gpu), TN_CU_CAPTURE_MODE_GLOBAL);
    tn_gpu_unrelax(&gpu, TN_CU_CAPTURE_MODE_THREAD_LOCAL);
    call_everything();
    ck_assert_ptr_null(test_context());
    ck_assert_uint_eq(test_ledger().context_stack_entries, 0);
    ck_assert_int_eq(tn_gpu_relax(&gpu), TN_CU_CAPTURE_MODE_THREAD_LOCAL);
}

GROUP(manners, open_gpu)

TEST(manners, no_call_changes_the_context_or_the_capture_mode)
{
    tn_cu_context context = test_context();

    test_elsewhere(call_everything_without_a_context, NULL);
    call_everything();
    ck_assert_ptr_eq(test_context(), context);
}

/* D1: a context that cannot be taken off again is no secret. */
TEST(manners, a_refused_pop_poisons)
{
    bool pushed;

    test_set_context(NULL);
    OK(tn_gpu_enter(&gpu, gpu.context, &pushed));
    ck_assert(pushed);
    sim.plan_fault("cuCtxPopCurrent", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    tn_gpu_leave(&gpu, pushed);
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu));
}

TEST(manners, entering_the_current_context_pushes_nothing)
{
    bool pushed = true;

    test_set_context(gpu.context);
    OK(tn_gpu_enter(&gpu, gpu.context, &pushed));
    ck_assert(!pushed);
    sim.plan_fault("cuCtxGetCurrent", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_gpu_enter(&gpu, gpu.context, &pushed));
    ck_assert(!pushed);
}

TEST(manners, a_refused_change_of_mode_is_not_undone)
{
    uint64_t calls;
    int before;

    sim.plan_fault("cuThreadExchangeStreamCaptureMode", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    before = tn_gpu_relax(&gpu);
    ck_assert_int_eq(before, -1);
    calls = sim.call_count("cuThreadExchangeStreamCaptureMode");
    tn_gpu_unrelax(&gpu, before);
    ck_assert_uint_eq(sim.call_count("cuThreadExchangeStreamCaptureMode"), calls);
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu));
}

/* D2: a capture in the strictest mode, begun by this thread, survives every call here, on this
 * thread and on another. */
static void call_everything_elsewhere(void *argument)
{
    (void)argument;
    call_everything();
}

TEST(manners, no_call_disturbs_a_capture)
{
    tn_cu_stream stream = test_stream();

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    call_everything();
    test_elsewhere(call_everything_elsewhere, NULL);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(stream));
}

/* D2: a call that would break captures is not made when the mode cannot be relaxed. */
TEST(manners, without_the_relaxed_mode_nothing_is_called_that_breaks_captures)
{
    tn_cu_stream stream = test_stream();
    tn_cu_stream side = test_stream();
    tn_cu_event event = NULL;

    OK(tn_event_create(&gpu, side, &event));
    ck_assert(tn_event_record(&gpu, event, side));
    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    sim.plan_fault("cuThreadExchangeStreamCaptureMode", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_gpu_wait_idle(&gpu));
    unit_expect_sentence("CUDA_ERROR_UNKNOWN");
    ck_assert_int_eq(tn_event_query(&gpu, event), TN_EVENT_UNKNOWN);
    (void)sim.clear_fault(NULL);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_ACTIVE);
    test_destroy_graph(test_end_capture(stream));
    OK(tn_gpu_wait_idle(&gpu));
    tn_event_destroy(&gpu, event);
}

GROUP(memory, open_gpu)

TEST(memory, refused_addresses_are_a_status_of_their_own)
{
    uint64_t address = 7;

    sim.plan_fault("cuMemAddressReserve", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_ADDRESS_SPACE,
           tn_gpu_reserve_addresses(&gpu, 32 * TN_MIB, 32 * TN_MIB, 0, &address));
    unit_expect_sentence("32 MiB");
    sim.plan_fault("cuMemAddressReserve", 1, 0, TN_CUDA_ERROR_INVALID_VALUE);
    STATUS(TARN_ERR_DRIVER, tn_gpu_reserve_addresses(&gpu, 32 * TN_MIB, 32 * TN_MIB, 0, &address));
    ck_assert_uint_eq(address, 7);
    sim.plan_fault("cuMemAddressFree", 1, 0, TN_CUDA_ERROR_INVALID_VALUE);
    tn_gpu_free_addresses(&gpu, 0, 32 * TN_MIB);
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu));
}

TEST(memory, memory_that_cannot_be_made_leaves_nothing)
{
    tn_cu_memhandle handle = 7;
    tarn_sim_ledger before = test_ledger();

    sim.plan_fault("cuMemCreate", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_gpu_create_memory(&gpu, 4 * TN_MIB, plain, &handle));
    unit_expect_sentence("cuMemCreate");
    ck_assert_uint_eq(handle, 7);
    test_same_ledger(&before);
}

TEST(memory, a_map_that_fails_leaves_nothing)
{
    static const char *const calls[] = {"cuMemMap", "cuMemSetAccess"};
    tn_cu_memhandle handle;
    tarn_sim_ledger before;
    uint64_t address;

    OK(tn_gpu_reserve_addresses(&gpu, 32 * TN_MIB, 32 * TN_MIB, 0, &address));
    OK(tn_gpu_create_memory(&gpu, 4 * TN_MIB, plain, &handle));
    before = test_ledger();
    for (size_t i = 0; i < 2; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
        STATUS(TARN_ERR_DEVICE_MEMORY, tn_gpu_map(&gpu, address, 4 * TN_MIB, handle, 0, false));
        unit_expect_sentence(calls[i]);
        test_same_ledger(&before);
    }
    OK(tn_gpu_map(&gpu, address, 4 * TN_MIB, handle, 0, false));
    ck_assert_uint_eq(test_ledger().mapped_bytes, before.mapped_bytes + 4 * TN_MIB);
    tn_gpu_unmap(&gpu, address, 4 * TN_MIB);
    test_same_ledger(&before);
    tn_gpu_release_memory(&gpu, handle);
    OK(tn_gpu_check(&gpu));
}

static void configure_three_devices(void)
{
    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "3", 1), 0);
    open_gpu();
}

GROUP(peers, configure_three_devices)

TEST(peers, peers_are_bits_of_a_mask)
{
    uint64_t mask = 7;

    OK(tn_gpu_peer_mask(&gpu, 1, &mask));
    ck_assert_uint_eq(mask, 2);
    OK(tn_gpu_peer_mask(&gpu, 2, &mask));
    ck_assert_uint_eq(mask, 4);
    OK(tn_gpu_peer_mask(&gpu, 0, &mask)); /* itself */
    ck_assert_uint_eq(mask, 0);
    mask = 7;
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_gpu_peer_mask(&gpu, 3, &mask));
    STATUS(TARN_ERR_INVALID_ARGUMENT, tn_gpu_peer_mask(&gpu, -1, &mask));
    ck_assert_uint_eq(mask, 7);
}

TEST(peers, a_question_for_a_peer_that_is_not_answered_is_an_error)
{
    static const char *const calls[] = {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceCanAccessPeer"};
    uint64_t mask = 7;

    for (size_t i = 0; i < 3; i++) {
        sim.plan_fault(calls[i], 1, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tn_gpu_peer_mask(&gpu, 1, &mask));
        unit_expect_sentence(calls[i]);
    }
    sim.plan_fault("cuDeviceCanAccessPeer", 1, 0, TN_CUDA_SUCCESS); /* no */
    STATUS(TARN_ERR_NOT_SUPPORTED, tn_gpu_peer_mask(&gpu, 1, &mask));
    ck_assert_uint_eq(mask, 7);
}

TEST(peers, access_is_given_added_and_removed)
{
    tn_cu_memhandle handle;
    uint64_t address;
    const void *memory;

    OK(tn_gpu_reserve_addresses(&gpu, 32 * TN_MIB, 32 * TN_MIB, 0, &address));
    memory = (const void *)(uintptr_t)address;
    OK(tn_gpu_create_memory(&gpu, 2 * TN_MIB, plain, &handle));
    OK(tn_gpu_map(&gpu, address, 2 * TN_MIB, handle, 4, false));
    ck_assert_uint_eq(test_access(0, memory), TN_CU_MEM_ACCESS_READWRITE);
    ck_assert_uint_eq(test_access(1, memory), TN_CU_MEM_ACCESS_NONE);
    ck_assert_uint_eq(test_access(2, memory), TN_CU_MEM_ACCESS_READWRITE);
    OK(tn_gpu_add_access(&gpu, address, 2 * TN_MIB, 1));
    tn_gpu_remove_access(&gpu, address, 2 * TN_MIB, 2);
    ck_assert_uint_eq(test_access(0, memory), TN_CU_MEM_ACCESS_READWRITE);
    ck_assert_uint_eq(test_access(1, memory), TN_CU_MEM_ACCESS_READWRITE);
    ck_assert_uint_eq(test_access(2, memory), TN_CU_MEM_ACCESS_NONE);
    sim.plan_fault("cuMemSetAccess", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_gpu_add_access(&gpu, address, 2 * TN_MIB, 2));
    ck_assert_uint_eq(test_access(2, memory), TN_CU_MEM_ACCESS_NONE);
    tn_gpu_unmap(&gpu, address, 2 * TN_MIB);
    tn_gpu_release_memory(&gpu, handle);
    OK(tn_gpu_check(&gpu));
    sim.plan_fault("cuMemSetAccess", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    tn_gpu_remove_access(&gpu, address, 2 * TN_MIB, 1);
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu)); /* somebody has access who should not */
}

TEST(peers, properties_are_asked_of_the_device)
{
    const struct tn_memory_properties all = {.exportable = true, .rdma = true};
    uint64_t asked = sim.call_count("cuDeviceGetAttribute");

    OK(tn_gpu_check_properties(&gpu, plain));
    ck_assert_uint_eq(sim.call_count("cuDeviceGetAttribute"), asked);
    OK(tn_gpu_check_properties(&gpu, all));
    for (uint64_t nth = 1; nth <= 2; nth++) {
        sim.plan_fault("cuDeviceGetAttribute", nth, 0, TN_CUDA_SUCCESS); /* no */
        STATUS(TARN_ERR_NOT_SUPPORTED, tn_gpu_check_properties(&gpu, all));
        sim.plan_fault("cuDeviceGetAttribute", nth, 0, TN_CUDA_ERROR_UNKNOWN);
        STATUS(TARN_ERR_DRIVER, tn_gpu_check_properties(&gpu, all));
    }
}

TEST(memory, an_unanswered_question_for_memory_is_nothing_free)
{
    size_t free_bytes = 7;
    size_t total_bytes = 7;

    sim.plan_fault("cuMemGetInfo", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    tn_gpu_memory_info(&gpu, &free_bytes, &total_bytes);
    ck_assert_uint_eq(free_bytes, 0);
    ck_assert_uint_eq(total_bytes, 0);
    tn_gpu_memory_info(&gpu, &free_bytes, &total_bytes);
    ck_assert_uint_gt(free_bytes, 0);
}

GROUP(wait, open_gpu)

/* D3 */
TEST(wait, a_wait_proves_what_was_freed_before_it)
{
    uint64_t stamp = tn_gpu_epoch(&gpu);

    ck_assert(tn_gpu_is_proven(&gpu, 0)); /* never used */
    ck_assert(!tn_gpu_is_proven(&gpu, stamp));
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert(tn_gpu_is_proven(&gpu, stamp));
    ck_assert(!tn_gpu_is_proven(&gpu, tn_gpu_epoch(&gpu)));
    ck_assert_uint_le(atomic_load(&gpu.proven), tn_gpu_epoch(&gpu));
    ck_assert_uint_eq(atomic_load(&gpu.calls[TN_CALL_WAIT]), 1);
}

static void wait_idle(void *argument)
{
    (void)argument;
    OK(tn_gpu_wait_idle(&gpu));
}

static void *wait_idle_thread(void *argument)
{
    wait_idle(argument);
    return NULL;
}

/* D3: broken, memory freed while the wait goes on would be taken for idle. */
TEST(wait, a_wait_does_not_prove_what_was_freed_after_it_began)
{
    tn_cu_stream stream = test_stream();
    void *memory = test_linear_alloc(4096);
    uint64_t before = tn_gpu_epoch(&gpu);
    uint64_t during;
    pthread_t thread;

    sim.hold_work();
    test_fill(stream, memory, 1, 16);
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_idle_thread, NULL), 0);
    while (tn_gpu_epoch(&gpu) == before)
        (void)nanosleep(&(struct timespec){0, 100000}, NULL);
    during = tn_gpu_epoch(&gpu);
    ck_assert(!tn_gpu_is_proven(&gpu, before)); /* work is still to run */
    ck_assert_uint_le(atomic_load(&gpu.proven), during);
    sim.resume_work();
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(tn_gpu_is_proven(&gpu, before));
    ck_assert(!tn_gpu_is_proven(&gpu, during));
    ck_assert_uint_le(atomic_load(&gpu.proven), tn_gpu_epoch(&gpu));
    wait_idle(NULL);
    ck_assert(tn_gpu_is_proven(&gpu, during));
}

TEST(wait, a_wait_that_fails_proves_nothing_and_can_be_repeated)
{
    uint64_t stamp = tn_gpu_epoch(&gpu);
    tarn_sim_ledger before = test_ledger();

    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_gpu_wait_idle(&gpu));
    ck_assert(!tn_gpu_is_proven(&gpu, stamp));
    test_same_ledger(&before);
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert(tn_gpu_is_proven(&gpu, stamp));
    test_same_ledger(&before);
}

TEST(wait, a_wait_without_memory_for_the_next_one_succeeds)
{
    tarn_sim_ledger before = test_ledger();

    sim.plan_fault("cuMemAlloc", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert_uint_eq(gpu.token, 0);
    sim.plan_fault("cuMemAlloc", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_gpu_wait_idle(&gpu));
    OK(tn_gpu_wait_idle(&gpu));
    test_same_ledger(&before);
}

/* The driver's block that the token lies in stays, so nobody can take its place on a full device. */
TEST(wait, a_wait_on_a_full_device_keeps_its_token)
{
    size_t free_bytes;
    size_t total_bytes;
    tn_cu_memhandle most;
    tn_cu_memhandle more;

    tn_gpu_memory_info(&gpu, &free_bytes, &total_bytes);
    OK(tn_gpu_create_memory(&gpu, free_bytes, plain, &most));
    sim.plan_fault("cuMemAlloc", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert_uint_eq(gpu.token, 0);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_gpu_create_memory(&gpu, 2 * MIB, plain, &more));
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert_uint_ne(gpu.token, 0);
    tn_gpu_release_memory(&gpu, most);
}

TEST(wait, all_is_idle_on_a_lost_device)
{
    uint64_t stamp = tn_gpu_epoch(&gpu);

    sim.plan_fault("cuMemFree", 1, 0, TN_CUDA_ERROR_LAUNCH_FAILED);
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert(tn_gpu_is_lost(&gpu));
    ck_assert(tn_gpu_is_proven(&gpu, stamp));
    ck_assert(tn_gpu_is_proven(&gpu, tn_gpu_epoch(&gpu)));
    ck_assert_uint_le(atomic_load(&gpu.proven), tn_gpu_epoch(&gpu));
}

CONTRACT_TEST(wait, waiting_with_a_lock_is_a_broken_contract)
{
    struct tn_lock lock = TN_LOCK_INIT(TN_RANK_POOL);

    tn_lock_acquire(&lock);
    OK(tn_gpu_wait_idle(&gpu));
}
