// SPDX-License-Identifier: Apache-2.0
/* sanitizer.h -- linear memory for a device's pools, and the bytes that a tool lets kernels use.
 *
 * compute-sanitizer knows no parts of mapped memory, so the pools get linear memory
 * (docs/sanitizer.md). Each live block is a region of the tool's, with the bytes that were requested.
 * Memory of a freed block stays usable while a graph holds it, since replays may write there. A block that gets part of this memory has the kept bytes of its last 512 bytes, too.
 *
 *   D7  regions of one slab do not overlap, and begin at multiples of 512 bytes
 *
 * Locking: the TOOL lock, taken inside. Adding and removing waits for nothing. */
#ifndef TARN_DRIVER_SANITIZER_H
#define TARN_DRIVER_SANITIZER_H

#include "driver/gpu.h"

struct tn_slab;

struct tn_sanitizer {
    struct tn_lock lock;   /* rank TOOL */
    struct tn_slab *slabs; /* guarded by lock */
};

/* Begins: from now on the GPU's pools have linear memory.
 *   HOST_MEMORY; NOT_SUPPORTED: no tool is there that checks memory */
TARN_MUST_CHECK tarn_status tn_sanitizer_open(struct tn_gpu *gpu);
void tn_sanitizer_close(struct tn_gpu *gpu); /* every slab was given back */

/* Linear memory, aligned to a slot, without a usable byte.
 *   HOST_MEMORY, DEVICE_MEMORY, DEVICE_LOST, DRIVER */
TARN_MUST_CHECK tarn_status tn_sanitizer_take(struct tn_gpu *gpu, uint64_t bytes, uint64_t *base);
void tn_sanitizer_give(struct tn_gpu *gpu, uint64_t base);

/* The bytes are usable, or not any more. keeps: they stay usable until they are dropped. Addresses
 * outside slabs are passed over. */
void tn_sanitizer_enter(struct tn_gpu *gpu, uint64_t base, uint64_t bytes);
void tn_sanitizer_leave(struct tn_gpu *gpu, uint64_t base, bool keeps);

/* Drops what is kept in the range; all: what is not kept, too. */
void tn_sanitizer_drop(struct tn_gpu *gpu, uint64_t base, uint64_t bytes, bool all);

static inline bool tn_gpu_is_linear(const struct tn_gpu *gpu)
{
    return TN_UNLIKELY(gpu->sanitizer != NULL);
}

#endif
