// SPDX-License-Identifier: Apache-2.0
/* report.c -- writes the checker's reports to stderr, and counts them. */
#include "sim/core/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t reports;

static void report(enum tn_sim_function function, const char *format, va_list arguments)
{
    char text[256];
    if (tn_sim.check == 0)
        return;
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "tarn_sim: %s: %s\n", tn_sim_function_name(function), text);
    reports++;
    if (tn_sim.check > 1)
        abort();
}

void tn_sim_report(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report(tn_sim_self()->function, format, arguments);
    va_end(arguments);
}

void tn_sim_report_of(enum tn_sim_function function, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report(function, format, arguments);
    va_end(arguments);
}

uint64_t tarn_sim_check_count(void)
{
    if (!tn_sim_enter_control())
        return 0;
    uint64_t count = reports;
    tn_sim_leave();
    return count;
}
