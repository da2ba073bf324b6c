// SPDX-License-Identifier: Apache-2.0
/* births.h -- which blocks a capture has allocated, and behind which of its nodes.
 *
 * The memory of a block freed in a capture serves the same capture again. A graph's node names an
 * address, but not the block which was there when the node was captured. An audit finds this block
 * by births: each birth stores after which nodes of the allocating stream the block was allocated.
 * The driver returns these nodes' handles, a query of some 20 ns.
 *
 *   P27  the births of an order are in order of sequence number, and each has its place in words
 *
 * A block may take the place of another which was freed just before, with as many bytes requested.
 * Then it has no birth of its own: the birth of the other stands for both. A block's birth is
 * therefore the newest overlapping birth whose sequence number is not higher. Where memory for a
 * birth is lacking, the birth is lost and the hold says so.
 *
 * Locking: the pool's lock; for an order's births also the lock of its arena. */
#ifndef TARN_HEAP_BIRTHS_H
#define TARN_HEAP_BIRTHS_H

#include "nodes/ancestry.h"
#include "tarn/types.h"

struct tn_birth {
    uint64_t address;
    uint64_t requested; /* bytes requested */
    uint64_t sequence;  /* of the block */
    uint64_t place;     /* index in words */
};

/* The births of an order in a capture, in order of their sequence numbers. */
struct tn_births {
    struct tn_births *next; /* of the capture */
    struct tn_birth *items;
    size_t count;
    size_t capacity;
    /* Places. Each is the number of nodes which the order's next node would depend on,
     * TN_PLACE_UNKNOWN if unknown, and the handles of these nodes. */
    uint64_t *words;
    size_t word_count;
    size_t word_capacity;
    size_t place; /* the newest place */
    bool lost;    /* no memory, or TN_BIRTHS_MAX reached: no more births are entered */
};

enum {
    TN_PLACE_UNKNOWN = UINT8_MAX,
    TN_BIRTHS_MAX = 1 << 20, /* of an order: 32 MiB */
};

/* Whether any further birth can be entered. births: NULL: the order has none yet. */
static inline bool tn_births_have_room(const struct tn_births *births)
{
    return births != NULL &&
           (births->lost || (births->count < births->capacity &&
                             births->word_count + 1 + TN_PLACE_MAX <= births->word_capacity));
}

/* Enters a birth, for which there is room. */
void tn_births_enter(struct tn_births *births, const struct tn_place *place,
                     const struct tn_birth *birth);

/* Makes room for another birth of an order, whose births are created where *own is NULL. *all: the
 * births of all orders of the capture. False: no memory, or TN_BIRTHS_MAX births; births
 * are lost from here on. */
bool tn_births_provide(struct tn_births **own, struct tn_births **all);

/* Frees the births of a capture at its end. */
void tn_births_drop(struct tn_births **all);

#endif
