// SPDX-License-Identifier: Apache-2.0
/* Loading: dlopen of the library that TARN_DRIVER names (driver/loader.h), and dlsym of
 * cuGetProcAddress alone. cuGetProcAddress gives every function of the list at its pinned version,
 * since the version number selects the signature.
 *
 * Trade-offs: the driver is never unloaded, as it may call back at any time. A failed load leaves
 * its handle open for the same reason: libcuda starts threads. */
#include "driver/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/object.h"
#include "driver/loader.h"
#include "driver/result.h"

struct tn_driver tn_driver_table;
static bool driver_loaded; /* guarded by the PROCESS lock */

static tarn_status resolve(struct tn_driver *table, tn_pfn_cuGetProcAddress get_address)
{
    static const struct {
        const char *name;
        int version;
        size_t offset;
        bool optional;
    } functions[] = {
#define FUNCTION_ROW(name, symbol, version, parameters, names)                                     \
    {#name, version, offsetof(struct tn_driver, name), false},
        TN_CUDA_LIBRARY_FUNCTIONS(FUNCTION_ROW)
#undef FUNCTION_ROW
#define FUNCTION_ROW(name, symbol, version, parameters, names)                                     \
    {#name, version, offsetof(struct tn_driver, name), true},
            TN_CUDA_OPTIONAL_FUNCTIONS(FUNCTION_ROW)
#undef FUNCTION_ROW
#define VERSION_ROW(own, name, symbol, version, parameters, names)                                 \
    {#name, version, offsetof(struct tn_driver, own), false},
                TN_CUDA_LIBRARY_VERSIONS(VERSION_ROW)
#undef VERSION_ROW
    };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = NULL;
        tn_cu_proc_status found = TN_CU_PROC_SYMBOL_NOT_FOUND;
        tn_cu_result result = get_address(functions[i].name, &address, functions[i].version,
                                          TN_CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);

        if ((result != TN_CUDA_SUCCESS || address == NULL) && functions[i].optional)
            continue;
        if (result != TN_CUDA_SUCCESS || address == NULL)
            return tn_fail(TARN_ERR_DRIVER_TOO_OLD,
                           "the CUDA driver has no %s of version %d.%d; install a driver of CUDA "
                           "12.4 or newer",
                           functions[i].name, functions[i].version / 1000,
                           functions[i].version % 1000 / 10);
        memcpy((char *)table + functions[i].offset, &address, sizeof address);
    }
    return TARN_OK;
}

static tarn_status initialise(struct tn_driver *table)
{
    tn_cu_result result = table->cuInit(0);

    if (result == TN_CUDA_ERROR_NO_DEVICE)
        return tn_fail(TARN_ERR_NO_DEVICE, "the CUDA driver found no device; %s",
                       tn_loader_advice());
    if (result == TN_CUDA_SUCCESS)
        result = table->cuDriverGetVersion(&table->version);
    if (result != TN_CUDA_SUCCESS)
        return tn_fail(TARN_ERR_DRIVER, "initialising the CUDA driver failed with %s",
                       tn_result_name(result));
    return TARN_OK;
}

tarn_status tn_driver_load(const struct tn_driver **driver)
{
    struct tn_driver table = {0};
    tn_pfn_cuGetProcAddress get_address = NULL;
    struct tn_loaded loaded;
    void *symbol;
    tarn_status status;

    if (tn_is_forked())
        return tn_fork_refuse();
    if (driver_loaded) {
        *driver = &tn_driver_table;
        return TARN_OK;
    }
    tn_object_keep(); /* it calls back */
    status = tn_loader_open(&loaded);
    if (status != TARN_OK)
        return status;
    memcpy(table.path, loaded.path, sizeof table.path);
    symbol = dlsym(loaded.handle, "cuGetProcAddress_v2");
    if (symbol == NULL)
        return tn_fail(TARN_ERR_DRIVER_TOO_OLD,
                       "%s has no cuGetProcAddress of CUDA 12; install a newer driver", table.path);
    memcpy(&get_address, &symbol, sizeof symbol);
    status = resolve(&table, get_address);
    if (status == TARN_OK)
        status = initialise(&table);
    if (status != TARN_OK)
        return status;
    tn_fork_stake(); /* for good */
    tn_driver_table = table;
    driver_loaded = true;
    *driver = &tn_driver_table;
    return TARN_OK;
}
