// SPDX-License-Identifier: Apache-2.0
/* test_pointer.c -- how wide the answers about an address are, and what is left alone. */
#include <string.h>

#include "sim_test.h"

#define MARK 0xEE
#define ROOM 16

/* How many bytes of a marked place were written. */
static size_t written(const unsigned char *place)
{
    size_t bytes = ROOM;
    while (bytes > 0 && place[bytes - 1] == MARK)
        bytes--;
    return bytes;
}

static tn_cu_result ask(unsigned char *place, int attribute, tn_cu_deviceptr address)
{
    memset(place, MARK, ROOM);
    return cu.cuPointerGetAttribute(place, (tn_cu_pointer_attribute)attribute, address);
}

static tn_cu_result ask_plural(unsigned char *place, int attribute, tn_cu_deviceptr address)
{
    tn_cu_pointer_attribute attributes[] = {(tn_cu_pointer_attribute)attribute};
    void *places[] = {place};
    memset(place, MARK, ROOM);
    return cu.cuPointerGetAttributes(1, attributes, places, address);
}

static const struct {
    int attribute;
    size_t bytes;
} widths[] = {
    {TN_CU_POINTER_CONTEXT, 8},
    {TN_CU_POINTER_MEMORY_TYPE, 4},
    {TN_CU_POINTER_SYNC_MEMOPS, 4},
    {TN_CU_POINTER_BUFFER_ID, 8},
    {TN_CU_POINTER_IS_MANAGED, 4},
    {TN_CU_POINTER_DEVICE_ORDINAL, 4},
    {TN_CU_POINTER_LEGACY_IPC_CAPABLE, 4},
    {TN_CU_POINTER_RANGE_START, 8},
    {TN_CU_POINTER_RANGE_SIZE, 8},
    {TN_CU_POINTER_MAPPED, 4},
    {TN_CU_POINTER_ALLOWED_HANDLE_TYPES, 8},
    {TN_CU_POINTER_RDMA_CAPABLE, 4},
    {TN_CU_POINTER_ACCESS_FLAGS, 4},
    {TN_CU_POINTER_MEMPOOL_HANDLE, 8},
    {TN_CU_POINTER_MAPPING_SIZE, 8},
    {TN_CU_POINTER_MAPPING_BASE, 8},
    {TN_CU_POINTER_MEMORY_BLOCK_ID, 8},
};

GROUP(context, start_context)

TEST(context, answers_are_as_wide_as_the_drivers)
{
    unsigned char place[ROOM];
    struct mapped mapped = map_new(2 * MIB);
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        OK(ask(place, widths[i].attribute, mapped.address + 1));
        ck_assert_uint_eq(written(place), widths[i].bytes);
        OK(ask_plural(place, widths[i].attribute, mapped.address + 1));
        ck_assert_uint_eq(written(place), widths[i].bytes);
    }
    unmap_all(mapped);
}

TEST(context, an_address_without_access_is_answered_with_null_and_an_error)
{
    unsigned char place[ROOM];
    tn_cu_deviceptr answer;
    struct mapped mapped = map_new(2 * MIB);
    OK(give_access(mapped.address, 2 * MIB, TN_CU_MEM_ACCESS_NONE));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, ask(place, TN_CU_POINTER_DEVICE_POINTER, mapped.address));
    memcpy(&answer, place, sizeof answer);
    ck_assert_uint_eq(answer, 0);
    OK(ask_plural(place, TN_CU_POINTER_DEVICE_POINTER, mapped.address));
    memcpy(&answer, place, sizeof answer);
    ck_assert_uint_eq(answer, 0);
    unmap_all(mapped);
}

TEST(context, an_unknown_address_has_empty_answers_when_several_are_asked_for)
{
    unsigned char place[ROOM];
    tn_cu_deviceptr start;
    int device;
    char here;
    tn_cu_deviceptr unknown = (tn_cu_deviceptr)(uintptr_t)&here;
    tn_cu_deviceptr reserved = reserve(64 * MIB);
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, ask(place, widths[i].attribute, unknown));
        ck_assert_uint_eq(written(place), 0);
        ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, ask(place, widths[i].attribute, reserved));
        ck_assert_uint_eq(written(place), 0);
    }
    OK(ask_plural(place, TN_CU_POINTER_RANGE_START, unknown));
    ck_assert_uint_eq(written(place), 0);
    OK(ask_plural(place, TN_CU_POINTER_RANGE_START, reserved + MIB));
    memcpy(&start, place, sizeof start);
    ck_assert_uint_eq(start, reserved);
    OK(ask_plural(place, TN_CU_POINTER_DEVICE_ORDINAL, unknown));
    memcpy(&device, place, sizeof device);
    ck_assert_int_eq(device, -2);
    OK(ask_plural(place, TN_CU_POINTER_HOST_POINTER, unknown));
    memcpy(&start, place, sizeof start);
    ck_assert_uint_eq(start, unknown);
}

TEST(context, a_range_that_is_not_found_is_empty)
{
    tn_cu_deviceptr base = 7;
    size_t bytes = 7;
    ANSWERS(TN_CUDA_ERROR_NOT_FOUND, cu.cuMemGetAddressRange(&base, &bytes, reserve(2 * MIB)));
    ck_assert_uint_eq(base, 0);
    ck_assert_uint_eq(bytes, 0);
    OK(cu.cuMemGetAddressRange(NULL, NULL, 1));
    struct mapped mapped = map_new(4 * MIB);
    OK(cu.cuMemGetAddressRange(&base, NULL, mapped.address + 3 * MIB));
    ck_assert_uint_eq(base, mapped.address);
    OK(cu.cuMemGetAddressRange(NULL, &bytes, mapped.address + 3 * MIB));
    ck_assert_uint_eq(bytes, 4 * MIB);
    unmap_all(mapped);
}

TEST(context, synchronous_copies_are_an_attribute_that_is_kept)
{
    unsigned int wanted = 1;
    unsigned int got = 7;
    tn_cu_deviceptr linear;
    OK(cu.cuMemAlloc(&linear, 4096));
    OK(cu.cuPointerGetAttribute(&got, TN_CU_POINTER_SYNC_MEMOPS, linear));
    ck_assert_uint_eq(got, 0);
    OK(cu.cuPointerSetAttribute(&wanted, TN_CU_POINTER_SYNC_MEMOPS, linear + 100));
    OK(cu.cuPointerGetAttribute(&got, TN_CU_POINTER_SYNC_MEMOPS, linear));
    ck_assert_uint_eq(got, 1);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuPointerSetAttribute(&wanted, TN_CU_POINTER_BUFFER_ID, linear));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuPointerSetAttribute(NULL, TN_CU_POINTER_SYNC_MEMOPS, linear));
    struct mapped mapped = map_new(2 * MIB);
    ANSWERS(TN_CUDA_ERROR_NOT_SUPPORTED,
            cu.cuPointerSetAttribute(&wanted, TN_CU_POINTER_SYNC_MEMOPS, mapped.address));
    unmap_all(mapped);
}
