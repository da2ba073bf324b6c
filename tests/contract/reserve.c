// SPDX-License-Identifier: Apache-2.0
/* reserve.c -- reserving addresses and giving them back. None of it needs a context. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "contract/contract.h"

#define KIB ((size_t)1 << 10)
#define GIB ((size_t)1 << 30)
#define TIB ((size_t)1 << 40)
#define PLACE UINT64_C(0x480000000000) /* where nothing lies */
#define SHARED_PLACE UINT64_C(0x400000000000)

#define RESERVE(bytes, alignment, hint)                                                            \
    GIVES(SUCCESS, cuMemAddressReserve(&address, bytes, alignment, hint, 0))
#define REFUSE(result, bytes, alignment, hint, flags)                                              \
    do {                                                                                           \
        tn_cu_deviceptr untouched = 7;                                                             \
        GIVES(result, cuMemAddressReserve(&untouched, bytes, alignment, hint, flags));             \
        HOLDS(untouched == 7, "the address is untouched");                                         \
    } while (0)

static void give_back(tn_cu_deviceptr address, size_t bytes)
{
    GIVES(SUCCESS, cuMemAddressFree(address, bytes));
}

/* Asks the system whether the process could read a byte. */
static bool readable(uint64_t address)
{
    int ends[2];
    if (pipe(ends) != 0)
        contract_give_up("no pipe");
    bool copied = write(ends[1], (const void *)address, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return copied;
}

/* Asks the system whether the process could map something at an address. */
static bool mappable(uint64_t address)
{
    void *got = mmap((void *)address, 4 * KIB, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    bool there = got == (void *)address;
    if (got != MAP_FAILED)
        munmap(got, 4 * KIB);
    return there;
}

CASE_BODY(ordinary)
{
    tn_cu_deviceptr address = 0;
    RESERVE(64 * MIB, 0, 0);
    HOLDS(address != 0 && address % (2 * MIB) == 0, "it is a multiple of 2 MiB");
    give_back(address, 64 * MIB);
}

CASE_BODY(size)
{
    static const size_t sizes[] = {0, 4 * KIB, 64 * KIB, MIB, 2 * MIB + 4 * KIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        STATE("%zu KiB", sizes[i] / KIB);
        REFUSE(INVALID_VALUE, sizes[i], 0, 0, 0);
    }
}

CASE_BODY(size_limit)
{
    contract_needs_places();
    tn_cu_deviceptr address = 0;
    STATE("64 TiB");
    RESERVE(64 * TIB, 0, 0);
    give_back(address, 64 * TIB);
    STATE("128 TiB");
    REFUSE(OUT_OF_MEMORY, 128 * TIB, 0, 0, 0);
}

CASE_BODY(alignment)
{
    static const size_t alignments[] = {1, 4 * KIB, 2 * MIB, 64 * MIB, GIB, TIB};
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        tn_cu_deviceptr address = 1;
        STATE("%zu KiB", alignments[i] / KIB);
        RESERVE(2 * MIB, alignments[i], 0);
        size_t least = alignments[i] < 2 * MIB ? 2 * MIB : alignments[i];
        HOLDS(address % least == 0, "a multiple of it and of 2 MiB");
        give_back(address, 2 * MIB);
    }
}

CASE_BODY(alignment_refused)
{
    STATE("3 bytes");
    REFUSE(INVALID_VALUE, 2 * MIB, 3, 0, 0);
    STATE("6 MiB");
    REFUSE(INVALID_VALUE, 12 * MIB, 6 * MIB, 0, 0);
}

CASE_BODY(arguments)
{
    STATE("flags");
    REFUSE(INVALID_VALUE, 2 * MIB, 0, 0, 1);
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuMemAddressReserve(NULL, 2 * MIB, 0, 0, 0));
}

CASE_BODY(hint_exact)
{
    contract_needs_places();
    static const size_t sizes[] = {32 * MIB, 34 * MIB, 64 * MIB, GIB, TIB, 8 * TIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tn_cu_deviceptr address = 0;
        STATE("%zu MiB", sizes[i] / MIB);
        RESERVE(sizes[i], 0, PLACE);
        HOLDS(address == PLACE, "it is where it was wished");
        give_back(address, sizes[i]);
    }
}

/* Less than 32 MiB are cut from pieces of 32 MiB. Where a piece at or behind the wish has room, that
 * is taken; else a new piece begins where the wish is. */
