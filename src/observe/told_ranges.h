// SPDX-License-Identifier: Apache-2.0
/* told_ranges.h -- which ranges a history tells of (pools/ranges.h). Its words are read with
 * suspicion: they may be of another process.
 *
 * Locking: none; writers do not wait for a reader. */
#ifndef TARN_OBSERVE_TOLD_RANGES_H
#define TARN_OBSERVE_TOLD_RANGES_H

#include "base/ring.h"
#include "tarn/status.h"

struct tn_told_range {
    bool ends;
    uint64_t range;  /* the same of a begin and its end */
    uint64_t title;  /* the id of its name; 0: none */
    uint64_t thread; /* its number */
    uint64_t time;   /* in nanoseconds of the monotonic clock */
    uint64_t place;  /* of the event's page */
    size_t at;       /* in the page */
};

struct tn_told_ranges {
    struct tn_told_range *all; /* in their order */
    size_t count;
    uint64_t lost_pages; /* overwritten, or being so */
};

/* Reads the pages of the ranges' area. End it by tn_told_ranges_free.
 *   HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_retell_ranges(tn_ring_source read, void *context, size_t page_count,
                                             struct tn_told_ranges *told);
void tn_told_ranges_free(struct tn_told_ranges *told);

#endif
