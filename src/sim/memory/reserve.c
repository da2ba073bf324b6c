// SPDX-License-Identifier: Apache-2.0
/* reserve.c -- reserving addresses.
 *
 * How it works. Addresses are given out in slabs that begin at multiples of 32 MiB, as measured on
 * an H200. A reservation of 32 MiB or more has a slab of its own. Smaller ones share slabs of 32
 * MiB: each takes room in a slab from its hint on, the last slab with enough room, or in a new slab
 * when none has room. A new slab is put at the hint, moved up to the next multiple of 32 MiB. If
 * this place is taken, the next free place behind it serves; none of this is an error. A context
 * comes with a slab at high addresses: a small reservation is therefore hardly ever at its hint.
 *
 * Without a hint large reservations, and the pools' addresses, are the first free low addresses.
 * Before them lies the driver's own range. Slabs without a hint are at high addresses, far apart.
 * The addresses behind a reservation are therefore the same in every run, wherever the system puts
 * the process.
 *
 * Hints are plain ones, compared afterwards (space.c).
 *
 * Trade-offs. The low addresses are not the driver's own: AddressSanitizer has the driver's.
 * ThreadSanitizer has the simulator's too; the system picks the place then. The driver lets small
 * reservations into the rest of the last 32 MiB of a large reservation; the simulator does not. The
 * driver also avoids for good the places where it once met memory of the process; the simulator
 * tries them again. */
#include <stdlib.h>

#include "sim/core/cost.h"
#include "sim/memory/space.h"

#define SLAB_BYTES (32 * TN_SIM_MIB)
#define HINT_PATIENCE 32 /* places tried behind a hint before any other will do */

/* Addresses given out without a hint, below the usual hints of programs, and above. The driver's
 * own range before the low addresses is as large as an H200's. */
#define OWN_START ((uintptr_t)0x120000000000)
#define OWN_BYTES ((size_t)0x102000000)
#define LOW_START (OWN_START + OWN_BYTES)
#define LOW_END ((uintptr_t)0x200000000000)
#define HIGH_START ((uintptr_t)0x700000000000)
#define HIGH_DISTANCE ((size_t)1 << 32) /* between slabs: room to run past one */

enum { HINTS_AS_DRIVER = 0, HINTS_MOVED = 1, HINTS_LIMITED = 2 };

static int hint_rule = HINTS_AS_DRIVER;
static size_t hint_limit;

void tarn_sim_set_hints(int how, size_t max_bytes)
{
    if (!tn_sim_enter_control())
        return;
    hint_rule = how;
    hint_limit = max_bytes;
    tn_sim_leave();
}

static size_t round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Obtains addresses away from the hint, for tests of this case. */
static uintptr_t obtain_elsewhere(size_t bytes, size_t alignment, uintptr_t hint)
{
    uintptr_t start = tn_sim_space_obtain(bytes, alignment, 0);
    if (start == 0 || start != hint)
        return start;
    uintptr_t other = tn_sim_space_obtain(bytes, alignment, 0);
    tn_sim_space_return(start, bytes);
    return other;
}

/* A slab for several small reservations. */
struct slab {
    struct tn_sim_span span;
    uint32_t used; /* a bit for each granule */
};

struct reservation {
    struct tn_sim_span span;
    struct slab *slab; /* the shared slab; NULL with addresses of its own */
};

static struct tn_sim_index slabs; /* of struct slab */
static struct slab *context_slab; /* the slab that came with a context; or NULL */

/* The granules of a slab that an aligned reservation would take, as bits, or 0 when the slab has no
 * room. */
static uint32_t find_room(const struct slab *slab, size_t bytes, size_t alignment)
{
    uint32_t wanted = ((uint32_t)1 << bytes / TN_SIM_GRANULE) - 1;
    for (size_t at = 0; at + bytes <= SLAB_BYTES; at += TN_SIM_GRANULE) {
        uint32_t bits = wanted << at / TN_SIM_GRANULE;
        if ((slab->span.start + at) % alignment == 0 && (slab->used & bits) == 0)
            return bits;
    }
    return 0;
}

