// SPDX-License-Identifier: Apache-2.0
/* checkpoint.h -- a pool's state, taken, restored and verified.
 *
 * A checkpoint records which blocks of a pool are live, and on request their bytes. A restore makes
 * the live set exactly that of the checkpoint. Blocks are known by their sequence numbers:
 * - A block live then and now stays live, at its address. With contents its bytes are put back.
 * - A block live now, but not then, is freed.
 * - A block live then, but not now, is live again at the same address and size, and is the caller's
 *   to free again.
 *
 * A checkpoint can be restored any number of times, after any growth or trim. Graphs of the pool
 * stay valid across restores, captured before or after the take. A checkpoint keeps its pool, and
 * the addresses of its blocks, until tarn_checkpoint_destroy.
 *
 * Below, pending memory was freed, but waits for work on another stream, for a capture's end or for
 * a guard. To record a stream for a block is to call tarn_record_stream or tarn_free_on
 * (memory.h).
 *
 * All functions may be called from any thread. Concurrent use of the pool by other threads is
 * ordered before or after the call as a whole. */
#ifndef TARN_CHECKPOINT_H
#define TARN_CHECKPOINT_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Takes a checkpoint. With contents, the copies are enqueued on the stream, behind the work already
 * there, with a digest of each block. The caller sees to three conditions for contents:
 * - Use of the pool on other streams has ended, replays included. The take does not wait for
 *   replays of other pools' graphs that write its blocks, guarded or not.
 * - No other thread frees blocks of the pool during the call.
 * - While the copies run, free a block of another stream with tarn_free_on(block, stream), or order
 *   its stream behind this one first. Otherwise that stream may have the memory under the copy.
 *
 * Callbacks that the call makes for want of memory (pressure.h) may free blocks of the pool. The
 * checkpoint has the blocks that are live when the copies are enqueued. If callbacks or other
 * threads keep changing the live set, the take uses up to twice the memory.
 *
 * The copies are enqueued with the pool locked. Other threads that allocate from the pool wait
 * meanwhile, also until a full queue of the stream has room again. A restore does the same.
 *
 * Pending memory of the stream, or of captures, is free from the take on, as after each restore.
 * The stream is put behind the uses, and later replays of the pool's graphs come behind the stream.
 * Pending memory of other streams stays pending, as does memory whose uses only a wait would end.
 * For this alone a take without contents uses the stream, which must not have been destroyed.
 * Pending memory stays as it is if the stream cannot be used: the stream is being captured, or is
 * the legacy default stream while a blocking stream is being captured.
 *
 * Contents take some 40 bytes a block besides their bytes: of device memory from the default pool,
 * and again of page-locked host memory. Page-locked memory is in a pool of the host (host.h) that
 * Tarn makes for it, named "staging". A destroyed checkpoint's is kept there for the next one,
 * since the driver takes 0.2 ms for each MiB. The limit is 256 MiB a device, unless set
 * (tarn_device_set_pinned_cache_limit). On a device that maps no memory of the host it is
 * registered. Above 16 MiB it is then registered anew each time, in 26 ms a GiB, and other threads'
 * calls wait meanwhile.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  checkpoint is NULL, or contents is unknown.
 *   WRONG_STATE       A capture is under way in the pool.
 *                     The pool is the default pool.
 *                     With contents: the stream is being captured.
 *                     With contents: the stream is the legacy default stream, while a blocking
 *                     stream is being captured.
 *   NOT_SUPPORTED     With contents: the driver cannot compile the kernel that copies them.
 *                     With contents: the driver neither maps nor registers memory of the host.
 *   DEVICE_MEMORY, HOST_MEMORY, ADDRESS_SPACE, LIMIT, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_take(tarn_pool *pool, tarn_contents contents,
                                                          tarn_stream stream,
                                                          tarn_checkpoint **checkpoint);

/* The changes of a restore. */
typedef struct tarn_revived {
    tarn_block block;
    /* The checkpoint has no contents: the bytes are whatever is in the memory. */
    bool undefined;
} tarn_revived;

typedef struct tarn_delta {
    size_t freed_count;
    size_t revived_count;
    /* Were live, and are no longer: do not free them. Segment by segment, in order of address
     * there. */
    const tarn_block *freed;
    /* Are live again, and the caller's to free. In the same order. */
    const tarn_revived *revived;
} tarn_delta;

