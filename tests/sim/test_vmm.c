// SPDX-License-Identifier: Apache-2.0
/* test_vmm.c -- reservations, physical memory, mappings and what pointers say of them. */
#include <string.h>
#include <sys/mman.h>

#include "sim_test.h"

#define HINT ((tn_cu_deviceptr)0x480000000000)

/* ThreadSanitizer moves hints and has no room for the addresses at the usual bases. */
#if defined(__SANITIZE_THREAD__)
#define HINTS_ARE_KEPT false
#else
#define HINTS_ARE_KEPT true
#endif

GROUP(bare, start_driver, .name = "no context")

TEST(bare, a_reservation_is_refused_for_what_the_driver_refuses)
{
    static const struct {
        size_t bytes;
        size_t alignment;
        tn_cu_deviceptr hint;
        unsigned long long flags;
        tn_cu_result result;
    } cases[] = {
        {0, 0, 0, 0, TN_CUDA_ERROR_INVALID_VALUE},
        {4096, 0, 0, 0, TN_CUDA_ERROR_INVALID_VALUE},
        {64 << 10, 0, 0, 0, TN_CUDA_ERROR_INVALID_VALUE},
        {2 * MIB + 4096, 0, 0, 0, TN_CUDA_ERROR_INVALID_VALUE},
        {2 * MIB, 3, 0, 0, TN_CUDA_ERROR_INVALID_VALUE},
        {2 * MIB, 0, 0, 1, TN_CUDA_ERROR_INVALID_VALUE},
        {64 * MIB, 0, HINT + 4096, 0, TN_CUDA_ERROR_INVALID_VALUE},
        {64 * MIB, 0, 0x10000, 0, TN_CUDA_ERROR_INVALID_VALUE},
        {64 * MIB, 1024 * MIB, HINT + 64 * MIB, 0, TN_CUDA_ERROR_INVALID_VALUE},
        {64 * MIB, 0, (tn_cu_deviceptr)1 << 47, 0, TN_CUDA_ERROR_OUT_OF_MEMORY},
        {(size_t)1 << 47, 0, 0, 0, TN_CUDA_ERROR_OUT_OF_MEMORY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tn_cu_deviceptr address = 7;
        ANSWERS(cases[i].result,
                cu.cuMemAddressReserve(&address, cases[i].bytes, cases[i].alignment, cases[i].hint,
                                       cases[i].flags));
        ck_assert_uint_eq(address, 7);
    }
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressReserve(NULL, 2 * MIB, 0, 0, 0));
}

TEST(bare, an_alignment_is_honoured)
{
    tn_cu_deviceptr address;
    OK(cu.cuMemAddressReserve(&address, 2 * MIB, 1024 * MIB, 0, 0));
    ck_assert_uint_eq(address % (1024 * MIB), 0);
    OK(cu.cuMemAddressFree(address, 2 * MIB));
}

TEST(bare, a_hint_counts_from_32_mib_at_multiples_of_32_mib)
{
    tn_cu_deviceptr exact;
    tn_cu_deviceptr other;
    if (!HINTS_ARE_KEPT)
        return;
    OK(cu.cuMemAddressReserve(&exact, 32 * MIB, 0, HINT, 0));
    ck_assert_uint_eq(exact, HINT);
    OK(cu.cuMemAddressFree(exact, 32 * MIB));
    OK(cu.cuMemAddressReserve(&exact, 64 * MIB, 0, HINT + 2 * MIB, 0));
    ck_assert_uint_eq(exact, HINT + 32 * MIB);
    OK(cu.cuMemAddressReserve(&other, 64 * MIB, 0, HINT + 64 * MIB, 0));
    ck_assert_uint_eq(other, HINT + 96 * MIB);
    OK(cu.cuMemAddressFree(exact, 64 * MIB));
    OK(cu.cuMemAddressReserve(&exact, 64 * MIB, 0, HINT + 32 * MIB, 0));
    ck_assert_uint_eq(exact, HINT + 32 * MIB);
}

