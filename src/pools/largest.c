// SPDX-License-Identifier: Apache-2.0
/* The largest allocation is the largest of any outlook (pools/outlook.h). Three matter, since each
 * other attempt of the ladder has no more memory than one of them:
 *
 *   at first   the pool as it is, with the cache's memory of the very sizes, and the driver's
 *   frugal     the pool's free chunks are idle memory; the cache, and all other pools, have given
 *              what they have; a growth is no larger than needed
 *   last       the pool's own free chunks, proven idle, are unmapped, too
 *
 * In an outlook a block is found in free memory, or a heap grows. A growth comes to the first
 * segment with a gap that is large enough (pools/sites.c): it gets the free bytes below the gap,
 * memory that moves (pools/moves.c), and new memory. Which gap this is depends on the size, and a
 * size may be possible while a smaller one is not. The largest size of each gap is therefore tried
 * as a growth, from the largest of all downwards.
 *
 * Trade-offs: a lack of addresses is not looked at. Of thousands of gaps not all are tried. */
#include "pools/largest.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "pools/ahead.h"
#include "pools/arena_table.h"
#include "pools/moves.h"
#include "pools/outlook.h"
#include "pools/pending.h"
#include "pools/proofs.h"
#include "pools/visit.h"

enum { STEPS_MAX = 1024 }; /* sizes that an outlook is tried for */

/* The driver's last 3.1 MiB of an H200 cannot be made into memory. */
#define DRIVER_BYTES_KEPT (4 * TN_MIB)

/* Memory that may be made. */
struct means {
    uint64_t driver_bytes;
    uint64_t cached_bytes;
    uint64_t others_bytes; /* that other pools would give */
    uint64_t limit_bytes;  /* of the device; UINT64_MAX: none */
    uint64_t charged_bytes;
    struct tn_stock cached; /* of the pool's kind */
};

/* A growth of the outlook, by its amounts. */
struct draft {
    uint64_t moved_bytes;
    struct tn_growth_size made;
    bool lacks_room;
};

/* Moves chunks as tn_moves_choose would, where this many bytes are wanted. */
static void move(const struct tn_outlook *outlook, const struct tn_gap *gap, uint64_t wanted,
                 struct draft *draft)
{
    uint64_t limit = tn_moves_limit(outlook->pool->device);
    uint64_t room = gap != NULL ? gap->room : UINT64_MAX;
    struct tn_stock stock = outlook->stock;

    for (unsigned size = 0; size < TN_CACHE_SIZES && gap != NULL; size++)
        stock.counts[size] -= stock.counts[size] > 0 ? gap->extended.counts[size] : 0;
    draft->moved_bytes = 0;
    draft->lacks_room = false;
    for (int count = 0; count < TN_MOVES_MAX && draft->moved_bytes < wanted; count++) {
        uint64_t lacking = wanted - draft->moved_bytes;
        unsigned fitting = tn_log2_floor(tn_min(lacking, TN_MEMORY_BYTES_MAX) / TN_PAGE_BYTES);
        unsigned size = fitting + 1;

        while (size > 0 && stock.counts[size - 1] == 0)
            size -= 1;
        if (size == 0)
            for (size = fitting + 2; size <= TN_CACHE_SIZES && stock.counts[size - 1] == 0; size++)
                ;
        if (size > TN_CACHE_SIZES)
            return;
        if (TN_PAGE_BYTES << (size - 1) > limit - draft->moved_bytes)
            return;
        draft->lacks_room = TN_PAGE_BYTES << (size - 1) > room - draft->moved_bytes;
        if (draft->lacks_room)
            return;
        stock.counts[size - 1] -= 1;
        draft->moved_bytes += TN_PAGE_BYTES << (size - 1);
    }
}

