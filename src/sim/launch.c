// SPDX-License-Identifier: Apache-2.0
/* launch.c -- cuLaunchKernel.
 *
 * How it works. Parameters are copied when the call is made, by the layout read from the PTX, into
 * a block that the twin and graph queries see; what the program does with its own copies later has
 * no effect. Where a wrong call leaves a capture alone and where it invalidates it follows what was
 * measured: both forms of parameters at once leave it alone, an impossible shape does not.
 *
 * Trade-offs. Shared memory is not checked against a limit; the twin is told how much was asked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/capture.h"
#include "sim/module.h"
#include "sim/op.h"
#include "sim/stream.h"

#define MAX_BLOCK_THREADS 1024u
#define MAX_BLOCK_Z 64u
#define MAX_GRID_X 0x7FFFFFFFu
#define MAX_GRID_YZ 65535u

static bool possible(const tarn_sim_launch *launch)
{
    const unsigned int *grid = launch->grid;
    const unsigned int *block = launch->block;
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || block[i] == 0 || block[i] > MAX_BLOCK_THREADS)
            return false;
    }
    return grid[0] <= MAX_GRID_X && grid[1] <= MAX_GRID_YZ && grid[2] <= MAX_GRID_YZ &&
           block[2] <= MAX_BLOCK_Z && block[0] * block[1] <= MAX_BLOCK_THREADS &&
           block[0] * block[1] * block[2] <= MAX_BLOCK_THREADS;
}

/* The packed parameters that a program passes by tags. */
struct packed {
    const void *buffer;
    size_t bytes;
};

static bool read_extra(void **extra, struct packed *packed)
{
    *packed = (struct packed){0};
    while (*extra != TN_CU_LAUNCH_PARAM_END) {
        if (extra[0] == TN_CU_LAUNCH_PARAM_BUFFER_POINTER)
            packed->buffer = extra[1];
        else if (extra[0] == TN_CU_LAUNCH_PARAM_BUFFER_SIZE)
            memcpy(&packed->bytes, extra[1], sizeof packed->bytes);
        else
            return false;
        extra += 2;
    }
    return packed->buffer != NULL;
}

/* Copies parameters into an operation that has its layout. */
static tn_cu_result copy_params(struct tn_sim_kernel_op *kernel, void **params, void **extra)
{
    const struct tn_sim_ptx_entry *entry = &kernel->code->entry;
    struct packed packed = {0};
    if (entry->param_count == 0)
        return TN_CUDA_SUCCESS;
    if (params == NULL && extra == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (extra != NULL && (!read_extra(extra, &packed) || packed.bytes < entry->block_bytes))
        return TN_CUDA_ERROR_INVALID_VALUE;
    kernel->block_bytes = entry->block_bytes;
    kernel->block = calloc(1, entry->block_bytes);
    kernel->params = calloc(entry->param_count, sizeof(void *));
    if (kernel->block == NULL || kernel->params == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    if (extra != NULL)
        memcpy(kernel->block, packed.buffer, entry->block_bytes);
    for (size_t i = 0; i < entry->param_count; i++) {
        const struct tn_sim_ptx_param *param = &entry->params[i];
        kernel->params[i] = kernel->block + param->offset;
        if (extra == NULL)
            memcpy(kernel->params[i], params[i], param->bytes);
    }
    kernel->packed = extra != NULL;
    kernel->extra[0] = TN_CU_LAUNCH_PARAM_BUFFER_SIZE;
    kernel->extra[1] = &kernel->block_bytes;
    kernel->extra[2] = TN_CU_LAUNCH_PARAM_BUFFER_POINTER;
    kernel->extra[3] = kernel->block;
    kernel->extra[4] = TN_CU_LAUNCH_PARAM_END;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuLaunchKernel(tn_cu_function function, unsigned int grid_x,
                                   unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                                   unsigned int block_y, unsigned int block_z,
                                   unsigned int shared_bytes, tn_cu_stream stream_handle,
                                   void **params, void **extra)
{
    struct tn_sim_stream *stream;
    struct tn_sim_code *code = tn_sim_find(TN_SIM_KIND_FUNCTION, (uintptr_t)function);
    if (code == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    tn_cu_result result = tn_sim_stream_admit(stream_handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (code->object.context != stream->object.context)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    if (params != NULL && extra != NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tarn_sim_launch launch = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    if (!possible(&launch)) {
        if (stream->capture != NULL)
            tn_sim_capture_invalidate(stream->capture);
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
    if (tn_sim_code_twin(code) == NULL) {
        fprintf(stderr,
                "tarn_sim: kernel %s has no C function; register one with "
                "tarn_sim_register_kernel\n",
                code->entry.name);
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    }
    struct tn_sim_op *op = tn_sim_op_create(TN_CU_NODE_KERNEL, stream->object.context);
    if (op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    op->kernel.code = code;
    code->references++;
    op->kernel.launch = launch;
    result = copy_params(&op->kernel, params, extra);
    if (result != TN_CUDA_SUCCESS) {
        tn_sim_op_release(op);
        return result;
    }
    return tn_sim_stream_submit(stream, op);
}
