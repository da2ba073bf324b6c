// SPDX-License-Identifier: Apache-2.0
/* replays.h -- the last replay of graphs which share memory.
 *
 *   P17  pools with holds of one capture, or of captures into one graph, share one record; the
 *        pool_count of each record is the number of pools which have it or had it before
 *
 * A pool begins with a record of its own. A capture that allocates from two pools makes a graph
 * that writes memory of both. From then on the replays of all their graphs are one series.
 *
 * Locking: each record has a lock, rank REPLAY, for fields which are neither atomic nor immutable.
 * A pool's record changes under the lock of the old record:
 *
 *     locks a pool's record                    merges records, with the DEVICE lock
 *     reads the old record at the pool
 *                                              locks both records
 *                                              sets next_id of the old record to 0, for good
 *                                              writes the other record at each pool
 *                                              unlocks both
 *     locks the old record
 *     reads the other record at the pool:
 *     unlocks the old one, begins again
 *
 * Instead of reading the pool again a thread may rely on next_id, which is 0 in a record that its
 * pools have left. */
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

/* The first cache line has the fields which a replay reads and writes: after a launch the caches
 * have hardly any of them. */
struct tn_replays {
    uint64_t magic;              /* 0: nobody has a handle of a record */
    struct tn_spin lock;         /* rank REPLAY */
    atomic_bool serialized;      /* several graphs or holds */
    atomic_bool launching_alone; /* a thread launches a graph as the only one */
    bool recorded;               /* the event stands for the end of the last replay */
    bool crosses;                /* replays change streams: each records the event */
    bool is_visited;             /* a visitor exists */
    bool visited;                /* the last replay's fields stand for work of a restore */
    bool lent;                   /* ordered only for restores, as far as they know */
    /* a restore has waited in vain and comes again: lent stays set until it has left */
    bool awaited;
    /* the epoch of the last launch as the only graph, or of a merge; 0: none */
    atomic_uint_fast64_t alone_stamp;
    atomic_uint_fast64_t stream_id; /* of the last ordered replay; 0: none */
    atomic_uint_fast64_t stamp;     /* its epoch; 0: none */
    /* The stream id on which the next replay is in order without a further look; 0: look. Changes
     * of anything which such a look reads reset this to 0 (tn_replays_forget_next). */
    uint64_t next_id;
    atomic_uint_fast64_t series; /* rises when a graph is left alone */
    tn_cu_event event;           /* NULL: none yet */
    uint64_t seen_series;        /* the series of the last replay */
    uint64_t pool_count;         /* P17; guarded by the DEVICE lock */
    atomic_bool shared;          /* by several pools, now or before; never reset */
    /* A restore which takes its turn, and during which nobody launches; NULL: none. */
    const void *visitor;
    uint64_t visited_id; /* the stream_id which the visitor found */
    /* The record which its pools have now; NULL: this one; guarded by the DEVICE lock. Links
     * recycled records. */
    struct tn_replays *merged_into;
};

_Static_assert(offsetof(struct tn_replays, event) == 64, "a cache line");

/* A record for a single pool; NULL: no memory. */
struct tn_replays *tn_replays_make(void);

/* A pool goes: leaves each record which it has had, from its first record on. The caller has the
 * DEVICE lock. */
void tn_replays_leave(struct tn_gpu *gpu, struct tn_replays *first);

/* Merges two records in two steps. Between them the caller, who has the DEVICE lock, gives each
 * pool of from the record to. Nobody launches meanwhile. The last replay is unknown afterwards, so
 * the next replay waits for the device: epoch is the device's epoch now. */
void tn_replays_begin_merge(struct tn_replays *from, struct tn_replays *to);
void tn_replays_end_merge(struct tn_replays *from, struct tn_replays *to, uint64_t epoch);

/* Locks the record of a pool at this place, and returns it. */
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

/* Makes the next replay look at everything. The record is locked. */
static inline void tn_replays_forget_next(struct tn_replays *replays)
{
    replays->next_id = 0;
}

/* Orders replays from here on. A launch as the only graph that is under way is seen by
 * tn_replays_await_alone, and no other begins:
 *
 *     launches the only graph (graphs/replay.c)    orders replays
 *     launching_alone = true                       ordered = true
 *     light barrier                                heavy barrier
 *     reads ordered                                tn_replays_await_alone reads launching_alone
 *       false: launches                              true: waits
 *       true: goes the ordered way
 *     launching_alone = false */
void tn_replays_serialize(struct tn_replays *replays);

/* Whether waits have proven all replays of the record over. Takes no lock. */
bool tn_replays_are_over(const struct tn_replays *replays, const struct tn_gpu *gpu);

/* Waits until no thread launches a graph which was the only one at the launch's begin. */
void tn_replays_await_alone(const struct tn_replays *replays);

#endif
