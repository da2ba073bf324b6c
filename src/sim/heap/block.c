// SPDX-License-Identifier: Apache-2.0
/* block.c -- cuts allocations out of driver blocks and puts them together again.
 *
 * How it works. The driver was measured to use best fit: the shortest run of neighbouring free
 * pieces that is long enough, and among equals the run that has been free longest. An allocation
 * for a stream searches in three steps. It first looks at pieces that the same stream freed, and at
 * pieces that nobody owned before; addresses count here, with or without memory under them. If this
 * would take new memory, it looks at pieces that other streams freed and that are free for its
 * stream too. Only then it takes new memory.
 *
 * Free neighbours are united when nobody can tell them apart: both never owned, or both freed in
 * the order of the same stream. A piece loses its owner when its chunk goes, or when its heap is
 * told to unite the pieces that are free for everyone.
 *
 * Trade-offs. A search is linear in the pieces of the heap: programs on a simulator have few. */
#include "sim/heap/block.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "sim/core/written.h"

#define QUANTUM 512 /* pieces are multiples of this, as measured */

/* Free pieces in a row, long enough together for the request. */
struct run {
    struct tn_sim_piece *first;
    size_t bytes;
    uint64_t since;
};

/* The pieces that a search takes for usable. */
enum terms {
    TERMS_OWN,   /* freed by the asker, or never owned; backed or not */
    TERMS_NOW,   /* freed by others, and free for the asker */
    TERMS_LATER, /* backed, and free for whoever waits */
};

size_t tn_sim_piece_bytes(size_t bytes)
{
    return bytes > SIZE_MAX - (QUANTUM - 1) ? 0 : (bytes + QUANTUM - 1) / QUANTUM * QUANTUM;
}

static uintptr_t end_of(const struct tn_sim_span *span)
{
    return span->start + span->bytes;
}

/* -- Pieces -- */

static struct tn_sim_piece *new_piece(struct tn_sim_block *block, struct tn_sim_span span)
{
    struct tn_sim_piece *piece = calloc(1, sizeof *piece);
    if (piece != NULL) {
        piece->block = block;
        piece->span = span;
    }
    return piece;
}

/* Unites a piece with the next, which is like it. */
static void absorb_next(struct tn_sim_piece *piece)
{
    struct tn_sim_piece *gone = piece->next;
    piece->span.bytes += gone->span.bytes;
    piece->next = gone->next;
    if (gone->next != NULL)
        gone->next->previous = piece;
    tn_sim_point_clear(&gone->free_from);
    free(gone);
}

/* Unites a piece with the next when nobody can tell them apart. */
static bool unite(struct tn_sim_piece *piece)
{
    const struct tn_sim_piece *next = piece->next;
    if (next == NULL || next->used || piece->used || next->backed != piece->backed ||
        piece->free_from.stream != next->free_from.stream)
        return false;
    if (next->free_from.ticket > piece->free_from.ticket)
        piece->free_from.ticket = next->free_from.ticket;
    if (next->since > piece->since)
        piece->since = next->since;
    piece->waited = piece->waited && next->waited;
    absorb_next(piece);
    return true;
}

static void unite_all(struct tn_sim_block *block)
{
    for (struct tn_sim_piece *piece = block->pieces; piece != NULL;) {
        if (!unite(piece))
            piece = piece->next;
    }
}

/* Makes a boundary between pieces at an address inside a free piece (SH1). Returns false when the
 * books have no memory. */
static bool split(struct tn_sim_piece *piece, uintptr_t address)
{
    size_t over = end_of(&piece->span) - address;
    struct tn_sim_piece *rest =
        new_piece(piece->block, (struct tn_sim_span){.start = address, .bytes = over});
    if (rest == NULL)
        return false;
    rest->backed = piece->backed;
    rest->since = piece->since;
    rest->waited = piece->waited;
    rest->free_from = piece->free_from;
    if (rest->free_from.stream != NULL)
        rest->free_from.stream->references++;
    rest->previous = piece;
    rest->next = piece->next;
    if (rest->next != NULL)
        rest->next->previous = rest;
    piece->next = rest;
    piece->span.bytes -= over;
    return true;
}

