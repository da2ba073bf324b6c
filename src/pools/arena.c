// SPDX-License-Identifier: Apache-2.0
/* Arenas and heaps: good fit from the bins, splitting, coalescing, and chunks that change hands.
 *
 * Free blocks join across neighbouring chunks of one heap, never of two, so a heap's memory is its
 * own. Memory passes in whole chunks, with the live blocks in them: when such a block is freed later
 * its bytes go to the heap that owns the chunk then. A block that reaches over a chunk's edge takes
 * the next chunk along, so that all chunks under a block always have one owner.
 *
 * Who may take idle memory: a capture takes any, since its graph is ordered against the other graphs
 * of the pool. Work outside captures takes only whole chunks that no graph holds, that are all free
 * and that are proven idle.
 *
 * Trade-offs: ending a capture or a retired stream walks the pool's segments and their blocks;
 * retiring a stream walks the live blocks. Finding an arena walks a list, most recently used first. */
#include "pools/arena.h"

#include <stddef.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "pools/body.h"
#include "pools/device.h"
#include "pools/use.h"

enum { IDLE_LOOKS = 64 };

void tn_arena_init(struct tn_arena *arena, tarn_pool *pool, struct tn_order order)
{
    arena->pool = pool;
    arena->order = order;
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++) {
        struct tn_heap *heap = &arena->heaps[kind];

        heap->arena = arena;
        heap->kind = (enum tn_heap_kind)kind;
        heap->segment_bytes = TN_SLOT_BYTES;
    }
}

struct tn_arena *tn_arena_find(tarn_pool *pool, struct tn_order order)
{
    struct tn_arena **link = &pool->arenas;
    struct tn_arena *arena;

    while (*link != NULL && !tn_order_equal((*link)->order, order))
        link = &(*link)->next;
    arena = *link;
    if (arena != NULL) {
        *link = arena->next;
        arena->next = pool->arenas;
        pool->arenas = arena;
    }
    return arena;
}

struct tn_arena *tn_arena_get(tarn_pool *pool, struct tn_order order)
{
    struct tn_arena *arena = tn_arena_find(pool, order);

    if (arena != NULL)
        return arena;
    arena = tn_host_alloc(1, sizeof *arena);
    if (arena == NULL)
        return NULL;
    tn_arena_init(arena, pool, order);
    arena->next = pool->arenas;
    pool->arenas = arena;
    pool->arena_count += 1;
    return arena;
}

static struct tn_chunk *chunk_at(const struct tn_block *block, uint64_t offset)
{
    struct tn_chunk *chunk = tn_segment_chunk_at(block->segment, offset);

    TN_ASSERT(chunk != NULL && chunk->heap == block->heap); /* P2 */
    return chunk;
}

/* The bytes of the block that lie in the chunk. */
static uint64_t overlap(const struct tn_block *block, const struct tn_chunk *chunk)
{
    return tn_min(tn_block_end(block), tn_chunk_end(chunk)) - tn_max(block->offset, chunk->offset);
}

void tn_block_count_used(struct tn_block *block)
{
    uint64_t offset = block->offset;

    while (offset < tn_block_end(block)) {
        struct tn_chunk *chunk = chunk_at(block, offset);

        chunk->used_bytes += overlap(block, chunk);
        TN_ASSERT(chunk->used_bytes <= chunk->bytes); /* P6 */
        offset = tn_chunk_end(chunk);
    }
}

void tn_block_count_freed(struct tn_block *block, uint64_t stamp)
{
    uint64_t offset = block->offset;

    while (offset < tn_block_end(block)) {
        struct tn_chunk *chunk = chunk_at(block, offset);

        TN_ASSERT(chunk->used_bytes >= overlap(block, chunk)); /* P6 */
        chunk->used_bytes -= overlap(block, chunk);
        chunk->freed_stamp = tn_max(chunk->freed_stamp, stamp);
        offset = tn_chunk_end(chunk);
    }
}

static bool can_join(const struct tn_block *a, const struct tn_block *b)
{
    return a != NULL && b != NULL && a->state == TN_BLOCK_FREE && b->state == TN_BLOCK_FREE &&
           a->heap == b->heap;
}

