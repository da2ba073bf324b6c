// SPDX-License-Identifier: Apache-2.0
/* A tool fills the tables below when its library is initialised. A function that it leaves out is
 * not called.
 *
 * Trade-offs: a library that the linker has put into the program, or that is loaded already under
 * another name, is not looked for. NVTX's own headers look for the variable first, too. */
#include "driver/tool.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "abi/nvtx.h"
#include "base/contract.h"
#include "base/environment.h"
#include "base/lock.h"

enum { MODULES = 7, FUNCTIONS_MAX = 16, REFUSED = -1 };

static const unsigned function_counts[MODULES] = {
    [TN_NVTX_MODULE_CORE] = TN_NVTX_CORE_FUNCTIONS,
    [TN_NVTX_MODULE_CUDA] = TN_NVTX_CUDA_FUNCTIONS,
    [TN_NVTX_MODULE_OPENCL] = TN_NVTX_OPENCL_FUNCTIONS,
    [TN_NVTX_MODULE_RUNTIME] = TN_NVTX_RUNTIME_FUNCTIONS,
    [TN_NVTX_MODULE_DOMAINS] = TN_NVTX_DOMAIN_FUNCTIONS,
    [TN_NVTX_MODULE_SYNC] = TN_NVTX_SYNC_FUNCTIONS,
};

/* Written while the tool is loaded, and never again. */
static struct tn_tool {
    bool loaded; /* or looked for in vain */
    bool checks_memory;
    void *domain;
    tn_nvtx_function functions[MODULES][FUNCTIONS_MAX];
    /* where the tool writes each of these; NULL at the end, and for no function */
    tn_nvtx_function *places[MODULES][FUNCTIONS_MAX + 1];
    intptr_t memory[TN_NVTX_MEMORY_FUNCTIONS];
} tool;

static int get_module(int module, tn_nvtx_function ***table, unsigned *count)
{
    if (module <= 0 || module >= MODULES)
        return 0;
    if (table != NULL)
        *table = tool.places[module];
    if (count != NULL)
        *count = function_counts[module];
    return 1;
}

static void set_tool_version(uint32_t version)
{
    (void)version;
}

static const void *get_table(uint32_t table)
{
    static const tn_nvtx_callbacks callbacks = {sizeof callbacks, get_module};
    static const tn_nvtx_version version = {sizeof version, TN_NVTX_VERSION, 0, set_tool_version};

    if (table == TN_NVTX_TABLE_CALLBACKS)
        return &callbacks;
    return table == TN_NVTX_TABLE_VERSION ? &version : NULL;
}

/* A function by its name, of whatever type the caller stores it in. */
static bool find(void *library, const char *name, void *function, size_t bytes)
{
    void *symbol = dlsym(library, name);

    TN_ASSERT(bytes == sizeof symbol);
    memcpy(function, &symbol, bytes);
    return symbol != NULL;
}

static void load_core(void *library)
{
    tn_nvtx_core_entry entry;
    tn_nvtx_domain_create create;

    for (int module = 0; module < MODULES; module++) {
        for (unsigned i = 1; i < function_counts[module]; i++)
            tool.places[module][i] = &tool.functions[module][i];
    }
    if (!find(library, TN_NVTX_CORE_ENTRY, &entry, sizeof entry) || entry(get_table) == 0) {
        memset(tool.functions, 0, sizeof tool.functions);
        return;
    }
    create = (tn_nvtx_domain_create)tool.functions[TN_NVTX_MODULE_DOMAINS][TN_NVTX_DOMAIN_CREATE];
    if (create != NULL)
        tool.domain = create("tarn");
}

static bool has(unsigned function)
{
    return tool.memory[function] != 0 && tool.memory[function] != REFUSED;
}

