// SPDX-License-Identifier: Apache-2.0
/* tools.c -- what the cases of the contract share: kernels, memory, threads. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "contract/contract.h"

#define HOLD_NS UINT64_C(60000000) /* how long a held kernel runs at most */

/* -- Kernels -- */

static const char kernels_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry tarn_contract_fill(.param .u64 address, .param .u32 value, .param .u32 count)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d1, [address]; ld.param.u32 %r1, [value]; ld.param.u32 %r2, [count];\n"
    " cvta.to.global.u64 %d1, %d1;\n"
    " mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
    " mad.lo.u32 %r3, %r3, %r4, %r5; mov.u32 %r6, %nctaid.x; mul.lo.u32 %r6, %r6, %r4;\n"
    "loop: setp.ge.u32 %p, %r3, %r2; @%p bra done;\n"
    " mul.wide.u32 %d2, %r3, 4; add.u64 %d2, %d1, %d2; st.global.u32 [%d2], %r1;\n"
    " add.u32 %r3, %r3, %r6; bra loop;\n"
    "done: ret;\n"
    "}\n"
    ".visible .entry tarn_contract_add(.param .u64 address, .param .u32 amount)\n"
    "{\n"
    " .reg .b32 %r<4>; .reg .b64 %d<2>;\n"
    " ld.param.u64 %d1, [address]; ld.param.u32 %r1, [amount]; cvta.to.global.u64 %d1, %d1;\n"
    " ld.global.u32 %r2, [%d1]; add.u32 %r2, %r2, %r1; st.global.u32 [%d1], %r2;\n"
    " ret;\n"
    "}\n"
    ".visible .entry tarn_contract_copy(.param .u64 to, .param .u64 from, .param .u32 count)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<6>;\n"
    " ld.param.u64 %d1, [to]; ld.param.u64 %d3, [from]; ld.param.u32 %r2, [count];\n"
    " cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d3, %d3;\n"
    " mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
    " mad.lo.u32 %r3, %r3, %r4, %r5; mov.u32 %r6, %nctaid.x; mul.lo.u32 %r6, %r6, %r4;\n"
    "loop: setp.ge.u32 %p, %r3, %r2; @%p bra done;\n"
    " mul.wide.u32 %d2, %r3, 4; add.u64 %d4, %d3, %d2; ld.global.u32 %r1, [%d4];\n"
    " add.u64 %d4, %d1, %d2; st.global.u32 [%d4], %r1;\n"
    " add.u32 %r3, %r3, %r6; bra loop;\n"
    "done: ret;\n"
    "}\n"
    ".visible .entry tarn_contract_hold(.param .u64 flag, .param .u64 nanoseconds)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %d<6>;\n"
    " ld.param.u64 %d1, [flag]; ld.param.u64 %d3, [nanoseconds]; cvta.to.global.u64 %d1, %d1;\n"
    " mov.u64 %d4, %globaltimer;\n"
    "loop: ld.volatile.global.u32 %r1, [%d1]; setp.ne.u32 %p, %r1, 0; @%p bra done;\n"
    " mov.u64 %d5, %globaltimer; sub.u64 %d5, %d5, %d4;\n"
    " setp.lt.u64 %p, %d5, %d3; @%p bra loop;\n"
    "done: ret;\n"
    "}\n"
    ".visible .entry tarn_contract_empty()\n"
    "{\n"
    " ret;\n"
    "}\n";

#define TAKE(type, name, index)                                                                    \
    type name;                                                                                     \
    memcpy(&name, params[index], sizeof name)

static void fill_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    TAKE(uint32_t *, words, 0);
    TAKE(uint32_t, value, 1);
    TAKE(uint32_t, count, 2);
    for (uint32_t i = 0; i < count; i++) /* one may be the flag of a kernel that is held */
        __atomic_store_n(&words[i], value, __ATOMIC_RELAXED);
}

static void add_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    TAKE(uint32_t *, word, 0);
    TAKE(uint32_t, amount, 1);
    *word += amount;
}

static void copy_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    TAKE(uint32_t *, to, 0);
    TAKE(const uint32_t *, from, 1);
    TAKE(uint32_t, count, 2);
    memmove(to, from, count * sizeof *to);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void contract_hold_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    TAKE(const uint32_t *, flag, 0);
    TAKE(uint64_t, nanoseconds, 1);
    const struct timespec pause = {.tv_nsec = 50000};
    uint64_t end = now_ns() + nanoseconds;
    while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0 && now_ns() < end)
        nanosleep(&pause, NULL);
}

static void empty_twin(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    (void)params;
}

