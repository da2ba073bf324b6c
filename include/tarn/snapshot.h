// SPDX-License-Identifier: Apache-2.0
/* snapshot.h -- all memory of a device, or of one pool, as it was at one moment.
 *
 *   tarn_snapshot_take(device, NULL, &snapshot);
 *   tarn_snapshot_write_pytorch(snapshot, write_to_file, file);
 *   tarn_snapshot_destroy(snapshot);
 *
 * A snapshot has the pools, the runs of mapped memory in them, and the blocks of each run. A
 * program reads these arrays, or writes them as PyTorch's memory snapshot. The viewer at
 * https://pytorch.org/memory_viz opens the file. docs/snapshot.md compares the two.
 *
 * All functions may be called from any thread, while any stream is being captured, and from within
 * callbacks of tarn/pressure.h. They never disturb a capture. As in other calls, memory of pools
 * whose end has come may go back to the driver first. */
#ifndef TARN_SNAPSHOT_H
#define TARN_SNAPSHOT_H

#include "tarn/pool.h"
#include "tarn/stats.h"
#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run of bytes. The blocks of a segment tile it, and no two free ones touch each other. Bytes and
 * sequence of a free block are 0. */
typedef struct tarn_snapshot_block {
    void *address;
    /* as requested */
    size_t bytes;
    /* as taken from the pool, or free in one piece */
    size_t block_bytes;
    /* unique in the process, rising with every allocation */
    uint64_t sequence;
    /* the user's number for the block (tarn_block_set_tag); 0: none */
    uint64_t tag;
    /* LIVE, PENDING, DISCARDED or FREE. A snapshot has no addresses without memory. */
    tarn_extent_state state;
} tarn_snapshot_block;

/* A pool. Its counts are those of tarn_stats. */
typedef struct tarn_snapshot_pool {
    /* unique in the process, rising with every pool that is made */
    uint64_t number;
    /* NULL: RELEASED or ADOPTED. The handle keeps nothing, as in tarn_device_pools. */
    tarn_pool *pool;
    tarn_pool_kind kind;
    /* as given to tarn_pool_create; "default" and "adopted" for pools that Tarn made */
    char name[32];
    /* in all its segments */
    uint64_t mapped_bytes;
    /* captures under way or waiting to be adopted */
    uint64_t capture_count;
    /* tarn_graphs */
    uint64_t graph_count;
    /* graphs of ended captures that keep memory */
    uint64_t held_graph_count;
    uint64_t checkpoint_count;
    /* open routes to the pool */
    uint64_t route_count;
    /* where its memory is */
    tarn_location location;
} tarn_snapshot_pool;

/* Mapped memory without a gap, which serves one order of work: a stream, a stream within one
 * capture, or none. Its free blocks serve this order first. Segments that touch each other differ
 * in pool, order or kind. */
typedef struct tarn_snapshot_segment {
    void *address;
    size_t bytes;
    /* entry of the snapshot's pools */
    const tarn_snapshot_pool *pool;
    /* in order of address */
    const tarn_snapshot_block *blocks;
    size_t block_count;
    /* Serves blocks of up to 512 KiB. */
    bool is_small;
    /* The stream, as a call named it. NULL: a default stream; or no stream, as for memory that
     * captures have left behind. The stream may have been destroyed since. */
    tarn_stream stream;
    /* the driver's id of the stream (cuStreamGetId); 0: in a capture, or no stream */
    uint64_t stream_id;
    /* the driver's id of the capture that the memory serves; 0: outside captures */
    uint64_t capture_id;
    /* in LIVE and DISCARDED blocks: their users have not freed them */
    size_t allocated_bytes;
    /* in LIVE, DISCARDED and PENDING blocks */
    size_t active_bytes;
    /* in the same blocks, as requested */
    size_t requested_bytes;
    /* in chunks that captures or graphs keep */
    size_t held_bytes;
} tarn_snapshot_segment;

/* Constant, and owned by the snapshot. */
typedef struct tarn_snapshot {
    /* ordinal of the device */
    int device;
    /* the newest first, the default pool last; a pool without memory is among them */
    size_t pool_count;
    const tarn_snapshot_pool *pools;
    /* in order of address */
    size_t segment_count;
    const tarn_snapshot_segment *segments;
    /* in all segments */
    size_t block_count;
} tarn_snapshot;

/* Takes a snapshot of a pool, or of all pools of the device where pool is NULL. It shows a single
 * moment: all pools of the snapshot are stopped together. Calls of other threads that change these
 * pools wait meanwhile, and until a growing pool is done. Replays go on.
 *
 * Unless the device was opened with TARN_NO_HISTORY, the live blocks come from its history. Pools
 * are stopped until chunks and pending blocks are copied: some ten nanoseconds for each, and for
 * each stream. All blocks are copied while the pools are stopped, some ten nanoseconds for each,
 * without a history, or with discarded blocks. This holds also where threads overwrite the history
 * faster than it is read.
 *
 * *snapshot: owned by the caller; end it with tarn_snapshot_destroy.
 *   INVALID_HANDLE    The device; or the pool, which is not NULL.
 *   INVALID_ARGUMENT  snapshot is NULL.
 *                     The pool is of another device.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_snapshot_take(tarn_device *device, tarn_pool *pool,
                                                        tarn_snapshot **snapshot);
TARN_API void tarn_snapshot_destroy(tarn_snapshot *snapshot); /* NULL is allowed. */

