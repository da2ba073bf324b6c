// SPDX-License-Identifier: Apache-2.0
/* contents.h -- the bytes of a checkpoint's blocks, in device memory of the default pool.
 *
 * Locking: none may be held except where said; the blocks must not be freed meanwhile. */
#ifndef TARN_CHECKPOINT_CONTENTS_H
#define TARN_CHECKPOINT_CONTENTS_H

#include "checkpoint/state.h"

/* Takes memory and enqueues the copies out of the pool on the stream.
 *   DEVICE_MEMORY, HOST_MEMORY, ADDRESS_SPACE, LIMIT, DEVICE_LOST, DRIVER: nothing is kept */
TARN_MUST_CHECK tarn_status tn_contents_save(tarn_checkpoint *checkpoint, tarn_stream stream,
                                             struct tn_order order);

/* Enqueues the copies back on the stream, behind those out, and records the use, which was made for
 * this stream. The lock of the checkpoint's pool may be held.
 *   DEVICE_LOST, DRIVER: some bytes may have been copied */
TARN_MUST_CHECK tarn_status tn_contents_load(tarn_checkpoint *checkpoint, tarn_stream stream,
                                             struct tn_order order, struct tn_use *use);

/* Keeps the memory of the contents until the recorded use has ended; takes the use over. */
void tn_contents_add_use(tarn_checkpoint *checkpoint, struct tn_use *use);

void tn_contents_drop(tarn_checkpoint *checkpoint);

#endif
