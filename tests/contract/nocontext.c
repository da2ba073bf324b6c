// SPDX-License-Identifier: Apache-2.0
/* nocontext.c -- which calls need a current context, and which do not.
 *
 * Each table is one kind of call; the calls of a table run with no context current, while the
 * primary context and what belongs to it live. */
#include <string.h>

#include "contract/contract.h"

/* Things of the primary context, which is not current. */
struct things {
    tn_cu_context context;
    tn_cu_stream stream;
    tn_cu_event event;
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    tn_cu_mempool pool;
    tn_cu_deviceptr linear;
    tn_cu_deviceptr ordered;
    void *host;
    struct contract_mapped mapped;
};

static struct things things_make(void)
{
    struct things things;
    tn_cu_pool_props props;
    memset(&things, 0, sizeof things);
    memset(&props, 0, sizeof props);
    props.type = TN_CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = TN_CU_MEM_LOCATION_TYPE_DEVICE;
    SET_UP(cuDevicePrimaryCtxRetain(&things.context, 0));
    SET_UP(cuCtxSetCurrent(things.context));
    things.stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    things.event = contract_event();
    SET_UP(cuMemAlloc(&things.linear, 4096));
    SET_UP(cuMemHostAlloc(&things.host, 4096, 0));
    SET_UP(cuMemPoolCreate(&things.pool, &props));
    SET_UP(cuMemAllocFromPoolAsync(&things.ordered, 4096, things.pool, things.stream));
    SET_UP(cuStreamBeginCapture(things.stream, TN_CU_CAPTURE_MODE_RELAXED));
    SET_UP(cuMemsetD8Async(things.linear, 1, 16, things.stream));
    SET_UP(cuStreamEndCapture(things.stream, &things.graph));
    SET_UP(cuGraphInstantiateWithFlags(&things.exec, things.graph, 0));
    things.mapped = contract_map(2 * MIB);
    SET_UP(cuStreamSynchronize(things.stream));
    SET_UP(cuCtxSetCurrent(NULL));
    return things;
}

static void things_end(struct things *things)
{
    SET_UP(cuCtxSetCurrent(things->context));
    contract_unmap(things->mapped);
    SET_UP(cuGraphExecDestroy(things->exec));
    SET_UP(cuGraphDestroy(things->graph));
    SET_UP(cuMemFreeAsync(things->ordered, things->stream));
    SET_UP(cuStreamSynchronize(things->stream));
    SET_UP(cuMemPoolDestroy(things->pool));
    SET_UP(cuMemFreeHost(things->host));
    SET_UP(cuMemFree(things->linear));
    SET_UP(cuEventDestroy(things->event));
    SET_UP(cuStreamDestroy(things->stream));
    SET_UP(cuCtxSetCurrent(NULL));
    SET_UP(cuDevicePrimaryCtxRelease(0));
}

static void host_function(void *user)
{
    (void)user;
}