struct tn_block *tn_heap_put(tarn_pool *pool, struct tn_block *block)
{
    block->state = TN_BLOCK_FREE;
    block->requested = 0;
    block->captured_free = false;
    if (can_join(block, block->next)) {
        tn_bins_remove(&block->heap->bins, block->next);
        tn_block_join_next(&pool->store, block);
    }
    if (can_join(block->previous, block)) {
        block = block->previous;
        tn_bins_remove(&block->heap->bins, block);
        tn_block_join_next(&pool->store, block);
    }
    tn_bins_insert(&block->heap->bins, block);
    return block;
}

struct tn_block *tn_heap_carve(tarn_pool *pool, struct tn_block *block, uint64_t offset,
                               uint64_t bytes)
{
    TN_ASSERT(block->state == TN_BLOCK_FREE && offset >= block->offset);
    TN_ASSERT(offset + bytes <= tn_block_end(block));
    tn_bins_remove(&block->heap->bins, block);
    if (offset > block->offset) {
        struct tn_block *upper = tn_block_split(&pool->store, block, offset);

        tn_bins_insert(&block->heap->bins, block);
        block = upper;
    }
    if (bytes < block->bytes) {
        struct tn_block *rest = tn_block_split(&pool->store, block, offset + bytes);

        tn_bins_insert(&rest->heap->bins, rest);
    }
    return block;
}

/* A run of whole chunks in one segment. */
struct chunk_run {
    struct tn_segment *segment;
    uint64_t begin; /* offsets in the segment, both at chunk edges */
    uint64_t end;
};

/* Hands the FREE blocks of the run, and its chunks, to another heap. Blocks outside stay. inside is
 * any block of the run. Takes up to two records. */
static void transfer(tarn_pool *pool, struct chunk_run run, struct tn_block *inside,
                     struct tn_heap *from, struct tn_heap *to)
{
    struct tn_block *first = inside;
    struct tn_block *next;

    while (first->offset > run.begin)
        first = first->previous;
    if (first->offset < run.begin) { /* only a FREE block reaches over the edge of a run */
        tn_bins_remove(&from->bins, first);
        next = tn_block_split(&pool->store, first, run.begin);
        tn_bins_insert(&from->bins, first);
        tn_bins_insert(&from->bins, next);
        first = next;
    }
    for (uint64_t offset = run.begin; offset < run.end;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(run.segment, offset);

        TN_ASSERT(chunk->heap == from);
        chunk->heap = to;
        from->mapped_bytes -= chunk->bytes;
        to->mapped_bytes += chunk->bytes;
        offset = tn_chunk_end(chunk);
    }
    for (struct tn_block *block = first; block != NULL && block->offset < run.end; block = next) {
        next = block->next;
        if (block->state == TN_BLOCK_FREE) {
            tn_bins_remove(&from->bins, block);
            if (tn_block_end(block) > run.end)
                tn_bins_insert(&from->bins, tn_block_split(&pool->store, block, run.end));
            block->heap = to;
            next = tn_heap_put(pool, block)->next;
        } else {
            block->heap = to;
        }
    }
}

/* Widens the run until no block that is not FREE reaches over its edges. */
static void close_run(struct chunk_run *run, const struct tn_block *inside)
{
    const struct tn_block *block = inside;

    for (;;) {
        while (block->offset > run->begin)
            block = block->previous;
        if (block->offset == run->begin || block->state == TN_BLOCK_FREE)
            break;
        run->begin = tn_segment_chunk_at(run->segment, block->offset)->offset;
    }
    for (block = inside;;) {
        while (tn_block_end(block) < run->end)
            block = block->next;
        if (tn_block_end(block) == run->end || block->state == TN_BLOCK_FREE)
            break;
        run->end = tn_chunk_end(tn_segment_chunk_at(run->segment, tn_block_end(block) - 1));
    }
}

/* The chunks that hold the first bytes of a FREE block. */
static struct chunk_run run_for_capture(const struct tn_block *block, uint64_t bytes)
{
    struct chunk_run run = {block->segment, chunk_at(block, block->offset)->offset,
                            tn_chunk_end(chunk_at(block, block->offset + bytes - 1))};

    close_run(&run, block);
    return run;
}

/* Whether anyone in the pool may take the chunk. Of one that graphs hold the last replay, which writes
 * to it without a free, must be over too. */