/* Makes a boundary at an address of a block, unless the boundary exists. */
static bool split_at(struct tn_sim_block *block, uintptr_t address)
{
    struct tn_sim_piece *piece = block->pieces;
    while (piece != NULL && end_of(&piece->span) <= address)
        piece = piece->next;
    return piece == NULL || piece->span.start == address || split(piece, address);
}

/* Asks whether a freed piece is free for a stream now; for NULL, whether it is free for
 * everyone. */
static bool free_for(const struct tn_sim_piece *piece, const struct tn_sim_stream *stream)
{
    const struct tn_sim_point *from = &piece->free_from;
    const struct tn_sim_heap *heap = piece->block->heap;
    if (from->stream == NULL || from->stream == stream || piece->waited)
        return true;
    if (tn_sim_point_reached(from))
        return heap->opportunistic;
    return stream != NULL && heap->follows_events && tn_sim_queue_follows(stream, from);
}

static bool usable(const struct tn_sim_piece *piece, const struct tn_sim_stream *stream,
                   enum terms terms)
{
    const struct tn_sim_stream *owner = piece->free_from.stream;
    if (piece->used || (!piece->backed && terms != TERMS_OWN))
        return false;
    if (terms == TERMS_OWN)
        return owner == NULL || owner == stream;
    return terms == TERMS_LATER || (owner != NULL && owner != stream && free_for(piece, stream));
}

/* Looks for the best run. */
static struct run search(const struct tn_sim_heap *heap, size_t bytes,
                         const struct tn_sim_stream *stream, enum terms terms)
{
    struct run best = {0};
    for (struct tn_sim_block *block = heap->blocks; block != NULL; block = block->next) {
        /* The rest of a block made for a single large allocation is nobody's. */
        if (heap->arena_bytes == 0 && block->span.bytes > heap->chunk_bytes)
            continue;
        struct run run = {0};
        for (struct tn_sim_piece *piece = block->pieces; piece != NULL; piece = piece->next) {
            if (!usable(piece, stream, terms)) {
                run = (struct run){0};
                continue;
            }
            if (run.first == NULL)
                run.first = piece;
            run.bytes += piece->span.bytes;
            run.since = piece->since > run.since ? piece->since : run.since;
            bool ends = piece->next == NULL || !usable(piece->next, stream, terms);
            if (ends && run.bytes >= bytes &&
                (best.first == NULL || run.bytes < best.bytes ||
                 (run.bytes == best.bytes && run.since < best.since)))
                best = run;
        }
    }
    return best;
}

/* Makes a free piece nobody's. */
static void disown(struct tn_sim_piece *piece)
{
    piece->waited = false;
    tn_sim_point_clear(&piece->free_from);
}

/* Tells the checker that nothing has been written to a piece yet. Not in arenas, where earlier work
 * may still have to read the old contents. */
static void make_fresh(const struct tn_sim_piece *piece)
{
    struct tn_sim_block *block = piece->block;
    const struct tn_sim_heap *heap = block->heap;
    if (heap->arena_bytes != 0 || heap->device == TN_SIM_HOST_HEAP)
        return;
    struct tn_sim_extent part = {
        .offset = block->chunks[0].extent->offset + (piece->span.start - block->span.start),
        .bytes = piece->span.bytes,
    };
    tn_sim_written_clear(&tn_sim_devices[heap->device].store, &part);
}

/* Cuts a used piece from the start of a run. Returns NULL when the books have no memory. */
static struct tn_sim_piece *cut(struct tn_sim_piece *first, size_t bytes)
{
    if (!split_at(first->block, first->span.start + bytes))
        return NULL;
    while (first->span.bytes < bytes)
        absorb_next(first);
    first->used = true;
    first->waited = false;
    tn_sim_point_clear(&first->free_from);
    make_fresh(first);
    return first;
}

void tn_sim_piece_give(struct tn_sim_piece *piece, const struct tn_sim_point *from)
{
    piece->used = false;
    piece->since = ++piece->block->heap->frees;
    if (from != NULL && from->stream != NULL) {
        piece->free_from = *from;
        from->stream->references++;
        piece->block->heap->pending = true;
    }
    unite(piece);
    if (piece->previous != NULL)
        unite(piece->previous);
}

/* -- Chunks -- */

static uintptr_t chunk_start(const struct tn_sim_block *block, size_t index)
{
    return block->span.start + index * block->chunk_bytes;
}