void contract_twin(const char *entry, tarn_sim_kernel function)
{
    int (*registration)(const char *, tarn_sim_kernel);
    void *found = dlsym(contract_library, "tarn_sim_register_kernel");
    if (found == NULL)
        return;
    memcpy(&registration, &found, sizeof registration);
    registration(entry, function);
}

const struct contract_kernels *contract_kernels(void)
{
    static struct contract_kernels kernels;
    if (kernels.module != NULL)
        return &kernels;
    struct contract_kernels fresh;
    contract_twin("tarn_contract_fill", fill_twin);
    contract_twin("tarn_contract_add", add_twin);
    contract_twin("tarn_contract_copy", copy_twin);
    contract_twin("tarn_contract_hold", contract_hold_twin);
    contract_twin("tarn_contract_empty", empty_twin);
    SET_UP(cuModuleLoadData(&fresh.module, kernels_ptx));
    SET_UP(cuModuleGetFunction(&fresh.fill, fresh.module, "tarn_contract_fill"));
    SET_UP(cuModuleGetFunction(&fresh.add, fresh.module, "tarn_contract_add"));
    SET_UP(cuModuleGetFunction(&fresh.copy, fresh.module, "tarn_contract_copy"));
    SET_UP(cuModuleGetFunction(&fresh.hold, fresh.module, "tarn_contract_hold"));
    SET_UP(cuModuleGetFunction(&fresh.empty, fresh.module, "tarn_contract_empty"));
    kernels = fresh;
    return &kernels;
}

static tn_cu_result launch(tn_cu_function function, unsigned int blocks, tn_cu_stream stream,
                           void **params)
{
    return cu.cuLaunchKernel(function, blocks, 1, 1, blocks == 1 ? 1 : 256, 1, 1, 0, stream, params,
                             NULL);
}

tn_cu_result contract_fill(tn_cu_stream stream, tn_cu_deviceptr address, uint32_t value,
                           uint32_t count)
{
    void *params[] = {&address, &value, &count};
    return launch(contract_kernels()->fill, 32, stream, params);
}

tn_cu_result contract_add(tn_cu_stream stream, tn_cu_deviceptr address, uint32_t amount)
{
    void *params[] = {&address, &amount};
    return launch(contract_kernels()->add, 1, stream, params);
}

tn_cu_result contract_copy(tn_cu_stream stream, tn_cu_deviceptr to, tn_cu_deviceptr from,
                           uint32_t count)
{
    void *params[] = {&to, &from, &count};
    return launch(contract_kernels()->copy, 32, stream, params);
}

/* -- Work that lasts -- */

struct contract_busy contract_busy_begin(void)
{
    return contract_busy_begin_for(HOLD_NS);
}

struct contract_busy contract_busy_begin_for(uint64_t limit)
{
    struct contract_busy busy;
    void *flag;
    tn_cu_function hold = contract_kernels()->hold;
    SET_UP(cuMemHostAlloc(&flag, sizeof *busy.flag, 0));
    busy.flag = flag;
    *busy.flag = 0;
    busy.stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    busy.done = contract_event();
    void *params[] = {&flag, &limit};
    SET_UP(cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, busy.stream, params, NULL));
    SET_UP(cuEventRecord(busy.done, busy.stream));
    return busy;
}

bool contract_busy_runs(const struct contract_busy *busy)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    tn_cu_result result = cu.cuEventQuery(busy->done);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    return result == TN_CUDA_ERROR_NOT_READY;
}

void contract_busy_end(struct contract_busy *busy)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
    __atomic_store_n(busy->flag, 1, __ATOMIC_RELEASE);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    SET_UP(cuStreamSynchronize(busy->stream));
    SET_UP(cuStreamDestroy(busy->stream));
    SET_UP(cuEventDestroy(busy->done));
    SET_UP(cuMemFreeHost(busy->flag));
    cu.cuThreadExchangeStreamCaptureMode(&mode);
}

/* -- Memory, streams, events -- */

