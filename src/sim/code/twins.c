// SPDX-License-Identifier: Apache-2.0
/* twins.c -- the C twins of the library's own kernels.
 *
 * How it works. A single call does the whole grid and searches for no tiles. It goes through the
 * items one after the other, as far as the grid has tiles for them.
 *
 * Trade-offs. The checker does not learn which memory the twins touch: its addresses are in a table
 * in device memory. */
#include "sim/code/twins.h"

#include <string.h>

#include "abi/kernels.h"

static uint64_t word_at(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* The sum that the first bytes of an item, up to the end, add to its digest. */
static uint64_t digest(const unsigned char *from, uint64_t end, uint64_t bytes)
{
    uint64_t whole = bytes & ~(uint64_t)15;
    uint64_t limit = end < whole ? end : whole;
    uint64_t sum = 0;
    for (uint64_t at = 0; at < limit; at += 8)
        sum += tn_digest_term(word_at(from + at), at / 8);
    for (uint64_t at = limit; at < end; at++)
        sum += tn_digest_term(from[at], TN_DIGEST_TAIL | at);
    return sum;
}

void tn_sim_twin_contents(const tarn_sim_launch *launch, void *const *params)
{
    const struct tn_contents_item *items = *(struct tn_contents_item *const *)params[0];
    uint64_t *digests = *(uint64_t *const *)params[1];
    uint32_t count = *(const uint32_t *)params[2];
    uint32_t mode = *(const uint32_t *)params[3];
    uint32_t bits = *(const uint32_t *)params[4];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t live = items[i].live;
        uint64_t saved = items[i].saved;
        const unsigned char *from =
            (const unsigned char *)(uintptr_t)((mode & TN_CONTENTS_OUT) != 0 ? live : saved);
        unsigned char *to =
            (unsigned char *)(uintptr_t)((mode & TN_CONTENTS_OUT) != 0 ? saved : live);
        uint64_t tiles =
            launch->grid[0] > items[i].first_tile ? launch->grid[0] - items[i].first_tile : 0;
        uint64_t reach = tiles << bits;
        uint64_t end = reach < items[i].bytes ? reach : items[i].bytes;
        if ((mode & TN_CONTENTS_COPY) != 0)
            memcpy(to, from, end);
        if ((mode & TN_CONTENTS_DIGEST) != 0)
            digests[i] += digest(from, end, items[i].bytes);
    }
}

void tn_sim_twin_contents_begin(const tarn_sim_launch *launch, void *const *params)
{
    const struct tn_contents_item *given = *(const struct tn_contents_item *const *)params[0];
    struct tn_contents_item *items = *(struct tn_contents_item *const *)params[1];
    uint64_t *digests = *(uint64_t *const *)params[2];
    uint32_t count = *(const uint32_t *)params[3];
    for (uint32_t i = 0; i < count && i / launch->block[0] < launch->grid[0]; i++) {
        items[i] = given[i];
        digests[i] = 0;
    }
}
