// SPDX-License-Identifier: Apache-2.0
/* Two records merge under the DEVICE lock, which excludes other merges, and with the locks of both.
 * Nobody launches meanwhile, and a thread that comes later finds the shared record.
 *
 * A record which its pools have left stays as long as any of them lives: a thread that replays a
 * graph of theirs may be about to lock it. */
#include "claims/replays.h"

#include <sched.h>
#include <stddef.h>
#include <time.h>

#include "base/barrier.h"
#include "base/contract.h"
#include "base/host.h"
#include "driver/stream.h"

enum { PATIENCE_MAX = 16 }; /* 65,536 turns */

static struct tn_records replays_records = TN_RECORDS_INIT(struct tn_replays);

struct tn_replays *tn_replays_make(void)
{
    struct tn_replays *made = tn_records_take(&replays_records);

    if (made == NULL)
        return NULL;
    tn_barrier_prepare();
    made->pool_count = 1;
    made->patience = TN_REPLAYS_PATIENCE;
    return made;
}

static void end(struct tn_gpu *gpu, struct tn_replays *replays)
{
    if (replays->event != NULL)
        tn_event_destroy(gpu, replays->event);
    tn_records_give(&replays_records, replays);
}

void tn_replays_leave(struct tn_gpu *gpu, struct tn_replays *first)
{
    struct tn_replays *replays = first;

    while (replays != NULL) {
        struct tn_replays *merged_into = replays->merged_into;

        replays->pool_count -= 1; /* P17 */
        if (replays->pool_count == 0)
            end(gpu, replays);
        replays = merged_into;
    }
}

void tn_replays_serialize(struct tn_replays *replays)
{
    if (atomic_load(&replays->serialized))
        return;
    atomic_store(&replays->serialized, true);
    tn_barrier_heavy(); /* its light side: graphs/replay.c */
}

void tn_replays_await_alone(const struct tn_replays *replays)
{
    const struct timespec pause = {0, 1000};

    while (atomic_load(&replays->launching_alone))
        (void)nanosleep(&pause, NULL);
}

/* Gives a thread that holds the lock all of the record, part of which an owner inside has. In the
 * owner's own call the owner is not inside, and stays the owner. */
static void end_ownership(struct tn_replays *replays)
{
    uintptr_t user = atomic_load_explicit(&replays->user, memory_order_relaxed);

    TN_ASSERT(tn_spin_is_taken(&replays->lock));
    if ((user & TN_REPLAYS_OWNED) == 0 || user == (tn_thread_word() | TN_REPLAYS_OWNED))
        return;
    TN_ASSERT((user & ~TN_REPLAYS_OWNED) == replays->owner); /* one in the record's life */
    atomic_store_explicit(&replays->user, user & ~TN_REPLAYS_OWNED, memory_order_relaxed);
    replays->turns = 0;
    if (replays->patience < PATIENCE_MAX)
        replays->patience += 1;
    tn_barrier_heavy(); /* its light side: tn_replays_enter */
    for (unsigned looks = 0; atomic_load_explicit(&replays->owner_inside, memory_order_acquire);
         looks++)
        tn_spin_pause(looks);
}

void tn_replays_acquire(struct tn_replays *replays)
{
    tn_lock_acquire_spin(&replays->lock, TN_RANK_REPLAY);
    end_ownership(replays);
}

void tn_replays_use(struct tn_replays *replays)
{
    const uintptr_t self = tn_thread_word();
    uintptr_t user = atomic_load_explicit(&replays->user, memory_order_relaxed);

    TN_ASSERT(tn_lock_held(TN_RANK_REPLAY));
    TN_ASSERT((user & TN_REPLAYS_OWNED) == 0 || user == (self | TN_REPLAYS_OWNED));
    if ((user & ~TN_REPLAYS_OWNED) != self) {
        atomic_store_explicit(&replays->user, self, memory_order_relaxed);
        replays->turns = 0;
        return;
    }
    replays->turns += 1;
    if (replays->turns >> replays->patience == 0 ||
        !atomic_load_explicit(&tn_barrier_is_asymmetric, memory_order_relaxed) ||
        (replays->owner != 0 && replays->owner != self))
        return;
    replays->owner = self;
    atomic_store_explicit(&replays->user, self | TN_REPLAYS_OWNED, memory_order_relaxed);
}

bool tn_replays_are_over(const struct tn_replays *replays, const struct tn_gpu *gpu)
{
    return !atomic_load(&replays->launching_alone) &&
           tn_gpu_is_proven(gpu, atomic_load(&replays->alone_stamp)) &&
           tn_gpu_is_proven(gpu, atomic_load(&replays->stamp));
}

/* Locks both records at a time when no restore visits either. A visit ends without the DEVICE
 * lock. */
static void lock_both(struct tn_replays *from, struct tn_replays *to)
{
    for (;;) {
        tn_replays_acquire(to);
        tn_lock_acquire_second_spin(&from->lock, TN_RANK_REPLAY);
        end_ownership(from);
        if (to->visitor == NULL && from->visitor == NULL)
            return;
        tn_lock_release_second_spin(&from->lock);
        tn_replays_unlock(to);
        (void)sched_yield();
    }
}

void tn_replays_begin_merge(struct tn_replays *from, struct tn_replays *to)
{
    TN_ASSERT(from != to);
    lock_both(from, to);
    tn_replays_forget_next(to);
    tn_replays_forget_next(from); /* for good: no replay has a turn in this record any more */
    atomic_store(&to->shared, true);
    atomic_store(&to->serialized, true);
    atomic_store(&from->serialized, true);
    /* Needed even if ordered was set: the thread which set it may not have reached its own barrier
     * yet. */
    tn_barrier_heavy();
    tn_replays_await_alone(to);
    tn_replays_await_alone(from);
}

void tn_replays_end_merge(struct tn_replays *from, struct tn_replays *to, uint64_t epoch)
{
    TN_ASSERT(from->visitor == NULL && to->visitor == NULL);
    to->pool_count += from->pool_count; /* P17 */
    from->merged_into = to;
    to->crosses = true;
    atomic_store(&to->alone_stamp, epoch);
    tn_lock_release_second_spin(&from->lock);
    tn_replays_unlock(to);
}
