// SPDX-License-Identifier: Apache-2.0
/* heap/arena_lock.h: the owner enters with a store, a light barrier and a load; another thread ends the ownership with a store
 * and the heavy barrier, and awaits the owner. They are never inside together, and each sees what the other wrote there.
 *
 * Dropped, and then it must fail: DROP_HEAVY, the kernel's fence; DROP_RELEASE, of the owner's leaving; DROP_ACQUIRE, of the
 * awaiting load. */
#define THREADS 2
#define WORDS 3
#include "memory.pml"
#define USER 0 /* 0: the owner's; 1: nobody's */
#define INSIDE 1
#define DATA 2
int inside_count;
int written;

active proctype owner() {
    int user, data, turn;
    do
    :: turn < 2 ->
        turn++;
        LOAD(0, USER, user);
        if
        :: user == 0 ->
            STORE(0, INSIDE, 1);
            LOAD(0, USER, user); /* acquire: DATA is not read before */
            if
            :: user == 0 ->
                inside_count++;
                assert(inside_count == 1);
                LOAD(0, DATA, data);
                assert(data == written);
                STORE(0, DATA, data + 1);
                written++;
                inside_count--;
            :: else
            fi;
#ifdef DROP_RELEASE
            STORE(0, INSIDE, 0)
#else
            STORE_RELEASE(0, INSIDE, 0)
#endif
        :: else -> break
        fi
    :: else -> break
    od
}

active proctype other() {
    int inside, data, early;
    bool is_early;
    STORE(1, USER, 1);
#ifndef DROP_HEAVY
    FENCE(1); EMPTY(0);
#endif
    /* Who awaits reads again and again; the data may be read in front of the last look where that does not acquire. */
    do
    ::
#ifdef DROP_ACQUIRE
        LOAD(1, DATA, early); is_early = true;
#endif
        LOAD(1, INSIDE, inside);
        if :: inside == 0 -> break :: else fi
    od;
    inside_count++;
    assert(inside_count == 1);
    if :: is_early -> data = early :: else -> LOAD(1, DATA, data) fi;
    assert(data == written);
    inside_count--
}
