// SPDX-License-Identifier: Apache-2.0
/* Memory passes in whole chunks, with the live blocks in them. When such a block is freed later,
 * its bytes go to the heap which then owns the chunk. A block which reaches over a chunk's edge
 * takes the next chunk along: all chunks under a block always have one owner.
 *
 * A capture takes idle memory, and leaves it, beside any number of live blocks of others. These
 * keep a heap of idle memory (P2), and their free looks whose the chunk is. The capture's steady
 * state takes them for another arena's, and leaves free blocks between two of them to the pool.
 *
 * The right to take idle memory:
 * - A capture takes any, since its graph is ordered against the other graphs of the pool.
 * - Work outside captures takes only whole chunks which no graph holds, which are all free and
 *   which are proven idle.
 *
 * Trade-offs: idle memory is searched one free block after another, 64 of them at most. */
#include "pools/handover.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "claims/body.h"
#include "pools/arena_table.h"
#include "pools/arenas.h"
#include "pools/device.h"
#include "pools/pool.h"

enum {
    IDLE_ROUNDS = 64,
    NEAR_STEPS = 8, /* from a block to the next ones, before an index is asked */
};

/* The block over the offset. near: some block, perhaps the one. */
static const struct tn_block *block_over(const struct tn_block *near, uint64_t offset)
{
    for (int steps = 0; steps < NEAR_STEPS; steps++) {
        if (near->offset <= offset && tn_block_end(near) > offset)
            return near;
        near = near->offset > offset ? near->previous : near->next;
    }
    return tn_segment_block_at(near->segment, offset);
}

/* Hands the run's chunks over. Returns how many of their bytes are FREE. */
static uint64_t pass_chunks(const struct tn_run *run, struct tn_heap *from, struct tn_heap *to)
{
    uint64_t free_bytes = 0;

    TN_ASSERT(run->begin < run->end && run->end <= run->segment->bytes);
    tn_segment_admit(run->segment, to);
    for (uint64_t offset = run->begin; offset < run->end;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(run->segment, offset);

        TN_ASSERT(chunk->heap == from);
        tn_chunk_pass(chunk, to);
        TN_ASSERT(from->mapped_bytes >= chunk->bytes); /* P8 */
        from->mapped_bytes -= chunk->bytes;
        to->mapped_bytes += chunk->bytes;
        free_bytes += chunk->bytes - chunk->used_bytes;
        offset = tn_chunk_end(chunk);
    }
    return free_bytes;
}

/* Hands the run's part of a FREE block over, whose chunks have been. Returns the whole block
 * there. */
static struct tn_block *pass_free(tarn_pool *pool, const struct tn_run *run, struct tn_block *block,
                                  struct tn_heap *from, struct tn_heap *to)
{
    struct tn_block *lower = block;

    TN_ASSERT(block->state == TN_BLOCK_FREE && block->heap == from);
    tn_bins_remove(&from->bins, block);
    if (lower->offset < run->begin) {
        block = tn_block_split(&pool->store, lower, run->begin);
        tn_bins_insert(&from->bins, lower);
    }
    if (tn_block_end(block) > run->end)
        tn_bins_insert(&from->bins, tn_block_split(&pool->store, block, run->end));
    block->heap = to;
    return tn_heap_put(&pool->store, block);
}

/* How many of the block's bytes are in the run, if they are FREE. */
static uint64_t free_in(const struct tn_run *run, const struct tn_block *block)
{
    return block->state == TN_BLOCK_FREE
               ? tn_min(tn_block_end(block), run->end) - tn_max(block->offset, run->begin)
               : 0;
}

/* Hands the run's FREE blocks over, which have so many bytes. They are sought from this one on, down
 * and up by turns. */
static void pass_free_around(tarn_pool *pool, const struct tn_run *run, struct tn_block *inside,
                             struct tn_heap *from, struct tn_heap *to, uint64_t free_bytes)
{
    struct tn_block *first = inside;
    struct tn_block *last = inside;
    struct tn_block *next;
    uint64_t found = free_in(run, inside);