CASE_BODY(small_first)
{
    contract_needs_places();
    static const size_t sizes[] = {2 * MIB, 16 * MIB, 30 * MIB};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tn_cu_deviceptr address = 0;
        STATE("%zu MiB", sizes[i] / MIB);
        RESERVE(sizes[i], 0, PLACE);
        HOLDS(address == PLACE, "it is where it was wished");
        HOLDS(!mappable(PLACE + 32 * MIB - 4 * KIB) && mappable(PLACE + 32 * MIB),
              "it takes 32 MiB from the process");
        give_back(address, sizes[i]);
        HOLDS(mappable(PLACE), "all comes back");
    }
}

/* Reserves 2 MiB with a wish, both counted in MiB from PLACE. */
static tn_cu_deviceptr small(size_t wish, size_t place)
{
    tn_cu_deviceptr address = 0;
    STATE("2 MiB wished at %zu MiB", wish);
    RESERVE(2 * MIB, 0, PLACE + wish * MIB);
    HOLDS(address == PLACE + place * MIB, "are at %zu MiB", place);
    return address;
}

CASE_BODY(small_next)
{
    contract_needs_places();
    tn_cu_deviceptr addresses[20];
    for (size_t i = 0; i < 20; i++)
        addresses[i] = small(0, 2 * i);
    for (size_t i = 0; i < 20; i++)
        SET_UP(cuMemAddressFree(addresses[i], 2 * MIB));
}

CASE_BODY(small_between)
{
    contract_needs_places();
    tn_cu_deviceptr addresses[] = {small(2, 32), small(2, 34), small(16, 36)};
    for (size_t i = 0; i < 3; i++)
        SET_UP(cuMemAddressFree(addresses[i], 2 * MIB));
}

CASE_BODY(small_behind)
{
    contract_needs_places();
    tn_cu_deviceptr addresses[] = {small(0, 0), small(64, 64), small(64, 66)};
    for (size_t i = 0; i < 3; i++)
        SET_UP(cuMemAddressFree(addresses[i], 2 * MIB));
}

CASE_BODY(small_before)
{
    contract_needs_places();
    tn_cu_deviceptr large = 0;
    SET_UP(cuMemAddressReserve(&large, 64 * MIB, 0, PLACE, 0));
    HOLDS(large == PLACE, "64 MiB are at 0 MiB");
    tn_cu_deviceptr first = small(0, 64);
    GIVES(SUCCESS, cuMemAddressFree(large, 64 * MIB));
    tn_cu_deviceptr second = small(0, 66);
    SET_UP(cuMemAddressFree(first, 2 * MIB));
    SET_UP(cuMemAddressFree(second, 2 * MIB));
}

CASE_BODY(small_context)
{
    contract_needs_places();
    tn_cu_context context;
    tn_cu_deviceptr address = 0;
    SET_UP(cuDevicePrimaryCtxRetain(&context, 0));
    RESERVE(2 * MIB, 0, PLACE);
    HOLDS(address > PLACE + 64 * MIB, "it is far behind");
    give_back(address, 2 * MIB);
    SET_UP(cuDevicePrimaryCtxRelease(0));
}

CASE_BODY(hint_between)
{
    contract_needs_places();
    static const size_t offsets[] = {2 * MIB, 16 * MIB, 30 * MIB};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        tn_cu_deviceptr address = 0;
        STATE("%zu MiB after a boundary", offsets[i] / MIB);
        RESERVE(64 * MIB, 0, PLACE + offsets[i]);
        HOLDS(address == PLACE + 32 * MIB, "it is at the next boundary of 32 MiB");
        give_back(address, 64 * MIB);
    }
}

CASE_BODY(hint_refused)
{
    STATE("4 KiB off");
    REFUSE(INVALID_VALUE, 64 * MIB, 0, PLACE + 4 * KIB, 0);
    STATE("a small one, 4 KiB off");
    REFUSE(INVALID_VALUE, 2 * MIB, 0, PLACE + 4 * KIB, 0);
    STATE("64 KiB");
    REFUSE(INVALID_VALUE, 64 * MIB, 0, 0x10000, 0);
    STATE("no multiple of the alignment");
    REFUSE(INVALID_VALUE, 64 * MIB, GIB, PLACE + 32 * MIB, 0);
}

