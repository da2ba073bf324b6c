// SPDX-License-Identifier: Apache-2.0
/* pointer_calls.c -- the calls that ask about an address: their arguments, and what tells one
 * mapping or allocation from another. */
#include "contract/contract.h"

#define INSIDE 100 /* the offset of the address that is asked about */

CASE_BODY(single_refused)
{
    struct contract_mapped mapped = contract_map(2 * MIB);
    uint64_t value = 7;
    STATE("nowhere to put it");
    GIVES(INVALID_VALUE, cuPointerGetAttribute(NULL, TN_CU_POINTER_MAPPED, mapped.address));
    STATE("attribute 0");
    GIVES(INVALID_VALUE, cuPointerGetAttribute(&value, (tn_cu_pointer_attribute)0, mapped.address));
    STATE("attribute 999");
    GIVES(INVALID_VALUE,
          cuPointerGetAttribute(&value, (tn_cu_pointer_attribute)999, mapped.address));
    HOLDS(value == 7, "the value is untouched");
    contract_unmap(mapped);
}

CASE_BODY(plural)
{
    struct contract_mapped mapped = contract_map(2 * MIB);
    tn_cu_pointer_attribute asked[] = {TN_CU_POINTER_MAPPED, TN_CU_POINTER_RANGE_START,
                                       TN_CU_POINTER_HOST_POINTER, TN_CU_POINTER_MAPPING_SIZE};
    unsigned int is_mapped = 7;
    tn_cu_deviceptr start = 7;
    void *host = &start;
    size_t bytes = 7;
    void *places[] = {&is_mapped, &start, &host, &bytes};
    GIVES(SUCCESS, cuPointerGetAttributes(4, asked, places, mapped.address + INSIDE));
    HOLDS(is_mapped == 1 && start == mapped.address && bytes == 2 * MIB, "the values");
    HOLDS(host == NULL, "what the single form refuses is 0");
    contract_unmap(mapped);
}

CASE_BODY(plural_refused)
{
    struct contract_mapped mapped = contract_map(2 * MIB);
    tn_cu_pointer_attribute asked[] = {TN_CU_POINTER_MAPPED};
    tn_cu_pointer_attribute unknown[] = {(tn_cu_pointer_attribute)999};
    uint64_t value = 7;
    void *places[] = {&value};
    STATE("none");
    GIVES(INVALID_VALUE, cuPointerGetAttributes(0, asked, places, mapped.address));
    STATE("attribute 999");
    GIVES(INVALID_VALUE, cuPointerGetAttributes(1, unknown, places, mapped.address));
    STATE("no attributes");
    GIVES(INVALID_VALUE, cuPointerGetAttributes(1, NULL, places, mapped.address));
    STATE("no places");
    GIVES(INVALID_VALUE, cuPointerGetAttributes(1, asked, NULL, mapped.address));
    HOLDS(value == 7, "the value is untouched");
    contract_unmap(mapped);
}

CASE_BODY(set_attribute)
{
    const unsigned int on = 1;
    const unsigned int off = 0;
    tn_cu_deviceptr address;
    SET_UP(cuMemAlloc(&address, 4096));
    GIVES(SUCCESS, cuPointerSetAttribute(&on, TN_CU_POINTER_SYNC_MEMOPS, address));
    HOLDS(contract_attribute(address, TN_CU_POINTER_SYNC_MEMOPS) == 1, "it is on");
    GIVES(SUCCESS, cuPointerSetAttribute(&off, TN_CU_POINTER_SYNC_MEMOPS, address));
    HOLDS(contract_attribute(address, TN_CU_POINTER_SYNC_MEMOPS) == 0, "it is off");
    STATE("another attribute");
    GIVES(INVALID_VALUE, cuPointerSetAttribute(&on, TN_CU_POINTER_MAPPED, address));
    STATE("no value");
    GIVES(INVALID_VALUE, cuPointerSetAttribute(NULL, TN_CU_POINTER_SYNC_MEMOPS, address));
    STATE("address 0");
    GIVES(INVALID_VALUE, cuPointerSetAttribute(&on, TN_CU_POINTER_SYNC_MEMOPS, 0));
    SET_UP(cuMemFree(address));
}

