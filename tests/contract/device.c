// SPDX-License-Identifier: Apache-2.0
/* device.c -- devices and what can be asked of them, without a context.
 *
 * The values of the attributes are those of one H200 in a machine with one GPU. */
#include <string.h>

#include "contract/contract.h"

CASE_BODY(init)
{
    STATE("again");
    GIVES(SUCCESS, cuInit(0));
    STATE("with flags");
    GIVES(INVALID_VALUE, cuInit(1));
}

CASE_BODY(version)
{
    int version = 0;
    GIVES(SUCCESS, cuDriverGetVersion(&version));
    HOLDS(version >= 12040, "the version is 12.4 or later");
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuDriverGetVersion(NULL));
}

CASE_BODY(count)
{
    int count = 0;
    GIVES(SUCCESS, cuDeviceGetCount(&count));
    HOLDS(count >= 1, "at least one");
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuDeviceGetCount(NULL));
}

CASE_BODY(get)
{
    tn_cu_device device = 7;
    GIVES(SUCCESS, cuDeviceGet(&device, 0));
    HOLDS(device == 0, "device 0");
    device = 7;
    STATE("ordinal 99");
    GIVES(INVALID_DEVICE, cuDeviceGet(&device, 99));
    STATE("ordinal -1");
    GIVES(INVALID_DEVICE, cuDeviceGet(&device, -1));
    HOLDS(device == 7, "the device is untouched");
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuDeviceGet(NULL, 0));
}

CASE_BODY(name)
{
    char full[256] = "";
    char part[5] = "????";
    GIVES(SUCCESS, cuDeviceGetName(full, sizeof full, 0));
    HOLDS(strlen(full) > 4, "a name");
    GIVES(SUCCESS, cuDeviceGetName(part, sizeof part, 0));
    HOLDS(strlen(part) == 4 && strncmp(full, part, 4) == 0, "cut to what there is room for");
    STATE("device 99");
    GIVES(INVALID_DEVICE, cuDeviceGetName(full, sizeof full, 99));
}

CASE_BODY(memory)
{
    size_t bytes = 0;
    GIVES(SUCCESS, cuDeviceTotalMem(&bytes, 0));
    HOLDS(bytes > 0, "some memory");
    STATE("device 99");
    GIVES(INVALID_DEVICE, cuDeviceTotalMem(&bytes, 99));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuDeviceTotalMem(NULL, 0));
}

CASE_BODY(uuid)
{
    static const tn_cu_uuid none = {{0}};
    tn_cu_uuid first = none;
    tn_cu_uuid second = none;
    GIVES(SUCCESS, cuDeviceGetUuid(&first, 0));
    GIVES(SUCCESS, cuDeviceGetUuid(&second, 0));
    HOLDS(memcmp(&first, &none, sizeof none) != 0, "it is not 0");
    HOLDS(memcmp(&first, &second, sizeof first) == 0, "it stays");
    STATE("device 99");
    GIVES(INVALID_DEVICE, cuDeviceGetUuid(&first, 99));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuDeviceGetUuid(NULL, 0));
}