CASE_BODY(hint_aligned)
{
    contract_needs_places();
    tn_cu_deviceptr address = 0;
    RESERVE(64 * MIB, GIB, PLACE + 3 * GIB);
    HOLDS(address == PLACE + 3 * GIB, "it is where it was wished");
    give_back(address, 64 * MIB);
}

CASE_BODY(hint_limit)
{
    STATE("from 2^47 on");
    REFUSE(OUT_OF_MEMORY, 64 * MIB, 0, UINT64_C(1) << 47, 0);
    STATE("over 2^47");
    REFUSE(OUT_OF_MEMORY, 64 * MIB, 0, (UINT64_C(1) << 47) - 32 * MIB, 0);
}

/* Which range is taken when one is wished for at PLACE. */
CASE_BODY(hint_taken)
{
    contract_needs_places();
    tn_cu_deviceptr first = 0;
    tn_cu_deviceptr address = 0;
    SET_UP(cuMemAddressReserve(&first, 64 * MIB, 0, PLACE, 0));
    HOLDS(first == PLACE, "the first is where it was wished");
    STATE("the same place");
    RESERVE(64 * MIB, 0, PLACE);
    HOLDS(address == PLACE + 64 * MIB, "the second is behind it");
    give_back(address, 64 * MIB);
    STATE("its second half");
    RESERVE(64 * MIB, 0, PLACE + 32 * MIB);
    HOLDS(address == PLACE + 64 * MIB, "the second is behind it");
    give_back(address, 64 * MIB);
    STATE("before it, reaching into it");
    RESERVE(64 * MIB, 0, PLACE - 32 * MIB);
    HOLDS(address == PLACE + 64 * MIB, "the second is behind it");
    give_back(address, 64 * MIB);
    STATE("before it, reaching up to it");
    RESERVE(64 * MIB, 0, PLACE - 64 * MIB);
    HOLDS(address == PLACE - 64 * MIB, "it is where it was wished");
    give_back(address, 64 * MIB);
    give_back(first, 64 * MIB);
}

