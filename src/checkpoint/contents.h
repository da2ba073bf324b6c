// SPDX-License-Identifier: Apache-2.0
/* contents.h -- the bytes of a checkpoint's blocks, in device memory of the default pool or in
 * page-locked host memory, and a digest of each block.
 *
 *   C4  digests[i] is the digest (abi/kernels.h) of the bytes of block i as they were copied out
 *
 * Locking: none may be held except where said; the blocks must not be freed meanwhile. */
#ifndef TARN_CHECKPOINT_CONTENTS_H
#define TARN_CHECKPOINT_CONTENTS_H

#include "checkpoint/record.h"

/* Takes memory for the contents of `count` blocks, `bytes` bytes of them together, which are copied
 * on this stream.
 *   DEVICE_MEMORY, HOST_MEMORY, ADDRESS_SPACE, LIMIT, NOT_SUPPORTED, DEVICE_LOST, DRIVER: nothing
 *   is kept */
TARN_MUST_CHECK tarn_status tn_contents_take_room(tarn_checkpoint *checkpoint, uint64_t count,
                                                  uint64_t bytes, tarn_stream stream,
                                                  struct tn_order order);

/* Whether the memory is enough for the contents of the blocks that the checkpoint has. */
bool tn_contents_fit(const tarn_checkpoint *checkpoint);

/* Enqueues the copies of the blocks, at least one, out of the pool. The pool's lock has been held
 * since the blocks were found to be live.
 *   DEVICE_LOST, DRIVER: some work may be under way */
TARN_MUST_CHECK tarn_status tn_contents_save(tarn_checkpoint *checkpoint, tarn_stream stream);

/* Gives the memory back, if there is any. idle: nothing was enqueued. */
void tn_contents_drop_room(tarn_checkpoint *checkpoint, bool idle);

/* Makes ready for a load on the stream: all that may fail or wait. */
TARN_MUST_CHECK tarn_status tn_contents_prepare(tarn_checkpoint *checkpoint, tarn_stream stream);

/* Enqueues the copies back on the stream, behind the copies out and earlier copies back, and
 * records the use, which was made for this stream. All copies are enqueued or, on failure, none.
 * The lock of the checkpoint's pool is held.
 *   DEVICE_LOST, DRIVER: no byte will be copied */
TARN_MUST_CHECK tarn_status tn_contents_load(tarn_checkpoint *checkpoint, tarn_stream stream,
                                             struct tn_order order, struct tn_use *use);

/* Keeps the memory of the contents until the use of a load has ended; takes the use over. */
void tn_contents_add_use(tarn_checkpoint *checkpoint, struct tn_use *use);

/* Sums the contents up again and compares: see tarn_checkpoint_verify. */
TARN_MUST_CHECK tarn_status tn_contents_verify(tarn_checkpoint *checkpoint, tarn_stream stream,
                                               struct tn_order order);

/* Waits for the last copies, where the process itself uses the pool's memory: what it frees may be
 * written at once. No lock may be held. */
void tn_contents_await(const tarn_checkpoint *checkpoint);

void tn_contents_drop(tarn_checkpoint *checkpoint);

#endif
