// SPDX-License-Identifier: Apache-2.0
/* sharing.h -- arenas that several threads allocate from or free to.
 *
 * Locking: as each function says. Nothing here calls the driver. */
#ifndef TARN_HEAP_SHARING_H
#define TARN_HEAP_SHARING_H

#include "heap/arena_lock.h"
#include "heap/magazine.h"

/* Frees all blocks in the inbox, up to one that needs the pool's lock. The arena is locked. */
void tn_sharing_empty_inbox(struct tn_arena *arena, struct tn_inbox *inbox);

/* Frees blocks from the inbox until the block freed last serves the allocation and live bytes reach
 * no new peak. False: a block in the inbox needs the pool's lock. The arena is locked. */
bool tn_sharing_receive(struct tn_arena *arena, const struct tn_heap *heap, uint64_t alignment,
                        uint64_t bytes);

/* tn_loose_free of a block that its user frees: where the arena records, it is written. */
bool tn_sharing_free(struct tn_arena *arena, struct tn_heap *heap, struct tn_block *block);

/* Each frees the block that begins at the address, of which the chunk belongs to the arena. False:
 * nothing has changed.
 *   tn_sharing_free_here   the arena is locked, or its owner has entered
 *   tn_sharing_leave       into the inbox, without a lock; false, too: the inbox is closed or full
 *   tn_sharing_put_round   to a magazine of an arena that has some, without a lock
 *   tn_sharing_free_of_magazine   a block that is of a magazine, or comes to own, which may be NULL;
 *                          without a lock, open or not */
bool tn_sharing_free_here(struct tn_arena *arena, const struct tn_chunk *chunk, uint64_t address);
bool tn_sharing_leave(struct tn_inbox *inbox, const struct tn_arena *arena,
                      const struct tn_chunk *chunk, uint64_t address);
TN_APART bool tn_sharing_put_round(struct tn_arena *arena, const struct tn_chunk *chunk,
                                   uint64_t address);
TN_APART bool tn_sharing_free_of_magazine(struct tn_arena *arena, struct tn_magazine *own,
                                          const struct tn_chunk *chunk, uint64_t address);

#endif
