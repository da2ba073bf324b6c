// SPDX-License-Identifier: Apache-2.0
/* mapping.c -- mapping memory to addresses, who may access it, and unmapping.
 *
 * Most cases work on a room: a reservation of 64 MiB and a few handles of 2 MiB. */
#include <pthread.h>
#include <string.h>

#include "contract/contract.h"

#define KIB ((size_t)1 << 10)
#define GRANULE (2 * MIB)
#define ROOM (64 * MIB)
#define HANDLES 3
#define PLACE UINT64_C(0x480000000000)
#define FAR_PLACE UINT64_C(0x4a0000000000) /* where nothing is reserved */

struct room {
    tn_cu_deviceptr base;
    tn_cu_memhandle handle[HANDLES]; /* of 2 MiB each */
};

static struct room room_make(void)
{
    struct room room;
    SET_UP(cuMemAddressReserve(&room.base, ROOM, 0, 0, 0));
    for (int i = 0; i < HANDLES; i++)
        room.handle[i] = contract_handle(GRANULE);
    return room;
}

/* Clears up whatever is mapped. */
static void room_end(struct room room)
{
    SET_UP(cuMemUnmap(room.base, ROOM));
    for (int i = 0; i < HANDLES; i++)
        SET_UP(cuMemRelease(room.handle[i]));
    SET_UP(cuMemAddressFree(room.base, ROOM));
}

/* Maps handle `number` of a room at its slot `slot`. */
static void put(const struct room *room, size_t slot, int number)
{
    SET_UP(cuMemMap(room->base + slot * GRANULE, GRANULE, 0, room->handle[number], 0));
}

static void access_gives(tn_cu_result result, tn_cu_deviceptr address, size_t bytes, int flags)
{
    contract_gives(result, "cuMemSetAccess(", contract_access(address, bytes, flags));
}

/* Asks for the rights of device 0 at an address. */
static void rights_are(tn_cu_deviceptr address, unsigned long long expected)
{
    const tn_cu_location device = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    unsigned long long flags = 99;
    GIVES(SUCCESS, cuMemGetAccess(&flags, &device, address));
    HOLDS(flags == expected, "rights %llu", expected);
}

/* Sets 2 MiB, and waits: a set on the device returns before it is done. */
static void set(tn_cu_deviceptr address, unsigned int value)
{
    SET_UP(cuMemsetD32(address, value, GRANULE / 4));
    SET_UP(cuCtxSynchronize());
}

static bool all_are(tn_cu_deviceptr address, unsigned int value)
{
    return contract_word(address, 0) == value && contract_word(address, GRANULE / 4 - 1) == value;
}

CASE_BODY(map_partly)
{
    struct room room = room_make();
    tn_cu_memhandle big = contract_handle(4 * MIB);
    STATE("from an offset on");
    GIVES(NOT_SUPPORTED, cuMemMap(room.base, 2 * MIB, 2 * MIB, big, 0));
    STATE("the first half");
    GIVES(NOT_SUPPORTED, cuMemMap(room.base, 2 * MIB, 0, big, 0));
    STATE("twice its size");
    GIVES(NOT_SUPPORTED, cuMemMap(room.base, 8 * MIB, 0, big, 0));
    STATE("an odd size");
    GIVES(NOT_SUPPORTED, cuMemMap(room.base, 4 * MIB - 64 * KIB, 0, big, 0));
    SET_UP(cuMemRelease(big));
    room_end(room);
}

CASE_BODY(map_arguments)
{
    struct room room = room_make();
    tn_cu_memhandle handle = room.handle[0];
    tn_cu_deviceptr linear;
    SET_UP(cuMemAlloc(&linear, 4 * MIB));
    STATE("flags");
    GIVES(INVALID_VALUE, cuMemMap(room.base, GRANULE, 0, handle, 1));
    STATE("64 KiB off");
    GIVES(INVALID_VALUE, cuMemMap(room.base + 64 * KIB, GRANULE, 0, handle, 0));
    STATE("no byte");
    GIVES(INVALID_VALUE, cuMemMap(room.base, 0, 0, handle, 0));
    STATE("nothing reserved");
    GIVES(INVALID_VALUE, cuMemMap(FAR_PLACE, GRANULE, 0, handle, 0));
    STATE("address 0");
    GIVES(INVALID_VALUE, cuMemMap(0, GRANULE, 0, handle, 0));
    STATE("linear memory");
    GIVES(INVALID_VALUE,
          cuMemMap((linear + GRANULE - 1) / GRANULE * GRANULE, GRANULE, 0, handle, 0));
    STATE("handle 0");
    GIVES(INVALID_VALUE, cuMemMap(room.base, GRANULE, 0, 0, 0));
    SET_UP(cuMemFree(linear));
    room_end(room);
}

