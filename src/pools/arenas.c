// SPDX-License-Identifier: Apache-2.0
/* Arenas come with the first allocation of an order, and end with a capture, a stream or the pool;
 * then their chunks change hands.
 *
 * Trade-offs: ending an arena with pending blocks walks those of the pool. */
#include "pools/arenas.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "claims/body.h"
#include "claims/use.h"
#include "heap/arena_lock.h"
#include "heap/magazine.h"
#include "pools/arena_table.h"
#include "pools/device.h"
#include "pools/pool_lock.h"
#include "pools/proofs.h"
#include "pools/vacated.h"

enum {
    UNUSED_LOCKS = 250, /* of the pool, after which an arena asleep uses up a chance, or may end */
    /* Looked at for each new arena, so that arenas do not become more. */
    TENDED_MAX = 4,
    /* Chunks of an arena which ends before its stream is retired: what a call does stays short. */
    CHUNKS_MAX = 64,
};

static struct tn_records arena_records = TN_RECORDS_INIT_KEEPING(struct tn_arena, next, lock);

/* Two orders of captures may have the same key, and the table may have forgotten the older one. */
static struct tn_arena *find_of_capture(const tarn_pool *pool, struct tn_order order)
{
    struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_OF_CAPTURES];

    TN_ASSERT(order.capture_id != 0);
    while (arena != NULL && !tn_order_equal(arena->order, order))
        arena = arena->in[TN_ARENAS_OF_CAPTURES].next;
    return arena;
}

/* The arena does not end before as many more locks, and not under this one. */
static void put_off(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(tn_pool_is_locked(pool) && arena->asleep);
    tn_arena_unlink(&pool->arenas.lists, arena, TN_ARENAS_ASLEEP);
    tn_arena_link(&pool->arenas.lists, arena, TN_ARENAS_ASLEEP);
    arena->asleep_since = pool->arenas.lock_count;
    if (arena->chances > 0)
        arena->chances -= 1;
}

struct tn_arena *tn_arena_find(tarn_pool *pool, struct tn_order order)
{
    struct tn_arena *arena = tn_arena_seek(pool, order);

    if (arena != NULL && !tn_order_equal(arena->order, order))
        arena = NULL; /* of another order with the same key */
    if (arena == NULL && order.capture_id != 0)
        arena = find_of_capture(pool, order);
    if (arena != NULL && arena->asleep)
        put_off(pool, arena);
    if (arena != NULL && arena != pool->arenas.lists.first[TN_ARENAS_ALL]) {
        tn_arena_unlink(&pool->arenas.lists, arena, TN_ARENAS_ALL);
        tn_arena_link(&pool->arenas.lists, arena, TN_ARENAS_ALL);
    }
    TN_ASSERT(arena == NULL ||
              (arena->pool == pool && pool->arenas.lists.first[TN_ARENAS_ALL] == arena));
    return arena;
}

/* A record with heaps, of no list; NULL: no memory. */
static struct tn_arena *make_arena(tarn_pool *pool, struct tn_order order)
{
    struct tn_heaps *heaps = tn_heaps_take();
    struct tn_arena *arena = heaps != NULL ? tn_records_take(&arena_records) : NULL;

    TN_ASSERT(tn_pool_is_locked(pool));
    if (arena != NULL) {
        tn_arena_lock(arena); /* another thread may still look at the record */
        tn_pool_init_arena(pool, arena, heaps, order);
        tn_arena_unlock(arena);
        tn_pool_note_arena(pool, arena);
    } else if (heaps != NULL) {
        tn_heaps_give(heaps);
    }
    return arena;
}

struct tn_arena *tn_arena_get(tarn_pool *pool, struct tn_order order)
{
    struct tn_arena *arena = tn_arena_find(pool, order);

