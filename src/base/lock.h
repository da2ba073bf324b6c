// SPDX-License-Identifier: Apache-2.0
/* lock.h -- the library's locks, and the order in which they are taken.
 *
 * A thread takes locks in rising rank, and two of one rank only where a comment says this. Debug
 * builds record each thread's locks. They check the order, double locking, and that an API call
 * returns without a lock. REPLAY, HOLDS, AWAKE and COUNTS are ranks of spin locks, the others of
 * mutexes. A thread may hold many ARENA locks: with POOL it takes the locks of all the pool's
 * arenas that are awake (pools/pool_lock.h). Without POOL an arena's lock is taken alone
 * (heap/arena_lock.h). ARENA is not recorded, since each allocation takes an arena's lock.
 *
 * rank      protects                           allowed while held        not allowed while held
 * PROCESS   loading the driver; which devices  driver calls that do not  user callbacks; waits for
 *           are open                           wait for the GPU          the GPU
 * CLOSES    nothing: who closes shares of a    a stream's work, which     user callbacks
 *           connection, or signals in a        may wait for room in the
 *           group, one thread at a time        queue
 * SHARES    a listener or a connection, its    driver calls that do not  waits; user callbacks
 *           leases and its socket              wait for the GPU
 * OFFERS    a listener's offers to whoever     nothing                   all else
 *           comes first
 * GRAPHS    a device's list of graphs, and     driver calls that do not  waits for the GPU; user
 *           the driver's graphs of those       wait for the GPU          callbacks
 * ROUTES    a device's open routes; which      the routes' filters;      other driver calls;
 *           captures may be joined             queries of streams;       Tarn's own API
 *                                              events of captures; a
 *                                              graph's user object
 * DEVICE    a device's list of pools           driver calls that do not  waits for the GPU; user
 *                                              wait for the GPU          callbacks
 * POOL      everything in a pool: segments,    driver calls that do not  waits for the GPU; user
 *           chunks, blocks, arenas, holds      wait for the GPU          callbacks
 * ARENA     an arena's heaps, and the blocks   what the arena's lock     driver calls; whatever
 *           that are its alone                 alone allows              comes before it here
 * GROW      nothing: who maps chunks on a      driver calls that do not  waits for the GPU; user
 *           device, one thread at a time       wait for the GPU          callbacks
 * REPLAY    the last replay of a pool's        driver calls, a launch     waits for the device;
 *           graphs                             that waits for room in    user callbacks
 *                                              the queue included
 * STREAMS   a device's table of streams and    events: made, recorded,   all else
 *           their fences                       asked after, given back
 * CACHE     a device's unmapped memory         nothing                   all else
 * IMPORTS   memory of other processes that is  mapping and unmapping it   all else
 *           mapped
 * REGION    a device's regions and slots       reserving addresses, or   all else
 *                                              making linear memory
 * TOOL      linear memory, and which of its    what a tool is told       all else
 *           bytes are usable
 * WAIT      the token that a device is waited  waits for the GPU;        all else
 *           for by; with no other lock held    CONTEXTS
 * CONTEXTS  the program's own contexts that    asking after contexts     waits for the GPU
 *           were met
 * OPEN      the list of open GPUs              nothing                   all else
 * KERNEL    the library's own kernels          loading them              all else
 * STAGING   page-locked memory that nobody     nothing                   all else
 *           has, and copies still use
 * TEAM      a team's job, which threads touch  nothing                   all else
 *           page-locked memory
 * INDEX     a device's index of its pools      nothing                   all else
 * RECORDS   one kind of recycled records       host allocation           all else
 * AWAKE     a device's lists of pools: those   nothing                   all else
 *           awake, those which may end, and
 *           so on (pools/device.h)
 * COUNTS    what a device has mapped; the      a few additions           all else
 *           sums of its pools' peaks
 * BARRIER   whether the kernel has a fence of  asking the kernel for     all else
 *           all processors                     one */
#ifndef TARN_BASE_LOCK_H
#define TARN_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/spin.h"

enum tn_rank {
    TN_RANK_PROCESS,
    TN_RANK_CLOSES,
    TN_RANK_SHARES,
    TN_RANK_OFFERS,
    TN_RANK_GRAPHS,
    TN_RANK_ROUTES,
    TN_RANK_DEVICE,
    TN_RANK_POOL,
    TN_RANK_GROW,
    TN_RANK_REPLAY,
    TN_RANK_STREAMS,
    TN_RANK_CACHE,
    TN_RANK_IMPORTS,
    TN_RANK_REGION,
    TN_RANK_TOOL,
    TN_RANK_WAIT,
    TN_RANK_CONTEXTS,
    TN_RANK_OPEN,
    TN_RANK_KERNEL,
    TN_RANK_STAGING,
    TN_RANK_TEAM,
    TN_RANK_INDEX,
    TN_RANK_RECORDS,
    TN_RANK_AWAKE,
    TN_RANK_COUNTS,
    TN_RANK_BARRIER,
    TN_RANK_COUNT,
};

struct tn_lock {
    pthread_mutex_t mutex;
    enum tn_rank rank; /* immutable */
};

#define TN_LOCK_INIT(lock_rank)                                                                    \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, lock_rank                                                       \
    }

void tn_lock_init(struct tn_lock *lock, enum tn_rank rank);
void tn_lock_fini(struct tn_lock *lock);
void tn_lock_acquire(struct tn_lock *lock);

/* For waits that a function of the program's ends, which may have been left by a jump. */
enum { TN_LONG_WAIT_S = 5 };

/* Waits for the condition with the lock held, as pthread_cond_wait does: it may return early. After
 * a long wait writes the sentence *late on standard error, once, and sets *late to NULL. */
void tn_lock_await(struct tn_lock *lock, pthread_cond_t *changed, const char **late);
void tn_lock_release(struct tn_lock *lock);

/* Takes a spin lock of a rank, for short sections that run often. Taking a spin lock waits for the
 * stores made before; giving it back does not. A mutex waits at both. A thread that has waited for
 * some microseconds sleeps between looks. */
void tn_lock_acquire_spin(struct tn_spin *lock, enum tn_rank rank);
void tn_lock_release_spin(struct tn_spin *lock, enum tn_rank rank);

/* Takes a second lock of a rank of which the thread already holds a lock, and gives the second back
 * first. Every caller holds the same lock of lower rank meanwhile, and no third lock of this
 * rank. */
void tn_lock_acquire_second_spin(struct tn_spin *lock, enum tn_rank rank);
void tn_lock_release_second_spin(struct tn_spin *lock);

/* True when this thread holds a lock of that rank. Always true where nothing is recorded: for
 * assertions alone. */
bool tn_lock_held(enum tn_rank rank);

/* True when this thread holds this very lock. Otherwise as above, and true in a child of fork(),
 * where no lock is taken. */
bool tn_lock_is_held(const struct tn_lock *lock);

/* True when this thread holds no lock at all; always true where nothing is recorded. */
bool tn_lock_none_held(void);

#endif