    TN_ASSERT(found > 0);
    while (found < free_bytes && (first->offset > run->begin || tn_block_end(last) < run->end)) {
        if (first->offset > run->begin) {
            first = first->previous;
            found += free_in(run, first);
        }
        if (tn_block_end(last) < run->end && found < free_bytes) {
            last = last->next;
            found += free_in(run, last);
        }
    }
    TN_ASSERT(found == free_bytes); /* P6 */
    for (struct tn_block *block = first; block != NULL && found > 0; block = next) {
        uint64_t bytes = free_in(run, block);

        found -= bytes;
        next = bytes > 0 ? pass_free(pool, run, block, from, to)->next : block->next;
    }
}

/* Hands the run's blocks over, but those that keep a heap of idle memory while their chunks pass to
 * a capture, or from one. */
static void pass_all(tarn_pool *pool, const struct tn_run *run, struct tn_block *inside,
                     struct tn_heap *from, struct tn_heap *to)
{
    const bool keep = from->is_idle && tn_arena_is_captured(to->arena);
    struct tn_block *block = inside;
    struct tn_block *next;

    while (block->offset > run->begin)
        block = block->previous;
    for (; block != NULL && block->offset < run->end; block = next) {
        next = block->next;
        if (block->state == TN_BLOCK_FREE)
            next = pass_free(pool, run, block, from, to)->next;
        else if (block->heap->arena == from->arena && !(keep && tn_block_may_keep(block))) {
            tn_block_pass(block, to);
            to->has_others = to->has_others || tn_block_may_keep(block);
        }
    }
}

/* Hands the run's chunks and blocks to another heap; parts of FREE blocks outside the run stay.
 * inside: any block of the run. Takes up to two records. */
static void transfer(tarn_pool *pool, struct tn_run run, struct tn_block *inside,
                     struct tn_heap *from, struct tn_heap *to)
{
    uint64_t free_bytes;

    TN_ASSERT(tn_pool_is_locked(pool) && from != to);
    free_bytes = pass_chunks(&run, from, to);
    if (from->is_idle && from->pending_count == 0 && tn_arena_is_captured(to->arena) &&
        free_in(&run, inside) > 0)
        pass_free_around(pool, &run, inside, from, to, free_bytes);
    else
        pass_all(pool, &run, inside, from, to);
    tn_segment_unite(run.segment, to->arena, run.end - run.begin);
}

/* Whether the block passes with the chunks under it. */
static bool goes_along(const struct tn_block *block)
{
    return block->state != TN_BLOCK_FREE && block->state != TN_BLOCK_UNMAPPED;
}

/* Widens the run until no block which passes with its chunks reaches over its edges. */
static void close_run(struct tn_run *run, const struct tn_block *inside)
{
    const struct tn_block *block = inside;

    TN_ASSERT(inside->segment == run->segment && run->begin < run->end);
    TN_ASSERT(inside->offset < run->end && tn_block_end(inside) > run->begin);
    for (;;) {
        block = block_over(block, run->begin);
        if (block->offset == run->begin || !goes_along(block))
            break;
        run->begin = tn_segment_chunk_at(run->segment, block->offset)->offset;
    }
    for (block = inside;;) {
        block = block_over(block, run->end - 1);
        if (tn_block_end(block) == run->end || !goes_along(block))
            break;
        run->end = tn_chunk_end(tn_segment_chunk_at(run->segment, tn_block_end(block) - 1));
    }
}

/* The chunks which contain the first bytes of a FREE block. */
static struct tn_run run_for_capture(const struct tn_block *block, uint64_t bytes)
{
    struct tn_run run = {block->segment, tn_block_chunk_at(block, block->offset)->offset,
                         tn_chunk_end(tn_block_chunk_at(block, block->offset + bytes - 1))};