    if (arena != NULL) {
        tn_arena_wake_to_use(pool, arena);
        return arena;
    }
    tn_arenas_tend(pool);
    if (!tn_arena_table_reserve(pool))
        return NULL;
    arena = make_arena(pool, order);
    if (arena == NULL)
        return NULL;
    tn_arena_wake(pool, arena);
    tn_arena_link(&pool->arenas.lists, arena, TN_ARENAS_ALL);
    if (order.capture_id != 0)
        tn_arena_link(&pool->arenas.lists, arena, TN_ARENAS_OF_CAPTURES);
    else
        tn_dormant_return(pool, arena);
    pool->arenas.count += 1;
    tn_arena_table_enter(pool, arena);
    TN_ASSERT(tn_arena_seek(pool, order) == arena && tn_arena_is_locked(arena));
    return arena;
}

tarn_status tn_arena_meet(struct tn_arena *arena, tn_cu_stream stream, bool *met)
{
    tarn_status status = TARN_OK;

    TN_ASSERT(tn_pool_is_locked(arena->pool));
    if (!arena->met && !*met)
        status = tn_stream_meet(&arena->pool->device->gpu, stream);
    arena->met = status == TARN_OK;
    *met = arena->met;
    return status;
}

/* The arenas which end: all of a capture, or a single arena. */
struct ending {
    uint64_t capture_id; /* 0: a single arena */
    struct tn_arena *one;
    struct tn_arena *to; /* takes their chunks over */
    bool proven;         /* all their memory is idle */
    bool strays;         /* found: chunks of heaps that are not of the chunks' kind */
};

static bool ends(const struct ending *ending, const struct tn_arena *arena)
{
    TN_ASSERT((ending->capture_id != 0) == (ending->one == NULL));
    return ending->capture_id != 0 ? arena->order.capture_id == ending->capture_id
                                   : arena == ending->one;
}

/* A done fence of a retired stream proves the frees before the fence. Later frees were proven
 * before they took effect. */
static void prove(const struct ending *ending, struct tn_chunk *chunk, const struct tn_arena *arena)
{
    TN_ASSERT(chunk->heap->arena == arena);
    if (ending->proven ||
        (arena->fence != NULL && tn_fence_is_done(&arena->pool->device->streams, arena->fence) &&
         chunk->freed_stamp <= atomic_load(&arena->fence->stamp)))
        tn_chunk_forget_stamp(chunk);
}

/* Hands the heap's chunks over; all: with its live blocks. Others there keep a heap of idle memory
 * (P2). */
static void pass_chunks(struct ending *ending, struct tn_heap *from, struct tn_heap *to, bool all)
{
    struct tn_chunk *next;

    for (struct tn_chunk *chunk = from->chunks; chunk != NULL; chunk = next) {
        next = chunk->heap_next;
        ending->strays = ending->strays || chunk->kind != (int)to->kind;
        prove(ending, chunk, from->arena);
        from->mapped_bytes -= chunk->bytes;
        to->mapped_bytes += chunk->bytes;
        tn_segment_admit(atomic_load(&chunk->segment), to);
        tn_chunk_pass(chunk, to);
        tn_segment_unite_idle(atomic_load(&chunk->segment), to);
        if (chunk->live_count == 0 || !all)
            continue;
        for (uint32_t i = 0; i < chunk->live_size; i++) {
            struct tn_block *block = tn_live_block_in(chunk, i);

            if (block != NULL && block->heap->arena == from->arena)
                tn_block_pass(block, to);
        }
    }
    TN_ASSERT(from->mapped_bytes == 0);
}

static void pass_pending(const tarn_pool *pool, struct tn_heap *from, struct tn_heap *to)
{
    for (struct tn_block *block = pool->pending.first; block != NULL && from->pending_count > 0;
         block = tn_block_cold(block)->pending_next) {
        if (block->heap == from)
            tn_block_pass(block, to);
    }
    TN_ASSERT(from->pending_count == 0); /* P8 */
}

/* In order of addresses, so that bins do not depend on how an arena came by its memory. Splits no
 * block: a run of chunks which changes hands as a whole has no edge inside a FREE block of its
 * heap. */
static void pass_free(tarn_pool *pool, struct tn_block *list, struct tn_arena *to)
{
    struct tn_block *next;

    for (struct tn_block *block = tn_blocks_sort(list); block != NULL; block = next) {
        next = block->list_next;
        tn_block_pass(block, to->heaps[block->heap->kind]);
        (void)tn_heap_put(&pool->store, block);
    }
}