/* The gap that a growth to a FREE block of bytes would come to: pools/sites.c; NULL: a new segment. */
static const struct tn_gap *find_gap(const struct tn_outlook *outlook, uint64_t bytes)
{
    const struct tn_gap *found = NULL;

    for (size_t i = 0; i < outlook->gap_count; i++) {
        const struct tn_gap *gap = &outlook->gaps[i];

        if (gap->have + gap->room < bytes)
            continue;
        if (found == NULL || gap->segment->index < found->segment->index ||
            (gap->segment == found->segment && gap->offset > found->offset))
            found = gap;
    }
    return found;
}

static void make_draft(const struct tn_outlook *outlook, const struct tn_gap *gap, uint64_t bytes,
                       struct draft *draft)
{
    const struct tn_heap *heap =
        outlook->arena != NULL ? outlook->arena->heaps[TN_HEAP_LARGE] : NULL;
    uint64_t have = gap != NULL ? gap->have : 0;
    const struct tn_lack lack = {.block_bytes = bytes,
                                 .need = tn_round_up(bytes - tn_min(bytes, have), TN_PAGE_BYTES),
                                 .room =
                                     gap != NULL ? gap->room : tn_round_up(bytes, TN_SLOT_BYTES)};

    draft->made = (struct tn_growth_size){lack.need, TN_PAGE_BYTES};
    if (!outlook->given)
        draft->made =
            tn_growth_size(outlook->pool, heap, tn_growth_run(outlook->pool, heap), &lack);
    move(outlook, gap, draft->made.bytes, draft);
    draft->made.bytes -= tn_min(draft->made.bytes, draft->moved_bytes);
}

static uint64_t less(uint64_t bytes, uint64_t taken)
{
    return bytes - tn_min(bytes, taken);
}

/* The bytes that may be made, however they are cut; at first: in sizes that the cache has. */
static uint64_t bytes_to_make(const struct tn_outlook *outlook, const struct means *means)
{
    const tarn_pool *pool = outlook->pool;
    uint64_t own = outlook->unmapped_bytes;
    uint64_t given = outlook->given ? means->cached_bytes + means->others_bytes + own : 0;
    uint64_t most = means->driver_bytes + given;
    uint64_t mapped = less(tn_pool_mapped_bytes(pool), own);

    if (means->limit_bytes != UINT64_MAX)
        most = tn_min(most, less(means->limit_bytes + given, means->charged_bytes));
    for (unsigned size = 0; size < TN_CACHE_SIZES && !outlook->given; size++)
        most += (uint64_t)means->cached.counts[size] * (TN_PAGE_BYTES << size);
    if (pool->limit.bytes != 0)
        most = tn_min(most, less(pool->limit.bytes, mapped));
    return tn_round_down(most, TN_PAGE_BYTES);
}

/* Whether the driver has what the cache lacks: at first nothing else is given back. */
static bool can_make(const struct tn_outlook *outlook, const struct means *means,
                     struct tn_growth_size made)
{
    uint64_t lacking = 0;
    struct tn_stock cached = means->cached;

    if (made.bytes > bytes_to_make(outlook, means))
        return false;
    if (outlook->given)
        return true;
    for (uint64_t left = made.bytes; left > 0;) {
        uint64_t bytes = tn_min((uint64_t)1 << tn_log2_floor(left), made.chunk_bytes_max);
        unsigned size = tn_log2_floor(bytes / TN_PAGE_BYTES);

        if (cached.counts[size] > 0)
            cached.counts[size] -= 1;
        else
            lacking += bytes;
        left -= bytes;
    }
    return lacking <= means->driver_bytes &&
           lacking <= less(means->limit_bytes, means->charged_bytes);
}

/* Whether a heap could grow to a FREE block of bytes. */
static bool can_grow(const struct tn_outlook *outlook, const struct means *means, uint64_t bytes)
{
    const struct tn_gap *gap = find_gap(outlook, bytes);
    struct draft draft;

    make_draft(outlook, gap, bytes, &draft);
    if (draft.lacks_room)
        make_draft(outlook,
                   find_gap(outlook, tn_round_up(bytes, TN_PAGE_BYTES) + TN_MEMORY_BYTES_MAX),
                   bytes, &draft);
    return can_make(outlook, means, draft.made);
}

