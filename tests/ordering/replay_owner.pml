// SPDX-License-Identifier: Apache-2.0
/* claims/replays.h, tn_replays_enter and tn_replays_acquire: the owner of a record enters with a store, a light barrier and a
 * load; another thread takes the lock, ends the ownership with a store and the heavy barrier, and awaits the owner. The owner
 * earns the record again, with the lock. They never have the record together. The owner finds the stream that the last of them
 * has noted, and the other thread finds the stamp of the last launch.
 *
 * Dropped, and then it must fail: DROP_HEAVY, the kernel's fence; DROP_RELEASE, of the owner's leaving; DROP_ACQUIRE, of the
 * awaiting load; DROP_UNLOCK, the release of the lock. That the owner's second look at the user acquires shows nowhere here: who
 * changes NEXT has first set USER, which only the owner sets back. */
#define THREADS 2
#define WORDS 5
#include "memory.pml"
#define USER 0 /* 1: the owner's; 0: nobody's */
#define INSIDE 1
#define LOCK 2
#define NEXT 3 /* next_id: 1: the owner's stream; 0: look */
#define STAMP 4
int having; /* threads that have the record */
int launched;
int next_now; /* what NEXT is, for who has the record */

/* An exchange that acquires: it acts on memory, and stores of other words may still be under way. */
inline TAKE(th_) { atomic { !waits[AT(th_, LOCK)] && mem[LOCK] == 0 -> mem[LOCK] = 1 } }

#ifdef DROP_UNLOCK
#define GIVE(t) STORE(t, LOCK, 0)
#else
#define GIVE(t) STORE_RELEASE(t, LOCK, 0)
#endif

inline have() {
    having++;
    assert(having == 1)
}

active proctype owner() {
    int user, next, turn;
    do
    :: turn < 3 ->
        turn++;
        LOAD(0, USER, user);
        if
        :: user == 1 ->
            STORE(0, INSIDE, 1);
            LOAD(0, USER, user)
        :: else
        fi;
        if
        :: user == 1 ->
            have();
            LOAD(0, NEXT, next);
            assert(next == next_now);
            if
            :: next == 1 -> launched++; STORE(0, STAMP, launched)
            :: else
            fi;
            having--;
#ifdef DROP_RELEASE
            STORE(0, INSIDE, 0)
#else
            STORE_RELEASE(0, INSIDE, 0)
#endif
        :: else ->
            STORE_RELEASE(0, INSIDE, 0); /* as after a look that found no owner */
            TAKE(0);
            have();
            LOAD(0, NEXT, next);
            assert(next == next_now);
            launched++;
            STORE(0, STAMP, launched);
            STORE(0, NEXT, 1);
            next_now = 1;
            STORE(0, USER, 1);
            having--;
            GIVE(0)
        fi
    :: else -> break
    od
}

active proctype other() {
    int user, inside, stamp, turn;
    bool is_early;
    do
    :: turn < 2 ->
        turn++;
        is_early = false;
        TAKE(1);
        LOAD(1, USER, user);
        if
        :: user == 1 ->
            STORE(1, USER, 0);
#ifndef DROP_HEAVY
            FENCE(1); EMPTY(0);
#endif
            do
            ::
#ifdef DROP_ACQUIRE
                LOAD(1, STAMP, stamp); is_early = true;
#endif
                LOAD(1, INSIDE, inside);
                if :: inside == 0 -> break :: else fi
            od
        :: else
        fi;
        have();
        if :: is_early :: else -> LOAD(1, STAMP, stamp) fi;
        assert(stamp == launched);
        STORE(1, NEXT, 0);
        next_now = 0;
        having--;
        GIVE(1)
    :: else -> break
    od
}
