// SPDX-License-Identifier: Apache-2.0
/* heap/magazine.h: a thread takes its magazine's lock and looks whether the magazines are open; a thread with the pool's lock opens
 * them without any of their locks, and closes them, takes each lock once and has the rounds. Who finds them open sees what was
 * written before they were opened; who closes them sees every round; and then nobody puts or takes one. The magazine is there
 * from the start: another one comes under the arena's lock, which the closing thread has.
 *
 * Dropped, and then it must fail: DROP_OPEN, the release in open_magazines (heap/steady.c); DROP_LOOK, the acquire of the look in
 * tn_magazine_enter; DROP_LEAVE, the release of a magazine's lock; DROP_EMPTY, the lock that the closing thread takes. The lock,
 * which an exchange takes, is in memory at once. */
#define THREADS 2
#define WORDS 3
#include "memory.pml"
#define OPEN 0
#define POOL 1  /* what the pool's lock guards */
#define ROUND 2 /* what the magazine's lock guards */
bool locked;
bool emptied;
int pool_written, round_written;

proctype user() {
    int open, pool, round, early, turn;
    bool is_early;
    do
    :: turn < 2 ->
        turn++;
        atomic { !locked -> locked = true }
#ifdef DROP_LOOK
        if :: LOAD(1, POOL, early); is_early = true :: is_early = false fi;
#endif
        LOAD(1, OPEN, open);
        if
        :: open == 1 ->
            assert(!emptied);
            if :: is_early -> pool = early :: else -> LOAD(1, POOL, pool) fi;
            assert(pool == pool_written);
            LOAD(1, ROUND, round);
            assert(round == round_written);
            round_written++;
            STORE(1, ROUND, round + 1)
        :: else
        fi;
#ifndef DROP_LEAVE
        EMPTY(1);
#endif
        locked = false
    :: else -> break
    od
}

active proctype holder() {
    int round;
    run user();
    STORE(0, POOL, 1);
    pool_written = 1;
#ifndef DROP_OPEN
    EMPTY(0);
#endif
    STORE(0, OPEN, 1);
    STORE(0, OPEN, 0); /* closes them, whenever that is */
#ifndef DROP_EMPTY
    atomic { !locked -> locked = true }
#endif
    LOAD(0, ROUND, round);
    assert(round == round_written);
    EMPTY(0);
    emptied = true;
#ifndef DROP_EMPTY
    locked = false
#endif
}