/* The end of the reservation or shared slab at an address; 0 without either. */
static uintptr_t reserved_end(uintptr_t address)
{
    const struct tn_sim_span *span = tn_sim_index_find(&slabs, address);
    if (span == NULL)
        span = tn_sim_index_find(&tn_sim_reservations, address);
    return span == NULL ? 0 : span->start + span->bytes;
}

/* The same for the pages of a mapping. */
static uintptr_t paged_end(uintptr_t address)
{
    const struct tn_sim_mapping *mapping = tn_sim_mapping_at(address);
    return mapping == NULL ? 0 : mapping->span.start + mapping->page_bytes;
}

/* The first start of a span of an index behind an address; the end when no span starts before. */
static uintptr_t next_start(const struct tn_sim_index *index, uintptr_t address, uintptr_t end)
{
    size_t position = tn_sim_index_after(index, address);
    while (position < index->count && index->items[position]->start <= address)
        position++;
    return position < index->count && index->items[position]->start < end
               ? index->items[position]->start
               : end;
}

/* How far from an address on nobody has any: to the end at most. The address itself is free. */
static uintptr_t free_end(uintptr_t address, uintptr_t end)
{
    end = next_start(&slabs, address, end);
    end = next_start(&tn_sim_reservations, address, end);
    return next_start(&tn_sim_mappings, address, end);
}

void tn_sim_space_give_up(uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes;
    for (uintptr_t address = start; address < end;) {
        uintptr_t reserved = reserved_end(address);
        uintptr_t held = reserved != 0 ? reserved : paged_end(address);
        uintptr_t free = held != 0 ? held : free_end(address, end);
        if (held == 0)
            tn_sim_space_return(address, free - address);
        address = free;
    }
}

size_t tn_sim_space_reach(uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes;
    for (uintptr_t address = start; address < end;) {
        uintptr_t reserved = reserved_end(address);
        uintptr_t next = reserved != 0 ? reserved : free_end(address, end);
        uintptr_t found = 0;
        if (reserved == 0)
            found = tn_sim_space_obtain(next - address, TN_SIM_GRANULE, address);
        if (reserved == 0 && found != address) {
            if (found != 0)
                tn_sim_space_return(found, next - address);
            return address - start;
        }
        address = next;
    }
    return bytes;
}

/* Obtains addresses at a place or elsewhere. When the simulator is not strict, a mapping may run
 * past its reservation and have some of these addresses already: the new reservation shares
 * them. */
static uintptr_t obtain_at(size_t bytes, size_t alignment, uintptr_t wanted)
{
    uintptr_t end = wanted + bytes;
    if (tn_sim_index_overlap(&tn_sim_mappings, wanted, bytes) == NULL)
        return tn_sim_space_obtain(bytes, alignment, wanted);
    for (uintptr_t address = wanted; address < end;) {
        uintptr_t paged = paged_end(address);
        uintptr_t next = paged != 0 ? paged : free_end(address, end);
        uintptr_t found = 0;
        if (paged == 0)
            found = tn_sim_space_obtain(next - address, TN_SIM_GRANULE, address);
        if (paged == 0 && found != address) {
            if (found != 0)
                tn_sim_space_return(found, next - address);
            tn_sim_space_give_up(wanted, address - wanted);
            return tn_sim_space_obtain(bytes, alignment, 0);
        }
        address = next;
    }
    return wanted;
}

/* The first place from an address on without a slab or reservation. */
static uintptr_t first_free(uintptr_t wanted, size_t bytes, size_t alignment)
{
    for (;;) {
        const struct tn_sim_span *taken = tn_sim_index_overlap(&tn_sim_reservations, wanted, bytes);
        if (taken == NULL)
            taken = tn_sim_index_overlap(&slabs, wanted, bytes);
        if (taken == NULL)
            return wanted;
        wanted = round_up(taken->start + taken->bytes, alignment);
    }
}

/* The first place from an address on where the books have nothing at all. */
static uintptr_t first_untouched(uintptr_t wanted, size_t bytes, size_t alignment)
{
    const struct tn_sim_index *const others[] = {&tn_sim_mappings, &tn_sim_blocks};
    uintptr_t before = 0;
    while (wanted != before) {
        before = wanted;
        wanted = first_free(wanted, bytes, alignment);
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            const struct tn_sim_span *taken = tn_sim_index_overlap(others[i], wanted, bytes);
            if (taken != NULL)
                wanted = round_up(taken->start + taken->bytes, alignment);
        }
    }
    return wanted;
}

