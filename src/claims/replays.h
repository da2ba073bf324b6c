// SPDX-License-Identifier: Apache-2.0
/* replays.h -- the last replay of graphs that share memory.
 *
 *   P17  pools that have holds of one capture, or of captures into one graph, share one record; the
 *        pool_count of each record is the number of pools that have it or had it before
 *
 * A pool begins with a record of its own. A capture that allocates from two pools makes a graph that
 * writes memory of both, so the replays of all their graphs are one series from then on.
 *
 * Locking: each record has a lock, rank REPLAY, for what is not atomic or immutable. A pool's record
 * changes under the lock of the one that it leaves: who locks a pool's record looks again whether it is
 * the pool's, or goes by next_id, which one that was left has not. */
#ifndef TARN_CLAIMS_REPLAYS_H
#define TARN_CLAIMS_REPLAYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hot.h"
#include "base/lock.h"
#include "driver/gpu.h"
#include "tarn/types.h"

/* The first cache line has what a replay reads and writes: after a launch hardly anything is in the caches. */
struct tn_replays {
    uint64_t magic;              /* 0: nobody has a handle of one */
    struct tn_spin lock;         /* rank REPLAY */
    atomic_bool ordered;         /* several graphs or holds */
    atomic_bool launching_alone; /* a thread launches a graph as the only one */
    bool recorded;               /* the event stands for the end of the last replay */
    bool crosses;                /* replays change streams: each records the event */
    bool is_visited;             /* there is a visitor */
    bool visited;                /* what stands for the last replay is a restore's work */
    bool lent;                   /* ordered for the sake of restores alone, as far as they know */
    /* a restore has waited in vain and comes again: the loan lasts until it has left */
    bool awaited;
    /* the epoch of the last launch so made, or of a join; 0: none */
    atomic_uint_fast64_t alone_stamp;
    atomic_uint_fast64_t stream_id; /* of the last ordered replay; 0: none */
    atomic_uint_fast64_t stamp;     /* its epoch; 0: none */
    /* The next replay is in order where it is on the stream of that id: nothing else is to be seen to; 0: look. What
     * changes anything that such a look heeds ends it (tn_replays_look). */
    uint64_t next_id;
    atomic_uint_fast64_t series; /* rises when a graph has no other beside it */
    tn_cu_event event;           /* NULL: none yet */
    uint64_t seen_series;        /* that the last replay belongs to */
    uint64_t pool_count;         /* P17; guarded by the DEVICE lock */
    atomic_bool shared;          /* by several pools, now or before; stays so */
    const void *visitor; /* a restore that takes its turn; nobody launches meanwhile; NULL: none */
    uint64_t visited_id; /* the stream_id that it has found */
    /* Where its pools have gone; NULL: nowhere; guarded by the DEVICE lock. Links recycled records. */
    struct tn_replays *joined;
};

_Static_assert(offsetof(struct tn_replays, event) == 64, "a cache line");

/* A record of one pool's own; NULL when there is no memory. */
struct tn_replays *tn_replays_make(void);

/* A pool goes, and each record that it alone has had, from its first one on. The DEVICE lock is held. */
void tn_replays_leave(struct tn_gpu *gpu, struct tn_replays *first);

/* All pools of one record come to another, in two steps: between them the caller, who has the DEVICE lock, gives each pool
 * of the one the other. Nobody launches meanwhile. What ran last is not known then, so the next replay waits for the
 * device: epoch is its epoch now. */
void tn_replays_begin_merge(struct tn_replays *from, struct tn_replays *to);
void tn_replays_end_merge(struct tn_replays *from, struct tn_replays *to, uint64_t epoch);

/* Locks the record that is a pool's at that place, and gives it. */
static inline struct tn_replays *tn_replays_lock(struct tn_replays *_Atomic *place)
{
    for (;;) {
        struct tn_replays *replays = atomic_load(place);

        tn_lock_acquire_spin(&replays->lock, TN_RANK_REPLAY);
        if (TN_LIKELY(replays == atomic_load(place)))
            return replays;
        tn_lock_release_spin(&replays->lock, TN_RANK_REPLAY);
    }
}

static inline void tn_replays_unlock(struct tn_replays *replays)
{
    tn_lock_release_spin(&replays->lock, TN_RANK_REPLAY);
}

/* The next replay looks at all there is. The record is locked. */
static inline void tn_replays_look(struct tn_replays *replays)
{
    replays->next_id = 0;
}

/* Replays are ordered from here on: no launch by a thread that goes by their not being so begins any more, and
 * tn_replays_await_alone sees the one that is under way. */
void tn_replays_order(struct tn_replays *replays);

/* Whether all replays of the record are over, as far as waits have proven. Takes no lock. */
bool tn_replays_are_over(const struct tn_replays *replays, const struct tn_gpu *gpu);

/* Until no thread launches a graph that was the only one when it began to. */
void tn_replays_await_alone(const struct tn_replays *replays);

#endif
