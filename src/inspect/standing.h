// SPDX-License-Identifier: Apache-2.0
/* standing.h -- what the addresses that a graph names are to Tarn, at one moment.
 *
 *   G5  an address of Tarn's stands as the block does that contains it when its pool is locked;
 *       each pool is locked twice at most in one search, however many addresses it has
 *
 * Pools are locked one after the other: blocks that move or are freed meanwhile may stand as before
 * or as after.
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
    TN_STANDING_IMPORTED, /* in a block of another process, which is open here */
    TN_STANDING_LET_GO,   /* in mapped memory of another process, and in no such block */
    TN_STANDING_DEVICE,   /* in memory of a device that Tarn does not own */
    TN_STANDING_PINNED,   /* in page-locked memory */
    /* None of these: pageable, freed to the driver, given by a node, or no address. */
    TN_STANDING_UNKNOWN,
};

/* A pool in which addresses were found, as it was then. */
struct tn_found_pool {
    struct tn_found_pool *next;
    const tarn_pool *pool; /* compared */
    char name[32];
    /* The graph's own pool: the graph was captured there, or the caller says so. */
    bool is_own;
    bool is_default;
    /* Replays of its graphs are in one order with replays of the own pool's, or there is no own
     * pool. */
    bool shares_replays;
};

struct tn_finding {
    uint8_t standing; /* enum tn_standing */
    /* LIVE, FREED: held by the graph itself, against all but captures of its pool. */
    bool held;
    bool kept;      /* FREED, LET_GO: kept by `keeper` */
    bool captured;  /* LIVE: allocated in a capture */
    int16_t device; /* DEVICE, PINNED: ordinal of the memory's device; else -1 */

    /* LIVE, FREED: the pool of the memory. UNMAPPED: the pool of the segment, if any. Else NULL. */
    const struct tn_found_pool *pool;

    /* LIVE, and FREED when kept: the block that contains the address. FREED, UNMAPPED: its pool
     * alone, to be compared. IMPORTED, and LET_GO when kept: address, length and sequence number.
     * DEVICE, PINNED: where the driver's memory begins, and its length. */
    tarn_block block;
};

/* Zeroed memory is an empty record. */
struct tn_standings {
    struct tn_finding *findings; /* one for each reference of the last search */
    struct tn_inner *inner;      /* scratch of a search; as many */
    size_t capacity;             /* of both */
    struct tn_found_pool *pools; /* of all searches */
    struct tn_found_pool *spare; /* NULL: none */
    /* Set by the caller: the watch of the graph's guard; NULL: none. */
    const struct tn_watch *keeper;
};

/* Finds the references that were read last, in place of the findings before. regions: those of the
 * graph's device. graph: whose holds count. own: kept by the caller; NULL: no pool but those in
 * which the graph has a hold.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: the record can only be dropped */
TARN_MUST_CHECK tarn_status tn_standings_find(struct tn_standings *standings,
                                              const struct tn_references *references,
                                              struct tn_regions *regions, tn_cu_graph graph,
                                              const tarn_pool *own);
void tn_standings_drop(struct tn_standings *standings);
void tn_found_pools_drop(struct tn_found_pool *pools);

#endif
