// SPDX-License-Identifier: Apache-2.0
/* module.c -- loads PTX, finds kernels, binds twins.
 *
 * How it works. A twin's record is made by whoever comes first, the module that has an entry of
 * that name or the registration, and is never removed; each kernel points to its name's record, so
 * a registration serves modules loaded before and after it.
 *
 * Trade-offs. Modules are PTX text only. Linked lists: programs have a handful of kernels. */
#include "sim/code/module.h"

#include <stdlib.h>
#include <string.h>

#include "abi/kernels.h"
#include "sim/code/twins.h"
#include "sim/stream/capture.h"
#include "sim/stream/stream.h"

struct tn_sim_twin {
    const char *name;
    tarn_sim_kernel function; /* or NULL */
    struct tn_sim_twin *next;
};

/* The library's own, which nobody registers. */
static struct tn_sim_twin begin_twin = {TN_CONTENTS_BEGIN_ENTRY, tn_sim_twin_contents_begin, NULL};
static struct tn_sim_twin contents_twin = {TN_CONTENTS_ENTRY, tn_sim_twin_contents, &begin_twin};

static struct tn_sim_twin *twins = &contents_twin;

/* Finds the record of a name or makes it; NULL when memory ran out. */
static struct tn_sim_twin *twin_of(const char *name)
{
    struct tn_sim_twin *twin = twins;
    while (twin != NULL && strcmp(twin->name, name) != 0)
        twin = twin->next;
    if (twin != NULL)
        return twin;
    twin = calloc(1, sizeof *twin);
    if (twin == NULL)
        return NULL;
    twin->name = strdup(name);
    if (twin->name == NULL) {
        free(twin);
        return NULL;
    }
    twin->next = twins;
    twins = twin;
    return twin;
}

int tarn_sim_register_kernel(const char *entry, tarn_sim_kernel function)
{
    if (entry == NULL || function == NULL || !tn_sim_enter_control())
        return -1;
    struct tn_sim_twin *twin = twin_of(entry);
    if (twin != NULL)
        twin->function = function;
    tn_sim_leave();
    return twin == NULL ? -1 : 0;
}

tarn_sim_kernel tn_sim_code_twin(const struct tn_sim_code *code)
{
    return code->twin->function;
}

void tn_sim_code_release(struct tn_sim_code *code)
{
    if (--code->references > 0)
        return;
    free(code->entry.name);
    free(code->entry.params);
    free(code);
}

void tn_sim_module_unload(struct tn_sim_module *module)
{
    if (module->library != NULL)
        tn_sim_library_forget(module->library, module);
    else if (module->object.handle != 0)
        tn_sim.ledger.modules--;
    while (module->codes != NULL) {
        struct tn_sim_code *code = module->codes;
        module->codes = code->next;
        tn_sim_unregister(&code->object);
        tn_sim_code_release(code);
    }
    tn_sim_unregister(&module->object);
    free(module);
}

void tn_sim_modules_unload_all(const struct tn_sim_context *context)
{
    struct tn_sim_module *module;
    while ((module = tn_sim_find_owned(TN_SIM_KIND_MODULE, context)) != NULL)
        tn_sim_module_unload(module); /* SL1 */
}

/* Moves an entry of a parsed text into a module. Returns false when memory ran out. */
static bool adopt(struct tn_sim_module *module, struct tn_sim_ptx_entry *entry,
                  struct tn_sim_context *context)
{
    struct tn_sim_code *code = calloc(1, sizeof *code);
    if (code == NULL)
        return false;
    code->twin = twin_of(entry->name);
    if (code->twin == NULL || !tn_sim_register(&code->object, TN_SIM_KIND_FUNCTION, context)) {
        free(code);
        return false;
    }
    code->handle = code->object.handle;
    code->module = module->object.handle;
    code->references = 1;
    code->entry = *entry;
    *entry = (struct tn_sim_ptx_entry){0};
    code->next = module->codes;
    module->codes = code;
    return true;
}

