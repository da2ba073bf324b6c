// SPDX-License-Identifier: Apache-2.0
/* told.h -- the history of the world's device, as it is read. */
#ifndef TARN_TESTS_TOLD_H
#define TARN_TESTS_TOLD_H

#include "base/ring_file.h"
#include "observe/retell.h"
#include "unit/unit.h"

static inline struct tn_told_source unit_told_source(void)
{
    struct tn_history *history = &world.device->history;

    return (struct tn_told_source){.read = tn_ring_from_own_file,
                                   .context = &history->file,
                                   .page_count = history->ring.page_count,
                                   .area_bytes =
                                       tn_ring_area_offset(history->file.head, TN_RING_AREAS),
                                   .part_count = history->file.part_count};
}

/* cut NULL: of now. */
static inline struct tn_told unit_retell(const struct tn_told_cuts *cut)
{
    const struct tn_told_source source = unit_told_source();
    struct tn_told told;

    OK(tn_retell(&source, cut, &told));
    return told;
}

#endif
