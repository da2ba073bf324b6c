// SPDX-License-Identifier: Apache-2.0
#include "heap/tally.h"

#include "base/contract.h"

static void raise(uint64_t *peak, uint64_t amount)
{
    if ((int64_t)amount > (int64_t)*peak)
        *peak = amount;
}

void tn_heap_counters_raise(struct tn_heap_counters *counters, uint64_t bytes, uint64_t requested)
{
    const struct tn_tally *allocated = &counters->allocated;
    const struct tn_tally *freed = &counters->freed;

    TN_ASSERT(tn_heap_counters_rise(counters, bytes));
    counters->peak.bytes = allocated->bytes - freed->bytes + bytes;
    raise(&counters->peak.count, allocated->count - freed->count + 1);
    raise(&counters->peak.requested, allocated->requested - freed->requested + requested);
}
