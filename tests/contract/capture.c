// SPDX-License-Identifier: Apache-2.0
/* capture.c -- captures: how they begin and end, what is asked about them, what they record, and
 * what is left when they end badly. */
#include "contract/capture_tools.h"

#include <string.h>

#define PAGE ((size_t)4096)

/* -- What the cases share -- */

static void begin(tn_cu_stream stream, tn_cu_capture_mode mode)
{
    SET_UP(cuStreamBeginCapture(stream, mode));
}

static uint64_t id_of(tn_cu_stream stream)
{
    tn_cu_capture_status status;
    uint64_t id = 0;
    SET_UP(cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL));
    return id;
}

/* -- Beginning and ending -- */

CASE_BODY(begin_default)
{
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(NULL, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(STREAM_CAPTURE_UNSUPPORTED,
          cuStreamBeginCapture(TN_CU_STREAM_LEGACY, TN_CU_CAPTURE_MODE_RELAXED));
    GIVES(SUCCESS, cuStreamBeginCapture(TN_CU_STREAM_PER_THREAD, TN_CU_CAPTURE_MODE_RELAXED));
    capture_node(TN_CU_STREAM_PER_THREAD);
    capture_end(TN_CU_STREAM_PER_THREAD, 1, 0);
}

CASE_BODY(begin_twice)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    begin(s, TN_CU_CAPTURE_MODE_RELAXED);
    GIVES(ILLEGAL_STATE, cuStreamBeginCapture(s, TN_CU_CAPTURE_MODE_RELAXED));
    IS_ACTIVE(s);
    capture_end(s, 0, 0);
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(begin_mode)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    STATE("mode 3");
    GIVES(INVALID_VALUE, cuStreamBeginCapture(s, (tn_cu_capture_mode)3));
    STATE("mode 9");
    GIVES(INVALID_VALUE, cuStreamBeginCapture(s, (tn_cu_capture_mode)9));
    IS_IDLE(s);
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(empty)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graph graph;
    tn_cu_graphexec exec;
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    GIVES(SUCCESS, cuStreamEndCapture(s, &graph));
    HOLDS(graph_node_count(graph) == 0, "0 nodes");
    GIVES(SUCCESS, cuGraphInstantiateWithFlags(&exec, graph, 0));
    GIVES(SUCCESS, cuGraphLaunch(exec, s));
    GIVES(SUCCESS, cuStreamSynchronize(s));
    graph_end(graph, exec);
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(idle)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_ACTIVE;
    uint64_t id = 77;
    size_t count = 77;
    tn_cu_graph graph = (tn_cu_graph)(uintptr_t)77;
    const tn_cu_graphnode *nodes = (const tn_cu_graphnode *)(uintptr_t)80;
    const tn_cu_edge_data *edges = (const tn_cu_edge_data *)(uintptr_t)80;
    END_BADLY(ILLEGAL_STATE, s);
    GIVES(ILLEGAL_STATE,
          cuStreamUpdateCaptureDependencies(s, NULL, NULL, 0, TN_CU_CAPTURE_DEPENDENCIES_SET));
    GIVES(SUCCESS, cuStreamGetCaptureInfo(s, &status, &id, &graph, &nodes, &edges, &count));
    HOLDS(status == TN_CU_CAPTURE_STATUS_NONE, "not capturing");
    STATE("id %s", id == 77 ? "untouched" : "written");
    STATE("graph %s", graph == (tn_cu_graph)(uintptr_t)77 ? "untouched" : "written");
    STATE("nodes %s", (uintptr_t)nodes == 80 ? "untouched" : "written");
    STATE("edges %s", (uintptr_t)edges == 80 ? "untouched" : "written");
    STATE("count %s", count == 77 ? "untouched" : "written");
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(no_outputs)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_capture_status status;
    const tn_cu_edge_data *edges;
    begin(s, TN_CU_CAPTURE_MODE_RELAXED);
    GIVES(INVALID_VALUE, cuStreamIsCapturing(s, NULL));
    GIVES(INVALID_VALUE, cuStreamGetCaptureInfo(s, NULL, NULL, NULL, NULL, NULL, NULL));
    GIVES(SUCCESS, cuStreamGetCaptureInfo(s, &status, NULL, NULL, NULL, NULL, NULL));
    STATE("edges without nodes");
    GIVES(INVALID_VALUE, cuStreamGetCaptureInfo(s, &status, NULL, NULL, NULL, &edges, NULL));
    IS_ACTIVE(s);
    STATE("nowhere to put the graph");
    GIVES(SUCCESS, cuStreamEndCapture(s, NULL));
    IS_IDLE(s);
    SET_UP(cuStreamDestroy(s));
}

