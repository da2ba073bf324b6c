// SPDX-License-Identifier: Apache-2.0
/* peers.c -- two devices in one process: what contexts, streams, events and memory of one are for
 * the other. The simulator lends two devices to this group (contract.c). Where a driver has one, the
 * cases are skipped, and not compared. */
#include <unistd.h>

#include "contract/contract.h"

#define BYTES (4 * MIB)
#define WORDS (BYTES / 4)

/* The primary contexts of both devices; device 0's is current. */
struct pair {
    tn_cu_context own;
    tn_cu_context other;
};

static struct pair begin(void)
{
    struct pair pair = {contract_current(), NULL};
    int count = 0;
    SET_UP(cuDeviceGetCount(&count));
    if (count < 2)
        contract_skip("there is one device");
    SET_UP(cuDevicePrimaryCtxRetain(&pair.other, 1));
    return pair;
}

static void end(struct pair pair)
{
    SET_UP(cuCtxSetCurrent(pair.other));
    SET_UP(cuCtxSynchronize());
    SET_UP(cuCtxSetCurrent(pair.own));
    SET_UP(cuCtxSynchronize());
    SET_UP(cuDevicePrimaryCtxRelease(1));
}

static tn_cu_stream stream_of(tn_cu_context context, tn_cu_context back)
{
    tn_cu_stream stream;
    SET_UP(cuCtxSetCurrent(context));
    stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuCtxSetCurrent(back));
    return stream;
}

static tn_cu_event event_of(tn_cu_context context, tn_cu_context back, unsigned int flags)
{
    tn_cu_event event;
    SET_UP(cuCtxSetCurrent(context));
    SET_UP(cuEventCreate(&event, flags));
    SET_UP(cuCtxSetCurrent(back));
    return event;
}

static tn_cu_deviceptr linear_of(tn_cu_context context, tn_cu_context back)
{
    tn_cu_deviceptr address;
    SET_UP(cuCtxSetCurrent(context));
    SET_UP(cuMemAlloc(&address, BYTES));
    SET_UP(cuMemsetD32(address, 1, WORDS));
    SET_UP(cuCtxSynchronize());
    SET_UP(cuCtxSetCurrent(back));
    return address;
}

