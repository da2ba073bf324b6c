// SPDX-License-Identifier: Apache-2.0
#include "tarn/history.h"

#include <string.h>

#include "api/call.h"
#include "base/checked.h"
#include "pools/labels.h"

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
