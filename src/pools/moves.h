// SPDX-License-Identifier: Apache-2.0
/* moves.h -- memory that moves to the addresses of a growth, before any is created.
 *
 * A growth first looks for chunks which are all free and held by nobody, in its own arena, in the
 * pool's idle memory and in the arenas of other streams. Their memory moves: it is mapped at the
 * growth's addresses, and its old place is vacated (pools/vacated.h). In its own arena this needs
 * no proof, since later work of the arena's stream comes behind the work of before, at whichever
 * address. Idle memory and memory of other streams move once they are proven idle. A capture takes
 * nothing of streams.
 *
 * A move takes the driver about as long as making memory does. A program whose large blocks grow
 * and shrink for ever moves memory for ever: tarn_device_options.move_limit_bytes is for programs
 * that would rather have more memory.
 *
 * Which memory moves follows from the arena's calls, and from what is proven by then.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_MOVES_H
#define TARN_POOLS_MOVES_H

#include "pools/handover.h"
#include "pools/trackers.h"

enum { TN_MOVES_MAX = 256 };

/* The chunks whose memory moves, in the order of their new places. */
struct tn_moves {
    struct tn_chunk *chunks[TN_MOVES_MAX];
    size_t count;
    uint64_t bytes;
    bool lacks_room; /* more would move where there is more room */
};

/* A growth that wants memory. */
struct tn_want {
    struct tn_heap *heap;
    uint64_t bytes;
    uint64_t room; /* of addresses; a chunk may be larger than what is lacking */
    /* FREE bytes which the growth extends: their chunks stay. */
    struct tn_run extended; /* empty: none */
};

/* The bytes which may move to a growth at most. None do while trackers know addresses. */
static inline uint64_t tn_moves_limit(const tarn_device *device)
{
    return tn_trackers_follow(device) ? 0 : device->move_limit_bytes;
}

/* Chooses memory for the growth; none where moves are forbidden. By contract, memory is then made
 * only where nothing else could move. */
void tn_moves_choose(tarn_pool *pool, const struct tn_want *want, struct tn_moves *moves);

#endif
