// SPDX-License-Identifier: Apache-2.0
/* entry.c -- the exported functions, and how programs find them.
 *
 * How it works. Exports and the table behind cuGetProcAddress are made from two lists. The first is
 * the list of abi/functions.h: no function can be missing or differ from the library's calls. The
 * second has the versions with other signatures (versions.h). A program asks for a version of a
 * name. It gets the newest version that is not newer than this, as from the driver.
 *
 * Functions with a default stream have a twin, with _ptsz or _ptds behind the symbol. The twin's
 * default stream is the calling thread's own. Programs compiled for per-thread default streams call
 * the twins, and cuGetProcAddress gives twins to programs that ask for them. A function has a twin
 * if DEFAULT_STREAM_<symbol> is defined.
 *
 * Trade-offs. A function with the same signature in several versions exists once. The first
 * versions, from before CUDA 4, with 32-bit addresses, do not exist. */
#include <string.h>

#include "sim/entry/call.h"
#include "sim/entry/versions.h"

#define FIRST_PER_THREAD 7000
#define KNOWN_FLAGS                                                                                \
    ((uint64_t)(TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM |                                             \
                TN_CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM))

#define EXPORTED __attribute__((visibility("default")))

// clang-format off
/* The functions whose symbol has a per-thread twin: `~,` and the suffix of the twin. */
#define DEFAULT_STREAM_cuMemcpy ~, _ptds
#define DEFAULT_STREAM_cuMemcpyHtoD_v2 ~, _ptds
#define DEFAULT_STREAM_cuMemcpyDtoH_v2 ~, _ptds
#define DEFAULT_STREAM_cuMemcpyDtoD_v2 ~, _ptds
#define DEFAULT_STREAM_cuMemsetD8_v2 ~, _ptds
#define DEFAULT_STREAM_cuMemsetD32_v2 ~, _ptds
#define DEFAULT_STREAM_cuLaunchKernelEx ~, _ptsz_within
#define DEFAULT_STREAM_cuGraphInstantiateWithParams ~, _ptsz_within
#define DEFAULT_STREAM_cuMemcpyAsync ~, _ptsz
#define DEFAULT_STREAM_cuMemcpyHtoDAsync_v2 ~, _ptsz
#define DEFAULT_STREAM_cuMemcpyDtoHAsync_v2 ~, _ptsz
#define DEFAULT_STREAM_cuMemcpyDtoDAsync_v2 ~, _ptsz
#define DEFAULT_STREAM_cuMemcpyBatchAsync ~, _ptsz
#define DEFAULT_STREAM_cuMemcpyBatchAsync_v2 ~, _ptsz
#define DEFAULT_STREAM_cuMemsetD8Async ~, _ptsz
#define DEFAULT_STREAM_cuMemsetD32Async ~, _ptsz
#define DEFAULT_STREAM_cuStreamGetPriority ~, _ptsz
#define DEFAULT_STREAM_cuStreamGetFlags ~, _ptsz
#define DEFAULT_STREAM_cuStreamGetId ~, _ptsz
#define DEFAULT_STREAM_cuStreamGetCtx ~, _ptsz
#define DEFAULT_STREAM_cuStreamWaitEvent ~, _ptsz
#define DEFAULT_STREAM_cuStreamAddCallback ~, _ptsz
#define DEFAULT_STREAM_cuStreamQuery ~, _ptsz
#define DEFAULT_STREAM_cuStreamSynchronize ~, _ptsz
#define DEFAULT_STREAM_cuStreamWriteValue32_v2 ~, _ptsz
#define DEFAULT_STREAM_cuStreamWriteValue64_v2 ~, _ptsz
#define DEFAULT_STREAM_cuStreamWaitValue32_v2 ~, _ptsz
#define DEFAULT_STREAM_cuStreamWaitValue64_v2 ~, _ptsz
#define DEFAULT_STREAM_cuStreamBatchMemOp_v2 ~, _ptsz
#define DEFAULT_STREAM_cuStreamBeginCapture ~, _ptsz
#define DEFAULT_STREAM_cuStreamBeginCapture_v2 ~, _ptsz
#define DEFAULT_STREAM_cuStreamBeginCaptureToGraph ~, _ptsz
#define DEFAULT_STREAM_cuStreamEndCapture ~, _ptsz
#define DEFAULT_STREAM_cuStreamIsCapturing ~, _ptsz
#define DEFAULT_STREAM_cuStreamGetCaptureInfo ~, _ptsz
#define DEFAULT_STREAM_cuStreamGetCaptureInfo_v2 ~, _ptsz
#define DEFAULT_STREAM_cuStreamGetCaptureInfo_v3 ~, _ptsz
#define DEFAULT_STREAM_cuStreamUpdateCaptureDependencies ~, _ptsz
#define DEFAULT_STREAM_cuStreamUpdateCaptureDependencies_v2 ~, _ptsz
#define DEFAULT_STREAM_cuEventRecord ~, _ptsz
#define DEFAULT_STREAM_cuEventRecordWithFlags ~, _ptsz
#define DEFAULT_STREAM_cuLaunchKernel ~, _ptsz
#define DEFAULT_STREAM_cuLaunchCooperativeKernel ~, _ptsz
#define DEFAULT_STREAM_cuLaunchHostFunc ~, _ptsz
#define DEFAULT_STREAM_cuGraphLaunch ~, _ptsz
#define DEFAULT_STREAM_cuGraphUpload ~, _ptsz
#define DEFAULT_STREAM_cuMemAllocAsync ~, _ptsz
#define DEFAULT_STREAM_cuMemAllocFromPoolAsync ~, _ptsz
#define DEFAULT_STREAM_cuMemFreeAsync ~, _ptsz
// clang-format on

