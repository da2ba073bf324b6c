// SPDX-License-Identifier: Apache-2.0
/* memory.h -- allocation and free.
 *
 * Memory belongs to an order of work: the stream it is allocated on, or that stream within one
 * capture. Memory freed is reused at once by its own order, so the user who frees needs no wait as
 * long as all use was on that stream. Use on another stream is told with tarn_record_stream or
 * tarn_free_on; the block is then reused only when that stream has passed the point of the free.
 *
 * The order of a block that was allocated in a capture is that capture's, whatever becomes of it. Work
 * outside it, such as a copy of an output behind a replay, is use on another stream, also where its stream is
 * the one that was captured or that the graph is replayed on: freed without a word, the block is there for
 * the pool's next capture at once, and a replay of that one's graph waits for the replays before it, not for
 * such work. So record it, with tarn_free_on(output, stream), unless all graphs of the pool are replayed, and
 * all such work is done, on one stream.
 *
 * In a capture the order of a stream is that in which work is given to it. A stream that is set back with
 * cuStreamUpdateCaptureDependencies has work beside what it was given before: give each branch a stream
 * of its own, or free after the capture what one of them uses. And a forked stream on which memory was
 * allocated is destroyed when the capture is over: the next stream may get its handle, by which alone it is
 * known there.
 *
 * Streams: a handle is used inside the call that passes it. A stream that was named to
 * tarn_record_stream or tarn_free_on must live on until tarn_stream_retire has been called for it, or
 * until every block that it was recorded for has been freed and its memory given out again, and no
 * checkpoint has such a block. A stream on which memory was only allocated may be destroyed without a
 * word: what it leaves behind is reused after a wait for the device (tarn_pool_trim, and the last
 * resort before an out-of-memory error). Retired, its memory is there for others as soon as its work
 * has ended.
 *
 * NULL is the default stream that the device was opened for: tarn_null_stream in device.h. This holds
 * for every call that takes a stream. (tarn_stream)1 is the legacy default stream, and (tarn_stream)2 is
 * that of the calling thread, as in CUDA.
 *
 * A wait for the device covers the work in its primary context, which is the one that the CUDA runtime
 * uses, and in each context of the program's own (cuCtxCreate) one of whose streams Tarn was given to
 * allocate, record, capture or checkpoint on. A context that only replays graphs, or that uses memory
 * without a word, it does not cover: the caller waits for that.
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
 *   INVALID_ARGUMENT address is NULL, or bytes exceeds what any device holds (2^40)
 *   UNROUTED         the stream is being captured, no route catches the allocation, and the device was
 *                    opened to refuse that (tarn_device_options: unrouted)
 *   WRONG_STATE      the stream is captured into a body of a conditional node (graph.h), and the pool is
 *                    not that of its capture
 *   DEVICE_MEMORY    nothing left, free memory of other pools included; the sentence says who
 *                    holds what
 *   ADDRESS_SPACE    no range of addresses is left, those of other pools' free memory included that is
 *                    known to be idle; a trim, which waits, may give some back
 *   HOST_MEMORY, LIMIT, FORKED, CAPTURE_BROKEN (the stream's capture is invalidated), DEVICE_LOST,
 *   POISONED, DRIVER */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_malloc(tarn_device *device, size_t bytes,
                                                     tarn_stream stream, void **address);

/* Allocates from that pool, whatever the routes. alignment: a power of two up to 2 MiB; 0: 512.
 * On a capturing stream the default pool is an allocation that no route catches.
 * Statuses as tarn_malloc's; INVALID_ARGUMENT for an alignment too. */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_pool_malloc(tarn_pool *pool, size_t bytes,
                                                          size_t alignment, tarn_stream stream,
                                                          void **address);

/* As tarn_malloc, with an alignment: a power of two up to 2 MiB; 0: 512.
 * Statuses as tarn_malloc's; INVALID_ARGUMENT for an alignment too. */
TARN_API TARN_MUST_CHECK tarn_status tarn_malloc_aligned(tarn_device *device, size_t bytes,
                                                         size_t alignment, tarn_stream stream,
                                                         void **address);

