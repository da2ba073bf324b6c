// SPDX-License-Identifier: Apache-2.0
/* edges.c -- what the driver allows and no program should do: mappings that leave their
 * reservation, unmapping at odd places, handles that were released; and what host functions are
 * refused. */
#include <string.h>

#include "contract/contract.h"

#define ROOM (64 * MIB)
#define PLACE UINT64_C(0x480000000000)

/* A place for a case, where no other case was. */
static tn_cu_deviceptr next_place(void)
{
    static tn_cu_deviceptr place = PLACE;
    contract_needs_places();
    place += UINT64_C(1) << 32;
    return place;
}

static unsigned long long rights(tn_cu_deviceptr address)
{
    const tn_cu_location device = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    unsigned long long flags = 99;
    GIVES(SUCCESS, cuMemGetAccess(&flags, &device, address));
    return flags;
}

CASE_BODY(past_end)
{
    tn_cu_deviceptr first = contract_reserve_at(next_place(), ROOM);
    tn_cu_deviceptr start = first + ROOM - 2 * MIB;
    tn_cu_deviceptr base = 7;
    size_t bytes = 7;
    tn_cu_deviceptr range = 7;
    tn_cu_memhandle handle = contract_handle(4 * MIB);
    tn_cu_memhandle other = contract_handle(2 * MIB);
    GIVES(SUCCESS, cuMemMap(start, 4 * MIB, 0, handle, 0));
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(", contract_access(start, 4 * MIB, 3));
    HOLDS(rights(first + ROOM) == 3, "rights behind the end");
    GIVES(SUCCESS, cuMemsetD8(start, 5, 4 * MIB));
    SET_UP(cuCtxSynchronize());
    GIVES(SUCCESS, cuMemGetAddressRange(&base, &bytes, first + ROOM));
    HOLDS(base == start && bytes == 4 * MIB, "the range is the mapping");
    STATE("the reservation there is none");
    GIVES(SUCCESS, cuPointerGetAttribute(&range, TN_CU_POINTER_RANGE_START, first + ROOM));
    HOLDS(range == 7, "its start is untouched");
    STATE("the reservation is not freed");
    GIVES(INVALID_VALUE, cuMemAddressFree(first, ROOM));
    STATE("another may have the same addresses");
    tn_cu_deviceptr second = contract_reserve_at(first + ROOM, ROOM);
    GIVES(INVALID_VALUE, cuMemMap(second, 2 * MIB, 0, other, 0));
    STATE("the mapping is not cut");
    GIVES(INVALID_VALUE, cuMemUnmap(start, 2 * MIB));
    GIVES(INVALID_VALUE, cuMemUnmap(second, 2 * MIB));
    GIVES(SUCCESS, cuMemUnmap(start, 4 * MIB));
    SET_UP(cuMemRelease(handle));
    SET_UP(cuMemRelease(other));
    GIVES(SUCCESS, cuMemAddressFree(first, ROOM));
    GIVES(SUCCESS, cuMemAddressFree(second, ROOM));
}

CASE_BODY(unmap_past_end)
{
    tn_cu_deviceptr first = contract_reserve_at(next_place(), ROOM);
    tn_cu_memhandle handle = contract_handle(4 * MIB);
    SET_UP(cuMemMap(first, 4 * MIB, 0, handle, 0));
    STATE("the reservation and more");
    GIVES(SUCCESS, cuMemUnmap(first, ROOM + 4 * MIB));
    STATE("twice as much, with nothing mapped");
    GIVES(SUCCESS, cuMemUnmap(first, 2 * ROOM));
    STATE("over its end");
    GIVES(SUCCESS, cuMemUnmap(first + ROOM - 2 * MIB, 4 * MIB));
    SET_UP(cuMemRelease(handle));
    SET_UP(cuMemAddressFree(first, ROOM));
}

CASE_BODY(unmap_odd)
{
    tn_cu_deviceptr first = contract_reserve_at(next_place(), ROOM);
    tn_cu_memhandle handle = contract_handle(4 * MIB);
    STATE("4 KiB off, with nothing mapped");
    GIVES(SUCCESS, cuMemUnmap(first + 4096, 2 * MIB));
    STATE("4 KiB");
    GIVES(SUCCESS, cuMemUnmap(first, 4096));
    SET_UP(cuMemMap(first, 4 * MIB, 0, handle, 0));
    STATE("4 KiB of a mapping");
    GIVES(INVALID_VALUE, cuMemUnmap(first, 4096));
    STATE("4 KiB too many");
    GIVES(SUCCESS, cuMemUnmap(first, 4 * MIB + 4096));
    SET_UP(cuMemUnmap(first, ROOM));
    SET_UP(cuMemRelease(handle));
    SET_UP(cuMemAddressFree(first, ROOM));
}

CASE_BODY(two_reservations)
{
    tn_cu_deviceptr first = contract_reserve_at(next_place(), ROOM);
    tn_cu_deviceptr second = contract_reserve_at(first + ROOM, ROOM);
    tn_cu_memhandle handles[] = {contract_handle(2 * MIB), contract_handle(2 * MIB)};
    SET_UP(cuMemMap(second - 2 * MIB, 2 * MIB, 0, handles[0], 0));
    SET_UP(cuMemMap(second, 2 * MIB, 0, handles[1], 0));
    STATE("access to the end of one and the start of the other");
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   contract_access(second - 2 * MIB, 4 * MIB, 3));
    HOLDS(rights(second - 2 * MIB) == 3, "rights in the first");
    HOLDS(rights(second) == 3, "rights in the second");
    GIVES(SUCCESS, cuMemsetD8(second - 1024, 1, 2048));
    SET_UP(cuCtxSynchronize());
    STATE("both unmapped at once");
    GIVES(SUCCESS, cuMemUnmap(second - 2 * MIB, 4 * MIB));
    GIVES(SUCCESS, cuMemAddressFree(first, ROOM));
    GIVES(SUCCESS, cuMemAddressFree(second, ROOM));
    SET_UP(cuMemRelease(handles[0]));
    SET_UP(cuMemRelease(handles[1]));
}

