// SPDX-License-Identifier: Apache-2.0
/* standing.h -- what the addresses that a graph names are to Tarn, at one moment.
 *
 *   G5  an address of Tarn's stands as the block does that contains it when its pool is locked; each pool is locked
 *       twice at most, however many addresses it has
 *
 * Pools are locked one after the other, so what is moved or freed meanwhile may stand as before or as after.
 *
 * Locking: none may be held. Nothing waits for the GPU or disturbs a capture. */
#ifndef TARN_GRAPHS_STANDING_H
#define TARN_GRAPHS_STANDING_H

#include "graphs/references.h"
#include "tarn/types.h"

enum tn_standing {
    TN_STANDING_NONE,     /* not found yet */
    TN_STANDING_LIVE,     /* in a live block of a pool's */
    TN_STANDING_FREED,    /* in a pool's memory, and in no live block */
    TN_STANDING_UNMAPPED, /* Tarn's, without memory */
    TN_STANDING_DEVICE,   /* in memory of a device that is not Tarn's */
    TN_STANDING_PINNED,   /* in page-locked memory */
    TN_STANDING_UNKNOWN, /* none of these: pageable, freed to the driver, given by a node, or no address */
};

struct tn_finding {
    uint8_t standing; /* enum tn_standing */
    bool held; /* FREED: the graph itself keeps the memory from all but captures of its pool */
    /* LIVE, FREED: whose; UNMAPPED: whose segment, NULL: no pool's. Compared; used by who keeps the pool. */
    tarn_pool *pool;
    tarn_block block; /* LIVE: that contains the address; else zeroed */
};

/* One for each reference. regions: those of the graph's device. graph: whose holds count; NULL: none.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: findings are not complete */
TARN_MUST_CHECK tarn_status tn_standings_find(const struct tn_references *references,
                                              struct tn_regions *regions, tn_cu_graph graph,
                                              struct tn_finding *findings);

#endif
