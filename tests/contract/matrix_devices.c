// SPDX-License-Identifier: Apache-2.0
/* matrix_devices.c -- the rows of devices, contexts, modules and libraries. */
#include "contract/matrix.h"

/* A context that the calling thread makes is its current one; another thread could not undo that.
 * */
static tn_cu_result create_context(struct matrix_things *t)
{
    tn_cu_context popped;
    tn_cu_result result = cu.cuCtxCreate(&t->made_context, 0, 0);
    if (result == TN_CUDA_SUCCESS)
        cu.cuCtxPopCurrent(&popped);
    return result;
}

static tn_cu_result push(struct matrix_things *t)
{
    tn_cu_context popped;
    tn_cu_result result = cu.cuCtxPushCurrent(t->context);
    if (result == TN_CUDA_SUCCESS)
        cu.cuCtxPopCurrent(&popped);
    return result;
}

static tn_cu_result pop(struct matrix_things *t)
{
    tn_cu_context popped;
    cu.cuCtxPushCurrent(t->context);
    return cu.cuCtxPopCurrent(&popped);
}

/* The library that calls share; its code has been loaded. */
static void need_library(struct matrix_things *t)
{
    if (t->library != NULL)
        return;
    matrix_make_library(t);
    t->library = t->made_library;
    SET_UP(cuLibraryGetKernel(&t->kernel, t->library, "tarn_contract_nothing"));
    SET_UP(cuKernelGetFunction(&t->function, t->kernel));
}

static void load_kernel(struct matrix_things *t)
{
    matrix_make_kernel(t);
    SET_UP(cuKernelGetFunction(&t->function, t->made_kernel));
}

static tn_cu_result exchange_mode(void)
{
    tn_cu_capture_mode mode = TN_CU_CAPTURE_MODE_RELAXED;
    tn_cu_result result = cu.cuThreadExchangeStreamCaptureMode(&mode);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    return result;
}

