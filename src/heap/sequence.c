// SPDX-License-Identifier: Apache-2.0
#include "heap/sequence.h"

#include "base/contract.h"

static atomic_uint_fast64_t last_sequence;

uint64_t tn_next_sequences(uint64_t count)
{
    TN_ASSERT(count > 0);
    return atomic_fetch_add_explicit(&last_sequence, count, memory_order_relaxed) + 1;
}

const atomic_uint_fast64_t *tn_sequence_counter(void)
{
    return &last_sequence;
}

uint64_t tn_next_sequence(void)
{
    return tn_next_sequences(1);
}
