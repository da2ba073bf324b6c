// SPDX-License-Identifier: Apache-2.0
/* await.h -- waiting for holds that go by themselves.
 *
 * The driver runs the destructor of a graph's user object on a thread of its own, behind the end of the last launch
 * and of the last executable: on an H200 6 us behind in the mean, 65 at worst. Until then the hold is there, and
 * with it the memory. So who is to give memory back, or to end what holds keep, waits a little for those that are on
 * their way. A hold is expected when the library has destroyed its graph (tn_holds_expect). It does not come while
 * the program has a clone or an executable of that graph, which nobody can see: so each wait has an end, and a
 * hold that was waited for in vain is expected no more.
 *
 * Locking: none may be held. */
#ifndef TARN_POOLS_AWAIT_H
#define TARN_POOLS_AWAIT_H

#include "pools/device.h"

/* What is waited for, and how long at most. On a GPU that is not well 50 ms are the most: a driver that has refused
 * a destroy may never run the destructor. */
enum tn_await {
    /* Expected holds: 200 ms. For who has waited for the device, or knows that no launch runs. */
    TN_AWAIT_EXPECTED,
    /* The same for 1 s; and 30 ms for holds of ended captures that no tarn_graph has: the program may have destroyed
     * theirs. For who would fail else. Where no hold is newer than those waited for in vain before it is 5 ms. */
    TN_AWAIT_POSSIBLE,
    /* All holds, where they alone keep what is to end: 1 s. A running launch may end meanwhile. Of a device: of its
     * released pools, when this is its last use. */
    TN_AWAIT_LAST,
};

/* Waits for holds of the pool, or where that is NULL of all pools of the device, and drops those that are gone. */
void tn_await_holds(tarn_device *device, tarn_pool *pool, enum tn_await what);

/* Whether a hold is expected there now; *runs is set where its launches may still run. */
bool tn_holds_to_await(tarn_device *device, tarn_pool *pool, bool *runs);

#endif
