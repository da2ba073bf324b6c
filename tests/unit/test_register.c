// SPDX-License-Identifier: Apache-2.0
#include "driver/register.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "support/liar.h"
#include "unit/unit.h"

static struct tn_gpu gpu;
static char *memory;
static tarn_sim_ledger before;

static rlim_t locked_limit = RLIM_INFINITY;

int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit);
int __wrap_getrlimit(__rlimit_resource_t resource, struct rlimit *limit)
{
    ck_assert_int_eq(resource, RLIMIT_MEMLOCK);
    *limit = (struct rlimit){locked_limit, RLIM_INFINITY};
    return 0;
}

static void open_gpu(void)
{
    unit_gpu(&gpu);
    memory = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    before = test_ledger();
}

static void close_gpu(void)
{
    ck_assert_uint_eq(test_ledger().host_registrations, before.host_registrations);
    ck_assert(tn_lock_none_held());
    tn_gpu_close(&gpu);
}

GROUP(registers, open_gpu, close_gpu, .name = "register")

TEST(registers, registered_memory_is_copied_from_and_to)
{
    tn_cu_stream stream = test_stream();
    void *linear = test_linear_alloc(MIB);

    OK(tn_gpu_register(&gpu, memory, 2 * MIB));
    ck_assert_uint_eq(test_ledger().registered_bytes, before.registered_bytes + 2 * MIB);
    memset(memory, 5, MIB);
    test_copy(stream, linear, memory, MIB);
    test_copy(stream, memory + MIB, linear, MIB);
    test_synchronize(stream);
    ck_assert_int_eq(memory[2 * MIB - 1], 5);
    ck_assert(tn_gpu_unregister(&gpu, memory));
    test_linear_free(linear);
}

TEST(registers, captures_of_any_thread_go_on)
{
    tn_cu_stream stream = test_stream();

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    OK(tn_gpu_register(&gpu, memory, MIB));
    ck_assert(tn_gpu_unregister(&gpu, memory));
    test_destroy_graph(test_end_capture(stream));
}

TEST(registers, the_thread_needs_no_context_and_keeps_its_own)
{
    tn_cu_context own = test_context();

    test_set_context(NULL);
    OK(tn_gpu_register(&gpu, memory, MIB));
    ck_assert_ptr_null(test_context());
    ck_assert(tn_gpu_unregister(&gpu, memory));
    test_set_context(own);
}

TEST(registers, a_device_tells_that_it_can_and_which_node_is_its_own)
{
    OK(tn_gpu_check_registers(&gpu));
    ck_assert_int_eq(tn_gpu_host_node(&gpu), 0);
}

TEST(registers, what_a_device_lacks_is_named)
{
    const struct tn_driver *honest = gpu.driver;
    struct tn_driver driver = test_lacking_attribute(honest, TN_CU_ATTR_HOST_REGISTER_SUPPORTED);

    gpu.driver = &driver;
    STATUS(TARN_ERR_NOT_SUPPORTED, tn_gpu_check_registers(&gpu));
    unit_expect_sentence("page-locking memory of the process");
    driver = test_lacking_attribute(honest, TN_CU_ATTR_HOST_POINTER_FOR_REGISTERED);
    STATUS(TARN_ERR_NOT_SUPPORTED, tn_gpu_check_registers(&gpu));
    unit_expect_sentence("registered memory at the process's own addresses");
    gpu.driver = honest;
}

TEST(registers, a_driver_that_names_no_node_leaves_the_choice)
{
    sim.plan_fault("cuDeviceGetAttribute", 1, 0, TN_CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(tn_gpu_host_node(&gpu), -1);
}

TEST(registers, a_refusal_for_want_of_memory_names_the_limit_of_locked_memory)
{
    sim.plan_fault("cuMemHostRegister", 1, 1, TN_CUDA_ERROR_OUT_OF_MEMORY);
    locked_limit = 8 * TN_MIB;
    STATUS(TARN_ERR_HOST_MEMORY, tn_gpu_register(&gpu, memory, 4 * MIB));
    unit_expect_sentence("4 MiB");
    unit_expect_sentence("(RLIMIT_MEMLOCK) is 8192 KiB");
    locked_limit = RLIM_INFINITY;
    STATUS(TARN_ERR_HOST_MEMORY, tn_gpu_register(&gpu, memory, 4 * MIB));
    ck_assert_ptr_null(strstr(tarn_last_error(), "RLIMIT"));
    (void)sim.clear_fault(NULL);
}

TEST(registers, any_other_refusal_is_the_drivers)
{
    sim.plan_fault("cuMemHostRegister", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_gpu_register(&gpu, memory, MIB));
    unit_expect_sentence("cuMemHostRegister");
    sim.plan_fault("cuCtxGetCurrent", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_gpu_register(&gpu, memory, MIB));
    (void)sim.clear_fault(NULL);
    OK(tn_gpu_check(&gpu));
}

TEST(registers, a_refused_end_poisons_the_device)
{
    OK(tn_gpu_register(&gpu, memory, MIB));
    sim.plan_fault("cuMemHostUnregister", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    ck_assert(!tn_gpu_unregister(&gpu, memory));
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu));
    ck_assert(tn_gpu_unregister(&gpu, memory));
}

CONTRACT_TEST(registers, no_lock_is_held_while_memory_is_registered)
{
    struct tn_lock lock = TN_LOCK_INIT(TN_RANK_POOL);

    tn_lock_acquire(&lock);
    OK(tn_gpu_register(&gpu, memory, MIB));
}

CONTRACT_TEST(registers, no_lock_is_held_while_a_registration_ends)
{
    struct tn_lock lock = TN_LOCK_INIT(TN_RANK_POOL);

    OK(tn_gpu_register(&gpu, memory, MIB));
    tn_lock_acquire(&lock);
    (void)tn_gpu_unregister(&gpu, memory);
}
