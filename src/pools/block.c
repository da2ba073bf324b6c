// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: slabs of records are kept until the pool goes. */
#include "pools/block.h"

#include <string.h>

#include "base/contract.h"
#include "base/host.h"

enum { SLAB_BLOCKS = 128, LINE_BYTES = 64 };

struct tn_block_slab {
    struct tn_block_slab *next;
};

/* The slab's records: each begins on a cache line. */
static struct tn_block *records_of(struct tn_block_slab *slab)
{
    uintptr_t end = (uintptr_t)(slab + 1);

    return (struct tn_block *)((end + LINE_BYTES - 1) & ~(uintptr_t)(LINE_BYTES - 1));
}

bool tn_blocks_reserve(struct tn_block_store *store, size_t count)
{
    while (store->spare_count < count) {
        struct tn_block_slab *slab =
            tn_host_alloc(1, sizeof *slab + LINE_BYTES + SLAB_BLOCKS * sizeof(struct tn_block));

        if (slab == NULL)
            return false;
        slab->next = store->slabs;
        store->slabs = slab;
        for (size_t i = SLAB_BLOCKS; i-- > 0;)
            tn_block_give(store, &records_of(slab)[i]);
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
    if (TARN_DEBUG_CHECKS)
        memset(block, 0x5e, sizeof *block); /* who looks at it still goes astray at once */
    block->list_next = store->spare;
    store->spare = block;
    store->spare_count += 1;
}

void tn_blocks_move(struct tn_block_store *from, struct tn_block_store *to, size_t count)
{
    for (size_t i = 0; i < count && from->spare != NULL; i++) {
        struct tn_block *block = from->spare;

        from->spare = block->list_next;
        from->spare_count -= 1;
        tn_block_give(to, block);
    }
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

/* Puts a new part between the block and its neighbour on one side. */
static void link_above(struct tn_block *block, struct tn_block *upper)
{
    upper->previous = block;
    upper->next = block->next;
    if (upper->next != NULL)
        upper->next->previous = upper;
    else
        block->segment->last_block = upper;
    block->next = upper;
}

static void link_below(struct tn_block *block, struct tn_block *lower)
{
    lower->next = block;
    lower->previous = block->previous;
    if (lower->previous != NULL)
        lower->previous->next = lower;
    else
        block->segment->first_block = lower;
    block->previous = lower;
}

static struct tn_block *take_part(struct tn_block_store *store, const struct tn_block *block)
{
    struct tn_block *part = tn_block_take(store);

    part->segment = block->segment;
    part->heap = block->heap;
    part->state = block->state;
    if (block->state == TN_BLOCK_UNMAPPED)
        block->segment->unmapped_count += 1;
    return part;
}

struct tn_block *tn_block_split(struct tn_block_store *store, struct tn_block *block,
                                uint64_t offset)
{
    struct tn_block *upper = take_part(store, block);

    TN_ASSERT(offset > block->offset && offset < tn_block_end(block));
    upper->offset = offset;
    upper->bytes = tn_block_end(block) - offset;
    block->bytes = offset - block->offset;
    link_above(block, upper);
    return upper;
}

struct tn_block *tn_block_split_below(struct tn_block_store *store, struct tn_block *block,
                                      uint64_t offset)
{
    struct tn_block *lower = take_part(store, block);

    TN_ASSERT(offset > block->offset && offset < tn_block_end(block));
    lower->offset = block->offset;
    lower->bytes = offset - block->offset;
    block->bytes = tn_block_end(block) - offset;
    block->offset = offset;
    link_below(block, lower);
    return lower;
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

void tn_block_join_previous(struct tn_block_store *store, struct tn_block *block)
{
    struct tn_block *previous = block->previous;

    TN_ASSERT(block->offset == tn_block_end(previous) && previous->state == block->state); /* P1 */
    TN_ASSERT(block->state != TN_BLOCK_UNMAPPED); /* those are joined to their lower neighbour */
    block->offset = previous->offset;
    block->bytes += previous->bytes;
    block->previous = previous->previous;
    if (block->previous != NULL)
        block->previous->next = block;
    else
        block->segment->first_block = block;
    tn_block_give(store, previous);
}