CASE_BODY(hint_over_host)
{
    contract_needs_places();
    void *host = mmap((void *)(PLACE + 32 * MIB), 4 * KIB, PROT_READ,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (host != (void *)(PLACE + 32 * MIB))
        contract_give_up("the place is taken");
    tn_cu_deviceptr address = 0;
    RESERVE(64 * MIB, 0, PLACE);
    HOLDS(address + 64 * MIB <= PLACE + 32 * MIB || address >= PLACE + 32 * MIB + 4 * KIB,
          "it avoids the host's memory");
    HOLDS(address != PLACE, "it is elsewhere");
    give_back(address, 64 * MIB);
    munmap(host, 4 * KIB);
}

CASE_BODY(hint_again)
{
    contract_needs_places();
    tn_cu_deviceptr address = 0;
    for (int i = 0; i < 3; i++) {
        RESERVE(64 * MIB, 0, PLACE);
        HOLDS(address == PLACE, "it is where it was wished");
        give_back(address, 64 * MIB);
    }
}

CASE_BODY(process_sees)
{
    tn_cu_deviceptr address = 0;
    RESERVE(64 * MIB, 0, PLACE);
    HOLDS(!mappable(address) && !mappable(address + 62 * MIB), "the process cannot map there");
    HOLDS(!readable(address) && !readable(address + 62 * MIB), "nor read there");
    give_back(address, 64 * MIB);
    HOLDS(mappable(address), "once it is free the process can map there");
}

CASE_BODY(free_refused)
{
    contract_needs_places();
    tn_cu_deviceptr first = 0;
    tn_cu_deviceptr second = 0;
    SET_UP(cuMemAddressReserve(&first, 64 * MIB, 0, PLACE, 0));
    SET_UP(cuMemAddressReserve(&second, 64 * MIB, 0, PLACE + 64 * MIB, 0));
    HOLDS(second == first + 64 * MIB, "two reservations are neighbours");
    STATE("too few bytes");
    GIVES(INVALID_VALUE, cuMemAddressFree(first, 62 * MIB));
    STATE("no byte");
    GIVES(INVALID_VALUE, cuMemAddressFree(first, 0));
    STATE("from the middle on");
    GIVES(INVALID_VALUE, cuMemAddressFree(first + 2 * MIB, 62 * MIB));
    STATE("both at once");
    GIVES(INVALID_VALUE, cuMemAddressFree(first, 128 * MIB));
    STATE("address 0");
    GIVES(INVALID_VALUE, cuMemAddressFree(0, 64 * MIB));
    STATE("as it is");
    give_back(first, 64 * MIB);
    STATE("twice");
    GIVES(INVALID_VALUE, cuMemAddressFree(first, 64 * MIB));
    give_back(second, 64 * MIB);
}

CASE_BODY(free_mapped)
{
    struct contract_mapped mapped = contract_map(2 * MIB);
    GIVES(INVALID_VALUE, cuMemAddressFree(mapped.address, mapped.bytes));
    SET_UP(cuMemUnmap(mapped.address, mapped.bytes));
    give_back(mapped.address, mapped.bytes);
    SET_UP(cuMemRelease(mapped.handle));
}

/* What the second process reports of a reservation. */
struct reserve_report {
    tn_cu_result result;
    tn_cu_deviceptr address;
};

int contract_helper_reserve_at(int socket)
{
    struct reserve_report report;
    memset(&report, 0, sizeof report);
    SET_UP(cuInit(0));
    report.result = cu.cuMemAddressReserve(&report.address, TIB, 0, SHARED_PLACE, 0);
    contract_send(socket, &report, sizeof report);
    char byte;
    contract_receive(socket, &byte, 1);
    return 0;
}

CASE_BODY(two_processes)
{
    contract_needs_places();
    tn_cu_deviceptr address = 0;
    struct reserve_report report;
    RESERVE(TIB, 0, SHARED_PLACE);
    HOLDS(address == SHARED_PLACE, "it is where it was wished");
    struct contract_process other = contract_process_start("reserve_at");
    contract_receive(other.socket, &report, sizeof report);
    contract_gives(TN_CUDA_SUCCESS, "cuMemAddressReserve(", report.result);
    HOLDS(report.address == SHARED_PLACE, "in the second process too");
    contract_send(other.socket, "", 1);
    contract_process_end(&other);
    give_back(address, TIB);
}

static const struct contract_case cases[] = {
    CASE("ordinary", "Addresses can be reserved and freed without a context.", ordinary),
    CASE("size", "A size that is 0 or no multiple of 2 MiB is refused.", size),
    CASE("size-limit", "64 TiB can be had in one piece; 128 TiB cannot.", size_limit),
    CASE("alignment", "An alignment that is a power of two is kept.", alignment),
    CASE("alignment-refused", "An alignment that is no power of two is refused.",
         alignment_refused),
    CASE("arguments", "Flags, and no place for the answer, are refused.", arguments),
    CASE("hint-exact", "A wish for 32 MiB or more at a multiple of 32 MiB is kept.", hint_exact),
    CASE("hint-between", "A wish off the multiples of 32 MiB is moved up to the next.",
         hint_between),
    CASE("hint-refused",
         "A wish that is no multiple of 2 MiB or of the alignment is an error, however small.",
         hint_refused),
    CASE("hint-aligned", "A wish at a multiple of a greater alignment is kept.", hint_aligned),
    CASE("hint-limit", "Addresses end at 2^47: a wish that reaches there is an error.", hint_limit),
    CASE("hint-taken", "A wish that touches a reservation is moved behind it.", hint_taken),
    CASE("hint-again", "What was freed can be had at the same address again.", hint_again),
    CASE("process-sees", "A reservation takes its addresses from the process.", process_sees),
    CASE("free-refused", "Only one whole reservation is freed, once.", free_refused),
    CASE("free-mapped", "A reservation with memory mapped in it is not freed.", free_mapped),
    CASE("two-processes", "Two processes get the same addresses for the same wish.", two_processes),
    CASE("small-first", "Less than 32 MiB take 32 MiB of the process, where they are wished.",
         small_first),
    CASE("small-next", "The next ones follow.", small_next),
    CASE("small-between", "A wish off the multiples of 32 MiB is moved up to the next.",
         small_between),
    CASE("small-behind", "A wish behind all others is kept.", small_behind),
    CASE("small-before", "A wish before others follows them, even when there is room before.",
         small_before),
    CASE_ALONE("hint-over-host", "A wish that touches memory of the process is moved away.",
               hint_over_host),
    CASE_ALONE("small-context", "A context has room at high addresses, which is taken.",
               small_context),
};
const struct contract_group contract_reserve = CONTRACT_GROUP("reserve", START_INIT, cases);
