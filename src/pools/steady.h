// SPDX-License-Identifier: Apache-2.0
/* steady.h -- the steady state: allocations and frees that concern one arena alone.
 *
 * They take that arena's lock and write what is its own: its bins, the records of its blocks, the counters
 * of its chunks. Everything else (growth, uses on other streams, captures, memory that changes hands) is
 * the business of pool.c, which takes the lock of the whole pool; so is every error.
 *
 * What the pool's lock alone may change stays as it is under an arena's lock: which chunks are its
 * own, whether captures are under way, who claims the pool. So whether an arena may allocate and free here is
 * found out once, when the pool is unlocked.
 *
 * What is freed is loose at first. Asked for again in its very size it is there as it was; else it joins its
 * neighbours later, at the latest when the heap has nothing else for an allocation, and before it grows. See
 * pools/steady.c.
 *
 * Locking: none may be held. Nothing here calls the driver. */
#ifndef TARN_POOLS_STEADY_H
#define TARN_POOLS_STEADY_H

#include "base/hot.h"
#include "pools/arena_lock.h"
#include "pools/arena_table.h"
#include "pools/pool.h"
#include "pools/route.h"

/* The parts of an allocation that not all come to: new numbers for blocks; a block from the heap's slots, or cut out
 * of its free memory, NULL where there is none that can be. */
TN_RARE void tn_steady_take_sequences(struct tn_arena *arena);
struct tn_block *tn_steady_take(struct tn_arena *arena, struct tn_heap *heap,
                                const struct tn_request *request, uint64_t bytes);

static TN_ALWAYS_INLINE uint64_t tn_steady_next_sequence(struct tn_arena *arena)
{
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

    heap->counters.allocated.count += 1;
    heap->counters.allocated.bytes += bytes;
    heap->counters.allocated.requested += requested;
    counters->live_bytes += (int64_t)bytes;
    if (counters->live_bytes > counters->live_peak_bytes)
        counters->live_peak_bytes = counters->live_bytes;
}

/* loose: NULL: there is none. */
static TN_ALWAYS_INLINE bool tn_steady_fits(const struct tn_block *loose, uint64_t bytes,
                                            uint64_t alignment)
{
    return loose != NULL && tn_block_bytes(loose) == bytes &&
           (tn_block_address(loose) & (alignment - 1)) == 0;
}

/* Frees what others have left in the inbox, until what is freed last serves the allocation and makes no peak. False: the
 * pool's lock is needed for that. */
bool tn_steady_receive(struct tn_arena *arena, const struct tn_heap *heap,
                       const struct tn_request *request, uint64_t bytes);

/* Chosen, not computed: the latter takes more instructions, and each use does it anew. */
static TN_ALWAYS_INLINE struct tn_heap *tn_steady_heap_for(struct tn_arena *arena, uint64_t bytes)
{
    return bytes <= TN_SMALL_BYTES_MAX ? &arena->heaps[TN_HEAP_SMALL]
                                       : &arena->heaps[TN_HEAP_LARGE];
}

static TN_ALWAYS_INLINE bool tn_steady_allocate_as(struct tn_arena *arena,
                                                   const struct tn_request *request, bool shared,
                                                   void **address)
{
    uint64_t bytes = tn_block_bytes_for(arena->pool, request->requested);
    struct tn_heap *heap = tn_steady_heap_for(arena, bytes);
    struct tn_block *block;

    if (shared && !tn_steady_receive(arena, heap, request, bytes))
        return false;
    block = heap->loose;
    if (TN_LIKELY(tn_steady_fits(block, bytes, request->alignment))) {
        heap->loose = NULL; /* as it was before the free: no peak of the heap's */
        if (shared)
            tn_live_mark(block); /* P23: it is open again */
    } else {
        block = tn_steady_take(arena, heap, request, bytes);
    }
    if (TN_UNLIKELY(block == NULL))
        return false;
    block->requested = request->requested;
    block->sequence = tn_steady_next_sequence(arena);
    block->state = TN_BLOCK_LIVE;
    tn_steady_count_allocation(arena, heap, bytes, request->requested);
    *address = (void *)(uintptr_t)tn_block_address(block);
    return true;
}

bool tn_steady_allocate_shared(struct tn_arena *arena, const struct tn_request *request,
                               void **address);

/* From an arena that is locked; entered: as its owner does. */
static TN_ALWAYS_INLINE bool tn_steady_allocate_in(struct tn_arena *arena,
                                                   const struct tn_request *request, bool entered,
                                                   void **address)
{
    if (TN_UNLIKELY(!entered))
        tn_arena_use(arena);
    if (TN_LIKELY(arena->allocates == TN_STEADY))
        return tn_steady_allocate_as(arena, request, false, address);
    return arena->allocates == TN_STEADY_SHARED &&
           tn_steady_allocate_shared(arena, request, address);
}

/* Allocates for a stream, or for one in a capture that was admitted; what it gives there is the capture's
 * hold's already. False: nothing has changed, and tn_pool_allocate is to be asked. */
static TN_ALWAYS_INLINE bool tn_steady_allocate(tarn_pool *pool, const struct tn_request *request,
                                                void **address)
{
    struct tn_arena *arena = tn_arena_seek(pool, request->order);
    bool entered;
    bool done;

    if (TN_UNLIKELY(arena == NULL))
        return false;
    entered = tn_arena_enter(arena);
    if (TN_UNLIKELY(!entered))
        tn_arena_lock(arena);
    done = TN_LIKELY(arena->pool == pool && tn_order_equal(arena->order, request->order)) &&
           tn_steady_allocate_in(arena, request, entered, address);
    tn_arena_leave(arena, entered);
    return done;
}

/* The arena that is remembered for the stream's captures, NULL: none; what such an allocation writes there is brought
 * near while the driver is asked for the capture, which takes as long. */
static inline struct tn_arena *tn_steady_expect_routed(struct tn_routes *routes,
                                                       tn_cu_stream stream, uint64_t requested)
{
    struct tn_arena *arena = atomic_load_explicit(
        tn_route_place(routes, tn_stream_captured_id(stream)), memory_order_acquire);

    if (TN_LIKELY(arena != NULL)) {
        __builtin_prefetch(arena, 1);
        __builtin_prefetch(&arena->counters, 1);
        __builtin_prefetch(&arena->user);
        __builtin_prefetch(tn_steady_heap_for(arena, requested), 1);
    }
    return arena;
}

/* tn_steady_allocate from that arena, if the routes' choice for the order is remembered still. */
bool tn_steady_allocate_routed(const struct tn_routes *routes, struct tn_arena *arena,
                               const struct tn_request *request, void **address);

/* Frees the live block that begins at the address, whatever that is. False: nothing has changed, and
 * tn_pool_lock_block is to be asked. */
bool tn_steady_free(uint64_t address);

/* Gives the arena an inbox, for good: what other threads free is left there. False: no memory. Any thread may call,
 * whatever has become of the arena. */
bool tn_steady_share(struct tn_arena *arena);

/* The pool's lock was taken, or is about to be given back: the steady state ends or begins. */
void tn_steady_end(struct tn_arena *arena);
void tn_steady_begin(struct tn_arena *arena);

/* Sets block records aside for the arena where it has few; the pool is locked. False: no memory. */
bool tn_steady_provide(struct tn_arena *arena);

/* Gives the pool what records the arena has too many of: frees join blocks, and what is cut under the
 * pool's lock takes its records. The pool is locked. */
void tn_steady_level(struct tn_arena *arena);

#endif
