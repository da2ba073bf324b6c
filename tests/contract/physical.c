// SPDX-License-Identifier: Apache-2.0
/* physical.c -- physical memory: what can be made, what it costs, when it goes. */
#include <string.h>

#include "contract/contract.h"

#define KIB ((size_t)1 << 10)
#define TIB ((size_t)1 << 40)
#define UNTOUCHED UINT64_C(7)

static tn_cu_allocation_prop on_host(int location, int id)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    prop.location = (tn_cu_location){.type = location, .id = id};
    return prop;
}

/* Creates what must be refused. */
static void refuse(tn_cu_result result, const char *why, size_t bytes,
                   const tn_cu_allocation_prop *prop, unsigned long long flags)
{
    tn_cu_memhandle handle = UNTOUCHED;
    STATE("%s", why);
    contract_gives(result, "cuMemCreate(", cu.cuMemCreate(&handle, bytes, prop, flags));
    HOLDS(handle == UNTOUCHED, "the handle is untouched");
}

CASE_BODY(granularity)
{
    tn_cu_allocation_prop props[7];
    static const char *const names[] = {"of a device",     "to be exported", "for RDMA",
                                        "for other nodes", "compressible",   "of the host",
                                        "of a NUMA node"};
    for (size_t i = 0; i < 7; i++)
        props[i] = contract_prop(0);
    props[1].requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    props[2].alloc_flags.gpu_direct_rdma_capable = 1;
    props[3].requested_handle_types = TN_CU_MEM_HANDLE_TYPE_FABRIC;
    props[4].alloc_flags.compression_type = 1;
    props[5] = on_host(TN_CU_MEM_LOCATION_TYPE_HOST, 0);
    props[6] = on_host(TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    for (size_t i = 0; i < 7; i++) {
        for (int option = 0; option < 2; option++) {
            size_t granule = 0;
            STATE("%s, %s", names[i], option == 0 ? "minimum" : "recommended");
            GIVES(SUCCESS, cuMemGetAllocationGranularity(&granule, &props[i], option));
            HOLDS(granule == 2 * MIB, "2 MiB");
        }
    }
}

CASE_BODY(granularity_unchecked)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    size_t granule = 0;
    STATE("no type");
    prop.type = 0;
    GIVES(SUCCESS, cuMemGetAllocationGranularity(&granule, &prop, 0));
    STATE("no location");
    prop = contract_prop(0);
    prop.location.type = 0;
    GIVES(SUCCESS, cuMemGetAllocationGranularity(&granule, &prop, 0));
    STATE("device 99");
    prop = contract_prop(99);
    GIVES(SUCCESS, cuMemGetAllocationGranularity(&granule, &prop, 0));
    HOLDS(granule == 2 * MIB, "2 MiB");
}

CASE_BODY(granularity_refused)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    size_t granule = 0;
    STATE("option 2");
    GIVES(INVALID_VALUE, cuMemGetAllocationGranularity(&granule, &prop, 2));
    STATE("option -1");
    GIVES(INVALID_VALUE, cuMemGetAllocationGranularity(&granule, &prop, -1));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemGetAllocationGranularity(NULL, &prop, 0));
    STATE("no properties");
    GIVES(INVALID_VALUE, cuMemGetAllocationGranularity(&granule, NULL, 0));
    HOLDS(granule == 0, "the granularity is untouched");
}

CASE_BODY(create_size)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "0", 0, &prop, 0);
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "64 KiB", 64 * KIB, &prop, 0);
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "2 MiB and 64 KiB", 2 * MIB + 64 * KIB, &prop, 0);
    refuse(TN_CUDA_ERROR_OUT_OF_MEMORY, "10 TiB", 10 * TIB, &prop, 0);
}

CASE_BODY(create_arguments)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "flags", 2 * MIB, &prop, 1);
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "no properties", 2 * MIB, NULL, 0);
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemCreate(NULL, 2 * MIB, &prop, 0));
}

CASE_BODY(create_type)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    prop.type = 0;
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "no type", 2 * MIB, &prop, 0);
    prop.type = TN_CU_MEM_ALLOCATION_TYPE_MANAGED;
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "managed", 2 * MIB, &prop, 0);
    prop.type = 3;
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "type 3", 2 * MIB, &prop, 0);
}

