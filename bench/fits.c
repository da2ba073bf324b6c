// SPDX-License-Identifier: Apache-2.0
/* First, next and best fit, and their orders: Wilson, Johnstone, Neely, Boles, "Dynamic Storage
 * Allocation: A Survey and Critical Review", 1995. Half fit: Ogasawara, "An Algorithm with Constant
 * Execution Time for Dynamic Storage Allocation", 1995. Two-level segregated fit: Masmano, Ripoll,
 * Crespo, Real, "TLSF: a New Dynamic Memory Allocator for Real-Time Systems", 2004. */
#include "fits.h"

#include <stdlib.h>

#include "base.h"

enum {
    UNIT_BITS = 9, /* sizes are multiples of 512 bytes */
    HEAPS = 2 * BENCH_TRACE_STREAMS_MAX,
};

static const uint64_t small_bytes_max = UINT64_C(512) << 10;

/* The class of a size: that many steps for each power of two. */
static uint64_t class_of(uint64_t bytes, unsigned step_bits)
{
    unsigned octave = 63 - (unsigned)__builtin_clzll(bytes);
    unsigned shift = octave > step_bits ? octave - step_bits : 0;

    return (uint64_t)octave << step_bits | (bytes >> shift & ((UINT64_C(1) << step_bits) - 1));
}

/* The lowest class all of whose blocks have at least bytes. */
static uint64_t class_above(uint64_t bytes, unsigned step_bits)
{
    return bytes == 1 ? 0 : class_of(bytes - 1, step_bits) + 1;
}

static bool judge_first(const struct bench_hole *hole, uint64_t bytes, uint64_t cursor,
                        struct bench_preference *preference)
{
    (void)bytes;
    (void)cursor;
    *preference = (struct bench_preference){hole->offset, 0};
    return true;
}

static bool judge_next(const struct bench_hole *hole, uint64_t bytes, uint64_t cursor,
                       struct bench_preference *preference)
{
    (void)bytes;
    *preference = (struct bench_preference){hole->offset < cursor, hole->offset};
    return true;
}

static bool judge_best(const struct bench_hole *hole, uint64_t bytes, uint64_t cursor,
                       struct bench_preference *preference)
{
    (void)bytes;
    (void)cursor;
    *preference = (struct bench_preference){hole->bytes, hole->offset};
    return true;
}

static bool judge_best_newest(const struct bench_hole *hole, uint64_t bytes, uint64_t cursor,
                              struct bench_preference *preference)
{
    (void)bytes;
    (void)cursor;
    *preference = (struct bench_preference){hole->bytes, UINT64_MAX - hole->freed};
    return true;
}

static bool judge_worst(const struct bench_hole *hole, uint64_t bytes, uint64_t cursor,
                        struct bench_preference *preference)
{
    (void)bytes;
    (void)cursor;
    *preference = (struct bench_preference){UINT64_MAX - hole->bytes, hole->offset};
    return true;
}

enum { GOOD_STEP_BITS = 4, TWO_LEVEL_STEP_BITS = 5 };

/* The lowest class that has a fit, and there the block freed last. */
static bool judge_good(const struct bench_hole *hole, uint64_t bytes, uint64_t cursor,
                       struct bench_preference *preference)
{
    (void)bytes;
    (void)cursor;
    *preference =
        (struct bench_preference){class_of(hole->bytes, GOOD_STEP_BITS), UINT64_MAX - hole->freed};
    return true;
}

static bool judge_two_level(const struct bench_hole *hole, uint64_t bytes, uint64_t cursor,
                            struct bench_preference *preference)
{
    uint64_t class = class_of(hole->bytes, TWO_LEVEL_STEP_BITS);

    (void)cursor;
    *preference = (struct bench_preference){class, UINT64_MAX - hole->freed};
    return class >= class_above(bytes, TWO_LEVEL_STEP_BITS);
}

static bool judge_half(const struct bench_hole *hole, uint64_t bytes, uint64_t cursor,
                       struct bench_preference *preference)
{
    uint64_t class = class_of(hole->bytes, 0);

    (void)cursor;
    *preference = (struct bench_preference){class, UINT64_MAX - hole->freed};
    return class >= class_above(bytes, 0);
}

const struct bench_fit bench_fits[] = {
    {NULL, "16 classes for each power of two, newest first", judge_good},
    {"best fit", "the smallest, lowest first", judge_best},
    {"best fit, newest", "the smallest, newest first", judge_best_newest},
    {"first fit", "the lowest address", judge_first},
    {"next fit", "the lowest address behind the last block", judge_next},
    {"worst fit", "the largest, lowest first", judge_worst},
    {"two-level segregated", "32 classes for each power of two, all of whose blocks fit",
     judge_two_level},
    {"half fit", "one class for each power of two, all of whose blocks fit", judge_half},
};
const size_t bench_fit_count = sizeof bench_fits / sizeof bench_fits[0];

