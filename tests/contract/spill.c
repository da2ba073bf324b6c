// SPDX-License-Identifier: Apache-2.0
/* spill.c -- mappings that run past the end of their reservation: who else gets the addresses behind
 * it, and what such a mapping means to memory that is there already.
 *
 * Cases are made of a table; their answers are shown, and the recorded lines know them. */
#include <stdlib.h>
#include <string.h>

#include "contract/contract.h"

#define ROOM (64 * MIB)
#define SPILL (96 * MIB) /* behind the end */
#define BEFORE (32 * MIB)
#define PLACE UINT64_C(0x4c0000000000)
#define NEAR (UINT64_C(1) << 32)

static tn_cu_deviceptr next_place(void)
{
    static tn_cu_deviceptr place = PLACE;
    contract_needs_places();
    place += NEAR;
    return place;
}

/* -- Reservations into what a mapping has -- */

struct hint {
    size_t offset_mib; /* of the hint, behind the end of the first reservation */
    size_t mib;        /* that are asked for */
    bool open;         /* the mapping has access */
};

struct spilt {
    tn_cu_deviceptr first;   /* the reservation */
    tn_cu_deviceptr mapping; /* its last 32 MiB, and 96 MiB behind it */
    tn_cu_memhandle handle;
};

static struct spilt spill(bool open)
{
    struct spilt spilt = {.first = contract_reserve_at(next_place(), ROOM)};
    spilt.handle = contract_handle(BEFORE + SPILL);
    spilt.mapping = spilt.first + ROOM - BEFORE;
    SET_UP(cuMemMap(spilt.mapping, BEFORE + SPILL, 0, spilt.handle, 0));
    if (open)
        contract_open(spilt.mapping, BEFORE + SPILL);
    return spilt;
}

static void show_place(tn_cu_deviceptr wish, tn_cu_deviceptr got)
{
    if (got == wish)
        STATE("at the hint");
    else if (got > wish && got - wish < NEAR)
        STATE("%llu MiB behind it", (unsigned long long)((got - wish) / MIB));
    else
        STATE("elsewhere");
}

static void show_range(tn_cu_deviceptr address, tn_cu_deviceptr base)
{
    tn_cu_deviceptr start = 0;
    size_t bytes = 0;
    if (SHOWS(cuMemGetAddressRange(&start, &bytes, address)) == TN_CUDA_SUCCESS)
        STATE("%zu MiB from %lld", bytes / MIB, (long long)(start - base) / (long long)MIB);
    start = 0;
    if (SHOWS(cuPointerGetAttribute(&start, TN_CU_POINTER_RANGE_START, address)) == TN_CUDA_SUCCESS)
        STATE("the range is from %lld",
              start == 0 ? -1 : (long long)(start - base) / (long long)MIB);
}

