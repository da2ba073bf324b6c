// SPDX-License-Identifier: Apache-2.0
/* pieces.h -- memory that was page-locked by registration, ready for pools in that location.
 *
 * Registered memory cannot move: it is where the system put it. A piece of 16 MiB is a registration
 * of its own, at the beginning of a slot of its own. A pool takes a piece whole, as a segment with a
 * single chunk. No block therefore lies in two registrations, and no copy of a block does.
 *
 * Registering stops other threads' calls for 0.4 ms a piece, and the system must provide the pages. So
 * pieces are made with no lock held: a growth that finds none ready says how many bytes it wants,
 * and is tried again when they are made (pools/ladder.c). A pool gives its pieces back to those that
 * are ready. The driver gets them back in calls alone that are documented as waiting: a trim of the
 * pool, and the close of the device.
 *
 *   P41  a segment of registered memory has one chunk with that memory, or has the memory aside
 *
 * Locking: tn_piece_take and tn_piece_give need none, and may be called with any lock below rank
 * CACHE. With the others no lock may be held. */
#ifndef TARN_POOLS_PIECES_H
#define TARN_POOLS_PIECES_H

#include "pools/device.h"
#include "pools/pool.h"

#define TN_PIECE_BYTES TN_HOST_PIECE_BYTES

/* Whether the pool's memory is made of pieces. */
static inline bool tn_pool_has_pieces(const tarn_pool *pool)
{
    return pool->memory.properties.registered;
}

/* Prepares the device for pieces, once: the PROCESS lock is held.
 *   NOT_SUPPORTED: see tn_registered_init; DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_pieces_open(tarn_device *device);

/* All pieces are ready, and nobody uses them: gives all back to the system. Waits for the device. */
void tn_pieces_close(tarn_device *device);

/* A ready piece; NULL: none. */
struct tn_memory *tn_piece_take(tarn_device *device);
void tn_piece_give(tarn_device *device, struct tn_memory *piece);

/* Makes pieces until so many bytes are ready.
 *   LIMIT, ADDRESS_SPACE, HOST_MEMORY, DEVICE_LOST, DRIVER: fewer may have become ready */
TARN_MUST_CHECK tarn_status tn_pieces_provide(tarn_device *device, uint64_t bytes);

/* Gives ready pieces back to the system until at most so many bytes are ready. Waits for the
 * device's work, and other threads' calls wait meanwhile. */
void tn_pieces_trim(tarn_device *device, uint64_t keep_bytes);

/* Memory as one registration, for copies of Tarn's own that no piece can hold: other threads' calls
 * wait for all of it, 26 ms a GiB. bytes: a multiple of 2 MiB.
 *   LIMIT, ADDRESS_SPACE, HOST_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_whole_make(tarn_device *device, uint64_t bytes, void **address);

/* Gives such memory back to the system. Waits for the device's work. */
void tn_whole_end(tarn_device *device, void *address, uint64_t bytes);

#endif
