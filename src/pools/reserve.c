// SPDX-License-Identifier: Apache-2.0
/* A reservation makes idle memory first, then hands it to the order's arena, and prepares this
 * arena as its first allocation would.
 *
 * Nobody records which chunks were reserved. When an order lacks memory, Tarn looks once for all
 * never used chunks of heaps with reservations. Chunks which a growth mapped ahead of need go with
 * them. */
#include "pools/reserve.h"

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/hot.h"
#include "heap/provision.h"
#include "heap/steady.h"
#include "pools/ahead.h"
#include "pools/arena_table.h"
#include "pools/arenas.h"
#include "pools/device.h"
#include "pools/grow.h"
#include "pools/handover.h"
#include "pools/ladder.h"
#include "pools/pending.h"

enum {
    /* Records are set aside for blocks of 16 MiB and more; the number of smaller blocks is
     * unknown. */
    BLOCK_BYTES_RESERVED = 16 << 20,
    RECORDS_RESERVED_MAX = 4096,
    RECORDS_FOR_HANDOVER = 2,
    RECORDS_FOR_GROWTH = 4,
    /* A part of a processor's second cache: for 16 GiB, and 512 blocks. */
    INDEXES_NEAR_BYTES = 256 << 10,
    /* Of memory, the part that an index has at most: 15 bytes for each block of 512. A larger one is
     * of other blocks, too, and most of it would be brought near for nothing. */
    INDEX_PART_MAX = 32,
    RECORDS_NEAR = 512,
};

static bool is_unused(const struct tn_chunk *chunk, const struct tn_heap *heap)
{
    return chunk != NULL && chunk->heap == heap && chunk->used_bytes == 0 &&
           chunk->freed_stamp == 0 && chunk->hold_count == 0;
}

/* The run of unused chunks from this chunk on. */
static struct tn_run unused_run(const struct tn_chunk *chunk, const struct tn_heap *heap)
{
    struct tn_run run = {chunk->segment, chunk->offset, chunk->offset};

    TN_ASSERT(is_unused(chunk, heap));
    do
        run.end = tn_chunk_end(chunk);
    while (run.end < run.segment->bytes &&
           is_unused(chunk = tn_segment_chunk_at(run.segment, run.end), heap));
    TN_ASSERT(run.end <= run.segment->bytes);
    return run;
}

/* False: some memory stays, for lack of host memory. */
static bool return_heap(tarn_pool *pool, struct tn_heap *heap, bool *any)
{
    TN_ASSERT(heap->has_reserved && heap->arena->pool == pool);
    /* Leaves the caller's records, whatever their purpose. */
    size_t needed = pool->store.spare_count + RECORDS_FOR_HANDOVER;

    for (size_t id = 0; id < pool->chunks.ids; id++) {
        const struct tn_chunk *chunk = pool->chunks.by_id[id];

        if (!is_unused(chunk, heap))
            continue;
        if (!tn_blocks_reserve(&pool->store, needed))
            return false;
        tn_run_give_idle(pool, heap, unused_run(chunk, heap));
        *any = true;
    }
    return true;
}

static void set_reserved(tarn_pool *pool, struct tn_heap *heap, bool reserved)
{
    TN_ASSERT(heap->arena->pool == pool);
    pool->arenas.reserved_count += reserved;
    pool->arenas.reserved_count -= heap->has_reserved;
    heap->has_reserved = reserved;
}

/* Makes reserved, never used memory idle, except a heap's or an arena's. */
static bool return_pool(tarn_pool *pool, const struct tn_heap *but,
                        const struct tn_arena *but_arena)
{
    bool any = false;
    uint64_t left = pool->arenas.reserved_count;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL];
         arena != NULL && left > 0; arena = tn_arena_next(arena)) {
        for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
            struct tn_heap *heap = arena->heaps[kind];

            left -= heap->has_reserved;
            if (heap->has_reserved && heap != but && arena != but_arena &&
                return_heap(pool, heap, &any))
                set_reserved(pool, heap, false);
        }
    }
    return any;
}

