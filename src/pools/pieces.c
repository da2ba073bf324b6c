// SPDX-License-Identifier: Apache-2.0
/* Ready pieces are a cache without a limit: what is over goes in a trim alone.
 *
 * Trade-offs: half of each slot stays without memory. Addresses are plenty, and the table from an
 * address to its segment has an entry for each slot. */
#include "pools/pieces.h"

#include <stddef.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/note.h"
#include "vmm/registered.h"

#define BATCH UINT64_C(256) /* pieces that are made together: 4 GiB */

static const struct tn_memory_properties piece_properties = {.host = true, .registered = true};

tarn_status tn_pieces_open(tarn_device *device)
{
    struct tn_host_side *host = &device->host;
    tarn_status status = TARN_OK;

    if (host->has_pieces)
        return TARN_OK;
    status = tn_registered_init(&host->registered, &device->gpu, host->thread_count);
    host->has_pieces = status == TARN_OK;
    if (host->has_pieces)
        atomic_store(&device->regions.of_host, &host->registered.regions);
    return status;
}

void tn_pieces_close(tarn_device *device)
{
    if (!device->host.has_pieces)
        return;
    TN_ASSERT(tn_lock_none_held());
    tn_pieces_trim(device, 0);
    tn_registered_fini(&device->host.registered);
    device->host.has_pieces = false;
}

struct tn_memory *tn_piece_take(tarn_device *device)
{
    struct tn_memory *piece =
        tn_memory_cache_take(&device->host.ready, TN_PIECE_BYTES, piece_properties);

    TN_ASSERT(piece == NULL || piece->address % TN_SLOT_BYTES == 0);
    return piece;
}

void tn_piece_give(tarn_device *device, struct tn_memory *piece)
{
    TN_ASSERT(piece->properties.registered && !tn_memory_is_mapped(piece));
    tn_memory_cache_put(&device->host.ready, piece);
}

/* Gives memory at the beginning of a slot back to the system, and then its slots. Memory that the
 * driver has kept, which is latched, stays in the budget, and its place is nobody's any more. */
static void remove_at(tarn_device *device, uint64_t address, uint64_t bytes)
{
    struct tn_registered *registered = &device->host.registered;

    TN_ASSERT(address % TN_SLOT_BYTES == 0 && bytes > 0);
    tn_registered_remove(registered, address, bytes);
    if (!tn_host_regions_are_empty(&registered->regions, address, bytes))
        return;
    tn_host_regions_give(&registered->regions, address,
                         tn_round_up(bytes, TN_SLOT_BYTES) / TN_SLOT_BYTES);
    tn_budget_discharge(&device->host.budget, bytes);
}

/* Gives a piece back to the system, which no list has any more. */
static void end_piece(tarn_device *device, struct tn_memory *piece)
{
    const uint64_t address = piece->address;

    tn_device_note(device, TN_NOTE_MEMORY_RELEASED, TN_OPERANDS(address, TN_PIECE_BYTES));
    tn_memory_forget(piece);
    remove_at(device, address, TN_PIECE_BYTES);
}

/* The record of a piece that is registered there; without one the piece goes. */
static tarn_status enter(tarn_device *device, uint64_t address)
{
    struct tn_memory *piece;
    tarn_status status = tn_memory_adopt(address, TN_PIECE_BYTES, piece_properties, &piece);

    if (status != TARN_OK) {
        remove_at(device, address, TN_PIECE_BYTES);
        return status;
    }
    tn_device_note(device, TN_NOTE_MEMORY_CREATED, TN_OPERANDS(address, TN_PIECE_BYTES));
    tn_piece_give(device, piece);
    return TARN_OK;
}

/* Takes slots side by side for so many bytes of memory, which are charged. */
static tarn_status take_slots(tarn_device *device, uint64_t count, uint64_t bytes, uint64_t *base)
{
    tarn_status status = tn_budget_charge(&device->host.budget, bytes);

    if (status != TARN_OK)
        return status;
    status = tn_host_regions_take(&device->host.registered.regions, count, base);
    if (status != TARN_OK)
        tn_budget_discharge(&device->host.budget, bytes);
    return status;
}

/* Pieces in slots side by side, all of them or none: their pages are touched while others are
 * registered. */
static tarn_status make_pieces(tarn_device *device, uint64_t count)
{
    struct tn_registered *registered = &device->host.registered;
    uint64_t base = 0;
    tarn_status status = take_slots(device, count, count * TN_PIECE_BYTES, &base);

    if (status != TARN_OK)
        return status;
    status = tn_registered_add_slots(registered, base, count);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t address = base + i * TN_SLOT_BYTES;

        if (status == TARN_OK)
            status = enter(device, address);
        else
            remove_at(device, address, TN_PIECE_BYTES);
    }
    return status;
}

/* Said of page-locked memory, which is the host's. */
static tarn_status as_host_memory(tarn_status status)
{
    char why[512];

    if (status != TARN_ERR_DEVICE_MEMORY) /* what the driver says of any memory */
        return status;
    (void)snprintf(why, sizeof why, "%s", tarn_last_error());
    return tn_fail(TARN_ERR_HOST_MEMORY, "%s", why);
}

tarn_status tn_pieces_provide(tarn_device *device, uint64_t bytes)
{
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_lock_none_held());
    for (uint64_t ready = tn_memory_cache_bytes(&device->host.ready);
         status == TARN_OK && ready < bytes; ready = tn_memory_cache_bytes(&device->host.ready))
        status = make_pieces(
            device, tn_min(tn_round_up(bytes - ready, TN_PIECE_BYTES) / TN_PIECE_BYTES, BATCH));
    return as_host_memory(status);
}

void tn_pieces_trim(tarn_device *device, uint64_t keep_bytes)
{
    struct tn_memory *piece;

    TN_ASSERT(tn_lock_none_held());
    while (tn_memory_cache_bytes(&device->host.ready) > keep_bytes &&
           (piece = tn_piece_take(device)) != NULL)
        end_piece(device, piece);
}

tarn_status tn_whole_make(tarn_device *device, uint64_t bytes, void **address)
{
    uint64_t base = 0;
    tarn_status status;

    TN_ASSERT(tn_lock_none_held() && bytes % TN_PAGE_BYTES == 0);
    status = take_slots(device, tn_round_up(bytes, TN_SLOT_BYTES) / TN_SLOT_BYTES, bytes, &base);
    if (status != TARN_OK)
        return status;
    status = tn_registered_add_whole(&device->host.registered, base, bytes);
    if (status == TARN_OK)
        *address = (void *)(uintptr_t)base;
    else
        remove_at(device, base, bytes);
    return as_host_memory(status);
}

void tn_whole_end(tarn_device *device, void *address, uint64_t bytes)
{
    TN_ASSERT(tn_lock_none_held());
    remove_at(device, (uint64_t)(uintptr_t)address, bytes);
}
