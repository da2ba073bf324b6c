// SPDX-License-Identifier: Apache-2.0
/* mapping.h -- addresses, physical memory, mappings and access.
 *
 * Locking: none; any thread. */
#ifndef TARN_DRIVER_MAPPING_H
#define TARN_DRIVER_MAPPING_H

#include "driver/gpu.h"

/* Properties of memory at its creation. Access is given by each mapping, and is no property of the
 * memory. */
struct tn_memory_properties {
    bool exportable; /* by POSIX file descriptor */
    bool rdma;       /* for GPUDirect RDMA */
    bool shared;     /* with other processes: it stays where it is, and in its pool; exportable */
    bool host;       /* page-locked memory of the host, on the device's NUMA node */
    bool registered; /* of the host: the process's own pages, which the driver has page-locked */
};

enum { TN_GPU_PEERS_MAX = 64 };

/* Reserves bytes of addresses, aligned; at the hint if the driver grants the hint (0: anywhere). */
TARN_MUST_CHECK tarn_status tn_gpu_reserve_addresses(struct tn_gpu *gpu, uint64_t bytes,
                                                     uint64_t alignment, uint64_t hint,
                                                     uint64_t *address);
void tn_gpu_free_addresses(struct tn_gpu *gpu, uint64_t address, uint64_t bytes);

/* The unit of chunk sizes and addresses. */
TARN_MUST_CHECK tarn_status tn_gpu_granularity(struct tn_gpu *gpu, uint64_t *bytes);

/* Physical memory, mapped nowhere. DEVICE_MEMORY also where the host has no memory left.
 *   DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_gpu_create_memory(struct tn_gpu *gpu, uint64_t bytes,
                                                 struct tn_memory_properties properties,
                                                 tn_cu_memhandle *handle);
void tn_gpu_release_memory(struct tn_gpu *gpu, tn_cu_memhandle handle);

/* A new file descriptor of exportable memory, closed by exec; the caller closes it.
 *   DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_gpu_export_memory(struct tn_gpu *gpu, tn_cu_memhandle handle,
                                                 int *descriptor);

/* The memory of a file descriptor, which stays the caller's. DRIVER: it is none of memory;
 * DEVICE_LOST; NOT_SUPPORTED: memory is linear (driver/sanitizer.h) */
TARN_MUST_CHECK tarn_status tn_gpu_import_memory(struct tn_gpu *gpu, int descriptor,
                                                 tn_cu_memhandle *handle);

/* Maps the whole handle at the address and makes the mapping readable and writable for the device
 * and its peers, all in one call; host: for the process, too.
 *   DEVICE_MEMORY, DEVICE_LOST, DRIVER: the handle is mapped nowhere */
TARN_MUST_CHECK tarn_status tn_gpu_map(struct tn_gpu *gpu, uint64_t address, uint64_t bytes,
                                       tn_cu_memhandle handle, uint64_t peer_mask, bool host);
void tn_gpu_unmap(struct tn_gpu *gpu, uint64_t address, uint64_t bytes);

/* Gives another device access to one handle's mapping, or takes the access back.
 *   DEVICE_MEMORY, DEVICE_LOST, DRIVER: nothing has changed */
TARN_MUST_CHECK tarn_status tn_gpu_add_access(struct tn_gpu *gpu, uint64_t address, uint64_t bytes,
                                              int peer);
void tn_gpu_remove_access(struct tn_gpu *gpu, uint64_t address, uint64_t bytes, int peer);

/* Whether the device can make memory with these properties. NOT_SUPPORTED, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_gpu_check_properties(struct tn_gpu *gpu,
                                                    struct tn_memory_properties properties);

/* The mask of a peer; 0 for the device itself, which needs no permission.
 *   INVALID_ARGUMENT: no such device; NOT_SUPPORTED: the peer cannot reach this device's memory;
 *   DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_gpu_peer_mask(struct tn_gpu *gpu, int peer, uint64_t *mask);

/* The mask of all other devices which map memory: each of them can use memory of the host.
 *   DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_gpu_others_mask(struct tn_gpu *gpu, uint64_t *mask);

/* Free and total bytes by the driver's answer; both 0 when the driver does not answer. */
void tn_gpu_memory_info(struct tn_gpu *gpu, size_t *free_bytes, size_t *total_bytes);

#endif
