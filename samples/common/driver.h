// SPDX-License-Identifier: Apache-2.0
/* driver.h -- what the samples need besides Tarn: a driver, a context, streams, kernels, copies.
 *
 * A program of yours has these already, from the CUDA runtime or the driver API. The samples load
 * the driver themselves, so that they build without a CUDA toolkit and run without a GPU. Nothing
 * here allocates device memory: that is Tarn's part.
 *
 * Every function prints what went wrong and exits with 1 when the driver refuses a call. */
#ifndef SAMPLES_COMMON_DRIVER_H
#define SAMPLES_COMMON_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "tarn/sim.h"
#include "tarn/types.h"

/* Checks a call of Tarn: anything but TARN_OK is printed with its sentence and ends the sample. */
#define CHECK(call) sample_check((call), #call, __FILE__, __LINE__)
void sample_check(tarn_status status, const char *call, const char *file, int line);

/* Checks a result of the sample itself, in the same way. */
#define REQUIRE(condition) sample_require((condition), #condition, __FILE__, __LINE__)
void sample_require(bool holds, const char *condition, const char *file, int line);

/* Chooses and loads the driver and makes the primary context of device 0 current. To be called
 * before tarn_device_open: it sets TARN_DRIVER=sim where there is no GPU, and says so. */
void sample_driver_open(void);
void sample_driver_close(void);

/* Makes the same context current on another thread of the program. */
void sample_thread_open(void);

/* A stream that never waits for the legacy default stream. */
tarn_stream sample_stream_create(void);
void sample_stream_destroy(tarn_stream stream);
void sample_synchronize(tarn_stream stream);

/* Makes later work on `then` wait for the work that is on `first` now. Across a capturing stream
 * this forks the capture to another stream, or joins it again. */
void sample_order(tarn_stream first, tarn_stream then);

/* A program's own capture, as it would call the driver or the runtime itself. */
void sample_begin_capture(tarn_stream stream);
tarn_driver_graph sample_end_capture(tarn_stream stream);

/* The driver's own memory, which is none of Tarn's. */
void *sample_device_alloc(size_t bytes);
void sample_device_free(void *device);

/* Copies between host and device. To the device the copy is only enqueued: leave the source alone
 * until the stream has been synchronized. To the host the bytes are there on return. */
void sample_copy_to_device(tarn_stream stream, void *device, const void *host, size_t bytes);
void sample_copy_to_host(tarn_stream stream, void *host, const void *device, size_t bytes);

/* The first float of the block, when the stream's work is done. */
float sample_first(tarn_stream stream, const void *device);

/* Sets each of so many bytes. */
void sample_set(tarn_stream stream, void *device, unsigned char value, size_t bytes);

/* A kernel, loaded from PTX text. The twin is what runs in its place on the simulated driver. */
typedef struct sample_kernel {
    struct CUmod_st *module;
    struct CUfunc_st *function;
} sample_kernel;

sample_kernel sample_kernel_load(const char *ptx, const char *entry, tarn_sim_kernel twin);
void sample_kernel_unload(sample_kernel kernel);

/* Launches at least that many threads. params[i] points to the i-th parameter. */
void sample_launch(tarn_stream stream, sample_kernel kernel, size_t threads, void **params);

#endif
