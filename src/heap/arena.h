// SPDX-License-Identifier: Apache-2.0
/* arena.h -- the memory of one order of work.
 *
 * An arena is the memory of a stream outside captures, or of a stream within one capture. It has
 * two heaps with chunks of their own: one for small blocks (up to 512 KiB), one for large blocks.
 * The pool's idle memory is an arena too, from which nobody allocates directly. It contains memory
 * which captures left behind, and reserved memory without an owner. Heaps take whole chunks from
 * it.
 *
 *   P6  a chunk's used_bytes is the number of its bytes under blocks that are not FREE
 *   P19 a block which the steady state freed lately may be LOOSE: not yet coalesced with its neighbours,
 *       in no bin, and in the books of its chunks and in the index as if it were live. Each heap
 *       keeps its newest LOOSE block apart, and the others in slots; blocks of mixed segments never
 *       go to slots. A thread with the pool's lock finds no loose block.
 *
 *   P40 in an arena that is not awake, gives is at least the binary logarithm, rounded down, of the
 *       bytes of its largest FREE block; it does not fall when such a block goes
 *
 * Locking: the pool's lock, which includes the locks of all its arenas (pool.h). A thread with the
 * arena's own lock alone may do with its memory what heap/steady.c does. Records are recycled,
 * never freed, and only a thread that takes a record's lock writes to the lock. A stale pointer can
 * therefore be locked and read. */
#ifndef TARN_HEAP_ARENA_H
#define TARN_HEAP_ARENA_H

#include "base/checked.h"
#include "base/contract.h"
#include "base/spin.h"
#include "driver/progress.h"
#include "heap/bins.h"
#include "heap/births.h"
#include "heap/check.h"
#include "heap/heap.h"
#include "heap/history.h"
#include "heap/inbox.h"
#include "heap/live_index.h"
#include "heap/pool_index.h"
#include "heap/rounding.h"
#include "heap/tally.h"
#include "nodes/ancestry.h"
#include "tarn/types.h"

struct tn_arena;
struct tn_chunk_set;
struct tn_fence;
struct tn_magazines;

enum {
    TN_ARENA_PATIENCE = 6, /* an arena's first patience: 64 turns */
    TN_VAIN_ASKS_MAX = 32, /* where the count of questions in vain ends */
    TN_GIVES_ANY = UINT8_MAX,
};

/* Changes in all heaps of an arena since the pool's lock was last taken. */
struct tn_arena_counters {
    int64_t live_bytes;
    int64_t live_peak_bytes; /* the highest value of live_bytes */
};

/* Whether an arena may allocate, or free, in the steady state: see heap/steady.h. */
enum tn_steadiness {
    TN_NOT_STEADY = 0,    /* the pool's lock is needed */
    TN_STEADY = 1,        /* no other thread looks at its index */
    TN_STEADY_SHARED = 2, /* others may: the arena has an inbox */
    TN_RECORDED = 4,      /* for allocations, alone or with another: the arena records */
    TN_STEADY_RECORDED = TN_STEADY | TN_RECORDED, /* its blocks are not rounded up further */
};

/* The lists which a pool has of its arenas. */
enum tn_arena_list {
    TN_ARENAS_ALL, /* most recently used first */
    TN_ARENAS_OF_CAPTURES,
    TN_ARENAS_RETIRED, /* P14: those of retired streams */
    TN_ARENAS_ASKED,   /* was_asked: see pools/proofs.h */
    TN_ARENAS_AWAKE,   /* P30: those which may do something without the pool's lock */
    TN_ARENAS_ASLEEP,  /* P30: those of streams, unused for the longest time last */
    TN_ARENA_LISTS
};

struct tn_arena_link {
    struct tn_arena *next;
    struct tn_arena *previous;
};

struct tn_arena_lists {
    struct tn_arena *first[TN_ARENA_LISTS];
    struct tn_arena *last[TN_ARENA_LISTS];
};