tn_cu_result tn_sim_module_create(const char *text, struct tn_sim_library *library,
                                  struct tn_sim_context *context, struct tn_sim_module **made)
{
    struct tn_sim_ptx ptx;
    tn_cu_result result = tn_sim_ptx_parse(text, &ptx);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_module *module = calloc(1, sizeof *module);
    if (module == NULL || !tn_sim_register(&module->object, TN_SIM_KIND_MODULE, context)) {
        free(module);
        tn_sim_ptx_fini(&ptx);
        return TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    module->library = library;
    if (library == NULL)
        tn_sim.ledger.modules++;
    for (size_t i = 0; result == TN_CUDA_SUCCESS && i < ptx.entry_count; i++) {
        if (!adopt(module, &ptx.entries[i], context))
            result = TN_CUDA_ERROR_OUT_OF_MEMORY;
    }
    tn_sim_ptx_fini(&ptx);
    if (result != TN_CUDA_SUCCESS)
        tn_sim_module_unload(module);
    else
        *made = module;
    return result;
}

struct tn_sim_code *tn_sim_module_code(const struct tn_sim_module *module, const char *name)
{
    struct tn_sim_code *code = module->codes;
    while (code != NULL && strcmp(code->entry.name, name) != 0)
        code = code->next;
    return code;
}

tn_cu_result tn_sim_cuModuleLoadData(tn_cu_module *handle, const void *image)
{
    struct tn_sim_context *context;
    if (handle == NULL || image == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    tn_cu_result result = tn_sim_context_current(&context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    tn_sim_streams_wait_all(context);
    result = tn_sim_context_health(context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    struct tn_sim_module *module;
    result = tn_sim_module_create(image, NULL, context, &module);
    if (result == TN_CUDA_SUCCESS)
        *handle = (tn_cu_module)module->object.handle;
    return result;
}

tn_cu_result tn_sim_cuModuleUnload(tn_cu_module handle)
{
    struct tn_sim_module *module = tn_sim_find(TN_SIM_KIND_MODULE, (uintptr_t)handle);
    if (module == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    tn_cu_result result = tn_sim_capture_unsafe();
    if (result != TN_CUDA_SUCCESS)
        return result;
    const struct tn_sim_context *context = module->object.context;
    tn_sim_streams_wait_all(context);
    module = tn_sim_find(TN_SIM_KIND_MODULE, (uintptr_t)handle);
    if (module == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    tn_sim_module_unload(module);
    return context->fault;
}

tn_cu_result tn_sim_cuModuleGetFunction(tn_cu_function *function, tn_cu_module handle,
                                        const char *name)
{
    if (function == NULL || name == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct tn_sim_module *module = tn_sim_find(TN_SIM_KIND_MODULE, (uintptr_t)handle);
    if (module == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    tn_cu_result result = tn_sim_context_health(module->object.context);
    if (result != TN_CUDA_SUCCESS)
        return result;
    const struct tn_sim_code *code = tn_sim_module_code(module, name);
    if (code == NULL)
        return TN_CUDA_ERROR_NOT_FOUND;
    *function = (tn_cu_function)code->handle;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuFuncGetParamInfo(tn_cu_function function, size_t index, size_t *offset,
                                       size_t *bytes)
{
    if (function == NULL || offset == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct tn_sim_code *code = tn_sim_find(TN_SIM_KIND_FUNCTION, (uintptr_t)function);
    if (code == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    if (index >= code->entry.param_count)
        return TN_CUDA_ERROR_INVALID_VALUE;
    *offset = code->entry.params[index].offset;
    if (bytes != NULL)
        *bytes = code->entry.params[index].bytes;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuFuncGetName(const char **name, tn_cu_function function)
{
    if (name == NULL || function == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct tn_sim_code *code = tn_sim_find(TN_SIM_KIND_FUNCTION, (uintptr_t)function);
    if (code == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    *name = code->entry.name;
    return TN_CUDA_SUCCESS;
}

tn_cu_result tn_sim_cuFuncGetModule(tn_cu_module *module, tn_cu_function function)
{
    if (module == NULL)
        return TN_CUDA_ERROR_INVALID_VALUE;
    const struct tn_sim_code *code = tn_sim_find(TN_SIM_KIND_FUNCTION, (uintptr_t)function);
    if (code == NULL)
        return TN_CUDA_ERROR_INVALID_HANDLE;
    *module = (tn_cu_module)code->module;
    return TN_CUDA_SUCCESS;
}
