// SPDX-License-Identifier: Apache-2.0
/* sharing.h -- arenas that several threads allocate from or free to.
 *
 * Locking: as each function says. Nothing here calls the driver. */
#ifndef TARN_HEAP_SHARING_H
#define TARN_HEAP_SHARING_H

#include "heap/arena_lock.h"
#include "heap/magazine.h"

static inline struct tn_magazines *tn_arena_magazines(const struct tn_arena *arena)
{
    return atomic_load_explicit(&arena->magazines, memory_order_acquire);
}

/* Gives the arena an inbox for good, where other threads then leave their frees. False: no memory.
 * Any thread may call, without a lock, whatever has become of the arena. */
bool tn_sharing_share(struct tn_arena *arena);

/* The same, and magazines, from which and to which threads then allocate and free. */
bool tn_sharing_divide(struct tn_arena *arena);

/* Whether a thread that is not the arena's user allocates there once more than is usual. The arena
 * is locked. */
bool tn_sharing_wants_magazines(struct tn_arena *arena);

/* Frees blocks from the inbox until the block freed last serves the allocation and live bytes reach
 * no new peak. False: a block in the inbox needs the pool's lock. The arena is
 * locked. */
bool tn_sharing_receive(struct tn_arena *arena, const struct tn_heap *heap, uint64_t alignment,
                        uint64_t bytes);

/* Each frees the block that begins at the address, of which the chunk belongs to the arena. False:
 * nothing has changed.
 *   tn_sharing_free_here   the arena is locked, or its owner has entered
 *   tn_sharing_free        by a thread other than the owner, without a lock
 *   tn_sharing_put_round   to a magazine of an arena that has some, without a lock */
bool tn_sharing_free_here(struct tn_arena *arena, const struct tn_chunk *chunk, uint64_t address);
bool tn_sharing_free(struct tn_arena *arena, const struct tn_chunk *chunk, uint64_t address);
TN_APART bool tn_sharing_put_round(struct tn_arena *arena, const struct tn_chunk *chunk,
                                   uint64_t address);

/* Lets other threads in, as the arena may allocate and free, and keeps them out. To close, the pool
 * is locked: blocks that others have left are freed. */
void tn_sharing_open(struct tn_arena *arena);
void tn_sharing_close(struct tn_arena *arena);

#endif