struct tn_arena {
    uint64_t magic;        /* 0: nobody has a handle of an arena */
    struct tn_arena *next; /* links recycled records */
    struct tn_spin lock;   /* taken by heap/arena_lock.h; kept in recycled records, as all below */
    bool met : 1;          /* waits for the device cover its stream's context */
    bool shared : 1;       /* its inbox is open where it frees */
    bool divided : 1;      /* shared, and its magazines are open where it allocates and frees */
    /* Frees coalesce at once: nothing is loose; set when the pool is unlocked. */
    bool coalesces : 1;
    bool records : 1;         /* what happens is written to the history; set at the same time */
    bool asks : 1;            /* its stream is asked how far it has come; set at the same time */
    bool awake : 1;           /* P30: in the pool's list of those awake; see pools/pool_lock.h */
    bool expected : 1;        /* to be used again: it has slept before, or got reserved memory */
    atomic_bool owner_inside; /* see heap/arena_lock.h */
    uint8_t allocates;        /* enum tn_steadiness; set when the pool is unlocked */
    uint8_t frees;            /* the same */
    /* The block sizes of its owner, immutable; NULL: multiples of 512 bytes. */
    const struct tn_rounding *rounding;
    tarn_pool *pool;       /* its owner, compared alone; NULL in a recycled record */
    struct tn_order order; /* zero for idle memory; none once its stream is retired */
    /* The stamp of routes which lead its order's allocations here: pools/route.h. */
    uint64_t routes_stamp;
    /* The first cache line ends here; the fields which every allocation writes begin the next. */
    struct tn_arena_counters counters;
    uint64_t sequence;      /* the next block's number, one above the newest block's; 0: none yet */
    uint64_t sequences_end; /* the end of the numbers taken for the arena */
    /* The bytes which a heap may free before an allocation goes to the pool, which then asks the
     * stream how far it has come; set when the pool is unlocked. */
    uint64_t unasked_bytes_left;
    /* In the arena's record of heaps, and immutable; NULL in a recycled record. Without a lock they
     * are read, atomically, for a prefetch alone. */
    struct tn_heap *heaps[TN_HEAP_KINDS];
    struct tn_block_store store; /* for heap/steady.c; no slabs of its own */
    /* Frees by threads other than its user, before the arena is shared. */
    uint8_t guest_free_count;
    uint8_t user_changes; /* by allocations, before the arena is divided */
    uint8_t closes_alone; /* of its magazines in a row, of which one was used at most */
    /* How often the store was found empty: the more often, the more records it keeps. */
    uint8_t exhaustions;
    uint8_t patience; /* 2^patience turns in a row make the user the owner */
    uint32_t turns;   /* turns of the user in a row, while the arena has no owner */
    /* The tn_thread_word of the only thread which may become the owner; 0: any. Kept for good. */
    uintptr_t owner;
    /* The stamp of memory freed now; the pointer is immutable. */
    const atomic_uint_fast64_t *epoch;
    /* The chunks of its capture, set when the pool is unlocked; NULL outside captures. */
    const struct tn_chunk_set *captured;
    /* A free that names the stream goes to the pool, which then asks the stream, where live_bytes
     * falls so far below live_peak_bytes, or to the second value; set when the pool is unlocked. */
    int64_t asks_below_peak;
    int64_t asks_at;
    /* Other threads read the following fields when they free. No allocation writes these cache
     * lines, nor the lines next to them. */
    _Alignas(128) _Atomic(struct tn_inbox *) inbox; /* NULL: none yet; stays with the record */
    _Atomic(struct tn_magazines *) magazines;       /* the same */
    atomic_bool magazines_open;                     /* see heap/magazine.h */
    /* tn_thread_word of the thread that allocated last; with TN_ARENA_OWNED: the owner. */
    atomic_uintptr_t user;
    /* The handle of its order's stream, as a call named it; never a stream in a capture, nor a
     * default stream. 0: none, retired, or the arena has ended. A stream has the same handle as
     * long as it lives, and the next stream may get that handle. */
    atomic_uintptr_t stream;
    struct tn_arena_link in[TN_ARENA_LISTS]; /* where its pool lists it */
    uint32_t unused_locks; /* of the pool in a row, without a call that used it between */
    /* The pool's lock guards these six, also while the arena is asleep. */
    uint8_t gives;          /* P40; TN_GIVES_ANY while it is awake */
    bool asleep;            /* P30: in the list of those asleep */
    bool returned;          /* its stream has used it again after it slept, or was dormant */
    uint8_t chances;        /* while it is asleep: see pools/arenas.h */
    bool was_asked;         /* an event of its stream is under way, or nobody has looked since */
    uint8_t vain_asks;      /* since an allocation last looked for idle memory */
    struct tn_fence *fence; /* retired: the fence which ends the stream's work; else NULL */
    struct tn_progress progress; /* of its stream's work; nothing in a capture. The pool's lock. */
    uint64_t unasked_bytes; /* freed since its stream was last asked; the pool's lock, as below */
    uint64_t fallen_bytes;  /* by which less is live than at most since then */
    uint64_t saved_count;   /* blocks of its order in checkpoints */
    uint64_t settled_stamp; /* the epoch of the last restore on another stream; 0: none */
    uint64_t asleep_since;  /* how often the pool had been locked when it fell asleep */
    /* In a capture: the births of its blocks; belongs to the hold. NULL: none yet. */
    struct tn_births *births;
    /* The store which lends records and takes them back; immutable. */
    struct tn_block_store *parent_store;
};