static tn_cu_result give_access(tn_cu_deviceptr address, int device, int flags)
{
    const tn_cu_access_desc desc = {{TN_CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
    return cu.cuMemSetAccess(address, BYTES, &desc, 1);
}

/* Memory of device 1, mapped, and with no access yet. */
static struct contract_mapped map_there(void)
{
    struct contract_mapped mapped = {.bytes = BYTES};
    tn_cu_allocation_prop prop = contract_prop(1);
    SET_UP(cuMemCreate(&mapped.handle, BYTES, &prop, 0));
    SET_UP(cuMemAddressReserve(&mapped.address, BYTES, 0, 0, 0));
    SET_UP(cuMemMap(mapped.address, BYTES, 0, mapped.handle, 0));
    return mapped;
}

static unsigned long long rights_of(tn_cu_deviceptr address, int device)
{
    tn_cu_location location = {TN_CU_MEM_LOCATION_TYPE_DEVICE, device};
    unsigned long long flags = 99;
    GIVES(SUCCESS, cuMemGetAccess(&flags, &location, address));
    return flags;
}

/* -- Access of contexts -- */

CASE_BODY(can)
{
    struct pair pair = begin();
    int can[3] = {7, 7, 7};
    GIVES(SUCCESS, cuDeviceCanAccessPeer(&can[0], 0, 1));
    GIVES(SUCCESS, cuDeviceCanAccessPeer(&can[1], 1, 0));
    GIVES(SUCCESS, cuDeviceCanAccessPeer(&can[2], 1, 1));
    HOLDS(can[0] == 1 && can[1] == 1, "each reaches the other");
    HOLDS(can[2] == 0, "none is a peer of itself");
    end(pair);
}

CASE_BODY(enable)
{
    struct pair pair = begin();
    GIVES(PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(pair.other));
    STATE("flags");
    GIVES(INVALID_VALUE, cuCtxEnablePeerAccess(pair.other, 1));
    STATE("none");
    GIVES(SUCCESS, cuCtxEnablePeerAccess(pair.other, 0));
    GIVES(PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(pair.other, 0));
    STATE("the other way");
    SET_UP(cuCtxSetCurrent(pair.other));
    GIVES(PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(pair.own));
    SET_UP(cuCtxSetCurrent(pair.own));
    GIVES(SUCCESS, cuCtxDisablePeerAccess(pair.other));
    GIVES(PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(pair.other));
    end(pair);
}

CASE_BODY(destroyed)
{
    struct pair pair = begin();
    tn_cu_context made;
    SET_UP(cuCtxCreate(&made, 0, 1));
    SET_UP(cuCtxSetCurrent(pair.own));
    GIVES(SUCCESS, cuCtxEnablePeerAccess(made, 0));
    SET_UP(cuCtxDestroy(made));
    SET_UP(cuCtxCreate(&made, 0, 1));
    SET_UP(cuCtxSetCurrent(pair.own));
    STATE("another context of the device");
    GIVES(PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(made));
    SET_UP(cuCtxDestroy(made));
    end(pair);
}

/* -- Linear memory -- */

CASE_BODY(linear)
{
    struct pair pair = begin();
    tn_cu_stream stream = stream_of(pair.own, pair.own);
    tn_cu_deviceptr own = linear_of(pair.own, pair.own);
    tn_cu_deviceptr other = linear_of(pair.other, pair.own);
    STATE("without access");
    GIVES(SUCCESS, cuMemcpyDtoD(own, other, BYTES));
    HOLDS(contract_word(own, 0) == 1, "a copy passes");
    GIVES(SUCCESS, cuMemcpyDtoDAsync(other, own, BYTES, stream));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    STATE("a set");
    SHOWS(cuMemsetD32Async(other, 2, WORDS, stream));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    STATE("word %u", contract_word(other, 0));
    STATE("with access");
    GIVES(SUCCESS, cuCtxEnablePeerAccess(pair.other, 0));
    GIVES(SUCCESS, cuMemsetD32Async(other, 3, WORDS, stream));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    HOLDS(contract_word(other, WORDS - 1) == 3, "a set passes");
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(", contract_fill(stream, other, 4, 1));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    HOLDS(contract_word(other, 0) == 4, "so does a kernel");
    GIVES(SUCCESS, cuCtxDisablePeerAccess(pair.other));
    STATE("freed by the other");
    GIVES(SUCCESS, cuMemFree(other));
    SET_UP(cuMemFree(own));
    SET_UP(cuStreamDestroy(stream));
    end(pair);
}

CASE_BODY(attributes)
{
    struct pair pair = begin();
    tn_cu_deviceptr address = linear_of(pair.other, pair.own);
    HOLDS(contract_attribute(address, TN_CU_POINTER_DEVICE_ORDINAL) == 1, "linear memory is its");
    HOLDS(contract_attribute(address, TN_CU_POINTER_CONTEXT) == (uintptr_t)pair.other,
          "and its context's");
    SET_UP(cuMemFree(address));
    struct contract_mapped mapped = map_there();
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   give_access(mapped.address, 0, TN_CU_MEM_ACCESS_READWRITE));
    STATE("mapped memory, for device 0: ordinal %d",
          (int)contract_attribute(mapped.address, TN_CU_POINTER_DEVICE_ORDINAL));
    contract_unmap(mapped);
    end(pair);
}

CASE_BODY(accounts)
{
    struct pair pair = begin();
    size_t before = contract_free_bytes();
    size_t there;
    SET_UP(cuCtxSetCurrent(pair.other));
    there = contract_free_bytes();
    SET_UP(cuCtxSetCurrent(pair.own));
    struct contract_mapped mapped = map_there();
    HOLDS(contract_free_bytes() == before, "it costs the current device nothing");
    SET_UP(cuCtxSetCurrent(pair.other));
    HOLDS(there - contract_free_bytes() == BYTES, "it costs its own device");
    SET_UP(cuCtxSetCurrent(pair.own));
    contract_unmap(mapped);
    end(pair);
}

/* -- Mapped memory -- */

CASE_BODY(far)
{
    struct pair pair = begin();
    struct contract_mapped mapped = map_there();
    tn_cu_stream own = stream_of(pair.own, pair.own);
    tn_cu_stream other = stream_of(pair.other, pair.own);
    STATE("access of device 0 alone");
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   give_access(mapped.address, 0, TN_CU_MEM_ACCESS_READWRITE));
    HOLDS(rights_of(mapped.address, 0) == TN_CU_MEM_ACCESS_READWRITE, "device 0 has it");
    HOLDS(rights_of(mapped.address, 1) == 0, "its own device has not");
    GIVES(SUCCESS, cuMemsetD32Async(mapped.address, 5, WORDS, own));
    GIVES(SUCCESS, cuStreamSynchronize(own));
    HOLDS(contract_word(mapped.address, WORDS - 1) == 5, "device 0 writes");
    STATE("a set on device 1's stream");
    SHOWS(cuMemsetD32Async(mapped.address, 6, WORDS, other));
    GIVES(SUCCESS, cuStreamSynchronize(other));
    STATE("word %u", contract_word(mapped.address, 0));
    STATE("access of device 1, too");
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   give_access(mapped.address, 1, TN_CU_MEM_ACCESS_READWRITE));
    HOLDS(rights_of(mapped.address, 0) == TN_CU_MEM_ACCESS_READWRITE, "device 0 keeps it");
    GIVES(SUCCESS, cuMemsetD32Async(mapped.address, 7, WORDS, other));
    GIVES(SUCCESS, cuStreamSynchronize(other));
    HOLDS(contract_word(mapped.address, 0) == 7, "both see the same");
    STATE("taken from device 0");
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   give_access(mapped.address, 0, TN_CU_MEM_ACCESS_NONE));
    HOLDS(rights_of(mapped.address, 0) == 0, "it has none");
    HOLDS(rights_of(mapped.address, 1) == TN_CU_MEM_ACCESS_READWRITE, "device 1 has");
    SET_UP(cuStreamDestroy(own));
    SET_UP(cuStreamDestroy(other));
    contract_unmap(mapped);
    end(pair);
}

