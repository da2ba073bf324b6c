// SPDX-License-Identifier: Apache-2.0
/* driver.h -- the CUDA driver, loaded at run time.
 *
 * The library links neither libcuda nor libcudart. The table below is filled once for the process,
 * by base name and pinned version, so one binary runs with every driver that has the functions.
 * Only this folder names driver functions; the layers above call gpu.h, stream.h and exec.h.
 *
 * Locking: tn_driver_load is called under the PROCESS lock; the table is immutable afterwards. */
#ifndef TARN_DRIVER_DRIVER_H
#define TARN_DRIVER_DRIVER_H

#include "abi/functions.h"
#include "tarn/status.h"

struct tn_driver {
#define TN_DRIVER_FIELD(name, symbol, version, parameters, names) tn_pfn_##name name;
    TN_CUDA_LIBRARY_FUNCTIONS(TN_DRIVER_FIELD)
    TN_CUDA_OPTIONAL_FUNCTIONS(TN_DRIVER_FIELD) /* NULL where the driver lacks the function */
#undef TN_DRIVER_FIELD
#define TN_DRIVER_FIELD(own, name, symbol, version, parameters, names) tn_pfn_##own own;
    TN_CUDA_LIBRARY_VERSIONS(TN_DRIVER_FIELD)
#undef TN_DRIVER_FIELD
    int version;    /* as the driver says: 13000 is CUDA 13.0 */
    char path[256]; /* where the driver was loaded from */
};

/* The loaded driver, or zero. Only driver.c writes this table, before any device is open. For
 * callers that have no device at hand. */
extern struct tn_driver tn_driver_table;

/* The driver that TARN_DRIVER names, loaded and initialised by the first call that succeeds.
 *   NO_DRIVER, DRIVER_TOO_OLD, NO_DEVICE, FORKED, DRIVER: nothing is kept, the next call tries
 *   again */
TARN_MUST_CHECK tarn_status tn_driver_load(const struct tn_driver **driver);

#endif
