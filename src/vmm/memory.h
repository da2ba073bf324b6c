// SPDX-License-Identifier: Apache-2.0
/* memory.h -- physical memory of a device, wherever it is mapped.
 *
 *   V6  a memory's chunk_count is the number of chunks that map it
 *
 * A memory is a single allocation of the driver's, 2 MiB to 1 GiB, a power of two. Up to 1 GiB the
 * driver's cost is per handle, hardly per byte. A memory may be mapped nowhere, at one place, or at
 * several.
 *
 * Locking: a memory that is mapped nowhere is its holder's alone. Records are recycled, never
 * freed. */
#ifndef TARN_VMM_MEMORY_H
#define TARN_VMM_MEMORY_H

#include <stdatomic.h>
#include <stdint.h>

#include "driver/gpu.h"
#include "driver/mapping.h"

#define TN_MEMORY_BYTES_MAX ((uint64_t)1 << 30) /* beyond, a handle costs more than two */

enum tn_memory_origin {
    TN_MEMORY_MADE,     /* by this process */
    TN_MEMORY_IMPORTED, /* another process's, which may outlive the import here */
    TN_MEMORY_ADOPTED,  /* at an address of its own, which it never leaves */
};

struct tn_memory;

/* Places in the lists of vmm/memory_cache.h. */
struct tn_memory_links {
    struct tn_memory *newer; /* of all memory in the cache */
    struct tn_memory *older;
    struct tn_memory *newer_alike; /* of the same size and kind */
    struct tn_memory *older_alike;
};

struct tn_memory {
    uint64_t magic;                         /* TN_MEMORY_MAGIC; 0 in a recycled record */
    struct tn_memory *next;                 /* links recycled records */
    uint64_t bytes;                         /* a power of two; immutable */
    tn_cu_memhandle handle;                 /* immutable; ADOPTED: none */
    uint64_t address;                       /* immutable; ADOPTED: where it is */
    struct tn_memory_properties properties; /* immutable */
    enum tn_memory_origin origin;           /* immutable */
    bool was_cached;                        /* the holder took it from the cache */
    atomic_uint_fast32_t chunk_count;       /* of any pools */
    struct tn_memory_links links;           /* guarded by the CACHE lock while in the cache */
    /* By which other processes know it; 0: none does. Kept in a recycled record: a thread that has
     * found it before may look. */
    atomic_uint_fast64_t serial;
};

#define TN_MEMORY_MAGIC 0x544d656dULL

/* New memory, mapped nowhere.
 *   HOST_MEMORY, DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_memory_create(struct tn_gpu *gpu, uint64_t bytes,
                                             struct tn_memory_properties properties,
                                             struct tn_memory **memory);

/* Memory of another process, whose handle the driver has given to this process. From then on the
 * record owns the handle.
 *   HOST_MEMORY: the handle remains the caller's */
TARN_MUST_CHECK tarn_status tn_memory_import(tn_cu_memhandle handle, uint64_t bytes,
                                             struct tn_memory_properties properties,
                                             struct tn_memory **memory);

/* Memory that is at the address already, for the process and the device. HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_memory_adopt(uint64_t address, uint64_t bytes,
                                            struct tn_memory_properties properties,
                                            struct tn_memory **memory);

/* Ends the record of ADOPTED memory, whatever becomes of the memory. */
void tn_memory_forget(struct tn_memory *memory);

/* Gives the handle back to the driver. The memory must be mapped nowhere. */
void tn_memory_destroy(struct tn_gpu *gpu, struct tn_memory *memory);

/* The serial of MADE memory that another process is about to get; it never changes. The memory is
 * mapped meanwhile. */
uint64_t tn_memory_serial(struct tn_memory *memory);

/* Whether the record is still of the memory with this serial; any thread. */
static inline bool tn_memory_is_still(const struct tn_memory *memory, uint64_t serial)
{
    return atomic_load_explicit(&memory->serial, memory_order_acquire) == serial;
}

static inline bool tn_memory_is_mapped(const struct tn_memory *memory)
{
    return atomic_load_explicit(&memory->chunk_count, memory_order_relaxed) > 0;
}

/* Whether the memory may serve another growth. Another process may have exported memory mapped, and
 * only the driver knows. */
static inline bool tn_memory_is_reusable(const struct tn_memory *memory)
{
    return memory->origin == TN_MEMORY_MADE && !memory->properties.exportable;
}

#endif