/* -- What is asked about a capture -- */

CASE_BODY(ids)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream forked = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = contract_event();
    begin(s, TN_CU_CAPTURE_MODE_RELAXED);
    uint64_t first = id_of(s);
    SET_UP(cuEventRecord(event, s));
    SET_UP(cuStreamWaitEvent(forked, event, 0));
    HOLDS(id_of(forked) == first, "a forked stream has the same id");
    capture_end(s, 0, 0);
    begin(s, TN_CU_CAPTURE_MODE_RELAXED);
    HOLDS(id_of(s) == first + 1, "the next one has the next id");
    capture_abandon(s);
    SET_UP(cuEventDestroy(event));
    SET_UP(cuStreamDestroy(s));
    SET_UP(cuStreamDestroy(forked));
}

CASE_BODY(info)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_capture_status status;
    uint64_t id;
    size_t count = 77;
    tn_cu_graph graph;
    tn_cu_graph ended;
    const tn_cu_graphnode *nodes;
    const tn_cu_edge_data *edges = NULL;
    begin(s, TN_CU_CAPTURE_MODE_RELAXED);
    GIVES(SUCCESS, cuStreamGetCaptureInfo(s, &status, &id, &graph, &nodes, &edges, &count));
    HOLDS(count == 0, "at first it comes after nothing");
    capture_node(s);
    GIVES(SUCCESS, cuStreamGetCaptureInfo(s, &status, &id, &graph, &nodes, &edges, &count));
    HOLDS(status == TN_CU_CAPTURE_STATUS_ACTIVE && count == 1, "then after one node");
    HOLDS(nodes[0] == graph_node(graph, 0), "that of the graph");
    tn_cu_edge_data none = {0};
    HOLDS(edges != NULL && memcmp(edges, &none, sizeof none) == 0, "by an ordinary edge");
    nodes = NULL;
    GIVES(SUCCESS, cuStreamGetCaptureInfo(s, &status, &id, &graph, &nodes, NULL, &count));
    HOLDS(nodes != NULL && count == 1, "edges need not be asked for");
    GIVES(SUCCESS, cuStreamEndCapture(s, &ended));
    HOLDS(ended == graph, "the graph is the one that was shown");
    SET_UP(cuGraphDestroy(ended));
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(graph_kept)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_capture_status status;
    tn_cu_graph graph;
    tn_cu_graphnode added;
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    capture_node(s);
    SET_UP(cuStreamGetCaptureInfo(s, &status, NULL, &graph, NULL, NULL, NULL));
    GIVES(ILLEGAL_STATE, cuGraphDestroy(graph));
    IS_ACTIVE(s);
    GIVES(SUCCESS, cuGraphAddEmptyNode(&added, graph, NULL, 0));
    IS_ACTIVE(s);
    capture_end(s, 2, 0);
    SET_UP(cuStreamDestroy(s));
}

