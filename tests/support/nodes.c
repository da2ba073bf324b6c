// SPDX-License-Identifier: Apache-2.0
#include "support/nodes.h"

static tn_cu_deviceptr device_address(const void *address)
{
    return (tn_cu_deviceptr)(uintptr_t)address;
}

static void do_nothing(const tarn_sim_launch *launch, void *const *params)
{
    (void)launch;
    (void)params;
}

tn_cu_function test_kernel(const char *ptx, const char *entry)
{
    tn_cu_module module;
    tn_cu_function function;

    if (test_is_simulated())
        ck_assert_int_eq(sim.register_kernel(entry, do_nothing), 0);
    CU_OK(cu.cuModuleLoadData(&module, ptx));
    CU_OK(cu.cuModuleGetFunction(&function, module, entry));
    return function;
}

void test_launch_kernel(tn_cu_stream stream, tn_cu_function function, void **values, void **extra)
{
    CU_OK(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, values, extra));
}

void test_launch_shaped(tn_cu_stream stream, tn_cu_function function, const uint32_t shape[7],
                        void **values)
{
    CU_OK(cu.cuLaunchKernel(function, shape[0], shape[1], shape[2], shape[3], shape[4], shape[5],
                            shape[6], stream, values, NULL));
}

void test_copy_down(tn_cu_stream stream, void *to, const void *from, size_t bytes)
{
    CU_OK(cu.cuMemcpyDtoHAsync(to, device_address(from), bytes, stream));
}

void test_copy_up(tn_cu_stream stream, void *to, const void *from, size_t bytes)
{
    CU_OK(cu.cuMemcpyHtoDAsync(device_address(to), from, bytes, stream));
}

void test_copy_any(tn_cu_stream stream, void *to, const void *from, size_t bytes)
{
    CU_OK(cu.cuMemcpyAsync(device_address(to), device_address(from), bytes, stream));
}

void test_call_host(tn_cu_stream stream, tn_cu_hostfn function, void *user)
{
    CU_OK(cu.cuLaunchHostFunc(stream, function, user));
}

void test_write_value(tn_cu_stream stream, void *address, uint32_t value)
{
    CU_OK(cu.cuStreamWriteValue32(stream, device_address(address), value, 0));
}

void *test_allocate_node(tn_cu_stream stream, size_t bytes)
{
    tn_cu_deviceptr address = 0;

    CU_OK(cu.cuMemAllocAsync(&address, bytes, stream));
    return (void *)(uintptr_t)address;
}

void test_free_node(tn_cu_stream stream, void *address)
{
    CU_OK(cu.cuMemFreeAsync(device_address(address), stream));
}

void test_trim_nodes(void)
{
    CU_OK(cu.cuDeviceGraphMemTrim(0));
}

tn_cu_event test_event(void)
{
    tn_cu_event event = NULL;

    CU_OK(cu.cuEventCreate(&event, TN_CU_EVENT_DISABLE_TIMING));
    return event;
}

void test_event_destroy(tn_cu_event event)
{
    CU_OK(cu.cuEventDestroy(event));
}

void test_record_node(tn_cu_stream stream, tn_cu_event event)
{
    CU_OK(cu.cuEventRecordWithFlags(event, stream, TN_CU_EVENT_RECORD_EXTERNAL));
}

void test_wait_node(tn_cu_stream stream, tn_cu_event event)
{
    CU_OK(cu.cuStreamWaitEvent(stream, event, TN_CU_EVENT_WAIT_EXTERNAL));
}

void test_add_empty(tn_cu_graph graph)
{
    tn_cu_graphnode node;

    CU_OK(cu.cuGraphAddEmptyNode(&node, graph, NULL, 0));
}

void test_update_exec(tn_cu_graphexec exec, tn_cu_graph graph)
{
    tn_cu_update_result_info info;

    CU_OK(cu.cuGraphExecUpdate(exec, graph, &info));
}

