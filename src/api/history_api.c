// SPDX-License-Identifier: Apache-2.0
#include "tarn/history.h"

#include <string.h>

#include "api/call.h"
#include "api/structs.h"
#include "base/checked.h"
#include "observe/history_info.h"
#include "pools/free.h"
#include "pools/labels.h"
#include "pools/recording.h"

static tarn_status change_label(tarn_status (*change)(const struct tn_title *), const char *text)
{
    struct tn_title title;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    status = tn_label_make_title(&title, text);
    if (status == TARN_OK)
        status = change(&title);
    return tn_leave(status);
}

tarn_status tarn_label_set(const char *text)
{
    return change_label(tn_labels_set, text);
}

tarn_status tarn_label_push(const char *text)
{
    return change_label(tn_labels_push, text);
}

tarn_status tarn_label_pop(void)
{
    TN_CALL(call);

    return tn_call_begin(&call) ? tn_leave(tn_labels_pop()) : call.status;
}

tarn_status tarn_label_get(char *buffer, size_t capacity, size_t *length)
{
    const char *text;
    size_t bytes;
    TN_CALL(call);

    if (!tn_call_begin(&call))
        return call.status;
    if (buffer == NULL && capacity > 0)
        return tn_bad_argument("buffer is NULL, and capacity is not 0");
    text = tn_labels_text();
    bytes = strlen(text);
    if (capacity > 0) {
        const size_t copied = tn_min(bytes, capacity - 1);

        memcpy(buffer, text, copied);
        buffer[copied] = '\0';
    }
    if (length != NULL)
        *length = bytes;
    return tn_leave(TARN_OK);
}

static tarn_status refuse_history(void)
{
    return tn_fail(TARN_ERR_NOT_SUPPORTED,
                   "the device keeps no history: it was opened with TARN_NO_HISTORY");
}

/* The block is live, and its pool's lock is held. */
static tarn_status annotate(tarn_pool *pool, const struct tn_block *block,
                            const struct tn_title *title)
{
    uint32_t id;

    if (tn_device_ring(pool->device) == NULL)
        return refuse_history();
    id = tn_title_enter(&pool->device->history.stacking.stacks, title);
    if (id == TN_STACKS_FULL)
        return tn_fail(TARN_ERR_LIMIT, "the history has no room for more texts");
    tn_history_annotate(block, id);
    tn_pool_note(pool, TN_NOTE_ANNOTATED,
                 TN_OPERANDS(block->sequence, tn_block_address(block), id));
    return TARN_OK;
}

tarn_status tarn_block_annotate(void *address, const char *text)
{
    struct tn_title title;
    tarn_pool *pool;
    struct tn_block *block;
    tarn_status status;
    TN_CALL(call);

    if (address == NULL)
        return tn_call_nothing();
    if (!tn_call_begin(&call))
        return call.status;
    if (text == NULL || text[0] == '\0')
        return tn_bad_argument("the text is NULL or empty: there is nothing to note");
    status = tn_label_make_title(&title, text);
    if (status == TARN_OK)
        status = tn_pool_lock_block((uint64_t)(uintptr_t)address, true, &pool, &block);
    if (status != TARN_OK)
        return status;
    status = annotate(pool, block, &title);
    tn_pool_unlock(pool);
    return tn_leave(status);
}

tarn_status tarn_range_begin(tarn_device *device, const char *name, uint64_t *range)
{
    struct tn_title title;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (name == NULL || range == NULL)
        return tn_bad_argument(name == NULL ? "the name is NULL"
                                            : "range is NULL: there is nowhere to put the result");
    status = tn_label_make_title(&title, name);
    if (status != TARN_OK)
        return status;
    *range = 0;
    if (tn_device_ring(device) != NULL)
        *range = tn_range_begin(&device->history.ranges,
                                tn_title_enter(&device->history.stacking.stacks, &title));
    return tn_leave(TARN_OK);
}

tarn_status tarn_range_end(tarn_device *device, uint64_t range)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (range != 0 &&
        (tn_device_ring(device) == NULL || !tn_range_end(&device->history.ranges, range)))
        return tn_bad_argument("the device has begun no such range");
    return tn_leave(TARN_OK);
}

tarn_status tarn_device_history_info(tarn_device *device, tarn_history_info *info)
{
    tarn_history_info known;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = tn_sized_check(TN_HISTORY_INFO, info);
    if (status != TARN_OK)
        return status;
    known = tn_history_describe(device);
    tn_sized_write(TN_HISTORY_INFO, info, &known);
    return tn_leave(TARN_OK);
}

tarn_status tarn_device_set_history(tarn_device *device, const tarn_history_settings *settings)
{
    tarn_history_settings known;
    struct tn_recording recording;
    tarn_status status;
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    status = tn_sized_check(TN_HISTORY_SETTINGS, settings); /* NULL is no default here */
    if (status == TARN_OK)
        status = tn_sized_read(TN_HISTORY_SETTINGS, settings, &known);
    if (status != TARN_OK)
        return status;
    if ((known.skipped & ~(uint64_t)TARN_HISTORY_ALL) != 0)
        return tn_bad_argument("skipped has bits that are no tarn_history_kind");
    if ((unsigned)known.stacks > TARN_HISTORY_UNWIND)
        return tn_bad_argument("stacks is not one of tarn_history_stacks");
    if (tn_device_ring(device) == NULL)
        return refuse_history();
    recording = (struct tn_recording){.skipped = known.skipped,
                                      .level = (enum tn_stack_level)known.stacks,
                                      .logs_stacks = !known.live_stacks_alone};
    tn_recording_set(device, &recording);
    return tn_leave(TARN_OK);
}

tarn_status tarn_device_clear_history(tarn_device *device)
{
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (tn_device_ring(device) == NULL)
        return refuse_history();
    tn_recording_clear(device);
    return tn_leave(TARN_OK);
}

tarn_status tarn_device_set_interpreter(tarn_device *device, tarn_frame_token token,
                                        tarn_frame_name name, void *user)
{
    const struct tn_interpreter_functions functions = {token, name, user};
    TN_CALL(call);

    if (!tn_call_device(&call, device))
        return call.status;
    if (tn_device_ring(device) == NULL)
        return refuse_history();
    return tn_leave(tn_interpreter_set(&device->history.stacking.interpreter,
                                       token != NULL ? &functions : NULL));
}
