// SPDX-License-Identifier: Apache-2.0
/* driver.h -- the benchmark's own side of the driver: streams, launches, and the driver's allocator
 * as a rival.
 *
 * The driver is the one that TARN_DRIVER names, as the library loads it. Where there is no GPU and
 * TARN_DRIVER is not set the benchmark chooses the simulator, and says so. */
#ifndef TARN_BENCH_DRIVER_H
#define TARN_BENCH_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/functions.h"
#include "tarn/sim.h"
#include "tarn/tarn.h"

/* The functions that the benchmark calls besides those of the rival. */
#define BENCH_DRIVER_FUNCTIONS(X)                                                                  \
    X(cuInit)                                                                                      \
    X(cuDriverGetVersion)                                                                          \
    X(cuGetErrorName)                                                                              \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuCtxSetCurrent)                                                                             \
    X(cuCtxEnablePeerAccess)                                                                       \
    X(cuCtxDisablePeerAccess)                                                                      \
    X(cuStreamCreate)                                                                              \
    X(cuStreamDestroy)                                                                             \
    X(cuStreamGetId)                                                                               \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamWaitEvent)                                                                           \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamBeginCaptureToGraph)                                                                 \
    X(cuStreamEndCapture)                                                                          \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuEventDestroy)                                                                              \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemAddressFree)                                                                            \
    X(cuMemCreate)                                                                                 \
    X(cuMemRelease)                                                                                \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemExportToShareableHandle)                                                                \
    X(cuMemImportFromShareableHandle)                                                              \
    X(cuMemSetAccess)                                                                              \
    X(cuMemGetInfo)                                                                                \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemcpyAsync)                                                                               \
    X(cuMemsetD8Async)                                                                             \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)                                                                              \
    X(cuGraphCreate)                                                                               \
    X(cuGraphDestroy)                                                                              \
    X(cuGraphGetNodes)                                                                             \
    X(cuGraphNodeGetType)                                                                          \
    X(cuGraphKernelNodeGetParams)                                                                  \
    X(cuGraphInstantiateWithFlags)                                                                 \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGraphLaunch)

/* The driver's allocator: in every driver since CUDA 11.2. */
#define BENCH_RIVAL_FUNCTIONS(X)                                                                   \
    X(cuDeviceGetDefaultMemPool)                                                                   \
    X(cuMemPoolSetAttribute)                                                                       \
    X(cuMemPoolGetAttribute)                                                                       \
    X(cuMemPoolTrimTo)                                                                             \
    X(cuMemAllocAsync)                                                                             \
    X(cuMemAllocFromPoolAsync)                                                                     \
    X(cuMemFreeAsync)

/* Pools of the driver's for other memory: no condition of the rival. */
#define BENCH_POOL_FUNCTIONS(X)                                                                    \
    X(cuMemPoolCreate)                                                                             \
    X(cuMemPoolDestroy)

/* Set by bench_driver_open, and not changed while anything is measured. */
struct bench_driver {
#define BENCH_DRIVER_FIELD(name) tn_pfn_##name name;
    BENCH_DRIVER_FUNCTIONS(BENCH_DRIVER_FIELD)
    BENCH_RIVAL_FUNCTIONS(BENCH_DRIVER_FIELD)
    BENCH_POOL_FUNCTIONS(BENCH_DRIVER_FIELD)
#undef BENCH_DRIVER_FIELD
#define BENCH_DRIVER_FIELD(own, name, symbol, version, parameters, names) tn_pfn_##own own;
    TN_CUDA_LIBRARY_VERSIONS(BENCH_DRIVER_FIELD)
#undef BENCH_DRIVER_FIELD
    /* cuMemPoolSetAccess, which nothing else calls; NULL: this driver has none */
    tn_cu_result (*set_pool_access)(tn_cu_mempool pool, const tn_cu_access_desc *access,
                                    size_t count);
    tn_cu_device device;
    tn_cu_context context;
    tn_cu_mempool rival_pool; /* the device's default memory pool; NULL: no rival here */
    int version;              /* 13000 is CUDA 13.0 */
    bool simulated;
    /* The driver's account of its own time (tarn/sim.h); NULL where it has none. */
    void (*read_account)(const char *function, tarn_sim_cost *cost);
    void (*reset_account)(void);
    void (*hold_work)(void); /* as tarn_sim_hold_work; NULL as well */
    void (*resume_work)(void);
    void (*set_queries)(int how); /* as tarn_sim_set_queries; NULL as well */
    int (*register_kernel)(const char *entry, tarn_sim_kernel twin); /* as well */
    char device_name[128];
};
extern struct bench_driver cu;

/* Loads the driver and makes device 0's primary context current. To be called before
 * tarn_device_open, since it may set TARN_DRIVER. */
void bench_driver_open(void);
void bench_driver_close(void);

/* Makes the same context current on another thread: the rival needs one, Tarn does not. */
void bench_driver_enter_thread(void);

tarn_stream bench_stream_create(void); /* one that never waits for the legacy default stream */
void bench_stream_destroy(tarn_stream stream);
void bench_stream_drain(tarn_stream stream); /* waits until it is idle */

/* What the rival's pool has left goes back to the driver, and its peaks begin anew. */
void bench_rival_empty(void);
void bench_rival_get_peaks(uint64_t *reserved, uint64_t *allocated);

/* A kernel of one thread that writes one word: about the least that a graph can do with memory. */
void bench_touch_load(void);
void bench_touch_unload(void);
void bench_touch_launch(tarn_stream stream, void *word);

/* Check a call of the driver or of Tarn; anything but success ends the program with a sentence. */
#define BENCH_CU(call) bench_check_driver((call), #call)
#define BENCH_OK(call) bench_check_tarn((call), #call)
void bench_check_driver_failed(tn_cu_result result, const char *call);
void bench_check_tarn_failed(tarn_status status, const char *call);

static inline void bench_check_driver(tn_cu_result result, const char *call)
{
    if (result != TN_CUDA_SUCCESS)
        bench_check_driver_failed(result, call);
}

static inline void bench_check_tarn(tarn_status status, const char *call)
{
    if (status != TARN_OK)
        bench_check_tarn_failed(status, call);
}

#endif
