// SPDX-License-Identifier: Apache-2.0
/* checkpoint.h -- a pool's state, taken, restored and verified.
 *
 * A checkpoint records which blocks of a pool are live, and on request their bytes. Restoring makes
 * the live set exactly that of the checkpoint: a block in both, by sequence number, is untouched;
 * one that is live now but was not then is freed; one that was live then but is not now is live
 * again at the same address and size. A checkpoint can be restored any number of times, after any
 * growth or trim, while graphs of the pool exist.
 *
 * All functions may be called from any thread; concurrent use of the pool by other threads is
 * ordered before or after the call as a whole. */
#ifndef TARN_CHECKPOINT_H
#define TARN_CHECKPOINT_H

#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tarn_contents {
    TARN_CONTENTS_NONE = 0,   /* state alone */
    TARN_CONTENTS_DEVICE = 1, /* and the bytes of live blocks, copied to device memory taken from
                                 the default pool */
    TARN_CONTENTS_HOST = 2,   /* and the bytes of live blocks, copied to page-locked host memory */
} tarn_contents;

/* Takes a checkpoint. With contents, the copies are enqueued on the stream, behind the work that is
 * already there, and a digest of each block is computed from what is copied; use of the pool on
 * other streams must have ended, replays included: those of graphs of other pools that write its blocks, guarded or
 * not, are not waited for. And no other thread may free blocks of the pool during the call. As
 * long as the copies are under way, a block of another stream is freed with tarn_free_on(block, stream),
 * or its stream is ordered behind this one first: else that stream may have the memory under the copy.
 * Callbacks that the call makes for want of memory (pressure.h) may free blocks of the pool: the checkpoint has
 * what is live when the copies are enqueued. Where they, or other threads, keep changing that, up to twice the
 * memory is taken.
 * The copies are enqueued with the pool locked: who allocates from it meanwhile waits, also for a queue of the
 * stream's that is full to have room again. So does a restore.
 * What is pending in memory of the stream, or of captures, is free from the take on, as after each restore: the stream is put
 * behind the uses, and later replays of the pool's graphs come behind the stream. Of other streams, and where only a wait
 * would end the uses, it stays pending. For that alone a take without contents uses the stream, which may not have been
 * destroyed; one that cannot be used, since it is captured, leaves what is pending as it is.
 * Contents take, besides their bytes, some 40 bytes of device memory a block from the default pool, and
 * as many of page-locked host memory. What a checkpoint had of the latter is kept for the next one,
 * up to a limit (tarn_device_set_pinned_cache_limit), 256 MiB a device unless it is set: the driver takes
 * 0.6 ms for each MiB of it.
 *   INVALID_HANDLE; INVALID_ARGUMENT: checkpoint is NULL or contents unknown
 *   WRONG_STATE    a capture is under way in the pool, or it is the default pool; contents: the stream is
 *                  being captured, or is the legacy default one while a blocking stream is
 *   NOT_SUPPORTED  contents: the driver cannot compile the kernel that copies them
 *   DEVICE_MEMORY, HOST_MEMORY, ADDRESS_SPACE, LIMIT, DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_take(tarn_pool *pool, tarn_contents contents,
                                                          tarn_stream stream,
                                                          tarn_checkpoint **checkpoint);

/* What a restore changed. */
typedef struct tarn_revived {
    tarn_block block;
    bool undefined; /* the checkpoint has no contents: the bytes are whatever is there */
} tarn_revived;

typedef struct tarn_delta {
    size_t freed_count;
    size_t revived_count;
    const tarn_block *freed; /* were live, are not any more: do not free them */
    /* are live again: the caller's to free. Both segment by segment, in order of address there */
    const tarn_revived *revived;
} tarn_delta;

