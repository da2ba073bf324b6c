// SPDX-License-Identifier: Apache-2.0
/* context.c -- the primary context, contexts that programs make, and which one is current.
 *
 * The group begins without a context, and each case leaves none. */
#include <string.h>

#include "contract/contract.h"

static tn_cu_context retain(void)
{
    tn_cu_context context;
    SET_UP(cuDevicePrimaryCtxRetain(&context, 0));
    return context;
}

static bool active(void)
{
    unsigned int flags;
    int is_active = 7;
    SET_UP(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    return is_active == 1;
}

static tn_cu_context make(void)
{
    tn_cu_context context;
    SET_UP(cuCtxCreate(&context, 0, 0));
    return context;
}

/* -- The primary context -- */

CASE_BODY(primary)
{
    tn_cu_context first = NULL;
    tn_cu_context second = NULL;
    HOLDS(!active(), "it is inactive");
    GIVES(SUCCESS, cuDevicePrimaryCtxRetain(&first, 0));
    HOLDS(active(), "retained, it is active");
    HOLDS(contract_current() == NULL, "but not current");
    GIVES(SUCCESS, cuDevicePrimaryCtxRetain(&second, 0));
    HOLDS(first == second, "it is the same each time");
    GIVES(SUCCESS, cuDevicePrimaryCtxRelease(0));
    HOLDS(active(), "released once, it is active");
    GIVES(SUCCESS, cuDevicePrimaryCtxRelease(0));
    HOLDS(!active(), "released twice, it is not");
    STATE("once more");
    GIVES(INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
}

CASE_BODY(primary_refused)
{
    tn_cu_context context = NULL;
    unsigned int flags = 7;
    int is_active = 7;
    STATE("device 99");
    GIVES(INVALID_DEVICE, cuDevicePrimaryCtxRetain(&context, 99));
    GIVES(INVALID_DEVICE, cuDevicePrimaryCtxRelease(99));
    GIVES(INVALID_DEVICE, cuDevicePrimaryCtxReset(99));
    GIVES(INVALID_DEVICE, cuDevicePrimaryCtxSetFlags(99, 0));
    GIVES(INVALID_DEVICE, cuDevicePrimaryCtxGetState(99, &flags, &is_active));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuDevicePrimaryCtxRetain(NULL, 0));
    GIVES(INVALID_VALUE, cuDevicePrimaryCtxGetState(0, NULL, &is_active));
    GIVES(INVALID_VALUE, cuDevicePrimaryCtxGetState(0, &flags, NULL));
}

struct flags_row {
    unsigned int flags;
    tn_cu_result expected;
};
static const struct flags_row flags_rows[] = {
    {1, TN_CUDA_SUCCESS},
    {2, TN_CUDA_SUCCESS},
    {3, TN_CUDA_ERROR_INVALID_VALUE},
    {4, TN_CUDA_SUCCESS},
    {5, TN_CUDA_ERROR_INVALID_VALUE},
    {0x10, TN_CUDA_SUCCESS},
    {0x20, TN_CUDA_SUCCESS},
    {0x40, TN_CUDA_SUCCESS},
    {0x80, TN_CUDA_SUCCESS},
    {0x100, TN_CUDA_ERROR_INVALID_VALUE},
    {0, TN_CUDA_SUCCESS},
};

CASE_BODY(primary_flags)
{
    unsigned int expected = 0;
    for (size_t i = 0; i < sizeof flags_rows / sizeof flags_rows[0]; i++) {
        unsigned int flags = 7;
        int is_active = 7;
        STATE("flags 0x%x", flags_rows[i].flags);
        contract_gives(flags_rows[i].expected, "cuDevicePrimaryCtxSetFlags(",
                       cu.cuDevicePrimaryCtxSetFlags(0, flags_rows[i].flags));
        if (flags_rows[i].expected == TN_CUDA_SUCCESS)
            expected = flags_rows[i].flags;
        SET_UP(cuDevicePrimaryCtxGetState(0, &flags, &is_active));
        HOLDS(flags == expected, "they are 0x%x", flags);
    }
    STATE("flags 8");
    GIVES(INVALID_VALUE, cuDevicePrimaryCtxSetFlags(0, 8));
}

CASE_BODY(primary_flags_active)
{
    unsigned int flags = 7;
    int is_active = 7;
    retain();
    GIVES(SUCCESS, cuDevicePrimaryCtxSetFlags(0, 1));
    GIVES(SUCCESS, cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    HOLDS(flags == 1 && is_active == 1, "they are changed");
    SET_UP(cuDevicePrimaryCtxSetFlags(0, 0));
    SET_UP(cuDevicePrimaryCtxRelease(0));
}

CASE_BODY(primary_reset)
{
    STATE("while it is inactive");
    GIVES(SUCCESS, cuDevicePrimaryCtxReset(0));
    tn_cu_context context = retain();
    tn_cu_deviceptr address;
    tn_cu_device device = 7;
    size_t bytes;
    retain();
    SET_UP(cuCtxSetCurrent(context));
    SET_UP(cuMemAlloc(&address, 4096));
    STATE("while it is retained twice");
    GIVES(SUCCESS, cuDevicePrimaryCtxReset(0));
    HOLDS(!active(), "it is inactive");
    HOLDS(contract_current() == context, "but still current");
    GIVES(CONTEXT_IS_DESTROYED, cuMemGetInfo(&bytes, &bytes));
    GIVES(CONTEXT_IS_DESTROYED, cuCtxSynchronize());
    GIVES(SUCCESS, cuCtxGetDevice(&device));
    STATE("the two are still to be released");
    GIVES(SUCCESS, cuDevicePrimaryCtxRelease(0));
    GIVES(SUCCESS, cuDevicePrimaryCtxRelease(0));
    GIVES(INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
    tn_cu_context again = retain();
    HOLDS(again == context, "the next has the same handle");
    GIVES(SUCCESS, cuMemGetInfo(&bytes, &bytes));
    STATE("its memory is gone");
    GIVES(INVALID_VALUE, cuMemFree(address));
    SET_UP(cuCtxSetCurrent(NULL));
    SET_UP(cuDevicePrimaryCtxRelease(0));
}

CASE_BODY(primary_reset_flags)
{
    unsigned int flags = 7;
    int is_active = 7;
    SET_UP(cuDevicePrimaryCtxSetFlags(0, 4));
    GIVES(SUCCESS, cuDevicePrimaryCtxReset(0));
    GIVES(SUCCESS, cuDevicePrimaryCtxGetState(0, &flags, &is_active));
    HOLDS(flags == 0 && is_active == 0, "they are 0");
}

/* A mapping outlives the context; whoever is current notices. */
CASE_BODY(primary_again)
{
    tn_cu_context context = retain();
    size_t bytes;
    uint32_t word = 0;
    SET_UP(cuCtxSetCurrent(context));
    struct contract_mapped mapped = contract_map(2 * MIB);
    SET_UP(cuMemsetD32(mapped.address, 4711, 2 * MIB / 4));
    SET_UP(cuCtxSynchronize());
    GIVES(SUCCESS, cuDevicePrimaryCtxRelease(0));
    HOLDS(contract_current() == context, "it is still current");
    GIVES(CONTEXT_IS_DESTROYED, cuMemGetInfo(&bytes, &bytes));
    tn_cu_context again = retain();
    HOLDS(again == context, "the next has the same handle");
    GIVES(SUCCESS, cuCtxSetCurrent(again));
    GIVES(SUCCESS, cuMemcpyDtoH(&word, mapped.address + 2 * MIB - 4, 4));
    HOLDS(word == 4711, "the mapping kept its bytes");
    contract_unmap(mapped);
    SET_UP(cuCtxSetCurrent(NULL));
    SET_UP(cuDevicePrimaryCtxRelease(0));
}

/* -- Contexts of programs -- */

CASE_BODY(create)
{
    tn_cu_context context = NULL;
    tn_cu_device device = 7;
    GIVES(SUCCESS, cuCtxCreate(&context, 0, 0));
    HOLDS(contract_current() == context, "it is current");
    HOLDS(!active(), "it is not the primary context");
    GIVES(SUCCESS, cuCtxGetDevice(&device));
    HOLDS(device == 0, "it is device 0's");
    GIVES(SUCCESS, cuCtxDestroy(context));
    HOLDS(contract_current() == NULL, "destroyed, it is not current");
}

CASE_BODY(create_refused)
{
    tn_cu_context context = NULL;
    STATE("device 99");
    GIVES(INVALID_DEVICE, cuCtxCreate(&context, 0, 99));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuCtxCreate(NULL, 0, 0));
    STATE("flags 3");
    GIVES(INVALID_VALUE, cuCtxCreate(&context, 3, 0));
    STATE("flags 0x100");
    GIVES(INVALID_VALUE, cuCtxCreate(&context, 0x100, 0));
    HOLDS(context == NULL && contract_current() == NULL, "none is made");
}

CASE_BODY(destroy_refused)
{
    tn_cu_context primary = retain();
    STATE("NULL");
    GIVES(INVALID_VALUE, cuCtxDestroy(NULL));
    STATE("the primary context");
    GIVES(INVALID_CONTEXT, cuCtxDestroy(primary));
    HOLDS(active(), "it is active");
    SET_UP(cuDevicePrimaryCtxRelease(0));
}

CASE_BODY(destroy_memory)
{
    tn_cu_context keeper = make();
    tn_cu_context context = make();
    tn_cu_deviceptr address;
    void *host;
    uint64_t value;
    SET_UP(cuMemAlloc(&address, 64 * MIB));
    SET_UP(cuMemHostAlloc(&host, 4096, 0));
    size_t before = contract_free_bytes();
    GIVES(SUCCESS, cuCtxDestroy(context));
    HOLDS(contract_current() == keeper, "the one below is current");
    HOLDS(contract_free_bytes() - before >= 64 * MIB, "its memory is free");
    GIVES(INVALID_VALUE, cuPointerGetAttribute(&value, TN_CU_POINTER_MAPPED, address));
    GIVES(INVALID_VALUE, cuMemFree(address));
    GIVES(INVALID_VALUE, cuMemFreeHost(host));
    SET_UP(cuCtxDestroy(keeper));
}

/* A context that is current to another thread is destroyed. */
struct stale {
    tn_cu_context context;
    tn_cu_context seen;
    tn_cu_context popped;
    tn_cu_device device;
    tn_cu_result results[4];
};

static void set_there(void *argument)
{
    struct stale *stale = argument;
    stale->results[0] = cu.cuCtxSetCurrent(stale->context);
}

static void look_there(void *argument)
{
    struct stale *stale = argument;
    tn_cu_stream stream;
    size_t bytes;
    cu.cuCtxGetCurrent(&stale->seen);
    stale->results[1] = cu.cuCtxGetDevice(&stale->device);
    stale->results[2] = cu.cuMemGetInfo(&bytes, &bytes);
    stale->results[3] = cu.cuStreamCreate(&stream, 0);
    cu.cuCtxPopCurrent(&stale->popped);
    cu.cuCtxGetCurrent(&stale->popped);
}

CASE_BODY(destroy_elsewhere)
{
    struct stale stale = {.device = 7};
    struct contract_thread *thread = contract_thread_start();
    stale.context = make();
    contract_thread_do(thread, set_there, &stale);
    contract_gives(TN_CUDA_SUCCESS, "cuCtxSetCurrent(", stale.results[0]);
    GIVES(SUCCESS, cuCtxDestroy(stale.context));
    contract_thread_do(thread, look_there, &stale);
    HOLDS(stale.seen == stale.context, "the other thread has it current still");
    contract_gives(TN_CUDA_SUCCESS, "cuCtxGetDevice(", stale.results[1]);
    contract_gives(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, "cuMemGetInfo(", stale.results[2]);
    contract_gives(TN_CUDA_ERROR_CONTEXT_IS_DESTROYED, "cuStreamCreate(", stale.results[3]);
    HOLDS(stale.popped == NULL, "popped, it is not");
    contract_thread_end(thread);
}

CASE_BODY(destroyed_event)
{
    tn_cu_context context = make();
    tn_cu_event event = contract_event();
    SET_UP(cuCtxDestroy(context));
    GIVES(CONTEXT_IS_DESTROYED, cuEventQuery(event));
    GIVES(CONTEXT_IS_DESTROYED, cuEventDestroy(event));
}

/* -- The stack -- */

CASE_BODY(stack)
{
    tn_cu_context first = make();
    tn_cu_context second = make();
    tn_cu_context popped = NULL;
    HOLDS(contract_current() == second, "the second that was made is current");
    GIVES(SUCCESS, cuCtxPopCurrent(&popped));
    HOLDS(popped == second && contract_current() == first, "popped, the first is");
    GIVES(SUCCESS, cuCtxPushCurrent(second));
    HOLDS(contract_current() == second, "pushed, it is again");
    GIVES(SUCCESS, cuCtxSetCurrent(first));
    HOLDS(contract_current() == first, "the top is replaced");
    GIVES(SUCCESS, cuCtxSetCurrent(NULL));
    HOLDS(contract_current() == first, "NULL pops it");
    GIVES(SUCCESS, cuCtxPopCurrent(NULL));
    HOLDS(contract_current() == NULL, "the stack is empty");
    GIVES(SUCCESS, cuCtxSetCurrent(NULL));
    GIVES(SUCCESS, cuCtxDestroy(first));
    GIVES(SUCCESS, cuCtxDestroy(second));
}

CASE_BODY(stack_refused)
{
    tn_cu_context popped = NULL;
    STATE("an empty stack is popped");
    GIVES(INVALID_CONTEXT, cuCtxPopCurrent(&popped));
    STATE("NULL is pushed");
    GIVES(INVALID_VALUE, cuCtxPushCurrent(NULL));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuCtxGetCurrent(NULL));
}

CASE_BODY(stack_deep)
{
    tn_cu_context context = retain();
    tn_cu_result worst = TN_CUDA_SUCCESS;
    for (int i = 0; i < 1000 && worst == TN_CUDA_SUCCESS; i++)
        worst = cu.cuCtxPushCurrent(context);
    contract_gives(TN_CUDA_SUCCESS, "cuCtxPushCurrent(", worst);
    int popped = 0;
    while (cu.cuCtxPopCurrent(&context) == TN_CUDA_SUCCESS)
        popped++;
    HOLDS(popped == 1000, "1000 are popped");
    SET_UP(cuDevicePrimaryCtxRelease(0));
}

static void current_there(void *argument)
{
    cu.cuCtxGetCurrent(argument);
}

CASE_BODY(thread)
{
    tn_cu_context there = (tn_cu_context)7;
    struct contract_thread *thread = contract_thread_start();
    tn_cu_context context = make();
    contract_thread_do(thread, current_there, &there);
    HOLDS(there == NULL, "no context is current on another thread");
    contract_thread_end(thread);
    SET_UP(cuCtxDestroy(context));
}

/* -- Two contexts of one device -- */

CASE_BODY(two)
{
    tn_cu_context first = make();
    tn_cu_stream first_stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event first_event = contract_event();
    tn_cu_deviceptr first_address;
    SET_UP(cuMemAlloc(&first_address, 4096));
    tn_cu_context second = make();
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_context of = NULL;
    GIVES(SUCCESS, cuStreamGetCtx(first_stream, &of));
    HOLDS(of == first, "the stream is the first's");
    GIVES(SUCCESS, cuPointerGetAttribute(&of, TN_CU_POINTER_CONTEXT, first_address));
    HOLDS(of == first, "so is the memory");
    STATE("memory of the other, on the current one's stream");
    GIVES(SUCCESS, cuMemsetD8Async(first_address, 1, 16, stream));
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    STATE("on the other's stream");
    GIVES(SUCCESS, cuMemsetD8Async(first_address, 2, 16, first_stream));
    GIVES(SUCCESS, cuStreamSynchronize(first_stream));
    STATE("an event on its own context's stream");
    GIVES(SUCCESS, cuEventRecord(first_event, first_stream));
    STATE("on the other's");
    GIVES(INVALID_HANDLE, cuEventRecord(first_event, stream));
    STATE("waiting for it there");
    GIVES(SUCCESS, cuStreamWaitEvent(stream, first_event, 0));
    STATE("freeing the other's memory");
    GIVES(SUCCESS, cuMemFree(first_address));
    SET_UP(cuStreamSynchronize(stream));
    SET_UP(cuCtxDestroy(second));
    SET_UP(cuCtxDestroy(first));
}

CASE_BODY(frees)
{
    tn_cu_context first = make();
    tn_cu_deviceptr first_address;
    tn_cu_deviceptr second_address;
    SET_UP(cuMemAlloc(&first_address, 4096));
    tn_cu_context second = make();
    SET_UP(cuMemAlloc(&second_address, 4096));
    struct contract_busy busy = contract_busy_begin_for(UINT64_C(300000000));
    STATE("memory of the other, beside work of the current one");
    GIVES(SUCCESS, cuMemFree(first_address));
    HOLDS(contract_busy_runs(&busy), "does not wait");
    STATE("its own");
    GIVES(SUCCESS, cuMemFree(second_address));
    HOLDS(!contract_busy_runs(&busy), "waits");
    contract_busy_end(&busy);
    SET_UP(cuCtxDestroy(second));
    SET_UP(cuCtxDestroy(first));
}

CASE_BODY(peers)
{
    tn_cu_context primary = retain();
    STATE("none is current");
    GIVES(INVALID_CONTEXT, cuCtxEnablePeerAccess(primary, 0));
    GIVES(INVALID_CONTEXT, cuCtxDisablePeerAccess(NULL));
    tn_cu_context context = make();
    STATE("NULL");
    GIVES(INVALID_CONTEXT, cuCtxEnablePeerAccess(NULL, 0));
    GIVES(INVALID_CONTEXT, cuCtxDisablePeerAccess(NULL));
    STATE("of the same device");
    GIVES(PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(primary, 0));
    GIVES(PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(primary));
    STATE("flags");
    GIVES(INVALID_VALUE, cuCtxEnablePeerAccess(primary, 1));
    SET_UP(cuCtxDestroy(context));
    SET_UP(cuDevicePrimaryCtxRelease(0));
}

static const struct contract_case cases[] = {
    CASE("primary", "The primary context lives as long as it is retained.", primary),
    CASE("primary-refused", "Devices that do not exist have none.", primary_refused),
    CASE("primary-flags", "Which flags it takes.", primary_flags),
    CASE("primary-flags-active", "Its flags can be changed while it is active.",
         primary_flags_active),
    CASE("primary-reset", "A reset destroys it and leaves the references.", primary_reset),
    CASE("primary-reset-flags", "A reset forgets its flags.", primary_reset_flags),
    CASE("primary-again", "Mappings outlive it.", primary_again),
    CASE("create", "A program can make a context.", create),
    CASE("create-refused", "Unknown flags and devices are refused.", create_refused),
    CASE("destroy-refused", "Only a context that a program made is destroyed.", destroy_refused),
    CASE("destroy-memory", "A context's memory goes with it.", destroy_memory),
    CASE("destroy-elsewhere", "A thread that has it current notices.", destroy_elsewhere),
    CASE("destroyed-event", "Its events say that it is destroyed.", destroyed_event),
    CASE("stack", "Contexts are pushed and popped.", stack),
    CASE("stack-refused", "An empty stack is not popped.", stack_refused),
    CASE("stack-deep", "The stack is deep.", stack_deep),
    CASE("thread", "Each thread has a current context of its own.", thread),
    CASE("two", "Contexts share memory and streams, but not events.", two),
    CASE_ALONE("frees", "A free of linear memory waits for its own context alone.", frees),
    CASE("peers", "Contexts of one device are no peers.", peers),
};
const struct contract_group contract_context = CONTRACT_GROUP("context", START_INIT, cases);