static void run_hint(const void *argument)
{
    const struct hint *hint = argument;
    struct spilt spilt = spill(hint->open);
    tn_cu_deviceptr wish = spilt.first + ROOM + hint->offset_mib * MIB;
    tn_cu_deviceptr second = 0;
    tn_cu_memhandle other = contract_handle(2 * MIB);
    const tn_cu_location device = {.type = TN_CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    unsigned long long rights = 9;
    if (SHOWS(cuMemAddressReserve(&second, hint->mib * MIB, 0, wish, 0)) != TN_CUDA_SUCCESS)
        return;
    show_place(wish, second);
    STATE("its start");
    show_range(second, spilt.first);
    if (SHOWS(cuMemGetAccess(&rights, &device, second)) == TN_CUDA_SUCCESS)
        STATE("rights %llu", rights);
    if (!hint->open)
        contract_shows("cuMemSetAccess(", contract_access(spilt.mapping, BEFORE + SPILL, 3));
    SHOWS(cuMemsetD8(spilt.mapping, 5, BEFORE + SPILL));
    SHOWS(cuCtxSynchronize());
    STATE("mapped there");
    if (SHOWS(cuMemMap(second, 2 * MIB, 0, other, 0)) == TN_CUDA_SUCCESS)
        SHOWS(cuMemUnmap(second, 2 * MIB));
    STATE("freed");
    SHOWS(cuMemAddressFree(spilt.first, ROOM));
    tn_cu_result freed = SHOWS(cuMemAddressFree(second, hint->mib * MIB));
    STATE("unmapped");
    SHOWS(cuMemUnmap(second, hint->mib * MIB));
    SHOWS(cuMemUnmap(spilt.mapping, BEFORE + SPILL));
    if (freed != TN_CUDA_SUCCESS &&
        SHOWS(cuMemMap(second, 2 * MIB, 0, other, 0)) == TN_CUDA_SUCCESS)
        SHOWS(cuMemUnmap(second, 2 * MIB));
    SHOWS(cuMemRelease(spilt.handle));
    SHOWS(cuMemRelease(other));
    SHOWS(cuMemAddressFree(spilt.first, ROOM));
    if (freed != TN_CUDA_SUCCESS)
        SHOWS(cuMemAddressFree(second, hint->mib * MIB));
}

/* -- Memory that is there already -- */

enum kind { LINEAR, LINEAR_SMALL, POOL, HOST, KIND_COUNT };
static const char *const kind_names[KIND_COUNT] = {"linear", "linear-small", "pool", "host"};

static tn_cu_result allocate(enum kind kind, tn_cu_deviceptr *address)
{
    void *host = NULL;
    tn_cu_result result;
    switch (kind) {
    case LINEAR:
        return cu.cuMemAlloc(address, ROOM);
    case LINEAR_SMALL:
        return cu.cuMemAlloc(address, 4096);
    case POOL:
        return cu.cuMemAllocAsync(address, ROOM, TN_CU_STREAM_LEGACY);
    default:
        result = cu.cuMemHostAlloc(&host, ROOM, 0);
        *address = (tn_cu_deviceptr)(uintptr_t)host;
        return result;
    }
}

/* The nearest reservation that the driver gives before an address; 0 when it gives none. */
static tn_cu_deviceptr reserve_before(tn_cu_deviceptr address)
{
    for (tn_cu_deviceptr distance = ROOM; distance < NEAR; distance += 32 * MIB) {
        tn_cu_deviceptr got = 0;
        tn_cu_deviceptr wish = (address - distance) / (32 * MIB) * (32 * MIB);
        if (cu.cuMemAddressReserve(&got, ROOM, 0, wish, 0) != TN_CUDA_SUCCESS)
            return 0;
        if (got + ROOM <= address && address - got < NEAR)
            return got;
        SET_UP(cuMemAddressFree(got, ROOM));
    }
    return 0;
}

/* What is said of the memory: whether the range of its address is its own, and whether it can be used.
 * Where the driver put it differs from run to run. */
static void show_memory(tn_cu_deviceptr address, uint64_t own_id)
{
    tn_cu_deviceptr start = 0;
    size_t bytes = 0;
    uint64_t id = 0;
    uint32_t word = 0;
    if (SHOWS(cuMemGetAddressRange(&start, &bytes, address)) == TN_CUDA_SUCCESS)
        STATE("%s range", start == address ? "its own" : "another");
    if (SHOWS(cuPointerGetAttribute(&id, TN_CU_POINTER_BUFFER_ID, address)) == TN_CUDA_SUCCESS)
        STATE("%s buffer", id == own_id ? "its own" : "another");
    SHOWS(cuMemsetD32(address, 7, 1));
    if (SHOWS(cuMemcpyDtoH(&word, address, 4)) == TN_CUDA_SUCCESS)
        STATE("word %u", word);
}

static void run_over(const void *argument)
{
    enum kind kind = *(const enum kind *)argument;
    tn_cu_deviceptr address = 0;
    contract_needs_places();
    contract_set_up("allocate(", allocate(kind, &address), __FILE__, __LINE__);
    SET_UP(cuCtxSynchronize());
    uint64_t id = 0;
    SET_UP(cuPointerGetAttribute(&id, TN_CU_POINTER_BUFFER_ID, address));
    tn_cu_deviceptr first = reserve_before(address);
    if (first == 0) {
        STATE("no reservation lies before it");
        return;
    }
    size_t bytes = (address - (first + ROOM - 2 * MIB)) / (2 * MIB) * (2 * MIB) + 4 * MIB;
    STATE("a mapping over it");
    tn_cu_memhandle handle = contract_handle(bytes);
    tn_cu_deviceptr start = first + ROOM - 2 * MIB;
    if (SHOWS(cuMemMap(start, bytes, 0, handle, 0)) != TN_CUDA_SUCCESS)
        return;
    show_memory(address, id);
    contract_shows("cuMemSetAccess(", contract_access(start, bytes, 3));
    show_memory(address, id);
    SHOWS(cuMemsetD8(start, 3, bytes));
    SHOWS(cuCtxSynchronize());
    SHOWS(cuMemUnmap(start, bytes));
    show_memory(address, id);
    SHOWS(cuCtxSynchronize());
}

/* -- The cases -- */

struct spill_case {
    struct hint hint;
    enum kind kind;
    char name[64];
};

static const struct contract_case *make(size_t *count)
{
    static const size_t offsets[] = {0, 32, 64};
    static const size_t sizes[] = {32, 64, 96, 128};
    static struct spill_case data[64];
    static struct contract_case cases[64];
    *count = 0;
    for (size_t i = 0; i < 3 * 4 * 2; i++, *count += 1) {
        struct spill_case *c = &data[*count];
        c->hint = (struct hint){offsets[i / 8], sizes[i / 2 % 4], i % 2 == 1};
        snprintf(c->name, sizeof c->name, "hint-%zu.%zu.%s", c->hint.offset_mib, c->hint.mib,
                 c->hint.open ? "open" : "closed");
        cases[*count] = (struct contract_case)CASE(
            c->name, "A reservation is wished where a mapping spilt.", run_hint);
        cases[*count].argument = &c->hint;
    }
    for (int kind = 0; kind < KIND_COUNT; kind++, *count += 1) {
        struct spill_case *c = &data[*count];
        c->kind = (enum kind)kind;
        snprintf(c->name, sizeof c->name, "over.%s", kind_names[kind]);
        cases[*count] = (struct contract_case)CASE_ALONE(
            c->name, "A mapping runs past its reservation to memory that is there.", run_over);
        cases[*count].argument = &c->kind;
    }
    return cases;
}

const struct contract_group contract_spill = {
    .name = "spill", .start = START_CONTEXT, .make = make};