TEST(bare, small_reservations_share_32_mib)
{
    enum { COUNT = 18 };
    tn_cu_deviceptr addresses[COUNT];
    if (!HINTS_ARE_KEPT)
        return;
    for (size_t i = 0; i < COUNT; i++) {
        OK(cu.cuMemAddressReserve(&addresses[i], 2 * MIB, 0, HINT, 0));
        ck_assert_uint_eq(addresses[i], HINT + i * 2 * MIB);
    }
    tn_cu_deviceptr other;
    OK(cu.cuMemAddressReserve(&other, 32 * MIB, 0, HINT, 0)); /* behind what they share */
    ck_assert_uint_eq(other, HINT + 64 * MIB);
    OK(cu.cuMemAddressFree(other, 32 * MIB));
    OK(cu.cuMemAddressFree(addresses[3], 2 * MIB));
    OK(cu.cuMemAddressFree(addresses[16], 2 * MIB));
    OK(cu.cuMemAddressReserve(&other, 4 * MIB, 4 * MIB, HINT, 0)); /* in the last one, aligned */
    ck_assert_uint_eq(other, HINT + 36 * MIB);
    OK(cu.cuMemAddressReserve(&addresses[16], 2 * MIB, 0, HINT, 0));
    ck_assert_uint_eq(addresses[16], HINT + 32 * MIB);
    OK(cu.cuMemAddressFree(other, 4 * MIB));
    OK(cu.cuMemAddressReserve(&other, 26 * MIB, 0, HINT, 0)); /* which is full then */
    OK(cu.cuMemAddressReserve(&addresses[3], 2 * MIB, 0, HINT, 0));
    ck_assert_uint_eq(addresses[3], HINT + 62 * MIB);
    OK(cu.cuMemAddressFree(other, 26 * MIB));
    for (size_t i = 0; i < COUNT; i++)
        OK(cu.cuMemAddressFree(addresses[i], 2 * MIB));
    OK(cu.cuMemAddressReserve(&other, 64 * MIB, 0, HINT, 0));
    ck_assert_uint_eq(other, HINT);
}

TEST(bare, a_context_keeps_small_reservations_from_their_hints)
{
    tn_cu_deviceptr address;
    if (!HINTS_ARE_KEPT)
        return;
    tn_cu_context context;
    tn_cu_deviceptr before;
    OK(cu.cuMemAddressReserve(&before, 2 * MIB, 0, HINT, 0));
    ck_assert_uint_eq(before, HINT);
    OK(cu.cuCtxCreate(&context, 0, 0));
    OK(cu.cuMemAddressReserve(&address, 2 * MIB, 0, HINT, 0));
    ck_assert_uint_gt(address, HINT + 64 * MIB);
    OK(cu.cuMemAddressFree(address, 2 * MIB));
    OK(cu.cuMemAddressFree(before, 2 * MIB));
}

TEST(bare, a_hint_over_host_memory_is_moved_without_an_error)
{
    if (!HINTS_ARE_KEPT)
        return;
    tn_cu_deviceptr address;
    void *host = mmap((void *)HINT, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_uint_eq((uintptr_t)host, HINT);
    OK(cu.cuMemAddressReserve(&address, 64 * MIB, 0, HINT, 0));
    ck_assert_uint_eq(address, HINT + 32 * MIB); /* behind it */
    OK(cu.cuMemAddressFree(address, 64 * MIB));
    munmap(host, 4096);
}

TEST(bare, hints_can_be_moved_and_sizes_refused_for_tests)
{
    tn_cu_deviceptr address;
    sim.tarn_sim_set_hints(1, 0);
    OK(cu.cuMemAddressReserve(&address, 64 * MIB, 0, HINT, 0));
    ck_assert_uint_ne(address, HINT);
    sim.tarn_sim_set_hints(2, 32 * MIB);
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAddressReserve(&address, 64 * MIB, 0, HINT, 0));
    OK(cu.cuMemAddressReserve(&address, 32 * MIB, 0, HINT, 0));
    sim.tarn_sim_set_hints(0, 0);
    OK(cu.cuMemAddressReserve(&address, 64 * MIB, 0, HINT, 0));
}

