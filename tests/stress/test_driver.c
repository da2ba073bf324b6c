// SPDX-License-Identifier: Apache-2.0
/* Many threads at once on the simulated driver: 64 threads with 256 streams call everything that
 * the library and its users call, a million times in all, with up to 16 captures under way.
 *
 * What is checked. Each thread owns its streams and its memory, and knows what must be in it: every
 * answer is known beforehand, and every byte that is read back. The ledger is the same before and
 * after, each destructor and host function has run once, and the process never needs more files or
 * mappings than a system allows by default. The simulator's checker of programs, which ctest turns
 * on for a shorter run, aborts at the first wrong use that it sees; this program makes none.
 *
 * How it works. A thread has physical handles, each with a few tracked areas of one value, and
 * slots of addresses that it maps them at. An area's value changes in the order of one stream; when
 * another stream is to touch it, an event orders that one behind. Graphs touch areas of slots that
 * are never left unmapped, but whose handles are exchanged: the memory that is mapped at a launch
 * is what changes. Threads never forbid each other anything: their own mode is thread-local.
 *
 * Each run prints the line that repeats its choices: TARN_STRESS_SEED=...
 * TARN_STRESS_OPERATIONS=... (the interleaving of threads is the system's). */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stress/stress.h"

static tn_cu_context context;
static atomic_int captures;
static atomic_int captures_most;
static atomic_uint_fast64_t objects_made;
static atomic_uint_fast64_t objects_ended;
static atomic_uint_fast64_t calls;
static atomic_bool finished;

/* -- What threads do -- */

static void do_work(struct thread *t)
{
    int stream = stress_usable_stream(t);
    struct effect effect = stress_choose_effect(t, stress_mapped_slot(t));
    stress_order(t, stress_area(t, effect.slot, effect.area), stream);
    if (effect.kind == EFFECT_COPY)
        stress_order(t, stress_area(t, effect.slot, effect.from), stream);
    stress_enqueue(t, &effect, t->streams[stream]);
    stress_apply(t, &effect);
}

static void do_verify(struct thread *t)
{
    stress_verify(t, stress_mapped_slot(t), stress_below(t, AREAS));
}

/* From memory that is the caller's again when the call returns. */
static void do_upload(struct thread *t)
{
    uint32_t words[AREA_WORDS];
    uint32_t value = (uint32_t)stress_random(t);
    int slot = stress_mapped_slot(t);
    int stream = stress_usable_stream(t);
    int number = stress_below(t, AREAS);
    struct area *area = stress_area(t, slot, number);
    for (int i = 0; i < AREA_WORDS; i++)
        words[i] = value;
    stress_order(t, area, stream);
    DO(cu.cuMemcpyHtoDAsync(stress_address(t, slot, number), words, sizeof words,
                            t->streams[stream]));
    area->value = value;
}

/* Maps a handle that lies idle, or exchanges it for the one that is mapped. */
static void do_map(struct thread *t)
{
    int slot = stress_below(t, SLOTS);
    int handle = stress_below(t, HANDLES);
    if (t->handles[handle].slot >= 0)
        return;
    if (t->mapped[slot] >= 0)
        stress_unmap(t, slot);
    stress_map(t, handle, slot);
}

static void do_unmap(struct thread *t)
{
    int slot = FIXED_SLOTS + stress_below(t, SLOTS - FIXED_SLOTS);
    if (t->mapped[slot] >= 0)
        stress_unmap(t, slot);
}

/* Gives a handle back and makes another one. */
static void do_renew(struct thread *t)
{
    struct physical *physical = &t->handles[stress_below(t, HANDLES)];
    if (physical->slot >= 0)
        return;
    DO(cu.cuMemRelease(physical->handle));
    stress_make_handle(t, physical);
}

static void do_reserve(struct thread *t)
{
    tn_cu_deviceptr address;
    size_t bytes = SLOT_BYTES << stress_below(t, 6);
    DO(cu.cuMemAddressReserve(&address, bytes, 0, 0, 0));
    DO_GIVING(TN_CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressFree(address, bytes / 2));
    DO(cu.cuMemAddressFree(address, bytes));
}

