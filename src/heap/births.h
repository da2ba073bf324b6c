// SPDX-License-Identifier: Apache-2.0
/* births.h -- which blocks a capture has allocated, and behind which of its nodes.
 *
 * The memory of a block that is freed in a capture serves the same capture again. A graph's node names an address, and
 * not the block that was there when the node was captured: an audit finds that by the nodes that the allocating stream
 * had come to when each block was allocated. The driver tells those by their handles, at a question of some 20 ns.
 *
 *   P27  the births of an order are in order of sequence number, and each has its place in words
 *
 * A block that takes the place of one which was freed just before, with as many bytes asked for, has no birth of its
 * own: the other's stands for it. So a block's birth is the newest one that overlaps it, of those whose sequence numbers
 * are not higher. Where there is no memory for a birth it is lost, and the hold says so.
 *
 * Locking: the pool's lock; or, of an order's births, the lock of its arena. */
#ifndef TARN_HEAP_BIRTHS_H
#define TARN_HEAP_BIRTHS_H

#include "nodes/ancestry.h"
#include "tarn/types.h"

struct tn_birth {
    uint64_t address;
    uint64_t requested; /* bytes that were asked for */
    uint64_t sequence;  /* of the block */
    uint64_t place;     /* index in words */
};

/* The births of an order in a capture, in order of their sequence numbers. */
struct tn_births {
    struct tn_births *next; /* of the capture */
    struct tn_birth *items;
    size_t count;
    size_t capacity;
    /* Places: how many nodes the order's next one was to depend on, TN_PLACE_UNKNOWN where that is not known, and their
     * handles. */
    uint64_t *words;
    size_t word_count;
    size_t word_capacity;
    size_t place; /* the newest */
    bool lost;    /* none is entered any more */
};

enum {
    TN_PLACE_UNKNOWN = UINT8_MAX,
    TN_BIRTHS_MAX = 1 << 20, /* of an order: 32 MiB */
};

/* Whether one more can be entered, wherever it is. births: NULL: there are none yet. */
static inline bool tn_births_have_room(const struct tn_births *births)
{
    return births != NULL &&
           (births->lost || (births->count < births->capacity &&
                             births->word_count + 1 + TN_PLACE_MAX <= births->word_capacity));
}

/* Enters one, for which there is room. */
void tn_births_enter(struct tn_births *births, const struct tn_place *place,
                     const struct tn_birth *birth);

/* Makes room for one more in those of an order, which are made where there are none: *own, NULL. *all: those of all
 * orders of the capture. False where there is no memory: births are lost from here on. */
bool tn_births_provide(struct tn_births **own, struct tn_births **all);

/* Those of a capture that goes. */
void tn_births_drop(struct tn_births **all);

#endif
