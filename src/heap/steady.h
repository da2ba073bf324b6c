// SPDX-License-Identifier: Apache-2.0
/* steady.h -- the steady state: allocations and frees that concern one arena alone.
 *
 * They take that arena's lock and write what is its own: its bins, the records of its blocks, the counters
 * of its chunks. Everything else (growth, uses on other streams, captures, memory that changes hands) is
 * the business of pools/allocate.c and free.c, which take the lock of the whole pool; so is every error.
 *
 * What the pool's lock alone may change stays as it is under an arena's lock: which chunks are its
 * own, whether captures are under way, who claims the pool. So whether an arena may allocate and free here is
 * found out once, when the pool is unlocked.
 *
 * What is freed is loose at first. Asked for again in its very size it is there as it was; else it joins its
 * neighbours later, at the latest when the heap has nothing else for an allocation, and before it grows. See
 * heap/steady.c.
 *
 * What nearly all calls do stands here, inline: with the function of the API it is one piece of code, and a free or an
 * allocation of what was freed last calls nothing but the driver. What fewer come to is called, last of all where
 * that can be, so that registers are kept for it by nobody else.
 *
 * Locking: none may be held. Nothing here calls the driver. */
#ifndef TARN_HEAP_STEADY_H
#define TARN_HEAP_STEADY_H

#include "base/hot.h"
#include "heap/arena_lock.h"
#include "heap/check.h"
#include "vmm/address_table.h"

enum {
    /* 4 MiB: larger blocks are few, so the edge of the mapped memory is worth more than the time. */
    TN_STEADY_LARGE_UNITS = (4 << 20) >> TN_BLOCK_BITS,
};

/* The parts of an allocation that not all come to: new numbers for blocks; a block from the heap's slots, or cut out
 * of its free memory, NULL where there is none that can be. */
TN_RARE void tn_steady_take_sequences(struct tn_arena *arena);
struct tn_block *tn_steady_take(struct tn_arena *arena, struct tn_heap *heap, uint64_t requested,
                                uint64_t alignment, uint64_t bytes);

static TN_ALWAYS_INLINE uint64_t tn_steady_next_sequence(struct tn_arena *arena)
{
    TN_ASSERT(arena->sequence <= arena->sequences_end);
    if (TN_UNLIKELY(arena->sequence == arena->sequences_end))
        tn_steady_take_sequences(arena);
    arena->sequence += 1;
    return arena->sequence - 1;
}

static TN_ALWAYS_INLINE void tn_steady_count_allocation(struct tn_arena *arena,
                                                        struct tn_heap *heap, uint64_t bytes,
                                                        uint64_t requested)
{
    struct tn_arena_counters *counters = &arena->counters;

    TN_ASSERT(heap->arena == arena && bytes >= requested);
    heap->counters.allocated.count += 1;
    heap->counters.allocated.bytes += bytes;
    heap->counters.allocated.requested += requested;
    counters->live_bytes += (int64_t)bytes;
    if (counters->live_bytes > counters->live_peak_bytes)
        counters->live_peak_bytes = counters->live_bytes;
}

/* The block, taken with its bytes and with what was requested, is LIVE; its address. */
static TN_ALWAYS_INLINE void *tn_steady_make_live(struct tn_arena *arena, struct tn_heap *heap,
                                                  struct tn_block *block, uint64_t bytes,
                                                  uint64_t requested)
{
    block->sequence = tn_steady_next_sequence(arena);
    block->state = TN_BLOCK_LIVE;
    tn_steady_count_allocation(arena, heap, bytes, requested);
    TN_CHECK_TOUCHED(block);
    TN_CHECK_TURN(heap);
    return (void *)(uintptr_t)tn_block_address(block);
}

/* loose: NULL: there is none. */
static TN_ALWAYS_INLINE bool tn_steady_fits(const struct tn_block *loose, uint64_t bytes,
                                            uint64_t alignment)
{
    TN_ASSERT(loose == NULL || loose->state == TN_BLOCK_LOOSE);
    return loose != NULL && tn_block_bytes(loose) == bytes &&
           (TN_LIKELY(alignment == TN_BLOCK_BYTES_MIN) ||
            (tn_block_address(loose) & (alignment - 1)) == 0);
}

