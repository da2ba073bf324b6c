// SPDX-License-Identifier: Apache-2.0
/* heap.h -- the small blocks of an arena, or the large ones.
 *
 * Locking: the arena's lock. */
#ifndef TARN_HEAP_HEAP_H
#define TARN_HEAP_HEAP_H

#include "base/contract.h"
#include "heap/bins.h"
#include "heap/tally.h"
#include "vmm/segment.h"

struct tn_arena;

enum { TN_LOOSE_SLOT_BITS = 4, TN_LOOSE_SLOTS = 1 << TN_LOOSE_SLOT_BITS };

struct tn_loose_slot {
    struct tn_block *first; /* the newest */
    uint64_t sizes;         /* a bit for each size which may be here, by more bits of the hash */
};

#if TARN_DEBUG_CHECKS
/* When the heap is checked as a whole next: heap/check.h. */
struct tn_heap_turn {
    struct tn_segment *const *segments; /* the owner's first segment; NULL: none are known */
    uint64_t mutation_count;            /* mutations since the last check */
    uint64_t last_check_count;          /* things looked at by the last check */
};
#endif

struct tn_heap {
    /* A free and an allocation together touch a single cache line: */
    /* P19: the block freed last, if no allocation came since; NULL: none. */
    _Alignas(64) struct tn_block *loose;
    struct tn_heap_counters counters;                 /* of the steady state, like the arena's */
    struct tn_arena *arena;                           /* immutable */
    enum tn_heap_kind kind;                           /* immutable */
    uint16_t loose_count;                             /* blocks in slots */
    uint16_t loose_turn;                              /* slots emptied to make room */
    struct tn_loose_slot loose_slots[TN_LOOSE_SLOTS]; /* P19: by a hash of the size */
    struct tn_bins bins;
    /* The fields of most allocations end here. They also touch cache lines of loose blocks, and the
     * maps of the bins. */
    uint64_t mapped_bytes;    /* bytes of its chunks */
    uint64_t segment_bytes;   /* bytes of the next new segment */
    uint64_t run_bytes;       /* mapped in the last run of growths; see pools/ahead.c */
    uint64_t run_alloc_count; /* the pool's counters at the last growth */
    uint64_t run_free_count;
    bool is_idle;                /* of the pool's idle memory; immutable, as the next one */
    bool of_captures;            /* of a capture, a group of bodies or idle memory */
    bool has_others;             /* got live blocks with chunks; see pools/handover.c */
    bool has_reserved;           /* may have reserved memory; see pools/reserve.h */
    struct tn_chunk *chunks;     /* its chunks, newest first: P8 */
    struct tn_segment *segments; /* those it grows: P9 */
    uint64_t pending_count;      /* its PENDING blocks: P8 */
#if TARN_DEBUG_CHECKS
    struct tn_heap_turn turn;
#endif
};

#endif