CASE_BODY(both_at_once)
{
    struct pair pair = begin();
    struct contract_mapped mapped = map_there();
    const tn_cu_access_desc both[2] = {
        {{TN_CU_MEM_LOCATION_TYPE_DEVICE, 0}, TN_CU_MEM_ACCESS_READWRITE},
        {{TN_CU_MEM_LOCATION_TYPE_DEVICE, 1}, TN_CU_MEM_ACCESS_READ},
    };
    STATE("read alone");
    SHOWS(cuMemSetAccess(mapped.address, BYTES, both, 2));
    const tn_cu_access_desc twice[2] = {both[0], both[0]};
    STATE("one device twice");
    SHOWS(cuMemSetAccess(mapped.address, BYTES, twice, 2));
    const tn_cu_access_desc missing[2] = {
        both[0], {{TN_CU_MEM_LOCATION_TYPE_DEVICE, 99}, TN_CU_MEM_ACCESS_READWRITE}};
    STATE("a device that is not there");
    SHOWS(cuMemSetAccess(mapped.address, BYTES, missing, 2));
    SET_UP(cuMemUnmap(mapped.address, BYTES));
    SET_UP(cuMemAddressFree(mapped.address, BYTES));
    SET_UP(cuMemRelease(mapped.handle));
    end(pair);
}

CASE_BODY(granularity)
{
    struct pair pair = begin();
    size_t bytes[2] = {0, 0};
    for (int device = 0; device < 2; device++) {
        tn_cu_allocation_prop prop = contract_prop(device);
        GIVES(SUCCESS, cuMemGetAllocationGranularity(&bytes[device], &prop, 0));
    }
    HOLDS(bytes[0] == bytes[1], "it is that of device 0");
    end(pair);
}