/* The suffix from DEFAULT_STREAM_<symbol>, or _none without this macro. */
#define SECOND(first, second, ...) second
#define CHOOSE(...) SECOND(__VA_ARGS__, _none, )
#define PASTE(a, b) PASTE_NOW(a, b)
#define PASTE_NOW(a, b) a##b

/* An exported function: the code before the body with the lock held, and after the body. */
#define DEFINE(number, symbol, body, parameters, names, before, after)                             \
    EXPORTED tn_cu_result symbol parameters;                                                       \
    tn_cu_result symbol parameters                                                                 \
    {                                                                                              \
        tn_cu_result result;                                                                       \
        if (tn_sim_enter(number, &result)) {                                                       \
            before;                                                                                \
            result = body names;                                                                   \
            after;                                                                                 \
            result = tn_sim_finish(result);                                                        \
        }                                                                                          \
        return result;                                                                             \
    }

/* The twins: none; with a parameter for the stream; with streams elsewhere; with none to name. */
#define TWIN_none(number, symbol, body, parameters, names)
#define TWIN_ptsz(number, symbol, body, parameters, names)                                         \
    DEFINE(number, symbol##_ptsz, body, parameters, names,                                         \
           stream = stream == NULL ? TN_CU_STREAM_PER_THREAD : stream, (void)0)
#define TWIN_ptsz_within(number, symbol, body, parameters, names)                                  \
    DEFINE(number, symbol##_ptsz, body, parameters, names,                                         \
           tn_sim_self()->defaults = TN_SIM_NULL_IS_OWN,                                           \
           tn_sim_self()->defaults = TN_SIM_NULL_IS_LEGACY)
#define TWIN_ptds(number, symbol, body, parameters, names)                                         \
    DEFINE(number, symbol##_ptds, body, parameters, names,                                         \
           tn_sim_self()->defaults = TN_SIM_LEGACY_IS_OWN,                                         \
           tn_sim_self()->defaults = TN_SIM_NULL_IS_LEGACY)

