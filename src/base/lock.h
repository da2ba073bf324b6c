// SPDX-License-Identifier: Apache-2.0
/* lock.h -- the library's locks, and the order in which they are taken.
 *
 * A thread takes locks in rising rank, never two of one rank but where that is said. Debug builds record
 * what each thread holds and check the order, double locking, and that nothing is held on return from the API.
 * Of REPLAY and COUNTS there are spin locks, else mutexes. Of ARENA a thread holds many: whoever has POOL takes all of
 * the pool's; else an arena's is taken alone (heap/arena_lock.h). It is not recorded, for each allocation takes one.
 *
 * rank      protects                           allowed while held        not allowed while held
 * PROCESS   loading the driver; which devices  driver calls that do not  user callbacks; waits for
 *           are open                           wait for the GPU          the GPU
 * GRAPHS    a device's list of graphs, and     driver calls that do not  waits for the GPU; user
 *           the driver's graphs of those       wait for the GPU          callbacks
 * ROUTES    a device's open routes; which      the routes' filters;      other driver calls;
 *           captures may be joined             queries of streams;       Tarn's own API
 *                                              marks of captures; a
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
 * REGION    a device's regions and slots       reserving addresses       all else
 * WAIT      the token that a device is waited  waits for the GPU         all else
 *           for by; with no other lock held
 * CONTEXTS  the program's own contexts that    asking after contexts     waits for the GPU
 *           were met
 * OPEN      the list of open GPUs              nothing                   all else
 * KERNEL    the library's own kernels          loading them              all else
 * PINNED    page-locked memory that nobody     nothing                   all else
 *           has
 * RECORDS   one kind of recycled records       host allocation           all else
 * COUNTS    what a device has mapped           a few additions           all else
 * BARRIER   whether the kernel has a fence of  asking the kernel for     all else
 *           all processors                     one */
#ifndef TARN_BASE_LOCK_H
#define TARN_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/spin.h"

enum tn_rank {
    TN_RANK_PROCESS,
    TN_RANK_GRAPHS,
    TN_RANK_ROUTES,
    TN_RANK_DEVICE,
    TN_RANK_POOL,
    TN_RANK_GROW,
    TN_RANK_REPLAY,
    TN_RANK_STREAMS,
    TN_RANK_CACHE,
    TN_RANK_REGION,
    TN_RANK_WAIT,
    TN_RANK_CONTEXTS,
    TN_RANK_OPEN,
    TN_RANK_KERNEL,
    TN_RANK_PINNED,
    TN_RANK_RECORDS,
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
void tn_lock_release(struct tn_lock *lock);

/* A spin lock of a rank, for what is done often and mostly held shortly: taking it waits for the stores made
 * before, giving it back does not, where a mutex waits at both. Who has waited for it for some microseconds sleeps
 * between looks. */
void tn_lock_acquire_spin(struct tn_spin *lock, enum tn_rank rank);
void tn_lock_release_spin(struct tn_spin *lock, enum tn_rank rank);

/* A second one of the rank of one that the thread holds, taken and given back in between. Those who do so
 * hold a lock of lower rank that is the same for all of them, and no third one. */
void tn_lock_acquire_second_spin(struct tn_spin *lock, enum tn_rank rank);
void tn_lock_release_second_spin(struct tn_spin *lock);

/* True when this thread holds a lock of that rank. Always true where nothing is recorded, so it is
 * for assertions alone. */
bool tn_lock_held(enum tn_rank rank);

/* True when this thread holds that very lock; else as above, and true in a child of fork(), where no lock is taken. */
bool tn_lock_is_held(const struct tn_lock *lock);

/* True when this thread holds no lock at all; always true where nothing is recorded. */
bool tn_lock_none_held(void);

#endif