// clang-format off
#define ROWS(X)                                                                                    \
    X(cuInit, false, FREE, , cu.cuInit(0), )                                                       \
    X(cuDriverGetVersion, false, FREE, , cu.cuDriverGetVersion(&t->number), )                      \
    X(cuGetErrorName, false, FREE, ,                                                               \
      cu.cuGetErrorName(TN_CUDA_ERROR_INVALID_VALUE, (const char **)&t->pointer), )                \
    X(cuGetErrorString, false, FREE, ,                                                             \
      cu.cuGetErrorString(TN_CUDA_ERROR_INVALID_VALUE, (const char **)&t->pointer), )              \
    X(cuGetProcAddress, false, FREE, ,                                                             \
      cu.cuGetProcAddress("cuInit", &t->pointer, 12000, 0, NULL), )                                \
    X(cuDeviceGet, false, FREE, , cu.cuDeviceGet(&t->number, 0), )                                 \
    X(cuDeviceGetCount, false, FREE, , cu.cuDeviceGetCount(&t->number), )                          \
    X(cuDeviceGetName, false, FREE, , cu.cuDeviceGetName(t->text, sizeof t->text, 0), )            \
    X(cuDeviceGetAttribute, false, FREE, ,                                                         \
      cu.cuDeviceGetAttribute(&t->number, TN_CU_ATTR_WARP_SIZE, 0), )                              \
    X(cuDeviceTotalMem, false, FREE, , cu.cuDeviceTotalMem(&t->bytes, 0), )                        \
    X(cuDeviceGetUuid, false, FREE, , cu.cuDeviceGetUuid((tn_cu_uuid *)t->text, 0), )              \
    X(cuDeviceCanAccessPeer, false, FREE, , cu.cuDeviceCanAccessPeer(&t->number, 0, 0), )          \
    X(cuDevicePrimaryCtxRetain, false, FREE, ,                                                     \
      cu.cuDevicePrimaryCtxRetain(&t->made_context, 0),                                            \
      if (done) SET_UP(cuDevicePrimaryCtxRelease(0)))                                              \
    X(cuDevicePrimaryCtxRelease, false, FREE, /* not the last one */                               \
      SET_UP(cuDevicePrimaryCtxRetain(&t->made_context, 0)), cu.cuDevicePrimaryCtxRelease(0),      \
      if (!done) SET_UP(cuDevicePrimaryCtxRelease(0)))                                             \
    X(cuDevicePrimaryCtxGetState, false, FREE, ,                                                   \
      cu.cuDevicePrimaryCtxGetState(0, (unsigned int *)&t->word, &t->number), )                    \
    X(cuDevicePrimaryCtxSetFlags, false, FREE, , cu.cuDevicePrimaryCtxSetFlags(0, 0), )            \
    X(cuCtxGetCurrent, false, FREE, , cu.cuCtxGetCurrent(&t->made_context), )                      \
    X(cuCtxSetCurrent, false, FREE, , cu.cuCtxSetCurrent(t->context), )                            \
    X(cuCtxPushCurrent, false, FREE, , push(t), )                                                  \
    X(cuCtxPopCurrent, false, FREE, , pop(t), )                                                    \
    X(cuCtxGetDevice, false, FREE, , cu.cuCtxGetDevice(&t->number), )                              \
    X(cuCtxSynchronize, true, FATAL, , cu.cuCtxSynchronize(), )                                    \
    X(cuCtxCreate, false, FREE, , create_context(t),                                               \
      if (done) SET_UP(cuCtxDestroy(t->made_context)))                                             \
    X(cuCtxDestroy, true, FREE,                                                                    \
      contract_set_up("cuCtxCreate(", create_context(t), __FILE__, __LINE__),                      \
      cu.cuCtxDestroy(t->made_context), if (!done) SET_UP(cuCtxDestroy(t->made_context)))          \
    X(cuCtxEnablePeerAccess, false, FREE_GIVING(PEER_ACCESS_UNSUPPORTED), ,                        \
      cu.cuCtxEnablePeerAccess(t->context, 0), )                                                   \
    X(cuCtxDisablePeerAccess, false, UNSAFE_GIVING(PEER_ACCESS_NOT_ENABLED), ,                     \
      cu.cuCtxDisablePeerAccess(t->context), )                                                     \
    X(cuThreadExchangeStreamCaptureMode, false, FREE, , exchange_mode(), )                         \
                                                                                                   \
    X(cuModuleLoadData, true, FREE, , cu.cuModuleLoadData(&t->module, matrix_ptx),                 \
      if (done) SET_UP(cuModuleUnload(t->module)))                                                 \
    X(cuModuleUnload, true, UNSAFE, SET_UP(cuModuleLoadData(&t->module, matrix_ptx)),              \
      cu.cuModuleUnload(t->module), if (!done) SET_UP(cuModuleUnload(t->module)))                  \
    X(cuModuleGetFunction, false, FREE, ,                                                          \
      cu.cuModuleGetFunction(&t->function, contract_kernels()->module, "tarn_contract_fill"), )    \
    X(cuFuncGetParamInfo, false, FREE, ,                                                           \
      cu.cuFuncGetParamInfo(contract_kernels()->fill, 0, &t->bytes, NULL), )                       \
    X(cuFuncGetName, false, FREE, ,                                                                \
      cu.cuFuncGetName((const char **)&t->pointer, contract_kernels()->fill), )                    \
    X(cuFuncGetModule, false, FREE, , cu.cuFuncGetModule(&t->module, contract_kernels()->fill), )  \
    X(cuLibraryLoadData, false, FREE, ,                                                            \
      cu.cuLibraryLoadData(&t->made_library, matrix_ptx, NULL, NULL, 0, NULL, NULL, 0),            \
      if (done) SET_UP(cuLibraryUnload(t->made_library)))                                          \
    X(cuLibraryUnload, false, UNSAFE, matrix_make_library(t), cu.cuLibraryUnload(t->made_library), \
      if (!done) SET_UP(cuLibraryUnload(t->made_library)))                                         \
    X(cuLibraryUnload_loaded, true, UNSAFE, load_kernel(t), cu.cuLibraryUnload(t->made_library),   \
      if (!done) SET_UP(cuLibraryUnload(t->made_library)))                                         \
    X(cuLibraryGetKernel, false, FREE, need_library(t),                                            \
      cu.cuLibraryGetKernel(&t->kernel, t->library, "tarn_contract_nothing"), )                    \
    X(cuKernelGetFunction, false, FREE, need_library(t),                                           \
      cu.cuKernelGetFunction(&t->function, t->kernel), )                                           \
    X(cuKernelGetFunction_first, true, FREE, matrix_make_kernel(t), /* it loads the code */        \
      cu.cuKernelGetFunction(&t->function, t->made_kernel),                                        \
      SET_UP(cuLibraryUnload(t->made_library)))                                                    \
    X(cuModuleGetFunction_first, false, FREE, SET_UP(cuModuleLoadData(&t->module, matrix_ptx)),    \
      cu.cuModuleGetFunction(&t->function, t->module, "tarn_contract_nothing"),                    \
      SET_UP(cuModuleUnload(t->module)))                                                           \
    X(cuKernelGetName, false, FREE, need_library(t),                                               \
      cu.cuKernelGetName((const char **)&t->pointer, t->kernel), )                                 \
    X(cuKernelGetParamInfo, false, FREE_GIVING(INVALID_VALUE), /* it has no parameters */          \
      need_library(t), cu.cuKernelGetParamInfo(t->kernel, 0, &t->bytes, NULL), )
