// SPDX-License-Identifier: Apache-2.0
/* first.c -- what holds before anything has been made. */
#include "contract/contract.h"

static void before_init(const void *argument)
{
    (void)argument;
    tn_cu_deviceptr address = 7;
    int version = 0;
    GIVES(NOT_INITIALIZED, cuMemAddressReserve(&address, 64 * MIB, 0, 0, 0));
    HOLDS(address == 7, "the address is untouched");
    GIVES(SUCCESS, cuDriverGetVersion(&version));
    HOLDS(version >= 12040, "the version is 12.4 or later");
}

/* The tools of the other cases, used once each. */
static void tools(const void *argument)
{
    (void)argument;
    struct contract_mapped mapped = contract_map(2 * MIB);
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    struct contract_busy busy = contract_busy_begin();
    HOLDS(contract_busy_runs(&busy), "the held kernel runs");
    contract_busy_end(&busy);
    contract_fill(stream, mapped.address, 5, 1000);
    contract_add(stream, mapped.address + 4, 2);
    contract_copy(stream, mapped.address + 8000, mapped.address, 1000);
    GIVES(SUCCESS, cuStreamSynchronize(stream));
    HOLDS(contract_word(mapped.address, 999) == 5, "filled");
    HOLDS(contract_word(mapped.address, 2001) == 7, "added and copied");
    SET_UP(cuStreamDestroy(stream));
    contract_unmap(mapped);
}

static const struct contract_case tool_cases[] = {
    CASE("tools", "A kernel runs until it is told to end; kernels fill, add and copy.", tools),
};
const struct contract_group contract_tools = CONTRACT_GROUP("tools", START_CONTEXT, tool_cases);

static const struct contract_case cases[] = {
    CASE_ALONE("before-init", "Before cuInit only the version can be asked for.", before_init),
};
const struct contract_group contract_first = CONTRACT_GROUP("first", START_NOTHING, cases);