CASE_BODY(mapping_calls)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    const tn_cu_location device = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE};
    tn_cu_deviceptr address;
    tn_cu_memhandle handle;
    unsigned long long rights;
    uint64_t value;
    unsigned int flags;
    int is_active = 7;
    tn_cu_memhandle retained;
    GIVES(SUCCESS, cuMemAddressReserve(&address, 64 * MIB, 0, 0, 0));
    GIVES(SUCCESS, cuMemCreate(&handle, 2 * MIB, &prop, 0));
    GIVES(SUCCESS, cuMemMap(address, 2 * MIB, 0, handle, 0));
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(", contract_access(address, 2 * MIB, 3));
    GIVES(SUCCESS, cuMemGetAccess(&rights, &device, address));
    GIVES(SUCCESS, cuPointerGetAttribute(&value, TN_CU_POINTER_MAPPED, address));
    GIVES(SUCCESS, cuMemRetainAllocationHandle(&retained, (void *)address));
    GIVES(SUCCESS, cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    GIVES(SUCCESS, cuMemRelease(retained));
    GIVES(SUCCESS, cuMemUnmap(address, 2 * MIB));
    GIVES(SUCCESS, cuMemRelease(handle));
    GIVES(SUCCESS, cuMemAddressFree(address, 64 * MIB));
    SET_UP(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    HOLDS(is_active == 0, "the primary context is inactive");
}

CASE_BODY(other_calls)
{
    tn_cu_graph graph;
    tn_cu_graph clone;
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
    tn_cu_mempool pool;
    uint64_t value;
    GIVES(SUCCESS, cuGraphCreate(&graph, 0));
    GIVES(SUCCESS, cuGraphClone(&clone, graph));
    GIVES(SUCCESS, cuGraphDestroy(clone));
    GIVES(SUCCESS, cuGraphDestroy(graph));
    GIVES(SUCCESS, cuThreadExchangeStreamCaptureMode(&mode));
    GIVES(SUCCESS, cuThreadExchangeStreamCaptureMode(&mode));
    GIVES(SUCCESS, cuDeviceGetDefaultMemPool(&pool, 0));
    GIVES(SUCCESS, cuDeviceGetMemPool(&pool, 0));
    GIVES(SUCCESS, cuMemPoolGetAttribute(pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD, &value));
    GIVES(SUCCESS, cuDeviceGetGraphMemAttribute(0, TN_CU_GRAPH_MEM_USED_CURRENT, &value));
    GIVES(SUCCESS, cuDeviceGraphMemTrim(0));
    GIVES(SUCCESS, cuMemFree(0));
}

CASE_BODY(making_calls)
{
    tn_cu_event event;
    tn_cu_stream stream;
    tn_cu_deviceptr address;
    tn_cu_device device;
    tn_cu_module module;
    tn_cu_library library;
    void *host;
    size_t bytes;
    static _Alignas(4096) char page[4096];
    GIVES(INVALID_CONTEXT, cuCtxGetDevice(&device));
    GIVES(INVALID_CONTEXT, cuCtxSynchronize());
    GIVES(INVALID_CONTEXT, cuMemGetInfo(&bytes, &bytes));
    GIVES(INVALID_CONTEXT, cuEventCreate(&event, 0));
    GIVES(INVALID_CONTEXT, cuStreamCreate(&stream, 0));
    GIVES(INVALID_CONTEXT, cuStreamCreateWithPriority(&stream, 0, 0));
    GIVES(INVALID_CONTEXT, cuMemAlloc(&address, 8));
    GIVES(INVALID_CONTEXT, cuMemHostAlloc(&host, 8, 0));
    GIVES(INVALID_CONTEXT, cuMemHostRegister(page, sizeof page, 0));
    GIVES(INVALID_CONTEXT, cuModuleLoadData(&module, ""));
    STATE("a library is looked at later");
    GIVES(SUCCESS, cuLibraryLoadData(&library, "", NULL, NULL, 0, NULL, NULL, 0));
    GIVES(SUCCESS, cuLibraryUnload(library));
}

CASE_BODY(stream_calls)
{
    struct things things = things_make();
    tn_cu_capture_status status;
    tn_cu_deviceptr address;
    STATE("the legacy stream");
    GIVES(INVALID_CONTEXT, cuStreamSynchronize(NULL));
    GIVES(INVALID_CONTEXT, cuStreamQuery(NULL));
    GIVES(INVALID_CONTEXT, cuStreamIsCapturing(NULL, &status));
    GIVES(INVALID_CONTEXT, cuMemsetD8Async(things.linear, 1, 8, NULL));
    GIVES(INVALID_CONTEXT, cuMemAllocAsync(&address, 8, NULL));
    GIVES(INVALID_CONTEXT, cuEventRecord(things.event, NULL));
    GIVES(INVALID_CONTEXT, cuLaunchHostFunc(NULL, host_function, NULL));
    GIVES(INVALID_CONTEXT, cuGraphLaunch(things.exec, NULL));
    STATE("the thread's stream");
    GIVES(INVALID_CONTEXT, cuStreamSynchronize(TN_CU_STREAM_PER_THREAD));
    GIVES(INVALID_CONTEXT, cuStreamQuery(TN_CU_STREAM_PER_THREAD));
    GIVES(INVALID_CONTEXT,
          cuStreamBeginCapture(TN_CU_STREAM_PER_THREAD, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(INVALID_CONTEXT, cuMemsetD8Async(things.linear, 1, 8, TN_CU_STREAM_PER_THREAD));
    things_end(&things);
}

CASE_BODY(stream_named)
{
    struct things things = things_make();
    tn_cu_deviceptr address = 0;
    tn_cu_graph graph = NULL;
    unsigned long long id;
    tn_cu_context context;
    GIVES(SUCCESS, cuGraphLaunch(things.exec, things.stream));
    GIVES(SUCCESS, cuStreamSynchronize(things.stream));
    GIVES(SUCCESS, cuStreamQuery(things.stream));
    GIVES(SUCCESS, cuStreamGetId(things.stream, &id));
    GIVES(SUCCESS, cuStreamGetCtx(things.stream, &context));
    GIVES(SUCCESS, cuMemsetD8Async(things.linear, 1, 8, things.stream));
    GIVES(SUCCESS, cuMemAllocAsync(&address, 8, things.stream));
    GIVES(SUCCESS, cuMemFreeAsync(address, things.stream));
    GIVES(SUCCESS, cuEventRecord(things.event, things.stream));
    GIVES(SUCCESS, cuStreamWaitEvent(things.stream, things.event, 0));
    GIVES(SUCCESS, cuLaunchHostFunc(things.stream, host_function, NULL));
    GIVES(SUCCESS, cuStreamSynchronize(things.stream));
    GIVES(SUCCESS, cuEventQuery(things.event));
    GIVES(SUCCESS, cuEventSynchronize(things.event));
    GIVES(SUCCESS, cuStreamBeginCapture(things.stream, TN_CU_CAPTURE_MODE_GLOBAL));
    GIVES(SUCCESS, cuStreamEndCapture(things.stream, &graph));
    SET_UP(cuGraphDestroy(graph));
    things_end(&things);
}

CASE_BODY(instantiate)
{
    struct things things = things_make();
    tn_cu_graphexec exec;
    GIVES(INVALID_CONTEXT, cuGraphInstantiateWithFlags(&exec, things.graph, 0));
    GIVES(SUCCESS, cuGraphUpload(things.exec, things.stream));
    SET_UP(cuStreamSynchronize(things.stream));
    things_end(&things);
}

CASE_BODY(memory_calls)
{
    struct things things = things_make();
    tn_cu_deviceptr address;
    tn_cu_ipc_handle ipc;
    uint32_t word = 0;
    size_t bytes;
    uint64_t value;
    const unsigned int on = 1;
    static _Alignas(4096) char page[4096];
    GIVES(INVALID_CONTEXT, cuMemGetAddressRange(&address, &bytes, things.linear));
    GIVES(INVALID_CONTEXT, cuMemsetD8(things.linear, 1, 8));
    GIVES(INVALID_CONTEXT, cuMemsetD32(things.linear, 1, 2));
    GIVES(INVALID_CONTEXT, cuMemcpy(things.linear, things.linear + 64, 8));
    GIVES(INVALID_CONTEXT, cuMemcpyHtoD(things.linear, &word, 4));
    GIVES(INVALID_CONTEXT, cuMemcpyDtoH(&word, things.linear, 4));
    GIVES(INVALID_CONTEXT, cuMemcpyDtoD(things.linear, things.linear + 64, 8));
    GIVES(INVALID_CONTEXT, cuMemHostGetDevicePointer(&address, things.host, 0));
    GIVES(HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(page));
    GIVES(INVALID_CONTEXT, cuIpcGetMemHandle(&ipc, things.linear));
    GIVES(INVALID_CONTEXT, cuIpcCloseMemHandle(things.linear));
    memset(&ipc, 1, sizeof ipc);
    GIVES(INVALID_CONTEXT, cuIpcOpenMemHandle(&address, ipc, 1));
    GIVES(SUCCESS, cuPointerGetAttribute(&value, TN_CU_POINTER_MAPPED, things.linear));
    GIVES(SUCCESS, cuPointerSetAttribute(&on, TN_CU_POINTER_SYNC_MEMOPS, things.linear));
    GIVES(SUCCESS, cuMemPoolTrimTo(things.pool, 0));
    things_end(&things);
}

CASE_BODY(access_asked)
{
    struct contract_mapped mapped = contract_map(2 * MIB);
    uint64_t value = 0;
    GIVES(INVALID_CONTEXT,
          cuPointerGetAttribute(&value, TN_CU_POINTER_DEVICE_POINTER, mapped.address));
    GIVES(SUCCESS, cuPointerGetAttribute(&value, TN_CU_POINTER_ACCESS_FLAGS, mapped.address));
    contract_unmap(mapped);
}

CASE_BODY(frees)
{
    struct things things = things_make();
    tn_cu_deviceptr address;
    void *host;
    SET_UP(cuCtxSetCurrent(things.context));
    SET_UP(cuMemAlloc(&address, 4096));
    SET_UP(cuMemHostAlloc(&host, 4096, 0));
    SET_UP(cuCtxSetCurrent(NULL));
    GIVES(SUCCESS, cuMemFree(address));
    GIVES(SUCCESS, cuMemFreeHost(host));
    things_end(&things);
}

/* The same calls when the current context was destroyed. */
CASE_BODY(destroyed)
{
    tn_cu_context context;
    tn_cu_event event;
    tn_cu_stream stream;
    tn_cu_deviceptr address;
    tn_cu_module module;
    void *host;
    size_t bytes;
    static _Alignas(4096) char page[4096];
    SET_UP(cuDevicePrimaryCtxRetain(&context, 0));
    SET_UP(cuCtxSetCurrent(context));
    SET_UP(cuDevicePrimaryCtxRelease(0));
    GIVES(CONTEXT_IS_DESTROYED, cuCtxSynchronize());
    GIVES(CONTEXT_IS_DESTROYED, cuMemGetInfo(&bytes, &bytes));
    GIVES(CONTEXT_IS_DESTROYED, cuEventCreate(&event, 0));
    GIVES(CONTEXT_IS_DESTROYED, cuStreamCreate(&stream, 0));
    GIVES(CONTEXT_IS_DESTROYED, cuMemAlloc(&address, 8));
    GIVES(CONTEXT_IS_DESTROYED, cuMemHostAlloc(&host, 8, 0));
    GIVES(CONTEXT_IS_DESTROYED, cuMemHostRegister(page, sizeof page, 0));
    GIVES(CONTEXT_IS_DESTROYED, cuModuleLoadData(&module, ""));
    GIVES(CONTEXT_IS_DESTROYED, cuStreamSynchronize(NULL));
    GIVES(CONTEXT_IS_DESTROYED, cuMemAllocAsync(&address, 8, NULL));
    GIVES(CONTEXT_IS_DESTROYED, cuMemGetAddressRange(&address, &bytes, 12345));
    STATE("mappings need none");
    struct contract_mapped mapped = contract_map(2 * MIB);
    GIVES(CONTEXT_IS_DESTROYED, cuMemsetD8(mapped.address, 1, 8));
    contract_unmap(mapped);
    SET_UP(cuCtxSetCurrent(NULL));
}

static const struct contract_case cases[] = {
    CASE("mapping", "Reserving, making, mapping and what is asked of it need no context.",
         mapping_calls),
    CASE("others", "Graphs, modes and pools need none.", other_calls),
    CASE("making", "Streams, events, allocations and modules need one.", making_calls),
    CASE("default-streams", "The legacy stream and the thread's need one.", stream_calls),
    CASE("stream-named", "What names a stream needs none.", stream_named),
    CASE("instantiate", "Instantiating needs one, uploading none.", instantiate),
    CASE("memory", "Copies, sets and ranges need one.", memory_calls),
    CASE("access-asked", "The device's address of a mapping needs one.", access_asked),
    CASE("frees", "Freeing needs none.", frees),
    CASE("destroyed", "A current context that was destroyed says so.", destroyed),
};
const struct contract_group contract_nocontext = CONTRACT_GROUP("nocontext", START_INIT, cases);