/* Another process would do the same: it gets a file, makes a handle of it and sees the memory. */
static void do_share(struct thread *t)
{
    int slot = stress_mapped_slot(t);
    int file;
    tn_cu_memhandle imported;
    tn_cu_deviceptr address;
    const struct physical *physical = &t->handles[t->mapped[slot]];
    DO_GIVING(physical->shared ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_INVALID_VALUE,
              cu.cuMemExportToShareableHandle(&file, physical->handle,
                                              TN_CU_MEM_HANDLE_TYPE_POSIX_FD, 0));
    if (!physical->shared)
        return;
    DO(cu.cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)file,
                                         TN_CU_MEM_HANDLE_TYPE_POSIX_FD));
    ck_assert_int_eq(close(file), 0);
    DO(cu.cuMemAddressReserve(&address, SLOT_BYTES, 0, 0, 0));
    stress_lay(t, imported, address);
    DO(cu.cuMemRelease(imported));
    stress_verify_at(t, address, slot, stress_below(t, AREAS));
    DO(cu.cuMemUnmap(address, SLOT_BYTES));
    DO(cu.cuMemAddressFree(address, SLOT_BYTES));
}

static void do_retain(struct thread *t)
{
    int slot = stress_mapped_slot(t);
    tn_cu_memhandle handle;
    DO(cu.cuMemRetainAllocationHandle(
        &handle, (void *)(uintptr_t)stress_address(t, slot, stress_below(t, AREAS))));
    ck_assert_uint_eq(handle, t->handles[t->mapped[slot]].handle);
    DO(cu.cuMemRelease(handle));
}

static void do_ask(struct thread *t)
{
    int slot = stress_below(t, SLOTS);
    tn_cu_location location = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    unsigned long long flags;
    size_t free_bytes;
    size_t total_bytes;
    if (t->mapped[slot] >= 0) {
        DO(cu.cuMemGetAccess(&flags, &location, stress_slot(t, slot)));
        ck_assert_uint_eq(flags, TN_CU_MEM_ACCESS_READWRITE);
    } else {
        DO_GIVING(TN_CUDA_ERROR_INVALID_VALUE,
                  cu.cuMemGetAccess(&flags, &location, stress_slot(t, slot)));
    }
    DO(cu.cuMemGetInfo(&free_bytes, &total_bytes));
    ck_assert_uint_le(free_bytes, total_bytes);
}

/* Memory that threads allocate and free waits for the whole device, so there is little of it. */
static void do_linear(struct thread *t)
{
    tn_cu_deviceptr address;
    uint32_t value = (uint32_t)stress_random(t);
    int stream = stress_usable_stream(t);
    DO_UNSAFE(cu.cuMemAlloc(&address, AREA_WORDS * sizeof value));
    DO(cu.cuMemsetD32Async(address, value, AREA_WORDS, t->streams[stream]));
    DO(cu.cuMemcpyDtoHAsync(t->host, address, AREA_WORDS * sizeof value, t->streams[stream]));
    stress_settle(t, stream);
    ck_assert_uint_eq(t->host[0], value);
    ck_assert_uint_eq(t->host[AREA_WORDS - 1], value);
    DO_UNSAFE(cu.cuMemFree(address));
}

/* The driver's own stream-ordered memory: given back before it has been read. */
static void do_pool(struct thread *t)
{
    tn_cu_deviceptr address;
    uint32_t value = (uint32_t)stress_random(t);
    int stream = stress_usable_stream(t);
    size_t bytes = (size_t)stress_below(t, 1 << 20) + AREA_WORDS * sizeof value;
    DO_UNSAFE(cu.cuMemAllocAsync(&address, bytes, t->streams[stream]));
    DO(cu.cuMemsetD32Async(address, value, AREA_WORDS, t->streams[stream]));
    DO(cu.cuMemcpyDtoHAsync(t->host, address, AREA_WORDS * sizeof value, t->streams[stream]));
    DO_UNSAFE(cu.cuMemFreeAsync(address, t->streams[stream]));
    stress_settle(t, stream);
    ck_assert_uint_eq(t->host[0], value);
    ck_assert_uint_eq(t->host[AREA_WORDS - 1], value);
}

