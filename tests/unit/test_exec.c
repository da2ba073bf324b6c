// SPDX-License-Identifier: Apache-2.0
#include <stdatomic.h>
#include <time.h>

#include "driver/exec.h"
#include "driver/idle.h"
#include "support/liar.h"
#include "support/world.h"
#include "unit/unit.h"

static struct tn_gpu gpu;
static tn_cu_stream stream;
static void *memory;
static tarn_sim_ledger before;

static void open_gpu(void)
{
    unit_gpu(&gpu);
    stream = test_stream();
    memory = test_linear_alloc(4096);
    test_fill(stream, memory, 1, 1024);
    test_synchronize(stream);
    before = test_ledger();
}

/* A graph that adds to the first words of the memory. */
static tn_cu_graph captured(uint32_t value)
{
    tn_cu_result result;
    tn_cu_graph graph;

    OK(tn_driver_capture_start(&gpu, stream, TN_CU_CAPTURE_MODE_GLOBAL));
    test_add(stream, memory, value, 16);
    tn_driver_capture_stop(&gpu, stream, &result, &graph);
    CU_OK(result);
    ck_assert_ptr_nonnull(graph);
    return graph;
}

GROUP(capture, open_gpu)

TEST(capture, a_capture_gives_a_graph_that_launches)
{
    tn_cu_graph graph = captured(5);
    tn_cu_graphexec exec;

    ck_assert_uint_eq(test_node_count(graph), 1);
    OK(tn_driver_graph_instantiate(&gpu, graph, &exec));
    OK(tn_driver_exec_launch(&gpu, exec, stream));
    OK(tn_driver_exec_launch(&gpu, exec, stream));
    test_expect_words(stream, memory, 11, 16);
    tn_driver_exec_destroy(&gpu, exec);
    tn_driver_graph_drop(&gpu, graph);
    test_same_ledger(&before);
    OK(tn_gpu_check(&gpu));
}

TEST(capture, nodes_of_a_graph_are_counted)
{
    tn_cu_graph graph;
    tn_cu_result result;
    size_t count;

    OK(tn_driver_capture_start(&gpu, stream, TN_CU_CAPTURE_MODE_GLOBAL));
    tn_driver_capture_stop(&gpu, stream, &result, &graph);
    OK(tn_driver_graph_count(&gpu, graph, &count));
    ck_assert_uint_eq(count, 0);
    tn_driver_graph_drop(&gpu, graph);
    graph = captured(5);
    OK(tn_driver_graph_count(&gpu, graph, &count));
    ck_assert_uint_eq(count, 1);
    sim.plan_fault("cuGraphGetNodes", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_driver_graph_count(&gpu, graph, &count));
    unit_expect_sentence("cuGraphGetNodes");
    tn_driver_graph_drop(&gpu, graph);
    test_same_ledger(&before);
}

TEST(capture, a_capture_cannot_start_twice)
{
    OK(tn_driver_capture_start(&gpu, stream, TN_CU_CAPTURE_MODE_GLOBAL));
    STATUS(TARN_ERR_DRIVER, tn_driver_capture_start(&gpu, stream, TN_CU_CAPTURE_MODE_GLOBAL));
    unit_expect_sentence("cuStreamBeginCapture");
    tn_driver_capture_cancel(&gpu, stream);
    test_same_ledger(&before);
}

TEST(capture, a_capture_without_its_context_does_not_start)
{
    tn_cu_graph graph = captured(5);

    sim.plan_fault("cuCtxGetCurrent", 1, 1, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER,
           tn_driver_capture_start(&gpu, TN_CU_STREAM_PER_THREAD, TN_CU_CAPTURE_MODE_GLOBAL));
    STATUS(TARN_ERR_DRIVER, tn_driver_capture_start_body(&gpu, TN_CU_STREAM_PER_THREAD, graph,
                                                         TN_CU_CAPTURE_MODE_GLOBAL));
    ck_assert_uint_eq(sim.clear_fault(NULL), 2);
    ck_assert_int_eq(test_capture_status(TN_CU_STREAM_PER_THREAD), TN_CU_CAPTURE_STATUS_NONE);
    tn_driver_graph_drop(&gpu, graph);
    test_same_ledger(&before);
}

