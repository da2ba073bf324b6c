// SPDX-License-Identifier: Apache-2.0
/* Reserving: the hints are 0x20c102000000 + k * 4 TiB for k = 0 to 10, in a range that programs,
 * libraries and sanitizers leave alone and that the driver honours exactly. The upper half of these
 * addresses is no number that programs count with. Two neighbouring numbers of 32 bits in a
 * kernel's parameters, sizes or pitches, are therefore not taken for an address
 * (inspect/references.h). At 0x200000000000 each {65536, 8192} was an address. The lower half of
 * the first block's address is not 0 either, a number that often stands beside a gap. The first
 * hint granted exactly wins; else the last range granted anywhere; else half the size is asked for,
 * down to 1 GiB (virtual GPUs, address limits, ThreadSanitizer).
 *
 * Slots are found first-fit from the lowest address, so that the same calls give the same layout.
 *
 * Trade-offs: a scan of up to 131,072 bits to find a run. Segments double in size, so scans are
 * rare. */
#include "vmm/region.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/mapping.h"
#include "driver/sanitizer.h"
#include "vmm/address_table.h"

static const uint64_t first_hint = 0x20c102000000;
static const uint64_t hint_step = 4 * TN_TIB;
static const uint64_t smallest_region = TN_GIB;

enum { HINT_COUNT = 11, BITS = 64 };

/* In contracts alone. */
__attribute__((unused)) static bool is_taken(const struct tn_region *region, uint64_t slot)
{
    return (region->taken[slot / BITS] >> (slot % BITS) & 1) != 0;
}

static void set_taken(struct tn_region *region, uint64_t slot, uint64_t count, bool taken)
{
    for (uint64_t i = slot; i < slot + count; i++) {
        uint64_t bit = (uint64_t)1 << (i % BITS);

        TN_ASSERT(is_taken(region, i) != taken); /* V2 */
        region->taken[i / BITS] ^= bit;
    }
    region->free_count += taken ? -count : count;
}

/* The first slot from slot up to end that is taken, or that is free; end: none. */
static uint64_t find_slot(const struct tn_region *region, bool taken, uint64_t slot, uint64_t end)
{
    for (; slot < end; slot += BITS - slot % BITS) {
        uint64_t word = region->taken[slot / BITS];
        uint64_t bits = (taken ? word : ~word) >> (slot % BITS);

        if (bits != 0)
            return tn_min(slot + (uint64_t)__builtin_ctzll(bits), end);
    }
    return end;
}

/* The lowest run of count free slots from this one on, or slot_count when no run is long enough. */
static uint64_t find_run_from(const struct tn_region *region, uint64_t count, uint64_t end)
{

    if (count > region->free_count)
        return region->slot_count;
    while (end < region->slot_count) {
        uint64_t begin = find_slot(region, false, end, region->slot_count);

        end = tn_min(begin + count, region->slot_count);
        end = find_slot(region, true, begin, end);
        if (end - begin == count) {
            TN_ASSERT(!is_taken(region, begin) && !is_taken(region, end - 1));
            return begin;
        }
    }
    return region->slot_count;
}

static uint64_t find_run(const struct tn_region *region, uint64_t count)
{
    uint64_t found = find_run_from(region, count, region->turn);

    TN_ASSERT(region->turn <= region->slot_count);
    return found == region->slot_count && region->turn > 0 ? find_run_from(region, count, 0)
                                                           : found;
}

static void free_range(struct tn_gpu *gpu, uint64_t base, uint64_t bytes)
{
    if (tn_gpu_is_linear(gpu))
        tn_sanitizer_give(gpu, base);
    else
        tn_gpu_free_addresses(gpu, base, bytes);
}

/* A range granted above the table's addresses, where no lookup finds anything, is given back. */
static tarn_status check_granted(struct tn_gpu *gpu, uint64_t granted, uint64_t bytes)
{
    if (granted <= ((uint64_t)1 << TN_ADDRESS_BITS) - bytes)
        return TARN_OK;
    free_range(gpu, granted, bytes);
    return tn_fail(TARN_ERR_ADDRESS_SPACE,
                   "reserving %llu MiB of addresses: the driver gives 0x%llx, and Tarn uses "
                   "addresses below 2^%d",
                   (unsigned long long)(bytes / TN_MIB), (unsigned long long)granted,
                   TN_ADDRESS_BITS);
}