/* Frees what others have left in the inbox, until what is freed last serves the allocation and makes no peak. False: the
 * pool's lock is needed for that. */
bool tn_steady_receive(struct tn_arena *arena, const struct tn_heap *heap, uint64_t alignment,
                       uint64_t bytes);

/* Chosen, not computed: the latter takes more instructions, and each use does it anew. */
static TN_ALWAYS_INLINE struct tn_heap *tn_steady_heap_for(struct tn_arena *arena, uint64_t bytes)
{
    TN_ASSERT(bytes > 0);
    return tn_kind_of(bytes) == TN_HEAP_SMALL ? &arena->heaps[TN_HEAP_SMALL]
                                              : &arena->heaps[TN_HEAP_LARGE];
}

static TN_ALWAYS_INLINE bool tn_steady_allocate_as(struct tn_arena *arena, uint64_t requested,
                                                   uint64_t alignment, bool shared, void **address)
{
    uint64_t bytes = tn_block_bytes_for(arena->rounding, requested);
    struct tn_heap *heap = tn_steady_heap_for(arena, bytes);
    struct tn_block *block;

    if (shared && !tn_steady_receive(arena, heap, alignment, bytes))
        return false;
    block = heap->loose;
    if (TN_LIKELY(tn_steady_fits(block, bytes, alignment))) {
        heap->loose = NULL; /* as it was before the free: no peak of the heap's */
        if (shared)
            tn_live_mark(block); /* P23: it is open again */
    } else {
        block = tn_steady_take(arena, heap, requested, alignment, bytes);
    }
    if (TN_UNLIKELY(block == NULL))
        return false;
    block->requested = requested;
    *address = tn_steady_make_live(arena, heap, block, bytes, requested);
    return true;
}

bool tn_steady_allocate_shared(struct tn_arena *arena, uint64_t requested, uint64_t alignment,
                               void **address);

/* From an arena that is locked, or that its owner has entered. */
static TN_ALWAYS_INLINE bool tn_steady_allocate_in(struct tn_arena *arena, uint64_t requested,
                                                   uint64_t alignment, void **address)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    if (TN_LIKELY(arena->allocates == TN_STEADY))
        return tn_steady_allocate_as(arena, requested, alignment, false, address);
    return arena->allocates == TN_STEADY_SHARED &&
           tn_steady_allocate_shared(arena, requested, alignment, address);
}

/* What an arena that was found without a lock must be still, for an allocation. */
struct tn_steady_claim {
    struct tn_order order;
    const tarn_pool *pool; /* NULL: the routes' choice is remembered */
    uint64_t routes_stamp; /* with that stamp */
};

static TN_ALWAYS_INLINE bool tn_steady_is_claimed(const struct tn_arena *arena,
                                                  struct tn_steady_claim claim)
{
    return TN_LIKELY(claim.pool != NULL ? arena->pool == claim.pool
                                        : arena->routes_stamp == claim.routes_stamp) &&
           TN_LIKELY(tn_order_equal(arena->order, claim.order));
}

/* By another thread than the owner. */
bool tn_steady_allocate_locked(struct tn_arena *arena, const struct tn_steady_claim *claim,
                               uint64_t requested, uint64_t alignment, void **address);

/* In a capture that was admitted, with the block's birth: place is where the order stands. By any thread. False: nothing
 * has changed. */
TN_APART bool tn_steady_allocate_born(struct tn_arena *arena, const struct tn_steady_claim *claim,
                                      const struct tn_place *place, uint64_t requested,
                                      uint64_t alignment, void **address);

static TN_ALWAYS_INLINE bool tn_steady_allocate_from(struct tn_arena *arena,
                                                     struct tn_steady_claim claim,
                                                     uint64_t requested, uint64_t alignment,
                                                     void **address)
{
    bool done;

    if (TN_UNLIKELY(!tn_arena_enter(arena))) {
        const struct tn_steady_claim kept = claim; /* else the claim would be kept in memory */

        return tn_steady_allocate_locked(arena, &kept, requested, alignment, address);
    }
    done = tn_steady_is_claimed(arena, claim) &&
           tn_steady_allocate_in(arena, requested, alignment, address);
    tn_arena_leave(arena);
    return done;
}