/* Adds what the device's history has of the time before the snapshot (docs/history.md):
 * allocations, frees, annotations, memory mapped and unmapped, memory that was lacking, and ranges.
 * tarn_snapshot_write_pytorch then writes these events as the traces of the device, also from a
 * snapshot of one pool. Events that were added before go. A history of 16 MiB takes some 100 ms to
 * read, and nobody waits.
 *   INVALID_HANDLE    The device.
 *   INVALID_ARGUMENT  snapshot is NULL, or of another device, or of one that was opened anew since.
 *   NOT_SUPPORTED     The device keeps no history (tarn_device_options.history_bytes).
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_snapshot_add_history(tarn_snapshot *snapshot,
                                                               tarn_device *device);

/* Takes the next bytes, or answers why not. The bytes stay until the writer returns. Called on the
 * writing thread, without any lock of Tarn's. The writer may call Tarn. It must return, and leave
 * in no other way (status.h). */
typedef tarn_status (*tarn_writer)(const void *bytes, size_t count, void *user);

/* Writes the snapshot as PyTorch 2.11 writes its own: a dictionary, pickled by protocol 2. Its
 * device_traces are empty, unless tarn_snapshot_add_history has added events. Blocks and
 * allocations have the frames of their stacks, where the device keeps stacks
 * (tarn_device_options.history_stacks). The writer gets up to 64 KiB at a time. The bytes depend on
 * the snapshot alone, but for names of functions whose module has gone since. The caller keeps the
 * snapshot until the call returns.
 *   INVALID_ARGUMENT  snapshot or writer is NULL.
 *   HOST_MEMORY
 *   LIMIT             The writer answered so: there is no room for more.
 * Another status of the writer ends the call likewise, and is the call's answer. The writer then
 * has a part of the file. */
TARN_API TARN_MUST_CHECK tarn_status tarn_snapshot_write_pytorch(const tarn_snapshot *snapshot,
                                                                 tarn_writer writer, void *user);

/* Writes the events that tarn_snapshot_add_history has added as a trace (docs/traces.md), which
 * `tarn_bench --row recorded` replays: allocations, frees and uses on other streams, of all pools.
 * Blocks that lived before are allocated first. Uses within captures are left out. The writer gets
 * up to 64 KiB at a time.
 * name: of the trace, 1 to 31 printable ASCII characters.
 *   INVALID_ARGUMENT  snapshot, name or writer is NULL.
 *                     The name is too long, empty, or not printable.
 *                     The snapshot has no events.
 *   HOST_MEMORY
 *   LIMIT             The events are of more than 64 streams; or the writer answered so.
 * Another status of the writer ends the call likewise, and is the call's answer. */
TARN_API TARN_MUST_CHECK tarn_status tarn_snapshot_write_trace(const tarn_snapshot *snapshot,
                                                               const char *name, tarn_writer writer,
                                                               void *user);

/* Blocks with one stack, pool and size, of which the second snapshot has more or fewer. LIVE and
 * DISCARDED blocks count: those that their users have not freed. */
typedef struct tarn_snapshot_change {
    /* The label of their allocations (history.h), which is part of the stack; empty: none. */
    const char *label;
    /* Frames of an interpreter (history.h), and addresses behind calls, the innermost first. NULL:
     * no stack is known. */
    const char *const *interpreted;
    size_t interpreted_count;
    const uint64_t *frames;
    size_t frame_count;
    /* the pool's number, and its name in the snapshot that has it */
    uint64_t pool;
    char pool_name[32];
    /* of each block, as taken from the pool */
    size_t block_bytes;
    /* in the second snapshot less in the first; negative: fewer */
    int64_t blocks;
    int64_t bytes;
} tarn_snapshot_change;

/* Constant, and owned by the diff. */
typedef struct tarn_snapshot_diff {
    /* what has grown most comes first, and what has shrunk most last */
    size_t count;
    const tarn_snapshot_change *changes;
    /* of all blocks */
    int64_t blocks;
    int64_t bytes;
} tarn_snapshot_diff;

/* Says by stack, pool and size what grew or shrank from one snapshot to the other. Without stacks
 * (tarn_device_options.history_stacks) pool and size tell blocks apart. Stacks of two runs of a
 * program differ, unless the system maps its code at the same addresses.
 * *diff: owned by the caller; end it with tarn_snapshot_diff_destroy. Both snapshots may go.
 *   INVALID_ARGUMENT  A snapshot or diff is NULL.
 *                     The snapshots are of different devices.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_snapshot_compare(const tarn_snapshot *before,
                                                           const tarn_snapshot *after,
                                                           tarn_snapshot_diff **diff);
TARN_API void tarn_snapshot_diff_destroy(tarn_snapshot_diff *diff); /* NULL is allowed. */

/* Writes the diff, as tarn_pool_report writes. Text: the sums, then a line for each change and one
 * for each frame of its stack. JSON: an object with the same. A frame has its module, the place of
 * the call in the module's file, and the function, where the module exports one.
 *   INVALID_ARGUMENT  diff is NULL.
 *                     buffer is NULL, and capacity is not 0.
 *                     The format is unknown. */
TARN_API TARN_MUST_CHECK tarn_status tarn_snapshot_diff_report(const tarn_snapshot_diff *diff,
                                                               tarn_report_format format,
                                                               char *buffer, size_t capacity,
                                                               size_t *length);

#ifdef __cplusplus
}
#endif
#endif
