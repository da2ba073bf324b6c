// SPDX-License-Identifier: Apache-2.0
/* Functions are asked for by base name and version, as Tarn asks for them: the version pins the
 * signature. Both load the library by the same name, and so share it and the primary context. */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* version_cuInit = 2000, and so on. */
enum {
#define FUNCTION_VERSION(name, symbol, version, parameters, names) version_##name = version,
    TN_CUDA_ALL_FUNCTIONS(FUNCTION_VERSION)
#undef FUNCTION_VERSION
};

enum { SET_POOL_ACCESS_VERSION = 11020 };

struct bench_driver cu;

static tn_cu_module touch_module;
static tn_cu_function touch_kernel;

static const char touch_ptx[] = ".version 7.0\n"
                                ".target sm_70\n"
                                ".address_size 64\n"
                                ".visible .entry tarn_bench_touch(.param .u64 word)\n"
                                "{\n"
                                "    .reg .b32 %r;\n"
                                "    .reg .b64 %d;\n"
                                "    ld.param.u64 %d, [word];\n"
                                "    cvta.to.global.u64 %d, %d;\n"
                                "    mov.u32 %r, 1;\n"
                                "    st.global.u32 [%d], %r;\n"
                                "    ret;\n"
                                "}\n";

static void touch_twin(const tarn_sim_launch *launch, void *const *params)
{
    uint32_t *word;

    (void)launch;
    memcpy(&word, params[0], sizeof word);
    *word = 1;
}

void bench_check_driver_failed(tn_cu_result result, const char *call)
{
    const char *name = NULL;

    (void)cu.cuGetErrorName(result, &name);
    bench_fail("%s: %s", call, name != NULL ? name : "unknown driver error");
}

void bench_check_tarn_failed(tarn_status status, const char *call)
{
    bench_fail("%s: %s: %s", call, tarn_status_name(status), tarn_last_error());
}

/* C has no conversion from an object pointer to a function pointer; POSIX promises that the bytes
 * mean the same. */
#define STORE_FUNCTION(pointer, address) memcpy(&(pointer), &(address), sizeof(pointer))

/* Whether there is a library of CUDA, and at least one GPU that it can use. */
static bool gpu_present(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    tn_pfn_cuInit init;
    tn_pfn_cuDeviceGetCount get_count;
    void *init_address;
    void *get_count_address;
    int count = 0;

    if (library == NULL)
        return false;
    init_address = dlsym(library, "cuInit");
    get_count_address = dlsym(library, "cuDeviceGetCount");
    STORE_FUNCTION(init, init_address);
    STORE_FUNCTION(get_count, get_count_address);
    return init != NULL && get_count != NULL && init(0) == TN_CUDA_SUCCESS &&
           get_count(&count) == TN_CUDA_SUCCESS && count > 0;
}

static const char *choose_library(void)
{
    const char *choice = getenv("TARN_DRIVER");

    if (choice == NULL || choice[0] == '\0') {
        choice = "cuda";
        if (!gpu_present()) {
            (void)puts("no GPU found: measuring on Tarn's simulated driver");
            choice = "sim";
        }
        if (setenv("TARN_DRIVER", choice, 1) != 0)
            bench_fail("TARN_DRIVER: the environment has no room left");
    }
    if (strcmp(choice, "cuda") == 0)
        return "libcuda.so.1";
    if (strcmp(choice, "sim") == 0)
        return "libtarn_sim.so";
    return choice;
}

