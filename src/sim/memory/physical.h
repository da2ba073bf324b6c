// SPDX-License-Identifier: Apache-2.0
/* physical.h -- physical memory: what cuMemCreate makes and cuMemImportFromShareableHandle finds.
 *
 * A handle names a physical object. Objects that were imported in the process that exported them
 * share their backing with the original: the bytes, and the charge for them.
 *
 * Invariants
 *   SM1  a physical object lives while the program has references to it or it is mapped
 *   SM2  a backing is charged once, to the store that its memory is of, while an object refers to it
 *       or somebody else has its file
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_PHYSICAL_H
#define TARN_SIM_PHYSICAL_H

#include <sys/types.h>

#include "sim/core/context.h"

/* Where the bytes are: an extent of a store's file, or a file of their own, which can be shared. */
struct tn_sim_backing {
    unsigned int references; /* 0 when it is given up and somebody else has the file */
    size_t bytes;
    struct tn_sim_store *store;   /* that is charged; NULL when another process' device is */
    struct tn_sim_extent *extent; /* of that store; NULL with a file of their own */
    int file;                     /* their own, or -1 */
    dev_t volume;                 /* with the next one, the identity of their own file */
    ino_t number;
    struct tn_sim_backing *next; /* in the list of those with files of their own */
};

struct tn_sim_physical {
    struct tn_sim_object object;
    struct tn_sim_backing *backing;
    tn_cu_allocation_prop prop; /* as the program can read it back */
    uint64_t references;        /* that the program has */
    uint64_t mappings;
    uint64_t block_id; /* names the physical memory in pointer queries */
};

/* Asks whether memory is the host's, and not a device's. */
bool tn_sim_physical_on_host(const struct tn_sim_physical *physical);

/* The object of a handle that may be used; NULL when there is none. A handle that was given up and
 * whose memory is still mapped counts for the driver. */
struct tn_sim_physical *tn_sim_physical_find(tn_cu_memhandle handle);

/* Makes an object with one reference. Takes over the caller's reference to the backing, also when it
 * fails, which is when memory ran out: NULL. */
struct tn_sim_physical *tn_sim_physical_create(struct tn_sim_backing *backing,
                                               const tn_cu_allocation_prop *prop);

/* Lets an object go when nothing holds it any more (SM1). */
void tn_sim_physical_let_go(struct tn_sim_physical *physical);

/* New memory of a store, with one reference: not to be shared, or labelled with where it is and to
 * be shared. NULL when the store or the host has none left. */
struct tn_sim_backing *tn_sim_backing_create(struct tn_sim_store *store, size_t bytes);
struct tn_sim_backing *tn_sim_backing_create_shareable(struct tn_sim_store *store, size_t bytes,
                                                       const tn_cu_location *location);

/* Gives one reference up; the last one gives the memory back, unless somebody else has it (SM2). */
void tn_sim_backing_release(struct tn_sim_backing *backing);

/* Gives back what was given up and nobody has any more. */
void tn_sim_backings_settle(void);

/* A new descriptor of memory with a file of its own, the caller's; -1 when the system refuses. */
int tn_sim_backing_export(const struct tn_sim_backing *backing);

/* The memory of a file that was exported, with a reference: that of this process, when it knows the
 * file, or made anew. The file stays the caller's. On success *location is where the memory is.
 * UNKNOWN: no simulator exported that file. INVALID_DEVICE: there is no such device here.
 * OUT_OF_MEMORY. */
tn_cu_result tn_sim_backing_open(int file, struct tn_sim_backing **backing,
                                 tn_cu_location *location);

/* Lays memory over addresses that were obtained, from its beginning. Returns false when the system
 * refuses, in which case nothing has changed. */
bool tn_sim_backing_lay(const struct tn_sim_backing *backing, uintptr_t start, size_t bytes,
                        int protection);

#endif