TEST(capture, stopping_a_broken_capture_says_why_and_ends_it)
{
    tn_cu_result result;
    tn_cu_graph graph;

    OK(tn_driver_capture_start(&gpu, stream, TN_CU_CAPTURE_MODE_GLOBAL));
    test_break_capture();
    tn_driver_capture_stop(&gpu, stream, &result, &graph);
    ck_assert_int_eq((int)result, (int)TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ck_assert_ptr_null(graph);
    ck_assert_int_eq(test_capture_status(stream), TN_CU_CAPTURE_STATUS_NONE);
    test_same_ledger(&before);
}

TEST(capture, cancelling_leaves_nothing_whatever_the_state)
{
    OK(tn_driver_capture_start(&gpu, stream, TN_CU_CAPTURE_MODE_GLOBAL));
    test_add(stream, memory, 1, 16);
    tn_driver_capture_cancel(&gpu, stream);
    test_same_ledger(&before);
    OK(tn_driver_capture_start(&gpu, stream, TN_CU_CAPTURE_MODE_GLOBAL));
    test_break_capture();
    tn_driver_capture_cancel(&gpu, stream);
    test_same_ledger(&before);
    tn_driver_capture_cancel(&gpu, stream); /* over long ago */
    OK(tn_gpu_check(&gpu));
    test_expect_words(stream, memory, 1, 16);
}

TEST(capture, a_cancel_that_the_driver_refuses_poisons)
{
    OK(tn_driver_capture_start(&gpu, stream, TN_CU_CAPTURE_MODE_GLOBAL));
    sim.plan_fault("cuStreamEndCapture", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    tn_driver_capture_cancel(&gpu, stream);
    STATUS(TARN_ERR_POISONED, tn_gpu_check(&gpu));
    unit_expect_sentence("cuStreamEndCapture");
}

static atomic_int destroyed;

static void note_destroyed(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static void await_destroyed(int count)
{
    int64_t deadline = test_deadline();

    while (atomic_load(&destroyed) < count && test_pause(deadline))
        continue;
    ck_assert_int_eq(atomic_load(&destroyed), count);
}

GROUP(object, open_gpu, .name = "user object")

TEST(object, a_user_object_lives_as_long_as_a_launch_of_its_graph)
{
    tn_cu_graph graph = captured(5);
    tn_cu_graphexec exec;
    tn_cu_userobject object;
    bool will_run = false;

    OK(tn_driver_graph_attach(&gpu, graph, note_destroyed, &destroyed, &object, &will_run));
    ck_assert(will_run);
    OK(tn_driver_graph_instantiate(&gpu, graph, &exec));
    sim.hold_work();
    OK(tn_driver_exec_launch(&gpu, exec, stream));
    tn_driver_graph_drop(&gpu, graph);
    tn_driver_exec_destroy(&gpu, exec);
    (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
    ck_assert_int_eq(atomic_load(&destroyed), 0); /* the launch is still to run */
    sim.resume_work();
    test_synchronize(stream);
    await_destroyed(1);
    test_same_ledger(&before);
}

TEST(object, a_user_object_that_is_taken_back_runs_at_once)
{
    tn_cu_graph graph = captured(5);
    tn_cu_graphexec exec;
    tn_cu_userobject object;
    bool will_run = false;

    OK(tn_driver_graph_attach(&gpu, graph, note_destroyed, &destroyed, &object, &will_run));
    tn_driver_graph_detach(&gpu, graph, object);
    await_destroyed(1);
    OK(tn_driver_graph_instantiate(&gpu, graph, &exec)); /* the graph is as before */
    tn_driver_exec_destroy(&gpu, exec);
    tn_driver_graph_drop(&gpu, graph);
    test_same_ledger(&before);
}

TEST(object, a_user_object_that_cannot_be_made_never_runs)
{
    tn_cu_graph graph = captured(5);
    tn_cu_userobject object;
    bool will_run = true;

    sim.plan_fault("cuUserObjectCreate", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER,
           tn_driver_graph_attach(&gpu, graph, note_destroyed, &destroyed, &object, &will_run));
    ck_assert(!will_run);
    tn_driver_graph_drop(&gpu, graph);
    test_same_ledger(&before);
    ck_assert_int_eq(atomic_load(&destroyed), 0);
}

TEST(object, a_user_object_that_the_graph_refuses_runs_all_the_same)
{
    tn_cu_graph graph = captured(5);
    tn_cu_userobject object;
    bool will_run = false;

    sim.plan_fault("cuGraphRetainUserObject", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER,
           tn_driver_graph_attach(&gpu, graph, note_destroyed, &destroyed, &object, &will_run));
    ck_assert(will_run);
    await_destroyed(1);
    tn_driver_graph_drop(&gpu, graph);
    test_same_ledger(&before);
    OK(tn_gpu_check(&gpu));
}

GROUP(graph, open_gpu)

TEST(graph, a_graph_that_cannot_be_instantiated_is_as_it_was)
{
    tn_cu_graph graph = captured(5);
    tn_cu_graphexec exec = NULL;

    sim.plan_fault("cuGraphInstantiateWithFlags", 1, 0, TN_CUDA_ERROR_OUT_OF_MEMORY);
    STATUS(TARN_ERR_DEVICE_MEMORY, tn_driver_graph_instantiate(&gpu, graph, &exec));
    ck_assert_ptr_null(exec);
    OK(tn_driver_graph_instantiate(&gpu, graph, &exec));
    tn_driver_exec_destroy(&gpu, exec);
    tn_driver_graph_drop(&gpu, graph);
    test_same_ledger(&before);
}

TEST(graph, graphs_are_made_and_ended_beside_a_capture)
{
    tn_cu_graph graph = captured(5);
    tn_cu_graphexec exec;
    tn_cu_stream other = test_stream();

    OK(tn_driver_capture_start(&gpu, other, TN_CU_CAPTURE_MODE_GLOBAL));
    OK(tn_driver_graph_instantiate(&gpu, graph, &exec));
    tn_driver_exec_destroy(&gpu, exec);
    tn_driver_graph_drop(&gpu, graph);
    ck_assert_int_eq(test_capture_status(other), TN_CU_CAPTURE_STATUS_ACTIVE);
    tn_driver_capture_cancel(&gpu, other);
}

TEST(graph, a_launch_on_a_capturing_stream_is_refused)
{
    tn_cu_graph graph = captured(5);
    tn_cu_graphexec exec;

    OK(tn_driver_graph_instantiate(&gpu, graph, &exec));
    sim.plan_fault("cuGraphLaunch", 1, 0, TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    STATUS(TARN_ERR_WRONG_STATE, tn_driver_exec_launch(&gpu, exec, stream));
    unit_expect_sentence("being captured");
    sim.plan_fault("cuGraphLaunch", 1, 0, TN_CUDA_ERROR_LAUNCH_FAILED);
    STATUS(TARN_ERR_DEVICE_LOST, tn_driver_exec_launch(&gpu, exec, stream));
}

/* The contract's cases update/... show which update gets which of the driver's answers. */
TEST(graph, a_refused_update_says_why)
{
    static const struct {
        tn_cu_update_result answer;
        const char *why;
    } cases[] = {
        {TN_CU_GRAPH_UPDATE_ERROR, "the driver does not say why"},
        {TN_CU_GRAPH_UPDATE_TOPOLOGY_CHANGED, "it has other nodes or dependencies"},
        {TN_CU_GRAPH_UPDATE_NODE_TYPE_CHANGED, "a node is of another type"},
        {TN_CU_GRAPH_UPDATE_FUNCTION_CHANGED, "a kernel cannot take the other one's place"},
        {TN_CU_GRAPH_UPDATE_UNSUPPORTED_FUNCTION, "a kernel cannot take the other one's place"},
        {TN_CU_GRAPH_UPDATE_PARAMETERS_CHANGED, "a node's parameters differ"},
        {TN_CU_GRAPH_UPDATE_ATTRIBUTES_CHANGED, "a node's attributes differ"},
        {TN_CU_GRAPH_UPDATE_NOT_SUPPORTED, "a node cannot be updated"},
    };
    struct tn_driver refusing;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char number[64];

        (void)snprintf(number, sizeof number, "(CUgraphExecUpdateResult %d)", (int)cases[i].answer);
        refusing = test_refusing_updates(gpu.driver, cases[i].answer);
        gpu.driver = &refusing;
        STATUS(TARN_ERR_CANNOT_UPDATE, tn_driver_exec_update(&gpu, NULL, NULL));
        unit_expect_sentence(cases[i].why);
        unit_expect_sentence(number);
    }
}

static void launch_on_default_streams(void *exec)
{
    OK(tn_driver_exec_launch(&gpu, exec, NULL)); /* no context is current on this thread */
    OK(tn_driver_exec_launch(&gpu, exec, TN_CU_STREAM_LEGACY));
    OK(tn_driver_exec_launch(&gpu, exec, TN_CU_STREAM_PER_THREAD));
    OK(tn_gpu_wait_idle(&gpu));
    ck_assert_ptr_null(test_context());
}

TEST(graph, the_default_streams_are_those_of_the_device)
{
    tn_cu_graph graph = captured(5);
    tn_cu_graphexec exec;

    OK(tn_driver_graph_instantiate(&gpu, graph, &exec));
    test_elsewhere(launch_on_default_streams, exec);
    test_expect_words(stream, memory, 16, 16);
    tn_driver_exec_destroy(&gpu, exec);
    tn_driver_graph_drop(&gpu, graph);
}

TEST(graph, the_memory_of_allocation_nodes_is_asked_for)
{
    uint64_t bytes = 77;

    OK(tn_driver_graph_memory_reserved(&gpu, &bytes));
    ck_assert_uint_eq(bytes, 0);
    sim.plan_fault("cuDeviceGetGraphMemAttribute", 1, 0, TN_CUDA_ERROR_UNKNOWN);
    STATUS(TARN_ERR_DRIVER, tn_driver_graph_memory_reserved(&gpu, &bytes));
    unit_expect_sentence("cuDeviceGetGraphMemAttribute");
}
