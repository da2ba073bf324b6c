// SPDX-License-Identifier: Apache-2.0
/* imports.h -- memory of other processes, mapped at separate addresses.
 *
 *   V10 the list has exactly the imports with an address, unused imports in order of their last
 *       use;
 *       mapped_bytes and unused_bytes are the sums
 *
 * An import is a run of another process's memories, neighbours in both processes. The reserved
 * addresses are exactly as many as the bytes of the run. An unused mapping stays, up to a limit of
 * bytes; beyond, the mapping with the oldest use goes. The memories stay with their owner, and a
 * later use maps the run again.
 *
 * No segment and no chunk has these addresses: memory here is never given out, moved or cached.
 *
 * Locking: every function takes the IMPORTS lock, which all devices share: mapping another
 * process's memory is rare, and drivers do not map in parallel. */
#ifndef TARN_VMM_IMPORTS_H
#define TARN_VMM_IMPORTS_H

#include "base/lock.h"
#include "vmm/memory.h"

enum { TN_IMPORT_RUN_MAX = 256 }; /* memories of an import */

#define TN_IMPORTS_BYTES_DEFAULT ((uint64_t)64 << 30)

struct tn_import {
    struct tn_import
        *newer; /* of mapped imports; guarded by the lock, as are address and use_count */
    struct tn_import *older;
    uint64_t address;            /* 0: not mapped */
    uint64_t bytes;              /* immutable */
    uint64_t use_count;          /* blocks in use */
    struct tn_memory **memories; /* immutable; of the owner */
    size_t count;                /* immutable */
};

struct tn_imports {
    struct tn_imports *next;  /* of another device; guarded by the lock */
    struct tn_gpu *gpu;       /* immutable */
    struct tn_ring *history;  /* immutable; NULL: none */
    uint64_t limit_bytes;     /* of unused mappings; guarded by lock */
    uint64_t peer_mask;       /* other devices with access: bit i is ordinal i; guarded by lock */
    struct tn_import *newest; /* of mapped imports, by their last use; guarded by the lock */
    struct tn_import *oldest;
    uint64_t unused_bytes;             /* guarded by lock */
    atomic_uint_fast64_t mapped_bytes; /* written under the lock */
    atomic_uint_fast64_t mapped_count;
};

void tn_imports_init(struct tn_imports *imports, struct tn_gpu *gpu, uint64_t limit_bytes);
void tn_imports_fini(struct tn_imports *imports); /* none is left */

void tn_import_init(struct tn_import *import, struct tn_memory **memories, size_t count);

/* Unmaps an unused import. */
void tn_import_fini(struct tn_imports *imports, struct tn_import *import);

/* Uses the import once more; the address stays until as many leaves.
 *   ADDRESS_SPACE, DEVICE_MEMORY, DEVICE_LOST, DRIVER: the import has no further use */
TARN_MUST_CHECK tarn_status tn_import_use(struct tn_imports *imports, struct tn_import *import,
                                          uint64_t *address);
void tn_import_leave(struct tn_imports *imports, struct tn_import *import);

/* What is mapped around an address. */
struct tn_import_place {
    uint64_t address; /* of the import */
    uint64_t bytes;
    uint64_t memory_address; /* of the memory around the address */
    uint64_t memory_bytes;
    int ordinal; /* of the device that has it mapped */
};

/* False: no import is mapped there. */
bool tn_import_find(uint64_t address, struct tn_import_place *place);

/* Gives a peer access to all imports, mapped now or later; all or nothing.
 *   DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_imports_add_peer(struct tn_imports *imports, int peer);

/* Whether the import is mapped just now. */
bool tn_import_is_mapped(const struct tn_import *import);

/* Whether an import of any device is mapped around the address. */
bool tn_import_is_at(uint64_t address);

/* What is mapped: how many imports, their bytes, and those of unused ones. */
void tn_imports_usage(struct tn_imports *imports, uint64_t *count, uint64_t *bytes,
                      uint64_t *unused_bytes);

/* Unmaps unused imports, down to this many bytes; returns the bytes unmapped. */
uint64_t tn_imports_shrink(struct tn_imports *imports, uint64_t keep_bytes);

#endif
