// SPDX-License-Identifier: Apache-2.0
/* The kernels' PTX is for the GPU, their twins for the simulator. */
#include "support/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct test_driver cu;
struct test_controls sim;

/* The kernels as loaded for a context. */
struct kernels {
    tn_cu_context context; /* NULL: not loaded */
    tn_cu_function fill;
    tn_cu_function add;
    tn_cu_function spin;
};

static struct kernels loaded[4];
static const struct kernels *kernels; /* those in use */

static const char kernels_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    /* A grid-stride loop over count words; op is a store of value, or an addition of it. */
    ".visible .entry tarn_test_fill(.param .u64 address, .param .u32 value, .param .u32 count)\n"
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
    ".visible .entry tarn_test_add(.param .u64 address, .param .u32 value, .param .u32 count)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
    " ld.param.u64 %d1, [address]; ld.param.u32 %r1, [value]; ld.param.u32 %r2, [count];\n"
    " cvta.to.global.u64 %d1, %d1;\n"
    " mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x;\n"
    " mad.lo.u32 %r3, %r3, %r4, %r5; mov.u32 %r6, %nctaid.x; mul.lo.u32 %r6, %r6, %r4;\n"
    "loop: setp.ge.u32 %p, %r3, %r2; @%p bra done;\n"
    " mul.wide.u32 %d2, %r3, 4; add.u64 %d2, %d1, %d2; ld.global.u32 %r7, [%d2];\n"
    " add.u32 %r7, %r7, %r1; st.global.u32 [%d2], %r7;\n"
    " add.u32 %r3, %r3, %r6; bra loop;\n"
    "done: ret;\n"
    "}\n"
    /* One thread that waits by the global nanosecond timer. */
    ".visible .entry tarn_test_spin(.param .u32 milliseconds)\n"
    "{\n"
    " .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %d<4>;\n"
    " ld.param.u32 %r1, [milliseconds]; mul.wide.u32 %d3, %r1, 1000000;\n"
    " mov.u64 %d1, %globaltimer;\n"
    "loop: mov.u64 %d2, %globaltimer; sub.u64 %d2, %d2, %d1;\n"
    " setp.lt.u64 %p, %d2, %d3; @%p bra loop;\n"
    " ret;\n"
    "}\n";

static void fill_twin(const tarn_sim_launch *launch, void *const *params)
{
    uint32_t *words;
    uint32_t value;
    uint32_t count;

    (void)launch;
    memcpy(&words, params[0], sizeof words);
    memcpy(&value, params[1], sizeof value);
    memcpy(&count, params[2], sizeof count);
    for (uint32_t i = 0; i < count; i++)
        words[i] = value;
}

static void add_twin(const tarn_sim_launch *launch, void *const *params)
{
    uint32_t *words;
    uint32_t value;
    uint32_t count;

    (void)launch;
    memcpy(&words, params[0], sizeof words);
    memcpy(&value, params[1], sizeof value);
    memcpy(&count, params[2], sizeof count);
    for (uint32_t i = 0; i < count; i++)
        words[i] += value;
}

static void spin_twin(const tarn_sim_launch *launch, void *const *params)
{
    uint32_t milliseconds;
    struct timespec pause;

    (void)launch;
    memcpy(&milliseconds, params[0], sizeof milliseconds);
    pause.tv_sec = milliseconds / 1000;
    pause.tv_nsec = (long)(milliseconds % 1000) * 1000000;
    (void)nanosleep(&pause, NULL);
}

static void skip(const char *why)
{
    (void)fprintf(stderr, "skipped: %s\n", why);
    _exit(77);
}

static void *open_driver(void)
{
    const char *wanted = getenv("TARN_DRIVER");
    void *library;

    if (wanted == NULL || strcmp(wanted, "cuda") == 0)
        wanted = "libcuda.so.1";
    library = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        skip("no CUDA driver");
    return library;
}

static void find_control(void *library, const char *name, void *field)
{
    void *found = dlsym(library, name);

    memcpy(field, &found, sizeof found);
}

/* The simulator's own. A name that it does not know would never fail, and never be counted: a test of one would hold. */
static void (*plan_fault_there)(const char *function, uint64_t nth, int for_good, int result);
static uint64_t (*call_count_there)(const char *function);

static void expect_known(const char *function)
{
    static const char *const names[] = {
#define TEST_NAME(name, symbol, version, parameters, arguments) #name,
        TN_CUDA_SIMULATED_FUNCTIONS(TEST_NAME)
#undef TEST_NAME
    };
    size_t at = 0;

    while (function != NULL && at < sizeof names / sizeof names[0] &&
           strcmp(names[at], function) != 0)
        at += 1;
    ck_assert_msg(at < sizeof names / sizeof names[0], "the simulator has no %s", function);
}

