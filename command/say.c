// SPDX-License-Identifier: Apache-2.0
#include "say.h"

#include <stdarg.h>
#include <stdio.h>

#include "text.h"

enum { LINE_BYTES = 4096 };

enum answer say(enum answer answer, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    (void)fputs("tarn: ", stderr);
    text_put(stderr, line);
    (void)fputc('\n', stderr);
    return answer;
}
