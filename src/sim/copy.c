// SPDX-License-Identifier: Apache-2.0
/* copy.c -- copies and sets.
 *
 * How it works. Outside captures the books are asked when the call is made, and again when the
 * work runs. In a capture a copy is checked at the call, which leaves the capture alone, and a set
 * is not. Ordinary host memory is treated as the driver treats it: its bytes are taken when a copy
 * from it is queued, and a copy to it is waited for; in a capture its address is kept and read by
 * each replay. Synchronous copies go through the legacy stream.
 *
 * Trade-offs. Host memory that is neither page-locked nor the driver's is not checked: a wrong host
 * address is found when the work runs, as the context's fault, where the driver might crash. */
#include <stdlib.h>
#include <string.h>

#include "sim/capture.h"
#include "sim/op.h"
#include "sim/space.h"
#include "sim/stream.h"

/* What the name of a copy says of its ends. */
enum side {
    SIDE_DEVICE,
    SIDE_HOST,
    SIDE_ANY, /* the address tells */
};

/* Asks whether an end of a copy is the driver's memory, by the books. */
static bool is_device(enum side side, uintptr_t address)
{
    return side == SIDE_DEVICE || tn_sim_space_knows(address);
}

/* Makes the operation of a copy; *op stays NULL when there is nothing to copy. */
static tn_cu_result make_copy(const struct tn_sim_stream *stream, struct tn_sim_copy_op copy,
                              struct tn_sim_op **op)
{
    *op = NULL;
    if (copy.bytes == 0)
        return TN_CUDA_SUCCESS;
    struct tn_sim_op *made = tn_sim_op_create(TN_CU_NODE_MEMCPY, stream->object.context);
    if (made == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    made->copy = copy;
    if (!tn_sim_op_valid(made) || (!copy.to_device && copy.to == 0) ||
        (!copy.from_device && copy.from == 0)) {
        tn_sim_op_release(made);
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
    if (!copy.from_device && stream->capture == NULL) {
        made->copy.staged = malloc(copy.bytes);
        if (made->copy.staged == NULL) {
            tn_sim_op_release(made);
            return TN_CUDA_ERROR_OUT_OF_MEMORY;
        }
        memcpy(made->copy.staged, (const void *)copy.from, copy.bytes);
    }
    *op = made;
    return TN_CUDA_SUCCESS;
}

/* Waits until what a stream has queued so far is done. */
static tn_cu_result finish(struct tn_sim_stream *stream)
{
    const struct tn_sim_context *context = stream->object.context;
    struct tn_sim_point now = {0};
    tn_cu_result result = tn_sim_queue_mark(stream, &now);
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_sim_point_wait(&now);
    tn_sim_point_clear(&now);
    return tn_sim_context_health(context);
}

static tn_cu_result copy_on(tn_cu_stream handle, enum side to_side, uintptr_t to,
                            enum side from_side, uintptr_t from, size_t bytes, bool synchronous)
{
    struct tn_sim_stream *stream;
    struct tn_sim_op *op;
    tn_cu_result result = tn_sim_stream_admit(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_copy_op copy = {
        .to = to,
        .from = from,
        .bytes = bytes,
        .to_device = is_device(to_side, to),
        .from_device = is_device(from_side, from),
    };
    result = make_copy(stream, copy, &op);
    if (result != TN_CUDA_SUCCESS || op == NULL)
        return result;
    bool capturing = stream->capture != NULL;
    result = tn_sim_stream_submit(stream, op);
    if (result == TN_CUDA_SUCCESS && !capturing && (synchronous || !copy.to_device))
        result = finish(stream);
    return result;
}

tn_cu_result tn_sim_cuMemcpyAsync(tn_cu_deviceptr destination, tn_cu_deviceptr source, size_t bytes,
                                  tn_cu_stream stream)
{
    return copy_on(stream, SIDE_ANY, destination, SIDE_ANY, source, bytes, false);
}

tn_cu_result tn_sim_cuMemcpyDtoDAsync(tn_cu_deviceptr destination, tn_cu_deviceptr source,
                                      size_t bytes, tn_cu_stream stream)
{
    return copy_on(stream, SIDE_DEVICE, destination, SIDE_DEVICE, source, bytes, false);
}

tn_cu_result tn_sim_cuMemcpyHtoDAsync(tn_cu_deviceptr destination, const void *source, size_t bytes,
                                      tn_cu_stream stream)
{
    return copy_on(stream, SIDE_DEVICE, destination, SIDE_HOST, (uintptr_t)source, bytes, false);
}

tn_cu_result tn_sim_cuMemcpyDtoHAsync(void *destination, tn_cu_deviceptr source, size_t bytes,
                                      tn_cu_stream stream)
{
    return copy_on(stream, SIDE_HOST, (uintptr_t)destination, SIDE_DEVICE, source, bytes, false);
}

tn_cu_result tn_sim_cuMemcpyHtoD(tn_cu_deviceptr destination, const void *source, size_t bytes)
{
    return copy_on(TN_CU_STREAM_LEGACY, SIDE_DEVICE, destination, SIDE_HOST, (uintptr_t)source,
                   bytes, true);
}

tn_cu_result tn_sim_cuMemcpyDtoH(void *destination, tn_cu_deviceptr source, size_t bytes)
{
    return copy_on(TN_CU_STREAM_LEGACY, SIDE_HOST, (uintptr_t)destination, SIDE_DEVICE, source,
                   bytes, true);
}

static tn_cu_result set_on(tn_cu_stream handle, struct tn_sim_set_op set)
{
    struct tn_sim_stream *stream;
    if (set.address % set.width != 0 || set.count > SIZE_MAX / set.width)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_admit(handle, &stream);
    if (result != TN_CUDA_SUCCESS || set.count == 0)
        return result;
    struct tn_sim_op *op = tn_sim_op_create(TN_CU_NODE_MEMSET, stream->object.context);
    if (op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    op->set = set;
    if (stream->capture == NULL && !tn_sim_op_valid(op)) {
        tn_sim_op_release(op);
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
    return tn_sim_stream_submit(stream, op);
}

tn_cu_result tn_sim_cuMemsetD8Async(tn_cu_deviceptr address, unsigned char value, size_t count,
                                    tn_cu_stream stream)
{
    return set_on(stream, (struct tn_sim_set_op){
                              .address = address, .value = value, .width = 1, .count = count});
}

tn_cu_result tn_sim_cuMemsetD32Async(tn_cu_deviceptr address, unsigned int value, size_t count,
                                     tn_cu_stream stream)
{
    return set_on(stream, (struct tn_sim_set_op){
                              .address = address, .value = value, .width = 4, .count = count});
}