/* The heaps of an arena, and what else nobody reads without its lock or its pool's: a record apart,
 * which is really freed, and some twenty times as large as the arena's own. */
struct tn_heaps {
    struct tn_heap of[TN_HEAP_KINDS];
    struct tn_index_entry by_stream; /* P38 */
    /* In a capture: the nodes which its next work comes after; see pools/pending.h. */
    struct tn_ancestry ancestry;
    /* Without a ring where the device keeps none; no other thread writes beside it. */
    _Alignas(128) struct tn_history_writer history;
};

static inline struct tn_heaps *tn_arena_heaps(const struct tn_arena *arena)
{
    return (struct tn_heaps *)(void *)arena->heaps[0];
}

_Static_assert(offsetof(struct tn_heaps, of) == 0, "an arena's first heap leads to all of them");

/* Where the arena's events are written. The arena has heaps. */
static inline struct tn_history_writer *tn_arena_history(const struct tn_arena *arena)
{
    return &tn_arena_heaps(arena)->history;
}

static inline bool tn_arena_is_recorded(const struct tn_arena *arena)
{
    return tn_history_is_kept(tn_arena_history(arena));
}

_Static_assert(offsetof(struct tn_arena, counters) == 64, "a cache line");
_Static_assert(sizeof(struct tn_arena) <= 512,
               "what stays of each arena, for as long as the process");

/* Fields which arenas copy from their owner. */
struct tn_arena_owner {
    tarn_pool *pool;
    const struct tn_rounding *rounding;
    /* Rises with each wait for the device; memory is proven idle up to a value of this epoch. */
    const atomic_uint_fast64_t *epoch;
    struct tn_block_store *store;
    struct tn_heaps *heaps; /* of the arena, zeroed or left by another arena without memory */
    struct tn_segment *const *segments; /* the owner's first segment; for checks alone */
    struct tn_ring *history;            /* NULL: none is kept */
};

/* Heaps for an arena; NULL: no memory. Those which no arena gets are given back. */
struct tn_heaps *tn_heaps_take(void);
void tn_heaps_give(struct tn_heaps *heaps);

/* Ends the use of a record, whose heaps have no memory, and gives the heaps back. The arena's lock is
 * held: another thread may look at the record. */
void tn_arena_end(struct tn_arena *arena);

void tn_arena_init(struct tn_arena *arena, const struct tn_arena_owner *owner,
                   struct tn_order order);

/* The bytes which the arena may still free before an allocation should ask its stream: 1/16 of its
 * memory, and 32 MiB at least, twice as many after each question that nobody used, up to sixteen
 * times. UINT64_MAX: it is not asked. */
uint64_t tn_arena_unasked_left(const struct tn_arena *arena);

/* The bytes by which the live ones fall before a free asks that names the stream: 1/16 of the
 * arena's memory, and 32 MiB at least; sixteen times as many once TN_VAIN_ASKS_MAX questions in a
 * row were in vain. What is allocated again at once is of no use to others, but the last frees of a
 * stream's work are: nothing is allocated behind them. INT64_MAX: it is not asked. */
int64_t tn_arena_asks_below_peak(const struct tn_arena *arena);

/* Bytes become live, or are freed, under the pool's lock. */
static inline void tn_arena_rise(struct tn_arena *arena, uint64_t bytes)
{
    arena->fallen_bytes -= tn_min(arena->fallen_bytes, bytes);
}

static inline void tn_arena_fall(struct tn_arena *arena, uint64_t bytes)
{
    arena->unasked_bytes += bytes;
    arena->fallen_bytes += bytes;
}

/* The binary logarithm, rounded down, of the bytes of the arena's largest FREE block; 0: none is
 * FREE. */
