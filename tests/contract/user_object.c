// SPDX-License-Identifier: Apache-2.0
/* user_object.c -- objects whose life graphs share: counts, and when destructors run. */
#include "contract/graph_tools.h"

#include <string.h>
#include <time.h>

#define PATIENCE_MS 2000 /* for a destructor that is to run */
#define CALM_MS 20       /* for one that is not */

/* What a destructor leaves. */
struct object {
    int ended; /* calls of the destructor; atomic */
    tn_cu_userobject handle;
};

static void end_object(void *user)
{
    struct object *object = user;
    __atomic_add_fetch(&object->ended, 1, __ATOMIC_SEQ_CST);
}

static int ended(const struct object *object)
{
    return __atomic_load_n(&object->ended, __ATOMIC_SEQ_CST);
}

static void wait_ms(int milliseconds)
{
    struct timespec pause = {.tv_sec = milliseconds / 1000,
                             .tv_nsec = milliseconds % 1000 * 1000000L};
    nanosleep(&pause, NULL);
}

static void lives(const struct object *object, const char *when)
{
    wait_ms(CALM_MS);
    HOLDS(ended(object) == 0, "%s it lives", when);
}

static void ends(const struct object *object, const char *when)
{
    for (int waited = 0; ended(object) == 0 && waited < PATIENCE_MS; waited++)
        wait_ms(1);
    HOLDS(ended(object) == 1, "%s it ends", when);
}