CASE_BODY(create_location)
{
    tn_cu_allocation_prop prop = on_host(0, 0);
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "no location", 2 * MIB, &prop, 0);
    prop = on_host(9, 0);
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "location 9", 2 * MIB, &prop, 0);
    prop = contract_prop(99);
    refuse(TN_CUDA_ERROR_INVALID_DEVICE, "device 99", 2 * MIB, &prop, 0);
    prop = contract_prop(-1);
    refuse(TN_CUDA_ERROR_INVALID_DEVICE, "device -1", 2 * MIB, &prop, 0);
}

CASE_BODY(create_node)
{
    tn_cu_allocation_prop prop = on_host(TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, 99);
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "node 99", 2 * MIB, &prop, 0);
    prop = on_host(TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, -1);
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "node -1", 2 * MIB, &prop, 0);
}

CASE_BODY(create_handle_type)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_WIN32;
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "win32", 2 * MIB, &prop, 0);
    prop.requested_handle_types = 4;
    refuse(TN_CUDA_ERROR_INVALID_VALUE, "the other of win32", 2 * MIB, &prop, 0);
    STATE("type 64, which is unknown");
    prop.requested_handle_types = 64;
    tn_cu_memhandle handle = 0;
    if (GIVES(SUCCESS, cuMemCreate(&handle, 2 * MIB, &prop, 0)) == TN_CUDA_SUCCESS)
        SET_UP(cuMemRelease(handle));
}

CASE_BODY(create_reserved)
{
    static const tn_cu_result answers[] = {TN_CUDA_ERROR_INVALID_VALUE, TN_CUDA_ERROR_INVALID_VALUE,
                                           TN_CUDA_ERROR_INVALID_VALUE, TN_CUDA_SUCCESS};
    for (size_t i = 0; i < 4; i++) {
        tn_cu_allocation_prop prop = contract_prop(0);
        tn_cu_memhandle handle = 0;
        STATE("byte %zu", i);
        prop.alloc_flags.reserved[i] = 1;
        if (contract_gives(answers[i], "cuMemCreate(",
                           cu.cuMemCreate(&handle, 2 * MIB, &prop, 0)) == TN_CUDA_SUCCESS)
            SET_UP(cuMemRelease(handle));
    }
}

/* Machine-specific: this machine has no channel to other nodes. */
CASE_BODY(create_fabric)
{
    int supported = 0;
    tn_cu_allocation_prop prop = contract_prop(0);
    GIVES(SUCCESS, cuDeviceGetAttribute(&supported, TN_CU_ATTR_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
    HOLDS(supported == 1, "the attribute says that it is supported");
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_FABRIC;
    refuse(TN_CUDA_ERROR_NOT_PERMITTED, "fabric", 2 * MIB, &prop, 0);
    prop.requested_handle_types |= TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    refuse(TN_CUDA_ERROR_NOT_PERMITTED, "fabric, or a file descriptor", 2 * MIB, &prop, 0);
}

CASE_BODY(costs)
{
    static const size_t sizes[] = {2 * MIB, 4 * MIB, 20 * MIB, 64 * MIB, 256 * MIB};
    tn_cu_allocation_prop prop = contract_prop(0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tn_cu_memhandle handle;
        STATE("%zu MiB", sizes[i] / MIB);
        size_t before = contract_free_bytes();
        GIVES(SUCCESS, cuMemCreate(&handle, sizes[i], &prop, 0));
        HOLDS(before - contract_free_bytes() == sizes[i], "it costs its size at once");
        GIVES(SUCCESS, cuMemRelease(handle));
        HOLDS(before == contract_free_bytes(), "all comes back");
    }
}

CASE_BODY(costs_flags)
{
    tn_cu_allocation_prop props[3] = {contract_prop(0), contract_prop(0), contract_prop(0)};
    static const char *const names[] = {"to be exported", "for RDMA", "compressible"};
    props[0].requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    props[1].alloc_flags.gpu_direct_rdma_capable = 1;
    props[2].alloc_flags.compression_type = 1;
    for (size_t i = 0; i < 3; i++) {
        tn_cu_memhandle handle;
        STATE("%s", names[i]);
        size_t before = contract_free_bytes();
        GIVES(SUCCESS, cuMemCreate(&handle, 8 * MIB, &props[i], 0));
        HOLDS(before - contract_free_bytes() == 8 * MIB, "it costs its size");
        GIVES(SUCCESS, cuMemRelease(handle));
        HOLDS(before == contract_free_bytes(), "all comes back");
    }
}

CASE_BODY(costs_host)
{
    tn_cu_allocation_prop props[2] = {on_host(TN_CU_MEM_LOCATION_TYPE_HOST, 0),
                                      on_host(TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, 0)};
    for (size_t i = 0; i < 2; i++) {
        tn_cu_memhandle handle;
        STATE("%s", i == 0 ? "of the host" : "of a NUMA node");
        size_t before = contract_free_bytes();
        GIVES(SUCCESS, cuMemCreate(&handle, 8 * MIB, &props[i], 0));
        HOLDS(before == contract_free_bytes(), "it costs no device memory");
        GIVES(SUCCESS, cuMemRelease(handle));
        HOLDS(before == contract_free_bytes(), "nor does the release give any");
    }
}

/* Memory goes with the last of its references and mappings. */
CASE_BODY(life)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_memhandle handle;
    tn_cu_deviceptr address;
    size_t before = contract_free_bytes();
    GIVES(SUCCESS, cuMemCreate(&handle, 64 * MIB, &prop, 0));
    HOLDS(before - contract_free_bytes() == 64 * MIB, "64 MiB less");
    size_t taken = contract_free_bytes();
    GIVES(SUCCESS, cuMemAddressReserve(&address, 128 * MIB, 0, 0, 0));
    GIVES(SUCCESS, cuMemMap(address, 64 * MIB, 0, handle, 0));
    GIVES(SUCCESS, cuMemMap(address + 64 * MIB, 64 * MIB, 0, handle, 0));
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   contract_access(address, 128 * MIB, TN_CU_MEM_ACCESS_READWRITE));
    HOLDS(taken == contract_free_bytes(), "reserving, mapping and access cost nothing");
    GIVES(SUCCESS, cuMemRelease(handle));
    HOLDS(taken == contract_free_bytes(), "the release gives nothing back");
    GIVES(SUCCESS, cuMemUnmap(address, 64 * MIB));
    HOLDS(taken == contract_free_bytes(), "nor does the first unmapping");
    GIVES(SUCCESS, cuMemUnmap(address + 64 * MIB, 64 * MIB));
    HOLDS(before == contract_free_bytes(), "the last unmapping gives all back");
    GIVES(SUCCESS, cuMemAddressFree(address, 128 * MIB));
}

