// SPDX-License-Identifier: Apache-2.0
/* Block records and the live table.
 *
 * The table is linear probing with a multiplicative hash, at most half full; removal shifts later
 * entries back, so there are no tombstones (Knuth, The Art of Computer Programming, 6.4, algorithm
 * R).
 *
 * Trade-offs: slabs are kept until the pool goes. The table only grows. */
#include "pools/block.h"

#include <string.h>

#include "base/contract.h"
#include "base/host.h"

enum { SLAB_BLOCKS = 128, SMALLEST_TABLE = 64 };

struct tn_block_slab {
    struct tn_block_slab *next;
    struct tn_block blocks[SLAB_BLOCKS];
};

bool tn_blocks_reserve(struct tn_block_store *store, size_t count)
{
    while (store->spare_count < count) {
        struct tn_block_slab *slab = tn_host_alloc(1, sizeof *slab);

        if (slab == NULL)
            return false;
        slab->next = store->slabs;
        store->slabs = slab;
        for (size_t i = SLAB_BLOCKS; i-- > 0;)
            tn_block_give(store, &slab->blocks[i]);
    }
    return true;
}

struct tn_block *tn_block_take(struct tn_block_store *store)
{
    struct tn_block *block = store->spare;

    TN_ASSERT(block != NULL); /* reserved before */
    store->spare = block->list_next;
    store->spare_count -= 1;
    memset(block, 0, sizeof *block);
    return block;
}

void tn_block_give(struct tn_block_store *store, struct tn_block *block)
{
    block->list_next = store->spare;
    store->spare = block;
    store->spare_count += 1;
}

void tn_blocks_fini(struct tn_block_store *store)
{
    while (store->slabs != NULL) {
        struct tn_block_slab *next = store->slabs->next;

        tn_host_free(store->slabs);
        store->slabs = next;
    }
    store->spare = NULL;
    store->spare_count = 0;
}

struct tn_block *tn_block_split(struct tn_block_store *store, struct tn_block *block,
                                uint64_t offset)
{
    struct tn_block *upper = tn_block_take(store);

    TN_ASSERT(offset > block->offset && offset < tn_block_end(block));
    upper->segment = block->segment;
    upper->heap = block->heap;
    upper->state = block->state;
    upper->offset = offset;
    upper->bytes = tn_block_end(block) - offset;
    block->bytes = offset - block->offset;
    upper->previous = block;
    upper->next = block->next;
    if (upper->next != NULL)
        upper->next->previous = upper;
    else
        block->segment->last_block = upper;
    block->next = upper;
    if (block->state == TN_BLOCK_UNMAPPED)
        block->segment->unmapped_count += 1;
    return upper;
}

void tn_block_join_next(struct tn_block_store *store, struct tn_block *block)
{
    struct tn_block *next = block->next;

    TN_ASSERT(next->offset == tn_block_end(block) && next->state == block->state); /* P1 */
    block->bytes += next->bytes;
    block->next = next->next;
    if (block->next != NULL)
        block->next->previous = block;
    else
        block->segment->last_block = block;
    if (block->state == TN_BLOCK_UNMAPPED)
        block->segment->unmapped_count -= 1;
    tn_block_give(store, next);
}

static size_t home_slot(const struct tn_live_table *table, uint64_t address)
{
    uint64_t hash = (address >> 9) * 0x9E3779B97F4A7C15ULL; /* 2^64 over the golden ratio */

    return (size_t)(hash >> 20) & (table->capacity - 1);
}

static void place(struct tn_live_table *table, struct tn_block *block)
{
    size_t slot = home_slot(table, tn_block_address(block));

    while (table->slots[slot] != NULL)
        slot = (slot + 1) & (table->capacity - 1);
    table->slots[slot] = block;
}

bool tn_live_reserve(struct tn_live_table *table, size_t more)
{
    struct tn_live_table bigger = {NULL, SMALLEST_TABLE, table->count};

    if ((table->count + more) * 2 <= table->capacity)
        return true;
    while (bigger.capacity < (table->count + more) * 2)
        bigger.capacity *= 2;
    bigger.slots = tn_host_alloc(bigger.capacity, sizeof *bigger.slots);
    if (bigger.slots == NULL)
        return false;
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->slots[i] != NULL)
            place(&bigger, table->slots[i]);
    }
    tn_host_free(table->slots);
    *table = bigger;
    return true;
}

void tn_live_insert(struct tn_live_table *table, struct tn_block *block)
{
    TN_ASSERT(table->count * 2 < table->capacity);
    TN_ASSERT(tn_live_find(table, tn_block_address(block)) == NULL);
    place(table, block);
    table->count += 1;
}

void tn_live_remove(struct tn_live_table *table, struct tn_block *block)
{
    size_t mask = table->capacity - 1;
    size_t hole = home_slot(table, tn_block_address(block));

    while (table->slots[hole] != block) {
        TN_ASSERT(table->slots[hole] != NULL);
        hole = (hole + 1) & mask;
    }
    for (size_t i = (hole + 1) & mask; table->slots[i] != NULL; i = (i + 1) & mask) {
        size_t home = home_slot(table, tn_block_address(table->slots[i]));

        /* An entry may move back to the hole unless its home lies behind the hole. */
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table->slots[hole] = table->slots[i];
            hole = i;
        }
    }
    table->slots[hole] = NULL;
    table->count -= 1;
}

struct tn_block *tn_live_find(const struct tn_live_table *table, uint64_t address)
{
    size_t slot;

    if (table->capacity == 0)
        return NULL;
    slot = home_slot(table, address);
    while (table->slots[slot] != NULL && tn_block_address(table->slots[slot]) != address)
        slot = (slot + 1) & (table->capacity - 1);
    return table->slots[slot];
}

void tn_live_fini(struct tn_live_table *table)
{
    tn_host_free(table->slots);
    *table = (struct tn_live_table){NULL, 0, 0};
}
