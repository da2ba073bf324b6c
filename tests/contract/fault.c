// SPDX-License-Identifier: Apache-2.0
/* fault.c -- a kernel that touches what it may not: the context is lost for good, and what still
 * works is shown. Each case has a process to itself. */
#include "contract/contract.h"

/* Shows what a lost context answers, and that mappings and queries go on. */
static void lost(tn_cu_result fault, tn_cu_stream stream, struct contract_mapped mapped)
{
    tn_cu_event event;
    tn_cu_stream other;
    tn_cu_deviceptr address;
    void *host;
    size_t bytes;
    tn_cu_device device = 7;
    tn_cu_context context;
    uint64_t value = 0;
    tn_cu_graph graph;
    STATE("again");
    contract_gives(fault, "cuStreamSynchronize(", cu.cuStreamSynchronize(stream));
    contract_gives(fault, "cuStreamQuery(", cu.cuStreamQuery(stream));
    contract_gives(fault, "cuCtxSynchronize(", cu.cuCtxSynchronize());
    contract_gives(fault, "cuMemGetInfo(", cu.cuMemGetInfo(&bytes, &bytes));
    contract_gives(fault, "cuMemAlloc(", cu.cuMemAlloc(&address, 8));
    contract_gives(fault, "cuMemHostAlloc(", cu.cuMemHostAlloc(&host, 8, 0));
    contract_gives(fault, "cuEventCreate(", cu.cuEventCreate(&event, 0));
    contract_gives(fault, "cuStreamCreate(", cu.cuStreamCreate(&other, 0));
    contract_gives(fault, "cuMemsetD8Async(", cu.cuMemsetD8Async(mapped.address, 1, 8, stream));
    contract_gives(fault, "cuStreamDestroy(", cu.cuStreamDestroy(stream));
    STATE("what goes on");
    GIVES(SUCCESS, cuCtxGetDevice(&device));
    GIVES(SUCCESS, cuCtxGetCurrent(&context));
    GIVES(SUCCESS, cuPointerGetAttribute(&value, TN_CU_POINTER_MAPPED, mapped.address));
    GIVES(SUCCESS, cuGraphCreate(&graph, 0));
    GIVES(SUCCESS, cuGraphDestroy(graph));
    struct contract_mapped more = contract_map(2 * MIB);
    GIVES(SUCCESS, cuMemUnmap(more.address, more.bytes));
    GIVES(SUCCESS, cuMemRelease(more.handle));
    GIVES(SUCCESS, cuMemAddressFree(more.address, more.bytes));
    GIVES(SUCCESS, cuMemUnmap(mapped.address, mapped.bytes));
    GIVES(SUCCESS, cuMemRelease(mapped.handle));
    STATE("a reset does not help");
    GIVES(SUCCESS, cuDevicePrimaryCtxReset(0));
    contract_gives(fault, "cuDevicePrimaryCtxRetain(", cu.cuDevicePrimaryCtxRetain(&context, 0));
    contract_gives(fault, "cuCtxCreate(", cu.cuCtxCreate(&context, 0, 0));
}

/* Writes with a kernel to a mapping whose access was changed to `rights`. */
static void kernel_writes(int rights)
{
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct contract_mapped mapped = contract_map(2 * MIB);
    contract_kernels();
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   contract_access(mapped.address, mapped.bytes, rights));
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(",
                   contract_fill(stream, mapped.address, 1, 100));
    GIVES(ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    lost(TN_CUDA_ERROR_ILLEGAL_ADDRESS, stream, mapped);
}

CASE_BODY(read_only)
{
    kernel_writes(TN_CU_MEM_ACCESS_READ);
}

CASE_BODY(no_access)
{
    kernel_writes(TN_CU_MEM_ACCESS_NONE);
}

/* Reading is allowed where writing is not. */
CASE_BODY(read_only_read)
{
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct contract_mapped from = contract_map(2 * MIB);
    struct contract_mapped to = contract_map(2 * MIB);
    SET_UP(cuMemsetD32(from.address, 31, 100));
    SET_UP(cuCtxSynchronize());
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   contract_access(from.address, from.bytes, TN_CU_MEM_ACCESS_READ));
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(",
                   contract_copy(stream, to.address, from.address, 100));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    HOLDS(contract_word(to.address, 99) == 31, "the kernel read it");
    contract_unmap(from);
    contract_unmap(to);
    SET_UP(cuStreamDestroy(stream));
}

/* The fault is every context's of the device. */
CASE_BODY(other_context)
{
    tn_cu_context primary = NULL;
    tn_cu_context own = NULL;
    size_t bytes;
    SET_UP(cuCtxGetCurrent(&primary));
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct contract_mapped mapped = contract_map(2 * MIB);
    contract_kernels();
    SET_UP(cuCtxCreate(&own, 0, 0));
    tn_cu_stream own_stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuCtxSetCurrent(primary));
    SET_UP(cuMemUnmap(mapped.address, mapped.bytes));
    contract_fill(stream, mapped.address, 1, 100);
    GIVES(ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
    SET_UP(cuCtxSetCurrent(own));
    STATE("another context");
    GIVES(ILLEGAL_ADDRESS, cuMemGetInfo(&bytes, &bytes));
    GIVES(ILLEGAL_ADDRESS, cuStreamQuery(own_stream));
    GIVES(ILLEGAL_ADDRESS, cuCtxSynchronize());
    GIVES(SUCCESS, cuCtxDestroy(own));
}

static const struct contract_case cases[] = {
    CASE("read-only-read", "A kernel reads what it may only read.", read_only_read),
    CASE_ALONE("read-only", "A kernel that writes to what it may only read loses the context.",
               read_only),
    CASE_ALONE("no-access", "A kernel that writes to what it may not touch loses the context.",
               no_access),
    CASE_ALONE("other-context", "A fault is every context's.", other_context),
};
const struct contract_group contract_fault = CONTRACT_GROUP("fault", START_CONTEXT, cases);