bool tn_reserved_return(tarn_pool *pool, const struct tn_heap *but)
{
    return return_pool(pool, but, NULL);
}

/* A request to reserve. */
struct reservation {
    uint64_t bytes[TN_HEAP_KINDS]; /* multiples of the page */
    size_t record_count;           /* of blocks, set aside */
    tn_cu_stream stream;
    struct tn_order order;
    bool *met; /* see tn_arena_meet */
};

/* Prepares the order's arena for its first allocation. In a capture an arena would need the
 * capture's hold: there *arena is the existing arena, or NULL. */
static tarn_status prepare_arena(tarn_pool *pool, const struct reservation *wanted,
                                 struct tn_arena **arena)
{
    /* Later a function of the program may have destroyed the stream. */
    bool first = !*wanted->met;
    tarn_status status;

    if (wanted->order.capture_id != 0) {
        *arena = tn_arena_find(pool, wanted->order);
        return TARN_OK;
    }
    *arena = tn_arena_get(pool, wanted->order);
    if (*arena == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for an arena");
    if (pool->in_host)
        (*arena)->met = true; /* of no stream */
    status = tn_arena_meet(*arena, wanted->stream, wanted->met);
    if (status == TARN_OK && first && !tn_stream_is_default(wanted->stream))
        tn_arena_name(pool, *arena, wanted->stream);
    if (status == TARN_OK && !tn_provision_expect(*arena, wanted->record_count))
        status = tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for blocks' records");
    TN_ASSERT(status != TARN_OK || (*arena)->met);
    return status;
}

/* Whether the arena, if any, or idle memory which it may take, has the bytes in one run. */
static bool has_run(tarn_pool *pool, const struct reservation *wanted, const struct tn_arena *arena,
                    enum tn_heap_kind kind)
{
    uint64_t bytes = wanted->bytes[kind];

    TN_ASSERT(bytes % TN_PAGE_BYTES == 0);
    return (arena != NULL && tn_bins_find(&arena->heaps[kind]->bins, bytes) != NULL) ||
           tn_idle_has(pool, kind, wanted->order.capture_id != 0, bytes);
}

static bool lacks(tarn_pool *pool, const struct reservation *wanted, const struct tn_arena *arena,
                  enum tn_heap_kind kind)
{
    return !has_run(pool, wanted, arena, kind) &&
           !(return_pool(pool, NULL, arena) && has_run(pool, wanted, arena, kind));
}

/* Maps lacking memory as idle memory; all or nothing. */
static tarn_status map_lacking(tarn_pool *pool, const struct reservation *wanted,
                               const struct tn_arena *arena, bool frugal)
{
    bool lacks_large = lacks(pool, wanted, arena, TN_HEAP_LARGE);
    bool lacks_small = lacks(pool, wanted, arena, TN_HEAP_SMALL);
    uint64_t large = lacks_large ? wanted->bytes[TN_HEAP_LARGE] : 0;
    uint64_t small = lacks_small ? wanted->bytes[TN_HEAP_SMALL] : 0;
    struct tn_growth growth = {.heap = NULL};
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_pool_is_locked(pool));
    if (large + small > 0)
        status = tn_pool_check_limit(pool, large + small);
    if (status == TARN_OK && lacks_large)
        status = tn_heap_grow_undoable(pool, pool->idle.heaps[TN_HEAP_LARGE], large, frugal, small,
                                       &growth);
    if (status == TARN_OK && lacks_small)
        status = tn_heap_grow(pool, pool->idle.heaps[TN_HEAP_SMALL], small, frugal);
    if (status != TARN_OK && growth.heap != NULL)
        tn_heap_ungrow(pool, &growth);
    return status;
}

/* Only outside captures: a later capture is served like any other. The memory stays idle if idle
 * memory has more blocks than are looked at. */
