// SPDX-License-Identifier: Apache-2.0
/* memory.h -- allocation and free.
 *
 * Memory belongs to an order of work: the stream it is allocated on, or that stream within one
 * capture. Memory freed is reused at once by its own order, so the user who frees needs no wait as
 * long as all use was on that stream. Use on another stream is told with tarn_record_stream or
 * tarn_free_on; the block is then reused only when that stream has passed the point of the free.
 *
 * Streams: a handle is used inside the call that passes it. After tarn_record_stream or
 * tarn_free_on the stream must live until the block's free has taken effect. NULL is the legacy
 * default stream (see tarn_stream_given).
 *
 * All functions may be called from any thread, and while any stream is being captured. */
#ifndef TARN_MEMORY_H
#define TARN_MEMORY_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates from the pool that the routes choose, else from the default pool; aligned to 512 bytes.
 * 0 bytes give TARN_OK and NULL.
 *   INVALID_HANDLE   not an open device
 *   INVALID_ARGUMENT address is NULL, or bytes exceeds what any device holds (2^46)
 *   UNROUTED         the stream is being captured and no route catches the allocation: the graph
 *                    would outlive the memory
 *   DEVICE_MEMORY    nothing left, free memory of other pools included; the sentence says who
 *                    holds what
 *   HOST_MEMORY, ADDRESS_SPACE, LIMIT, FORKED, CAPTURE_BROKEN (the stream's capture is
 *   invalidated), DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_malloc(tarn_device *device, size_t bytes,
                                                 tarn_stream stream, void **address);

/* Allocates from that pool, whatever the routes. alignment: a power of two up to 2 MiB; 0: 512.
 * Statuses as tarn_malloc's; INVALID_ARGUMENT for an alignment too; UNROUTED for the default pool
 * on a capturing stream. */
TARN_API TARN_MUST_CHECK tarn_status tarn_alloc(tarn_pool *pool, size_t bytes, size_t alignment,
                                                tarn_stream stream, void **address);

/* Frees a block. Never fails on a live block, needs no context and no stream, and never waits.
 * NULL is allowed.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE: nothing is freed */
TARN_API TARN_MUST_CHECK tarn_status tarn_free(void *address);

/* Frees a block whose last use is on that stream: tarn_record_stream and tarn_free in one.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE, HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER: nothing is
 *   freed */
TARN_API TARN_MUST_CHECK tarn_status tarn_free_on(void *address, tarn_stream stream);

/* Says that work using the block was or will be enqueued on the stream before the block is freed.
 * On the block's own stream it does nothing.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE (the block is not live), HOST_MEMORY, DEVICE_LOST,
 *   POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_record_stream(void *address, tarn_stream stream);

/* Describes the live block that contains the address.
 *   NOT_OURS, DOUBLE_FREE (no live block there); INVALID_ARGUMENT: block is NULL */
TARN_API TARN_MUST_CHECK tarn_status tarn_block_at(const void *address, tarn_block *block);

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define tarn_malloc(device, bytes, stream, address)                                                \
    tarn_malloc(device, bytes, tarn_stream_given(stream), address)
#define tarn_alloc(pool, bytes, alignment, stream, address)                                        \
    tarn_alloc(pool, bytes, alignment, tarn_stream_given(stream), address)
#define tarn_free_on(address, stream) tarn_free_on(address, tarn_stream_given(stream))
#define tarn_record_stream(address, stream) tarn_record_stream(address, tarn_stream_given(stream))
#endif

#ifdef __cplusplus
}
#endif
#endif
