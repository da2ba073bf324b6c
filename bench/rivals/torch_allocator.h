// SPDX-License-Identifier: Apache-2.0
/* torch_allocator.h -- PyTorch's caching allocator of CUDA device 0, without the rest of PyTorch.
 *
 * Whatever fails ends the program with PyTorch's own sentence. */
#ifndef TARN_BENCH_TORCH_ALLOCATOR_H
#define TARN_BENCH_TORCH_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct torch_device {
    char name[256];
    int driver_version; /* 13000 is CUDA 13.0 */
};

/* Once, before everything else. */
void torch_open(struct torch_device *device);
void torch_enter_thread(void); /* once on each other thread */

void *torch_stream_create(void); /* one that never waits for the legacy default stream */
void torch_stream_destroy(void *stream);
void torch_stream_drain(void *stream);

void *torch_allocate(size_t bytes, void *stream);
void torch_free(void *address);
void torch_use(void *address, void *stream); /* as Tensor.record_stream */

/* From now on, PyTorch records the last entries of its history, without stacks, or nothing. */
void torch_record(bool record);

/* All memory that is free goes back to the driver, and peaks begin anew. */
void torch_empty(void);
void torch_get_peaks(uint64_t *reserved, uint64_t *allocated);
size_t torch_free_bytes(void); /* of the device */

#ifdef __cplusplus
}
#endif
#endif
