// SPDX-License-Identifier: Apache-2.0
/* store.h -- the physical memory of one device: a sparse file, cut into extents.
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_STORE_H
#define TARN_SIM_STORE_H

#include "sim/core/core.h"

/* A run of the file; free ones form the store's list, ordered by offset. */
struct tn_sim_extent {
    size_t offset; /* multiple of TN_SIM_GRANULE, as bytes */
    size_t bytes;
    struct tn_sim_extent *next; /* while free */
};

struct tn_sim_store {
    int file;           /* a memfd */
    size_t total_bytes; /* of the device */
    size_t used_bytes;  /* of these, in extents given out and in files of their own */
    size_t spare_bytes; /* used only until somebody needs them */
    int device;         /* which processes may share (shared.h); -1: no device's */
    struct tn_sim_extent *free;
};

/* Makes a store. Returns false when the system refuses. */
bool tn_sim_store_init(struct tn_sim_store *store, size_t bytes);

/* Unmakes a store that has given nothing out. */
void tn_sim_store_fini(struct tn_sim_store *store);

/* The bytes that nobody has, of the processes that share the device. */
size_t tn_sim_store_left(const struct tn_sim_store *store);

/* The bytes of the file, which extents lie in: more than the device has. */
size_t tn_sim_store_file_bytes(const struct tn_sim_store *store);

/* Takes an extent of a multiple of TN_SIM_GRANULE bytes, its contents poisoned. Returns NULL when
 * the device has not as much left, or the host has no memory. */
struct tn_sim_extent *tn_sim_store_take(struct tn_sim_store *store, size_t bytes);

/* Counts memory outside extents as used, or as given back. Returns false when the device has too
 * little left. */
bool tn_sim_store_charge(struct tn_sim_store *store, size_t bytes);
void tn_sim_store_discharge(struct tn_sim_store *store, size_t bytes);

/* Makes memory that was charged spare: still used, but given up before anything fails for lack of
 * memory. */
void tn_sim_store_spare(struct tn_sim_store *store, size_t bytes);

/* Takes up to the given amount of spare memory back, as charged. Returns the amount taken. */
size_t tn_sim_store_unspare(struct tn_sim_store *store, size_t bytes);

/* Writes the pattern of fresh memory to part of a file. Returns false when the host has no memory. */
bool tn_sim_store_poison(int file, size_t offset, size_t bytes);

/* Gives an extent back, and its memory to the system. Cannot fail. */
void tn_sim_store_give(struct tn_sim_store *store, struct tn_sim_extent *extent);

#endif
