// SPDX-License-Identifier: Apache-2.0
/* test_graph.c -- graphs replayed over memory that changes under them, and what they keep alive. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "sim_test.h"

static struct kernels kernels;
static tn_cu_stream stream;

static void make_things(void)
{
    start_context();
    kernels = load_kernels();
    stream = new_stream(TN_CU_STREAM_NON_BLOCKING);
}

static uint32_t word(tn_cu_deviceptr address)
{
    return *(volatile uint32_t *)address;
}

static void begin(void)
{
    OK(cu.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_RELAXED));
}

static tn_cu_graph end(void)
{
    tn_cu_graph graph;
    OK(cu.cuStreamEndCapture(stream, &graph));
    return graph;
}

static tn_cu_graphexec instantiate(tn_cu_graph graph)
{
    tn_cu_graphexec exec;
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

/* A graph of a set, a kernel, a copy and a kernel: word 0 becomes 2, word 1 becomes 7. */
static tn_cu_graph mixed_graph(tn_cu_deviceptr address)
{
    uint32_t five = 5;
    tn_cu_deviceptr second = address + 4;
    void *params[] = {&second, &five};
    begin();
    OK(cu.cuMemsetD32Async(address, 0, 2, stream));
    OK(launch_fill(&kernels, stream, address, 2, 1));
    OK(cu.cuMemcpyDtoDAsync(second, address, 4, stream));
    OK(cu.cuLaunchKernel(kernels.add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    five = 100; /* copied at the call */
    return end();
}

static void replay(tn_cu_graphexec exec, tn_cu_deviceptr address)
{
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(word(address), 2);
    ck_assert_uint_eq(word(address + 4), 7);
}

GROUP(replay, make_things)

TEST(replay, a_graph_runs_on_whatever_memory_lies_at_its_addresses)
{
    struct mapped mapped = map_new(4 * MIB);
    tn_cu_graph graph = mixed_graph(mapped.address);
    tn_cu_graphexec exec = instantiate(graph);
    OK(cu.cuGraphDestroy(graph));
    ck_assert_uint_ne(word(mapped.address), 2); /* capturing did nothing */
    for (int i = 0; i < 50; i++) {
        replay(exec, mapped.address);
        OK(cu.cuMemUnmap(mapped.address, mapped.bytes));
        OK(cu.cuMemRelease(mapped.handle));
        mapped.handle = physical(mapped.bytes);
        OK(cu.cuMemMap(mapped.address, mapped.bytes, 0, mapped.handle, 0));
        OK(give_access(mapped.address, mapped.bytes, TN_CU_MEM_ACCESS_READWRITE));
        ck_assert_uint_ne(word(mapped.address), 2);
    }
    OK(cu.cuMemUnmap(mapped.address, mapped.bytes));
    for (size_t i = 0; i < 2; i++)
        OK(cu.cuMemMap(mapped.address + i * 2 * MIB, 2 * MIB, 0, physical(2 * MIB), 0));
    OK(give_access(mapped.address, mapped.bytes, TN_CU_MEM_ACCESS_READWRITE));
    replay(exec, mapped.address);
    OK(cu.cuGraphExecDestroy(exec));
}

TEST(replay, a_launch_that_is_queued_uses_the_memory_of_when_it_runs)
{
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_graphexec exec = instantiate(mixed_graph(mapped.address));
    sim.tarn_sim_hold_work();
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuMemUnmap(mapped.address, mapped.bytes));
    OK(cu.cuMemMap(mapped.address, mapped.bytes, 0, physical(mapped.bytes), 0));
    OK(give_access(mapped.address, mapped.bytes, TN_CU_MEM_ACCESS_READWRITE));
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(word(mapped.address + 4), 7);
}

TEST(replay, copies_and_sets_are_checked_when_instantiated_and_kernels_are_not)
{
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_graphexec exec;
    begin();
    OK(launch_fill(&kernels, stream, mapped.address, 1, 1));
    tn_cu_graph kernel_graph = end();
    begin();
    OK(cu.cuMemsetD8Async(mapped.address, 0, 4, stream));
    tn_cu_graph set_graph = end();
    tn_cu_graph all_graph = mixed_graph(mapped.address);
    OK(give_access(mapped.address, mapped.bytes, TN_CU_MEM_ACCESS_NONE));
    OK(cu.cuGraphInstantiateWithFlags(&exec, kernel_graph, 8));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithFlags(&exec, set_graph, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithFlags(&exec, all_graph, 0));
    OK(give_access(mapped.address, mapped.bytes, TN_CU_MEM_ACCESS_READWRITE));
    OK(cu.cuGraphInstantiateWithFlags(&exec, set_graph, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithFlags(&exec, set_graph, 64));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphInstantiateWithFlags(&exec, NULL, 0));
}

TEST_LOOP(replay, launching_over_unmapped_memory_is_found_when_it_runs, 0, 2)
{
    struct mapped mapped = map_new(2 * MIB);
    bool set = _i == 0;
    begin();
    if (set)
        OK(cu.cuMemsetD8Async(mapped.address, 0, 4, stream));
    else
        OK(launch_fill(&kernels, stream, mapped.address, 1, 1));
    tn_cu_graphexec exec = instantiate(end());
    OK(cu.cuMemUnmap(mapped.address, mapped.bytes));
    OK(cu.cuGraphLaunch(exec, stream));
    tn_cu_result fault = set ? TN_CUDA_ERROR_LAUNCH_FAILED : TN_CUDA_ERROR_ILLEGAL_ADDRESS;
    ANSWERS(fault, cu.cuStreamSynchronize(stream));
    ANSWERS(fault, cu.cuGraphLaunch(exec, stream));
    OK(cu.cuGraphExecDestroy(exec));
    ck_assert_uint_eq(ledger().graph_execs, 0);
}

static atomic_int running;
static atomic_int overlaps;

static void note_overlap(void *unused)
{
    (void)unused;
    if (atomic_fetch_add(&running, 1) != 0)
        atomic_fetch_add(&overlaps, 1);
    for (volatile int i = 0; i < 100000; i++)
        continue;
    atomic_fetch_sub(&running, 1);
}

TEST(replay, launches_of_one_executable_graph_never_overlap)
{
    tn_cu_stream other = new_stream(TN_CU_STREAM_NON_BLOCKING);
    begin();
    OK(cu.cuLaunchHostFunc(stream, note_overlap, NULL));
    tn_cu_graphexec exec = instantiate(end());
    for (int i = 0; i < 20; i++) {
        OK(cu.cuGraphLaunch(exec, stream));
        OK(cu.cuGraphLaunch(exec, other));
    }
    OK(cu.cuGraphExecDestroy(exec)); /* in flight */
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuStreamSynchronize(other));
    ck_assert_int_eq(atomic_load(&overlaps), 0);
}

