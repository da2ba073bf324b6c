// SPDX-License-Identifier: Apache-2.0
/* library.c -- libraries: code that belongs to no context, and its kernels.
 *
 * How it works. A library keeps its text. Its kernels' names are read at loading. An unreadable
 * text is an error only when a kernel is asked for, as measured. The first use of a library's
 * kernel in a context makes a module of the text there.
 *
 * Trade-offs. A text that becomes a module is read again for each context: contexts are few.
 * Options are for a compiler, which the simulator lacks, and are ignored. */
#include <stdlib.h>
#include <string.h>

#include "sim/code/module.h"
#include "sim/stream/capture.h"
#include "sim/stream/stream.h"

struct kernel {
    struct tn_sim_object object;
    struct tn_sim_library *library;
    struct tn_sim_ptx_entry *entry; /* of the library's text */
    struct kernel *next;
};

struct use {
    struct tn_sim_module *module;
    struct use *next;
};

struct tn_sim_library {
    struct tn_sim_object object;
    char *text;
    tn_cu_result readable; /* or what is wrong with the text */
    struct tn_sim_ptx ptx;
    struct kernel *kernels;
    struct use *uses; /* SL2 */
};

static void unload(struct tn_sim_library *library)
{
    while (library->uses != NULL)
        tn_sim_module_unload(library->uses->module);
    while (library->kernels != NULL) {
        struct kernel *kernel = library->kernels;
        library->kernels = kernel->next;
        tn_sim_unregister(&kernel->object);
        free(kernel);
    }
    tn_sim_unregister(&library->object);
    tn_sim_ptx_fini(&library->ptx);
    free(library->text);
    free(library);
}

void tn_sim_library_forget(struct tn_sim_library *library, const struct tn_sim_module *module)
{
    struct use **link = &library->uses;
    while (*link != NULL && (*link)->module != module)
        link = &(*link)->next;
    struct use *use = *link;
    if (use == NULL)
        return;
    *link = use->next;
    free(use);
}

/* Gives each entry of a library a kernel. Returns false when memory ran out. */
static bool make_kernels(struct tn_sim_library *library)
{
    for (size_t i = 0; i < library->ptx.entry_count; i++) {
        struct kernel *kernel = calloc(1, sizeof *kernel);
        if (kernel == NULL || !tn_sim_register(&kernel->object, TN_SIM_KIND_KERNEL, NULL)) {
            free(kernel);
            return false;
        }
        kernel->library = library;
        kernel->entry = &library->ptx.entries[i];
        kernel->next = library->kernels;
        library->kernels = kernel;
    }
    return true;
}

/* The library's module in a context; NULL when the context has not loaded its code. */
static struct tn_sim_module *loaded_in(const struct tn_sim_library *library,
                                       const struct tn_sim_context *context)
{
    for (const struct use *use = library->uses; use != NULL; use = use->next) {
        if (use->module->object.context == context)
            return use->module;
    }
    return NULL;
}

/* The same, made now where missing; NULL when memory ran out. */
static struct tn_sim_module *module_in(struct tn_sim_library *library,
                                       struct tn_sim_context *context)
{
    struct tn_sim_module *loaded = loaded_in(library, context);
    if (loaded != NULL)
        return loaded;
    struct use *use = calloc(1, sizeof *use);
    if (use == NULL ||
        tn_sim_module_create(library->text, library, context, &use->module) != TN_CUDA_SUCCESS) {
        free(use);
        return NULL;
    }
    use->next = library->uses;
    library->uses = use;
    for (const struct kernel *kernel = library->kernels; kernel != NULL; kernel = kernel->next)
        tn_sim_module_code(use->module, kernel->entry->name)->kernel = kernel->object.handle;
    return use->module;
}

/* The function, in a context, of a library's kernel. INVALID_HANDLE: the handle is no library's
 * kernel. OUT_OF_MEMORY. */