tn_cu_allocation_prop contract_prop(int device)
{
    return (tn_cu_allocation_prop){
        .type = TN_CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
}

tn_cu_result contract_access(tn_cu_deviceptr address, size_t bytes, int flags)
{
    tn_cu_access_desc desc = {
        .location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        .flags = flags,
    };
    return cu.cuMemSetAccess(address, bytes, &desc, 1);
}

tn_cu_memhandle contract_handle(size_t bytes)
{
    tn_cu_allocation_prop prop = contract_prop(0);
    tn_cu_memhandle handle;
    SET_UP(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

tn_cu_deviceptr contract_reserve_at(tn_cu_deviceptr wish, size_t bytes)
{
    tn_cu_deviceptr address = 0;
    SET_UP(cuMemAddressReserve(&address, bytes, 0, wish, 0));
    if (address != wish)
        contract_give_up("the place is taken");
    return address;
}

void contract_open(tn_cu_deviceptr address, size_t bytes)
{
    contract_set_up("cuMemSetAccess(", contract_access(address, bytes, TN_CU_MEM_ACCESS_READWRITE),
                    __FILE__, __LINE__);
}

struct contract_mapped contract_map(size_t bytes)
{
    struct contract_mapped mapped = {.bytes = bytes};
    SET_UP(cuMemAddressReserve(&mapped.address, bytes, 0, 0, 0));
    mapped.handle = contract_handle(bytes);
    SET_UP(cuMemMap(mapped.address, bytes, 0, mapped.handle, 0));
    contract_open(mapped.address, bytes);
    return mapped;
}

void contract_unmap(struct contract_mapped mapped)
{
    SET_UP(cuMemUnmap(mapped.address, mapped.bytes));
    SET_UP(cuMemRelease(mapped.handle));
    SET_UP(cuMemAddressFree(mapped.address, mapped.bytes));
}

tn_cu_stream contract_stream(unsigned int flags)
{
    tn_cu_stream stream;
    SET_UP(cuStreamCreate(&stream, flags));
    return stream;
}

tn_cu_event contract_event(void)
{
    tn_cu_event event;
    SET_UP(cuEventCreate(&event, TN_CU_EVENT_DISABLE_TIMING));
    return event;
}

uint64_t contract_attribute(tn_cu_deviceptr address, tn_cu_pointer_attribute attribute)
{
    uint64_t value = 0;
    SET_UP(cuPointerGetAttribute(&value, attribute, address));
    return value;
}

tn_cu_context contract_current(void)
{
    tn_cu_context context = NULL;
    SET_UP(cuCtxGetCurrent(&context));
    return context;
}

uint32_t contract_word(tn_cu_deviceptr address, size_t index)
{
    uint32_t word;
    SET_UP(cuMemcpyDtoH(&word, address + index * sizeof word, sizeof word));
    return word;
}

size_t contract_free_bytes(void)
{
    size_t free_bytes;
    size_t total_bytes;
    SET_UP(cuMemGetInfo(&free_bytes, &total_bytes));
    return free_bytes;
}

void contract_needs_places(void)
{
#ifdef __SANITIZE_THREAD__
    contract_skip("ThreadSanitizer chooses the addresses");
#endif
}

void contract_races_on_purpose(void)
{
#ifdef __SANITIZE_THREAD__
    contract_skip("ThreadSanitizer sees work that the case leaves unordered");
#endif
}

/* -- Threads -- */

struct contract_thread {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    tn_cu_context context;
    void (*body)(void *); /* what to do next; NULL while there is nothing */
    void *argument;
    bool ending;
};

static void *thread_body(void *argument)
{
    struct contract_thread *self = argument;
    if (self->context != NULL)
        cu.cuCtxSetCurrent(self->context);
    pthread_mutex_lock(&self->lock);
    for (;;) {
        while (self->body == NULL && !self->ending)
            pthread_cond_wait(&self->changed, &self->lock);
        if (self->body == NULL)
            break;
        self->body(self->argument);
        self->body = NULL;
        pthread_cond_broadcast(&self->changed);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

struct contract_thread *contract_thread_start(void)
{
    struct contract_thread *thread = calloc(1, sizeof *thread);
    if (thread == NULL)
        contract_give_up("no memory");
    pthread_mutex_init(&thread->lock, NULL);
    pthread_cond_init(&thread->changed, NULL);
    cu.cuCtxGetCurrent(&thread->context);
    if (pthread_create(&thread->thread, NULL, thread_body, thread) != 0)
        contract_give_up("no thread");
    return thread;
}

void contract_thread_do(struct contract_thread *thread, void (*body)(void *), void *argument)
{
    pthread_mutex_lock(&thread->lock);
    thread->body = body;
    thread->argument = argument;
    pthread_cond_broadcast(&thread->changed);
    while (thread->body != NULL)
        pthread_cond_wait(&thread->changed, &thread->lock);
    pthread_mutex_unlock(&thread->lock);
}

void contract_thread_end(struct contract_thread *thread)
{
    pthread_mutex_lock(&thread->lock);
    thread->ending = true;
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->thread, NULL);
    pthread_cond_destroy(&thread->changed);
    pthread_mutex_destroy(&thread->lock);
    free(thread);
}

void contract_elsewhere(void (*body)(void *), void *argument)
{
    struct contract_thread *thread = contract_thread_start();
    contract_thread_do(thread, body, argument);
    contract_thread_end(thread);
}
