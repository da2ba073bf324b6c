// SPDX-License-Identifier: Apache-2.0
/* arenas.h -- the arenas of a pool: which order has which, and where their memory goes when they
 * end.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_ARENAS_H
#define TARN_POOLS_ARENAS_H

#include "base/contract.h"
#include "driver/stream.h"
#include "heap/arena.h"

struct tn_fence;

/* The pool's arena of this order; NULL: none. */
struct tn_arena *tn_arena_find(tarn_pool *pool, struct tn_order order);

/* tn_arena_find, which makes a missing arena; NULL: no memory. */
struct tn_arena *tn_arena_get(tarn_pool *pool, struct tn_order order);

/* Makes waits for the device cover the context of the order's stream, once. stream: the order's, or
 * another in the same context. *met belongs to the caller: true if this call has done the work
 * before, for another arena of the order. The stream is not looked at again then, since a function
 * of the program may have destroyed it. DRIVER, DEVICE_LOST */
TARN_MUST_CHECK tarn_status tn_arena_meet(struct tn_arena *arena, tn_cu_stream stream, bool *met);

/* Ends the arenas of a capture, those of its bodies' groups included: their chunks go to the pool's
 * idle memory, or, when the capture is a body's, to its group's arena. Returns whether chunks are
 * among these that served the other kind than they were mapped for. */
bool tn_arenas_end_capture(tarn_pool *pool, uint64_t capture_id);

/* Sets memory aside for tn_arenas_retire; false: no memory. */
bool tn_arenas_prepare_retire(tarn_pool *pool, struct tn_order order);

/* The order's stream is retired: from now on its arena and its LIVE and PENDING blocks are of no
 * order and wait for the fence. Later allocations on the stream get a new arena. */
void tn_arenas_retire(tarn_pool *pool, struct tn_order order, struct tn_fence *fence);

/* Ends the arenas of retired streams whose fences are done: their chunks go to the pool's idle
 * memory, proven idle. followed: ends all of them, for the caller's stream is behind their
 * fences. */
void tn_arenas_end_retired(tarn_pool *pool, bool followed);

/* Notes that this many blocks of the order are in a checkpoint, or no longer are. A restore brings
 * them back to the order's arena, if the arena still exists. */
void tn_arena_save(tarn_pool *pool, struct tn_order order, uint64_t count);
void tn_arena_forget(tarn_pool *pool, struct tn_order order, uint64_t count);

/* Ends the arenas outside captures which own no chunk, and to which no checkpoint's block comes
 * back. These are arenas of vanished streams, and others which will be made again. */
void tn_arenas_drop_empty(tarn_pool *pool);

/* Frees all arenas; nothing is mapped. */
void tn_arenas_fini(tarn_pool *pool);

/* Sorts the bins of all heaps of the pool by address. */
void tn_pool_sort_free(tarn_pool *pool);

#endif