CASE_BODY(imported)
{
    struct pair pair = begin();
    tn_cu_allocation_prop prop = contract_prop(1);
    tn_cu_memhandle made;
    tn_cu_memhandle imported;
    int fd = -1;
    prop.requested_handle_types = TN_CU_MEM_HANDLE_TYPE_POSIX_FD;
    SET_UP(cuMemCreate(&made, BYTES, &prop, 0));
    SET_UP(cuMemExportToShareableHandle(&fd, made, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    GIVES(SUCCESS, cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                                  TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    close(fd);
    GIVES(SUCCESS, cuMemGetAllocationPropertiesFromHandle(&prop, imported));
    HOLDS(prop.location.id == 1, "the memory says whose it is");
    SET_UP(cuMemRelease(imported));
    SET_UP(cuMemRelease(made));
    end(pair);
}

/* -- Streams and events -- */

CASE_BODY(events)
{
    struct pair pair = begin();
    tn_cu_stream own = stream_of(pair.own, pair.own);
    tn_cu_stream other = stream_of(pair.other, pair.own);
    tn_cu_event event = event_of(pair.own, pair.own, 0);
    tn_cu_event far = event_of(pair.other, pair.own, 0);
    float passed;
    STATE("on the other device's stream");
    GIVES(INVALID_HANDLE, cuEventRecord(event, other));
    STATE("on its own");
    GIVES(SUCCESS, cuEventRecord(event, own));
    GIVES(SUCCESS, cuEventRecord(far, other));
    STATE("waited for by the other device's stream");
    GIVES(SUCCESS, cuStreamWaitEvent(other, event, 0));
    GIVES(SUCCESS, cuStreamWaitEvent(own, far, 0));
    GIVES(SUCCESS, cuEventSynchronize(far));
    GIVES(SUCCESS, cuStreamSynchronize(other));
    GIVES(SUCCESS, cuStreamSynchronize(own));
    GIVES(SUCCESS, cuEventQuery(far));
    STATE("the time between them");
    SHOWS(cuEventElapsedTime(&passed, event, far));
    SET_UP(cuEventDestroy(event));
    SET_UP(cuEventDestroy(far));
    SET_UP(cuStreamDestroy(own));
    SET_UP(cuStreamDestroy(other));
    end(pair);
}

CASE_BODY(order)
{
    struct pair pair = begin();
    tn_cu_stream other = stream_of(pair.other, pair.own);
    tn_cu_event event = contract_event();
    (void)contract_kernels();
    struct contract_busy busy = contract_busy_begin();
    SET_UP(cuEventRecord(event, busy.stream));
    SET_UP(cuStreamWaitEvent(other, event, 0));
    STATE("behind a kernel of device 0");
    GIVES(NOT_READY, cuStreamQuery(other));
    contract_busy_end(&busy);
    GIVES(SUCCESS, cuStreamSynchronize(other));
    SET_UP(cuEventDestroy(event));
    SET_UP(cuStreamDestroy(other));
    end(pair);
}

CASE_BODY(waits)
{
    struct pair pair = begin();
    (void)contract_kernels();
    struct contract_busy busy = contract_busy_begin_for(UINT64_C(2000000000));
    SET_UP(cuCtxSetCurrent(pair.other));
    GIVES(SUCCESS, cuCtxSynchronize());
    SET_UP(cuCtxSetCurrent(pair.own));
    HOLDS(contract_busy_runs(&busy), "waiting for device 1 waits for no work of device 0");
    tn_cu_deviceptr other = linear_of(pair.other, pair.own);
    HOLDS(contract_busy_runs(&busy), "nor does a set of its memory");
    SET_UP(cuMemFree(other));
    STATE("after a free of its memory the kernel %s",
          contract_busy_runs(&busy) ? "runs" : "is over");
    contract_busy_end(&busy);
    end(pair);
}

CASE_BODY(streams)
{
    struct pair pair = begin();
    tn_cu_stream other = stream_of(pair.other, pair.own);
    tn_cu_deviceptr address = linear_of(pair.other, pair.own);
    tn_cu_context of = NULL;
    GIVES(SUCCESS, cuStreamGetCtx(other, &of));
    HOLDS(of == pair.other, "the stream is the other's");
    STATE("the other's memory on the other's stream");
    GIVES(SUCCESS, cuMemsetD32Async(address, 8, WORDS, other));
    GIVES(SUCCESS, cuStreamSynchronize(other));
    HOLDS(contract_word(address, 0) == 8, "is set");
    STATE("a kernel of device 0 there");
    contract_shows("cuLaunchKernel(", contract_fill(other, address, 9, 1));
    SET_UP(cuMemFree(address));
    SET_UP(cuStreamDestroy(other));
    end(pair);
}

CASE_BODY(stream_ordered)
{
    struct pair pair = begin();
    tn_cu_stream other = stream_of(pair.other, pair.own);
    tn_cu_deviceptr address = 0;
    GIVES(SUCCESS, cuMemAllocAsync(&address, BYTES, other));
    HOLDS(contract_attribute(address, TN_CU_POINTER_DEVICE_ORDINAL) == 1,
          "memory is that of the stream's device");
    GIVES(SUCCESS, cuMemFreeAsync(address, other));
    GIVES(SUCCESS, cuStreamSynchronize(other));
    SET_UP(cuStreamDestroy(other));
    end(pair);
}

CASE_BODY(page_locked)
{
    struct pair pair = begin();
    tn_cu_stream other = stream_of(pair.other, pair.own);
    tn_cu_deviceptr there = linear_of(pair.other, pair.own);
    uint32_t *words = NULL;
    SET_UP(cuMemHostAlloc((void **)&words, BYTES, TN_CU_MEMHOSTALLOC_PORTABLE));
    words[0] = 0;
    GIVES(SUCCESS, cuMemcpyDtoHAsync(words, there, 4, other));
    GIVES(SUCCESS, cuStreamSynchronize(other));
    HOLDS(words[0] == 1, "both devices copy there");
    SET_UP(cuMemFreeHost(words));
    SET_UP(cuMemFree(there));
    SET_UP(cuStreamDestroy(other));
    end(pair);
}

/* -- Captures -- */

CASE_BODY(captured)
{
    struct pair pair = begin();
    tn_cu_stream own = stream_of(pair.own, pair.own);
    tn_cu_stream other = stream_of(pair.other, pair.own);
    tn_cu_event fork = event_of(pair.own, pair.own, TN_CU_EVENT_DISABLE_TIMING);
    tn_cu_event join = event_of(pair.other, pair.own, TN_CU_EVENT_DISABLE_TIMING);
    tn_cu_deviceptr there = linear_of(pair.other, pair.own);
    tn_cu_graph graph = NULL;
    tn_cu_graphexec exec = NULL;
    size_t count = 0;
    SET_UP(cuStreamBeginCapture(own, TN_CU_CAPTURE_MODE_RELAXED));
    SET_UP(cuEventRecord(fork, own));
    GIVES(SUCCESS, cuStreamWaitEvent(other, fork, 0));
    GIVES(SUCCESS, cuMemsetD32Async(there, 11, WORDS, other));
    GIVES(SUCCESS, cuEventRecord(join, other));
    GIVES(SUCCESS, cuStreamWaitEvent(own, join, 0));
    GIVES(SUCCESS, cuStreamEndCapture(own, &graph));
    SET_UP(cuGraphGetNodes(graph, NULL, &count));
    STATE("%zu nodes", count);
    GIVES(SUCCESS, cuGraphInstantiateWithFlags(&exec, graph, 0));
    GIVES(SUCCESS, cuGraphLaunch(exec, own));
    GIVES(SUCCESS, cuStreamSynchronize(own));
    HOLDS(contract_word(there, WORDS - 1) == 11, "the other device's node has run");
    STATE("on the other device's stream");
    SHOWS(cuGraphLaunch(exec, other));
    GIVES(SUCCESS, cuStreamSynchronize(other));
    SET_UP(cuGraphExecDestroy(exec));
    SET_UP(cuGraphDestroy(graph));
    SET_UP(cuMemFree(there));
    SET_UP(cuEventDestroy(fork));
    SET_UP(cuEventDestroy(join));
    SET_UP(cuStreamDestroy(own));
    SET_UP(cuStreamDestroy(other));
    end(pair);
}

CASE_BODY(outside)
{
    struct pair pair = begin();
    tn_cu_stream own = stream_of(pair.own, pair.own);
    tn_cu_graph graph = NULL;
    tn_cu_capture_status status;
    SET_UP(cuStreamBeginCapture(own, TN_CU_CAPTURE_MODE_GLOBAL));
    SET_UP(cuCtxSetCurrent(pair.other));
    STATE("a wait for device 1, beside a capture on device 0");
    SHOWS(cuCtxSynchronize());
    STATE("linear memory of device 1");
    tn_cu_deviceptr address = 0;
    SHOWS(cuMemAlloc(&address, BYTES));
    SET_UP(cuCtxSetCurrent(pair.own));
    SHOWS(cuStreamIsCapturing(own, &status));
    STATE("%s", status == TN_CU_CAPTURE_STATUS_ACTIVE ? "active" : "not active");
    SHOWS(cuStreamEndCapture(own, &graph));
    if (graph != NULL)
        SET_UP(cuGraphDestroy(graph));
    if (address != 0)
        SET_UP(cuMemFree(address));
    SET_UP(cuStreamDestroy(own));
    end(pair);
}

static const struct contract_case cases[] = {
    CASE("can", "Each of two devices reaches the other.", can),
    CASE("enable", "Access to a peer's context has one direction.", enable),
    CASE("destroyed", "Access ends with the peer's context.", destroyed),
    CASE("linear", "Linear memory of a peer is copied, and written where access is enabled.",
         linear),
    CASE("attributes", "An address has its memory's device.", attributes),
    CASE("accounts", "Memory is taken from its own device.", accounts),
    CASE("far", "Mapped memory is for devices that were given access, its own or not.", far),
    CASE("both-at-once", "One call gives access to several devices, or to none.", both_at_once),
    CASE("granularity", "Devices of a kind have one granularity.", granularity),
    CASE("imported", "An imported handle names its device.", imported),
    CASE("events", "An event is recorded on its own device, and waited for on all.", events),
    CASE("order", "Waiting for an event orders work across devices.", order),
    CASE("waits", "Waiting for a device waits for no other.", waits),
    CASE("streams", "A stream brings its device along.", streams),
    CASE("stream-ordered", "An allocation on a stream is of the stream's device.", stream_ordered),
    CASE("page-locked", "Page-locked memory is there for all devices.", page_locked),
    CASE("captured", "A capture takes in streams of other devices.", captured),
    CASE("outside", "What a capture forbids, it forbids on other devices alike.", outside),
};

const struct contract_group contract_peers = {
    "peers", START_CONTEXT, cases, sizeof cases / sizeof cases[0], NULL, .devices = 2};
