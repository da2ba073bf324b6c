// SPDX-License-Identifier: Apache-2.0
/* linear.c -- cuMemAlloc: what it costs, where it lies, and what is no allocation.
 *
 * The driver cuts allocations of up to 2 MiB from blocks of 2 MiB. The cases of that are scripts: a
 * list of allocations and frees by slot, each with the device memory that it takes or gives and,
 * for an allocation, the slot whose block it shares and its offset in the block. */
#include <stdlib.h>

#include "contract/contract.h"

#define KIB ((size_t)1 << 10)
#define SLOTS 16
#define FREE 0 /* bytes: the slot is freed */

/* -- Costs -- */

struct cost {
    size_t bytes;
    size_t taken;
};

CASE_BODY(costs)
{
    static const struct cost costs[] = {
        {1, 2 * MIB},       {512, 2 * MIB},       {64 * KIB, 2 * MIB},      {MIB, 2 * MIB},
        {MIB + 1, 2 * MIB}, {2 * MIB, 2 * MIB},   {2 * MIB + 1, 4 * MIB},   {3 * MIB, 4 * MIB},
        {5000000, 6 * MIB}, {32 * MIB, 32 * MIB}, {32 * MIB + 1, 34 * MIB}, {100 * MIB, 100 * MIB},
    };
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        tn_cu_deviceptr address = 0;
        STATE("%zu bytes", costs[i].bytes);
        size_t before = contract_free_bytes();
        GIVES(SUCCESS, cuMemAlloc(&address, costs[i].bytes));
        HOLDS(before - contract_free_bytes() == costs[i].taken, "take %zu MiB",
              costs[i].taken / MIB);
        HOLDS(contract_attribute(address, TN_CU_POINTER_MAPPING_SIZE) == costs[i].taken,
              "which is their block");
        HOLDS(contract_attribute(address, TN_CU_POINTER_MAPPING_BASE) == address &&
                  address % (2 * MIB) == 0,
              "at its start");
        GIVES(SUCCESS, cuMemFree(address));
        HOLDS(before == contract_free_bytes(), "all comes back");
    }
}

/* How many of a size fit in one block. */
static void fill_block(const void *argument)
{
    const struct cost *cost = argument; /* taken: bytes from one to the next */
    size_t count = 2 * MIB / cost->taken;
    tn_cu_deviceptr *addresses = calloc(count + 1, sizeof *addresses);
    if (addresses == NULL)
        contract_give_up("no memory");
    size_t before = contract_free_bytes();
    bool packed = true;
    for (size_t i = 0; i < count; i++) {
        SET_UP(cuMemAlloc(&addresses[i], cost->bytes));
        packed = packed && addresses[i] == addresses[0] + i * cost->taken;
    }
    HOLDS(packed, "%zu of %zu bytes lie %zu bytes apart", count, cost->bytes, cost->taken);
    HOLDS(before - contract_free_bytes() == 2 * MIB, "they take 2 MiB");
    GIVES(SUCCESS, cuMemAlloc(&addresses[count], cost->bytes));
    HOLDS(before - contract_free_bytes() == 4 * MIB, "one more takes another 2 MiB");
    for (size_t i = 0; i + 1 < count; i++)
        SET_UP(cuMemFree(addresses[i]));
    HOLDS(before - contract_free_bytes() == 4 * MIB, "a block stays as long as one of them");
    GIVES(SUCCESS, cuMemFree(addresses[count - 1]));
    HOLDS(before - contract_free_bytes() == 2 * MIB, "and goes with the last");
    GIVES(SUCCESS, cuMemFree(addresses[count]));
    HOLDS(before == contract_free_bytes(), "all comes back");
    free(addresses);
}

static const struct cost fill_1 = {1, 512};
static const struct cost fill_512 = {512, 512};
static const struct cost fill_513 = {513, 1024};
static const struct cost fill_4096 = {4096, 4096};
static const struct cost fill_512k = {512 * KIB, 512 * KIB};
static const struct cost fill_1m = {MIB, MIB};

/* -- Scripts -- */

struct step {
    size_t slot;
    size_t bytes; /* FREE: frees the slot */
    int mib;      /* taken, or given when it frees */
    size_t with;  /* the slot, this one included, whose block it lies in */
    size_t offset;
};

struct script {
    const struct step *steps;
    size_t count;
};
#define SCRIPT(steps)                                                                              \
    {                                                                                              \
        steps, sizeof(steps) / sizeof(steps)[0]                                                    \
    }