TEST(bare, large_reservations_are_granted_where_the_process_has_the_addresses)
{
    size_t bytes = HINTS_ARE_KEPT ? (size_t)4 << 40 : (size_t)64 << 30;
    tn_cu_deviceptr address;
    OK(cu.cuMemAddressReserve(&address, bytes, 0, (tn_cu_deviceptr)0x200000000000, 0));
    if (HINTS_ARE_KEPT)
        ck_assert_uint_eq(address, 0x200000000000);
    tn_cu_memhandle handle = physical(2 * MIB);
    OK(cu.cuMemMap(address + bytes - 2 * MIB, 2 * MIB, 0, handle, 0));
    OK(give_access(address + bytes - 2 * MIB, 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    *(volatile char *)(address + bytes - 1) = 1;
    OK(cu.cuMemUnmap(address + bytes - 2 * MIB, 2 * MIB));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemAddressFree(address, bytes));
}

TEST(bare, a_reservation_is_freed_exactly_or_not_at_all)
{
    tn_cu_deviceptr address = reserve(64 * MIB);
    tn_cu_memhandle handle = physical(2 * MIB);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(address, 32 * MIB));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(address + 2 * MIB, 62 * MIB));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(0, 64 * MIB));
    OK(cu.cuMemMap(address, 2 * MIB, 0, handle, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(address, 64 * MIB));
    OK(cu.cuMemUnmap(address, 2 * MIB));
    OK(cu.cuMemAddressFree(address, 64 * MIB));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(address, 64 * MIB));
}

TEST(bare, physical_memory_is_refused_for_what_the_driver_refuses)
{
    tn_cu_memhandle handle = 7;
    tn_cu_allocation_prop prop = device_prop(0);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 0, &prop, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 64 << 10, &prop, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 2 * MIB, &prop, 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 2 * MIB, NULL, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(NULL, 2 * MIB, &prop, 0));
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemCreate(&handle, (size_t)10 << 40, &prop, 0));
    prop.type = 2;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    prop = device_prop(99);
    ANSWERS(TN_CUDA_ERROR_INVALID_DEVICE, cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    prop = device_prop(-1);
    ANSWERS(TN_CUDA_ERROR_INVALID_DEVICE, cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    prop = device_prop(0);
    prop.location.type = 0;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    prop = device_prop(0);
    prop.alloc_flags.reserved[3] = 1;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    prop = device_prop(0);
    prop.requested_handle_types = 8;
    ANSWERS(TN_CUDA_ERROR_NOT_PERMITTED, cu.cuMemCreate(&handle, 2 * MIB, &prop, 0));
    ck_assert_uint_eq(handle, 7);
}

GROUP(context, start_context)

TEST(context, memory_goes_with_the_last_of_handle_and_mappings)
{
    size_t before;
    size_t now;
    size_t total;
    OK(cu.cuMemGetInfo(&before, &total));
    tn_cu_memhandle handle = physical(64 * MIB);
    OK(cu.cuMemGetInfo(&now, &total));
    ck_assert_uint_eq(now, before - 64 * MIB);
    tn_cu_deviceptr address = reserve(128 * MIB);
    OK(cu.cuMemMap(address, 64 * MIB, 0, handle, 0));
    OK(cu.cuMemMap(address + 64 * MIB, 64 * MIB, 0, handle, 0));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemUnmap(address, 64 * MIB));
    OK(cu.cuMemGetInfo(&now, &total));
    ck_assert_uint_eq(now, before - 64 * MIB);
    ck_assert_uint_eq(ledger().handles, 1);
    OK(cu.cuMemUnmap(address + 64 * MIB, 64 * MIB));
    OK(cu.cuMemGetInfo(&now, &total));
    ck_assert_uint_eq(now, before);
    ck_assert_uint_eq(ledger().handles, 0);
}

/* SS1 */
TEST(bare, handles_are_released_once_and_never_come_back)
{
    tn_cu_memhandle first = physical(2 * MIB);
    OK(cu.cuMemRelease(first));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(first));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(0x1234));
    ck_assert_uint_ne(physical(2 * MIB), first);
}

TEST(bare, the_whole_device_can_be_taken_in_any_pieces)
{
    enum { PIECES = 64 };
    tn_cu_memhandle handles[PIECES];
    tn_cu_memhandle large;
    tn_cu_allocation_prop prop = device_prop(0);
    for (int i = 0; i < PIECES; i++)
        handles[i] = physical(128 * MIB);
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemCreate(&large, 2 * MIB, &prop, 0));
    for (int i = 0; i < PIECES; i += 2)
        OK(cu.cuMemRelease(handles[i]));
    OK(cu.cuMemCreate(&large, PIECES / 2 * 128 * MIB, &prop, 0));
    ANSWERS(TN_CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemCreate(&handles[0], 2 * MIB, &prop, 0));
}