/* The bytes that a growth may have at most which comes to the gap; NULL: to a new segment. */
static uint64_t most_in(const struct tn_outlook *outlook, const struct means *means,
                        const struct tn_gap *gap)
{
    uint64_t most = bytes_to_make(outlook, means);
    struct draft draft;
    struct tn_gap wide;

    if (gap != NULL)
        wide = *gap;
    wide.room = UINT64_MAX;
    move(outlook, gap != NULL ? &wide : NULL, TN_REQUEST_BYTES_MAX, &draft);
    most += draft.moved_bytes;
    return gap != NULL ? gap->have + tn_min(most, gap->room) : most;
}

/* The largest growth below a size; 0: none. apart: in a new segment. */
static uint64_t next_smaller(const struct tn_outlook *outlook, uint64_t apart, uint64_t below)
{
    uint64_t best = apart < below ? apart : 0;

    for (size_t i = 0; i < outlook->gap_count; i++) {
        if (outlook->gaps[i].most < below)
            best = tn_max(best, outlook->gaps[i].most);
    }
    return best;
}

/* The largest growth above the bytes, or the bytes. A new segment is always possible, since what is
 * in a gap can only add to a growth. */
static uint64_t largest_growth(const struct tn_outlook *outlook, const struct means *means,
                               uint64_t least)
{
    uint64_t apart = most_in(outlook, means, NULL);
    uint64_t bytes;

    TN_ASSERT(outlook->given);
    for (size_t i = 0; i < outlook->gap_count; i++)
        outlook->gaps[i].most = most_in(outlook, means, &outlook->gaps[i]);
    bytes = next_smaller(outlook, apart, UINT64_MAX);
    for (int steps = 0; bytes > least && !can_grow(outlook, means, bytes); steps++)
        bytes = steps < STEPS_MAX ? next_smaller(outlook, apart, bytes) : apart < bytes ? apart : 0;
    return tn_max(bytes, least);
}

/* The same at first, where a growth may be larger than needed. A new segment has no more than on a
 * later rung. */
static uint64_t largest_growth_at_first(const struct tn_outlook *outlook, const struct means *means,
                                        uint64_t least)
{
    int steps = 0;

    TN_ASSERT(!outlook->given && outlook->arena != NULL);
    for (size_t i = 0; i < outlook->gap_count; i++) {
        uint64_t bytes = most_in(outlook, means, &outlook->gaps[i]);

        for (; steps < STEPS_MAX && bytes > least; steps++) {
            if (can_grow(outlook, means, bytes))
                least = bytes;
            bytes = less(bytes, TN_PAGE_BYTES);
        }
    }
    return least;
}

/* The largest request whose block takes no more than the bytes. */
static uint64_t request_for(const struct tn_rounding *rounding, uint64_t bytes)
{
    uint64_t least = 0;
    uint64_t most = bytes / TN_BLOCK_BYTES_MIN;

    while (least < most) {
        uint64_t middle = most - (most - least) / 2;

        if (tn_block_bytes_for(rounding, middle * TN_BLOCK_BYTES_MIN) <= bytes)
            least = middle;
        else
            most = middle - 1;
    }
    return least * TN_BLOCK_BYTES_MIN;
}

/* The largest block; the pool is locked, and the outlook has room for its gaps. The first attempt
 * comes last: seldom has it more than the others, and only such sizes are tried there. */
