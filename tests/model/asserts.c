// SPDX-License-Identifier: Apache-2.0
/* Check's assertions for programs that are not its tests: a failing one ends the process, as a broken
 * promise does, and one that holds costs nothing. The linker puts these in the place of Check's own (--wrap). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void __wrap__mark_point(const char *file, int line);
void __wrap__mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}

void __wrap__ck_assert_failed(const char *file, int line, const char *expression,
                              const char *message, ...);
void __wrap__ck_assert_failed(const char *file, int line, const char *expression,
                              const char *message, ...)
{
    va_list arguments;

    (void)fprintf(stderr, "%s:%d: %s ", file, line, expression);
    if (message != NULL) {
        va_start(arguments, message);
        (void)vfprintf(stderr, message, arguments);
        va_end(arguments);
    }
    (void)fputc('\n', stderr);
    abort();
}