static void hand_over(tarn_pool *pool, const struct reservation *wanted, struct tn_arena *arena)
{
    TN_ASSERT(arena->pool == pool && wanted->order.capture_id == 0);
    arena->expected = true;
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        struct tn_heap *heap = arena->heaps[kind];

        if (tn_bins_find(&heap->bins, wanted->bytes[kind]) != NULL ||
            tn_heap_take_idle(pool, heap, wanted->bytes[kind]))
            set_reserved(pool, heap, true);
    }
}

/* Brings near the indexes of the block's chunks, from below, as large as the reserved bytes have. */
static void bring_indexes_near(const struct tn_block *block, uint64_t reserved)
{
    uint64_t left = tn_min(INDEXES_NEAR_BYTES, reserved / INDEX_PART_MAX);

    TN_ASSERT(block->state == TN_BLOCK_FREE);
    for (uint64_t at = block->offset; at < tn_block_end(block) && left > 0;) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, at);

        left -= tn_min(left, tn_live_bring_near(chunk, left));
        at = tn_chunk_end(chunk);
    }
}

/* The driver has replaced the contents of the caches, and allocations come next: their first
 * accesses would each cost some 70 ns. */
static void bring_near(const struct tn_arena *arena, const struct reservation *wanted)
{
    tn_bring_near(arena, sizeof *arena);
    tn_bring_near(tn_arena_heaps(arena), sizeof(struct tn_heaps));
    tn_blocks_bring_near(&arena->store, tn_min(wanted->record_count, RECORDS_NEAR));
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        const struct tn_block *block = tn_bins_find(&arena->heaps[kind]->bins, wanted->bytes[kind]);

        if (block != NULL)
            bring_indexes_near(block, wanted->bytes[kind]);
    }
}

/* The records of a reservation, besides those which captures are to find: for a growth and a
 * handover of each kind, and for the undoing of a growth. */
static size_t records_needed(const struct reservation *wanted)
{
    return wanted->record_count +
           (size_t)(RECORDS_FOR_GROWTH + RECORDS_FOR_HANDOVER) * TN_HEAP_KINDS +
           2 * (size_t)tn_growth_chunk_count(
                   tn_growth_of(TN_HEAP_LARGE, wanted->bytes[TN_HEAP_LARGE]));
}

static tarn_status attempt_reservation(tarn_pool *pool, const void *request, bool frugal,
                                       void **result)
{
    const struct reservation *wanted = request;
    struct tn_arena *arena;
    tarn_status status = prepare_arena(pool, wanted, &arena);

    TN_ASSERT(tn_pool_is_locked(pool));
    (void)result;
    if (status != TARN_OK)
        return status;
    tn_pending_poll_to_use(pool, wanted->order.capture_id != 0); /* takes records */
    if (!tn_blocks_reserve(&pool->store, records_needed(wanted)))
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for blocks' records");
    status = map_lacking(pool, wanted, arena, frugal);
    if (status != TARN_OK || arena == NULL)
        return status;
    if (wanted->order.capture_id == 0)
        hand_over(pool, wanted, arena);
    bring_near(arena, wanted);
    return TARN_OK;
}

tarn_status tn_pool_reserve(tarn_pool *pool, uint64_t bytes, tn_cu_stream stream,
                            struct tn_order order)
{
    bool met = false;
    /* Small blocks have chunks of their own: 1/64 is reserved for them, at most one chunk. */
    struct reservation wanted = {
        .bytes = {tn_min(tn_round_up(bytes / 64 + 1, TN_PAGE_BYTES), 32 * TN_MIB),
                  tn_round_up(bytes, TN_PAGE_BYTES)},
        .record_count = (size_t)tn_min(bytes / BLOCK_BYTES_RESERVED, RECORDS_RESERVED_MAX),
        .stream = stream,
        .order = order,
        .met = &met,
    };

    TN_ASSERT(tn_lock_none_held());
    if (bytes == 0 || tn_pool_is_lone(pool)) /* a lone block gets new memory */
        return TARN_OK;
    return tn_ladder_run(pool, attempt_reservation, &wanted, bytes, NULL);
}