CASE_BODY(map_over)
{
    struct room room = room_make();
    tn_cu_memhandle big = contract_handle(8 * MIB);
    put(&room, 2, 0);
    STATE("the same place");
    GIVES(INVALID_VALUE, cuMemMap(room.base + 4 * MIB, GRANULE, 0, room.handle[1], 0));
    STATE("the same memory again");
    GIVES(INVALID_VALUE, cuMemMap(room.base + 4 * MIB, GRANULE, 0, room.handle[0], 0));
    STATE("around it");
    GIVES(INVALID_VALUE, cuMemMap(room.base, 8 * MIB, 0, big, 0));
    STATE("beside it");
    GIVES(SUCCESS, cuMemMap(room.base + 6 * MIB, 8 * MIB, 0, big, 0));
    SET_UP(cuMemRelease(big));
    room_end(room);
}

CASE_BODY(map_past_end)
{
    struct contract_mapped mapped = {.bytes = ROOM};
    SET_UP(cuMemAddressReserve(&mapped.address, ROOM, 0, PLACE, 0));
    tn_cu_memhandle handle = contract_handle(4 * MIB);
    GIVES(SUCCESS, cuMemMap(mapped.address + ROOM - GRANULE, 4 * MIB, 0, handle, 0));
    GIVES(SUCCESS, cuMemUnmap(mapped.address + ROOM - GRANULE, 4 * MIB));
    SET_UP(cuMemRelease(handle));
    SET_UP(cuMemAddressFree(mapped.address, ROOM));
}

CASE_BODY(map_across)
{
    contract_needs_places();
    tn_cu_deviceptr first = 0;
    tn_cu_deviceptr second = 0;
    SET_UP(cuMemAddressReserve(&first, ROOM, 0, PLACE, 0));
    SET_UP(cuMemAddressReserve(&second, ROOM, 0, PLACE + ROOM, 0));
    HOLDS(second == first + ROOM, "two reservations are neighbours");
    tn_cu_memhandle handle = contract_handle(4 * MIB);
    GIVES(SUCCESS, cuMemMap(second - GRANULE, 4 * MIB, 0, handle, 0));
    access_gives(TN_CUDA_SUCCESS, second - GRANULE, 4 * MIB, TN_CU_MEM_ACCESS_READWRITE);
    GIVES(SUCCESS, cuMemsetD32(second - GRANULE, 3, MIB));
    HOLDS(contract_word(second, 0) == 3, "it is usable in both");
    STATE("neither can be freed");
    GIVES(INVALID_VALUE, cuMemAddressFree(first, ROOM));
    GIVES(INVALID_VALUE, cuMemAddressFree(second, ROOM));
    GIVES(SUCCESS, cuMemUnmap(second - GRANULE, 4 * MIB));
    SET_UP(cuMemRelease(handle));
    SET_UP(cuMemAddressFree(first, ROOM));
    SET_UP(cuMemAddressFree(second, ROOM));
}

CASE_BODY(no_access)
{
    struct room room = room_make();
    tn_cu_deviceptr pointer = 7;
    size_t bytes = 7;
    put(&room, 0, 0);
    rights_are(room.base, TN_CU_MEM_ACCESS_NONE);
    GIVES(INVALID_VALUE, cuPointerGetAttribute(&pointer, TN_CU_POINTER_DEVICE_POINTER, room.base));
    GIVES(INVALID_VALUE, cuMemsetD8(room.base, 1, GRANULE));
    GIVES(INVALID_VALUE, cuMemsetD8Async(room.base, 1, GRANULE, NULL));
    GIVES(NOT_FOUND, cuMemGetAddressRange(&pointer, &bytes, room.base));
    room_end(room);
}