/* Marks the pieces of a chunk, which are free, as backed or not, and cuts pieces that lie in other
 * chunks too (SH2). */
static bool set_backed(struct tn_sim_block *block, size_t index, bool backed)
{
    uintptr_t start = chunk_start(block, index);
    uintptr_t end = start + block->chunk_bytes;
    if (!split_at(block, start) || !split_at(block, end))
        return false;
    for (struct tn_sim_piece *piece = block->pieces; piece != NULL; piece = piece->next) {
        if (piece->span.start < start || piece->span.start >= end)
            continue;
        piece->backed = backed;
        if (!backed)
            disown(piece);
    }
    block->chunks[index].backed = backed;
    return true;
}

/* Lays memory under a chunk's addresses. Returns false when no memory is left. */
static bool furnish(struct tn_sim_block *block, size_t index)
{
    struct tn_sim_chunk *chunk = &block->chunks[index];
    uintptr_t start = chunk_start(block, index);
    if (block->heap->device == TN_SIM_HOST_HEAP)
        return mmap((void *)start, block->chunk_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    struct tn_sim_store *store = &tn_sim_devices[block->heap->device].store;
    chunk->extent = tn_sim_store_take(store, block->chunk_bytes);
    if (chunk->extent == NULL)
        return false;
    if (tn_sim_space_lay(start, store, chunk->extent, PROT_READ | PROT_WRITE))
        return true;
    tn_sim_store_give(store, chunk->extent);
    chunk->extent = NULL;
    return false;
}

static bool back(struct tn_sim_block *block, size_t index)
{
    if (!set_backed(block, index, true))
        return false;
    if (!furnish(block, index)) {
        set_backed(block, index, false);
        return false;
    }
    block->chunks[index].id = tn_sim_space_next_id();
    block->heap->reserved_bytes += block->chunk_bytes; /* SH3 */
    return true;
}

/* Takes the memory from under a chunk, all of whose pieces are free. */
static void unback(struct tn_sim_block *block, size_t index)
{
    struct tn_sim_heap *heap = block->heap;
    struct tn_sim_chunk *chunk = &block->chunks[index];
    if (!set_backed(block, index, false))
        return;
    tn_sim_space_clear(chunk_start(block, index), block->chunk_bytes);
    if (chunk->extent != NULL)
        tn_sim_store_give(&tn_sim_devices[heap->device].store, chunk->extent);
    chunk->extent = NULL;
    heap->reserved_bytes -= block->chunk_bytes; /* SH3 */
}

/* Asks whether a chunk can go. */
static bool idle(const struct tn_sim_block *block, size_t index)
{
    uintptr_t start = chunk_start(block, index);
    if (!block->chunks[index].backed)
        return false;
    for (const struct tn_sim_piece *piece = block->pieces; piece != NULL; piece = piece->next) {
        if (piece->span.start >= start + block->chunk_bytes || end_of(&piece->span) <= start)
            continue;
        if (piece->used || (piece->free_from.stream != NULL && !piece->waited))
            return false;
    }
    return true;
}

struct tn_sim_chunk *tn_sim_block_chunk(struct tn_sim_block *block, uintptr_t address,
                                        struct tn_sim_span *span)
{
    size_t index = (address - block->span.start) / block->chunk_bytes;
    *span = (struct tn_sim_span){.start = chunk_start(block, index), .bytes = block->chunk_bytes};
    return &block->chunks[index];
}

bool tn_sim_block_lends(uintptr_t address, int device, struct tn_sim_span *span)
{
    const struct tn_sim_block *block = tn_sim_index_find(&tn_sim_blocks, address);
    if (block == NULL || (block->heap->device != device && block->heap->device != TN_SIM_HOST_HEAP))
        return false;
    const struct tn_sim_piece *piece = block->pieces;
    while (end_of(&piece->span) <= address)
        piece = piece->next;
    *span = piece->span;
    return !piece->used && piece->backed &&
           (!tn_sim_strict() || !tn_sim_point_reached(&piece->free_from));
}

/* -- Blocks -- */

/* Adds a block that nothing backs yet; NULL when the books have no memory. */
static struct tn_sim_block *add_block(struct tn_sim_heap *heap, size_t chunk_bytes, size_t count)
{
    struct tn_sim_block *block = calloc(1, sizeof *block + count * sizeof block->chunks[0]);
    if (block == NULL)
        return NULL;
    block->heap = heap;
    block->chunk_bytes = chunk_bytes;
    block->chunk_count = count;
    block->span.bytes = chunk_bytes * count;
    block->span.start = heap->arena_bytes == 0
                            ? tn_sim_space_obtain(block->span.bytes, TN_SIM_GRANULE, 0)
                            : tn_sim_space_obtain_low(block->span.bytes, TN_SIM_GRANULE);
    block->pieces = new_piece(block, block->span);
    if (block->span.start == 0 || block->pieces == NULL ||
        !tn_sim_index_add(&tn_sim_blocks, &block->span)) {
        if (block->span.start != 0)
            tn_sim_space_return(block->span.start, block->span.bytes);
        free(block->pieces);
        free(block);
        return NULL;
    }
    struct tn_sim_block **link = &heap->blocks;
    while (*link != NULL)
        link = &(*link)->next;
    *link = block;
    return block;
}

static void destroy_block(struct tn_sim_block *block)
{
    struct tn_sim_heap *heap = block->heap;
    struct tn_sim_block **link = &heap->blocks;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    tn_sim_index_remove(&tn_sim_blocks, &block->span);
    tn_sim_space_return(block->span.start, block->span.bytes);
    for (size_t i = 0; i < block->chunk_count; i++) {
        if (block->chunks[i].backed)
            heap->reserved_bytes -= block->chunk_bytes; /* SH3 */
        if (block->chunks[i].extent != NULL)
            tn_sim_store_give(&tn_sim_devices[heap->device].store, block->chunks[i].extent);
    }
    while (block->pieces->next != NULL)
        absorb_next(block->pieces);
    tn_sim_point_clear(&block->pieces->free_from);
    free(block->pieces);
    free(block);
}

/* -- Heaps -- */

struct tn_sim_heap *tn_sim_heap_create(int device, size_t chunk_bytes, size_t arena_bytes)
{
    struct tn_sim_heap *heap = calloc(1, sizeof *heap);
    if (heap == NULL)
        return NULL;
    *heap = (struct tn_sim_heap){
        .device = device,
        .chunk_bytes = chunk_bytes,
        .arena_bytes = arena_bytes,
        .follows_events = true,
        .opportunistic = true,
    };
    return heap;
}

void tn_sim_heap_destroy(struct tn_sim_heap *heap)
{
    if (heap == NULL)
        return;
    while (heap->blocks != NULL)
        destroy_block(heap->blocks);
    free(heap);
}

struct tn_sim_piece *tn_sim_heap_take_later(struct tn_sim_heap *heap, size_t bytes,
                                            struct tn_sim_stream *stream)
{
    struct run run = search(heap, bytes, stream, TERMS_LATER);
    if (run.first == NULL)
        return NULL;
    size_t covered = 0;
    for (struct tn_sim_piece *piece = run.first; covered < bytes; piece = piece->next) {
        covered += piece->span.bytes;
        if (!free_for(piece, stream) &&
            tn_sim_queue_push(stream, NULL, NULL, &piece->free_from) != TN_CUDA_SUCCESS)
            return NULL;
    }
    return cut(run.first, bytes);
}

/* Backs all chunks under a range of a block. Returns false, with nothing changed, when too little
 * memory is left. */
static bool back_range(struct tn_sim_block *block, uintptr_t start, size_t bytes)
{
    const struct tn_sim_heap *heap = block->heap;
    size_t first = (start - block->span.start) / block->chunk_bytes;
    size_t end = (start + bytes - 1 - block->span.start) / block->chunk_bytes + 1;
    size_t missing = 0;
    for (size_t i = first; i < end; i++)
        missing += block->chunks[i].backed ? 0 : block->chunk_bytes;
    if (heap->limit_bytes != 0 &&
        (missing > heap->limit_bytes || heap->reserved_bytes > heap->limit_bytes - missing))
        return false;
    size_t fresh = heap->reserved_bytes;
    for (size_t i = first; i < end; i++) {
        if (block->chunks[i].backed || back(block, i))
            continue;
        /* The chunks before are idle again, as they were. */
        for (size_t j = i; j > first && heap->reserved_bytes > fresh; j--) {
            if (idle(block, j - 1))
                unback(block, j - 1);
        }
        return false;
    }
    return true;
}

/* Makes another block for a heap of one-chunk blocks, or of arenas; NULL when no memory or no
 * addresses are left. */
static struct tn_sim_block *extend(struct tn_sim_heap *heap, size_t bytes)
{
    size_t chunk = heap->chunk_bytes;
    size_t most = ((size_t)1 << 47) / chunk;
    size_t count = bytes / chunk + (bytes % chunk != 0);
    if (count > most)
        return NULL;
    if (heap->arena_bytes == 0)
        return add_block(heap, count * chunk, 1);
    if (count * chunk < heap->arena_bytes)
        count = heap->arena_bytes / chunk;
    return add_block(heap, chunk, count);
}

/* Asks whether all of a run's first bytes are backed. */
static bool backed(const struct run *run, size_t bytes)
{
    size_t covered = 0;
    for (const struct tn_sim_piece *piece = run->first; covered < bytes; piece = piece->next) {
        if (!piece->backed)
            return false;
        covered += piece->span.bytes;
    }
    return true;
}

/* Cuts a piece, for which new memory is taken. */
static struct tn_sim_piece *take_new(struct tn_sim_heap *heap, size_t bytes,
                                     struct tn_sim_piece *place)
{
    struct tn_sim_block *made = place != NULL ? NULL : extend(heap, bytes);
    struct tn_sim_block *block = place != NULL ? place->block : made;
    if (block == NULL)
        return NULL;
    /* Backing splits pieces around the place, which keeps its address. */
    uintptr_t start = place != NULL ? place->span.start : block->span.start;
    struct tn_sim_piece *piece = NULL;
    if (back_range(block, start, bytes)) {
        piece = block->pieces;
        while (piece->span.start != start)
            piece = piece->next;
        piece = cut(piece, bytes);
    }
    if (piece == NULL && made != NULL)
        destroy_block(made);
    return piece;
}

struct tn_sim_piece *tn_sim_heap_take(struct tn_sim_heap *heap, size_t bytes,
                                      const struct tn_sim_stream *stream)
{
    if (bytes == 0)
        return NULL;
    struct run own = search(heap, bytes, stream, TERMS_OWN);
    if (own.first != NULL && backed(&own, bytes))
        return cut(own.first, bytes);
    struct run others = search(heap, bytes, stream, TERMS_NOW);
    if (others.first != NULL)
        return cut(others.first, bytes);
    return take_new(heap, bytes, own.first);
}

void tn_sim_heap_note_wait(struct tn_sim_heap *heap, const struct tn_sim_point *moment)
{
    if (!heap->pending)
        return;
    heap->pending = false;
    for (struct tn_sim_block *block = heap->blocks; block != NULL; block = block->next) {
        for (struct tn_sim_piece *piece = block->pieces; piece != NULL; piece = piece->next) {
            const struct tn_sim_point *from = &piece->free_from;
            if (from->stream == NULL)
                continue;
            if (moment == NULL ? tn_sim_point_reached(from) : tn_sim_queue_covers(moment, from))
                piece->waited = true;
            heap->pending = heap->pending || !piece->waited;
        }
    }
}

void tn_sim_heap_unite(struct tn_sim_heap *heap)
{
    for (struct tn_sim_block *block = heap->blocks; block != NULL; block = block->next) {
        for (struct tn_sim_piece *piece = block->pieces; piece != NULL; piece = piece->next) {
            if (piece->waited)
                disown(piece);
        }
        unite_all(block);
    }
}

void tn_sim_heap_trim(struct tn_sim_heap *heap, size_t keep_bytes)
{
    struct tn_sim_block *block = heap->blocks;
    while (block != NULL) {
        struct tn_sim_block *next = block->next;
        bool left = false;
        for (size_t i = block->chunk_count; i > 0; i--) {
            if (idle(block, i - 1) && heap->reserved_bytes - block->chunk_bytes >= keep_bytes)
                unback(block, i - 1);
            left = left || block->chunks[i - 1].backed;
        }
        unite_all(block);
        if (!left && heap->arena_bytes == 0)
            destroy_block(block);
        block = next;
    }
}
