// SPDX-License-Identifier: Apache-2.0
/* arena.h -- the memory of one order of work.
 *
 * An arena is the memory of a stream outside captures, or of a stream within one capture. It has two
 * heaps, for small blocks (up to 512 KiB) and for large ones, each with chunks of its own. The pool's
 * idle memory is an arena that nobody allocates from directly: what captures left behind, and what
 * was reserved and is nobody's yet. Heaps take whole chunks from it.
 *
 *   P6  a chunk's used_bytes is what blocks that are not FREE occupy in it
 *   P19 what a heap has freed lately, in the steady state, may be LOOSE: not yet joined to its neighbours, in
 *       no bin, and in the books of its chunks and the index as if it were live. What was freed last stands by
 *       itself; the others, of segments that are not divided, in slots. Who has the pool's lock finds no loose block.
 *
 * Locking: the pool's lock, which takes those of all its arenas (pool.h). Who has an arena's own lock alone
 * may do with its memory what heap/steady.c does. Records are recycled, never freed, and their locks are
 * never written but by who takes them: a stale pointer can be locked, and looked at. */
#ifndef TARN_HEAP_ARENA_H
#define TARN_HEAP_ARENA_H

#include "base/contract.h"
#include "base/spin.h"
#include "heap/bins.h"
#include "heap/births.h"
#include "heap/heap.h"
#include "heap/inbox.h"
#include "heap/live_index.h"
#include "heap/rounding.h"
#include "heap/tally.h"
#include "nodes/ancestry.h"
#include "tarn/types.h"

struct tn_arena;
struct tn_chunk_set;
struct tn_fence;

/* The patience that an arena begins with: 64 turns. */
enum { TN_ARENA_PATIENCE = 6 };

/* What happened in all heaps of an arena since the pool's lock was last taken. */
struct tn_arena_counters {
    int64_t live_bytes;
    int64_t live_peak_bytes; /* the most that live_bytes was */
};

/* Whether an arena may do something in the steady state: see heap/steady.h. */
enum tn_steadiness {
    TN_NOT_STEADY,    /* the pool's lock is needed */
    TN_STEADY,        /* no other thread looks at its index */
    TN_STEADY_SHARED, /* others may: it has an inbox */
};

struct tn_arena {
    uint64_t magic;        /* 0: nobody has a handle of one */
    struct tn_arena *next; /* of the pool; links recycled records */
    struct tn_spin lock;   /* taken by heap/arena_lock.h; kept in recycled records, as all below */
    bool met : 1;          /* waits for the device cover its stream's context */
    bool shared : 1;       /* its inbox is open where it frees */
    bool joins : 1;        /* nothing is loose; set as those that follow */
    atomic_bool owner_inside; /* see heap/arena_lock.h */
    uint8_t allocates;        /* enum tn_steadiness; set when the pool is unlocked */
    uint8_t frees;            /* the same */
    const struct tn_rounding
        *rounding;         /* of its owner's blocks, immutable; NULL: to 512 bytes alone */
    tarn_pool *pool;       /* its owner, compared alone; NULL in a recycled record */
    struct tn_order order; /* zero for idle memory; none once its stream is retired */
    uint64_t routes_stamp; /* of routes that lead its order's allocations here: pools/route.h */
    /* That was one cache line, and what every allocation writes begins the next. */
    struct tn_arena_counters counters;
    uint64_t sequence;      /* the next number for a block, behind its newest one's; 0: none yet */
    uint64_t sequences_end; /* behind the last one that was taken */
    struct tn_block_store store; /* for heap/steady.c; no slabs of its own */
    uint8_t visit_count;         /* frees by other threads than its user's, before it is shared */
    uint8_t exhaustions;         /* times that the store was found empty; it keeps the more */
    uint8_t patience;            /* so many bits have the turns in a row that make an owner */
    uint32_t turns;              /* of the user, in a row, while there is no owner */
    uintptr_t owner; /* the tn_thread_word of the one that it may have; 0: any; kept for good */
    const atomic_uint_fast64_t *epoch;   /* what is freed now is stamped with, immutable */
    struct tn_block_store *parent_store; /* its records come from, and go back to; immutable */
    const struct tn_chunk_set *captured; /* set likewise: its capture's; NULL outside captures */
    /* What other threads read that free is on cache lines that no allocation writes, nor the next to them. */
    _Alignas(128) _Atomic(struct tn_inbox *) inbox; /* NULL: none yet; stays with the record */
    atomic_uintptr_t user; /* tn_thread_word of who allocated last, and whether it is the owner */
    /* The handle of its order's stream, in no capture and none of the default ones, as an allocation named it. 0: none,
     * or retired. A stream has one handle as long as it lives, and the next one may get it. */
    atomic_uintptr_t stream;
    uint64_t saved_count;   /* blocks of checkpoints that are of its order */
    struct tn_fence *fence; /* retired: what ends the stream's work; else NULL */
    /* In a capture: what its next work comes after; see pools/pending.h. */
    struct tn_ancestry ancestry;
    struct tn_births *births; /* in a capture: of its blocks; the hold's. NULL: none yet */
    _Alignas(128) struct tn_heap heaps[TN_HEAP_KINDS];
};