/* Obtains the first free addresses of a range; from the system when the range has none. */
static uintptr_t obtain_first(uintptr_t from, uintptr_t end, size_t bytes, size_t alignment)
{
    uintptr_t wanted = from;
    for (int tries = 0; tries < HINT_PATIENCE && bytes < end - from; tries++, wanted += alignment) {
        wanted = first_untouched(wanted, bytes, alignment);
        if (wanted > end - bytes)
            break;
        if (tn_sim_space_is_occupied(wanted, bytes))
            continue;
        uintptr_t start = tn_sim_space_obtain(bytes, alignment, wanted);
        if (start == wanted || start == 0)
            return start;
        tn_sim_space_return(start, bytes); /* the process has this place */
    }
    return tn_sim_space_obtain(bytes, alignment, 0);
}

uintptr_t tn_sim_space_obtain_low(size_t bytes, size_t alignment)
{
    static uintptr_t own; /* where the driver's own range was obtained */
    if (own == 0)
        own = tn_sim_space_obtain(OWN_BYTES, SLAB_BYTES, OWN_START);
    if (own != OWN_START)
        return tn_sim_space_obtain(bytes, alignment, 0);
    return obtain_first(LOW_START, LOW_END, bytes, alignment);
}

/* Obtains addresses for a slab, by the driver's rule for hints. */
static uintptr_t obtain_near(size_t bytes, size_t alignment, uintptr_t hint)
{
    uintptr_t wanted = round_up(hint, alignment);
    if (hint == 0)
        return tn_sim_space_obtain_low(bytes, alignment);
    for (int tries = 0; tries < HINT_PATIENCE; tries++, wanted += alignment) {
        wanted = first_free(wanted, bytes, alignment);
        if (wanted >= TN_SIM_ADDRESS_LIMIT - bytes)
            break;
        /* Addresses that a mapping spilled into are obtained all the same: obtain_at. */
        if (tn_sim_index_overlap(&tn_sim_mappings, wanted, bytes) == NULL &&
            tn_sim_space_is_occupied(wanted, bytes))
            continue;
        uintptr_t start = obtain_at(bytes, alignment, wanted);
        if (start == wanted || start == 0)
            return start;
        tn_sim_space_return(start, bytes); /* the process has this place */
    }
    return tn_sim_space_obtain(bytes, alignment, 0);
}

static bool context_exists(void)
{
    const struct tn_sim_context *context;
    for (size_t at = 0; (context = tn_sim_find_next(TN_SIM_KIND_CONTEXT, &at)) != NULL;) {
        if (context->alive)
            return true;
    }
    return false;
}

/* Makes a shared slab, at the hint or where a context's slab lies; NULL without room. */
static struct slab *make_slab(uintptr_t hint)
{
    struct slab *slab = calloc(1, sizeof *slab);
    if (slab == NULL)
        return NULL;
    bool of_context = context_exists();
    uintptr_t start = of_context || hint == 0 ? obtain_first(HIGH_START, TN_SIM_ADDRESS_LIMIT,
                                                             SLAB_BYTES, HIGH_DISTANCE)
                                              : obtain_near(SLAB_BYTES, SLAB_BYTES, hint);
    slab->span = (struct tn_sim_span){.start = start, .bytes = SLAB_BYTES};
    if (start != 0 && tn_sim_index_add(&slabs, &slab->span)) {
        context_slab = of_context ? slab : context_slab;
        return slab;
    }
    if (start != 0)
        tn_sim_space_give_up(start, SLAB_BYTES);
    free(slab);
    return NULL;
}

/* Finds room for a small reservation in the slabs from a hint on. Returns false when the system has
 * no addresses. */