TEST(replay, a_captured_launch_can_be_read_back)
{
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_graphnode nodes[4];
    size_t count = 4;
    tn_cu_kernel_node_params params;
    tn_cu_context context;
    uint64_t address;
    uint32_t value;
    OK(cu.cuCtxGetCurrent(&context));
    OK(cu.cuGraphGetNodes(mixed_graph(mapped.address), nodes, &count));
    ck_assert_uint_eq(count, 4);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphKernelNodeGetParams(nodes[0], &params));
    OK(cu.cuGraphKernelNodeGetParams(nodes[1], &params));
    ck_assert_ptr_eq(params.func, kernels.fill);
    ck_assert_ptr_eq(params.ctx, context);
    ck_assert_uint_eq(params.block_x, 32);
    ck_assert_ptr_null(params.extra);
    memcpy(&address, params.kernel_params[0], sizeof address);
    memcpy(&value, params.kernel_params[1], sizeof value);
    ck_assert_uint_eq(address, mapped.address);
    ck_assert_uint_eq(value, 2);
    count = 2;
    OK(cu.cuGraphGetNodes(mixed_graph(mapped.address), nodes, &count));
    ck_assert_uint_eq(count, 2);
}

TEST(replay, a_packed_launch_is_read_back_packed)
{
    unsigned char packed[12] = {1, 2, 3};
    size_t bytes = sizeof packed;
    void *extra[] = {TN_CU_LAUNCH_PARAM_BUFFER_POINTER, packed, TN_CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, TN_CU_LAUNCH_PARAM_END};
    tn_cu_graphnode node;
    size_t count = 1;
    tn_cu_kernel_node_params params;
    begin();
    OK(cu.cuLaunchKernel(kernels.add, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    OK(cu.cuGraphGetNodes(end(), &node, &count));
    OK(cu.cuGraphKernelNodeGetParams(node, &params));
    ck_assert_ptr_null(params.kernel_params);
    ck_assert_ptr_eq(params.extra[0], TN_CU_LAUNCH_PARAM_BUFFER_SIZE);
    ck_assert_uint_eq(*(size_t *)params.extra[1], 12);
    ck_assert_ptr_eq(params.extra[2], TN_CU_LAUNCH_PARAM_BUFFER_POINTER);
    ck_assert_int_eq(memcmp(params.extra[3], packed, sizeof packed), 0);
    ck_assert_ptr_null(params.extra[4]);
}

static atomic_int destroyed;
static atomic_int destroyed_on_caller;
static pthread_t caller;
static tn_cu_result result_in_destructor;

static void destroy_object(void *user)
{
    tn_cu_deviceptr address;
    ck_assert_ptr_eq(user, &destroyed);
    if (pthread_equal(pthread_self(), caller))
        atomic_store(&destroyed_on_caller, 1);
    result_in_destructor = cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0);
    atomic_fetch_add(&destroyed, 1);
}

/* How many destructors have run, those that are due included. */
static int destroyed_now(void)
{
    (void)ledger();
    return atomic_load(&destroyed);
}

static tn_cu_userobject new_object(void)
{
    tn_cu_userobject object;
    caller = pthread_self();
    OK(cu.cuUserObjectCreate(&object, &destroyed, destroy_object, 1,
                             TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return object;
}

GROUP(life, make_things)

TEST(life, a_user_object_goes_with_the_last_of_graph_clone_exec_and_launch)
{
    tn_cu_graph graph;
    tn_cu_graph clone;
    begin();
    OK(cu.cuStreamGetCaptureInfo(stream, &(tn_cu_capture_status){0}, NULL, &graph, NULL, NULL,
                                 NULL));
    tn_cu_userobject object = new_object();
    OK(cu.cuGraphRetainUserObject(graph, object, 1, TN_CU_GRAPH_USER_OBJECT_MOVE));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuUserObjectRelease(object, 1)); /* moved away */
    OK(cu.cuLaunchHostFunc(stream, note_overlap, NULL));
    graph = end();
    tn_cu_graphexec exec = instantiate(graph);
    OK(cu.cuGraphClone(&clone, graph));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuGraphDestroy(clone));
    ck_assert_int_eq(destroyed_now(), 0);
    sim.tarn_sim_hold_work();
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuGraphExecDestroy(exec));
    ck_assert_int_eq(destroyed_now(), 0);
    sim.tarn_sim_resume_work();
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_int_eq(destroyed_now(), 1);
    ck_assert_int_eq(atomic_load(&destroyed_on_caller), 0);
    ANSWERS(TN_CUDA_ERROR_NOT_PERMITTED, result_in_destructor);
    ck_assert_uint_eq(ledger().user_objects, 0);
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuUserObjectRetain(object, 1));
}

