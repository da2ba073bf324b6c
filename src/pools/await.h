// SPDX-License-Identifier: Apache-2.0
/* await.h -- waiting for holds which go by themselves.
 *
 * The driver runs the destructor of a graph's user object on a thread of its own, behind the end of
 * the last launch and of the last executable: on an H200 6 us behind in the mean, 65 at worst.
 * Until then the hold stays, and with it the memory. A caller which gives memory back, or ends an
 * object kept by holds, therefore waits a little for holds on their way. A hold is expected when
 * the library has destroyed its graph (tn_holds_expect). It does not come while the program has a
 * clone or an executable of the graph, which nobody can see. Each wait therefore has an end, and a
 * hold awaited in vain is expected no more. Nor can anybody see that the program has destroyed a
 * graph of its own: a wait for such a hold is a guess, and shorter.
 *
 * Locking: the caller holds no lock. */
#ifndef TARN_POOLS_AWAIT_H
#define TARN_POOLS_AWAIT_H

#include "pools/device.h"

/* Which holds a wait is for, and its longest time. On an unhealthy GPU 50 ms are the most: a driver
 * that has refused a destroy may never run the destructor. */
enum tn_await {
    /* Expected holds: 200 ms. For callers which have waited for the device, or know that no launch
     * runs. */
    TN_AWAIT_EXPECTED,
    /* The same. Also holds of ended captures without a tarn_graph, as long as only these keep free
     * memory: 250 us and a pause, each time anew. For callers which give memory back. */
    TN_AWAIT_BRIEF,
    /* Expected holds: 1 s. Also holds of ended captures without a tarn_graph, whose graph the
     * program may have destroyed: 30 ms, or 5 ms if no hold is newer than holds awaited in vain
     * before. For callers which would fail otherwise. */
    TN_AWAIT_POSSIBLE,
    /* All holds, if only they keep the object which is to end: 1 s. A running launch may end
     * meanwhile. For a device: holds of its released pools, when this is its last use. */
    TN_AWAIT_LAST,
};

/* Waits for holds of the pool, or if pool is NULL of all pools of the device, and drops holds which
 * are gone. */
void tn_await_holds(tarn_device *device, tarn_pool *pool, enum tn_await what);

/* Whether launches of graphs whose holds are expected to go may still run: only a wait for the
 * device ends those. pool: NULL: any pool of the device. */
bool tn_await_needs_device(tarn_device *device, tarn_pool *pool);

#endif