CASE_BODY(set_attribute_mapping)
{
    const unsigned int on = 1;
    struct contract_mapped mapped = contract_map(2 * MIB);
    GIVES(NOT_SUPPORTED, cuPointerSetAttribute(&on, TN_CU_POINTER_SYNC_MEMOPS, mapped.address));
    STATE("another attribute");
    GIVES(NOT_SUPPORTED, cuPointerSetAttribute(&on, TN_CU_POINTER_MAPPED, mapped.address));
    STATE("no value");
    GIVES(INVALID_VALUE, cuPointerSetAttribute(NULL, TN_CU_POINTER_SYNC_MEMOPS, mapped.address));
    contract_unmap(mapped);
}

/* Shows the two identities of a mapping beside those of before. */
static void identities(tn_cu_deviceptr address, uint64_t buffer, uint64_t block, bool same_buffer,
                       bool same_block)
{
    HOLDS((contract_attribute(address, TN_CU_POINTER_BUFFER_ID) == buffer) == same_buffer,
          "%s BUFFER_ID", same_buffer ? "the same" : "another");
    HOLDS((contract_attribute(address, TN_CU_POINTER_MEMORY_BLOCK_ID) == block) == same_block,
          "%s MEMORY_BLOCK_ID", same_block ? "the same" : "another");
}

CASE_BODY(identity)
{
    struct contract_mapped mapped = contract_map(2 * MIB);
    tn_cu_deviceptr alias;
    uint64_t buffer = contract_attribute(mapped.address, TN_CU_POINTER_BUFFER_ID);
    uint64_t block = contract_attribute(mapped.address, TN_CU_POINTER_MEMORY_BLOCK_ID);
    tn_cu_memhandle other = contract_handle(2 * MIB);
    SET_UP(cuMemAddressReserve(&alias, 2 * MIB, 0, 0, 0));
    STATE("with other access");
    contract_access(mapped.address, 2 * MIB, TN_CU_MEM_ACCESS_READ);
    identities(mapped.address, buffer, block, true, true);
    STATE("an alias");
    SET_UP(cuMemMap(alias, 2 * MIB, 0, mapped.handle, 0));
    identities(alias, buffer, block, false, true);
    SET_UP(cuMemUnmap(alias, 2 * MIB));
    STATE("mapped again");
    SET_UP(cuMemUnmap(mapped.address, 2 * MIB));
    SET_UP(cuMemMap(mapped.address, 2 * MIB, 0, mapped.handle, 0));
    identities(mapped.address, buffer, block, false, true);
    STATE("other memory");
    SET_UP(cuMemUnmap(mapped.address, 2 * MIB));
    SET_UP(cuMemMap(mapped.address, 2 * MIB, 0, other, 0));
    identities(mapped.address, buffer, block, false, false);
    SET_UP(cuMemRelease(other));
    SET_UP(cuMemAddressFree(alias, 2 * MIB));
    contract_unmap(mapped);
}

CASE_BODY(identity_linear)
{
    tn_cu_deviceptr first;
    tn_cu_deviceptr second;
    SET_UP(cuMemAlloc(&first, 512));
    SET_UP(cuMemAlloc(&second, 512));
    identities(second, contract_attribute(first, TN_CU_POINTER_BUFFER_ID),
               contract_attribute(first, TN_CU_POINTER_MEMORY_BLOCK_ID), false, true);
    uint64_t before = contract_attribute(second, TN_CU_POINTER_BUFFER_ID);
    SET_UP(cuMemFree(second));
    SET_UP(cuMemAlloc(&second, 512));
    HOLDS(contract_attribute(second, TN_CU_POINTER_BUFFER_ID) != before,
          "no BUFFER_ID comes twice");
    SET_UP(cuMemFree(first));
    SET_UP(cuMemFree(second));
}

/* Asks for the range around an address. */
static void range_is(const char *what, tn_cu_deviceptr address, tn_cu_deviceptr start, size_t size)
{
    tn_cu_deviceptr base = 7;
    size_t bytes = 7;
    STATE("%s", what);
    GIVES(SUCCESS, cuMemGetAddressRange(&base, &bytes, address));
    HOLDS(base == start && bytes == size, "its start and its %zu bytes", size);
}

static void no_range(const char *what, tn_cu_deviceptr address)
{
    tn_cu_deviceptr base = 7;
    size_t bytes = 7;
    STATE("%s", what);
    GIVES(NOT_FOUND, cuMemGetAddressRange(&base, &bytes, address));
}

