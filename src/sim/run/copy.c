// SPDX-License-Identifier: Apache-2.0
/* copy.c -- copies and sets.
 *
 * How it works. Outside captures the books are asked when the call is made, and again when the work
 * runs. In a capture a copy is checked at the call, which leaves the capture alone; a set is not
 * checked. Ordinary host memory is treated as by the driver. A copy from this memory takes the
 * bytes when queued, unless they are many, and a copy to this memory is waited for. In a capture
 * the memory's address is kept, and each replay reads the bytes there. Synchronous copies and sets
 * go through the legacy stream. They are not waited for when no memory of the host takes part:
 * later work on the device comes after them anyway.
 *
 * Trade-offs. Host memory that is neither page-locked nor the driver's is not checked: a wrong host
 * address is found when the work runs, as the context's fault, where the driver might crash. */
#include <stdlib.h>
#include <string.h>

#include "sim/stream/capture.h"
#include "sim/run/op_run.h"
#include "sim/memory/space.h"
#include "sim/stream/stream.h"

/* Bounds of tn_cu_memcpy_attributes. */
enum { SOURCE_ORDER_FIRST = 1, SOURCE_ORDER_LAST = 3 };
#define BATCH_FLAGS 1u /* overlap with compute */

/* The most ordinary memory that is taken when a copy is queued; a longer copy is waited for.
 * Measured: from 2 MiB to less than 4. */
#define MOST_STAGED (2 * TN_SIM_MIB)

/* An end of a copy, by the copy's name. */
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

/* The memory at an end of a copy. */
enum matter {
    MATTER_DEVICE,
    MATTER_PINNED,
    MATTER_PAGEABLE,
};

static enum matter matter_of(bool is_device, uintptr_t address)
{
    if (!is_device)
        return MATTER_PAGEABLE;
    return tn_sim_index_find(&tn_sim_hosts, address) != NULL ? MATTER_PINNED : MATTER_DEVICE;
}

/* Asks whether a copy is over when its call returns. */
static bool is_waited_for(const struct tn_sim_copy_op *copy, bool synchronous)
{
    enum matter to = matter_of(copy->to_device, copy->to);
    enum matter from = matter_of(copy->from_device, copy->from);
    if (synchronous)
        return to != MATTER_DEVICE || from != MATTER_DEVICE;
    return to == MATTER_PAGEABLE ||
           (from == MATTER_PAGEABLE && (to == MATTER_PINNED || copy->bytes > MOST_STAGED));
}

static int type_of(enum side side)
{
    switch (side) {
    case SIDE_DEVICE:
        return TN_CU_MEMORYTYPE_DEVICE;
    case SIDE_HOST:
        return TN_CU_MEMORYTYPE_HOST;
    case SIDE_ANY:
        break;
    }
    return TN_CU_MEMORYTYPE_UNIFIED;
}

/* Describes a copy of one row; to graphs as the call's name says. */
static struct tn_sim_copy_op describe(enum side to_side, uintptr_t to, enum side from_side,
                                      uintptr_t from, size_t bytes)
{
    bool to_host = to_side == SIDE_HOST;
    bool from_host = from_side == SIDE_HOST;
    return (struct tn_sim_copy_op){
        .to = to,
        .from = from,
        .bytes = bytes,
        .to_device = is_device(to_side, to),
        .from_device = is_device(from_side, from),
        .shape =
            {
                .src_type = type_of(from_side),
                .src_host = from_host ? (const void *)from : NULL,
                .src_device = from_host ? 0 : from,
                .dst_type = type_of(to_side),
                .dst_host = to_host ? (void *)to : NULL,
                .dst_device = to_host ? 0 : to,
                .width = bytes,
                .height = 1,
                .depth = 1,
            },
    };
}

/* Asks whether a copy may be made now. */
static bool may_copy(const struct tn_sim_stream *stream, const struct tn_sim_op *op)
{
    const struct tn_sim_copy_op *copy = &op->copy;
    if ((!copy->to_device && copy->to == 0) || (!copy->from_device && copy->from == 0))
        return false;
    return stream->capture != NULL ? tn_sim_op_valid_in_graph(op) : tn_sim_op_valid(op);
}

