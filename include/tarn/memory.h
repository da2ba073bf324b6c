// SPDX-License-Identifier: Apache-2.0
/* memory.h -- allocation and free.
 *
 * Orders: memory belongs to an order of work. This is the stream of the allocation, or that stream
 * within one capture. Freed memory serves its own order again at once. As long as all use was on
 * that stream, no wait is needed before a free.
 *
 * Other streams: tell Tarn about use on another stream by tarn_record_stream or tarn_free_on. The
 * block is then reused only when that stream has passed the point of the free.
 *
 * Blocks of a capture: a block allocated in a capture belongs to the order of that capture for
 * good. Work outside the capture, such as a copy of an output behind a replay, is use on another
 * stream. This holds on the captured stream, and on the stream of the replay, too. After a plain
 * tarn_free the next capture of the pool may have the block at once. A replay of that capture's
 * graph waits for earlier replays, but not for the copy. Free the output by tarn_free_on(output,
 * stream). A plain tarn_free is enough if one stream has all replays of the pool's graphs, and all
 * work of this kind. See docs/graphs.md.
 *
 * In a capture: the order of a stream is the order in which the stream is given work. A stream set
 * back with cuStreamUpdateCaptureDependencies has new work beside its earlier work. Give each
 * branch a stream of its own, or free after the capture the blocks that a branch uses. A forked
 * stream with allocations must live until the capture is over. The capture knows a stream by its
 * handle alone, and the next stream may get the same handle.
 *
 * Stream handles: Tarn uses a handle inside the call that passes the handle, with one exception. A
 * stream named to tarn_record_stream or tarn_free_on must live until one of these is true:
 * - tarn_stream_retire was called for the stream;
 * - every block recorded for the stream was freed, its memory was given out again, and no
 *   checkpoint has such a block.
 * A stream with allocations alone may be destroyed without a call. Its memory is then reused after
 * a wait for the device: in tarn_pool_trim, or as the last resort before an out-of-memory error.
 * Memory of a retired stream serves others as soon as the stream's work has ended. See
 * docs/pools.md.
 *
 * Default streams: NULL is the default stream that the device was opened for, in every call with a
 * stream (tarn_null_stream in device.h). (tarn_stream)1 is the legacy default stream, and
 * (tarn_stream)2 the default stream of the calling thread, as in CUDA.
 *
 * Waits: a wait for the device covers the device's primary context, which the CUDA runtime uses. It
 * covers each context of the program (cuCtxCreate) with a stream that Tarn was given for an
 * allocation, a use, a capture or a checkpoint. It does not cover a context that only replays
 * graphs, or uses memory without a call to Tarn: the caller waits for that work.
 *
 * Threads: all functions may be called from any thread, and while any stream is being captured. */
#ifndef TARN_MEMORY_H
#define TARN_MEMORY_H

#include "tarn/pool.h"
#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates from the pool that the routes choose, or else from the default pool. The address is
 * aligned to 512 bytes. 0 bytes give TARN_OK and NULL. The caller owns the block.
 *   INVALID_HANDLE    Not an open device.
 *   INVALID_ARGUMENT  address is NULL.
 *                     bytes is above 2^40, more than any device holds.
 *   UNROUTED          The stream is being captured, no route catches the allocation, and the device
 *                     was opened to refuse this (tarn_device_options: unrouted).
 *   WRONG_STATE       The stream is captured into a body of a conditional node (graph.h) of another
 *                     pool's capture.
 *   DEVICE_MEMORY     No memory is left, free memory of other pools included. The sentence says how
 *                     much each pool holds.
 *   ADDRESS_SPACE     No range of addresses is left, not even in free memory of other pools that is
 *                     known to be idle. A trim waits, and may give some addresses back.
 *   CAPTURE_BROKEN    The stream's capture is invalidated.
 *   HOST_MEMORY, LIMIT, FORKED, DEVICE_LOST, POISONED, DRIVER. */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_malloc(tarn_device *device, size_t bytes,
                                                     tarn_stream stream, void **address);

/* Allocates from the named pool, whatever the routes. alignment: a power of two up to 2 MiB; 0:
 * 512. On a capturing stream, an allocation from the default pool is one that no route catches.
 *   INVALID_ARGUMENT  Also for alignment.
 * Statuses as tarn_malloc's. */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_pool_malloc(tarn_pool *pool, size_t bytes,
                                                          size_t alignment, tarn_stream stream,
                                                          void **address);

