// SPDX-License-Identifier: Apache-2.0
/* proofs.h -- proofs by events that freed memory of a stream is idle.
 *
 * A wait for the device proves all memory idle, but hardly ever happens. In a pool with several
 * arenas an allocation therefore asks its stream for an event now and then (driver/progress.h),
 * namely after frees of a part of the arena's memory (tn_arena_unasked_left). A free that names its
 * stream (tarn_free_on) asks, too, once the live bytes have fallen by this part. When the event is done, what the arena freed before may leave it, and loans that its
 * stream freed go back (pools/loans.h). Until an allocation looks for such memory, each question of
 * an allocation doubles these bytes, up to sixteen times.
 *
 * What a restore frees of other streams is an exception: the pool has only ordered the restore's
 * stream behind the uses of that memory. The caller orders the memory's own stream later.
 *
 * Trade-offs: what tarn_free frees after a stream's last allocation stays unproven until a wait, for
 * a question needs the stream's handle. The handle of a default stream would be valid at any time.
 * In an arena that several threads use, only allocations ask.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_PROOFS_H
#define TARN_POOLS_PROOFS_H

#include "pools/device.h"
#include "pools/pool.h"

/* Whether memory which the arena freed with this stamp is idle. arena: NULL: it has ended. */
static inline bool tn_pool_has_proven(const tarn_pool *pool, const struct tn_arena *arena,
                                      uint64_t stamp)
{
    return tn_gpu_is_proven(&pool->device->gpu, stamp) ||
           (arena != NULL && stamp > arena->settled_stamp &&
            tn_progress_proves(&arena->progress, stamp));
}

/* Asks the stream, which is the arena's, as this call has looked at it. No function of the program
 * has run since then: it may destroy the stream. */
void tn_proofs_ask(tarn_pool *pool, struct tn_arena *arena, tn_cu_stream stream);

/* An allocation without room in its arena looks which events are done: at all of them, or a few that
 * are not, in turns. */
void tn_proofs_poll(tarn_pool *pool);

/* The arena ends. */
void tn_proofs_end(tarn_pool *pool, struct tn_arena *arena);

/* A restore has freed memory of all streams, and put the stream of this order behind its uses. */
void tn_proofs_settle(tarn_pool *pool, struct tn_order order);

#endif
