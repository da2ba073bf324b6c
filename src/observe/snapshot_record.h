// SPDX-License-Identifier: Apache-2.0
/* snapshot_record.h -- the events of a snapshot as a trace that the benchmark replays: docs/traces.md.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_SNAPSHOT_RECORD_H
#define TARN_OBSERVE_SNAPSHOT_RECORD_H

#include "observe/snapshot_parts.h"

enum { TN_RECORD_NAME_MAX = 31, TN_RECORD_STREAMS_MAX = 64 };

/* name: 1 to 31 printable ASCII characters.
 *   HOST_MEMORY
 *   LIMIT  more than 64 streams
 * Another status of the writer. */
TARN_MUST_CHECK tarn_status tn_snapshot_write_trace(const struct tn_snapshot *snapshot,
                                                    const char *name, tarn_writer writer,
                                                    void *user);

#endif