/* Puts the frontier of a stream behind other nodes. */
CASE_BODY(dependencies)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_capture_status status;
    tn_cu_graph graph;
    tn_cu_graph other;
    tn_cu_graphnode added;
    tn_cu_graphnode foreign;
    tn_cu_graphnode foreign_or_none[1];
    size_t count;
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    capture_node(s);
    SET_UP(cuStreamGetCaptureInfo(s, &status, NULL, &graph, NULL, NULL, NULL));
    SET_UP(cuGraphAddEmptyNode(&added, graph, NULL, 0));
    GIVES(SUCCESS,
          cuStreamUpdateCaptureDependencies(s, &added, NULL, 1, TN_CU_CAPTURE_DEPENDENCIES_ADD));
    SET_UP(cuStreamGetCaptureInfo(s, &status, NULL, NULL, NULL, NULL, &count));
    HOLDS(count == 2, "adding makes two");
    GIVES(SUCCESS,
          cuStreamUpdateCaptureDependencies(s, &added, NULL, 1, TN_CU_CAPTURE_DEPENDENCIES_ADD));
    SET_UP(cuStreamGetCaptureInfo(s, &status, NULL, NULL, NULL, NULL, &count));
    STATE("the same again makes %zu", count);
    GIVES(SUCCESS,
          cuStreamUpdateCaptureDependencies(s, &added, NULL, 1, TN_CU_CAPTURE_DEPENDENCIES_SET));
    SET_UP(cuStreamGetCaptureInfo(s, &status, NULL, NULL, NULL, NULL, &count));
    HOLDS(count == 1, "setting makes one");
    STATE("flag 2");
    GIVES(INVALID_VALUE, cuStreamUpdateCaptureDependencies(s, &added, NULL, 1, 2));
    STATE("no nodes");
    GIVES(INVALID_VALUE,
          cuStreamUpdateCaptureDependencies(s, NULL, NULL, 1, TN_CU_CAPTURE_DEPENDENCIES_SET));
    SET_UP(cuGraphCreate(&other, 0));
    SET_UP(cuGraphAddEmptyNode(&foreign, other, NULL, 0));
    STATE("another graph's node");
    foreign_or_none[0] = foreign;
    GIVES(INVALID_VALUE, cuStreamUpdateCaptureDependencies(s, foreign_or_none, NULL, 1,
                                                           TN_CU_CAPTURE_DEPENDENCIES_SET));
    IS_ACTIVE(s);
    capture_abandon(s);
    SET_UP(cuGraphDestroy(other));
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(dependencies_none)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    capture_node(s);
    GIVES(SUCCESS,
          cuStreamUpdateCaptureDependencies(s, NULL, NULL, 0, TN_CU_CAPTURE_DEPENDENCIES_SET));
    capture_node(s);
    capture_end(s, 2, 0);
    SET_UP(cuStreamDestroy(s));
}

/* An edge that a list of nodes alone cannot tell. */
CASE_BODY(lossy)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_capture_status status;
    const tn_cu_graphnode *nodes;
    const tn_cu_edge_data *edges;
    tn_cu_graphnode only;
    tn_cu_edge_data programmatic = {.from_port = 1, .type = 1};
    size_t count;
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    capture_node(s);
    SET_UP(cuStreamGetCaptureInfo(s, &status, NULL, NULL, &nodes, &edges, &count));
    only = nodes[0];
    GIVES(SUCCESS, cuStreamUpdateCaptureDependencies(s, &only, &programmatic, 1,
                                                     TN_CU_CAPTURE_DEPENDENCIES_SET));
    GIVES(LOSSY_QUERY, cuStreamGetCaptureInfo(s, &status, NULL, NULL, &nodes, NULL, &count));
    GIVES(SUCCESS, cuStreamGetCaptureInfo(s, &status, NULL, NULL, NULL, NULL, &count));
    GIVES(SUCCESS, cuStreamGetCaptureInfo(s, &status, NULL, NULL, &nodes, &edges, &count));
    HOLDS(count == 1 && edges[0].from_port == 1 && edges[0].type == 1, "the edge is as given");
    IS_ACTIVE(s);
    capture_node(s);
    capture_end(s, 2, 1);
    SET_UP(cuStreamDestroy(s));
}

/* -- Into a graph of the program -- */

CASE_BODY(to_graph)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graph graph = graph_new();
    tn_cu_graph ended;
    tn_cu_graphnode root = graph_empty(graph, NULL);
    STATE("a graph with one node");
    GIVES(SUCCESS,
          cuStreamBeginCaptureToGraph(s, graph, &root, NULL, 1, TN_CU_CAPTURE_MODE_GLOBAL));
    capture_node(s);
    capture_node(s);
    GIVES(ILLEGAL_STATE, cuGraphDestroy(graph));
    GIVES(SUCCESS, cuStreamEndCapture(s, &ended));
    HOLDS(ended == graph, "it is the graph that was given");
    HOLDS(graph_node_count(graph) == 3 && graph_edge_count(graph) == 2, "3 nodes in a chain");
    SET_UP(cuGraphDestroy(graph));
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(to_graph_errors)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graph graph = graph_new();
    tn_cu_graph other = graph_new();
    tn_cu_graphnode foreign = graph_empty(other, NULL);
    STATE("no graph");
    GIVES(INVALID_VALUE,
          cuStreamBeginCaptureToGraph(s, NULL, NULL, NULL, 0, TN_CU_CAPTURE_MODE_GLOBAL));
    STATE("mode 9");
    GIVES(INVALID_VALUE,
          cuStreamBeginCaptureToGraph(s, graph, NULL, NULL, 0, (tn_cu_capture_mode)9));
    STATE("no nodes");
    GIVES(INVALID_VALUE,
          cuStreamBeginCaptureToGraph(s, graph, NULL, NULL, 1, TN_CU_CAPTURE_MODE_GLOBAL));
    capture_abandon(s);
    STATE("another graph's node");
    GIVES(INVALID_VALUE,
          cuStreamBeginCaptureToGraph(s, graph, &foreign, NULL, 1, TN_CU_CAPTURE_MODE_GLOBAL));
    capture_abandon(s);
    STATE("the legacy stream");
    GIVES(STREAM_CAPTURE_UNSUPPORTED,
          cuStreamBeginCaptureToGraph(NULL, graph, NULL, NULL, 0, TN_CU_CAPTURE_MODE_GLOBAL));
    SET_UP(cuGraphDestroy(graph));
    SET_UP(cuGraphDestroy(other));
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(to_graph_invalidated)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graph graph = graph_new();
    SET_UP(cuStreamBeginCaptureToGraph(s, graph, NULL, NULL, 0, TN_CU_CAPTURE_MODE_GLOBAL));
    capture_node(s);
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
    IS_INVALIDATED(s);
    END_BADLY(STREAM_CAPTURE_INVALIDATED, s);
    SET_UP(cuStreamDestroy(s));
}