CASE_BODY(address_range)
{
    static _Alignas(4096) char page[2 * 4096];
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct contract_mapped mapped = contract_map(4 * MIB);
    tn_cu_deviceptr linear;
    tn_cu_deviceptr ordered;
    void *host;
    SET_UP(cuMemAlloc(&linear, 1000));
    SET_UP(cuMemAllocAsync(&ordered, 1000, stream));
    SET_UP(cuMemHostAlloc(&host, 1000, 0));
    SET_UP(cuMemHostRegister(page, 4096, 0));
    range_is("a mapping", mapped.address + INSIDE, mapped.address, 4 * MIB);
    range_is("linear memory", linear + INSIDE, linear, 1000);
    range_is("stream-ordered memory", ordered + INSIDE, ordered, 1000);
    range_is("page-locked memory", (uintptr_t)host + INSIDE, (uintptr_t)host, 1000);
    range_is("registered memory", (uintptr_t)page + INSIDE, (uintptr_t)page, 4096);
    SET_UP(cuMemHostUnregister(page));
    SET_UP(cuMemFreeHost(host));
    SET_UP(cuMemFreeAsync(ordered, stream));
    SET_UP(cuMemFree(linear));
    SET_UP(cuStreamSynchronize(stream));
    SET_UP(cuStreamDestroy(stream));
    contract_unmap(mapped);
}

CASE_BODY(address_range_mapping)
{
    tn_cu_deviceptr base;
    tn_cu_memhandle handle[2];
    SET_UP(cuMemAddressReserve(&base, 64 * MIB, 0, 0, 0));
    for (size_t i = 0; i < 2; i++) {
        handle[i] = contract_handle(2 * MIB);
        SET_UP(cuMemMap(base + i * 2 * MIB, 2 * MIB, 0, handle[i], 0));
    }
    contract_set_up("cuMemSetAccess(", contract_access(base, 4 * MIB, 3), __FILE__, __LINE__);
    range_is("the second of two neighbours", base + 3 * MIB, base + 2 * MIB, 2 * MIB);
    SET_UP(cuMemUnmap(base, 4 * MIB));
    for (size_t i = 0; i < 2; i++)
        SET_UP(cuMemRelease(handle[i]));
    SET_UP(cuMemAddressFree(base, 64 * MIB));
}

CASE_BODY(address_range_nowhere)
{
    int local;
    tn_cu_deviceptr linear;
    tn_cu_deviceptr reservation;
    SET_UP(cuMemAlloc(&linear, 1000));
    SET_UP(cuMemAddressReserve(&reservation, 2 * MIB, 0, 0, 0));
    no_range("address 0", 0);
    no_range("memory of the process", (uintptr_t)&local);
    no_range("the end of an allocation", linear + 1000);
    no_range("a reservation", reservation);
    SET_UP(cuMemFree(linear));
    no_range("freed memory", linear);
    SET_UP(cuMemAddressFree(reservation, 2 * MIB));
}

CASE_BODY(address_range_parts)
{
    tn_cu_deviceptr linear;
    tn_cu_deviceptr base = 7;
    size_t bytes = 7;
    SET_UP(cuMemAlloc(&linear, 1000));
    STATE("the start");
    GIVES(SUCCESS, cuMemGetAddressRange(&base, NULL, linear + INSIDE));
    STATE("the size");
    GIVES(SUCCESS, cuMemGetAddressRange(NULL, &bytes, linear + INSIDE));
    HOLDS(base == linear && bytes == 1000, "both are right");
    STATE("neither");
    GIVES(SUCCESS, cuMemGetAddressRange(NULL, NULL, linear));
    STATE("neither, of address 0");
    GIVES(SUCCESS, cuMemGetAddressRange(NULL, NULL, 0));
    SET_UP(cuMemFree(linear));
}

static const struct contract_case cases[] = {
    CASE("single-refused", "Unknown attributes are refused.", single_refused),
    CASE("plural", "Several attributes are answered at once.", plural),
    CASE("plural-refused", "Unknown attributes, and none, are refused.", plural_refused),
    CASE("set-attribute", "Linear memory can be made to wait for copies.", set_attribute),
    CASE("set-attribute-mapping", "A mapping cannot be made to wait for copies.",
         set_attribute_mapping),
    CASE("identity", "Two numbers tell remapping and aliases apart.", identity),
    CASE("identity-linear", "Small linear allocations share a block.", identity_linear),
    CASE("address-range", "The range of an address is what was allocated.", address_range),
    CASE("address-range-mapping", "The range of a mapped address is its mapping.",
         address_range_mapping),
    CASE("address-range-nowhere", "Addresses without memory have no range.", address_range_nowhere),
    CASE("address-range-parts", "The start and the size can be asked for alone.",
         address_range_parts),
};
const struct contract_group contract_pointer_calls =
    CONTRACT_GROUP("pointer_calls", START_CONTEXT, cases);