static const struct {
    tn_cu_device_attribute attribute;
    const char *name;
    int value;
} attributes[] = {
    {TN_CU_ATTR_MAX_THREADS_PER_BLOCK, "threads of a block", 1024},
    {TN_CU_ATTR_WARP_SIZE, "threads of a warp", 32},
    {TN_CU_ATTR_MULTIPROCESSOR_COUNT, "multiprocessors", 132},
    {TN_CU_ATTR_UNIFIED_ADDRESSING, "one address space", 1},
    {TN_CU_ATTR_COMPUTE_CAPABILITY_MAJOR, "compute capability", 9},
    {TN_CU_ATTR_COMPUTE_CAPABILITY_MINOR, "and its minor", 0},
    {TN_CU_ATTR_PAGEABLE_MEMORY_ACCESS, "access to the process's memory", 0},
    {TN_CU_ATTR_HOST_REGISTER_SUPPORTED, "registering memory", 1},
    {TN_CU_ATTR_VMM_SUPPORTED, "virtual memory management", 1},
    {TN_CU_ATTR_HANDLE_TYPE_POSIX_FD_SUPPORTED, "file descriptors", 1},
    {TN_CU_ATTR_GENERIC_COMPRESSION_SUPPORTED, "compression", 1},
    {TN_CU_ATTR_GPU_DIRECT_RDMA_WITH_VMM_SUPPORTED, "RDMA", 1},
    {TN_CU_ATTR_MEMORY_POOLS_SUPPORTED, "memory pools", 1},
    {TN_CU_ATTR_MEMPOOL_HANDLE_TYPES, "handle types of pools", 9},
    {TN_CU_ATTR_DMA_BUF_SUPPORTED, "buffers for other devices", 1},
    {TN_CU_ATTR_IPC_EVENT_SUPPORTED, "interprocess events", 1},
    {TN_CU_ATTR_HANDLE_TYPE_FABRIC_SUPPORTED, "handles for other nodes", 1},
    {TN_CU_ATTR_HOST_NUMA_ID, "its NUMA node", 0},
    {TN_CU_ATTR_HOST_NUMA_VMM_SUPPORTED, "memory of NUMA nodes", 1},
    {TN_CU_ATTR_HOST_VMM_SUPPORTED, "memory of the host", 1},
};

/* Machine-specific: what an H200 alone in its machine says. */
CASE_BODY(attribute_values)
{
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        int value = -1;
        STATE("%s", attributes[i].name);
        GIVES(SUCCESS, cuDeviceGetAttribute(&value, attributes[i].attribute, 0));
        HOLDS(value == attributes[i].value, "%d", value);
    }
}

/* Attributes that name a machine's parts, or its place in a system (132, multicast, is 1 where GPUs are linked): shown
 * without their value. */
static bool differs_by_machine(int attribute)
{
    static const int such[] = {33,  34,  50,  85, 131,
                               132, 134, 139, 140}; /* PCI, group, nodes, identities */
    for (size_t i = 0; i < sizeof such / sizeof such[0]; i++) {
        if (such[i] == attribute)
            return true;
    }
    return false;
}

/* Every number up to a few behind the last that CUDA 13.0 knows; the recorded lines know the values. */
CASE_BODY(attribute_all)
{
    for (int i = 1; i <= 160; i++) {
        int value = -1;
        tn_cu_result result = cu.cuDeviceGetAttribute(&value, (tn_cu_device_attribute)i, 0);
        if (result != TN_CUDA_SUCCESS)
            STATE("%d %s%s", i, contract_result_name(result), value == -1 ? "" : " and a value");
        else if (differs_by_machine(i))
            STATE("%d there", i);
        else
            STATE("%d=%d", i, value);
    }
}

/* Which of several mistakes is found first. */
CASE_BODY(attribute_mistakes)
{
    int value = -1;
    STATE("attribute 0 of device 99");
    SHOWS(cuDeviceGetAttribute(&value, (tn_cu_device_attribute)0, 99));
    STATE("attribute -1");
    SHOWS(cuDeviceGetAttribute(&value, (tn_cu_device_attribute)-1, 0));
    STATE("device -1");
    SHOWS(cuDeviceGetAttribute(&value, TN_CU_ATTR_WARP_SIZE, -1));
    STATE("nowhere to put attribute 0");
    SHOWS(cuDeviceGetAttribute(NULL, (tn_cu_device_attribute)0, 0));
    STATE("nowhere to put one of device 99");
    SHOWS(cuDeviceGetAttribute(NULL, TN_CU_ATTR_WARP_SIZE, 99));
    HOLDS(value == -1, "the value is untouched");
}

CASE_BODY(attribute_refused)
{
    int value = -1;
    STATE("attribute 0");
    GIVES(INVALID_VALUE, cuDeviceGetAttribute(&value, (tn_cu_device_attribute)0, 0));
    STATE("attribute 9999");
    GIVES(INVALID_VALUE, cuDeviceGetAttribute(&value, (tn_cu_device_attribute)9999, 0));
    STATE("device 99");
    GIVES(INVALID_DEVICE, cuDeviceGetAttribute(&value, TN_CU_ATTR_WARP_SIZE, 99));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuDeviceGetAttribute(NULL, TN_CU_ATTR_WARP_SIZE, 0));
    HOLDS(value == -1, "the value is untouched");
}

