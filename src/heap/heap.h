// SPDX-License-Identifier: Apache-2.0
/* heap.h -- what an arena has of small blocks, or of large ones.
 *
 * Locking: that of the arena. */
#ifndef TARN_HEAP_HEAP_H
#define TARN_HEAP_HEAP_H

#include "base/contract.h"
#include "heap/bins.h"
#include "heap/tally.h"

struct tn_arena;

enum { TN_LOOSE_SLOT_BITS = 4, TN_LOOSE_SLOTS = 1 << TN_LOOSE_SLOT_BITS };

struct tn_loose_slot {
    struct tn_block *first; /* the newest */
    uint64_t sizes;         /* a bit for each that may be here, by more of the hash */
};

#if TARN_DEBUG_CHECKS
/* When a heap is checked as a whole next: heap/check.h. */
struct tn_heap_turn {
    struct tn_segment *const *segments; /* the first of its owner's; NULL: none are known */
    uint64_t mutation_count;            /* since it was checked last */
    uint64_t look_count;                /* things that were looked at then */
};
#endif

struct tn_heap {
    /* A pair of a free and an allocation touches one cache line: */
    _Alignas(64) struct tn_block
        *loose; /* P19: freed last, and nothing was allocated since then; NULL: none */
    struct tn_heap_counters counters;                 /* of the steady state, like the arena's */
    struct tn_arena *arena;                           /* immutable */
    enum tn_heap_kind kind;                           /* immutable */
    uint16_t loose_count;                             /* blocks in slots */
    uint16_t loose_turn;                              /* slots that were emptied to make room */
    struct tn_loose_slot loose_slots[TN_LOOSE_SLOTS]; /* P19: by a hash of the size */
    struct tn_bins bins;
    /* What most allocations touch ends here, after the cache lines of what is loose and the maps of the bins. */
    uint64_t mapped_bytes;    /* of the chunks it owns */
    uint64_t segment_bytes;   /* of the next segment it makes */
    uint64_t run_bytes;       /* mapped in the last run of growths; see pools/ahead.c */
    uint64_t run_alloc_count; /* the pool's counters at the last growth */
    uint64_t run_free_count;
    bool has_reserved; /* it may have memory that was reserved; see pools/reserve.h */
#if TARN_DEBUG_CHECKS
    struct tn_heap_turn turn;
#endif
};

#endif