static void do_host(struct thread *t)
{
    void *memory;
    DO_UNSAFE(cu.cuMemHostAlloc(&memory, 4096, 0));
    memset(memory, 1, 4096);
    DO_UNSAFE(cu.cuMemFreeHost(memory));
}

static void do_event(struct thread *t)
{
    tn_cu_event event;
    int stream = stress_usable_stream(t);
    DO(cu.cuEventCreate(&event, TN_CU_EVENT_DISABLE_TIMING));
    DO(cu.cuEventRecord(event, t->streams[stream]));
    stress_enter_unsafe(t);
    t->calls++;
    tn_cu_result result = cu.cuEventQuery(event);
    ck_assert(result == TN_CUDA_SUCCESS || result == TN_CUDA_ERROR_NOT_READY);
    if (stress_below(t, 4) == 0)
        DO(cu.cuEventSynchronize(event));
    stress_leave_unsafe(t);
    DO(cu.cuEventDestroy(event));
}

/* A stream is destroyed, mostly busy, and another takes its place; what the old one has begun, the
 * new one comes after. */
static void do_new_stream(struct thread *t)
{
    int number = stress_usable_stream(t);
    tn_cu_stream stream;
    DO(cu.cuStreamCreate(&stream, stress_below(t, 4) == 0 ? TN_CU_STREAM_DEFAULT
                                                          : TN_CU_STREAM_NON_BLOCKING));
    DO(cu.cuEventRecord(t->event, t->streams[number]));
    DO(cu.cuStreamWaitEvent(stream, t->event, 0));
    DO(cu.cuStreamDestroy(t->streams[number]));
    t->streams[number] = stream;
}

static void object_ends(void *user)
{
    (void)user;
    atomic_fetch_add(&objects_ended, 1);
}