CASE_BODY(access_range)
{
    struct room room = room_make();
    tn_cu_deviceptr linear;
    SET_UP(cuMemAlloc(&linear, 4 * MIB));
    tn_cu_memhandle big = contract_handle(4 * MIB);
    SET_UP(cuMemMap(room.base, 4 * MIB, 0, big, 0));
    put(&room, 4, 0);
    STATE("part of a mapping");
    access_gives(TN_CUDA_ERROR_INVALID_VALUE, room.base, 2 * MIB, TN_CU_MEM_ACCESS_READWRITE);
    STATE("its end");
    access_gives(TN_CUDA_ERROR_INVALID_VALUE, room.base + 2 * MIB, 2 * MIB, 3);
    STATE("one and unmapped room");
    access_gives(TN_CUDA_ERROR_INVALID_VALUE, room.base, 6 * MIB, 3);
    STATE("nothing mapped");
    access_gives(TN_CUDA_ERROR_INVALID_VALUE, room.base + 32 * MIB, 2 * MIB, 3);
    STATE("nothing reserved");
    access_gives(TN_CUDA_ERROR_INVALID_VALUE, FAR_PLACE, 2 * MIB, 3);
    STATE("no byte");
    access_gives(TN_CUDA_ERROR_INVALID_VALUE, room.base, 0, 3);
    STATE("64 KiB off");
    access_gives(TN_CUDA_ERROR_INVALID_VALUE, room.base + 64 * KIB, 4 * MIB, 3);
    STATE("linear memory");
    access_gives(TN_CUDA_ERROR_INVALID_VALUE, linear, 4 * MIB, 3);
    rights_are(room.base, 0);
    rights_are(room.base + 8 * MIB, 0);
    SET_UP(cuMemFree(linear));
    SET_UP(cuMemRelease(big));
    room_end(room);
}

CASE_BODY(access_gap)
{
    struct room room = room_make();
    put(&room, 0, 0);
    put(&room, 2, 1);
    access_gives(TN_CUDA_SUCCESS, room.base, 3 * GRANULE, TN_CU_MEM_ACCESS_READWRITE);
    rights_are(room.base, 3);
    rights_are(room.base + 2 * GRANULE, 0);
    STATE("with a neighbour behind the gap");
    put(&room, 3, 2);
    access_gives(TN_CUDA_SUCCESS, room.base, 4 * GRANULE, TN_CU_MEM_ACCESS_READ);
    rights_are(room.base, 1);
    rights_are(room.base + 2 * GRANULE, 0);
    rights_are(room.base + 3 * GRANULE, 0);
    room_end(room);
}

static void access_desc(tn_cu_result result, const char *what, tn_cu_deviceptr address, int type,
                        int id, int flags)
{
    const tn_cu_access_desc desc = {.location = {.type = type, .id = id}, .flags = flags};
    STATE("%s", what);
    contract_gives(result, "cuMemSetAccess(", cu.cuMemSetAccess(address, GRANULE, &desc, 1));
}

CASE_BODY(access_arguments)
{
    struct room room = room_make();
    const tn_cu_access_desc desc = {.location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE},
                                    .flags = TN_CU_MEM_ACCESS_READWRITE};
    put(&room, 0, 0);
    access_desc(TN_CUDA_ERROR_INVALID_VALUE, "rights 2", room.base, 1, 0, 2);
    access_desc(TN_CUDA_ERROR_INVALID_VALUE, "rights 4", room.base, 1, 0, 4);
    access_desc(TN_CUDA_ERROR_INVALID_VALUE, "rights 7", room.base, 1, 0, 7);
    access_desc(TN_CUDA_ERROR_INVALID_VALUE, "device 99", room.base, 1, 99, 3);
    access_desc(TN_CUDA_ERROR_INVALID_VALUE, "device -1", room.base, 1, -1, 3);
    access_desc(TN_CUDA_ERROR_INVALID_VALUE, "no location", room.base, 0, 0, 3);
    access_desc(TN_CUDA_ERROR_INVALID_VALUE, "location 9", room.base, 9, 0, 3);
    access_desc(TN_CUDA_ERROR_NOT_SUPPORTED, "the host", room.base, TN_CU_MEM_LOCATION_TYPE_HOST, 0,
                3);
    access_desc(TN_CUDA_ERROR_NOT_SUPPORTED, "a NUMA node", room.base,
                TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, 3);
    STATE("no description");
    GIVES(INVALID_VALUE, cuMemSetAccess(room.base, GRANULE, NULL, 1));
    STATE("none of them");
    GIVES(INVALID_VALUE, cuMemSetAccess(room.base, GRANULE, &desc, 0));
    rights_are(room.base, 0);
    room_end(room);
}