/* A released handle that is mapped: its value is still good for all but a release. */
CASE_BODY(released)
{
    tn_cu_deviceptr first = contract_reserve_at(next_place(), ROOM);
    tn_cu_memhandle handle = contract_handle(4 * MIB);
    tn_cu_memhandle retained = 0;
    tn_cu_allocation_prop prop;
    SET_UP(cuMemMap(first, 4 * MIB, 0, handle, 0));
    GIVES(SUCCESS, cuMemRelease(handle));
    tn_cu_memhandle next = contract_handle(4 * MIB);
    HOLDS(next != handle, "its value is not given out");
    GIVES(SUCCESS, cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    GIVES(SUCCESS, cuMemMap(first + 8 * MIB, 4 * MIB, 0, handle, 0));
    GIVES(SUCCESS, cuMemRetainAllocationHandle(&retained, (void *)first));
    HOLDS(retained == handle, "it is found from the address");
    GIVES(SUCCESS, cuMemRelease(retained));
    STATE("released once too often");
    GIVES(INVALID_VALUE, cuMemRelease(retained));
    GIVES(SUCCESS, cuMemUnmap(first, ROOM));
    SET_UP(cuMemRelease(next));
    SET_UP(cuMemAddressFree(first, ROOM));
}

CASE_BODY(retained_twice)
{
    tn_cu_deviceptr first = contract_reserve_at(next_place(), ROOM);
    tn_cu_memhandle handle = contract_handle(2 * MIB);
    tn_cu_memhandle retained = 0;
    size_t before = contract_free_bytes();
    SET_UP(cuMemMap(first, 2 * MIB, 0, handle, 0));
    for (int i = 0; i < 2; i++)
        GIVES(SUCCESS, cuMemRetainAllocationHandle(&retained, (void *)(first + 4095)));
    SET_UP(cuMemUnmap(first, 2 * MIB));
    for (int i = 0; i < 2; i++) {
        GIVES(SUCCESS, cuMemRelease(handle));
        HOLDS(before == contract_free_bytes(), "it is there");
    }
    GIVES(SUCCESS, cuMemRelease(handle));
    HOLDS(contract_free_bytes() - before == 2 * MIB, "it is gone");
    GIVES(INVALID_VALUE, cuMemRelease(handle));
    SET_UP(cuMemAddressFree(first, ROOM));
}

/* What a program asks for and the driver does not look at. */
CASE_BODY(unchecked)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_memhandle handle = 0;
    STATE("usage 2");
    prop.alloc_flags.usage = 2;
    GIVES(SUCCESS, cuMemCreate(&handle, 2 * MIB, &prop, 0));
    GIVES(SUCCESS, cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    HOLDS(prop.alloc_flags.usage == 0, "it reads 0");
    SET_UP(cuMemRelease(handle));
    STATE("usage 1 of compressible memory");
    prop = contract_prop(0);
    prop.alloc_flags.compression_type = 1;
    prop.alloc_flags.usage = 1;
    GIVES(INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, &prop, 0));
    STATE("compression 2");
    prop = contract_prop(0);
    prop.alloc_flags.compression_type = 2;
    GIVES(INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, &prop, 0));
    STATE("RDMA 2");
    prop = contract_prop(0);
    prop.alloc_flags.gpu_direct_rdma_capable = 2;
    if (GIVES(SUCCESS, cuMemCreate(&handle, 2 * MIB, &prop, 0)) == TN_CUDA_SUCCESS)
        SET_UP(cuMemRelease(handle));
    STATE("metadata of another system");
    prop = contract_prop(0);
    prop.win32_metadata = &prop;
    GIVES(INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, &prop, 0));
    STATE("compressible, to be exported and for RDMA");
    prop = contract_prop(0);
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    prop.alloc_flags.compression_type = 1;
    prop.alloc_flags.gpu_direct_rdma_capable = 1;
    GIVES(SUCCESS, cuMemCreate(&handle, 2 * MIB, &prop, 0));
    GIVES(SUCCESS, cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    HOLDS(prop.alloc_flags.compression_type == 0, "it is not compressible");
    SET_UP(cuMemRelease(handle));
}

