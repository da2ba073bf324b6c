// SPDX-License-Identifier: Apache-2.0
#include "support/liar.h"

#include "support/cuda.h"

static tn_cu_result begin_nothing(tn_cu_stream stream, tn_cu_capture_mode mode)
{
    (void)stream;
    (void)mode;
    return TN_CUDA_SUCCESS;
}

struct tn_driver test_beginning_nothing(const struct tn_driver *honest)
{
    struct tn_driver liar = *honest;

    liar.cuStreamBeginCapture = begin_nothing;
    return liar;
}

static tn_cu_result end_and_refuse(tn_cu_stream stream, tn_cu_graph *graph)
{
    tn_cu_graph captured = NULL;

    (void)graph;
    CU_OK(cu.cuStreamEndCapture(stream, &captured));
    CU_OK(cu.cuGraphDestroy(captured));
    return TN_CUDA_ERROR_UNKNOWN;
}

struct tn_driver test_ending_and_refusing(const struct tn_driver *honest)
{
    struct tn_driver liar = *honest;

    liar.cuStreamEndCapture = end_and_refuse;
    return liar;
}

static tn_cu_update_result update_reason;

static tn_cu_result refuse_update(tn_cu_graphexec exec, tn_cu_graph graph,
                                  tn_cu_update_result_info *info)
{
    (void)exec;
    (void)graph;
    info->result = update_reason;
    return TN_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

struct tn_driver test_refusing_updates(const struct tn_driver *honest, tn_cu_update_result reason)
{
    struct tn_driver liar = *honest;

    update_reason = reason;
    liar.cuGraphExecUpdate = refuse_update;
    return liar;
}

static void (*while_creating)(void);

static tn_cu_result call_and_create(tn_cu_memhandle *handle, size_t bytes,
                                    const tn_cu_allocation_prop *prop, unsigned long long flags)
{
    while_creating();
    return cu.cuMemCreate(handle, bytes, prop, flags);
}

struct tn_driver test_calling_while_it_creates(const struct tn_driver *honest, void (*called)(void))
{
    struct tn_driver caller = *honest;

    while_creating = called;
    caller.cuMemCreate = call_and_create;
    return caller;
}

static const size_t *told_bytes;

static tn_cu_result tell_next(size_t *free_bytes, size_t *total_bytes)
{
    *free_bytes = *told_bytes++;
    *total_bytes = 64 * GIB;
    return TN_CUDA_SUCCESS;
}

struct tn_driver test_telling_free_bytes(const struct tn_driver *honest, const size_t *free_bytes)
{
    struct tn_driver liar = *honest;

    told_bytes = free_bytes;
    liar.cuMemGetInfo = tell_next;
    return liar;
}

static tn_cu_graphnode short_node;
static size_t short_bytes;

static tn_cu_result shorten_buffer(tn_cu_graphnode node, tn_cu_kernel_node_params *params)
{
    static void *extra[5];
    tn_cu_result result = cu.cuGraphKernelNodeGetParams(node, params);

    if (node != short_node || params->extra == NULL)
        return result;
    for (size_t i = 0; i < 4; i += 2) {
        extra[i] = params->extra[i];
        extra[i + 1] = extra[i] == TN_CU_LAUNCH_PARAM_BUFFER_SIZE ? (void *)&short_bytes
                                                                  : params->extra[i + 1];
    }
    params->extra = extra;
    return result;
}

struct tn_driver test_shortening_buffers(const struct tn_driver *honest, tn_cu_graphnode node,
                                         size_t bytes)
{
    struct tn_driver liar = *honest;

    short_node = node;
    short_bytes = bytes;
    liar.cuGraphKernelNodeGetParams = shorten_buffer;
    return liar;
}

static tn_cu_graphnode_type named_type;

static tn_cu_result name_type(tn_cu_graphnode node, tn_cu_graphnode_type *type)
{
    (void)node;
    *type = named_type;
    return TN_CUDA_SUCCESS;
}

struct tn_driver test_naming_types(const struct tn_driver *honest, tn_cu_graphnode_type type)
{
    struct tn_driver liar = *honest;

    named_type = type;
    liar.cuGraphNodeGetType = name_type;
    return liar;
}

static tn_cu_result invent_operation(tn_cu_graphnode node, tn_cu_batch_node_params *params)
{
    static tn_cu_batch_op op;
    tn_cu_result result = cu.cuGraphBatchMemOpNodeGetParams(node, params);

    op = params->ops[0];
    op.operation = 77;
    params->ops = &op;
    params->count = 1;
    return result;
}

struct tn_driver test_inventing_operations(const struct tn_driver *honest)
{
    struct tn_driver liar = *honest;

    liar.cuGraphBatchMemOpNodeGetParams = invent_operation;
    return liar;
}

static tn_cu_device_attribute lacked_attribute;

static tn_cu_result lack_attribute(int *value, tn_cu_device_attribute attribute,
                                   tn_cu_device device)
{
    tn_cu_result result = cu.cuDeviceGetAttribute(value, attribute, device);

    if (attribute == lacked_attribute)
        *value = 0;
    return result;
}

struct tn_driver test_lacking_attribute(const struct tn_driver *honest,
                                        tn_cu_device_attribute attribute)
{
    struct tn_driver liar = *honest;

    lacked_attribute = attribute;
    liar.cuDeviceGetAttribute = lack_attribute;
    return liar;
}
