// SPDX-License-Identifier: Apache-2.0
/* base/barrier.h where the kernel has no fence: both sides exchange one word, by an exclusive load that acquires and an exclusive store
 * that releases. Such a pair is no full fence on ARM: the load behind it may be satisfied before its store. But of two pairs one
 * reads what the other wrote. So one side at least sees what the other stored.
 *
 * Dropped, and then it must fail: DROP_WORD, the light side's exchange; DROP_RELEASE, of the exchanges. */
#define THREADS 2
#define WORDS 2
#include "memory.pml"
int word, changes;
int seen[2];
bool done[2];

proctype side(int t; bool exchanges) {
    int value, before;
    STORE(t, t, 1);
    if
    :: exchanges ->
again:
        before = changes;
        LOAD(t, 1 - t, value); /* early, before the exclusive store */
#ifndef DROP_RELEASE
        EMPTY(t);
#endif
        atomic { if :: before == changes -> word++; changes++ :: else -> goto again fi }
    :: else -> LOAD(t, 1 - t, value)
    fi;
    seen[t] = value;
    done[t] = true
}

init {
    atomic {
#ifdef DROP_WORD
        run side(0, false);
#else
        run side(0, true);
#endif
        run side(1, true)
    }
    done[0] && done[1];
    assert(seen[0] == 1 || seen[1] == 1)
}
