// SPDX-License-Identifier: Apache-2.0
/* host_pool.h -- allocation from a pool whose memory is the host's.
 *
 * The process writes this memory itself, at once, and no stream orders its writes. Each such pool
 * therefore has a single arena, whose order is that of the calling threads. A free block has no work
 * left: what streams and captures do with a block is known by claims alone.
 *
 * - Memory freed without a claim is idle, and no wait for the device is needed to move it or to give
 *   it back.
 * - A use in a capture is a claim until no graph of that capture is left, with the last launch of it.
 *   A hold tells this end; the hold has no chunks.
 *
 * Trade-offs: threads share one arena, whose magazines serve them. An arena for each thread would
 * keep memory apart that all of them may use at once.
 *
 * Locking: none may be held. */
#ifndef TARN_POOLS_HOST_POOL_H
#define TARN_POOLS_HOST_POOL_H

#include "pools/device.h"

/* Allocates; bytes is not 0, and alignment a power of two. Asks no stream: a thread may call during
 * any capture.
 *   what tn_pool_allocate may answer; INVALID_HANDLE: the pool went meanwhile */
TARN_MUST_CHECK tarn_status tn_host_pool_allocate(tarn_pool *pool, uint64_t bytes,
                                                  uint64_t alignment, void **address);
/* The same for a pool that a route has led to, and pinned, whatever has become of its handle. */
TARN_MUST_CHECK tarn_status tn_host_pool_allocate_routed(tarn_pool *pool, uint64_t bytes,
                                                         void **address);

#endif