/* What a host function asked for, and was answered. */
#define CALLBACK_CALLS 10
static const char *const callback_calls[CALLBACK_CALLS] = {
    "cuMemAddressReserve(",
    "cuMemCreate(",
    "cuMemMap(",
    "cuMemSetAccess(",
    "cuMemGetAccess(",
    "cuMemUnmap(",
    "cuMemRelease(",
    "cuMemAddressFree(",
    "cuMemGetInfo(",
    "cuMemGetAllocationGranularity(",
};

struct callback {
    struct contract_mapped mapped;
    tn_cu_result results[CALLBACK_CALLS];
};

static void in_callback(void *user)
{
    struct callback *callback = user;
    struct contract_mapped mapped = callback->mapped;
    const tn_cu_location device = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_deviceptr address;
    tn_cu_memhandle handle;
    unsigned long long flags;
    size_t bytes;
    tn_cu_result *results = callback->results;
    results[0] = cu.cuMemAddressReserve(&address, ROOM, 0, 0, 0);
    results[1] = cu.cuMemCreate(&handle, 2 * MIB, &prop, 0);
    results[2] = cu.cuMemMap(mapped.address, mapped.bytes, 0, mapped.handle, 0);
    results[3] = contract_access(mapped.address, mapped.bytes, TN_CU_MEM_ACCESS_READ);
    results[4] = cu.cuMemGetAccess(&flags, &device, mapped.address);
    results[5] = cu.cuMemUnmap(mapped.address, mapped.bytes);
    results[6] = cu.cuMemRelease(mapped.handle);
    results[7] = cu.cuMemAddressFree(mapped.address, mapped.bytes);
    results[8] = cu.cuMemGetInfo(&bytes, &bytes);
    results[9] = cu.cuMemGetAllocationGranularity(&bytes, &prop, 0);
}

CASE_BODY(callback)
{
    struct callback callback = {.mapped = contract_map(2 * MIB)};
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuLaunchHostFunc(stream, in_callback, &callback));
    SET_UP(cuStreamSynchronize(stream));
    for (int i = 0; i < CALLBACK_CALLS; i++)
        contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, callback_calls[i], callback.results[i]);
    HOLDS(rights(callback.mapped.address) == 3, "nothing has changed");
    SET_UP(cuStreamDestroy(stream));
    contract_unmap(callback.mapped);
}

static const struct contract_case cases[] = {
    CASE("past-end", "A mapping past the end of its reservation works, and stands in the way.",
         past_end),
    CASE("unmap-past-end", "Unmapping may go past the end of a reservation.", unmap_past_end),
    CASE("unmap-odd", "Unmapping looks at mappings, not at multiples of 2 MiB.", unmap_odd),
    CASE("two-reservations", "Access and unmapping cross from one reservation to the next.",
         two_reservations),
    CASE("released", "A released handle is good as long as it is mapped.", released),
    CASE("retained-twice", "Each retaining is a reference.", retained_twice),
    CASE("callback", "A host function may do nothing with memory.", callback),
    CASE("unchecked", "What memory is to be used for is hardly looked at.", unchecked),
};
const struct contract_group contract_edges = CONTRACT_GROUP("edges", START_CONTEXT, cases);