static bool is_takeable(const tarn_pool *pool, const struct tn_chunk *chunk)
{
    const struct tn_gpu *gpu = &pool->device->gpu;

    if (chunk->used_bytes > 0 || !tn_gpu_is_proven(gpu, chunk->freed_stamp))
        return false;
    return chunk->hold_count == 0 ||
           (pool->share_captured && pool->open_hold_count == 0 &&
            !atomic_load(&pool->replays.launching_alone) &&
            tn_gpu_is_proven(gpu, atomic_load(&pool->replays.alone_stamp)) &&
            tn_gpu_is_proven(gpu, atomic_load(&pool->replays.stamp)));
}

/* Whole chunks inside a FREE block, at least bytes of them, that work outside captures may take;
 * false when it has none. */
static bool run_for_work(const tarn_pool *pool, const struct tn_block *block, uint64_t bytes,
                         struct chunk_run *run)
{
    uint64_t offset = block->offset;

    *run = (struct chunk_run){block->segment, offset, offset};
    while (offset < tn_block_end(block)) {
        const struct tn_chunk *chunk = chunk_at(block, offset);

        if (chunk->offset < block->offset || tn_chunk_end(chunk) > tn_block_end(block) ||
            !is_takeable(pool, chunk)) {
            run->begin = tn_chunk_end(chunk);
        } else if (tn_chunk_end(chunk) - run->begin >= bytes) {
            run->end = tn_chunk_end(chunk);
            return true;
        }
        offset = tn_chunk_end(chunk);
    }
    return false;
}

/* A FREE block of idle memory with a run of at least bytes that may be taken, and the run; NULL when
 * there is none. */