static void do_object(struct thread *t)
{
    tn_cu_userobject *object = &t->objects[stress_below(t, OBJECTS)];
    if (*object != NULL) {
        DO(cu.cuUserObjectRelease(*object, 1));
        *object = NULL;
        return;
    }
    atomic_fetch_add(&objects_made, 1);
    DO(cu.cuUserObjectCreate(object, t, object_ends, 1, TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
}

/* -- Graphs -- */

static void give_object(struct thread *t, tn_cu_graph graph)
{
    tn_cu_userobject object = t->objects[stress_below(t, OBJECTS)];
    if (object != NULL)
        DO(cu.cuGraphRetainUserObject(graph, object, 1, 0));
}

static bool may_capture(void)
{
    int now = atomic_load(&captures);
    while (now < CAPTURES) {
        if (atomic_compare_exchange_weak(&captures, &now, now + 1)) {
            int most = atomic_load(&captures_most);
            while (most < now + 1 && !atomic_compare_exchange_weak(&captures_most, &most, now + 1))
                continue;
            return true;
        }
    }
    return false;
}

static void do_begin(struct thread *t)
{
    tn_cu_capture_mode mode = (tn_cu_capture_mode)stress_below(t, 3);
    if (t->capturing || !may_capture())
        return;
    stress_settle(t, 0);
    stress_settle(t, 1);
    DO(cu.cuStreamBeginCapture(t->streams[0], mode));
    t->capturing = true;
    t->relaxed = mode == TN_CU_CAPTURE_MODE_RELAXED;
    t->forked = false;
    t->captured = (struct exec){.count = 0};
}

/* The origin works on slot 0, the stream forked from it on slot 1. */
static void do_record(struct thread *t)
{
    struct exec *captured = &t->captured;
    if (!t->capturing || captured->count == EFFECTS)
        return;
    int branch = stress_below(t, 2);
    if (branch == 1 && !t->forked) {
        DO(cu.cuEventRecord(t->event, t->streams[0]));
        DO(cu.cuStreamWaitEvent(t->streams[1], t->event, 0));
        t->forked = true;
    }
    struct effect *effect = &captured->effects[captured->count++];
    *effect = stress_choose_effect(t, branch);
    stress_enqueue(t, effect, t->streams[branch]);
}

/* Ends the capture and returns its graph. */
static tn_cu_graph end_capture(struct thread *t)
{
    tn_cu_graph graph = NULL;
    tn_cu_graph shown = NULL;
    tn_cu_capture_status status;
    size_t nodes;
    if (t->forked) {
        DO(cu.cuEventRecord(t->event, t->streams[1]));
        DO(cu.cuStreamWaitEvent(t->streams[0], t->event, 0));
    }
    DO(cu.cuStreamGetCaptureInfo(t->streams[0], &status, NULL, &shown, NULL, NULL, NULL));
    ck_assert_int_eq((int)status, TN_CU_CAPTURE_STATUS_ACTIVE);
    give_object(t, shown);
    DO(cu.cuStreamEndCapture(t->streams[0], &graph));
    ck_assert_ptr_eq(graph, shown);
    DO(cu.cuGraphGetNodes(graph, NULL, &nodes));
    ck_assert_uint_eq(nodes, t->captured.count);
    return graph;
}

/* The event stood in a capture, and can order nothing more until it is recorded anew. */
static void capture_is_over(struct thread *t)
{
    t->capturing = false;
    atomic_fetch_sub(&captures, 1);
}

static void do_end(struct thread *t)
{
    struct exec *exec = &t->execs[stress_below(t, EXECS)];
    if (!t->capturing || exec->exec != NULL)
        return;
    tn_cu_graph graph = end_capture(t);
    capture_is_over(t);
    *exec = t->captured;
    DO(cu.cuGraphInstantiateWithFlags(&exec->exec, graph, 0));
    if (stress_below(t, 4) == 0) {
        tn_cu_graph clone;
        DO(cu.cuGraphClone(&clone, graph));
        DO(cu.cuGraphDestroy(graph));
        graph = clone;
    }
    DO(cu.cuGraphDestroy(graph));
}

/* An unsafe call in a mode that forbids it ends the capture. */
static void do_break(struct thread *t)
{
    tn_cu_deviceptr address;
    tn_cu_graph graph = NULL;
    if (!t->capturing || t->relaxed || stress_below(t, 8) != 0)
        return;
    DO_GIVING(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuMemAlloc(&address, 4));
    DO_GIVING(TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
              cu.cuStreamEndCapture(t->streams[0], &graph));
    ck_assert_ptr_null(graph);
    capture_is_over(t);
}

/* Builds a chain of memset nodes by hand, of the shape that the executable graph says. */
static tn_cu_graph build(struct thread *t, struct exec *shape)
{
    tn_cu_graph graph;
    tn_cu_graph outer;
    tn_cu_graphnode node = NULL;
    DO(cu.cuGraphCreate(&graph, 0));
    for (size_t i = 0; i < shape->count; i++) {
        struct effect *effect = &shape->effects[i];
        tn_cu_graphnode previous = node;
        *effect = stress_choose_effect(t, stress_below(t, FIXED_SLOTS));
        effect->kind = EFFECT_FILL;
        tn_cu_node_params params = {
            .type = TN_CU_NODE_MEMSET,
            .memset = {.set = {.dst = stress_address(t, effect->slot, effect->area),
                               .value = effect->value,
                               .element_bytes = sizeof effect->value,
                               .width = AREA_WORDS,
                               .height = 1},
                       .ctx = context},
        };
        DO(cu.cuGraphAddNode(&node, graph, &previous, NULL, previous == NULL ? 0 : 1, &params));
    }
    if (!shape->nested)
        return graph;
    DO(cu.cuGraphCreate(&outer, 0));
    DO(cu.cuGraphAddChildGraphNode(&node, outer, NULL, 0, graph));
    DO(cu.cuGraphDestroy(graph));
    return outer;
}

static void do_build(struct thread *t)
{
    struct exec *exec = &t->execs[stress_below(t, EXECS)];
    if (exec->exec != NULL)
        return;
    exec->built = true;
    exec->nested = stress_below(t, 2) == 0;
    exec->count = (size_t)stress_below(t, 3) + 1;
    tn_cu_graph graph = build(t, exec);
    give_object(t, graph);
    DO_UNSAFE(cu.cuGraphInstantiateWithFlags(&exec->exec, graph, 0));
    DO(cu.cuGraphDestroy(graph));
}

/* The launches before keep what they were given. */
static void do_update(struct thread *t)
{
    struct exec *exec = &t->execs[stress_below(t, EXECS)];
    tn_cu_update_result_info info;
    if (exec->exec == NULL || !exec->built)
        return;
    tn_cu_graph graph = build(t, exec);
    DO(cu.cuGraphExecUpdate(exec->exec, graph, &info));
    ck_assert_int_eq((int)info.result, TN_CU_GRAPH_UPDATE_SUCCESS);
    DO(cu.cuGraphDestroy(graph));
}

static void do_launch(struct thread *t)
{
    const struct exec *exec = &t->execs[stress_below(t, EXECS)];
    int stream = stress_usable_stream(t);
    if (exec->exec == NULL)
        return;
    for (size_t i = 0; i < exec->count; i++) {
        stress_order(t, stress_area(t, exec->effects[i].slot, exec->effects[i].area), stream);
        stress_order(t, stress_area(t, exec->effects[i].slot, exec->effects[i].from), stream);
    }
    DO(cu.cuGraphLaunch(exec->exec, t->streams[stream]));
    for (size_t i = 0; i < exec->count; i++)
        stress_apply(t, &exec->effects[i]);
}

static void do_destroy_exec(struct thread *t)
{
    struct exec *exec = &t->execs[stress_below(t, EXECS)];
    if (exec->exec == NULL)
        return;
    DO_UNSAFE(cu.cuGraphExecDestroy(exec->exec));
    exec->exec = NULL;
}

static void step(struct thread *t)
{
    static const struct {
        void (*run)(struct thread *);
        int weight;
    } choices[] = {
        {do_work, 24},   {do_verify, 8},       {do_upload, 4},  {do_map, 8},    {do_unmap, 3},
        {do_renew, 3},   {do_reserve, 2},      {do_ask, 4},     {do_event, 6},  {do_new_stream, 2},
        {do_object, 4},  {do_begin, 4},        {do_record, 12}, {do_end, 3},    {do_break, 2},
        {do_launch, 12}, {do_destroy_exec, 2}, {do_build, 2},   {do_update, 4}, {do_share, 2},
        {do_retain, 2},  {do_pool, 3},         {do_linear, 1},  {do_host, 1},
    };
    int total = 0;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        total += choices[i].weight;
    int choice = stress_below(t, total);
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        choice -= choices[i].weight;
        if (choice < 0) {
            choices[i].run(t);
            return;
        }
    }
}

static void begin(struct thread *t)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_THREAD_LOCAL;
    void *host;
    DO(cu.cuCtxSetCurrent(context));
    DO(cu.cuThreadExchangeStreamCaptureMode(&mode));
    DO(cu.cuMemHostAlloc(&host, AREA_WORDS * sizeof *t->host, 0));
    t->host = host;
    for (int i = 0; i < STREAMS; i++)
        DO(cu.cuStreamCreate(&t->streams[i], TN_CU_STREAM_NON_BLOCKING));
    DO(cu.cuEventCreate(&t->event, TN_CU_EVENT_DISABLE_TIMING));
    DO(cu.cuMemAddressReserve(&t->base, SLOTS * SLOT_BYTES, 0, 0, 0));
    for (int i = 0; i < HANDLES; i++)
        stress_make_handle(t, &t->handles[i]);
    for (int slot = 0; slot < SLOTS; slot++)
        t->mapped[slot] = -1;
    for (int slot = 0; slot < FIXED_SLOTS; slot++)
        stress_map(t, slot, slot);
}

