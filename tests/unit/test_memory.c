// SPDX-License-Identifier: Apache-2.0
#include "driver/mapping.h"
#include "driver/open.h"
#include "unit/unit.h"
#include "vmm/memory.h"

static const struct tn_memory_properties plain = {.exportable = false};
static const struct tn_memory_properties exportable = {.exportable = true};
static const struct tn_memory_properties rdma = {.rdma = true};

static struct tn_gpu gpu;
static tarn_sim_ledger before;
static int64_t host_before;

static void open_gpu(void)
{
    const struct tn_driver *driver;

    test_start();
    OK(tn_driver_load(&driver));
    OK(tn_gpu_open(&gpu, driver, 0));
    before = test_ledger();
    host_before = tn_host_outstanding();
}

static struct tn_memory *memory_of(uint64_t bytes, struct tn_memory_properties properties)
{
    struct tn_memory *memory;

    OK(tn_memory_create(&gpu, bytes, properties, &memory));
    ck_assert_uint_eq(memory->bytes, bytes);
    ck_assert_int_eq(memory->properties.exportable, properties.exportable);
    ck_assert_int_eq(memory->properties.rdma, properties.rdma);
    ck_assert(!tn_memory_is_mapped(memory));
    return memory;
}

GROUP(memory, open_gpu)

TEST(memory, memory_is_the_drivers_until_it_is_destroyed)
{
    struct tn_memory *small = memory_of(2 * TN_MIB, plain);
    struct tn_memory *large = memory_of(TN_MEMORY_BYTES_MAX, rdma);

    ck_assert_uint_eq(test_ledger().handles, before.handles + 2);
    ck_assert_uint_eq(test_ledger().handle_bytes,
                      before.handle_bytes + 2 * TN_MIB + TN_MEMORY_BYTES_MAX);
    tn_memory_destroy(&gpu, small);
    tn_memory_destroy(&gpu, large);
    ck_assert_uint_eq(small->magic, 0); /* a stale pointer still shows a record */
    ck_assert_int_eq(tn_host_outstanding(), host_before);
    test_same_ledger(&before);
}

/* Another process may have exported memory mapped; imported memory is another's. */
TEST(memory, only_memory_that_is_the_processs_alone_is_reusable)
{
    struct tn_memory *made = memory_of(2 * TN_MIB, plain);
    struct tn_memory *exported = memory_of(2 * TN_MIB, exportable);
    struct tn_memory *imported;

    OK(tn_memory_import(test_import_handle(exported->handle), 2 * TN_MIB, plain, &imported));
    ck_assert_int_eq(imported->origin, TN_MEMORY_IMPORTED);
    ck_assert(tn_memory_is_reusable(made));
    ck_assert(!tn_memory_is_reusable(exported));
    ck_assert(!tn_memory_is_reusable(imported));
    tn_memory_destroy(&gpu, imported);
    tn_memory_destroy(&gpu, exported);
    tn_memory_destroy(&gpu, made);
    test_same_ledger(&before);
}

TEST(memory, an_import_without_host_memory_leaves_the_handle_to_its_owner)
{
    struct tn_memory *memory = NULL;

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_memory_import(7, 2 * TN_MIB, plain, &memory));
    ck_assert_uint_eq(tn_host_plan_fault(0, false), 1);
    ck_assert_ptr_null(memory);
    test_same_ledger(&before);
}

TEST(memory, memory_that_cannot_be_made_leaves_nothing)
{
    struct tn_memory *memory = NULL;

    (void)tn_host_plan_fault(1, false);
    STATUS(TARN_ERR_HOST_MEMORY, tn_memory_create(&gpu, 2 * TN_MIB, plain, &memory));
    (void)tn_host_plan_fault(0, false);
    sim.plan_fault("cuMemCreate", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_memory_create(&gpu, 2 * TN_MIB, plain, &memory));
    ck_assert_ptr_null(memory);
    ck_assert_int_eq(tn_host_outstanding(), host_before);
    test_same_ledger(&before);
}

CONTRACT_TEST(memory, a_size_that_is_no_power_of_two_is_a_broken_contract)
{
    (void)memory_of(6 * TN_MIB, plain);
}