TEST(bare, fresh_memory_is_poisoned_and_then_given_back_to_the_host)
{
    struct mapped mapped = map_new(4 * MIB);
    const volatile unsigned char *bytes = (const volatile unsigned char *)mapped.address;
    ck_assert_uint_eq(bytes[0], 0xA5);
    ck_assert_uint_eq(bytes[2 * MIB + 4095], 0xA5);
    memset((void *)mapped.address, 1, mapped.bytes);
    unmap_all(mapped);
    mapped = map_new(4 * MIB);
    bytes = (const volatile unsigned char *)mapped.address;
    ck_assert_uint_eq(bytes[2 * MIB], 0xA5);
    ck_assert_uint_ne(bytes[4096], 1);
    unmap_all(mapped);
}

TEST(context, a_mapping_is_refused_for_what_the_driver_refuses)
{
    tn_cu_deviceptr address = reserve(64 * MIB);
    tn_cu_deviceptr linear;
    tn_cu_memhandle handle = physical(4 * MIB);
    OK(cu.cuMemAlloc(&linear, 4 * MIB));
    ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED, cu.cuMemMap(address, 4 * MIB, 2 * MIB, handle, 0));
    ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED, cu.cuMemMap(address, 2 * MIB, 0, handle, 0));
    ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED, cu.cuMemMap(address, 8 * MIB, 0, handle, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(address, 4 * MIB, 0, handle, 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(address, 0, 0, handle, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(address + 65536, 4 * MIB, 0, handle, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(address, 4 * MIB, 0, 0, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(address, 4 * MIB, 0, 0x1234, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(0x10000000, 4 * MIB, 0, handle, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(linear, 4 * MIB, 0, handle, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuMemMap(address + 62 * MIB, 4 * MIB, 0, handle, 0)); /* past the end: strict */
    OK(cu.cuMemMap(address, 4 * MIB, 0, handle, 0));
    /* over another mapping (SA1) */
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(address + 2 * MIB, 4 * MIB, 0, handle, 0));
}

/* SA2 */
TEST(bare, a_mapping_may_span_adjacent_reservations)
{
    if (!HINTS_ARE_KEPT)
        return;
    tn_cu_deviceptr first;
    tn_cu_deviceptr second;
    OK(cu.cuMemAddressReserve(&first, 32 * MIB, 0, HINT, 0));
    OK(cu.cuMemAddressReserve(&second, 32 * MIB, 0, HINT + 32 * MIB, 0));
    tn_cu_memhandle handle = physical(4 * MIB);
    OK(cu.cuMemMap(HINT + 30 * MIB, 4 * MIB, 0, handle, 0));
    OK(give_access(HINT + 30 * MIB, 4 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    *(volatile char *)(HINT + 33 * MIB) = 1;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(second, 32 * MIB));
    OK(cu.cuMemUnmap(HINT + 30 * MIB, 4 * MIB));
}

TEST(bare, access_is_given_to_whole_mappings_and_can_change)
{
    static const int levels[] = {TN_CU_MEM_ACCESS_READWRITE, TN_CU_MEM_ACCESS_NONE,
                                 TN_CU_MEM_ACCESS_READ, TN_CU_MEM_ACCESS_READWRITE};
    tn_cu_deviceptr address = reserve(64 * MIB);
    tn_cu_location here = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    tn_cu_access_desc desc = {.location = here, .flags = TN_CU_MEM_ACCESS_READWRITE};
    unsigned long long flags;
    for (int i = 0; i < 3; i++)
        OK(cu.cuMemMap(address + (size_t)i * 4 * MIB, 4 * MIB, 0, physical(4 * MIB), 0));
    OK(cu.cuMemGetAccess(&flags, &here, address));
    ck_assert_uint_eq(flags, TN_CU_MEM_ACCESS_NONE);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemSetAccess(address, 2 * MIB, &desc, 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemSetAccess(address, 16 * MIB, &desc, 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemSetAccess(address, 0, &desc, 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemSetAccess(address, 4 * MIB, NULL, 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemSetAccess(address, 4 * MIB, &desc, 0));
    desc.flags = 2;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemSetAccess(address, 4 * MIB, &desc, 1));
    desc.flags = TN_CU_MEM_ACCESS_READWRITE;
    desc.location.id = 99;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemSetAccess(address, 4 * MIB, &desc, 1));
    desc.location = (tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_HOST};
    ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED, cu.cuMemSetAccess(address, 4 * MIB, &desc, 1));
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        OK(give_access(address, 12 * MIB, levels[i]));
        OK(cu.cuMemGetAccess(&flags, &here, address + 11 * MIB));
        ck_assert_uint_eq(flags, (unsigned)levels[i]);
    }
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemGetAccess(&flags, &here, address + 12 * MIB));
}

TEST(bare, unmapping_takes_whole_mappings_and_keeps_contents)
{
    struct mapped mapped = map_new(4 * MIB);
    tn_cu_deviceptr other = reserve(32 * MIB);
    *(volatile uint32_t *)mapped.address = 1234;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemUnmap(mapped.address, 2 * MIB));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemUnmap(mapped.address + 2 * MIB, 2 * MIB));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemUnmap(mapped.address, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemUnmap(0x10000000, 2 * MIB));
    OK(cu.cuMemUnmap(mapped.address, 4 * MIB));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemUnmap(mapped.address, 4 * MIB));
    OK(cu.cuMemMap(other + 2 * MIB, 4 * MIB, 0, mapped.handle, 0));
    OK(give_access(other + 2 * MIB, 4 * MIB, TN_CU_MEM_ACCESS_READ));
    ck_assert_uint_eq(*(volatile uint32_t *)(other + 2 * MIB), 1234);
    OK(cu.cuMemUnmap(other, 32 * MIB)); /* a mapping and gaps */
}

TEST(bare, one_handle_at_two_addresses_is_one_memory)
{
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_deviceptr alias = reserve(2 * MIB);
    OK(cu.cuMemMap(alias, 2 * MIB, 0, mapped.handle, 0));
    OK(give_access(alias, 2 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    *(volatile uint32_t *)(alias + 64) = 5;
    ck_assert_uint_eq(*(volatile uint32_t *)(mapped.address + 64), 5);
    OK(cu.cuMemUnmap(alias, 2 * MIB));
    unmap_all(mapped);
}

TEST(context, pointers_know_reservation_mapping_and_block)
{
    tn_cu_deviceptr address = reserve(64 * MIB);
    tn_cu_memhandle handle = physical(4 * MIB);
    tn_cu_deviceptr start;
    size_t bytes;
    unsigned int mapped;
    unsigned long long buffer[2];
    unsigned long long block[2];
    tn_cu_context context = (tn_cu_context)1;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuPointerGetAttribute(&mapped, TN_CU_POINTER_MAPPED, address));
    for (int i = 0; i < 2; i++) {
        OK(cu.cuMemMap(address, 4 * MIB, 0, handle, 0));
        ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
                cu.cuPointerGetAttribute(&start, TN_CU_POINTER_DEVICE_POINTER, address));
        OK(give_access(address, 4 * MIB, TN_CU_MEM_ACCESS_READWRITE));
        OK(cu.cuPointerGetAttribute(&buffer[i], TN_CU_POINTER_BUFFER_ID, address));
        OK(cu.cuPointerGetAttribute(&block[i], TN_CU_POINTER_MEMORY_BLOCK_ID, address));
        OK(cu.cuPointerGetAttribute(&start, TN_CU_POINTER_RANGE_START, address + 5));
        OK(cu.cuPointerGetAttribute(&bytes, TN_CU_POINTER_RANGE_SIZE, address + 5));
        ck_assert_uint_eq(start, address);
        ck_assert_uint_eq(bytes, 64 * MIB);
        OK(cu.cuPointerGetAttribute(&bytes, TN_CU_POINTER_MAPPING_SIZE, address + 5));
        ck_assert_uint_eq(bytes, 4 * MIB);
        OK(cu.cuPointerGetAttribute(&context, TN_CU_POINTER_CONTEXT, address));
        ck_assert_ptr_null(context);
        OK(cu.cuMemUnmap(address, 4 * MIB));
    }
    ck_assert_uint_ne(buffer[0], buffer[1]);
    ck_assert_uint_eq(block[0], block[1]);
    OK(cu.cuMemAlloc(&address, 1000));
    OK(cu.cuPointerGetAttribute(&bytes, TN_CU_POINTER_RANGE_SIZE, address + 999));
    ck_assert_uint_eq(bytes, 1000);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuPointerGetAttribute(&bytes, TN_CU_POINTER_RANGE_SIZE, address + 1000));
}