static void plan_fault(const char *function, uint64_t nth, int for_good, int result)
{
    expect_known(function);
    plan_fault_there(function, nth, for_good, result);
}

static uint64_t call_count(const char *function)
{
    expect_known(function);
    return call_count_there(function);
}

static void load_functions(void *library)
{
    tn_pfn_cuGetProcAddress resolve;
    void *found = dlsym(library, "cuGetProcAddress_v2");

    ck_assert_ptr_nonnull(found);
    memcpy(&resolve, &found, sizeof found);
#define TEST_RESOLVE(name, symbol, version, parameters, names)                                     \
    CU_OK(resolve(#name, &found, version, TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));            \
    ck_assert_msg(found != NULL, "%s is missing", #name);                                          \
    memcpy(&cu.name, &found, sizeof found);
    TN_CUDA_SIMULATED_FUNCTIONS(TEST_RESOLVE)
#undef TEST_RESOLVE
    find_control(library, "tarn_sim_register_kernel", &sim.register_kernel);
    find_control(library, "tarn_sim_read_ledger", &sim.read_ledger);
    find_control(library, "tarn_sim_plan_fault", &plan_fault_there);
    find_control(library, "tarn_sim_clear_fault", &sim.clear_fault);
    find_control(library, "tarn_sim_call_count", &call_count_there);
    find_control(library, "tarn_sim_set_hints", &sim.set_hints);
    find_control(library, "tarn_sim_longest_stall_ns", &sim.longest_stall_ns);
    find_control(library, "tarn_sim_set_queries", &sim.set_queries);
    find_control(library, "tarn_sim_hold_work", &sim.hold_work);
    find_control(library, "tarn_sim_resume_work", &sim.resume_work);
    if (plan_fault_there != NULL)
        sim.plan_fault = plan_fault;
    if (call_count_there != NULL)
        sim.call_count = call_count;
    find_control(library, "tarn_sim_delay_destructors", &sim.delay_destructors);
}

static void load_for(struct kernels *made, tn_cu_context context)
{
    tn_cu_module module;

    CU_OK(cu.cuModuleLoadData(&module, kernels_ptx));
    CU_OK(cu.cuModuleGetFunction(&made->fill, module, "tarn_test_fill"));
    CU_OK(cu.cuModuleGetFunction(&made->add, module, "tarn_test_add"));
    CU_OK(cu.cuModuleGetFunction(&made->spin, module, "tarn_test_spin"));
    made->context = context;
}

void test_use_kernels_here(void)
{
    tn_cu_context context = NULL;
    size_t at = 0;

    CU_OK(cu.cuCtxGetCurrent(&context));
    while (loaded[at].context != NULL && loaded[at].context != context)
        at += 1;
    ck_assert_uint_lt(at, sizeof loaded / sizeof loaded[0] - 1);
    if (loaded[at].context == NULL)
        load_for(&loaded[at], context);
    kernels = &loaded[at];
}

static void register_twins(void)
{
    ck_assert_int_eq(sim.register_kernel("tarn_test_fill", fill_twin), 0);
    ck_assert_int_eq(sim.register_kernel("tarn_test_add", add_twin), 0);
    ck_assert_int_eq(sim.register_kernel("tarn_test_spin", spin_twin), 0);
}

void test_start(void)
{
    tn_cu_context context;
    tn_cu_result result;

    if (kernels != NULL)
        return;
    load_functions(open_driver());
    result = cu.cuInit(0);
    if (result == TN_CUDA_ERROR_NO_DEVICE)
        skip("no CUDA device");
    CU_OK(result);
    CU_OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    CU_OK(cu.cuCtxSetCurrent(context));
    if (test_is_simulated())
        register_twins();
    test_use_kernels_here();
}

bool test_is_simulated(void)
{
    return sim.read_ledger != NULL;
}

tn_cu_stream test_stream(void)
{
    tn_cu_stream stream = NULL;

    CU_OK(cu.cuStreamCreate(&stream, TN_CU_STREAM_NON_BLOCKING));
    return stream;
}

tn_cu_memhandle test_import_handle(tn_cu_memhandle exported)
{
    tn_cu_memhandle handle = 0;
    int file = -1;

    CU_OK(cu.cuMemExportToShareableHandle(&file, exported, TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    CU_OK(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                            TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    ck_assert_int_eq(close(file), 0);
    return handle;
}

bool test_is_at_work(tn_cu_stream stream)
{
    tn_cu_result result = cu.cuStreamQuery(stream);

    ck_assert(result == TN_CUDA_SUCCESS || result == TN_CUDA_ERROR_NOT_READY);
    return result != TN_CUDA_SUCCESS;
}

void test_synchronize(tn_cu_stream stream)
{
    CU_OK(cu.cuStreamSynchronize(stream));
}

static void launch(tn_cu_function kernel, unsigned int blocks, unsigned int threads,
                   tn_cu_stream stream, void **params)
{
    CU_OK(cu.cuLaunchKernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, params, NULL));
}

void test_fill(tn_cu_stream stream, void *address, uint32_t value, size_t count)
{
    uint32_t words = (uint32_t)count;

    launch(kernels->fill, 64, 256, stream, (void *[]){&address, &value, &words});
}

void test_add(tn_cu_stream stream, void *address, uint32_t value, size_t count)
{
    uint32_t words = (uint32_t)count;

    launch(kernels->add, 64, 256, stream, (void *[]){&address, &value, &words});
}

tn_cu_result test_try_spin(tn_cu_stream stream, uint32_t milliseconds)
{
    return cu.cuLaunchKernel(kernels->spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&milliseconds},
                             NULL);
}

void test_spin(tn_cu_stream stream, uint32_t milliseconds)
{
    CU_OK(test_try_spin(stream, milliseconds));
}

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t test_deadline(void)
{
    return now_ns() + (int64_t)45 * 1000000000;
}

bool test_pause(int64_t deadline_ns)
{
    (void)nanosleep(&(struct timespec){0, 100000}, NULL);
    return now_ns() < deadline_ns;
}

static uint64_t held_at; /* the waits, when the hold began */

static uint64_t count_waits(void)
{
    return sim.call_count("cuMemFree") + sim.call_count("cuCtxSynchronize") +
           sim.call_count("cuStreamSynchronize") + sim.call_count("cuEventSynchronize");
}

static void *resume_late(void *unused)
{
    int64_t deadline = test_deadline();

    while (count_waits() == held_at && test_pause(deadline))
        continue;
    sim.resume_work();
    return unused;
}

void test_hold_until_waited(void)
{
    pthread_t thread;

    held_at = count_waits();
    sim.hold_work();
    ck_assert_int_eq(pthread_create(&thread, NULL, resume_late, NULL), 0);
    ck_assert_int_eq(pthread_detach(thread), 0);
}

uint32_t test_read(tn_cu_stream stream, const void *address)
{
    uint32_t word = 0;

    CU_OK(cu.cuMemcpyDtoHAsync(&word, (tn_cu_deviceptr)(uintptr_t)address, sizeof word, stream));
    test_synchronize(stream);
    return word;
}

void test_expect_words(tn_cu_stream stream, const void *address, uint32_t value, size_t count)
{
    uint32_t *words = malloc(count * sizeof *words);
    size_t equal = 0;

    ck_assert_ptr_nonnull(words);
    CU_OK(cu.cuMemcpyDtoHAsync(words, (tn_cu_deviceptr)(uintptr_t)address, count * sizeof *words,
                               stream));
    test_synchronize(stream);
    while (equal < count && words[equal] == value)
        equal += 1;
    ck_assert_msg(equal == count, "word %zu is %u, expected %u", equal, words[equal], value);
    free(words);
}

tarn_sim_ledger test_ledger(void)
{
    tarn_sim_ledger ledger;

    memset(&ledger, 0, sizeof ledger);
    if (test_is_simulated())
        sim.read_ledger(&ledger);
    return ledger;
}

void test_same_ledger(const tarn_sim_ledger *before)
{
    tarn_sim_ledger now = test_ledger();

#define SAME(field)                                                                                \
    ck_assert_msg(now.field == before->field, #field ": %llu, before %llu",                        \
                  (unsigned long long)now.field, (unsigned long long)before->field)
    SAME(reservations);
    SAME(reserved_bytes);
    SAME(handles);
    SAME(handle_bytes);
    SAME(mappings);
    SAME(mapped_bytes);
    SAME(linear_allocations);
    SAME(linear_bytes);
    SAME(host_allocations);
    SAME(streams);
    SAME(events);
    SAME(graphs);
    SAME(graph_execs);
    SAME(user_objects);
    SAME(modules);
    SAME(primary_retains);
    SAME(captures);
    SAME(context_stack_entries);
#undef SAME
}

struct errand {
    void (*body)(void *);
    void *argument;
};

static void *run_errand(void *memory)
{
    struct errand *errand = memory;

    errand->body(errand->argument);
    return NULL;
}

void test_elsewhere(void (*body)(void *), void *argument)
{
    struct errand errand = {body, argument};
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, run_errand, &errand), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

uint64_t test_setting(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? strtoull(value, NULL, 0) : otherwise;
}

uint64_t test_seed(const char *name, uint64_t otherwise)
{
    return test_setting(name, test_setting("TARN_FRESH_SEED", 0) * 4096 + otherwise);
}
