// SPDX-License-Identifier: Apache-2.0
/* standing.h -- what the addresses that a graph names are to Tarn, at one moment.
 *
 *   G5  an address of Tarn's stands as the block does that contains it when its pool is locked; each pool is locked
 *       twice at most in one search, however many addresses it has
 *
 * Pools are locked one after the other, so what is moved or freed meanwhile may stand as before or as after.
 *
 * Locking: none may be held. Nothing waits for the GPU or disturbs a capture. */
#ifndef TARN_INSPECT_STANDING_H
#define TARN_INSPECT_STANDING_H

#include "inspect/references.h"
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

/* A pool that addresses were found in, as it was then. */
struct tn_found_pool {
    struct tn_found_pool *next;
    const tarn_pool *pool; /* compared */
    char name[32];
    bool is_own; /* the graph's: it was captured there, or the caller says so */
    bool is_default;
    /* replays of its graphs are in one order with those of the own pool's, or it has none */
    bool in_order;
};

struct tn_finding {
    uint8_t standing; /* enum tn_standing */
    bool held;        /* LIVE, FREED: by the graph itself, from all but captures of its pool */
    bool kept;        /* FREED: by keeper */
    bool captured;    /* LIVE: allocated in a capture */
    int16_t device;   /* DEVICE, PINNED: ordinal of the memory's device; else -1 */

    /* LIVE, FREED: whose it is. UNMAPPED: whose segment, if any. Else NULL. */
    const struct tn_found_pool *pool;

    /* LIVE, and what is kept: that contains the address. FREED, UNMAPPED: its pool alone, to be compared. DEVICE, PINNED:
     * where the driver's memory begins, and how long it is. */
    tarn_block block;
};

/* Zeroed memory is an empty one. */
struct tn_standings {
    struct tn_finding *findings;   /* one for each reference that was searched for last */
    struct tn_inner *inner;        /* of a search; as many */
    size_t capacity;               /* of both */
    struct tn_found_pool *pools;   /* of all searches */
    struct tn_found_pool *spare;   /* NULL: none */
    const struct tn_watch *keeper; /* set by the caller: of the graph's guard; NULL: none */
};

/* Finds those of the references that were read last, in place of those before. regions: those of the graph's device.
 * graph: whose holds count. own: NULL: none but those in which it has a hold; else the caller keeps it.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: it is good to be dropped */
TARN_MUST_CHECK tarn_status tn_standings_find(struct tn_standings *standings,
                                              const struct tn_references *references,
                                              struct tn_regions *regions, tn_cu_graph graph,
                                              const tarn_pool *own);
void tn_standings_drop(struct tn_standings *standings);
void tn_found_pools_drop(struct tn_found_pool *pools);

#endif