TEST(context, linear_memory_is_freed_by_its_start_only)
{
    tarn_sim_ledger before = ledger();
    tn_cu_deviceptr address;
    void *host;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAlloc(&address, 0));
    OK(cu.cuMemAlloc(&address, 4096));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemFree(address + 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemFree(reserve(2 * MIB)));
    OK(cu.cuMemFree(address));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemFree(address));
    OK(cu.cuMemFree(0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemHostAlloc(&host, 10, 8));
    OK(cu.cuMemHostAlloc(&host, 10, 7));
    memset(host, 1, 10);
    OK(cu.cuMemFreeHost(host));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeHost(host));
    before.reservations += 1;
    before.reserved_bytes += 2 * MIB;
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

TEST(bare, virtual_memory_works_without_a_context)
{
    tarn_sim_ledger before = ledger();
    struct mapped mapped = map_new(4 * MIB);
    tarn_sim_ledger during = ledger();
    ck_assert_uint_eq(during.reserved_bytes, 4 * MIB);
    ck_assert_uint_eq(during.handle_bytes, 4 * MIB);
    ck_assert_uint_eq(during.mapped_bytes, 4 * MIB);
    unmap_all(mapped);
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

GROUP(lax, load_lax_driver)

TEST(lax, a_lax_driver_lets_unmapping_of_nothing_pass)
{
    tn_cu_deviceptr address = reserve(4 * MIB);
    OK(cu.cuMemUnmap(address, 4 * MIB));
    tn_cu_memhandle handle = physical(2 * MIB);
    OK(cu.cuMemMap(address, 2 * MIB, 0, handle, 0));
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemMap(address + 2 * MIB, 2 * MIB, 0, handle, 0));
    OK(cu.cuMemUnmap(address, 4 * MIB));
    ck_assert_uint_eq(ledger().handles, 0);
}

