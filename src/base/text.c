// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/checked.h"

void tn_put(struct tn_text *text, const char *format, ...)
{
    size_t used = tn_min(text->length, text->capacity);
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(used < text->capacity ? text->buffer + used : NULL, text->capacity - used,
                       format, arguments);
    va_end(arguments);
    text->length += length > 0 ? (size_t)length : 0;
}

void tn_put_string(struct tn_text *text, const char *string)
{
    tn_put(text, "\"");
    for (; *string != '\0'; string++) {
        unsigned char byte = (unsigned char)*string;

        if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
            tn_put(text, "\\u%04x", byte);
        else
            tn_put(text, "%c", byte);
    }
    tn_put(text, "\"");
}