/* Makes the pool's live set the checkpoint's, and with contents puts their bytes back, those of
 * untouched blocks too. Copies are enqueued on the stream; what is revived may be used there at
 * once. Waits for the device when memory to be revived, or with contents to be written, may still be
 * in use on another stream: that of other streams' blocks, of blocks that other streams were recorded
 * for, and of graphs whose replays are not ordered before the stream. The stream is put behind the copies of
 * the take before and of the restore before; the device is waited for where takes on several streams may still
 * copy, one of those checkpoints was destroyed meanwhile, or the stream is the legacy default one while a blocking
 * stream is being captured. What the caller enqueues later on other streams, replays included, the caller orders
 * behind this one.
 * Guarded graphs of other pools (tarn_graph_guard) refer to blocks of this one. Where the restore writes such a block,
 * frees it or brings another one back over it, it takes a turn among the replays of the graph's pool, as a replay does.
 * Their replays that were launched before it are over before its copies begin: the device is waited for where nothing
 * else tells, as behind a pool's only graph, or behind a graph whose guard has ended since. Those that are launched
 * later, from any thread and on any stream, come behind its copies. A graph with TARN_GUARD_IGNORE, or whose guard does not
 * know the block, the caller orders.
 * A revived block is recorded for the streams that it was recorded for when the checkpoint was taken, but
 * for those retired since: a stream recorded for a block must live as long as a checkpoint has the block,
 * or be retired (see memory.h).
 * A block that is pending is revived where the checkpoint has it, and makes way where a revived one
 * lies over it; else it is free from the restore on: the stream is put behind its uses, or the device is waited for
 * where no event stands for them. But it stays pending where a guard keeps it, or a graph is still to be adopted. What comes back belongs to its stream's memory again, or, where
 * that stream is not known to the pool any more or a graph may write around it, to what is free for
 * all streams once a wait for the device has proven it idle.
 * The same calls after the same restore get the same addresses: those of captures, and those outside
 * captures on one stream, by one thread, as long as the pool maps the same memory and none passes between
 * captures and streams. For captures it does not matter what the driver answers when it is asked whether work is done:
 * what becomes free so serves them from the next restore or take on, or when memory is short, or when a
 * quarter of the pool's memory, and 256 MiB, waits. Outside captures none may be pending.
 * *delta: owned by the caller; end it with tarn_delta_destroy. delta may be NULL.
 *   INVALID_HANDLE
 *   WRONG_STATE    a capture is under way in the pool, the stream is being captured, or, with contents, is the
 *                  legacy default one while a blocking stream is, or where a block must be revived lies one of
 *                  an aborted capture that is not freed, or one that was freed in a capture of the program's
 *                  own whose graph is not adopted yet and could not be given a hold then
 *   BUSY           other threads kept freeing or restoring memory that it needs, on other streams
 *   DEVICE_MEMORY  missing chunks cannot be mapped again
 *   HOST_MEMORY, LIMIT, NOT_SUPPORTED, DEVICE_LOST, POISONED, DRIVER
 * Whatever the status but OK, neither the live set nor a byte has changed: the copies of contents are
 * one call of the driver. */
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_restore(tarn_checkpoint *checkpoint,
                                                             tarn_stream stream,
                                                             tarn_delta **delta);
TARN_API void tarn_delta_destroy(tarn_delta *delta); /* NULL is allowed. */

/* Computes the digests of the saved contents anew and compares them with those of the bytes that were
 * copied. Restores nothing. Enqueues its work on the stream and waits for it.
 *   INVALID_HANDLE
 *   WRONG_STATE    the checkpoint has no contents, the stream is being captured, or is the legacy default one
 *                  while a blocking stream is
 *   CORRUPT        a saved byte, or a digest, is another one; the sentence names the first block
 *   NOT_SUPPORTED, DEVICE_MEMORY, HOST_MEMORY, ADDRESS_SPACE, LIMIT, DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_verify(tarn_checkpoint *checkpoint,
                                                            tarn_stream stream);

/* Ends a checkpoint; copies under way go on. Waits for the device when it had page-locked memory
 * that is not kept for the next one, see tarn_checkpoint_take. NULL is allowed.
 *   INVALID_HANDLE; BUSY: a call with it is under way, of another thread or around this callback */
TARN_API TARN_MUST_CHECK tarn_status tarn_checkpoint_destroy(tarn_checkpoint *checkpoint);

/* A block that the caller believes to be live in the pool. */
typedef struct tarn_expected {
    const void *address;
    size_t bytes; /* as requested; 0: any size */
} tarn_expected;

typedef enum tarn_difference_kind {
    TARN_DIFFERENCE_UNEXPECTED, /* live in the pool, but not expected */
    TARN_DIFFERENCE_MISSING,    /* expected, but not live */
    TARN_DIFFERENCE_SIZE,       /* live with another requested size */
    TARN_DIFFERENCE_POOL,       /* live, but in another pool */
} tarn_difference_kind;

typedef struct tarn_difference {
    tarn_difference_kind kind;
    tarn_block block;      /* as it is; of a missing one only the address and expected bytes */
    size_t expected_bytes; /* as expected; 0 where nothing was */
} tarn_difference;

typedef struct tarn_live_diff {
    size_t count;                       /* 0: the live set is exactly the expected one */
    const tarn_difference *differences; /* in order of address */
} tarn_live_diff;

/* Compares the pool's live blocks with what the caller expects. An address expected twice is
 * missing the second time. *diff: owned by the caller; end it with tarn_live_diff_destroy.
 *   INVALID_HANDLE; INVALID_ARGUMENT: diff is NULL, or expected is NULL with a count;
 *   HOST_MEMORY */
TARN_API TARN_MUST_CHECK tarn_status tarn_pool_check_live(tarn_pool *pool,
                                                          const tarn_expected *expected,
                                                          size_t expected_count,
                                                          tarn_live_diff **diff);
TARN_API void tarn_live_diff_destroy(tarn_live_diff *diff); /* NULL is allowed. */

#ifdef __cplusplus
}
#endif
#endif
