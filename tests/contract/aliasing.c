// SPDX-License-Identifier: Apache-2.0
/* aliasing.c -- one handle at several addresses. */
#include "contract/graph_tools.h"

#define VIEWS 3
#define ALTERNATIONS 2000
#define REPLAYS 500

/* A handle of 2 MiB with several views, all writable. */
struct views {
    tn_cu_memhandle handle;
    tn_cu_deviceptr at[VIEWS];
    tn_cu_stream stream;
};

static struct views views_begin(void)
{
    struct views views;
    struct contract_mapped first = contract_map(2 * MIB);
    views.handle = first.handle;
    views.at[0] = first.address;
    for (int i = 1; i < VIEWS; i++) {
        SET_UP(cuMemAddressReserve(&views.at[i], 2 * MIB, 0, 0, 0));
        SET_UP(cuMemMap(views.at[i], 2 * MIB, 0, views.handle, 0));
        contract_open(views.at[i], 2 * MIB);
    }
    views.stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    contract_kernels();
    SET_UP(cuMemsetD8Async(views.at[0], 0, 2 * MIB, views.stream));
    SET_UP(cuStreamSynchronize(views.stream));
    return views;
}

static void views_end(struct views *views)
{
    for (int i = 0; i < VIEWS; i++) {
        SET_UP(cuMemUnmap(views->at[i], 2 * MIB));
        SET_UP(cuMemAddressFree(views->at[i], 2 * MIB));
    }
    SET_UP(cuMemRelease(views->handle));
    SET_UP(cuStreamDestroy(views->stream));
}

CASE_BODY(one_stream)
{
    struct views views = views_begin();
    for (int i = 0; i < ALTERNATIONS; i++)
        contract_set_up("cuLaunchKernel(", contract_add(views.stream, views.at[i % VIEWS], 1),
                        __FILE__, __LINE__);
    GIVES(SUCCESS, cuStreamSynchronize(views.stream));
    STATE("%u of %d additions", contract_word(views.at[1], 0), ALTERNATIONS);
    views_end(&views);
}

CASE_BODY(two_streams)
{
    struct views views = views_begin();
    tn_cu_stream other = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_event event = contract_event();
    for (int i = 0; i < ALTERNATIONS; i++) {
        tn_cu_stream stream = i % 2 == 0 ? views.stream : other;
        contract_set_up("cuLaunchKernel(", contract_add(stream, views.at[i % VIEWS], 1), __FILE__,
                        __LINE__);
        SET_UP(cuEventRecord(event, stream));
        SET_UP(cuStreamWaitEvent(i % 2 == 0 ? other : views.stream, event, 0));
    }
    GIVES(SUCCESS, cuStreamSynchronize(views.stream));
    GIVES(SUCCESS, cuStreamSynchronize(other));
    STATE("%u of %d additions", contract_word(views.at[1], 0), ALTERNATIONS);
    SET_UP(cuEventDestroy(event));
    SET_UP(cuStreamDestroy(other));
    views_end(&views);
}

CASE_BODY(in_a_graph)
{
    struct views views = views_begin();
    tn_cu_graph graph = graph_new();
    tn_cu_graphnode node = graph_add(graph, NULL, views.at[0], 1);
    node = graph_copy(graph, node, views.at[1] + 64, views.at[2], 1);
    graph_add(graph, node, views.at[2] + 64, 1);
    tn_cu_graphexec exec = graph_exec(graph);
    for (int i = 0; i < REPLAYS; i++)
        SET_UP(cuGraphLaunch(exec, views.stream));
    GIVES(SUCCESS, cuStreamSynchronize(views.stream));
    STATE("%u and %u after %d replays", contract_word(views.at[1], 0),
          contract_word(views.at[0], 16), REPLAYS);
    graph_end(graph, exec);
    views_end(&views);
}

CASE_BODY(copies_and_sets)
{
    struct views views = views_begin();
    uint32_t word = 41;
    GIVES(SUCCESS, cuMemcpyHtoD(views.at[0], &word, 4));
    STATE("copied to one, read by another: %u", contract_word(views.at[1], 0));
    GIVES(SUCCESS, cuMemsetD32(views.at[2], 42, 1));
    STATE("set in one, read by another: %u", contract_word(views.at[0], 0));
    GIVES(SUCCESS, cuMemcpyDtoD(views.at[1] + 4096, views.at[2], 4));
    STATE("copied from one to another: %u", contract_word(views.at[0] + 4096, 0));
    views_end(&views);
}

CASE_BODY(own_access)
{
    struct views views = views_begin();
    unsigned long long flags = 9;
    tn_cu_location device = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    SET_UP(cuMemsetD32(views.at[0], 42, 1));
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   contract_access(views.at[1], 2 * MIB, TN_CU_MEM_ACCESS_READ));
    contract_gives(TN_CUDA_SUCCESS, "cuMemSetAccess(",
                   contract_access(views.at[2], 2 * MIB, TN_CU_MEM_ACCESS_NONE));
    for (int i = 0; i < VIEWS; i++) {
        GIVES(SUCCESS, cuMemGetAccess(&flags, &device, views.at[i]));
        STATE("flags %llu", flags);
    }
    STATE("read: %u", contract_word(views.at[1], 0));
    GIVES(INVALID_VALUE, cuMemsetD32(views.at[1], 43, 1));
    GIVES(INVALID_VALUE, cuMemsetD32(views.at[2], 43, 1));
    GIVES(SUCCESS, cuMemsetD32(views.at[0], 43, 1));
    STATE("read: %u", contract_word(views.at[1], 0));
    views_end(&views);
}

CASE_BODY(one_goes)
{
    struct views views = views_begin();
    SET_UP(cuMemsetD32(views.at[0], 42, 1)); /* which need not have ended at its return */
    SET_UP(cuStreamSynchronize(NULL));
    GIVES(SUCCESS, cuMemUnmap(views.at[0], 2 * MIB));
    STATE("the others have %u and %u", contract_word(views.at[1], 0),
          contract_word(views.at[2], 0));
    SET_UP(cuMemMap(views.at[0], 2 * MIB, 0, views.handle, 0));
    views_end(&views);
}

static const struct contract_case cases[] = {
    CASE("one-stream", "In one stream each kernel sees what others wrote by another address.",
         one_stream),
    CASE("two-streams", "Events order what two streams do by different addresses.", two_streams),
    CASE("in-a-graph", "A graph uses several addresses of the same memory.", in_a_graph),
    CASE("copies-and-sets", "Copies and sets by one address are seen by the others.",
         copies_and_sets),
    CASE("own-access", "Each address has access rights of its own.", own_access),
    CASE("one-goes", "Unmapping one address leaves the others.", one_goes),
};
const struct contract_group contract_aliasing = CONTRACT_GROUP("aliasing", START_CONTEXT, cases);
