// SPDX-License-Identifier: Apache-2.0
/* vacated.h -- places which memory has left, and where it is still mapped.
 *
 * Memory moves to other addresses in the order of its stream: work of before may still use it at
 * the old place, while later work uses it at the new one. The old place is unmapped once the work
 * of before is proven over. Nobody waits for that.
 *
 *   P28  a vacated place lies in an UNMAPPED block, and its memory has a chunk of the pool, but for
 *        places whose memory is just being mapped
 *   P29  the stamp of a vacated place is not above that of the memory's chunk, unless the latter
 *        was proven idle, and forgotten
 *
 * By P29 whoever has proven a chunk's memory idle may close the places that it has left.
 *
 * Layouts stay deterministic: a growth comes to a vacated place only TN_VACATED_GROWTHS growths
 * later, or when TN_VACATED_KEPT places have been vacated since. Nearly always the place has long
 * been proven and closed then.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_VACATED_H
#define TARN_POOLS_VACATED_H

#include "pools/pool.h"

enum {
    TN_VACATED_GROWTHS = 32, /* a place is not used again before so many growths of the pool */
    TN_VACATED_KEPT = 512,   /* of more places the oldest are used again before that */
    TN_VACATED_MAX = 1024,   /* more places than these are not vacated */
};

/* The chunk's memory moves to another chunk. The chunk has no block, no heap and no id. from: the
 * heap that it was of. */
void tn_vacated_enter(tarn_pool *pool, struct tn_chunk *chunk, struct tn_heap *from);

/* Undoes the last tn_vacated_enter, which was for this chunk; returns its heap. */
struct tn_heap *tn_vacated_leave_last(tarn_pool *pool, struct tn_chunk *chunk);

/* Before events of streams prove less than now: places proven by now stay proven. */
void tn_vacated_forget_proven(tarn_pool *pool);

/* Closes places which are old enough, or too many, and proven. */
void tn_vacated_poll(tarn_pool *pool);

/* Closes all places which are proven, of whatever age. */
void tn_vacated_sweep(tarn_pool *pool);

/* The bytes from the offset on, up to the given number, which are not vacated. */
uint64_t tn_vacated_room(const tarn_pool *pool, const struct tn_segment *segment, uint64_t offset,
                         uint64_t bytes);

/* Whether a vacated place in [offset, offset + bytes) may still be in use. */
bool tn_vacated_is_used(const tarn_pool *pool, const struct tn_segment *segment, uint64_t offset,
                        uint64_t bytes);

/* Closes all places in [offset, offset + bytes), which are not in use. */
void tn_vacated_close_at(tarn_pool *pool, const struct tn_segment *segment, uint64_t offset,
                         uint64_t bytes);

/* Closes all places which the memory has left; the memory is proven idle. */
void tn_vacated_close_of(tarn_pool *pool, const struct tn_memory *memory);

/* The arena ends: from here on only the device's proofs tell of its places. */
void tn_vacated_orphan(tarn_pool *pool, const struct tn_arena *arena);

#endif