/* Tries a single size: at a hint if the driver honours any, else wherever the driver chooses. */
static tarn_status reserve_exactly(struct tn_gpu *gpu, uint64_t bytes, uint64_t *base)
{
    uint64_t granted = 0;

    if (tn_gpu_is_linear(gpu)) {
        tarn_status status = tn_sanitizer_take(gpu, bytes, base);

        return status == TARN_OK ? check_granted(gpu, *base, bytes) : status;
    }
    for (uint64_t k = 0; k < HINT_COUNT; k++) {
        uint64_t hint = first_hint + k * hint_step;
        tarn_status status = tn_gpu_reserve_addresses(gpu, bytes, TN_SLOT_BYTES, hint, &granted);

        if (status != TARN_OK)
            return status;
        if (granted == hint || k + 1 == HINT_COUNT)
            break;
        tn_gpu_free_addresses(gpu, granted, bytes);
    }
    *base = granted;
    return check_granted(gpu, granted, bytes);
}

static tarn_status reserve_range(struct tn_gpu *gpu, uint64_t *bytes, uint64_t at_least,
                                 uint64_t *base)
{
    tarn_status status = reserve_exactly(gpu, *bytes, base);

    while (status == TARN_ERR_ADDRESS_SPACE && *bytes / 2 >= tn_max(smallest_region, at_least)) {
        *bytes /= 2;
        status = reserve_exactly(gpu, *bytes, base);
    }
    return status;
}

static uint64_t words_of_slots(uint64_t bytes)
{
    return (bytes / TN_SLOT_BYTES + BITS - 1) / BITS;
}

static uint64_t words_of_pages(uint64_t bytes)
{
    return (bytes / TN_PAGE_BYTES + BITS - 1) / BITS;
}