static tn_cu_graph graph_with_object(void)
{
    tn_cu_graph graph;
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphRetainUserObject(graph, new_object(), 1, TN_CU_GRAPH_USER_OBJECT_MOVE));
    return graph;
}

/* Which call drops the last reference is no matter: _i. */
TEST_LOOP(life, a_late_destructor_of_an_instantiated_graph_runs_behind_the_call, 0, 2)
{
    tn_cu_graph graph = graph_with_object();
    tn_cu_graphexec exec = instantiate(graph);
    sim.tarn_sim_delay_destructors(UINT64_MAX); /* as long as may be */
    if (_i == 0)
        OK(cu.cuGraphDestroy(graph));
    OK(cu.cuGraphExecDestroy(exec));
    if (_i == 1)
        OK(cu.cuGraphDestroy(graph));
    OK(cu.cuGraphDestroy(graph_with_object())); /* never instantiated: it is not late */
    ck_assert_int_eq(atomic_load(&destroyed), 1);
    ck_assert_int_eq(destroyed_now(), 2); /* the ledger waits for no delay */
    ck_assert_uint_eq(ledger().user_objects, 0);
}

TEST(life, late_destructors_run_by_themselves_in_time)
{
    tn_cu_graph graph = graph_with_object();
    tn_cu_graphexec exec = instantiate(graph);
    struct timespec begun;
    struct timespec now;
    sim.tarn_sim_delay_destructors(20000);
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &begun), 0);
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuGraphExecDestroy(exec));
    while (atomic_load(&destroyed) == 0)
        (void)nanosleep(&(struct timespec){0, 100000}, NULL);
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    ck_assert_int_ge((now.tv_sec - begun.tv_sec) * 1000000 + (now.tv_nsec - begun.tv_nsec) / 1000,
                     20000);
}

TEST_LOOP(life, a_user_object_goes_with_a_capture_that_ends_badly_or_is_abandoned, 0, 2)
{
    tn_cu_graph graph;
    bool abandoned = _i == 1;
    begin();
    OK(cu.cuStreamGetCaptureInfo(stream, &(tn_cu_capture_status){0}, NULL, &graph, NULL, NULL,
                                 NULL));
    OK(cu.cuGraphRetainUserObject(graph, new_object(), 1, TN_CU_GRAPH_USER_OBJECT_MOVE));
    if (abandoned) {
        OK(cu.cuStreamDestroy(stream));
    } else {
        ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.cuCtxSynchronize());
        ck_assert_int_eq(destroyed_now(), 0);
        ANSWERS(TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(stream, &graph));
    }
    ck_assert_int_eq(destroyed_now(), 1);
}