CASE_BODY(access_twice_described)
{
    struct room room = room_make();
    const tn_cu_access_desc descs[] = {
        {.location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE}, .flags = TN_CU_MEM_ACCESS_READWRITE},
        {.location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE}, .flags = TN_CU_MEM_ACCESS_READ},
    };
    const tn_cu_access_desc half_wrong[] = {
        {.location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE}, .flags = TN_CU_MEM_ACCESS_READWRITE},
        {.location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 99}, .flags = 3},
    };
    put(&room, 0, 0);
    STATE("the second for device 99");
    GIVES(INVALID_VALUE, cuMemSetAccess(room.base, GRANULE, half_wrong, 2));
    rights_are(room.base, 0);
    STATE("both for device 0");
    GIVES(SUCCESS, cuMemSetAccess(room.base, GRANULE, descs, 2));
    rights_are(room.base, 1);
    room_end(room);
}

CASE_BODY(access_levels)
{
    static const int levels[] = {3, 0, 1, 3, 3, 1, 0, 0};
    struct room room = room_make();
    for (int i = 0; i < 3; i++)
        put(&room, (size_t)i, i);
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        access_gives(TN_CUDA_SUCCESS, room.base, 3 * GRANULE, levels[i]);
        rights_are(room.base, (unsigned long long)levels[i]);
        rights_are(room.base + 3 * GRANULE - 1, (unsigned long long)levels[i]);
    }
    room_end(room);
}

CASE_BODY(access_forgotten)
{
    struct room room = room_make();
    put(&room, 0, 0);
    access_gives(TN_CUDA_SUCCESS, room.base, GRANULE, 3);
    GIVES(SUCCESS, cuMemUnmap(room.base, GRANULE));
    put(&room, 0, 0);
    rights_are(room.base, 0);
    room_end(room);
}

CASE_BODY(access_asked)
{
    const tn_cu_location device = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE};
    const tn_cu_location stranger = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 99};
    const tn_cu_location host = {.type = TN_CU_MEM_LOCATION_TYPE_HOST};
    struct room room = room_make();
    unsigned long long flags = 99;
    tn_cu_deviceptr linear;
    SET_UP(cuMemAlloc(&linear, GRANULE));
    put(&room, 0, 0);
    contract_open(room.base, GRANULE);
    STATE("nothing mapped");
    GIVES(INVALID_VALUE, cuMemGetAccess(&flags, &device, room.base + GRANULE));
    STATE("nothing reserved");
    GIVES(INVALID_VALUE, cuMemGetAccess(&flags, &device, FAR_PLACE));
    STATE("address 0");
    GIVES(INVALID_VALUE, cuMemGetAccess(&flags, &device, 0));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemGetAccess(NULL, &device, room.base));
    STATE("no location");
    GIVES(INVALID_VALUE, cuMemGetAccess(&flags, NULL, room.base));
    HOLDS(flags == 0, "the rights are 0");
    STATE("device 99");
    GIVES(INVALID_DEVICE, cuMemGetAccess(&flags, &stranger, room.base));
    STATE("the host's");
    GIVES(SUCCESS, cuMemGetAccess(&flags, &host, room.base));
    HOLDS(flags == 3, "the device's");
    STATE("linear memory");
    GIVES(SUCCESS, cuMemGetAccess(&flags, &device, linear));
    HOLDS(flags == 0, "no rights");
    SET_UP(cuMemFree(linear));
    room_end(room);
}

