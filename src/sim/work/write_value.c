// SPDX-License-Identifier: Apache-2.0
/* write_value.c -- cuStreamWriteValue32: a word written by the stream itself.
 *
 * How it works. The write is a piece of work like a set. In a capture the write becomes a node of a
 * single operation, whose address is not looked at before the node runs. No flag is accepted, as by
 * the driver measured. */
#include "sim/work/op_run.h"
#include "sim/stream/stream.h"

tn_cu_result tn_sim_cuStreamWriteValue32(tn_cu_stream handle, tn_cu_deviceptr address,
                                         uint32_t value, unsigned int flags)
{
    struct tn_sim_stream *stream;
    if (address == 0 || address % sizeof value != 0 || flags != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_admit(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_cu_batch_op write = {0};
    write.value.operation = TN_CU_STREAM_MEM_OP_WRITE_VALUE_32;
    write.value.address = address;
    write.value.value = value;
    struct tn_sim_op *op = tn_sim_batch_make(stream->object.context, &write, 1, 0);
    if (op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    if (stream->capture == NULL && !tn_sim_op_valid(op)) {
        tn_sim_op_release(op);
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
    return tn_sim_stream_submit(stream, op);
}
