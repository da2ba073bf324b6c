// SPDX-License-Identifier: Apache-2.0
/* A region is reserved without access, and addresses without memory have none: a stray pointer
 * faults, as in memory that the driver has unmapped. Children of fork() do not get regions. In a
 * child, pages would be copied at the next write of either process, and the device would go on with
 * the old pages.
 *
 * Trade-offs: a byte a slot and a byte a page, looked through for each question. Questions come with
 * work of the driver's, which takes a thousand times as long. */
#include "vmm/host_region.h"

#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "base/placement.h"

static const uint64_t region_bytes = 64 * TN_GIB;

enum { PAGES_OF_SLOT = 1 << (TN_SLOT_BITS - TN_PAGE_BITS) };

void tn_host_regions_init(struct tn_host_regions *regions, int node)
{
    *regions = (struct tn_host_regions){.node = node};
    tn_lock_init(&regions->lock, TN_RANK_REGION);
}

static void free_region(struct tn_host_region *region)
{
    tn_host_free(region->pages);
    tn_host_free(region->taken);
    tn_host_free(region);
}

/* Asks for so much, and for half of that until it is granted or too little. */
static bool map_region(struct tn_host_region *region, uint64_t bytes, uint64_t at_least)
{
    void *mapped = MAP_FAILED;

    while (mapped == MAP_FAILED && bytes >= at_least) {
        region->mapped_bytes = bytes + TN_SLOT_BYTES;
        region->slot_count = bytes / TN_SLOT_BYTES;
        mapped = mmap(NULL, region->mapped_bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        bytes = bytes > at_least ? tn_max(at_least, tn_round_down(bytes / 2, TN_SLOT_BYTES)) : 0;
    }
    region->mapped = mapped;
    region->base = tn_round_up((uintptr_t)mapped, TN_SLOT_BYTES);
    return mapped != MAP_FAILED;
}

/* The lock is held. */
static tarn_status add_region(struct tn_host_regions *regions, uint64_t at_least)
{
    struct tn_host_region *region = tn_host_alloc(1, sizeof *region);
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_is_held(&regions->lock));
    if (region == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a region");
    if (!map_region(region, tn_max(region_bytes, at_least), at_least)) {
        status = tn_fail(TARN_ERR_ADDRESS_SPACE,
                         "reserving %llu MiB of addresses for page-locked memory: mmap refused",
                         (unsigned long long)(at_least / TN_MIB));
        goto fail;
    }
    region->taken = tn_host_alloc(region->slot_count, sizeof *region->taken);
    region->pages = tn_host_alloc(region->slot_count, PAGES_OF_SLOT);
    if (region->taken == NULL || region->pages == NULL) {
        (void)munmap(region->mapped, region->mapped_bytes);
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a region");
        goto fail;
    }
    (void)madvise(region->mapped, region->mapped_bytes, MADV_DONTFORK);
    (void)madvise(region->mapped, region->mapped_bytes, MADV_HUGEPAGE);
    (void)tn_placement_bind(region->mapped, region->mapped_bytes, regions->node);
    region->next = regions->first;
    regions->first = region;
    regions->reserved_bytes += region->slot_count * TN_SLOT_BYTES;
    return TARN_OK;
fail:
    free_region(region);
    return status;
}

static bool is_in(const struct tn_host_region *region, uint64_t address)
{
    return address >= region->base && address - region->base < region->slot_count * TN_SLOT_BYTES;
}

/* The lock is held; NULL: no region is there. */
static struct tn_host_region *find_region(const struct tn_host_regions *regions, uint64_t address)
{
    struct tn_host_region *region = regions->first;

    TN_ASSERT(tn_lock_is_held(&regions->lock));
    while (region != NULL && !is_in(region, address))
        region = region->next;
    return region;
}

/* The lowest run of free slots, or slot_count. */
static uint64_t find_run(const struct tn_host_region *region, uint64_t count)
{
    uint64_t run = 0;

    for (uint64_t slot = 0; slot < region->slot_count; slot++) {
        run = region->taken[slot] ? 0 : run + 1;
        if (run == count)
            return slot + 1 - count;
    }
    return region->slot_count;
}

static void set_taken(struct tn_host_region *region, uint64_t slot, uint64_t count, bool taken)
{
    TN_ASSERT(slot + count <= region->slot_count);
    for (uint64_t i = slot; i < slot + count; i++) {
        TN_ASSERT(region->taken[i] != taken);
        region->taken[i] = taken;
    }
}

tarn_status tn_host_regions_take(struct tn_host_regions *regions, uint64_t slot_count,
                                 uint64_t *base)
{
    struct tn_host_region *region;
    uint64_t slot = 0;
    tarn_status status = TARN_OK;

    TN_ASSERT(slot_count > 0 && slot_count <= UINT64_MAX / TN_SLOT_BYTES);
    tn_lock_acquire(&regions->lock);
    for (region = regions->first; region != NULL; region = region->next) {
        slot = find_run(region, slot_count);
        if (slot < region->slot_count)
            break;
    }
    if (region == NULL) {
        status = add_region(regions, slot_count * TN_SLOT_BYTES);
        region = regions->first;
        slot = 0;
    }
    if (status == TARN_OK) {
        set_taken(region, slot, slot_count, true);
        *base = region->base + slot * TN_SLOT_BYTES;
    }
    tn_lock_release(&regions->lock);
    return status;
}

void tn_host_regions_give(struct tn_host_regions *regions, uint64_t base, uint64_t slot_count)
{
    struct tn_host_region *region;
    uint64_t slot;

    tn_lock_acquire(&regions->lock);
    region = find_region(regions, base);
    TN_ASSERT(region != NULL && base % TN_SLOT_BYTES == 0);
    slot = (base - region->base) / TN_SLOT_BYTES;
    for (uint64_t i = slot * PAGES_OF_SLOT; i < (slot + slot_count) * PAGES_OF_SLOT; i++)
        TN_ASSERT(region->pages[i] == TN_HOST_PAGE_NONE); /* V9 */
    set_taken(region, slot, slot_count, false);
    tn_lock_release(&regions->lock);
}

/* Registrations -------------------------------------------------------------------------------- */

/* Counts registrations that come, or with down that go. The lock is held. */
static void enter(struct tn_host_regions *regions, uint64_t bytes, bool down)
{
    TN_ASSERT(!down ||
              (regions->registrations > 0 && regions->registered_bytes >= bytes)); /* V10 */
    regions->registered_bytes += down ? -bytes : bytes;
    regions->registrations += down ? -(uint64_t)1 : 1;
}

void tn_host_regions_mark(struct tn_host_regions *regions, uint64_t base, uint64_t bytes,
                          enum tn_host_page state)
{
    struct tn_host_region *region;
    uint64_t page;
    bool is_registration = state != TN_HOST_PAGE_BUSY && state != TN_HOST_PAGE_NONE;

    TN_ASSERT(base % TN_PAGE_BYTES == 0 && bytes % TN_PAGE_BYTES == 0 && bytes > 0);
    tn_lock_acquire(&regions->lock);
    region = find_region(regions, base);
    TN_ASSERT(region != NULL && is_in(region, base + bytes - 1));
    page = (base - region->base) / TN_PAGE_BYTES;
    for (uint64_t i = page; i < page + bytes / TN_PAGE_BYTES; i++) {
        TN_ASSERT(region->taken[i / PAGES_OF_SLOT]); /* V9 */
        TN_ASSERT(region->pages[i] ==
                  (state == TN_HOST_PAGE_BUSY ? TN_HOST_PAGE_NONE : TN_HOST_PAGE_BUSY));
        region->pages[i] = (uint8_t)(is_registration && i > page ? TN_HOST_PAGE_LATER : state);
    }
    if (is_registration)
        enter(regions, bytes, false);
    tn_lock_release(&regions->lock);
}

/* Where the registration ends that begins at the page. */
static uint64_t end_of_run(const struct tn_host_region *region, uint64_t page)
{
    const uint64_t page_count = region->slot_count * PAGES_OF_SLOT;

    do
        page += 1;
    while (page < page_count && region->pages[page] == TN_HOST_PAGE_LATER);
    return page;
}

static bool is_first(const struct tn_host_region *region, uint64_t page)
{
    return region->pages[page] == TN_HOST_PAGE_FIRST ||
           region->pages[page] == TN_HOST_PAGE_FIRST_OF_WHOLE;
}

bool tn_host_regions_pick(struct tn_host_regions *regions, uint64_t base, uint64_t bytes,
                          struct tn_range *run)
{
    struct tn_host_region *region;
    uint64_t page;
    uint64_t last;

    tn_lock_acquire(&regions->lock);
    region = find_region(regions, base);
    TN_ASSERT(region != NULL && is_in(region, base + bytes - 1));
    page = (base - region->base) / TN_PAGE_BYTES;
    last = page + bytes / TN_PAGE_BYTES;
    TN_ASSERT(region->pages[page] != TN_HOST_PAGE_LATER);
    while (page < last && !is_first(region, page))
        page += 1;
    if (page < last) {
        uint64_t end = end_of_run(region, page);

        TN_ASSERT(end <= last);
        run->base = region->base + page * TN_PAGE_BYTES;
        run->bytes = (end - page) * TN_PAGE_BYTES;
        memset(&region->pages[page], TN_HOST_PAGE_BUSY, end - page);
        enter(regions, run->bytes, true);
    }
    tn_lock_release(&regions->lock);
    return page < last;
}

uint64_t tn_host_regions_end_of(struct tn_host_regions *regions, uint64_t address)
{
    struct tn_host_region *region;
    uint64_t end = 0;

    tn_lock_acquire(&regions->lock);
    region = find_region(regions, address);
    if (region != NULL) {
        uint64_t page = (address - region->base) / TN_PAGE_BYTES;

        if (is_first(region, page) || region->pages[page] == TN_HOST_PAGE_LATER)
            end = region->base + end_of_run(region, page) * TN_PAGE_BYTES;
    }
    tn_lock_release(&regions->lock);
    return end;
}

bool tn_host_regions_are_empty(struct tn_host_regions *regions, uint64_t base, uint64_t bytes)
{
    const struct tn_host_region *region;
    bool empty = true;

    tn_lock_acquire(&regions->lock);
    region = find_region(regions, base);
    TN_ASSERT(region != NULL && base % TN_PAGE_BYTES == 0);
    for (uint64_t at = base; at < base + bytes; at += TN_PAGE_BYTES)
        empty = empty && region->pages[(at - region->base) / TN_PAGE_BYTES] == TN_HOST_PAGE_NONE;
    tn_lock_release(&regions->lock);
    return empty;
}

struct tn_host_region *tn_host_regions_first(struct tn_host_regions *regions)
{
    struct tn_host_region *first;

    tn_lock_acquire(&regions->lock);
    first = regions->first;
    tn_lock_release(&regions->lock);
    return first;
}

bool tn_host_regions_next(struct tn_host_regions *regions, const struct tn_host_region *region,
                          uint64_t address, struct tn_range *run)
{
    const uint64_t page_count = region->slot_count * PAGES_OF_SLOT;
    uint64_t page = (address - region->base) / TN_PAGE_BYTES;

    tn_lock_acquire(&regions->lock);
    while (page < page_count && !is_first(region, page))
        page += 1;
    if (page < page_count)
        *run = (struct tn_range){region->base + page * TN_PAGE_BYTES,
                                 (end_of_run(region, page) - page) * TN_PAGE_BYTES};
    tn_lock_release(&regions->lock);
    return page < page_count;
}

void tn_host_regions_count(struct tn_host_regions *regions, uint64_t *reserved_bytes,
                           uint64_t *registered_bytes, uint64_t *registrations)
{
    tn_lock_acquire(&regions->lock);
    *reserved_bytes = regions->reserved_bytes;
    *registered_bytes = regions->registered_bytes;
    *registrations = regions->registrations;
    tn_lock_release(&regions->lock);
}

/* Adds what the region has; NULL, or the invariant that does not hold. The lock is held. */
static const char *check_region(const struct tn_host_region *region, uint64_t *bytes,
                                uint64_t *registrations)
{
    const uint64_t page_count = region->slot_count * PAGES_OF_SLOT;

    for (uint64_t page = 0; page < page_count; page++) {
        uint64_t end = page + 1;

        if (region->pages[page] != TN_HOST_PAGE_NONE && !region->taken[page / PAGES_OF_SLOT])
            return "V9 (memory lies in slots that are taken)";
        if (region->pages[page] == TN_HOST_PAGE_LATER)
            return "V9 (a page is in a registration, or in none)";
        if (!is_first(region, page))
            continue;
        end = end_of_run(region, page);
        if (region->pages[page] == TN_HOST_PAGE_FIRST &&
            page * TN_PAGE_BYTES / TN_HOST_PIECE_BYTES !=
                (end - 1) * TN_PAGE_BYTES / TN_HOST_PIECE_BYTES)
            return "V11 (no registration crosses a multiple of 16 MiB)";
        *bytes += (end - page) * TN_PAGE_BYTES;
        *registrations += 1;
        page = end - 1;
    }
    return NULL;
}

tarn_status tn_host_regions_check(struct tn_host_regions *regions)
{
    const char *broken = NULL;
    uint64_t bytes = 0;
    uint64_t registrations = 0;

    tn_lock_acquire(&regions->lock);
    for (struct tn_host_region *region = regions->first; region != NULL && broken == NULL;
         region = region->next)
        broken = check_region(region, &bytes, &registrations);
    if (broken == NULL &&
        (bytes != regions->registered_bytes || registrations != regions->registrations))
        broken = "V10 (registrations are counted, with their bytes)";
    tn_lock_release(&regions->lock);
    if (broken == NULL)
        return TARN_OK;
    return tn_fail(TARN_ERR_CORRUPT,
                   "invariant %s of registered memory does not hold: %llu bytes in %llu "
                   "registrations are there",
                   broken, (unsigned long long)bytes, (unsigned long long)registrations);
}

void tn_host_regions_fini(struct tn_host_regions *regions)
{
    while (regions->first != NULL) {
        struct tn_host_region *region = regions->first;
        bool kept = false;

        TN_ASSERT(memchr(region->pages, TN_HOST_PAGE_FIRST, region->slot_count * PAGES_OF_SLOT) ==
                  NULL);
        regions->first = region->next;
        for (uint64_t page = 0; page < region->slot_count * PAGES_OF_SLOT; page++)
            kept = kept || region->pages[page] != TN_HOST_PAGE_NONE;
        if (!kept)
            (void)munmap(region->mapped, region->mapped_bytes);
        free_region(region);
    }
    tn_lock_fini(&regions->lock);
}