/* -- Invalidated -- */

CASE_BODY(invalidated)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_stream other = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = contract_event();
    tn_cu_event fresh = contract_event();
    tn_cu_capture_status status;
    uint64_t id = 77;
    size_t count = 77;
    tn_cu_graph graph = (tn_cu_graph)(uintptr_t)77;
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    SET_UP(cuEventRecord(event, s));
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(s));
    IS_INVALIDATED(s);
    GIVES(SUCCESS, cuStreamGetCaptureInfo(s, &status, &id, &graph, NULL, NULL, &count));
    HOLDS(status == TN_CU_CAPTURE_STATUS_INVALIDATED, "invalidated");
    HOLDS(id == 77 && count == 77 && (uintptr_t)graph == 77, "nothing else is told");
    GIVES(ILLEGAL_STATE, cuStreamBeginCapture(s, TN_CU_CAPTURE_MODE_GLOBAL));
    contract_gives(TN_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuLaunchKernel(", capture_launch(s));
    GIVES(STREAM_CAPTURE_INVALIDATED, cuEventRecord(fresh, s));
    GIVES(STREAM_CAPTURE_INVALIDATED, cuStreamWaitEvent(s, fresh, 0));
    GIVES(STREAM_CAPTURE_INVALIDATED,
          cuStreamUpdateCaptureDependencies(s, NULL, NULL, 0, TN_CU_CAPTURE_DEPENDENCIES_SET));
    STATE("its event");
    GIVES(INVALID_VALUE, cuStreamWaitEvent(other, event, 0));
    GIVES(INVALID_VALUE, cuEventQuery(event));
    STATE("unsafe calls");
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(s));
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(other));
    contract_gives(TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cuMemAlloc(", capture_allocate(s));
    STATE("another stream");
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(", capture_launch(other));
    END_BADLY(STREAM_CAPTURE_INVALIDATED, s);
    IS_IDLE(s);
    SET_UP(cuEventDestroy(event));
    SET_UP(cuEventDestroy(fresh));
    SET_UP(cuStreamDestroy(s));
    SET_UP(cuStreamDestroy(other));
}

CASE_BODY(context_waits)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    begin(s, TN_CU_CAPTURE_MODE_RELAXED);
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
    IS_INVALIDATED(s);
    END_BADLY(STREAM_CAPTURE_INVALIDATED, s);
    SET_UP(cuStreamDestroy(s));
}

/* The user objects of a capture that ends badly. */
CASE_BODY(user_object)
{
    static int destroyed;
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_userobject object;
    tn_cu_capture_status status;
    tn_cu_graph graph;
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    SET_UP(cuStreamGetCaptureInfo(s, &status, NULL, &graph, NULL, NULL, NULL));
    GIVES(SUCCESS, cuUserObjectCreate(&object, &destroyed, graph_count_up, 1, 1));
    GIVES(SUCCESS, cuGraphRetainUserObject(graph, object, 1, TN_CU_GRAPH_USER_OBJECT_MOVE));
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery(s));
    END_BADLY(STREAM_CAPTURE_INVALIDATED, s);
    HOLDS(graph_count_await(&destroyed) == 1, "its objects are gone");
    SET_UP(cuStreamDestroy(s));
}

