// SPDX-License-Identifier: Apache-2.0
/* A table by the function's handle, at most half full. */
#include "nodes/layout.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"

enum { CAPACITY_MIN = 64 };

static struct tn_layout *place_of(const struct tn_layouts *layouts, tn_cu_function function)
{
    size_t at = (size_t)(((uint64_t)(uintptr_t)function * TN_GOLDEN) >> 32);

    for (at &= layouts->capacity - 1; layouts->table[at].function != NULL;
         at = (at + 1) & (layouts->capacity - 1)) {
        if (layouts->table[at].function == function)
            break;
    }
    return &layouts->table[at];
}

static bool reserve_place(struct tn_layouts *layouts)
{
    struct tn_layouts bigger = {.capacity = tn_max(2 * layouts->capacity, CAPACITY_MIN),
                                .count = layouts->count};

    if (2 * (layouts->count + 1) <= layouts->capacity)
        return true;
    bigger.table = tn_host_alloc(bigger.capacity, sizeof *bigger.table);
    if (bigger.table == NULL)
        return false;
    for (size_t i = 0; i < layouts->capacity; i++) {
        if (layouts->table[i].function != NULL)
            *place_of(&bigger, layouts->table[i].function) = layouts->table[i];
    }
    tn_host_free(layouts->table);
    *layouts = bigger;
    return true;
}

static tarn_status no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for what is known of a kernel");
}

/* Asks for one parameter after the other, until the driver refuses the next. */
static tarn_status ask(struct tn_gpu *gpu, struct tn_layout *layout)
{
    size_t capacity = 0;

    for (;;) {
        size_t offset;
        size_t bytes;
        tn_cu_result result =
            gpu->driver->cuFuncGetParamInfo(layout->function, layout->count, &offset, &bytes);

        if (result == TN_CUDA_ERROR_INVALID_VALUE)
            return TARN_OK;
        if (result != TN_CUDA_SUCCESS)
            return tn_gpu_failed(gpu, result, "asking for a kernel's parameters",
                                 "cuFuncGetParamInfo");
        if (!tn_host_grow((void **)&layout->params, &capacity, layout->count + 1,
                          sizeof *layout->params))
            return no_memory();
        layout->params[layout->count] = (struct tn_param){(uint32_t)offset, (uint32_t)bytes};
        layout->count += 1;
    }
}

static tarn_status copy_name(struct tn_gpu *gpu, struct tn_layout *layout)
{
    const char *name = NULL;
    size_t bytes;

    if (gpu->driver->cuFuncGetName(&name, layout->function) != TN_CUDA_SUCCESS || name == NULL)
        return TARN_OK;
    bytes = strlen(name) + 1;
    layout->name = tn_host_alloc_unset(bytes, 1);
    if (layout->name == NULL)
        return no_memory();
    memcpy(layout->name, name, bytes);
    return TARN_OK;
}

static void drop(const struct tn_layout *layout)
{
    tn_host_free(layout->params);
    tn_host_free(layout->name);
}

/* Without a current context the driver answers the question for a name with success, and gives no
 * name. */
static tarn_status enter_and_ask(struct tn_gpu *gpu, struct tn_layout *layout)
{
    bool pushed;
    tarn_status status = tn_gpu_enter(gpu, gpu->context, &pushed);

    if (status != TARN_OK)
        return status;
    status = ask(gpu, layout);
    if (status == TARN_OK)
        status = copy_name(gpu, layout);
    tn_gpu_leave(gpu, pushed);
    return status;
}

tarn_status tn_layouts_find(struct tn_layouts *layouts, struct tn_gpu *gpu, tn_cu_function function,
                            const struct tn_layout **layout)
{
    struct tn_layout made = {.function = function};
    struct tn_layout *place;

    TN_ASSERT(function != NULL);
    if (!reserve_place(layouts))
        return no_memory();
    place = place_of(layouts, function);
    if (place->function == NULL) { /* D5 */
        tarn_status status = enter_and_ask(gpu, &made);

        if (status != TARN_OK) {
            drop(&made);
            return status;
        }
        *place = made;
        layouts->count += 1;
    }
    *layout = place;
    return TARN_OK;
}

void tn_layouts_drop(struct tn_layouts *layouts)
{
    for (size_t i = 0; i < layouts->capacity; i++)
        drop(&layouts->table[i]);
    tn_host_free(layouts->table);
    *layouts = (struct tn_layouts){.table = NULL};
}