/* From an arena that is locked, or that its owner has entered: the block that was freed last, where as many bytes were
 * asked for then. */
static TN_ALWAYS_INLINE bool tn_steady_allocate_last(struct tn_arena *arena, uint64_t requested,
                                                     uint64_t alignment, void **address)
{
    uint64_t bytes = tn_block_bytes_for(arena->rounding, requested);
    struct tn_heap *heap = tn_steady_heap_for(arena, bytes);
    struct tn_block *block = heap->loose;

    TN_ASSERT(tn_arena_is_locked(arena));
    if (TN_UNLIKELY(arena->allocates != TN_STEADY) ||
        TN_UNLIKELY(!tn_steady_fits(block, bytes, alignment)) ||
        TN_UNLIKELY(block->requested != requested))
        return false;
    heap->loose = NULL;
    *address = tn_steady_make_live(arena, heap, block, bytes, requested);
    return true;
}

/* By another thread than the owner. */
TN_APART bool tn_steady_allocate_last_locked(struct tn_arena *arena,
                                             const struct tn_steady_claim *claim,
                                             uint64_t requested, uint64_t alignment,
                                             void **address);

/* In a capture that was admitted: what was freed last. It is the capture's hold's already, and its birth stands. False:
 * nothing has changed. */
static TN_ALWAYS_INLINE bool tn_steady_allocate_again(struct tn_arena *arena,
                                                      struct tn_steady_claim claim,
                                                      uint64_t requested, uint64_t alignment,
                                                      void **address)
{
    bool done;

    if (TN_UNLIKELY(!tn_arena_enter(arena))) {
        const struct tn_steady_claim kept = claim; /* else the claim would be kept in memory */

        return tn_steady_allocate_last_locked(arena, &kept, requested, alignment, address);
    }
    done = tn_steady_is_claimed(arena, claim) &&
           tn_steady_allocate_last(arena, requested, alignment, address);
    tn_arena_leave(arena);
    return done;
}

/* Whether the chunk, found by the address without a lock, is still there, and the arena's; and where in its segment.
 * Relaxed, for nobody changes either but under the pool's lock, and what keeps that away was acquired after the last
 * change. */
static TN_ALWAYS_INLINE bool tn_steady_is_at(const struct tn_arena *arena,
                                             const struct tn_chunk *chunk, uint64_t address,
                                             uint64_t *offset)
{
    if (TN_UNLIKELY(atomic_load_explicit(&chunk->arena, memory_order_relaxed) != arena))
        return false;
    *offset = address - atomic_load_explicit(&chunk->segment, memory_order_relaxed)->base;
    return TN_LIKELY(*offset - chunk->offset < chunk->bytes);
}

/* Whether the block's run of free memory, once it is free, will lie between memory of two other arenas. */
static TN_ALWAYS_INLINE bool tn_steady_wedges(const struct tn_arena *arena,
                                              const struct tn_heap *heap,
                                              const struct tn_block *block)
{
    const struct tn_block *low = block;
    const struct tn_block *high;

    if (!block->segment->divided)
        return false;
    high = tn_block_is_free_of(block->next, heap) ? block->next : block;
    if (!tn_block_is_foreign(high->next, arena))
        return false;
    if (tn_block_is_free_of(block->previous, heap))
        low = block->previous;
    return low != high && tn_block_is_foreign(low->previous, arena);
}

/* Whether it is a large block at the edge of the mapped memory. */
static TN_ALWAYS_INLINE bool tn_steady_is_edge(const struct tn_block *block)
{
    return TN_UNLIKELY(block->units > TN_STEADY_LARGE_UNITS) && tn_block_is_at_unmapped(block);
}

static TN_ALWAYS_INLINE void tn_steady_count_free(struct tn_arena *arena, struct tn_heap *heap,
                                                  const struct tn_block *block)
{
    uint64_t bytes = tn_block_bytes(block);

    TN_ASSERT(tn_kind_of(bytes) == heap->kind); /* P20 */
    heap->counters.freed.count += 1;
    heap->counters.freed.bytes += bytes;
    heap->counters.freed.requested += block->requested;
    arena->counters.live_bytes -= (int64_t)bytes;
}

