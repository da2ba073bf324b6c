// SPDX-License-Identifier: Apache-2.0
/* streams.c -- streams: kinds, priorities, what is told of them, callbacks and host functions. */
#include "contract/contract.h"

#include <string.h>
#include <time.h>

CASE_BODY(create)
{
    tn_cu_stream s;
    for (unsigned int flags = 0; flags < 2; flags++) {
        unsigned int told = 77;
        STATE("flags %u", flags);
        GIVES(SUCCESS, cuStreamCreate(&s, flags));
        GIVES(SUCCESS, cuStreamGetFlags(s, &told));
        HOLDS(told == flags, "told as given");
        GIVES(SUCCESS, cuStreamQuery(s));
        GIVES(SUCCESS, cuStreamSynchronize(s));
        GIVES(SUCCESS, cuStreamDestroy(s));
    }
    STATE("flags 2");
    GIVES(INVALID_VALUE, cuStreamCreate(&s, 2));
    GIVES(INVALID_VALUE, cuStreamCreateWithPriority(&s, 2, 0));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuStreamCreate(NULL, 0));
    GIVES(INVALID_VALUE, cuStreamCreateWithPriority(NULL, 0, 0));
}

CASE_BODY(priority)
{
    static const int given[] = {0, -1, -5, -6, -100, 1, 100};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        static const int expected[] = {0, -1, -5, -5, -5, 0, 0};
        tn_cu_stream s;
        int told = 77;
        STATE("priority %d", given[i]);
        GIVES(SUCCESS, cuStreamCreateWithPriority(&s, TN_CU_STREAM_NON_BLOCKING, given[i]));
        GIVES(SUCCESS, cuStreamGetPriority(s, &told));
        HOLDS(told == expected[i], "counts as %d", told);
        SET_UP(cuStreamDestroy(s));
    }
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    GIVES(INVALID_VALUE, cuStreamGetPriority(s, NULL));
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(defaults)
{
    static const struct {
        const char *name;
        tn_cu_stream stream;
    } rows[] = {
        {"NULL", NULL},
        {"the legacy stream", TN_CU_STREAM_LEGACY},
        {"the thread's own", TN_CU_STREAM_PER_THREAD},
    };
    tn_cu_context current;
    SET_UP(cuCtxGetCurrent(&current));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned int flags = 77;
        int order = 77;
        tn_cu_context context = NULL;
        STATE("%s", rows[i].name);
        GIVES(SUCCESS, cuStreamGetFlags(rows[i].stream, &flags));
        GIVES(SUCCESS, cuStreamGetPriority(rows[i].stream, &order));
        STATE("flags %u, priority %d", flags, order);
        GIVES(SUCCESS, cuStreamGetCtx(rows[i].stream, &context));
        HOLDS(context == current, "of the current context");
        GIVES(SUCCESS, cuStreamQuery(rows[i].stream));
        GIVES(SUCCESS, cuStreamSynchronize(rows[i].stream));
    }
}

struct told {
    tn_cu_result result;
    unsigned long long id;
};

static void ask_own(void *argument)
{
    struct told *told = argument;
    told->result = cu.cuStreamGetId(TN_CU_STREAM_PER_THREAD, &told->id);
}

static void ask_legacy(void *argument)
{
    struct told *told = argument;
    told->result = cu.cuStreamGetId(NULL, &told->id);
}

CASE_BODY(ids)
{
    unsigned long long null;
    unsigned long long legacy;
    unsigned long long own;
    unsigned long long first;
    unsigned long long second;
    struct told told;
    GIVES(SUCCESS, cuStreamGetId(NULL, &null));
    GIVES(SUCCESS, cuStreamGetId(TN_CU_STREAM_LEGACY, &legacy));
    HOLDS(null == legacy, "NULL is the legacy stream");
    GIVES(SUCCESS, cuStreamGetId(TN_CU_STREAM_PER_THREAD, &own));
    HOLDS(own != legacy, "the thread's own is another");
    contract_elsewhere(ask_own, &told);
    contract_gives(TN_CUDA_SUCCESS, "cuStreamGetId(", told.result);
    HOLDS(told.id != own && told.id != legacy, "another thread's own is another again");
    contract_elsewhere(ask_legacy, &told);
    HOLDS(told.result == TN_CUDA_SUCCESS && told.id == legacy, "there is one legacy stream");
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    GIVES(SUCCESS, cuStreamGetId(s, &first));
    GIVES(SUCCESS, cuStreamGetId(s, &second));
    HOLDS(first == second, "an id stays");
    GIVES(INVALID_VALUE, cuStreamGetId(s, NULL));
    GIVES(INVALID_VALUE, cuStreamGetFlags(s, NULL));
    GIVES(INVALID_VALUE, cuStreamGetCtx(s, NULL));
    SET_UP(cuStreamDestroy(s));
    s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    SET_UP(cuStreamGetId(s, &second));
    HOLDS(first != second, "the next stream has another");
    SET_UP(cuStreamDestroy(s));
}