#define EXPORT(name, symbol, version, parameters, names)                                           \
    DEFINE(TN_SIM_FN_##name, symbol, tn_sim_##name, parameters, names, (void)0, (void)0)           \
    PASTE(TWIN, CHOOSE(DEFAULT_STREAM_##symbol))                                                   \
    (TN_SIM_FN_##name, symbol, tn_sim_##name, parameters, names)
TN_CUDA_SIMULATED_FUNCTIONS(EXPORT)
#undef EXPORT

#define EXPORT(name, symbol, version, parameters, names)                                           \
    DEFINE(TN_SIM_FN_##name, symbol, tn_sim_version_##symbol, parameters, names, (void)0, (void)0) \
    PASTE(TWIN, CHOOSE(DEFAULT_STREAM_##symbol))                                                   \
    (TN_SIM_FN_##name, symbol, tn_sim_version_##symbol, parameters, names)
TN_SIM_OTHER_VERSIONS(EXPORT)
#undef EXPORT

typedef void (*any_function)(void);

#define TWIN_OF_none(symbol) symbol
#define TWIN_OF_ptsz(symbol) symbol##_ptsz
#define TWIN_OF_ptsz_within(symbol) symbol##_ptsz
#define TWIN_OF_ptds(symbol) symbol##_ptds

static const struct row {
    const char *name;
    any_function function;
    any_function per_thread; /* the same function where it has no twin */
    int version;
    enum tn_sim_function number;
} rows[] = {
#define ROW(name, symbol, version, parameters, names)                                              \
    {#name, (any_function)symbol,                                                                  \
     (any_function)PASTE(TWIN_OF, CHOOSE(DEFAULT_STREAM_##symbol))(symbol), version,               \
     TN_SIM_FN_##name},
    TN_CUDA_SIMULATED_FUNCTIONS(ROW) TN_SIM_OTHER_VERSIONS(ROW)
#undef ROW
};

/* POSIX gives object and function pointers the same size; ISO C has no cast between the two. */
_Static_assert(sizeof(void *) == sizeof(any_function), "functions do not fit in void *");

static void report(tn_cu_proc_status *status, tn_cu_proc_status value)
{
    if (status != NULL)
        *status = value;
}

/* From which version on a program gets a function: twins came with CUDA 7. */
static int version_of(const struct row *row, bool per_thread)
{
    bool twin = row->per_thread != row->function;
    return per_thread && twin && row->version < FIRST_PER_THREAD ? FIRST_PER_THREAD : row->version;
}

/* Finds the newest version of a name that is not newer than the version asked for. *exists: the
 * driver has a version, perhaps another. */
static const struct row *find_row(const char *name, int version, bool per_thread, bool *exists)
{
    const struct row *found = NULL;
    *exists = false;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) != 0)
            continue;
        /* An older driver, or a driver without the function, does not know the name at all. */
        if (tn_sim.missing[rows[i].number] || rows[i].version > tn_sim.driver_version)
            continue;
        *exists = true;
        if (version_of(&rows[i], per_thread) <= version &&
            (found == NULL || rows[i].version > found->version))
            found = &rows[i];
    }
    return found;
}

tn_cu_result tn_sim_cuGetProcAddress(const char *symbol, void **function, int version,
                                     uint64_t flags, tn_cu_proc_status *status)
{
    bool exists;
    if (symbol == NULL || function == NULL || version > tn_sim.driver_version ||
        (flags & ~KNOWN_FLAGS) != 0)
        return TN_CUDA_ERROR_INVALID_VALUE;
    bool own = (flags & TN_CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    const struct row *row = find_row(symbol, version, own, &exists);
    *function = NULL;
    if (row == NULL) {
        report(status, exists ? TN_CU_PROC_VERSION_NOT_SUFFICIENT : TN_CU_PROC_SYMBOL_NOT_FOUND);
        return TN_CUDA_SUCCESS;
    }
    memcpy(function, own ? &row->per_thread : &row->function, sizeof *function);
    report(status, TN_CU_PROC_FOUND);
    return TN_CUDA_SUCCESS;
}