static void load_functions(void *library, const char *name)
{
    tn_pfn_cuGetProcAddress resolve;
    void *address = dlsym(library, "cuGetProcAddress_v2");

    if (address == NULL)
        bench_fail("%s has no cuGetProcAddress_v2: this driver is older than CUDA 12", name);
    STORE_FUNCTION(resolve, address);

    /* On failure the driver may leave the address as it was. */
#define FIND_AS(own, function, version)                                                            \
    address = NULL;                                                                                \
    if (resolve(#function, &address, version, TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) !=       \
        TN_CUDA_SUCCESS)                                                                           \
        address = NULL;                                                                            \
    STORE_FUNCTION(cu.own, address);
#define FIND(function) FIND_AS(function, function, version_##function)
#define FIND_VERSION(own, function, symbol, version, parameters, names)                            \
    FIND_AS(own, function, version)
#define FIND_NEEDED(function)                                                                      \
    FIND(function)                                                                                 \
    if (address == NULL)                                                                           \
        bench_fail("%s lacks " #function, name);
    BENCH_DRIVER_FUNCTIONS(FIND_NEEDED)
    BENCH_RIVAL_FUNCTIONS(FIND)
    BENCH_POOL_FUNCTIONS(FIND)
    TN_CUDA_LIBRARY_VERSIONS(FIND_VERSION)
    address = NULL;
    if (resolve("cuMemPoolSetAccess", &address, SET_POOL_ACCESS_VERSION,
                TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL) != TN_CUDA_SUCCESS)
        address = NULL;
    STORE_FUNCTION(cu.set_pool_access, address);
#undef FIND_NEEDED
#undef FIND_VERSION
#undef FIND
#undef FIND_AS
}

/* Keeps freed memory in the rival's pool, as Tarn keeps it: at its default threshold of 0 the pool
 * gives everything back at each synchronization. */
static void open_rival(void)
{
    uint64_t threshold = UINT64_MAX;
    bool complete = true;

#define FOUND(function) complete = complete && cu.function != NULL;
    BENCH_RIVAL_FUNCTIONS(FOUND)
#undef FOUND
    if (!complete || cu.cuDeviceGetDefaultMemPool(&cu.rival_pool, cu.device) != TN_CUDA_SUCCESS) {
        cu.rival_pool = NULL;
        return;
    }
    BENCH_CU(
        cu.cuMemPoolSetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

/* The control functions, which the simulated driver and the call recorder have. */
static void find_controls(void *library)
{
    void *address = dlsym(library, "tarn_sim_register_kernel");

    if (address == NULL)
        return;
    STORE_FUNCTION(cu.register_kernel, address);
    if (cu.register_kernel("tarn_bench_touch", touch_twin) != 0)
        bench_fail("the simulated driver does not take the kernel's twin");
    address = dlsym(library, "tarn_sim_read_account");
    STORE_FUNCTION(cu.read_account, address);
    address = dlsym(library, "tarn_sim_reset_account");
    STORE_FUNCTION(cu.reset_account, address);
    address = dlsym(library, "tarn_sim_hold_work");
    STORE_FUNCTION(cu.hold_work, address);
    address = dlsym(library, "tarn_sim_resume_work");
    STORE_FUNCTION(cu.resume_work, address);
    address = dlsym(library, "tarn_sim_set_queries");
    STORE_FUNCTION(cu.set_queries, address);
}

void bench_driver_open(void)
{
    const char *name = choose_library();
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        bench_fail("the driver cannot be loaded: %s", dlerror());
    load_functions(library, name);
    BENCH_CU(cu.cuInit(0));
    BENCH_CU(cu.cuDeviceGet(&cu.device, 0));
    BENCH_CU(cu.cuDriverGetVersion(&cu.version));
    BENCH_CU(cu.cuDeviceGetName(cu.device_name, (int)sizeof cu.device_name, cu.device));
    BENCH_CU(cu.cuDevicePrimaryCtxRetain(&cu.context, cu.device));
    BENCH_CU(cu.cuCtxSetCurrent(cu.context));
    cu.simulated = strcmp(cu.device_name, "Tarn simulated GPU") == 0;
    find_controls(library);
    open_rival();
}

void bench_driver_close(void)
{
    BENCH_CU(cu.cuCtxSetCurrent(NULL));
    BENCH_CU(cu.cuDevicePrimaryCtxRelease(cu.device));
    /* The library stays loaded: drivers have threads of their own and do not like to be closed. */
}

void bench_driver_enter_thread(void)
{
    BENCH_CU(cu.cuCtxSetCurrent(cu.context));
}

tarn_stream bench_stream_create(void)
{
    tarn_stream stream = NULL;

    BENCH_CU(cu.cuStreamCreate(&stream, TN_CU_STREAM_NON_BLOCKING));
    return stream;
}

void bench_stream_destroy(tarn_stream stream)
{
    BENCH_CU(cu.cuStreamDestroy(stream));
}

void bench_stream_drain(tarn_stream stream)
{
    BENCH_CU(cu.cuStreamSynchronize(stream));
}

/* Peaks can be set to 0, and to nothing else. */
void bench_rival_empty(void)
{
    uint64_t zero = 0;

    BENCH_CU(cu.cuMemPoolTrimTo(cu.rival_pool, 0));
    BENCH_CU(cu.cuMemPoolSetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_RESERVED_HIGH, &zero));
    BENCH_CU(cu.cuMemPoolSetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_USED_HIGH, &zero));
}

void bench_rival_get_peaks(uint64_t *reserved, uint64_t *allocated)
{
    BENCH_CU(cu.cuMemPoolGetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_RESERVED_HIGH, reserved));
    BENCH_CU(cu.cuMemPoolGetAttribute(cu.rival_pool, TN_CU_POOL_ATTR_USED_HIGH, allocated));
}

void bench_touch_load(void)
{
    BENCH_CU(cu.cuModuleLoadData(&touch_module, touch_ptx));
    BENCH_CU(cu.cuModuleGetFunction(&touch_kernel, touch_module, "tarn_bench_touch"));
}

void bench_touch_unload(void)
{
    BENCH_CU(cu.cuModuleUnload(touch_module));
}

void bench_touch_launch(tarn_stream stream, void *word)
{
    void *params[] = {&word};

    BENCH_CU(cu.cuLaunchKernel(touch_kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}