/* -- What is recorded -- */

/* All calls of memory management, in the middle of a capture. */
CASE_BODY(mapping)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_graph graph;
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    struct contract_mapped memory = contract_map(2 * MIB);
    GIVES(SUCCESS, cuMemsetD32Async(memory.address, 7, 16, s));
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(", contract_add(s, memory.address, 5));
    IS_ACTIVE(s);
    GIVES(SUCCESS, cuStreamEndCapture(s, &graph));
    tn_cu_graphexec exec = graph_exec(graph);
    graph_run(exec, s);
    HOLDS(contract_word(memory.address, 0) == 12, "memory that was mapped meanwhile is used");
    graph_end(graph, exec);
    contract_unmap(memory);
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(nothing_to_do)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct contract_mapped memory = contract_map(2 * MIB);
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    GIVES(SUCCESS, cuMemcpyDtoDAsync(memory.address, memory.address + PAGE, 0, s));
    GIVES(SUCCESS, cuMemsetD8Async(memory.address, 1, 0, s));
    GIVES(SUCCESS, cuMemsetD32Async(memory.address, 1, 0, s));
    capture_end(s, 0, 0);
    contract_unmap(memory);
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(unmapped)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_deviceptr away;
    struct contract_mapped memory = contract_map(2 * MIB);
    SET_UP(cuMemAddressReserve(&away, 2 * MIB, 0, 0, 0));
    begin(s, TN_CU_CAPTURE_MODE_GLOBAL);
    GIVES(INVALID_VALUE, cuMemcpyDtoDAsync(memory.address, away, PAGE, s));
    IS_ACTIVE(s);
    GIVES(SUCCESS, cuMemsetD8Async(away, 1, PAGE, s));
    contract_gives(TN_CUDA_SUCCESS, "cuLaunchKernel(", contract_fill(s, away, 1, 1));
    capture_end(s, 2, 1);
    SET_UP(cuMemAddressFree(away, 2 * MIB));
    contract_unmap(memory);
    SET_UP(cuStreamDestroy(s));
}

CASE_BODY(relaxed_alloc)
{
    tn_cu_stream s = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    begin(s, TN_CU_CAPTURE_MODE_RELAXED);
    contract_gives(TN_CUDA_SUCCESS, "cuMemAlloc(", capture_allocate(s));
    capture_end(s, 0, 0);
    SET_UP(cuStreamDestroy(s));
}

static const struct contract_case cases[] = {
    CASE("begin-default", "The legacy stream does not capture, the thread's own does.",
         begin_default),
    CASE("begin-twice", "A stream that captures does not begin again.", begin_twice),
    CASE("begin-mode", "There are three modes.", begin_mode),
    CASE("empty", "An empty capture gives an empty graph.", empty),
    CASE("idle", "A stream that does not capture says so, and no more.", idle),
    CASE("no-outputs", "Where answers must be put, and where need not.", no_outputs),
    CASE("ids", "Captures are numbered.", ids),
    CASE("info", "A capture shows its graph and what comes before its next node.", info),
    CASE("graph-kept", "The graph of a capture can grow by hand, but not be destroyed.",
         graph_kept),
    CASE("dependencies", "What comes before the next node can be changed.", dependencies),
    CASE("dependencies-none", "The next node need come after nothing.", dependencies_none),
    CASE("lossy", "Who does not ask for edges is not told half of it.", lossy),
    CASE("to-graph", "A capture can go on a graph.", to_graph),
    CASE("to-graph-errors", "It needs a graph, and nodes of that graph.", to_graph_errors),
    CASE("to-graph-invalidated", "When it ends badly no graph is given.", to_graph_invalidated),
    CASE("invalidated", "An invalidated capture allows nothing but its end.", invalidated),
    CASE("context-waits", "A wait for the context invalidates every capture.", context_waits),
    CASE("user-object", "User objects of a capture that ends badly end with it.", user_object),
    CASE("mapping", "Memory is mapped in the middle of a capture.", mapping),
    CASE("nothing-to-do", "Copies and sets of nothing are no nodes.", nothing_to_do),
    CASE("unmapped", "Copies look at their addresses, sets and kernels do not.", unmapped),
    CASE("relaxed-alloc", "An ordinary allocation is no node.", relaxed_alloc),
};
const struct contract_group contract_capture = CONTRACT_GROUP("capture", START_CONTEXT, cases);
