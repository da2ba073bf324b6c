// SPDX-License-Identifier: Apache-2.0
/* snapshot_pickle.h -- a snapshot as PyTorch's own.
 *
 * Locking: none may be held: the program's writer is called. */
#ifndef TARN_OBSERVE_SNAPSHOT_PICKLE_H
#define TARN_OBSERVE_SNAPSHOT_PICKLE_H

#include "observe/snapshot.h"

/* HOST_MEMORY, or what the writer answers. */
TARN_MUST_CHECK tarn_status tn_snapshot_write_pytorch(const struct tn_snapshot *snapshot,
                                                      tarn_writer writer, void *user);

#endif