struct block {
    struct block *previous; /* by address, in the heap */
    struct block *next;
    struct bench_hole at;
    bool is_free;
};

struct heap {
    struct block *first;
    struct block *last;
    uint64_t cursor;
    uint64_t hole_count;
};

static struct block *make_block(struct heap *heap, struct block *before, uint64_t offset,
                                uint64_t bytes)
{
    struct block *block = calloc(1, sizeof *block);

    if (block == NULL)
        bench_fail("no host memory");
    block->at = (struct bench_hole){.offset = offset, .bytes = bytes};
    block->previous = before;
    block->next = before != NULL ? before->next : heap->first;
    *(before != NULL ? &before->next : &heap->first) = block;
    *(block->next != NULL ? &block->next->previous : &heap->last) = block;
    return block;
}

static void drop_block(struct heap *heap, struct block *block)
{
    *(block->previous != NULL ? &block->previous->next : &heap->first) = block->next;
    *(block->next != NULL ? &block->next->previous : &heap->last) = block->previous;
    free(block);
}

static struct block *choose(const struct heap *heap, const struct bench_fit *fit, uint64_t bytes)
{
    struct bench_preference best = {UINT64_MAX, UINT64_MAX};
    struct block *chosen = NULL;

    for (struct block *block = heap->first; block != NULL; block = block->next) {
        struct bench_preference its;

        if (!block->is_free || block->at.bytes < bytes ||
            !fit->judge(&block->at, bytes, heap->cursor, &its))
            continue;
        if (chosen != NULL &&
            (its.first > best.first || (its.first == best.first && its.second >= best.second)))
            continue;
        chosen = block;
        best = its;
    }
    return chosen;
}

static struct block *rise(struct heap *heap, uint64_t bytes)
{
    struct block *last = heap->last;

    if (last == NULL)
        return make_block(heap, NULL, 0, bytes);
    if (!last->is_free)
        return make_block(heap, last, last->at.offset + last->at.bytes, bytes);
    heap->hole_count -= 1;
    last->at.bytes = last->at.bytes > bytes ? last->at.bytes : bytes;
    return last;
}

static struct block *allocate(struct heap *heap, const struct bench_fit *fit, uint64_t bytes)
{
    struct block *block = choose(heap, fit, bytes);

    if (block == NULL)
        block = rise(heap, bytes);
    else
        heap->hole_count -= 1;
    if (block->at.bytes > bytes) {
        struct block *rest =
            make_block(heap, block, block->at.offset + bytes, block->at.bytes - bytes);

        rest->is_free = true;
        rest->at.freed = block->at.freed;
        heap->hole_count += 1;
        block->at.bytes = bytes;
    }
    block->is_free = false;
    heap->cursor = block->at.offset + bytes;
    return block;
}

static void give_back(struct heap *heap, struct block *block, uint64_t now)
{
    block->is_free = true;
    heap->hole_count += 1;
    if (block->next != NULL && block->next->is_free) {
        block->at.bytes += block->next->at.bytes;
        drop_block(heap, block->next);
        heap->hole_count -= 1;
    }
    if (block->previous != NULL && block->previous->is_free) {
        block = block->previous;
        block->at.bytes += block->next->at.bytes;
        drop_block(heap, block->next);
        heap->hole_count -= 1;
    }
    block->at.freed = now;
}

struct bench_placement bench_fit_place(const struct bench_fit *fit, const struct bench_trace *trace)
{
    struct bench_placement placement = {0, 0};
    struct block **blocks = calloc(trace->slot_count, sizeof(struct block *));
    struct heap heaps[HEAPS] = {{.first = NULL}};
    uint64_t allocations = 0;

    if (blocks == NULL)
        bench_fail("no host memory");
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct bench_trace_event *event = &trace->events[i];
        struct block **block = &blocks[event->slot];

        if (event->kind == BENCH_TRACE_ALLOCATE) {
            uint64_t units = (event->bytes + (UINT64_C(1) << UNIT_BITS) - 1) >> UNIT_BITS;
            uint64_t bytes = (units > 0 ? units : 1) << UNIT_BITS;
            struct heap *heap = &heaps[2 * event->stream + (bytes > small_bytes_max)];

            placement.holes += (double)heap->hole_count;
            allocations += 1;
            *block = allocate(heap, fit, bytes);
        } else if (event->kind == BENCH_TRACE_FREE) {
            give_back(&heaps[2 * event->stream + ((*block)->at.bytes > small_bytes_max)], *block,
                      i);
        }
    }
    for (size_t i = 0; i < HEAPS; i++) {
        if (heaps[i].last != NULL)
            placement.peak_bytes += heaps[i].last->at.offset + heaps[i].last->at.bytes;
        while (heaps[i].first != NULL)
            drop_block(&heaps[i], heaps[i].first);
    }
    free((void *)blocks);
    placement.holes /= allocations > 0 ? (double)allocations : 1;
    return placement;
}
