// SPDX-License-Identifier: Apache-2.0
/* torch_host_allocator.h -- PyTorch's caching allocator of page-locked memory.
 *
 * Whatever fails ends the program with PyTorch's own sentence. */
#ifndef TARN_BENCH_TORCH_HOST_ALLOCATOR_H
#define TARN_BENCH_TORCH_HOST_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct torch_host_block {
    void *address;
    void *context; /* the allocator's own */
    void (*release)(void *context);
};

struct torch_host_block torch_host_allocate(size_t bytes);
void torch_host_free(struct torch_host_block block);
void torch_host_use(struct torch_host_block block, void *stream); /* as Tensor.record_stream */

/* All memory that is free goes back to the driver, and peaks begin anew. */
void torch_host_empty(void);
void torch_host_get_peaks(uint64_t *reserved, uint64_t *allocated);

/* What another thread does meanwhile: sets bytes of the device's memory, and waits for that. */
void *torch_device_allocate(size_t bytes);
void torch_device_set(void *memory, size_t bytes, void *stream);

#ifdef __cplusplus
}
#endif
#endif
