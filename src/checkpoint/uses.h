// SPDX-License-Identifier: Apache-2.0
/* uses.h -- the streams that a checkpoint's blocks were recorded for.
 *
 *   C6  the streams of block i are use_count of them, behind those of the blocks before it; each is
 *       referred to, and thereby known as long as the checkpoint lives
 *
 * A restore records a revived block for these streams again, but for streams retired since. A
 * stream's user has promised that the stream lives until it is retired, or until no block or
 * checkpoint has it.
 *
 * Locking: the lock of the checkpoint's pool. */
#ifndef TARN_CHECKPOINT_USES_H
#define TARN_CHECKPOINT_USES_H

#include "checkpoint/record.h"

/* Saves the uses of the live block that comes next in the checkpoint. False: no memory, and nothing
 * is saved. */
bool tn_saved_uses_add(tarn_checkpoint *checkpoint, const struct tn_block *block);
void tn_saved_uses_forget(tarn_checkpoint *checkpoint);

/* Sets the uses of the blocks with these rising indexes aside: a list for each block, or NULL if
 * none of them has uses. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_saved_uses_make(const tarn_checkpoint *checkpoint,
                                               const size_t *indexes, size_t count,
                                               struct tn_use ***uses);

/* Ends the unused lists of this many blocks. */
void tn_saved_uses_drop(const tarn_checkpoint *checkpoint, size_t count, struct tn_use **uses);

#endif
