// SPDX-License-Identifier: Apache-2.0
#include "driver/mapping.h"
#include "nodes/pointer.h"
#include "unit/unit.h"

static struct tn_gpu gpu;

static void open_gpu(void)
{
    unit_gpu(&gpu);
}

static struct tn_pointee look(const void *address)
{
    struct tn_pointee memory;

    OK(tn_pointer_query(&gpu, (uint64_t)(uintptr_t)address, &memory));
    return memory;
}

static void expect_unknown(const void *address)
{
    struct tn_pointee memory = look(address);

    ck_assert_int_eq(memory.kind, TN_POINTEE_UNKNOWN);
    ck_assert_int_eq(memory.ordinal, -1);
    ck_assert_uint_eq(memory.address, 0);
    ck_assert_uint_eq(memory.bytes, 0);
}

GROUP(addresses, open_gpu)

TEST(addresses, an_allocation_is_known_from_its_first_byte_to_its_last)
{
    char *memory = test_linear_alloc(4096);

    for (size_t at = 0; at < 4096; at += 4095) {
        struct tn_pointee known = look(memory + at);

        ck_assert_int_eq(known.kind, TN_POINTEE_DEVICE);
        ck_assert_int_eq(known.ordinal, 0);
        ck_assert_uint_eq(known.address, (uintptr_t)memory);
        ck_assert_uint_eq(known.bytes, 4096);
    }
    test_linear_free(memory);
    expect_unknown(memory);
}

TEST(addresses, page_locked_memory_is_the_hosts)
{
    char *memory = test_host_alloc(8192);
    struct tn_pointee known = look(memory + 100);

    ck_assert_int_eq(known.kind, TN_POINTEE_HOST);
    ck_assert_uint_eq(known.address, (uintptr_t)memory);
    ck_assert_uint_eq(known.bytes, 8192);
    test_host_free(memory);
    expect_unknown(memory);
}

TEST(addresses, mapped_memory_is_known_and_what_is_only_reserved_is_not)
{
    uint64_t bytes;
    uint64_t address;
    tn_cu_memhandle handle;

    OK(tn_gpu_granularity(&gpu, &bytes));
    OK(tn_gpu_reserve_addresses(&gpu, 4 * bytes, 0, 0, &address));
    expect_unknown((void *)(uintptr_t)address);
    OK(tn_gpu_create_memory(&gpu, bytes, (struct tn_memory_properties){0}, &handle));
    OK(tn_gpu_map(&gpu, address + bytes, bytes, handle, 0, false));
    ck_assert_int_eq(look((void *)(uintptr_t)(address + bytes + 8)).kind, TN_POINTEE_DEVICE);
    expect_unknown((void *)(uintptr_t)(address + 2 * bytes));
    tn_gpu_unmap(&gpu, address + bytes, bytes);
    expect_unknown((void *)(uintptr_t)(address + bytes));
    tn_gpu_release_memory(&gpu, handle);
    tn_gpu_free_addresses(&gpu, address, 4 * bytes);
}

TEST(addresses, what_is_no_memory_of_the_drivers_is_unknown)
{
    int local = 0;

    expect_unknown(NULL);
    expect_unknown(&local);
    expect_unknown((void *)(uintptr_t)0x3F800000); /* 1.0F, as a kernel's parameter may be */
    expect_unknown((void *)(uintptr_t)UINT64_MAX);
}

TEST(addresses, a_capture_is_not_disturbed_and_no_context_is_needed)
{
    tn_cu_stream stream = test_stream();
    void *memory = test_linear_alloc(4096);
    tn_cu_context context = test_context();

    test_begin_capture(stream, TN_CU_CAPTURE_MODE_GLOBAL);
    test_fill(stream, memory, 1, 16);
    test_set_context(NULL);
    ck_assert_int_eq(look(memory).kind, TN_POINTEE_DEVICE);
    expect_unknown(&stream);
    test_set_context(context);
    test_destroy_graph(test_end_capture(stream));
}

TEST(addresses, a_refusal_is_named)
{
    struct tn_pointee memory;

    sim.plan_fault("cuPointerGetAttributes", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_pointer_query(&gpu, 4096, &memory));
    unit_expect_sentence("cuPointerGetAttributes");
    ck_assert_int_eq(memory.kind, TN_POINTEE_UNKNOWN);
}