/* P19: it is what was freed last; nothing else is. */
static TN_ALWAYS_INLINE void tn_steady_loosen(struct tn_arena *arena, struct tn_heap *heap,
                                              struct tn_block *block)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    TN_ASSERT(heap->loose == NULL && block->state == TN_BLOCK_LIVE);
    tn_steady_count_free(arena, heap, block);
    block->loose_stamp = tn_arena_epoch(arena);
    block->state = TN_BLOCK_LOOSE;
    heap->loose = block;
    TN_CHECK_TOUCHED(block);
    TN_CHECK_TURN(heap);
}

/* What tn_steady_free_at_once leaves to be done. */
struct tn_steady_rest {
    struct tn_chunk *chunk; /* at the address; NULL: none */
    /* that begins there, and whose arena the owner has entered; NULL: none */
    struct tn_block *block;
};

/* The free that most are: by its arena's owner, and without a call. What it leaves is decided there. */
static TN_ALWAYS_INLINE bool tn_steady_free_at_once(uint64_t address, struct tn_steady_rest *rest)
{
    struct tn_chunk *chunk = tn_address_table_chunk(address);
    struct tn_arena *arena;
    struct tn_heap *heap;
    struct tn_block *block = NULL;
    uint64_t offset;

    *rest = (struct tn_steady_rest){chunk, NULL};
    if (TN_UNLIKELY(chunk == NULL))
        return false;
    arena = atomic_load_explicit(&chunk->arena, memory_order_acquire);
    if (TN_UNLIKELY(arena == NULL) || TN_UNLIKELY(!tn_arena_enter(arena)))
        return false;
    if (TN_LIKELY(arena->frees == TN_STEADY) && tn_steady_is_at(arena, chunk, address, &offset))
        block = tn_live_open_at(chunk, offset);
    if (TN_UNLIKELY(block == NULL) || TN_UNLIKELY(block->state != TN_BLOCK_LIVE)) {
        tn_arena_leave(arena);
        return false;
    }
    heap = atomic_load_explicit(&chunk->heap, memory_order_relaxed);
    rest->block = block;
    if (heap->loose != NULL || TN_UNLIKELY(arena->joins) || tn_steady_is_edge(block) ||
        TN_UNLIKELY(tn_steady_wedges(arena, heap, block)))
        return false;
    tn_steady_loosen(arena, heap, block);
    tn_arena_leave(arena);
    return true;
}

bool tn_steady_free_rest(uint64_t address, struct tn_steady_rest rest);

/* Frees the live block that begins at the address, whatever that is. False: nothing has changed, and
 * tn_pool_lock_block is to be asked. */
static inline bool tn_steady_free(uint64_t address)
{
    struct tn_steady_rest rest;

    return tn_steady_free_at_once(address, &rest) || tn_steady_free_rest(address, rest);
}

/* Gives the arena an inbox, for good: what other threads free is left there. False: no memory. Any thread may call,
 * whatever has become of the arena. */
bool tn_steady_share(struct tn_arena *arena);

/* What an arena may do from now on, which its owner knows. */
struct tn_steady_terms {
    bool allocates;
    bool frees;
    bool joins; /* what is freed joins its neighbours at once: nothing is loose */
    const struct tn_chunk_set
        *captured; /* that alone it may allocate from; NULL: all that it has */
};

/* The pool's lock was taken, or is about to be given back: the steady state ends or begins. */
void tn_steady_end(struct tn_arena *arena);
void tn_steady_begin(struct tn_arena *arena, const struct tn_steady_terms *terms);

/* Sets block records aside for the arena where it has few; the pool is locked. False: no memory. */
bool tn_steady_provide(struct tn_arena *arena);

/* The same for so many blocks, which the arena is about to have; it keeps as many from then on, up to a limit. */
bool tn_steady_expect(struct tn_arena *arena, size_t count);

/* Gives the pool what records the arena has too many of: frees join blocks, and what is cut under the
 * pool's lock takes its records. The pool is locked. */
void tn_steady_level(struct tn_arena *arena);

#endif
