// SPDX-License-Identifier: Apache-2.0
/* steady.h -- the steady state: allocations and frees which concern a single arena.
 *
 * They take this arena's lock and write its own data alone: its bins, the records of its blocks,
 * the counters of its chunks. Everything else (growth, uses on other streams, captures, memory that
 * changes hands) belongs to pools/allocate.c and free.c, which take the lock of the whole pool.
 * Errors belong to them, too.
 *
 * State guarded by the pool's lock does not change under an arena's lock: which chunks the arena
 * owns, whether captures are under way, who claims the pool. Whether an arena may allocate and free
 * here is therefore decided once, when the pool is unlocked.
 *
 * A freed block is loose at first. A request of its very size gets it back unchanged. Otherwise it
 * coalesces with its neighbours later: at the latest when the heap has no other block for an
 * allocation, before the heap grows. See heap/loose.h.
 *
 * The path of nearly all calls is inline here. With the function of the API it forms a single piece
 * of code: a free, or an allocation of the block freed last, calls nothing but the driver. Rarer
 * paths are calls, where possible as the last action of a function, which then need not keep
 * registers for them.
 *
 * Locking: the caller holds no lock. Nothing here calls the driver. */
#ifndef TARN_HEAP_STEADY_H
#define TARN_HEAP_STEADY_H

#include "base/hot.h"
#include "heap/arena_lock.h"
#include "heap/check.h"
#include "heap/loose.h"
#include "heap/sharing.h"
#include "vmm/address_table.h"

/* Rare parts of an allocation. tn_steady_take_sequences: new numbers for blocks. tn_steady_take: a
 * block from the heap's slots, or cut out of its free memory; NULL: none. */
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

/* Makes the block LIVE, which was taken with these bytes and this request. */
static TN_ALWAYS_INLINE void tn_steady_make_live(struct tn_arena *arena, struct tn_heap *heap,
                                                 struct tn_block *block, uint64_t sequence,
                                                 uint64_t bytes, uint64_t requested)
{
    block->sequence = sequence;
    block->state = TN_BLOCK_LIVE;
    tn_arena_count_allocation(arena, heap, bytes, requested);
    TN_CHECK_TOUCHED(block);
    TN_CHECK_TURN(heap);
}

/* Computed: a program's sizes would mislead a branch. */
static TN_ALWAYS_INLINE struct tn_heap *tn_steady_heap_for(struct tn_arena *arena, uint64_t bytes)
{
    TN_ASSERT(bytes > 0);
    return arena->heaps[tn_kind_of(bytes)];
}

/* The block, LIVE; NULL: none. */
static TN_ALWAYS_INLINE struct tn_block *tn_steady_get(struct tn_arena *arena, uint64_t requested,
                                                       uint64_t alignment, bool shared)
{
    uint64_t bytes = tn_block_bytes_for(arena->rounding, requested);
    struct tn_heap *heap = tn_steady_heap_for(arena, bytes);
    struct tn_block *block;

    if (shared && !tn_sharing_receive(arena, heap, alignment, bytes))
        return NULL;
    block = heap->loose;
    if (TN_LIKELY(tn_loose_fits(block, bytes, alignment))) {
        heap->loose = NULL; /* live bytes are as before the free: no peak of the heap's */
        if (shared)
            tn_live_update(block); /* P23: open again */
    } else {
        block = tn_steady_take(arena, heap, requested, alignment, bytes);
    }
    if (TN_UNLIKELY(block == NULL))
        return NULL;
    block->requested = requested;
    tn_steady_make_live(arena, heap, block, tn_steady_next_sequence(arena), bytes, requested);
    return block;
}

static TN_ALWAYS_INLINE void *tn_steady_address(const struct tn_block *block)
{
    return (void *)(uintptr_t)tn_block_address(block);
}

bool tn_arena_receive_and_allocate(struct tn_arena *arena, uint64_t requested, uint64_t alignment,
                                   void **address);

/* For an arena that records. tn_arena_reissue_and_record: as tn_arena_reissue, and false where that
 * takes more than a word of the history. */
bool tn_arena_allocate_and_record(struct tn_arena *arena, uint64_t requested, uint64_t alignment,
                                  void **address);
bool tn_arena_reissue_and_record(struct tn_arena *arena, uint64_t requested, uint64_t alignment,
                                 void **address);

