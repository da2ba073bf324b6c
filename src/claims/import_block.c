// SPDX-License-Identifier: Apache-2.0
/* All blocks are in one list.
 *
 * Trade-offs: an address is looked up by a walk over all blocks, by audits alone: a process has few
 * blocks of others open, and audits are rare. */
#include "claims/import_block.h"

#include "base/contract.h"
#include "base/lock.h"
#include "heap/sequence.h"

static struct tn_lock blocks_lock = TN_LOCK_INIT(TN_RANK_IMPORTS);
static struct tn_import_block *first_block; /* guarded by blocks_lock */
static atomic_size_t block_count;           /* written under the lock */

void tn_import_block_enter(struct tn_import_block *block, const struct tn_gpu *gpu,
                           uint64_t address, uint64_t bytes)
{
    TN_ASSERT(gpu != NULL && bytes > 0);
    *block = (struct tn_import_block){.gpu = gpu,
                                      .address = address,
                                      .bytes = bytes,
                                      .sequence = tn_next_sequence(),
                                      .is_open = true,
                                      .link = &first_block};
    tn_lock_acquire(&blocks_lock);
    block->next = first_block;
    if (block->next != NULL)
        block->next->link = &block->next;
    first_block = block;
    atomic_fetch_add(&block_count, 1);
    tn_lock_release(&blocks_lock);
}

static void link_watch(struct tn_import_watch *watched, struct tn_import_block *block)
{
    TN_ASSERT(tn_lock_is_held(&blocks_lock));
    watched->block = block;
    watched->next = block->watches;
    watched->link = &block->watches;
    if (watched->next != NULL)
        watched->next->link = &watched->next;
    block->watches = watched;
}

static void unlink_watch(struct tn_import_watch *watched)
{
    TN_ASSERT(tn_lock_is_held(&blocks_lock) && *watched->link == watched);
    *watched->link = watched->next;
    if (watched->next != NULL)
        watched->next->link = watched->link;
    watched->block = NULL;
}

/* Tells the watches which do not keep the block. */
static void tell(struct tn_import_block *block)
{
    struct tn_import_watch *next;

    for (struct tn_import_watch *watched = block->watches; watched != NULL; watched = next) {
        next = watched->next;
        if (watched->watch->keeps)
            continue;
        unlink_watch(watched);
        tn_watch_tell(watched->watch, watched->index);
    }
}

/* Another open block of the same bytes; NULL: none. */
static struct tn_import_block *find_twin(const struct tn_import_block *block)
{
    struct tn_import_block *other = first_block;

    while (other != NULL && (other == block || !other->is_open ||
                             other->address != block->address || other->bytes != block->bytes))
        other = other->next;
    return other;
}

static bool is_kept(const struct tn_import_block *block)
{
    return block->watches != NULL ||
           (block->was_kept && !tn_gpu_is_proven(block->gpu, block->kept_stamp));
}

bool tn_import_block_close(struct tn_import_block *block)
{
    struct tn_import_block *twin;
    bool kept = false;

    tn_lock_acquire(&blocks_lock);
    TN_ASSERT(block->gpu != NULL && block->is_open); /* S1 */
    twin = find_twin(block);
    while (twin != NULL && block->watches != NULL) {
        struct tn_import_watch *watched = block->watches;

        unlink_watch(watched);
        link_watch(watched, twin);
    }
    block->is_open = false;
    for (const struct tn_import_watch *watched = block->watches; watched != NULL;
         watched = watched->next)
        kept = kept || watched->watch->keeps;
    tn_lock_release(&blocks_lock);
    return kept;
}

void tn_import_block_reopen(struct tn_import_block *block)
{
    tn_lock_acquire(&blocks_lock);
    TN_ASSERT(block->gpu != NULL && !block->is_open);
    block->is_open = true;
    tn_lock_release(&blocks_lock);
}

bool tn_import_block_is_kept(const struct tn_import_block *block)
{
    bool kept;

    tn_lock_acquire(&blocks_lock);
    TN_ASSERT(block->gpu != NULL && !block->is_open);
    kept = is_kept(block);
    tn_lock_release(&blocks_lock);
    return kept;
}

void tn_import_block_tell(struct tn_import_block *block)
{
    tn_lock_acquire(&blocks_lock);
    TN_ASSERT(block->gpu != NULL);
    tell(block); /* S2 */
    tn_lock_release(&blocks_lock);
}

void tn_import_block_end(struct tn_import_block *block)
{
    tn_lock_acquire(&blocks_lock);
    TN_ASSERT(!block->is_open && block->watches == NULL); /* S1 */
    *block->link = block->next;
    if (block->next != NULL)
        block->next->link = block->link;
    block->gpu = NULL;
    atomic_fetch_sub(&block_count, 1);
    tn_lock_release(&blocks_lock);
}

size_t tn_import_blocks_count(void)
{
    return atomic_load(&block_count);
}

static bool is_kept_by(const struct tn_import_block *block, const struct tn_watch *keeper)
{
    const struct tn_import_watch *watched = block->watches;

    while (watched != NULL && watched->watch != keeper)
        watched = watched->next;
    return watched != NULL && !block->is_open;
}

bool tn_import_blocks_find(uint64_t address, const struct tn_watch *keeper,
                           struct tn_import_found *view)
{
    const struct tn_import_block *found = NULL;

    if (tn_import_blocks_count() == 0)
        return false;
    tn_lock_acquire(&blocks_lock);
    for (const struct tn_import_block *block = first_block;
         block != NULL && (found == NULL || !found->is_open); block = block->next) {
        if (address - block->address < block->bytes)
            found = block->is_open || found == NULL || !is_kept_by(found, keeper) ? block : found;
    }
    if (found != NULL)
        *view = (struct tn_import_found){.address = found->address,
                                         .bytes = found->bytes,
                                         .sequence = found->sequence,
                                         .is_open = found->is_open,
                                         .is_kept = is_kept_by(found, keeper)};
    tn_lock_release(&blocks_lock);
    return found != NULL;
}

void tn_import_watch_begin(struct tn_import_watch *watched, struct tn_watch *watch, size_t index,
                           uint64_t sequence)
{
    struct tn_import_block *block;

    *watched = (struct tn_import_watch){.watch = watch, .index = index};
    tn_lock_acquire(&blocks_lock);
    block = first_block;
    while (block != NULL && (block->sequence != sequence || !block->is_open))
        block = block->next;
    if (block == NULL)
        tn_watch_tell(watch, index);
    else if (block->gpu == watch->gpu)
        link_watch(watched, block);
    tn_lock_release(&blocks_lock);
}

void tn_import_watch_end(struct tn_import_watch *watched)
{
    tn_lock_acquire(&blocks_lock);
    if (watched->block != NULL) {
        struct tn_import_block *block = watched->block;

        unlink_watch(watched);
        if (!block->is_open) {
            block->was_kept = true;
            block->kept_stamp = tn_gpu_epoch(block->gpu); /* of launches */
        }
    }
    TN_ASSERT(watched->block == NULL);
    tn_lock_release(&blocks_lock);
}
