// SPDX-License-Identifier: Apache-2.0
#include "heap/arena_lock.h"

enum {
    PATIENCE_MAX = 16, /* 65,536 turns: half a millisecond of nothing else */
};

static uintptr_t user_of(const struct tn_arena *arena)
{
    return atomic_load_explicit(&arena->user, memory_order_relaxed);
}

/* The caller has the spin lock; an owner inside does not. */
static void set_user(struct tn_arena *arena, uintptr_t user)
{
    TN_ASSERT(tn_spin_is_taken(&arena->lock));
    atomic_store_explicit(&arena->user, user, memory_order_relaxed);
}

bool tn_arena_request_lock(struct tn_arena *arena)
{
    uintptr_t user;

    tn_spin_acquire(&arena->lock);
    user = user_of(arena);
    if ((user & TN_ARENA_OWNED) == 0 || user == (tn_thread_word() | TN_ARENA_OWNED))
        return false;
    TN_ASSERT((user & ~TN_ARENA_OWNED) == arena->owner); /* one in the record's life */
    set_user(arena, user & ~TN_ARENA_OWNED);
    arena->turns = 0;
    arena->user_changes = 0;
    if (arena->patience < PATIENCE_MAX)
        arena->patience += 1;
    return true;
}

void tn_arena_await_owner(const struct tn_arena *arena)
{
    for (unsigned steps = 0; atomic_load_explicit(&arena->owner_inside, memory_order_acquire);
         steps++)
        tn_spin_pause(steps);
}

void tn_arena_lock(struct tn_arena *arena)
{
    if (!tn_arena_request_lock(arena))
        return;
    tn_barrier_heavy(); /* its light side: tn_arena_enter */
    tn_arena_await_owner(arena);
}

void tn_arena_use(struct tn_arena *arena)
{
    TN_ASSERT((user_of(arena) & TN_ARENA_OWNED) == 0 || tn_arena_is_user(arena));
    if (!tn_arena_is_user(arena)) {
        set_user(arena, tn_thread_word());
        arena->turns = 0;
        return;
    }
    arena->turns += 1;
    if (arena->turns >> arena->patience == 0 || arena->divided ||
        !atomic_load_explicit(&tn_barrier_is_asymmetric, memory_order_relaxed) ||
        (arena->owner != 0 && arena->owner != tn_thread_word()))
        return;
    arena->owner = tn_thread_word();
    set_user(arena, tn_thread_word() | TN_ARENA_OWNED);
}