/* Allocates from an arena that is locked, or whose owner has entered. */
static TN_ALWAYS_INLINE bool tn_arena_allocate(struct tn_arena *arena, uint64_t requested,
                                               uint64_t alignment, void **address)
{
    TN_ASSERT(tn_arena_is_locked(arena));
    if (TN_LIKELY(arena->allocates == TN_STEADY)) {
        const struct tn_block *block = tn_steady_get(arena, requested, alignment, false);

        if (TN_UNLIKELY(block == NULL))
            return false;
        *address = tn_steady_address(block);
        return true;
    }
    if ((arena->allocates & TN_RECORDED) != 0)
        return tn_arena_allocate_and_record(arena, requested, alignment, address);
    return arena->allocates == TN_STEADY_SHARED &&
           tn_arena_receive_and_allocate(arena, requested, alignment, address);
}

/* For an allocation: facts that must still hold for an arena found without a lock. */
struct tn_steady_key {
    struct tn_order order;
    const tarn_pool *pool; /* NULL: compares routes_stamp instead */
    uint64_t routes_stamp; /* the stamp under which the routes' choice was remembered */
};

static TN_ALWAYS_INLINE bool tn_steady_has_key(const struct tn_arena *arena,
                                               struct tn_steady_key key)
{
    return TN_LIKELY(key.pool != NULL ? arena->pool == key.pool
                                      : arena->routes_stamp == key.routes_stamp) &&
           TN_LIKELY(tn_order_equal(arena->order, key.order));
}

/* For any thread but the owner. */
bool tn_steady_lock_and_allocate(struct tn_arena *arena, const struct tn_steady_key *key,
                                 uint64_t requested, uint64_t alignment, void **address);

/* In an admitted capture: allocates and enters the birth; place: where the order stands. Any
 * thread. False: nothing has changed. */
TN_APART bool tn_steady_allocate_and_note_birth(struct tn_arena *arena,
                                                const struct tn_steady_key *key,
                                                const struct tn_place *place, uint64_t requested,
                                                uint64_t alignment, void **address);

static TN_ALWAYS_INLINE bool tn_steady_try_allocate(struct tn_arena *arena,
                                                    struct tn_steady_key key, uint64_t requested,
                                                    uint64_t alignment, void **address)
{
    bool done;

    if (TN_UNLIKELY(!tn_arena_enter(arena))) {
        const struct tn_steady_key kept = key; /* else key itself would be kept in memory */

        return tn_steady_lock_and_allocate(arena, &kept, requested, alignment, address);
    }
    done = tn_steady_has_key(arena, key) && tn_arena_allocate(arena, requested, alignment, address);
    tn_arena_leave(arena);
    return done;
}

/* Allocates the block freed last, if the request then had the same size. The arena is locked, or
 * its owner has entered. */
static TN_ALWAYS_INLINE bool tn_arena_reissue(struct tn_arena *arena, uint64_t requested,
                                              uint64_t alignment, void **address)
{
    uint64_t bytes = tn_block_bytes_for(arena->rounding, requested);
    struct tn_heap *heap = tn_steady_heap_for(arena, bytes);
    struct tn_block *block = heap->loose;

    TN_ASSERT(tn_arena_is_locked(arena));
    if (TN_UNLIKELY(arena->allocates != TN_STEADY))
        return arena->allocates == TN_STEADY_RECORDED && tn_history_stack == 0 &&
               tn_arena_reissue_and_record(arena, requested, alignment, address);
    if (TN_UNLIKELY(!tn_loose_fits(block, bytes, alignment)) ||
        TN_UNLIKELY(block->requested != requested))
        return false;
    heap->loose = NULL;
    tn_steady_make_live(arena, heap, block, tn_steady_next_sequence(arena), bytes, requested);
    *address = tn_steady_address(block);
    return true;
}

/* For any thread but the owner. */
TN_APART bool tn_steady_lock_and_reissue(struct tn_arena *arena, const struct tn_steady_key *key,
                                         uint64_t requested, uint64_t alignment, void **address);

/* In an admitted capture: allocates the block freed last, which is already in the capture's hold
 * and whose birth stands. False: nothing has changed. */
static TN_ALWAYS_INLINE bool tn_steady_reissue(struct tn_arena *arena, struct tn_steady_key key,
                                               uint64_t requested, uint64_t alignment,
                                               void **address)
{
    bool done;

    if (TN_UNLIKELY(!tn_arena_enter(arena))) {
        const struct tn_steady_key kept = key; /* else key itself would be kept in memory */

        return tn_steady_lock_and_reissue(arena, &kept, requested, alignment, address);
    }
    done = tn_steady_has_key(arena, key) && tn_arena_reissue(arena, requested, alignment, address);
    tn_arena_leave(arena);
    return done;
}