static struct object *create(unsigned int references)
{
    static struct object objects[64];
    static size_t used;
    struct object *object = &objects[used++];
    SET_UP(cuUserObjectCreate(&object->handle, object, end_object, references,
                              TN_CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return object;
}

/* An object that a graph has the only reference to. */
static struct object *give(tn_cu_graph graph)
{
    struct object *object = create(1);
    SET_UP(cuGraphRetainUserObject(graph, object->handle, 1, TN_CU_GRAPH_USER_OBJECT_MOVE));
    return object;
}

/* -- Counts -- */

CASE_BODY(create_errors)
{
    tn_cu_userobject object = NULL;
    int user = 0;
    GIVES(INVALID_VALUE, cuUserObjectCreate(NULL, &user, end_object, 1, 1));
    GIVES(INVALID_VALUE, cuUserObjectCreate(&object, &user, NULL, 1, 1));
    GIVES(INVALID_VALUE, cuUserObjectCreate(&object, &user, end_object, 0, 1));
    GIVES(INVALID_VALUE, cuUserObjectCreate(&object, &user, end_object, 1, 0));
    GIVES(INVALID_VALUE, cuUserObjectCreate(&object, &user, end_object, 1, 2));
    GIVES(INVALID_VALUE, cuUserObjectCreate(&object, &user, end_object, 1, 3));
    HOLDS(object == NULL, "nothing was made");
}

CASE_BODY(count_errors)
{
    struct object *object = create(1);
    tn_cu_graph graph = graph_new();
    GIVES(INVALID_VALUE, cuUserObjectRetain(NULL, 1));
    GIVES(INVALID_VALUE, cuUserObjectRetain(object->handle, 0));
    GIVES(INVALID_VALUE, cuUserObjectRelease(NULL, 1));
    GIVES(INVALID_VALUE, cuUserObjectRelease(object->handle, 0));
    GIVES(INVALID_VALUE, cuGraphRetainUserObject(NULL, object->handle, 1, 0));
    GIVES(INVALID_VALUE, cuGraphRetainUserObject(graph, NULL, 1, 0));
    GIVES(INVALID_VALUE, cuGraphRetainUserObject(graph, object->handle, 0, 0));
    GIVES(INVALID_VALUE, cuGraphRetainUserObject(graph, object->handle, 1, 2));
    GIVES(INVALID_VALUE, cuGraphReleaseUserObject(NULL, object->handle, 1));
    GIVES(INVALID_VALUE, cuGraphReleaseUserObject(graph, NULL, 1));
    GIVES(INVALID_VALUE, cuGraphReleaseUserObject(graph, object->handle, 0));
    graph_end(graph, NULL);
    lives(object, "after all of them");
    GIVES(SUCCESS, cuUserObjectRelease(object->handle, 1));
    ends(object, "released");
}

CASE_BODY(counts)
{
    struct object *object = create(2);
    GIVES(SUCCESS, cuUserObjectRetain(object->handle, 3));
    GIVES(SUCCESS, cuUserObjectRelease(object->handle, 4));
    lives(object, "with one of five references");
    GIVES(SUCCESS, cuUserObjectRelease(object->handle, 1));
    ends(object, "without any");
}

CASE_BODY(release_too_many)
{
    struct object *object = create(1);
    GIVES(SUCCESS, cuUserObjectRelease(object->handle, 5));
    lives(object, "released five times of one");
}

/* -- Graphs -- */

CASE_BODY(graph_holds)
{
    struct object *object = create(1);
    tn_cu_graph graph = graph_new();
    GIVES(SUCCESS, cuGraphRetainUserObject(graph, object->handle, 1, 0));
    GIVES(SUCCESS, cuUserObjectRelease(object->handle, 1));
    lives(object, "held by a graph");
    GIVES(SUCCESS, cuGraphDestroy(graph));
    ends(object, "with the graph");
}

CASE_BODY(graph_moves)
{
    struct object *object = create(2);
    tn_cu_graph graph = graph_new();
    GIVES(SUCCESS, cuGraphRetainUserObject(graph, object->handle, 2, TN_CU_GRAPH_USER_OBJECT_MOVE));
    lives(object, "moved to a graph");
    GIVES(SUCCESS, cuGraphReleaseUserObject(graph, object->handle, 1));
    lives(object, "with one of two references");
    GIVES(SUCCESS, cuGraphReleaseUserObject(graph, object->handle, 1));
    ends(object, "given up by the graph");
    GIVES(SUCCESS, cuGraphDestroy(graph));
}

CASE_BODY(program_outlives_graph)
{
    struct object *object = create(1);
    tn_cu_graph graph = graph_new();
    SET_UP(cuGraphRetainUserObject(graph, object->handle, 3, 0));
    GIVES(SUCCESS, cuGraphDestroy(graph));
    lives(object, "without the graph");
    GIVES(SUCCESS, cuUserObjectRelease(object->handle, 1));
    ends(object, "without the program");
}

CASE_BODY(graph_release_too_many)
{
    struct object *object = create(1);
    tn_cu_graph graph = graph_new();
    SET_UP(cuGraphRetainUserObject(graph, object->handle, 1, 0));
    GIVES(SUCCESS, cuGraphReleaseUserObject(graph, object->handle, 5));
    lives(object, "of the program");
    GIVES(SUCCESS, cuGraphDestroy(graph));
    lives(object, "without the graph");
    GIVES(SUCCESS, cuUserObjectRelease(object->handle, 1));
    ends(object, "released");
}

CASE_BODY(clone_holds)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graph copy = NULL;
    struct object *object = give(graph);
    SET_UP(cuGraphClone(&copy, graph));
    GIVES(SUCCESS, cuGraphDestroy(graph));
    lives(object, "held by the clone");
    GIVES(SUCCESS, cuGraphDestroy(copy));
    ends(object, "with the clone");
}

CASE_BODY(child_holds)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graph inner = graph_new();
    tn_cu_graphnode node = NULL;
    struct object *object = give(inner);
    SET_UP(cuGraphAddChildGraphNode(&node, graph, NULL, 0, inner));
    GIVES(SUCCESS, cuGraphDestroy(inner));
    lives(object, "held by the graph in the graph");
    tn_cu_graphexec exec = graph_exec(graph);
    GIVES(SUCCESS, cuGraphDestroy(graph));
    lives(object, "held by what was instantiated");
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
    ends(object, "with it");
}

CASE_BODY(child_node_destroyed)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graph inner = graph_new();
    tn_cu_graphnode node = NULL;
    struct object *object = give(inner);
    SET_UP(cuGraphAddChildGraphNode(&node, graph, NULL, 0, inner));
    SET_UP(cuGraphDestroy(inner));
    GIVES(SUCCESS, cuGraphDestroyNode(node));
    ends(object, "with the node");
    graph_end(graph, NULL);
}

