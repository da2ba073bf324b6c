// SPDX-License-Identifier: Apache-2.0
/* arena_table.h -- from an order to its arena, without a lock.
 *
 *   P16  the arena of every order that is not retired is in its pool's table, under the order's key
 *   P21  no other arena is in the table
 *
 * What a thread finds without the pool's lock may be gone before it looks: arenas are recycled, never freed, so it
 * can be locked, and tells then whose it is.
 *
 * Locking: the pool's lock, but for tn_arena_seek, which needs none. */
#ifndef TARN_POOLS_ARENA_TABLE_H
#define TARN_POOLS_ARENA_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/stream.h"
#include "tarn/types.h"

struct tn_arena;
struct tn_arena_table;

/* The order's arena, or without the pool's lock what was that a moment ago; NULL: there is none. */
struct tn_arena *tn_arena_seek(const tarn_pool *pool, struct tn_order order);

/* Makes sure that the table has room for one more order; false when there is no memory. */
bool tn_arena_table_reserve(tarn_pool *pool);
void tn_arena_table_enter(tarn_pool *pool, struct tn_arena *arena); /* reserved before */
uint64_t tn_arena_table_count(const tarn_pool *pool); /* of arenas in it */
void tn_arena_table_leave(tarn_pool *pool, const struct tn_arena *arena); /* before its order changes */
void tn_arena_table_fini(tarn_pool *pool);

#endif