/* The live blocks in the arena's chunks, whosever they are. */
static uint64_t count_beside(const struct tn_arena *arena)
{
    uint64_t count = 0;

    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        for (const struct tn_chunk *chunk = arena->heaps[kind]->chunks; chunk != NULL;
             chunk = chunk->heap_next)
            count += chunk->live_count;
    }
    return count;
}

/* Whether the arena's live blocks are best found by births: each has one, and others beside them are
 * more. A group's arena allocates nothing, and has no births. */
static bool goes_by_births(const struct tn_arena *arena)
{
    const struct tn_births *births = arena->births;

    return tn_arena_is_captured(arena) && births != NULL && !births->lost &&
           !arena->heaps[TN_HEAP_SMALL]->has_others && !arena->heaps[TN_HEAP_LARGE]->has_others &&
           births->count < count_beside(arena);
}

/* Hands over the live blocks that the arena has allocated: beside any number of others this costs
 * what the capture did. */
static void pass_born(const tarn_pool *pool, const struct tn_arena *arena,
                      const struct tn_arena *to)
{
    const struct tn_births *births = arena->births;
    struct tn_live_place place = {NULL, NULL};

    for (size_t i = 0; i < births->count; i++) {
        struct tn_block *block = tn_live_find_near(pool, births->items[i].address, &place);

        if (block != NULL && block->heap->arena == arena)
            tn_block_pass(block, to->heaps[block->heap->kind]);
    }
}

static void free_arena(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(arena->heaps[TN_HEAP_SMALL]->mapped_bytes == 0);
    TN_ASSERT(arena->heaps[TN_HEAP_LARGE]->mapped_bytes == 0);
    TN_ASSERT(tn_pool_is_locked(pool) && arena->pool == pool);
    tn_arena_wake(pool, arena); /* it is locked while it goes */
    tn_arena_unlink(&pool->arenas.lists, arena, TN_ARENAS_ALL);
    if (arena->order.capture_id != 0)
        tn_arena_unlink(&pool->arenas.lists, arena, TN_ARENAS_OF_CAPTURES);
    if (arena->fence != NULL) {
        TN_ASSERT(pool->arenas.retired_count > 0); /* P14 */
        tn_fence_release(&pool->device->streams, arena->fence);
        pool->arenas.retired_count -= 1;
        tn_arena_unlink(&pool->arenas.lists, arena, TN_ARENAS_RETIRED);
    } else {
        tn_arena_table_leave(pool, arena); /* P21 */
    }
    TN_ASSERT(pool->arenas.count > 0);
    pool->arenas.count -= 1;
    tn_vacated_orphan(pool, arena);
    tn_proofs_end(pool, arena);
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        pool->arenas.reserved_count -= arena->heaps[kind]->has_reserved;
    tn_ancestry_fini(&tn_arena_heaps(arena)->ancestry);
    arena->births = NULL;
    if (tn_arena_magazines(arena) != NULL)
        tn_magazines_record(tn_arena_magazines(arena), NULL); /* they stay with the record */
    tn_pool_end_arena(pool, arena);
    tn_arena_sleep(pool, arena);
    tn_records_give(&arena_records, arena);
}

/* The arena of dormant memory goes if there is none. */
static void drop_dormant_arena(tarn_pool *pool)
{
    struct tn_arena *arena = pool->segments.dormant.arena;

    if (arena == NULL || pool->segments.dormant.first != NULL)
        return;
    pool->segments.dormant.arena = NULL;
    tn_arena_lock(arena);
    tn_pool_end_arena(pool, arena);
    tn_arena_unlock(arena);
    tn_records_give(&arena_records, arena);
}

/* All memory of an arena which ends goes to its heir. FREE blocks are added to a list. */
static void end_arena(const tarn_pool *pool, struct ending *ending, struct tn_arena *arena,
                      struct tn_block **list)
{
    const bool by_births = goes_by_births(arena);

