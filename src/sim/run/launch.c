// SPDX-License-Identifier: Apache-2.0
/* launch.c -- launches of kernels.
 *
 * How it works. Parameters are copied when the call is made, by the layout read from the PTX, into
 * a block that the twin and graph queries see. Later changes to the program's own copies have no
 * effect. Measurements decide whether a wrong call invalidates a capture: both forms of parameters
 * at once do not, an impossible shape does.
 *
 * Trade-offs. Registers, and shared memory that the kernel itself declares, count against no
 * limit. */
#include "sim/run/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/stream/capture.h"
#include "sim/core/cost.h"
#include "sim/code/module.h"
#include "sim/stream/stream.h"

#define MAX_BLOCK_THREADS 1024u
#define MAX_BLOCK_Z 64u
#define WARP_THREADS 32u
#define MULTIPROCESSOR_WARPS 64u /* this and the next of an H200 */
#define MULTIPROCESSOR_BLOCKS 32u
#define MAX_GRID_X 0x7FFFFFFFu
#define MAX_GRID_YZ 65535u
#define MAX_SHARED_BYTES 49152u /* of a kernel without a higher limit of its own */

bool tn_sim_launch_possible(const tarn_sim_launch *launch)
{
    const unsigned int *grid = launch->grid;
    const unsigned int *block = launch->block;
    for (int i = 0; i < 3; i++) {
        if (grid[i] == 0 || block[i] == 0 || block[i] > MAX_BLOCK_THREADS)
            return false;
    }
    return grid[0] <= MAX_GRID_X && grid[1] <= MAX_GRID_YZ && grid[2] <= MAX_GRID_YZ &&
           block[2] <= MAX_BLOCK_Z && block[0] * block[1] <= MAX_BLOCK_THREADS &&
           block[0] * block[1] * block[2] <= MAX_BLOCK_THREADS &&
           launch->shared_bytes <= MAX_SHARED_BYTES;
}

/* The packed parameters that a program passes by tags. */
struct packed {
    const void *buffer;
    size_t bytes;
    bool sized;
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
        packed->sized = packed->sized || extra[0] == TN_CU_LAUNCH_PARAM_BUFFER_SIZE;
        extra += 2;
    }
    return packed->buffer != NULL && packed->sized;
}

/* Asks whether a packed form says nothing. */
static bool is_empty(void **extra)
{
    return extra == NULL || *extra == TN_CU_LAUNCH_PARAM_END;
}