/* As tarn_malloc of count times bytes, all zero. The zeros are written on the stream, behind the work
 * that is there. In a capture the write is a node of the graph: each replay writes the zeros again.
 * The driver judges the write as it judges a cuMemsetD8Async of the caller's. A legacy default stream
 * beside the capture of a blocking stream is refused, and that capture is invalidated. A refused write
 * frees the block again.
 *   INVALID_ARGUMENT  count times bytes overflows, too
 *   DRIVER            the write is refused, too
 * Statuses as tarn_malloc's. */
TARN_API TARN_MUST_CHECK tarn_status tarn_calloc(tarn_device *device, size_t count, size_t bytes,
                                                 tarn_stream stream, void **address);

/* Frees a block. Never fails on a live block, needs no context and no stream, and never waits.
 * NULL is allowed.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE: nothing is freed */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_free(void *address);

/* Frees a block whose last use is on that stream: tarn_record_stream and tarn_free in one. On the stream that the block
 * was allocated on it is tarn_free, and the driver is asked whether that stream is captured.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE, HOST_MEMORY, CAPTURE_BROKEN (the stream's capture is
 *   invalidated), WRONG_STATE (the stream is captured into a body of another pool's capture),
 *   DEVICE_LOST, POISONED, DRIVER: nothing is freed */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_free_on(void *address, tarn_stream stream);

/* Says that work using the block was or will be enqueued on the stream before the block is freed.
 * On the block's own stream it does nothing, nor for NULL, which is what 0 bytes give.
 *
 * The end of such uses is found by events that are recorded in calls of the thread that named the stream
 * last, here, in tarn_free_on or in tarn_stream_retire: elsewhere the handle may mean another stream, or
 * one that is just being captured. When that thread calls no more, as when it has exited, what is freed
 * then comes back after a wait for the device: a trim, or the last rung before an allocation fails. Or
 * another thread retires the stream. The legacy stream is everyone's.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE (the block is not live), HOST_MEMORY, DEVICE_LOST,
 *   POISONED, DRIVER
 *   WRONG_STATE     the stream is captured into a body of a conditional node (graph.h), and the block's
 *                   pool is not that of its capture
 *   CAPTURE_BROKEN  the stream's capture is invalidated: what it captured never runs, and of other work
 *                   on the stream nothing is known before the capture has been ended or aborted */
TARN_API TARN_MUST_CHECK tarn_status tarn_record_stream(void *address, tarn_stream stream);

/* Says that the stream will soon be destroyed, or is given back to whoever lent it: the library does not
 * use the handle any more. What was freed for it, and memory allocated on it, is free for all when the
 * work that is on the stream now has ended, and blocks recorded for it wait for that work alone. Blocks
 * allocated on it stay live and belong to no stream any more: any use of them from now on is to be
 * recorded. To be called behind the stream's last use, on its own thread for a per-thread default
 * stream. A stream may be retired twice, and be used again: it is then a new one to the library, and its
 * context may be destroyed. Does not wait.
 *   INVALID_HANDLE   not an open device
 *   INVALID_ARGUMENT the legacy default stream
 *   WRONG_STATE      the stream is being captured
 *   HOST_MEMORY, DRIVER: the stream is not retired
 *   FORKED, DEVICE_LOST, POISONED: as after every call, frees and destroys still work; the stream may be
 *   destroyed */
TARN_API TARN_MUST_CHECK tarn_status tarn_stream_retire(tarn_device *device, tarn_stream stream);

/* Describes the live block that contains the address. NULL is in none: NOT_OURS.
 *   NOT_OURS, DOUBLE_FREE (no live block there); INVALID_ARGUMENT: block is NULL */
TARN_API TARN_MUST_CHECK tarn_status tarn_block_at(const void *address, tarn_block *block);

/* Gives a live block a number of the caller's, which every tarn_block of the block then shows: a line of
 * the program, an index of a tensor. The block keeps the tag until the next call or until its free. A
 * block that a restore brings back has the tag of the moment when the checkpoint was taken. No effect for
 * NULL, the address of 0 bytes.
 *   NOT_OURS, INNER_ADDRESS.
 *   DOUBLE_FREE  the block is not live.
 *   HOST_MEMORY  the block has its tag from before. */
TARN_API TARN_MUST_CHECK tarn_status tarn_block_set_tag(void *address, uint64_t tag);

#ifdef __cplusplus
}
#endif
#endif