    TN_ASSERT(arena != ending->to);
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        struct tn_heap *from = arena->heaps[kind];
        struct tn_heap *to = ending->to->heaps[kind];

        pass_chunks(ending, from, to, !by_births);
        pass_pending(pool, from, to);
        tn_bins_take_all(&from->bins, list);
        while (from->segments != NULL)
            tn_segment_set_grower(from->segments, to);
    }
    if (by_births)
        pass_born(pool, arena, ending->to);
}

static void end_arenas(tarn_pool *pool, struct ending *ending)
{
    struct tn_block *list = NULL;
    struct tn_arena *next;

    TN_ASSERT(tn_pool_is_locked(pool) && !ends(ending, ending->to));
    if (ending->one != NULL) {
        end_arena(pool, ending, ending->one, &list);
        pass_free(pool, list, ending->to);
        free_arena(pool, ending->one);
        return;
    }
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_OF_CAPTURES]; arena != NULL;
         arena = arena->in[TN_ARENAS_OF_CAPTURES].next) {
        if (ends(ending, arena))
            end_arena(pool, ending, arena, &list);
    }
    pass_free(pool, list, ending->to);
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_OF_CAPTURES]; arena != NULL;
         arena = next) {
        next = arena->in[TN_ARENAS_OF_CAPTURES].next;
        if (ends(ending, arena))
            free_arena(pool, arena);
    }
}

static bool has_arena_of(const tarn_pool *pool, uint64_t capture_id)
{
    const struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_OF_CAPTURES];

    while (arena != NULL && arena->order.capture_id != capture_id)
        arena = arena->in[TN_ARENAS_OF_CAPTURES].next;
    return arena != NULL;
}

bool tn_arenas_end_capture(tarn_pool *pool, uint64_t capture_id)
{
    const struct tn_body *body =
        pool->bodies.first != NULL ? tn_body_find(&pool->bodies, capture_id) : NULL;
    /* P15: the group of a body has an arena. */
    struct tn_arena *group = body != NULL ? tn_arena_find(pool, tn_group_order(body)) : NULL;
    struct ending ending = {.capture_id = capture_id, .to = group != NULL ? group : &pool->idle};

    TN_ASSERT(capture_id != 0);
    TN_ASSERT(tn_pool_is_locked(pool));
    end_arenas(pool, &ending);
    /* Even if the group's body failed to begin. */
    if (has_arena_of(pool, capture_id | TN_GROUP_BIT)) {
        ending.capture_id = capture_id | TN_GROUP_BIT;
        end_arenas(pool, &ending);
    }
    if (pool->bodies.first != NULL)
        tn_bodies_end(&pool->bodies, pool->segments.first, capture_id);
    return ending.strays;
}

void tn_arenas_end_retired(tarn_pool *pool, bool followed)
{
    struct tn_arena *next;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_RETIRED]; arena != NULL;
         arena = next) {
        next = arena->in[TN_ARENAS_RETIRED].next;
        if (followed || tn_fence_is_done(&pool->device->streams, arena->fence))
            end_arenas(pool, &(struct ending){.one = arena, .to = &pool->idle});
    }
    TN_ASSERT(!followed || pool->arenas.retired_count == 0);
}

/* The arena of a stream which is not retired; NULL: none. */
static struct tn_arena *arena_of_stream(const tarn_pool *pool, struct tn_order order)
{
    return order.capture_id == 0 ? tn_arena_seek(pool, order) : NULL;
}

void tn_arena_save(tarn_pool *pool, struct tn_order order, uint64_t count)
{
    struct tn_arena *arena = arena_of_stream(pool, order);

    TN_ASSERT(tn_pool_is_locked(pool));
    if (arena != NULL)
        arena->saved_count += count;
}

/* A newer arena counts fewer blocks: the stream had none before, or was retired. */
void tn_arena_forget(tarn_pool *pool, struct tn_order order, uint64_t count)
{
    struct tn_arena *arena = arena_of_stream(pool, order);

    TN_ASSERT(tn_pool_is_locked(pool));
    if (arena != NULL)
        arena->saved_count -= tn_min(count, arena->saved_count);
}

