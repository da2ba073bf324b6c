// SPDX-License-Identifier: Apache-2.0
/* provision.h -- block records that arenas have at hand, so that the steady state needs no lock for
 * them (heap/steady.h).
 *
 * Locking: the pool's lock, and the arena is stopped. */
#ifndef TARN_HEAP_PROVISION_H
#define TARN_HEAP_PROVISION_H

#include "heap/arena.h"

enum { TN_RECORDS_FOR_CUT = 2 };

/* Sets block records aside for an arena with few; the pool is locked. False: no memory. */
bool tn_provision_take(struct tn_arena *arena);

/* tn_provision_take for count blocks, which the arena will have soon. The arena keeps as many
 * records from then on, up to a limit. */
bool tn_provision_expect(struct tn_arena *arena, size_t count);

/* Gives the arena's surplus records back to the pool. They gather because frees coalesce blocks,
 * while cuts under the pool's lock take records of the pool. The pool is locked. */
void tn_provision_level(struct tn_arena *arena);

#endif