CASE_BODY(read_only)
{
    struct room room = room_make();
    put(&room, 0, 0);
    contract_open(room.base, GRANULE);
    set(room.base, 9);
    access_gives(TN_CUDA_SUCCESS, room.base, GRANULE, TN_CU_MEM_ACCESS_READ);
    GIVES(INVALID_VALUE, cuMemsetD8(room.base, 1, GRANULE));
    GIVES(INVALID_VALUE, cuMemsetD8Async(room.base, 1, GRANULE, NULL));
    uint32_t word = 1;
    GIVES(INVALID_VALUE, cuMemcpyHtoD(room.base, &word, sizeof word));
    GIVES(SUCCESS, cuMemcpyDtoH(&word, room.base, sizeof word));
    HOLDS(word == 9, "it can be read");
    room_end(room);
}

CASE_BODY(unmap_cut)
{
    struct room room = room_make();
    tn_cu_memhandle big = contract_handle(4 * MIB);
    SET_UP(cuMemMap(room.base + 4 * MIB, 4 * MIB, 0, big, 0));
    contract_open(room.base + 4 * MIB, 4 * MIB);
    STATE("its first half");
    GIVES(INVALID_VALUE, cuMemUnmap(room.base + 4 * MIB, 2 * MIB));
    STATE("its second half");
    GIVES(INVALID_VALUE, cuMemUnmap(room.base + 6 * MIB, 2 * MIB));
    STATE("from before it to its middle");
    GIVES(INVALID_VALUE, cuMemUnmap(room.base + 2 * MIB, 4 * MIB));
    STATE("from its middle to behind it");
    GIVES(INVALID_VALUE, cuMemUnmap(room.base + 6 * MIB, 4 * MIB));
    STATE("64 KiB too few");
    GIVES(INVALID_VALUE, cuMemUnmap(room.base + 4 * MIB, 4 * MIB - 64 * KIB));
    rights_are(room.base + 4 * MIB, 3);
    SET_UP(cuMemRelease(big));
    room_end(room);
}

CASE_BODY(unmap_many)
{
    struct room room = room_make();
    for (int i = 0; i < 3; i++)
        put(&room, (size_t)i, i);
    STATE("three neighbours");
    GIVES(SUCCESS, cuMemUnmap(room.base, 3 * GRANULE));
    put(&room, 0, 0);
    put(&room, 4, 1);
    STATE("two and the gap between them");
    GIVES(SUCCESS, cuMemUnmap(room.base, 5 * GRANULE));
    STATE("the whole reservation");
    put(&room, 7, 2);
    GIVES(SUCCESS, cuMemUnmap(room.base, ROOM));
    HOLDS(cu.cuMemGetAccess(&(unsigned long long){0},
                            &(tn_cu_location){.type = TN_CU_MEM_LOCATION_TYPE_DEVICE},
                            room.base + 7 * GRANULE) == TN_CUDA_ERROR_INVALID_VALUE,
          "nothing is mapped");
    room_end(room);
}

CASE_BODY(unmap_nothing)
{
    struct room room = room_make();
    tn_cu_deviceptr linear;
    SET_UP(cuMemAlloc(&linear, 4 * MIB));
    STATE("never mapped");
    GIVES(SUCCESS, cuMemUnmap(room.base, GRANULE));
    STATE("nothing reserved");
    GIVES(INVALID_VALUE, cuMemUnmap(FAR_PLACE, GRANULE));
    STATE("address 0");
    GIVES(INVALID_VALUE, cuMemUnmap(0, GRANULE));
    STATE("no byte");
    GIVES(INVALID_VALUE, cuMemUnmap(room.base, 0));
    STATE("linear memory");
    GIVES(INVALID_VALUE, cuMemUnmap(linear, 4 * MIB));
    SET_UP(cuMemFree(linear));
    room_end(room);
}

