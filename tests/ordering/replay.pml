// SPDX-License-Identifier: Apache-2.0
/* graphs/replay.c, begin_alone and end_alone, and tn_replays_serialize with tn_replays_await_alone: who orders replays sees the launch that
 * is under way, and then its stamp; or the launch sees that replays are ordered.
 *
 * Dropped, and then it must fail: DROP_HEAVY; DROP_RELEASE, of the launch's end; DROP_ACQUIRE, of the look for it. */
#define THREADS 2
#define WORDS 3
#include "memory.pml"
#define ORDERED 0
#define LAUNCHING 1
#define STAMP 2
int launched;
bool looked;

active proctype launch() {
    int ordered, turn;
    do
    :: turn < 2 ->
        turn++;
        LOAD(0, ORDERED, ordered);
        if :: ordered != 0 -> break :: else fi;
        STORE(0, LAUNCHING, 1);
        LOAD(0, ORDERED, ordered);
        if
        :: ordered == 0 ->
            assert(!looked); /* no launch begins behind the look */
            launched++;
            STORE(0, STAMP, launched)
        :: else
        fi;
#ifdef DROP_RELEASE
        STORE(0, LAUNCHING, 0)
#else
        STORE_RELEASE(0, LAUNCHING, 0)
#endif
    :: else -> break
    od
}

active proctype order() {
    int launching, stamp, early;
    bool is_early;
    STORE(1, ORDERED, 1);
#ifndef DROP_HEAVY
    FENCE(1); EMPTY(0);
#endif
    do
    ::
#ifdef DROP_ACQUIRE
        LOAD(1, STAMP, early); is_early = true;
#endif
        LOAD(1, LAUNCHING, launching);
        if :: launching == 0 -> break :: else fi
    od;
    looked = true;
    if :: is_early -> stamp = early :: else -> LOAD(1, STAMP, stamp) fi;
    assert(stamp == launched)
}