static bool place_small(struct reservation *reservation, size_t bytes, size_t alignment,
                        uintptr_t hint)
{
    uint32_t bits = 0;
    struct slab *slab = NULL;
    uintptr_t from = round_up(hint, SLAB_BYTES);
    bool search = context_slab != NULL || !context_exists();
    for (size_t i = slabs.count; search && i > 0 && slabs.items[i - 1]->start >= from && bits == 0;
         i--) {
        slab = (struct slab *)slabs.items[i - 1];
        bits = find_room(slab, bytes, alignment);
    }
    if (bits == 0) {
        slab = make_slab(hint);
        if (slab == NULL)
            return false;
        bits = find_room(slab, bytes, alignment);
    }
    slab->used |= bits;
    size_t first = (size_t)__builtin_ctz(bits) * TN_SIM_GRANULE;
    reservation->span = (struct tn_sim_span){.start = slab->span.start + first, .bytes = bytes};
    reservation->slab = slab;
    return true;
}

/* Gives a reservation's addresses back. */
static void give_up(const struct reservation *reservation)
{
    struct slab *slab = reservation->slab;
    const struct tn_sim_span *span = &reservation->span;
    if (slab == NULL) {
        tn_sim_space_give_up(span->start, span->bytes);
        return;
    }
    uint32_t bits = ((uint32_t)1 << span->bytes / TN_SIM_GRANULE) - 1;
    slab->used &= ~(bits << (span->start - slab->span.start) / TN_SIM_GRANULE);
    if (slab->used != 0)
        return;
    context_slab = slab == context_slab ? NULL : context_slab;
    tn_sim_index_remove(&slabs, &slab->span);
    tn_sim_space_give_up(slab->span.start, SLAB_BYTES);
    free(slab);
}

/* Finds addresses for a reservation. Returns false when none are left. */
static bool place(struct reservation *reservation, size_t bytes, size_t alignment, uintptr_t hint)
{
    if (hint_rule != HINTS_MOVED && bytes < SLAB_BYTES && alignment <= SLAB_BYTES)
        return place_small(reservation, bytes, alignment, hint);
    size_t step = alignment > SLAB_BYTES ? alignment : SLAB_BYTES;
    uintptr_t start = hint_rule == HINTS_MOVED ? obtain_elsewhere(bytes, alignment, hint)
                                               : obtain_near(bytes, step, hint);
    reservation->span = (struct tn_sim_span){.start = start, .bytes = bytes};
    reservation->slab = NULL;
    return start != 0;
}

tn_cu_result tn_sim_cuMemAddressReserve(tn_cu_deviceptr *address, size_t bytes, size_t alignment,
                                        tn_cu_deviceptr hint, unsigned long long flags)
{
    if (address == NULL || flags != 0 || bytes == 0 || bytes % TN_SIM_GRANULE != 0 ||
        (alignment & (alignment - 1)) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (alignment < TN_SIM_GRANULE)
        alignment = TN_SIM_GRANULE;
    if (hint % alignment != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (bytes >= TN_SIM_ADDRESS_LIMIT || hint >= TN_SIM_ADDRESS_LIMIT ||
        hint + bytes >= TN_SIM_ADDRESS_LIMIT || (hint_rule == HINTS_LIMITED && bytes > hint_limit))
        return TN_CUDA_ERROR_OUT_OF_MEMORY;

    struct reservation *reservation = malloc(sizeof *reservation);
    if (reservation == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    if (!place(reservation, bytes, alignment, hint)) {
        free(reservation);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!tn_sim_index_add(&tn_sim_reservations, &reservation->span)) {
        give_up(reservation);
        free(reservation);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    tn_sim.ledger.reservations++;
    tn_sim.ledger.reserved_bytes += bytes;
    *address = reservation->span.start;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuMemAddressFree(tn_cu_deviceptr address, size_t bytes)
{
    struct reservation *reservation = tn_sim_index_find(&tn_sim_reservations, address);
    if (reservation == NULL || reservation->span.start != address ||
        reservation->span.bytes != bytes ||
        tn_sim_index_overlap(&tn_sim_mappings, address, bytes) != NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_sim_charge(bytes);
    tn_sim_index_remove(&tn_sim_reservations, &reservation->span);
    give_up(reservation);
    tn_sim.ledger.reservations--;
    tn_sim.ledger.reserved_bytes -= bytes;
    free(reservation);
    return TN_CUDA_SUCCESS;
}