/* Makes the pool's live set that of the checkpoint. With contents, puts the bytes of all its blocks
 * back, untouched blocks included. The copies are enqueued on the stream, where revived blocks may
 * be used at once.
 *
 * The restore waits for the device if memory to revive, or with contents to write, may still be in
 * use on another stream:
 * - memory of other streams' blocks;
 * - memory of blocks that other streams were recorded for;
 * - memory of graphs whose replays are not ordered before the stream.
 *
 * The stream is put behind the copies of the last take and of the last restore. In these cases the
 * restore waits for the device instead:
 * - Takes on several streams may still copy.
 * - A checkpoint of those copies was destroyed meanwhile.
 * - The stream is the legacy default stream, while a blocking stream is being captured.
 *
 * The caller orders later work on other streams, replays included, behind this stream. A free
 * counts too: free a block of another stream with tarn_free_on(block, stream), or order its stream
 * behind this one first.
 *
 * Guarded graphs of other pools (tarn_graph_guard) may refer to blocks of this pool. The restore
 * may write such a block, free the block, or bring another block back over it. It then takes a turn
 * among the replays of the graph's pool. Replays launched before the restore end before its copies
 * begin. Where nothing else tells their end, the restore waits for the device: behind a pool's only
 * graph, or behind a graph whose guard has ended since. Replays launched later, from any thread and
 * on any stream, come behind the copies. The caller orders graphs with TARN_GUARD_IGNORE, and
 * graphs whose guard does not know the block.
 *
 * A revived block is recorded for the same streams as at the take, except for streams retired
 * since. A stream recorded for a block must live as long as a
 * checkpoint has the block. Or call tarn_stream_retire (memory.h) before you destroy the stream.
 *
 * A pending block that the checkpoint has is revived. A pending block in the place of a revived one
 * makes way. Other pending blocks are free from the restore on: the stream is put behind their
 * uses, or the restore waits for the device if no event stands for them. Blocks that a guard keeps
 * stay pending, as do blocks whose graph is still to be adopted.
 *
 * A revived block belongs to its stream's memory again, with two exceptions: the pool does not know
 * the stream any more, or a graph may write around the block. The block then belongs to the memory
 * of all streams, which is free once a wait for the device has proven it idle.
 *
 * The same calls after the same restore get the same addresses, on two conditions: the pool maps
 * the same memory, and no memory passes between captures and streams. This holds for captures, and
 * outside captures for a single stream and thread without pending blocks. For captures the driver's
 * answers about finished work do not matter. Memory that becomes free by such an answer serves
 * captures at one of three times: from the next restore or take on; when memory is short; when more
 * than 256 MiB waits, and more than a quarter of the pool's memory.
 *
 * On failure neither the live set nor a byte has changed. *delta: owned by the caller; end it with
 * tarn_delta_destroy. delta may be NULL.
 *   INVALID_HANDLE
 *   WRONG_STATE    A capture is under way in the pool.
 *                  The stream is being captured.
 *                  With contents: the stream is the legacy default stream, while a blocking stream
 *                  is being captured.
 *                  A block of an aborted capture that is not freed lies where a block must be
 *                  revived.
 *                  A block that was freed in the program's own capture lies where a block must be
 *                  revived. The capture's graph is not adopted yet, and could get no hold at the
 *                  free.
 *   BUSY           Other threads kept freeing or restoring memory that the restore needs, on other
 *                  streams.
 *                  Another process has a lease of a freed block whose memory the restore needs
 *                  (share.h).
 *   DEVICE_MEMORY  Missing chunks cannot be mapped again.
 *   HOST_MEMORY, LIMIT, NOT_SUPPORTED, DEVICE_LOST, POISONED, DRIVER. */
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_restore(tarn_checkpoint *checkpoint,
                                                             tarn_stream stream,
                                                             tarn_delta **delta);
TARN_API void tarn_delta_destroy(tarn_delta *delta); /* NULL is allowed. */

/* Computes the digests of the saved contents anew, and compares them with the digests of the copied
 * bytes. Restores nothing. Enqueues its work on the stream, and waits for this work.
 *   INVALID_HANDLE
 *   WRONG_STATE    The checkpoint has no contents.
 *                  The stream is being captured.
 *                  The stream is the legacy default stream, while a blocking stream is being
 *                  captured.
 *   CORRUPT        A saved byte, or a digest, has changed. The sentence names the first block.
 *   NOT_SUPPORTED, DEVICE_MEMORY, HOST_MEMORY, ADDRESS_SPACE, LIMIT, DEVICE_LOST, POISONED, DRIVER.
 */
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_verify(tarn_checkpoint *checkpoint,
                                                            tarn_stream stream);

/* Ends a checkpoint; copies under way go on. Waits for the device if the checkpoint had page-locked
 * memory that is not kept for the next one (tarn_checkpoint_take). NULL is allowed.
 *   INVALID_HANDLE
 *   BUSY  A call with the checkpoint is under way, on another thread or around this callback. */
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_destroy(tarn_checkpoint *checkpoint);

/* A block that the caller believes to be live in the pool. */
typedef struct tarn_expected {
    const void *address;
    /* As requested; 0: any size. */
    size_t bytes;
} tarn_expected;

typedef enum tarn_difference_kind {
    TARN_DIFFERENCE_UNEXPECTED, /* live in the pool, but not expected */
    TARN_DIFFERENCE_MISSING,    /* expected, but not live */
    TARN_DIFFERENCE_SIZE,       /* live with another requested size */
    TARN_DIFFERENCE_POOL,       /* live, but in another pool */
} tarn_difference_kind;

typedef struct tarn_difference {
    tarn_difference_kind kind;
    /* The block as it is. A missing block has only the address and the expected bytes. */
    tarn_block block;
    /* As expected; 0: nothing was expected. */
    size_t expected_bytes;
} tarn_difference;

typedef struct tarn_live_diff {
    /* 0: the live set is exactly the expected set. */
    size_t count;
    /* In order of address. */
    const tarn_difference *differences;
} tarn_live_diff;

/* Compares the pool's live blocks with the blocks that the caller expects. An address expected
 * twice is missing the second time. NULL with 0 bytes, the result of an allocation of 0 bytes, is
 * never a difference; NULL with more bytes is missing. *diff: owned by the caller; end it with
 * tarn_live_diff_destroy.
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  diff is NULL.
 *                     expected is NULL, and expected_count is not 0.
 *   HOST_MEMORY. */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_check_live(tarn_pool *pool,
                                                          const tarn_expected *expected,
                                                          size_t expected_count,
                                                          tarn_live_diff **diff);
TARN_API void tarn_live_diff_destroy(tarn_live_diff *diff); /* NULL is allowed. */

#ifdef __cplusplus
}
#endif
#endif