/* Makes the operation of a copy of at least one byte. */
static tn_cu_result make_copy(const struct tn_sim_stream *stream, struct tn_sim_copy_op copy,
                              struct tn_sim_op **op)
{
    struct tn_sim_op *made = tn_sim_op_create(TN_CU_NODE_MEMCPY, stream->object.context);
    if (made == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    made->copy = copy;
    if (!may_copy(stream, made)) {
        tn_sim_op_release(made);
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
    *op = made;
    return TN_CUDA_SUCCESS;
}

/* Takes the bytes of a copy from ordinary memory. OUT_OF_MEMORY. */
static tn_cu_result take_bytes(struct tn_sim_copy_op *copy)
{
    copy->staged = malloc(copy->bytes);
    if (copy->staged == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy->staged, (const void *)copy->from, copy->bytes);
    return TN_CUDA_SUCCESS;
}

/* Waits until all work queued on a stream so far is done. */
static tn_cu_result finish(struct tn_sim_stream *stream)
{
    const struct tn_sim_context *context = stream->object.context;
    struct tn_sim_point now = {0};
    tn_cu_result result = tn_sim_queue_point(stream, &now);
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
    if (result != TN_CUDA_SUCCESS || bytes == 0)
        return result;
    struct tn_sim_copy_op copy = describe(to_side, to, from_side, from, bytes);
    bool waits = stream->capture == NULL && is_waited_for(&copy, synchronous);
    result = make_copy(stream, copy, &op);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (!waits && stream->capture == NULL && !copy.from_device)
        result = take_bytes(&op->copy);
    if (result != TN_CUDA_SUCCESS) {
        tn_sim_op_release(op);
        return result;
    }
    result = tn_sim_stream_submit(stream, op);
    return result == TN_CUDA_SUCCESS && waits ? finish(stream) : result;
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

tn_cu_result tn_sim_cuMemcpyDtoD(tn_cu_deviceptr destination, tn_cu_deviceptr source, size_t bytes)
{
    return copy_on(TN_CU_STREAM_LEGACY, SIDE_DEVICE, destination, SIDE_DEVICE, source, bytes, true);
}

tn_cu_result tn_sim_cuMemcpy(tn_cu_deviceptr destination, tn_cu_deviceptr source, size_t bytes)
{
    return copy_on(TN_CU_STREAM_LEGACY, SIDE_ANY, destination, SIDE_ANY, source, bytes, true);
}

/* -- Batches -- */

/* Checks the attributes of a batch: each is for the copies from its start to the next one's. */
static bool attributes_fit(const tn_cu_memcpy_attributes *attributes, const size_t *starts,
                           size_t attribute_count, size_t count)
{
    if (attributes == NULL || starts == NULL || attribute_count == 0 || attribute_count > count ||
        starts[0] != 0)
        return false;
    for (size_t i = 0; i < attribute_count; i++) {
        if (attributes[i].source_order < SOURCE_ORDER_FIRST ||
            attributes[i].source_order > SOURCE_ORDER_LAST ||
            (attributes[i].flags & ~BATCH_FLAGS) != 0 || starts[i] >= count ||
            (i > 0 && starts[i] <= starts[i - 1]))
            return false;
    }
    return true;
}

/* Makes and queues the copies of a batch, all or none; `ops` has room for them. */
static tn_cu_result copy_batch(struct tn_sim_stream *stream, struct tn_sim_op **ops,
                               const tn_cu_deviceptr *destinations, const tn_cu_deviceptr *sources,
                               const size_t *sizes, size_t count, size_t *failed)
{
    tn_cu_result result = TN_CUDA_SUCCESS;
    bool waits = false;
    size_t made = 0;
    while (result == TN_CUDA_SUCCESS && made < count) {
        struct tn_sim_copy_op copy =
            describe(SIDE_ANY, destinations[made], SIDE_ANY, sources[made], sizes[made]);
        result =
            sizes[made] == 0 ? TN_CUDA_ERROR_INVALID_VALUE : make_copy(stream, copy, &ops[made]);
        if (result != TN_CUDA_SUCCESS)
            break;
        waits = waits || is_waited_for(&copy, false);
        made++;
        result = copy.from_device ? TN_CUDA_SUCCESS : take_bytes(&ops[made - 1]->copy);
    }
    if (made < count && failed != NULL)
        *failed = made;
    for (size_t i = 0; i < made; i++) {
        if (result == TN_CUDA_SUCCESS)
            result = tn_sim_stream_submit(stream, ops[i]);
        else
            tn_sim_op_release(ops[i]);
    }
    return result == TN_CUDA_SUCCESS && waits ? finish(stream) : result;
}

tn_cu_result tn_sim_cuMemcpyBatchAsync(tn_cu_deviceptr *destinations, tn_cu_deviceptr *sources,
                                       size_t *sizes, size_t count,
                                       tn_cu_memcpy_attributes *attributes,
                                       size_t *attribute_starts, size_t attribute_count,
                                       size_t *failed, tn_cu_stream handle)
{
    struct tn_sim_stream *stream;
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (failed != NULL)
        *failed = SIZE_MAX;
    if (handle == TN_CU_STREAM_LEGACY || destinations == NULL || sources == NULL || sizes == NULL ||
        count == 0 || !attributes_fit(attributes, attribute_starts, attribute_count, count))
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_stream_admit(handle, &stream);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (stream->capture != NULL) /* which goes on */
        return TN_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct tn_sim_op **ops = calloc(count, sizeof(struct tn_sim_op *));
    if (ops == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    result = copy_batch(stream, ops, destinations, sources, sizes, count, failed);
    free(ops);
    return result;
}

/* -- Sets -- */

static tn_cu_result set_on(tn_cu_stream handle, struct tn_sim_set_op set, bool synchronous)
{
    struct tn_sim_stream *stream;
    tn_cu_result result = tn_sim_stream_admit(handle, &stream);
    if (result != TN_CUDA_SUCCESS || set.count == 0)
        return result;
    if (set.address % set.width != 0 || set.count > SIZE_MAX / set.width)
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_op *op = tn_sim_op_create(TN_CU_NODE_MEMSET, stream->object.context);
    if (op == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    op->set = set;
    if (stream->capture == NULL && !tn_sim_op_valid(op)) {
        tn_sim_op_release(op);
        return TN_CUDA_ERROR_INVALID_VALUE;
    }
    bool waits = synchronous && matter_of(true, set.address) == MATTER_PINNED;
    result = tn_sim_stream_submit(stream, op);
    return result == TN_CUDA_SUCCESS && waits ? finish(stream) : result;
}

tn_cu_result tn_sim_cuMemsetD8Async(tn_cu_deviceptr address, unsigned char value, size_t count,
                                    tn_cu_stream stream)
{
    struct tn_sim_set_op set = {.address = address, .value = value, .width = 1, .count = count};
    return set_on(stream, set, false);
}

tn_cu_result tn_sim_cuMemsetD32Async(tn_cu_deviceptr address, unsigned int value, size_t count,
                                     tn_cu_stream stream)
{
    struct tn_sim_set_op set = {.address = address, .value = value, .width = 4, .count = count};
    return set_on(stream, set, false);
}

tn_cu_result tn_sim_cuMemsetD8(tn_cu_deviceptr address, unsigned char value, size_t count)
{
    struct tn_sim_set_op set = {.address = address, .value = value, .width = 1, .count = count};
    return set_on(TN_CU_STREAM_LEGACY, set, true);
}

tn_cu_result tn_sim_cuMemsetD32(tn_cu_deviceptr address, unsigned int value, size_t count)
{
    struct tn_sim_set_op set = {.address = address, .value = value, .width = 4, .count = count};
    return set_on(TN_CU_STREAM_LEGACY, set, true);
}
