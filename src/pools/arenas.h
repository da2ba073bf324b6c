// SPDX-License-Identifier: Apache-2.0
/* arenas.h -- the arenas of a pool: which order has which, and what becomes of their memory when they end.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_ARENAS_H
#define TARN_POOLS_ARENAS_H

#include "base/contract.h"
#include "driver/stream.h"
#include "heap/arena.h"

struct tn_fence;

/* The pool's arena of that order; NULL when there is none. */
struct tn_arena *tn_arena_find(tarn_pool *pool, struct tn_order order);

/* The same, made when there is none; NULL when there is no memory. */
struct tn_arena *tn_arena_get(tarn_pool *pool, struct tn_order order);

/* Has waits for the device cover the context of its order's stream, from the first time on: the caller names that
 * stream, or one in the same context. *met, the caller's: whether this call has done so already, for another arena of the
 * order. Then the stream is not looked at again, which a function of the program's may have destroyed since.
 * DRIVER, DEVICE_LOST */
TARN_MUST_CHECK tarn_status tn_arena_meet(struct tn_arena *arena, tn_cu_stream stream, bool *met);

/* Ends the arenas of a capture, those of its bodies' groups included: their chunks go to the pool's idle
 * memory, or, when the capture is a body's, to its group's arena. */
void tn_arenas_end_capture(tarn_pool *pool, uint64_t capture_id);

/* Sets aside what tn_arenas_retire needs; false when there is no memory. */
bool tn_arenas_prepare_retire(tarn_pool *pool, struct tn_order order);

/* The order's stream is retired: its arena, and its blocks, live or pending, are of no order from now on
 * and wait for the fence. What is allocated on the stream later has a new arena. */
void tn_arenas_retire(tarn_pool *pool, struct tn_order order, struct tn_fence *fence);

/* Ends the arenas of retired streams whose fences are done: their chunks go to the pool's idle memory,
 * proven idle. followed: the others', too, for the caller's stream is behind their fences. */
void tn_arenas_end_retired(tarn_pool *pool, bool followed);

/* So many blocks of that order are of a checkpoint now, or so no more: a restore brings them back to the
 * order's arena, if that is there. */
void tn_arena_save(tarn_pool *pool, struct tn_order order, uint64_t count);
void tn_arena_forget(tarn_pool *pool, struct tn_order order, uint64_t count);

/* Ends the arenas outside captures that own no chunk and that no checkpoint's block comes back to: those
 * of streams that vanished, and others that will be made again. */
void tn_arenas_drop_empty(tarn_pool *pool);

/* Frees all arenas; nothing is mapped. */
void tn_arenas_fini(tarn_pool *pool);

/* Puts the bins of all heaps of the pool in order of address. */
void tn_pool_order_free(tarn_pool *pool);

#endif
