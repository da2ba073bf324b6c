// SPDX-License-Identifier: Apache-2.0
/* region.h -- reserved addresses, handed out in slots.
 *
 *   V2  a slot is taken by exactly one segment, or free
 *   V3  slot_count - free_count is the number of set bits in taken
 *
 * A device reserves regions of 4 TiB (or as much as options and driver allow), and cuts them into
 * slots of 32 MiB. Regions lie at fixed addresses: another process can put a pool back at the same
 * place.
 *
 * Locking: every function takes the REGION lock of its struct tn_regions. */
#ifndef TARN_VMM_REGION_H
#define TARN_VMM_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "driver/gpu.h"

struct tn_region {
    struct tn_region *next; /* guarded by the REGION lock */
    uint64_t base;          /* immutable, a multiple of the slot */
    uint64_t bytes;         /* immutable, a power of two */
    uint64_t slot_count;    /* immutable */
    uint64_t free_count;    /* guarded by the REGION lock */
    /* from base to the end of the highest slot that was ever taken; guarded by the REGION lock */
    uint64_t used_bytes;
    uint64_t
        turn; /* behind the last taken run, where takes take turns; guarded by the REGION lock */
    uint64_t *taken; /* a bit a slot; guarded by the REGION lock */
    /* a bit a page that ever had memory; part of taken; guarded by the REGION lock */
    uint64_t *mapped;
};

struct tn_host_regions; /* vmm/host_region.h */

struct tn_regions {
    struct tn_gpu *gpu;      /* immutable */
    struct tn_lock lock;     /* rank REGION */
    struct tn_region *first; /* guarded by lock; in order of reservation */
    uint64_t region_bytes;   /* asked for at a time; immutable */
    bool
        takes_turns; /* a run that was given back is taken as late as possible; set before any take */
    atomic_uint_fast64_t reserved_bytes; /* in all regions */
    /* Of registered memory of the same device; NULL: none. */
    struct tn_host_regions *_Atomic of_host;
};

/* Reserves the first region.
 *   ADDRESS_SPACE: not even 1 GiB was granted; HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_regions_init(struct tn_regions *regions, struct tn_gpu *gpu,
                                            uint64_t region_bytes);
void tn_regions_fini(struct tn_regions *regions); /* every slot is free */

/* Takes the lowest run of free slots, of a new region when none has one. Where takes take turns, the
 * lowest one above the last, if there is any.
 *   ADDRESS_SPACE, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_regions_take(struct tn_regions *regions, uint64_t slot_count,
                                            uint64_t *base);
void tn_regions_give(struct tn_regions *regions, uint64_t base, uint64_t slot_count);

/* Notes that pages were mapped. */
void tn_regions_note_mapped(struct tn_regions *regions, uint64_t base, uint64_t bytes);

/* Whether memory is at the address, or ever was while its region was there. False, too, where no
 * region is. */
bool tn_regions_was_mapped(struct tn_regions *regions, uint64_t address);

/* Gives regions whose slots are all free back to the driver, but for the first one: its place is
 * what makes layouts the same in the next process. */
void tn_regions_shrink(struct tn_regions *regions);

struct tn_range {
    uint64_t base;
    uint64_t bytes;
};

/* Gives the addresses that were ever taken in up to that many regions, in order of reservation;
 * returns how many regions there are. */
size_t tn_regions_list(struct tn_regions *regions, struct tn_range *ranges, size_t most);

/* Whether the address is in one. */
bool tn_regions_contain(struct tn_regions *regions, uint64_t address);

#endif
