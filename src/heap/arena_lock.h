// SPDX-License-Identifier: Apache-2.0
/* arena_lock.h -- an arena's lock, which the arena's owner takes without an atomic exchange.
 *
 * Usually one thread allocates from an arena and frees there. After enough turns in a row it
 * becomes the owner. The owner enters without the lock: it sets a flag and checks that it still is
 * the owner. The light barrier between costs nothing (base/barrier.h). Any other thread takes the
 * spin lock and ends the ownership first:
 *
 *     owner                                  another thread
 *     owner_inside = true                    takes the spin lock
 *     light barrier                          user = the owner's word without TN_ARENA_OWNED
 *     reads user                             heavy barrier, on all processors
 *       still owned: works inside            waits until owner_inside is false
 *       not owned: takes the spin lock       works
 *     owner_inside = false
 *
 * The barriers guarantee that the owner reads the new user, or the other thread reads owner_inside.
 *
 * Ending an ownership takes microseconds. After each end the next ownership therefore takes twice
 * as many turns in a row, and two threads that alternate have no owner. Without the kernel's fence
 * no arena has an owner.
 *
 * A record has at most one owner in its life, recycled or not: the first thread that earns it. A
 * second owner would share owner_inside with a first owner that comes late:
 *
 *     first owner                            second owner
 *     reads user: owned, is put aside
 *                                            ends the first ownership, later earns its own
 *                                            owner_inside = true, works inside
 *     owner_inside = true
 *     reads user: not owned
 *     owner_inside = false                   still inside, but nobody waits for it
 *
 * A later thread with the same word is harmless: the first thread has ended.
 *
 * Trade-offs: when another thread gets the record, the arena has no owner.
 *
 * Source: D. Dice, M. Moir and W. Scherer, Quickly reacquirable locks (Sun Microsystems, 2003).
 *
 * Locking: any thread, with the locks that come before an arena's. An owner inside does not hold
 * the spin lock. */
#ifndef TARN_HEAP_ARENA_LOCK_H
#define TARN_HEAP_ARENA_LOCK_H

#include "base/barrier.h"
#include "base/hot.h"
#include "base/thread.h"
#include "heap/arena.h"

/* In arena->user: the named thread is the owner. */
#define TN_ARENA_OWNED ((uintptr_t)1)

static inline bool tn_arena_is_user(const struct tn_arena *arena)
{
    uintptr_t user = atomic_load_explicit(&arena->user, memory_order_relaxed);

    return (user & ~TN_ARENA_OWNED) == tn_thread_word();
}

/* Takes the lock as the owner; false: the thread is not the owner. */
static TN_ALWAYS_INLINE bool tn_arena_enter(struct tn_arena *arena)
{
    const uintptr_t owner = tn_thread_word() | TN_ARENA_OWNED;

    if (TN_UNLIKELY(atomic_load_explicit(&arena->user, memory_order_relaxed) != owner))
        return false;
    atomic_store_explicit(&arena->owner_inside, true, memory_order_relaxed);
    tn_barrier_light(); /* its heavy side: tn_arena_lock, tn_pool_stop_others */
    if (TN_LIKELY(atomic_load_explicit(&arena->user, memory_order_acquire) == owner))
        return true;
    atomic_store_explicit(&arena->owner_inside, false, memory_order_release);
    return false;
}

/* Takes the lock; any thread, the owner too. */
void tn_arena_lock(struct tn_arena *arena);

/* tn_arena_lock for several arenas at once. true: call tn_arena_await_owner for the arena, after a
 * single tn_barrier_heavy for all of them. */
bool tn_arena_request_lock(struct tn_arena *arena);
void tn_arena_await_owner(const struct tn_arena *arena);

/* For assertions: a thread has the arena's lock, or is inside as its owner. */
static inline bool tn_arena_is_locked(const struct tn_arena *arena)
{
    return tn_spin_is_taken(&arena->lock) ||
           atomic_load_explicit(&arena->owner_inside, memory_order_relaxed);
}

static inline void tn_arena_unlock(struct tn_arena *arena)
{
    tn_spin_release(&arena->lock);
}

/* Gives back the lock that tn_arena_enter took. */
static TN_ALWAYS_INLINE void tn_arena_leave(struct tn_arena *arena)
{
    TN_ASSERT(atomic_load_explicit(&arena->owner_inside, memory_order_relaxed));
    atomic_store_explicit(&arena->owner_inside, false, memory_order_release);
}

/* The calling thread, which has the lock by tn_arena_lock, becomes the arena's user: its frees need
 * no inbox. It may become the owner. */
void tn_arena_use(struct tn_arena *arena);

#endif