CASE_BODY(contents_move)
{
    struct room room = room_make();
    put(&room, 0, 0);
    contract_open(room.base, GRANULE);
    set(room.base, 1234);
    GIVES(SUCCESS, cuMemUnmap(room.base, GRANULE));
    GIVES(SUCCESS, cuMemMap(room.base + 8 * GRANULE, GRANULE, 0, room.handle[0], 0));
    contract_open(room.base + 8 * GRANULE, GRANULE);
    HOLDS(all_are(room.base + 8 * GRANULE, 1234), "the bytes are at the new address");
    room_end(room);
}

CASE_BODY(contents_swap)
{
    struct room room = room_make();
    for (int i = 0; i < 2; i++)
        put(&room, (size_t)i, i);
    contract_open(room.base, 2 * GRANULE);
    set(room.base, 11);
    set(room.base + GRANULE, 22);
    GIVES(SUCCESS, cuMemUnmap(room.base, 2 * GRANULE));
    put(&room, 0, 1);
    put(&room, 1, 0);
    contract_open(room.base, 2 * GRANULE);
    HOLDS(all_are(room.base, 22) && all_are(room.base + GRANULE, 11), "the bytes swapped places");
    room_end(room);
}

CASE_BODY(aliases)
{
    struct room room = room_make();
    put(&room, 0, 0);
    put(&room, 2, 0);
    put(&room, 4, 0);
    contract_open(room.base, GRANULE);
    contract_open(room.base + 2 * GRANULE, GRANULE);
    access_gives(TN_CUDA_SUCCESS, room.base + 4 * GRANULE, GRANULE, TN_CU_MEM_ACCESS_READ);
    set(room.base, 5);
    HOLDS(all_are(room.base + 2 * GRANULE, 5) && all_are(room.base + 4 * GRANULE, 5),
          "all show the bytes");
    rights_are(room.base, 3);
    rights_are(room.base + 4 * GRANULE, 1);
    GIVES(SUCCESS, cuMemUnmap(room.base, GRANULE));
    set(room.base + 2 * GRANULE, 6);
    HOLDS(all_are(room.base + 4 * GRANULE, 6), "the others stay when one goes");
    room_end(room);
}

CASE_BODY(across_mappings)
{
    struct room room = room_make();
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr middle = room.base + GRANULE - 2048;
    for (int i = 0; i < 3; i++)
        put(&room, (size_t)i, i);
    contract_open(room.base, 3 * GRANULE);
    GIVES(SUCCESS, cuMemsetD32Async(middle, 7, 1024, stream));
    GIVES(SUCCESS, cuMemcpyDtoDAsync(room.base + 2 * GRANULE - 2048, middle, 4096, stream));
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(",
                   contract_copy(stream, room.base + 64, middle, 1024));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    HOLDS(contract_word(middle, 0) == 7 && contract_word(middle, 1023) == 7, "the set");
    HOLDS(contract_word(room.base + 2 * GRANULE - 2048, 0) == 7 &&
              contract_word(room.base + 2 * GRANULE, 511) == 7,
          "the copy");
    HOLDS(contract_word(room.base + 64, 0) == 7 && contract_word(room.base + 64, 1023) == 7,
          "the kernel");
    SET_UP(cuStreamDestroy(stream));
    room_end(room);
}

CASE_BODY(across_the_end)
{
    struct room room = room_make();
    uint32_t words[1024] = {0};
    put(&room, 0, 0);
    put(&room, 1, 1);
    contract_open(room.base, 2 * GRANULE);
    tn_cu_deviceptr end = room.base + 2 * GRANULE - 2048;
    GIVES(INVALID_VALUE, cuMemcpyHtoD(end, words, 4096));
    GIVES(INVALID_VALUE, cuMemcpyDtoH(words, end, 4096));
    GIVES(INVALID_VALUE, cuMemcpyDtoD(room.base, end, 4096));
    GIVES(INVALID_VALUE, cuMemsetD8(end, 1, 4096));
    GIVES(SUCCESS, cuMemsetD8(end, 1, 2048));
    GIVES(SUCCESS, cuCtxSynchronize());
    room_end(room);
}

