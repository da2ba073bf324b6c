// SPDX-License-Identifier: Apache-2.0
/* layout.h -- where the parameters of kernels lie.
 *
 * Each call of the driver tells the offset and size of a single parameter. Only the refusal of the
 * parameter behind the last tells their number, and this refusal takes far longer than all other
 * calls together. A function's layout is therefore kept as long as the caller knows that no module
 * is unloaded. A later function may have the handle of an unloaded function.
 *
 *   D5  a function is asked for once, however many nodes launch it
 *
 * Locking: layouts are guarded by whoever has them. No call waits for the GPU or disturbs a
 * capture. */
#ifndef TARN_NODES_LAYOUT_H
#define TARN_NODES_LAYOUT_H

#include <stddef.h>

#include "driver/gpu.h"

struct tn_param {
    uint32_t offset; /* in the kernel's packed parameters */
    uint32_t bytes;  /* of a struct, which is a single parameter, the whole */
};

struct tn_layout {
    tn_cu_function function; /* NULL: an empty place of the table */
    char *name;              /* a copy: it outlives the function; NULL: the driver does not tell */
    struct tn_param *params;
    uint32_t count; /* 0: no parameters, or the driver does not tell */
};

/* Zeroed memory is an empty set of layouts. */
struct tn_layouts {
    struct tn_layout *table; /* by function */
    size_t capacity;         /* a power of two, or 0 */
    size_t count;
};

/* The function's layout, good until the next call with these layouts.
 *   HOST_MEMORY, DEVICE_LOST, DRIVER: nothing was kept */
TARN_MUST_CHECK tarn_status tn_layouts_find(struct tn_layouts *layouts, struct tn_gpu *gpu,
                                            tn_cu_function function,
                                            const struct tn_layout **layout);

void tn_layouts_drop(struct tn_layouts *layouts);

#endif