/* The same as tarn_malloc, with an alignment: a power of two up to 2 MiB; 0: 512.
 *   INVALID_ARGUMENT  Also for alignment.
 * Statuses as tarn_malloc's. */
TARN_API TARN_MUST_CHECK tarn_status tarn_malloc_aligned(tarn_device *device, size_t bytes,
                                                         size_t alignment, tarn_stream stream,
                                                         void **address);

/* Allocates count times bytes as tarn_malloc does, and writes zeros on the stream, behind the work
 * already there. In a capture the write is a node of the graph: each replay writes the zeros again.
 * The driver judges the write like a cuMemsetD8Async of the caller. On the legacy default stream,
 * beside the capture of a blocking stream, the driver refuses the write, and invalidates that
 * capture. A refused write frees the block again;
 * a pool that the capture has adopted for the block stays the capture's.
 *   INVALID_ARGUMENT  Also: count times bytes overflows.
 *   WRONG_STATE       Also: a callback of the call (pressure.h) has begun or ended a capture of the
 *                     stream.
 *   DRIVER            Also: the driver refuses the write.
 * Statuses as tarn_malloc's. */
TARN_API TARN_MUST_CHECK tarn_status tarn_calloc(tarn_device *device, size_t count, size_t bytes,
                                                 tarn_stream stream, void **address);

/* Allocates from the pool, or, where pool is NULL, as tarn_malloc_aligned does. In the device's
 * history this allocation has the label: a text of UTF-8, at most 1,000 bytes (history.h). The text
 * is copied. NULL: the thread's label, as in other calls. "": none. Allocations of callbacks have
 * the thread's label.
 *   INVALID_HANDLE    The device; or the pool, which is not NULL.
 *   INVALID_ARGUMENT  Also: the pool is of another device.
 *                     alignment is no power of two, or above 2 MiB.
 *                     The label has more than 1,000 bytes, or is not UTF-8.
 * Statuses as tarn_malloc's. */
TARN_API TARN_MUST_CHECK tarn_status tarn_malloc_labeled(tarn_device *device, tarn_pool *pool,
                                                         size_t bytes, size_t alignment,
                                                         tarn_stream stream, const char *label,
                                                         void **address);

/* Frees a block. Never fails on a live block, needs no context and no stream, and never waits. NULL
 * is allowed.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE  Nothing is freed. */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_free(void *address);

/* Frees a block with its last use on the stream: tarn_record_stream and tarn_free in one call. On
 * the stream of the block's allocation this is tarn_free, but the driver is asked whether the
 * stream is captured. Where several streams allocate from a pool, such a call may also record an
 * event, by which the other streams get the memory soon. On failure nothing is freed. NULL is
 * allowed.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE.
 *   WRONG_STATE     The stream is captured into a body of another pool's capture.
 *   CAPTURE_BROKEN  The stream's capture is invalidated.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API_HOT TARN_MUST_CHECK tarn_status tarn_free_on(void *address, tarn_stream stream);

/* Says that work on the stream uses the block: work enqueued earlier, or later but before the free.
 * No effect on the block's own stream, and for NULL, the address of 0 bytes.
 *
 * Tarn finds the end of the uses by events. Calls of a single thread record them: the thread that
 * last named the stream, here, in tarn_free_on or in tarn_stream_retire. After the last call of
 * that thread, for example when the thread has exited, freed blocks come back in two ways:
 * - after a wait for the device: in a trim, or on the last rung before an allocation fails;
 * - when another thread retires the stream.
 * For the legacy stream any thread records. See docs/pools.md.
 *   NOT_OURS, INNER_ADDRESS.
 *   DOUBLE_FREE     The block is not live.
 *   WRONG_STATE     The stream is captured into a body of a conditional node (graph.h) of another
 *                   pool's capture.
 *   CAPTURE_BROKEN  The stream's capture is invalidated. Captured work never runs. Nothing is known
 *                   of other work on the stream before the capture has been ended or aborted.
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_record_stream(void *address, tarn_stream stream);

/* Says that the stream will soon be destroyed, or given back to its lender. From then on Tarn does
 * not use the handle, and "the work" is all work that is now on the stream:
 * - Free memory of the stream, and blocks freed for the stream, serve all streams when the work has
 *   ended.
 * - Live blocks recorded for the stream wait for the work alone.
 * - Live blocks allocated on the stream stay live, and belong to no stream. Record every use from
 *   now on.
 *
 * Call behind the stream's last use, and on its own thread for a per-thread default stream. A
 * stream may be retired twice. A retired stream that is used again is a new stream to Tarn. The
 * context of a retired stream may be destroyed. Does not wait.
 *   INVALID_HANDLE    Not an open device.
 *   INVALID_ARGUMENT  The stream is the legacy default stream.
 *   WRONG_STATE       The stream is being captured.
 *   HOST_MEMORY, DRIVER  The stream is not retired.
 *   FORKED, DEVICE_LOST, POISONED  The stream may be destroyed. Frees and destroys still work, as
 *                                  after every call with these statuses. */
