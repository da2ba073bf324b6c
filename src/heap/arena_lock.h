// SPDX-License-Identifier: Apache-2.0
/* arena_lock.h -- an arena's lock, which who allocates there takes without an exchange.
 *
 * Mostly one thread allocates from an arena and frees there. When it has taken the lock some times in a row it becomes
 * the owner: from then on it says that it is inside, and looks whether it is the owner still, with a fence in
 * between that costs nothing (base/barrier.h). Whoever else takes the lock ends that first: it says that there is no
 * owner, has all processors pass a fence, and waits until the one that was is not inside.
 *
 * That takes microseconds. So after each time it takes twice as many turns in a row to become the owner, and where
 * two threads take turns there is none. Without the kernel's fence there never is.
 *
 * Who was the owner may come late: it has seen that it is, is put aside, and says much later that it is inside, and then
 * that it is not. That must not be said of another owner. So a record has one owner in its life, recycled or not: the
 * first thread that earns it. What a later thread with the same word says cannot be mixed up, for the first has ended.
 *
 * Trade-offs: a record that comes to another thread has no owner there.
 *
 * Source: D. Dice, M. Moir and W. Scherer, Quickly reacquirable locks (Sun Microsystems, 2003).
 *
 * Locking: any thread, with the locks that come before an arena's. An owner that is inside does not take the lock. */
#ifndef TARN_HEAP_ARENA_LOCK_H
#define TARN_HEAP_ARENA_LOCK_H

#include "base/barrier.h"
#include "base/hot.h"
#include "base/thread.h"
#include "heap/arena.h"

/* In arena->user: the thread that it names is the owner. */
#define TN_ARENA_OWNED ((uintptr_t)1)

static inline bool tn_arena_is_user(const struct tn_arena *arena)
{
    uintptr_t user = atomic_load_explicit(&arena->user, memory_order_relaxed);

    return (user & ~TN_ARENA_OWNED) == tn_thread_word();
}

/* Takes the lock as the owner; false: the thread is not that. */
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

/* Any thread's way, the owner's too. */
void tn_arena_lock(struct tn_arena *arena);

/* The same for several arenas at once: true: each is to be awaited, behind one tn_barrier_heavy for all of them. */
bool tn_arena_begin_lock(struct tn_arena *arena);
void tn_arena_await_owner(const struct tn_arena *arena);

/* For assertions: somebody has the arena's lock, or is inside as its owner. */
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

/* The thread, which has the lock by tn_arena_lock, is the arena's user: its frees need no inbox. It may become the
 * owner. */
void tn_arena_use(struct tn_arena *arena);

#endif
