// SPDX-License-Identifier: Apache-2.0
/* serve.h -- where an allocation goes, and frees and uses that are more than an arena's affair.
 *
 * An allocation goes this way:
 *
 *   1 route       the newest route that accepts chooses the pool (pools/route.h); the arena that it
 *                 chose last for the stream's capture is remembered
 *   2 at hand     the arena of the stream's order in this pool has the bytes (heap/steady.h).
 *                 Nothing is pinned
 *   3 in capture  the default pool adopts the capture, refuses it or allows it (graphs/unrouted.h);
 *                 any other pool admits it (graphs/admit.h)
 *   4 the pool    looks for memory, grows, and goes down the ladder (pools/allocate.h)
 *
 * The stream is looked at once, before all these steps. Bytes that the arena has not at hand are
 * taken in a call, with its pins (pools/entry.h). The call begins here, since only here is known
 * where the steady part ends.
 *
 * Locking: none may be held. */
#ifndef TARN_GRAPHS_SERVE_H
#define TARN_GRAPHS_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hot.h"
#include "pools/device.h"
#include "pools/route.h"

/* Serve an allocation; bytes is not 0, and alignment a power of two. tn_serve_pool: from a pool,
 * the default pool included. tn_serve_routed: by the routes of the device, of which some are open.
 * tn_serve_aligned: by the routes, of which none may be open. tn_serve_news: where the device has
 * news, from a pool, or with pool NULL by the routes.
 *   what tn_pool_allocate, tn_unrouted_allocate and tn_capture_admit may answer; INVALID_HANDLE:
 *   the pool went meanwhile; WRONG_STATE: a route's filter is being called; FORKED */
TARN_MUST_CHECK tarn_status tn_serve_pool(tarn_device *device, tarn_pool *pool, uint64_t bytes,
                                          uint64_t alignment, tarn_stream stream, void **address);
TARN_MUST_CHECK tarn_status tn_serve_routed(tarn_device *device, uint64_t bytes, tarn_stream stream,
                                            void **address);
TARN_MUST_CHECK tarn_status tn_serve_aligned(tarn_device *device, uint64_t bytes,
                                             uint64_t alignment, tarn_stream stream,
                                             void **address);
TARN_MUST_CHECK tarn_status tn_serve_news(tarn_device *device, tarn_pool *pool, uint64_t bytes,
                                          uint64_t alignment, tarn_stream stream, void **address);

/* Serves memory of the host by the routes, of which some are open; from a default pool of the host
 * where none accepts. bytes is not 0.
 *   what tn_pool_allocate and tn_device_host_pool may answer; the rest as above */
TARN_MUST_CHECK tarn_status tn_serve_host_routed(tarn_device *device, uint64_t bytes,
                                                 void **address);

/* The same where nothing is known yet. pool: NULL: the routes decide. */
static TN_ALWAYS_INLINE tarn_status tn_serve(tarn_device *device, tarn_pool *pool, uint64_t bytes,
                                             uint64_t alignment, tarn_stream stream, void **address)
{
    if (TN_UNLIKELY(!tn_device_is_quiet(device)))
        return tn_serve_news(device, pool, bytes, alignment, stream, address);
    if (pool == NULL && tn_route_is_any(&device->routes))
        return tn_serve_routed(device, bytes, stream, address);
    return tn_serve_pool(device, pool != NULL ? pool : device->default_pool, bytes, alignment,
                         stream, address);
}

/* Maps memory ahead for the stream's order in the pool.
 *   what tn_pool_reserve may answer; UNROUTED; CAPTURE_BROKEN; DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_serve_reserve(tarn_pool *pool, uint64_t bytes, tarn_stream stream);

/* Notes that the stream uses the block at the address. name: of the public function.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE; CAPTURE_BROKEN; HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_serve_use(void *address, tarn_stream stream, const char *name);

/* Frees the block at the address.
 *   NOT_OURS, INNER_ADDRESS, DOUBLE_FREE */
TARN_MUST_CHECK tarn_status tn_serve_free(void *address);

/* Frees the block behind its last use, which is on the stream.
 *   what tn_serve_use and tn_serve_free answer */
TARN_MUST_CHECK tarn_status tn_serve_free_on(void *address, tarn_stream stream);

/* Frees a block of a call that has failed: the address was given to nobody, so no capture has used
 * the block.
 *   NOT_OURS, DOUBLE_FREE: another thread's restore has freed the block */
TARN_MUST_CHECK tarn_status tn_serve_undo(void *address);

/* Frees a block whose last use is on the stream that it was allocated on, which is in no capture.
 * Frees as tarn_free does: the block's own order needs no word. False: not known to be so, or more
 * than an arena's affair; then nothing is done. */
bool tn_serve_free_own(void *address, tarn_stream stream);

#endif
