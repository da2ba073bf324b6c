// SPDX-License-Identifier: Apache-2.0
#include "heap/chunk_set.h"

#include "base/contract.h"
#include "base/host.h"

bool tn_chunk_set_reserve(struct tn_chunk_set *set, size_t count)
{
    bool grown =
        tn_host_grow((void **)&set->words, &set->word_count,
                     (count + TN_CHUNK_SET_BITS - 1) / TN_CHUNK_SET_BITS, sizeof *set->words);

    TN_ASSERT(!grown || set->word_count * TN_CHUNK_SET_BITS >= count);
    return grown;
}

void tn_chunk_set_free(struct tn_chunk_set *set)
{
    TN_ASSERT(set->word_count == 0 || set->words != NULL);
    tn_host_free(set->words);
    *set = (struct tn_chunk_set){.words = NULL};
}