TEST(life, references_to_user_objects_are_counted)
{
    tn_cu_graph graph;
    tn_cu_userobject object;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuUserObjectCreate(&object, NULL, destroy_object, 0, 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuUserObjectCreate(&object, NULL, destroy_object, 1, 0));
    object = new_object();
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuUserObjectRetain(object, 2));
    OK(cu.cuGraphRetainUserObject(graph, object, 1, 0));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuUserObjectRelease(object, 4));
    OK(cu.cuUserObjectRelease(object, 3));
    ck_assert_int_eq(destroyed_now(), 0);
    OK(cu.cuGraphDestroy(graph));
    ck_assert_int_eq(destroyed_now(), 1);
    ANSWERS(TN_CUDA_ERROR_INVALID_HANDLE, cu.cuGraphDestroy(graph));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroy(NULL));
}

GROUP(shapes, make_things)

/* SG1 */
TEST(shapes, a_cycle_is_refused)
{
    tn_cu_graph graph;
    tn_cu_graphnode nodes[3];
    tn_cu_graphexec exec;
    OK(cu.cuGraphCreate(&graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cu.cuGraphAddEmptyNode(&nodes[i], graph, i == 0 ? NULL : &nodes[i - 1], i == 0 ? 0 : 1));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE,
            cu.cuGraphAddDependencies(graph, &nodes[2], &nodes[0], NULL, 1));
    /* All or none: the first edge alone would do. */
    tn_cu_graphnode from[] = {nodes[0], nodes[2]};
    tn_cu_graphnode to[] = {nodes[2], nodes[1]};
    size_t count = 0;
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphAddDependencies(graph, from, to, NULL, 2));
    OK(cu.cuGraphGetEdges(graph, NULL, NULL, NULL, &count));
    ck_assert_uint_eq(count, 2);
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
}

static tn_cu_conditional countdown;
static atomic_int rounds;

/* Counts in its first parameter's word, and ends the loop after five. */
static void count_rounds(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    (void)params;
    int done = atomic_fetch_add(&rounds, 1) + 1;
    ck_assert_int_eq(sim.tarn_sim_set_conditional(countdown, done < 5), 0);
    ck_assert_int_eq(sim.tarn_sim_set_conditional(countdown + 1, 1), -1);
}

TEST(shapes, a_twin_ends_a_loop)
{
    tn_cu_context context;
    tn_cu_graph graph;
    tn_cu_graphnode node;
    OK(cu.cuCtxGetCurrent(&context));
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphConditionalHandleCreate(&countdown, graph, context, 1, 1));
    tn_cu_node_params loop = {
        .type = TN_CU_NODE_CONDITIONAL,
        .conditional = {.handle = countdown, .type = TN_CU_GRAPH_COND_WHILE, .size = 1},
    };
    OK(cu.cuGraphAddNode(&node, graph, NULL, NULL, 0, &loop));
    ck_assert_int_eq(sim.tarn_sim_register_kernel("test_add", count_rounds), 0);
    uint64_t address = 0;
    uint32_t amount = 0;
    void *params[] = {&address, &amount};
    tn_cu_kernel_node_params kernel = {.func = kernels.add,
                                       .grid_x = 1,
                                       .grid_y = 1,
                                       .grid_z = 1,
                                       .block_x = 1,
                                       .block_y = 1,
                                       .block_z = 1,
                                       .kernel_params = params};
    OK(cu.cuGraphAddKernelNode(&node, loop.conditional.bodies[0], NULL, 0, &kernel));
    ANSWERS(TN_CUDA_ERROR_INVALID_VALUE, cu.cuGraphDestroy(loop.conditional.bodies[0]));
    tn_cu_graphexec exec = instantiate(graph);
    ck_assert_int_eq(sim.tarn_sim_set_conditional(countdown, 1), -1); /* nothing runs here */
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_int_eq(atomic_load(&rounds), 5);
}

static atomic_int met;

/* Ends when the other one of two is there as well. */
static void meet(void *unused)
{
    (void)unused;
    atomic_fetch_add(&met, 1);
    while (atomic_load(&met) < 2)
        continue;
}

/* Counts on from 2, each time by the number that it was told to find. */
static void count_on(void *expected)
{
    ck_assert_int_eq(atomic_fetch_add(&met, 1), (int)(intptr_t)expected);
}

