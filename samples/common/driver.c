// SPDX-License-Identifier: Apache-2.0
/* driver.c -- loads the CUDA driver as Tarn does, and wraps the few functions that samples use.
 *
 * The driver is loaded by the name that Tarn will load, so both share one library object and one
 * primary context. Functions are asked for by base name and version: the version pins the
 * signature, whatever the driver that is installed. */
#define _POSIX_C_SOURCE 200809L /* setenv */

#include "common/driver.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/functions.h"

/* The functions used here. Their types and versions come from abi/functions.h. */
#define SAMPLE_FUNCTIONS(X)                                                                        \
    X(cuInit)                                                                                      \
    X(cuGetErrorName)                                                                              \
    X(cuDeviceGet)                                                                                 \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuCtxSetCurrent)                                                                             \
    X(cuStreamCreate)                                                                              \
    X(cuStreamDestroy)                                                                             \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuStreamWaitEvent)                                                                           \
    X(cuEventCreate)                                                                               \
    X(cuEventRecord)                                                                               \
    X(cuEventDestroy)                                                                              \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuLaunchKernel)                                                                              \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemsetD8Async)                                                                             \
    X(cuMemcpyHtoDAsync)                                                                           \
    X(cuMemcpyDtoHAsync)

/* version_cuInit = 2000, and so on. */
enum {
#define FUNCTION_VERSION(name, symbol, version, parameters, names) version_##name = version,
    TN_CUDA_LIBRARY_FUNCTIONS(FUNCTION_VERSION) TN_CUDA_PROGRAM_FUNCTIONS(FUNCTION_VERSION)
#undef FUNCTION_VERSION
};

enum { THREADS_PER_BLOCK = 128 };

/* Set once by sample_driver_open. */
static struct {
    void *library;
    tn_cu_device device;
    tn_cu_context context;
#define FUNCTION_POINTER(name) tn_pfn_##name name;
    SAMPLE_FUNCTIONS(FUNCTION_POINTER)
#undef FUNCTION_POINTER
    int (*register_twin)(const char *entry, tarn_sim_kernel twin); /* NULL on a real driver */
} driver;

void sample_check(tarn_status status, const char *call, const char *file, int line)
{
    if (status == TARN_OK) {
        return;
    }
    fprintf(stderr, "%s:%d: %s\n    %s: %s\n", file, line, call, tarn_status_name(status),
            tarn_last_error());
    exit(1);
}

void sample_require(bool holds, const char *condition, const char *file, int line)
{
    if (!holds) {
        fprintf(stderr, "%s:%d: this does not hold: %s\n", file, line, condition);
        exit(1);
    }
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

/* Checks a call of the driver. */
static void must(tn_cu_result result, const char *what)
{
    if (result == TN_CUDA_SUCCESS) {
        return;
    }
    const char *name = NULL;
    (void)driver.cuGetErrorName(result, &name);
    fail(what, name != NULL ? name : "unknown driver error");
}

/* C has no conversion from an object pointer to a function pointer; POSIX promises that the bytes
 * mean the same. */
#define STORE_FUNCTION(pointer, address) memcpy(&(pointer), &(address), sizeof(pointer))

/* Whether there is a library of CUDA, and at least one GPU that it can use. */
static bool gpu_present(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return false;
    }
    tn_pfn_cuInit init = NULL;
    tn_pfn_cuDeviceGetCount get_count = NULL;
    void *init_address = dlsym(library, "cuInit");
    void *get_count_address = dlsym(library, "cuDeviceGetCount");
    STORE_FUNCTION(init, init_address);
    STORE_FUNCTION(get_count, get_count_address);

    int count = 0;
    return init != NULL && get_count != NULL && init(0) == TN_CUDA_SUCCESS &&
           get_count(&count) == TN_CUDA_SUCCESS && count > 0;
}

/* What to load, by the rules of TARN_DRIVER. Tarn itself never falls back to the simulator: work
 * that silently runs on a simulated GPU is worse than an error. A sample may, and says so. */
static const char *choose_library(void)
{
    const char *choice = getenv("TARN_DRIVER");
    if (choice == NULL || choice[0] == '\0') {
        choice = "cuda";
        if (!gpu_present()) {
            printf("no GPU found: running on Tarn's simulated driver\n");
            choice = "sim";
        }
        if (setenv("TARN_DRIVER", choice, 1) != 0) {
            fail("TARN_DRIVER", "the environment has no room left");
        }
    }
    if (strcmp(choice, "cuda") == 0) {
        return "libcuda.so.1";
    }
    if (strcmp(choice, "sim") == 0) {
        return "libtarn_sim.so";
    }
    return choice;
}

