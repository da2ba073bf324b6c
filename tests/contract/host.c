// SPDX-License-Identifier: Apache-2.0
/* host.c -- memory of the host, mapped at addresses: who may access it, and that work on the device
 * and the process see the same bytes.
 *
 * Machine-specific: it needs a machine whose host memory can be mapped, with a NUMA node 0. */
#include <string.h>

#include "contract/contract.h"

#define BYTES (2 * MIB)
#define DEVICE TN_CU_MEM_LOCATION_TYPE_DEVICE
#define HOST TN_CU_MEM_LOCATION_TYPE_HOST
#define NODE TN_CU_MEM_LOCATION_TYPE_HOST_NUMA

/* Maps host memory without access. */
static struct contract_mapped map_host(int location)
{
    struct contract_mapped mapped = {.bytes = BYTES};
    tn_cu_allocation_prop prop = contract_prop(0);
    prop.location.type = location;
    SET_UP(cuMemAddressReserve(&mapped.address, BYTES, 0, 0, 0));
    SET_UP(cuMemCreate(&mapped.handle, BYTES, &prop, 0));
    SET_UP(cuMemMap(mapped.address, BYTES, 0, mapped.handle, 0));
    return mapped;
}

static void access_gives(tn_cu_result expected, struct contract_mapped mapped, int location, int id,
                         int flags)
{
    const tn_cu_access_desc desc = {.location = {.type = location, .id = id}, .flags = flags};
    contract_gives(expected, "cuMemSetAccess(",
                   cu.cuMemSetAccess(mapped.address, mapped.bytes, &desc, 1));
}

/* Shows the rights of the device, the host and the node. */
static void rights_are(struct contract_mapped mapped, unsigned long long device,
                       unsigned long long host, unsigned long long node)
{
    const unsigned long long expected[] = {device, host, node};
    const int types[] = {DEVICE, HOST, NODE};
    unsigned long long got[3] = {99, 99, 99};
    for (int i = 0; i < 3; i++) {
        const tn_cu_location location = {.type = types[i], .id = 0};
        GIVES(SUCCESS, cuMemGetAccess(&got[i], &location, mapped.address));
    }
    HOLDS(memcmp(got, expected, sizeof got) == 0, "rights %llu, %llu and %llu", got[0], got[1],
          got[2]);
}

static void rights(const void *argument)
{
    struct contract_mapped mapped = map_host(*(const int *)argument);
    rights_are(mapped, 0, 0, 0);
    STATE("for the host");
    access_gives(TN_CUDA_SUCCESS, mapped, HOST, 0, 3);
    rights_are(mapped, 0, 3, 3);
    STATE("taken away from the node");
    access_gives(TN_CUDA_SUCCESS, mapped, NODE, 0, 0);
    rights_are(mapped, 0, 0, 0);
    STATE("for the node, to read");
    access_gives(TN_CUDA_SUCCESS, mapped, NODE, 0, 1);
    rights_are(mapped, 0, 1, 1);
    STATE("for the device too");
    access_gives(TN_CUDA_SUCCESS, mapped, DEVICE, 0, 3);
    rights_are(mapped, 3, 3, 1);
    STATE("for node 1, which is not there");
    access_gives(TN_CUDA_SUCCESS, mapped, NODE, 1, 3);
    rights_are(mapped, 3, 3, 3);
    STATE("for location 4");
    access_gives(TN_CUDA_ERROR_INVALID_VALUE, mapped, 4, 0, 3);
    contract_unmap(mapped);
}

static void no_device_access(const void *argument)
{
    struct contract_mapped mapped = map_host(*(const int *)argument);
    tn_cu_deviceptr base = 7;
    size_t bytes = 7;
    access_gives(TN_CUDA_SUCCESS, mapped, NODE, 0, 3);
    GIVES(INVALID_VALUE, cuMemsetD8(mapped.address, 1, 64));
    GIVES(NOT_FOUND, cuMemGetAddressRange(&base, &bytes, mapped.address));
    access_gives(TN_CUDA_SUCCESS, mapped, DEVICE, 0, 3);
    GIVES(SUCCESS, cuMemsetD8(mapped.address, 1, 64));
    STATE("of the range there is a size, but no start");
    GIVES(SUCCESS, cuMemGetAddressRange(&base, &bytes, mapped.address));
    HOLDS(base == 0 && bytes == BYTES, "2 MiB from 0");
    GIVES(SUCCESS, cuCtxSynchronize());
    contract_unmap(mapped);
}