    TN_ASSERT(block->state == TN_BLOCK_FREE && tn_block_bytes(block) >= bytes);
    close_run(&run, block);
    return run;
}

bool tn_chunk_is_takeable(const tarn_pool *pool, const struct tn_chunk *chunk)
{
    const struct tn_gpu *gpu = &pool->device->gpu;

    TN_ASSERT(tn_pool_is_locked(pool));
    if (chunk->used_bytes > 0 || !tn_gpu_is_proven(gpu, chunk->freed_stamp))
        return false;
    return chunk->hold_count == 0 ||
           (pool->share_captured && pool->holds.open_count == 0 &&
            !atomic_load(&pool->replays->launching_alone) &&
            tn_gpu_is_proven(gpu, atomic_load(&pool->replays->alone_stamp)) &&
            tn_gpu_is_proven(gpu, atomic_load(&pool->replays->stamp)));
}

/* Finds whole chunks inside a FREE block, at least bytes of them, which work outside captures may
 * take; false: none. */
static bool run_for_work(const tarn_pool *pool, const struct tn_block *block, uint64_t bytes,
                         struct tn_run *run)
{
    uint64_t offset = block->offset;

    TN_ASSERT(block->state == TN_BLOCK_FREE && bytes > 0);
    *run = (struct tn_run){block->segment, offset, offset};
    while (offset < tn_block_end(block)) {
        const struct tn_chunk *chunk = tn_block_chunk_at(block, offset);

        if (chunk->offset < block->offset || tn_chunk_end(chunk) > tn_block_end(block) ||
            !tn_chunk_is_takeable(pool, chunk)) {
            run->begin = tn_chunk_end(chunk);
        } else if (tn_chunk_end(chunk) - run->begin >= bytes) {
            run->end = tn_chunk_end(chunk);
            return true;
        }
        offset = tn_chunk_end(chunk);
    }
    return false;
}

/* A FREE block of idle memory with a run of at least bytes which may be taken, and the run; NULL:
 * none. */
static struct tn_block *find_in_idle(tarn_pool *pool, const struct tn_heap *idle, bool captured,
                                     uint64_t bytes, struct tn_run *run)
{
    struct tn_block *block = tn_bins_find(&idle->bins, bytes);

    for (int steps = 0; block != NULL && steps < IDLE_ROUNDS; steps++) {
        if (captured) {
            *run = run_for_capture(block, bytes);
            return block;
        }
        if (run_for_work(pool, block, bytes, run))
            return block;
        block = tn_bins_next(&idle->bins, block, bytes);
    }
    return NULL;
}

bool tn_idle_has(tarn_pool *pool, enum tn_heap_kind kind, bool captured, uint64_t bytes)
{
    struct tn_run run;

    return find_in_idle(pool, pool->idle.heaps[kind], captured, bytes, &run) != NULL;
}

static bool take_from_idle(tarn_pool *pool, struct tn_heap *heap, struct tn_heap *idle,
                           uint64_t bytes)
{
    struct tn_run run;
    struct tn_block *block =
        find_in_idle(pool, idle, tn_arena_is_captured(heap->arena), bytes, &run);

    TN_ASSERT(tn_pool_is_locked(pool) && heap != idle);
    if (block != NULL)
        transfer(pool, run, block, idle, heap);
    return block != NULL;
}

void tn_heap_take_free(tarn_pool *pool, struct tn_heap *heap, struct tn_block *block)
{
    TN_ASSERT(block->state == TN_BLOCK_FREE && block->heap->arena == &pool->idle);
    TN_ASSERT(tn_arena_is_captured(heap->arena));
    transfer(pool, run_for_capture(block, tn_block_bytes(block)), block, block->heap, heap);
}

bool tn_heap_take_idle(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes)
{
    TN_ASSERT(heap->arena->pool == pool && heap->arena != &pool->idle);
    return take_from_idle(pool, heap, pool->idle.heaps[heap->kind], bytes);
}

