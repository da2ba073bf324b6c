// SPDX-License-Identifier: Apache-2.0
/* sites.h -- where heaps grow, and the segments.
 *
 * A heap grows in the lowest segment with room, of the heap itself or of idle memory, else in a new
 * segment. Free bytes below the site are extended: a segment grows like one piece. A capture also
 * extends idle memory, and chooses the site with most to extend, since captured memory never moves.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_SITES_H
#define TARN_POOLS_SITES_H

#include "pools/pool.h"

struct tn_site {
    struct tn_block *unmapped; /* whose first bytes are mapped */
    uint64_t have;             /* FREE bytes below, which the growth extends */
    uint64_t room;             /* bytes that may be mapped */
};

/* Finds or makes a site for a FREE block of bytes. A capture may find enough to extend. Leaves
 * records in the pool's store: six, and those for tn_site_extend.
 *   ADDRESS_SPACE, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_site_provide(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes,
                                            struct tn_site *site);

/* After a growth from the offset on: takes over what the heap extends and is not its own yet. */
void tn_site_extend(tarn_pool *pool, struct tn_heap *heap, const struct tn_segment *segment,
                    uint64_t offset);

/* The records which tn_site_extend takes at most. */
enum { TN_RECORDS_TO_EXTEND = 8 };

/* Removes the segment if no memory is there and no address is needed; returns whether. */
bool tn_segment_remove_bare(tarn_pool *pool, struct tn_segment *segment);

/* Removes all segments of a pool without chunks, whatever blocks they have. */
void tn_segments_remove_all(tarn_pool *pool);

#endif