static void load_functions(void)
{
    const char *name = choose_library();
    driver.library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (driver.library == NULL) {
        fail("the driver cannot be loaded", dlerror());
    }
    tn_pfn_cuGetProcAddress get_address = NULL;
    void *address = dlsym(driver.library, "cuGetProcAddress_v2");
    if (address == NULL) {
        fail(name, "no cuGetProcAddress_v2: this driver is older than CUDA 12");
    }
    STORE_FUNCTION(get_address, address);

#define RESOLVE(function)                                                                          \
    address = NULL;                                                                                \
    if (get_address(#function, &address, version_##function, TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, \
                    NULL) != TN_CUDA_SUCCESS ||                                                    \
        address == NULL) {                                                                         \
        fail(name, "the driver lacks " #function);                                                 \
    }                                                                                              \
    STORE_FUNCTION(driver.function, address);
    SAMPLE_FUNCTIONS(RESOLVE)
#undef RESOLVE

    address = dlsym(driver.library, "tarn_sim_register_kernel");
    STORE_FUNCTION(driver.register_twin, address);
}

void sample_driver_open(void)
{
    load_functions();
    must(driver.cuInit(0), "cuInit");
    must(driver.cuDeviceGet(&driver.device, 0), "cuDeviceGet");

    must(driver.cuDevicePrimaryCtxRetain(&driver.context, driver.device),
         "cuDevicePrimaryCtxRetain");
    sample_thread_open();
}

void sample_thread_open(void)
{
    must(driver.cuCtxSetCurrent(driver.context), "cuCtxSetCurrent");
}

void sample_driver_close(void)
{
    must(driver.cuCtxSetCurrent(NULL), "cuCtxSetCurrent");
    must(driver.cuDevicePrimaryCtxRelease(driver.device), "cuDevicePrimaryCtxRelease");
    /* The library stays loaded: drivers have threads of their own and do not like to be closed. */
}

tarn_stream sample_stream_create(void)
{
    tarn_stream stream = NULL;
    must(driver.cuStreamCreate(&stream, TN_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
}

void sample_stream_destroy(tarn_stream stream)
{
    must(driver.cuStreamDestroy(stream), "cuStreamDestroy");
}

void sample_synchronize(tarn_stream stream)
{
    must(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

void sample_order(tarn_stream first, tarn_stream then)
{
    tn_cu_event event = NULL;
    must(driver.cuEventCreate(&event, TN_CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    must(driver.cuEventRecord(event, first), "cuEventRecord");
    must(driver.cuStreamWaitEvent(then, event, 0), "cuStreamWaitEvent");
    must(driver.cuEventDestroy(event), "cuEventDestroy");
}

void sample_begin_capture(tarn_stream stream)
{
    must(driver.cuStreamBeginCapture(stream, TN_CU_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
}

tarn_driver_graph sample_end_capture(tarn_stream stream)
{
    tarn_driver_graph graph = NULL;
    must(driver.cuStreamEndCapture(stream, &graph), "cuStreamEndCapture");
    return graph;
}

void *sample_device_alloc(size_t bytes)
{
    tn_cu_deviceptr address = 0;
    must(driver.cuMemAlloc(&address, bytes), "cuMemAlloc");
    return (void *)(uintptr_t)address;
}

void sample_device_free(void *device)
{
    must(driver.cuMemFree((tn_cu_deviceptr)(uintptr_t)device), "cuMemFree");
}

void sample_copy_to_device(tarn_stream stream, void *device, const void *host, size_t bytes)
{
    tn_cu_deviceptr destination = (tn_cu_deviceptr)(uintptr_t)device;
    must(driver.cuMemcpyHtoDAsync(destination, host, bytes, stream), "cuMemcpyHtoDAsync");
}

void sample_copy_to_host(tarn_stream stream, void *host, const void *device, size_t bytes)
{
    tn_cu_deviceptr source = (tn_cu_deviceptr)(uintptr_t)device;
    must(driver.cuMemcpyDtoHAsync(host, source, bytes, stream), "cuMemcpyDtoHAsync");
    sample_synchronize(stream);
}

float sample_first(tarn_stream stream, const void *device)
{
    float first;
    sample_copy_to_host(stream, &first, device, sizeof first);
    return first;
}

void sample_set(tarn_stream stream, void *device, unsigned char value, size_t bytes)
{
    tn_cu_deviceptr destination = (tn_cu_deviceptr)(uintptr_t)device;
    must(driver.cuMemsetD8Async(destination, value, bytes, stream), "cuMemsetD8Async");
}

sample_kernel sample_kernel_load(const char *ptx, const char *entry, tarn_sim_kernel twin)
{
    if (driver.register_twin != NULL && driver.register_twin(entry, twin) != 0) {
        fail(entry, "the simulated driver does not take its twin");
    }
    sample_kernel kernel = {NULL, NULL};
    must(driver.cuModuleLoadData(&kernel.module, ptx), entry);
    must(driver.cuModuleGetFunction(&kernel.function, kernel.module, entry), entry);
    return kernel;
}

void sample_kernel_unload(sample_kernel kernel)
{
    must(driver.cuModuleUnload(kernel.module), "cuModuleUnload");
}

void sample_launch(tarn_stream stream, sample_kernel kernel, size_t threads, void **params)
{
    unsigned int blocks = (unsigned int)((threads + THREADS_PER_BLOCK - 1) / THREADS_PER_BLOCK);
    must(driver.cuLaunchKernel(kernel.function, blocks, 1, 1, THREADS_PER_BLOCK, 1, 1, 0, stream,
                               params, NULL),
         "cuLaunchKernel");
}
