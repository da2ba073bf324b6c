// SPDX-License-Identifier: Apache-2.0
/* arenas.h -- the arenas of a pool: which order has which, and where their memory goes when they
 * end.
 *
 * A stream may be destroyed without a word, and nobody tells whether it was. An arena of a stream
 * therefore ends once it has been asleep through 250 locks of the pool, if all its memory is free
 * and nothing else needs the arena. Where the stream has come back before, the arena has three more
 * chances of as many locks.
 *
 * Memory of such an arena that is proven idle goes to the pool's idle memory. Other memory becomes
 * dormant, segment by segment (P39 in pools/arena_table.h): no call walks it, and no other stream
 * takes it. The stream finds it again if it comes back, for its later work is ordered behind its
 * earlier work. Otherwise it goes to the driver with a trim, or to idle memory once it is proven.
 *
 * This is done a little at a time, when an arena is made and when a heap grows. A pool where neither
 * happens does not get more arenas. It is not done while the pool has checkpoints: a section which is
 * captured again behind a restore finds the idle memory that it found before.
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

/* Ends a few arenas that nothing has used for long, and makes a little dormant memory that is proven
 * idle the pool's idle memory. The caller uses no arena that is asleep. */
void tn_arenas_tend(tarn_pool *pool);

/* Frees all arenas; nothing is mapped. */
void tn_arenas_fini(tarn_pool *pool);

#endif
