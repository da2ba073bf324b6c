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
 * pools have left.
 *
 * Usually one thread replays all graphs of a record. After enough turns in a row it becomes the
 * owner, who enters without the lock. Whoever else takes the lock ends the ownership first. This is
 * the protocol of an arena's owner, and heap/arena_lock.h has the reasons for its rules: one owner
 * in a record's life, twice as many turns after each end, no owner without the kernel's fence. What
 * differs is that an owner inside launches, and waits on the host when the driver's queue is full.
 *
 *     owner                                  another thread
 *     owner_inside = true                    takes the lock
 *     light barrier                          user = the owner's word without TN_REPLAYS_OWNED
 *     reads user                             heavy barrier, on all processors
 *       still owned: reads next_id,          waits until owner_inside is false
 *         launches, writes the stamp         has the record
 *       not owned: takes the lock
 *     owner_inside = false
 *
 * launching_alone cannot say that the owner is inside. A thread that comes late from a time when
 * the pool had one graph still writes launching_alone, and would reset what the owner has set. */
#ifndef TARN_CLAIMS_REPLAYS_H
#define TARN_CLAIMS_REPLAYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/barrier.h"
#include "base/hot.h"
#include "base/lock.h"
#include "base/thread.h"
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
    atomic_bool owner_inside; /* the owner launches without the lock; only the owner writes this */
    /* the epoch of the last launch as the only graph, or of a merge; 0: none */
    atomic_uint_fast64_t alone_stamp;
    atomic_uint_fast64_t stream_id; /* of the last ordered replay; 0: none */
    atomic_uint_fast64_t stamp;     /* its epoch; 0: none */
    /* The stream id on which the next replay is in order without a further look; 0: look. Changes
     * of anything which such a look reads reset this to 0 (tn_replays_forget_next). */
    uint64_t next_id;
    /* tn_thread_word of the thread that replayed last; with TN_REPLAYS_OWNED: the owner. */
    atomic_uintptr_t user;
    tn_cu_event event;           /* NULL: none yet */
    atomic_uint_fast64_t series; /* rises when a graph is left alone */
    uint64_t seen_series;        /* the series of the last replay */
    /* The tn_thread_word of the only thread that may become the owner; 0: any. Kept for good. */
    uintptr_t owner;
    uint32_t turns;      /* replays of the user in a row, while the record has no owner */
    uint8_t patience;    /* 2^patience turns in a row make the user the owner */
    uint64_t pool_count; /* P17; guarded by the DEVICE lock */
    atomic_bool shared;  /* by several pools, now or before; never reset */
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

/* In tn_replays.user: the named thread is the owner. */
#define TN_REPLAYS_OWNED ((uintptr_t)1)

/* 256 replays in a row: more than a thread makes that only warms up for others. */
enum { TN_REPLAYS_PATIENCE = 8 };

/* Takes a record's lock, whether its pools still have the record or not. */
void tn_replays_acquire(struct tn_replays *replays);

/* Locks the record of a pool at this place, and returns it. */
static inline struct tn_replays *tn_replays_lock(struct tn_replays *_Atomic *place)
{
    for (;;) {
        struct tn_replays *replays = atomic_load(place);

        tn_replays_acquire(replays);
        if (TN_LIKELY(replays == atomic_load(place)))
            return replays;
        tn_lock_release_spin(&replays->lock, TN_RANK_REPLAY);
    }
}

static inline void tn_replays_unlock(struct tn_replays *replays)
{
    tn_lock_release_spin(&replays->lock, TN_RANK_REPLAY);
}

/* Enters as the owner, who may then do what the lock allows. False: the thread is not the owner.
 * No instruction of tn_replays_enter and tn_replays_leave_inside locks memory: behind a launch it
 * would wait until the caches have all that the driver has written. */
static TN_ALWAYS_INLINE bool tn_replays_enter(struct tn_replays *replays)
{
    const uintptr_t owner = tn_thread_word() | TN_REPLAYS_OWNED;

    if (TN_UNLIKELY(atomic_load_explicit(&replays->user, memory_order_relaxed) != owner))
        return false;
    atomic_store_explicit(&replays->owner_inside, true, memory_order_relaxed);
    tn_barrier_light(); /* its heavy side: tn_replays_acquire */
    if (TN_LIKELY(atomic_load_explicit(&replays->user, memory_order_acquire) == owner))
        return true;
    atomic_store_explicit(&replays->owner_inside, false, memory_order_release);
    return false;
}

/* Gives back what tn_replays_enter took. */
static TN_ALWAYS_INLINE void tn_replays_leave_inside(struct tn_replays *replays)
{
    TN_ASSERT(atomic_load_explicit(&replays->owner_inside, memory_order_relaxed));
    atomic_store_explicit(&replays->owner_inside, false, memory_order_release);
}

/* The calling thread, which has the lock, replays a graph. It may become the owner. */
void tn_replays_use(struct tn_replays *replays);

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
