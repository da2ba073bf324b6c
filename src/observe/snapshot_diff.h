// SPDX-License-Identifier: Apache-2.0
/* snapshot_diff.h -- what grew or shrank from one snapshot to another, by stack, pool and size.
 *
 * Locking: none may be held. */
#ifndef TARN_OBSERVE_SNAPSHOT_DIFF_H
#define TARN_OBSERVE_SNAPSHOT_DIFF_H

#include "observe/naming.h"
#include "observe/snapshot_parts.h"
#include "observe/titles.h"
#include "tarn/stats.h"

struct tn_snapshot_diff {
    tarn_snapshot_diff read;    /* first: programs have this address */
    struct tn_naming naming;    /* of the second snapshot's modules */
    struct tn_titles titles[2]; /* of each snapshot */
};

/* HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_snapshot_compare(const struct tn_snapshot *before,
                                                const struct tn_snapshot *after,
                                                tarn_snapshot_diff **diff);
void tn_snapshot_diff_drop(struct tn_snapshot_diff *diff); /* NULL is allowed */

/* Returns the length of the whole. */
size_t tn_snapshot_diff_write(const struct tn_snapshot_diff *diff, tarn_report_format format,
                              char *buffer, size_t capacity);

#endif