CASE_BODY(execs_hold)
{
    tn_cu_graph graph = graph_new();
    struct object *object = give(graph);
    tn_cu_graphexec first = graph_exec(graph);
    tn_cu_graphexec second = graph_exec(graph);
    GIVES(SUCCESS, cuGraphDestroy(graph));
    lives(object, "held by two executable graphs");
    GIVES(SUCCESS, cuGraphExecDestroy(second));
    lives(object, "held by one");
    GIVES(SUCCESS, cuGraphExecDestroy(first));
    ends(object, "with the last");
}

/* What a graph is given later, its executable graphs do not have. */
CASE_BODY(given_later)
{
    tn_cu_graph graph = graph_new();
    tn_cu_graphexec exec = graph_exec(graph);
    struct object *object = give(graph);
    GIVES(SUCCESS, cuGraphDestroy(graph));
    ends(object, "with the graph");
    graph_end(NULL, exec);
}

CASE_BODY(given_up_later)
{
    tn_cu_graph graph = graph_new();
    struct object *object = give(graph);
    tn_cu_graphexec exec = graph_exec(graph);
    GIVES(SUCCESS, cuGraphReleaseUserObject(graph, object->handle, 1));
    lives(object, "held by what was instantiated");
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
    ends(object, "with it");
    graph_end(graph, NULL);
}

CASE_BODY(launch_holds)
{
    struct graph_bench bench = graph_bench_begin();
    uint32_t *flag = graph_flag();
    struct object *object = give(bench.graph);
    graph_hold(bench.graph, NULL, flag);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    GIVES(SUCCESS, cuGraphLaunch(exec, bench.stream));
    GIVES(SUCCESS, cuGraphDestroy(bench.graph));
    bench.graph = NULL;
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
    lives(object, "while the launch runs");
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    ends(object, "with the launch");
    SET_UP(cuMemFreeHost(flag));
    graph_bench_end(&bench);
}

CASE_BODY(update_takes)
{
    struct graph_bench bench = graph_bench_begin();
    tn_cu_graph from = graph_new();
    tn_cu_update_result_info info;
    graph_fill(bench.graph, NULL, bench.memory.address, 5, 1);
    graph_fill(from, NULL, bench.memory.address, 6, 1);
    struct object *before = give(bench.graph);
    struct object *after = give(from);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    SET_UP(cuGraphDestroy(bench.graph));
    bench.graph = NULL;
    GIVES(SUCCESS, cuGraphExecUpdate(exec, from, &info));
    wait_ms(CALM_MS);
    STATE("after the update the first has %s", ended(before) == 0 ? "not ended" : "ended");
    GIVES(SUCCESS, cuGraphDestroy(from));
    wait_ms(CALM_MS);
    STATE("without its graph the second has %s", ended(after) == 0 ? "not ended" : "ended");
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
    ends(before, "the first: with the executable graph");
    ends(after, "the second: with the executable graph");
    graph_bench_end(&bench);
}

CASE_BODY(update_in_flight)
{
    struct graph_bench bench = graph_bench_begin();
    uint32_t *flag = graph_flag();
    uint32_t *open_flag = graph_flag();
    tn_cu_graph from = graph_new();
    tn_cu_update_result_info info;
    graph_hold(bench.graph, NULL, flag);
    *open_flag = 1;
    graph_hold(from, NULL, open_flag);
    struct object *before = give(bench.graph);
    struct object *after = give(from);
    tn_cu_graphexec exec = graph_exec(bench.graph);
    SET_UP(cuGraphDestroy(bench.graph));
    bench.graph = NULL;
    GIVES(SUCCESS, cuGraphLaunch(exec, bench.stream));
    GIVES(SUCCESS, cuGraphExecUpdate(exec, from, &info));
    lives(before, "while the launch runs");
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    GIVES(SUCCESS, cuStreamSynchronize(bench.stream));
    ends(before, "with the launch");
    GIVES(SUCCESS, cuGraphDestroy(from));
    lives(after, "the second: with the executable graph");
    GIVES(SUCCESS, cuGraphExecDestroy(exec));
    ends(after, "without it");
    SET_UP(cuMemFreeHost(flag));
    SET_UP(cuMemFreeHost(open_flag));
    graph_bench_end(&bench);
}

/* -- Inside a destructor -- */