CASE_BODY(life_unmapped_first)
{
    size_t before = contract_free_bytes();
    struct contract_mapped mapped = contract_map(8 * MIB);
    size_t taken = contract_free_bytes();
    GIVES(SUCCESS, cuMemUnmap(mapped.address, mapped.bytes));
    HOLDS(taken == contract_free_bytes(), "unmapping gives nothing back");
    GIVES(SUCCESS, cuMemRelease(mapped.handle));
    HOLDS(before == contract_free_bytes(), "the release gives all back");
    SET_UP(cuMemAddressFree(mapped.address, mapped.bytes));
}

CASE_BODY(release_refused)
{
    tn_cu_memhandle handle;
    STATE("handle 0");
    GIVES(INVALID_VALUE, cuMemRelease(0));
    handle = contract_handle(2 * MIB);
    GIVES(SUCCESS, cuMemRelease(handle));
    STATE("twice");
    GIVES(INVALID_VALUE, cuMemRelease(handle));
}

CASE_BODY(release_mapped_twice)
{
    struct contract_mapped mapped = contract_map(2 * MIB);
    GIVES(SUCCESS, cuMemRelease(mapped.handle));
    STATE("again, while it is mapped");
    GIVES(INVALID_VALUE, cuMemRelease(mapped.handle));
    GIVES(SUCCESS, cuMemsetD8(mapped.address, 1, mapped.bytes));
    SET_UP(cuCtxSynchronize());
    SET_UP(cuMemUnmap(mapped.address, mapped.bytes));
    SET_UP(cuMemAddressFree(mapped.address, mapped.bytes));
}

CASE_BODY(recycled)
{
    tn_cu_memhandle first = contract_handle(2 * MIB);
    SET_UP(cuMemRelease(first));
    tn_cu_memhandle second = contract_handle(2 * MIB);
    HOLDS(second == first, "the next handle has the value of the released one");
    GIVES(SUCCESS, cuMemRelease(first));
    GIVES(INVALID_VALUE, cuMemRelease(second));
}