TARN_API TARN_MUST_CHECK tarn_status tarn_stream_retire(tarn_device *device, tarn_stream stream);

/* Describes the live block that contains the address.
 *   NOT_OURS          The address is NULL, or was not handed out by Tarn.
 *   DOUBLE_FREE       No live block is at the address.
 *   INVALID_ARGUMENT  block is NULL. */
TARN_API TARN_MUST_CHECK tarn_status tarn_block_at(const void *address, tarn_block *block);

/* The memory at an address. All sizes are in bytes. */
typedef struct tarn_segment {
    /* sizeof(tarn_segment), set by the INIT macro. */
    size_t size;
    /* The segment: addresses in which one pool maps and unmaps memory, chunk by chunk. Parts of it
     * may have no memory. It stays where it is until the pool gives it up. */
    void *base;
    size_t bytes;
    /* The chunk around the address: one allocation of the driver's, mapped as a whole. A trim, or a
     * growth elsewhere, may take a free chunk that nothing holds. */
    void *chunk;
    size_t chunk_bytes;
    /* The block around the address, as taken from the pool; or the run of free bytes there. It may
     * reach over several chunks. */
    void *run;
    size_t run_bytes;
    /* State of the run: LIVE, PENDING, DISCARDED or FREE. */
    tarn_extent_state run_state;
    tarn_location location;
    /* Ordinal of the device. */
    int device;
    /* A capture or a graph keeps the chunk: it stays mapped, and a replay may write there. */
    bool is_held;
    /* Memory of the pool can be exported, and is capable of GPUDirect RDMA (tarn_pool_options). */
    bool is_exportable;
    bool is_gpu_direct_rdma;
    /* NULL: a pool that was released, or that Tarn made for a capture. Keeps nothing. */
    tarn_pool *pool;
    /* Rises with the creation of the pool's segments, and is never used again in the pool; the
     * segment_index of a tarn_extent. */
    uint64_t index;
} tarn_segment;

#define TARN_SEGMENT_INIT TARN_SIZED(tarn_segment)

/* Describes the segment, chunk and block or free run at any address in mapped memory of a pool, as
 * they are at one moment. Other threads may change them at once, except what the caller keeps: a
 * live block keeps its segment and chunks. Locks the pool, asks the driver nothing, and never
 * disturbs a capture. Any thread.
 *
 * In memory that another process shares (share.h) the segment is a mapping. The run is a block with
 * an open share, or else the chunk, as free. There is no pool.
 *   NOT_OURS          The address is NULL, or not Tarn's.
 *                     Tarn has reserved the address, and no memory is mapped there: the sentence
 *                     says so.
 *   INVALID_ARGUMENT  segment is NULL, or its size is wrong (tarn/types.h). */
TARN_API TARN_MUST_CHECK tarn_status tarn_segment_at(const void *address, tarn_segment *segment);

/* Gives a live block a number of the caller: a line of the program, or the index of a tensor. Every
 * tarn_block of the block then shows the tag. The tag ends with the next call, or with the block's
 * free. A block that a restore brings back has the tag from the moment of the checkpoint's take. No
 * effect for NULL, the address of 0 bytes.
 *   NOT_OURS, INNER_ADDRESS.
 *   DOUBLE_FREE  The block is not live.
 *   HOST_MEMORY  The block has its tag from before. */
TARN_API TARN_MUST_CHECK tarn_status tarn_block_set_tag(void *address, uint64_t tag);

#ifdef __cplusplus
}
#endif
#endif
