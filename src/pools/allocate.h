// SPDX-License-Identifier: Apache-2.0
/* allocate.h -- allocations which concern more than one arena.
 *
 * Locking: none may be held. */
#ifndef TARN_POOLS_ALLOCATE_H
#define TARN_POOLS_ALLOCATE_H

#include "pools/pool.h"

/* The request of an allocation. */
struct tn_request {
    uint64_t requested;    /* bytes, not 0 */
    uint64_t alignment;    /* a power of two, 512 to 2 MiB */
    struct tn_order order; /* in a capture: the pool has an open hold for the capture */
};

/* Allocates. No lock may be held. stream: of the order; in a capture the driver is asked where the
 * stream stands there.
 *   DEVICE_MEMORY after the ladder of ladder.h; HOST_MEMORY, ADDRESS_SPACE, LIMIT, DRIVER,
 *   DEVICE_LOST; CAPTURE_BROKEN when the order's capture has ended meanwhile */
TARN_MUST_CHECK tarn_status tn_pool_allocate(tarn_pool *pool, const struct tn_request *request,
                                             tn_cu_stream stream, void **address);

#endif