/* Shows that what was asked for can be read back. */
static void read_back(const char *what, const tn_cu_allocation_prop *asked)
{
    tn_cu_memhandle handle;
    tn_cu_allocation_prop prop;
    memset(&prop, 0x55, sizeof prop);
    STATE("%s", what);
    SET_UP(cuMemCreate(&handle, 2 * MIB, asked, 0));
    GIVES(SUCCESS, cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    HOLDS(prop.type == asked->type, "the type");
    HOLDS(prop.requested_handle_types == asked->requested_handle_types, "the handle types");
    STATE("location %d of type %d", prop.location.id, prop.location.type);
    HOLDS(prop.alloc_flags.compression_type == asked->alloc_flags.compression_type,
          "the compression");
    HOLDS(prop.alloc_flags.gpu_direct_rdma_capable == asked->alloc_flags.gpu_direct_rdma_capable,
          "whether it is for RDMA");
    HOLDS(prop.win32_metadata == NULL && prop.alloc_flags.usage == 0, "nothing else");
    SET_UP(cuMemRelease(handle));
}

CASE_BODY(properties)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    read_back("of a device", &prop);
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    read_back("to be exported", &prop);
    prop.alloc_flags.gpu_direct_rdma_capable = 1;
    read_back("for RDMA too", &prop);
}

CASE_BODY(properties_compressible)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    prop.alloc_flags.compression_type = 1;
    read_back("compressible", &prop);
}

CASE_BODY(properties_host)
{
    tn_cu_allocation_prop prop = on_host(TN_CU_MEM_LOCATION_TYPE_HOST, 0);
    read_back("of the host", &prop);
    prop = on_host(TN_CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    read_back("of a NUMA node", &prop);
}

CASE_BODY(properties_refused)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_memhandle handle;
    SET_UP(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    STATE("nowhere to put them");
    GIVES(INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(NULL, handle));
    STATE("handle 0");
    GIVES(INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(&prop, 0));
    SET_UP(cuMemRelease(handle));
}

/* The device's memory, and no more, can be had. */
CASE_BODY(all_memory)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_memhandle handle = UNTOUCHED;
    size_t total;
    size_t before;
    SET_UP(cuMemGetInfo(&before, &total));
    STATE("as much as there is in all");
    GIVES(OUT_OF_MEMORY, cuMemCreate(&handle, (total + 2 * MIB) / (2 * MIB) * (2 * MIB), &prop, 0));
    HOLDS(handle == UNTOUCHED && before == contract_free_bytes(), "nothing is taken");
}

static const struct contract_case cases[] = {
    CASE("granularity", "Memory of every kind comes in multiples of 2 MiB.", granularity),
    CASE("granularity-unchecked", "The question for the granularity checks no property.",
         granularity_unchecked),
    CASE("granularity-refused", "An unknown option, or a missing argument, is refused.",
         granularity_refused),
    CASE("create-size", "A size off the granularity is refused; too much memory is not there.",
         create_size),
    CASE("create-arguments", "Flags, and missing arguments, are refused.", create_arguments),
    CASE("create-type", "Only pinned memory is made.", create_type),
    CASE("create-location", "A place that does not exist is refused.", create_location),
    CASE("create-node", "A NUMA node that does not exist is refused.", create_node),
    CASE("create-handle-type", "Handle types of other systems are refused.", create_handle_type),
    CASE("create-reserved", "The reserved bytes but the last must be 0.", create_reserved),
    CASE("create-fabric", "Memory for other nodes is not permitted without a channel to them.",
         create_fabric),
    CASE("costs", "Memory costs its size, to the byte, as long as it lives.", costs),
    CASE("costs-flags", "What it is to be used for changes nothing of that.", costs_flags),
    CASE("costs-host", "Memory of the host costs nothing of the device.", costs_host),
    CASE("life", "Memory that was released lives until it is unmapped everywhere.", life),
    CASE("life-unmapped-first", "Memory that was unmapped lives until it is released.",
         life_unmapped_first),
    CASE("release-refused", "A handle is released once.", release_refused),
    CASE("release-mapped-twice", "The mapping is no reference that could be released.",
         release_mapped_twice),
    CASE("recycled", "A released handle's value is given out again.", recycled),
    CASE("properties", "What was asked for can be read back.", properties),
    CASE("properties-compressible", "Compression can be had.", properties_compressible),
    CASE("properties-host", "What was asked for can be read back of host memory.", properties_host),
    CASE("properties-refused", "Properties of nothing, or to nowhere, are refused.",
         properties_refused),
    CASE("all-memory", "More than the device has is not there.", all_memory),
};
const struct contract_group contract_physical = CONTRACT_GROUP("physical", START_CONTEXT, cases);
