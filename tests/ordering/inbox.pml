// SPDX-License-Identifier: Apache-2.0
/* heap/inbox.h: two threads take places by an exchange of the ticket, and put blocks there; the arena's user opens the inbox, closes
 * it and takes all out. Who has a place sees what was written before the inbox was opened; who takes a block out sees what was
 * written before it was put; and a closed inbox that is empty stays so.
 *
 * Dropped, and then it must fail: DROP_PUT, the release of tn_inbox_put; DROP_LOOK, the acquire of the look at a place; DROP_OPEN, the
 * release of tn_inbox_open; DROP_ENTER, the acquire of tn_inbox_enter. The ticket, which exchanges write, is in memory at once. */
#define THREADS 3
#define WORDS 5
#include "memory.pml"
#define POOL 0       /* what the pool's lock guards */
#define PLACE(n) (1 + (n))
#define BLOCK(n) (3 + (n))
int ticket = 1; /* twice the next place; odd: closed */
bool empty_and_closed;

proctype frees(int t) {
    int mine, pool, early;
    bool is_early;
#ifdef DROP_ENTER
    if :: LOAD(t, POOL, early); is_early = true :: skip fi;
#endif
    STORE(t, BLOCK(t - 1), 1); /* the last use of its memory */
    atomic {
        if
        :: ticket % 2 == 0 && ticket < 4 -> mine = ticket / 2; ticket = ticket + 2
        :: else -> goto out
        fi
    }
    assert(!empty_and_closed);
    if :: is_early -> pool = early :: else -> LOAD(t, POOL, pool) fi;
    assert(pool == 1);
#ifdef DROP_PUT
    STORE(t, PLACE(mine), t)
#else
    STORE_RELEASE(t, PLACE(mine), t)
#endif
out:
    skip
}

active proctype user() {
    int head, who, use, early0, early1;
    bool is_early;
    run frees(1);
    run frees(2);
    STORE(0, POOL, 1);
#ifndef DROP_OPEN
    EMPTY(0);
#endif
    ticket = ticket - 1;
    ticket = ticket | 1; /* closes it, whenever that is */
    do
    :: head < ticket / 2 ->
#ifdef DROP_LOOK
        LOAD(0, BLOCK(0), early0); LOAD(0, BLOCK(1), early1); is_early = true;
#endif
        LOAD(0, PLACE(head), who);
        if
        :: who != 0 ->
            head++;
            if
            :: is_early && who == 1 -> use = early0
            :: is_early && who == 2 -> use = early1
            :: else -> LOAD(0, BLOCK(who - 1), use)
            fi;
            assert(use == 1)
        :: else
        fi
    :: else -> break
    od;
    empty_and_closed = true
}
