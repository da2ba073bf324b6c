// SPDX-License-Identifier: Apache-2.0
/* physical.h -- physical memory: made by cuMemCreate, found by cuMemImportFromShareableHandle.
 *
 * A handle names a physical object. An object imported by its own exporter shares its backing with
 * the original: the bytes, and their charge.
 *
 * Invariants
 *   SM1  a physical object lives while mapped, or while the program has references to it
 *   SM2  a backing is charged once, to its memory's store, while an object refers to it
 *       or somebody else has its file
 *
 * Locking: the lock of core.h. */
#ifndef TARN_SIM_PHYSICAL_H
#define TARN_SIM_PHYSICAL_H

#include <sys/types.h>

#include "sim/core/context.h"

/* Where the bytes are: an extent of a store's file, or a file of their own, which can be shared. */
struct tn_sim_backing {
    unsigned int references; /* 0: given up, and somebody else has the file */
    size_t bytes;
    struct tn_sim_store *store;   /* the charged store; NULL for another process' device */
    struct tn_sim_extent *extent; /* of this store; NULL with a file of its own */
    int file;                     /* their own, or -1 */
    dev_t volume;                 /* with the next field, the identity of its own file */
    ino_t number;
    struct tn_sim_backing *next; /* in the list of backings with files of their own */
};

struct tn_sim_physical {
    struct tn_sim_object object;
    struct tn_sim_backing *backing;
    tn_cu_allocation_prop prop; /* as the program can read the properties back */
    uint64_t references;        /* of the program */
    uint64_t mappings;
    uint64_t block_id; /* names the physical memory in pointer queries */
};

/* Asks whether memory is the host's, and not a device's. */
bool tn_sim_physical_on_host(const struct tn_sim_physical *physical);

/* The object of a usable handle, or NULL. For the driver, a handle that was given up counts while
 * its memory is mapped. */
struct tn_sim_physical *tn_sim_physical_find(tn_cu_memhandle handle);

/* Makes an object with one reference. Takes over the caller's reference to the backing, also on
 * failure. NULL when memory ran out. */
struct tn_sim_physical *tn_sim_physical_create(struct tn_sim_backing *backing,
                                               const tn_cu_allocation_prop *prop);

/* Lets an object without references and mappings go (SM1). */
void tn_sim_physical_let_go(struct tn_sim_physical *physical);

/* New memory of a store, with one reference: unshareable, or shareable and labelled with its
 * location. NULL when the store or the host has none left. */
struct tn_sim_backing *tn_sim_backing_create(struct tn_sim_store *store, size_t bytes);
struct tn_sim_backing *tn_sim_backing_create_shareable(struct tn_sim_store *store, size_t bytes,
                                                       const tn_cu_location *location);

/* Gives up a reference; the last gives the memory back, unless somebody else has its file (SM2). */
void tn_sim_backing_release(struct tn_sim_backing *backing);

/* Gives back memory that this process has given up and nobody has any more. */
void tn_sim_backings_collect(void);

/* A new descriptor of memory with a file of its own, the caller's; -1 when the system refuses. */
int tn_sim_backing_export(const struct tn_sim_backing *backing);

/* The memory of an exported file, with a reference: this process's own backing, when it knows the
 * file, or a new backing. The file stays the caller's. On success *location is the memory's
 * location. UNKNOWN: no simulator exported this file. INVALID_DEVICE: the file's device does not
 * exist here. OUT_OF_MEMORY. */
tn_cu_result tn_sim_backing_open(int file, struct tn_sim_backing **backing,
                                 tn_cu_location *location);

/* Lays memory, from its beginning, over obtained addresses. Returns false when the system refuses,
 * in which case nothing has changed. */
bool tn_sim_backing_lay(const struct tn_sim_backing *backing, uintptr_t start, size_t bytes,
                        int protection);

#endif
