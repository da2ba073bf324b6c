// SPDX-License-Identifier: Apache-2.0
/* kernel.h -- the library's device code.
 *
 * The code is PTX, which the driver compiles for the GPU at hand. Loading waits for the device, and
 * is therefore done when the device is opened.
 *
 * Locking: none; any thread. */
#ifndef TARN_DRIVER_KERNEL_H
#define TARN_DRIVER_KERNEL_H

#include "abi/kernels.h"
#include "base/contract.h"
#include "driver/stream.h"

/* Loads the code for launches on the stream, unless it is loaded. The first call in the stream's
 * context waits for the device. No lock may be held.
 *   NOT_SUPPORTED: the driver cannot compile it; DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_kernels_load(struct tn_gpu *gpu, tn_cu_stream stream);

void tn_kernels_unload(struct tn_gpu *gpu); /* no kernel of the code is running */

/* Items in device memory, see abi/kernels.h. */
struct tn_contents_table {
    uint64_t items; /* their address */
    uint64_t tiles; /* of all of them; fewer than 2^31 */
    uint32_t count;
    uint32_t tile_bits;
};

/* Enqueues tarn_contents_begin on the stream, for which the code was loaded: the table's items come
 * from page-locked memory, where they are given, and the digests are 0. DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_kernel_contents_prepare(struct tn_gpu *gpu, tn_cu_stream stream,
                                                       const struct tn_contents_table *table,
                                                       uint64_t given, uint64_t digests);

/* Enqueues tarn_contents on the stream, for which the code was loaded. On failure nothing is
 * enqueued. DEVICE_LOST, DRIVER. */
TARN_MUST_CHECK tarn_status tn_kernel_contents(struct tn_gpu *gpu, tn_cu_stream stream,
                                               const struct tn_contents_table *table,
                                               uint64_t digests, uint32_t mode);

/* The size of tiles for the given number of bytes. A GPU works on some thousand tiles at a time. At
 * the end, the last tiles keep only a part of the GPU busy. Few tiles are therefore smaller; but
 * each tile takes some time of its own. */
static inline uint32_t tn_contents_tile_bits(uint64_t bytes)
{
    enum { MANY = 1 << 14 };
    uint32_t bits = TN_CONTENTS_TILE_BITS_MAX;

    while (bits > TN_CONTENTS_TILE_BITS_MIN && bytes >> bits < MANY)
        bits -= 1;
    return bits;
}

static inline uint64_t tn_contents_tiles(uint64_t bytes, uint32_t tile_bits)
{
    TN_ASSERT(bytes > 0);
    return ((bytes - 1) >> tile_bits) + 1;
}

#endif