/* Makes device 1 current and a stream there. */
static tn_cu_stream stream_of_second_device(void)
{
    tn_cu_context second;
    OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
    OK(cu.cuCtxSetCurrent(second));
    return new_stream(TN_CU_STREAM_NON_BLOCKING);
}

GROUP(two, load_two_devices, .name = "two devices")

/* SA3 */
TEST(two, rights_are_kept_by_device)
{
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_access_desc both[] = {
        {.location = {TN_CU_MEM_LOCATION_TYPE_DEVICE, 0}, .flags = TN_CU_MEM_ACCESS_READWRITE},
        {.location = {TN_CU_MEM_LOCATION_TYPE_DEVICE, 1}, .flags = TN_CU_MEM_ACCESS_READWRITE},
    };
    tn_cu_stream stream = stream_of_second_device();
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemsetD8Async(mapped.address, 1, 16, stream));
    OK(cu.cuMemSetAccess(mapped.address, 2 * MIB, both, 2));
    OK(cu.cuMemsetD8Async(mapped.address, 1, 16, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(*(volatile unsigned char *)mapped.address, 1);
}

TEST(two, a_right_that_one_device_loses_is_missed_by_its_queued_work)
{
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_access_desc theirs = {.location = {TN_CU_MEM_LOCATION_TYPE_DEVICE, 1},
                                .flags = TN_CU_MEM_ACCESS_READWRITE};
    tn_cu_stream stream = stream_of_second_device();
    OK(cu.cuMemSetAccess(mapped.address, 2 * MIB, &theirs, 1));
    sim.tarn_sim_hold_work();
    OK(cu.cuMemsetD8Async(mapped.address, 1, 16, stream));
    theirs.flags = TN_CU_MEM_ACCESS_NONE;
    OK(cu.cuMemSetAccess(mapped.address, 2 * MIB, &theirs, 1));
    sim.tarn_sim_resume_work();
    ANSWERS(TN_CUDA_ERROR_LAUNCH_FAILED, cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(*(volatile unsigned char *)mapped.address, 0xA5);
    OK(cu.cuDevicePrimaryCtxRetain(&(tn_cu_context){0}, 0)); /* the other device is well */
}