/* The work which tn_steady_try_free leaves. */
struct tn_steady_rest {
    struct tn_chunk *chunk; /* at the address; NULL: none */
    /* the block that begins there, and whose arena the owner has entered; NULL: none */
    struct tn_block *block;
};

/* Whether the arena's stream is to be asked behind a free of so many bytes. */
static TN_ALWAYS_INLINE bool tn_steady_asks(const struct tn_arena *arena, uint64_t bytes)
{
    int64_t live = arena->counters.live_bytes - (int64_t)bytes;

    return live <= arena->asks_at ||
           arena->counters.live_peak_bytes - live >= arena->asks_below_peak;
}

/* The path of most frees: by the arena's owner, without a call. *rest tells what is left to do.
 * told: the caller names the arena's stream; where this stream is to be asked, nothing is left. */
static TN_ALWAYS_INLINE bool tn_steady_try_free(uint64_t address, bool told,
                                                struct tn_steady_rest *rest)
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
    if (TN_LIKELY(arena->frees == TN_STEADY) && tn_arena_is_at(arena, chunk, address, &offset))
        block = tn_live_open_at(chunk, offset);
    if (TN_UNLIKELY(block == NULL) || TN_UNLIKELY(block->state != TN_BLOCK_LIVE)) {
        tn_arena_leave(arena);
        return false;
    }
    heap = block->heap;
    TN_ASSERT(heap == atomic_load_explicit(&chunk->heap, memory_order_relaxed)); /* P2 */
    if (told && TN_UNLIKELY(tn_steady_asks(arena, tn_block_bytes(block)))) {
        rest->chunk = NULL;
        tn_arena_leave(arena);
        return false;
    }
    rest->block = block;
    if (heap->loose != NULL || tn_loose_is_edge(block) ||
        TN_UNLIKELY(tn_loose_would_enclose(arena, heap, block)))
        return false;
    if (TN_UNLIKELY(arena->coalesces || arena->records) &&
        (arena->coalesces || !tn_history_try_free(tn_arena_history(arena), block)))
        return false;
    tn_loose_keep(arena, heap, block);
    tn_arena_leave(arena);
    return true;
}

/* Both frees which are left: of the block, whose arena the owner has entered; of what lies at the
 * address in the chunk, NULL: none. False: nothing has changed. */
bool tn_steady_free_and_leave(struct tn_block *block);
bool tn_steady_free_in(struct tn_chunk *chunk, uint64_t address, bool told);

/* Does what tn_steady_try_free has left. False: nothing has changed. */
static TN_ALWAYS_INLINE bool tn_steady_finish_free(uint64_t address, bool told,
                                                   struct tn_steady_rest rest)
{
    return TN_LIKELY(rest.block != NULL) ? tn_steady_free_and_leave(rest.block)
                                         : tn_steady_free_in(rest.chunk, address, told);
}

/* Frees the live block that begins at the address, if there is any, for a caller that names its
 * arena's stream. False: nothing has changed; call tn_pool_lock_block. Where other threads share the
 * arena, their frees never ask. */
static inline bool tn_steady_free(uint64_t address)
{
    struct tn_steady_rest rest;

    return tn_steady_try_free(address, true, &rest) || tn_steady_finish_free(address, true, rest);
}

/* Gives the arena an inbox for good, where other threads then leave their frees. False: no memory.
 * Any thread may call, whatever has become of the arena. */
bool tn_steady_share(struct tn_arena *arena);

/* The same, and magazines, from which and to which threads then allocate and free. */
bool tn_steady_divide(struct tn_arena *arena);

/* Permissions of an arena from now on, which its owner determines. */
struct tn_steady_terms {
    bool allocates;
    bool frees;
    bool coalesces; /* frees coalesce at once: nothing is loose */
    bool asks;      /* its stream is asked how far it has come */
    /* Allocates from these chunks alone; NULL: from all its chunks. */
    const struct tn_chunk_set *captured;
};

/* Ends the steady state, after the pool's lock was taken; begins it, before the lock is
 * released. */
void tn_steady_end(struct tn_arena *arena);
void tn_steady_begin(struct tn_arena *arena, const struct tn_steady_terms *terms);

#endif