static void load_memory(void *library)
{
    tn_nvtx_functions part = {1, TN_NVTX_MEMORY_FUNCTIONS, tool.memory};
    tn_nvtx_extension extension = {
        .nvtx_version = TN_NVTX_VERSION,
        .bytes = sizeof extension,
        .module = TN_NVTX_MEMORY_MODULE,
        .compatible = TN_NVTX_MEMORY_COMPATIBLE,
        .part_count = 1,
        .parts = &part,
    };
    tn_nvtx_extension_entry entry;

    if (!find(library, TN_NVTX_EXTENSION_ENTRY, &entry, sizeof entry))
        return;
    tool.checks_memory = entry(&extension) != 0 && has(TN_NVTX_HEAP_REGISTER) &&
                         has(TN_NVTX_HEAP_UNREGISTER) && has(TN_NVTX_REGIONS_REGISTER) &&
                         has(TN_NVTX_REGIONS_UNREGISTER);
}

void tn_tool_load(void)
{
    const char *path = tn_environment(TN_NVTX_PATH_VARIABLE);
    void *library;

    TN_ASSERT(tn_lock_held(TN_RANK_PROCESS));
    if (tool.loaded)
        return;
    tool.loaded = true;
    library = path != NULL && path[0] != '\0' ? dlopen(path, RTLD_LAZY) : NULL;
    if (library == NULL)
        return;
    load_core(library);
    load_memory(library);
}

bool tn_tool_checks_memory(void)
{
    return tool.checks_memory;
}

void *tn_tool_open_heap(uint64_t base, uint64_t bytes)
{
    const tn_nvtx_addresses addresses = {bytes, (const void *)(uintptr_t)base};
    const tn_nvtx_heap heap = {
        .compatible = TN_NVTX_MEMORY_COMPATIBLE,
        .bytes = sizeof heap,
        .usage = TN_NVTX_USAGE_SUB_ALLOCATOR,
        .type = TN_NVTX_TYPE_VIRTUAL_ADDRESS,
        .specific_bytes = sizeof addresses,
        .specific = &addresses,
    };

    TN_ASSERT(bytes > 0);
    return tool.checks_memory
               ? ((tn_nvtx_heap_register)tool.memory[TN_NVTX_HEAP_REGISTER])(tool.domain, &heap)
               : NULL;
}

void tn_tool_close_heap(void *heap)
{
    if (tool.checks_memory && heap != NULL)
        ((tn_nvtx_heap_unregister)tool.memory[TN_NVTX_HEAP_UNREGISTER])(tool.domain, heap);
}

void tn_tool_add_region(void *heap, uint64_t base, uint64_t bytes)
{
    const tn_nvtx_addresses addresses = {bytes, (const void *)(uintptr_t)base};
    const tn_nvtx_regions regions = {
        .compatible = TN_NVTX_MEMORY_COMPATIBLE,
        .bytes = sizeof regions,
        .type = TN_NVTX_TYPE_VIRTUAL_ADDRESS,
        .heap = heap,
        .count = 1,
        .element_bytes = sizeof addresses,
        .elements = &addresses,
    };

    TN_ASSERT(bytes > 0);
    if (tool.checks_memory && heap != NULL)
        ((tn_nvtx_regions_register)tool.memory[TN_NVTX_REGIONS_REGISTER])(tool.domain, &regions);
}

void tn_tool_remove_region(uint64_t base)
{
    const tn_nvtx_region_ref ref = {.pointer = (const void *)(uintptr_t)base};
    const tn_nvtx_ended_regions regions = {
        .compatible = TN_NVTX_MEMORY_COMPATIBLE,
        .bytes = sizeof regions,
        .reference_type = TN_NVTX_REFERENCE_POINTER,
        .count = 1,
        .element_bytes = sizeof ref,
        .elements = &ref,
    };

    if (tool.checks_memory)
        ((tn_nvtx_regions_unregister)tool.memory[TN_NVTX_REGIONS_UNREGISTER])(tool.domain,
                                                                              &regions);
}