static inline uint8_t tn_arena_can_give(const struct tn_arena *arena)
{
    return (uint8_t)tn_max(tn_bins_log2_max(&arena->heaps[TN_HEAP_SMALL]->bins),
                           tn_bins_log2_max(&arena->heaps[TN_HEAP_LARGE]->bins));
}

/* The arena has a FREE block of so many bytes now; the pool's lock is held. */
static inline void tn_arena_gives(struct tn_arena *arena, uint64_t bytes)
{
    TN_ASSERT(bytes > 0);
    arena->gives = (uint8_t)tn_max(arena->gives, tn_log2_floor(bytes)); /* P40 */
}

/* The stamp of memory that is freed now. */
static inline uint64_t tn_arena_epoch(const struct tn_arena *arena)
{
    return atomic_load(arena->epoch);
}

/* Relaxed: for holders of the arena's lock, under which this pointer was set. */
static inline struct tn_inbox *tn_arena_inbox(const struct tn_arena *arena)
{
    return atomic_load_explicit(&arena->inbox, memory_order_relaxed);
}

static inline struct tn_magazines *tn_arena_magazines(const struct tn_arena *arena)
{
    return atomic_load_explicit(&arena->magazines, memory_order_acquire);
}

static inline bool tn_arena_is_captured(const struct tn_arena *arena)
{
    return arena->order.capture_id != 0;
}

/* The order which allocated a LIVE or PENDING block; none once the stream is retired. */
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
    struct tn_arena *arena = block->heap->arena;

    block->own_order = tn_order_equal(order, arena->order);
    if (block->own_order)
        return;
    tn_block_cold(block)->order = order;
    if (order.capture_id == 0 && !tn_order_equal(order, TN_ORDER_NONE))
        arena->parent_store->has_strays = true;
}

/* Whether its memory goes to captures: the arena is a capture's, or idle memory. */
static inline bool tn_arena_serves_captures(const struct tn_arena *arena)
{
    return arena->order.capture_id != 0 || arena->order.stream_id == 0;
}

/* Whether the next user of the LIVE, PENDING or DISCARDED block's memory is ordered behind its last
 * use:
 * - the order that owns its chunks now also allocated the block; or
 * - a capture allocated the block and the memory goes to captures, whose graphs the pool keeps in
 *   order; or
 * - its stream is retired, and the fence stands for the stream's work. */
static inline bool tn_block_next_use_follows(const struct tn_block *block)
{
    const struct tn_arena *arena = block->heap->arena;

    TN_ASSERT(block->state != TN_BLOCK_FREE && block->state != TN_BLOCK_UNMAPPED);
    return tn_block_is_of(block, arena->order) || tn_block_is_of(block, TN_ORDER_NONE) ||
           (tn_block_order(block).capture_id != 0 && tn_arena_serves_captures(arena));
}

/* Another heap owns the block's chunks now; the block's order does not change. */
static inline void tn_block_pass(struct tn_block *block, struct tn_heap *heap)
{
    struct tn_order order = {0, 0};
    bool ordered = block->state != TN_BLOCK_FREE;

    TN_ASSERT(block->state != TN_BLOCK_UNMAPPED && block->state != TN_BLOCK_LOOSE);
    if (ordered)
        order = tn_block_order(block);
    if (block->state == TN_BLOCK_PENDING) {
        block->heap->pending_count -= 1;
        heap->pending_count += 1;
    }
    block->heap = heap;
    if (ordered)
        tn_block_set_order(block, order);
    block->in_other_heap = tn_kind_of(tn_block_bytes(block)) != heap->kind; /* P20 */
    if (block->state == TN_BLOCK_PENDING && !tn_block_next_use_follows(block))
        tn_block_cold(block)->proof_stamp = tn_block_cold(block)->freed_stamp; /* P24 */
    if (block->state == TN_BLOCK_LIVE)
        tn_live_update(block); /* P23 */
}

/* Whether frees in the chunk come from an order outside captures. */
static inline bool tn_chunk_is_of_work(const struct tn_chunk *chunk)
{
    const struct tn_heap *heap = atomic_load_explicit(&chunk->heap, memory_order_relaxed);

    return heap != NULL && !tn_arena_serves_captures(heap->arena);
}

/* The chunk belongs to the heap from now on; NULL: to nobody. */
void tn_chunk_pass(struct tn_chunk *chunk, struct tn_heap *heap);