_Static_assert(offsetof(struct tn_arena, counters) == 64, "a cache line");

/* What arenas have of their owner, as long as they are its. */
struct tn_arena_owner {
    tarn_pool *pool;
    const struct tn_rounding *rounding;
    const atomic_uint_fast64_t
        *epoch; /* rises with each wait for the device: what is proven idle is a value of it */
    struct tn_block_store *store;
    struct tn_segment *const *segments; /* the first that it has; for checks alone */
};

void tn_arena_init(struct tn_arena *arena, const struct tn_arena_owner *owner,
                   struct tn_order order);

/* The stamp of memory that is freed now. */
static inline uint64_t tn_arena_epoch(const struct tn_arena *arena)
{
    return atomic_load(arena->epoch);
}

static inline bool tn_arena_is_captured(const struct tn_arena *arena)
{
    return arena->order.capture_id != 0;
}

/* The order that a LIVE or PENDING block was allocated on; none once that stream is retired. */
static inline struct tn_order tn_block_order(const struct tn_block *block)
{
    return block->own_order ? block->heap->arena->order : tn_block_cold(block)->order;
}

static inline bool tn_block_is_of(const struct tn_block *block, struct tn_order order)
{
    return tn_order_equal(tn_block_order(block), order);
}

static inline void tn_block_set_order(struct tn_block *block, struct tn_order order)
{
    block->own_order = tn_order_equal(order, block->heap->arena->order);
    if (!block->own_order)
        tn_block_cold(block)->order = order;
}

/* Whether its memory goes to captures: that of one, or idle memory. */
static inline bool tn_arena_serves_captures(const struct tn_arena *arena)
{
    return arena->order.capture_id != 0 || arena->order.stream_id == 0;
}

/* Whether whoever takes the memory of the LIVE, PENDING or DISCARDED block next is ordered behind its last use: it was
 * allocated by the order that owns its chunks now; or in a capture, and goes to captures, for the pool keeps their
 * graphs in order; or its stream is retired, and the fence stands for what that did. */
static inline bool tn_block_is_in_order(const struct tn_block *block)
{
    const struct tn_arena *arena = block->heap->arena;

    TN_ASSERT(block->state != TN_BLOCK_FREE && block->state != TN_BLOCK_UNMAPPED);
    return tn_block_is_of(block, arena->order) || tn_block_is_of(block, TN_ORDER_NONE) ||
           (tn_block_order(block).capture_id != 0 && tn_arena_serves_captures(arena));
}

/* The block's chunks are another heap's now; its order stays what it was. */
static inline void tn_block_pass(struct tn_block *block, struct tn_heap *heap)
{
    struct tn_order order = {0, 0};
    bool ordered = block->state != TN_BLOCK_FREE;

    TN_ASSERT(block->state != TN_BLOCK_UNMAPPED && block->state != TN_BLOCK_LOOSE);
    if (ordered)
        order = tn_block_order(block);
    block->heap = heap;
    if (ordered)
        tn_block_set_order(block, order);
    block->misplaced = tn_kind_of(tn_block_bytes(block)) != heap->kind; /* P20 */
    if (block->state == TN_BLOCK_PENDING && !tn_block_is_in_order(block))
        tn_block_cold(block)->proof_stamp = tn_block_cold(block)->freed_stamp; /* P24 */
    if (block->state == TN_BLOCK_LIVE)
        tn_live_mark(block); /* P23 */
}

/* Whether what is freed in the chunk comes from an order outside captures. */
static inline bool tn_chunk_is_of_work(const struct tn_chunk *chunk)
{
    const struct tn_heap *heap = atomic_load_explicit(&chunk->heap, memory_order_relaxed);

    return heap != NULL && !tn_arena_serves_captures(heap->arena);
}