static tn_cu_graphnode add_host(tn_cu_graph graph, const tn_cu_graphnode *after, size_t count,
                                tn_cu_hostfn function, int user)
{
    tn_cu_graphnode node;
    tn_cu_node_params params = {
        .type = TN_CU_NODE_HOST,
        .host = {.function = function, .user = (void *)(intptr_t)user},
    };
    OK(cu.cuGraphAddNode(&node, graph, after, NULL, count, &params));
    return node;
}

/* Two branches that meet; then a child graph of two nodes; then a last node. */
TEST(shapes, branches_run_side_by_side_and_wait_where_edges_say)
{
    tn_cu_graph graph;
    tn_cu_graph inner;
    tn_cu_graphnode node;
    OK(cu.cuGraphCreate(&graph, 0));
    OK(cu.cuGraphCreate(&inner, 0));
    node = add_host(inner, NULL, 0, count_on, 2);
    add_host(inner, &node, 1, count_on, 3);
    tn_cu_graphnode branches[] = {add_host(graph, NULL, 0, meet, 0),
                                  add_host(graph, NULL, 0, meet, 0)};
    OK(cu.cuGraphAddChildGraphNode(&node, graph, branches, 2, inner));
    add_host(graph, &node, 1, count_on, 4);
    tn_cu_graphexec exec = instantiate(graph);
    for (int i = 0; i < 20; i++) {
        atomic_store(&met, 0);
        OK(cu.cuGraphLaunch(exec, stream));
        OK(cu.cuStreamSynchronize(stream));
        ck_assert_int_eq(atomic_load(&met), 5);
    }
}

/* SS2 */
TEST(life, everything_given_back_leaves_the_ledger_as_it_was)
{
    tarn_sim_ledger before = ledger();
    struct mapped mapped = map_new(2 * MIB);
    tn_cu_stream extra = new_stream(TN_CU_STREAM_DEFAULT);
    tn_cu_event event = new_event();
    tn_cu_graph graph = mixed_graph(mapped.address);
    tn_cu_graph clone;
    OK(cu.cuGraphClone(&clone, graph));
    tn_cu_graphexec exec = instantiate(clone);
    OK(cu.cuGraphLaunch(exec, extra));
    OK(cu.cuEventRecord(event, extra));
    tarn_sim_ledger during = ledger();
    ck_assert_uint_eq(during.graphs, 2);
    ck_assert_uint_eq(during.graph_execs, 1);
    ck_assert_uint_eq(during.streams, before.streams + 1);
    ck_assert_uint_eq(during.events, 1);
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(clone));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuEventDestroy(event));
    OK(cu.cuStreamDestroy(extra));
    unmap_all(mapped);
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}

/* One thread of many that use everything at once. */
static void *use_everything(void *argument)
{
    tn_cu_context context = argument;
    OK(cu.cuCtxPushCurrent(context));
    tn_cu_stream own = new_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = new_event();
    for (int i = 0; i < 50; i++) {
        struct mapped mapped = map_new(2 * MIB);
        tn_cu_graph graph;
        tn_cu_graphexec exec;
        OK(cu.cuStreamBeginCapture(own, TN_CU_CAPTURE_MODE_THREAD_LOCAL));
        OK(cu.cuMemsetD32Async(mapped.address, (unsigned)i, 16, own));
        OK(launch_fill(&kernels, own, mapped.address, 7, 8));
        OK(cu.cuStreamEndCapture(own, &graph));
        tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
        OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
        OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
        OK(cu.cuGraphLaunch(exec, own));
        OK(cu.cuGraphLaunch(exec, TN_CU_STREAM_PER_THREAD));
        OK(cu.cuEventRecord(event, TN_CU_STREAM_PER_THREAD));
        OK(cu.cuGraphExecDestroy(exec));
        OK(cu.cuGraphDestroy(graph));
        OK(cu.cuEventSynchronize(event));
        OK(cu.cuStreamSynchronize(own));
        ck_assert_uint_eq(word(mapped.address), 7);
        ck_assert_uint_eq(word(mapped.address + 60), (unsigned)i);
        unmap_all(mapped);
        OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    }
    OK(cu.cuEventDestroy(event));
    OK(cu.cuStreamDestroy(own));
    return NULL;
}

TEST(replay, many_threads_may_use_everything_at_once)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    tn_cu_context context;
    tarn_sim_ledger before = ledger();
    OK(cu.cuCtxGetCurrent(&context));
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, use_everything, context), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    tarn_sim_ledger after = ledger();
    same_ledger(&before, &after);
}