CASE_BODY(peer)
{
    int can = 7;
    GIVES(SUCCESS, cuDeviceCanAccessPeer(&can, 0, 0));
    HOLDS(can == 0, "a device is no peer of itself");
    STATE("device 99");
    GIVES(INVALID_DEVICE, cuDeviceCanAccessPeer(&can, 0, 99));
    GIVES(INVALID_DEVICE, cuDeviceCanAccessPeer(&can, 99, 0));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuDeviceCanAccessPeer(NULL, 0, 0));
}

CASE_BODY(errors)
{
    const char *text = NULL;
    GIVES(SUCCESS, cuGetErrorName(TN_CUDA_ERROR_INVALID_VALUE, &text));
    HOLDS(strcmp(text, "CUDA_ERROR_INVALID_VALUE") == 0, "CUDA_ERROR_INVALID_VALUE");
    GIVES(SUCCESS, cuGetErrorString(TN_CUDA_ERROR_INVALID_VALUE, &text));
    HOLDS(strcmp(text, "invalid argument") == 0, "invalid argument");
    STATE("number 12345");
    GIVES(INVALID_VALUE, cuGetErrorName((tn_cu_result)12345, &text));
    HOLDS(text == NULL, "NULL");
    text = "";
    GIVES(INVALID_VALUE, cuGetErrorString((tn_cu_result)12345, &text));
    HOLDS(text == NULL, "NULL");
}

/* The sentences are shown, and so compared with those that were recorded. */
CASE_BODY(error_strings)
{
#define RESULT_ROW(name, number) TN_CUDA_##name,
    static const tn_cu_result results[] = { TN_CUDA_RESULTS(RESULT_ROW) };
#undef RESULT_ROW
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        const char *text = NULL;
        if (cu.cuGetErrorString(results[i], &text) != TN_CUDA_SUCCESS || text == NULL)
            text = "nothing";
        STATE("%d %s", (int)results[i], text);
    }
}

/* Every result that there is a name for. */
CASE_BODY(error_names)
{
#define NAME_ROW(name, number) {TN_CUDA_##name, "CUDA_" #name},
    static const struct {
        tn_cu_result result;
        const char *name;
    } rows[] = { TN_CUDA_RESULTS(NAME_ROW) };
#undef NAME_ROW
    size_t known = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *text = NULL;
        if (cu.cuGetErrorName(rows[i].result, &text) == TN_CUDA_SUCCESS && text != NULL &&
            strcmp(text, rows[i].name) == 0)
            known++;
        else
            HOLDS(false, "%s is called %s", rows[i].name, text == NULL ? "nothing" : text);
    }
    HOLDS(known == sizeof rows / sizeof rows[0], "all have their names");
}

static const struct contract_case cases[] = {
    CASE("init", "The driver is begun once, without flags.", init),
    CASE("version", "The driver says its version.", version),
    CASE("count", "There is a device.", count),
    CASE("get", "Devices are numbered from 0.", get),
    CASE("name", "A device has a name.", name),
    CASE("memory", "A device has memory.", memory),
    CASE("uuid", "A device has a number of its own.", uuid),
    CASE("attributes", "What a device can do.", attribute_values),
    CASE("attributes-all", "Every attribute that there is has a value.", attribute_all),
    CASE("attribute-mistakes", "Of several mistakes one is found first.", attribute_mistakes),
    CASE("attribute-refused", "Attributes that do not exist are refused.", attribute_refused),
    CASE("peer", "Two devices may be peers.", peer),
    CASE("errors", "Results have names and sentences; other numbers have none.", errors),
    CASE("error-strings", "Every result has its sentence.", error_strings),
    CASE("error-names", "Every result has its name.", error_names),
};
const struct contract_group contract_device = CONTRACT_GROUP("device", START_INIT, cases);