/* What may not be asked of a stream that captures. */
CASE_BODY(capturing)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graph graph;
    tn_cu_context context;
    unsigned long long id;
    unsigned int flags;
    int order;
    SET_UP(cuStreamBeginCapture(s, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(SUCCESS, cuStreamGetCtx(s, &context));
    GIVES(SUCCESS, cuStreamGetPriority(s, &order));
    SET_UP(cuStreamEndCapture(s, &graph));
    SET_UP(cuGraphDestroy(graph));
    SET_UP(cuStreamBeginCapture(s, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuStreamGetId(s, &id));
    GIVES(STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &graph));
    SET_UP(cuStreamBeginCapture(s, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuStreamGetFlags(s, &flags));
    GIVES(STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &graph));
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(default_destroyed)
{
    STATE("NULL");
    GIVES(INVALID_HANDLE, cuStreamDestroy(NULL));
    STATE("the legacy stream");
    GIVES(INVALID_HANDLE, cuStreamDestroy(TN_CU_STREAM_LEGACY));
    STATE("the thread's own");
    GIVES(INVALID_HANDLE, cuStreamDestroy(TN_CU_STREAM_PER_THREAD));
    GIVES(SUCCESS, cuStreamQuery(NULL));
}

CASE_BODY(destroyed_busy)
{
    struct contract_busy busy = contract_busy_begin();
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = contract_event();
    SET_UP(cuStreamWaitEvent(s, busy.done, 0));
    SET_UP(cuEventRecord(event, s));
    GIVES(SUCCESS, cuStreamDestroy(s));
    GIVES(NOT_READY, cuEventQuery(event));
    contract_busy_end(&busy);
    GIVES(SUCCESS, cuEventSynchronize(event));
    SET_UP(cuEventDestroy(event));
}

/* The order of the legacy stream and the others. */
CASE_BODY(legacy_order)
{
    tn_cu_stream blocking = contract_stream(TN_CU_STREAM_DEFAULT);
    tn_cu_stream other = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct contract_busy busy = contract_busy_begin();
    SET_UP(cuStreamWaitEvent(blocking, busy.done, 0));
    GIVES(NOT_READY, cuStreamQuery(blocking));
    GIVES(NOT_READY, cuStreamQuery(NULL));
    GIVES(SUCCESS, cuStreamQuery(other));
    GIVES(SUCCESS, cuStreamQuery(TN_CU_STREAM_PER_THREAD));
    contract_busy_end(&busy);
    GIVES(SUCCESS, cuStreamSynchronize(NULL));
    GIVES(SUCCESS, cuStreamQuery(blocking));
    SET_UP(cuStreamDestroy(blocking));
    SET_UP(cuStreamDestroy(other));
}

/* -- Callbacks -- */

struct called {
    int times;
    tn_cu_stream stream;
    tn_cu_result result;
    tn_cu_result reserve;
    tn_cu_result create;
    tn_cu_result info;
    tn_cu_result query;
    tn_cu_result capturing;
    tn_cu_result version;
    tn_cu_result current;
    tn_cu_event event;
};

static void try_calls(struct called *called)
{
    tn_cu_deviceptr address;
    tn_cu_memhandle handle;
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_capture_status status;
    tn_cu_context context;
    size_t free_bytes;
    size_t total_bytes;
    int version;
    called->times++;
    called->reserve = cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0);
    called->create = cu.cuMemCreate(&handle, 2 * MIB, &prop, 0);
    called->info = cu.cuMemGetInfo(&free_bytes, &total_bytes);
    called->query = cu.cuEventQuery(called->event);
    called->capturing = cu.cuStreamIsCapturing(called->stream, &status);
    called->version = cu.cuDriverGetVersion(&version);
    called->current = cu.cuCtxGetCurrent(&context);
}

static void host_function(void *user)
{
    try_calls(user);
}

static void callback(tn_cu_stream stream, tn_cu_result result, void *user)
{
    struct called *called = user;
    called->stream = stream;
    called->result = result;
    try_calls(called);
}

static void show_calls(const struct called *called)
{
    HOLDS(called->times == 1, "called once");
    contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, "cuMemAddressReserve(", called->reserve);
    contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, "cuMemCreate(", called->create);
    contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, "cuMemGetInfo(", called->info);
    contract_gives(TN_CUDA_SUCCESS, "cuEventQuery(", called->query);
    contract_gives(TN_CUDA_SUCCESS, "cuStreamIsCapturing(", called->capturing);
    contract_gives(TN_CUDA_SUCCESS, "cuDriverGetVersion(", called->version);
    contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, "cuCtxGetCurrent(", called->current);
}