/* The heap grows the segment from now on; NULL: none. */
void tn_segment_set_grower(struct tn_segment *segment, struct tn_heap *heap);

/* The chunk under the block's byte at this offset of the segment. */
static inline struct tn_chunk *tn_block_chunk_at(const struct tn_block *block, uint64_t offset)
{
    struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, offset);

    TN_ASSERT(chunk != NULL && tn_block_may_be_of(block, chunk->heap)); /* P2 */
    return chunk;
}

/* The heap gets memory of the segment. */
static inline void tn_segment_admit(struct tn_segment *segment, const struct tn_heap *heap)
{
    TN_ASSERT(heap->arena->pool == atomic_load(&segment->owner));
    if (segment->first_arena == NULL)
        segment->first_arena = heap->arena;
    if (segment->first_arena != heap->arena)
        segment->mixed = true; /* P2 */
}

/* The heap has just got a chunk of the segment. If the heap is idle memory's, and idle memory has all
 * its chunks now, the segment is no longer mixed. */
void tn_segment_unite_idle(struct tn_segment *segment, const struct tn_heap *heap);

/* bytes: the arena's chunks of the segment. If these are all its chunks, the segment is no longer
 * mixed. */
static inline void tn_segment_unite(struct tn_segment *segment, const struct tn_arena *arena,
                                    uint64_t bytes)
{
    TN_ASSERT(bytes <= segment->mapped_bytes);
    if (bytes == 0 || bytes < segment->mapped_bytes)
        return;
    segment->first_arena = arena;
    segment->mixed = false; /* P2 */
}

/* Whether a neighbour may belong to another arena, whose own lock guards the neighbour's links. One
 * that keeps a heap of idle memory (P2) counts, too. */
static inline bool tn_block_is_foreign(const struct tn_block *neighbour,
                                       const struct tn_arena *arena)
{
    return neighbour != NULL && neighbour->heap != NULL && neighbour->heap->arena != arena;
}

/* Whether the chunk, found by the address without a lock, is still there and belongs to the arena;
 * *offset: the address in its segment. Relaxed: both change only under the pool's lock. The caller
 * excludes this lock, and acquired this exclusion after the last change. */
static TN_ALWAYS_INLINE bool tn_arena_is_at(const struct tn_arena *arena,
                                            const struct tn_chunk *chunk, uint64_t address,
                                            uint64_t *offset)
{
    if (TN_UNLIKELY(atomic_load_explicit(&chunk->arena, memory_order_relaxed) != arena))
        return false;
    *offset = address - atomic_load_explicit(&chunk->segment, memory_order_relaxed)->base;
    return TN_LIKELY(*offset - chunk->offset < chunk->bytes);
}

/* Whether the run of blocks from low to high lies between memory of two other arenas. */
static inline bool tn_run_is_enclosed(const struct tn_block *low, const struct tn_block *high,
                                      const struct tn_arena *arena)
{
    TN_ASSERT(low->segment == high->segment);
    return low->segment->mixed && tn_block_is_foreign(low->previous, arena) &&
           tn_block_is_foreign(high->next, arena);
}

/* Whether the block is a FREE block of the heap. The heap is compared first: the state of another
 * arena's block must not be read. */
static inline bool tn_block_is_free_of(const struct tn_block *block, const struct tn_heap *heap)
{
    return block != NULL && block->heap == heap && block->state == TN_BLOCK_FREE;
}

/* Makes a block, in no list, FREE: coalesces it with its neighbours and puts it in its heap's bins.
 * Returns the whole block, whose record is the lowest one's. */
struct tn_block *tn_heap_put(struct tn_block_store *store, struct tn_block *block);

/* Takes bytes at an offset out of a FREE block; the rest before and behind stays FREE. Takes up to
 * two records. */
struct tn_block *tn_heap_carve(struct tn_block_store *store, struct tn_block *block,
                               uint64_t offset, uint64_t bytes);

/* tn_heap_put and tn_heap_carve under the arena's lock alone, with the arena's own records. A
 * record beside another arena's block stays in place, since the other block's link to it must not
 * be written. The run of blocks which is made or cut is not enclosed. Where possible, a block in a
 * bin keeps its record and its place. */
