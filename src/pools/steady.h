// SPDX-License-Identifier: Apache-2.0
/* steady.h -- the steady state: allocations and frees that concern one arena alone.
 *
 * They take that arena's lock and write what is its own: its bins, the records of its blocks, the counters
 * of its chunks. Everything else (growth, uses on other streams, captures, memory that changes hands) is
 * the business of pool.c, which takes the lock of the whole pool; so is every error.
 *
 * What the pool's lock alone may change stays as it is under an arena's lock: which chunks are its
 * own, whether captures are under way, who claims the pool. So whether an arena may allocate and free here is
 * found out once, when the pool is unlocked.
 *
 * What is freed is loose at first. Asked for again in its very size it is there as it was; with the next
 * free, or an allocation of another size, it joins its neighbours. A block of more than 4 MiB does so at once where
 * the heap may have another that is as large.
 *
 * Locking: none may be held. Nothing here calls the driver. */
#ifndef TARN_POOLS_STEADY_H
#define TARN_POOLS_STEADY_H

#include "pools/pool.h"
#include "pools/route.h"

/* Allocates for a stream, or for one in a capture that was admitted; what it gives there is the capture's
 * hold's already. False: nothing has changed, and tn_pool_allocate is to be asked. */
bool tn_steady_allocate(tarn_pool *pool, const struct tn_request *request, void **address);

/* The same where the routes' choice for that order, in a capture, is remembered. */
bool tn_steady_allocate_routed(struct tn_routes *routes, const struct tn_request *request,
                               void **address);

/* Frees the live block that begins at the address, whatever that is. False: nothing has changed, and
 * tn_pool_lock_block is to be asked. */
bool tn_steady_free(uint64_t address);

/* The pool's lock was taken, or is about to be given back: the steady state ends or begins. */
void tn_steady_end(struct tn_arena *arena);
void tn_steady_begin(struct tn_arena *arena);

/* Sets block records aside for the arena where it has few; the pool is locked. False: no memory. */
bool tn_steady_provide(struct tn_arena *arena);

/* Gives the pool what records the arena has too many of: frees join blocks, and what is cut under the
 * pool's lock takes its records. The pool is locked. */
void tn_steady_level(struct tn_arena *arena);

#endif