static struct tn_block *find_in_idle(tarn_pool *pool, const struct tn_heap *idle, bool captured,
                                     uint64_t bytes, struct chunk_run *run)
{
    struct tn_block *block = tn_bins_find(&idle->bins, bytes);

    for (int looks = 0; block != NULL && looks < IDLE_LOOKS; looks++) {
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
    struct chunk_run run;

    return find_in_idle(pool, &pool->idle.heaps[kind], captured, bytes, &run) != NULL;
}

static bool take_from_idle(tarn_pool *pool, struct tn_heap *heap, struct tn_heap *idle,
                           uint64_t bytes)
{
    struct chunk_run run;
    struct tn_block *block =
        find_in_idle(pool, idle, tn_arena_is_captured(heap->arena), bytes, &run);

    if (block != NULL)
        transfer(pool, run, block, idle, heap);
    return block != NULL;
}

struct tn_arena *tn_arena_of_group(tarn_pool *pool, const struct tn_arena *arena)
{
    const struct tn_body *body =
        pool->bodies != NULL ? tn_body_find(pool, arena->order.capture_id) : NULL;

    return body != NULL ? tn_arena_find(pool, tn_group_order(body)) : NULL;
}

/* What bodies that exclude this one have left. */
static bool take_from_group(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes)
{
    struct tn_arena *group = tn_arena_of_group(pool, heap->arena);

    return group != NULL && (take_from_idle(pool, heap, &group->heaps[heap->kind], bytes) ||
                             take_from_idle(pool, heap, &group->heaps[1 - heap->kind], bytes));
}

struct tn_block *tn_heap_find(tarn_pool *pool, struct tn_heap *heap, uint64_t bytes)
{
    struct tn_block *block = tn_bins_find(&heap->bins, bytes);

    if (block != NULL || heap->arena == &pool->idle)
        return block;
    /* Chunks of its own kind first; any memory that is there before more is mapped. */
    if (take_from_group(pool, heap, bytes) ||
        take_from_idle(pool, heap, &pool->idle.heaps[heap->kind], bytes) ||
        take_from_idle(pool, heap, &pool->idle.heaps[1 - heap->kind], bytes))
        block = tn_bins_find(&heap->bins, bytes);
    return block;
}

void tn_heap_give_up(tarn_pool *pool, struct tn_block *block)
{
    struct tn_heap *from = block->heap;
    struct tn_heap *to = &pool->idle.heaps[from->kind];
    struct chunk_run run = {block->segment, chunk_at(block, block->offset)->offset,
                            tn_chunk_end(chunk_at(block, tn_block_end(block) - 1))};

    if (from->arena == &pool->idle)
        return;
    close_run(&run, block);
    transfer(pool, run, block, from, to);
}

/* The first run of chunks inside a FREE block that anyone in the pool may take, at most to its end;
 * false when it has none. */
static bool find_takeable(const tarn_pool *pool, const struct tn_block *block,
                          struct chunk_run *run)
{
    if (!run_for_work(pool, block, 1, run))
        return false;
    while (run->end < tn_block_end(block)) {
        const struct tn_chunk *chunk = chunk_at(block, run->end);

        if (tn_chunk_end(chunk) > tn_block_end(block) || !is_takeable(pool, chunk))
            break;
        run->end = tn_chunk_end(chunk);
    }
    return true;
}

uint64_t tn_arenas_give_idle(tarn_pool *pool)
{
    uint64_t moved = 0;

    for (struct tn_segment *segment = pool->segments; segment != NULL; segment = segment->next) {
        struct tn_block *block = segment->first_block;

        while (block != NULL) {
            struct chunk_run run;
            struct tn_heap *from = block->heap;
            struct tn_block *stable = block->previous; /* what is moved may be joined to others */

            if (block->state != TN_BLOCK_FREE || from->arena == &pool->idle ||
                !find_takeable(pool, block, &run) || !tn_blocks_reserve(&pool->store, 2)) {
                block = block->next;
                continue;
            }
            while (stable != NULL && stable->state == TN_BLOCK_FREE)
                stable = stable->previous;
            moved += run.end - run.begin;
            transfer(pool, run, block, from, &pool->idle.heaps[from->kind]);
            block = stable != NULL ? stable : segment->first_block;
        }
    }
    return moved;
}

void tn_heap_take_over(tarn_pool *pool, struct tn_heap *heap, struct tn_block *inside,
                       uint64_t offset, uint64_t end)
{
    struct tn_segment *segment = inside->segment;

    while (offset < end) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, offset);
        struct chunk_run run = {segment, chunk->offset, tn_chunk_end(chunk)};
        struct tn_block *stable = inside->previous; /* what is moved may be joined to others */

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

bool tn_handover_is_proven(tarn_pool *pool, const struct tn_chunk *chunk,
                           const struct tn_block *inside, const struct tn_heap *heap,
                           uint64_t idle_sequence)
{
    const struct tn_gpu *gpu = &pool->device->gpu;
    struct chunk_run run = {inside->segment, chunk->offset, tn_chunk_end(chunk)};
    const struct tn_arena *to = chunk->hold_count > 0 ? &pool->idle : heap->arena;

    if (chunk->heap->arena == to)
        return true;
    close_run(&run, inside);
    for (uint64_t at = run.begin; at < run.end; at = tn_chunk_end(chunk)) {
        chunk = tn_segment_chunk_at(run.segment, at);
        if (!tn_gpu_is_proven(gpu, chunk->freed_stamp))
            return false;
    }
    while (inside->offset > run.begin)
        inside = inside->previous;
    for (; inside != NULL && inside->offset < run.end; inside = inside->next) {
        if ((inside->state == TN_BLOCK_LIVE && inside->sequence > idle_sequence) ||
            (inside->state == TN_BLOCK_PENDING && !tn_gpu_is_proven(gpu, inside->pending_stamp)))
            return false;
    }
    return true;
}

bool tn_range_is_held(const struct tn_segment *segment, uint64_t offset, uint64_t end)
{
    const struct tn_block *inside = segment->first_block;

    while (offset < end) {
        const struct tn_chunk *chunk = tn_segment_chunk_at(segment, offset);
        struct chunk_run run = {inside->segment, chunk->offset, tn_chunk_end(chunk)};

        while (tn_block_end(inside) <= run.begin)
            inside = inside->next;
        close_run(&run, inside);
        for (uint64_t at = run.begin; at < run.end; at = tn_chunk_end(chunk)) {
            chunk = tn_segment_chunk_at(segment, at);
            if (chunk->hold_count > 0)
                return true;
        }
        offset = run.end;
    }
    return false;
}

/* Those of one segment. Where blocks reach over the edges of chunks, all go with the first. */
static void sort_segment(tarn_pool *pool, struct tn_segment *segment)
{
    struct tn_block *inside = segment->first_block;

    for (uint64_t offset = 0; offset < segment->bytes;) {
        struct tn_chunk *chunk = tn_segment_chunk_at(segment, offset);
        struct chunk_run run = {segment, offset, offset + TN_PAGE_BYTES};
        struct tn_block *stable;

        while (tn_block_end(inside) <= offset)
            inside = inside->next;
        if (chunk != NULL) {
            run.end = tn_chunk_end(chunk);
            close_run(&run, inside);
        }
        offset = run.end;
        if (chunk == NULL || chunk->heap->arena != &pool->idle ||
            chunk->heap == &pool->idle.heaps[chunk->kind])
            continue;
        stable = inside->previous; /* what is moved may be joined to others */
        while (stable != NULL && stable->state == TN_BLOCK_FREE)
            stable = stable->previous;
        transfer(pool, run, inside, chunk->heap, &pool->idle.heaps[chunk->kind]);
        inside = stable != NULL ? stable : segment->first_block;
    }
}

void tn_idle_sort(tarn_pool *pool)
{
    for (struct tn_segment *segment = pool->segments; segment != NULL; segment = segment->next)
        sort_segment(pool, segment);
}

static void clear_bins(struct tn_arena *arena)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        arena->heaps[kind].bins = (struct tn_bins){.class_map = 0};
}