CASE_BODY(retain)
{
    struct contract_mapped mapped = contract_map(4 * MIB);
    tn_cu_memhandle handle = 0;
    GIVES(SUCCESS,
          cuMemRetainAllocationHandle(&handle, (void *)(mapped.address + 2 * MIB + 12345)));
    HOLDS(handle == mapped.handle, "the handle that was mapped");
    size_t before = contract_free_bytes();
    GIVES(SUCCESS, cuMemRelease(handle));
    GIVES(SUCCESS, cuMemUnmap(mapped.address, mapped.bytes));
    HOLDS(before == contract_free_bytes(), "one reference is left");
    GIVES(SUCCESS, cuMemRelease(handle));
    HOLDS(contract_free_bytes() - before == mapped.bytes, "none is left");
    SET_UP(cuMemAddressFree(mapped.address, mapped.bytes));
}

CASE_BODY(retain_refused)
{
    struct room room = room_make();
    tn_cu_memhandle handle = 7;
    tn_cu_deviceptr linear;
    tn_cu_deviceptr ordered;
    void *host;
    int local;
    SET_UP(cuMemAlloc(&linear, GRANULE));
    SET_UP(cuMemAllocAsync(&ordered, GRANULE, NULL));
    SET_UP(cuMemHostAlloc(&host, 4096, 0));
    STATE("nothing mapped");
    GIVES(INVALID_VALUE, cuMemRetainAllocationHandle(&handle, (void *)room.base));
    STATE("linear memory");
    GIVES(INVALID_VALUE, cuMemRetainAllocationHandle(&handle, (void *)linear));
    STATE("stream-ordered memory");
    GIVES(INVALID_VALUE, cuMemRetainAllocationHandle(&handle, (void *)ordered));
    STATE("page-locked memory");
    GIVES(INVALID_VALUE, cuMemRetainAllocationHandle(&handle, host));
    STATE("memory of the process");
    GIVES(INVALID_VALUE, cuMemRetainAllocationHandle(&handle, &local));
    STATE("address 0");
    GIVES(INVALID_VALUE, cuMemRetainAllocationHandle(&handle, NULL));
    HOLDS(handle == 7, "the handle is untouched");
    put(&room, 0, 0);
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemRetainAllocationHandle(NULL, (void *)room.base));
    SET_UP(cuMemFree(linear));
    SET_UP(cuMemFreeAsync(ordered, NULL));
    SET_UP(cuMemFreeHost(host));
    SET_UP(cuStreamSynchronize(NULL));
    room_end(room);
}

CASE_BODY(retain_released)
{
    struct contract_mapped mapped = contract_map(GRANULE);
    tn_cu_memhandle handle = 0;
    tn_cu_deviceptr other;
    set(mapped.address, 77);
    GIVES(SUCCESS, cuMemRelease(mapped.handle));
    GIVES(SUCCESS, cuMemRetainAllocationHandle(&handle, (void *)mapped.address));
    HOLDS(handle == mapped.handle, "the same value");
    SET_UP(cuMemAddressReserve(&other, GRANULE, 0, 0, 0));
    GIVES(SUCCESS, cuMemMap(other, GRANULE, 0, handle, 0));
    contract_open(other, GRANULE);
    HOLDS(all_are(other, 77), "the same bytes");
    SET_UP(cuMemRelease(handle));
    SET_UP(cuMemUnmap(mapped.address, GRANULE));
    SET_UP(cuMemUnmap(other, GRANULE));
    SET_UP(cuMemAddressFree(mapped.address, GRANULE));
    SET_UP(cuMemAddressFree(other, GRANULE));
}

CASE_BODY(map_released)
{
    struct room room = room_make();
    struct contract_mapped mapped = contract_map(GRANULE);
    GIVES(SUCCESS, cuMemRelease(mapped.handle));
    GIVES(SUCCESS, cuMemMap(room.base, GRANULE, 0, mapped.handle, 0));
    size_t before = contract_free_bytes();
    SET_UP(cuMemUnmap(mapped.address, GRANULE));
    HOLDS(before == contract_free_bytes(), "the second mapping holds the memory");
    SET_UP(cuMemUnmap(room.base, GRANULE));
    HOLDS(contract_free_bytes() - before == GRANULE, "it goes with the last mapping");
    SET_UP(cuMemAddressFree(mapped.address, GRANULE));
    room_end(room);
}

