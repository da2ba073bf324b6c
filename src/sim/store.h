// SPDX-License-Identifier: Apache-2.0
/* store.h -- the physical memory of one device: a sparse file, cut into extents.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_STORE_H
#define TARN_SIM_STORE_H

#include "sim/core.h"

/* A run of the file; free ones form the store's list, ordered by offset. */
struct tn_sim_extent {
    size_t offset; /* multiple of TN_SIM_GRANULE, as bytes */
    size_t bytes;
    struct tn_sim_extent *next; /* while free */
};

struct tn_sim_store {
    int file;           /* a memfd */
    size_t total_bytes; /* what the device has */
    size_t used_bytes;  /* of it, in extents given out */
    struct tn_sim_extent *free;
};

/* Makes a store. Returns false when the system refuses. */
bool tn_sim_store_init(struct tn_sim_store *store, size_t bytes);

/* Unmakes a store that has given nothing out. */
void tn_sim_store_fini(struct tn_sim_store *store);

/* Takes an extent of a multiple of TN_SIM_GRANULE bytes, its contents poisoned. Returns NULL when
 * the device has not as much left, or the host has no memory. */
struct tn_sim_extent *tn_sim_store_take(struct tn_sim_store *store, size_t bytes);

/* Gives an extent back, and its memory to the system. Cannot fail. */
void tn_sim_store_give(struct tn_sim_store *store, struct tn_sim_extent *extent);

#endif