static void reverse_bins(struct tn_arena *arena)
{
    for (int kind = 0; kind < TN_HEAP_KINDS; kind++)
        tn_bins_reverse(&arena->heaps[kind].bins);
}

void tn_pool_order_free(tarn_pool *pool)
{
    clear_bins(&pool->idle);
    for (struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next)
        clear_bins(arena);
    for (struct tn_segment *segment = pool->segments; segment != NULL; segment = segment->next) {
        for (struct tn_block *block = segment->first_block; block != NULL; block = block->next) {
            if (block->state == TN_BLOCK_FREE)
                tn_bins_insert(&block->heap->bins, block);
        }
    }
    reverse_bins(&pool->idle); /* the last in is the first out */
    for (struct tn_arena *arena = pool->arenas; arena != NULL; arena = arena->next)
        reverse_bins(arena);
}

/* Arenas that end: those of a capture, or one. */
struct ending {
    uint64_t capture_id; /* 0: one arena */
    const struct tn_arena *one;
    struct tn_arena *to; /* that takes what they own over */
};

static bool ends(const struct ending *ending, const struct tn_arena *arena)
{
    return ending->capture_id != 0 ? arena->order.capture_id == ending->capture_id
                                   : arena == ending->one;
}

/* The fence of a retired stream is done: its frees before that are proven. Those that came later were
 * proven before they took effect. */
static void prove(struct tn_chunk *chunk, const struct tn_arena *arena)
{
    if (arena->fence != NULL && chunk->freed_stamp <= atomic_load(&arena->fence->stamp))
        chunk->freed_stamp = 0;
}

/* Moves all that ending arenas own in one segment to their heir. No block is split: a run of chunks
 * that changes hands as a whole has no edge inside a FREE block of its heap. */
static void end_in_segment(tarn_pool *pool, struct tn_segment *segment, const struct ending *ending)
{
    struct tn_block *next;

    for (uint64_t page = 0; page < segment->bytes / TN_PAGE_BYTES;) {
        struct tn_chunk *chunk = segment->pages[page];

        page += chunk != NULL ? chunk->bytes / TN_PAGE_BYTES : 1;
        if (chunk != NULL && ends(ending, chunk->heap->arena)) {
            struct tn_heap *to = &ending->to->heaps[chunk->heap->kind];

            prove(chunk, chunk->heap->arena);
            chunk->heap->mapped_bytes -= chunk->bytes;
            to->mapped_bytes += chunk->bytes;
            chunk->heap = to;
        }
    }
    for (struct tn_block *block = segment->first_block; block != NULL; block = next) {
        struct tn_heap *from = block->heap;

        next = block->next;
        if (from == NULL || !ends(ending, from->arena))
            continue;
        if (block->state == TN_BLOCK_FREE)
            tn_bins_remove(&from->bins, block);
        block->heap = &ending->to->heaps[from->kind];
        if (block->state == TN_BLOCK_FREE)
            next = tn_heap_put(pool, block)->next;
    }
}

