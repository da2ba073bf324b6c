// SPDX-License-Identifier: Apache-2.0
/* A block is known by its sequence number, which is never used again. Two tables, from the blocks
 * of the one graph to blocks of the other and back, are the bijection. Blocks that both graphs name
 * at the same place enter it first, each as its own counterpart: where a single address has
 * changed, the result names this address, and not all others of its block. Only blocks that also
 * contain a differing address matter here. They are put in order, and every common address is
 * looked for among them. */
#include "inspect/correspond.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "inspect/standing.h"

/* From a block to its counterpart, by sequence number. */
struct rule {
    uint64_t key; /* 0: an empty place */
    uint64_t value;
};

struct matching {
    tarn_graph_difference *differences;
    size_t count;
    size_t pointer_count; /* differences of two addresses among them; not 0 */
    /* Two for each of these differences, in their order, as in the next two. */
    struct tn_reference *addresses;
    struct tn_standings standings; /* of the addresses */
    /* The blocks found, once for each time that one was found, in order of address. */
    tarn_block *blocks;
    size_t block_count;
    /* From a block of one graph to a block of the other, and back. */
    struct rule *rules[2];
    size_t rule_capacity; /* of each table; a power of two */
};

static bool reserve(struct matching *matching)
{
    size_t pointers = matching->pointer_count;

    /* A difference has three blocks at most: its two, each as its own counterpart, or as the
     * other's. The tables are at most half full. */
    matching->rule_capacity = (size_t)16 << tn_log2_floor(pointers);
    matching->addresses = tn_host_alloc(2 * pointers, sizeof *matching->addresses);
    matching->blocks = tn_host_alloc_unset(2 * pointers, sizeof *matching->blocks);
    for (int i = 0; i < 2; i++)
        matching->rules[i] = tn_host_alloc(matching->rule_capacity, sizeof *matching->rules[i]);
    return matching->addresses != NULL && matching->blocks != NULL && matching->rules[0] != NULL &&
           matching->rules[1] != NULL;
}

static void drop(struct matching *matching)
{
    tn_host_free(matching->addresses);
    tn_standings_drop(&matching->standings);
    tn_host_free(matching->blocks);
    tn_host_free(matching->rules[0]);
    tn_host_free(matching->rules[1]);
}

static int compare_blocks(const void *a, const void *b)
{
    uint64_t first = (uint64_t)(uintptr_t)((const tarn_block *)a)->address;
    uint64_t second = (uint64_t)(uintptr_t)((const tarn_block *)b)->address;

    return (first > second) - (first < second);
}

static tarn_status find_blocks(struct matching *matching, struct tn_regions *regions)
{
    struct tn_references references = {.items = matching->addresses};
    tarn_status status;

    for (size_t i = 0; i < matching->count; i++) {
        if (!matching->differences[i].corresponds)
            continue;
        matching->addresses[references.count].address = matching->differences[i].values[0];
        matching->addresses[references.count + 1].address = matching->differences[i].values[1];
        references.count += 2;
    }
    TN_ASSERT(references.count == 2 * matching->pointer_count);
    status = tn_standings_find(&matching->standings, &references, regions, NULL, NULL);
    for (size_t i = 0; status == TARN_OK && i < references.count; i++) {
        struct tn_finding *finding = &matching->standings.findings[i];

        if (finding->standing == TN_STANDING_LIVE)
            matching->blocks[matching->block_count++] = finding->block;
        else
            finding->block = (tarn_block){.pool = finding->block.pool};
    }
    if (matching->block_count > 1)
        qsort(matching->blocks, matching->block_count, sizeof *matching->blocks, compare_blocks);
    return status;
}

/* The block's rule, or the empty place for it. */
static struct rule *rule_of(const struct matching *matching, int from, uint64_t sequence)
{
    const size_t mask = matching->rule_capacity - 1;
    size_t at = (size_t)(sequence * TN_GOLDEN >> 32) & mask;

    while (matching->rules[from][at].key != 0 && matching->rules[from][at].key != sequence)
        at = (at + 1) & mask;
    return &matching->rules[from][at];
}

/* Whether the blocks take each other's place. Blocks without a rule yet do from now on. */
static bool match(struct matching *matching, uint64_t a, uint64_t b)
{
    struct rule *forth = rule_of(matching, 0, a);
    struct rule *back = rule_of(matching, 1, b);

    if (forth->key == 0 && back->key == 0) {
        *forth = (struct rule){a, b};
        *back = (struct rule){b, a};
    }
    return forth->value == b; /* then also back, for both rules are made at once */
}

static uint64_t offset_in(const tarn_block *block, uint64_t address)
{
    return address - (uint64_t)(uintptr_t)block->address;
}

/* If a block contains the address, makes the block its own counterpart. */
static void keep(struct matching *matching, uint64_t address)
{
    const tarn_block *block;
    size_t from = 0;
    size_t to = matching->block_count;

    while (from < to) { /* the last block that begins at the address or before */
        size_t middle = from + (to - from) / 2;

        if ((uint64_t)(uintptr_t)matching->blocks[middle].address <= address)
            from = middle + 1;
        else
            to = middle;
    }
    if (from == 0)
        return;
    block = &matching->blocks[from - 1];
    if (offset_in(block, address) < block->block_bytes)
        (void)match(matching, block->sequence, block->sequence);
}

static void judge(struct matching *matching, tarn_graph_difference *difference,
                  const struct tn_finding *findings)
{
    const tarn_block *a = &findings[0].block;
    const tarn_block *b = &findings[1].block;

    difference->blocks[0] = *a;
    difference->blocks[1] = *b;
    difference->corresponds =
        a->sequence != 0 && b->sequence != 0 && a->bytes == b->bytes &&
        offset_in(a, difference->values[0]) == offset_in(b, difference->values[1]) &&
        match(matching, a->sequence, b->sequence);
}

tarn_status tn_correspond(struct tn_regions *regions, tarn_graph_difference *differences,
                          size_t count, const uint64_t *same, size_t same_count)
{
    struct matching matching = {.differences = differences, .count = count};
    const struct tn_finding *next;
    tarn_status status;

    for (size_t i = 0; i < count; i++)
        matching.pointer_count += differences[i].corresponds;
    if (matching.pointer_count == 0)
        return TARN_OK;
    if (reserve(&matching))
        status = find_blocks(&matching, regions);
    else
        status =
            tn_fail(TARN_ERR_HOST_MEMORY, "no host memory to match %zu addresses of two graphs",
                    matching.pointer_count);
    if (status == TARN_OK) {
        for (size_t i = 0; i < same_count; i++)
            keep(&matching, same[i]);
        next = matching.standings.findings;
        for (size_t i = 0; i < count; i++) {
            if (differences[i].corresponds) {
                judge(&matching, &differences[i], next);
                next += 2;
            }
        }
    }
    drop(&matching);
    return status;
}