// clang-format on

ROWS(MATRIX_DEFINE)
static const struct matrix_row rows[] = {ROWS(MATRIX_ENTRY)};
const struct matrix_table matrix_devices = {rows, sizeof rows / sizeof rows[0]};

/* -- What has no row: cuDevicePrimaryCtxReset destroys the context that all cases share -- */

struct reset_case {
    tn_cu_capture_mode mode; /* of the capture */
    bool other;              /* another thread resets */
};

static void reset(void *argument)
{
    tn_cu_result *result = argument;
    *result = cu.cuDevicePrimaryCtxReset(0);
}

static void reset_in_capture(const void *argument)
{
    const struct reset_case *c = argument;
    tn_cu_stream stream = contract_stream(TN_CU_STREAM_NON_BLOCKING);
    tn_cu_context context;
    tn_cu_deviceptr address;
    tn_cu_result got;
    SET_UP(cuStreamBeginCapture(stream, c->mode));
    if (c->other)
        contract_elsewhere(reset, &got);
    else
        reset(&got);
    contract_gives(TN_CUDA_SUCCESS, "cuDevicePrimaryCtxReset(", got);
    GIVES(CONTEXT_IS_DESTROYED, cuMemAlloc(&address, 4096));
    SET_UP(cuDevicePrimaryCtxRetain(&context, 0));
    SET_UP(cuCtxSetCurrent(context));
    GIVES(SUCCESS, cuMemAlloc(&address, 4096));
}

#define RESET_CASE(name, words, capture_mode, from_other)                                          \
    {                                                                                              \
        name, "A reset of the primary context " words " ends the capture with its context.",       \
            reset_in_capture,                                                                      \
            &(const struct reset_case){.mode = capture_mode, .other = from_other}, true            \
    }
static const struct contract_case reset_cases[] = {
    RESET_CASE("global.same", "by the thread of a global capture", TN_CU_CAPTURE_MODE_GLOBAL,
               false),
    RESET_CASE("global.other", "by another thread than a global capture's",
               TN_CU_CAPTURE_MODE_GLOBAL, true),
    RESET_CASE("relaxed.same", "by the thread of a relaxed capture", TN_CU_CAPTURE_MODE_RELAXED,
               false),
    RESET_CASE("relaxed.other", "by another thread than a relaxed capture's",
               TN_CU_CAPTURE_MODE_RELAXED, true),
};
const struct contract_group contract_matrix_reset = {
    "matrix-reset", START_CONTEXT,
    reset_cases,    sizeof reset_cases / sizeof reset_cases[0],
    NULL,           0};
