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
    tn_nvtx_range_push push; /* NULL: no ranges */
    tn_nvtx_range_pop pop;
    tn_nvtx_counter_register make_counter; /* NULL: no counters */
    tn_nvtx_counter_sample count;
    intptr_t memory[TN_NVTX_MEMORY_FUNCTIONS];
    intptr_t counters[TN_NVTX_COUNTERS_FUNCTIONS];
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
    tn_nvtx_function *const domains = tool.functions[TN_NVTX_MODULE_DOMAINS];
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
    create = (tn_nvtx_domain_create)domains[TN_NVTX_DOMAIN_CREATE];
    if (create != NULL)
        tool.domain = create("tarn");
    if (domains[TN_NVTX_DOMAIN_RANGE_PUSH] == NULL || domains[TN_NVTX_DOMAIN_RANGE_POP] == NULL)
        return;
    tool.push = (tn_nvtx_range_push)domains[TN_NVTX_DOMAIN_RANGE_PUSH];
    tool.pop = (tn_nvtx_range_pop)domains[TN_NVTX_DOMAIN_RANGE_POP];
}

static bool has(const intptr_t *functions, unsigned function)
{
    return functions[function] != 0 && functions[function] != REFUSED;
}

/* False: the tool has no such extension. */
static bool load_extension(void *library, tn_nvtx_functions part, uint16_t module,
                           uint16_t compatible)
{
    tn_nvtx_extension extension = {
        .nvtx_version = TN_NVTX_VERSION,
        .bytes = sizeof extension,
        .module = module,
        .compatible = compatible,
        .part_count = 1,
        .parts = &part,
    };
    tn_nvtx_extension_entry entry;

    return find(library, TN_NVTX_EXTENSION_ENTRY, &entry, sizeof entry) && entry(&extension) != 0;
}

static void load_memory(void *library)
{
    const tn_nvtx_functions part = {1, TN_NVTX_MEMORY_FUNCTIONS, tool.memory};

    tool.checks_memory =
        load_extension(library, part, TN_NVTX_MEMORY_MODULE, TN_NVTX_MEMORY_COMPATIBLE) &&
        has(tool.memory, TN_NVTX_HEAP_REGISTER) && has(tool.memory, TN_NVTX_HEAP_UNREGISTER) &&
        has(tool.memory, TN_NVTX_REGIONS_REGISTER) && has(tool.memory, TN_NVTX_REGIONS_UNREGISTER);
}

static void load_counters(void *library)
{
    const tn_nvtx_functions part = {0, TN_NVTX_COUNTERS_FUNCTIONS, tool.counters};

    if (!load_extension(library, part, TN_NVTX_COUNTERS_MODULE, TN_NVTX_COUNTERS_COMPATIBLE) ||
        !has(tool.counters, TN_NVTX_COUNTER_REGISTER) ||
        !has(tool.counters, TN_NVTX_COUNTER_SAMPLE))
        return;
    tool.make_counter = (tn_nvtx_counter_register)tool.counters[TN_NVTX_COUNTER_REGISTER];
    tool.count = (tn_nvtx_counter_sample)tool.counters[TN_NVTX_COUNTER_SAMPLE];
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
    load_counters(library);
}

void tn_tool_begin(const char *name)
{
    const tn_nvtx_event event = {
        .version = TN_NVTX_EVENT_VERSION,
        .bytes = sizeof event,
        .message_type = TN_NVTX_MESSAGE_ASCII,
        .message = {.ascii = name},
    };

    if (tool.push != NULL)
        (void)tool.push(tool.domain, &event);
}

void tn_tool_end(void)
{
    if (tool.push != NULL)
        (void)tool.pop(tool.domain);
}

uint64_t tn_tool_make_counter(const char *name)
{
    const tn_nvtx_counter counter = {
        .bytes = sizeof counter,
        .schema = TN_NVTX_SCHEMA_INT64,
        .name = name,
        .scope = TN_NVTX_SCOPE_PROCESS,
    };

    return tool.make_counter != NULL ? tool.make_counter(tool.domain, &counter) : 0;
}

void tn_tool_count(uint64_t counter, uint64_t value)
{
    if (counter != 0)
        tool.count(tool.domain, counter, (int64_t)value);
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