static bool is_dropped(const struct tn_arena *arena)
{
    return arena->order.capture_id == 0 && arena->saved_count == 0 &&
           arena->heaps[TN_HEAP_SMALL]->mapped_bytes == 0 &&
           arena->heaps[TN_HEAP_LARGE]->mapped_bytes == 0;
}

/* These arenas have no blocks, so no segment is walked. */
void tn_arenas_drop_empty(tarn_pool *pool)
{
    struct tn_arena *next;

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = next) {
        next = tn_arena_next(arena);
        if (!is_dropped(arena))
            continue;
        for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
            while (arena->heaps[kind]->segments != NULL)
                tn_segment_set_grower(arena->heaps[kind]->segments, pool->idle.heaps[kind]);
        }
        free_arena(pool, arena);
    }
    drop_dormant_arena(pool);
}

/* Whether the arena, all of whose memory is free, has this memory in segments of its own, and nothing
 * needs their addresses. */
static bool is_apart(const struct tn_arena *arena)
{
    uint64_t bytes = 0;

    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        bytes += arena->heaps[kind]->mapped_bytes;
        for (const struct tn_segment *segment = arena->heaps[kind]->segments; segment != NULL;
             segment = segment->grower_next) {
            if (segment->checkpoint_count > 0 || segment->vacated_count > 0 || segment->mixed ||
                (segment->mapped_bytes > 0 && segment->first_arena != arena))
                return false;
            bytes -= segment->mapped_bytes;
        }
    }
    return bytes == 0;
}

/* Ends the arena, which is_apart. False: no host memory, and the arena keeps what is
 * not proven. */
static bool end_apart(tarn_pool *pool, struct tn_arena *arena)
{
    if (pool->segments.dormant.arena == NULL)
        pool->segments.dormant.arena = make_arena(pool, TN_ORDER_NONE);
    if (pool->segments.dormant.arena == NULL)
        return false;
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        struct tn_segment *segment;

        while ((segment = arena->heaps[kind]->segments) != NULL) {
            uint64_t stamp = tn_segment_highest_stamp(segment);

            if (tn_pool_has_proven(pool, arena, stamp))
                tn_segment_give_idle(pool, segment);
            else if (!tn_dormant_enter(pool, segment, arena->order.stream_id, stamp))
                return tn_dormant_undo(pool, arena);
        }
    }
    free_arena(pool, arena);
    return true;
}

/* True: the arena that has been asleep for longest was looked at. */
static bool tend_arena(tarn_pool *pool)
{
    struct tn_arena *arena = pool->arenas.lists.last[TN_ARENAS_ASLEEP];
    uint64_t stamp;

    TN_ASSERT(tn_pool_is_locked(pool));
    if (arena == NULL || pool->arenas.lock_count - arena->asleep_since < UNUSED_LOCKS)
        return false;
    if (arena->chances > 0 || !tn_arena_is_free(arena, CHUNKS_MAX, &stamp))
        put_off(pool, arena);
    else if (tn_pool_has_proven(pool, arena, stamp))
        end_arenas(pool, &(struct ending){.one = arena, .to = &pool->idle, .proven = true});
    else if (!is_apart(arena) || !end_apart(pool, arena))
        put_off(pool, arena);
    return true;
}

void tn_arenas_tend(tarn_pool *pool)
{
    if (pool->claims.checkpoint_count > 0)
        return;
    for (int i = 0; i < TENDED_MAX && tend_arena(pool); i++)
        ;
    for (int i = 0; i < TENDED_MAX && tn_dormant_give_oldest(pool) > 0; i++)
        ;
}

void tn_arenas_fini(tarn_pool *pool)
{
    TN_ASSERT(pool->chunks.count == 0 && tn_pool_first_segment(pool) == NULL);
    while (pool->arenas.lists.first[TN_ARENAS_ALL] != NULL)
        free_arena(pool, pool->arenas.lists.first[TN_ARENAS_ALL]);
    drop_dormant_arena(pool);
    tn_arena_table_fini(pool);
    TN_ASSERT(pool->arenas.count == 0 && pool->arenas.retired_count == 0);
}
