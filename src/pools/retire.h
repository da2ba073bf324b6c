// SPDX-License-Identifier: Apache-2.0
/* retire.h -- a pool lets a stream go that its user has retired: what the stream has there belongs to no
 * order, and waits for a fence.
 *
 * Locking: the pool's lock. */
#ifndef TARN_POOLS_RETIRE_H
#define TARN_POOLS_RETIRE_H

#include <stdbool.h>

#include "base/contract.h"
#include "base/order.h"
#include "tarn/types.h"

struct tn_fence;

/* Sets memory aside for tn_arenas_retire; false: no memory. */
bool tn_arenas_prepare_retire(tarn_pool *pool, struct tn_order order);

/* The order's stream is retired: from now on its arena and its LIVE and PENDING blocks are of no
 * order and wait for the fence. Later allocations on the stream get a new arena. */
void tn_arenas_retire(tarn_pool *pool, struct tn_order order, struct tn_fence *fence);

#endif
