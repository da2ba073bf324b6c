// SPDX-License-Identifier: Apache-2.0
/* pools/pool_lock.h: an arena sleeps, and a thread with the pool's lock changes its memory without the arena's lock; then the
 * thread wakes the arena. The thread that put the arena to sleep may still be the arena's owner, and enters without a lock. Who
 * finds the arena awake sees what was changed meanwhile, and nobody is inside while it wakes.
 *
 * Dropped, and then it must fail: DROP_LOCK, which tn_arena_wake takes; DROP_HEAVY, the kernel's fence in it; DROP_LEAVE, the
 * release of the arena's lock; DROP_ENTER, the acquire of it. The lock, which an exchange takes, is in memory at once. */
#define THREADS 2
#define WORDS 5
#include "memory.pml"
#define USER 0   /* 0: the owner's; 1: nobody's */
#define INSIDE 1 /* the owner is */
#define AWAKE 2  /* whether the arena allocates without the pool's lock */
#define MEMORY 3 /* what is changed while the arena sleeps */
bool locked;
int written, inside_count;

inline work(early_, is_early_) {
    LOAD(1, AWAKE, awake);
    if
    :: awake == 1 ->
        inside_count++;
        assert(inside_count == 1);
        if :: is_early_ -> data = early_ :: else -> LOAD(1, MEMORY, data) fi;
        assert(data == written);
        STORE(1, MEMORY, data + 1);
        written++;
        inside_count--
    :: else
    fi
}

proctype user() {
    int owner, awake, data, early, turn;
    bool is_early;
    do
    :: turn < 2 ->
        turn++;
        is_early = false;
        LOAD(1, USER, owner);
        if
        :: owner == 0 ->
            STORE(1, INSIDE, 1);
            LOAD(1, USER, owner);
            if :: owner == 0 -> work(early, is_early) :: else fi;
            STORE_RELEASE(1, INSIDE, 0)
        :: else ->
#ifdef DROP_ENTER
            if :: LOAD(1, MEMORY, early); is_early = true :: is_early = false fi;
#endif
            atomic { !locked -> locked = true }
            work(early, is_early);
            EMPTY(1);
            locked = false
        fi
    :: else -> break
    od
}

active proctype holder() {
    int inside, owner;
    if :: mem[USER] = 1 :: true fi; /* without an owner there is no fence */
    run user();
    STORE(0, MEMORY, 1);
    written = 1;
#ifndef DROP_LOCK
    atomic { !locked -> locked = true }
    LOAD(0, USER, owner);
    if
    :: owner == 0 ->
        STORE(0, USER, 1);
#ifndef DROP_HEAVY
        FENCE(0);
        EMPTY(1);
#endif
        do
        :: LOAD(0, INSIDE, inside); if :: inside == 0 -> break :: else fi
        od
    :: else
    fi;
#endif
    inside_count++;
    assert(inside_count == 1);
    STORE(0, AWAKE, 1);
    inside_count--;
#ifndef DROP_LEAVE
    EMPTY(0);
#endif
    locked = false
}