static uint64_t find_largest(struct tn_outlook *outlook, const struct means *means)
{
    uint64_t bytes;

    outlook->given = true;
    tn_outlook_look(outlook);
    bytes = largest_growth(outlook, means, outlook->found_bytes);
    outlook->unmapped = true;
    tn_outlook_look(outlook);
    if (outlook->unmapped_bytes > 0) /* else the ladder does not try again */
        bytes = largest_growth(outlook, means, bytes);
    outlook->given = false;
    outlook->unmapped = false;
    tn_outlook_look(outlook);
    bytes = tn_max(bytes, outlook->found_bytes);
    if (outlook->arena != NULL)
        bytes = largest_growth_at_first(outlook, means, bytes);
    if (bytes <= TN_SMALL_BYTES_MAX)
        return tn_min(outlook->found_small, TN_SMALL_BYTES_MAX);
    return tn_min(bytes, TN_REQUEST_BYTES_MAX);
}

/* Other pools, and what they would give. */
struct giving {
    const tarn_pool *to;
    uint64_t bytes;
};

static bool add_giver(tarn_pool *pool, void *context)
{
    struct giving *giving = context;

    TN_ASSERT(tn_pool_is_locked(pool));
    if (pool == giving->to || pool->in_host != giving->to->in_host)
        return false;
    tn_pending_collect(pool);
    for (size_t id = 0; id < pool->chunks.ids; id++) {
        const struct tn_chunk *chunk = pool->chunks.by_id[id];

        if (chunk != NULL && chunk->used_bytes == 0 && chunk->hold_count == 0 &&
            tn_gpu_is_proven(&pool->device->gpu, chunk->freed_stamp))
            giving->bytes += chunk->bytes;
    }
    return false;
}

static void measure(tarn_pool *pool, struct means *means)
{
    tarn_device *device = pool->device;
    struct giving giving = {.to = pool};
    size_t free_bytes;
    size_t total_bytes;

    TN_ASSERT(tn_lock_none_held());
    (void)tn_device_visit(device, add_giver, &giving);
    tn_gpu_memory_info(&device->gpu, &free_bytes, &total_bytes);
    means->driver_bytes = tn_round_down(less(free_bytes, DRIVER_BYTES_KEPT), TN_PAGE_BYTES);
    means->others_bytes = giving.bytes;
    means->limit_bytes = tn_budget_limit(tn_pool_budget(pool));
    means->charged_bytes = atomic_load(&tn_pool_budget(pool)->charged_bytes);
    means->cached_bytes = tn_memory_cache_bytes(tn_pool_cache(pool));
    tn_memory_cache_count(tn_pool_cache(pool), pool->memory.properties, means->cached.counts);
}

/* What an allocation does before it looks for memory. */
static void poll(tarn_pool *pool, struct tn_arena *arena, tn_cu_stream stream)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (arena != NULL && tn_arena_unasked_left(arena) == 0)
        tn_proofs_ask(pool, arena, stream);
    tn_proofs_poll(pool);
    tn_pending_collect(pool);
}

tarn_status tn_pool_find_largest(tarn_pool *pool, tn_cu_stream stream, struct tn_order order,
                                 uint64_t *bytes)
{
    struct means means;
    struct tn_outlook outlook = {.pool = pool, .stream_id = order.stream_id};

    TN_ASSERT(order.capture_id == 0);
    if (pool->in_host)
        return tn_fail(TARN_ERR_NOT_SUPPORTED,
                       "pool '%s' has memory of the host: nothing tells how much the host would "
                       "give",
                       pool->name);
    measure(pool, &means);
    tn_pool_lock(pool);
    outlook.arena = tn_arena_seek(pool, order);
    poll(pool, outlook.arena, stream);
    outlook.gaps = tn_host_alloc(tn_outlook_gaps_max(pool), sizeof *outlook.gaps);
    if (outlook.gaps != NULL)
        *bytes = request_for(pool->rounding, find_largest(&outlook, &means));
    tn_pool_unlock(pool);
    if (outlook.gaps == NULL)
        return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for the gaps of pool '%s'",
                       pool->name);
    tn_host_free(outlook.gaps);
    return TARN_OK;
}