void tn_arena_put(struct tn_arena *arena, struct tn_block *block);
struct tn_block *tn_arena_carve(struct tn_arena *arena, struct tn_block *block, uint64_t offset,
                                uint64_t bytes);

/* Adds to or subtracts from the used bytes of the chunks under the block; freeing stamps them.
 * outside_stamp: the same stamp, or a lower one where the end of the chunks' holds proves the
 * rest. */
void tn_block_count_used(struct tn_block *block);
void tn_block_count_freed(struct tn_block *block, uint64_t freed_stamp, uint64_t outside_stamp);

/* tn_block_count_freed for a block of its arena's own order, and of chunks which a hold has if the
 * arena serves captures: only the stamp of all frees changes. */
void tn_block_count_freed_by_order(struct tn_block *block, uint64_t freed_stamp);

/* Enters a block in the index of the chunk in which it begins, and in the used bytes of all chunks
 * under it. open: the block is plain, or will be. */
static inline void tn_block_enter(struct tn_block *block, struct tn_chunk *chunk, bool open)
{
    TN_ASSERT(block->offset >= chunk->offset && block->offset < tn_chunk_end(chunk));
    tn_chunk_live_insert(chunk, block, open);
    if (tn_block_end(block) <= tn_chunk_end(chunk))
        chunk->used_bytes += tn_block_bytes(block);
    else
        tn_block_count_used(block);
}

/* Adds up what heaps, and threads, have counted. */
static inline void tn_tally_add(struct tn_tally *to, const struct tn_tally *from)
{
    to->count += from->count;
    to->bytes += from->bytes;
    to->requested += from->requested;
}

/* Counts an allocation or a free of the steady state: pools/counters.c collects these counts. */
static TN_ALWAYS_INLINE void tn_arena_count_reissue(struct tn_arena *arena, struct tn_heap *heap,
                                                    uint64_t bytes, uint64_t requested)
{
    TN_ASSERT(heap->arena == arena && bytes >= requested);
    heap->counters.allocated.count += 1;
    heap->counters.allocated.bytes += bytes;
    heap->counters.allocated.requested += requested;
    arena->counters.live_bytes += (int64_t)bytes;
}

static TN_ALWAYS_INLINE void tn_arena_count_allocation(struct tn_arena *arena, struct tn_heap *heap,
                                                       uint64_t bytes, uint64_t requested)
{
    struct tn_arena_counters *counters = &arena->counters;

    tn_arena_count_reissue(arena, heap, bytes, requested);
    if (counters->live_bytes > counters->live_peak_bytes)
        counters->live_peak_bytes = counters->live_bytes;
}

static TN_ALWAYS_INLINE void tn_arena_count_free(struct tn_arena *arena, struct tn_heap *heap,
                                                 const struct tn_block *block)
{
    uint64_t bytes = tn_block_bytes(block);

    TN_ASSERT(block->heap == heap && !block->in_other_heap); /* P20 */
    heap->counters.freed.count += 1;
    heap->counters.freed.bytes += bytes;
    heap->counters.freed.requested += block->requested;
    arena->counters.live_bytes -= (int64_t)bytes;
}

/* Takes a loose block out of the books; epoch: when it was freed. */
static TN_ALWAYS_INLINE void tn_block_leave(struct tn_block *block, uint64_t epoch)
{
    struct tn_chunk *chunk = tn_block_chunk_at(block, block->offset);

    TN_ASSERT(block->state == TN_BLOCK_LOOSE || block->state == TN_BLOCK_LIVE);
    tn_chunk_live_remove(chunk, block);
    if (tn_block_end(block) <= tn_chunk_end(chunk)) {
        TN_ASSERT(chunk->used_bytes >= tn_block_bytes(block)); /* P6 */
        chunk->used_bytes -= tn_block_bytes(block);
        chunk->freed_stamp = tn_max(chunk->freed_stamp, epoch);
    } else {
        tn_block_count_freed_by_order(block, epoch);
    }
}

/* Enters an arena as the first of a list, takes it out of one, or puts it to the end of one it is
 * in. The lock of the pool is held. */
void tn_arena_link(struct tn_arena_lists *lists, struct tn_arena *arena, enum tn_arena_list list);
void tn_arena_unlink(struct tn_arena_lists *lists, struct tn_arena *arena, enum tn_arena_list list);
void tn_arena_put_last(struct tn_arena_lists *lists, struct tn_arena *arena,
                       enum tn_arena_list list);

#endif