static void play(const void *argument)
{
    const struct script *script = argument;
    tn_cu_deviceptr addresses[SLOTS] = {0};
    uint64_t blocks[SLOTS] = {0};
    size_t first = contract_free_bytes();
    for (size_t i = 0; i < script->count; i++) {
        const struct step *step = &script->steps[i];
        size_t slot = step->slot;
        size_t before = contract_free_bytes();
        if (step->bytes == FREE) {
            SET_UP(cuMemFree(addresses[slot]));
            addresses[slot] = 0;
            HOLDS(contract_free_bytes() - before == (size_t)step->mib * MIB,
                  "freeing %zu gives %d MiB", slot, step->mib);
            continue;
        }
        SET_UP(cuMemAlloc(&addresses[slot], step->bytes));
        blocks[slot] = contract_attribute(addresses[slot], TN_CU_POINTER_MEMORY_BLOCK_ID);
        HOLDS(before - contract_free_bytes() == (size_t)step->mib * MIB,
              "%zu bytes as %zu take %d MiB", step->bytes, slot, step->mib);
        HOLDS(blocks[slot] == blocks[step->with], "in the block of %zu", step->with);
        HOLDS(addresses[slot] - contract_attribute(addresses[slot], TN_CU_POINTER_MAPPING_BASE) ==
                  step->offset,
              "at %zu", step->offset);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        if (addresses[i] != 0)
            SET_UP(cuMemFree(addresses[i]));
    }
    HOLDS(first == contract_free_bytes(), "all comes back");
}

/* Sizes up to 2 MiB share blocks; greater ones have blocks of their own. */
static const struct step mixed_steps[] = {
    {0, 512, 2, 0, 0},           {1, 512, 0, 0, 512},      {2, 1048576, 0, 0, 1024},
    {3, 1000000, 0, 0, 1049600}, {4, 524288, 2, 4, 0},     {5, 100, 0, 0, 2050048},
    {6, 1500000, 0, 4, 524288},  {7, 300000, 2, 7, 0},     {8, 3145728, 4, 8, 0},
    {9, 512, 0, 0, 2050560},     {10, 4194304, 4, 10, 0},  {11, 65536, 0, 4, 2024448},
    {1, FREE, 0, 0, 0},          {12, 300, 0, 0, 512},     {0, FREE, 0, 0, 0},
    {2, FREE, 0, 0, 0},          {13, 700000, 0, 3, 1024}, {3, FREE, 0, 0, 0},
    {4, FREE, 0, 0, 0},          {5, FREE, 0, 0, 0},       {6, FREE, 0, 0, 0},
    {7, FREE, 2, 0, 0},          {8, FREE, 4, 0, 0},       {9, FREE, 0, 0, 0},
    {10, FREE, 4, 0, 0},         {11, FREE, 2, 0, 0},      {12, FREE, 0, 0, 0},
    {13, FREE, 2, 0, 0},
};
static const struct script mixed = SCRIPT(mixed_steps);

/* The smallest hole that fits is taken, in whatever block. */
static const struct step best_block_steps[] = {
    {0, 1048576, 2, 0, 0},      {1, 1048576, 0, 0, 1048576}, {2, 524288, 2, 2, 0},
    {3, 1048576, 0, 2, 524288}, {4, 524288, 0, 2, 1572864},  {1, FREE, 0, 0, 0},
    {2, FREE, 0, 0, 0},         {5, 524288, 0, 3, 0},
};
static const struct script best_block = SCRIPT(best_block_steps);

static const struct step best_hole_steps[] = {
    {0, 1048576, 2, 0, 0}, {1, 524288, 0, 0, 1048576}, {2, 524288, 0, 0, 1572864},
    {0, FREE, 0, 0, 0},    {2, FREE, 0, 0, 0},         {3, 524288, 0, 1, 1572864},
};
static const struct script best_hole = SCRIPT(best_hole_steps);

static const struct step best_small_steps[] = {
    {0, 524288, 2, 0, 0}, {1, 524288, 0, 0, 524288}, {2, 1048576, 0, 0, 1048576},
    {0, FREE, 0, 0, 0},   {2, FREE, 0, 0, 0},        {3, 262144, 0, 1, 0},
};
static const struct script best_small = SCRIPT(best_small_steps);

/* Of equal holes the one that was made first is taken. */
static const struct step oldest_steps[] = {
    {0, 1048576, 2, 0, 0},       {1, 1048576, 0, 0, 1048576}, {2, 1048576, 2, 2, 0},
    {3, 1048576, 0, 2, 1048576}, {4, 1048576, 2, 4, 0},       {5, 1048576, 0, 4, 1048576},
    {5, FREE, 0, 0, 0},          {1, FREE, 0, 0, 0},          {3, FREE, 0, 0, 0},
    {6, 1048576, 0, 4, 1048576}, {7, 1048576, 0, 0, 1048576}, {8, 1048576, 0, 2, 1048576},
};
static const struct script oldest = SCRIPT(oldest_steps);

/* A block for 2 MiB has no room to share. */
static const struct step large_steps[] = {
    {0, 3145728, 4, 0, 0},      {1, 512, 2, 1, 0},     {2, 524288, 0, 1, 512},
    {3, 1048576, 0, 1, 524800}, {4, 2097152, 2, 4, 0}, {5, 1048577, 2, 5, 0},
    {6, 524288, 0, 5, 1049088},
};
static const struct script large = SCRIPT(large_steps);

/* -- What is refused -- */