struct tn_arena *tn_arena_of_group(tarn_pool *pool, const struct tn_arena *arena)
{
    const struct tn_body *body =
        pool->bodies.first != NULL ? tn_body_find(&pool->bodies, arena->order.capture_id) : NULL;

    TN_ASSERT(tn_pool_is_locked(pool) && arena->pool == pool);
    return body != NULL ? tn_arena_find(pool, tn_group_order(body)) : NULL;
}

/* Takes memory which bodies that exclude this body have left. */
static bool take_from_group(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes)
{
    struct tn_arena *group = tn_arena_of_group(pool, heap->arena);

    return group != NULL && (take_from_idle(pool, heap, group->heaps[heap->kind], bytes) ||
                             take_from_idle(pool, heap, group->heaps[1 - heap->kind], bytes));
}

struct tn_block *tn_heap_find(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes)
{
    struct tn_block *block = tn_bins_find_inner(&heap->bins, bytes);

    TN_ASSERT(tn_pool_is_locked(pool) && heap->arena->pool == pool);
    if (block != NULL || heap->arena == &pool->idle)
        return block;
    /* Chunks of its own kind first; any memory in the pool before more is mapped. */
    if (take_from_group(pool, heap, bytes) ||
        take_from_idle(pool, heap, pool->idle.heaps[heap->kind], bytes) ||
        take_from_idle(pool, heap, pool->idle.heaps[1 - heap->kind], bytes))
        block = tn_bins_find_inner(&heap->bins, bytes);
    TN_ASSERT(block == NULL || (block->heap == heap && tn_block_bytes(block) >= bytes));
    return block;
}

/* The chunks under the block, and the chunks which pass with them. */
static struct tn_run run_under(const struct tn_block *block)
{
    struct tn_run run = {block->segment, tn_block_chunk_at(block, block->offset)->offset,
                         tn_chunk_end(tn_block_chunk_at(block, tn_block_end(block) - 1))};

    close_run(&run, block);
    return run;
}

bool tn_give_up_is_proven(const tarn_pool *pool, const struct tn_block *block)
{
    struct tn_run run = run_under(block);
    const struct tn_chunk *chunk;

    TN_ASSERT(tn_pool_is_locked(pool) && goes_along(block));
    for (uint64_t offset = run.begin; offset < run.end; offset = tn_chunk_end(chunk)) {
        chunk = tn_segment_chunk_at(run.segment, offset);
        if (!tn_gpu_is_proven(&pool->device->gpu, chunk->freed_stamp))
            return false;
    }
    return true;
}

void tn_heap_give_up(tarn_pool *pool, struct tn_block *block)
{
    struct tn_heap *from = block->heap;

    TN_ASSERT(tn_pool_is_locked(pool) && goes_along(block));
    if (from->arena != &pool->idle)
        transfer(pool, run_under(block), block, from, pool->idle.heaps[from->kind]);
    TN_ASSERT(block->heap->arena == &pool->idle);
}

/* Finds the first run of chunks inside a FREE block which anyone in the pool may take, at most to
 * the block's end; false: none. */
static bool find_takeable(const tarn_pool *pool, const struct tn_block *block, struct tn_run *run)
{
    if (!run_for_work(pool, block, 1, run))
        return false;
    while (run->end < tn_block_end(block)) {
        const struct tn_chunk *chunk = tn_block_chunk_at(block, run->end);

        if (tn_chunk_end(chunk) > tn_block_end(block) || !tn_chunk_is_takeable(pool, chunk))
            break;
        run->end = tn_chunk_end(chunk);
    }
    return true;
}