static void free_arena(tarn_pool *pool, struct tn_arena *arena)
{
    TN_ASSERT(arena->heaps[TN_HEAP_SMALL].mapped_bytes == 0);
    TN_ASSERT(arena->heaps[TN_HEAP_LARGE].mapped_bytes == 0);
    if (arena->fence != NULL) {
        tn_fence_release(&pool->device->streams, arena->fence);
        pool->retired_count -= 1;
    }
    pool->arena_count -= 1;
    tn_ancestry_fini(&arena->ancestry);
    tn_host_free(arena);
}

static void end_arenas(tarn_pool *pool, const struct ending *ending)
{
    struct tn_arena **link = &pool->arenas;

    for (struct tn_segment *segment = pool->segments; segment != NULL; segment = segment->next) {
        end_in_segment(pool, segment, ending);
        if (ends(ending, segment->grower->arena))
            segment->grower = &ending->to->heaps[segment->grower->kind];
    }
    while (*link != NULL) {
        struct tn_arena *arena = *link;

        if (ends(ending, arena)) {
            *link = arena->next;
            free_arena(pool, arena);
        } else {
            link = &arena->next;
        }
    }
}

void tn_arenas_end_capture(tarn_pool *pool, uint64_t capture_id)
{
    const struct tn_body *body = pool->bodies != NULL ? tn_body_find(pool, capture_id) : NULL;
    struct tn_arena *group =
        body != NULL ? tn_arena_find(pool, tn_group_order(body)) : NULL; /* P15 */
    struct tn_arena *to = group != NULL ? group : &pool->idle;

    TN_ASSERT(capture_id != 0);
    end_arenas(pool, &(struct ending){.capture_id = capture_id, .to = to});
    if (pool->bodies != NULL) {
        end_arenas(pool, &(struct ending){.capture_id = capture_id | TN_GROUP_BIT, .to = to});
        tn_bodies_end(pool, capture_id);
    }
}

void tn_arenas_retire(tarn_pool *pool, struct tn_order order, struct tn_fence *fence)
{
    struct tn_arena *arena = tn_arena_find(pool, order);

    TN_ASSERT(order.capture_id == 0);
    if (arena != NULL) {
        tn_fence_acquire(&pool->device->streams, fence);
        arena->fence = fence;
        arena->order = TN_ORDER_NONE;
        pool->retired_count += 1;
    }
    for (size_t i = 0; i < pool->live.capacity; i++) {
        struct tn_block *block = pool->live.slots[i];

        if (block != NULL && block->state == TN_BLOCK_LIVE && tn_block_is_of(block, order))
            tn_block_retire(pool, block, fence);
    }
    for (struct tn_block *block = pool->pending_first; block != NULL; block = block->list_next) {
        if (tn_block_is_of(block, order))
            tn_block_retire(pool, block, fence);
    }
}

void tn_arenas_end_retired(tarn_pool *pool)
{
    struct tn_arena *next;

    for (struct tn_arena *arena = pool->arenas; arena != NULL && pool->retired_count > 0;
         arena = next) {
        next = arena->next;
        if (arena->fence != NULL && tn_fence_is_done(&pool->device->streams, arena->fence))
            end_arenas(pool, &(struct ending){.one = arena, .to = &pool->idle});
    }
}

void tn_arenas_drop_empty(tarn_pool *pool)
{
    struct tn_arena *next;

    for (struct tn_arena *arena = pool->arenas; arena != NULL; arena = next) {
        next = arena->next;
        if ((arena->order.capture_id & TN_GROUP_BIT) == 0 &&
            arena->heaps[TN_HEAP_SMALL].mapped_bytes == 0 &&
            arena->heaps[TN_HEAP_LARGE].mapped_bytes == 0)
            end_arenas(pool, &(struct ending){.one = arena, .to = &pool->idle});
    }
}

void tn_arenas_fini(tarn_pool *pool)
{
    while (pool->arenas != NULL) {
        struct tn_arena *next = pool->arenas->next;

        free_arena(pool, pool->arenas);
        pool->arenas = next;
    }
}
