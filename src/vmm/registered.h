// SPDX-License-Identifier: Apache-2.0
/* registered.h -- host memory that is page-locked by registration, for one device.
 *
 * The fastest way to page-locked memory, and the one that others feel: registering stops other
 * threads' calls for 26 ms a GiB. So it comes in pieces of at most 16 MiB, each registered by
 * itself. Pages are placed before, on the device's NUMA node, in huge pages where the system grants
 * them, by a team of threads.
 *
 * Addresses come first, in slots of 32 MiB of the regions (vmm/host_region.h). Memory is added to
 * slots that are taken, and removed. No copy of the driver's may span two registrations: a block lies within one.
 *
 * Locking: that of the regions inside. Slots may be taken and given with locks of lower rank than
 * REGION held; the functions here are called with no lock held. */
#ifndef TARN_VMM_REGISTERED_H
#define TARN_VMM_REGISTERED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/team.h"
#include "driver/gpu.h"
#include "vmm/host_region.h"

/* What there is, and what the system did not grant. */
struct tn_registered_usage {
    uint64_t reserved_bytes; /* addresses */
    uint64_t registered_bytes;
    uint64_t registrations;
    uint64_t looked_at; /* pages whose node was asked for: one of each 2 MiB added */
    uint64_t elsewhere; /* those that are not on the device's node */
};

struct tn_registered {
    struct tn_gpu *gpu; /* immutable */
    struct tn_host_regions regions;
    struct tn_team team;
    int node;                   /* immutable; TN_PLACEMENT_ANYWHERE: the driver names none */
    atomic_bool looked_at_size; /* and said when huge pages were not granted */
    atomic_bool said_elsewhere; /* that pages are on another node */
    atomic_uint_fast64_t looked_at;
    atomic_uint_fast64_t elsewhere;
};

/* Reserves nothing yet. thread_count: how many threads touch memory, a power of two up to
 * TN_TEAM_THREADS_MAX; 0: as many as the process has processors, up to 16.
 *   NOT_SUPPORTED: registered memory has no addresses for the device, or other ones than for the
 *   process; DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_registered_init(struct tn_registered *registered, struct tn_gpu *gpu,
                                               unsigned thread_count);

/* Ends the threads, and removes all that is left. Waits for the device's work. */
void tn_registered_fini(struct tn_registered *registered);

/* Adds memory to addresses that have none: places pages and registers them in pieces of up to 16
 * MiB. Each piece ends at a multiple of 16 MiB, or at the end. base and bytes are multiples of 2
 * MiB. The memory is zeros. Waits for no work of the device, unless it fails: then the pieces that
 * were registered are removed, which waits.
 *   HOST_MEMORY: the machine, the process's control group or the system has not that much;
 *   DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_registered_add(struct tn_registered *registered, uint64_t base,
                                              uint64_t bytes);

/* The same for the first 16 MiB of each of several slots side by side, a piece in each. */
TARN_MUST_CHECK tarn_status tn_registered_add_slots(struct tn_registered *registered, uint64_t base,
                                                    uint64_t slot_count);

/* The same as one registration: other threads' calls wait for all of it, 26 ms a GiB. A copy may
 * span all of it. */
TARN_MUST_CHECK tarn_status tn_registered_add_whole(struct tn_registered *registered, uint64_t base,
                                                    uint64_t bytes);

/* Removes registrations, which lie wholly in the range, and gives their pages to the system. Waits
 * for the device's work, and others' calls wait meanwhile. The caller knows that no other context
 * uses the memory. What the driver refuses to remove stays, and poisons the device. */
void tn_registered_remove(struct tn_registered *registered, uint64_t base, uint64_t bytes);

struct tn_registered_usage tn_registered_usage(struct tn_registered *registered);

/* Counts the bytes in huge pages, or asks for the node of each page of 4 KiB: slow, for rare looks.
 * False: the system does not say. */
uint64_t tn_registered_huge_bytes(struct tn_registered *registered);
bool tn_registered_find(struct tn_registered *registered, uint64_t *counted, uint64_t *elsewhere);

#endif