uint64_t tn_arenas_give_idle(tarn_pool *pool)
{
    uint64_t moved = tn_dormant_give_idle(pool);

    TN_ASSERT(tn_pool_is_locked(pool));
    for (struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next) {
        struct tn_block *block = segment->first_block;

        while (block != NULL) {
            struct tn_run run;
            struct tn_heap *from = block->heap;
            struct tn_block *before = block->previous; /* the moved block may coalesce with it */

            if (block->state != TN_BLOCK_FREE || from->arena == &pool->idle ||
                !find_takeable(pool, block, &run) || !tn_blocks_reserve(&pool->store, 2)) {
                block = block->next;
                continue;
            }
            moved += run.end - run.begin;
            transfer(pool, run, block, from, pool->idle.heaps[from->kind]);
            block = before != NULL ? before : segment->first_block;
        }
    }
    return moved;
}

void tn_run_give_idle(tarn_pool *pool, struct tn_heap *from, struct tn_run run)
{
    struct tn_block *block = tn_segment_block_at(run.segment, run.begin);

    TN_ASSERT(block->state == TN_BLOCK_FREE && tn_block_end(block) >= run.end); /* P3 */
    TN_ASSERT(from->arena->pool == pool && from->arena != &pool->idle);
    transfer(pool, run, block, from, pool->idle.heaps[from->kind]);
}

void tn_heap_take_over(tarn_pool *pool, struct tn_heap *heap, struct tn_block *inside,
                       uint64_t offset, uint64_t end)
{
    struct tn_segment *segment = inside->segment;

    TN_ASSERT(tn_pool_is_locked(pool) && heap->arena->pool == pool);
    TN_ASSERT(inside->offset <= offset && offset < end && end <= segment->bytes);
    while (offset < end) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, offset);
        struct tn_run run = {segment, chunk->offset, tn_chunk_end(chunk)};
        struct tn_block *stable = inside->previous; /* moved blocks may coalesce with others */

        offset = run.end;
        if (chunk->heap == heap)
            continue;
        while (tn_block_end(inside) <= run.begin)
            inside = inside->next;
        while (stable != NULL && stable->state == TN_BLOCK_FREE)
            stable = stable->previous;
        close_run(&run, inside);
        transfer(pool, run, inside, chunk->heap, heap);
        inside = stable != NULL ? stable : segment->first_block;
    }
}

void tn_run_close(struct tn_run *run, const struct tn_block *inside)
{
    const struct tn_chunk *first = tn_segment_chunk_at(run->segment, run->begin);
    const struct tn_chunk *last = tn_segment_chunk_at(run->segment, run->end - 1);

    run->begin = first != NULL ? first->offset : tn_round_down(run->begin, TN_PAGE_BYTES);
    run->end = last != NULL ? tn_chunk_end(last) : tn_round_up(run->end, TN_PAGE_BYTES);
    close_run(run, inside);
}

/* The chunk of the run at or behind *offset, which moves behind the chunk; NULL: none. */
static const struct tn_chunk *next_chunk(const struct tn_run *run, uint64_t *offset)
{
    const struct tn_chunk *chunk = NULL;

    TN_ASSERT(run->begin < run->end && *offset >= run->begin);
    while (chunk == NULL && *offset < run->end) {
        chunk = tn_segment_chunk_at(run->segment, *offset);
        *offset = chunk != NULL ? tn_chunk_end(chunk) : *offset + TN_PAGE_BYTES;
    }
    return chunk;
}

bool tn_handover_is_proven(tarn_pool *pool, const struct tn_run *run, const struct tn_block *inside,
                           const struct tn_arena *arena, uint64_t idle_sequence)
{
    const struct tn_gpu *gpu = &pool->device->gpu;
    const struct tn_chunk *chunk;
    uint64_t offset = run->begin;
    bool passes = false;

    TN_ASSERT(tn_pool_is_locked(pool));
    while ((chunk = next_chunk(run, &offset)) != NULL) {
        if (chunk->heap->arena == arena)
            continue;
        if (!tn_gpu_is_proven(gpu, chunk->freed_stamp))
            return false;
        passes = true;
    }
    if (!passes)
        return true;
    while (inside->offset > run->begin)
        inside = inside->previous;
    for (; inside != NULL && inside->offset < run->end; inside = inside->next) {
        if (inside->heap == NULL || inside->heap->arena == arena)
            continue;
        if ((inside->state == TN_BLOCK_LIVE && inside->sequence > idle_sequence) ||
            (inside->state == TN_BLOCK_PENDING &&
             !tn_gpu_is_proven(gpu, tn_block_cold(inside)->pending_stamp)))
            return false;
    }
    return true;
}