/* The chunk is the heap's from now on, or nobody's, where that is NULL. */
static inline void tn_chunk_pass(struct tn_chunk *chunk, struct tn_heap *heap)
{
    if (tn_chunk_is_of_work(chunk))
        chunk->outside_stamp = chunk->freed_stamp; /* P26 */
    atomic_store_explicit(&chunk->heap, heap, memory_order_relaxed);
    /* Who finds the arena without a lock finds it made. */
    atomic_store_explicit(&chunk->arena, heap != NULL ? heap->arena : NULL, memory_order_release);
}

/* The chunk under the block's byte at that offset of the segment. */
static inline struct tn_chunk *tn_block_chunk_at(const struct tn_block *block, uint64_t offset)
{
    struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, offset);

    TN_ASSERT(chunk != NULL && chunk->heap == block->heap); /* P2 */
    return chunk;
}

/* The heap gets memory of the segment. */
static inline void tn_segment_admit(struct tn_segment *segment, const struct tn_heap *heap)
{
    TN_ASSERT(heap->arena->pool == atomic_load(&segment->owner));
    if (segment->first_arena == NULL)
        segment->first_arena = heap->arena;
    if (segment->first_arena != heap->arena)
        segment->divided = true; /* P2 */
}

/* The arena has so many bytes of the segment's chunks: where those are all, the segment is not divided any more. */
static inline void tn_segment_unite(struct tn_segment *segment, const struct tn_arena *arena,
                                    uint64_t bytes)
{
    TN_ASSERT(bytes <= segment->mapped_bytes);
    if (bytes == 0 || bytes < segment->mapped_bytes)
        return;
    segment->first_arena = arena;
    segment->divided = false; /* P2 */
}

/* Whether a neighbour is another arena's, whose links its own lock guards. */
static inline bool tn_block_is_foreign(const struct tn_block *neighbour,
                                       const struct tn_arena *arena)
{
    return neighbour != NULL && neighbour->heap != NULL && neighbour->heap->arena != arena;
}

/* Whether the run of blocks from low to high lies between memory of two other arenas. */
static inline bool tn_run_is_wedged(const struct tn_block *low, const struct tn_block *high,
                                    const struct tn_arena *arena)
{
    TN_ASSERT(low->segment == high->segment);
    return low->segment->divided && tn_block_is_foreign(low->previous, arena) &&
           tn_block_is_foreign(high->next, arena);
}

/* Whether it is a FREE block of the heap. The heap first: the state of another arena's is not to be looked at. */
static inline bool tn_block_is_free_of(const struct tn_block *block, const struct tn_heap *heap)
{
    return block != NULL && block->heap == heap && block->state == TN_BLOCK_FREE;
}

/* Makes a block, in no list, FREE: joins it with its neighbours and puts it in its heap's bins.
 * Returns the joined block, whose record is the lowest one's. */
struct tn_block *tn_heap_put(struct tn_block_store *store, struct tn_block *block);

/* Takes bytes at an offset out of a FREE block; what is left before and behind stays FREE. Takes up
 * to two records. */
struct tn_block *tn_heap_carve(struct tn_block_store *store, struct tn_block *block,
                               uint64_t offset, uint64_t bytes);

/* The same under the arena's lock alone, with its own records: the record beside another arena's block
 * stays where it is, since that one's link to it may not be written. The run of blocks that is made or cut
 * is not wedged. Where it can be, what is in a bin keeps its record and its place. */
void tn_arena_put(struct tn_arena *arena, struct tn_block *block);
struct tn_block *tn_arena_carve(struct tn_arena *arena, struct tn_block *block, uint64_t offset,
                                uint64_t bytes);

/* Adds to or subtracts from the used bytes of the chunks under the block; freeing stamps them.
 * outside_stamp: the same stamp, or a lower one where the end of the chunks' holds proves the rest. */
void tn_block_count_used(struct tn_block *block);
void tn_block_count_freed(struct tn_block *block, uint64_t freed_stamp, uint64_t outside_stamp);

/* Enters a block in the books: the index of the chunk in which it begins, and the used bytes of all chunks under it.
 * open: the block is plain, or will be. */
static inline void tn_block_enter(struct tn_block *block, struct tn_chunk *chunk, bool open)
{
    TN_ASSERT(block->offset >= chunk->offset && block->offset < tn_chunk_end(chunk));
    tn_live_insert_in(chunk, block, open);
    if (tn_block_end(block) <= tn_chunk_end(chunk))
        chunk->used_bytes += tn_block_bytes(block);
    else
        tn_block_count_used(block);
}

#endif