CASE_BODY(alloc_refused)
{
    tn_cu_deviceptr address = 7;
    STATE("no byte");
    GIVES(INVALID_VALUE, cuMemAlloc(&address, 0));
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemAlloc(NULL, 512));
    STATE("2^50 bytes");
    GIVES(OUT_OF_MEMORY, cuMemAlloc(&address, (size_t)1 << 50));
    STATE("2^64 - 1 bytes");
    GIVES(OUT_OF_MEMORY, cuMemAlloc(&address, SIZE_MAX));
    STATE("10 TiB");
    GIVES(OUT_OF_MEMORY, cuMemAlloc(&address, (size_t)10 << 40));
    STATE("the address is %s", address == 7 ? "untouched" : address == 0 ? "0" : "something");
}

CASE_BODY(free_refused)
{
    struct contract_mapped mapped = contract_map(2 * MIB);
    tn_cu_deviceptr address;
    tn_cu_deviceptr reservation;
    void *host;
    int local;
    SET_UP(cuMemAlloc(&address, 4096));
    SET_UP(cuMemAddressReserve(&reservation, 2 * MIB, 0, 0, 0));
    SET_UP(cuMemHostAlloc(&host, 4096, 0));
    STATE("address 0");
    GIVES(SUCCESS, cuMemFree(0));
    STATE("the middle");
    GIVES(INVALID_VALUE, cuMemFree(address + 512));
    STATE("the end");
    GIVES(INVALID_VALUE, cuMemFree(address + 4096));
    STATE("memory of the process");
    GIVES(INVALID_VALUE, cuMemFree((uintptr_t)&local));
    STATE("page-locked memory");
    GIVES(INVALID_VALUE, cuMemFree((uintptr_t)host));
    STATE("a reservation");
    GIVES(INVALID_VALUE, cuMemFree(reservation));
    STATE("a mapping");
    GIVES(INVALID_VALUE, cuMemFree(mapped.address));
    GIVES(SUCCESS, cuMemFree(address));
    STATE("twice");
    GIVES(INVALID_VALUE, cuMemFree(address));
    SET_UP(cuMemFreeHost(host));
    SET_UP(cuMemAddressFree(reservation, 2 * MIB));
    contract_unmap(mapped);
}

/* -- Memory that is free -- */

CASE_BODY(info)
{
    size_t free_bytes = 0;
    size_t total = 0;
    size_t device_total = 0;
    GIVES(SUCCESS, cuMemGetInfo(&free_bytes, &total));
    HOLDS(free_bytes > 0 && free_bytes < total, "some is free and some is not");
    SET_UP(cuDeviceTotalMem(&device_total, 0));
    HOLDS(total == device_total, "in all it is the device's");
}

CASE_BODY(info_parts)
{
    size_t bytes = 7;
    STATE("the free part");
    GIVES(SUCCESS, cuMemGetInfo(&bytes, NULL));
    STATE("the total");
    GIVES(SUCCESS, cuMemGetInfo(NULL, &bytes));
    STATE("neither");
    GIVES(SUCCESS, cuMemGetInfo(NULL, NULL));
}

/* -- Waiting -- */

CASE_BODY(free_nothing_waits)
{
    struct contract_busy busy = contract_busy_begin();
    GIVES(SUCCESS, cuMemFree(0));
    bool runs = contract_busy_runs(&busy);
    HOLDS(runs, "the other stream's kernel still runs");
    contract_busy_end(&busy);
}

static const struct contract_case cases[] = {
    CASE("costs", "An allocation costs a multiple of 2 MiB, where none is shared.", costs),
    CASE_OF("fill-1", "Single bytes lie 512 bytes apart.", fill_block, &fill_1),
    CASE_OF("fill-512", "512 bytes lie side by side.", fill_block, &fill_512),
    CASE_OF("fill-513", "513 bytes take 1024.", fill_block, &fill_513),
    CASE_OF("fill-4096", "4 KiB lie side by side.", fill_block, &fill_4096),
    CASE_OF("fill-512k", "512 KiB lie side by side.", fill_block, &fill_512k),
    CASE_OF("fill-1m", "Two of 1 MiB share a block.", fill_block, &fill_1m),
    CASE_OF("mixed", "Allocations of up to 2 MiB share blocks.", play, &mixed),
    CASE_OF("best-block", "The block with the smallest hole that fits is taken.", play,
            &best_block),
    CASE_OF("best-hole", "In a block the smallest hole that fits is taken.", play, &best_hole),
    CASE_OF("best-small", "A hole is filled from its start.", play, &best_small),
    CASE_OF("oldest", "Of equal holes the oldest is taken.", play, &oldest),
    CASE_OF("large", "What is greater than 2 MiB shares nothing.", play, &large),
    CASE("alloc-refused", "Nothing, and too much, cannot be had.", alloc_refused),
    CASE("free-refused", "Only a whole allocation is freed, once.", free_refused),
    CASE("info", "The device's memory, and what of it is free.", info),
    CASE("info-parts", "Either may be asked for alone.", info_parts),
    CASE("free-nothing-waits", "Freeing nothing waits for nothing.", free_nothing_waits),
};
const struct contract_group contract_linear = CONTRACT_GROUP("linear", START_CONTEXT, cases);