static tn_cu_result code_of(tn_cu_kernel handle, struct tn_sim_context *context,
                            struct tn_sim_code **code)
{
    const struct kernel *kernel = tn_sim_find(TN_SIM_KIND_KERNEL, (uintptr_t)handle);
    if (kernel == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    const struct tn_sim_module *module = module_in(kernel->library, context);
    if (module == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    *code = tn_sim_module_code(module, kernel->entry->name);
    return TN_CUDA_SUCCESS;
}

bool tn_sim_code_await(tn_cu_function handle, const struct tn_sim_context *context)
{
    const struct kernel *kernel = tn_sim_find(TN_SIM_KIND_KERNEL, (uintptr_t)handle);
    /* A host function would wait for itself. */
    if (kernel == NULL || loaded_in(kernel->library, context) != NULL || tn_sim_self()->in_callback)
        return false;
    tn_sim_streams_wait_all(context);
    return true;
}

tn_cu_result tn_sim_code_find(tn_cu_function handle, struct tn_sim_context *context,
                              struct tn_sim_code **code)
{
    *code = tn_sim_find(TN_SIM_KIND_FUNCTION, (uintptr_t)handle);
    if (*code == NULL)
        return code_of((tn_cu_kernel)(void *)handle, context, code);
    return (*code)->object.context == context ? TN_CUDA_SUCCESS : TN_CUDA_ERROR_INVALID_HANDLE;
}

tn_cu_result tn_sim_cuLibraryLoadData(tn_cu_library *handle, const void *code, int *jit_options,
                                      void **jit_values, unsigned int jit_count,
                                      int *library_options, void **library_values,
                                      unsigned int library_count)
{
    if (handle == NULL || code == NULL ||
        (jit_count != 0 && (jit_options == NULL || jit_values == NULL)) ||
        (library_count != 0 && (library_options == NULL || library_values == NULL)))
        return TN_CUDA_ERROR_INVALID_VALUE;
    struct tn_sim_library *library = calloc(1, sizeof *library);
    if (library == NULL)
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    library->text = strdup(code);
    library->readable = tn_sim_ptx_parse(code, &library->ptx);
    if (library->text == NULL || library->readable == TN_CUDA_ERROR_OUT_OF_MEMORY ||
        !tn_sim_register(&library->object, TN_SIM_KIND_LIBRARY, NULL) || !make_kernels(library)) {
        unload(library);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    tn_sim.ledger.modules++;
    *handle = (tn_cu_library)library->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuLibraryUnload(tn_cu_library handle)
{
    struct tn_sim_library *library = tn_sim_find(TN_SIM_KIND_LIBRARY, (uintptr_t)handle);
    if (library == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (library->uses != NULL) {
        tn_sim_streams_wait_all(library->uses->module->object.context);
        library = tn_sim_find(TN_SIM_KIND_LIBRARY, (uintptr_t)handle);
        if (library == NULL)
            return TN_CUDA_ERROR_INVALID_HANDLE;
    }
    tn_sim.ledger.modules--;
    unload(library);
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuLibraryGetKernel(tn_cu_kernel *handle, tn_cu_library library_handle,
                                       const char *name)
{
    if (handle == NULL || name == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct tn_sim_library *library =
        tn_sim_find(TN_SIM_KIND_LIBRARY, (uintptr_t)library_handle);
    if (library == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    if (library->readable != TN_CUDA_SUCCESS)
        return library->readable;
    const struct kernel *kernel = library->kernels;
    while (kernel != NULL && strcmp(kernel->entry->name, name) != 0)
        kernel = kernel->next;
    if (kernel == NULL)
        return TN_CUDA_ERROR_NOT_FOUND;
    *handle = (tn_cu_kernel)kernel->object.handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuKernelGetFunction(tn_cu_function *function, tn_cu_kernel handle)
{
    struct tn_sim_context *context;
    struct tn_sim_code *code;
    if (function == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    if (handle == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    if (tn_sim_code_await((tn_cu_function)(void *)handle, context))
        result = tn_sim_context_health(context);
    if (result == TN_CUDA_SUCCESS)
        result = code_of(handle, context, &code);
    if (result == TN_CUDA_SUCCESS)
        *function = (tn_cu_function)code->handle;
    return result;
}

tn_cu_result tn_sim_cuKernelGetName(const char **name, tn_cu_kernel handle)
{
    if (name == NULL || handle == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct kernel *kernel = tn_sim_find(TN_SIM_KIND_KERNEL, (uintptr_t)handle);
    if (kernel == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    *name = kernel->entry->name;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuKernelGetParamInfo(tn_cu_kernel handle, size_t index, size_t *offset,
                                         size_t *bytes)
{
    struct tn_sim_context *context;
    struct tn_sim_code *code;
    if (handle == NULL || offset == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    /* The driver reads the attribute from the kernel's code in the current context. */
    tn_cu_result result = tn_sim_context_current(&context);
    if (result == TN_CUDA_SUCCESS)
        result = code_of(handle, context, &code);
    if (result != TN_CUDA_SUCCESS)
        return result;
    return tn_sim_cuFuncGetParamInfo((tn_cu_function)code->handle, index, offset, bytes);
}
