// SPDX-License-Identifier: Apache-2.0
/* A slab has a number for each unit of 512 bytes: the size of the region that begins with the unit,
 * or 0. A bitmap of the beginnings serves searches. Both are made with the slab, so later no region
 * lacks memory.
 *
 * Trade-offs: memory goes back to the driver when the device is closed, and no sooner. The tool is
 * called with the lock held, and hears of each address in order. */
#include "driver/sanitizer.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/tool.h"

enum { UNIT = 512, BITS = 64 };

static const uint64_t slot_bytes = 32 * TN_MIB;
static const uint64_t kept_flag = (uint64_t)1 << 63;

/* All but next, sizes and begins is immutable. */
struct tn_slab {
    struct tn_slab *next;
    uint64_t base;  /* a multiple of the slot, in the allocation */
    uint64_t bytes; /* from base on */
    uint64_t units;
    uint64_t allocation; /* the driver's */
    void *heap;          /* the tool's */
    uint64_t *sizes;  /* of the region that begins at each unit, with kept_flag; 0: none begins */
    uint64_t *begins; /* a bit a unit */
};

tarn_status tn_sanitizer_open(struct tn_gpu *gpu)
{
    struct tn_sanitizer *sanitizer;

    TN_ASSERT(gpu->sanitizer == NULL);
    tn_tool_load();
    if (!tn_tool_checks_memory())
        return tn_fail(TARN_ERR_NOT_SUPPORTED,
                       "sanitizer: no tool is there that checks memory; run the program under "
                       "compute-sanitizer --nvtx yes");
    sanitizer = tn_host_alloc(1, sizeof *sanitizer);
    if (sanitizer == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a sanitizer");
    tn_lock_init(&sanitizer->lock, TN_RANK_TOOL);
    sanitizer->slabs = NULL;
    gpu->sanitizer = sanitizer;
    return TARN_OK;
}

void tn_sanitizer_close(struct tn_gpu *gpu)
{
    struct tn_sanitizer *sanitizer = gpu->sanitizer;

    if (sanitizer == NULL)
        return;
    TN_ASSERT(sanitizer->slabs == NULL);
    gpu->sanitizer = NULL;
    tn_lock_fini(&sanitizer->lock);
    tn_host_free(sanitizer);
}

/* Slabs ----------------------------------------------------------------------------------------- */

static tarn_status allocate(struct tn_gpu *gpu, uint64_t bytes, uint64_t *address)
{
    struct tn_gpu_visit visit;
    tn_cu_deviceptr allocation = 0;
    tn_cu_result result;
    tarn_status status = tn_gpu_enter_relaxed(gpu, "making linear memory", &visit);

    if (status != TARN_OK)
        return status;
    result = gpu->driver->cuMemAlloc(&allocation, bytes);
    tn_gpu_leave_relaxed(gpu, visit);
    *address = allocation;
    return tn_gpu_answered(gpu, result, "making linear memory", "cuMemAlloc");
}

static void free_allocation(struct tn_gpu *gpu, uint64_t address)
{
    struct tn_gpu_visit visit;

    if (!tn_gpu_enter_to_give_back(gpu, gpu->context, &visit))
        return;
    tn_gpu_teardown(gpu, gpu->driver->cuMemFree(address), "cuMemFree");
    tn_gpu_leave_relaxed(gpu, visit);
}

tarn_status tn_sanitizer_take(struct tn_gpu *gpu, uint64_t bytes, uint64_t *base)
{
    struct tn_slab *slab = tn_host_alloc(1, sizeof *slab);
    const uint64_t units = bytes / UNIT;
    tarn_status status;

    TN_ASSERT(bytes % slot_bytes == 0);
    if (slab == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for linear memory's record");
    /* written where blocks are */
    slab->sizes = tn_host_alloc(units + (units + BITS - 1) / BITS, sizeof(uint64_t));
    if (slab->sizes == NULL) {
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for linear memory's record");
        goto free_slab;
    }
    status = allocate(gpu, bytes + slot_bytes, &slab->allocation);
    if (status != TARN_OK)
        goto free_sizes;
    slab->base = tn_round_up(slab->allocation, slot_bytes);
    slab->bytes = bytes;
    slab->units = units;
    slab->begins = slab->sizes + units;
    slab->heap = tn_tool_open_heap(slab->allocation, bytes + slot_bytes);
    tn_lock_acquire(&gpu->sanitizer->lock);
    slab->next = gpu->sanitizer->slabs;
    gpu->sanitizer->slabs = slab;
    tn_lock_release(&gpu->sanitizer->lock);
    *base = slab->base;
    return TARN_OK;

free_sizes:
    tn_host_free(slab->sizes);
free_slab:
    tn_host_free(slab);
    return status;
}

/* The slab that has the address, or NULL; the lock is held. */
static struct tn_slab *find_slab(const struct tn_sanitizer *sanitizer, uint64_t address)
{
    struct tn_slab *slab = sanitizer->slabs;

    TN_ASSERT(tn_lock_is_held(&sanitizer->lock));
    while (slab != NULL && address - slab->base >= slab->bytes)
        slab = slab->next;
    return slab;
}

void tn_sanitizer_give(struct tn_gpu *gpu, uint64_t base)
{
    struct tn_sanitizer *sanitizer = gpu->sanitizer;
    struct tn_slab **link = &sanitizer->slabs;
    struct tn_slab *slab;

    tn_lock_acquire(&sanitizer->lock);
    while ((*link)->base != base)
        link = &(*link)->next;
    slab = *link;
    *link = slab->next;
    tn_lock_release(&sanitizer->lock);
    tn_tool_close_heap(slab->heap); /* its regions end with it */
    free_allocation(gpu, slab->allocation);
    tn_host_free(slab->sizes);
    tn_host_free(slab);
}

/* Regions --------------------------------------------------------------------------------------- */

static uint64_t size_at(const struct tn_slab *slab, uint64_t unit)
{
    return slab->sizes[unit] & ~kept_flag;
}

static bool is_kept(const struct tn_slab *slab, uint64_t unit)
{
    return (slab->sizes[unit] & kept_flag) != 0;
}

/* Where the region that begins at the unit ends, from base on. */
static uint64_t end_of(const struct tn_slab *slab, uint64_t unit)
{
    return unit * UNIT + size_at(slab, unit);
}

static void add(struct tn_slab *slab, uint64_t unit, uint64_t bytes, bool kept)
{
    TN_ASSERT(slab->sizes[unit] == 0 && bytes > 0); /* D7 */
    slab->sizes[unit] = bytes | (kept ? kept_flag : 0);
    slab->begins[unit / BITS] |= (uint64_t)1 << (unit % BITS);
    tn_tool_add_region(slab->heap, slab->base + unit * UNIT, bytes);
}

static void remove_region(struct tn_slab *slab, uint64_t unit)
{
    TN_ASSERT(slab->sizes[unit] != 0 && (slab->begins[unit / BITS] >> (unit % BITS) & 1) != 0);
    slab->sizes[unit] = 0;
    slab->begins[unit / BITS] &= ~((uint64_t)1 << (unit % BITS));
    tn_tool_remove_region(slab->base + unit * UNIT);
}

/* The first unit from this unit on, below end, where a region begins; end: none does. */
static uint64_t next_begin(const struct tn_slab *slab, uint64_t unit, uint64_t end)
{
    for (; unit < end; unit += BITS - unit % BITS) {
        uint64_t bits = slab->begins[unit / BITS] >> (unit % BITS);

        if (bits != 0)
            return tn_min(unit + (uint64_t)__builtin_ctzll(bits), end);
    }
    return end;
}

/* The last unit below this unit where a region begins; the unit itself: none does. */
static uint64_t last_begin(const struct tn_slab *slab, uint64_t before)
{
    uint64_t unit = before;

    while (unit > 0) {
        uint64_t word = (unit - 1) / BITS;
        uint64_t bits = slab->begins[word] << (BITS - 1 - (unit - 1) % BITS);

        if (bits != 0)
            return unit - 1 - (uint64_t)__builtin_clzll(bits);
        unit = word * BITS;
    }
    return before;
}

/* Takes the range out of the kept regions, or of all. Returns where the last of them ended; 0: none
 * had a byte in the range. Ranges begin and end at units. */
static uint64_t clear(struct tn_slab *slab, uint64_t begin, uint64_t end, bool all)
{
    const uint64_t first = begin / UNIT;
    uint64_t unit = last_begin(slab, first);
    uint64_t reach = 0;

    TN_ASSERT(begin % UNIT == 0 && end % UNIT == 0 && begin < end && end <= slab->bytes);
    if (unit < first && end_of(slab, unit) > begin && (all || is_kept(slab, unit))) {
        const bool kept = is_kept(slab, unit);

        reach = tn_max(reach, end_of(slab, unit));
        remove_region(slab, unit);
        add(slab, unit, begin - unit * UNIT, kept);
    }
    for (unit = next_begin(slab, first, end / UNIT); unit < end / UNIT;
         unit = next_begin(slab, unit + 1, end / UNIT)) {
        if (!all && !is_kept(slab, unit))
            continue;
        reach = tn_max(reach, end_of(slab, unit));
        remove_region(slab, unit);
    }
    return reach;
}

void tn_sanitizer_enter(struct tn_gpu *gpu, uint64_t base, uint64_t bytes)
{
    struct tn_sanitizer *sanitizer = gpu->sanitizer;
    struct tn_slab *slab;

    if (!tn_gpu_is_linear(gpu))
        return;
    tn_lock_acquire(&sanitizer->lock);
    slab = find_slab(sanitizer, base);
    if (slab != NULL) {
        const uint64_t begin = base - slab->base;
        const uint64_t end = tn_round_up(begin + bytes, UNIT);
        const uint64_t reach = clear(slab, begin, end, false);

        /* Bytes of the block's last unit may be kept, too. */
        add(slab, begin / UNIT, tn_max(tn_min(reach, end), begin + bytes) - begin, false);
        if (reach > end)
            add(slab, end / UNIT, reach - end, true);
    }
    tn_lock_release(&sanitizer->lock);
}

void tn_sanitizer_leave(struct tn_gpu *gpu, uint64_t base, bool keeps)
{
    struct tn_sanitizer *sanitizer = gpu->sanitizer;
    struct tn_slab *slab;

    if (!tn_gpu_is_linear(gpu))
        return;
    tn_lock_acquire(&sanitizer->lock);
    slab = find_slab(sanitizer, base);
    if (slab != NULL) {
        const uint64_t unit = (base - slab->base) / UNIT;

        TN_ASSERT(slab->sizes[unit] != 0 && !is_kept(slab, unit));
        if (keeps)
            slab->sizes[unit] |= kept_flag;
        else
            remove_region(slab, unit);
    }
    tn_lock_release(&sanitizer->lock);
}

void tn_sanitizer_drop(struct tn_gpu *gpu, uint64_t base, uint64_t bytes, bool all)
{
    struct tn_sanitizer *sanitizer = gpu->sanitizer;
    struct tn_slab *slab;

    if (!tn_gpu_is_linear(gpu))
        return;
    tn_lock_acquire(&sanitizer->lock);
    slab = find_slab(sanitizer, base);
    if (slab != NULL) {
        const uint64_t begin = base - slab->base;
        const uint64_t reach = clear(slab, begin, begin + bytes, all);

        if (reach > begin + bytes) /* kept elsewhere, too */
            add(slab, (begin + bytes) / UNIT, reach - begin - bytes, true);
    }
    tn_lock_release(&sanitizer->lock);
}