/* Copies parameters into an operation that has its kernel's layout. */
static tn_cu_result copy_params(struct tn_sim_kernel_op *kernel, void **params, void **extra)
{
    const struct tn_sim_ptx_entry *entry = &kernel->code->entry;
    struct packed packed = {0};
    if (entry->param_count == 0)
        return TN_CUDA_SUCCESS;
    if (params == NULL && extra == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (extra != NULL && !read_extra(extra, &packed))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (packed.bytes > entry->block_bytes)
        return TN_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (extra != NULL && packed.bytes < entry->block_bytes && tn_sim_strict())
        return TN_CUDA_ERROR_INVALID_VALUE;
    kernel->block_bytes = entry->block_bytes;
    kernel->block = calloc(1, entry->block_bytes);
    kernel->params = calloc(entry->param_count, sizeof(void *));
    if (kernel->block == NULL || kernel->params == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    if (extra != NULL)
        memcpy(kernel->block, packed.buffer, packed.bytes);
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

static void give_up(struct tn_sim_op *op)
{
    tn_sim_code_release(op->kernel.code);
}

tn_cu_result tn_sim_launch_make(struct tn_sim_code *code, const tarn_sim_launch *launch,
                                void **params, void **extra, struct tn_sim_op **op)
{
    if (params != NULL && !is_empty(extra))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (tn_sim_code_twin(code) == NULL) {
        fprintf(stderr,
                "tarn_sim: kernel %s has no C function; register one with "
                "tarn_sim_register_kernel\n",
                code->entry.name);
        return TN_CUDA_ERROR_NOT_SUPPORTED;
    }
    struct tn_sim_op *made = tn_sim_op_create(TN_CU_NODE_KERNEL, code->object.context);
    if (made == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    made->kernel.code = code;
    code->references++;
    made->give_up = give_up;
    made->kernel.launch = *launch;
    tn_cu_result result = copy_params(&made->kernel, params, is_empty(extra) ? NULL : extra);
    if (result != TN_CUDA_SUCCESS) {
        tn_sim_op_release(made);
        return result;
    }
    *op = made;
    return TN_CUDA_SUCCESS;
}

/* Asks whether all blocks of a launch can be on the device at the same time. */
static bool fits_at_once(const tarn_sim_launch *launch)
{
    const unsigned int *block = launch->block;
    unsigned int warps = (block[0] * block[1] * block[2] + WARP_THREADS - 1) / WARP_THREADS;
    uint64_t of_one = MULTIPROCESSOR_WARPS / warps;
    if (of_one > MULTIPROCESSOR_BLOCKS)
        of_one = MULTIPROCESSOR_BLOCKS;
    return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2] <=
           of_one * TN_SIM_MULTIPROCESSORS;
}

/* Launches a kernel; together, when its blocks wait for each other and must all run at once. */
static tn_cu_result launch_on(tn_cu_stream handle, tn_cu_function function, tarn_sim_launch launch,
                              void **params, void **extra, bool together)
{
    struct tn_sim_stream *stream;
    struct tn_sim_code *code;
    tn_cu_result result = tn_sim_stream_admit(handle, &stream);
    if (result == TN_CUDA_SUCCESS && tn_sim_code_await(function, stream->object.context))
        result = tn_sim_stream_admit(handle, &stream);
    if (result == TN_CUDA_SUCCESS)
        result = tn_sim_code_find(function, stream->object.context, &code);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (params != NULL && !is_empty(extra))
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (!tn_sim_launch_possible(&launch))
        result = TN_CUDA_ERROR_INVALID_VALUE;
    else if (together && !fits_at_once(&launch))
        result = TN_CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    if (result != TN_CUDA_SUCCESS) {
        if (stream->capture != NULL)
            tn_sim_capture_invalidate(stream->capture);
        return result;
    }
    struct tn_sim_op *op;
    result = tn_sim_launch_make(code, &launch, params, extra, &op);
    if (result != TN_CUDA_SUCCESS)
        return result;
    op->kernel.together = together;
    tn_sim_charge(stream->capture == NULL ? 1 : 0);
    return tn_sim_stream_submit(stream, op);
}

tn_cu_result tn_sim_cuLaunchKernel(tn_cu_function function, unsigned int grid_x,
                                   unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                                   unsigned int block_y, unsigned int block_z,
                                   unsigned int shared_bytes, tn_cu_stream stream, void **params,
                                   void **extra)
{
    tarn_sim_launch launch = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    return launch_on(stream, function, launch, params, extra, false);
}

/* CUlaunchAttribute. A single attribute can be refused; others change nothing that a simulated
 * kernel could see. */
struct attribute {
    int id;
    int padding;
    union {
        unsigned char bytes[64];
        int cooperative;
    };
};
#define ATTRIBUTE_COOPERATIVE 2
#define ATTRIBUTE_LAST 13

tn_cu_result tn_sim_cuLaunchKernelEx(const tn_cu_launch_config *config, tn_cu_function function,
                                     void **params, void **extra)
{
    bool together = false;
    if (config == NULL || (config->attribute_count > 0 && config->attributes == NULL))
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct attribute *attributes = config->attributes;
    for (unsigned int i = 0; i < config->attribute_count; i++) {
        if (attributes[i].id < 0 || attributes[i].id > ATTRIBUTE_LAST)
            return TN_CUDA_ERROR_INVALID_VALUE;
        if (attributes[i].id == ATTRIBUTE_COOPERATIVE)
            together = attributes[i].cooperative != 0;
    }
    tarn_sim_launch launch = {{config->grid_x, config->grid_y, config->grid_z},
                              {config->block_x, config->block_y, config->block_z},
                              config->shared_bytes};
    return launch_on(config->stream, function, launch, params, extra, together);
}

tn_cu_result tn_sim_cuLaunchCooperativeKernel(tn_cu_function function, unsigned int grid_x,
                                              unsigned int grid_y, unsigned int grid_z,
                                              unsigned int block_x, unsigned int block_y,
                                              unsigned int block_z, unsigned int shared_bytes,
                                              tn_cu_stream stream, void **params)
{
    tarn_sim_launch launch = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    return launch_on(stream, function, launch, params, NULL, true);
}