static void both_see(const void *argument)
{
    struct contract_mapped mapped = map_host(*(const int *)argument);
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    volatile uint32_t *words = (volatile uint32_t *)mapped.address;
    access_gives(TN_CUDA_SUCCESS, mapped, NODE, 0, 3);
    access_gives(TN_CUDA_SUCCESS, mapped, DEVICE, 0, 3);
    words[0] = 5;
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(", contract_add(stream, mapped.address, 2));
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(",
                   contract_fill(stream, mapped.address + 64, 9, 16));
    GIVES(SUCCESS, cuMemcpyDtoDAsync(mapped.address + 4096, mapped.address, 4096, stream));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    HOLDS(words[0] == 7 && words[16] == 9, "the process sees what kernels wrote");
    HOLDS(words[1024] == 7, "and what was copied");
    SET_UP(cuStreamDestroy(stream));
    contract_unmap(mapped);
}

/* A graph over device memory, then over host memory at the same address. */
CASE_BODY(under_graph)
{
    struct contract_mapped mapped = contract_map(BYTES);
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_memhandle host;
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    uint32_t word = 0;
    contract_kernels();
    SET_UP(cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL));
    SET_UP(cuMemsetD32Async(mapped.address, 3, 1024, stream));
    contract_set_up("cuLaunchKernel(", contract_add(stream, mapped.address, 1), __FILE__, __LINE__);
    SET_UP(cuMemcpyDtoDAsync(mapped.address + 4096, mapped.address, 4096, stream));
    SET_UP(cuStreamEndCapture(stream, &graph));
    SET_UP(cuGraphInstantiateWithFlags(&exec, graph, 0));
    SET_UP(cuGraphLaunch(exec, stream));
    SET_UP(cuStreamSynchronize(stream));
    prop.location.type = NODE;
    SET_UP(cuMemCreate(&host, BYTES, &prop, 0));
    GIVES(SUCCESS, cuMemUnmap(mapped.address, BYTES));
    SET_UP(cuMemRelease(mapped.handle));
    GIVES(SUCCESS, cuMemMap(mapped.address, BYTES, 0, host, 0));
    mapped.handle = host;
    access_gives(TN_CUDA_SUCCESS, mapped, DEVICE, 0, 3);
    GIVES(SUCCESS, cuGraphLaunch(exec, stream));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    GIVES(SUCCESS, cuMemcpyDtoH(&word, mapped.address + 4096, 4));
    HOLDS(word == 4, "the graph is right");
    access_gives(TN_CUDA_SUCCESS, mapped, NODE, 0, 3);
    volatile uint32_t *words = (volatile uint32_t *)mapped.address;
    HOLDS(words[0] == 4 && words[1023] == 3 && words[1024] == 4,
          "the process reads the same address");
    SET_UP(cuGraphExecDestroy(exec));
    SET_UP(cuGraphDestroy(graph));
    SET_UP(cuStreamDestroy(stream));
    contract_unmap(mapped);
}

/* A handle is found from the address as with device memory; buffers are not made of it. */
static void handles(const void *argument)
{
    struct contract_mapped mapped = map_host(*(const int *)argument);
    tn_cu_memhandle retained = 0;
    int fd = -7;
    access_gives(TN_CUDA_SUCCESS, mapped, DEVICE, 0, 3);
    GIVES(SUCCESS, cuMemRetainAllocationHandle(&retained, (void *)mapped.address));
    HOLDS(retained == mapped.handle, "the handle that was mapped");
    SET_UP(cuMemRelease(retained));
    GIVES(INVALID_VALUE, cuMemGetHandleForAddressRange(&fd, mapped.address, BYTES,
                                                       TN_CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    contract_unmap(mapped);
}

CASE_BODY(exported)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_memhandle handle = 0;
    tn_cu_memhandle imported = 0;
    int fd = -7;
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    STATE("of the host");
    prop.location.type = HOST;
    GIVES(INVALID_VALUE, cuMemCreate(&handle, BYTES, &prop, 0));
    STATE("of a node");
    prop.location.type = NODE;
    GIVES(SUCCESS, cuMemCreate(&handle, BYTES, &prop, 0));
    GIVES(SUCCESS, cuMemExportToShareableHandle(&fd, handle, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    GIVES(SUCCESS, cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                                  TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    GIVES(SUCCESS, cuMemGetAllocationPropertiesFromHandle(&prop, imported));
    HOLDS(prop.location.type == NODE && prop.location.id == 0 && prop.requested_handle_types == 0,
          "it is the node's");
    SET_UP(cuMemRelease(imported));
    SET_UP(cuMemRelease(handle));
}

static const int of_host = HOST;
static const int of_node = NODE;

static const struct contract_case cases[] = {
    CASE_OF("rights", "The host and its nodes have one right to the host's memory.", rights,
            &of_host),
    CASE_OF("rights-node", "They have one right to a node's memory.", rights, &of_node),
    CASE_OF("no-device-access", "The device needs a right of its own.", no_device_access, &of_host),
    CASE_OF("no-device-access-node", "The device needs a right of its own to a node's memory.",
            no_device_access, &of_node),
    CASE_OF("both-see", "The process and kernels see the same bytes.", both_see, &of_host),
    CASE_OF("both-see-node", "They see the same bytes of a node's memory.", both_see, &of_node),
    CASE("under-graph", "A graph runs right when its memory is moved to the host.", under_graph),
    CASE_OF("handles", "Its handle is found from the address.", handles, &of_host),
    CASE_OF("handles-node", "A node's handle is found from the address.", handles, &of_node),
    CASE("exported", "A node's memory can be exported, the host's cannot.", exported),
};
const struct contract_group contract_host = CONTRACT_GROUP("host", START_CONTEXT, cases);