struct inside {
    int done;
    tn_cu_deviceptr address;
    size_t bytes;
    tn_cu_event event;
    tn_cu_result unmap, reserve, create, alloc, info, query, graph, version;
};

static void call_driver(void *user)
{
    struct inside *inside = user;
    tn_cu_deviceptr address;
    tn_cu_memhandle handle;
    tn_cu_graph graph;
    tn_cu_allocation_prop prop = contract_prop(0);
    size_t free_bytes;
    size_t total_bytes;
    int version;
    inside->unmap = cu.cuMemUnmap(inside->address, inside->bytes);
    inside->reserve = cu.cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0);
    inside->create = cu.cuMemCreate(&handle, 2 * MIB, &prop, 0);
    inside->alloc = cu.cuMemAlloc(&address, 4096);
    inside->info = cu.cuMemGetInfo(&free_bytes, &total_bytes);
    inside->query = cu.cuEventQuery(inside->event);
    inside->graph = cu.cuGraphCreate(&graph, 0);
    inside->version = cu.cuDriverGetVersion(&version);
    __atomic_store_n(&inside->done, 1, __ATOMIC_SEQ_CST);
}

CASE_BODY(inside_destructor)
{
    struct graph_bench bench = graph_bench_begin();
    struct inside inside = {
        .address = bench.memory.address,
        .bytes = bench.memory.bytes,
        .event = contract_event(),
    };
    tn_cu_userobject object;
    SET_UP(cuUserObjectCreate(&object, &inside, call_driver, 1, 1));
    GIVES(SUCCESS, cuUserObjectRelease(object, 1));
    for (int waited = 0; __atomic_load_n(&inside.done, __ATOMIC_SEQ_CST) == 0; waited++) {
        if (waited == PATIENCE_MS)
            contract_give_up("the destructor does not run");
        wait_ms(1);
    }
    contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, "cuMemUnmap(", inside.unmap);
    contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, "cuMemAddressReserve(", inside.reserve);
    contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, "cuMemCreate(", inside.create);
    contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, "cuMemAlloc(", inside.alloc);
    contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, "cuMemGetInfo(", inside.info);
    contract_gives(TN_CUDA_SUCCESS, "cuEventQuery(", inside.query);
    contract_gives(TN_CUDA_ERROR_NOT_PERMITTED, "cuGraphCreate(", inside.graph);
    contract_gives(TN_CUDA_SUCCESS, "cuDriverGetVersion(", inside.version);
    SET_UP(cuEventDestroy(inside.event));
    graph_bench_end(&bench);
}

static const struct contract_case cases[] = {
    CASE("create-errors", "An object has a destructor, references, and flag 1.", create_errors),
    CASE("count-errors", "References are counted of an object, some at a time.", count_errors),
    CASE("counts", "An object ends with its last reference.", counts),
    CASE("release-too-many", "An object of which more is released than there is never ends.",
         release_too_many),
    CASE("graph-holds", "A graph holds an object.", graph_holds),
    CASE("graph-moves", "A graph takes the program's references over, and can give them up.",
         graph_moves),
    CASE("program-outlives-graph", "The program's references outlive a graph's.",
         program_outlives_graph),
    CASE("graph-release-too-many", "A graph gives up no more than it has.", graph_release_too_many),
    CASE("clone-holds", "A clone holds what its original held.", clone_holds),
    CASE("child-holds", "A graph in a graph holds what its original held.", child_holds),
    CASE("child-node-destroyed", "A node takes what its graph holds along.", child_node_destroyed),
    CASE("execs-hold", "Each executable graph holds what its graph held.", execs_hold),
    CASE("given-later", "What a graph is given later is not its executable graphs'.", given_later),
    CASE("given-up-later", "What a graph gives up later stays its executable graphs'.",
         given_up_later),
    CASE("launch-holds", "A launch under way holds what its graph held.", launch_holds),
    CASE("update-takes", "What an update does to references.", update_takes),
    CASE("update-in-flight", "A launch under way holds what an update has replaced.",
         update_in_flight),
    CASE("inside-destructor", "A destructor may call next to nothing.", inside_destructor),
};
const struct contract_group contract_user_object =
    CONTRACT_GROUP("user_object", START_CONTEXT, cases);