#define THREADS 4
#define ROUNDS 300

struct worker {
    pthread_t thread;
    tn_cu_result worst; /* the first answer that was not success */
};

static void note(struct worker *worker, tn_cu_result result)
{
    if (worker->worst == TN_CUDA_SUCCESS)
        worker->worst = result;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    tn_cu_allocation_prop prop = contract_prop(0);
    for (int i = 0; i < ROUNDS && worker->worst == TN_CUDA_SUCCESS; i++) {
        tn_cu_deviceptr address = 0;
        tn_cu_memhandle handle = 0;
        note(worker, cu.cuMemAddressReserve(&address, GRANULE, 0, 0, 0));
        note(worker, cu.cuMemCreate(&handle, GRANULE, &prop, 0));
        note(worker, cu.cuMemMap(address, GRANULE, 0, handle, 0));
        note(worker, contract_access(address, GRANULE, TN_CU_MEM_ACCESS_READWRITE));
        note(worker, cu.cuMemUnmap(address, GRANULE));
        note(worker, cu.cuMemRelease(handle));
        note(worker, cu.cuMemAddressFree(address, GRANULE));
    }
    return NULL;
}

CASE_BODY(threads)
{
    struct worker workers[THREADS];
    memset(workers, 0, sizeof workers);
    size_t before = contract_free_bytes();
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            contract_give_up("no thread");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        HOLDS(workers[i].worst == TN_CUDA_SUCCESS, "%d rounds without an error", ROUNDS);
    HOLDS(before == contract_free_bytes(), "nothing is lost");
}

static const struct contract_case cases[] = {
    CASE("map-partly", "Memory is mapped whole.", map_partly),
    CASE("map-arguments", "A mapping begins in a reservation, at a multiple of 2 MiB.",
         map_arguments),
    CASE("map-over", "A mapping that touches another is refused.", map_over),
    CASE("map-past-end", "A mapping may run past the end of its reservation.", map_past_end),
    CASE("map-across", "A mapping may lie in two neighbouring reservations.", map_across),
    CASE("no-access", "A new mapping is of no use until access to it is given.", no_access),
    CASE("access-range", "Access is given to whole mappings without gaps.", access_range),
    CASE("access-gap", "Access to mappings with a gap between them goes to those before it.",
         access_gap),
    CASE("access-arguments", "Access of unknown kind, or for what does not exist, is refused.",
         access_arguments),
    CASE("access-twice-described", "Of two descriptions for one device the last one counts.",
         access_twice_described),
    CASE("access-levels", "Access of several mappings can be given, lessened and taken away.",
         access_levels),
    CASE("access-forgotten", "Unmapping forgets access.", access_forgotten),
    CASE("access-asked", "Access can be asked for where memory is mapped.", access_asked),
    CASE("read-only", "Where only reading is allowed, copies and sets do not write.", read_only),
    CASE("unmap-cut", "Unmapping cuts no mapping.", unmap_cut),
    CASE("unmap-many", "Several mappings are unmapped at once, with the gaps between them.",
         unmap_many),
    CASE("unmap-nothing", "Unmapping needs a reservation but no mapping.", unmap_nothing),
    CASE("contents-move", "The bytes stay with the memory when it is mapped elsewhere.",
         contents_move),
    CASE("contents-swap", "Two memories swap their addresses.", contents_swap),
    CASE("aliases", "One memory has many addresses, each with its own access.", aliases),
    CASE("across-mappings", "Work crosses from one mapping to its neighbour.", across_mappings),
    CASE("across-the-end", "Copies and sets that leave what is mapped are refused at the call.",
         across_the_end),
    CASE("retain", "From an address comes the handle, with a new reference.", retain),
    CASE("retain-refused", "Only mapped memory has a handle.", retain_refused),
    CASE("retain-released", "A released handle comes back from the address of its memory.",
         retain_released),
    CASE("map-released", "A released handle that is mapped can be mapped again.", map_released),
    CASE("threads", "Four threads reserve, make, map and free without an error.", threads),
};
const struct contract_group contract_mapping = CONTRACT_GROUP("mapping", START_CONTEXT, cases);
