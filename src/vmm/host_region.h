// SPDX-License-Identifier: Apache-2.0
/* host_region.h -- addresses that the system reserved, for memory that the driver registers.
 *
 * A range that the driver reserved cannot be registered, so registered memory has regions of its
 * own, cut into slots of 32 MiB. Here are the books of registered pages; the driver is not called,
 * and no page is touched.
 *
 *   V9   a page is in a registration, or in none; registrations lie in slots that are taken
 *   V10  registrations counts them, and registered_bytes is the sum of their bytes
 *   V11  but for one that was made whole, no registration crosses a multiple of 16 MiB
 *
 * Locking: every function takes the lock of its struct, rank REGION. */
#ifndef TARN_VMM_HOST_REGION_H
#define TARN_VMM_HOST_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "tarn/status.h"
#include "vmm/address_table.h"
#include "vmm/region.h"

/* The largest registration that is not made whole: others wait for 0.4 ms. */
#define TN_HOST_PIECE_BYTES ((uint64_t)16 << 20)

/* The states of 2 MiB of a region. */
enum tn_host_page {
    TN_HOST_PAGE_NONE,           /* no memory */
    TN_HOST_PAGE_BUSY,           /* on its way */
    TN_HOST_PAGE_FIRST,          /* of a registration */
    TN_HOST_PAGE_FIRST_OF_WHOLE, /* of a registration that may cross multiples of 16 MiB */
    TN_HOST_PAGE_LATER,          /* further pages of a registration */
};

struct tn_host_region {
    struct tn_host_region *next; /* immutable */
    void *mapped;                /* what the system gave, and its bytes; immutable */
    uint64_t mapped_bytes;
    uint64_t base;       /* immutable, a multiple of the slot */
    uint64_t slot_count; /* immutable */
    bool *taken;         /* for each slot; guarded by the lock */
    uint8_t *pages;      /* of enum tn_host_page, for each 2 MiB; guarded by the lock */
};

struct tn_host_regions {
    struct tn_lock lock;
    int node;                     /* that memory is bound to; immutable */
    struct tn_host_region *first; /* newest first; guarded by lock, as all below */
    uint64_t reserved_bytes;      /* addresses */
    uint64_t registered_bytes;
    uint64_t registrations;
};

void tn_host_regions_init(struct tn_host_regions *regions, int node); /* reserves nothing yet */
/* Nothing is registered, but for pages that the driver kept. These stay mapped, since the device may
 * write to them. */
void tn_host_regions_fini(struct tn_host_regions *regions);

/* Takes the lowest neighbouring slots that are free, of a new region when none has them.
 *   ADDRESS_SPACE: the system reserves no more; HOST_MEMORY */
TARN_MUST_CHECK tarn_status tn_host_regions_take(struct tn_host_regions *regions,
                                                 uint64_t slot_count, uint64_t *base);
/* Gives slots without memory back. */
void tn_host_regions_give(struct tn_host_regions *regions, uint64_t base, uint64_t slot_count);

/* Writes the state of pages that were BUSY, or makes pages BUSY that had no memory. FIRST or
 * FIRST_OF_WHOLE: they are one registration from now on. */
void tn_host_regions_mark(struct tn_host_regions *regions, uint64_t base, uint64_t bytes,
                          enum tn_host_page state);

/* Makes the first registration in the range BUSY; false: the range has none. Registrations that begin
 * in the range end in it, too. */
bool tn_host_regions_pick(struct tn_host_regions *regions, uint64_t base, uint64_t bytes,
                          struct tn_range *run);

/* Where the registration around the address ends; 0: there is none. */
uint64_t tn_host_regions_end_of(struct tn_host_regions *regions, uint64_t address);

/* Whether the pages of the range are without memory, and the driver has kept none of them. */
bool tn_host_regions_are_empty(struct tn_host_regions *regions, uint64_t base, uint64_t bytes);

/* The newest region, or NULL. Regions stay as long as the struct. */
struct tn_host_region *tn_host_regions_first(struct tn_host_regions *regions);

/* The first registration at the address or behind it in the region; false: there is none. */
bool tn_host_regions_next(struct tn_host_regions *regions, const struct tn_host_region *region,
                          uint64_t address, struct tn_range *run);

void tn_host_regions_count(struct tn_host_regions *regions, uint64_t *reserved_bytes,
                           uint64_t *registered_bytes, uint64_t *registrations);

/* Recomputes V9 to V11. CORRUPT, with the invariant. */
TARN_MUST_CHECK tarn_status tn_host_regions_check(struct tn_host_regions *regions);

#endif