bool tn_run_is_held(const struct tn_run *run)
{
    const struct tn_chunk *chunk;
    uint64_t offset = run->begin;

    while ((chunk = next_chunk(run, &offset)) != NULL) {
        if (chunk->hold_count > 0)
            return true;
    }
    return false;
}

/* Sorts the idle chunks of one segment. If blocks reach over edges of chunks, all of them go with
 * the first chunk. */
static void sort_segment(tarn_pool *pool, struct tn_segment *segment)
{
    struct tn_block *inside = segment->first_block;

    for (uint64_t offset = 0; offset < segment->bytes;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, offset);
        struct tn_run run = {segment, offset, 0};
        struct tn_block *stable;

        while (tn_block_end(inside) <= offset)
            inside = inside->next;
        if (chunk == NULL) {
            run.end = tn_block_end(inside); /* the block is UNMAPPED */
        } else {
            run.end = tn_chunk_end(chunk);
            close_run(&run, inside);
        }
        offset = run.end;
        if (chunk == NULL || chunk->heap->arena != &pool->idle ||
            chunk->heap == pool->idle.heaps[chunk->kind] || !tn_blocks_reserve(&pool->store, 2))
            continue;
        stable = inside->previous; /* moved blocks may coalesce with others */
        while (stable != NULL && stable->state == TN_BLOCK_FREE)
            stable = stable->previous;
        transfer(pool, run, inside, chunk->heap, pool->idle.heaps[chunk->kind]);
        inside = stable != NULL ? stable : segment->first_block;
    }
}

void tn_idle_sort(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (pool->idle.heaps[TN_HEAP_SMALL]->mapped_bytes == 0 &&
        pool->idle.heaps[TN_HEAP_LARGE]->mapped_bytes == 0)
        return;
    for (struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next) {
        if (segment->idle_bytes > 0) /* P2 */
            sort_segment(pool, segment);
    }
}

static void clear_bins(struct tn_arena *arena)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        arena->heaps[kind]->bins = (struct tn_bins){.word_map = 0};
}

static void reverse_bins(struct tn_arena *arena)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        tn_bins_reverse(&arena->heaps[kind]->bins);
}

static bool sort_bins(struct tn_arena *arena, uint64_t *steps)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        if (!tn_bins_sort(&arena->heaps[kind]->bins, steps))
            return false;
    }
    return true;
}

/* Sorts the bins if few blocks are free. False: rebuilding all bins is cheaper; the partial sort
 * does no harm. */
static bool sort_free(tarn_pool *pool)
{
    uint64_t steps = 64 + tn_pool_live_count(pool) / 8;
    bool done = sort_bins(&pool->idle, &steps);

    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL && done;
         arena = tn_arena_next(arena))
        done = sort_bins(arena, &steps);
    return done;
}

void tn_pool_sort_free(tarn_pool *pool)
{
    TN_ASSERT(tn_pool_is_locked(pool));
    if (sort_free(pool))
        return;
    clear_bins(&pool->idle);
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena))
        clear_bins(arena);
    for (struct tn_segment *segment = pool->segments.first; segment != NULL;
         segment = segment->next) {
        for (struct tn_block *block = segment->first_block; block != NULL; block = block->next) {
            if (block->state == TN_BLOCK_FREE)
                tn_bins_insert(&block->heap->bins, block);
        }
    }
    reverse_bins(&pool->idle); /* the last in is the first out */
    for (struct tn_arena *arena = pool->arenas.lists.first[TN_ARENAS_ALL]; arena != NULL;
         arena = tn_arena_next(arena))
        reverse_bins(arena);
}