tn_cu_graph test_graph_of_capture(tn_cu_stream stream)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;
    tn_cu_graph graph = NULL;
    uint64_t id;

    CU_OK(cu.cuStreamGetCaptureInfo(stream, &capturing, &id, &graph, NULL, NULL, NULL));
    ck_assert_int_eq(capturing, TN_CU_CAPTURE_STATUS_ACTIVE);
    return graph;
}

void test_begin_capture_to(tn_cu_stream stream, tn_cu_graph graph)
{
    CU_OK(cu.cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, TN_CU_CAPTURE_MODE_RELAXED));
}

static void add_behind(tn_cu_stream stream, tn_cu_node_params *params)
{
    tn_cu_capture_status capturing = TN_CU_CAPTURE_STATUS_NONE;
    const tn_cu_graphnode *nodes = NULL;
    const tn_cu_edge_data *edges = NULL;
    tn_cu_graph graph = NULL;
    tn_cu_graphnode node = NULL;
    size_t count = 0;

    CU_OK(cu.cuStreamGetCaptureInfo(stream, &capturing, NULL, &graph, &nodes, &edges, &count));
    ck_assert_int_eq(capturing, TN_CU_CAPTURE_STATUS_ACTIVE);
    CU_OK(cu.cuGraphAddNode(&node, graph, nodes, NULL, count, params));
    CU_OK(cu.cuStreamUpdateCaptureDependencies(stream, &node, NULL, 1, 1)); /* set */
}

static tn_cu_node_params set_of(void *address, size_t width, size_t pitch, size_t rows)
{
    tn_cu_node_params params = {.type = TN_CU_NODE_MEMSET};

    CU_OK(cu.cuCtxGetCurrent(&params.memset.ctx));
    params.memset.set = (tn_cu_memset_node_params){.dst = device_address(address),
                                                   .pitch = pitch,
                                                   .value = 7,
                                                   .element_bytes = sizeof(uint32_t),
                                                   .width = width / sizeof(uint32_t),
                                                   .height = rows};
    return params;
}

void test_add_set(tn_cu_graph graph, void *address, size_t words)
{
    tn_cu_node_params params = set_of(address, words * sizeof(uint32_t), 0, 1);
    tn_cu_graphnode node = NULL;

    CU_OK(cu.cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
}

void test_set_rows(tn_cu_stream stream, void *address, size_t width, size_t pitch, size_t rows)
{
    tn_cu_node_params params = set_of(address, width, pitch, rows);

    add_behind(stream, &params);
}

void test_copy_rows(tn_cu_stream stream, void *to, const void *from, size_t width, size_t pitch,
                    size_t rows)
{
    test_copy_planes(stream, &(tn_cu_memcpy3d){.src_type = TN_CU_MEMORYTYPE_DEVICE,
                                               .src_device = device_address(from),
                                               .src_pitch = pitch,
                                               .dst_type = TN_CU_MEMORYTYPE_DEVICE,
                                               .dst_device = device_address(to),
                                               .dst_pitch = pitch,
                                               .width = width,
                                               .height = rows,
                                               .depth = 1});
}

void test_copy_planes(tn_cu_stream stream, const tn_cu_memcpy3d *copy)
{
    tn_cu_node_params params = {.type = TN_CU_NODE_MEMCPY};

    CU_OK(cu.cuCtxGetCurrent(&params.memcpy.ctx));
    params.memcpy.copy = *copy;
    add_behind(stream, &params);
}

void test_nest(tn_cu_stream stream, tn_cu_graph child)
{
    tn_cu_node_params params = {.type = TN_CU_NODE_GRAPH};

    params.child.graph = child;
    add_behind(stream, &params);
}

void test_host_register(void *memory, size_t bytes)
{
    CU_OK(cu.cuMemHostRegister(memory, bytes, 0));
}

void test_host_unregister(void *memory)
{
    CU_OK(cu.cuMemHostUnregister(memory));
}