/* Nothing is refused behind the range: the lock is held, and a free of linear memory waits. */
static tarn_status add_region(struct tn_regions *regions, uint64_t at_least)
{
    struct tn_region *region = tn_host_alloc(1, sizeof *region);
    struct tn_region **link = &regions->first;
    uint64_t bytes = regions->region_bytes;
    tarn_status status;

    if (region == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a region");
    while (bytes < at_least)
        bytes *= 2;
    region->taken = tn_host_alloc(words_of_slots(bytes) + words_of_pages(bytes),
                                  sizeof(uint64_t)); /* written where addresses are used */
    status = region->taken != NULL ? reserve_range(regions->gpu, &bytes, at_least, &region->base)
                                   : tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a region");
    if (status != TARN_OK) {
        tn_host_free(region->taken);
        tn_host_free(region);
        return status;
    }
    region->bytes = bytes;
    region->slot_count = bytes / TN_SLOT_BYTES;
    region->free_count = region->slot_count;
    region->mapped = region->taken + words_of_slots(bytes);
    while (*link != NULL)
        link = &(*link)->next;
    *link = region;
    atomic_fetch_add(&regions->reserved_bytes, bytes);
    return TARN_OK;
}

tarn_status tn_regions_init(struct tn_regions *regions, struct tn_gpu *gpu, uint64_t region_bytes)
{
    tarn_status status;

    TN_ASSERT(tn_is_power_of_two(region_bytes) && region_bytes >= smallest_region);
    regions->gpu = gpu;
    regions->first = NULL;
    regions->region_bytes = region_bytes;
    atomic_store(&regions->reserved_bytes, 0);
    tn_lock_init(&regions->lock, TN_RANK_REGION);
    status = add_region(regions, TN_SLOT_BYTES);
    if (status != TARN_OK)
        tn_lock_fini(&regions->lock);
    return status;
}

static void remove_region(struct tn_regions *regions, struct tn_region *region)
{
    TN_ASSERT(region->free_count == region->slot_count); /* V3 */
    free_range(regions->gpu, region->base, region->bytes);
    atomic_fetch_sub(&regions->reserved_bytes, region->bytes);
    tn_host_free(region->taken);
    tn_host_free(region);
}

void tn_regions_fini(struct tn_regions *regions)
{
    struct tn_region *region = regions->first;

    while (region != NULL) {
        struct tn_region *next = region->next;

        remove_region(regions, region);
        region = next;
    }
    regions->first = NULL;
    tn_lock_fini(&regions->lock);
}

void tn_regions_shrink(struct tn_regions *regions)
{
    struct tn_region **link;

    if (tn_gpu_is_linear(regions->gpu))
        return; /* the free of linear memory waits for the device */
    tn_lock_acquire(&regions->lock);
    link = &regions->first->next;
    while (*link != NULL) {
        struct tn_region *region = *link;

        if (region->free_count < region->slot_count) {
            link = &region->next;
            continue;
        }
        *link = region->next;
        remove_region(regions, region);
    }
    tn_lock_release(&regions->lock);
}

tarn_status tn_regions_take(struct tn_regions *regions, uint64_t slot_count, uint64_t *base)
{
    tarn_status status = TARN_OK;
    bool added = false;

    TN_ASSERT(slot_count > 0);
    tn_lock_acquire(&regions->lock);
    for (struct tn_region *region = regions->first; status == TARN_OK;) {
        uint64_t slot = region != NULL ? find_run(region, slot_count) : 0;

        if (region != NULL && slot < region->slot_count) {
            set_taken(region, slot, slot_count, true);
            *base = region->base + slot * TN_SLOT_BYTES;
            region->used_bytes = tn_max(region->used_bytes, (slot + slot_count) * TN_SLOT_BYTES);
            if (regions->takes_turns)
                region->turn = slot + slot_count;
            break;
        }
        if (region != NULL && region->next != NULL) {
            region = region->next;
        } else {
            TN_ASSERT(!added); /* the new region has room for the request that made it */
            added = true;
            status = add_region(regions, slot_count * TN_SLOT_BYTES);
            region = regions->first;
        }
    }
    tn_lock_release(&regions->lock);
    return status;
}

void tn_regions_give(struct tn_regions *regions, uint64_t base, uint64_t slot_count)
{
    struct tn_region *region;

    tn_lock_acquire(&regions->lock);
    region = regions->first;
    while (base < region->base || base >= region->base + region->bytes)
        region = region->next;
    set_taken(region, (base - region->base) / TN_SLOT_BYTES, slot_count, false);
    tn_lock_release(&regions->lock);
}

size_t tn_regions_list(struct tn_regions *regions, struct tn_range *ranges, size_t most)
{
    size_t count = 0;

    tn_lock_acquire(&regions->lock);
    for (const struct tn_region *region = regions->first; region != NULL; region = region->next) {
        if (count < most)
            ranges[count] = (struct tn_range){region->base, region->used_bytes};
        count += 1;
    }
    tn_lock_release(&regions->lock);
    return count;
}

/* The region that has the address, or NULL. */
static struct tn_region *find_region(const struct tn_regions *regions, uint64_t address)
{
    struct tn_region *region = regions->first;

    while (region != NULL && address - region->base >= region->bytes)
        region = region->next;
    return region;
}

bool tn_regions_contain(struct tn_regions *regions, uint64_t address)
{
    bool contain;

    tn_lock_acquire(&regions->lock);
    contain = find_region(regions, address) != NULL;
    tn_lock_release(&regions->lock);
    return contain;
}

void tn_regions_note_mapped(struct tn_regions *regions, uint64_t base, uint64_t bytes)
{
    struct tn_region *region;
    uint64_t page;
    uint64_t left = bytes / TN_PAGE_BYTES;

    tn_lock_acquire(&regions->lock);
    region = find_region(regions, base);
    TN_ASSERT(region != NULL && base - region->base + bytes <= region->bytes);
    page = (base - region->base) / TN_PAGE_BYTES;
    while (left > 0) {
        uint64_t bit = page % BITS;
        uint64_t count = tn_min(left, BITS - bit); /* within the pages of a single word */

        region->mapped[page / BITS] |= UINT64_MAX >> (BITS - count) << bit;
        page += count;
        left -= count;
    }
    tn_lock_release(&regions->lock);
}

bool tn_regions_was_mapped(struct tn_regions *regions, uint64_t address)
{
    const struct tn_region *region;
    bool was_mapped = false;

    tn_lock_acquire(&regions->lock);
    region = find_region(regions, address);
    if (region != NULL) {
        uint64_t page = (address - region->base) / TN_PAGE_BYTES;

        was_mapped = (region->mapped[page / BITS] >> (page % BITS) & 1) != 0;
    }
    tn_lock_release(&regions->lock);
    return was_mapped;
}
