// SPDX-License-Identifier: Apache-2.0
/* The list has room for every piece that is ready or out, made with the piece: giving a piece back
 * needs no memory.
 *
 * The piece that came last is taken first, since its pages are likeliest to be in a cache.
 *
 * Trade-offs: half of each slot's addresses have no memory. Addresses cost a byte of books for 2
 * MiB. */
#include "vmm/ready.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "vmm/address_table.h"

void tn_ready_init(struct tn_ready *ready, struct tn_registered *registered)
{
    *ready = (struct tn_ready){.registered = registered};
    tn_lock_init(&ready->lock, TN_RANK_REGION);
}

/* Puts a new piece on the list; false: there is no host memory. */
static bool enter(struct tn_ready *ready, uint64_t base)
{
    bool entered;

    tn_lock_acquire(&ready->lock);
    entered = tn_host_grow((void **)&ready->bases, &ready->capacity,
                           ready->count + ready->out_count + 1, sizeof *ready->bases);
    if (entered)
        ready->bases[ready->count++] = base;
    tn_lock_release(&ready->lock);
    return entered;
}

static tarn_status add_piece(struct tn_ready *ready)
{
    struct tn_registered *registered = ready->registered;
    uint64_t base;
    tarn_status status = tn_host_regions_take(&registered->regions, 1, &base);

    if (status != TARN_OK)
        return status;
    status = tn_registered_add(registered, base, TN_HOST_PIECE_BYTES);
    if (status == TARN_OK && !enter(ready, base)) {
        tn_registered_remove(registered, base, TN_HOST_PIECE_BYTES);
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for a list of registered memory");
    }
    if (status != TARN_OK && tn_host_regions_end_of(&registered->regions, base) == 0)
        tn_host_regions_give(&registered->regions, base, 1);
    return status;
}

static size_t count_of(struct tn_ready *ready)
{
    size_t count;

    tn_lock_acquire(&ready->lock);
    count = ready->count;
    tn_lock_release(&ready->lock);
    return count;
}

tarn_status tn_ready_fill(struct tn_ready *ready, size_t count)
{
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    for (size_t there = count_of(ready); there < count && status == TARN_OK; there++)
        status = add_piece(ready);
    return status;
}

bool tn_ready_take(struct tn_ready *ready, uint64_t *base)
{
    bool taken;

    tn_lock_acquire(&ready->lock);
    taken = ready->count > 0;
    if (taken) {
        *base = ready->bases[--ready->count];
        ready->out_count += 1;
    }
    tn_lock_release(&ready->lock);
    return taken;
}

void tn_ready_give(struct tn_ready *ready, uint64_t base)
{
    TN_ASSERT(base % TN_SLOT_BYTES == 0);
    tn_lock_acquire(&ready->lock);
    TN_ASSERT(ready->out_count > 0 && ready->count < ready->capacity);
    ready->out_count -= 1;
    ready->bases[ready->count++] = base;
    tn_lock_release(&ready->lock);
}

/* Takes the oldest piece off a list of more than keep_count. */
static bool pick_oldest(struct tn_ready *ready, size_t keep_count, uint64_t *base)
{
    bool picked;

    tn_lock_acquire(&ready->lock);
    picked = ready->count > keep_count;
    if (picked) {
        *base = ready->bases[0];
        ready->count -= 1;
        for (size_t i = 0; i < ready->count; i++)
            ready->bases[i] = ready->bases[i + 1];
    }
    tn_lock_release(&ready->lock);
    return picked;
}

uint64_t tn_ready_trim(struct tn_ready *ready, size_t keep_count)
{
    struct tn_registered *registered = ready->registered;
    uint64_t bytes = 0;
    uint64_t base;

    TN_ASSERT(tn_lock_none_held());
    while (pick_oldest(ready, keep_count, &base)) {
        tn_registered_remove(registered, base, TN_HOST_PIECE_BYTES);
        bytes += TN_HOST_PIECE_BYTES;
        if (tn_gpu_is_usable(registered->gpu))
            tn_host_regions_give(&registered->regions, base, 1);
    }
    return bytes;
}

uint64_t tn_ready_bytes(struct tn_ready *ready)
{
    return count_of(ready) * TN_HOST_PIECE_BYTES;
}

tarn_status tn_ready_check(struct tn_ready *ready)
{
    uint64_t broken = 0;

    for (size_t i = 0; i < count_of(ready) && broken == 0; i++) {
        uint64_t base;

        tn_lock_acquire(&ready->lock);
        base = i < ready->count ? ready->bases[i] : 0;
        tn_lock_release(&ready->lock);
        if (base != 0 && (base % TN_SLOT_BYTES != 0 ||
                          tn_host_regions_end_of(&ready->registered->regions, base) !=
                              base + TN_HOST_PIECE_BYTES))
            broken = base;
    }
    if (broken == 0)
        return TARN_OK;
    return tn_fail(TARN_ERR_CORRUPT,
                   "invariant V12 does not hold: the piece at 0x%llx of the list of registered "
                   "memory is not one registration",
                   (unsigned long long)broken);
}

void tn_ready_fini(struct tn_ready *ready)
{
    TN_ASSERT(ready->out_count == 0);
    (void)tn_ready_trim(ready, 0);
    tn_host_free(ready->bases);
    tn_lock_fini(&ready->lock);
}