CASE_BODY(host)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct called called = {.stream = s, .event = contract_event()};
    GIVES(SUCCESS, cuLaunchHostFunc(s, host_function, &called));
    GIVES(SUCCESS, cuStreamSynchronize(s));
    show_calls(&called);
    GIVES(INVALID_VALUE, cuLaunchHostFunc(s, NULL, &called));
    SET_UP(cuEventDestroy(called.event));
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(callbacks)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct called called = {.event = contract_event()};
    GIVES(SUCCESS, cuStreamAddCallback(s, callback, &called, 0));
    GIVES(SUCCESS, cuStreamSynchronize(s));
    HOLDS(called.stream == s && called.result == TN_CUDA_SUCCESS, "told the stream, and success");
    show_calls(&called);
    STATE("flags 1");
    GIVES(INVALID_VALUE, cuStreamAddCallback(s, callback, &called, 1));
    STATE("no function");
    GIVES(INVALID_VALUE, cuStreamAddCallback(s, NULL, &called, 0));
    SET_UP(cuEventDestroy(called.event));
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(callback_captured)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct called called = {.event = contract_event()};
    tn_cu_graph graph;
    SET_UP(cuStreamBeginCapture(s, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuStreamAddCallback(s, callback, &called, 0));
    GIVES(STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(s, &graph));
    STATE("no function");
    SET_UP(cuStreamBeginCapture(s, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(INVALID_VALUE, cuLaunchHostFunc(s, NULL, &called));
    GIVES(SUCCESS, cuStreamEndCapture(s, &graph));
    SET_UP(cuGraphDestroy(graph));
    SET_UP(cuEventDestroy(called.event));
    SET_UP(cuStreamDestroy(s));
}

/* Work behind a host function waits for it. */
static void sleep_a_little(void *user)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    __atomic_store_n((int *)user, 1, __ATOMIC_RELEASE);
}

CASE_BODY(host_order)
{
    static int done;
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = contract_event();
    GIVES(SUCCESS, cuLaunchHostFunc(s, sleep_a_little, &done));
    GIVES(SUCCESS, cuEventRecord(event, s));
    GIVES(NOT_READY, cuEventQuery(event));
    GIVES(SUCCESS, cuEventSynchronize(event));
    HOLDS(__atomic_load_n(&done, __ATOMIC_ACQUIRE) == 1, "the event comes after the function");
    SET_UP(cuEventDestroy(event));
    SET_UP(cuStreamDestroy(s));
}

static const struct contract_case cases[] = {
    CASE("create", "There are two kinds of streams.", create),
    CASE("priority", "Priorities are brought into the range.", priority),
    CASE("defaults", "What is told of the default streams.", defaults),
    CASE("ids", "Every stream has an id of its own.", ids),
    CASE("capturing", "A stream that captures tells neither id nor flags.", capturing),
    CASE("default-destroyed", "The default streams cannot be destroyed.", default_destroyed),
    CASE("destroyed-busy", "The work of a destroyed stream is still done.", destroyed_busy),
    CASE("legacy-order", "The legacy stream waits for blocking ones.", legacy_order),
    CASE("host", "A host function may hardly call the driver.", host),
    CASE("callbacks", "Nor may a callback.", callbacks),
    CASE("callback-captured", "Callbacks are not captured.", callback_captured),
    CASE("host-order", "Work behind a host function waits for it.", host_order),
};
const struct contract_group contract_streams = CONTRACT_GROUP("streams", START_CONTEXT, cases);
