// SPDX-License-Identifier: Apache-2.0
/* uses.h -- the streams that a checkpoint's blocks were recorded for.
 *
 *   C6  the streams of block i are use_count of them, behind those of the blocks before it; each is
 *       referred to, so that it is known as long as the checkpoint is
 *
 * A block that a restore revives is recorded for those streams again, but for those retired since: a
 * stream's user has promised that it lives until it is retired, or no block or checkpoint has it.
 *
 * Locking: the lock of the checkpoint's pool. */
#ifndef TARN_CHECKPOINT_USES_H
#define TARN_CHECKPOINT_USES_H

#include "checkpoint/record.h"

/* Saves the uses of the live block that is to be the checkpoint's next. False: no memory, nothing is
 * saved. */
bool tn_saved_uses_add(tarn_checkpoint *checkpoint, const struct tn_block *block);
void tn_saved_uses_forget(tarn_checkpoint *checkpoint);

/* Sets the uses of those blocks aside, whose indexes rise: a list for each of them, NULL where there is none
 * at all. HOST_MEMORY, DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_saved_uses_make(const tarn_checkpoint *checkpoint,
                                               const size_t *indexes, size_t count,
                                               struct tn_use ***uses);

/* Ends what was set aside for so many blocks, and is not used. */
void tn_saved_uses_drop(const tarn_checkpoint *checkpoint, size_t count, struct tn_use **uses);

#endif