static void end(struct thread *t)
{
    if (t->capturing) {
        DO(cu.cuGraphDestroy(end_capture(t)));
        capture_is_over(t);
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        for (int area = 0; area < AREAS && t->mapped[slot] >= 0; area++)
            stress_verify(t, slot, area);
    }
    for (int i = 0; i < EXECS; i++) {
        if (t->execs[i].exec != NULL)
            DO(cu.cuGraphExecDestroy(t->execs[i].exec));
    }
    for (int i = 0; i < OBJECTS; i++) {
        if (t->objects[i] != NULL)
            DO(cu.cuUserObjectRelease(t->objects[i], 1));
    }
    for (int i = 0; i < STREAMS; i++) {
        stress_settle(t, i);
        DO(cu.cuStreamDestroy(t->streams[i]));
    }
    DO(cu.cuEventDestroy(t->event));
    for (int slot = 0; slot < SLOTS; slot++) {
        if (t->mapped[slot] >= 0)
            stress_unmap(t, slot);
    }
    for (int i = 0; i < HANDLES; i++)
        DO(cu.cuMemRelease(t->handles[i].handle));
    DO(cu.cuMemAddressFree(t->base, SLOTS * SLOT_BYTES));
    DO(cu.cuMemFreeHost(t->host));
}

static void *thread_body(void *argument)
{
    struct thread *t = argument;
    begin(t);
    while (t->calls < t->quota)
        step(t);
    end(t);
    atomic_fetch_add(&calls, t->calls);
    return NULL;
}

/* -- What the process needs of the system -- */

static size_t open_files(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static size_t mappings(void)
{
    size_t count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    for (int c = fgetc(maps); c != EOF; c = fgetc(maps))
        count += c == '\n';
    (void)fclose(maps);
    return count;
}

struct needs {
    size_t files;
    size_t mappings;
};

static void *watch(void *argument)
{
    struct needs *most = argument;
    while (!atomic_load(&finished)) {
        struct needs now = {open_files(), mappings()};
        if (now.files > most->files)
            most->files = now.files;
        if (now.mappings > most->mappings)
            most->mappings = now.mappings;
        usleep(SAMPLE_MS * 1000);
    }
    return NULL;
}

SUITE("stress")
GROUP(driver, NULL, .name = "the simulated driver", .timeout = 600)

TEST(driver, many_threads_get_right_answers_and_leave_nothing)
{
    static struct thread threads[THREADS];
    pthread_t handles[THREADS];
    pthread_t watcher;
    struct needs most = {0, 0};
    uint64_t seed = test_seed("TARN_STRESS_SEED", 7919);
    uint64_t operations = test_setting("TARN_STRESS_OPERATIONS", 1000000);

    (void)fprintf(stderr, "to repeat: TARN_STRESS_SEED=%llu TARN_STRESS_OPERATIONS=%llu\n",
                  (unsigned long long)seed, (unsigned long long)operations);
    test_start();
    CU_OK(cu.cuCtxGetCurrent(&context));
    tarn_sim_ledger before = test_ledger();
    ck_assert_int_eq(pthread_create(&watcher, NULL, watch, &most), 0);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){
            .number = i, .random = seed * THREADS + (uint64_t)i, .quota = operations / THREADS + 1};
        ck_assert_int_eq(pthread_create(&handles[i], NULL, thread_body, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(handles[i], NULL), 0);
    atomic_store(&finished, true);
    ck_assert_int_eq(pthread_join(watcher, NULL), 0);
    CU_OK(cu.cuCtxSynchronize());

    test_same_ledger(&before);
    ck_assert_uint_ge(atomic_load(&calls), operations);
    ck_assert_uint_eq(atomic_load(&objects_ended), atomic_load(&objects_made));
    ck_assert_uint_eq(atomic_load(&stress_callbacks_run), atomic_load(&stress_callbacks_due));
    ck_assert_int_eq(atomic_load(&captures), 0);
    ck_assert_uint_lt(most.files, FILES_MAX);
    ck_assert_uint_lt(most.mappings, MAPPINGS_MAX);
    (void)fprintf(stderr, "%llu calls, at most %d captures, %zu files, %zu mappings\n",
                  (unsigned long long)atomic_load(&calls), atomic_load(&captures_most), most.files,
                  most.mappings);
}
